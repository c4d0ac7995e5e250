"""A few of the table's models, at one opset; `make sweep` does all at three."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import isthmus
from models import Entry, small, vision

QUICK = [
    "squeezenet1_1", "mobilenet_v3_small", "shufflenet_v2_x0_5", "swin_t", "lraspp_mobilenet_v3_large", "U-Net, bilinear",
    "U-Net, transposed", "interpolation", "ESPCN", "YOLO head", "nn.TransformerEncoder, pre-norm", "attention pooling",
]  # fmt: skip
ENTRIES = {entry.name: entry for entry in (*vision.ENTRIES, *small.ENTRIES)}


@pytest.fixture(autouse=True)
def _fast_paths_as_they_were() -> Iterator[None]:
    """Some models switch off torch's fast path of encoders."""
    before = torch.backends.mha.get_fastpath_enabled()
    yield
    torch.backends.mha.set_fastpath_enabled(before)


@pytest.mark.parametrize("entry", [ENTRIES[name] for name in QUICK], ids=QUICK)
def test_right_at_other_sizes(entry: Entry) -> None:
    example = entry.make()
    net = isthmus.compile(example.model, example.args, example.kwargs, dynamic_shapes=example.dynamic_shapes)
    calls = [net.captured.fresh_inputs(seed, sizes) for seed, sizes in enumerate(entry.sizes)]
    report = net.verify(inputs=calls)
    assert len(report.rounds) == len(calls)


def test_names_are_the_table_s_own() -> None:
    assert len(ENTRIES) == len(vision.ENTRIES) + len(small.ENTRIES)
