"""Every lowering against eager torch: dtype, shape and numbers, at the example's sizes and at others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from isthmus.frontends.torch import CaptureOptions, capture
from isthmus.frontends.torch.lowering import LOWERINGS, plan
from isthmus.frontends.torch.weights import contents
from isthmus.ir import interpreter
from isthmus.ir.verifier import verify

SIZES = ({"N": 4, "M": 6}, {"N": 7, "M": 5}, {"N": 3, "M": 8})
"""The example's sizes first, then others to run at."""


class T:
    """A tensor argument: its dtype, its dims (a name for a dynamic one) and the range of its elements."""

    def __init__(self, dtype: torch.dtype, *dims: int | str, low: float = -3, high: float = 3) -> None:
        self.dtype, self.dims, self.low, self.high = dtype, dims, low, high

    def make(self, sizes: dict[str, int], generator: torch.Generator) -> torch.Tensor:
        shape = [sizes[dim] if isinstance(dim, str) else dim for dim in self.dims]
        if self.dtype is torch.bool:
            return torch.rand(shape, generator=generator) < 0.5
        if not self.dtype.is_floating_point:
            return torch.randint(int(self.low), int(self.high) + 1, shape, generator=generator).to(self.dtype)
        return (torch.rand(shape, generator=generator) * (self.high - self.low) + self.low).to(self.dtype)

    @property
    def dynamic(self) -> dict[int, str]:
        return {axis: dim for axis, dim in enumerate(self.dims) if isinstance(dim, str)}


def f(*dims: int | str, low: float = -3, high: float = 3, dtype: torch.dtype = torch.float32) -> T:
    """Floats."""
    return T(dtype, *dims, low=low, high=high)


def i(*dims: int | str, low: int = -5, high: int = 5, dtype: torch.dtype = torch.int64) -> T:
    """Integers."""
    return T(dtype, *dims, low=low, high=high)


def b(*dims: int | str) -> T:
    """Bools."""
    return T(torch.bool, *dims)


class Case:
    """A function of tensors."""

    def __init__(self, function: Callable[..., Any], *inputs: T, name: str = "", **tolerance: float) -> None:
        self.function, self.inputs, self.tolerance = function, inputs, {"rtol": 1e-5, "atol": 1e-5} | tolerance
        self.name = name


class Model(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def flat(result: Any) -> list[torch.Tensor]:
    """The tensors of a result, in order."""
    if isinstance(result, torch.Tensor):
        return [result]
    return [tensor for item in result for tensor in flat(item)]


def check(case: Case) -> None:
    draws = torch.Generator().manual_seed(0)
    calls = [[spec.make(sizes, draws) for spec in case.inputs] for sizes in SIZES]
    model = Model(case.function).eval()
    dynamic = any(spec.dynamic for spec in case.inputs)
    shapes = {"args": tuple(spec.dynamic for spec in case.inputs)} if dynamic else None
    captured = capture(model, tuple(calls[0]), dynamic_shapes=shapes, options=CaptureOptions())
    verify(captured.graph)
    for args in calls if dynamic else calls[:1]:
        wanted = flat(model(*(arg.clone() for arg in args)))
        found = interpreter.run(captured.graph, [contents(arg) for arg in args])
        assert len(found) == len(wanted)
        for ours, theirs in zip(found, map(contents, wanted), strict=True):
            assert ours.dtype == theirs.dtype
            assert ours.shape == theirs.shape
            if ours.dtype.kind not in "fiub":  # bfloat16, which numpy knows little of
                ours, theirs = ours.astype(np.float32), theirs.astype(np.float32)
            np.testing.assert_allclose(ours, theirs, equal_nan=True, **case.tolerance)


def cases(**named: Sequence[Any]) -> Any:
    """Parameters out of ``name=[function, inputs...]``."""
    return pytest.mark.parametrize("case", [pytest.param(Case(*parts), id=name) for name, parts in named.items()])


def each(names: str, *inputs: T, **ranges: tuple[float, float]) -> Any:
    """The torch functions of these names, each on the same inputs."""
    found = []
    for name in names.split():
        function = torch
        for part in name.split("."):
            function = getattr(function, part)
        specs = [T(x.dtype, *x.dims, low=ranges[name][0], high=ranges[name][1]) if name in ranges else x for x in inputs]
        found.append(pytest.param(Case(function, *specs), id=name))
    return pytest.mark.parametrize("case", found)


# ---- the table itself


@pytest.mark.parametrize("name", LOWERINGS)
def test_is_an_overload_that_writes_nothing(name: str) -> None:
    namespace, packet, overload = name.split(".")
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
    logit_eps=[lambda x: torch.logit(x, eps=1e-3), f("N", 3, low=-0.2, high=1.2)],
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
    tensordot=[lambda x, y: (torch.tensordot(x, y, dims=([1, 2], [1, 0])), torch.tensordot(x, y, 1), torch.inner(x, x[0])),
               f("N", 2, 3), f(3, 2)],
    multi_dot=[lambda x, y: torch.linalg.multi_dot([x, y, y]), f("N", 3), f(3, 3)],
    bilinear=[lambda x, y, w, c: F.bilinear(x, y, w, c), f("N", 2), f("N", 3), f(4, 2, 3), f(4)],
    cross=[lambda x, y: (torch.linalg.cross(x, y), torch.cross(x, y, dim=1)), f("N", 3), f("N", 3)],
    kron=[lambda x, y: torch.kron(x, y), f("N", 2), f(2, 3)],
    integers=[lambda x, y: (x @ y, torch.mm(x, y)), i("N", 3), i(3, 2)],
    cosine=[lambda x, y: (F.cosine_similarity(x, y), F.cosine_similarity(x, y[:1], dim=-1), F.pairwise_distance(x, y)),
        f("N", 3), f("N", 3)],
    cdist=[lambda x, y: (torch.cdist(x, y), torch.cdist(x, y, p=1)), f("N", 3), f("M", 3)],
)  # fmt: skip
def test_products(case: Case) -> None:
    check(case)


# ---- shapes


@cases(
    reshape=[lambda x: (x.reshape(-1), x.view(x.shape[0], -1), x.reshape(2, -1, x.shape[0]), x.view(-1, 2),
        x.reshape(x.size(0) * 2, 6)),
             f("N", 4, 3)],
    flatten=[lambda x: (x.flatten(), x.flatten(1), x.flatten(0, 1), x[0, 0, 0].flatten(), x.ravel(), x.unflatten(1, (2, -1))),
        f("N", 4, 3)],
    view_as=[lambda x, y: (x.view_as(y), x.reshape_as(y)), f("N", 6), f("N", 2, 3)],
    squeeze=[lambda x: (x.squeeze(), x.squeeze(1), x.squeeze(0), x.squeeze((1, 3)), x.unsqueeze(0), x.unsqueeze(-1),
        x.unsqueeze(2)),
             f("N", 1, 3, 1)],
    order=[lambda x: (x.permute(2, 0, 1), x.transpose(0, 1), x.transpose(-1, 0), x.swapaxes(0, 2), x.mT, x.movedim(0, -1),
                      torch.moveaxis(x, (0, 1), (1, 2)), x[0].t(), x[0].T, x.adjoint()), f("N", 2, 3)],
    flips=[lambda x: (x.flip(0), x.flip((0, 1)), torch.fliplr(x), torch.flipud(x), torch.rot90(x), torch.rot90(x, 2),
        torch.rot90(x, -1)),
           f("N", 3)],
    roll=[lambda x: (x.roll(1), x.roll((1, -2), (0, 1)), torch.roll(x, 5, 0)), f("N", 3)],
    expand=[lambda x: (x.expand(-1, 3, 4), x.expand(2, -1, -1, 4), x.expand_as(x), torch.broadcast_to(x, (x.shape[0], 3, 5)),
                       torch.broadcast_tensors(x, x[0, 0])), f("N", 3, 1)],
    repeat=[lambda x: (x.repeat(2, 1), x.repeat(2, 1, 3), x.tile((2,)), x.tile(1, 2), x.repeat(1, 1), x.repeat(x.shape[0], 1)),
        f("N", 3)],
    repeat_interleave=[lambda x: (x.repeat_interleave(2), x.repeat_interleave(3, dim=0), x.repeat_interleave(2, -1)),
        f("N", 3)],
    repeat_interleave_tensor=[lambda x, r: (x.repeat_interleave(r, 1), torch.repeat_interleave(x[0], r),
        torch.repeat_interleave(r)),
                              f("N", 3), i(3, low=0, high=3)],
    diagonal=[lambda x: (x.diagonal(), x.diagonal(1, 0, 1), torch.diag(x), torch.diag(x[0]), torch.diag(x[0], -1),
        torch.trace(x),
                         torch.diag_embed(x), torch.diag_embed(x, 1, 0, 2)), f("N", 3)],
    meshgrid=[lambda x, y: (torch.meshgrid(x, y, indexing="ij"), torch.meshgrid(x, y, indexing="xy")), f("N"), f("M")],
    at_least=[lambda x: (torch.atleast_1d(x), torch.atleast_2d(x), torch.atleast_3d(x), torch.atleast_3d(x[0]),
        torch.atleast_2d(x[0, 0])),
              f("N", 3)],
    pixels=[lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2), F.pixel_shuffle(x[0], 2)), f("N", 8, 4, 2)],
    channel_shuffle=[lambda x: (F.channel_shuffle(x, 2), F.channel_shuffle(x, 3)), f("N", 6, 2, "M")],
    casts=[lambda x, k: (x.to(torch.int64), x.double(), x.half(), x.bool(), k.float(), k.to(x), k.type_as(x),
        x.to(torch.float32),
                         x.int(), x.to("cpu"), k.to(torch.uint8), k.bool()), f("N", 3), i("N", 3, low=0)],
    same=[lambda x: (x.clone() + 1, x.contiguous() + 1, x.detach() + 1, torch.ops.aten.alias(x) + 1), f("N", 3)],
    bools=[lambda x: (x.reshape(-1), x.T, x.expand(2, -1, -1), x.flip(0), x.repeat(2, 2)), b("N", 3)],
)  # fmt: skip
def test_shapes(case: Case) -> None:
    check(case)


@cases(
    slices=[lambda x: (x[1:], x[:-1], x[1:-1], x[::2], x[1:3], x[-2:], x[:100], x[..., 1:2], x[5:2], x[:, -2:], x[-100:2]),
        f("N", "M")],
    slices_by_size=[lambda x: (x[: x.shape[0] // 2], x[x.shape[0] - 2 :], x[1 : x.shape[1] - 2]), f("N", "M")],
    select=[lambda x: (x[0], x[-1], x[:, 1], x[..., -2], x.select(1, 2), x.select(0, x.shape[0] - 1), x[0, 0]), f("N", "M")],
    narrow=[lambda x, s: (x.narrow(0, 1, 2), x.narrow(1, -2, 2), torch.narrow(x, 0, s[0], 2)), f("N", 4), i(1, low=0, high=1)],
    split=[lambda x: (x.split(2, 1), x.split([1, 3], 1), x.split(3, -1), torch.split(x, [2, x.shape[0] - 2])), f("N", 4)],
    chunk=[lambda x: (x.chunk(2, 1), x.chunk(3, 1), x.chunk(7, 1), x.tensor_split(3, 1), x.tensor_split((1, 3), 1),
                      torch.hsplit(x, 2), torch.vsplit(x, [1, 2])), f("N", 4)],
    unbind=[lambda x: (x.unbind(1), torch.unbind(x.T)), f("N", 3)],
    unfold=[lambda x: (x.unfold(0, 2, 1), x.unfold(1, 3, 2), x.unfold(-1, 2, 2)), f("N", 6)],
    cat=[lambda x, y: (torch.cat([x, y]), torch.cat([x, x], 1), torch.cat([x, y, x], 0), torch.cat([x, x.int()], -1),
                       torch.cat([torch.zeros(0), x], 0), torch.concat([x])), f("N", 3), f("M", 3)],
    stack=[lambda x, y: (torch.stack([x, y]), torch.stack([x, y], -1), torch.stack([x, y], 1), torch.stack([x])), f("N", 3),
        f("N", 3)],
    stacks=[lambda x, y: (torch.hstack([x, y]), torch.vstack([x, y]), torch.dstack([x, y]), torch.column_stack([x[:, 0], y]),
                          torch.hstack([x[0], y[0]]), torch.vstack([x[0], y])), f("N", 3), f("N", 3)],
    pad=[lambda x: (F.pad(x, (1, 2)), F.pad(x, (0, 1, 2, 0), value=1.5), F.pad(x, (-1, 1)), F.pad(x, (0, 0, -1, -1)), F.pad(x,
        (1, 1, 0, 0, 2, 1))),
         f("N", 3, 4)],
    pad_modes=[lambda x: (F.pad(x, (1, 2), mode="reflect"), F.pad(x, (2, 0), mode="replicate"), F.pad(x, (1, 2),
        mode="circular"),
                          F.pad(x, (-1, 2), mode="replicate")), f("N", 3, 4)],
    pad_planes=[lambda x: (F.pad(x, (1, 1, 2, 0), mode="reflect"), F.pad(x, (1, 0, 0, 2), mode="replicate"), F.pad(x, (1,) * 4,
        mode="circular"),
                           torch.ops.aten.constant_pad_nd(x, [1, 1], 2.0)), f("N", 2, "M", 4)],
    pad_by_size=[lambda x: F.pad(x, (0, (4 - x.shape[1] % 4) % 4)), f(2, "N")],
    pad_others=[lambda x, m: (F.pad(x, (1, 1), value=-1), F.pad(m, (1, 1), value=True)), i("N", 3), b("N", 3)],
    scatters=[lambda x, y: (torch.slice_scatter(x, y[:, 1:3], 1, 1, 3), torch.select_scatter(x, y[0], 0, -1),
                            torch.slice_scatter(x, y[:, :2], 1, 0, None, 2), torch.diagonal_scatter(x, y[0, :3], 1)), f(4, 4),
                            f(4, 4)],
)  # fmt: skip
def test_slicing(case: Case) -> None:
    check(case)


# ---- creation


def shapes_of(x: torch.Tensor) -> tuple[int, ...]:
    return (x.shape[0], 2)


@cases(
    filled=[lambda x: (torch.zeros(shapes_of(x)), torch.ones(shapes_of(x), dtype=torch.int64), torch.full(shapes_of(x), 2.5),
                       torch.full((2,), 3), torch.full((2,), True), torch.zeros_like(x), torch.ones_like(x, dtype=torch.bool),
                       torch.full_like(x, 7), x.new_zeros(3), x.new_ones(2, 2, dtype=torch.int32), x.new_full((1,), 2),
                       torch.empty(2, x.shape[0]).zero_(), torch.empty_like(x).fill_(1), torch.zeros(()),
                       torch.scalar_tensor(3)),
                       f("N", 3)],
    filled_by_size=[lambda x: (torch.full((2,), x.shape[0]), x + x.shape[0], x * (x.shape[0] / 2)), f("N", 3)],
    arange=[lambda x: (torch.arange(x.shape[0]), torch.arange(1, x.shape[0]), torch.arange(0, x.shape[0], 2), torch.arange(5.0),
                       torch.arange(0, 1, 0.25), torch.arange(x.shape[0], dtype=torch.float32), torch.arange(3, 0, -1),
                       torch.arange(0.5, 3)),
            f("N")],
    linspace=[lambda x: (torch.linspace(0, 1, 5), torch.linspace(-1, 1, 4, dtype=torch.float64), torch.linspace(2, 3, 1),
                         torch.linspace(0, 10, 4, dtype=torch.int64), torch.logspace(0, 2, 3), torch.linspace(x[0], x[1], 6)),
                         f(2)],
    eye=[lambda x: (torch.eye(3), torch.eye(2, 4, dtype=torch.int64), torch.eye(x.shape[0])), f("N")],
    triangles=[lambda x: (x.tril(), x.triu(), x.tril(-1), x.triu(1), torch.ones(x.shape[0], x.shape[0],
        dtype=torch.bool).tril()), f("N", 4)],
    triangle_indices=[lambda x: (torch.tril_indices(3, 4), torch.triu_indices(4, 3, 1), x + 1), f(2)],
    windows=[lambda x: (torch.hann_window(5), torch.hann_window(4, periodic=False), torch.hamming_window(6), x + 1), f(2)],
)  # fmt: skip
def test_creation(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (lambda x: torch.rand(x.shape), "float32"), (lambda x: torch.randn_like(x), "float32"), (lambda x: torch.bernoulli(x),
        "float32"),
        (lambda x: torch.randint(2, 9, x.shape), "int64"), (lambda x: torch.normal(x, 1.0), "float32"),
        (lambda x: torch.dropout(x, 0.5, True), "float32"), (lambda x: torch.rand_like(x, dtype=torch.float64), "float64"),
        (lambda x: torch.empty_like(x).exponential_(), "float32"), (lambda x: torch.empty_like(x).uniform_(1, 2), "float32"),
        (lambda x: torch.multinomial(x, 300), "int64"), (lambda x: torch.multinomial(x, 300, True), "int64"),
        (lambda x: torch.randperm(1200).reshape(4, 300) + 2, "int64"),
    ],
)  # fmt: skip
def test_random(function: Callable[..., Any], dtype: str) -> None:
    x = torch.rand(4, 300)
    captured = capture(Model(function), (x,), options=CaptureOptions())
    first, second = (interpreter.run(captured.graph, [x.numpy()])[0] for _ in range(2))
    assert first.shape == (4, 300)
    assert first.dtype == np.dtype(dtype)
    assert (first != second).any()
    if dtype == "int64":
        assert first.min() in (0, 2)
        assert first.max() in (8, 1201) or first.max() < 300


# ---- indexing


@cases(
    one=[lambda x, k: (x[k], x[:, k], x[k[0]], x[:, k, None], x[None, k], x[k.int()]), f("N", 4), i(2, 3, low=-3, high=2)],
    several=[lambda x, j, k: (x[j, k], x[j, :, k], x[:, j, k], x[j[0], k], x[:, j[:, :1], k[:1]], x[j, k, 0]), f("N", 4, 3),
             i(2, 3, low=-3, high=2), i(2, 3, low=-3, high=2)],
    masks=[lambda x, m, n: (x[m], x[n], x[m][:, None], x[n].sum(), x[m, 0]), f("N", 3), b("N"), b("N", 3)],
    mask_beside=[lambda x, m, k: (x[:, m], x[:, m, 1:], x[0, m, 1]), f("N", 4, 3), b(4), i(2, low=0, high=1)],
    masked_select=[lambda x, m: (torch.masked_select(x, m), x.masked_select(m[:1])), f("N", 3), b("N", 3)],
    index_select=[lambda x, k: (x.index_select(0, k), x.index_select(-1, k)), f("N", 4), i(3, low=0, high=2)],
    gather=[lambda x, k: (x.gather(0, k), x.gather(1, k[:2]), torch.take_along_dim(x, k[:1], 1), torch.take_along_dim(x, k)),
        f("N", 3),
            i("N", 2, low=0, high=2)],
    take=[lambda x, k: torch.take(x, k), f("N", 3), i(2, 2, low=0, high=7)],
    embedding=[lambda x, k: (F.embedding(k, x), F.embedding(k.int(), x, padding_idx=1)), f(6, 3), i("N", "M", low=0, high=5)],
    nonzero=[lambda x: (torch.nonzero(x), torch.nonzero(x, as_tuple=True), torch.argwhere(x), torch.where(x > 0)),
        i("N", 3, low=0, high=1)],
    unique=[lambda x: (torch.unique(x), torch.unique(x, return_inverse=True), torch.unique(x, return_counts=True)), i("N", 3)],
    isin=[lambda x, y: (torch.isin(x, y), torch.isin(x, 3), torch.isin(x, y, invert=True)), i("N", 3), i(4)],
    buckets=[lambda x, e: (torch.bucketize(x, e.cumsum(0)), torch.bucketize(x, e.cumsum(0), right=True, out_int32=True),
                           torch.searchsorted(e.cumsum(0), x), torch.searchsorted(e.cumsum(0), x[0], side="right"),
                           torch.bucketize(0.5, e.cumsum(0)),
                           torch.searchsorted(x.sort(1)[0], x)), f("N", 3), f(5, low=0.1, high=1)],
    one_hot=[lambda x: (F.one_hot(x, 6), F.one_hot(x)), i("N", 3, low=0, high=5)],
    bincount=[lambda x, v: (torch.bincount(x), torch.bincount(x, minlength=9), torch.bincount(x, v)), i("N", low=0, high=5),
        f("N")],
)  # fmt: skip
def test_indexing(case: Case) -> None:
    check(case)


def assigned(x: torch.Tensor, place: Any, value: Any) -> torch.Tensor:
    """`x` with ``x[place] = value``."""
    y = x.clone()
    y[place] = value
    return y


@cases(
    scatter=[lambda x, k, s: (x.scatter(0, k, s), x.scatter(1, k[:, :1], 7.0), torch.scatter(x, 0, k[:2], s[:3]),
        x.scatter_add(0, k, s),
                              x.scatter(0, k, s, reduce="multiply")), f("N", 3), i("N", 3, low=0, high=2), f("N", 3)],
    scatter_reduce=[lambda x, k, s: tuple(x.scatter_reduce(0, k, s, reduce, include_self=own) for reduce in ("sum", "prod",
        "mean", "amax", "amin")
                                          for own in (True, False)), f("N", 3), i("N", 3, low=0, high=2), f("N", 3)],
    scatter_integers=[lambda x, k, s: (x.scatter(1, k, s), x.scatter_add(0, k, s), x.scatter_reduce(0, k, s, "amax",
        include_self=False)),
                      i("N", 3), i("N", 3, low=0, high=2), i("N", 3)],
    index_add=[lambda x, k, s: (x.index_add(0, k, s), x.index_add(0, k, s, alpha=2), x.T.index_add(1, k, s.T), x.index_fill(0,
        k, 5.0)),
               f("N", 3), i(5, low=0, high=2), f(5, 3)],
    index_copy=[lambda x, s: x.index_copy(0, torch.tensor([2, 0]), s), f("N", 3), f(2, 3)],
    index_put=[lambda x, k, v: (x.index_put((k,), v), x.index_put((k,), v, accumulate=True), x.index_put((k, k), v[:, 0],
        accumulate=True)),
               f("N", 4), i(3, low=0, high=2), f(3, 4)],
    index_put_places=[lambda x, j, k: (assigned(x, (slice(None), j, k), 0), assigned(x, (j, slice(None), k), 1.0), assigned(x,
        (j, k), -1)),
                      f("N", 4, 3), i(2, low=-3, high=2), i(2, low=-3, high=2)],
    index_put_masks=[lambda x, m, n: (assigned(x, m, 0), assigned(x, n, 2.0), assigned(x, m, x[m] * 2), assigned(x,
        (slice(None), m[0]), 3.0),
                                      assigned(x, n, torch.ones(3))), f("N", 3), b("N", 3), b("N")],
    put=[lambda x, k, v: (x.put(k, v), x.put(k, v, accumulate=True)), f("N", 3), i(1, low=-3, high=5), f(1)],
    masked_scatter=[lambda x, m, s: x.masked_scatter(m, s), f("N", 3), b("N", 3), f(8, 3)],
    slices=[lambda x: (assigned(x, slice(1, 3), 0), assigned(x, (slice(None), 0), 7), assigned(x, (slice(None), slice(None,
        None, 2)), x[:, :2])),
            f("N", 4)],
)  # fmt: skip
def test_scatter(case: Case) -> None:
    check(case)


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
    unfold=[lambda x: (F.unfold(x, (2, 3), padding=(1, 0), stride=(2, 1)), F.unfold(x, 2, dilation=2)), f("N", 3, 6, 7)],
    fold=[lambda x: (F.fold(x, (6, 7), (2, 3), padding=(1, 0), stride=(2, 1)), F.fold(x[:, :12], (5, 6), 2)), f("N", 18, 20)],
)  # fmt: skip
def test_convolutions(case: Case) -> None:
    case.tolerance |= {"rtol": 1e-4, "atol": 1e-4}
    check(case)


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
    plain=[lambda q, k, v: (F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, v, scale=0.3)),
           f("N", 2, 5, 4), f("N", 2, "M", 4), f("N", 2, "M", 3)],
    masks=[lambda q, k, m, a: (F.scaled_dot_product_attention(q, k, k, m), F.scaled_dot_product_attention(q, k, k, a),
                               F.scaled_dot_product_attention(q, k, k, m[:1])), f("N", 2, 5, 4), f("N", 2, "M", 4),
                               b("N", 1, 5, "M"), f(5, "M")],
    causal=[lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), f("N", 2, "M", 4)],
    grouped=[lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True), f("N", 6, 5, 4), f("N", 2, 5, 4)],
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
    dynamic=[lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, scale_factor=0.5), F.interpolate(x, scale_factor=1.5,
        mode="bilinear"),
                        F.interpolate(x, size=(x.shape[2] * 2, 5), mode="bilinear"), F.interpolate(x, (3, 3))),
                        f("N", 2, "M", 4)],
)  # fmt: skip
def test_resize(case: Case) -> None:
    case.tolerance |= {"rtol": 1e-4, "atol": 1e-4}
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
        (lambda x: torch.linalg.matrix_norm(x, "nuc"), [torch.ones(2, 2)]),
        (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", antialias=True), [torch.ones(1, 1, 2, 2)]),
    ],
)
def test_refuses(function: Callable[..., Any], inputs: list[torch.Tensor]) -> None:
    from isthmus.ir.errors import UnsupportedError

    with pytest.raises(UnsupportedError):
        capture(Model(function), tuple(inputs), options=CaptureOptions())


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
