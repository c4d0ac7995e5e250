"""Resizing of spatial axes: nearest, linear and cubic, by every coordinate convention.

Every mode works axis by axis: each result is a weighted sum of a few elements along the axis (its taps).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np

from isthmus.ir.attributes import BOOL, DIMS, FLOAT, FLOATS, choice
from isthmus.ir.dims import Dim, same
from isthmus.ir.op import Call, Op, Sample, Trait, operands, register, rng, sample
from isthmus.ir.ops.conv import spatial
from isthmus.ir.ops.numerics import wide
from isthmus.ir.types import Tensor, Type
from isthmus.ir.weights import Array


@register
class Resize(Op):
    """The spatial axes of ``x[N, C, spatial...]`` resampled to `sizes`.

    Result i along an axis looks at a place in the input, with ``s`` the scale (given, or size of the result divided by
    that of the input): `half_pixel` ``(i + 0.5) / s - 0.5``; `pytorch_half_pixel` the same, but 0 where the result has
    size 1; `align_corners` ``i * (in - 1) / (out - 1)``; `asymmetric` ``i / s``; `half_pixel_symmetric` as half_pixel,
    shifted so that the middles coincide when ``s`` does not divide evenly.

    `nearest` takes the element at that place, rounded as the attribute `nearest` says; `linear` and `cubic` (with
    `cubic_coefficient`) weigh two and four neighbours, the outermost elements standing for those beyond the edge. With
    `antialias`, linear and cubic kernels are stretched where the axis shrinks, and cut off at the edges. Places and
    weights are computed in float32 (float64 for f64).
    """

    name = "resize"
    operands = operands("x: real T")
    attributes = {
        "sizes": DIMS,
        "mode": choice("nearest", "linear", "cubic"),
        "coordinates": choice(
            "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"
        )("half_pixel"),
        "nearest": choice("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")("round_prefer_floor"),
        "scales": FLOATS.optional(),
        "cubic_coefficient": FLOAT(-0.75),
        "antialias": BOOL(False),
    }  # fmt: skip
    traits = Trait.PURE | Trait.WIDER
    source = "ONNX Resize-19; torch.nn.functional.interpolate"

    def infer(self, call: Call) -> Sequence[Type]:
        x = spatial(call)
        for name in ("sizes", "scales"):
            if call[name] is not None and len(call[name]) != len(x) - 2:
                raise call.error(f"{name} must have one element for each spatial axis", found=str(list(call[name])))
        return (Tensor(call.dtype(0), (*x[:2], *call["sizes"])),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        (x,) = operands
        result = x if call["mode"] == "nearest" else wide(x)
        for number, size in enumerate(call["sizes"]):
            axis = number + 2
            length = x.shape[axis]
            scale = None if call["scales"] is None else call["scales"][number]
            if size == length and scale in (None, 1.0):
                continue  # every convention looks at element i for result i
            indices, weights = taps(call, length, size, scale, np.float64 if x.dtype == np.float64 else np.float32)
            if call["mode"] == "nearest":
                result = result.take(indices[0], axis)
            else:
                tail = (-1, *(1,) * (x.ndim - 1 - axis))
                pairs = zip(indices, weights, strict=True)
                result = sum(result.take(at, axis) * weight.reshape(tail) for at, weight in pairs)
        if x.dtype.kind in "iu" and result.dtype.kind == "f":
            result = np.rint(result)
        return np.asarray(result).astype(x.dtype, copy=False)

    def samples(self) -> Iterable[Sample]:
        x = rng().standard_normal((1, 2, 4, 5)).astype(np.float32)
        for coordinates in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"):
            for mode in ("nearest", "linear", "cubic"):
                note = f"{mode}-{coordinates}"
                yield sample(x, sizes=[7, 3], mode=mode, coordinates=coordinates, note=note)
        for nearest in ("floor", "ceil", "round_prefer_ceil"):
            yield sample(x, sizes=[8, 2], mode="nearest", coordinates="asymmetric", nearest=nearest, note=f"nearest-{nearest}")
        yield sample(x, sizes=[8, 12], mode="linear", scales=[2.0, 2.5], note="scales")
        yield sample(x, sizes=[2, 3], mode="linear", antialias=True, note="antialias")
        yield sample(x, sizes=[2, 9], mode="cubic", antialias=True, cubic_coefficient=-0.5, note="antialias-cubic")
        yield sample(x[:, :, 0], sizes=[8], mode="linear", note="1d")
        yield sample(x.reshape(1, 2, 2, 2, 5), sizes=[3, 4, 4], mode="linear", coordinates="align_corners", note="3d")
        yield sample(x.astype(np.float16), sizes=[8, 10], mode="linear", note="f16")
        yield sample((x * 10 + 100).astype(np.uint8), sizes=[7, 3], mode="cubic", note="cubic-u8")


_ROUNDED: Final[dict[str, Callable[[Array], Array]]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda x: np.ceil(x - x.dtype.type(0.5)),
    "round_prefer_ceil": lambda x: np.floor(x + x.dtype.type(0.5)),
}


def is_ratio(scale: float, length: Dim, size: Dim) -> bool:
    """Whether a scale is just how often a length goes into a size, so that it need not be told beside them."""
    ratio = Fraction(scale).limit_denominator(1 << 10)
    return float(ratio) == scale and same(length * ratio.numerator, size * ratio.denominator) is True


def places(coordinates: str, length: int, size: int, scale: float | None, real: Any) -> Array:
    """Where along an axis each result looks."""
    at: Array = np.arange(size, dtype=real)
    if coordinates == "align_corners":
        ratio = real((length - 1) / (size - 1) if size > 1 else 0.0)
        return np.asarray(at * ratio)
    ratio = real(length / size if scale is None else 1 / scale)
    if coordinates == "asymmetric":
        return np.asarray(at * ratio)
    if coordinates == "pytorch_half_pixel" and size <= 1:
        return np.zeros_like(at)
    middle: Array = ratio * (at + real(0.5)) - real(0.5)
    if coordinates == "half_pixel_symmetric" and scale is not None:
        middle += real(length / 2 * (1 - size / (scale * length)))
    return middle


def taps(call: Call, length: int, size: int, scale: float | None, real: Any) -> tuple[list[Array], list[Array]]:
    """The elements along an axis that each result is made of, and their weights: for each tap an array over results."""
    at = places(call["coordinates"], length, size, scale, real)
    mode = call["mode"]
    if mode == "nearest":
        return [np.clip(_ROUNDED[call["nearest"]](at), 0, length - 1).astype(np.int64)], []
    ratio = length / size if scale is None else 1 / scale
    if call["antialias"]:
        return _stretched(call, at, length, max(ratio, 1.0))
    first = np.floor(at)
    inside = (at - first).astype(real)
    reach = range(2) if mode == "linear" else range(-1, 3)
    indices = [np.clip(first + step, 0, length - 1).astype(np.int64) for step in reach]
    return indices, [kernel(call, inside - real(step)) for step in reach]


def kernel(call: Call, distance: Array) -> Array:
    """The weight of an element at this distance from the place looked at."""
    x = np.abs(distance)
    if call["mode"] == "linear":
        return np.asarray(np.maximum(1 - x, 0))
    a = call["cubic_coefficient"]
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0)).astype(distance.dtype)


def _stretched(call: Call, at: Array, length: int, ratio: float) -> tuple[list[Array], list[Array]]:
    """Taps of a kernel as wide as the step between results; those beyond the edges are left out, the rest sum to 1."""
    reach = math.ceil((1 if call["mode"] == "linear" else 2) * ratio)
    first = np.floor(at)
    indices, weights = [], []
    for step in range(-reach, reach + 2):
        index = first + step
        inside = (index >= 0) & (index < length)
        weights.append(np.where(inside, kernel(call, (index - at) / at.dtype.type(ratio)), 0))
        indices.append(np.clip(index, 0, length - 1).astype(np.int64))
    total = sum(weights)
    return indices, [(weight / total).astype(at.dtype) for weight in weights]
