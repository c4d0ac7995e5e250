"""Control flow, nested modules, and ops that nobody here knows.

The regions of `if` and `loop` may use values from around them; that of `composite` may not. All three are as pure as
what is in their regions, so who asks for a trait must ask the nodes inside as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from isthmus.ir import attributes, dims
from isthmus.ir.attributes import ANY, INT, INTS, STR, STRS, TYPES
from isthmus.ir.dims import Dim, Symbol, same, substitute, symbols
from isthmus.ir.dtypes import bool_, f32, i64
from isthmus.ir.op import Call, Op, Sample, Trait, operands, register, rng, sample
from isthmus.ir.types import Tensor, Type, Unknown, same_kind

if TYPE_CHECKING:
    from isthmus.ir.builder import Builder
    from isthmus.ir.graph import Graph, Node, Value

_CONDITION = Tensor(bool_, ())
_COUNT = Tensor(i64, ())


@register
class If(Op):
    """The outputs of one of two regions without arguments: of `then` where ``cond`` is true, else of `else`.

    Both have the same number of outputs, of the same dtypes. A dim of a result is that of both where they are the same,
    else a new symbol; where ranks differ the result has no rank. Only the chosen region runs.
    """

    name = "if"
    operands = operands("cond: bool")
    regions = ("then", "else")
    source = "ONNX If-21; torch.cond"

    def infer(self, call: Call) -> Sequence[Type]:
        _scalar(call, 0, "cond")
        then, other = regions(call)
        for region in (then, other):
            if region.inputs:
                raise call.error("a branch takes no arguments; it uses outer values as they are", found=_signature(region))
        if len(then.outputs) != len(other.outputs):
            raise call.error("the branches differ in the number of outputs", expected=_outputs(then), found=_outputs(other))
        return [
            merge(call, left.type, right.type, f"output {index}")
            for index, (left, right) in enumerate(zip(then.outputs, other.outputs, strict=True))
        ]

    def evaluate(self, call: Call, *operands: Any) -> Any:
        then, other = call.regions
        return tuple(call.run(then if operands[0] else other, ()))

    def samples(self) -> Iterable[Sample]:
        x = rng().standard_normal((2, 3)).astype(np.float32)

        def same_shape(b: Builder) -> list[Graph]:
            shared = b.constant(x)
            return [b.subgraph([], lambda b: b.add(shared, shared), "then"), b.subgraph([], lambda b: shared, "else")]

        def other_shape(b: Builder) -> list[Graph]:
            return [
                b.subgraph([], lambda b: (b.constant(x), b.constant(1)), "then"),
                b.subgraph([], lambda b: (b.constant(x[:1]), b.constant(2)), "else"),
            ]

        for cond in (np.True_, np.False_):
            yield sample(cond, regions=same_shape, note=f"captured-{cond}")
            yield sample(cond, regions=other_shape, note=f"shapes-{cond}")


@register
class Loop(Op):
    """Runs `body` again and again; carried values go from turn to turn, scan outputs are stacked.

    Operands: `trip`, the greatest number of turns; `cond`, whether there is a first one; then `carried` initial values,
    then tensors that are scanned: turn i gets element i of their first axis. The loop ends after `trip` turns, when the
    scanned tensors (of equal lengths) are used up, or when the body says so; an absent operand never ends it.

    The body's arguments are the number of the turn (i64, from 0), the carried values and the slices; its outputs are
    whether to go on (bool), the carried values for the next turn and the scan outputs. The loop's results are the last
    carried values (the initial ones after no turn) and the stacked scan outputs.

    Types: a carried argument's type holds for every turn. A dim of it is either known outside, and then the initial
    value and the body's output have that very dim; or it is a new symbol of the body, and then they may differ from it.
    If the body hands on a dim as it is, it stays what it was at the start; else the result's dim is a new symbol. The
    first axis of a stacked result is the number of turns where that is known (nothing can end the loop early), else a
    new symbol. Scan outputs have one shape in all turns.
    """

    name = "loop"
    operands = operands("trip?: i64, cond?: bool, inputs*: type")
    attributes = {"carried": INT}
    regions = ("body",)
    source = "ONNX Loop-21, Scan-21; torch.while_loop, torch.scan"

    def infer(self, call: Call) -> Sequence[Type]:
        (body,) = regions(call)
        carried = call["carried"]
        for index, what in enumerate(("trip", "cond")):
            if call.types[index] is not None:
                _scalar(call, index, what)
        types = [type for type in call.types[2:] if type is not None]
        arguments = [value.type for value in body.inputs]
        outputs = [value.type for value in body.outputs]
        if not 0 <= carried <= len(types):
            raise call.error(f"attribute carried is {carried}", expected=f"0 to {len(types)}, the number of inputs")
        if len(arguments) != 1 + len(types) or arguments[:1] != [_COUNT]:
            expected = f"i64[], {carried} carried values and {len(types) - carried} slices"
            raise call.error("the body has wrong arguments", expected=expected, found=_signature(body))
        if len(outputs) < 1 + carried or outputs[0] != _CONDITION:
            expected = f"bool[], {carried} carried values, scan outputs"
            raise call.error("the body has wrong outputs", expected=expected, found=_outputs(body))
        length, slices = self._slices(call, types[carried:])

        inner = own_symbols(body, [*types[:carried], *slices])
        start: dict[Symbol, Dim] = {}
        turn: dict[Symbol, Dim] = {}
        for index, (argument, given) in enumerate(zip(arguments[1:], types[:carried] + slices, strict=True)):
            match(call, argument, given, inner, start, f"input {index}")
        for index, (argument, made) in enumerate(zip(arguments[1:], outputs[1 : 1 + carried], strict=False)):
            match(call, argument, made, inner, turn, f"carried value {index} after a turn")
        kept = {symbol: start[symbol] for symbol in start if same(turn.get(symbol, symbol.dim), symbol.dim)}
        final = kept | {symbol: call.fresh() for symbol in start if symbol not in kept}

        results: list[Type] = [_substituted(type, final) for type in arguments[1 : 1 + carried]]
        if len(outputs) > 1 + carried:
            turns = self._turns(call, body, length)
            for type in outputs[1 + carried :]:
                if not isinstance(type, Tensor) or type.shape is None:
                    raise call.error("a scan output must be a tensor of known rank", found=str(type))
                varies = [any(symbol in inner and symbol not in kept for symbol in symbols(dim)) for dim in type.shape]
                shape = [call.fresh() if new else substitute(dim, kept) for dim, new in zip(type.shape, varies, strict=True)]
                results.append(Tensor(type.dtype, (turns, *shape)))
        return results

    def _slices(self, call: Call, types: Sequence[Type]) -> tuple[Dim | None, list[Type]]:
        """The length of the scanned tensors, and the types of their slices."""
        length: Dim | None = None
        slices: list[Type] = []
        for type in types:
            if not isinstance(type, Tensor) or not type.shape:
                raise call.error("a scanned input must be a tensor with an axis to scan", found=str(type))
            length = type.shape[0] if length is None else call.unify(length, type.shape[0], "the lengths of scanned inputs")
            slices.append(Tensor(type.dtype, type.shape[1:]))
        return length, slices

    def _turns(self, call: Call, body: Graph, length: Dim | None) -> Dim:
        trip, cond = call.values[:2] if call.values else (None, None)
        limits = [] if length is None else [length]
        if call.types[0] is not None:
            known = None if trip is None else _number(trip)
            if known is None:
                return call.fresh()
            limits.append(dims.maximum(known, 0))
        endless = _always(body.outputs[0]) and (call.types[1] is None or (cond is not None and _always(cond)))
        return dims.minimum(*limits) if endless and limits else call.fresh()

    def evaluate(self, call: Call, *operands: Any) -> Any:
        trip, cond, inputs = operands
        (body,) = call.regions
        count = call["carried"]
        carried, scanned = inputs[:count], inputs[count:]
        stacks: list[list[Any]] = [[] for _ in body.outputs[1 + count :]]
        limits = [len(array) for array in scanned] + ([] if trip is None else [int(trip)])
        limit = min(limits, default=None)
        turn, going = 0, cond is None or bool(cond)
        while going and (limit is None or turn < limit):
            found = call.run(body, [np.int64(turn), *carried, *(array[turn] for array in scanned)])
            going, carried = bool(found[0]), found[1 : 1 + count]
            for stack, item in zip(stacks, found[1 + count :], strict=True):
                stack.append(item)
            turn += 1
        stacked = [np.stack(stack) for stack in stacks] if turn else self._nothing(call, body)
        return (*carried, *stacked)

    def _nothing(self, call: Call, body: Graph) -> list[Any]:
        """The scan outputs of no turn: no elements, of the shape that the body's types say; 0 for a size that only a turn
        could tell."""
        types = [type for type in call.types[2:] if type is not None]
        count = call["carried"]
        starts: dict[Symbol, Dim] = {}
        for argument, type in zip(body.inputs[1:], types, strict=True):
            if isinstance(argument.type, Tensor) and isinstance(type, Tensor) and argument.type.shape and type.shape:
                sizes = type.shape if argument.index <= count else type.shape[1:]
                for dim, size in zip(argument.type.shape, sizes, strict=True):
                    if not isinstance(dim, int) and dim.symbol is not None:
                        starts[dim.symbol] = size
        empty = []
        for value in body.outputs[1 + count :]:
            type = value.tensor
            shape = [call.size(substitute(dim, starts)) or 0 for dim in type.shape or ()]
            empty.append(np.zeros((0, *shape), type.dtype.numpy))
        return empty

    def samples(self) -> Iterable[Sample]:
        x = rng().standard_normal((2, 3)).astype(np.float32)
        rows = rng().standard_normal((4, 3)).astype(np.float32)

        def powers(b: Builder) -> list[Graph]:
            factor = b.constant(x)

            def body(b: Builder, turn: Value, total: Value) -> list[Value]:
                total = b.mul(total, factor)
                return [b.constant(True), total, b.cast(turn, dtype=f32)]

            return [b.subgraph([_COUNT, Tensor(f32, (2, 3))], body)]

        def running_sum(b: Builder) -> list[Graph]:
            def body(b: Builder, turn: Value, total: Value, row: Value) -> list[Value]:
                total = b.add(total, row)
                return [b.constant(True), total, total]

            return [b.subgraph([_COUNT, Tensor(f32, (3,)), Tensor(f32, (3,))], body)]

        def until_large(b: Builder) -> list[Graph]:
            def body(b: Builder, turn: Value, total: Value) -> list[Value]:
                total = b.add(total, 1.0)
                return [b.lt(total, 4.5), total, total]

            return [b.subgraph([_COUNT, Tensor(f32, ())], body)]

        def growing(b: Builder) -> list[Graph]:
            def body(b: Builder, turn: Value, list: Value) -> list[Value]:
                return [b.constant(True), b.concat([list, list], axis=0)]

            return [b.subgraph([_COUNT, Tensor(f32, (b.graph.symbols.fresh("length"),))], body)]

        yield sample(np.int64(3), None, [x], regions=powers, carried=1, note="for")
        yield sample(np.int64(0), None, [x], regions=powers, carried=1, note="no-turn")
        yield sample(None, None, [np.zeros(3, np.float32), rows], regions=running_sum, carried=1, note="scan")
        yield sample(np.int64(2), np.True_, [np.zeros(3, np.float32), rows], regions=running_sum, carried=1, note="both")
        yield sample(None, np.True_, [np.float32(0)], regions=until_large, carried=1, note="while")
        yield sample(np.int64(9), np.False_, [np.float32(0)], regions=until_large, carried=1, note="not-begun")
        yield sample(np.int64(3), None, [x[0]], regions=growing, carried=1, note="growing")


@register
class Composite(Op):
    """A module of the user's, kept whole: the outputs of `body` on the inputs.

    The body uses nothing from outside; a new symbol in an argument's type stands for the size that the input has.
    """

    name = "composite"
    operands = operands("inputs*: type")
    attributes = {"name": STR}
    regions = ("body",)
    traits = Trait.PURE | Trait.COARSE | Trait.ISOLATED
    source = "ONNX functions; torch.nn.Module"

    def infer(self, call: Call) -> Sequence[Type]:
        (body,) = regions(call)
        sizes = self._sizes(call, body)
        given = [type for type in call.types if type is not None]
        used = set(_symbols_of(output.type for output in body.outputs))
        if not used <= sizes.keys() | set(_symbols_of(given)):
            # A size that the body finds out has another name outside, where the result binds it.
            found = used & own_symbols(body, given) - sizes.keys()
            sizes |= {symbol: call.fresh("u", symbol.lo, symbol.hi) for symbol in sorted(found, key=str)}
        return [_substituted(output.type, sizes) for output in body.outputs]

    def _sizes(self, call: Call, body: Graph) -> dict[Symbol, Dim]:
        """What the symbols that the arguments bind stand for, where it is something else."""
        types = [type for type in call.types if type is not None]
        if len(types) != len(body.inputs):
            raise call.error("the body has another number of arguments", expected=f"{len(types)}", found=_signature(body))
        known = set(_symbols_of(types))
        inner = {symbol for value in body.inputs for symbol in _alone(value.type) if symbol not in known}
        sizes: dict[Symbol, Dim] = {}
        for index, (value, given) in enumerate(zip(body.inputs, types, strict=True)):
            match(call, value.type, given, inner, sizes, f"input {index}")
        return sizes

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return tuple(call.run(call.regions[0], operands[0]))

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        (body,) = call.regions
        return tuple(inline(b, body, operands[0], self._sizes(call, body)))

    def samples(self) -> Iterable[Sample]:
        x = rng().standard_normal((2, 3)).astype(np.float32)

        def body(b: Builder) -> list[Graph]:
            types = [Tensor(f32, (2, 3)), Tensor(f32, (3,))]
            return [b.subgraph(types, lambda b, x, y: b.mul(b.add(x, y), 2.0))]

        def sized(b: Builder) -> list[Graph]:
            n = b.graph.symbols.fresh("rows")
            return [b.subgraph([Tensor(f32, (n, 3))], lambda b, x: (b.reshape(x, shape=[n * 3]), b.neg(x)))]

        yield sample([x, x[0]], regions=body, name="Scale")
        yield sample([x], regions=sized, name="Sized", note="symbols")


@register
class Custom(Op):
    """An op that isthmus does not know: named by domain and name, with results of the given types.

    Nothing is assumed about it, so it is not folded or merged, and it has no decomposition; who runs the graph may know how to
    evaluate it.

    The last operands are what its attributes use of what is around them, by the names in `captures`. `absent` are the places
    among its results that nothing stands at, `opsets` the versions of the domains that it and its attributes use. An attribute
    that has no form here is its format's own text by that format's name: ``{onnx="..."}`` is an AttributeProto in base 64.
    """

    name = "custom"
    operands = operands("inputs*: type")
    attributes = {
        "domain": STR, "name": STR, "attributes": ANY({}), "types": TYPES, "captures": STRS(()), "absent": INTS(()),
        "opsets": ANY({}),
    }  # fmt: skip
    traits = Trait.NONE

    def infer(self, call: Call) -> Sequence[Type]:
        return call["types"]  # type: ignore[no-any-return]

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return call.foreign(operands[0])

    def called(self, attrs: Mapping[str, Any]) -> str:
        return ".".join(filter(None, (attrs["domain"], attrs["name"])))


def opaque(node: Node) -> str | None:
    """Why a node is one that only its own format knows; None for others."""
    if not isinstance(node.op, Custom):
        return None
    unknown = "nobody here knows the op"
    return unknown if node.attrs["domain"] else "too little is known of what it works with, or of its attributes"


# ---- regions


def regions(call: Call) -> Sequence[Graph]:
    """The nested graphs.

    Raises:
        InferError: there are not as many as the row says.
    """
    if len(call.regions) != len(call.op.regions):
        raise call.error(f"takes the regions {', '.join(call.op.regions)}", found=f"{len(call.regions)} regions")
    return call.regions


def inline(b: Builder, body: Graph, operands: Sequence[Value], sizes: dict[Symbol, Dim]) -> list[Value]:
    """Copies the nodes of a region in place and gives its outputs; locations are kept.

    Args:
        b: where the copies go.
        body: the region.
        operands: what its inputs stand for.
        sizes: what symbols of the region stand for.
    """
    from isthmus.ir.graph import clone_node

    mapping: dict[Value, Value] = dict(zip(body.inputs, operands, strict=True))
    for node in body.nodes:
        copy = clone_node(node, mapping)
        if sizes:
            _resize(copy, sizes)
        b.graph.insert(copy, b.before)
    return [mapping[value] for value in body.outputs]


def _resize(node: Node, sizes: dict[Symbol, Dim]) -> None:
    """Replaces symbols in a node and all that is nested in it."""
    node.attrs = {name: attributes.substituted(value, sizes) for name, value in node.attrs.items()}
    for value in [*node.results, *(value for region in node.regions for value in region.inputs)]:
        value.type = _substituted(value.type, sizes)
    for region in node.regions:
        for inner in region.nodes:
            _resize(inner, sizes)


def own_symbols(body: Graph, given: Sequence[Type]) -> set[Symbol]:
    """The symbols that a region itself binds: by an argument, or by a node inside it.

    Args:
        body: the region.
        given: types of what its arguments stand for; their symbols come from outside.
    """
    outside = set(_symbols_of([*given, *(value.type for value in body.captured())]))
    found = {symbol for value in body.inputs for symbol in _alone(value.type) if symbol not in outside}
    for node in body.walk():
        outside.update(symbol for symbol in node.symbols() if symbol not in found)
        bound = [value.type for value in node.results] + [value.type for region in node.regions for value in region.inputs]
        found.update(symbol for type in bound for symbol in _alone(type) if symbol not in outside)
        if isinstance(symbol := node.attrs.get("symbol"), Symbol):
            found.add(symbol)
    return found


# ---- types


def _symbols_of(types: Iterable[Type]) -> Iterator[Symbol]:
    for type in types:
        yield from attributes.symbols_in(type)


def _alone(type: Type) -> Iterator[Symbol]:
    """The symbols that stand alone as a dim."""
    if isinstance(type, Tensor):
        for dim in type.shape or ():
            if not isinstance(dim, int) and dim is not None and dim.symbol is not None:
                yield dim.symbol


def _substituted(type: Type, sizes: dict[Symbol, Dim]) -> Type:
    return attributes.substituted(type, sizes) if sizes else type


def match(call: Call, wanted: Type, given: Type, free: set[Symbol], sizes: dict[Symbol, Dim], what: str) -> None:
    """Holds a type against that of a region's argument and finds what the argument's own symbols stand for.

    Args:
        call: where equalities go.
        wanted: the argument's type.
        given: the type of what it stands for.
        free: symbols of `wanted` that stand for any size.
        sizes: what they were found to stand for; added to.
        what: what is looked at, for errors.

    Raises:
        InferError: the types do not fit.
    """
    if not isinstance(wanted, Tensor) or not isinstance(given, Tensor):
        if not _holds(wanted, given):
            raise call.error(f"{what} has another type than the body", expected=str(wanted), found=str(given))
        return
    if wanted.dtype is not given.dtype or (wanted.shape is not None and (given.shape is None or given.rank != wanted.rank)):
        raise call.error(f"{what} has another type than the body", expected=str(wanted), found=str(given))
    if wanted.shape is None or (wanted.shape == given.shape and free.isdisjoint(_symbols_of([wanted]))):
        return
    assert given.shape is not None
    for dim, size in zip(wanted.shape, given.shape, strict=True):
        symbol = None if isinstance(dim, int) else dim.symbol
        if symbol in free and symbol not in sizes:
            sizes[symbol] = size
        else:
            call.unify(substitute(dim, sizes), size, f"the sizes of {what} and the body")


def _holds(wanted: Type, given: Type) -> bool:
    """Whether every value of one type has the other: a rank or dim that is left open holds any, and so does what is unknown."""
    if isinstance(wanted, Unknown):
        return True
    if not isinstance(wanted, Tensor) or not isinstance(given, Tensor):
        return same_kind(wanted, given) and _holds(wanted.element, given.element)  # type: ignore[union-attr]
    if wanted.dtype is not given.dtype or wanted.shape is None:
        return wanted.dtype is given.dtype
    if given.shape is None or len(given.shape) != len(wanted.shape):
        return False
    return all(w is None or w == g for w, g in zip(wanted.shape, given.shape, strict=True))


def merge(call: Call, left: Type, right: Type, what: str, nested: bool = False) -> Type:
    """The type that values of both types have: a dim that differs is new (or open, inside a sequence or optional); unknown
    where one of them is.

    Raises:
        InferError: they differ in more than sizes.
    """
    if isinstance(left, Tensor) and isinstance(right, Tensor) and left.dtype is right.dtype:
        if left.shape is None or right.shape is None or len(left.shape) != len(right.shape):
            return Tensor(left.dtype, None)
        return Tensor(left.dtype, tuple(_joint(call, a, b, nested) for a, b in zip(left.shape, right.shape, strict=True)))
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return Unknown()
    if same_kind(left, right):
        return replace(left, element=merge(call, left.element, right.element, what, True))  # type: ignore[union-attr, arg-type]
    raise call.error(f"{what} has different types", expected=str(left), found=str(right))


def _joint(call: Call, left: Dim, right: Dim, nested: bool) -> Any:
    if left is None or right is None:
        return None
    if call.symbols.same(left, right):
        return left
    if nested:
        return None
    (lo, hi), (other_lo, other_hi) = dims.bounds(left), dims.bounds(right)
    return call.fresh("u", max(0, min(lo, other_lo)), max(hi, other_hi))


def _scalar(call: Call, index: int, what: str) -> None:
    if call.shape(index) != ():
        raise call.error(f"{what} must be a scalar", found=str(call.types[index]))


def _always(value: Value) -> bool:
    """Whether it is the constant true, handed on or not."""
    value = value.source
    return value.weight is not None and bool(value.weight.array())


def _number(value: Value) -> Dim | None:
    """A scalar as a dim, where its op tells."""
    node = value.producer
    if node is None or node.operands:
        return None
    found = node.op.infer_value(node.call())
    elements = found[value.index] if found else None
    return elements[0] if elements else None


def _signature(body: Graph) -> str:
    return f"arguments ({', '.join(str(value.type) for value in body.inputs)})"


def _outputs(body: Graph) -> str:
    return f"outputs ({', '.join(str(value.type) for value in body.outputs)})"
