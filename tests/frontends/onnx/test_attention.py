"""Attention: heads that are shared, masks, what came before, and what is left to the standard's function."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_models import agrees, f32, model, same, text

import isthmus

Q, K, V = "float[B, 4, L, 6] q", "float[B, {k}, S, 6] k", "float[B, {k}, S, 5] v"


def _made(more: str, inputs: str, attributes: str = "", heads: int = 4, opset: int = 24, outputs: str = "y") -> Any:
    results = ", ".join(f"float {name}" for name in filter(None, outputs.split(", ")))
    call = f"Attention<{attributes}>" if attributes else "Attention"
    own = ", ".join(filter(None, [Q, K.format(k=heads), V.format(k=heads), more]))
    return model(f"({own}) => ({results}) {{ {outputs} = {call}({inputs}) }}", opset)


def _feed(rows: int, columns: int, heads: int = 4, batch: int = 2) -> list[Any]:
    return [f32(batch, 4, rows, 6, seed=1), f32(batch, heads, columns, 6, seed=2), f32(batch, heads, columns, 5, seed=3)]


def _check(made: Any, *feeds: list[Any]) -> None:
    names = [value.name for value in made.graph.input]
    for feed in feeds:
        agrees(made, feed, wanted=ReferenceEvaluator(made).run(None, dict(zip(names, feed, strict=True))))


@pytest.mark.parametrize("opset", [23, 24, 25])
@pytest.mark.parametrize("heads", [4, 2, 1])
@pytest.mark.parametrize("attributes", ["", "is_causal = 1", "scale = 0.3"])
def test_heads(attributes: str, heads: int, opset: int) -> None:
    made = _made("", "q, k, v", attributes, heads, opset)
    if heads > 1:
        assert "attention(" in text(made)
    _check(made, _feed(3, 5, heads), _feed(4, 4, heads, 1))


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize(("kind", "sizes"), [("bool", "L, S"), ("float", "L, S"), ("float", "B, 1, L, S"), ("bool", "4, L, S")])
def test_masks(kind: str, sizes: str, causal: int) -> None:
    made = _made(f"{kind}[{sizes}] m", "q, k, v, m", f"is_causal = {causal}")
    for rows, columns in ((3, 5), (4, 4)):
        shape = [{"L": rows, "S": columns, "B": 2}.get(size) or int(size) for size in sizes.split(", ")]
        mask = f32(*shape, seed=4)
        _check(made, [*_feed(rows, columns), mask if kind == "float" else mask > -0.3])


@pytest.mark.parametrize("opset", [23, 25])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("sizes", ["M, S", "B, G, M, S"])
def test_masks_of_one_row_or_all(sizes: str, causal: int, opset: int) -> None:
    """And as many heads of q to one of k and v as only a run tells."""
    made = model(f"(float[A, H, L, E] q, float[C, K, S, E] k, float[D, J, T, F] v, float[{sizes}] m) => (float y) "
                 f"{{ y = Attention<is_causal = {causal}>(q, k, v, m) }}", opset)  # fmt: skip
    nets = [isthmus.compile(made, target="reference"), isthmus.compile(made, opset=opset)]
    leads: list[tuple[int, ...]] = [()] if len(sizes) == 4 else [(1, 1), (2, 1), (1, 4), (2, 4)]
    for heads, rows, lead in itertools.product((4, 2), (3, 1), leads):
        feed, mask = _feed(3, 5, heads), f32(*lead, rows, 5, seed=4)
        whole = np.broadcast_to(mask, (*mask.shape[:-2], 3, 5))  # the reference hides by rows of the mask
        wanted = ReferenceEvaluator(made).run(None, dict(zip("qkvm", [*feed, whole], strict=True)))
        for net in nets:
            same(*net(*feed, mask).values(), wanted[0])


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_shorter_mask_hides_what_it_does_not_reach(kind: str) -> None:
    made = model(f"(float[2, 4, 3, 6] q, float[2, 4, 5, 6] k, float[2, 4, 5, 5] v, {kind}[3, 4] m) => (float y) {{ y = "
            f"Attention(q, k, v, m) }}", 24)
    mask = f32(3, 4, seed=4)
    _check(made, [*_feed(3, 5), mask if kind == "float" else mask > -0.5])


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("mask", ["", "bool", "float"])
def test_what_came_before(causal: int, mask: str) -> None:
    more = "float[B, 2, P, 6] pk, float[B, 2, P, 5] pv"
    given = f"{mask}[L, T] m, {more}" if mask else more
    inputs = "q, k, v, m, pk, pv" if mask else "q, k, v, , pk, pv"
    made = _made(given, inputs, f"is_causal = {causal}", 2, outputs="y, nk, nv")
    for rows, past in ((3, 4), (1, 6)):
        add = f32(rows, rows + past, seed=4)
        masks = {"": [], "bool": [add > -0.3], "float": [add]}[mask]
        _check(made, [*_feed(rows, rows, 2), *masks, f32(2, 2, past, 6, seed=5), f32(2, 2, past, 5, seed=6)])


def test_flat_heads() -> None:
    made = model("(float[B, L, 24] q, float[B, S, 12] k, float[B, S, 10] v) => (float y, float nk, float nv) "
                 "{ y, nk, nv = Attention<q_num_heads = 4, kv_num_heads = 2>(q, k, v) }", 24)  # fmt: skip
    for rows, columns in ((3, 5), (2, 7)):
        _check(made, [f32(2, rows, 24, seed=1), f32(2, columns, 12, seed=2), f32(2, columns, 10, seed=3)])


@pytest.mark.parametrize("attributes", [
    "softcap = 2.0", "softmax_precision = 1, softcap = 1.5", "qk_matmul_output_mode = 1, softcap = 2.0",
    "qk_matmul_output_mode = 3",
])  # fmt: skip
def test_by_the_function(attributes: str) -> None:
    results = "y, nk, nv, s" if "mode" in attributes else "y"
    _check(_made("float[L, S] m", "q, k, v, m", attributes, 2, outputs=results), [*_feed(3, 5, 2), f32(3, 5, seed=4)])


def test_lengths_and_windows() -> None:
    made = _made("int64[B] n", "q, k, v, , , , n", "is_causal = 1", 2)
    _check(made, [*_feed(2, 6, 2), np.array([4, 6])])
    made = _made("", "q, k, v", "left_window_size = 2, right_window_size = 1", 2, 25)
    _check(made, _feed(5, 6, 2))


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding(interleaved: int) -> None:
    made = model("(float[B, 4, L, 6] x, float[M, 3] c, float[M, 3] s, int64[B, L] p) => (float y) "
                 f"{{ y = RotaryEmbedding<interleaved = {interleaved}>(x, c, s, p) }}", 23)  # fmt: skip
    _check(made, [f32(2, 4, 3, 6), f32(9, 3, seed=1), f32(9, 3, seed=2), np.array([[0, 3, 8], [2, 1, 7]])])
