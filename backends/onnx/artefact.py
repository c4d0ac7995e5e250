"""A finished ONNX model: its graph as protobuf, its weights as handles."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

import onnx

from isthmus.backends.base import Artefact
from isthmus.backends.files import destination, together
from isthmus.backends.onnx import opsets, wire
from isthmus.backends.onnx.runtime import Evaluator, Session
from isthmus.ir.errors import EvaluationError, FileError, VerifyError
from isthmus.ir.protobuf_wire import LIMIT, Writer, collect
from isthmus.ir.weights import Weight

External = Literal["auto", "always", "never"]

IN_MEMORY: Final = 1 << 28
"""Models with weights of more bytes run from a temporary file."""


class OnnxArtefact(Artefact):
    """An ONNX model.

    Attributes:
        graph: the GraphProto, without weights.
        weights: the weights by the names of their initializers.
        external_data: whether `save` puts weights beside the model file.
        checksum: whether the model file then tells their digest.
        base: what its nodes have kernels of.
        noted: what is noted at some weights, as TensorProtos.
    """

    def __init__(
        self, model: Any, graph: Any, weights: Mapping[str, Weight], external_data: External, checksum: bool = False,
        base: opsets.Base = "onnxruntime", noted: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.graph = graph
        self.weights = dict(weights)
        self.external_data = external_data
        self.checksum = checksum
        self.base = base
        self.noted = dict(noted or {})
        self._model = model

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

    @property
    def imports(self) -> dict[str, int]:
        """The opset of each domain that the file names."""
        return {entry.domain: entry.version for entry in self._model.opset_import}

    def serialize(self) -> bytes:
        """The whole file in memory, weights inside.

        Raises:
            FileError: it would be larger than 2 GB.
        """
        return collect(lambda out: wire.write_model(out, self._model, self.graph, self.weights, self.noted))

    @property
    def model(self) -> Any:
        """The whole as a ModelProto, weights inside: a copy of them, for looking at small models."""
        return onnx.ModelProto.FromString(self.serialize())

    def files(self, path: str | Path) -> list[Path]:
        path = destination(path)
        return [path, _data(path)] if self._outside() else [path, *wire.left_over(path, _data(path))]

    def save(self, path: str | Path) -> list[Path]:
        path = destination(path)
        outside = self._outside()
        if outside:
            return self._save_around(path, outside, self.checksum)
        with together([path], gone=wire.left_over(path, _data(path))) as (file,):
            wire.write_model(file, self._model, self.graph, self.weights, self.noted)
        return [path]

    def _save_around(self, path: Path, outside: Mapping[str, Weight], checksum: bool) -> list[Path]:
        """Writes the model with these weights beside it."""
        data = _data(path)
        wire.check_location(data.name)
        # The model comes into place last: whoever sees it finds its weights.
        with together([data, path]) as (weights_file, file):
            protos = wire.write_external(weights_file, outside, data.name, checksum)
            for proto in protos:
                if proto.name in self.noted:
                    proto.MergeFrom(self.noted[proto.name])
            self._write_around(file, outside, protos)
        return [path, data]

    def _outside(self) -> dict[str, Weight]:
        large = {name: weight for name, weight in self.weights.items() if wire.is_large(weight)}
        # Names, shapes and the graph take some room as well.
        beyond = wire.total_bytes(self.weights.values()) + self.graph.ByteSize() > LIMIT - (1 << 24)
        return large if self.external_data == "always" or (self.external_data == "auto" and beyond) else {}

    def _write_around(self, out: Writer, outside: Mapping[str, Weight], protos: Sequence[Any]) -> None:
        graph = onnx.GraphProto()
        graph.CopyFrom(self.graph)
        graph.initializer.extend(protos)
        inside = {name: weight for name, weight in self.weights.items() if name not in outside}
        wire.write_model(out, self._model, graph, inside, self.noted)

    def validate(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = self.save(os.path.join(folder, "model.onnx"))[0]
            try:
                onnx.checker.check_model(str(path), full_check=True)
            except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
                raise VerifyError(f"onnx.checker objects: {error}") from error

    # ---- running

    @cached_property
    def _session(self) -> Session:
        large = {name: w for name, w in self.weights.items() if wire.is_large(w) and w.dtype.bits % 8 == 0}
        if wire.total_bytes(large.values()) > IN_MEMORY:
            return self._mapped(large)
        protos = [wire.external(name, weight, "memory", 0) for name, weight in large.items()]
        content = collect(lambda out: self._write_around(out, large, protos))
        return Session(content, {name: weight.array() for name, weight in large.items()})

    def _mapped(self, large: Mapping[str, Weight]) -> Session:
        """A session that reads its weights from a file: arrays it would copy, while it is made."""
        with tempfile.TemporaryDirectory(prefix="isthmus-", ignore_cleanup_errors=True) as folder:
            try:
                path, _ = self._save_around(Path(folder, "model.onnx"), large, checksum=False)
            except FileError as error:
                size = wire.total_bytes(large.values()) >> 20
                error.remedy = error.remedy or f"to run the model takes {size} MB of room there; TMPDIR names another folder"
                raise
            return Session(path, frugal=True)  # it has the file mapped, and needs its name no more

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs, by onnxruntime on the CPU; of a model for all that the standard has, by ONNX's own evaluator where
        onnxruntime refuses it. See `Artefact.run`."""
        if self.base == "onnxruntime":
            return self._session(inputs)
        try:
            return self._session(inputs)
        except EvaluationError:
            return self._evaluator(inputs)

    @cached_property
    def _evaluator(self) -> Evaluator:
        return Evaluator(self.serialize())


def _data(path: Path) -> Path:
    """The second file of a model, for weights."""
    return path.with_name(path.name + ".data")


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
