"""Resizing: by the row `resize` where it says what the standard does, else axis by axis in finer ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np

from isthmus.frontends.onnx.conversion import Conversion
from isthmus.frontends.onnx.sizes import sizes as sizes_of
from isthmus.frontends.onnx.table import converts
from isthmus.ir import dtypes
from isthmus.ir.dims import Dim, maximum, same
from isthmus.ir.graph import Value
from isthmus.ir.ops.resize import is_ratio, places

_ROW: Final = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric")
"""The coordinates that the row knows."""


@dataclass
class Settings:
    """The attributes of a node."""

    mode: str = "nearest"
    coordinates: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    extrapolation: float = 0.0
    antialias: bool = False


@dataclass
class Axis:
    """One axis.

    Attributes:
        axis: which.
        length: its size.
        size: the size that it gets.
        scale: what its length is multiplied with: a number or, where it is data, a scalar; None for the ratio of the sizes.
        roi: the part that is looked at, its start and its end as shares of the whole; None for all of it.
    """

    axis: int
    length: Dim
    size: Dim
    scale: float | Value | None = None
    roi: tuple[Value, Value] | None = None

    @property
    def stays(self) -> bool:
        """Whether nothing is done to it."""
        whole = self.scale is None or (isinstance(self.scale, float) and self.scale == 1)
        return whole and self.roi is None and same(self.length, self.size) is True


@converts("Resize", since=11)
def resize(
    c: Conversion, x: Value, roi: Value | None = None, scales: Value | None = None, sizes: Value | None = None, *,
    antialias: int = 0, axes: Sequence[int] | None = None, coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75, exclude_outside: int = 0, extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest", nearest_mode: str = "round_prefer_floor",
) -> Any:  # fmt: skip
    """To sizes, or by scales."""
    settings = Settings(
        mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, bool(exclude_outside), extrapolation_value,
        bool(antialias),
    )  # fmt: skip
    rank = c.rank(x)
    which = [c.axis(axis, rank) for axis in (range(rank) if axes is None else axes)]
    cropped = coordinate_transformation_mode == "tf_crop_and_resize"
    if sizes is not None and c.shape(sizes) != (0,):
        found = _to_sizes(c, x, which, sizes, keep_aspect_ratio_policy)
    elif scales is not None:
        found = _by_scales(c, x, which, scales)
    else:
        raise c.malformed("has neither scales nor sizes")
    if cropped:
        if roi is None:
            raise c.malformed("has no region of interest")
        for place, each in enumerate(found):
            each.roi = (_element(c, roi, place), _element(c, roi, place + len(which)))
    return _resized(c, x, found, settings)


@converts("Resize", "Upsample", since=9)
def resize_by_scales(c: Conversion, x: Value, scales: Value, *, mode: str = "nearest") -> Any:
    """Places are those of the result divided by the scale."""
    found = _by_scales(c, x, list(range(c.rank(x))), scales)
    return _resized(c, x, found, Settings(mode, "asymmetric", "floor"))


@converts("Upsample", since=7)
def upsample(c: Conversion, x: Value, *, mode: str = "nearest", scales: Sequence[float]) -> Any:
    """The scales are attributes."""
    found = [_scaled(axis, length, scale) for axis, (length, scale) in enumerate(zip(c.shape(x), scales, strict=True))]
    return _resized(c, x, found, Settings(mode, "asymmetric", "floor"))


@converts("Upsample")
def upsample_old(c: Conversion, x: Value, *, height_scale: float, mode: str = "nearest", width_scale: float) -> Any:
    """The scales of images alone."""
    return upsample(c, x, mode={"bilinear": "linear"}.get(mode, mode), scales=[1.0, 1.0, height_scale, width_scale])


# ---- sizes


def _scaled(axis: int, length: Dim, scale: float) -> Axis:
    """By a number: the size is rounded down, after a product in f32."""
    if isinstance(length, int):
        return Axis(axis, length, int(np.floor(np.float32(length) * np.float32(scale))), scale)
    exact = Fraction(scale).limit_denominator(1 << 10)
    exact = exact if np.float32(float(exact)) == np.float32(scale) else Fraction(scale)
    return Axis(axis, length, length * exact.numerator // exact.denominator, scale)


def _by_scales(c: Conversion, x: Value, which: Sequence[int], scales: Value) -> list[Axis]:
    shape, known = c.shape(x), c.known(scales)
    if known is not None:
        if len(known) != len(which):
            raise c.malformed(f"has {len(known)} scales for {len(which)} axes")
        return [_scaled(axis, shape[axis], float(scale)) for axis, scale in zip(which, known, strict=True)]
    found = []
    for place, axis in enumerate(which):
        scale = _element(c, scales, place)
        found.append(Axis(axis, shape[axis], _floor(c, c.b.mul(_number(c, shape[axis]), scale)), scale))
    return found


def _to_sizes(c: Conversion, x: Value, which: Sequence[int], sizes: Value, policy: str) -> list[Axis]:
    shape, wanted = c.shape(x), sizes_of(c, sizes, "sizes", 0)
    if policy == "stretch":
        return [Axis(axis, shape[axis], size) for axis, size in zip(which, wanted, strict=True)]
    if policy not in ("not_larger", "not_smaller"):
        raise c.malformed(f"there is no keep_aspect_ratio_policy {policy}")
    pairs = [(shape[axis], size) for axis, size in zip(which, wanted, strict=True)]
    whole = [(length, size) for length, size in pairs if isinstance(length, int) and isinstance(size, int)]
    if len(whole) == len(pairs):
        ratios = [np.float32(size) / np.float32(length) for length, size in whole]
        scale = float(min(ratios) if policy == "not_larger" else max(ratios))
        return [
            Axis(axis, length, int(np.floor(np.float32(scale) * np.float32(length) + np.float32(0.5))), scale)
            for axis, (length, _) in zip(which, whole, strict=True)
        ]
    least: Any = None
    for length, size in pairs:
        ratio = c.b.div(_number(c, size), _number(c, length))
        choose = c.b.minimum if policy == "not_larger" else c.b.maximum
        least = ratio if least is None else choose(least, ratio)
    return [
        Axis(axis, shape[axis], _floor(c, c.b.add(c.b.mul(_number(c, shape[axis]), least), 0.5)), least) for axis in which
    ]


def _floor(c: Conversion, number: Value) -> Dim:
    """A number rounded down, as a size."""
    return sizes_of(c, c.b.cast(c.b.floor(number), dtype=dtypes.i64), "sizes", 0)[0]


def _number(c: Conversion, size: Dim, dtype: dtypes.DType = dtypes.f32) -> Any:
    """A size as a number."""
    return c.b.constant(np.asarray(size, dtype.numpy)) if isinstance(size, int) else c.b.cast(c.b.size(size), dtype=dtype)


def _element(c: Conversion, vector: Value, place: int) -> Any:
    """One number of a vector, in f32."""
    known = c.known(vector)
    if known is not None:
        return c.b.constant(np.asarray(known[place], np.float32))
    found = c.b.squeeze(c.b.slice(vector, axes=[0], starts=[place], ends=[place + 1], steps=[1]), axes=[0])
    return found if found.tensor.dtype is dtypes.f32 else c.b.cast(found, dtype=dtypes.f32)


# ---- by the row


def _resized(c: Conversion, x: Value, axes: Sequence[Axis], settings: Settings) -> Any:
    settings.mode = {"bilinear": "linear"}.get(settings.mode, settings.mode)
    if settings.mode not in ("nearest", "linear", "cubic"):
        raise c.malformed(f"there is no mode {settings.mode}")
    rest = [each for each in axes if not each.stays]
    if not rest:
        return c.b.identity(x)
    if _in_row(rest, settings):
        return _by_row(c, x, rest, settings)
    return _by_axes(c, x, rest, settings)


def _in_row(axes: Sequence[Axis], settings: Settings) -> bool:
    """Whether the row `resize` says the same."""
    if settings.coordinates not in _ROW or settings.antialias != settings.exclude_outside:
        return False
    for each in axes:
        if isinstance(each.scale, Value) or each.roi is not None:
            return False
        exact = each.scale is None or _is_exact(each)
        if settings.coordinates == "align_corners" and not exact:
            return False  # the standard divides by what is left of a product before it is rounded
        if settings.mode == "nearest" and not _same_elements(each, settings):
            return False
    return True


def _is_exact(axis: Axis) -> bool:
    """Whether a scale is the ratio of the sizes."""
    return axis.scale is None or (isinstance(axis.scale, float) and is_ratio(axis.scale, axis.length, axis.size))


_ROUNDED: Final[dict[str, Callable[[Any], Any]]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda x: np.ceil(x - np.float32(0.5)),
    "round_prefer_ceil": lambda x: np.floor(x + np.float32(0.5)),
}


def _same_elements(axis: Axis, settings: Settings) -> bool:
    """Whether the row, which multiplies by the inverse of the scale, takes the same elements as a division."""
    length, size, scale = axis.length, axis.size, axis.scale
    if not isinstance(length, int) or not isinstance(size, int) or isinstance(scale, Value):
        return True
    if settings.coordinates not in ("half_pixel", "asymmetric") or not length:
        return True
    half = np.float32(0.5 if settings.coordinates == "half_pixel" else 0)
    factor = np.float32(size) / np.float32(length) if scale is None else np.float32(scale)
    theirs = (np.arange(size, dtype=np.float32) + half) / factor - half
    ours = places(settings.coordinates, length, size, scale, np.float32)
    rounded = [np.clip(_ROUNDED[settings.nearest](at), 0, length - 1) for at in (theirs, ours)]
    return bool(np.array_equal(*rounded))


def _by_row(c: Conversion, x: Value, axes: Sequence[Axis], settings: Settings) -> Any:
    """With the axes that stay in front, two at least."""
    b, shape = c.b, c.shape(x)
    own = {each.axis: each for each in axes}
    stay = [axis for axis in range(len(shape)) if axis not in own]
    if min(own) >= 2:
        perm, lead = list(range(len(shape))), 0
    else:
        perm, lead = [*stay, *own], max(0, 2 - len(stay))
    spatial = [own.get(axis, Axis(axis, shape[axis], shape[axis])) for axis in perm[2 - lead :]]
    turned = perm != list(range(len(shape)))
    y = b.permute(x, perm=perm) if turned else x
    y = b.unsqueeze(y, axes=list(range(lead))) if lead else y
    exact = all(_is_exact(each) for each in spatial)
    y = b.resize(
        y, sizes=[each.size for each in spatial], mode=settings.mode, coordinates=settings.coordinates,
        nearest=settings.nearest, scales=None if exact else [1.0 if each.scale is None else each.scale for each in spatial],
        cubic_coefficient=settings.cubic, antialias=settings.antialias,
    )  # fmt: skip
    y = b.squeeze(y, axes=list(range(lead))) if lead else y
    return b.permute(y, perm=[perm.index(axis) for axis in range(len(perm))]) if turned else y


# ---- axis by axis


def _by_axes(c: Conversion, x: Value, axes: Sequence[Axis], settings: Settings) -> Any:
    """Each axis by the elements around the places that its results look at."""
    dtype = x.tensor.dtype
    real = dtype if dtype is dtypes.f64 else dtypes.f32
    y = x if settings.mode == "nearest" or dtype is real else c.b.cast(x, dtype=real)
    outside: list[tuple[int, Any]] = []
    for each in axes:
        looked = _Places(c, each, settings, real)
        y = looked.resize(y)
        if settings.coordinates == "tf_crop_and_resize":
            outside.append((each.axis, looked.outside()))
    rank = c.rank(x)
    for axis, beyond in outside:
        behind = rank - 1 - axis
        beyond = c.b.unsqueeze(beyond, axes=list(range(1, behind + 1))) if behind else beyond
        y = c.b.where(beyond, c.same_type(settings.extrapolation, y), y)
    return y if y.tensor.dtype is dtype else c.b.cast(y, dtype=dtype)


class _Places:
    """Where along an axis each result looks, and at what."""

    def __init__(self, c: Conversion, axis: Axis, settings: Settings, real: dtypes.DType) -> None:
        self.c, self.b, self.axis, self.settings, self.real = c, c.b, axis, settings, real
        self.scale = self._scale()
        self.at = self._at()

    def number(self, size: Dim) -> Any:
        return _number(self.c, size, self.real)

    def cast(self, value: Any) -> Any:
        return value if value.tensor.dtype is self.real else self.b.cast(value, dtype=self.real)

    def _scale(self) -> Any:
        scale = self.axis.scale
        if scale is None:
            return self.b.div(self.number(self.axis.size), self.number(self.axis.length))
        return self.cast(scale) if isinstance(scale, Value) else self.b.constant(np.asarray(scale, self.real.numpy))

    def _at(self) -> Any:
        """The places, one for each result."""
        b, kind, axis = self.b, self.settings.coordinates, self.axis
        line = b.cast(b.arange(stop=axis.size), dtype=self.real)
        length = self.number(axis.length)
        # The size before it is rounded, which a scale gives.
        whole = self.number(axis.size) if axis.scale is None else b.mul(self.scale, length)
        if kind == "asymmetric":
            return b.div(line, self.scale)
        if kind == "tf_half_pixel_for_nn":
            return b.div(b.add(line, 0.5), self.scale)
        last = b.sub(length, 1.0)
        if kind in ("align_corners", "tf_crop_and_resize"):
            only, steps = b.eq(whole, 1.0), b.where(b.eq(whole, 1.0), 1.0, b.sub(whole, 1.0))
            if kind == "align_corners":
                return b.where(only, 0.0, b.div(b.mul(line, last), steps))
            assert axis.roi is not None
            start, end = map(self.cast, axis.roi)
            part = b.mul(b.sub(end, start), last)
            return b.add(b.where(only, b.mul(part, 0.5), b.div(b.mul(line, part), steps)), b.mul(start, last))
        found = b.sub(b.div(b.add(line, 0.5), self.scale), 0.5)
        if kind == "pytorch_half_pixel":
            return b.where(b.eq(whole, 1.0), -0.5, found)
        if kind == "half_pixel_symmetric":
            shift = b.mul(b.mul(length, 0.5), b.sub(1.0, b.div(self.number(axis.size), whole)))
            return b.add(found, shift)
        if kind != "half_pixel":
            raise self.c.malformed(f"there is no coordinate_transformation_mode {kind}")
        return found

    def outside(self) -> Any:
        """Whether each place is beyond the outermost elements."""
        b = self.b
        return b.logical_or(b.lt(self.at, 0.0), b.gt(self.at, self.number(self.axis.length - 1)))

    def index(self, at: Any) -> Any:
        """Whole places as indices; for those beyond the edge, the outermost."""
        return self.b.cast(self.b.clip(at, 0.0, self.number(maximum(self.axis.length - 1, 0))), dtype=dtypes.i64)

    def resize(self, x: Value) -> Any:
        """The operand with this axis resized."""
        b, axis = self.b, self.axis.axis
        if self.settings.mode == "nearest":
            return b.gather(x, self.index(self._rounded()), axis=axis)
        at = b.unsqueeze(self.at, axes=[1])
        shrink: Any = b.minimum(self.scale, 1.0) if self.settings.antialias else None
        neighbours = b.add(b.floor(at), self._reach(shrink))
        distance = b.sub(neighbours, at)
        weights = self._kernel(distance if shrink is None else b.mul(distance, shrink))
        if self.settings.exclude_outside:
            inside = b.logical_and(b.ge(neighbours, 0.0), b.lt(neighbours, self.number(self.axis.length)))
            weights = b.where(inside, weights, 0.0)
        if self.settings.exclude_outside or shrink is not None:
            weights = b.div(weights, b.reduce_sum(weights, axes=[1], keepdims=True))
        tail = x.tensor.rank - 1 - axis
        weights = b.unsqueeze(weights, axes=list(range(2, 2 + tail))) if tail else weights
        picked = b.gather(x, self.index(neighbours), axis=axis)
        return b.reduce_sum(b.mul(picked, weights), axes=[axis + 1], keepdims=False)

    def _rounded(self) -> Any:
        b, kind, at = self.b, self.settings.nearest, self.at
        if kind in ("floor", "round_prefer_ceil"):
            return b.floor(at if kind == "floor" else b.add(at, 0.5))
        if kind not in _ROUNDED:
            raise self.c.malformed(f"there is no nearest_mode {kind}")
        return b.ceil(at if kind == "ceil" else b.sub(at, 0.5))

    def _reach(self, shrink: Any) -> Any:
        """How far from the whole part of a place its neighbours are."""
        half = 1 if self.settings.mode == "linear" else 2
        scale = self.axis.scale
        if shrink is None:
            return self.b.constant(np.arange(1 - half, half + 1, dtype=self.real.numpy))
        if isinstance(scale, Value) or (scale is None and not _is_whole(self.axis)):
            most = self.b.add(self.b.ceil(self.b.div(float(half), shrink)), 1.0)
            return self.b.range(self.b.neg(most), self.b.add(most, 1.0), self.b.constant(np.asarray(1, self.real.numpy)))
        ratio = scale if scale is not None else self.axis.size / self.axis.length  # type: ignore[operator]
        furthest = int(np.ceil(half / min(ratio, 1.0))) + 1
        return self.b.constant(np.arange(-furthest, furthest + 1, dtype=self.real.numpy))

    def _kernel(self, distance: Any) -> Any:
        """The weight of an element at a distance."""
        b, a = self.b, self.settings.cubic
        x = b.abs(distance)
        if self.settings.mode == "linear":
            return b.relu(b.sub(1.0, x))
        near = b.add(b.mul(b.mul(b.sub(b.mul(x, a + 2), a + 3), x), x), 1.0)
        far = b.sub(b.mul(b.mul(b.add(b.mul(b.sub(x, 5.0), x), 8.0), x), a), 4 * a)
        return b.where(b.le(x, 1.0), near, b.where(b.lt(x, 2.0), far, 0.0))


def _is_whole(axis: Axis) -> bool:
    return isinstance(axis.length, int) and isinstance(axis.size, int)
