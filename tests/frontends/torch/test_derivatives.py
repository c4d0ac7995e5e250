"""Derivatives that a model takes itself, by torch.func."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from watching import agree

from isthmus.frontends.torch import capture
from isthmus.ir.errors import CaptureError

torch.manual_seed(0)
NET = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).requires_grad_(False)


def energy(x: torch.Tensor) -> torch.Tensor:
    apart = (x[:, None] - x[None]).square().sum(-1)
    return NET(F.layer_norm(x, (4,))).sum() + (apart + 1).rsqrt().sum()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: -grad(energy)(x),
        lambda x: vjp(torch.sin, x)[1](x * 2)[0],
        lambda x: jvp(lambda z: (z.sin() * 2, torch.ones_like(z)), (x,), (x + 1,))[1],
        lambda x: vmap(jacrev(NET))(x),
        lambda x: vmap(jacfwd(lambda row: row.sin() * row.sum()))(x),
        lambda x: vmap(hessian(lambda row: NET(row).sum()))(x),
    ],
    ids=["grad", "vjp", "jvp", "jacrev", "jacfwd", "hessian"],
)
def test_derivatives(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    agree(function, (torch.randn(3, 4),), dynamic={"x": {0: "N"}}, sizes=[{"N": 1}, {"N": 5}], tolerance=1e-4)


def test_what_autograd_records_is_not_there() -> None:
    def forces(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return torch.autograd.grad(energy(x), x)[0]

    with pytest.raises(CaptureError, match=r"carried over as torch.func.grad\(function\)"):
        capture(forces, (torch.randn(3, 4),))
