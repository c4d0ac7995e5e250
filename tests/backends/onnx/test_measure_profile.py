"""A reader is measured, and what is written then lets through what the reader takes, and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import measure_profile
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import isthmus
from isthmus.backends.onnx import profile
from isthmus.backends.testing import suite


class Pools(nn.Module):
    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [*F.max_pool2d(x, 2, return_indices=True), F.max_pool2d(x, 2, dilation=2), F.max_pool2d(x, 3)]


OPS = ("max_pool", "max_pool_with_index", "floor")


def test_a_reader_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def some(*args: Any, **options: Any) -> list[Any]:
        return [param for param in suite(*args, **options) if param.values[0].op.name in OPS]

    monkeypatch.setattr(measure_profile, "suite", some)
    path = str(tmp_path / "picky.toml")
    measure_profile.main(["picky_reader:read", "--only", "MaxPool", "Floor", "--write", path, "--check", "onnxruntime"])
    told = capsys.readouterr().out
    assert "MaxPool" in told
    assert "is taken by the profile, and the reader says: one result is enough" in told
    found = profile.load(path)
    assert all(rule.refused for rule in found.ops.get("Floor", ()))  # no rule tells those that are right from others
    (rule,) = found.ops["MaxPool"]
    assert rule.results == 1
    assert rule.without == ("dilations",)


def test_what_is_measured_is_obeyed(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\nabout = "As measured."\n[ops.MaxPool]\nwithout = ["dilations"]\nresults = 1\n')
    net = isthmus.compile(Pools(), (torch.randn(1, 2, 7, 8),), profile=str(path))
    pools = [node for node in net.artefact.model.graph.node if node.op_type == "MaxPool"]
    assert pools
    assert all(len(node.output) == 1 and not any(each.name == "dilations" for each in node.attribute) for node in pools)
    net.verify()
