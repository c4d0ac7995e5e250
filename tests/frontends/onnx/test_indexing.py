"""Reading, writing and finding places, and blocks and sequences turned round."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_models import agrees, f32, i64, model, text


def test_gathers() -> None:
    agrees(model("(float[N, 3, M] x, int64[2, 2] i) => (float y) { y = Gather<axis = -2>(x, i) }"),
           [f32(2, 3, 4), np.array([[0, -1], [2, 1]])])  # fmt: skip
    agrees(model("(float[N, 3] x, int32 i) => (float y) { y = Gather(x, i) }"), [f32(4, 3), np.int32(-2)])
    agrees(model("(float[N, 3] x, int64[N, K] i) => (float y) { y = GatherElements<axis = -1>(x, i) }"),
           [f32(2, 3), np.array([[0, -1], [2, 1]])])  # fmt: skip
    agrees(model("(float[B, 3, 4] x, int64[B, K, 1] i) => (float y) { y = GatherND<batch_dims = 1>(x, i) }"),
           [f32(2, 3, 4), np.array([[[0], [-1]], [[2], [1]]])])  # fmt: skip
    agrees(model("(float[4] x, int64[0] i) => (float y) { y = Gather(x, i) }"), [f32(4), i64()])


@pytest.mark.parametrize("axis", ["", "<axis = 0>", "<axis = -1>"])
def test_compress(axis: str) -> None:
    proto = model(f"(float[N, 3] x, bool[K] c) => (float y) {{ y = Compress{axis}(x, c) }}")
    agrees(proto, [f32(2, 3), np.array([False, True])], [f32(2, 3), np.array([False, False])])


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "min", "max"])
def test_scatters(reduction: str) -> None:
    proto = model(f"""(float[N, 3] x, int64[2, 2] i, float[2, 2] u) => (float y)
        {{ y = ScatterElements<axis = -1, reduction = "{reduction}">(x, i, u) }}""")
    agrees(proto, [f32(3, 3), np.array([[0, -1], [2, 1]]), f32(2, 2, seed=1)])
    proto = model(f"""(float[N, 3] x, int64[2, 1] i, float[2, 3] u) => (float y)
        {{ y = ScatterND<reduction = "{reduction}">(x, i, u) }}""")
    agrees(proto, [f32(4, 3), np.array([[3], [0]]), f32(2, 3, seed=1)])


def test_scatter_of_opset_9() -> None:
    proto = model("(float[N, 3] x, int64[1, 3] i, float[1, 3] u) => (float y) { y = Scatter(x, i, u) }", 9)
    agrees(proto, [f32(3, 3), np.array([[0, 1, 2]]), f32(1, 3, seed=1)])


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_caches(mode: str) -> None:
    inputs = "(float[B, 2, 5, 3] x, float[B, 2, 2, 3] u, int64[B] at) => (float y)"
    starts = i64(1, 3) if mode == "linear" else i64(1, 4)
    proto = model(f"{inputs} {{ y = TensorScatter<mode = \"{mode}\">(x, u, at) }}", 24)
    agrees(proto, [f32(2, 2, 5, 3), f32(2, 2, 2, 3, seed=1), starts])
    agrees(model("(float[B, 5, 3] x, float[B, 2, 3] u) => (float y) { y = TensorScatter(x, u) }", 24),
           [f32(2, 5, 3), f32(2, 2, 3, seed=1)])  # fmt: skip


def test_places_of_what_is_not_zero() -> None:
    agrees(model("(float[N, 3] x) => (int64 y) { p = Relu(x) y = NonZero(p) }"), [f32(2, 3)], [f32(0, 3)])


@pytest.mark.parametrize("attributes", ["sorted = 1", "sorted = 0", "axis = 0", "axis = -1, sorted = 0"])
def test_distinct_elements(attributes: str) -> None:
    proto = model(f"(int64[N, 3] x) => (int64 y, int64 i, int64 v, int64 c) {{ y, i, v, c = Unique<{attributes}>(x) }}")
    agrees(proto, [np.array([[3, 1, 3], [2, 2, 1], [3, 1, 3], [0, 2, 1]])])


def test_distinct_elements_without_their_places() -> None:
    proto = model("(int64[N] x) => (int64 y, int64 c) { y, , , c = Unique(x) }")
    assert "sort" not in text(proto)
    agrees(proto, [i64(3, 1, 3, 3)])


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_one_hot(axis: int) -> None:
    proto = model(f"""(int64[N] i) => (float y) <int64 d = {{4}}, float[2] v = {{2, 5}}>
        {{ y = OneHot<axis = {axis}>(i, d, v) }}""")
    agrees(proto, [i64(0, 3, -1, -4, 4, 9)])
    data = model(f"(float[N] i, float d, int64[2] v) => (int64 y) {{ y = OneHot<axis = {axis}>(i, d, v) }}")
    agrees(data, [np.array([0, 2, -1], np.float32), np.float32(3), i64(0, 1)])


# ---- blocks, triangles, sequences


def test_scatters_to_as_many_axes_as_the_ranks_say() -> None:
    made = model("(float[A, B] x, int64[N, K] i, float[M] u) => (float y) { y = ScatterND(x, i, u) }")
    agrees(made, [f32(2, 3), np.array([[0, 1], [1, 2]]), f32(2, seed=1)])
    made = model("(float[A, B] x, int64[N, K] i, float[M, C] u) => (float y) { y = ScatterND(x, i, u) }")
    agrees(made, [f32(2, 3), np.array([[1]]), f32(1, 3, seed=1)])


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_blocks(mode: str) -> None:
    agrees(model(f"(float[N, 8, H, W] x) => (float y) {{ y = DepthToSpace<blocksize = 2, mode = \"{mode}\">(x) }}"),
           [f32(1, 8, 2, 3)])  # fmt: skip
    agrees(model("(float[N, C, H, 6] x) => (float y) { y = SpaceToDepth<blocksize = 2>(x) }"), [f32(2, 3, 4, 6)])
    agrees(model("(float[N, 8, H, W] x) => (float y) { y = DepthToSpace<blocksize = 2>(x) }", 9), [f32(1, 8, 2, 3)])


def test_triangles() -> None:
    agrees(model("(float[N, M] x, int64 k) => (float y) { y = Trilu<upper = 0>(x, k) }"),
           *([f32(3, 4), np.int64(k)] for k in (-2, 0, 1, 9)))  # fmt: skip
    agrees(model("(float[B, N, M] x) => (float y) { y = Trilu(x) }"), [f32(2, 3, 4)])


@pytest.mark.parametrize("axes", ["time_axis = 0, batch_axis = 1", "time_axis = 1, batch_axis = 0"])
def test_sequences_turned_round(axes: str) -> None:
    proto = model(f"(float[A, B, 2] x, int64[K] n) => (float y) {{ y = ReverseSequence<{axes}>(x, n) }}")
    agrees(proto, [f32(4, 4, 2), i64(1, 4, 2, 3)])


@pytest.mark.parametrize("target", [(5, 2), (2, 5), (3, 4), (6, 1)])
def test_cut_or_padded_around_the_middle(target: tuple[int, int]) -> None:
    agrees(model("(float[N, 4] x, int64[2] s) => (float y) { y = CenterCropPad(x, s) }"), [f32(3, 4), i64(*target)])
    agrees(model(f"(float[N, 4] x) => (float y) <int64[1] s = {{{target[0]}}}> {{ y = CenterCropPad<axes = [-1]>(x, s) }}"),
           [f32(3, 4)])  # fmt: skip
