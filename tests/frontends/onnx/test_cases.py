"""Model files distilled from faults that people met with converters, where the checkout stands beside the collection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from loading import COLLECTION, cases
from onnx.reference import ReferenceEvaluator

import isthmus

CASES = cases("cases_onnx")
NAMES = sorted(CASES)


def test_the_collection_is_there() -> None:
    if not CASES:
        pytest.skip(f"NONE OF THE CASES WAS RUN: there is no {COLLECTION}")
    assert len(CASES) > 10


def original(model: Any, path: Path | None, options: dict[str, Any]) -> Callable[[dict[str, Any]], list[Any]]:
    """The model as its author made it, run without optimizations, or evaluated."""
    if options.get("truth") == "reference":
        evaluator = ReferenceEvaluator(model)
        return lambda feeds: list(evaluator.run(None, feeds))
    plainly = onnxruntime.SessionOptions()
    plainly.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    plainly.log_severity_level = 4
    source = model.SerializeToString() if path is None else str(path)
    session = onnxruntime.InferenceSession(source, plainly, providers=["CPUExecutionProvider"])
    return lambda feeds: list(session.run(None, feeds))


def ops(graph: Any) -> Counter[str]:
    found = Counter(node.op_type for node in graph.node)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found += ops(attribute.g)
    return found


def ends(graph: Any) -> list[list[tuple[str, bytes]]]:
    return [[(each.name, each.type.SerializeToString()) for each in side] for side in (graph.input, graph.output)]


@pytest.mark.parametrize("target", ["onnx", "reference"])
@pytest.mark.parametrize("name", NAMES)
def test_the_meaning_stays(name: str, target: str, tmp_path: Path) -> None:
    options = CASES[name].opts  # type: ignore[attr-defined]
    model, feeds = CASES[name]()
    path = None
    if options.get("external"):
        path = tmp_path / "model.onnx"
        onnx.save(model, path, save_as_external_data=True, size_threshold=0, convert_attribute=False)
    net = isthmus.compile(model if path is None else path, target=target)
    if target == "onnx":
        held_to_its_form(net, model, options, tmp_path)
    if options.get("no_run"):
        return
    run = original(model, path, options)
    drawn = options.get("differs", ())
    for given in feeds:
        wanted, found = run(given), list(net(**given).values())
        assert len(wanted) == len(found)
        for index, (want, got) in enumerate(zip(wanted, found, strict=True)):
            assert_same(want, got, options, index in drawn)
        if drawn:
            first, second = drawn
            assert not np.array_equal(found[first], found[second])


def held_to_its_form(net: Any, model: Any, options: dict[str, Any], folder: Path) -> None:
    """The emitted file is accepted, keeps inputs and outputs, is no larger than it may be, and keeps the ops that it must."""
    files = net.save(folder / "emitted.onnx")
    onnx.checker.check_model(str(files[0]), full_check=True)
    emitted = onnx.load(files[0])
    assert ends(emitted.graph) == ends(model.graph)
    if "max_bytes" in options:
        assert sum(file.stat().st_size for file in files) <= options["max_bytes"]
    found = ops(emitted.graph)
    assert all(found[op] >= count for op, count in Counter(options.get("keep_ops", {})).items()), found


def assert_same(want: Any, got: Any, options: dict[str, Any], drawn: bool) -> None:
    if isinstance(want, list):
        assert len(want) == len(got)
        for left, right in zip(want, got, strict=True):
            assert_same(left, right, options, drawn)
        return
    want, got = np.asarray(want), np.asarray(got)
    assert (want.dtype, want.shape) == (got.dtype, got.shape)
    if drawn:
        return
    if want.dtype.kind in "fc":
        np.testing.assert_allclose(got, want, rtol=options.get("rtol", 1e-4), atol=options.get("atol", 1e-5))
    else:
        np.testing.assert_array_equal(got, want)
