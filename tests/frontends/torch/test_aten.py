"""Lowerings that compute element by element, reduce and multiply, and the table of all of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from aten_cases import Case, Model, T, b, cases, check, each, f, i

from isthmus.frontends.torch import CaptureOptions, capture
from isthmus.frontends.torch.lowering import LOWERINGS, plan
from isthmus.ir.errors import UnsupportedError

# ---- the table itself


BRINGS = {
    "transformers": "transformers.integrations.moe", "torchvision": "torchvision",
    "torch_nn": "torch.nn.modules.linear_cross_entropy",
}  # fmt: skip
"""The module that brings the ops of another namespace than torch's."""


@pytest.mark.parametrize("name", LOWERINGS)
def test_is_an_overload_that_writes_nothing(name: str) -> None:
    namespace, packet, overload = name.split(".")
    if namespace in BRINGS:
        pytest.importorskip(BRINGS[namespace])
    found = getattr(getattr(getattr(torch.ops, namespace), packet), overload)
    arguments = found._schema.arguments
    assert not any(argument.alias_info is not None and argument.alias_info.is_write for argument in arguments)
    assert plan(LOWERINGS[name], [argument.name for argument in arguments])


# ---- elementwise

UNARY = (
    "exp log sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf sigmoid log1p expm1 log2 "
    "log10 exp2 neg abs sign floor ceil round trunc relu square frac deg2rad rad2deg isnan isinf isfinite isposinf isneginf "
    "nan_to_num sgn positive special.expit logit"
)
POSITIVE = dict.fromkeys(("log", "sqrt", "rsqrt", "reciprocal", "log2", "log10"), (0.1, 3.0))
UNIT = dict.fromkeys(("asin", "acos", "atanh", "logit"), (0.05, 0.95))
ABOVE = {"acosh": (1.1, 4.0), "log1p": (-0.5, 3.0), "tan": (-1.0, 1.0)}


@each(UNARY, f("N", 3), **POSITIVE, **UNIT, **ABOVE)
def test_unary_of_floats(case: Case) -> None:
    check(case)


@each(
    "exp sin tanh sigmoid atan sinh erf neg abs sign floor ceil round trunc relu square isnan isfinite nan_to_num sqrt log",
    i("N", 3), sqrt=(0, 5), log=(1, 5),
)  # fmt: skip
def test_unary_of_integers(case: Case) -> None:
    check(case)


@each("exp sin sigmoid sqrt sgn isnan isinf logical_not bitwise_not", b("N", 3))
def test_unary_of_bools(case: Case) -> None:
    check(case)


@each("add sub mul div floor_divide remainder fmod atan2 maximum minimum eq ne lt le gt ge fmax fmin hypot isclose "
      "logaddexp xlogy", f("N", 3), f(3, low=0.5))  # fmt: skip
def test_binary_of_floats(case: Case) -> None:
    check(case)


@each("add sub mul div remainder fmod floor_divide atan2 maximum minimum eq lt ge bitwise_and bitwise_or bitwise_xor fmax "
      "isclose", i("N", 3), i(3, low=1))  # fmt: skip
def test_binary_of_integers(case: Case) -> None:
    check(case)


@each("add mul maximum minimum eq ne lt logical_and logical_or logical_xor bitwise_and bitwise_xor div", b("N", 3), b("N", 3))
def test_binary_of_bools(case: Case) -> None:
    check(case)


@cases(
    alpha=[lambda x, y: (torch.add(x, y, alpha=2), torch.sub(x, y, alpha=0.5), torch.rsub(x, y, alpha=3)), f("N", 3),
        f("N", 3)],
    scalars=[lambda x: (x + 1, 2 - x, x * 0.5, x / 3, 1 / x, -x, x**2, x**0.5, 2**x, x % 2, x // 2), f("N", 3, low=0.5)],
    integer_scalars=[
        lambda x: (x + 1, 2 - x, x * 2.5, x / 3, x // 2, x % 3, x % -3, x**2, 2 - x, x & 3, x | 4, x ^ 1, ~x, x << 1, x >> 1),
        i("N", 3),
    ],
    promotion=[
        lambda a, c, d, e: (a + c, a + d, a * e, c + d, c * e, a > d, torch.where(a > 0, a, c), a + True, d + 1.5, e + 1),
        i("N", 3), f("N", 3), T(torch.int32, "N", 3, low=-5, high=5), b("N", 3),
    ],
    narrow_promotion=[
        lambda h, q, s, u: (h + 1.5, h * q, q + 1, u + 1, u * q, h + s, u - s.to(torch.uint8)),
        f("N", 2, dtype=torch.float16), i("N", 2, dtype=torch.int8), f(), i("N", 2, dtype=torch.uint8, low=0, high=9),
    ],
    zero_d=[lambda x, s, k: (x + s, x * k, s + k, s * 2, k / 2), f("N", 2, dtype=torch.float16), f(dtype=torch.float64), i()],
    rounding=[
        lambda a, c, x, y: (
            torch.div(a, c, rounding_mode="floor"), torch.div(a, c, rounding_mode="trunc"), torch.div(x, y,
            rounding_mode="floor"),
            torch.div(x, y, rounding_mode="trunc"), a // 3, a // -3, torch.div(a, 2.5, rounding_mode="trunc"),
        ),
        i("N", 3, low=-9, high=9), i("N", 3, low=1, high=4), f("N", 3), f("N", 3, low=0.5),
    ],
    pow_tensors=[lambda x, y: (x**y, torch.float_power(x, 2), torch.pow(2, y)), f("N", 3, low=0.2), f("N", 3)],
    pow_integers=[lambda x, y: (x**y, x**3, torch.pow(3, y)), i("N", 3), i("N", 3, low=0, high=4)],
    remainder_of_scalar=[lambda x: (torch.remainder(7, x), torch.remainder(x, 2.5)), i("N", low=1)],
    addcmul=[lambda x, y, z: (torch.addcmul(x, y, z, value=2), torch.addcdiv(x, y, z, value=0.5)), f("N", 3), f("N", 3),
             f(3, low=0.5)],
    addcmul_integers=[lambda x, y: torch.addcmul(x, x, y, value=2), i("N", 3), i("N", 3)],
    lerp=[lambda x, y, z: (torch.lerp(x, y, 0.25), torch.lerp(x, y, z)), f("N", 3), f("N", 3), f("N", 3, low=0, high=1)],
    clamp=[lambda x, y: (x.clamp(-1, 1), x.clamp(min=0.5), x.clamp(max=1), x.clamp(1, -1), torch.clamp(x, y, y + 1),
                         torch.clamp(x, max=y), x.clamp_min(0), x.clamp_max(y)), f("N", 3), f(3)],
    clamp_integers=[lambda x: (x.clamp(-1, 2), x.clamp(-0.5, 1.5), torch.clip(x, min=0)), i("N", 3)],
    comparisons=[lambda x, y: (x == 1, x != 2, x < 0.5, y >= 1, y > 0.5, x.eq(y), x <= y), f("N", 3), i("N", 3)],
    logic=[lambda x, y: (torch.logical_and(x, y), torch.logical_xor(x, y), torch.logical_not(x), x.bool()), f("N", 3),
        i("N", 3, low=0, high=1)],
    shifts=[lambda x, y: (x << y, x >> y, torch.bitwise_left_shift(x, 2), 1 << y), i("N", 3), i("N", 3, low=0, high=4)],
    decimals=[lambda x: (torch.round(x, decimals=1), torch.round(x * 100, decimals=-1)), f("N", 3)],
    logit_eps=[lambda x: (torch.logit(x, eps=1e-3), torch.logit(x, eps=0.6)), f("N", 3, low=-0.2, high=1.2)],
    nan=[lambda x: (torch.nan_to_num(x / x), torch.nan_to_num(1 / x, 1.0, 2.0, -3.0), torch.isnan(x / x), torch.isinf(1 / x),
                    torch.maximum(x / x, x), torch.fmax(x / x, x), torch.isclose(x / x, x / x, equal_nan=True)),
         i("N", 3, low=-1, high=1, dtype=torch.int32)],
    special=[lambda x, y: (torch.special.entr(x), torch.sinc(x.round()), torch.special.xlog1py(x, y.abs()), torch.logaddexp2(x,
        y),
                           F.huber_loss(x, y), F.huber_loss(x, y, reduction="none", delta=0.5)), f("N", 3), f("N", 3)],
    heaviside=[lambda x, y: torch.heaviside(x.round(), y), f("N", 3), f(3)],
    signbit=[lambda x: torch.signbit(x), i("N", 3)],
    where=[lambda c, x, y: (torch.where(c, x, y), torch.where(c, x, 0.0), torch.where(c, 1, y), torch.where(c, 1, 2),
                            torch.where(c, 1.0, 2.0), torch.where(c, x, y.long())), b("N", 1), f("N", 3), f(3)],
    masked_fill=[lambda x, m, v: (x.masked_fill(m, -1e9), x.masked_fill(m, v), x.masked_fill(m[:1], float("-inf"))),
                 f("N", 3), b("N", 3), f()],
    masked_fill_integers=[lambda x, m: x.masked_fill(m, 7), i("N", 3), b("N", 1)],
    fill=[lambda x: (torch.full_like(x, 2), x.new_full((2,), 1), torch.fill(x, 3.0)), i("N", 3)],
)  # fmt: skip
def test_arithmetic(case: Case) -> None:
    check(case)


# ---- activations


@cases(
    relu=[F.relu, f("N", 3)], relu6=[lambda x: F.relu6(x * 3), f("N", 3)], hardtanh=[lambda x: F.hardtanh(x, -0.5, 2),
        f("N", 3)],
    gelu=[lambda x: (F.gelu(x), F.gelu(x, approximate="tanh")), f("N", 3)], silu=[F.silu, f("N", 3)], mish=[F.mish, f("N", 3)],
    selu=[F.selu, f("N", 3)], celu=[lambda x: F.celu(x, 2.0), f("N", 3)], elu=[lambda x: (F.elu(x), F.elu(x, 0.5)), f("N", 3)],
    elu_scaled=[lambda x: torch.ops.aten.elu(x, 0.5, 2.0, 1.5), f("N", 3)],
    leaky_relu=[lambda x: (F.leaky_relu(x), F.leaky_relu(x, 0.2)), f("N", 3)], rrelu=[lambda x: F.rrelu(x), f("N", 3)],
    hardswish=[lambda x: F.hardswish(x * 2), f("N", 3)], hardsigmoid=[lambda x: F.hardsigmoid(x * 2), f("N", 3)],
    softplus=[lambda x: (F.softplus(x), F.softplus(x, 2.0, 3.0)), f("N", 3)], softsign=[F.softsign, f("N", 3)],
    logsigmoid=[lambda x: F.logsigmoid(x * 30), f("N", 3)], threshold=[lambda x: F.threshold(x, 0.5, -7), f("N", 3)],
    shrink=[lambda x: (F.hardshrink(x), F.softshrink(x), F.tanhshrink(x), F.softshrink(x, 1)), f("N", 3)],
    prelu=[lambda x, a: (F.prelu(x, a), F.prelu(x, a[:1]), F.prelu(x[..., 0], a)), f("N", 3, 2), f(3)],
    glu=[lambda x: (F.glu(x), F.glu(x, 0)), f(6, 4)], glu_dynamic=[lambda x: F.glu(x, -1), f("N", 8)],
    softmax=[lambda x: (F.softmax(x, -1), F.softmax(x, 0), F.log_softmax(x, 1), F.softmin(x, 1)), f("N", 3)],
    softmax_dtype=[lambda x: (F.softmax(x, -1, dtype=torch.float32), torch.log_softmax(x.float(), 0, dtype=torch.float64)),
                   i("N", 3, dtype=torch.int32)],
    softmax_scalar=[lambda x: (torch.softmax(x, 0), torch.log_softmax(x, -1)), f()],
    dropout=[lambda x: (F.dropout(x, 0.5, False), F.dropout2d(x, 0.5, False), F.alpha_dropout(x, 0.3, False)), f("N", 3, 4)],
    relu_integers=[F.relu, i("N", 3)],
)  # fmt: skip
def test_activations(case: Case) -> None:
    check(case)


# ---- reductions


@each("sum prod mean std var amax amin max min argmax argmin aminmax std_mean var_mean nansum count_nonzero norm",
    f("N", 3, low=0.5))
def test_reductions_of_floats(case: Case) -> None:
    check(case)


@each("sum prod amax amin max min argmax argmin aminmax any all nansum count_nonzero", i("N", 3))
def test_reductions_of_integers(case: Case) -> None:
    check(case)


@each("sum prod amax amin max min any all count_nonzero", b("N", 3))
def test_reductions_of_bools(case: Case) -> None:
    check(case)


@cases(
    sum=[lambda x: (x.sum(0), x.sum(-1, keepdim=True), x.sum((0, 2)), x.sum([]), x.sum(dtype=torch.float64), x.sum(1,
        dtype=torch.int32)),
         f("N", 3, 2)],
    sum_integers=[lambda x: (x.sum(0), x.sum(1, dtype=torch.float32), x.prod(1), x.prod(0, dtype=torch.float32)),
        i("N", 3, dtype=torch.int32)],
    mean=[lambda x: (x.mean(0), x.mean((1, 2), keepdim=True), x.mean(dtype=torch.float64)), f("N", 3, 2)],
    mean_dtype=[lambda x: (x.mean(dtype=torch.float32), x.float().mean(-1)), i("N", 3)],
    spread=[lambda x: (x.std(0), x.std(1, unbiased=False), x.var((0, 1), keepdim=True), torch.var(x, 0, correction=0),
                       torch.var_mean(x, dim=1, keepdim=True), torch.std_mean(x, 0, unbiased=False), x.var(unbiased=False)),
                       f("N", 3)],
    extremes=[lambda x: (x.max(0), x.min(-1, keepdim=True), x.amax((0, 1)), x.amin(1), torch.aminmax(x, dim=0),
                         x.argmax(0), x.argmin(1, keepdim=True), x.argmax(keepdim=True)), f("N", 3)],
    extremes_bool=[lambda x: (x.max(0)[0], x.min(1), x.any(1), x.all(0, keepdim=True), x.amax(0)), b("N", 3)],
    any_all=[lambda x: (x.any(0), x.all(1, keepdim=True), torch.any(x, (0, 1)), x.all()), i("N", 3, low=0, high=1)],
    all_true=[lambda x: (torch._is_all_true(x), torch._is_all_true(x | ~x), torch._is_any_true(x & ~x)), b("N", 3)],
    any_u8=[lambda x: (x.any(0), x.all()), i("N", 3, low=0, high=1, dtype=torch.uint8)],
    scalars=[lambda x: (x.sum(), x.max(0), x.argmax(), x.sum(0), x.cumsum(0), x.sort(), x.topk(1), x.mean(-1)), f()],
    logsumexp=[lambda x: (x.logsumexp(0), torch.logsumexp(x, (0, 1), keepdim=True)), f("N", 3)],
    logsumexp_integers=[lambda x: x.logsumexp(0), i("N", 3)],
    scans=[lambda x: (x.cumsum(0), x.cumprod(-1), x.cumsum(1, dtype=torch.float64)), f("N", 3)],
    scans_integers=[lambda x, m: (x.cumsum(0), x.cumprod(1), m.cumsum(0)), i("N", 3, dtype=torch.int32), b("N", 3)],
    diff=[lambda x, m: (torch.diff(x), torch.diff(x, n=2, dim=0), torch.diff(x, dim=0, prepend=x[:1]), torch.diff(m)),
        f("N", 4), b("N", 3)],
    norms=[lambda x: (x.norm(), x.norm(1, 0), x.norm(float("inf"), 1), x.norm(3, dim=1, keepdim=True), x.norm(0, 1),
                      torch.linalg.vector_norm(x, 2, (0, 1)), torch.linalg.norm(x), torch.linalg.norm(x, 1),
                      torch.linalg.norm(x, dim=1),
                      torch.linalg.matrix_norm(x), torch.linalg.matrix_norm(x, float("inf"), keepdim=True),
                      F.normalize(x, dim=1), x.norm(2, 1, dtype=torch.float64)), f("N", 3)],
    topk=[lambda x: (x.topk(2), x.topk(3, 0), x.topk(1, largest=False), x.topk(x.shape[0], 0)), f("N", 3)],
    sort=[lambda x: (x.sort(), x.sort(0, descending=True), x.argsort(0), torch.sort(x, dim=0, stable=True), torch.msort(x)),
        f("N", 3)],
    sort_integers=[lambda x, m: (torch.sort(x, dim=0, stable=True), torch.argsort(x, descending=True, stable=True),
        torch.sort(m, stable=True)),
                   i("N", 3), b(5)],
    median=[lambda x, y: (x.median(), x.median(1), x.median(0, keepdim=True), y.median(), y.median(0)[0],
        torch.log(x).median(1)[0]),
            f("N", 4), i("N", 3)],
    quantile=[lambda x, q: (x.quantile(0.3), x.quantile(q, dim=1), x.quantile(q, 0, keepdim=True), x.quantile(0.5, 1,
        keepdim=True),
                            x.quantile(0.4, 0, interpolation="nearest"), x.quantile(q, 1, interpolation="midpoint"),
                            x.quantile(q, keepdim=True), torch.log(x).quantile(0.2, 1)), f("N", 3), f(2, low=0, high=1)],
    kthvalue=[lambda x: (x.kthvalue(2), x.kthvalue(1, 0, keepdim=True)), f("N", 3)],
)  # fmt: skip
def test_reductions(case: Case) -> None:
    check(case)


# ---- products


def ends(groups: torch.Tensor, count: int) -> torch.Tensor:
    """Where each group ends, when elements are sorted by group."""
    return (groups[:, None] == torch.arange(count)).sum(0).cumsum(0).to(torch.int32)


@cases(
    linear=[lambda x, w, c: (F.linear(x, w, c), F.linear(x, w), F.linear(x[0], w, c)), f("N", 4, 3), f(5, 3), f(5)],
    linear_vector=[lambda x, w: F.linear(x, w[0]), f("N", 3), f(5, 3)],
    matmul=[lambda x, y, v: (x @ y, x @ y[0], x[0] @ y, x @ v, v @ y, v @ v, torch.bmm(x, y), torch.mm(x[0], y[0]),
                             torch.mv(x[0], v), torch.dot(v, v), torch.vdot(v, v)), f("N", 2, 3), f("N", 3, 2), f(3)],
    matmul_mixed_batch=[lambda x, y: torch.matmul(x, y), f("N", 1, 2, 3), f(4, 3, 2)],
    addmm=[lambda c, x, y: (torch.addmm(c, x, y), torch.addmm(c, x, y, beta=0.5, alpha=2), torch.addmm(c / 0, x, y, beta=0)),
           f(2), f("N", 3), f(3, 2)],
    baddbmm=[lambda c, x, y: (torch.baddbmm(c, x, y, beta=0.5), torch.addbmm(c[0], x, y), torch.addmv(c[0, :, 0], x[0], y[0, :,
        0])),
             f("N", 2, 2), f("N", 2, 3), f("N", 3, 2)],
    outer=[lambda x, y: (torch.outer(x, y), torch.ger(x, y), torch.addr(torch.outer(x, y), x, y, beta=2)), f("N"), f("M")],
    einsum=[lambda x, y: (torch.einsum("bij,bjk->bik", x, y), torch.einsum("b i j, b j k -> b k i", x, y),
                          torch.einsum("...ij,...jk", x, y), torch.einsum("bij->b", x), torch.einsum("bij,bjk,bij->bk", x, y,
                          x)),
            f("N", 2, 3), f("N", 3, 2)],
    einsum_of_integers=[lambda x: (torch.einsum("ij,kj->ik", x, x), torch.einsum("ij->", x), torch.einsum("ij->j", x),
                                   torch.einsum("ii->i", x[:, :1])), i(1, 3, dtype=torch.int32)],
    tensordot=[lambda x, y: (torch.tensordot(x, y, dims=([1, 2], [1, 0])), torch.tensordot(x, y, 1), torch.inner(x, x[0])),
               f("N", 2, 3), f(3, 2)],
    multi_dot=[lambda x, y: torch.linalg.multi_dot([x, y, y]), f("N", 3), f(3, 3)],
    bilinear=[lambda x, y, w, c: F.bilinear(x, y, w, c), f("N", 2), f("N", 3), f(4, 2, 3), f(4)],
    cross=[lambda x, y: (torch.linalg.cross(x, y), torch.cross(x, y, dim=1)), f("N", 3), f("N", 3)],
    kron=[lambda x, y: torch.kron(x, y), f("N", 2), f(2, 3)],
    integers=[lambda x, y: (x @ y, torch.mm(x, y)), i("N", 3), i(3, 2)],
    cosine=[lambda x, y: (F.cosine_similarity(x, y), F.cosine_similarity(x, y[:1], dim=-1), F.pairwise_distance(x, y)),
        f("N", 3), f("N", 3)],
    pairs=[lambda x: (F.pdist(x), F.pdist(x, 1), F.pdist(x, 3.0)), f("N", 3)],
    pairs_known=[lambda x: (F.pdist(x), F.pdist(x, math.inf), F.pdist(x[:1])), f(4, 3)],
    covariance=[lambda x, k, a: (torch.cov(x.T), torch.cov(x.T, correction=0), torch.cov(x.T, fweights=k), torch.cov(x.T,
        aweights=a), torch.cov(x.T, fweights=k, aweights=a, correction=2), torch.cov(x[:, 0]), torch.cov(x[:1].T),
        torch.corrcoef(x.T)), f("N", 3), i("N", low=1, high=3), f("N", low=0.5, high=2)],
    covariance_of_complex=[lambda x, k: (torch.cov(x.T), torch.cov(x.T, fweights=k), torch.corrcoef(x.T), torch.cov(x[:, 0])),
                           f("N", 3, dtype=torch.complex64), i("N", low=1, high=3)],
    covariance_of_integers=[lambda x: (torch.cov(x.T), torch.corrcoef(x.T)), i("N", 3)],
    cosine_across=[lambda x, y: (F.cosine_similarity(x[None], y[:, None], dim=-2), F.cosine_similarity(x[0], x[0, 0], dim=0),
        F.cosine_similarity(x[0, 0], y[0, 0], dim=0)), f("N", 3), f("N", 3)],
    distance_of_integers=[lambda x, y: (F.pairwise_distance(x, y), F.pairwise_distance(x, y, p=1, eps=1, keepdim=True)),
        i("N", 3), i("N", 3)],
    of_bools=[lambda x, y: (torch.outer(x, y), torch.kron(x, y), torch.addr(x[:, None], x, y), torch.addr(x[:, None], x, y,
        beta=False)), b("N"), b(3)],
    contracted_ones=[lambda x, y: (torch.tensordot(x[None], y, ([0, 1], [0, 1])), torch.tensordot(y, x[None], ([0, 1], [0,
        1]))), f("N", 3), f(2, "N", 4)],
    cdist=[lambda x, y: (torch.cdist(x, y), torch.cdist(x, y, p=1)), f("N", 3), f("M", 3)],
    grouped_rows=[lambda x, m, k: (F.grouped_mm(x, m, offs=ends(k, 3)), F.grouped_mm(torch.cat((x, x)), m, offs=ends(k, 3))[:
        x.shape[0]]), f("N", 4), f(3, 4, 8), i("N", low=0, high=2)],
    grouped_alone=[lambda x, m, k: F.grouped_mm(x, m, offs=ends(k * 0, 1)), f("N", 4), f(1, 4, 8), i("N")],
    grouped_batch=[lambda x, m: F.grouped_mm(x, m), f("N", 4, 8), f("N", 8, 4)],
)  # fmt: skip
def test_products(case: Case) -> None:
    check(case)


# ---- other floats


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float16, 4e-3), (torch.bfloat16, 3e-2), (torch.float64, 1e-6)], ids=["f16", "bf16", "f64"]
)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x + 1, x * 2.5, x / 3, x // 2, x % 2, x**2, -x, x.abs(), x.clamp(-1, 1), x - x.mean(), x + x.sum(0)),
        lambda x: (F.gelu(x), F.silu(x), F.softmax(x, -1), F.log_softmax(x, 0), F.elu(x), F.softplus(x), F.hardswish(x),
            F.mish(x)),
        lambda x: (x.sum(), x.mean(0), x.var(1), x.std(), x.amax(0), x.max(1), x.cumsum(0), x.prod(1), x.logsumexp(0),
            x.norm()),
        lambda x: (x @ x.T, F.linear(x, x), torch.addmm(x[:, :1], x, x.T), torch.einsum("ij,kj->ik", x, x)),
        lambda x: (F.layer_norm(x, (6,)), F.rms_norm(x, (6,)), F.group_norm(x, 2), F.normalize(x, dim=1)),
        lambda x: (F.max_pool1d(x[None], 2), F.avg_pool1d(x[None], 2), F.adaptive_avg_pool1d(x[None], 2), F.pad(x, (1, 1))),
        lambda x: (torch.where(x > 0, x, 0.0), x.masked_fill(x > 0, -1e4), x.to(torch.int32), x.float(), x.new_full((2,), 0.1)),
        lambda x: (x + torch.ones(6), x * torch.tensor(2.0), x > 0.1, torch.arange(6) * x, x + True, x.type_as(torch.ones(1))),
        lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
        lambda x: (F.interpolate(x[None, None], (5, 7), mode="bilinear"), F.interpolate(x[None, None], scale_factor=2)),
    ],
)  # fmt: skip
def test_other_floats(function: Callable[..., Any], dtype: torch.dtype, tolerance: float) -> None:
    check(Case(function, f("N", 6, dtype=dtype), rtol=tolerance, atol=tolerance))


# ---- refusals


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda x: x.mean(), [torch.arange(3)]),
        (lambda x: x.view(torch.int32), [torch.ones(3)]),
        (lambda x: F.rrelu(x, training=True), [torch.ones(3)]),
        (lambda x: F.alpha_dropout(x, 0.5, True), [torch.ones(3)]),
        (lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5), [torch.ones(1, 2, 3)]),
        (torch.linalg.svd, [torch.ones(2, 2)]),
        (torch.linalg.eigh, [torch.ones(2, 2)]),
    ],
)
def test_refuses(function: Callable[..., Any], inputs: list[torch.Tensor]) -> None:
    with pytest.raises(UnsupportedError):
        capture(Model(function), tuple(inputs), options=CaptureOptions())


def test_refuses_a_range_up_to_a_fraction_of_a_size() -> None:
    model = Model(lambda x: torch.arange(x.shape[0] / 3))
    with pytest.raises(UnsupportedError, match="use // in place of /"):
        capture(model, (torch.rand(4, 2),), dynamic_shapes={"args": ({0: "N"},)}, options=CaptureOptions())


def test_reordering_in_place_is_no_write() -> None:
    """It would look like one where the shape stays the same."""

    def function(x: torch.Tensor) -> Any:
        whole = torch.zeros(9)
        square = whole.view(3, 3)
        square.add_(x)
        square.t_()
        return whole, square

    check(Case(function, f(3, 3)))


def test_keeps_what_is_coarse() -> None:
    """One node each, with nothing but constants beside them."""

    def function(x: torch.Tensor, w: torch.Tensor) -> Any:
        y = F.gelu(F.layer_norm(F.linear(x, w, w[0]), (3,), w[0]))
        return F.softmax(F.scaled_dot_product_attention(y, y, y), -1)

    captured = capture(Model(function), (torch.rand(2, 4, 3), torch.rand(3, 3)), options=CaptureOptions())
    names = [node.op.name for node in captured.graph.nodes]
    assert [name for name in names if name not in ("slice", "squeeze", "constant")] == [
        "linear", "layer_norm", "gelu", "attention", "softmax",
    ]  # fmt: skip


def test_known_masks_have_known_sizes() -> None:
    mask = torch.tensor([True, False, True])

    def function(x: torch.Tensor) -> Any:
        return x[mask], mask.nonzero(), x.repeat_interleave(torch.tensor([0, 2, 1]), 0), torch.unique(torch.tensor([3, 1, 3]))

    captured = capture(Model(function), (torch.rand(3, 2),), options=CaptureOptions())
    assert [value.tensor.shape for value in captured.graph.outputs] == [(2, 2), (2, 1), (3, 2), (2,)]


def test_filled_tensors_stay_small() -> None:
    captured = capture(Model(lambda x: torch.zeros(1000, 1000) + x), (torch.rand(1),), options=CaptureOptions())
    assert all(weight.size == 1 for weight in captured.graph.weights())
    assert math.prod(captured.graph.outputs[0].tensor.shape) == 1_000_000
