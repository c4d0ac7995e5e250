"""What is known of the types of values beyond what the converters find out: for nodes that stay opaque."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import onnx

from isthmus.frontends.onnx.names import check_texts
from isthmus.frontends.onnx.original import refusals
from isthmus.frontends.onnx.types import Dims
from isthmus.ir.types import Type

SMALL: Final = 1 << 12
"""Constants of more bytes are not looked into for types."""


def told_types(proto: Any, dims: Dims) -> Callable[[str], Type | None]:
    """The type of each value by name: as the file tells it, as ONNX's own inference finds it, or as onnxruntime has it, which
    knows more domains. Each is asked only where those before know nothing."""
    known: dict[str, Any] = {}
    sources = iter([_told, _inferred, _of_runtime])

    def type_of(name: str) -> Type | None:
        while name not in known:
            source = next(sources, None)
            if source is None:
                return None
            for found, type in source(proto):
                known.setdefault(found, type)
        return dims.type(known[name], f"the value {name!r}")

    return type_of


def told_in(values: Any, dims: Dims) -> Callable[[str], Type | None]:
    """The same, of a function: by what it tells alone."""
    known = {each.name: each.type for each in values}
    return lambda name: dims.type(known[name], f"the value {name!r}") if name in known else None


def _told(proto: Any) -> Iterator[tuple[str, Any]]:
    graphs = [proto.graph]
    while graphs:
        graph = graphs.pop()
        yield from ((each.name, each.type) for each in (*graph.value_info, *graph.output) if each.type.WhichOneof("value"))
        graphs += [inner for node in graph.node for each in node.attribute for inner in (each.g, *each.graphs) if inner.node]


def _inferred(proto: Any) -> Iterator[tuple[str, Any]]:
    try:
        yield from _told(onnx.shape_inference.infer_shapes(_light(proto)))
    except (onnx.shape_inference.InferenceError, ValueError):
        return  # who asks says that the type is not known


def _of_runtime(proto: Any) -> Iterator[tuple[str, Any]]:
    try:
        import onnxruntime
    except ImportError:
        return
    model = _light(proto)
    ends = {"", *(each.name for each in model.graph.output)}
    made = dict.fromkeys(name for node in model.graph.node for name in node.output if name not in ends)
    check_texts(*made)
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except refusals():  # who asks says that the type is not known
        return
    for each in session.get_outputs():
        kind = each.type.removeprefix("tensor(").removesuffix(")")
        number = onnx.TensorProto.DataType.DESCRIPTOR.values_by_name.get(kind.upper())
        if number is not None and each.type.startswith("tensor("):
            # It gives the same for a scalar and for a tensor of unknown rank.
            yield each.name, onnx.helper.make_tensor_type_proto(number.number, each.shape or None)


def _light(proto: Any) -> Any:
    """The model with inputs in place of its larger constants, which nothing of its types depends on."""
    model = onnx.ModelProto(ir_version=proto.ir_version, opset_import=proto.opset_import, functions=proto.functions)
    graph, source = model.graph, proto.graph
    graph.name = source.name or "main"
    for field in ("input", "output", "value_info", "sparse_initializer"):
        getattr(graph, field).extend(getattr(source, field))
    inputs = {each.name for each in source.input}
    for node in source.node:
        held = node.attribute[0].t if node.op_type == "Constant" and node.attribute else None
        if held is None or held.data_location != onnx.TensorProto.EXTERNAL:
            graph.node.append(node)
        else:
            graph.input.extend(onnx.helper.make_tensor_value_info(name, held.data_type, held.dims) for name in node.output)
    for each in source.initializer:
        if each.ByteSize() <= SMALL and each.data_location != onnx.TensorProto.EXTERNAL:
            graph.initializer.append(each)
        elif each.name not in inputs:
            graph.input.append(onnx.helper.make_tensor_value_info(each.name, each.data_type, each.dims))
    return model
