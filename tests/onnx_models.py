"""Small ONNX models written as text, and what becomes of them: against the model itself, run as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx

import isthmus
from isthmus.frontends.onnx.importing import import_model
from isthmus.frontends.onnx.original import Original
from isthmus.ir import print_graph, verify
from isthmus.passes import default_passes, run_passes


def model(text: str, opset: int = 18) -> Any:
    """A model in onnx.parser's language, from the inputs on; nothing is told of the outputs' sizes."""
    ir = max(int(onnx.helper.OP_SET_ID_VERSION_MAP["ai.onnx", opset]), 4)
    made = onnx.parser.parse_model(f'<ir_version: {ir}, opset_import: ["" : {opset}]> main {text}')
    for output in made.graph.output:
        output.type.tensor_type.ClearField("shape")
    return made


def assembled(graph: Any, *opsets: tuple[str, int], **more: Any) -> Any:
    """A model of a graph, with these domains and versions."""
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(*each) for each in opsets], **more)


def node(op: str, inputs: str, attributes: str = "") -> str:
    """A call in that language."""
    return f"{op}<{attributes}>({inputs})" if attributes else f"{op}({inputs})"


def imported(proto: Any) -> Any:
    """The graph right after it was read; it holds no opaque node."""
    found = import_model(proto)
    assert not found.opaque
    verify(found.graph)
    return found.graph


def text(proto: Any) -> str:
    """The text of the graph after the default passes."""
    graph = imported(proto)
    run_passes(graph, default_passes(), verify=True)
    graph.metadata.clear()
    return print_graph(graph, locations=False).strip()


def agrees(proto: Any, *feeds: Sequence[Any], targets: Sequence[str] = ("reference", "onnx"), wanted: Any = None) -> None:
    """Asserts that the model, carried over, gives what it gives as it is (or what is `wanted`) for each list of inputs.

    The target ``onnx`` is taken at the opset of the file, or at the oldest of the default.
    """
    opset = max(proto.opset_import[0].version, 18)
    names = [value.name for value in proto.graph.input]
    original = Original(proto, None, names)
    for target in targets:
        net = isthmus.compile(proto, target=target, verify_ir=True, **({"opset": opset} if target == "onnx" else {}))
        assert not any("opaque" in note for note in net.report.notes)
        for feed in (list(map(np.asarray, each)) for each in feeds):
            right = original(feed) if wanted is None else wanted
            found = net(*feed)
            for mine, theirs in zip(found.values(), right, strict=True):
                same(mine, theirs)


def same(found: Any, wanted: Any) -> None:
    """Asserts that two arrays are the same, floats within rounding."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype.kind in "biuOUS":
        assert found.tolist() == wanted.tolist()
    else:
        tolerance = max(1e-5, float(ml_dtypes.finfo(wanted.dtype).eps) * 4)
        np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=tolerance)


def f32(*shape: int, seed: int = 0) -> Any:
    """Numbers from the normal distribution."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def i64(*numbers: int) -> Any:
    """A list of integers."""
    return np.array(numbers, np.int64)
