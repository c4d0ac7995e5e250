"""Ops that a file had and that were kept whole: written as they were, where the opset and the reader have them still."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from isthmus.backends.onnx.custom import named
from isthmus.backends.onnx.emitter import Emitter
from isthmus.backends.onnx.table import emits, refuse
from isthmus.backends.onnx.versions import carries
from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import bounds, product, same
from isthmus.ir.dtypes import DType
from isthmus.ir.graph import Node, Value
from isthmus.ir.op import Trait


def of_whole(e: Emitter, node: Node, inputs: list[str | None]) -> Any:
    """Tries the op that a `whole` is of; it must be the same op at the opset that is written."""
    domain, name, versions = (node.attrs[key] for key in ("domain", "name", "opsets"))
    if not domain and not carries(name, versions[""], e.opset):
        refuse(f"{name} of opset {versions['']} is not there at opset {e.opset}")
    found = _native(e, node, inputs)
    if not e.keep_ops:
        if domain:
            refuse(f"whether {e.profile.name} has {domain}.{name} is not known")
        if e.profile.base == "onnxruntime" and name in _UNLIKE and not _UNLIKE[name][0](node):
            refuse(f"onnxruntime {_UNLIKE[name][1]}")
        given = {key: value for key, value in node.attrs["attributes"].items() if not isinstance(value, dict)}
        e.check(name, inputs[: len(inputs) - len(node.attrs["captures"])], given, len(node.results) + len(node.attrs["absent"]))
    return found


_I64: Final = (dtypes.i64,)


def _input(node: Node, index: int) -> Value | None:
    return node.operands[index] if index < len(node.operands) else None


def _given(node: Node, attribute: str) -> Any:
    return node.attrs["attributes"].get(attribute)


def _elements(node: Node, *places: int, rank: int = 1) -> bool:
    """Whether each of these inputs, where it is there, has one element, or no more axes than that."""
    found = (value for place in places if (value := _input(node, place)) is not None)
    return all(same(product(x.tensor.shape or ()), 1) is True if rank == 0 else x.tensor.rank <= rank for x in found)


def _dtypes(node: Node, *allowed: Sequence[DType]) -> bool:
    """Whether the inputs are of these element types."""
    return all(x is None or x.tensor.dtype in kinds for x, kinds in zip(node.operands, allowed, strict=False))


def _some(node: Node) -> bool:
    x = _input(node, 0)
    return x is None or x.tensor.dtype.kind != "bool" or all(bounds(dim)[0] >= 1 for dim in x.tensor.shape or ())


def _mask_of_keys(node: Node) -> bool:
    """With a mask, if any, of all queries and all keys, which nothing else hides; and without scores of what is hidden."""
    mask, query, key, past = (_input(node, place) for place in (3, 0, 1, 4))
    if _given(node, "is_causal") and len(node.results) > 3:
        return False
    if mask is None or query is None or key is None:
        return True
    length = key.tensor.shape[-2] + (0 if past is None else past.tensor.shape[-2])  # type: ignore[index]
    if _input(node, 6) is not None or mask.tensor.rank < 2:
        return False
    pairs = zip(mask.tensor.shape[-2:], (query.tensor.shape[-2], length), strict=True)  # type: ignore[index]
    return all(same(*pair) is True for pair in pairs)


def _real(node: Node) -> bool:
    x = _input(node, 0)
    return x is None or not x.tensor.dtype.is_integer


def _floats(node: Node) -> bool:
    x = _input(node, 0)
    return x is not None and x.tensor.dtype.is_float


def _channels(node: Node) -> bool:
    known = ((x.tensor.shape or ())[axis] for axis, x in zip((1, 0), node.operands, strict=False) if x is not None)
    return any(isinstance(size, int) for size in known)


_DIVIDES: Final = (_real, "stops where it divides integers by 0, or the least by -1")
_ROUGH: Final = (lambda node: False, "adds up more roughly than the standard's own tests allow")
_LAYOUT: Final = (lambda node: not _given(node, "layout"), "takes no batches in front of time")
_NONE: Final = (_some, "takes no bools of which there are none")
_ONE_BY_ONE: Final = "takes one scale and zero point for all rows, and no others than one for each column"
_UNLIKE: Final[dict[str, tuple[Callable[[Node], bool], str]]] = {
    "Attention": (_mask_of_keys, "takes masks of all rows and keys alone, without lengths, and gives scores of what is hidden"),
    "Bernoulli": (lambda node: False, "may give 0 where 1 is certain"),
    "CausalConvWithState": (_channels, "runs the standard's function in place of it, which needs to know the channels"),
    "ConvInteger": (lambda node: _elements(node, 3, rank=0), "takes one zero point for all weights"),
    "ConvTranspose": (lambda node: _given(node, "output_shape") is None, "gives no shapes that the convolution does not reach"),
    "DFT": _ROUGH, "STFT": _ROUGH, "Div": _DIVIDES, "Mod": _DIVIDES,
    "GRU": _LAYOUT, "LSTM": _LAYOUT, "RNN": _LAYOUT, "ReduceMax": _NONE, "ReduceMin": _NONE,
    "MatMulInteger": (lambda node: _elements(node, 2, rank=0) and _elements(node, 3), _ONE_BY_ONE),
    "MaxUnpool": (lambda node: _input(node, 2) is None, "takes indices to be of the wanted shape, not of the pooled one"),
    "OneHot": (lambda node: _dtypes(node, _I64, _I64, (dtypes.f32, dtypes.i64)), "has no kernel for OneHot on these types"),
    "QLinearMatMul": (lambda node: _elements(node, 1, 2, 6, 7, rank=0) and _elements(node, 4, 5), _ONE_BY_ONE),
    "Split": (lambda node: not node.attrs["absent"], "takes no parts without names"),
    "Unique": (lambda node: not _floats(node), "takes nan to be like any number"),
    "Resize": (
        lambda node: _input(node, 2) is None or _given(node, "coordinate_transformation_mode") != "align_corners",
        "aligns corners by sizes that are rounded",
    ),
}  # fmt: skip
"""Where onnxruntime gives other results than the standard, or none: what holds where it does not, and what it does."""


def lowered(b: Builder, node: Node) -> Sequence[Value]:
    """The `native` that a `whole` becomes."""
    drawn = any(Trait.RANDOM in inner.op.traits for inner in node.regions[0].walk())
    types = [result.type for result in node.results]
    return b.emit("native", node.operands, {**node.attrs, "types": types, "random": drawn}).results


@emits("native")
def _native(e: Emitter, node: Node, inputs: list[str | None]) -> Any:
    return named(e, node, inputs)
