"""Nets distilled from faults that people met when they converted models, where the checkout stands beside the collection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from loading import COLLECTION, cases
from torch.utils import _pytree as pytree

import isthmus
from isthmus.backends.onnx.opsets import DEFAULT, NEWEST
from isthmus.errors import IsthmusError, UnsupportedError

CASES = cases("cases_torch")


def test_the_collection_is_there() -> None:
    if not CASES:
        pytest.skip(f"NONE OF THE CASES WAS RUN: there is no {COLLECTION}")
    assert len(CASES) > 20


def tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def compiled(name: str, opset: int) -> isthmus.Compiled:
    """The case's module, or a skip where it may be refused: as the case says, or since ONNX had no such op by then."""
    module, args, kwargs, dynamic, _ = CASES[name]()
    try:
        return isthmus.compile(module, args, kwargs, dynamic_shapes=dynamic, opset=opset)
    except IsthmusError as error:
        early = opset < DEFAULT and isinstance(error, UnsupportedError)
        early = early and all((refusal.remedy or "").startswith("choose opset >= ") for refusal in error.refusals)  # type: ignore[attr-defined]
        if not early and not CASES[name].opts.get("refuse_ok"):  # type: ignore[attr-defined]
            raise
        pytest.skip(f"refused, as it may be: {error}")


@pytest.mark.parametrize("opset", [13, DEFAULT, NEWEST])
@pytest.mark.parametrize("name", CASES)
def test_a_case(name: str, opset: int, tmp_path: Path) -> None:
    options: dict[str, Any] = CASES[name].opts  # type: ignore[attr-defined]
    net = compiled(name, opset)
    module, args, kwargs, _, extra = CASES[name]()
    (path, *others) = net.save(tmp_path / "net.onnx")
    if "max_ratio" in options:
        weights = {tensor.data_ptr(): tensor.nbytes for tensor in (*module.parameters(), *module.buffers())}
        assert sum(file.stat().st_size for file in (path, *others)) <= options["max_ratio"] * sum(weights.values())
    session = onnxruntime.InferenceSession(path)
    for new_args, new_kwargs in [(args, kwargs), *extra]:
        given = tensors((new_args, new_kwargs))
        feeds = dict(zip((each.name for each in session.get_inputs()), given, strict=True))
        found = session.run(None, {key: tensor.numpy() for key, tensor in feeds.items()})
        with torch.no_grad():
            wanted = CASES[name]()[0](*new_args, **new_kwargs)
        theirs = net(*new_args, **new_kwargs)
        assert pytree.tree_structure(theirs) == pytree.tree_structure(wanted)
        for ours, same, right in zip(found, tensors(theirs), tensors(wanted), strict=True):
            assert (same.dtype, same.shape) == (right.dtype, right.shape)
            assert np.array_equal(ours, same.numpy(), equal_nan=ours.dtype.kind == "f")
            exact = not right.dtype.is_floating_point
            rtol, atol = (0, 0) if exact else (options.get("rtol", 1e-4), options.get("atol", 1e-5))
            torch.testing.assert_close(same, right, rtol=rtol, atol=atol, equal_nan=True)
