"""If, Loop and Scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from isthmus.frontends.onnx.conversion import Conversion, Opaque
from isthmus.frontends.onnx.table import converts
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, Symbol, known_product, symbols
from isthmus.ir.dtypes import i64
from isthmus.ir.errors import EvaluationError, InferError, IsthmusError
from isthmus.ir.graph import Graph, Value
from isthmus.ir.interpreter import run
from isthmus.ir.op import Trait
from isthmus.ir.types import Optional, Tensor, Type, Unknown, same_kind
from isthmus.ir.weights import Array

COUNT: Final = Tensor(i64, ())
DECIDABLE: Final = 32
"""How many ops a condition is followed through."""
LARGEST: Final = 1 << 12
"""How many elements a tensor has at most that a condition is followed through."""
EXACT: Final = 3
"""How often the body of a loop is built to find the sizes that stay the same from turn to turn."""
SHALLOW: Final = 4
"""Bodies that are in more others are built once, for sizes that all may change."""


@converts("If", seen_through=True)
def if_(c: Conversion, cond: Value, *, then_branch: Any, else_branch: Any) -> Any:
    """One of two graphs. Where it is known which one, that one alone: the other may not even fit.

    What a branch takes for granted about sizes around it holds only where it is taken, so nothing of that is kept.
    """
    decided = _decided(cond)
    if decided is not None:
        return tuple(c.inlined(then_branch if decided.all() else else_branch))
    branches = []
    for name, branch in (("then", then_branch), ("else", else_branch)):
        back = c.b.graph.symbols.mark()
        branches.append(c.region(branch, (), name))
        back()
    return c.b.if_(c.scalar(cond), regions=branches)


def _decided(cond: Value) -> Array | None:
    """What a condition comes to, where constants and known sizes alone tell."""
    graph = Graph("condition")
    copies: dict[Value, Value] = {}
    b = Builder(graph)

    def copy(value: Value) -> Value | None:
        node = value.producer
        if value in copies:
            return copies[value]
        if node is None or node.regions or Trait.PURE not in node.op.traits or len(copies) > DECIDABLE:
            return None
        if any(True for _ in node.symbols()) or not all(map(_small, node.results)):
            return None
        operands = [None if operand is None else copy(operand) for operand in node.operands]
        if any(mine is None and theirs is not None for mine, theirs in zip(operands, node.operands, strict=True)):
            return None
        copies.update(zip(node.results, b.emit(node.op, operands, dict(node.attrs)).results, strict=True))
        return copies[value]

    try:
        found = copy(cond)
        if found is None:
            return None
        graph.set_outputs([found])
        return np.asarray(run(graph, ())[0])
    except (InferError, EvaluationError):
        return None  # the model says so when it runs


def _small(value: Value) -> bool:
    if not isinstance(value.type, Tensor) or value.type.shape is None:
        return False
    size = known_product(value.type.shape)
    return size is not None and size <= LARGEST


@converts("Loop", seen_through=True)
def loop(c: Conversion, trip: Value | None = None, cond: Value | None = None, *initial: Value, body: Any) -> Any:
    """Turns with carried values; what a turn changes the size or rank of has an open one in the body."""
    carried = len(initial)
    if len(body.input) != carried + 2 or len(body.output) < carried + 1:
        found = f"a body of {len(body.input)} inputs and {len(body.output)} outputs"
        raise c.malformed(f"has {carried} values to carry, and {found}")
    ranks = [len(each.type.tensor_type.shape.dim) for each in body.input[:2]]

    def enter(b: Builder, arguments: list[Value]) -> Sequence[Value]:
        turn, *rest = arguments
        turn = b.reshape(turn, shape=[1] * ranks[0]) if ranks[0] else turn
        return [turn, b.constant(np.ones([1] * ranks[1], bool)), *rest]

    def build(types: Sequence[Type]) -> Graph:
        def leave(b: Builder, outputs: list[Value]) -> Sequence[Value]:
            after = [_as(b, value, type) for value, type in zip(outputs[1:], types, strict=False)]
            return [scalar(b, outputs[0].source), *after, *outputs[1 + carried :]]

        return c.region(body, [COUNT, *types], "body", enter, leave)

    region = turning(c, [value.type for value in initial], build)
    counted = c.numbers(trip)
    if counted and not isinstance(counted[0], int):
        trip = c.b.size(counted[0])  # which tells how much is stacked
    made = c.b.loop(trip and c.scalar(trip), cond and c.scalar(cond), list(initial), carried=carried, regions=[region])
    results = [made] if isinstance(made, Value) else list(made)
    for index, value in enumerate(results[:carried]):
        last = region.outputs[1 + index].producer
        if isinstance(value.type, Optional) and last is not None and last.op.name == "optional_some":
            results[index] = c.b.optional_get(value)  # a value that may be absent only at the start
    return tuple(results)


def _as(b: Builder, value: Value, type: Type) -> Value:
    """A value that a turn hands on, as an optional where it was one at the start."""
    wrapped = isinstance(type, Optional) and not isinstance(value.type, Optional)
    made: Value = b.optional_some(value) if wrapped else value
    return made


def scalar(b: Builder, value: Value) -> Value:
    """A tensor of one element as a 0-d one.

    Raises:
        Opaque: its rank is not known.
    """
    if not isinstance(value.type, Tensor) or value.type.shape is None:
        raise Opaque("the rank of a condition is not known")
    made: Value = value if value.tensor.shape == () else b.reshape(value, shape=[])
    return made


def turning(c: Conversion, types: Sequence[Type], build: Callable[[Sequence[Type]], Graph]) -> Graph:
    """The body of a loop, with types for its carried values that hold in every turn.

    Args:
        c: the loop's node.
        types: those of the initial values.
        build: builds the body for the types of its carried values; its outputs are a condition, the carried values, and more.

    Raises:
        InferError: a turn changes more than sizes and ranks.
    """
    symbols = c.b.graph.symbols
    own: set[Symbol] = set()
    types = [_open(c, type, own) for type in types] if c.model.depth > SHALLOW else list(types)
    for turn in range(1 << 10):
        back = symbols.mark()
        try:
            region = build(types)
        except IsthmusError:
            # It may fit once it is not told sizes that hold in the first turn alone.
            back()
            wanted = [_open(c, type, own) for type in types]
            if wanted == types:
                raise
        else:
            outputs = region.outputs[1 : 1 + len(types)]
            wanted = [_both(c, mine, after.type, own) for mine, after in zip(types, outputs, strict=True)]
            if wanted == types:
                return region
            region.release()
            c.regions.remove(region)
            back()
        types = wanted if turn < EXACT else [_open(c, type, own) for type in wanted]
    raise AssertionError("each turn opens a size or a rank")


def _open(c: Conversion, type: Type, own: set[Symbol]) -> Type:
    """The type with every size open."""
    if isinstance(type, Unknown):
        return type
    if not isinstance(type, Tensor):
        return replace(type, element=_unsized(type.element))
    if type.shape is None:
        return type
    return Tensor(type.dtype, tuple(dim if _is_own(dim, own) else _new(c, own) for dim in type.shape))


def _unsized(type: Type) -> Type:
    if isinstance(type, Unknown):
        return type
    if not isinstance(type, Tensor):
        return replace(type, element=_unsized(type.element))
    return Tensor(type.dtype, None if type.shape is None else (None,) * len(type.shape))  # type: ignore[arg-type]


def _is_own(dim: Dim, own: set[Symbol]) -> bool:
    return not isinstance(dim, int) and dim.symbol in own


def _new(c: Conversion, own: set[Symbol]) -> Dim:
    made = c.b.graph.symbols.fresh("turn")
    own.update(symbols(made))
    return made


def _both(c: Conversion, before: Type, after: Type, own: set[Symbol], inside: bool = False) -> Type:
    """The type that a carried value has both before and after a turn; an open size stays open, and unknown is what one is."""
    if isinstance(before, Unknown) or isinstance(after, Unknown):
        return Unknown()
    if same_kind(before, after):
        return replace(before, element=_both(c, before.element, after.element, own, True))  # type: ignore[union-attr, arg-type]
    if not isinstance(before, Tensor) or not isinstance(after, Tensor) or before.dtype is not after.dtype:
        raise InferError("a turn changes the type of a carried value", expected=str(before), found=str(after))
    if before.shape is None or after.shape is None or len(before.shape) != len(after.shape):
        return Tensor(before.dtype, None)
    shape: list[Any] = []
    for one, other in zip(before.shape, after.shape, strict=True):
        stays = one is None or _is_own(one, own) or (other is not None and c.b.graph.symbols.same(one, other))
        shape.append(one if stays else None if inside else _new(c, own))
    return Tensor(before.dtype, tuple(shape))


@converts("Scan", since=9, seen_through=True)
def scan(
    c: Conversion, *inputs: Value, body: Any, num_scan_inputs: int, scan_input_axes: Sequence[int] = (),
    scan_input_directions: Sequence[int] = (), scan_output_axes: Sequence[int] = (),
    scan_output_directions: Sequence[int] = (),
) -> tuple[Value, ...]:  # fmt: skip
    """Turns over slices of tensors, along any axis and from either end; results are stacked likewise."""
    carried = len(inputs) - num_scan_inputs
    if not 0 <= carried < len(inputs) or len(body.output) < carried:
        raise c.malformed(f"has {len(inputs)} inputs, of which {num_scan_inputs} are scanned")
    scanned = []
    for index, x in enumerate(inputs[carried:]):
        axis = c.axis(scan_input_axes[index], c.rank(x)) if index < len(scan_input_axes) else 0
        backwards = index < len(scan_input_directions) and scan_input_directions[index] == 1
        scanned.append(_reversed(c.b, _moved(c.b, x, axis, 0), backwards))
    results = _scanned(c, c.b, inputs[:carried], scanned, body)
    for index in range(len(results) - carried):
        stacked = results[carried + index]
        axis = c.axis(scan_output_axes[index], c.rank(stacked)) if index < len(scan_output_axes) else 0
        backwards = index < len(scan_output_directions) and scan_output_directions[index] == 1
        results[carried + index] = _moved(c.b, _reversed(c.b, stacked, backwards), 0, axis)
    return tuple(results)


def _scanned(
    c: Conversion, b: Builder, initial: Sequence[Value], scanned: Sequence[Value], body: Any, trip: Value | None = None
) -> list[Value]:
    """The last carried values and the stacked outputs of a body that takes carried values and slices along the first axis."""
    slices = [Tensor(x.tensor.dtype, (x.tensor.shape or ())[1:]) for x in scanned]
    outer, c.b = c.b, b

    def build(types: Sequence[Type]) -> Graph:
        return c.region(
            body, [COUNT, *types, *slices], "body", lambda b, arguments: arguments[1:],
            lambda b, outputs: [b.constant(True), *outputs],
        )  # fmt: skip

    try:
        region = turning(c, [value.type for value in initial], build)
    finally:
        c.b = outer
    made = b.loop(trip, None, [*initial, *scanned], carried=len(initial), regions=[region])
    return [made] if isinstance(made, Value) else list(made)


def _moved(b: Builder, x: Value, source: int, target: int) -> Value:
    """`numpy.moveaxis`."""
    if source == target:
        return x
    order = [axis for axis in range(x.tensor.rank) if axis != source]
    order.insert(target, source)
    made: Value = b.permute(x, perm=order)
    return made


def _reversed(b: Builder, x: Value, really: bool = True) -> Value:
    made: Value = b.flip(x, axes=[0]) if really else x
    return made


@converts("Scan", seen_through=True)
def scan_of_batches(
    c: Conversion, lengths: Value | None = None, *inputs: Value, body: Any, num_scan_inputs: int,
    directions: Sequence[int] = (),
) -> tuple[Value, ...]:  # fmt: skip
    """Every element of a batch by itself, over its own length; what is stacked beyond that is 0."""
    carried = len(inputs) - num_scan_inputs
    if not 0 <= carried < len(inputs):
        raise c.malformed(f"has {len(inputs)} inputs, of which {num_scan_inputs} are scanned")
    whole = [*inputs, *([] if lengths is None else [lengths])]
    shapes = [c.shape(x)[1:] for x in whole]
    types = [Tensor(x.tensor.dtype, shape) for x, shape in zip(whole, shapes, strict=True)]
    longest = c.shape(inputs[carried])[1]

    def one(b: Builder, turn: Value, *slices: Value) -> list[Value]:
        count, scanned = None, list(slices[carried : len(inputs)])
        if lengths is not None:
            count = b.graph.symbols.fresh("length")
            (symbol,) = symbols(count)
            b.graph.symbols.constrain("<=", count, longest)
            b.bind(slices[-1], symbol=symbol)
            scanned = [b.slice(x, axes=[0], starts=[0], ends=[count], steps=[1]) for x in scanned]
        for index, x in enumerate(scanned):
            scanned[index] = _reversed(b, x, index < len(directions) and directions[index] == 1)
        results = _scanned(c, b, slices[:carried], scanned, body)
        if count is not None:
            for index, x in enumerate(results[carried:], carried):
                rest = x.tensor.rank - 1
                after = [longest - count, *[0] * rest]
                results[index] = b.pad(x, None, before=[0] * (rest + 1), after=after, mode="constant")
        return [b.constant(True), *results]

    outer = c.b.subgraph([COUNT, *types], one)
    made = c.b.loop(None, None, whole, carried=0, regions=[outer])
    return (made,) if isinstance(made, Value) else tuple(made)
