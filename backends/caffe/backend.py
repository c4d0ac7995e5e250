"""The target ``caffe``: what a dialect takes, how the rest becomes that, and the net."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

from pydantic import BaseModel, Field, field_validator

from isthmus.backends import base
from isthmus.backends.caffe import arithmetic, elementwise, folding, layers, neural, places, resizing, shapes, windows
from isthmus.backends.caffe.artefact import CaffeArtefact
from isthmus.backends.caffe.dialect import BUILT_IN, Dialect, load
from isthmus.backends.caffe.emitter import Net
from isthmus.ir import remedies
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, Expr, symbols
from isthmus.ir.errors import Refusal, UnsupportedError
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.op import Trait
from isthmus.ir.ops.control import opaque
from isthmus.ir.types import Tensor, Type

FAMILIES = (arithmetic, elementwise, neural, places, resizing, shapes, windows)
"""The modules that fill the tables of emitters and lowerings."""


class CaffeOptions(base.Options):
    """Options of the target ``caffe``.

    Attributes:
        dialect: ``portable`` (what every reader takes), ``bvlc``, ``opencv``, ``mnn``, or the path of a TOML file that
            states another one.
    """

    dialect: str = Field(default="portable")

    @field_validator("dialect")
    @classmethod
    def _known(cls, dialect: str) -> str:
        load(dialect)  # its errors speak for themselves
        return dialect


class CaffeBackend(base.Backend):
    """Writes a prototxt with the parameters and a caffemodel with the weights."""

    name = "caffe"
    Options: ClassVar[type[BaseModel]] = CaffeOptions

    def __init__(self, options: BaseModel | None = None) -> None:
        super().__init__(options)
        self.dialect: Dialect = load(cast(CaffeOptions, self.options).dialect)

    def legal(self, node: Node) -> str | None:
        if node.has(Trait.CONSTANT):
            return None
        if node.regions:
            return f"Caffe has no control flow, and {node.op.name} is some"
        if (why := opaque(node)) is not None:
            return f"{why}, and Caffe has no layer for it"
        for value in (*node.operands, *node.results):
            if value is not None and value.weight is None:
                reason = self.unfit(value.type)
                if reason is not None:
                    return reason
        for value in node.operands:
            if value is not None and value.weight is not None and value.weight.dtype.name not in self.dialect.dtypes:
                return f"Caffe has only {', '.join(self.dialect.dtypes)} blobs, and a constant is {value.type}"
        try:
            layers.say(self.dialect, node)
        except layers.Refused as refused:
            return str(refused)
        return None

    def unfit(self, type: Type) -> str | None:
        """Why no blob has this type; None where one has."""
        if not isinstance(type, Tensor):
            return f"Caffe has only tensors, and this is {type}"
        if type.dtype.name not in self.dialect.dtypes:
            return f"Caffe has only {', '.join(self.dialect.dtypes)} blobs, and this is {type}"
        shape = type.shape
        if shape is None:
            return "Caffe's shapes are static, and the rank of this is not known"
        if not 1 <= len(shape) <= self.dialect.max_rank:
            return f"a blob has 1 to {self.dialect.max_rank} axes in the dialect {self.dialect.name}, and this is {type}"
        for axis, dim in enumerate(shape):
            if isinstance(dim, int):
                if dim == 0:
                    return f"a blob without elements, {type}, is none that Caffe's readers take"
            elif axis or not self._varies(dim):
                batch = " but for the batch" if self.dialect.batch_varies else ""
                return f"Caffe's shapes are static{batch}, and the size {dim} of {type} is not known"
        return None

    def remedy(self, node: Node) -> str | None:
        values = [value for value in (*node.operands, *node.results) if value is not None]
        found = self._advice(values, node.graph)
        if found is None:
            others = [name for name in BUILT_IN if name != self.dialect.name]
            takers = [name for name in others if CaffeBackend(CaffeOptions(dialect=name)).legal(node) is None]
            found = f"choose the dialect {' or '.join(takers)}, which takes it" if takers else None
        return found

    def _advice(self, values: Sequence[Value], graph: Graph | None) -> str | None:
        """What the user can do about sizes and types that no blob has; None where these are not the trouble."""
        tensors = [value.type for value in values if isinstance(value.type, Tensor) and value.type.shape is not None]
        open_dims = [(axis, dim) for type in tensors for axis, dim in enumerate(type.shape or ()) if isinstance(dim, Expr)]
        unknown = [(axis, dim) for axis, dim in open_dims if axis or not self._varies(dim)]
        if unknown and graph is not None:
            found = sorted({symbol for _, dim in unknown for symbol in symbols(dim)}, key=lambda symbol: symbol.name)
            fix = remedies.fix_sizes(graph, found)
            if fix is None:
                return "keep this part outside the model: its sizes come from the data, and Caffe's never do"
            batches = [name for name in BUILT_IN if load(name).batch_varies]
            only = all(axis == 0 and dim.symbol is not None for axis, dim in unknown)
            more = f", or choose the dialect {' or '.join(batches)}, in which the batch may vary" if only else ""
            return fix + more
        strange = {type.dtype for type in tensors if type.dtype.name not in self.dialect.dtypes}
        if graph is not None and strange and all(dtype.is_float for dtype in strange):
            return remedies.in_floats(graph)
        return "keep this part outside the model: Caffe computes with floats only" if strange else None

    def _varies(self, dim: Dim) -> bool:
        return self.dialect.batch_varies and isinstance(dim, Expr) and dim.symbol is not None

    def lower(self, b: Builder, node: Node) -> Sequence[Value] | None:
        before = node.previous
        found: Any = folding.fold(b, node)
        if found is None:
            found = self._lowered(b, node)
        if found is None:
            b.graph.erase_between(before, node)
            return None
        return (found,) if isinstance(found, Value) else tuple(found)

    def _lowered(self, b: Builder, node: Node) -> Any:
        lower = layers.LOWERINGS.get(node.op.name)
        if lower is None or any(value is not None and self._closed(value) for value in (*node.operands, *node.results)):
            return None
        try:
            return lower(b, self.dialect, node, *node.op.group(node.operands))
        except layers.Refused:
            return None

    def _closed(self, value: Value) -> bool:
        """Whether nothing can be made of a value, whatever its rank."""
        shape = value.tensor.shape if isinstance(value.type, Tensor) else None
        if shape is None or value.weight is not None:
            return shape is None
        if value.tensor.dtype.name not in self.dialect.dtypes:
            return True
        return any(dim == 0 if isinstance(dim, int) else axis > 0 or not self._varies(dim) for axis, dim in enumerate(shape))

    def emit(
        self, graph: Graph, *, input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
    ) -> CaffeArtefact:  # fmt: skip
        inputs = list(input_names or [value.name or "data" for value in graph.inputs])
        outputs = list(output_names or [value.name or "output" for value in graph.outputs])
        refusals = [
            Refusal(f"{what} {name}: {reason}", location=value.location, remedy=self._advice([value], graph))
            for what, values, names in (("input", graph.inputs, inputs), ("output", graph.outputs, outputs))
            for value, name in zip(values, names, strict=True)
            if (reason := self._unfit_end(value)) is not None
        ]
        if refusals:
            raise UnsupportedError(f"{len(refusals)} of the inputs and outputs cannot be carried over to caffe", refusals)
        net = Net(graph, self.dialect, inputs, outputs)
        return CaffeArtefact(net, self.dialect)

    def _unfit_end(self, value: Value) -> str | None:
        if value.weight is not None:
            return "it is a constant, and a net has none without a layer that makes it"
        return self.unfit(value.type)


__all__ = ["CaffeBackend", "CaffeOptions"]
