"""Fourier transforms: of whole axes, and of windows that move along a signal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from isthmus.frontends.torch.aten.common import expand, full
from isthmus.frontends.torch.aten.slicing import pad, part
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.dims import Dim, bounds
from isthmus.ir.dtypes import f32
from isthmus.ir.graph import Value
from isthmus.ir.ops.spectral import LARGEST, elements, matrix

_NORMS: Final = ("none", "root", "length")
"""Norms by torch's number for them."""


def _along(w: Lowering, pairs: Value, axes: Sequence[int], inverse: bool, norm: int) -> Value:
    """All frequencies along axes of pairs."""
    for axis in axes:
        pairs = w.b.dft(pairs, axis=axis, length=w.dims(pairs)[axis], inverse=inverse, norm=_NORMS[norm])
    return pairs


@lowers("aten._fft_c2c")
def fft_c2c(w: Lowering, x: Value, dim: Sequence[int], normalization: int, forward: bool) -> Any:
    return w.b.view_as_complex(_along(w, w.b.view_as_real(x), _axes(w, x, dim), not forward, normalization))


@lowers("aten._fft_r2c")
def fft_r2c(w: Lowering, x: Value, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    """The last axis is the one that is halved."""
    *others, last = _axes(w, x, dim)
    kind = "r2c" if onesided else "c2c"
    pairs = w.b.unsqueeze(x, axes=[w.rank(x)])
    pairs = w.b.dft(pairs, axis=last, length=w.dims(x)[last], kind=kind, norm=_NORMS[normalization])
    return w.b.view_as_complex(_along(w, pairs, others, False, normalization))


@lowers("aten._fft_c2r")
def fft_c2r(w: Lowering, x: Value, dim: Sequence[int], normalization: int, last_dim_size: Dim) -> Any:
    """The last axis is the one that was halved."""
    *others, last = _axes(w, x, dim)
    pairs = _along(w, w.b.view_as_real(x), others, True, normalization)
    return _reals(w, pairs, last, last_dim_size, _NORMS[normalization])


def _reals(w: Lowering, pairs: Value, axis: int, length: Dim, norm: str) -> Value:
    """The signals whose first frequencies these are."""
    found = w.b.dft(pairs, axis=axis, length=length, kind="c2r", inverse=True, norm=norm)
    signals: Value = w.b.squeeze(found, axes=[w.rank(found) - 1])
    return signals


def _axes(w: Lowering, x: Value, dim: Sequence[int]) -> list[int]:
    return [w.axis(x, axis) for axis in dim]


# ---- windows


def _window(w: Lowering, x: Value, window: Value | None, length: int | None, n_fft: int) -> Value:
    """The window, with zeros on both sides up to the length of a transform."""
    dtype = x.tensor.dtype if not x.tensor.dtype.is_complex else w.b.real(x).tensor.dtype
    size = n_fft if length is None else length
    if window is None:
        window = full(w, [size], 1, dtype)
    elif window.tensor.dtype.is_complex:
        w.unsupported("the window is complex", "transform with windows of its real and its imaginary part")
    before = (n_fft - size) // 2
    padded: Value = pad(w, w.cast(window, dtype), [before, n_fft - size - before])
    return padded


@lowers("aten.stft")
def stft(
    w: Lowering, x: Value, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Value | None = None, normalized: bool = False, onesided: bool | None = None, return_complex: bool | None = None,
) -> Any:  # fmt: skip
    """Of signals ``[time]`` or ``[batch, time]``: ``[..., frequencies, frames]``."""
    is_complex, vector = x.tensor.dtype.is_complex, w.rank(x) == 1
    hop = n_fft // 4 if hop_length is None else hop_length
    factor = _window(w, x, window, win_length, n_fft)
    if normalized:
        factor = w.b.mul(factor, 1 / math.sqrt(n_fft))
    x = w.b.unsqueeze(x, axes=[0]) if vector else x
    half = not is_complex if onesided is None else onesided
    if is_complex:  # the transform of a sum is that of its parts
        parts = (w.b.stft(each, factor, hop=hop, onesided=half) for each in (w.b.real(x), w.b.imag(x)))
        real, imag = map(w.b.view_as_complex, parts)
        found = w.b.add(real, w.b.mul(imag, w.tensor(1j, imag.tensor.dtype)))
    else:
        found = w.b.view_as_complex(w.b.stft(x, factor, hop=hop, onesided=half))
    found = w.b.squeeze(found, axes=[0]) if vector else found
    return found if return_complex or (is_complex and return_complex is None) else w.b.view_as_real(found)


@lowers("aten.istft")
def istft(
    w: Lowering, x: Value, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Value | None = None, center: bool = True, normalized: bool = False, onesided: bool | None = None,
    length: int | None = None, return_complex: bool = False,
) -> Any:  # fmt: skip
    """The frames are transformed back, weighted, added where they overlap, and divided by the sum of the squared weights."""
    if return_complex:
        w.unsupported("complex signals are not put together from frames", "use torch.fft.ifft on the frames")
    if not x.tensor.dtype.is_complex:
        w.unsupported("the frequencies must be complex", "use torch.view_as_complex")
    one = w.rank(x) == 2
    x = w.b.unsqueeze(x, axes=[0]) if one else x
    hop = n_fft // 4 if hop_length is None else hop_length
    x = part(w, x, 1, 0, n_fft // 2 + 1)
    factor = _window(w, x, window, win_length, n_fft)
    frames = w.dims(x)[2]
    signal = _signal(w, x, factor, n_fft, hop, "root" if normalized else "length")
    weights = expand(w, w.b.mul(factor, factor), [1, frames, n_fft])
    envelope = _overlapped(w, weights, hop)
    total = n_fft + hop * (frames - 1)
    start: int = n_fft // 2 if center else 0
    end = start + length if length is not None else total - start
    last, rest = end, None
    if length is not None and bounds(end - total)[1] > 0 and w.decide(">", end, total):
        last, rest = total, end - total
    signal, envelope = (part(w, each, 1, start, last) for each in (signal, envelope))
    _check_weights(w, envelope)
    found = w.b.div(signal, envelope)
    if rest is not None:
        found = pad(w, found, [0, rest])
    return w.b.squeeze(found, axes=[0]) if one else found


def _check_weights(w: Lowering, envelope: Value) -> None:
    """torch refuses to divide by a sum of weights that is next to nothing."""
    enough = w.b.reduce_all(w.b.ge(w.b.abs(envelope), 1e-11), axes=[0, 1])
    known = w.known(enough)
    if known is None:
        w.b.check(enough, message="istft: the windows leave a part of the signal without weight")
    elif not known:
        w.unsupported("the windows leave a part of the signal without weight", "choose a window and a hop that overlap")


def _signal(w: Lowering, x: Value, window: Value, n_fft: int, hop: int, norm: str) -> Value:
    """Signals from their frequencies ``[batch, frequencies, frames]``, weighted and added."""
    pairs = w.b.view_as_real(x)
    if window.tensor.dtype is f32 and elements(n_fft, "c2r") <= LARGEST:
        batch, frequencies, frames, _ = w.dims(pairs)
        rows = matrix(n_fft, "c2r", True, norm).reshape(-1, 1, n_fft)
        kernel = w.b.mul(w.b.constant(rows.astype(np.float32)), window)
        channels = w.b.reshape(w.b.permute(pairs, perm=[0, 1, 3, 2]), shape=[batch, frequencies * 2, frames])
        return _spread(w, channels, kernel, hop)
    signals = _reals(w, w.b.permute(pairs, perm=[0, 2, 1, 3]), 2, n_fft, norm)
    return _overlapped(w, w.b.mul(signals, window), hop)


def _spread(w: Lowering, channels: Value, kernel: Value, hop: int) -> Value:
    """Rows of a kernel ``[channels, 1, n]``, weighted by ``[batch, channels, frames]``, each frame `hop` places further."""
    found = w.b.conv_transpose(
        channels, kernel, None, strides=[hop], pads=[0, 0], output_padding=[0], dilations=[1], groups=1
    )
    signals: Value = w.b.squeeze(found, axes=[1])
    return signals


_MOST_PARTS: Final = 64


def _overlapped(w: Lowering, frames: Value, hop: int) -> Value:
    """The sum of frames ``[batch, frames, n]``, each `hop` places further: ``[batch, n + hop * (frames - 1)]``.

    They are cut into parts of the length of a hop; the first parts of all frames make a signal, the second ones, ...
    """
    batch, count, size = w.dims(frames)
    assert isinstance(size, int)
    parts = -(-size // hop)
    if parts > _MOST_PARTS:
        w.unsupported(f"a frame overlaps with {parts} others", "choose a greater hop")
    frames = pad(w, frames, [0, parts * hop - size])
    frames = w.b.reshape(frames, shape=[batch, count, parts, hop])
    total: Value | None = None
    for number in range(parts):
        each = w.b.squeeze(part(w, frames, 2, number, number + 1), axes=[2])
        each = pad(w, each, [0, 0, number, parts - 1 - number])
        total = each if total is None else w.b.add(total, each)
    assert total is not None
    flat = w.b.reshape(total, shape=[batch, (count + (parts - 1)) * hop])
    return part(w, flat, 1, 0, (count - 1) * hop + size)
