"""Attention."""

from __future__ import annotations

import math
from typing import Any

from isthmus.frontends.onnx.conversion import Conversion, call_function
from isthmus.frontends.onnx.ops.normalization import cast
from isthmus.frontends.onnx.sizes import repeated
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
        counts = (q_num_heads, kv_num_heads, kv_num_heads)
        q, k, v = (_apart(c, each, count) for each, count in zip((q, k, v), counts, strict=True))
    past: Dim = 0
    if past_key is not None and past_value is not None:
        past = c.shape(past_key)[2]
        k, v = (b.concat(pair, axis=2) for pair in ([past_key, k], [past_value, v]))
    batch, heads, rows, _ = c.shape(q)
    columns = c.shape(k)[2]
    _agree(c, "==", "the batches of q, k and v", (c.shape(k)[0], batch), (c.shape(v)[0], batch))
    _agree(c, "==", "the heads of k and v", (c.shape(k)[1], c.shape(v)[1]))
    if mask is not None:
        within = zip(reversed(c.shape(mask)[:-1]), (rows, heads, batch), strict=False)
        _agree(c, "<=", "the mask and the scores", *within)  # to which it broadcasts, and not the other way round
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
    y = _by_heads(c, q, k, v, mask, scale=scale, causal=causal)
    if flat:
        batch, count, length, width = c.shape(y)
        y = b.reshape(b.permute(y, perm=[0, 2, 1, 3]), shape=[batch, length, count * width])
    return y, k, v


def _agree(c: Conversion, relation: str, what: str, *pairs: tuple[Dim, Dim]) -> None:
    """Takes sizes to be as the standard has them.

    Raises:
        FileError: they cannot be.
    """
    symbols = c.b.graph.symbols
    for left, right in pairs:
        if not (symbols.unify(left, right) if relation == "==" else symbols.constrain(relation, left, right)):
            raise c.malformed(f"{what} do not agree: {left} and {right}")


def _by_heads(c: Conversion, q: Value, k: Value, v: Value, mask: Value | None, **how: Any) -> Any:
    """With an axis more where it is not known how many heads of q share one of k and v."""
    b = c.b
    batch, heads, *rest = c.shape(q)
    shared = c.shape(k)[1]
    if (isinstance(heads, int) and isinstance(shared, int)) or b.graph.symbols.same(heads, shared) is True:
        return b.attention(q, k, v, mask, **how)
    groups = [shared, heads // shared]
    q = b.reshape(q, shape=[batch, *groups, *rest])
    k, v = (b.unsqueeze(each, axes=[2]) for each in (k, v))
    if mask is not None and c.rank(mask) > 2:
        *lead, own, rows, columns = c.shape(mask)
        mask = repeated(c, mask, len(lead), heads)
        mask = b.reshape(mask, shape=[*lead, *([1, 1] if own == 1 else groups), rows, columns])
    y = b.attention(q, k, v, mask, **how)
    return b.reshape(y, shape=[batch, heads, rest[0], c.shape(v)[-1]])


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
