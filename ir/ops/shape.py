"""The same elements under another shape, given or read from data, or with their axes in another order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from isthmus.ir.attributes import BOOL, DIMS, INTS
from isthmus.ir.dims import Dim, bounds, floordiv, product, same
from isthmus.ir.op import MOST_AXES, Call, Op, Sample, Trait, operands, register, rng, sample
from isthmus.ir.ops.numerics import Elements, follow
from isthmus.ir.shape_values import elements
from isthmus.ir.types import Tensor, Type
from isthmus.ir.weights import Array

LAYOUT = Trait.PURE | Trait.LAYOUT | Trait.IDENTITY


def _x(*shape: int) -> Array:
    return rng().standard_normal(shape).astype(np.float32)


def _same_count(call: Call, left: tuple[Dim, ...], right: tuple[Dim, ...]) -> None:
    if all(dim.__class__ is int for dim in left + right):
        if product(left) != product(right):
            raise call.error("the shapes have different numbers of elements", expected=str(list(left)), found=str(list(right)))
        return
    rest = list(right)  # what both sides have needs no multiplying
    only = []
    for dim in left:
        if dim in rest:
            rest.remove(dim)
        else:
            only.append(dim)
    if only or rest:
        first, second = product(only), product(rest)
        if first != second:
            call.unify(product(left), product(right), "numbers of elements")


@register
class Reshape(Op):
    """The elements in row-major order under another shape; every size is given (no -1)."""

    name = "reshape"
    operands = operands("x: any T")
    attributes = {"shape": DIMS}
    traits = LAYOUT | Trait.IDEMPOTENT
    source = "numpy.reshape"

    def infer(self, call: Call) -> Sequence[Type]:
        x, shape = call.tensor(0), call["shape"]
        for dim in shape:
            if dim.__class__ is int and dim < 0:
                raise call.error(f"a size is negative: {list(shape)}")
        if x.shape != shape:
            _same_count(call, x.shape, shape)  # type: ignore[arg-type]
        return (Tensor(x.dtype, shape),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return operands[0].reshape(call["shape"])

    def infer_value(self, call: Call, *operands: Elements) -> Sequence[Elements] | None:
        return operands

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(2, 6), shape=[3, 4])
        yield sample(_x(2, 3, 4), shape=[24], note="flatten")
        yield sample(_x(1, 1), shape=[], note="to-scalar")
        yield sample(np.int64(3), shape=[1, 1], note="from-scalar")
        yield sample(_x(0, 3), shape=[3, 0, 2], note="empty")
        yield sample(_x(2, 3).astype(ml_dtypes.bfloat16), shape=[2, 1, 3], note="bf16")


@register
class Squeeze(Op):
    """`x` without `axes`, each of which has size 1."""

    name = "squeeze"
    operands = operands("x: any T")
    attributes = {"axes": INTS}
    traits = LAYOUT
    source = "numpy.squeeze"

    def infer(self, call: Call) -> Sequence[Type]:
        x = call.tensor(0)
        shape: tuple[Dim, ...] = x.shape  # type: ignore[assignment]
        axes = {call.axis(axis, len(shape)) for axis in call["axes"]}
        for axis in axes:
            if shape[axis].__class__ is not int or shape[axis] != 1:
                call.unify(shape[axis], 1, f"the size of the squeezed axis {axis} and 1")
        return (Tensor(x.dtype, tuple(dim for axis, dim in enumerate(shape) if axis not in axes)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return np.squeeze(operands[0], tuple(call["axes"]))

    def infer_value(self, call: Call, *operands: Elements) -> Sequence[Elements] | None:
        return operands

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(1, 3, 1), axes=[0])
        yield sample(_x(1, 3, 1), axes=[0, -1], note="several")
        yield sample(_x(1), axes=[0], note="to-scalar")
        yield sample(np.zeros((0, 1), np.int64), axes=[1], note="empty")
        yield sample(_x(2, 3), axes=[], note="none")


@register
class Unsqueeze(Op):
    """`x` with axes of size 1 put in; `axes` are their places in the result."""

    name = "unsqueeze"
    operands = operands("x: any T")
    attributes = {"axes": INTS}
    traits = LAYOUT
    source = "numpy.expand_dims"

    def infer(self, call: Call) -> Sequence[Type]:
        x, axes = call.tensor(0), call["axes"]
        shape: tuple[Dim, ...] = x.shape  # type: ignore[assignment]
        rank = len(shape) + len(axes)
        new = {call.axis(axis, rank) for axis in axes}
        if len(new) != len(axes):
            raise call.error(f"axes {list(axes)} name an axis twice")
        old = iter(shape)
        return (Tensor(x.dtype, tuple([1 if axis in new else next(old) for axis in range(rank)])),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return np.expand_dims(operands[0], tuple(call["axes"]))

    def infer_value(self, call: Call, *operands: Elements) -> Sequence[Elements] | None:
        return operands

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(2, 3), axes=[1])
        yield sample(_x(2, 3), axes=[0, -1], note="several")
        yield sample(np.float32(2), axes=[0, 1], note="scalar")
        yield sample(_x(0), axes=[1], note="empty")


@register
class Permute(Op):
    """The axes in another order: axis `i` of the result is axis ``perm[i]`` of `x`."""

    name = "permute"
    operands = operands("x: any T")
    attributes = {"perm": INTS}
    source = "numpy.transpose"

    def infer(self, call: Call) -> Sequence[Type]:
        x, perm = call.tensor(0), call["perm"]
        shape: tuple[Dim, ...] = x.shape  # type: ignore[assignment]
        if len(perm) != len(shape) or sorted(perm) != list(range(len(shape))):
            raise call.error(f"{list(perm)} is not a permutation of {len(shape)} axes")
        return (Tensor(x.dtype, tuple([shape[axis] for axis in perm])),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return operands[0].transpose(call["perm"])

    def infer_value(self, call: Call, *operands: Elements) -> Sequence[Elements] | None:
        return follow(call, lambda x: x.transpose(call["perm"]), operands)

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(2, 3), perm=[1, 0])
        yield sample(_x(2, 3, 4), perm=[2, 0, 1], note="cycle")
        yield sample(np.arange(6).reshape(2, 3), perm=[1, 0], note="i64")
        yield sample(np.int64(2), perm=[], note="scalar")
        yield sample(_x(2, 0, 3) > 0, perm=[1, 2, 0], note="empty-bool")


@register
class Expand(Op):
    """`x` broadcast to a shape: new axes in front, and sizes of 1 repeated."""

    name = "expand"
    operands = operands("x: any T")
    attributes = {"shape": DIMS}
    traits = Trait.PURE | Trait.IDEMPOTENT | Trait.IDENTITY
    source = "numpy.broadcast_to"

    def infer(self, call: Call) -> Sequence[Type]:
        x, target = call.tensor(0), call["shape"]
        shape: tuple[Dim, ...] = x.shape  # type: ignore[assignment]
        if len(shape) > len(target):
            raise call.error(f"cannot be expanded to {list(target)}")
        if any(dim.__class__ is int and dim < 0 for dim in target):
            raise call.error(f"a size is negative: {list(target)}")
        for dim, wanted in zip(shape, target[len(target) - len(shape) :], strict=True):
            if dim is not wanted and not (dim.__class__ is int and dim == 1):
                call.unify(dim, 1 if call.repeats(dim, wanted) else wanted, "expanded sizes")
        return (Tensor(x.dtype, target),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return np.broadcast_to(operands[0], call["shape"])

    def infer_value(self, call: Call, *operands: Elements) -> Sequence[Elements] | None:
        shape = call["shape"]
        if any(dim.__class__ is not int for dim in shape):
            return None
        return follow(call, lambda x: np.broadcast_to(x, shape), operands)

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(2, 1, 3), shape=[2, 4, 3])
        yield sample(_x(3), shape=[2, 3], note="new-axis")
        yield sample(np.float32(1.5), shape=[2, 3], note="scalar")
        yield sample(_x(1, 3), shape=[0, 3], note="empty")
        yield sample(np.arange(2), shape=[3, 2], note="i64")
        yield sample(np.arange(2), shape=[2], note="same")


@register
class DynamicReshape(Op):
    """`reshape` to a shape that is data; one size may be -1 and stands for what is left.

    With `keep`, 0 stands for the size that `x` has at the same place. The result's sizes are new symbols, or what is known of
    them.
    """

    name = "dynamic_reshape"
    operands = operands("x: any T, shape: i64")
    attributes = {"keep": BOOL(False)}
    source = "numpy.reshape; ONNX Reshape-14 for `keep`"

    def infer(self, call: Call) -> Sequence[Type]:
        x = call.tensor(0)
        shape = _shape_operand(call)
        if shape is None:
            return (Tensor(x.dtype, None),)
        if len(shape) > MOST_AXES:
            raise call.error(f"the result has more than {MOST_AXES} axes", found=str(len(shape)))
        if call["keep"]:
            shape = kept(shape, x.shape)  # type: ignore[arg-type]
        holes = [axis for axis, dim in enumerate(shape) if dim is None or (dim.__class__ is int and dim == -1)]
        if holes and shape.count(None) == 0:
            rest = [dim for axis, dim in enumerate(shape) if axis not in holes]
            if len(holes) > 1:
                raise call.error("more than one size is -1")
            known = product(rest)  # type: ignore[arg-type]
            shape[holes[0]] = None if known.__class__ is int and known == 0 else floordiv(product(x.shape), known)  # type: ignore[arg-type]
        return (Tensor(x.dtype, tuple(call.fresh() if dim is None else dim for dim in shape)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        x, shape = operands[0], operands[1].tolist()
        return x.reshape(tuple(kept(shape, x.shape) if call["keep"] else shape))

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(2, 6), np.array([3, 4]), symbolic=("x",))
        yield sample(_x(2, 6), np.array([3, -1, 2]), note="rest", symbolic=("x",))
        yield sample(_x(1), np.zeros(0, np.int64), note="to-scalar", symbolic=("x",))
        yield sample(_x(2, 6), np.array([0, -1, 2]), keep=True, note="keep", symbolic=("x",))


def kept(shape: Sequence[Dim | None], source: Sequence[Dim]) -> list[Dim | None]:
    """A shape in which each 0 stands for the size at the same place, where there is one."""
    return [
        source[axis] if dim.__class__ is int and dim == 0 and axis < len(source) else dim for axis, dim in enumerate(shape)
    ]


@register
class DynamicExpand(Op):
    """`x` broadcast together with a shape that is data: a size of 1 in either gives way to that in the other.

    The shape may have fewer axes than `x`. The result's sizes are new symbols, or what is known of them.
    """

    name = "dynamic_expand"
    operands = operands("x: any T, shape: i64")
    source = "ONNX Expand-13"

    def infer(self, call: Call) -> Sequence[Type]:
        x = call.tensor(0)
        wanted = _shape_operand(call)
        if wanted is None:
            return (Tensor(x.dtype, None),)
        shape = broadcast_dims(x.shape, wanted)  # type: ignore[arg-type]
        return (Tensor(x.dtype, tuple(call.fresh() if dim is None else dim for dim in shape)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        x, shape = operands[0], tuple(operands[1].tolist())
        return np.broadcast_to(x, np.broadcast_shapes(x.shape, shape))

    def samples(self) -> Iterable[Sample]:
        yield sample(_x(2, 1), np.array([3, 2, 4]), symbolic=("x",))
        yield sample(np.float32(2), np.array([2, 2]), note="scalar", symbolic=("x",))
        yield sample(_x(1), np.array([0]), note="empty", symbolic=("x",))
        yield sample(_x(3, 2, 1), np.array([1, 4]), note="either", symbolic=("x",))


def broadcast_dims(shape: Sequence[Dim], wanted: Sequence[Dim | None]) -> list[Dim | None]:
    """The shape that a shape and another, of which some sizes are not known, broadcast to; None for what is not known, or where
    they do not broadcast."""
    rank = max(len(shape), len(wanted))
    padded = [*[1] * (rank - len(shape)), *shape], [*[1] * (rank - len(wanted)), *wanted]
    return [_broadcast_dim(dim, target) for dim, target in zip(*padded, strict=True)]


def expanded(shape: Sequence[Dim], wanted: Sequence[Dim | None]) -> list[Dim] | None:
    """The shape to which `expand` takes a shape that is broadcast with another; None where it is not known, or where a size may
    be 1 or not, which `expand` takes for the size that it becomes."""
    target = broadcast_dims(shape, wanted)
    found = [dim for dim in target if dim is not None]
    if len(found) < len(target):
        return None
    ends = zip(shape, found[len(found) - len(shape) :], strict=True)
    return found if all(same(dim, 1) or same(dim, new) or bounds(dim)[0] > 1 for dim, new in ends) else None


def _broadcast_dim(dim: Dim, target: Dim | None) -> Dim | None:
    if target is None:
        return dim if bounds(dim)[0] > 1 else None
    for one, other in ((dim, target), (target, dim)):
        if one.__class__ is int and one == 1:
            return other
    if same(dim, target) is False:
        return None
    return target if same(dim, target) or bounds(target)[0] > 1 else dim if bounds(dim)[0] > 1 else None


def _shape_operand(call: Call) -> list[Dim | None] | None:
    """The sizes in operand 1: those not known are None; None altogether where not even their number is known."""
    shape = call.shape(1)
    if len(shape) != 1:
        raise call.error("the shape must have one axis")
    count = shape[0]
    if not isinstance(count, int):
        return None
    if count > MOST_AXES:
        raise call.error(f"the shape has more than {MOST_AXES} axes")
    known = elements(call.values[1]) if call.values else None
    return [None] * count if known is None else list(known)
