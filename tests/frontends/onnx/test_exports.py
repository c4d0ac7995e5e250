"""What PyTorch's exporter writes with sizes left open: no shape that it computes stays computed."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx_models import imported
from torch import nn
from torch.nn import functional

import isthmus
from isthmus.passes import default_passes, run_passes


class Attention(nn.Module):
    """A layer with embedded places, heads and a causal mask cut out of a larger one."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(50, 32), nn.Embedding(64, 32), nn.LayerNorm(32)
        self.project, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.register_buffer("hidden", torch.tril(torch.ones(64, 64)).view(1, 1, 64, 64) == 0)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        batch, length = words.shape
        x = self.norm(self.words(words) + self.places(torch.arange(length))[None])
        q, k, v = self.project(x).view(batch, length, 3, 4, -1).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-1, -2)) / 8
        hidden: Any = self.hidden
        weights = scores.masked_fill(hidden[:, :, :length, :length], -1e9).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, -1))  # type: ignore[no-any-return]


class Borders(nn.Module):
    """Padding, resizing, chunks, steps and tensors made from sizes."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = functional.interpolate(functional.pad(x, (1, 2, 3, 4), mode="reflect"), scale_factor=2.0, mode="nearest")
        first, second = torch.chunk(y, 2, 1)
        part = torch.cat([second, first], 1)[:, ::2, 1:-1]
        pooled = functional.adaptive_avg_pool2d(part, 1).squeeze(-1).squeeze(-1)
        return y.flatten(2).mean(-1), pooled, torch.roll(part, (1,), (2,)), x.new_ones(x.shape[2:]).triu(1)


@pytest.mark.parametrize(("model", "x", "open_axes", "other"), [
    (Attention(), torch.arange(18).view(2, 9), (0, 1), torch.arange(33).view(3, 11)),
    (Borders(), torch.randn(2, 4, 16, 20), (0, 2, 3), torch.randn(3, 4, 9, 8)),
])  # fmt: skip
def test_no_computed_shape_is_left(model: nn.Module, x: torch.Tensor, open_axes: tuple[int, ...], other: torch.Tensor) -> None:
    file = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        named = {"x": {axis: f"S{axis}" for axis in open_axes}}
        torch.onnx.export(model.eval(), (x,), file, dynamo=False, opset_version=17, dynamic_axes=named, input_names=["x"])
        proto = onnx.load_from_string(file.getvalue())
        graph = imported(proto)
        run_passes(graph, default_passes(), verify=True)
        ops = {node.op.name for node in graph.walk()}
        assert not ops & {"size", "bind", "range", "dynamic_reshape", "dynamic_expand", "dynamic_slice", "custom"}
        wanted = model(other)
    for target in ("reference", "onnx"):
        found = isthmus.compile(proto, target=target)(other.numpy()).values()
        for mine, theirs in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
            np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-4, atol=1e-5)
