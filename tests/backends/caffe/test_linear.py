"""Linear layers over the last of several axes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from caffe_readers import mnn
from torch import nn

import isthmus
from isthmus.backends.caffe.dialect import BUILT_IN
from isthmus.errors import UnsupportedError


@pytest.mark.parametrize("dialect", BUILT_IN)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("sizes", [(3, 7), (7, 3), (4, 4)])
@pytest.mark.parametrize("rows", [(2, 5), (1, 5), (2, 4, 5), (1, 1, 5), (2, 1), (2, 1, 1)])
def test_linear(rows: tuple[int, ...], sizes: tuple[int, int], bias: bool, dialect: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, x = nn.Linear(*sizes, bias), torch.randn(*rows, sizes[0])
    net = isthmus.compile(module, x, target="caffe", dialect=dialect)
    net.artefact.validate()
    torch.testing.assert_close(net(x), module(x), rtol=1e-5, atol=1e-5)
    if dialect == "portable":
        artefact = net.artefact
        found = mnn().run([str(path) for path in net.save(tmp_path / "net")], {artefact.net.inputs[0]: x.numpy()}, ["output"])
        torch.testing.assert_close(torch.from_numpy(found["output"]).reshape(*rows, -1), module(x), rtol=1e-5, atol=1e-5)


def test_one_row_is_an_inner_product_and_several_are_not_where_axis_0_is_kept() -> None:
    def layers(*shape: int) -> dict[str, int]:
        net = isthmus.compile(nn.Linear(5, 3), torch.randn(shape), target="caffe")
        return net.artefact.op_counts

    assert layers(2, 1, 5) == {"Input": 1, "Reshape": 2, "InnerProduct": 1}
    assert layers(2, 4, 5) == {"Input": 1, "Reshape": 2, "Convolution": 1, "Deconvolution": 1}


def test_a_refusal_says_what_the_dialect_lacks(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text("extends = 'portable'\nname = 'own'\nlayers.InnerProduct = { fields = ['bias_term'], blobs = [1, 2] }\n")
    with pytest.raises(UnsupportedError) as caught:
        isthmus.compile(nn.Linear(2, 3), torch.randn(1, 2), target="caffe", dialect=str(path))
    (refusal,) = caught.value.refusals
    assert refusal.op == "linear"
    assert refusal.message.startswith("InnerProduct has no parameter num_output in the dialect own; it could only become")
