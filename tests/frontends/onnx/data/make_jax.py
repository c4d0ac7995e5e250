"""Models of JAX with Flax, written by jax2onnx: ``python make_jax.py`` in an environment with
``pip install jax==0.10.2 flax==0.12.8 jax2onnx==0.17.1``."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jax2onnx import to_onnx
from keep import draw, keep, tokens

RNGS = nnx.Rngs(0)


class Conv(nnx.Module):
    def __init__(self):
        self.conv, self.norm = nnx.Conv(3, 4, (3, 3), rngs=RNGS), nnx.BatchNorm(4, use_running_average=True, rngs=RNGS)
        self.depth, self.out = nnx.Conv(4, 4, (3, 3), feature_group_count=4, rngs=RNGS), nnx.Linear(4, 3, rngs=RNGS)

    def __call__(self, x):
        x = nnx.max_pool(nnx.relu(self.norm(self.conv(x))), window_shape=(2, 2), strides=(2, 2))
        x = nnx.avg_pool(x + nnx.silu(self.depth(x)), window_shape=(2, 2), strides=(2, 2))
        return nnx.softmax(self.out(x.mean((1, 2))))


class Deconv(nnx.Module):
    def __init__(self):
        self.down, self.up = nnx.Conv(2, 4, (3, 3), strides=2, rngs=RNGS), nnx.ConvTranspose(4, 3, (3, 3), (2, 2), rngs=RNGS)
        self.norm = nnx.GroupNorm(3, num_groups=3, rngs=RNGS)

    def __call__(self, x):
        return nnx.sigmoid(self.norm(self.up(nnx.leaky_relu(self.down(x)))))


class Block(nnx.Module):
    def __init__(self):
        self.words, self.attend = nnx.Embed(20, 16, rngs=RNGS), nnx.MultiHeadAttention(2, 16, decode=False, rngs=RNGS)
        self.norm, self.wide = nnx.LayerNorm(16, rngs=RNGS), nnx.Linear(16, 32, rngs=RNGS)
        self.narrow, self.out = nnx.Linear(32, 16, rngs=RNGS), nnx.Linear(16, 20, rngs=RNGS)

    def __call__(self, words):
        x = self.words(words)
        x = x + self.attend(self.norm(x))
        return self.out(x + self.narrow(nnx.gelu(self.wide(self.norm(x)))))


def pieces(x):
    values, places = jax.lax.top_k(x, 3)
    found = jnp.where(x > 0, x, jnp.expm1(x)), values, places, jnp.cumsum(x, axis=1), jnp.einsum("ij,kj->ik", x, x)
    return *found, jnp.sort(x, axis=1), jnp.roll(x, 2, axis=1), jax.nn.one_hot(jnp.argmax(x, axis=1), 8)


def loops(x):
    last, all_of_them = jax.lax.scan(lambda carried, row: (carried * 0.9 + row, carried), jnp.zeros(5), x)
    y = jax.lax.fori_loop(0, 4, lambda index, carried: carried * 0.5 + index, last)
    return last, all_of_them, y, jax.lax.cond(y.sum() > 0, lambda z: z * 2, lambda z: z - 1, y)


for name, model, shape, rows in (
    ("conv", Conv(), ("B", 12, 12, 3), draw(3, 12, 12, 3)),
    ("deconv", Deconv(), ("B", 8, 8, 2), draw(2, 8, 8, 2)),
    ("block", Block(), None, tokens(3, 9)),
    ("pieces", pieces, ("B", 8), draw(3, 8)),
    ("loops", loops, (6, 5), draw(6, 5)),
):
    if isinstance(model, nnx.Module):
        model.eval()
    path = keep(f"jax_{name}", [rows], model(jnp.asarray(rows)))
    given = jax.ShapeDtypeStruct(rows.shape, rows.dtype) if shape is None else shape
    to_onnx(model, [given], model_name=name, return_mode="file", output_path=str(path), opset=21)
