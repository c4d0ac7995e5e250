"""Lowerings of layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from aten_cases import Case, Model, b, cases, check, f, flat, i

import isthmus
from isthmus.frontends.torch import CaptureOptions, capture
from isthmus.ir import interpreter
from isthmus.ir.dims import evaluate
from isthmus.ir.errors import UnsupportedError

FLASH = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu

# ---- layers


@cases(
    conv1d=[lambda x, w, c: (F.conv1d(x, w, c), F.conv1d(x, w, c, 2, 1, 2), F.conv1d(x, w, padding="same", dilation=2),
        F.conv1d(x[0], w, c)),
            f("N", 4, 9), f(6, 4, 3), f(6)],
    conv2d=[lambda x, w, c: (F.conv2d(x, w, c), F.conv2d(x, w, None, (2, 1), (1, 2), 1), F.conv2d(x, w, c, padding="same"),
        F.conv2d(x, w, c, padding="valid")),
            f("N", 4, "M", 7), f(6, 4, 2, 3), f(6)],
    conv2d_groups=[lambda x, w: F.conv2d(x, w, None, 1, 1, 1, 4), f("N", 4, 5, 5), f(8, 1, 3, 3)],
    conv3d=[lambda x, w: F.conv3d(x, w, stride=2, padding=1), f("N", 2, 4, 5, 4), f(3, 2, 3, 3, 3)],
    convolution=[lambda x, w: (torch.convolution(x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
                               torch.convolution(x, w, None, [2, 2], [1, 1], [1, 1], True, [1, 1], 1)), f("N", 4, 5, 5),
                               f(4, 4, 3, 3)],
    conv_transpose1d=[lambda x, w, c: (F.conv_transpose1d(x, w, c), F.conv_transpose1d(x, w, c, 2, 1, 1)), f("N", 4, 5),
        f(4, 3, 3), f(3)],
    conv_transpose2d=[lambda x, w, c: (F.conv_transpose2d(x, w, c, (2, 1), 1, (1, 0), 2, 2), F.conv_transpose2d(x[0], w,
        groups=2)),
                      f("N", 4, 4, "M"), f(4, 3, 3, 2), f(6)],
    conv_transpose3d=[lambda x, w: F.conv_transpose3d(x, w, stride=2), f("N", 2, 2, 3, 2), f(2, 3, 2, 2, 2)],
    conv1d_of_each_example=[lambda x, w: (
        F.conv1d(x.reshape(1, -1, 9), w.reshape(-1, 2, 3), w[:, :, 0, 0].reshape(-1), 2, 1, 2, 2 * len(x)),
        F.conv1d(x.reshape(-1, 9), w[..., :1].reshape(-1, 2, 1), groups=2 * len(x))), f("N", 4, 9), f("N", 6, 2, 3)],
    conv2d_of_each_example=[lambda x, w: (
        F.conv2d(x.reshape(1, -1, *x.shape[2:]), w.reshape(-1, 3, 3, 2), w[:, :, 0, 0, 0].reshape(-1), 2, 1, 1, len(x)),
        F.conv2d(x.transpose(0, 1), w[:, 0, :1], padding="same", groups=len(x))), f("N", 3, 5, "M"), f("N", 4, 3, 3, 2)],
    conv_transpose2d_of_each_example=[lambda x, w: (
        F.conv_transpose2d(x.reshape(1, -1, *x.shape[2:]), w.reshape(-1, 4, 3, 2), w[:, :, :, 0, 0].reshape(len(x), -1)[:, :4]
            .reshape(-1), (2, 1), 1, (1, 0), len(x), (1, 2)),
        F.conv_transpose2d(x[:, :2].reshape(-1, *x.shape[2:]), w[:, :2].reshape(-1, 4, 3, 2), groups=len(x))),
        f("N", 3, 5, "M"), f("N", 3, 4, 3, 2)],
    unfold=[lambda x: (F.unfold(x, (2, 3), padding=(1, 0), stride=(2, 1)), F.unfold(x, 2, dilation=2)), f("N", 3, 6, 7)],
    fold=[lambda x: (F.fold(x, (6, 7), (2, 3), padding=(1, 0), stride=(2, 1)), F.fold(x[:, :12], (5, 6), 2)), f("N", 18, 20)],
)  # fmt: skip
def test_convolutions(case: Case) -> None:
    case.tolerance |= {"rtol": 1e-4, "atol": 1e-4}
    check(case)


FOLDS: dict[str, dict[str, Any]] = {
    "stride": {"kernel_size": 3, "stride": 2, "padding": 1},
    "gaps": {"kernel_size": 2, "stride": 3, "padding": 1},
    "dilation": {"kernel_size": 3, "stride": 2, "padding": 2, "dilation": 2},
    "axes": {"kernel_size": (3, 2), "stride": (2, 3), "padding": (0, 1)},
}


@pytest.mark.parametrize("name", FOLDS)
def test_windows_of_any_size_are_folded_back(name: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.fold(F.unfold(x, **FOLDS[name]), x.shape[-2:], **FOLDS[name])

    held_at_all_sizes(function, [(5, 7), (8, 5), (7, 12), (4, 4)])


@pytest.mark.parametrize("amounts", [lambda h, w: (0, 7 - w), lambda h, w: (w - h, h - w), lambda h, w: (1, 0, 5 - h, h - 6)])
def test_padding_that_adds_or_takes_away(amounts: Any) -> None:
    held_at_all_sizes(lambda x: F.pad(x, amounts(*x.shape[-2:]), value=2.0), [(5, 7), (8, 6), (6, 8), (4, 4)])


def test_padding_that_would_take_away_more_than_there_is() -> None:
    net = isthmus.compile(lambda x: F.pad(x, (0, 5 - 2 * x.shape[0])), torch.ones(4), dynamic_shapes=({0: "N"},))
    assert [told.partition(",")[0] for told in net.report.assumptions] == ["N <= 5"]
    with pytest.raises(isthmus.errors.UsageError, match=r"N <= 5(.|\n)*N=6\n  remedy: call it where that holds"):
        net(torch.ones(6))


def held_at_all_sizes(function: Any, sizes: list[tuple[int, int]]) -> None:
    net = isthmus.compile(function, torch.randn(1, 2, 6, 6), dynamic_shapes=({2: "H", 3: "W"},))
    assert not net.report.assumptions
    for size in sizes:
        x = torch.randn(1, 2, *size)
        torch.testing.assert_close(net(x), function(x))


@cases(
    max_pool1d=[lambda x: (F.max_pool1d(x, 3), F.max_pool1d(x, 3, 2, 1, ceil_mode=True), F.max_pool1d(x, 2,
        return_indices=True)), f("N", 2, 8)],
    max_pool2d=[lambda x: (F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, (2, 3), (1, 2), ceil_mode=True),
        F.max_pool2d(x, 2, 1, 0, 2),
                           F.max_pool2d(x[0], 2)), f("N", 2, "M", 7)],
    max_pool2d_indices=[lambda x: (F.max_pool2d(x, 2, return_indices=True), F.max_pool2d(x, 3, 2, 1, return_indices=True)),
        f("N", 2, 6, 7)],
    max_pool3d=[lambda x: (F.max_pool3d(x, 2), F.max_pool3d(x, 2, return_indices=True)), f("N", 2, 4, 5, 4)],
    max_unpool=[lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), f("N", 2, 6, 4)],
    avg_pool=[lambda x: (F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True,
        count_include_pad=False),
                         F.avg_pool2d(x, 2, divisor_override=3), F.avg_pool1d(x[0], 3, 2), F.avg_pool2d(x, 3, 2, 1,
                         ceil_mode=True)), f("N", 2, "M", 7)],
    avg_pool3d=[lambda x: F.avg_pool3d(x, 2, 1), f("N", 2, 4, 5, 4)],
    adaptive=[lambda x: (F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (1, 1)), F.adaptive_max_pool2d(x, 1),
        F.adaptive_avg_pool1d(x[:, 0], 1)),
              f("N", 2, "M", 7)],
    adaptive_of_any_size=[lambda x: (F.adaptive_max_pool2d(x, (2, 3), return_indices=True), F.adaptive_max_pool2d(x, (None, 1)),
        F.adaptive_max_pool2d(x, (3, None), return_indices=True), F.adaptive_max_pool1d(x[:, 0], 2),
        F.adaptive_max_pool3d(x[:, None], (None, 2, 1))), f("N", 2, "M", 7)],
    adaptive_uneven=[lambda x: (F.adaptive_avg_pool2d(x, (3, 4)), F.adaptive_avg_pool2d(x, (None, 2)), F.adaptive_max_pool2d(x,
        (2, 3), return_indices=True),
                                F.adaptive_max_pool2d(x, (3, 7), return_indices=True), F.adaptive_avg_pool3d(x[:, None], 2)),
                                f("N", 2, 6, 7)],
)  # fmt: skip
def test_pooling(case: Case) -> None:
    check(case)


@cases(
    batch_norm=[lambda x, w, c, m, v: (F.batch_norm(x, m, v.abs() + 0.5, w, c), F.batch_norm(x, m, v.abs() + 0.5, eps=1e-3)),
        f("N", 3, 4, 4), f(3), f(3), f(3), f(3)],
    batch_norm_statistics=[lambda x, w: F.batch_norm(x, None, None, w, w, True), f("N", 3, 4), f(3)],
    batch_norm_rows=[lambda x, m, v: F.batch_norm(x, m, v), f("N", 3), f(3), f(3, low=0.5)],
    layer_norm=[lambda x, w, c: (F.layer_norm(x, (3,), w[0], c[0]), F.layer_norm(x, (2, 3), w, c), F.layer_norm(x, (3,)),
        F.layer_norm(x, (3,), w[0])),
                f("N", 2, 3), f(2, 3), f(2, 3)],
    native_layer_norm=[lambda x: torch.native_layer_norm(x, [3], None, None, 1e-5), f("N", 3)],
    rms_norm=[lambda x, w: (F.rms_norm(x, (3,), w), F.rms_norm(x, (3,), eps=1e-3)), f("N", 3), f(3)],
    group_norm=[lambda x, w: (F.group_norm(x, 2, w, w), F.group_norm(x, 3), F.group_norm(x[..., 0], 2)), f("N", 6, 4), f(6)],
    instance_norm=[lambda x, w: (F.instance_norm(x, weight=w, bias=w), F.instance_norm(x, w, w.abs() + 1,
        use_input_stats=False)), f("N", 3, 8), f(3)],
    local_response_norm=[lambda x: F.local_response_norm(x, 3), f("N", 5, 4)],
)  # fmt: skip
def test_normalization(case: Case) -> None:
    case.tolerance |= {"rtol": 1e-4, "atol": 1e-5}
    check(case)


@cases(
    layer_norm=[lambda x, w: F.layer_norm(x, (3,), w, w), f("N", 2, 3, dtype=torch.bfloat16), f(3)],
    rms_norm=[lambda x, w: F.rms_norm(x, (3,), w), f("N", 3, dtype=torch.bfloat16), f(3)],
    group_norm=[lambda x, w: F.group_norm(x, 2, w, w), f("N", 6, 4, dtype=torch.bfloat16), f(6)],
    instance_norm=[lambda x, w: F.instance_norm(x, weight=w, bias=w), f("N", 3, 8, dtype=torch.bfloat16), f(3)],
)  # fmt: skip
def test_normalization_of_narrow_inputs_by_wider_parameters(case: Case) -> None:
    """Computed in the wider type and rounded once, as under autocast."""
    case.tolerance |= {"rtol": 1e-2, "atol": 1e-3}
    check(case)


@pytest.mark.parametrize("factor", [1.7, 1.1, 1.9, 1 / 3, 0.75, 2.5])
def test_a_factor_gives_the_floats_own_size_at_every_size(factor: float) -> None:
    """The graph's size is a quotient of whole numbers, torch's a float product that is rounded down."""
    captured = capture(lambda x: F.interpolate(x, scale_factor=factor), (torch.randn(1, 1, 8),), dynamic_shapes=({2: "H"},))
    shape = captured.graph.outputs[0].tensor.shape
    assert shape is not None
    (symbol,) = captured.graph.symbols.by_name.values()
    for size in (*range(1, 2000), *range(10**6, 10**6 + 50)):
        assert evaluate(shape[2], {symbol: size}) == int(float(size) * factor)


@cases(
    plain=[lambda q, k, v: (F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, v, scale=0.3)),
           f("N", 2, 5, 4), f("N", 2, "M", 4), f("N", 2, "M", 3)],
    masks=[lambda q, k, m, a: (F.scaled_dot_product_attention(q, k, k, m), F.scaled_dot_product_attention(q, k, k, a),
                               F.scaled_dot_product_attention(q, k, k, m[:1])), f("N", 2, 5, 4), f("N", 2, "M", 4),
                               b("N", 1, 5, "M"), f(5, "M")],
    causal=[lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), f("N", 2, "M", 4)],
    grouped=[lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True), f("N", 6, 5, 4), f("N", 2, 5, 4)],
    flash=[lambda q, k, a: (FLASH(q, k, k), FLASH(q, k, k, attn_mask=a, scale=0.3), FLASH(q, q, q, is_causal=True)),
           f("N", 2, 5, 4), f("N", 2, 3, 4), f(5, 3)],
)  # fmt: skip
def test_attention(case: Case) -> None:
    check(case)


class Recurrent(torch.nn.Module):
    """A recurrent layer and what it is called with."""

    def __init__(self, kind: str, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = getattr(torch.nn, kind)(3, 4, **options)

    def forward(self, x: torch.Tensor, h: torch.Tensor | None = None) -> Any:
        return self.layer(x) if h is None else self.layer(x, h)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("LSTM", {}), ("LSTM", {"num_layers": 2, "bidirectional": True, "batch_first": True}), ("LSTM", {"proj_size": 2}),
        ("LSTM", {"bias": False, "bidirectional": True}), ("GRU", {"num_layers": 2, "batch_first": True}),
        ("GRU", {"bidirectional": True, "bias": False}), ("RNN", {}), ("RNN", {"nonlinearity": "relu", "bidirectional": True}),
    ],
)  # fmt: skip
def test_recurrent(kind: str, options: dict[str, Any]) -> None:
    model = Recurrent(kind, **options).eval()
    captured = capture(model, (torch.rand(5, 2, 3),), dynamic_shapes={"x": {0: "N", 1: "M"}}, options=CaptureOptions())
    for shape in ((5, 2), (1, 3), (7, 1)):
        x = torch.randn(*shape, 3)
        for ours, theirs in zip(interpreter.run(captured.graph, [x.numpy()]), flat(model(x)), strict=True):
            assert ours.shape == tuple(theirs.shape)
            np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-5, atol=1e-5)


@cases(
    lstm_cell=[lambda x, h, w, u, c: torch.lstm_cell(x, (h, h), w, u, c, c), f("N", 3), f("N", 2), f(8, 3), f(8, 2), f(8)],
    gru_cell=[lambda x, h, w, u, c: torch.gru_cell(x, h, w, u, c, c), f("N", 3), f("N", 2), f(6, 3), f(6, 2), f(6)],
    rnn_cell=[lambda x, h, w, u, c: (torch.rnn_tanh_cell(x, h, w, u, c, c), torch.rnn_relu_cell(x, h, w, u)),
              f("N", 3), f("N", 2), f(2, 3), f(2, 2), f(2)],
)  # fmt: skip
def test_recurrent_cells(case: Case) -> None:
    check(case)


IMAGE = i("N", 3, 21, 30, dtype=torch.uint8, low=0, high=255)


# On other processors torch has other kernels for these, which round otherwise.
@pytest.mark.skipif(torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"), reason="torch rounds otherwise")
@cases(**{
    f"{mode}{'_antialias' * antialias}": [lambda x, a=antialias, m=mode: tuple(
        F.interpolate(x, mode=m, antialias=a, align_corners=c, **s) for c in (False, True) for s in (
            {"size": (33, 41)}, {"size": (11, 13)}, {"size": (21, 7)}, {"size": (1, 30)}, {"scale_factor": 2},
            {"scale_factor": (1.7, 0.6)}, {"scale_factor": 0.7, "recompute_scale_factor": True})), IMAGE]
    for mode in ("bilinear", "bicubic") for antialias in (False, True)
})  # fmt: skip
def test_images_of_bytes(case: Case) -> None:
    check(case)


def test_images_of_bytes_of_unknown_sizes_are_refused() -> None:
    model = Model(lambda x: F.interpolate(x, (40, 40), mode="bilinear"))
    with pytest.raises(UnsupportedError, match=r"(?s)sizes that are known.*interpolate floats"):
        capture(model, (torch.zeros(1, 3, 20, 30, dtype=torch.uint8),), dynamic_shapes=(({3: "W"},),))


@cases(
    nearest=[lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, (7, 3)), F.interpolate(x, scale_factor=0.6),
        F.interpolate(x, scale_factor=(1.5, 2)),
                        F.interpolate(x, (5, 9), mode="nearest-exact")), f("N", 2, 5, 6)],
    bilinear=[lambda x: tuple(F.interpolate(x, mode="bilinear", align_corners=a, **s) for a in (True, False) for s in
                              ({"size": (7, 3)}, {"size": 1}, {"scale_factor": 2.5}, {"scale_factor": 0.7})), f("N", 2, 5, 6)],
    bicubic=[lambda x: tuple(F.interpolate(x, mode="bicubic", align_corners=a, **s) for a in (True, False) for s in
                             ({"size": (7, 3)}, {"scale_factor": 2.5}, {"scale_factor": 0.5})), f("N", 2, 6, 5)],
    others=[lambda x: (F.interpolate(x, 7, mode="linear"), F.interpolate(x, scale_factor=2), F.interpolate(x[:,
        None].unsqueeze(-1), (2, 9, 2), mode="trilinear"),
                       F.interpolate(x[:, None], scale_factor=2)), f("N", 3, 5)],
    antialias=[lambda x: (F.interpolate(x, (4, 3), mode="bilinear", antialias=True), F.interpolate(x, (4, 3), mode="bicubic",
        antialias=True)), f("N", 2, 9, 8)],
    corners=[lambda x: F.interpolate(x, (4, 3), mode="bilinear", align_corners=True, antialias=True), f("N", 2, 9, 8)],
    dynamic=[lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, scale_factor=0.5), F.interpolate(x, scale_factor=1.5,
        mode="bilinear"),
                        F.interpolate(x, size=(x.shape[2] * 2, 5), mode="bilinear"), F.interpolate(x, (3, 3))),
                        f("N", 2, "M", 4)],
)  # fmt: skip
def test_resize(case: Case) -> None:
    case.tolerance |= {"rtol": 1e-4, "atol": 1e-4}
    check(case)
