"""Attention."""

from __future__ import annotations

import math
from typing import Any

from isthmus.frontends.onnx.conversion import Conversion, call_function
from isthmus.frontends.onnx.ops.normalization import cast
from isthmus.frontends.onnx.table import converts
from isthmus.ir import dtypes
from isthmus.ir.dims import Dim, same
from isthmus.ir.graph import Value


@converts("Attention", since=23)
def attention(
    c: Conversion, q: Value, k: Value, v: Value, mask: Value | None = None, past_key: Value | None = None,
    past_value: Value | None = None, lengths: Value | None = None, *, is_causal: int = 0, kv_num_heads: int = 0,
    left_window_size: int = -1, q_num_heads: int = 0, qk_matmul_output_mode: int = 0, right_window_size: int = -1,
    scale: float | None = None, softcap: float = 0.0, softmax_precision: int | None = None,
) -> Any:  # fmt: skip
    """Scaled dot products, softmax and their sums.

    What the row `attention` does not say (a soft cap, windows, lengths, the scores as a result), the standard's own function
    does.
    """
    dtype, b = q.tensor.dtype, c.b
    strange = mask is not None and not (mask.tensor.dtype.is_float or mask.tensor.dtype is dtypes.bool_)
    apart = {k.tensor.dtype, v.tensor.dtype} != {dtype}
    windows = max(left_window_size, right_window_size) >= 0
    if any(c.wanted[3:]) or softcap or windows or lengths is not None or strange or apart:
        return call_function(c.model, b, c.proto, [q, k, v, mask, past_key, past_value, lengths][: len(c.proto.input)])
    flat = c.rank(q) == 3
    if flat:
        heads = (q_num_heads, kv_num_heads, kv_num_heads)
        q, k, v = (_apart(c, each, count) for each, count in zip((q, k, v), heads, strict=True))
    past: Dim = 0
    if past_key is not None and past_value is not None:
        past = c.shape(past_key)[2]
        k, v = (b.concat(pair, axis=2) for pair in ([past_key, k], [past_value, v]))
    rows, columns = c.shape(q)[2], c.shape(k)[2]
    if mask is not None:
        mask = _whole(c, mask if mask.tensor.dtype is dtypes.bool_ else cast(c, mask, dtype), columns)
    causal = bool(is_causal)
    if causal and not (isinstance(past, int) and past == 0):
        own = b.unsqueeze(b.arange(start=past, stop=past + rows, dtype=dtypes.i64), axes=[1])
        keep = b.ge(own, b.arange(stop=columns, dtype=dtypes.i64))
        if mask is None:
            mask = keep
        elif mask.tensor.dtype is dtypes.bool_:
            mask = b.logical_and(mask, keep)
        else:
            mask = b.where(keep, mask, c.same_type(-math.inf, mask))
        causal = False
    y = b.attention(q, k, v, mask, scale=scale, causal=causal)
    if flat:
        batch, count, length, width = c.shape(y)
        y = b.reshape(b.permute(y, perm=[0, 2, 1, 3]), shape=[batch, length, count * width])
    return y, k, v


def _apart(c: Conversion, x: Value, heads: int) -> Any:
    """``[batch, length, heads * width]`` as ``[batch, heads, length, width]``."""
    batch, length, size = c.shape(x)
    if heads < 1 or (isinstance(size, int) and size % heads):
        raise c.malformed(f"{size} does not divide into {heads} heads")
    return c.b.permute(c.b.reshape(x, shape=[batch, length, heads, size // heads]), perm=[0, 2, 1, 3])


def _whole(c: Conversion, mask: Value, columns: Dim) -> Any:
    """A mask for all columns: those beyond it are hidden."""
    shape = c.shape(mask)
    if not shape or same(shape[-1], columns) is True:
        return mask
    hidden = False if mask.tensor.dtype is dtypes.bool_ else -math.inf
    lead = [0] * (len(shape) - 1)
    return c.b.pad(mask, c.same_type(hidden, mask), before=[*lead, 0], after=[*lead, columns - shape[-1]])
