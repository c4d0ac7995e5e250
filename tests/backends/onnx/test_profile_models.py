"""Models of the table under the profiles of readers: in OpenCV, where sizes are known; in TensorRT's parser and builder, where
all that may vary does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from onnx_readers import Reader

import isthmus
from models import Entry, language, small

ENTRIES = {entry.name: entry for entry in (*small.ENTRIES, *language.ENTRIES)}
SEQUENCES = [
    "LSTM classifier", "LSTM with projections classifier", "GRU classifier", "RNN classifier",
    "nn.TransformerEncoder, post-norm", "nn.TransformerEncoder, pre-norm", "BERT", "ViT",
]  # fmt: skip
IN_OPENCV = [*SEQUENCES, "U-Net, bilinear", "U-Net, transposed", "ESPCN", "DistilBERT"]
IN_TENSORRT = [
    *SEQUENCES, "U-Net, bilinear", "U-Net, transposed", "ESPCN", "YOLO head", "attention pooling", "spatial transformer",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _fast_paths_as_they_were() -> Iterator[None]:
    """Some models switch off torch's fast path of encoders."""
    before = torch.backends.mha.get_fastpath_enabled()
    yield
    torch.backends.mha.set_fastpath_enabled(before)


@pytest.fixture(scope="module")
def opencv() -> Iterator[Reader]:
    reader = Reader("opencv")
    yield reader
    reader.close()


@pytest.fixture(scope="module")
def tensorrt() -> Iterator[Reader]:
    reader = Reader("tensorrt-builder")
    yield reader
    reader.close()


@pytest.mark.parametrize("entry", [ENTRIES[name] for name in IN_OPENCV], ids=IN_OPENCV)
def test_opencv_gives_what_eager_gives(entry: Entry, opencv: Reader) -> None:
    example = entry.make()
    net = isthmus.compile(example.model, example.args, example.kwargs, profile="opencv")
    model, call = net.artefact.model, net.captured.fresh_inputs(1, {})
    feeds = dict(zip([each.name for each in model.graph.input], net.captured.flatten(*call), strict=True))
    found = opencv(model.SerializeToString(), feeds, [each.name for each in model.graph.output])
    assert found is not None
    for got, wanted in zip(found, net.captured.eager(*call), strict=True):
        assert np.allclose(got.reshape(-1), wanted.reshape(-1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("entry", [ENTRIES[name] for name in IN_TENSORRT], ids=IN_TENSORRT)
def test_tensorrt_builds_for_other_sizes(entry: Entry, tensorrt: Reader) -> None:
    example = entry.make()
    net = isthmus.compile(
        example.model, example.args, example.kwargs, dynamic_shapes=example.dynamic_shapes, profile="tensorrt-parser"
    )
    model, sizes = net.artefact.model, entry.sizes[-1]
    call = net.captured.fresh_inputs(1, sizes)
    feeds = dict(zip([each.name for each in model.graph.input], net.captured.flatten(*call), strict=True))
    assert any(dim.dim_param for each in model.graph.input for dim in each.type.tensor_type.shape.dim)
    assert tensorrt(model.SerializeToString(), feeds, [each.name for each in model.graph.output]) is None
    net.verify(inputs=[call])
