"""A model comes back as it went in, after a compilation and after an error."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import isthmus
from isthmus.errors import IsthmusError


class Stateful(torch.nn.Module):
    def __init__(self, fails: bool) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.dropout = torch.nn.Dropout(0.5)
        self.register_buffer("scale", torch.full((4,), 2.0))
        self.cache: Any = None
        self.fails = fails

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.dropout(self.linear(x)) * self.scale
        if self.fails:
            raise RuntimeError("on purpose")
        return y


def state(model: Stateful) -> Any:
    return (
        {name: (id(p), p.data_ptr(), p._version, p.requires_grad, p.clone()) for name, p in model.named_parameters()},
        {name: (id(b), b.data_ptr(), b._version, b.clone()) for name, b in model.named_buffers()},
        {name: (module.training, list(module._forward_hooks), sorted(vars(module))) for name, module in model.named_modules()},
        torch.is_grad_enabled(), torch.get_rng_state(),
    )  # fmt: skip


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_nothing_changes(fails: bool, grad: bool) -> None:
    model = Stateful(fails)
    model.linear.eval()
    model.register_forward_hook(lambda module, args, result: None)
    model.linear.weight.requires_grad_(False)
    x = torch.ones(2, 4)
    with torch.set_grad_enabled(grad):
        before = state(model)
        if fails:
            with pytest.raises(IsthmusError, match="on purpose"):
                isthmus.compile(model, x)
        else:
            isthmus.compile(model, x)
        after = state(model)
    for old, new in zip(before[:2], after[:2], strict=True):
        assert old.keys() == new.keys()
        for name in old:
            assert old[name][:-1] == new[name][:-1]
            assert torch.equal(old[name][-1], new[name][-1])
    assert before[2:4] == after[2:4]
    assert torch.equal(before[4], after[4])
    assert x.tolist() == torch.ones(2, 4).tolist()
