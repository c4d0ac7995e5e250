"""Asks an emitter whether it can write a node, without a graph to write it to."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from isthmus.backends.onnx import opsets, table
from isthmus.backends.onnx.emitter import EDGES, Emitter, Scope
from isthmus.backends.onnx.profile import Kind, Profile
from isthmus.backends.onnx.table import Refused
from isthmus.ir import dtypes
from isthmus.ir.dtypes import DType
from isthmus.ir.errors import SizeLimitError
from isthmus.ir.graph import Node, Value
from isthmus.ir.op import Trait
from isthmus.ir.ops.control import opaque
from isthmus.ir.types import Tensor, innermost

LOOKED_AT = 64
"""So many nodes are looked at to find that constants alone give a value."""


class Probe(Emitter):
    """Tries an emitter without a graph: every operand is just a type, and nothing is written."""

    probing = True

    def __init__(
        self, opset: int, keep_functions: bool = False, profile: Profile | None = None, keep_ops: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(opset, {}, metadata=False, keep_functions=keep_functions, profile=profile, keep_ops=keep_ops)
        self.scopes.append(Scope(None))
        self._made = 0

    def op(self, op_type: str, *inputs: str | None, results: int = 1, domain: str = "", **attrs: Any) -> Any:
        self._made += op_type != "Identity"  # which stands for sizes as well
        return super().op(op_type, *inputs, results=results, domain=domain, **attrs)

    def is_one(self, node: Node) -> bool:
        """Whether a node can be emitted, as no more than one besides those that compute sizes."""
        self._made = 0
        return self.reason(node) is None and self._made <= 1

    def reason(self, node: Node) -> str | None:
        """Why a node cannot be emitted; None when it can."""
        return self.tried(node, table.emitter(node.op.name, self.opset))

    def tried(self, node: Node, emit: table.Emit | None) -> str | None:
        """Why a node cannot be emitted by this emitter; None when it can."""
        if emit is None:
            first = table.first_opset(node.op.name)
            return f"it needs opset {first}" if first else "ONNX has no op for it"
        if not self.profile.custom and (why := opaque(node)) is not None:
            return f"{why}, and the profile {self.profile.name} takes no such nodes"
        (scope,) = self.scopes
        for known in (scope.sizes, self._types, self._shapes, self._fixed, self._constants, self._contents):
            known.clear()
        operands: list[str | None] = []
        for index, value in enumerate(node.operands):
            operands.append(None if value is None else f"operand{index}")
            if value is not None and isinstance(value.type, Tensor):
                self._note(f"operand{index}", value.type)
                if value.weight is not None:
                    self._contents[f"operand{index}"] = value.weight
                elif not self.profile.plain and is_fixed(value):
                    self._fixed.add(f"operand{index}")
        for value in (*node.operands, *node.results):
            if value is None or (value.type.__class__ is Tensor and value.type.dtype in self._ordinary):
                continue
            reason = self.storable(value)
            if reason is not None:
                return reason
            if node.op.name not in EDGES and opsets.is_complex(value.type):
                return "no runtime of ONNX computes with complex numbers"
        try:
            emit(self, node, *node.op.group(operands))
        except Refused as reason:
            return str(reason)
        except SizeLimitError as error:
            return error.message
        return None

    @cached_property
    def _ordinary(self) -> frozenset[DType]:
        """The element types of tensors that any node may have."""
        every = dtypes.ALL if self.profile.plain else ()
        return frozenset(each for each in every if not each.is_complex and opsets.since(each) <= self.opset)

    def storable(self, value: Value, kind: Kind = "tensors") -> str | None:
        """Why a value cannot be in a file of this opset, for this reader; None when it can."""
        inner = innermost(value.type)
        if isinstance(inner, Tensor) and (first := opsets.since(inner.dtype)) > self.opset:
            return f"the element type {inner.dtype} needs opset {first}"
        return None if self.profile.plain else self.profile.value(value.type, "constants" if is_fixed(value) else kind)


def is_fixed(value: Value) -> bool:
    """Whether constants alone give a value, so that folding may make it one; not of what takes many nodes to make."""
    work = [value]
    for _ in range(LOOKED_AT):
        if not work:
            return True
        each = work.pop()
        node = each.producer
        if each.weight is None and (node is None or Trait.PURE not in node.op.traits or node.regions):
            return False
        if node is not None:
            work += [operand for operand in node.operands if operand is not None and operand.weight is None]
    return False
