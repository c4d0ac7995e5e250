"""Resizing of spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch

from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.frontends.torch.products import Product
from isthmus.frontends.torch.weights import contents
from isthmus.ir.dims import Dim
from isthmus.ir.dtypes import f64, u8
from isthmus.ir.graph import Value


def _resize(
    w: Lowering, x: Value, output_size: Sequence[Dim] | None, factors: Sequence[float | None] | None, attrs: dict[str, Any]
) -> Any:
    space = w.dims(x)[2:]
    own = output_size is None
    output_size = _scaled(w, space, factors) if output_size is None else output_size
    if attrs.get("antialias") and attrs["coordinates"] == "align_corners":
        # Torch takes the ratio of aligned corners here, and places as without.
        attrs = attrs | {"coordinates": "half_pixel"}
        factors = [_between_corners(w, size, out) for size, out in zip(space, output_size, strict=True)]
    scales = None
    if factors is not None and None not in factors and attrs["coordinates"] != "align_corners":  # which goes by the sizes alone
        given = zip(space, output_size, factors, strict=True)
        scales = [_effective(w, size, None if own else out, float(factor), attrs, len(space)) for size, out, factor in given]  # type: ignore[arg-type]
    return w.b.resize(x, sizes=output_size, scales=scales, **attrs)


def _scaled(w: Lowering, space: Sequence[Dim], factors: Sequence[float | None] | None) -> list[Dim]:
    """The sizes times the factors, rounded down."""
    if factors is None or None in factors:
        w.unsupported("neither the size of the result nor a scale is given")
    return [Product(size, float(factor)).floor(w.b) for size, factor in zip(space, factors, strict=True)]  # type: ignore[arg-type]


_BITS: Final = 22
"""The weights of u8 have at most so many bits behind the point."""


def _in_fixed_point(
    w: Lowering, x: Value, output_size: Sequence[Dim] | None, factors: Sequence[float | None] | None, name: str,
    align_corners: bool,
) -> Any:  # fmt: skip
    """What torch makes of images of u8: along one axis and then the other, with weights of 16 bits, rounded after each.

    Args:
        w: the lowering.
        x: ``[N, C, H, W]``.
        output_size: the new height and width; None where the scales tell them.
        factors: the scales of both, where they are given.
        name: the op of torch's.
        align_corners: how it takes places.
    """
    sizes = _scaled(w, w.dims(x)[2:], factors) if output_size is None else output_size
    found = w.b.cast(x, dtype=f64)  # no sum comes near what that holds exactly
    for axis in (3, 2):
        size, out, factor = w.dims(x)[axis], sizes[axis - 2], factors[axis - 2] if factors else None
        if size == out:
            continue
        if not isinstance(size, int) or not isinstance(out, int):
            w.unsupported(
                "u8 is interpolated with weights of 16 bits, which take sizes that are known",
                "interpolate floats: F.interpolate(x.float(), ...).round().clamp(0, 255).to(torch.uint8)",
            )
        weights, bits = _whole_weights(name, size, out, align_corners, factor)
        right = w.b.constant(weights if axis == 3 else weights.T)
        found = w.b.matmul(found, right) if axis == 3 else w.b.matmul(right, found)
        found = w.b.floor(w.b.div(w.b.add(found, float(1 << bits >> 1)), float(1 << bits)))
        found = w.b.clip(found, w.tensor(0.0, f64), w.tensor(255.0, f64))
    return w.b.cast(found, dtype=x.tensor.dtype)


def _whole_weights(name: str, size: int, out: int, align_corners: bool, factor: float | None) -> tuple[Any, int]:
    """What each element counts for each result along an axis, ``f64[size, out]``, in units of as many bits behind the point."""
    each = torch.eye(size, dtype=torch.float64).reshape(1, size, 1, size)
    weights = contents(getattr(torch.ops.aten, name).default(each, [1, out], align_corners, None, factor))[0, :, 0]
    most = weights.max()
    bits = next((bits for bits in range(_BITS) if int(0.5 + most * (2 << bits)) >= 1 << 15), _BITS)
    return np.trunc(weights * (1 << bits) + np.copysign(0.5, weights)), bits


def _between_corners(w: Lowering, size: Dim, out: Dim) -> float:
    if not isinstance(size, int) or not isinstance(out, int) or size < 2 or out < 2:
        w.unsupported("antialiasing with aligned corners needs sizes that are known, of 2 or more", "set align_corners=False")
    return (out - 1) / (size - 1)


def _effective(w: Lowering, size: Dim, out: Dim | None, factor: float, attrs: dict[str, Any], count: int) -> float:
    """The scale that torch's CPU kernels compute with: where rounding made another ratio of the sizes, some go by that.

    Args:
        w: the lowering.
        size: the size that is scaled.
        out: the result's; None where it is the size times the factor, rounded down.
        factor: the factor.
        attrs: of the op.
        count: how many axes are scaled.
    """

    def is_times(number: int) -> bool:
        if out is not None:
            return w.decide("==", out, number * size)
        return w.decide("<", size, _first_beyond(factor, number))

    mode = attrs["mode"]
    halves = mode == "nearest" and attrs["nearest"] == "floor" and count == 2
    if (halves or mode == "linear" or attrs.get("antialias")) and 1 < factor < 1.5 and is_times(1):
        return 1.0
    if halves and 2 < factor < 2.5 and is_times(2):
        return 2.0
    return factor


def _first_beyond(factor: float, number: int) -> int:
    """The least size that the factor makes more than so many times as large."""
    size = max(1, int(1 / (factor - number)) - 1)
    while int(size * factor) <= number * size:
        size += 1
    return size


def _upsample(name: str, count: int, **fixed: Any) -> None:
    """The overloads of one kind: with a list of scale factors, and with a scale for each axis."""
    aligned = fixed.pop("aligned", False)

    def resize(
        w: Lowering, x: Value, output_size: Sequence[Dim] | None, align_corners: bool, factors: Sequence[float | None] | None
    ) -> Any:
        if x.tensor.dtype is u8 and fixed["mode"] != "nearest":
            return _in_fixed_point(w, x, output_size, factors, name, align_corners)
        attrs = fixed | ({"coordinates": "align_corners"} if aligned and align_corners else {})
        return _resize(w, x, output_size, factors, attrs)

    def with_list(
        w: Lowering, x: Value, output_size: Sequence[Dim] | None, align_corners: bool = False,
        scale_factors: Sequence[float] | None = None,
    ) -> Any:  # fmt: skip
        return resize(w, x, output_size, align_corners, scale_factors)

    def with_scales(
        w: Lowering, x: Value, output_size: Sequence[Dim], align_corners: bool = False, scales: float | None = None,
        scales_d: float | None = None, scales_h: float | None = None, scales_w: float | None = None,
    ) -> Any:  # fmt: skip
        factors = [scales] if count == 1 else [scales_d, scales_h, scales_w][3 - count :]
        return resize(w, x, output_size, align_corners, factors)

    lowers(f"aten.{name}.vec")(with_list)
    lowers(f"aten.{name}")(with_scales)


_NEAREST: Final = {"mode": "nearest", "coordinates": "asymmetric", "nearest": "floor"}
_EXACT: Final = {"mode": "nearest", "coordinates": "half_pixel", "nearest": "round_prefer_ceil"}
for _count in (1, 2, 3):
    _upsample(f"upsample_nearest{_count}d", _count, **_NEAREST)
    _upsample(f"_upsample_nearest_exact{_count}d", _count, **_EXACT)
for _name, _count in (("upsample_linear1d", 1), ("upsample_bilinear2d", 2), ("upsample_trilinear3d", 3)):
    _upsample(_name, _count, aligned=True, mode="linear", coordinates="half_pixel")
_upsample("upsample_bicubic2d", 2, aligned=True, mode="cubic", coordinates="half_pixel", cubic_coefficient=-0.75)
_upsample("_upsample_bilinear2d_aa", 2, aligned=True, mode="linear", coordinates="half_pixel", antialias=True)
_upsample(
    "_upsample_bicubic2d_aa", 2, aligned=True, mode="cubic", coordinates="half_pixel", cubic_coefficient=-0.5, antialias=True
)
