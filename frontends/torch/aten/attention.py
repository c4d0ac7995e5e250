"""Scaled dot-product attention, kept whole."""

from __future__ import annotations

import math
from typing import Any

from isthmus.frontends.torch.aten.shape import repeat_interleave
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.dtypes import bool_, f32, f64
from isthmus.ir.graph import Value
from isthmus.ir.ops.attention import shared_by


@lowers("aten.scaled_dot_product_attention")
def attention(
    w: Lowering, query: Value, key: Value, value: Value, attn_mask: Value | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    if dropout_p:
        w.unsupported("attention with dropout is only for training", "call model.eval() first")
    if enable_gqa and shared_by(*map(w.dims, (query, key, value))) == 1:
        heads = w.dims(query)[-3]
        key, value = (repeat_interleave(w, each, heads // w.dims(each)[-3], -3) for each in (key, value))
    if attn_mask is not None and attn_mask.tensor.dtype is not bool_:
        attn_mask = w.cast(attn_mask, query.tensor.dtype)
    return w.b.attention(query, key, value, attn_mask, scale=scale, causal=is_causal)


@lowers("aten._scaled_dot_product_flash_attention_for_cpu")
def flash_attention(
    w: Lowering, query: Value, key: Value, value: Value, dropout_p: float = 0.0, is_causal: bool = False,
    attn_mask: Value | None = None, scale: float | None = None,
) -> Any:  # fmt: skip
    """Attention, and the logarithm of each row's sum; torch's own decomposition gives the weights in place of that."""
    found = attention(w, query, key, value, attn_mask, dropout_p, is_causal, scale)
    scores = w.b.matmul(query, w.b.permute(key, perm=[0, 1, 3, 2]))
    size = w.b.cast(w.b.size(w.dims(query)[-1]), dtype=query.tensor.dtype)
    scores = w.b.mul(scores, w.b.rsqrt(size) if scale is None else scale)
    if attn_mask is not None:
        scores = w.b.add(scores, w.cast(attn_mask, query.tensor.dtype))
    if is_causal:
        rows, columns = w.dims(scores)[-2:]
        hidden = w.b.gt(w.b.arange(stop=columns), w.b.unsqueeze(w.b.arange(stop=rows), axes=[1]))
        scores = w.b.where(hidden, -math.inf, scores)
    return found, w.b.logsumexp(w.cast(scores, f64 if scores.tensor.dtype is f64 else f32), axes=[3])
