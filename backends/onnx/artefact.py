"""A finished ONNX model: its graph as protobuf, its weights as handles."""

from __future__ import annotations

import ctypes
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx

from isthmus.backends.base import Artefact
from isthmus.backends.onnx import wire
from isthmus.backends.onnx.opsets import by_enum, enum
from isthmus.ir.dtypes import from_numpy
from isthmus.ir.errors import EvaluationError, UsageError, VerifyError
from isthmus.ir.graph import Graph
from isthmus.ir.types import Tensor
from isthmus.ir.weights import ArrayWeight, Weight

External = Literal["auto", "always", "never"]


class OnnxArtefact(Artefact):
    """An ONNX model.

    Attributes:
        graph: the GraphProto, without weights.
        weights: the weights by the names of their initializers.
        external_data: whether `save` puts weights beside the model file.
    """

    def __init__(
        self, model: Any, graph: Any, weights: Mapping[str, Weight], source: Graph, external_data: External,
    ) -> None:  # fmt: skip
        super().__init__()
        self.graph = graph
        self.weights = dict(weights)
        self.external_data = external_data
        self._model = model
        types = [value.type for value in (*source.inputs, *source.outputs)]
        self._plain = all(isinstance(type, Tensor) and type.dtype.kind != "string" for type in types)

    @property
    def node_count(self) -> int:
        return sum(_count(nodes) for nodes in (self.graph.node, *(function.node for function in self._model.functions)))

    @property
    def op_counts(self) -> dict[str, int]:
        """How many nodes there are of each op, those in functions and nested graphs included."""
        found: dict[str, int] = {}
        for nodes in (self.graph.node, *(function.node for function in self._model.functions)):
            for node in _walk(nodes):
                found[node.op_type] = found.get(node.op_type, 0) + 1
        return found

    def serialize(self) -> bytes:
        """The whole file in memory, weights inside.

        Raises:
            FileError: it would be larger than 2 GB.
        """
        return wire.collect(lambda out: wire.write_model(out, self._model, self.graph, self.weights))

    @property
    def model(self) -> Any:
        """The whole as a ModelProto, weights inside: a copy of them, for looking at small models."""
        return onnx.ModelProto.FromString(self.serialize())

    def save(self, path: str | Path) -> list[Path]:
        path = Path(path)
        outside = self._outside()
        if not outside:
            with wire.together([path]) as (file,):
                wire.write_model(file, self._model, self.graph, self.weights)
            return [path]
        data = path.with_name(path.name + ".data")
        # The model comes into place last: whoever sees it finds its weights.
        with wire.together([data, path]) as (weights_file, file):
            protos = wire.write_external(weights_file, outside, data.name)
            self._write_around(file, outside, protos)
        return [path, data]

    def _outside(self) -> dict[str, Weight]:
        large = {name: weight for name, weight in self.weights.items() if wire.is_large(weight)}
        # Names, shapes and the graph take some room as well.
        beyond = wire.total_bytes(self.weights.values()) + self.graph.ByteSize() > wire.LIMIT - (1 << 24)
        return large if self.external_data == "always" or (self.external_data == "auto" and beyond) else {}

    def _write_around(self, out: wire.Writer, outside: Mapping[str, Weight], protos: Sequence[Any]) -> None:
        graph = onnx.GraphProto()
        graph.CopyFrom(self.graph)
        graph.initializer.extend(protos)
        wire.write_model(out, self._model, graph, {name: w for name, w in self.weights.items() if name not in outside})

    def validate(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = self.save(os.path.join(folder, "model.onnx"))[0]
            try:
                onnx.checker.check_model(str(path), full_check=True)
            except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
                raise VerifyError(f"onnx.checker objects: {error}") from error

    # ---- running

    @cached_property
    def _session(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        large = {name: w for name, w in self.weights.items() if wire.is_large(w) and w.dtype.bits % 8 == 0}
        # The session reads these from the arrays themselves; nothing is copied.
        arrays = [np.ascontiguousarray(weight.array()) for weight in large.values()]
        values = [_to_runtime(array) for array in arrays]
        if large:
            options.add_external_initializers(list(large), values)
        protos = [wire.external(name, weight, "memory", 0) for name, weight in large.items()]
        content = wire.collect(lambda out: self._write_around(out, large, protos))
        try:
            session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's errors have no common base of their own
            raise EvaluationError(f"onnxruntime refuses the model: {error}") from error
        return session, arrays, values

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs, by onnxruntime on the CPU. See `Artefact.run`."""
        try:
            session = self._session[0]
        except ImportError as error:
            raise EvaluationError("onnxruntime is not installed", remedy="pip install 'isthmus[onnx]'") from error
        names = [value.name for value in self.graph.input]
        if len(inputs) != len(names):
            raise UsageError(f"the model takes {len(names)} inputs", expected=", ".join(names), found=str(len(inputs)))
        outputs = [value.name for value in self.graph.output]
        feeds = dict(zip(names, inputs, strict=True))
        try:
            if self._plain:
                given = {name: _to_runtime(np.asarray(array)) for name, array in feeds.items()}
                return [_from_runtime(value) for value in session.run_with_ort_values(outputs, given)]
            return list(session.run(outputs, feeds))
        except Exception as error:  # as above
            raise EvaluationError(f"onnxruntime: {error}") from error


def _to_runtime(array: Any) -> Any:
    import onnxruntime

    array = np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype.isbuiltin == 1:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    dtype = from_numpy(array.dtype)
    if dtype.bits % 8 == 0:
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array, enum(dtype))
    value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(array.shape), enum(dtype), "cpu")
    content = b"".join(map(bytes, ArrayWeight(array).chunks()))
    ctypes.memmove(value.data_ptr(), content, len(content))
    return value


def _from_runtime(value: Any) -> Any:
    """An array of the runtime's tensor; numpy does not know all element types, so the bytes are read where need be."""
    dtype = by_enum(value.element_type())
    if dtype.numpy.isbuiltin == 1:
        return value.numpy()
    shape = tuple(value.shape())
    count = math.prod(shape)
    size = (count * dtype.bits + 7) // 8
    content = np.frombuffer(ctypes.string_at(value.data_ptr(), size), np.uint8) if size else np.empty(0, np.uint8)
    if dtype.bits % 8 == 0:
        return content.view(dtype.numpy).reshape(shape)
    places = 8 // dtype.bits
    shifts = np.arange(places, dtype=np.uint8) * dtype.bits
    codes = (content[:, None] >> shifts & (2**dtype.bits - 1)).reshape(-1)[:count]
    if dtype.is_signed and dtype.is_integer:
        codes = np.where(codes >> (dtype.bits - 1), codes | (255 << dtype.bits & 255), codes).astype(np.uint8)
        return codes.view(np.int8).astype(dtype.numpy).reshape(shape)
    return codes.view(dtype.numpy).reshape(shape)


def _walk(nodes: Any) -> Any:
    stack = [iter(nodes)]
    while stack:
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
        else:
            yield node
            stack.extend(iter(attribute.g.node) for attribute in node.attribute if attribute.HasField("g"))


def _count(nodes: Any) -> int:
    return sum(1 for node in _walk(nodes) if node.op_type != "Constant")
