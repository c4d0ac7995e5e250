"""Lowerings that make tensors, change their shape, take parts of them and write to places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from aten_cases import Case, Model, b, cases, check, f, i

from isthmus.frontends.torch import CaptureOptions, capture
from isthmus.ir import interpreter


def assigned(x: torch.Tensor, place: Any, value: Any) -> torch.Tensor:
    """`x` with ``x[place] = value``."""
    y = x.clone()
    y[place] = value
    return y


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
    sizes_as_indices=[lambda x, k: (x[x.shape[0] - 1], x[:, x.shape[1] // 2], x[..., x.shape[1] - 2], x[x.shape[0] // 2, 1:,
        None],
                                    x[k, x.shape[1] - 1], x[None, x.shape[0] - 1, ..., 0], x[-x.shape[0]],
                                    assigned(x, x.shape[0] // 2, 0), assigned(x, (slice(None), x.shape[1] - 1), 7.0)),
                      f("N", "M"), i(2, low=0, high=2)],
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
    blocks=[lambda x, k: (torch.block_diag(x, x[0], k), torch.block_diag(x), torch.block_diag(x[0, 0], x.bool())), f("N", 3),
        i(2, 2)],
    pad=[lambda x: (F.pad(x, (1, 2)), F.pad(x, (0, 1, 2, 0), value=1.5), F.pad(x, (-1, 1)), F.pad(x, (0, 0, -1, -1)), F.pad(x,
        (1, 1, 0, 0, 2, 1))),
         f("N", 3, 4)],
    pad_modes=[lambda x: (F.pad(x, (1, 2), mode="reflect"), F.pad(x, (2, 0), mode="replicate"), F.pad(x, (1, 2),
        mode="circular"),
                          F.pad(x, (-1, 2), mode="replicate")), f("N", 3, 4)],
    pad_after_cutting_all=[lambda x: (F.pad(x, (-4, 3), mode="replicate"), F.pad(x, (2, -5), mode="replicate")), f("N", 3, 4)],
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
    shapes_as_tensors=[lambda x: (torch._shape_as_tensor(x), torch._shape_as_tensor(x.sum()), x / torch._shape_as_tensor(x)[-1],
        torch._reshape_from_tensor(x, torch.cat([torch._shape_as_tensor(x)[:1] * 3, torch.tensor([-1])]))), f("N", 3, "M")],
    filled_by_size=[lambda x: (torch.full((2,), x.shape[0]), x + x.shape[0], x * (x.shape[0] / 2)), f("N", 3)],
    arange=[lambda x: (torch.arange(x.shape[0]), torch.arange(1, x.shape[0]), torch.arange(0, x.shape[0], 2), torch.arange(5.0),
                       torch.arange(0, 1, 0.25), torch.arange(x.shape[0], dtype=torch.float32), torch.arange(3, 0, -1),
                       torch.arange(0.5, 3)),
            f("N")],
    arange_of_whole_steps=[lambda x: tuple(
        torch.arange(*by, dtype=to) for to in (torch.int64, torch.int32, torch.float64)
        for by in ((0, 6, 0.5), (-0.9, 2.1, 2.0), (2.1, -2.9, -1.0), (5, 0, -0.5), (0.5, 3))), f()],
    linspace=[lambda x: (torch.linspace(0, 1, 5), torch.linspace(-1, 1, 4, dtype=torch.float64), torch.linspace(2, 3, 1),
                         torch.linspace(0, 10, 4, dtype=torch.int64), torch.logspace(0, 2, 3), torch.linspace(x[0], x[1], 6)),
                         f(2)],
    eye=[lambda x: (torch.eye(3), torch.eye(2, 4, dtype=torch.int64), torch.eye(x.shape[0])), f("N")],
    triangles=[lambda x: (x.tril(), x.triu(), x.tril(-1), x.triu(1), torch.ones(x.shape[0], x.shape[0],
        dtype=torch.bool).tril()), f("N", 4)],
    triangle_indices=[lambda x: (torch.tril_indices(3, 4), torch.triu_indices(4, 3, 1), x + 1), f(2)],
    windows=[lambda x: (torch.hann_window(5), torch.hann_window(4, periodic=False), torch.hamming_window(6), x + 1), f(2)],
    more_windows=[lambda x: (torch.blackman_window(5), torch.bartlett_window(4, periodic=False), torch.hann_window(1),
        torch.hamming_window(6, True, 0.6, 0.4, dtype=torch.float64), x + 1), f(2)],
    kaiser=[lambda x: (torch.kaiser_window(5), torch.kaiser_window(1), torch.kaiser_window(4, False, 3.0), x + 1), f(2)],
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
        (lambda x: torch.randint_like(x, 2, 9), "float32"), (lambda x: torch.randint(2, 9, x.shape).long(), "int64"),
        (lambda x: torch.empty_like(x).cauchy_(), "float32"), (lambda x: torch.empty_like(x).geometric_(0.3), "float32"),
        (lambda x: torch.empty_like(x).log_normal_(), "float32"), (lambda x: torch.normal(1.0, 2.0, x.shape), "float32"),
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
        assert 0 <= first.min() <= 2
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
    index_add_bools=[lambda x, k, s: (x.index_add(0, k, s), x.index_add(0, k, s, alpha=False)), b("N", 3), i(5, low=0, high=2),
        b(5, 3)],
    index_reduce=[lambda x, k, s: tuple(x.index_reduce(0, k, s, reduce, include_self=own) for reduce in ("prod", "mean", "amax",
        "amin") for own in (True, False)), f("N", 3), i(5, low=0, high=2), f(5, 3)],
    index_reduce_integers=[lambda x, k, s: (x.index_reduce(1, k, s, "mean"), x.index_reduce(1, k, s, "amax",
        include_self=False)), i("N", 3), i(5, low=0, high=2), i("N", 5)],
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
