"""Attention with every kind of mask: what is kept, and rows that are hidden altogether as eager torch has them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from emitted import Model, f

from isthmus.backends.onnx import OnnxBackend, OnnxOptions
from isthmus.backends.onnx.artefact import OnnxArtefact
from isthmus.backends.onnx.opsets import NEWEST
from isthmus.ir import Builder, DType, Graph, Tensor, Value
from isthmus.ir.dtypes import bool_, f32
from isthmus.ir.testing import agree
from isthmus.passes.legalize import legalize

SHAPES = (2, 3, 4, 6), (2, 3, 5, 6), (2, 3, 5, 7)
LEAST = float(np.finfo(np.float32).min)


def compiled(opset: int, dtype: DType, causal: bool, mask: Any = lambda b, x: x) -> OnnxArtefact:
    graph = Graph()
    b = Builder(graph)
    q, k, v = (graph.add_input(Tensor(f32, shape), name) for shape, name in zip(SHAPES, "qkv", strict=True))
    given: Value = mask(b, graph.add_input(Tensor(dtype, (1, 1, 4, 5)), "mask"))
    graph.set_outputs([b.attention(q, k, v, given, causal=causal)])
    backend = OnnxBackend(OnnxOptions(opset=opset))
    legalize(graph, backend)
    return backend.emit(graph)


def tensors() -> list[Any]:
    return [np.random.default_rng(seed).standard_normal(shape).astype(np.float32) for seed, shape in enumerate(SHAPES)]


def eager(mask: Any, causal: bool) -> Any:
    q, k, v = map(torch.from_numpy, tensors())
    given = torch.from_numpy(mask)
    if causal:
        below = torch.ones(4, 5, dtype=torch.bool).tril()
        given = given & below if given.dtype is torch.bool else given.masked_fill(~below, -math.inf)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, given).numpy()


def rows(hidden: float, shown: float = 0) -> Any:
    """All of row 1 is hidden, and most of row 2."""
    mask = np.full((1, 1, 4, 5), shown, np.float64)
    mask[..., 1, :] = mask[..., 2, 1:] = hidden
    return mask


def mixed() -> Any:
    """What row 0 may see when it is causal is the least number."""
    mask = rows(LEAST)
    mask[..., 0, :2] = LEAST
    return mask


MASKS = {
    "least": rows(LEAST).astype(np.float32), "half the least": rows(LEAST / 2).astype(np.float32),
    "infinite": rows(-math.inf).astype(np.float32), "mixed": mixed().astype(np.float32), "bool": rows(0, 1).astype(bool),
}  # fmt: skip


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("opset", [17, 23, 24, NEWEST])
@pytest.mark.parametrize("kind", MASKS)
def test_rows_are_as_in_torch(kind: str, opset: int, causal: bool) -> None:
    mask = MASKS[kind]
    artefact = compiled(opset, bool_ if kind == "bool" else f32, causal)
    assert agree(artefact.run([*tensors(), mask])[0], eager(mask, causal))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("opset", [17, 23, 24, NEWEST])
@pytest.mark.parametrize(("hidden", "native"), [(LEAST, False), (LEAST / 4, True), (-1e4, True), (-math.inf, True)])
def test_numbers_in_the_model_tell_whether_the_kernel_will_do(hidden: float, native: bool, opset: int, causal: bool) -> None:
    artefact = compiled(opset, bool_, causal, lambda b, x: b.where(x, np.float32(0), np.float32(hidden)))
    assert ("Attention" in artefact.op_counts) == (opset > 24 or (opset > 22 and native))
    assert agree(artefact.run([*tensors(), MASKS["bool"]])[0], eager(rows(hidden).astype(np.float32), causal))


@pytest.mark.parametrize("opset", [23, NEWEST])
def test_a_product_with_an_infinite_number_may_be_nan(opset: int) -> None:
    artefact = compiled(opset, bool_, False, lambda b, x: b.mul(b.cast(x, dtype=f32), np.float32(-math.inf)))
    assert ("Attention" in artefact.op_counts) == (opset > 24)


# ---- which form is written


@pytest.fixture
def m() -> Model:
    return Model()


@pytest.mark.parametrize("opset", [17, 23, 24, NEWEST])
@pytest.mark.parametrize("kind", ["bool", "float", "none"])
def test_attention_with_the_mask_of_an_encoder(m: Model, opset: int, kind: str) -> None:
    n, s = m.dim("N"), m.dim("S")
    q, k, v = (m.input(n, 2, s, 4, name=name) for name in "qkv")
    keep = m.input(n, 1, 1, s, dtype=bool_, name="mask")
    mask = {"bool": keep, "float": m.b.where(keep, m.b.constant(np.float32(0)), np.float32(-1e9)), "none": None}[kind]
    artefact = m.emit(m.b.attention(q, k, v, mask), keep, opset=opset)
    assert ("Attention" in artefact.op_counts) == (opset >= 23)
    assert ("Expand" in artefact.op_counts) == (opset in (23, 24) and mask is not None)
    allowed = np.array([[True, True, True], [True, False, False]]).reshape(2, 1, 1, 3)
    m.check(artefact, *(f(2, 2, 3, 4, seed=seed) for seed in range(3)), allowed)


MASK_SHAPES = [(2, 3, 4, 5), (2, 1, 4, 5), (1, 3, 4, 5), (4, 5), (2, 1, 1, 5), (1, 5), (5,), (4, 1), (3, 1, 5)]


@pytest.mark.parametrize("opset", [13, 23, NEWEST])
@pytest.mark.parametrize("shape", MASK_SHAPES, ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_attention_with_every_shape_of_mask(m: Model, opset: int, shape: tuple[int, ...], causal: bool) -> None:
    q, k, v, mask = m.input(2, 3, 4, 6, name="q"), m.input(2, 3, 5, 6, name="k"), m.input(2, 3, 5, 7, name="v"), m.input(*shape)
    artefact = m.emit(m.b.attention(q, k, v, mask, causal=causal), opset=opset)
    m.check(artefact, f(2, 3, 4, 6), f(2, 3, 5, 6), f(2, 3, 5, 7), f(*shape))


EMPTY = {"width": (2, 2, 3, 5, 0, 6), "width of values": (2, 2, 3, 5, 4, 0), "keys": (2, 2, 3, 0, 4, 6),
         "queries": (2, 2, 0, 5, 4, 6), "batch": (0, 2, 3, 5, 4, 6), "heads": (2, 0, 3, 5, 4, 6)}  # fmt: skip


def over(m: Model, batch: Any, heads: int, rows: Any, keys: Any, width: int, out: int, kind: str, **attrs: Any) -> Value:
    shapes = (batch, heads, rows, width), (batch, heads, keys, width), (batch, heads, keys, out)
    q, k, v = (m.input(*shape, name=name) for shape, name in zip(shapes, "qkv", strict=True))
    mask = None if kind == "none" else m.input(batch, 1, 1, keys, dtype=bool_ if kind == "bool" else f32, name="mask")
    found: Value = m.b.attention(q, k, v, mask, **attrs)
    return found


def drawn(batch: int, heads: int, rows: int, keys: int, width: int, out: int, kind: str) -> list[Any]:
    shapes = (batch, heads, rows, width), (batch, heads, keys, width), (batch, heads, keys, out)
    mask = f(batch, 1, 1, keys, seed=3)
    masks = {"none": [], "bool": [mask > 0], "float": [mask]}
    return [*(f(*shape, seed=seed) for seed, shape in enumerate(shapes)), *masks[kind]]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("opset", [13, 23, 24, NEWEST])
@pytest.mark.parametrize("kind", ["none", "bool", "float"])
@pytest.mark.parametrize("empty", EMPTY)
def test_attention_over_nothing(m: Model, empty: str, kind: str, opset: int, causal: bool) -> None:
    artefact = m.emit(over(m, *EMPTY[empty], kind, causal=causal), opset=opset)
    m.check(artefact, *drawn(*EMPTY[empty], kind))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("opset", [13, 23, NEWEST])
@pytest.mark.parametrize("kind", ["none", "bool", "float"])
def test_attention_over_what_may_be_empty(m: Model, kind: str, opset: int, causal: bool) -> None:
    batch, rows, keys = (m.dim(name, lo=0) for name in "NLS")
    artefact = m.emit(over(m, batch, 2, rows, keys, 4, 6, kind, causal=causal), opset=opset)
    for sizes in ((2, 3, 4), (2, 3, 0), (2, 0, 4), (0, 3, 4), (0, 0, 0)):
        m.check(artefact, *drawn(sizes[0], 2, *sizes[1:], 4, 6, kind))


@pytest.mark.parametrize("opset", [13, 23, 24, NEWEST])
@pytest.mark.parametrize("scale", [0.0, -0.5, 0.5])
def test_scales_without_a_root(m: Model, scale: float, opset: int) -> None:
    artefact = m.emit(over(m, 2, 2, 3, 5, 4, 6, "none", scale=scale), opset=opset)
    assert ("Attention" in artefact.op_counts) == (opset > 22 and scale > 0)
    m.check(artefact, *drawn(2, 2, 3, 5, 4, 6, "none"))


def test_no_width_weighs_all_alike(m: Model) -> None:
    q, v = torch.zeros(1, 1, 2, 0), torch.arange(6.0).reshape(1, 1, 3, 2)
    k = torch.zeros(1, 1, 3, 0)
    (found,) = m.emit(over(m, 1, 1, 2, 3, 0, 2, "none")).run([each.numpy() for each in (q, k, v)])
    assert agree(found, torch.nn.functional.scaled_dot_product_attention(q, k, v).numpy())
