"""Normalizations: training, statistics as results, scales that broadcast, and the forms of old opsets."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_models import agrees, f32, model, node, same, text

import isthmus

PARAMETERS = "float[3] s, float[3] b, float[3] m, float[3] v"


def _parameters(seed: int = 3) -> list[np.ndarray]:
    return [f32(3, seed=seed), f32(3, seed=seed + 1), f32(3, seed=seed + 2), np.abs(f32(3, seed=seed + 3)) + 0.5]


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
def test_batch_normalization(opset: int) -> None:
    made = model(f"(float[N, 3, H] x, {PARAMETERS}) => (float y) {{ y = BatchNormalization<epsilon = 0.01>(x, s, b, m, v) }}",
            opset)
    assert "batch_norm(" in text(made)
    agrees(made, [f32(2, 3, 4), *_parameters()], [f32(1, 3, 7), *_parameters()])


def test_batch_normalization_in_training() -> None:
    made = model(f"""(float[N, 3, H, W] x, {PARAMETERS}) => (float y, float rm, float rv) {{
        y, rm, rv = BatchNormalization<training_mode = 1, momentum = 0.8>(x, s, b, m, v)
    }}""", 15)  # fmt: skip
    agrees(made, [f32(2, 3, 4, 5), *_parameters()], [f32(3, 3, 2, 2), *_parameters()])


@pytest.mark.parametrize("opset", [1, 6, 7, 9])
def test_old_batch_normalization_is_in_training_where_it_has_more_results(opset: int) -> None:
    attributes = "momentum = 0.75" + (", consumed_inputs = [0, 0, 0, 1, 1]" if opset == 1 else "")
    made = model(f"(float[N, 3, H] x, {PARAMETERS}) => (float y, float rm, float rv, float sm, float sv) "
                 f"{{ y, rm, rv, sm, sv = BatchNormalization<{attributes}>(x, s, b, m, v) }}", opset)  # fmt: skip
    x, (scale, bias, mean, var) = f32(2, 3, 4), _parameters()
    own = x.mean((0, 2)), x.var((0, 2))
    y = (x - own[0][:, None]) / np.sqrt(own[1][:, None] + 1e-5) * scale[:, None] + bias[:, None]
    wanted = [y, mean * 0.75 + own[0] * 0.25, var * 0.75 + own[1] * 0.25, *own]
    found = isthmus.compile(made, target="reference")(x, scale, bias, mean, var)
    for mine, theirs in zip(found.values(), wanted, strict=True):
        same(mine, theirs.astype(np.float32))


@pytest.mark.parametrize("opset", [6, 7])
def test_old_batch_normalization_by_element(opset: int) -> None:
    given = "float[3, 2] s, float[3, 2] b, float[3, 2] m, float[3, 2] v"
    made = model(f"(float[N, 3, 2] x, {given}) => (float y) {{ y = BatchNormalization<spatial = 0>(x, s, b, m, v) }}", opset)
    x, s, b, m, v = f32(2, 3, 2), f32(3, 2, seed=1), f32(3, 2, seed=2), f32(3, 2, seed=3), np.abs(f32(3, 2, seed=4))
    agrees(made, [x, s, b, m, v], wanted=[(x - m) / np.sqrt(v + 1e-5) * s + b])


def test_batch_normalization_of_vectors_and_mixed_types() -> None:
    made = model("(float[N, 3] x, float[3] s, float[3] b, double[3] m, double[3] v) => (float y) "
                 "{ y = BatchNormalization(x, s, b, m, v) }", 15)  # fmt: skip
    scale, bias, mean, var = _parameters()
    x = f32(4, 3)
    wanted = (x - mean) / np.sqrt(var + 1e-5) * scale + bias
    agrees(made, [x, scale, bias, mean.astype(np.float64), var.astype(np.float64)], targets=("reference",), wanted=[wanted])


@pytest.mark.parametrize("axis", [-1, 1, -3])
def test_layer_normalization_with_its_statistics(axis: int) -> None:
    sizes = {-1: "5", 1: "4, 5", -3: "N, 4, 5"}[axis]
    made = model(f"(float[N, 4, 5] x, float[{sizes}] s, float[{sizes}] b) => (float y, float m, float d) "
                 f"{{ y, m, d = LayerNormalization<axis = {axis}, epsilon = 0.01>(x, s, b) }}")  # fmt: skip
    shape = {-1: (5,), 1: (4, 5), -3: (3, 4, 5)}[axis]
    agrees(made, [f32(3, 4, 5), f32(*shape, seed=1), f32(*shape, seed=2)])


@pytest.mark.parametrize("sizes", [(1,), (4, 1), (1, 5), (3, 4, 5)])
def test_scales_that_broadcast(sizes: tuple[int, ...]) -> None:
    made = model(f"(float[N, 4, 5] x, float{list(sizes)} s) => (float y, float z) "
                 "{ y = LayerNormalization<axis = 1>(x, s)  z = RMSNormalization<axis = 1>(x, s) }", 23)  # fmt: skip
    x, scale = f32(3, 4, 5), f32(*sizes, seed=1)
    plain = (x - x.mean((1, 2), keepdims=True)) / np.sqrt(x.var((1, 2), keepdims=True) + 1e-5)
    root = x / np.sqrt((x * x).mean((1, 2), keepdims=True) + 1e-5)
    agrees(made, [x, scale], wanted=[plain * scale, root * scale])


@pytest.mark.parametrize(("opset", "count"), [(18, 2), (21, 6)])
def test_group_normalization(opset: int, count: int) -> None:
    made = model(f"(float[N, 6, H] x, float[{count}] s, float[{count}] b) => (float y) "
                 "{ y = GroupNormalization<num_groups = 2>(x, s, b) }", opset)  # fmt: skip
    assert "group_norm(" in text(made)
    agrees(made, *([f32(*shape), f32(count, seed=1), f32(count, seed=2)] for shape in ((2, 6, 4), (1, 6, 9))))


@pytest.mark.parametrize("opset", [7, 22])
def test_instance_normalization_and_neighbouring_channels(opset: int) -> None:
    made = model("""(float[N, 3, H, W] x, float[3] s, float[3] b) => (float y, float z) {
        y = InstanceNormalization<epsilon = 0.001>(x, s, b)
        z = LRN<size = 3, alpha = 0.3, beta = 0.5, bias = 1.5>(x)
    }""", opset)  # fmt: skip
    assert "local_response_norm" in text(made)
    agrees(made, *([f32(*shape), f32(3, seed=1), f32(3, seed=2)] for shape in ((2, 3, 4, 5), (1, 3, 7, 2))))


@pytest.mark.parametrize("attributes", ["", "axis = 0", "p = 1", "p = 1, axis = -2"])
def test_norms_are_divided_by(attributes: str) -> None:
    x = f32(3, 4)
    x[1] = 0
    made = model(f"(float[N, M] x) => (float y) {{ y = {node('LpNormalization', 'x', attributes)} }}")
    agrees(made, [x], [f32(2, 5)])


@pytest.mark.parametrize("attributes", ["", "axes = [0, 1]", "axes = [1]"])
def test_mean_and_variance(attributes: str) -> None:
    made = model(f"(float[N, 3, H, W] x) => (float y) {{ y = {node('MeanVarianceNormalization', 'x', attributes)} }}", 13)
    agrees(made, [f32(2, 3, 4, 5)], [f32(1, 3, 6, 2)])


def test_a_scale_of_another_size_is_told() -> None:
    with pytest.raises(isthmus.errors.FileError, match="the model is malformed"):
        isthmus.compile(model(f"(float[N, 4, 2] x, {PARAMETERS}) => (float y) {{ y = BatchNormalization(x, s, b, m, v) }}", 15))
