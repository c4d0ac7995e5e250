"""Sampling of images and volumes at places that are data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import product
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from isthmus.ir import dims
from isthmus.ir.attributes import BOOL, choice
from isthmus.ir.dims import Dim
from isthmus.ir.dtypes import DType, i64
from isthmus.ir.op import Call, Op, Sample, Trait, operands, register, rng, sample
from isthmus.ir.ops.conv import spatial
from isthmus.ir.ops.numerics import compute
from isthmus.ir.types import Tensor, Type
from isthmus.ir.weights import Array

if TYPE_CHECKING:
    from isthmus.ir.builder import Builder
    from isthmus.ir.graph import Value

CUBIC: Final = -0.75
"""The coefficient of the cubic kernel."""


@register
class GridSample(Op):
    """``x[N, C, spatial...]`` looked at where ``grid[N, places..., axes]`` says: ``[N, C, places...]``.

    The grid's last axis names a place by its coordinates, that along x's last axis first. From -1 to 1 they go from the
    middle of the first element to the middle of the last with `align_corners`, else from edge to edge.

    `mode`: the nearest element (half to even); the 2 neighbours along each axis, linearly; or 4 of them, cubically.
    `padding`, for what is outside: `zeros`; `border`, the nearest element of the edge; `reflection`, x mirrored
    at the middles (with `align_corners`) or edges of its outermost elements. Cubically this is asked for each neighbour,
    otherwise for the place itself.
    """

    name = "grid_sample"
    operands = operands("x: float T, grid: float T")
    attributes = {
        "mode": choice("linear", "nearest", "cubic")("linear"),
        "padding": choice("zeros", "border", "reflection")("zeros"),
        "align_corners": BOOL(False),
    }  # fmt: skip
    traits = Trait.PURE | Trait.COARSE
    source = "torch.nn.functional.grid_sample; ONNX GridSample-22"

    def infer(self, call: Call) -> Sequence[Type]:
        x, grid = spatial(call), call.shape(1)
        axes = len(x) - 2
        if len(grid) != len(x):
            raise call.error(f"grid must have rank {len(x)}, as x", found=str(call.types[1]))
        call.unify(x[0], grid[0], "the batches of x and grid")
        call.unify(grid[-1], axes, "the last size of grid and the number of axes of x")
        return (Tensor(call.dtype(0), (*x[:2], *grid[1:-1])),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        def function(x: Any, grid: Any) -> Any:
            sizes = x.shape[2:]
            every = [_taps(call, grid[..., -1 - axis], size) for axis, size in enumerate(sizes)]
            batch = np.arange(len(x)).reshape(-1, *(1,) * len(sizes))
            channels_last = np.moveaxis(x, 1, -1)
            total = np.zeros((*grid.shape[:-1], x.shape[1]), x.dtype)
            for taps in product(*every):
                inside = np.all([(at >= 0) & (at < size) for (at, _), size in zip(taps, sizes, strict=True)], axis=0)
                places = [np.where(inside, at, 0).astype(np.int64) for at, _ in taps]
                weight = np.prod(np.broadcast_arrays(*(weight for _, weight in taps)), axis=0)
                values = channels_last[(batch, *places)] * weight[..., None].astype(x.dtype)
                total += np.where(inside[..., None], values, 0)
            return np.moveaxis(total, -1, 1)

        return compute(function, *operands)

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        x, grid = operands
        (batch, _, *sizes), places = call.shape(0), call.shape(1)[1:-1]
        grid = b.reshape(grid, shape=[batch, dims.product(places), len(sizes)])
        axes = []
        for axis, size in enumerate(sizes):
            where = len(sizes) - 1 - axis
            at = b.slice(grid, axes=[2], starts=[where], ends=[where + 1], steps=[1])
            kind = int(call["align_corners"]), call["mode"], call["padding"]
            axes.append(Axis(b, call.dtype(0), size, *kind).taps(at))
        return looked_up(b, x, axes, places)

    def samples(self) -> Iterable[Sample]:
        draws = rng()
        x = draws.standard_normal((2, 3, 4, 5)).astype(np.float32)
        grid = draws.uniform(-1.6, 1.6, (2, 3, 6, 2)).astype(np.float32)
        for mode in ("linear", "nearest", "cubic"):
            for padding in ("zeros", "border", "reflection"):
                for corners in (False, True):
                    note = f"{mode}-{padding}{'-corners' if corners else ''}"
                    yield sample(x, grid, mode=mode, padding=padding, align_corners=corners, note=note, symbolic=("x",))
        volume = draws.standard_normal((1, 2, 3, 2, 4)).astype(np.float32)
        places = draws.uniform(-1.3, 1.3, (1, 2, 3, 2, 3)).astype(np.float32)
        yield sample(volume, places, note="3d", symbolic=("x",))
        yield sample(volume, places, mode="nearest", padding="border", note="3d-nearest", symbolic=("x",))
        yield sample(volume, places, mode="cubic", padding="reflection", note="3d-cubic", symbolic=False)
        yield sample(x[..., 0], grid[:, :, 0, :1], padding="reflection", note="1d", symbolic=("x",))
        yield sample(x[:, :, :1], grid, padding="reflection", align_corners=True, note="one-row")
        yield sample(x.astype(np.float64), grid.astype(np.float64), note="f64")
        yield sample(x, grid * np.float32(1e9), note="far")


# ---- with numpy


def _taps(call: Call, coordinate: Array, size: int) -> list[tuple[Array, Array]]:
    """Along an axis: where each element looked at is, and its weight."""
    real, corners = coordinate.dtype.type, call["align_corners"]
    at = (coordinate + real(1)) * real((size - corners) / 2) - real(0 if corners else 0.5)
    if call["mode"] != "cubic":
        at = _padded(call, at, size)
    if call["mode"] == "nearest":
        return [(np.rint(at), np.ones_like(at))]
    first = np.floor(at)
    inside = at - first
    if call["mode"] == "linear":
        return [(first, 1 - inside), (first + 1, inside)]
    return [(_padded(call, first + step, size), _cubic(np.abs(inside - step), step in (0, 1))) for step in range(-1, 3)]


def _padded(call: Call, at: Array, size: int) -> Array:
    """Where what is outside is taken from."""
    real, corners = at.dtype.type, call["align_corners"]
    if call["padding"] == "reflection":
        low, span = real(0 if corners else -0.5), real(max(1, size - corners))
        at = low + span - np.abs(np.mod(np.abs(at - low), 2 * span) - span)
    return at if call["padding"] == "zeros" else np.clip(at, 0, size - 1)


def _cubic(x: Any, near: bool) -> Any:
    """The cubic kernel at a distance: within 1, or from 1 to 2."""
    a = CUBIC
    return ((a + 2) * x - (a + 3)) * x * x + 1 if near else ((x - 5) * x + 8) * x * a - 4 * a


# ---- in finer ops


class Tap(NamedTuple):
    """An element looked at along an axis, for each place.

    Attributes:
        at: its index, one that there is.
        weight: its weight; None for 1.
        inside: whether it is one that was meant, bool; None where it is so always.
    """

    at: Value
    weight: Value | None
    inside: Value | None


def looked_up(b: Builder, x: Value, axes: Sequence[Sequence[Tap]], places: Sequence[Dim]) -> Any:
    """``x[N, C, spatial...]`` at places: ``[N, C, places...]``.

    Args:
        b: builds the nodes.
        x: what is looked at.
        axes: for each spatial axis the elements looked at, for all places in a row: ``[N, all places, 1]``.
        places: the sizes that the places have.
    """
    batch, channels, *sizes = x.tensor.shape or ()
    rank = len(places) + 2
    flat = b.reshape(b.permute(x, perm=[0, *range(2, len(sizes) + 2), 1]), shape=[batch, dims.product(sizes), channels])
    total: Any = None
    for taps in product(*axes):
        value = b.gather_nd(flat, _number(b, sizes, taps), batch_dims=1)
        for tap in taps:
            value = value if tap.weight is None else b.mul(value, tap.weight)
        inside = [tap.inside for tap in taps if tap.inside is not None]
        if inside:
            value = b.where(reduce(b.logical_and, inside), value, 0.0)
        total = value if total is None else b.add(total, value)
    return b.permute(b.reshape(total, shape=[batch, *places, channels]), perm=[0, rank - 1, *range(1, rank - 1)])


def _number(b: Builder, sizes: Sequence[Dim], taps: Sequence[Tap]) -> Value:
    """The number of an element, row-major."""
    found = taps[0].at
    for size, tap in zip(sizes[1:], taps[1:], strict=True):
        found = b.add(b.mul(found, b.size(size)), tap.at)
    return found


class Axis:
    """One axis of what is looked at; the attributes are those of `GridSample`."""

    def __init__(
        self, b: Builder, dtype: DType, size: Dim, corners: int = 0, mode: str = "linear", padding: str = "zeros",
    ) -> None:  # fmt: skip
        self.b, self.dtype, self.size = b, dtype, size
        self.corners, self.mode, self.padding = corners, mode, padding

    def real(self, dim: Dim, factor: float = 1) -> Value:
        """A size times a factor, as a number."""
        if isinstance(dim, int):
            return self.b.constant(dim * factor, self.dtype)
        number = self.b.cast(self.b.size(dim), dtype=self.dtype)
        return number if factor == 1 else self.b.mul(number, factor)  # type: ignore[no-any-return]

    def taps(self, coordinate: Value) -> list[Tap]:
        """The elements looked at, from coordinates between -1 and 1."""
        b = self.b
        at = b.mul(b.add(coordinate, 1.0), self.real(self.size - self.corners, 0.5))
        at = at if self.corners else b.sub(at, 0.5)
        if self.mode != "cubic":
            at = self.padded(at)
        if self.mode == "nearest":
            return [self.tap(b.round(at), None)]
        if self.mode == "linear":
            return self.beside(at)
        first = b.floor(at)
        inside = b.sub(at, first)
        found = []
        for step in range(-1, 3):
            distance = b.add(inside, float(-step)) if step < 1 else b.sub(float(step), inside)
            found.append(self.tap(self.padded(b.add(first, float(step))), self.cubic(distance, step in (0, 1))))
        return found

    def beside(self, at: Value) -> list[Tap]:
        """The two elements beside places that are told as numbers of elements."""
        first = self.b.floor(at)
        inside = self.b.sub(at, first)
        return [self.tap(first, self.b.sub(1.0, inside)), self.tap(self.b.add(first, 1.0), inside)]

    def padded(self, at: Value) -> Value:
        b = self.b
        if self.padding == "reflection":
            low, span = 0.0 if self.corners else -0.5, dims.maximum(1, self.size - self.corners)
            turned = b.sub(b.mod(b.abs(b.sub(at, low)), self.real(span, 2)), self.real(span))
            at = b.sub(self.real(span), b.abs(turned))
            at = at if self.corners else b.add(at, low)
        return at if self.padding == "zeros" else b.clip(at, 0.0, self.real(self.size - 1))

    def cubic(self, x: Value, near: bool) -> Value:
        b, a = self.b, CUBIC
        if near:
            return b.add(b.mul(b.mul(b.sub(b.mul(x, a + 2), a + 3), x), x), 1.0)  # type: ignore[no-any-return]
        return b.sub(b.mul(b.mul(b.add(b.mul(b.sub(x, 5.0), x), 8.0), x), a), 4 * a)  # type: ignore[no-any-return]

    def tap(self, at: Value, weight: Value | None) -> Tap:
        b, last = self.b, self.real(self.size - 1)
        inside = None
        if self.padding == "zeros":
            inside = b.logical_and(b.ge(at, 0.0), b.le(at, last))
            at = b.where(inside, at, 0.0)
        elif self.mode == "linear":
            at = b.minimum(at, last)  # what may lie behind the last one has the weight 0
        return Tap(b.cast(at, dtype=i64), weight, inside)
