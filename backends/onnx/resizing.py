"""Resizing: by ``Resize`` where that gives the op's sizes and elements, else element by element."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from isthmus.backends.formulas import along
from isthmus.backends.onnx.emitter import Emitter
from isthmus.backends.onnx.neural import shape_of
from isthmus.backends.onnx.table import emits, lowers, refuse
from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, bounds, exact_quotient, maximum, same
from isthmus.ir.graph import Node, Value

_OF_TORCH: Final = {("asymmetric", "floor"): 0.0, ("half_pixel", "round_prefer_ceil"): 0.5}
"""What torch's ways to the nearest element add to the place before they multiply and round down."""
_TRIED: Final = 1 << 16
"""So many results along an axis are looked at where its sizes are not known."""


@emits("resize")
def _resize(e: Emitter, node: Node, x: str) -> Any:
    attrs = node.attrs
    shape, sizes, scales = shape_of(node), attrs["sizes"], attrs["scales"]
    mode = attrs["mode"]
    factors = scales or [None] * len(sizes)
    lead = len(shape) - len(sizes)
    if attrs["coordinates"] == "half_pixel_symmetric" and e.opset < 19:
        refuse("half_pixel_symmetric coordinates need opset 19")
    if attrs["antialias"] and e.opset < 18:
        refuse("antialiasing needs opset 18")
    if attrs["antialias"] and not all(map(_shrinks, shape[lead:], sizes)):
        refuse("onnxruntime cuts the kernel off at the edges only where every axis shrinks")
    if mode == "cubic" and len(sizes) != 2:
        refuse("onnxruntime resizes cubically over two axes only")
    if mode == "cubic" and node.result.tensor.dtype.is_integer:
        refuse("onnxruntime has no cubic kernel for integers")
    if mode == "linear" and len(sizes) > 3:
        refuse("onnxruntime resizes linearly over three axes at most")
    if e.opset < 11:
        return _upsample(e, node, x, list(map(_times, shape[lead:], sizes)))
    more: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": attrs["coordinates"]}
    if mode == "nearest":
        more["nearest_mode"] = attrs["nearest"]
        if not all(_same_elements(attrs, *axis) for axis in zip(shape[lead:], sizes, factors, strict=True)):
            refuse("onnxruntime divides by the scale, and may round to another element")
    if mode == "cubic":
        more["cubic_coeff_a"] = attrs["cubic_coefficient"]
    if attrs["antialias"]:
        more |= {"antialias": 1, "exclude_outside": 1}  # torch leaves out what is beyond the edge
    if scales is not None:
        if not all(map(_follows, shape[lead:], sizes, scales)):
            refuse("the sizes are not those that ONNX works out from the scales")
        if any(scale != 1 for scale in scales) and all(map(_may_stay, shape[lead:], sizes, scales)):
            refuse("onnxruntime copies, whatever the scales, where the sizes stay as they are")
        return e.op("Resize", x, _absent(e), e.constant([1.0] * lead + list(scales), dtypes.f32), **more)
    times = list(map(_times, shape[lead:], sizes))
    if all(times):
        return e.op("Resize", x, _absent(e), e.constant([1] * lead + times, dtypes.f32), **more)
    # Of all axes: when onnxruntime moves a transpose past a Resize, it takes no heed of its axes.
    return e.op("Resize", x, _absent(e), _absent(e), e.sizes.vector((*shape[:lead], *sizes)), **more)


def _absent(e: Emitter) -> str | None:
    """An input that is not given: before opset 13 one of no elements."""
    return None if e.opset >= 13 else e.constant([], dtypes.f32)


def _upsample(e: Emitter, node: Node, x: str, times: list[float]) -> Any:
    """Before opset 11 elements are repeated, and nothing else is said of coordinates."""
    attrs = node.attrs
    repeats = attrs["mode"] == "nearest" and attrs["coordinates"] == "asymmetric" and attrs["nearest"] == "floor"
    if not repeats or not all(map(_is_whole, times)):
        refuse("before opset 11 ONNX resizes only by repeating elements")
    factors = [1.0] * (len(shape_of(node)) - len(times)) + times
    return e.op("Resize", x, e.constant(factors, dtypes.f32), mode="nearest")


def _times(length: Dim, size: Dim) -> float:
    """How often an axis fits in its result, where that is known and ONNX works out the size from it; else 0."""
    found = exact_quotient(size, length)
    if isinstance(found, int) and same(length * found, size) is True:
        return found
    ratio = None if isinstance(length, int) else _ratio(length, size)  # numbers are as well told as sizes
    return ratio if ratio is not None and _follows(length, size, ratio) else 0


def _ratio(length: Dim, size: Dim) -> float | None:
    """How often one size that is not known goes into another; None where that depends on them."""
    if isinstance(length, int) or isinstance(size, int):
        return None
    above, below = size.terms[0][1], length.terms[0][1]
    return above / below if same(length * above, size * below) is True else None


def _is_whole(times: float) -> bool:
    return times >= 1 and times == int(times)


def _shrinks(length: Dim, size: Dim) -> bool:
    return bounds(length - size)[0] >= 0


def _follows(length: Dim, size: Dim, scale: float) -> bool:
    """Whether ONNX, which multiplies in f32 and rounds down, gives this size."""
    if isinstance(length, int):
        return math.floor(np.float32(length) * np.float32(scale)) == size
    above, below = scale.as_integer_ratio()
    # Products with a few binary places are exact.
    return above * below < 1 << 8 and same(length * above // below, size) is True


def _may_stay(length: Dim, size: Dim, scale: float) -> bool:
    """Whether an axis may keep a size that is more than 1, where all conventions look at the only element."""
    return length == size != 1 if isinstance(length, int) else 1 <= scale < 1.5


def _same_elements(attrs: Any, length: Dim, size: Dim, scale: float | None) -> bool:
    """Whether onnxruntime, which divides by the scale, takes the elements that the op takes, which multiplies."""
    if (attrs["coordinates"], attrs["nearest"]) not in _OF_TORCH:
        return True  # only importers make these, and the op means what onnxruntime does
    if same(length, size) is True and scale in (None, 1.0):
        return True
    count, last = _TRIED, math.inf
    if isinstance(length, int) and isinstance(size, int):
        count, last = size, length - 1
        scale = scale or size / length
    elif scale is None:
        scale = _ratio(length, size)
    if scale is None:
        return False
    half = np.float32(_OF_TORCH[attrs["coordinates"], attrs["nearest"]])
    at = np.arange(count, dtype=np.float32) + half
    theirs = (at / np.float32(scale) - half).astype(np.float64) + half
    ours = at * np.float32(1 / scale)
    return np.array_equal(np.clip(np.floor(ours), 0, last), np.clip(np.floor(theirs), 0, last))


# ---- element by element

@lowers("resize")
def _by_elements(b: Builder, node: Node, x: Value) -> Any:
    """Axis by axis: each result's neighbours are gathered and weighed; with antialiasing, all elements are."""
    attrs, shape, dtype = node.attrs, shape_of(node), x.tensor.dtype
    scales = attrs["scales"] or [None] * len(attrs["sizes"])
    real = dtypes.f64 if dtype is dtypes.f64 else dtypes.f32
    found = x if attrs["mode"] == "nearest" or dtype is real else b.cast(x, dtype=real)
    for axis, (size, scale) in enumerate(zip(attrs["sizes"], scales, strict=True), 2):
        if same(shape[axis], size) is not True or scale not in (None, 1.0):
            found = _Axis(b, attrs, shape[axis], size, scale, real).resize(found, axis)
    if found.tensor.dtype is not dtype:
        found = b.cast(b.round(found) if dtype.is_integer else found, dtype=dtype)
    return b.identity(x) if found is x else found


class _Axis:
    """One axis to resize: the formulas of the op's row, on values."""

    def __init__(self, b: Builder, attrs: Any, length: Dim, size: Dim, scale: float | None, real: dtypes.DType) -> None:
        self.b, self.attrs, self.length, self.size, self.scale, self.real = b, attrs, length, size, scale, real

    def number(self, value: Dim | float) -> Any:
        """A number or a size as a scalar."""
        b = self.b
        if isinstance(value, (int, float)):
            return b.constant(np.asarray(value, self.real.numpy))
        return b.cast(b.size(value), dtype=self.real)

    def line(self, size: Dim) -> Any:
        """0, 1, ... up to a size."""
        return self.b.cast(self.b.arange(stop=size), dtype=self.real)

    def ratio(self) -> Any:
        """What one step along the result is along the operand."""
        if self.attrs["coordinates"] == "align_corners":
            return self.b.div(self.number(self.length - 1), self.number(maximum(self.size - 1, 1)))
        if self.scale is not None:
            return self.number(1 / self.scale)
        return self.b.div(self.number(self.length), self.number(self.size))

    def places(self, ratio: Any) -> Any:
        """Where each result looks."""
        b, kind = self.b, self.attrs["coordinates"]
        if kind in ("align_corners", "asymmetric"):
            return b.mul(self.line(self.size), ratio)
        found = b.sub(b.mul(b.add(self.line(self.size), 0.5), ratio), 0.5)
        if kind == "pytorch_half_pixel":
            return b.where(b.gt(self.number(self.size), 1.0), found, 0.0)
        if kind == "half_pixel_symmetric" and self.scale is not None:
            middle = b.mul(b.sub(self.number(self.length), b.mul(self.number(self.size), 1 / self.scale)), 0.5)
            return b.add(found, middle)
        return found

    def nearest(self) -> Any:
        """The index of the element nearest to where each result looks."""
        b, kind = self.b, self.attrs["nearest"]
        half = _OF_TORCH.get((self.attrs["coordinates"], kind))
        if half is not None:  # the last place is short of the last element's end by half a step, more than rounding makes of it
            line = self.line(self.size)
            return b.cast(b.mul(b.add(line, half) if half else line, self.ratio()), dtype=dtypes.i64)
        return self.index(self.rounded(self.places(self.ratio())))

    def rounded(self, places: Any) -> Any:
        """The nearest whole places."""
        b, kind = self.b, self.attrs["nearest"]
        if kind in ("floor", "round_prefer_ceil"):
            return b.floor(places if kind == "floor" else b.add(places, 0.5))
        return b.ceil(places if kind == "ceil" else b.sub(places, 0.5))

    def index(self, places: Any) -> Any:
        """Whole places as indices; those beyond the edge are the outermost."""
        return self.b.cast(self.b.clip(places, 0.0, self.number(self.length - 1)), dtype=dtypes.i64)

    def kernel(self, distance: Any) -> Any:
        """The weight of an element at this distance."""
        b = self.b
        x = b.abs(distance)
        if self.attrs["mode"] == "linear":
            return b.relu(b.sub(1.0, x))
        a = self.attrs["cubic_coefficient"]
        near = b.add(b.mul(b.mul(b.sub(b.mul(x, a + 2), a + 3), x), x), 1.0)
        far = b.sub(b.mul(b.mul(b.add(b.mul(b.sub(x, 5.0), x), 8.0), x), a), 4 * a)
        return b.where(b.le(x, 1.0), near, b.where(b.lt(x, 2.0), far, 0.0))

    def resize(self, x: Value, axis: int) -> Value:
        """The operand with this axis resized."""
        b = self.b
        if self.attrs["mode"] == "nearest":
            return b.gather(x, self.nearest(), axis=axis)  # type: ignore[no-any-return]
        ratio = self.ratio()
        places = b.unsqueeze(self.places(ratio), axes=[1])
        if self.attrs["antialias"]:
            weights = self.kernel(b.div(b.sub(self.line(self.length), places), b.maximum(ratio, 1.0)))
            total = b.reduce_sum(weights, axes=[1], keepdims=True)
            return along(b, x, b.div(weights, total), axis)
        reach = range(2) if self.attrs["mode"] == "linear" else range(-1, 3)
        neighbours = b.add(b.floor(places), np.array(reach, self.real.numpy))
        weights = self.kernel(b.sub(neighbours, places))
        tail = len(x.tensor.shape or ()) - 1 - axis
        if tail:
            weights = b.unsqueeze(weights, axes=list(range(2, 2 + tail)))
        picked = b.gather(x, self.index(neighbours), axis=axis)
        return b.reduce_sum(b.mul(picked, weights), axes=[axis + 1])  # type: ignore[no-any-return]
