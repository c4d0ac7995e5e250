"""The shared cases for Caffe: what comes out computes the same, or is refused where that may be."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import isthmus
from isthmus.backends.caffe.dialect import BUILT_IN
from isthmus.errors import UnsupportedError

FILE = Path(__file__).parents[4] / "shared" / "cases" / "cases_caffe.py"


def load() -> ModuleType | None:
    if not FILE.exists():
        return None
    spec = importlib.util.spec_from_file_location("cases_caffe", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODULE = load()
CASES: dict[str, Any] = {} if MODULE is None else MODULE.CASES


@pytest.mark.skipif(MODULE is None, reason=f"the shared cases are not there: {FILE.name} is looked for beside the repository")
def test_the_shared_cases_are_there() -> None:
    assert CASES


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
