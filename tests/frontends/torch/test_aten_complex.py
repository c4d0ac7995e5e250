"""Lowerings of complex tensors and of Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from aten_cases import Case, c, cases, check, each, f, i

from isthmus.frontends.torch import capture
from isthmus.frontends.torch.weights import contents
from isthmus.ir import interpreter
from isthmus.ir.errors import UnsupportedError

WINDOW = torch.hann_window(8)


@each(
    "abs angle sgn conj_physical exp log sqrt sin cos sinh cosh tanh reciprocal neg square isnan isinf isfinite isreal "
    "nan_to_num view_as_real real imag conj resolve_conj log2 log10 positive",
    c("N", 3), **dict.fromkeys(("sinh", "cosh", "tanh", "sin", "cos"), (-1.0, 1.0)),
)  # fmt: skip
def test_unary(case: Case) -> None:
    check(case)


@cases(
    made=[lambda x, y: (torch.complex(x, y), torch.polar(x, y), torch.view_as_complex(torch.stack([x, y], -1))), f("N", 3),
          f("N", 3)],
    made_of_doubles=[lambda x: torch.complex(x, x), f("N", 3, dtype=torch.float64)],
    cast=[lambda x, k: (x.cfloat(), x.cdouble(), k.cfloat(), (k > 0).cdouble()), f("N", 3), i("N", 3)],
    parts=[lambda x: (x.real, x.imag, x.real + x.imag, x.abs() ** 2, x.conj() * x, torch.view_as_real(x)[..., 0]), c("N", 3)],
    parts_of_reals=[lambda x: (torch.real(x), x.conj(), torch.isreal(x), torch.angle(x)), f("N", 3)],
    arithmetic=[lambda x, y: (x + y, x - y, x * y, x / y, -x, 1 - x, x * 2.5, x / 2, 1 / x, x * 1j, x + 1), c("N", 3), c(3)],
    with_reals=[lambda x, y, k: (x + y, x * y, x / y, y - x, x * k), c("N", 3), f("N", 3, low=0.5), i("N", 3)],
    comparison=[lambda x, y: (x == y, x != x, torch.isclose(x, x + 1e-9), torch.where(x.real > 0, x, y)), c("N", 3), c("N", 3)],
    powers=[lambda x: (x**2, x**3, x**0.5, x**-1), c("N", 3)],
    sums=[lambda x: (x.sum(), x.sum(0), x.mean(1), x.cumsum(0), x.var(), x.norm(), torch.linalg.vector_norm(x, 1, 0)),
          c("N", 3)],
    products=[lambda x, y: (x @ y.T, x @ y[0], torch.vdot(x[0], y[0]), torch.dot(x[0], y[0]), x.mH @ x, x.adjoint()), c("N", 3),
              c("N", 3)],
    einsum=[lambda x, y: torch.einsum("bixy,ioxy->boxy", x, y), c("N", 3, 2, 4), c(3, 5, 2, 4)],
    shapes=[lambda x: (x.reshape(-1), x.T, x.flip(0), x.roll(1, 1), x[:, 1:], x[None].expand(2, -1, -1), torch.cat([x, x]),
                       x.tril(), x.diagonal(), x.repeat(2, 1), x.chunk(2, 1)), c("N", 4)],
    indexing=[lambda x: (x[[0, 2]], x.gather(1, torch.zeros(1, 2, dtype=torch.int64)), x.masked_fill(x.real > 0, 1j),
                         x.index_put((torch.tensor([0]),), x[1:2])), c("N", 4)],
    addcdiv=[lambda x: (torch.addcdiv(x, x, x, value=0.5), torch.addcmul(x, x, x)), c("N", 3)],
    truth=[lambda x: ((x * 1j).bool(), torch.count_nonzero(x), x.any()), c("N", 3)],
)  # fmt: skip
def test_complex(case: Case) -> None:
    check(case)


def _written(name: str) -> Any:
    def function(x: torch.Tensor) -> Any:
        x = x.clone()
        if name == "real":
            x.real.add_(1)
        elif name == "imag":
            x.imag[0].mul_(2)
        elif name == "pairs":
            torch.view_as_real(x)[..., 1].zero_()
        elif name == "conj":
            x.conj().add_(1j)
        elif name == "turned":
            x.mH[0].mul_(1j)
        elif name == "of_pairs":
            pairs = torch.view_as_real(x).clone()
            torch.view_as_complex(pairs).mul_(1j)
            return pairs, x
        return x, x.real

    return function


@cases(**{name: [_written(name), c("N", 3)] for name in ("real", "imag", "pairs", "conj", "turned", "of_pairs")})
def test_writes_through_views(case: Case) -> None:
    check(case)


@each("fft.fft fft.ifft fft.hfft fft.irfft fft.fft2 fft.ifft2 fft.fftn fft.ifftn fft.irfft2 fft.irfftn fft.fftshift "
      "fft.ifftshift", c("N", "M"))  # fmt: skip
def test_transforms(case: Case) -> None:
    check(case)


@each("fft.fft fft.ifft fft.rfft fft.ihfft fft.rfft2 fft.rfftn fft.fft2 fft.fftshift fft.ihfft2", f("N", "M"))
def test_transforms_of_reals(case: Case) -> None:
    check(case)


@each("fft.fft fft.rfft fft.ifft fft.irfft", i("N", 6))
def test_transforms_of_integers(case: Case) -> None:
    check(case)


@cases(
    norms=[lambda x: [getattr(torch.fft, name)(x, norm=norm) for name in ("fft", "ifft", "irfft", "hfft")
                      for norm in ("forward", "backward", "ortho")], c("N", "M")],
    lengths=[lambda x: (torch.fft.fft(x, n=9), torch.fft.fft(x, n=3), torch.fft.irfft(x, n=7), torch.fft.ifft(x, n=9, dim=0)),
             c("N", 5)],
    open_lengths=[lambda x: (torch.fft.irfft(torch.fft.rfft(x), n=x.shape[-1]), torch.fft.fft(x, n=x.shape[-1] + 2)),
                  f("N", "M")],
    axes=[lambda x: (torch.fft.fft(x, dim=0), torch.fft.fft2(x, dim=(0, 2)), torch.fft.rfftn(x.real, dim=(2, 1)),
                     torch.fft.irfftn(x, s=(4, 6), dim=(1, 2))), c("N", "M", 4)],
    doubles=[lambda x: (torch.fft.fft(x), torch.fft.rfft(x)), f("N", 5, dtype=torch.float64)],
    one=[lambda x: (torch.fft.fft(x), torch.fft.rfft(x), torch.fft.irfft(torch.fft.rfft(x), n=1)), f("N", 1)],
)  # fmt: skip
def test_transforms_in_detail(case: Case) -> None:
    check(case)


@cases(
    plain=[lambda x: torch.stft(x, 8, 2, window=WINDOW, return_complex=True), f("N", 40)],
    open_length=[lambda x: torch.stft(torch.cat([x] * 4, 1), 8, 2, window=WINDOW, return_complex=True), f("N", "M")],
    vector=[lambda x: torch.stft(x, 9, 3, return_complex=True, window=torch.ones(9)), f(40)],
    short_window=[lambda x: torch.stft(x, 8, 3, 5, WINDOW[:5], center=False, normalized=True, return_complex=True), f("N", 40)],
    both_sides=[lambda x: torch.stft(x, 8, 2, window=WINDOW, onesided=False, return_complex=True), f("N", 40)],
    complex=[lambda x: (torch.stft(x, 8, 2, window=WINDOW, return_complex=True), torch.stft(x, 8, 2, window=WINDOW)),
             c("N", 40)],
    doubles=[lambda x: torch.stft(x, 8, 2, window=WINDOW.double(), return_complex=True), f("N", 40, dtype=torch.float64)],
    back=[lambda x: torch.istft(x, 8, 2, window=WINDOW), c("N", 5, 12)],
    back_open=[lambda x: torch.istft(x, 8, 2, window=WINDOW), c(2, 5, "M")],
    back_one=[lambda x: torch.istft(x, 8, 3, 7, torch.ones(7), normalized=True, length=20), c(5, 12)],
    back_longer=[lambda x: torch.istft(x, 8, 2, window=WINDOW, length=40), c("N", 5, 12)],
    back_both_sides=[lambda x: torch.istft(x, 8, 2, window=torch.ones(8), onesided=False, center=False), c("N", 8, 12)],
    back_doubles=[lambda x: torch.istft(x, 8, 2, window=WINDOW.double()), c("N", 5, 12, dtype=torch.complex128)],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*shorter than the length:UserWarning")
def test_windows(case: Case) -> None:
    check(case)


def refusal(function: Any, *args: torch.Tensor) -> str:
    class Model(torch.nn.Module):
        def forward(self, *args: torch.Tensor) -> Any:
            return function(*args)

    with pytest.raises(UnsupportedError) as caught:
        capture(Model(), args)
    return str(caught.value)


@pytest.mark.filterwarnings("ignore:ComplexHalf support:UserWarning")
def test_what_is_refused() -> None:
    z = torch.randn(5, 12, dtype=torch.complex64)
    assert "without weight" in refusal(lambda x: torch.istft(x, 8, 2, window=WINDOW, center=False), z)
    assert "complex signals" in refusal(
        lambda x: torch.istft(x, 5, 2, window=torch.ones(5).cfloat(), return_complex=True, onesided=False), z
    )
    assert "overlaps with" in refusal(lambda x: torch.istft(x, 198, 1, window=torch.ones(198)), torch.randn(100, 12).cdouble())
    assert "torch.complex32" in refusal(lambda x: x.chalf() * 2, torch.randn(3))


def test_a_window_that_is_data_is_checked_when_it_runs() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, window: torch.Tensor) -> torch.Tensor:
            return torch.istft(x, 8, 2, window=window)

    args = (torch.randn(5, 12, dtype=torch.complex64), WINDOW)
    captured = capture(Model(), args)
    assert "check" in [node.op.name for node in captured.graph.nodes]
    (found,) = interpreter.run(captured.graph, [contents(arg) for arg in args])
    np.testing.assert_allclose(found, Model()(*args), atol=1e-5)
