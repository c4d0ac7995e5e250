"""The shared cases for Caffe: what comes out computes the same, or is refused where that may be."""

from __future__ import annotations

from typing import Any

import pytest
from loading import COLLECTION, cases

import isthmus
from isthmus.backends.caffe.dialect import BUILT_IN
from isthmus.errors import UnsupportedError

CASES: dict[str, Any] = cases("cases_caffe")


def test_the_collection_is_there() -> None:
    if not CASES:
        pytest.skip(f"NONE OF THE CASES WAS RUN: there is no {COLLECTION}")
    assert len(CASES) > 3


@pytest.mark.parametrize("dialect", BUILT_IN)
@pytest.mark.parametrize("name", CASES)
def test_case(name: str, dialect: str) -> None:
    case = CASES[name]
    module, args, kwargs, dynamic_shapes, extra = case()
    try:
        net = isthmus.compile(module, args, kwargs, target="caffe", dialect=dialect, dynamic_shapes=dynamic_shapes)
    except UnsupportedError:
        assert case.opts.get("refuse_ok")
        return
    artefact: Any = net.artefact
    artefact.validate()
    net.verify([(args, kwargs), *extra], rtol=1e-4, atol=1e-5)
    if dialect == "bvlc":
        missing = set(case.opts.get("layers", ())) - artefact.op_counts.keys()
        assert not missing, artefact.op_counts
