"""The fused ops that torch's fast path of multi-head attention calls: scripts have decided for it when they were made."""

from __future__ import annotations

import math
from typing import Any, Final

from isthmus.frontends.torch.aten.attention import attention
from isthmus.frontends.torch.aten.common import reshape
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.dtypes import bool_
from isthmus.ir.graph import Value

_KEYS: Final = 1
"""The kind of mask that has a row of keys for each element of the batch; the others broadcast as they are."""


def _allowed(w: Lowering, mask: Value | None, kind: int | None) -> Value | None:
    """Where a query looks at a key; in the op's mask, what is true is hidden."""
    if mask is None:
        return None
    shown: Value = w.b.logical_not(w.cast(mask, bool_))
    return w.b.unsqueeze(shown, axes=[1, 2]) if kind == _KEYS and w.rank(shown) == 2 else shown


def _rows(w: Lowering, x: Value, part: int, size: int) -> Value:
    """One of three parts of a weight or bias."""
    found: Value = w.b.slice(x, axes=[0], starts=[part * size], ends=[(part + 1) * size], steps=[1])
    return found


@lowers("aten._native_multi_head_attention")
def multi_head_attention(
    w: Lowering, query: Value, key: Value, value: Value, embed_dim: int, num_head: int, qkv_weight: Value, qkv_bias: Value,
    proj_weight: Value, proj_bias: Value, mask: Value | None = None, need_weights: bool = True,
    average_attn_weights: bool = True, mask_type: int | None = None,
) -> Any:  # fmt: skip
    """The result, and the weights ``[N, L, S]`` or ``[N, heads, L, S]`` where they are asked for."""
    b, width = w.b, embed_dim // num_head
    heads = []
    for part, x in enumerate((query, key, value)):
        made = b.linear(x, _rows(w, qkv_weight, part, embed_dim), _rows(w, qkv_bias, part, embed_dim))
        heads.append(b.permute(reshape(w, made, [*w.dims(made)[:2], num_head, width]), perm=[0, 2, 1, 3]))
    shown = _allowed(w, mask, mask_type)
    found = b.permute(attention(w, *heads, shown), perm=[0, 2, 1, 3])
    result = b.linear(reshape(w, found, [*w.dims(found)[:2], embed_dim]), proj_weight, proj_bias)
    if not need_weights:
        return result, None
    scores = b.mul(b.matmul(heads[0], b.permute(heads[1], perm=[0, 1, 3, 2])), 1 / math.sqrt(width))
    if shown is not None:
        scores = b.where(shown, scores, -math.inf)
    weights = b.softmax(scores, axis=3)
    return result, b.reduce_mean(weights, axes=[1]) if average_attn_weights else weights


@lowers("aten._transformer_encoder_layer_fwd")
def encoder_layer(
    w: Lowering, src: Value, embed_dim: int, num_heads: int, qkv_weight: Value, qkv_bias: Value, proj_weight: Value,
    proj_bias: Value, use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Value, norm_bias_1: Value,
    norm_weight_2: Value, norm_bias_2: Value, ffn_weight_1: Value, ffn_bias_1: Value, ffn_weight_2: Value, ffn_bias_2: Value,
    mask: Value | None = None, mask_type: int | None = None,
) -> Any:  # fmt: skip
    b = w.b

    def attend(x: Value) -> Value:
        found: Value = multi_head_attention(
            w, x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, need_weights=False,
            mask_type=mask_type,
        )[0]  # fmt: skip
        return found

    def feed(x: Value) -> Value:
        hidden = b.linear(x, ffn_weight_1, ffn_bias_1)
        hidden = b.gelu(hidden, approximate="none") if use_gelu else b.relu(hidden)
        found: Value = b.linear(hidden, ffn_weight_2, ffn_bias_2)
        return found

    def first(x: Value) -> Value:
        found: Value = b.layer_norm(x, norm_weight_1, norm_bias_1, axis=w.rank(x) - 1, eps=eps)
        return found

    def second(x: Value) -> Value:
        found: Value = b.layer_norm(x, norm_weight_2, norm_bias_2, axis=w.rank(x) - 1, eps=eps)
        return found

    if norm_first:
        x = b.add(src, attend(first(src)))
        return b.add(x, feed(second(x)))
    x = first(b.add(src, attend(src)))
    return second(b.add(x, feed(x)))
