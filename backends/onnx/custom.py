"""The emitter of ops that isthmus does not know: written as they came."""

from __future__ import annotations

import base64
from collections import ChainMap
from collections.abc import Iterator, MutableMapping
from typing import Any

import onnx

from isthmus.backends.onnx import opsets
from isthmus.backends.onnx.attributes import plain
from isthmus.backends.onnx.emitter import Emitter
from isthmus.backends.onnx.table import emits, refuse
from isthmus.backends.onnx.versions import carries, since
from isthmus.ir.graph import Node
from isthmus.ir.types import Map, Optional, Sequence, Tensor
from isthmus.ir.weights import Weight


@emits("custom")
def named(e: Emitter, node: Node, inputs: list[str | None]) -> Any:
    """A node that names its op."""
    attrs = node.attrs
    count = len(inputs) - len(attrs["captures"])
    outer = dict(zip(attrs["captures"], inputs[count:], strict=True))
    given = {key: _attribute(e, value, outer, attrs["opsets"]) for key, value in attrs["attributes"].items()}
    _check_opset(e, attrs["opsets"], attrs["domain"], attrs["name"])
    for domain, version in attrs["opsets"].items():
        if domain and e.domains.setdefault(domain, version) != version:
            refuse(f"the domain {domain} is there at the versions {e.domains[domain]} and {version}")
    found = e.untouched(attrs["name"], inputs[:count], len(node.results), attrs["absent"], attrs["domain"], given)
    return tuple(found)


def _check_opset(e: Emitter, versions: dict[str, int], domain: str, name: str) -> None:
    """Refuses an op of the standard that means something else at the opset that is written."""
    opset = versions.get("")
    if domain or opset is None or opset == e.opset:
        return
    if not carries(name, opset, e.opset):
        now = "is not there" if since(name, e.opset) is None else f"is another at opset {e.opset}"
        refuse(f"{name} stays as it is in the file, which is of opset {opset}, and {now}")


def _attribute(e: Emitter, value: Any, outer: dict[str, str | None], versions: dict[str, int]) -> Any:
    """An attribute in ONNX's form."""
    if isinstance(value, Weight):
        content = onnx.TensorProto(name=plain(value.name), data_type=opsets.enum(value.dtype), dims=value.shape)
        if value.dtype.kind == "string":
            content.string_data.extend(str(text).encode("utf-8", "surrogateescape") for text in value.array().reshape(-1))
        else:
            content.raw_data = b"".join(map(bytes, value.chunks()))
        return content
    if isinstance(value, (Tensor, Sequence, Optional, Map)):
        return opsets.type_proto(value)
    if isinstance(value, dict) and value.keys() == {"onnx"}:
        proto = onnx.AttributeProto.FromString(base64.b64decode(value["onnx"]))
        for graph in _graphs(proto):
            for node in _walk(graph):
                _check_opset(e, versions, "" if node.domain == "ai.onnx" else node.domain, node.op_type)
            if not e.probing:
                _rename(e, graph, ChainMap({}, outer))
        return proto
    if not isinstance(value, (bool, int, float, str, bytes, tuple, list)) and value is not None:
        refuse(f"an attribute holds {value!r}, for which ONNX has no form")
    return value


def _graphs(attribute: Any) -> list[Any]:
    return [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else list(attribute.graphs)


def _walk(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in _graphs(attribute):
                yield from _walk(inner)


def _rename(e: Emitter, graph: Any, scope: MutableMapping[str, str | None]) -> None:
    """Gives everything that a nested graph makes a name of its own, and calls what it uses from around it as that is called."""
    for proto in (*graph.input, *graph.initializer, *(sparse.values for sparse in graph.sparse_initializer)):
        new = scope[proto.name] if proto.name in scope.maps[0] else e.unique(proto.name)  # type: ignore[attr-defined]
        scope[proto.name] = proto.name = new
    for node in graph.node:
        node.input[:] = [scope.get(name, name) or "" for name in node.input]
        for attribute in node.attribute:
            for inner in _graphs(attribute):
                _rename(e, inner, ChainMap({}, scope))
        for index, name in enumerate(node.output):
            if name:
                scope[name] = node.output[index] = e.unique(name)
    for proto in (*graph.output, *graph.value_info):
        proto.name = scope.get(proto.name) or proto.name
