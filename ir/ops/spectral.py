"""Discrete Fourier transforms, of pairs of reals: a target needs no complex numbers for them.

Complex numbers are pairs along the last axis, as `view_as_real` makes them; an axis of 1 there holds reals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from isthmus.ir import dtypes
from isthmus.ir.attributes import BOOL, DIM, INT, choice
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim
from isthmus.ir.graph import Value
from isthmus.ir.op import Call, Op, Sample, Trait, operands, register, rng, sample
from isthmus.ir.types import Tensor, Type
from isthmus.ir.weights import Array

LARGEST: Final = 1 << 21
"""A transform becomes a product with a matrix of no more elements; a longer one is made of those of its factors."""

LARGEST_OF_ALL: Final = 1 << 22
"""The same, of lengths that have no factors short enough."""


@cache
def matrix(length: int, kind: str, inverse: bool, norm: str) -> Array:
    """What a transform multiplies by: ``[ins, parts, outs, parts]``, where the parts are 2 of complex numbers, 1 of reals.

    Each real number that goes in is a row, each that comes out a column. Computed in double precision.

    Args:
        length: of the signal.
        kind: see `Dft`.
        inverse: see `Dft`.
        norm: see `Dft`.
    """
    half = length // 2 + 1
    times, frequencies = np.arange(length), np.arange(length if kind == "c2c" else half)
    # The product is taken modulo the length first, so that sine and cosine see no large angles.
    angle = 2 * np.pi * (np.outer(times, frequencies) % length) / length * (1 if inverse else -1)
    cos, sin = np.cos(angle), np.sin(angle)
    if kind == "c2r":
        # A frequency stands for its mirror image, too, but for the first and (of an even length) the last.
        twice = np.full(half, 2.0)
        twice[0] = 1
        if length % 2 == 0:
            twice[-1] = 1
        found = np.stack([cos * twice, -sin * twice], -1).transpose(1, 2, 0)[..., None]
    else:
        found = np.stack([np.stack([cos, sin], -1), np.stack([-sin, cos], -1)], 1)[:, : 1 if kind == "r2c" else 2]
    table: Array = found / {"none": 1, "root": np.sqrt(length), "length": length}[norm]
    table.flags.writeable = False
    return table


@register
class Dft(Op):
    """The discrete Fourier transform along an axis of pairs ``x[..., ins, ..., parts]``: ``[..., outs, ..., parts]``.

    ``X[k] = sum(x[n] * exp(-2i * pi * k * n / length))``, with ``+2i`` for the inverse, divided by 1 (`norm` is ``none``), by
    the square root of the length (``root``) or by the length. `kind` says what goes in and comes out: complex numbers and all
    their frequencies (``c2c``; one part in means reals), reals and their ``length // 2 + 1`` first frequencies (``r2c``), or
    these and reals (``c2r``; the first frequency counts as real, and of an even length the last). `length` is that of the
    signal.
    """

    name = "dft"
    operands = operands("x: float T")
    attributes = {
        "axis": INT, "length": DIM, "kind": choice("c2c", "r2c", "c2r")("c2c"), "inverse": BOOL(False),
        "norm": choice("none", "root", "length")("none"),
    }  # fmt: skip
    traits = Trait.PURE | Trait.COARSE
    source = "numpy.fft.fft, rfft, irfft; ONNX DFT-20"

    def infer(self, call: Call) -> Sequence[Type]:
        x = call.tensor(0)
        shape: tuple[Dim, ...] = x.shape  # type: ignore[assignment]
        rank, axis, kind, length = len(shape), call["axis"], call["kind"], call["length"]
        if rank < 2 or not 0 <= axis < rank - 1:
            raise call.error(f"axis {axis} is none of signals", expected="an axis before the last, which holds the parts")
        allowed = {"c2c": (1, 2), "r2c": (1,), "c2r": (2,)}[kind]
        if len(allowed) == 1:
            call.unify(shape[-1], allowed[0], "the last axis and the parts of numbers")
        elif not isinstance(shape[-1], int):
            raise call.unknown("the last size, which says whether numbers are real or complex, is not known")
        elif shape[-1] not in allowed:
            raise call.error("the last axis holds the parts of numbers", expected=" or ".join(map(str, allowed)))
        half = length // 2 + 1
        call.unify(shape[axis], half if kind == "c2r" else length, "the size of the axis and the length")
        outs = half if kind == "r2c" else length
        return (Tensor(x.dtype, (*shape[:axis], outs, *shape[axis + 1 : -1], 1 if kind == "c2r" else 2)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        x = operands[0].astype(np.float64)
        axis, kind, length, inverse = call["axis"], call["kind"], call["length"], call["inverse"]
        given: Array = x[..., 0] + 1j * x[..., 1] if x.shape[-1] == 2 else x[..., 0]
        if not given.size or not length:
            found = np.zeros(call.op.infer(call)[0].shape)  # type: ignore[union-attr,arg-type]
            return found.astype(operands[0].dtype)
        result: Array
        if kind == "c2c":
            result = np.fft.ifft(given, axis=axis, norm="forward") if inverse else np.fft.fft(given, axis=axis)
        elif kind == "r2c":
            result = np.fft.rfft(given, axis=axis)
            result = np.conj(result) if inverse else result
        else:
            result = np.fft.irfft(given if inverse else np.conj(given), length, axis=axis, norm="forward")
        result = result / {"none": 1, "root": np.sqrt(length), "length": length}[call["norm"]]
        pairs = result[..., None] if kind == "c2r" else np.stack([result.real, result.imag], -1)
        return pairs.astype(operands[0].dtype)

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        """Products with the matrices of short transforms, where the length is known and has small factors."""
        x: Value = operands[0]
        axis, kind, length, inverse, norm = (call[name] for name in ("axis", "kind", "length", "inverse", "norm"))
        if not isinstance(length, int) or length < 1:
            return NotImplemented
        factors = _factors(length) if elements(length, kind) > LARGEST else None
        if factors is None and elements(length, kind) > LARGEST_OF_ALL:
            return NotImplemented
        rank = len(call.shape(0))
        last = [*(other for other in range(rank - 1) if other != axis), axis, rank - 1]
        if axis != rank - 2:
            x = b.permute(x, perm=last)
        if factors is None:
            found = _product(b, x, length, kind, inverse, norm)
        else:
            found = _by_factors(b, _mirrored(b, x, length) if kind == "c2r" else x, factors, inverse, norm)
            found = _first(b, found, length // 2 + 1, -2) if kind == "r2c" else found
            found = _first(b, found, 1, -1) if kind == "c2r" else found
        return found if axis == rank - 2 else b.permute(found, perm=[last.index(other) for other in range(rank)])

    def samples(self) -> Iterable[Sample]:
        x = rng().standard_normal((2, 6, 5, 2)).astype(np.float32)
        yield sample(x, axis=1, length=6, note="c2c", symbolic=False)
        yield sample(x, axis=2, length=5, inverse=True, norm="length", note="inverse", symbolic=False)
        yield sample(x[..., :1], axis=2, length=5, norm="root", note="of-reals", symbolic=False)
        yield sample(x[..., :1], axis=1, length=6, kind="r2c", note="r2c-even", symbolic=False)
        yield sample(x[..., :1], axis=2, length=5, kind="r2c", inverse=True, note="r2c-odd-inverse", symbolic=False)
        yield sample(x, axis=1, length=10, kind="c2r", inverse=True, norm="length", note="c2r-even", symbolic=False)
        yield sample(x, axis=2, length=9, kind="c2r", inverse=True, norm="root", note="c2r-odd", symbolic=False)
        yield sample(x, axis=2, length=8, kind="c2r", note="c2r-forward", symbolic=False)
        yield sample(x[0, 0], axis=0, length=5, note="vector", symbolic=False)
        yield sample(x[:, :1], axis=1, length=1, note="one", symbolic=False)
        yield sample(x[:0], axis=1, length=6, note="empty", symbolic=False)
        yield sample(x.astype(np.float64), axis=1, length=6, note="f64", symbolic=False)
        long = rng().standard_normal((2, 2049, 2))
        yield sample(long[:, :1026], axis=1, length=1026, inverse=True, norm="length", note="long", symbolic=False)
        yield sample(long[..., :1], axis=1, length=2049, kind="r2c", note="long-r2c", symbolic=False)
        yield sample(long, axis=1, length=4096, kind="c2r", inverse=True, norm="root", note="long-c2r", symbolic=False)
        yield sample(long[:1, :1031], axis=1, length=1031, note="long-prime", symbolic=False)


def _product(b: Builder, x: Value, length: int, kind: str, inverse: bool, norm: str) -> Value:
    """A transform along the last axis but one, by its matrix."""
    *lead, _, parts = x.tensor.shape  # type: ignore[misc]
    table = matrix(length, kind, inverse, norm)[:, :parts]
    ins, _, outs, made = table.shape
    factor = b.constant(np.ascontiguousarray(table.reshape(ins * parts, outs * made)).astype(x.tensor.dtype.numpy))
    found = b.matmul(b.reshape(x, shape=[*lead, ins * parts]), factor)
    result: Value = b.reshape(found, shape=[*lead, outs, made])
    return result


def _factors(length: int) -> tuple[int, int] | None:
    """The two factors of a length that lie closest together, where the transforms of both have matrices."""
    for one in range(math.isqrt(length), 1, -1):
        if length % one == 0:
            return (one, length // one) if elements(length // one, "c2c") <= LARGEST else None
    return None


def _by_factors(b: Builder, x: Value, factors: tuple[int, int], inverse: bool, norm: str) -> Value:
    """A transform to all frequencies, by those of two factors (Cooley and Tukey).

    With ``time = columns * row + column`` and ``frequency = first + rows * second``: transforms along the rows, turns of each
    element, and transforms along the columns.
    """
    rows, columns = factors
    length = rows * columns
    *lead, _, parts = x.tensor.shape  # type: ignore[misc]
    rank = len(lead) + 3
    swapped = [*range(rank - 3), rank - 2, rank - 3, rank - 1]
    x = b.permute(b.reshape(x, shape=[*lead, rows, columns, parts]), perm=swapped)
    x = _product(b, x, rows, "c2c", inverse, norm)  # [columns, first]
    angle = 2 * np.pi * np.outer(np.arange(columns), np.arange(rows)) / length * (1 if inverse else -1)
    cos, sin = np.cos(angle), np.sin(angle)
    turns = (np.stack(each, -1).astype(x.tensor.dtype.numpy) for each in ((cos, sin), (-sin, cos)))
    last = [rank - 1]
    halves = (b.slice(x, axes=last, starts=[place], ends=[place + 1], steps=[1]) for place in (0, 1))
    x = b.add(*(b.mul(half, b.constant(turn)) for half, turn in zip(halves, turns, strict=True)))
    x = _product(b, b.permute(x, perm=swapped), columns, "c2c", inverse, norm)  # [first, second]
    found: Value = b.reshape(b.permute(x, perm=swapped), shape=[*lead, length, 2])
    return found


def _mirrored(b: Builder, x: Value, length: int) -> Value:
    """All frequencies of a signal of reals: behind the first ones their conjugates, in reverse."""
    rank = x.tensor.rank
    rest = b.slice(x, axes=[rank - 2], starts=[1], ends=[(length + 1) // 2], steps=[1])
    conjugates = b.mul(b.flip(rest, axes=[rank - 2]), b.constant(np.array([1, -1]), x.tensor.dtype))
    found: Value = b.concat([x, conjugates], axis=rank - 2)
    return found


def _first(b: Builder, x: Value, count: int, axis: int) -> Value:
    found: Value = b.slice(x, axes=[x.tensor.rank + axis], starts=[0], ends=[count], steps=[1])
    return found


def elements(length: int, kind: str) -> int:
    """The size of a transform's matrix."""
    return length * length * 4 if kind == "c2c" else length * (length // 2 + 1) * 2


@register
class Stft(Op):
    """Fourier transforms of windows that move along a signal: ``x[batch, time]`` and ``window[frame]`` give
    ``[batch, frequencies, frames, 2]``.

    Each of the ``(time - frame) // hop + 1`` parts of the signal is multiplied by the window and transformed, without a norm:
    to the ``frame // 2 + 1`` first frequencies where `onesided`, else to all.
    """

    name = "stft"
    operands = operands("x: float T, window: float T")
    attributes = {"hop": INT, "onesided": BOOL(True)}
    traits = Trait.PURE | Trait.COARSE
    source = "torch.stft(center=False); ONNX STFT-17"

    def infer(self, call: Call) -> Sequence[Type]:
        shape, window, hop = call.shape(0), call.shape(1), call["hop"]
        if len(shape) != 2 or len(window) != 1 or hop < 1:
            raise call.error("expects x[batch, time], window[frame] and a hop of at least 1")
        (frame,) = window
        frames = (shape[1] - frame) // hop + 1
        if isinstance(frames, int) and frames < 1:
            raise call.error("the signal is shorter than the window")
        frequencies = frame // 2 + 1 if call["onesided"] else frame
        return (Tensor(call.dtype(0), (shape[0], frequencies, frames, 2)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        x, window = (each.astype(np.float64) for each in operands)
        parts = np.lib.stride_tricks.sliding_window_view(x, len(window), 1)[:, :: call["hop"]] * window
        found = (np.fft.rfft if call["onesided"] else np.fft.fft)(parts, axis=-1).swapaxes(1, 2)
        return np.stack([found.real, found.imag], -1).astype(operands[0].dtype)

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        """In f32 a convolution with the windowed rows of the transform's matrix; else transforms of the gathered parts."""
        x, window = operands
        batch, (frame,), hop = call.shape(0)[0], call.shape(1), call["hop"]
        kind = "r2c" if call["onesided"] else "c2c"
        if isinstance(frame, int) and call.dtype(0) is dtypes.f32 and elements(frame, kind) <= LARGEST:
            table = matrix(frame, kind, False, "none")[:, 0]  # [frame, frequencies, 2]
            rows = table.transpose(1, 2, 0).reshape(-1, 1, frame).astype(np.float32)
            kernel = b.mul(b.constant(rows), window)
            found = b.conv(b.unsqueeze(x, axes=[1]), kernel, None, strides=[hop], pads=[0, 0], dilations=[1], groups=1)
            frames = found.tensor.shape[2]
            return b.permute(b.reshape(found, shape=[batch, table.shape[1], 2, frames]), perm=[0, 1, 3, 2])
        return _by_frames(b, call, x, window)

    def samples(self) -> Iterable[Sample]:
        x = rng().standard_normal((2, 20)).astype(np.float32)
        window = np.hanning(8).astype(np.float32)
        yield sample(x, window, hop=3)
        yield sample(x, window, hop=4, onesided=False, note="both-sides")
        yield sample(x[:, :8], window, hop=5, note="one-frame", symbolic=False)
        yield sample(x.astype(np.float64), window.astype(np.float64), hop=3, note="f64")


def _by_frames(b: Builder, call: Call, x: Value, window: Value) -> Value:
    """`stft` as transforms of the gathered parts of the signals."""
    (_, time), (frame,), hop = call.shape(0), call.shape(1), call["hop"]
    count = (time - frame) // hop + 1
    starts = b.unsqueeze(b.arange(start=0, stop=count * hop, step=hop, dtype=dtypes.i64), axes=[1])
    places = b.add(starts, b.arange(start=0, stop=frame, dtype=dtypes.i64))
    parts = b.mul(b.gather(x, places, axis=1), window)
    kind = "r2c" if call["onesided"] else "c2c"
    found: Value = b.permute(b.dft(b.unsqueeze(parts, axes=[3]), axis=2, length=frame, kind=kind), perm=[0, 2, 1, 3])
    return found
