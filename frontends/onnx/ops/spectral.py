"""Fourier transforms and what goes with them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from isthmus.frontends.onnx.conversion import Conversion
from isthmus.frontends.onnx.sizes import sizes
from isthmus.frontends.onnx.table import converts
from isthmus.frontends.onnx.types import dtype_of
from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, bounds, same
from isthmus.ir.graph import Value


@converts("DFT", since=20)
def dft(
    c: Conversion, x: Value, length: Value | None = None, axis: Value | None = None, *, inverse: int = 0, onesided: int = 0,
) -> Any:  # fmt: skip
    """The axis is an input, and may be data; the last axis is that of the parts."""
    (place,) = (-2,) if axis is None else c.numbers(axis) or (None,)
    if isinstance(place, int):
        return _dft(c, x, length, place, inverse, onesided)
    assert axis is not None
    rank, b = c.rank(x), c.b
    given = c.scalar(axis)
    given = b.where(b.lt(given, 0), b.add(given, rank), given)

    def among(b: Builder, first: int) -> Any:
        """Along the first axis, or whatever of the later ones it is."""

        def along(b: Builder) -> Any:
            return _dft(Conversion(c.model, b, c.proto, c.scope), x, length, first, inverse, onesided)

        if first == rank - 2:
            return along(b)
        ways = [b.subgraph([], along, "then"), b.subgraph([], lambda b: among(b, first + 1), "else")]
        return b.if_(b.eq(given, first), regions=ways)

    return among(b, 0)


@converts("DFT")
def dft_along(
    c: Conversion, x: Value, length: Value | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0,
) -> Any:  # fmt: skip
    """The axis is an attribute."""
    return _dft(c, x, length, axis, inverse, onesided)


def _dft(c: Conversion, x: Value, length: Value | None, axis: int, inverse: int, onesided: int) -> Any:
    """Of as much of the signal as is asked for, or with zeros behind it."""
    axis = c.axis(axis, c.rank(x))
    shape = c.shape(x)
    parts, back = shape[-1], bool(onesided and inverse)
    own = shape[axis]
    wanted = sizes(c, length, "lengths", 1)[0] if length is not None else 2 * (own - 1) if back else own
    x = _of_length(c, x, axis, wanted // 2 + 1 if back else wanted)
    if not isinstance(parts, int) and (back or not onesided):
        x, parts = _pairs(c, x), 2
    if onesided and not inverse and parts == 2:
        raise c.malformed("a one-sided transform is of real numbers")
    kind = "c2r" if back else "r2c" if onesided else "c2c"
    if back and parts == 1:
        x = _pairs(c, x)
    return c.b.dft(x, axis=axis, length=wanted, kind=kind, inverse=bool(inverse), norm="length" if inverse else "none")


def _pairs(c: Conversion, x: Value) -> Any:
    """Complex numbers, of what may be real: with zeros for the other parts."""
    *lead, parts = c.shape(x)
    return c.b.pad(x, before=[0] * (len(lead) + 1), after=[*[0] * len(lead), 2 - parts])


def _of_length(c: Conversion, x: Value, axis: int, wanted: Dim) -> Any:
    """Cut off, or with zeros behind."""
    own, rank = c.shape(x)[axis], c.rank(x)
    if same(own, wanted) is True:
        return x
    spare = wanted - own
    if bounds(spare)[1] > 0:  # at least as much as is wanted, then no more
        more: Dim = spare if bounds(spare)[0] >= 0 else wanted
        x = c.b.pad(x, before=[0] * rank, after=[more if place == axis else 0 for place in range(rank)])
    return x if same(c.shape(x)[axis], wanted) is True else c.b.slice(x, axes=[axis], starts=[0], ends=[wanted], steps=[1])


@converts("STFT")
def stft(
    c: Conversion, signal: Value, step: Value, window: Value | None = None, length: Value | None = None, *, onesided: int = 1,
) -> Any:  # fmt: skip
    """Transforms of windows that move along signals; of complex ones always to all frequencies."""
    b, dtype = c.b, signal.tensor.dtype
    _, time, *rest = c.shape(signal)
    (hop,) = sizes(c, step, "steps", 1)
    if window is not None:
        frame = c.shape(window)[0]
    else:
        frame = time if length is None else sizes(c, length, "lengths", 1)[0]
        window = b.expand(b.constant(np.asarray(1, dtype.numpy)), shape=[frame])
    if rest and onesided and not isinstance(rest[0], int):
        c.b.graph.symbols.unify(rest[0], 1)  # there is no one-sided transform of complex numbers
        rest = [1]
    elif rest and not isinstance(rest[0], int):
        signal, rest = _pairs(c, signal), [2]
    if (not rest or rest[0] == 1) and isinstance(hop, int):
        x = b.squeeze(signal, axes=[2]) if rest else signal
        return b.permute(b.stft(x, window, hop=hop, onesided=bool(onesided)), perm=[0, 2, 1, 3])
    count = (time - frame) // hop + 1
    starts = b.unsqueeze(b.mul(b.arange(stop=count), b.size(hop)), axes=[1])
    places = b.add(starts, b.arange(stop=frame))
    signal = signal if rest else b.unsqueeze(signal, axes=[2])
    parts = b.mul(b.gather(signal, places, axis=1), b.unsqueeze(window, axes=[1]))
    return b.dft(parts, axis=2, length=frame, kind="r2c" if onesided and rest[:1] != [2] else "c2c")


@converts("MelWeightMatrix")
def mel_weight_matrix(
    c: Conversion, bins: Value, length: Value, rate: Value, low: Value, high: Value, *, output_datatype: int = 1,
) -> Any:  # fmt: skip
    """Triangles over the frequencies of a transform, evenly spaced on the mel scale: ``[frequencies, bins]``."""
    b, dtype = c.b, dtype_of(output_datatype, "output_datatype")
    (count,), (whole,) = sizes(c, bins, "bins", 0), sizes(c, length, "lengths", 0)

    def real(value: Any) -> Any:
        value = b.reshape(value, shape=[])
        return value if value.tensor.dtype is dtypes.f64 else b.cast(value, dtype=dtypes.f64)

    def mel(value: Any) -> Any:
        return b.mul(b.log(b.add(b.div(real(value), 700.0), 1.0)), 2595 / math.log(10))

    least, most = mel(low), mel(high)
    line = b.cast(b.arange(stop=count + 2), dtype=dtypes.f64)
    at = b.add(b.mul(line, b.div(b.sub(most, least), real(b.size(count + 2)))), least)
    hertz = b.mul(b.sub(b.exp(b.mul(at, math.log(10) / 2595)), 1.0), 700.0)
    edges = b.floor(b.div(b.mul(hertz, real(b.size(whole + 1))), real(rate)))
    first, middle, last = (b.slice(edges, axes=[0], starts=[i], ends=[count + i], steps=[1]) for i in range(3))
    places = b.unsqueeze(b.cast(b.arange(stop=whole // 2 + 1), dtype=dtypes.f64), axes=[1])
    rise, fall = b.sub(middle, first), b.sub(last, middle)
    # A side without width is all at the middle, which is 1.
    up = b.where(b.eq(rise, 0.0), 1.0, b.div(b.sub(places, first), b.maximum(rise, 1.0)))
    down = b.div(b.sub(last, places), b.maximum(fall, 1.0))
    rising, falling = b.where(b.ge(places, first), up, 0.0), b.where(b.lt(places, last), down, 0.0)
    return b.cast(b.where(b.le(places, middle), rising, falling), dtype=dtype)
