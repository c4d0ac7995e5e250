"""Boxes: which of them to keep, and what is in them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from isthmus.ir import dims
from isthmus.ir.attributes import BOOL, FLOAT, INT, INTS, choice
from isthmus.ir.dims import Dim, bounds
from isthmus.ir.dtypes import bool_, i64
from isthmus.ir.op import ENDLESS, HELD, Call, Op, Sample, Trait, operands, register, rng, sample
from isthmus.ir.ops.conv import spatial, vector, volume
from isthmus.ir.ops.numerics import compute, wide
from isthmus.ir.types import Tensor, Type
from isthmus.ir.weights import Array

if TYPE_CHECKING:
    from isthmus.ir.builder import Builder
    from isthmus.ir.graph import Value


@register
class NonMaxSuppression(Op):
    """The indices of the boxes that are left, i64, by falling score: each box hides those after it whose overlap with it
    (intersection over union) is more than the threshold. Of equal scores the first comes first.

    A box of ``boxes[N, 4]`` is two opposite corners, ``x1 <= x2`` and ``y1 <= y2``, as ``(x1, y1, x2, y2)`` or with x and y
    the other way round.
    """

    name = "nms"
    operands = operands("boxes: float T, scores: float T")
    attributes = {"iou_threshold": FLOAT}
    traits = Trait.PURE | Trait.COARSE
    source = "torchvision.ops.nms; ONNX NonMaxSuppression-11"

    def infer(self, call: Call) -> Sequence[Type]:
        boxes, (count,) = call.shape(0), vector(call, 1)
        if len(boxes) != 2:
            raise call.error("boxes must be [N, 4]", found=str(call.types[0]))
        call.unify(boxes[1], 4, "the last size of boxes and 4")
        call.unify(boxes[0], count, "the numbers of boxes and of scores")
        return (Tensor(i64, (call.fresh("u", 0, bounds(count)[1]),)),)

    def effort(self, call: Call) -> int:
        return HELD * volume(call.shape(0)[:1]) ** 2

    def evaluate(self, call: Call, *operands: Any) -> Any:
        boxes, scores = map(wide, operands)
        order = np.argsort(-scores, kind="stable")
        boxes = boxes[order]
        with np.errstate(all="ignore"):
            low, high = np.maximum(boxes[:, None, :2], boxes[None, :, :2]), np.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
            common = np.maximum(high - low, 0).prod(-1)
            area = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
            hides = common / (area[:, None] + area - common) > call["iou_threshold"]
        hidden = np.zeros(len(boxes), np.bool_)
        for index in range(len(boxes)):
            if not hidden[index]:
                hidden[index + 1 :] |= hides[index, index + 1 :]
        return order[~hidden].astype(np.int64)

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        boxes, scores = operands
        (count,) = call.shape(1)
        _, order = b.sort(scores, axis=0, descending=True)
        low, high = b.split(b.gather(boxes, order, axis=0), axis=1, sizes=[2, 2])
        size = b.sub(high, low)
        sides = b.sub(
            b.minimum(b.unsqueeze(high, axes=[1]), b.unsqueeze(high, axes=[0])),
            b.maximum(b.unsqueeze(low, axes=[1]), b.unsqueeze(low, axes=[0])),
        )
        common = b.reduce_prod(b.relu(sides), axes=[2])
        area = b.reduce_prod(size, axes=[1])
        union = b.sub(b.add(b.unsqueeze(area, axes=[1]), area), common)
        hides = b.gt(b.div(common, union), call["iou_threshold"])
        nothing = b.expand(b.constant(False), shape=[count])

        def body(b: Builder, turn: Value, hidden: Value, row: Value) -> list[Value]:
            """A box that is seen hides; that it hides those before it as well changes nothing, as they have had their turn."""
            seen = b.logical_not(b.gather(hidden, turn, axis=0))
            return [b.constant(True), b.logical_or(hidden, b.logical_and(seen, row)), seen]

        turns = b.subgraph([Tensor(i64, ()), Tensor(bool_, (count,)), Tensor(bool_, (count,))], body)
        _, seen = b.loop(None, None, [nothing, hides], carried=1, regions=[turns])
        return b.gather(order, b.squeeze(b.nonzero(seen), axes=[1]), axis=0)

    def samples(self) -> Iterable[Sample]:
        draws = rng()
        corner, size = draws.uniform(0, 6, (9, 2)), draws.uniform(0.5, 5, (9, 2))
        boxes = np.concatenate([corner, corner + size], 1).astype(np.float32)
        scores = draws.random(9).astype(np.float32)
        yield sample(boxes, scores, iou_threshold=0.3)
        yield sample(boxes, np.round(scores * 2), iou_threshold=0.1, note="ties")
        yield sample(boxes.astype(np.float64), scores.astype(np.float64), iou_threshold=0.5, note="f64")
        yield sample(np.zeros((2, 4), np.float32), scores[:2], iou_threshold=0.5, note="no-area")
        yield sample(boxes[:0], scores[:0], iou_threshold=0.5, note="none")


@register
class NonMaxSuppressionPerClass(Op):
    """Which boxes are left of each class in each member of a batch: ``[boxes, 3]``, a row the numbers of member, class and box.

    ``boxes[N, boxes, 4]`` are two opposite corners ``(y1, x1, y2, x2)``, in any order, or with `centred` ``(x, y, width,
    height)`` with x and y of the middle. ``scores[N, classes, boxes]``; those not above `score` do not count, where it is
    given. By falling score, of equal ones the first comes first, each box hides those after it whose overlap with it
    (intersection over union) is more than `overlap` (0 by default); a box without an area hides none. At most `most` are
    left of a class, by default none.
    """

    name = "nms_per_class"
    operands = operands("boxes: f32, scores: f32, most?: i64, overlap?: f32, score?: f32")
    attributes = {"centred": BOOL(False)}
    traits = Trait.PURE | Trait.COARSE
    source = "ONNX NonMaxSuppression-11"

    def infer(self, call: Call) -> Sequence[Type]:
        boxes, scores = call.shape(0), call.shape(1)
        if len(boxes) != 3 or len(scores) != 3:
            raise call.error("boxes must be [N, boxes, 4] and scores [N, classes, boxes]")
        call.unify(boxes[2], 4, "the last size of boxes and 4")
        call.unify(boxes[0], scores[0], "the batches of boxes and scores")
        call.unify(boxes[1], scores[2], "the numbers of boxes and of scores")
        if any(call.types[index] is not None and call.shape(index) != () for index in (2, 3, 4)):
            raise call.error("most, overlap and score must be scalars")
        return (Tensor(i64, (call.fresh("u", 0, bounds(dims.product(scores))[1]), 3)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        boxes, scores, most, overlap, score = operands
        found = [np.zeros((0, 3), np.int64)]
        for member, given in enumerate(boxes):
            hides = _overlaps(given, call["centred"]) > (0 if overlap is None else overlap)
            for number, own in enumerate(scores[member]):
                left: list[int] = []
                for index in np.argsort(-own, kind="stable"):
                    if len(left) >= (0 if most is None else most):
                        break
                    if (score is None or own[index] > score) and not hides[left, index].any():
                        left.append(int(index))
                found.append(np.array([[member, number, index] for index in left], np.int64).reshape(-1, 3))
        return np.concatenate(found)

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        """All classes of all members at once, a turn for each box by falling score."""
        boxes, scores, most, overlap, score = operands
        members, classes, count = call.shape(1)
        lists = members * classes
        sorted_scores, order = b.sort(b.reshape(scores, shape=[lists, count]), axis=1, descending=True)
        whole = b.expand(b.unsqueeze(boxes, axes=[1]), shape=[members, classes, count, 4])
        whole = b.gather_nd(b.reshape(whole, shape=[lists, count, 4]), b.unsqueeze(order, axes=[2]), batch_dims=1)
        first, second = b.split(whole, axis=2, sizes=[2, 2])
        if call["centred"]:
            half = b.mul(second, 0.5)
            low, high = b.sub(first, half), b.add(first, half)
        else:
            low, high = b.minimum(first, second), b.maximum(first, second)
        area = b.reduce_prod(b.sub(high, low), axes=[2])  # [lists, boxes]
        counts = b.gt(sorted_scores, score) if score is not None else b.expand(b.constant(True), shape=[lists, count])
        most, overlap = 0 if most is None else most, 0.0 if overlap is None else overlap
        # By turns: [boxes, lists, ...].
        turned = [b.permute(each, perm=[1, 0, 2]) for each in (low, high)]
        turned += [b.permute(each, perm=[1, 0]) for each in (area, counts)]

        def body(
            b: Builder, turn: Value, hidden: Value, left: Value, lowest: Value, highest: Value, own: Value, real: Value
        ) -> list[Value]:
            seen = b.logical_and(b.logical_and(real, b.lt(left, most)), b.logical_not(b.gather(hidden, turn, axis=1)))
            sides = b.sub(b.minimum(high, b.unsqueeze(highest, axes=[1])), b.maximum(low, b.unsqueeze(lowest, axes=[1])))
            common, own = b.reduce_prod(b.relu(sides), axes=[2]), b.unsqueeze(own, axes=[1])
            some = b.logical_and(b.gt(common, 0.0), b.logical_and(b.gt(area, 0.0), b.gt(own, 0.0)))
            hides = b.logical_and(some, b.gt(b.div(common, b.sub(b.add(area, own), common)), overlap))
            hidden = b.logical_or(hidden, b.logical_and(b.unsqueeze(seen, axes=[1]), hides))
            return [b.constant(True), hidden, b.add(left, b.cast(seen, dtype=i64)), seen]

        nothing = [b.expand(b.constant(False), shape=[lists, count]), b.expand(b.constant(0), shape=[lists])]
        slices = [Tensor(each.tensor.dtype, each.tensor.shape[1:]) for each in turned]
        region = b.subgraph([Tensor(i64, ()), *(each.type for each in nothing), *slices], body)
        *_, seen = b.loop(None, None, [*nothing, *turned], carried=2, regions=[region])
        places = b.nonzero(b.permute(seen, perm=[1, 0]))
        numbers = b.slice(places, axes=[1], starts=[0], ends=[1], steps=[1])
        size = b.size(classes)
        box = b.unsqueeze(b.gather_nd(order, places), axes=[1])
        return b.concat([b.div(numbers, size), b.mod(numbers, size), box], axis=1)

    def samples(self) -> Iterable[Sample]:
        draws = rng()
        corner, size = draws.uniform(0, 6, (2, 9, 2)), draws.uniform(0.5, 5, (2, 9, 2))
        boxes = np.concatenate([corner, corner + size], 2).astype(np.float32)
        scores = draws.random((2, 3, 9)).astype(np.float32)
        some = np.int64(4), np.float32(0.3)
        yield sample(boxes, scores, *some)
        yield sample(boxes[:, :, [2, 1, 0, 3]], scores, np.int64(9), np.float32(0.1), np.float32(0.4), note="score")
        centres = np.concatenate([corner, size], 2).astype(np.float32)
        yield sample(centres, scores, *some, np.float32(0.5), centred=True, note="centred")
        yield sample(boxes[:, :0], scores[:, :, :0], *some, note="no-boxes")
        yield sample(boxes, scores, note="of-none")


def _overlaps(boxes: Array, centred: bool) -> Array:
    """The intersection of each two boxes by their union; 0 where one has no area."""
    if centred:
        low, high = boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2
    else:
        low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    sides = np.minimum(high[:, None], high) - np.maximum(low[:, None], low)
    common = np.where((sides > 0).all(-1), sides.prod(-1), 0)
    area = (high - low).prod(-1)
    union = area[:, None] + area - common
    real = (common > 0) & (area[:, None] > 0) & (area > 0) & (union > 0)
    return np.asarray(common / np.where(real, union, 1) * real)


MOST_PLACES: Final = 1 << 16
"""Nobody takes more bins of a box, or samples of a bin, along an axis; where they are is a constant."""


@register
class RoiAlign(Op):
    """The mean of samples in each bin of boxes: ``[boxes, C, *output_size]`` from ``x[N, C, H, W]``.

    Box i is ``rois[i]``, ``(x1, y1, x2, y2)`` times `scale`, in the element ``batch[i]`` of x. A coordinate of 0 is the
    middle of the first element, or with `aligned` its edge; a box that is not aligned is at least one element wide and
    high. A bin has `sampling_ratio` samples along each axis, evenly spaced and linear between the elements; with 0 there
    are as many as a bin spans elements, rounded up. A sample further outside than one element is 0.

    With the mode ``max`` it is not the mean of what the samples are but the greatest of what goes into them: of each of the
    four elements around a sample, times its weight.
    """

    name = "roi_align"
    operands = operands("x: float T, rois: float T, batch: index")
    attributes = {"output_size": INTS, "scale": FLOAT(1.0), "sampling_ratio": INT(0), "aligned": BOOL(False)}
    attributes |= {"mode": choice("mean", "max")("mean")}
    traits = Trait.PURE | Trait.COARSE
    source = "torchvision.ops.roi_align; ONNX RoiAlign-22"

    def infer(self, call: Call) -> Sequence[Type]:
        x, rois, (count,) = spatial(call), call.shape(1), vector(call, 2)
        if len(x) != 4 or len(rois) != 2:
            raise call.error("x must be [N, C, H, W] and rois [boxes, 4]")
        bins, ratio = call["output_size"], call["sampling_ratio"]
        if len(bins) != 2 or min(bins) < 1 or max(bins) > MOST_PLACES or not 0 <= ratio <= MOST_PLACES:
            raise call.error(f"output_size must be two sizes, and sampling_ratio not below 0; none may be above {MOST_PLACES}")
        call.unify(rois[1], 4, "the last size of rois and 4")
        call.unify(rois[0], count, "the numbers of rois and of batch")
        return (Tensor(call.dtype(0), (count, x[1], *call["output_size"])),)

    def effort(self, call: Call) -> int:
        ratio = call["sampling_ratio"]  # without one the boxes themselves say how many samples there are
        return HELD * volume(call.shape(1)[:1]) * volume(call["output_size"]) * ratio**2 if ratio else ENDLESS

    def evaluate(self, call: Call, *operands: Any) -> Any:
        def function(x: Any, rois: Any, batch: Any) -> Any:
            bins, ratio, least = call["output_size"], call["sampling_ratio"], 0 if call["aligned"] else 1
            found = np.zeros((len(rois), x.shape[1], *bins), x.dtype)
            corners = rois[:, [1, 0, 3, 2]] * rois.dtype.type(call["scale"]) - rois.dtype.type(0.5 if call["aligned"] else 0)
            for result, (top, left, bottom, right), number in zip(found, corners, batch, strict=True):
                spans = [(top, bottom - top), (left, right - left)]
                given = [
                    (start, max(size, least) if least else size, bins[axis], ratio, x.shape[2 + axis])
                    for axis, (start, size) in enumerate(spans)
                ]
                if call["mode"] == "max":
                    result[:] = _greatest(x[int(number)], *(_taps(*each) for each in given))
                else:
                    rows, columns = (_means(*each) for each in given)
                    result[:] = rows @ x[int(number)] @ columns.T
            return found

        return compute(function, *operands)

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        """The elements along each axis times what they go into the means by, box by box."""
        x, rois, batch = operands
        aligned, lengths = call["aligned"], call.shape(0)[2:]
        low, high = b.split(b.mul(rois, call["scale"]), axis=1, sizes=[2, 2])
        size = b.sub(high, low)
        low, size = (b.sub(low, 0.5), size) if aligned else (low, b.maximum(size, 1.0))
        parts: list[list[Value]] = []
        for axis, (bins, length) in enumerate(zip(call["output_size"], lengths, strict=True)):
            start, extent = (b.slice(each, axes=[1], starts=[1 - axis], ends=[2 - axis], steps=[1]) for each in (low, size))
            looked = _Samples(b, start, extent, bins, call["sampling_ratio"], length)
            parts.append(looked.taps() if call["mode"] == "max" else [looked.shares()])
        if call["mode"] == "max":
            return self._by_taps(b, call, x, batch, parts)
        (rows,), (columns,) = parts
        columns = b.permute(columns, perm=[0, 2, 1])

        def body(b: Builder, turn: Value, rows: Value, columns: Value, number: Value) -> list[Value]:
            return [b.constant(True), b.matmul(b.matmul(rows, b.gather(x, number, axis=0)), columns)]

        return _over_boxes(b, [rows, columns, batch], body)

    def _by_taps(self, b: Builder, call: Call, x: Value, batch: Value, parts: Sequence[Sequence[Value]]) -> Any:
        """The greatest along one axis after the other: weights are not below 0, so that this is the greatest of all."""
        least = b.constant(-math.inf, call.dtype(0))

        def body(b: Builder, turn: Value, *looked: Value) -> list[Value]:
            found = b.gather(x, looked[-1], axis=0)
            for axis in (1, 2):
                at, weight, real = looked[3 * axis - 3 : 3 * axis]
                if axis == 1:
                    weight, real = (b.unsqueeze(each, axes=[2]) for each in (weight, real))
                found = b.where(real, b.mul(b.gather(found, at, axis=axis), weight), least)
                found = b.reduce_max(found, axes=[axis + 1])
            return [b.constant(True), b.where(b.eq(found, least), 0.0, found)]

        return _over_boxes(b, [*parts[0], *parts[1], batch], body)

    def samples(self) -> Iterable[Sample]:
        draws = rng()
        x = draws.standard_normal((2, 3, 6, 8)).astype(np.float32)
        corner, size = draws.uniform(-3, 12, (5, 2)), draws.uniform(0.2, 14, (5, 2))
        rois = np.concatenate([corner, corner + size], 1).astype(np.float32)
        batch = np.array([0, 1, 1, 0, 1])
        some: dict[str, Any] = {"output_size": (2, 3), "scale": 0.5, "symbolic": ("x", "rois", "batch")}
        for aligned in (False, True):
            note = "aligned" if aligned else "plain"
            yield sample(x, rois, batch, sampling_ratio=2, aligned=aligned, note=note, **some)
            yield sample(x, rois, batch, aligned=aligned, note=f"{note}-adaptive", **some)
            yield sample(x, rois, batch, sampling_ratio=2, aligned=aligned, mode="max", note=f"{note}-max", **some)
            yield sample(x, rois, batch, aligned=aligned, mode="max", note=f"{note}-max-adaptive", **some)
        yield sample(x, rois, batch.astype(np.int32), output_size=(1, 1), sampling_ratio=3, note="i32")
        yield sample(x.astype(np.float64), rois.astype(np.float64), batch, output_size=(2, 2), sampling_ratio=1, note="f64")


def _over_boxes(b: Builder, scanned: Sequence[Value], body: Any) -> Any:
    """What a body makes of each box, side by side."""
    slices = [Tensor(each.tensor.dtype, each.tensor.shape[1:]) for each in scanned]  # type: ignore[index]
    return b.loop(None, None, list(scanned), carried=0, regions=[b.subgraph([Tensor(i64, ()), *slices], body)])


def _taps(start: Any, size: Any, bins: int, ratio: int, length: int) -> tuple[Array, Array]:
    """``[bins, 2 * samples]`` each: the elements along an axis that go into the samples of each bin, and their weights."""
    count = max(ratio or int(np.ceil(size / bins)), 0)
    steps = (np.arange(bins * count, dtype=start.dtype) + start.dtype.type(0.5)) / (bins * max(count, 1))
    at = (start + size * steps).reshape(bins, count)
    inside = (at >= -1) & (at <= length)
    at = np.clip(at, 0, length - 1)
    first = np.floor(at).astype(np.int64)
    weights = np.where(inside, 1 - (at - first), 0), np.where(inside, at - first, 0)
    return np.concatenate([first, np.minimum(first + 1, length - 1)], 1), np.concatenate(weights, 1)


def _means(start: Any, size: Any, bins: int, ratio: int, length: int) -> Array:
    """``[bins, length]``: by what each element along an axis goes into the mean of the samples of each bin."""
    found = np.zeros((bins, length), start.dtype)
    at, weights = _taps(start, size, bins, ratio, length)
    if at.size:
        np.add.at(found, (np.arange(bins)[:, None], at), weights / (at.shape[1] // 2))
    return found


def _greatest(x: Array, rows: tuple[Array, Array], columns: tuple[Array, Array]) -> Array:
    """The greatest of what goes into the samples of each bin; 0 where there are none."""
    found = x
    for axis, (at, weights) in enumerate((rows, columns), 1):
        if not at.size:
            return np.zeros((len(x), len(rows[0]), len(columns[0])), x.dtype)
        found = (found.take(at, axis) * weights.reshape(weights.shape + (1,) * (2 - axis))).max(axis + 1)
    return found


class _Samples:
    """The same for boxes that start at ``start[boxes, 1]``.

    Attributes:
        at: the places of the samples, ``[boxes, bins, steps]``.
        inside: whether they are.
        counted: whether there is such a sample; None where all are.
        count: how many samples a bin has.
    """

    def __init__(self, b: Builder, start: Value, size: Value, bins: int, ratio: int, length: Dim) -> None:
        dtype = start.tensor.dtype
        self.b, self.length, self.dtype = b, length, dtype

        def column(value: Value) -> Any:
            return b.unsqueeze(value, axes=[2])  # [boxes, 1, 1]

        end = b.constant(length, dtype) if isinstance(length, int) else b.cast(b.size(length), dtype=dtype)
        self.counted: Any = None
        if ratio:
            count, steps = b.constant(ratio, dtype), b.constant(np.arange(ratio), dtype)
        else:
            count = column(b.maximum(b.ceil(b.div(size, float(bins))), 0.0))
            steps = b.range(b.constant(0, dtype), b.maximum(b.reduce_max(count, axes=[0, 1, 2]), 0.0), b.constant(1, dtype))
            self.counted = b.lt(steps, count)
            count = b.maximum(count, 1.0)
        self.count = count
        within = b.unsqueeze(b.constant(np.arange(bins), dtype), axes=[1])
        at = b.div(b.add(b.div(b.add(steps, 0.5), count), within), float(bins))
        at = b.add(b.mul(at, column(size)), column(start))
        self.inside = b.logical_and(b.ge(at, -1.0), b.le(at, end))
        self.last = b.sub(end, 1.0)
        self.at = b.clip(at, 0.0, self.last)

    def shares(self) -> Value:
        """By what each element goes into the mean: ``[boxes, bins, length]``."""
        b = self.b
        inside = self.inside if self.counted is None else b.logical_and(self.inside, self.counted)
        distance = b.abs(b.sub(b.unsqueeze(self.at, axes=[3]), b.cast(b.arange(stop=self.length), dtype=self.dtype)))
        shares = b.where(b.unsqueeze(inside, axes=[3]), b.relu(b.sub(1.0, distance)), 0.0)
        return b.div(b.reduce_sum(shares, axes=[2]), self.count)  # type: ignore[no-any-return]

    def taps(self) -> list[Value]:
        """``[boxes, bins, 2 * steps]`` each: the elements, their weights, and whether there is such a sample."""
        b = self.b
        first = b.floor(self.at)
        part = b.sub(self.at, first)
        places = b.concat([first, b.minimum(b.add(first, 1.0), self.last)], axis=2)
        weights = b.concat([b.where(self.inside, each, 0.0) for each in (b.sub(1.0, part), part)], axis=2)
        real = b.constant(True) if self.counted is None else self.counted
        real = b.expand(real, shape=list(self.at.tensor.shape))
        return [b.cast(places, dtype=i64), weights, b.concat([real, real], axis=2)]
