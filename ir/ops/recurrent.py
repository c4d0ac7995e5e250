"""Recurrent layers: one layer of an LSTM, a GRU or a plain network over time, in one direction or in both.

Layout, order of the gates and results are those of ONNX, so other frameworks' parameters are rearranged on the way in:
``x[time, batch, features]``, ``weight[directions, gates * size, features]``,
``recurrence[directions, gates * size, size]``, ``bias[directions, 2 * gates * size]`` (for the input's share of the gates,
then for the state's). The results are ``y[time, directions, batch, size]`` and the last state, ``[directions, batch, size]``
a tensor. A direction back in time starts at the end, and what it gives out stands where its inputs stand.

`lengths`, at least 1 each, says how long each sequence of the batch is: behind its end y is 0 and the state stays; a
direction back in time starts at that end. A state that is not given is 0.

`activations`, where given, are other functions than the usual ones, in the order that the row names them in, for all directions
or for one after the other: each a name and, where it has them, its alpha and beta. With `clip`, the gates' shares are cut off
at that number on either side before they go into them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeAlias

import numpy as np

from isthmus.ir.attributes import ANY, BOOL, FLOAT, choice
from isthmus.ir.dims import Dim
from isthmus.ir.dtypes import i64
from isthmus.ir.op import Call, Op, Sample, Trait, operands, register, rng, sample
from isthmus.ir.ops.numerics import sigmoid, wide
from isthmus.ir.types import Tensor, Type

if TYPE_CHECKING:
    from isthmus.ir.builder import Builder
    from isthmus.ir.graph import Value

DIRECTIONS: Final = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""By `direction`: whether each of the directions goes back in time."""

Share: TypeAlias = Callable[[Any, int, int], Any]
"""``share(state, first, last)``: what a state adds to the gates from `first` to before `last`, the bias included."""

Function: TypeAlias = Callable[..., Any]


class Activation(NamedTuple):
    """A function that cells may have.

    Attributes:
        numpy: on an array, alpha and beta.
        build: in finer ops, given the builder, too.
        parameters: how many parameters it has, and what they are by default.
    """

    numpy: Function
    build: Function
    parameters: tuple[float, ...] = ()


ACTIVATIONS: Final = {
    "sigmoid": Activation(sigmoid, lambda b, x: b.sigmoid(x)),
    "tanh": Activation(np.tanh, lambda b, x: b.tanh(x)),
    "relu": Activation(lambda x: np.maximum(x, 0), lambda b, x: b.relu(x)),
    "softsign": Activation(lambda x: x / (1 + np.abs(x)), lambda b, x: b.softsign(x)),
    "softplus": Activation(lambda x: np.logaddexp(0, x), lambda b, x: b.softplus(x)),
    "leaky_relu": Activation(lambda x, a: np.where(x > 0, x, a * x), lambda b, x, a: b.leaky_relu(x, alpha=a), (0.01,)),
    "thresholded_relu": Activation(
        lambda x, a: np.where(x > a, x, 0), lambda b, x, a: b.where(b.gt(x, a), x, 0.0), (1.0,)
    ),
    "elu": Activation(lambda x, a: np.where(x > 0, x, a * np.expm1(x)), lambda b, x, a: b.elu(x, alpha=a), (1.0,)),
    "scaled_tanh": Activation(
        lambda x, a, c: a * np.tanh(c * x), lambda b, x, a, c: b.mul(b.tanh(b.mul(x, c)), a), (1.0, 1.0)
    ),
    "hard_sigmoid": Activation(
        lambda x, a, c: np.clip(a * x + c, 0, 1), lambda b, x, a, c: b.hard_sigmoid(x, alpha=a, beta=c), (0.2, 0.5)
    ),
    "affine": Activation(lambda x, a, c: a * x + c, lambda b, x, a, c: b.add(b.mul(x, a), c), (1.0, 0.0)),
}  # fmt: skip
"""By name."""


class Cell(NamedTuple):
    """What one direction's cell computes with.

    Attributes:
        functions: its activations, in order.
        peepholes: what the cell's state adds to the gates; None for nothing.
    """

    functions: Sequence[Function]
    peepholes: Any = None


_OPERANDS = "x: float T, weight: float T, recurrence: float T, bias?: float T, lengths?: index, hidden?: float T"
_COMMON = {"direction": choice(*DIRECTIONS)("forward"), "activations": ANY.optional(), "clip": FLOAT.optional()}


class Recurrent(Op):
    """What the rows have in common.

    Attributes:
        gates: how many gates a cell has.
        states: how many tensors a state consists of; the first is what a step gives out.
        usual: the names of its activations.
    """

    gates: ClassVar[int]
    states: ClassVar[int] = 1
    usual: ClassVar[tuple[str, ...]]
    traits = Trait.PURE | Trait.COARSE

    @abstractmethod
    def step(self, call: Call, ours: Any, share: Share, state: Sequence[Any], cell: Cell) -> list[Any]:
        """The next state in numpy, from the input's share of the gates and the state."""

    @abstractmethod
    def build(
        self, b: Builder, call: Call, ours: Value, share: Share, state: Sequence[Value], cell: Cell
    ) -> list[Value]:  # fmt: skip
        """The next state in finer ops."""

    def functions(self, call: Call, number: int) -> list[tuple[Any, ...]]:
        """The activations of one direction: of each its name and its parameters.

        Raises:
            InferError: there are others than the row has.
        """
        given, count, directions = call["activations"], len(self.usual), len(DIRECTIONS[call["direction"]])
        if given is None:
            return [(name,) for name in self.usual]
        if len(given) not in (count, count * directions):
            raise call.error(f"the row has {count} activations for a direction", found=str(given))
        for name, *parameters in given:
            if name not in ACTIVATIONS or len(parameters) != len(ACTIVATIONS[name].parameters):
                raise call.error("an activation is a name and its parameters", found=str((name, *parameters)))
        return list(given[:count] if len(given) == count else given[number * count : (number + 1) * count])

    # ---- types

    def infer(self, call: Call) -> Sequence[Type]:
        directions, dtype = len(DIRECTIONS[call["direction"]]), call.dtype(0)
        time, batch, features = _hold(call, 0, None, None, None)
        self.functions(call, 0)
        widths = self.widths(call, _hold(call, 2, None, None, None)[2])
        rows = widths[-1] * self.gates
        _hold(call, 1, directions, rows, features)
        _hold(call, 2, directions, rows, None)
        _hold(call, 3, directions, 2 * rows)
        _hold(call, 4, batch)
        for index, width in enumerate(widths, 5):
            _hold(call, index, directions, batch, width)
        return [Tensor(dtype, (time, directions, batch, widths[0])), *(Tensor(dtype, (directions, batch, n)) for n in widths)]

    def widths(self, call: Call, hidden: Dim) -> list[Dim]:
        """The last size of each tensor of the state; the last is that of the gates."""
        return [hidden] * self.states

    # ---- values

    def evaluate(self, call: Call, *operands: Any) -> Any:
        wider: list[Any] = [each if each is None else wide(each) for each in operands]
        x, weight, recurrence, bias, lengths, *rest = wider
        if lengths is None:
            lengths = np.full(x.shape[1], len(x))
        found = []
        with np.errstate(all="ignore"):
            for number, back in enumerate(DIRECTIONS[call["direction"]]):
                own = [each if each is None else each[number] for each in (weight, recurrence, bias, *rest)]
                found.append(self._run(call, number, back, x, lengths, *own))
        y, *last = zip(*found, strict=True)
        dtype = operands[0].dtype
        return tuple(made.astype(dtype, copy=False) for made in (np.stack(y, 1), *map(np.stack, last)))

    def _run(
        self, call: Call, number: int, back: bool, x: Any, lengths: Any, weight: Any, recurrence: Any, bias: Any, *rest: Any
    ) -> list[Any]:  # fmt: skip
        """One direction: what it gives out, then the last state."""
        (time, batch, _), (rows, hidden) = x.shape, recurrence.shape
        size = rows // self.gates
        first_bias, second_bias = np.zeros((2, rows), x.dtype) if bias is None else bias.reshape(2, rows)
        projection, peepholes = rest[self.states :] or (None, None)
        cell = Cell(self._activations(call, number, _of_arrays), peepholes)
        state = [
            np.zeros((batch, width), x.dtype) if start is None else start
            for start, width in zip(rest, (hidden, size), strict=False)
        ]

        def share(h: Any, first: int, last: int) -> Any:
            part = slice(first * size, last * size)
            return h @ recurrence[part].T + second_bias[part]

        ours = x @ weight.T + first_bias
        y = np.zeros((time, batch, hidden), x.dtype)
        for turn in reversed(range(time)) if back else range(time):
            made = self.step(call, ours[turn], share, state, cell)
            if projection is not None:
                made[0] = made[0] @ projection.T
            going = (turn < lengths)[:, None]
            y[turn] = np.where(going, made[0], 0)
            state = [np.where(going, new, old) for new, old in zip(made, state, strict=True)]
        return [y, *state]

    def _activations(self, call: Call, number: int, made: Function) -> list[Function]:
        """The functions of one direction's cell, given what makes one of the clip, a name and parameters. What the state of the
        cell goes into is not cut off."""
        every = enumerate(self.functions(call, number))
        return [made(None if place == 2 else call["clip"], *each) for place, each in every]

    # ---- finer ops

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        x, weight, recurrence, bias, lengths, *rest = operands
        directions = DIRECTIONS[call["direction"]]
        time, batch, _ = call.shape(0)
        inside = None
        if lengths is not None:
            turns = b.unsqueeze(b.arange(stop=time, dtype=lengths.tensor.dtype), axes=[1])
            inside = b.unsqueeze(b.lt(turns, b.unsqueeze(lengths, axes=[0])), axes=[2])  # [time, batch, 1]
        widths = self.widths(call, call.shape(2)[2])
        found = []
        for number, back in enumerate(directions):
            own = [_one(b, each, number, len(directions)) for each in (weight, recurrence, bias, *rest)]
            for place, width in enumerate(widths, 3):
                if own[place] is None:
                    own[place] = b.expand(b.constant(0.0, call.dtype(0)), shape=[batch, width])
            found.append(self._loop(b, call, number, back, x, inside, *own))
        return tuple(_stack(b, each, int(place == 0)) for place, each in enumerate(zip(*found, strict=True)))

    def _loop(
        self, b: Builder, call: Call, number: int, back: bool, x: Value, inside: Value | None, weight: Value,
        recurrence: Value, bias: Value | None, *rest: Value | None,
    ) -> list[Value]:  # fmt: skip
        """One direction: what it gives out, then the last state."""
        state = [each for each in rest[: self.states] if each is not None]
        projection, peepholes = rest[self.states :] or (None, None)
        size = self.widths(call, call.shape(2)[2])[-1]
        first, second = (None, None) if bias is None else b.split(bias, axis=0, sizes=[size * self.gates] * 2)
        # The input's share is computed for all of time at once.
        scanned = [b.linear(x, weight, first), *([] if inside is None else [inside])]
        scanned = [b.flip(each, axes=[0]) if back else each for each in scanned]
        apart = None if peepholes is None else b.split(peepholes, axis=0, sizes=[size] * 3)
        parts: dict[tuple[int, int], list[Any]] = {}

        def part(first: int, last: int) -> list[Any]:
            """The rows of some gates, cut outside of the loop."""
            if (first, last) not in parts:
                both = [recurrence, second]
                whole = last - first == self.gates
                parts[first, last] = both if whole else [_cut(b, each, first * size, last * size) for each in both]
            return parts[first, last]

        def body(inner: Builder, turn: Value, *arguments: Value) -> list[Value]:
            old, (ours, *going) = arguments[: self.states], arguments[self.states :]
            cell = Cell(self._activations(call, number, partial(_of_values, inner)), apart)
            made = self.build(inner, call, ours, lambda h, *gates: inner.linear(h, *part(*gates)), old, cell)
            if projection is not None:
                made[0] = inner.linear(made[0], projection, None)
            kept = [inner.where(going[0], *pair) for pair in zip(made, old, strict=True)] if going else made
            return [inner.constant(True), *kept, made[0]]

        slices = [Tensor(each.tensor.dtype, each.tensor.shape[1:]) for each in scanned]
        region = b.subgraph([Tensor(i64, ()), *(each.type for each in state), *slices], body)
        *last, y = b.loop(None, None, [*state, *scanned], carried=self.states, regions=[region])
        y = b.flip(y, axes=[0]) if back else y
        return [y if inside is None else b.where(inside, y, 0.0), *last]


@register
class LSTM(Recurrent):
    """Long short-term memory, with the gates in the order input, output, forget, cell::

        i, o, f = sigmoid(share of the gate)    c = tanh(share)
        cell = f * cell + i * c                 hidden = o * tanh(cell)

    The activations are these three functions. With `projection` ``[directions, hidden, size]``, a step gives out that matrix
    times `hidden`, which then has its own size. `peepholes` ``[directions, 3 * size]`` times the state of the cell are added to
    the share of i and f, and times the new one to that of o. With `input_forget`, f is ``1 - i``.
    """

    name = "lstm"
    operands = operands(f"{_OPERANDS}, cell?: float T, projection?: float T, peepholes?: float T")
    attributes = _COMMON | {"input_forget": BOOL(False)}
    gates, states = 4, 2
    usual = ("sigmoid", "tanh", "tanh")
    source = "ONNX LSTM-22; torch.nn.LSTM"

    def widths(self, call: Call, hidden: Dim) -> list[Dim]:
        directions = len(DIRECTIONS[call["direction"]])
        projection = _hold(call, 7, directions, hidden, None)
        size = projection[2] if projection else hidden
        _hold(call, 8, directions, 3 * size)
        return [hidden, size]

    def step(self, call: Call, ours: Any, share: Share, state: Sequence[Any], cell: Cell) -> list[Any]:
        (f, g, h), (hidden, old) = cell.functions, state
        enter, leave, keep, new = np.split(ours + share(hidden, 0, 4), 4, 1)
        seen = [0, 0, 0] if cell.peepholes is None else np.split(cell.peepholes, 3)
        enter = f(enter + seen[0] * old)
        keep = 1 - enter if call["input_forget"] else f(keep + seen[2] * old)
        now = keep * old + enter * g(new)
        return [f(leave + seen[1] * now) * h(now), now]

    def build(
        self, b: Builder, call: Call, ours: Value, share: Share, state: Sequence[Value], cell: Cell
    ) -> list[Value]:  # fmt: skip
        (f, g, h), (hidden, old) = cell.functions, state
        enter, leave, keep, new = _gates(b, b.add(ours, share(hidden, 0, 4)), 4)

        def gate(part: Value, place: int, seen: Value) -> Any:
            return f(part if cell.peepholes is None else b.add(part, b.mul(cell.peepholes[place], seen)))

        enter = gate(enter, 0, old)
        keep = b.sub(1.0, enter) if call["input_forget"] else gate(keep, 2, old)
        now = b.add(b.mul(keep, old), b.mul(enter, g(new)))
        return [b.mul(gate(leave, 1, now), h(now)), now]

    def samples(self) -> Iterable[Sample]:
        yield from _samples(4, 2)
        x, weight, recurrence, bias, hidden, cell, matrix = _draw((4, 2, 3), (1, 20, 3), (1, 20, 2), (1, 40), (1, 2, 2),
                                                                  (1, 2, 5), (1, 2, 5))  # fmt: skip
        for note, start, lengths in (("projection", hidden, None), ("projection-of-zero", None, np.array([4, 2]))):
            yield sample(x, weight, recurrence, bias, lengths, start, cell, matrix, note=note, symbolic=_SYMBOLIC)
        weight, recurrence, seen = _draw((2, 20, 3), (2, 20, 5), (2, 15))
        both: dict[str, Any] = {"direction": "bidirectional", "symbolic": _SYMBOLIC}
        yield sample(x, weight, recurrence, None, None, None, None, None, seen, note="peepholes", **both)
        more: dict[str, Any] = {"activations": (("hard_sigmoid", 0.2, 0.5), ("relu",), ("softsign",)), "clip": 0.75}
        yield sample(x, weight, recurrence, note="activations", input_forget=True, **more, **both)


@register
class GRU(Recurrent):
    """Gated recurrent unit, with the gates in the order update, reset, new::

        z, r = sigmoid(share of the gate)       n = tanh(input's share + r * state's share)
        hidden = (1 - z) * n + z * hidden

    The activations are these two functions. Without `linear_before_reset`, the state's share of n is that of ``r * hidden``.
    """

    name = "gru"
    operands = operands(_OPERANDS)
    attributes = _COMMON | {"linear_before_reset": BOOL(True)}
    gates = 3
    usual = ("sigmoid", "tanh")
    source = "ONNX GRU-22; torch.nn.GRU"

    def step(self, call: Call, ours: Any, share: Share, state: Sequence[Any], cell: Cell) -> list[Any]:
        (f, g), (hidden,) = cell.functions, state
        size = ours.shape[1] // 3
        update, reset = np.split(f(ours[:, : 2 * size] + share(hidden, 0, 2)), 2, 1)
        more = reset * share(hidden, 2, 3) if call["linear_before_reset"] else share(reset * hidden, 2, 3)
        new = g(ours[:, 2 * size :] + more)
        return [(1 - update) * new + update * hidden]

    def build(
        self, b: Builder, call: Call, ours: Value, share: Share, state: Sequence[Value], cell: Cell
    ) -> list[Value]:  # fmt: skip
        (f, g), (hidden,) = cell.functions, state
        before = call["linear_before_reset"]
        theirs = _gates(b, share(hidden, 0, 3 if before else 2), 3 if before else 2)
        update, reset, new = _gates(b, ours, 3)
        update, reset = (f(b.add(*pair)) for pair in ((update, theirs[0]), (reset, theirs[1])))
        more = b.mul(reset, theirs[2]) if before else share(b.mul(reset, hidden), 2, 3)
        new = g(b.add(new, more))
        return [b.add(new, b.mul(update, b.sub(hidden, new)))]

    def samples(self) -> Iterable[Sample]:
        yield from _samples(3, 1)
        x, weight, recurrence, bias = _draw((4, 2, 3), (1, 15, 3), (1, 15, 5), (1, 30))
        yield sample(x, weight, recurrence, bias, linear_before_reset=False, note="linear-after-reset", symbolic=_SYMBOLIC)
        more: dict[str, Any] = {"activations": (("leaky_relu", 0.1), ("scaled_tanh", 1.5, 0.5)), "clip": 2.0}
        yield sample(x, weight, recurrence, bias, **more, note="activations", symbolic=_SYMBOLIC)


@register
class RNN(Recurrent):
    """The plain cell: ``hidden = tanh(input's share + state's share)``. The activation is this function."""

    name = "rnn"
    operands = operands(_OPERANDS)
    attributes = _COMMON
    gates = 1
    usual = ("tanh",)
    source = "ONNX RNN-22; torch.nn.RNN"

    def step(self, call: Call, ours: Any, share: Share, state: Sequence[Any], cell: Cell) -> list[Any]:
        return [cell.functions[0](ours + share(state[0], 0, 1))]

    def build(
        self, b: Builder, call: Call, ours: Value, share: Share, state: Sequence[Value], cell: Cell
    ) -> list[Value]:  # fmt: skip
        return [cell.functions[0](b.add(ours, share(state[0], 0, 1)))]

    def samples(self) -> Iterable[Sample]:
        yield from _samples(1, 1)
        yield from _samples(1, 1, activations=(("relu",),))
        x, weight, recurrence = _draw((4, 2, 3), (2, 5, 3), (2, 5, 5))
        for first, second in (("softplus",), ("affine", 0.5, 0.1)), (("elu", 0.5), ("thresholded_relu", 0.3)):
            yield sample(x, weight, recurrence, note=f"{first[0]}-{second[0]}", direction="bidirectional",
                         activations=(first, second), symbolic=_SYMBOLIC)  # fmt: skip


# ---- pieces


def _of_arrays(clip: float | None, name: str, *parameters: float) -> Function:
    """An activation in numpy."""
    return lambda x: ACTIVATIONS[name].numpy(x if clip is None else np.clip(x, -clip, clip), *parameters)


def _of_values(b: Builder, clip: float | None, name: str, *parameters: float) -> Function:
    """An activation in finer ops."""
    return lambda x: ACTIVATIONS[name].build(b, x if clip is None else b.clip(x, -clip, clip), *parameters)


def _hold(call: Call, index: int, *wanted: Dim | None) -> tuple[Dim, ...]:
    """The shape of an operand, held against what it must be; None holds any size. An absent operand has none.

    Raises:
        InferError: it is another.
    """
    if index >= len(call.types) or call.types[index] is None:
        return ()
    shape, name = call.shape(index), call.op.operand_name(index)
    if len(shape) != len(wanted):
        raise call.error(f"operand {name} must have rank {len(wanted)}", found=str(call.types[index]))
    for size, other in zip(shape, wanted, strict=True):
        if other is not None:
            call.unify(size, other, f"the sizes of {name} and of the others")
    return shape


def _cut(b: Builder, value: Value | None, first: Dim, last: Dim) -> Any:
    """A part along the first axis."""
    return None if value is None else b.slice(value, axes=[0], starts=[first], ends=[last], steps=[1])


def _one(b: Builder, value: Value | None, number: int, count: int) -> Any:
    """The part of one direction."""
    part = value if count == 1 else _cut(b, value, number, number + 1)
    return None if part is None else b.squeeze(part, axes=[0])


def _stack(b: Builder, values: Sequence[Value], axis: int) -> Any:
    """The results of the directions side by side."""
    wide = [b.unsqueeze(value, axes=[axis]) for value in values]
    return wide[0] if len(wide) == 1 else b.concat(wide, axis=axis)


def _gates(b: Builder, share: Value, count: int) -> list[Value]:
    """A share of the gates taken apart."""
    size = share.tensor.shape[1]  # type: ignore[index]
    return list(b.split(share, axis=1, sizes=[size // count] * count))


_SYMBOLIC: Final = ("x", "lengths", "hidden", "cell")
"""The operands of samples that may have sizes of any kind; parameters have theirs."""


def _draw(*shapes: tuple[int, ...]) -> list[Any]:
    draws = rng()
    return [draws.standard_normal(shape).astype(np.float32) for shape in shapes]


def _samples(gates: int, states: int, **attrs: Any) -> Iterable[Sample]:
    word = "-".join(each[0] for each in attrs.get("activations", ()))

    def made(directions: int, *notes: str, lengths: Any = None, given: bool = True, dtype: Any = np.float32) -> Sample:
        start = [(directions, 2, 5)] * states
        arrays = _draw((4, 2, 3), (directions, gates * 5, 3), (directions, gates * 5, 5), (directions, 2 * gates * 5), *start)
        x, weight, recurrence, bias, *state = (array.astype(dtype) for array in arrays)
        note = "-".join(filter(None, (word, *notes)))
        direction = "bidirectional" if directions > 1 else "reverse" if "reverse" in notes else "forward"
        operands = [bias, lengths, *state] if given else [None, lengths]
        return sample(x, weight, recurrence, *operands, direction=direction, note=note, symbolic=_SYMBOLIC, **attrs)

    yield made(1)
    yield made(1, "reverse")
    yield made(2, "both", given=False)
    if not word:
        yield made(1, "lengths", lengths=np.array([4, 2], np.int32))
        yield made(2, "lengths-both", lengths=np.array([1, 3]))
        yield made(1, "f64", dtype=np.float64)
