"""How the results of torch's view ops lie in their base: which part they are, with which strides, and how to put them back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from isthmus.frontends.torch.aliases import Entry, Push, Shape
from isthmus.frontends.torch.aten.scatter import with_diagonal
from isthmus.frontends.torch.lowering import Lowering
from isthmus.frontends.torch.relations import contiguous
from isthmus.ir.dims import Dim, bounds
from isthmus.ir.errors import Refusal
from isthmus.ir.graph import Value

_NO_VIEW: Final = (
    "view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous "
    "subspaces). Use .reshape(...) instead."
)
"""What torch says, for those who catch it."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """How one view lies in its base.

    Attributes:
        push: puts the view's value into the base's.
        strides: the view's strides; None for contiguous.
        certain: whether torch would have these.
    """

    push: Push
    strides: Shape | None
    certain: bool = True


class Unknown(Exception):
    """Nobody can tell whether torch makes a view or a copy."""


class Perhaps(Unknown):
    """Torch makes a copy, but where a size is 1 a view, and both lie the same way."""


def reshaped(w: Lowering, shape: Shape, strides: Shape | None, new: Shape) -> Shape | None:
    """The strides of a view of another shape (`at::detail::computeStride`); None when there can be no such view.

    Raises:
        Unknown: that depends on sizes.
    """
    if strides is None:
        return contiguous(new)

    def equal(left: Dim, right: Dim) -> bool:
        answer = w.same(left, right)
        if answer is None:
            raise Unknown
        return answer

    result: list[Dim] = [0] * len(new)
    at = len(new) - 1
    if not shape:
        return (1,) * len(new)
    step = strides[-1]
    held: Dim = 1
    viewed: Dim = 1
    for axis in range(len(shape) - 1, -1, -1):
        held = held * shape[axis]
        if axis == 0 or (w.same(shape[axis - 1], 1) is not True and not equal(strides[axis - 1], held * step)):
            while at >= 0 and (w.same(viewed, held) is not True or w.same(new[at], 1) is True):
                result[at] = viewed * step
                viewed = viewed * new[at]
                at -= 1
            if not equal(viewed, held):
                return None
            if axis > 0:
                step, held, viewed = strides[axis - 1], 1, 1
    return tuple(result) if at == -1 else None


def _push_reshape(w: Lowering, base: Value, new: Value) -> Value:
    result: Value = w.b.reshape(new, shape=w.dims(base))
    return result


def _push_same(w: Lowering, base: Value, new: Value) -> Value:
    return new


def refused(what: str) -> Push:
    def push(w: Lowering, base: Value, new: Value) -> Value:
        raise Refusal(f"a write through {what} is not carried over", remedy="call .clone() before the write")

    return push


def _push_slice(axis: int, start: Dim, end: Dim, step: int = 1, select: bool = False) -> Push:
    def push(w: Lowering, base: Value, new: Value) -> Value:
        if select:
            new = w.b.unsqueeze(new, axes=[axis])
        result: Value = w.b.slice_update(base, new, axes=[axis], starts=[start], ends=[end], steps=[step])
        return result

    return push


Rule: TypeAlias = Callable[[Lowering, Entry, "dict[str, Any]", "list[Value]"], "list[Geometry] | None"]


def _strides(w: Lowering, base: Entry) -> Shape:
    return contiguous(w.dims(base.value)) if base.strides is None else base.strides


def _simplest(w: Lowering, value: Value, strides: Shape) -> Shape | None:
    """None for strides that are those of a contiguous tensor."""
    shape = w.dims(value)
    plain = contiguous(shape)
    for size, stride, expected in zip(shape, strides, plain, strict=True):
        if not (size.__class__ is int and size == 1) and stride != expected:
            return strides
    return None


def _permutation(order: Callable[[Lowering, int, dict[str, Any]], Sequence[int]]) -> Rule:
    def rule(w: Lowering, base: Entry, args: dict[str, Any], results: list[Value]) -> list[Geometry] | None:
        rank = w.rank(base.value)
        perm = list(order(w, rank, args))
        inverse = [perm.index(axis) for axis in range(rank)]

        def push(w: Lowering, value: Value, new: Value) -> Value:
            result: Value = w.b.permute(new, perm=inverse)
            return result

        old = _strides(w, base)
        return [Geometry(push, _simplest(w, results[0], tuple(old[axis] for axis in perm)), base.certain)]

    return rule


def _swapped(w: Lowering, rank: int, one: int, other: int) -> list[int]:
    perm = list(range(rank))
    if rank:
        one, other = w.axis_in(rank, one), w.axis_in(rank, other)
        perm[one], perm[other] = perm[other], perm[one]
    return perm


def _moved(w: Lowering, rank: int, sources: Any, destinations: Any) -> list[int]:
    sources, destinations = ([x] if isinstance(x, int) else list(x) for x in (sources, destinations))
    perm = [-1] * rank
    for source, destination in zip(sources, destinations, strict=True):
        perm[w.axis_in(rank, destination)] = w.axis_in(rank, source)
    rest = iter([axis for axis in range(rank) if axis not in perm])
    return [next(rest) if axis < 0 else axis for axis in perm]


def _reshape(must: bool) -> Rule:
    def rule(w: Lowering, base: Entry, args: dict[str, Any], results: list[Value]) -> list[Geometry] | None:
        new = w.dims(results[0])
        try:
            strides = reshaped(w, w.dims(base.value), base.strides, new)
        except Unknown:
            if not must:
                raise
            return [Geometry(_push_reshape, None, False)]
        if strides is None:
            if not must and _perhaps_1(w, base):
                raise Perhaps
            if must and base.certain and not _perhaps_1(w, base):
                raise RuntimeError(_NO_VIEW)
            return [Geometry(_push_reshape, None, False)] if must else None
        if not must and not base.certain:
            raise Unknown
        return [Geometry(_push_reshape, _simplest(w, results[0], strides), base.certain)]

    return rule


def _expand(w: Lowering, base: Entry, args: dict[str, Any], results: list[Value]) -> list[Geometry] | None:
    old_shape, new_shape = w.dims(base.value), w.dims(results[0])
    old = _strides(w, base)
    missing = len(new_shape) - len(old_shape)
    strides = (0,) * missing + tuple(
        stride if before == after else 0 for before, after, stride in zip(old_shape, new_shape[missing:], old, strict=True)
    )
    if old_shape == new_shape:
        return [Geometry(_push_same, base.strides, base.certain)]
    return [Geometry(refused("an expanded view, whose elements share storage,"), strides, base.certain)]


def _same(w: Lowering, base: Entry, args: dict[str, Any], results: list[Value]) -> list[Geometry] | None:
    return [Geometry(_push_same, base.strides, base.certain)]


def _contiguous(w: Lowering, base: Entry, args: dict[str, Any], results: list[Value]) -> list[Geometry] | None:
    if not base.certain:
        raise Unknown
    if base.strides is None:
        return _same(w, base, args, results)
    if _perhaps_1(w, base):
        raise Perhaps
    return None


def _perhaps_1(w: Lowering, base: Entry) -> bool:
    """Whether a dynamic size may be 1, where an axis may lie anywhere."""
    return any(not isinstance(dim, int) and bounds(dim)[0] <= 1 <= bounds(dim)[1] for dim in w.dims(base.value))


def _to(w: Lowering, base: Entry, args: dict[str, Any], results: list[Value]) -> list[Geometry] | None:
    if args.get("copy") or results[0].tensor.dtype is not base.value.tensor.dtype:
        return None
    return _same(w, base, args, results)


def _pairs(w: Lowering, base: Entry, args: dict[str, Any], results: list[Value]) -> list[Geometry] | None:
    """Complex numbers as pairs of reals."""

    def push(w: Lowering, value: Value, new: Value) -> Value:
        result: Value = w.b.view_as_complex(new)
        return result

    strides = (*(stride * 2 for stride in _strides(w, base)), 1)
    return [Geometry(push, _simplest(w, results[0], strides), base.certain)]


def _of_pairs(w: Lowering, base: Entry, args: dict[str, Any], results: list[Value]) -> list[Geometry] | None:
    """Pairs of reals as complex numbers."""

    def push(w: Lowering, value: Value, new: Value) -> Value:
        result: Value = w.b.view_as_real(new)
        return result

    strides = tuple(stride // 2 for stride in _strides(w, base)[:-1])
    return [Geometry(push, _simplest(w, results[0], strides), base.certain)]


def _part(place: int) -> Rule:
    """The real or the imaginary parts of complex numbers; of reals, they themselves."""

    def rule(w: Lowering, base: Entry, args: dict[str, Any], results: list[Value]) -> list[Geometry] | None:
        if not base.value.tensor.dtype.is_complex:
            return _same(w, base, args, results)

        def push(w: Lowering, value: Value, new: Value) -> Value:
            parts = [w.b.real(value), w.b.imag(value)]
            parts[place] = new
            result: Value = w.b.complex(*parts)
            return result

        strides = tuple(stride * 2 for stride in _strides(w, base))
        return [Geometry(push, _simplest(w, results[0], strides), base.certain)]

    return rule


def _conjugate(then: Rule) -> Rule:
    """A view whose elements are conjugates, where they are complex."""

    def rule(w: Lowering, base: Entry, args: dict[str, Any], results: list[Value]) -> list[Geometry] | None:
        found = then(w, base, args, results)
        if found is None or not base.value.tensor.dtype.is_complex:
            return found

        def conjugated(push: Push) -> Push:
            return lambda w, value, new: push(w, value, w.b.conj(new))

        return [Geometry(conjugated(each.push), each.strides, each.certain) for each in found]

    return rule


def _negated(w: Lowering, base: Entry, args: dict[str, Any], results: list[Value]) -> list[Geometry] | None:
    def push(w: Lowering, value: Value, new: Value) -> Value:
        result: Value = w.b.neg(new)
        return result

    return [Geometry(push, base.strides, base.certain)]


def _dropout(w: Lowering, base: Entry, args: dict[str, Any], results: list[Value]) -> list[Geometry] | None:
    return None if args["train"] and args["p"] else _same(w, base, args, results)


def _slice(w: Lowering, base: Entry, args: dict[str, Any], results: list[Value]) -> list[Geometry] | None:
    axis = w.axis(base.value, args["dim"])
    size = w.dims(base.value)[axis]
    if isinstance(args["start"], Value):
        push = refused("a part that starts at a place that is data")
        return [Geometry(push, _simplest(w, results[0], _strides(w, base)), base.certain)]
    if "length" in args:
        start = args["start"]
        start = start + size if w.decide("<", start, 0) else start
        end, step = start + args["length"], 1
    else:
        start, end = w.clamp(size, args["start"], args["end"])
        step = args["step"]
    old = _strides(w, base)
    strides = (*old[:axis], old[axis] * step, *old[axis + 1 :])
    return [Geometry(_push_slice(axis, start, end, step), _simplest(w, results[0], strides), base.certain)]


def _select(w: Lowering, base: Entry, args: dict[str, Any], results: list[Value]) -> list[Geometry] | None:
    axis = w.axis(base.value, args["dim"])
    index = args["index"]
    if w.decide("<", index, 0):
        index = index + w.dims(base.value)[axis]
    old = _strides(w, base)
    strides = _simplest(w, results[0], (*old[:axis], *old[axis + 1 :]))
    return [Geometry(_push_slice(axis, index, index + 1, select=True), strides, base.certain)]


def _parts(default: Callable[[int], int] | None = None, select: bool = False) -> Rule:
    """Several slices side by side along one axis, whose sizes are read off the results."""

    def rule(w: Lowering, base: Entry, args: dict[str, Any], results: list[Value]) -> list[Geometry] | None:
        rank = w.rank(base.value)
        axis = default(rank) if default is not None else w.axis(base.value, args["dim"])
        old = _strides(w, base)
        strides = (*old[:axis], *old[axis + 1 :]) if select else old
        found = []
        start: Dim = 0
        for result in results:
            end = start + (1 if select else w.dims(result)[axis])
            push = _push_slice(axis, start, end, select=select)
            found.append(Geometry(push, _simplest(w, result, strides), base.certain))
            start = end
        return found

    return rule


def _diagonal(w: Lowering, base: Entry, args: dict[str, Any], results: list[Value]) -> list[Geometry] | None:
    one, other = w.axis(base.value, args["dim1"]), w.axis(base.value, args["dim2"])
    shape = w.dims(base.value)
    rows, columns, offset = shape[one], shape[other], args["offset"]
    length = w.dims(results[0])[-1]
    rank = len(shape)
    perm = [axis for axis in range(rank) if axis not in (one, other)] + [one, other]
    old = _strides(w, base)
    strides = (*(old[axis] for axis in perm[:-2]), old[one] + old[other])

    def push(w: Lowering, value: Value, new: Value) -> Value:
        if not isinstance(columns, int):  # a step of a slice is a number
            return with_diagonal(w, value, new, offset, one, other)
        moved = w.b.permute(value, perm=perm)
        flat = w.b.reshape(moved, shape=[*w.dims(moved)[:-2], rows * columns])
        start = offset if offset >= 0 else -offset * columns
        end = start + (length - 1) * (columns + 1) + 1
        flat = w.b.slice_update(flat, new, axes=[rank - 2], starts=[start], ends=[end], steps=[columns + 1])
        back = w.b.reshape(flat, shape=w.dims(moved))
        result: Value = w.b.permute(back, perm=[perm.index(axis) for axis in range(rank)])
        return result

    return [Geometry(push, strides, base.certain)]


def _other(what: str) -> Rule:
    def rule(w: Lowering, base: Entry, args: dict[str, Any], results: list[Value]) -> list[Geometry] | None:
        return [Geometry(refused(what), None, False) for _ in results]

    return rule


def _reversed(w: Lowering, rank: int, args: dict[str, Any]) -> list[int]:
    return list(range(rank))[::-1]


def _last_two(w: Lowering, rank: int, args: dict[str, Any]) -> list[int]:
    return _swapped(w, rank, -2, -1)


RULES: Final[dict[str, Rule]] = {
    "t": _permutation(_reversed),
    "numpy_T": _permutation(_reversed),
    "mT": _permutation(_last_two),
    **dict.fromkeys(("adjoint", "matrix_H", "mH"), _conjugate(_permutation(_last_two))),
    **dict.fromkeys(("conj", "_conj"), _conjugate(_same)),
    "view_as_real": _pairs,
    "view_as_complex": _of_pairs,
    "real": _part(0),
    "imag": _part(1),
    "_neg_view": _negated,
    "transpose": _permutation(lambda w, rank, args: _swapped(w, rank, args["dim0"], args["dim1"])),
    "swapdims": _permutation(lambda w, rank, args: _swapped(w, rank, args["dim0"], args["dim1"])),
    "swapaxes": _permutation(lambda w, rank, args: _swapped(w, rank, args["axis0"], args["axis1"])),
    "permute": _permutation(lambda w, rank, args: [w.axis_in(rank, dim) for dim in args["dims"]]),
    "movedim": _permutation(lambda w, rank, args: _moved(w, rank, args["source"], args["destination"])),
    "moveaxis": _permutation(lambda w, rank, args: _moved(w, rank, args["source"], args["destination"])),
    **dict.fromkeys(("view", "view_as", "squeeze", "unsqueeze", "unflatten", "_unsafe_view", "_reshape_alias"), _reshape(True)),
    **dict.fromkeys(("reshape", "reshape_as", "flatten", "ravel"), _reshape(False)),
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), _expand),
    **dict.fromkeys(("detach", "alias", "lift_fresh", "resolve_conj", "resolve_neg", "positive", "view_copy"), _same),
    "contiguous": _contiguous,
    **dict.fromkeys(("to", "type_as", "_autocast_to_full_precision", "_autocast_to_reduced_precision"), _to),
    **dict.fromkeys(("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"), _dropout),
    "slice": _slice,
    "narrow": _slice,
    "select": _select,
    "unbind": _parts(select=True),
    **dict.fromkeys((
        "split", "split_with_sizes", "chunk", "tensor_split", "unsafe_split", "unsafe_split_with_sizes",
    ), _parts()),
    "hsplit": _parts(lambda rank: 0 if rank == 1 else 1),
    "vsplit": _parts(lambda rank: 0),
    "dsplit": _parts(lambda rank: 2),
    "diagonal": _diagonal,
    "unfold": _other("sliding windows, whose elements share storage,"),
}
"""How the results of torch's view ops lie in their base, by the op's name; None (a rule's result) for a copy."""
AS_FIRST: Final = frozenset(("clone", "dropout", "to", "type_as", "_to_copy"))
"""Ops whose new result keeps the order of its first input's dims, as elementwise ones do, though no tag of torch says so."""
_ALWAYS_CONTIGUOUS: Final = frozenset(("contiguous", "reshape", "flatten", "cat", "stack", "matmul", "linear"))
_OTHER_ORDERS: Final = (4, 5)


def always_contiguous(name: str, rank: int) -> bool:
    """Whether an op's new result is contiguous whatever the strides of the inputs; that of others may follow them.

    Padding keeps a channels-last order, which only images and volumes have.
    """
    return name in _ALWAYS_CONTIGUOUS or (name in ("pad", "constant_pad_nd") and rank not in _OTHER_ORDERS)


def geometry(
    w: Lowering, name: str, base: Entry, args: dict[str, Any], results: list[Value],
) -> list[Geometry] | None:  # fmt: skip
    """How the results of an op whose schema lets them be views lie in the base; None where they are copies.

    Raises:
        Unknown: nobody can tell which they are.
    """
    rule = RULES.get(name)
    return _other(f"a view made by {name}")(w, base, args, results) if rule is None else rule(w, base, args, results)


def elementwise_strides(w: Lowering, inputs: Sequence[Entry], result: Value) -> tuple[Shape | None, bool]:
    """The strides that `at::TensorIterator` gives the result of an elementwise op, and whether that is certain.

    The result is dense, its dims in the order of the inputs' strides.
    """
    shape = w.dims(result)
    odd = [entry for entry in inputs if entry.strides is not None and w.rank(entry.value)]
    if not odd:
        return None, all(entry.certain for entry in inputs)
    first = odd[0]
    assert first.strides is not None
    if len(shape) < 2:
        return None, True
    if w.dims(first.value) != shape or any(e.strides is None and w.dims(e.value) == shape for e in inputs):
        return None, False
    order = order_of(first.strides)
    if order is None:
        return None, False
    strides: list[Dim] = [1] * len(shape)
    step: Dim = 1
    for axis in reversed(order):
        strides[axis] = step
        step = step * shape[axis]
    return _simplest(w, result, tuple(strides)), all(entry.certain for entry in inputs)


def order_of(strides: Shape) -> list[int] | None:
    """The axes by falling stride, for strides that divide each other; None when that does not show.

    Strides that are the same at some sizes only belong to an axis of size 1 there, whose place says nothing.
    """
    order: list[int] = []
    for axis, stride in enumerate(strides):
        place = len(order)
        while place and bounds(stride - strides[order[place - 1]])[0] >= 0 and stride != strides[order[place - 1]]:
            place -= 1
        if place and bounds(strides[order[place - 1]] - stride)[0] < 0:
            return None
        order.insert(place, axis)
    return order
