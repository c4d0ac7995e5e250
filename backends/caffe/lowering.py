"""What Caffe cannot say, in ops that it can: windows, padding, broadcasting, reductions, rearrangements.

Each gives the same numbers as the op, up to rounding. Every one returns None where it has no way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from isthmus.backends.caffe.dialect import Dialect
from isthmus.backends.caffe.layers import build, lowers, scalar, sizes
from isthmus.backends.caffe.weights import broadcast, derived, dilated, full, spread, transposed, viewed
from isthmus.ir.builder import Builder
from isthmus.ir.dims import product
from isthmus.ir.graph import Node, Value
from isthmus.ir.op import Trait
from isthmus.ir.ops.resize import taps

PIECES = 64
"""Into so many pieces at most a rearrangement cuts an axis."""

CHANNELS = 1024
"""So many channels at most are put in another order: their kernel has the square of that many elements."""

NEUTRAL = {"strides": [1, 1], "pads": [0, 0, 0, 0], "dilations": [1, 1]}


# ---- views: rank 4, with the axis that matters third, and axis 0 kept


def _view(b: Builder, x: Value, first: int, last: int, work: Callable[[Value], Value]) -> Value:
    """Works on the axes from `first` to `last` of x as if they were the height of ``[N, channels, height, width]``.

    Axis 0 stays the batch unless it is one of them.
    """
    shape: tuple[Any, ...] = sizes(x)
    lead = (shape[0], product(shape[1:first])) if first else (1, 1)
    seen = build(b, "reshape", x, shape=[*lead, product(shape[first : last + 1]), product(shape[last + 1 :])])
    made = work(seen)
    height = sizes(made)[2]
    middle = [1] * (last - first) + [height] if last > first else [height]
    return build(b, "reshape", made, shape=[*shape[:first], *middle, *shape[last + 1 :]])


def depthwise(b: Builder, x: Value, kernel: Sequence[int], number: float, **attrs: Any) -> Value:
    """Each channel of x by itself, convolved with a kernel that is the same number all over."""
    channels = sizes(x)[1]
    weight = b.constant(full((channels, 1, *kernel), number))
    return build(b, "conv", x, weight, None, groups=channels, **(NEUTRAL | attrs))


# ---- windows


@lowers("conv")
def _conv(b: Builder, dialect: Dialect, node: Node, x: Value, weight: Value, bias: Value | None) -> Any:
    if x.tensor.rank == 3:
        return _one_axis(b, node, x, weight, bias)
    held = weight.weight
    if x.tensor.rank != 4 or held is None:
        return None
    attrs = node.attrs
    dilations = attrs["dilations"]
    if dilations[0] != dilations[1] and "dilation" in dialect.layers["Convolution"].single:
        return b.conv(x, b.constant(dilated(held, dilations, (0, 0))), bias, **{**attrs, "dilations": [1, 1]})
    spans = [(k - 1) * d + 1 for k, d in zip(held.shape[2:], dilations, strict=True)]
    return _even(b, node, x, spans, lambda pads: b.conv(x, weight, bias, **{**attrs, "pads": pads}), up=False)


def _one_axis(b: Builder, node: Node, x: Value, *more: Value | None) -> Any:
    """A window over one spatial axis, as one over two of which the first has size 1."""
    attrs: dict[str, Any] = dict(node.attrs)
    for name, unit in (("kernel", 1), ("strides", 1), ("dilations", 1), ("output_padding", 0)):
        if name in attrs:
            attrs[name] = [unit, *attrs[name]]
    attrs["pads"] = [0, attrs["pads"][0], 0, attrs["pads"][1]]
    operands: list[Value | None] = []
    if more:
        held = None if more[0] is None else more[0].weight
        if held is None:
            return None
        operands = [b.constant(viewed(held, (*held.shape[:2], 1, held.shape[2]))), *more[1:]]
    shape = sizes(x)
    flat = build(b, "reshape", x, shape=[*shape[:2], 1, shape[2]])
    found = build(b, node.op.name, flat, *operands, **attrs)
    return b.reshape(found, shape=node.result.tensor.shape)


def _even(
    b: Builder, node: Node, x: Value, spans: Sequence[int], make: Callable[[list[int]], Value], up: bool,
) -> Value | None:  # fmt: skip
    """A window with the same padding on both sides, of whose results those that are wanted are cut out.

    Args:
        b: builds.
        node: has the attributes `strides` and `pads`.
        x: what the windows slide over.
        spans: from the first to behind the last element of a window.
        make: builds the windows with other pads.
        up: whether the target rounds the number of windows up.
    """
    inside, wanted = sizes(x)[2:], sizes(node.result)[2:]
    strides, pads = node.attrs["strides"], node.attrs["pads"]
    even: list[int] = []
    cuts: list[tuple[int, int]] = []
    for axis, (size, count, span, stride) in enumerate(zip(inside, wanted, spans, strides, strict=True)):
        before = pads[axis]
        needed = max(before, (count - 1) * stride + span - before - size)
        pad = needed if not up else max(needed if pads[axis] != pads[axis + 2] else before, before)
        pad += -(pad - before) % stride
        even.append(pad)
        cuts.append(((pad - before) // stride, count))
    if up and any(pad >= span for pad, span in zip(even, spans, strict=True)):
        return None
    full_pads = [*even, *even]
    if not up and full_pads == list(pads):
        return None
    return _cut(b, make(full_pads), cuts)


def _cut(b: Builder, x: Value, cuts: Sequence[tuple[int, int]]) -> Value:
    """The spatial axes from a place on, so many elements each."""
    for axis, (start, count) in enumerate(cuts, 2):
        if (start, count) != (0, sizes(x)[axis]):
            x = build(b, "slice", x, axes=[axis], starts=[start], ends=[start + count], steps=[1])
    return x


@lowers("max_pool", "avg_pool")
def _pool(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    attrs = node.attrs
    if x.tensor.rank == 3:
        return _one_axis(b, node, x)
    if x.tensor.rank != 4 or set(attrs.get("dilations", (1,))) != {1}:
        return None
    kernel, strides, pads = attrs["kernel"], attrs["strides"], attrs["pads"]
    mean = node.op.name == "avg_pool"
    inside, wanted = sizes(x)[2:], sizes(node.result)[2:]
    if mean and attrs["divisor"] is not None:
        return _with_divisor(b, node, x)
    if mean and any(pads) and not attrs["count_include_pad"]:
        counting = {**attrs, "count_include_pad": True}
        ones = build(b, "add", build(b, "mul", x, 0.0), 1.0)
        return b.div(b.avg_pool(x, **counting), b.avg_pool(ones, **counting))
    if mean and any(pads) and (not dialect.pooling.padded_average or tuple(pads[:2]) != tuple(pads[2:])):
        padded = build(b, "pad", x, None, before=[0, 0, *pads[:2]], after=[0, 0, *pads[2:]])
        return b.avg_pool(padded, **{**attrs, "pads": [0] * 4})
    starts = [-pad for pad in pads[:2]]
    reach = [(n - 1) * step + start + k for n, step, start, k in zip(wanted, strides, starts, kernel, strict=True)]
    if not any(pads) and all(end <= size for end, size in zip(reach, inside, strict=True)):
        if any(step > k for step, k in zip(strides, kernel, strict=True)):
            # A window behind the end cannot come about where nothing is left over.
            return None if tuple(reach) == tuple(inside) else getattr(b, node.op.name)(_cut(b, x, [(0, n) for n in reach]), **attrs)
    more = {**attrs, "ceil_mode": True}
    found = _even(b, node, x, kernel, lambda even: getattr(b, node.op.name)(x, **{**more, "pads": even}), up=True)
    again = found is not None and found.producer is not None and found.producer.op is node.op
    return None if again and found is not None and found.producer is not None and found.producer.attrs == attrs else found


def _with_divisor(b: Builder, node: Node, x: Value) -> Any:
    """The sum of each window, by a kernel of ones, over the divisor."""
    attrs = node.attrs
    strides, pads, kernel = attrs["strides"], list(attrs["pads"]), attrs["kernel"]
    counts = sizes(node.result)[2:]
    for axis, (size, n, k, stride) in enumerate(zip(sizes(x)[2:], counts, kernel, strides, strict=True)):
        pads[axis + 2] = max(0, (n - 1) * stride + k - pads[axis] - size)
    return depthwise(b, x, kernel, 1 / attrs["divisor"], strides=strides, pads=pads)


@lowers("conv_transpose")
def _conv_transpose(b: Builder, dialect: Dialect, node: Node, x: Value, weight: Value, bias: Value | None) -> Any:
    """Less padding and a cut in place of padding that is uneven, of output padding, and of what lies behind the end."""
    if x.tensor.rank == 3:
        return _one_axis(b, node, x, weight, bias)
    held = weight.weight
    if x.tensor.rank != 4 or held is None:
        return None
    attrs = node.attrs
    pads, extra, dilations = attrs["pads"], attrs["output_padding"], attrs["dilations"]
    spread_out = set(dilations) != {1} and (
        "dilation" not in dialect.layers["Deconvolution"].fields or dilations[0] != dilations[1]
    )
    beyond = [max(0, more - pad) for more, pad in zip(extra, pads[2:], strict=True)]
    if spread_out or any(beyond):
        if any(beyond) and set(dilations) != {1}:
            spread_out = True
        held = dilated(held, dilations if spread_out else (1, 1), beyond)
        weight = b.constant(held)
        dilations = [1, 1] if spread_out else dilations
    ends = [pad + more - out for pad, more, out in zip(pads[2:], beyond, extra, strict=True)]
    even = [min(begin, end) for begin, end in zip(pads[:2], ends, strict=True)]
    new = {**attrs, "pads": [*even, *even], "output_padding": [0, 0], "dilations": dilations}
    if new == attrs:
        return None
    found = build(b, "conv_transpose", x, weight, bias, **new)
    return _cut(b, found, [(pad - less, n) for pad, less, n in zip(pads[:2], even, sizes(node.result)[2:], strict=True)])


# ---- products


@lowers("linear")
def _linear(b: Builder, dialect: Dialect, node: Node, x: Value, weight: Value, bias: Value | None) -> Any:
    held = weight.weight
    if held is None:
        return None
    shape: Any = sizes(x)
    if x.tensor.rank == 1:
        return b.reshape(b.linear(b.reshape(x, shape=[1, *shape]), weight, bias), shape=[held.shape[0]])
    if x.tensor.rank != 2 and dialect.batch == "free":
        rows = product(shape[:-1])
        found = b.linear(b.reshape(x, shape=[rows, shape[-1]]), weight, bias)
        return b.reshape(found, shape=[*shape[:-1], held.shape[0]])
    return None


@lowers("matmul")
def _matmul(b: Builder, dialect: Dialect, node: Node, x: Value, y: Value) -> Any:
    held = y.weight
    if held is None or x.weight is not None or len(held.shape) > 2:
        return None
    if len(held.shape) == 1:
        found = build(b, "linear", x, b.constant(viewed(held, (1, *held.shape))), None)
        return b.reshape(found, shape=node.result.tensor.shape) if node.result.tensor.rank else None
    return b.linear(x, b.constant(transposed(held)), None)


# ---- broadcasting


@lowers("add", "sub", "mul", "div", "maximum", "minimum")
def _binary(b: Builder, dialect: Dialect, node: Node, x: Value, y: Value) -> Any:
    """Blobs are brought to the shape of the result; so are constants, to a shape with an element a channel."""
    wanted = sizes(node.result)
    if x.weight is None and y.weight is None:
        if sizes(x) == sizes(y):
            return None
        return getattr(b, node.op.name)(*(value if sizes(value) == wanted else _expand(b, value, wanted) for value in (x, y)))
    if x.weight is not None and y.weight is not None:
        return None
    value, held = (x, y) if y.weight is not None else (y, x)
    if sizes(value) != wanted:
        return _flipped(b, node, _expand(b, value, wanted), held, value is x)
    weight = held.weight
    if weight is None or weight.size == 1 or node.op.name in ("maximum", "minimum") or (node.op.name == "div" and value is y):
        return None
    aligned = (1,) * (len(wanted) - len(weight.shape)) + weight.shape
    lead = 0 if len(wanted) == 1 or aligned[0] != 1 else 1
    if lead == 0 and (dialect.batch == "kept" and wanted[0] != 1):
        return None
    if not lead and wanted[0] == 1:
        lead = 1
    flat_size = int(np.prod(wanted[lead:], dtype=np.int64))
    flat = (wanted[0], flat_size) if lead else (1, flat_size)
    if flat == wanted:
        return None
    whole = viewed(broadcast(weight, (1, *wanted[1:]) if lead else wanted), (flat_size,))
    made = _flipped(b, node, build(b, "reshape", value, shape=flat), b.constant(whole), value is x)
    return b.reshape(made, shape=node.result.tensor.shape)


def _flipped(b: Builder, node: Node, value: Value, held: Value, first: bool) -> Value:
    return build(b, node.op.name, *((value, held) if first else (held, value)))


@lowers("expand")
def _lower_expand(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    return _expand(b, x, sizes(node.result))


def _expand(b: Builder, x: Value, wanted: tuple[int, ...]) -> Value:
    """x repeated: over the last axes by a transposed convolution with ones, over channels by a convolution with ones."""
    shape: tuple[Any, ...] = sizes(x)
    if len(shape) < len(wanted):
        shape = (*(1,) * (len(wanted) - len(shape)), *shape)
        x = build(b, "reshape", x, shape=shape)
    repeats = [axis for axis, (old, new) in enumerate(zip(shape, wanted, strict=True)) if old != new]
    if len(shape) == 4 and repeats and set(repeats) <= {2, 3} and repeats == [axis for axis in (2, 3) if axis in repeats]:
        kernel = [wanted[axis] if axis in repeats else 1 for axis in (2, 3)]
        return _repeat(b, x, kernel)
    for axis in repeats:
        count = wanted[axis]
        if len(shape) == 4 and axis == 1:
            x = build(b, "conv", x, b.constant(full((count, 1, 1, 1), 1.0)), None, **NEUTRAL)
        elif axis == 0 or count <= 8:
            x = build(b, "concat", [x] * count, axis=axis)
        else:
            x = _view(b, x, axis, axis, lambda seen, count=count: _repeat(b, seen, [count, 1]))  # type: ignore[misc]
    return x if repeats else build(b, "identity", x)


def _repeat(b: Builder, x: Value, factors: Sequence[int]) -> Value:
    """Each element as a block."""
    channels = sizes(x)[1]
    weight = b.constant(full((channels, 1, *factors), 1.0))
    attrs = {"strides": list(factors), "pads": [0] * 4, "output_padding": [0, 0], "dilations": [1, 1]}
    return build(b, "conv_transpose", x, weight, None, groups=channels, **attrs)


@lowers("tile")
def _tile(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    repeats = node.attrs["repeats"]
    if len(repeats) != x.tensor.rank or max(repeats, default=0) > PIECES or min(repeats, default=0) < 1:
        return None
    for axis, count in enumerate(repeats):
        if count != 1:
            x = build(b, "concat", [x] * count, axis=axis)
    return x


# ---- reductions


@lowers("reduce_mean", "reduce_sum", "reduce_max", "reduce_min")
def _reduce(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    """A pool over a run of axes; over several runs one after the other."""
    shape, rank, name = sizes(x), x.tensor.rank, node.op.name
    axes = sorted(axis % rank for axis in node.attrs["axes"])
    if not axes or not all(isinstance(size, int) for size in (shape[axis] for axis in axes)):
        return None
    if name == "reduce_min":
        turned = build(b, "reduce_max", build(b, "neg", x), **node.attrs)
        return b.neg(turned)
    found = x
    while axes:
        last = first = axes.pop()
        while axes and axes[-1] == first - 1:
            first = axes.pop()
        count = math.prod(shape[first : last + 1])
        found = _over(b, found, first, last, name)
        if name == "reduce_sum" and count != 1:
            found = build(b, "mul", found, float(count))
    wanted = node.result.tensor.shape
    return found if found.tensor.shape == wanted else build(b, "reshape", found, shape=wanted)


def _over(b: Builder, x: Value, first: int, last: int, name: str) -> Value:
    def pool(seen: Value) -> Value:
        attrs = {"kernel": [*sizes(seen)[2:]] if both else [sizes(seen)[2], 1], "strides": [1, 1], "pads": [0] * 4}
        if name == "reduce_max":
            return build(b, "max_pool", seen, dilations=[1, 1], **attrs)
        return build(b, "avg_pool", seen, **attrs)

    both = x.tensor.rank == 4 and (first, last) == (2, 3)
    return pool(x) if both else _view(b, x, first, last, pool)


# ---- padding, picking, rearranging


@lowers("pad")
def _pad(b: Builder, dialect: Dialect, node: Node, x: Value, value: Value | None) -> Any:
    """With zeros, by a convolution that does nothing but pad; with the tensor's own elements, by cutting and joining."""
    before, after, mode = node.attrs["before"], node.attrs["after"], node.attrs["mode"]
    if not all(isinstance(size, int) for size in (*before, *after)):
        return None
    if mode != "constant":
        for axis, (low, high) in enumerate(zip(before, after, strict=True)):
            if low or high:
                size = sizes(x)[axis]
                x = _picked(b, x, axis, np.pad(np.arange(size), (low, high), mode).tolist()) if low + high <= PIECES else x
                if sizes(x)[axis] != size + low + high:
                    return None
        return x
    number = 0.0 if value is None else scalar(value)
    if number is None or not math.isfinite(number):
        return None
    if number:
        padded = build(b, "pad", build(b, "sub", x, number), None, before=before, after=after)
        return b.add(padded, number)
    rest = [axis for axis in range(x.tensor.rank) if before[axis] or after[axis]]
    if x.tensor.rank == 4 and set(rest) <= {2, 3}:
        return depthwise(b, x, [1, 1], 1.0, pads=[*before[2:], *after[2:]])
    for axis in rest:
        pads = [before[axis], 0, after[axis], 0]
        x = _view(b, x, axis, axis, lambda seen, pads=pads: depthwise(b, seen, [1, 1], 1.0, pads=pads))  # type: ignore[misc]
    return x


@lowers("slice")
def _slice(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    """One axis at a time; a step, by a convolution that takes every so many elements."""
    attrs = node.attrs
    rows = list(zip(attrs["axes"], attrs["starts"], attrs["ends"], attrs["steps"], strict=True))
    if not all(isinstance(bound, int) for row in rows for bound in row):
        return None
    if node.result.tensor.shape == x.tensor.shape:
        return x
    if len(rows) == 1 and rows[0][3] == 1:
        return None
    rank = x.tensor.rank
    for axis, start, end, step in ((row[0] % rank, *row[1:]) for row in rows):
        if (start, end) != (0, sizes(x)[axis]):
            x = build(b, "slice", x, axes=[axis], starts=[start], ends=[end], steps=[1])
        if step != 1:
            if rank == 4 and axis in (2, 3):
                x = depthwise(b, x, [1, 1], 1.0, strides=[step, 1] if axis == 2 else [1, step])
            else:
                x = _view(b, x, axis, axis, lambda seen, n=step: depthwise(b, seen, [1, 1], 1.0, strides=[n, 1]))  # type: ignore[misc]
    return x


def _picked(b: Builder, x: Value, axis: int, indices: Sequence[int]) -> Value | None:
    """The elements of an axis at these places, by runs; None where they are too many pieces."""
    runs: list[tuple[int, int]] = []
    for index in indices:
        if runs and runs[-1][1] == index:
            runs[-1] = (runs[-1][0], index + 1)
        else:
            runs.append((index, index + 1))
    if not runs or len(runs) > PIECES:
        return None
    size = sizes(x)[axis]
    cut: dict[tuple[int, int], Value] = {(0, size): x}
    for start, end in runs:
        if (start, end) not in cut:
            cut[start, end] = build(b, "slice", x, axes=[axis], starts=[start], ends=[end], steps=[1])
    parts = [cut[run] for run in runs]
    return build(b, "concat", parts, axis=axis) if len(parts) > 1 else parts[0]


@lowers("gather")
def _gather(b: Builder, dialect: Dialect, node: Node, x: Value, indices: Value) -> Any:
    held = indices.weight
    axis = node.attrs["axis"] % x.tensor.rank
    size = sizes(x)[axis]
    if held is None or not isinstance(size, int) or held.size > 1 << 16:
        return None
    found = _picked(b, x, axis, [int(index) % size for index in held.array().reshape(-1)])
    wanted = node.result.tensor.shape
    return found if found is None or found.tensor.shape == wanted else b.reshape(found, shape=wanted)


@lowers("flip", "roll")
def _turned(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    found: Value | None = x
    for place, axis in enumerate(node.attrs["axes"]):
        axis %= x.tensor.rank
        order = np.arange(sizes(x)[axis])
        order = order[::-1] if node.op.name == "flip" else np.roll(order, node.attrs["shifts"][place])
        found = None if found is None else _picked(b, found, axis, order.tolist())
    return found


@lowers("concat")
def _concat(b: Builder, dialect: Dialect, node: Node, xs: list[Value]) -> Any:
    """Empty parts left out, many parts in groups."""
    axis = node.attrs["axis"] % node.result.tensor.rank
    full_parts = [x for x in xs if sizes(x)[axis] != 0]
    if not full_parts or len(full_parts) == len(xs):
        return None
    return b.concat(full_parts, axis=axis) if len(full_parts) > 1 else build(b, "identity", full_parts[0])


@lowers("permute")
def _permute(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    found = _rearranged(b, node)
    if found is None or node.result.tensor.rank > dialect.max_rank:
        return None
    return b.reshape(found, shape=node.result.tensor.shape)


@lowers("reshape")
def _reshape(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    """Behind a permutation that has no blob of its own, together with it."""
    turn = x.producer
    if turn is None or turn.op.name != "permute":
        return None
    found = _rearranged(b, turn)
    wanted = node.result.tensor.shape
    return found if found is None or found.tensor.shape == wanted else b.reshape(found, shape=wanted)


def _rearranged(b: Builder, turn: Node) -> Value | None:
    """Something of rank 4 whose elements are, in row-major order, those of a permutation; None where there is no way.

    These are how people spell a shuffle of channels, and channels that move into space.
    """
    x = turn.operands[0]
    assert x is not None
    split, perm = sizes(x), list(turn.attrs["perm"])
    while x.producer is not None and Trait.LAYOUT in x.producer.op.traits and x.producer.operands[0] is not None:
        x = x.producer.operands[0]
    moved = [axis for axis in perm if split[axis] != 1]
    if moved == sorted(moved):
        return x
    if perm[0] != 0 or not all(isinstance(size, int) for size in split[1:]):
        return None
    origin = sizes(x)
    last = max(axis for axis, source in enumerate(perm) if axis != source)
    if len(split) == 6 and perm == [0, 1, 4, 2, 5, 3] and (*origin[:1], *origin[2:]) == (split[0], *split[4:]):
        return _to_space(b, x, *split[1:4])
    count = math.prod(split[1 : last + 1])
    if count > CHANNELS:
        return None
    order = np.arange(count).reshape(split[1 : last + 1]).transpose([axis - 1 for axis in perm[1 : last + 1]]).reshape(-1)
    if len(origin) != 4 or origin[:2] != (split[0], count):
        x = build(b, "reshape", x, shape=[split[0], count, math.prod(split[last + 1 :]), 1])
    return _channels(b, x, order)


def _channels(b: Builder, x: Value, order: Any) -> Value:
    """The channels in another order, by a convolution whose kernel is a permutation."""
    count = len(order)
    if count <= PIECES:
        found = _picked(b, x, 1, order.tolist())
        if found is not None:
            return found
    weight = derived((count, count, 1, 1), lambda: np.eye(count, dtype=np.float32)[order][:, :, None, None], (), ("order", tuple(order)))
    return build(b, "conv", x, b.constant(weight), None, **NEUTRAL)


def _to_space(b: Builder, x: Value, channels: int, rows: int, columns: int) -> Value:
    """Channels as the elements of blocks, by a transposed convolution whose kernels each have one 1."""
    block = rows * columns
    eye = derived(
        (channels * block, 1, rows, columns),
        lambda: np.tile(np.eye(block, dtype=np.float32).reshape(block, 1, rows, columns), (channels, 1, 1, 1)), (), "to space",
    )  # fmt: skip
    attrs = {"strides": [rows, columns], "pads": [0] * 4, "output_padding": [0, 0], "dilations": [1, 1]}
    return build(b, "conv_transpose", x, b.constant(eye), None, groups=channels, **attrs)


# ---- resizing


@lowers("resize")
def _resize(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    """Whole factors: blocks of equal elements, or a transposed convolution over an input whose edges are repeated."""
    attrs = node.attrs
    if x.tensor.rank == 3:
        shape = sizes(x)
        scales = attrs["scales"] and [1.0, *attrs["scales"]]
        flat = build(b, "reshape", x, shape=[*shape[:2], 1, shape[2]])
        found = build(b, "resize", flat, **{**attrs, "sizes": [1, *attrs["sizes"]], "scales": scales})
        return b.reshape(found, shape=node.result.tensor.shape)
    if x.tensor.rank != 4 or attrs["antialias"] or attrs["mode"] == "cubic":
        return None
    lengths, wanted = sizes(x)[2:], attrs["sizes"]
    call = node.call()
    every: list[list[int]] = []
    for axis, (length, size) in enumerate(zip(lengths, wanted, strict=True)):
        scale = None if attrs["scales"] is None else attrs["scales"][axis]
        if not isinstance(size, int):
            return None
        if size == length and scale in (None, 1.0):
            every.append(list(range(size)))
            continue
        indices, weights = taps(call, length, size, scale, np.float32)
        if attrs["mode"] == "linear":
            factor = size // length
            if size % length or not _is_triangle(indices, weights, length, factor):
                return None
        every.append(indices[0].tolist())
    if attrs["mode"] == "linear":
        return _linear_up(b, x, [size // length for length, size in zip(lengths, wanted, strict=True)])
    factors = [size // length for length, size in zip(lengths, wanted, strict=True)]
    blocks = [
        indices == [place // factor for place in range(size)]
        for indices, factor, size in zip(every, factors, wanted, strict=True) if factor
    ]  # fmt: skip
    if len(blocks) == 2 and all(blocks) and all(size % length == 0 for length, size in zip(lengths, wanted, strict=True)):
        return _repeat(b, x, factors)
    found: Value | None = x
    for axis, indices in enumerate(every, 2):
        found = None if found is None else _strided(b, found, axis, indices)
    return found


def _strided(b: Builder, x: Value, axis: int, indices: Sequence[int]) -> Value | None:
    """Elements at places of equal distance, by a slice; others by runs."""
    steps = {after - before for before, after in zip(indices, indices[1:], strict=False)}
    if len(steps) == 1 and (step := steps.pop()) > 0:
        found = build(b, "slice", x, axes=[axis], starts=[indices[0]], ends=[indices[-1] + 1], steps=[step])
        return found
    return _picked(b, x, axis, indices)


def _is_triangle(indices: list[Any], weights: list[Any], length: int, factor: int) -> bool:
    """Whether the taps are those of half-pixel interpolation by a whole factor, with the edges repeated."""
    at = (np.arange(length * factor) + 0.5) / factor - 0.5
    first = np.floor(at)
    found = np.zeros((length * factor, length))
    wanted = np.zeros_like(found)
    for place, weight in zip(indices, weights, strict=True):
        np.add.at(found, (np.arange(len(place)), place), weight)
    for step in (0, 1):
        places = np.clip(first + step, 0, length - 1).astype(int)
        np.add.at(wanted, (np.arange(len(places)), places), 1 - np.abs(at - first - step))
    return bool(np.allclose(found, wanted, atol=1e-6))


def _linear_up(b: Builder, x: Value, factors: Sequence[int]) -> Value:
    """Edges repeated once, then a transposed convolution with triangles, then what belongs to the edges cut away."""
    shape = sizes(x)
    channels = shape[1]
    edges = [1 if factor > 1 else 0 for factor in factors]
    wide = build(b, "pad", x, None, before=[0, 0, *edges], after=[0, 0, *edges], mode="edge")
    sides = [_triangle(factor) for factor in factors]
    kernel = np.outer(*sides)
    weight = b.constant(spread(viewed(derived((kernel.size,), lambda: kernel.reshape(-1), (), ("triangle", tuple(factors))), (1, 1, *kernel.shape)), (1, 1, *kernel.shape)))  # fmt: skip
    if channels != 1:
        held = weight.weight
        assert held is not None
        weight = b.constant(broadcast(held, (channels, 1, *kernel.shape)))
    attrs = {"strides": list(factors), "pads": [0] * 4, "output_padding": [0, 0], "dilations": [1, 1]}
    found = build(b, "conv_transpose", wide, weight, None, groups=channels, **attrs)
    cuts = []
    for length, factor, side in zip(shape[2:], factors, sides, strict=True):
        # Element i of the input, one behind the repeated edge, spreads from (i + 1) * factor on; its middle is the middle
        # of the triangle, and that of output place j is (j + 0.5) / factor - 0.5.
        start = factor + (len(side) - factor) // 2 if factor > 1 else 0
        cuts.append((start, length * factor))
    return _cut(b, found, cuts)


def _triangle(factor: int) -> Any:
    size = 2 * factor - factor % 2
    middle = (size - 1) / 2
    return (1 - np.abs(np.arange(size) - middle) / factor).astype(np.float32)


# ---- activations, and nothing at all


@lowers("identity")
def _identity(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    return x


@lowers("selu")
def _selu(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    from isthmus.ir.ops.activations import SELU_ALPHA, SELU_SCALE

    return b.mul(b.elu(x, alpha=SELU_ALPHA), SELU_SCALE)


@lowers("celu")
def _celu(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    alpha = node.attrs["alpha"]
    return b.mul(b.elu(b.div(x, alpha), alpha=1.0), alpha) if alpha > 0 else None


@lowers("log2", "log10", "log1p")
def _log(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    """OpenCV forgets another base, and a shift."""
    if node.op.name == "log1p":
        return b.log(b.add(x, 1.0))
    return b.mul(b.log(x), 1 / math.log(2 if node.op.name == "log2" else 10))


@lowers("mish")
def _mish(b: Builder, dialect: Dialect, node: Node, x: Value) -> Any:
    return b.mul(x, b.tanh(b.softplus(x)))
