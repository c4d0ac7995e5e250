"""Where the windows of convolutions and pools lie: what ONNX's attributes leave open, filled in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isthmus.frontends.onnx.conversion import Conversion
from isthmus.ir.dims import Dim, ceildiv, maximum
from isthmus.ir.errors import Refusal, UnsupportedError
from isthmus.ir.graph import Value


@dataclass
class Windows:
    """Windows over the spatial axes of something.

    Attributes:
        kernel: their sizes.
        strides: from one to the next.
        dilations: from one element of a window to the next.
        pads: what is around the input: all begins, then all ends. Dims, where they follow from sizes.
    """

    kernel: list[Dim]
    strides: list[int]
    dilations: list[int]
    pads: list[Dim]

    @property
    def count(self) -> int:
        """The number of spatial axes."""
        return len(self.kernel)

    @property
    def begins(self) -> list[Dim]:
        """What is before each axis."""
        return self.pads[: self.count]

    @property
    def ends(self) -> list[Dim]:
        """What is behind each axis."""
        return self.pads[self.count :]

    def spans(self) -> list[Dim]:
        """How far each window reaches."""
        return [(size - 1) * gap + 1 for size, gap in zip(self.kernel, self.dilations, strict=True)]

    def fixed(self, c: Conversion, x: Value, fill: Any = 0) -> tuple[Value, list[int]]:
        """The input and the padding that is left to the op: where a pad is no number, everything is padded before."""
        numbers = [pad for pad in self.pads if isinstance(pad, int)]
        if len(numbers) == len(self.pads):
            return x, numbers
        fill = fill if isinstance(fill, Value) else c.same_type(0 if fill is None else fill, x)
        padded = c.b.pad(x, fill, before=[0, 0, *self.begins], after=[0, 0, *self.ends])
        self.pads = [0 for _ in self.pads]
        return padded, [0] * len(self.pads)


def windows(
    c: Conversion, x: Value, kernel: Sequence[Dim], strides: Sequence[int] | None, pads: Sequence[int] | None,
    dilations: Sequence[int] | None, auto_pad: str,
) -> Windows:  # fmt: skip
    """The windows that a node's attributes mean.

    Raises:
        FileError: an attribute has another length than there are axes.
    """
    count = c.rank(x) - 2
    found = Windows(
        list(kernel), list(strides or [1] * count), list(dilations or [1] * count), list(pads or [0] * 2 * count)
    )
    lengths = (len(found.kernel), len(found.strides), len(found.dilations), len(found.pads) / 2)
    if count < 1 or any(length != count for length in lengths):
        raise c.malformed(f"kernel, strides, dilations and pads do not fit an input of rank {c.rank(x)}")
    if auto_pad == "VALID":
        found.pads = [0 for _ in found.pads]
    elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        totals: list[Dim] = []
        for size, span, stride in zip(c.shape(x)[2:], found.spans(), found.strides, strict=True):
            totals.append(maximum(0, span - 1 if stride == 1 else (ceildiv(size, stride) - 1) * stride + span - size))
        found.pads = halves(totals, upper=auto_pad == "SAME_UPPER")
    elif auto_pad != "NOTSET":
        raise c.malformed(f"there is no auto_pad {auto_pad}")
    return found


def check_fit(c: Conversion, x: Value, found: Windows, ceil_mode: bool) -> None:
    """Asks for room for one window of a pool at least.

    Raises:
        UnsupportedError: there is none. By the standard the result then has a size of 0 or less; onnxruntime gives nothing, or
            a window that is cut off, or fails, as the stride and what is missing would have it.
    """
    sides = zip(c.shape(x)[2:], found.spans(), found.begins, found.ends, found.strides, strict=True)
    for size, span, begin, end, stride in sides:
        wide = size + begin + end
        if isinstance(wide, int) and isinstance(span, int) and wide - span < (1 - stride if ceil_mode else 0):
            why = "a window is larger than the padded input, and a result of no windows is not carried over"
            refusal = Refusal(why, op=c.proto.op_type, location=c.b.location, expected=f"at least {span}", found=str(wide))
            raise UnsupportedError("1 operation cannot be carried over", [refusal])


def slid(c: Conversion, y: Value) -> Value:
    """What windows make of something: where they do not fit into it the model fails, unless it gets there only at times."""
    if c.b.graph.parent is None:
        for dim in c.shape(y)[2:]:
            c.b.graph.symbols.know_bound(">=", dim, 0)
    return y


def halves(totals: Sequence[Dim], upper: bool) -> list[Dim]:
    """Pads that share totals between begin and end; of an odd one the end has more, or the begin."""
    less: list[Dim] = [total // 2 for total in totals]
    more: list[Dim] = [total - total // 2 for total in totals]
    return less + more if upper else more + less


def kernel_of(c: Conversion, weight: Value, kernel_shape: Sequence[int] | None) -> list[Dim]:
    """The kernel's sizes, which an attribute may tell as well."""
    sizes = list(c.shape(weight)[2:])
    if kernel_shape is None:
        return sizes
    fits = all(size == told for size, told in zip(sizes, kernel_shape, strict=False) if isinstance(size, int))
    if len(kernel_shape) != len(sizes) or not fits:
        raise c.malformed(f"kernel_shape {list(kernel_shape)} is not that of the weight")
    return [size if isinstance(size, int) else told for size, told in zip(sizes, kernel_shape, strict=True)]


def lowest(x: Value) -> Any:
    """What no maximum is taken by."""
    dtype = x.tensor.dtype
    return -np.inf if dtype.is_float else int(dtype.limits[0])
