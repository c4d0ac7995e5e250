"""Texts: those of sizes are of the watch's own numbers, so that what follows from them is seen; those of data are not known."""

from __future__ import annotations

import copy
import io
import logging
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import isthmus
from isthmus.errors import CaptureError

DYNAMIC: Any = {"x": {0: "N"}}


class Named(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scales = torch.nn.ParameterDict({f"p{size}": torch.full((), float(size)) for size in range(1, 70)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scales[f"p{x.shape[0]}"]


SIZES: dict[str, Callable[..., Any]] = {
    "key": lambda x: x * {"4": 2.0}.get(str(x.shape[0]), 7.0),
    "f-string": lambda x: x * 2 if f"{x.shape[0]}" == "4" else x,
    "parts": lambda x: x * 2 if f"n={x.shape[0]:03d}" == "n=004" else x,
    "percent": lambda x: x * 2 if "%s" % x.shape[0] == "4" else x,  # noqa: UP031
    "computed": lambda x: x * float(f"{x.shape[0] / 3:.4f}"),
    "truth": lambda x: x * 2 if str(x.shape[0] > 5) == "True" else x,
    "length": lambda x: x * len(str(x.shape[0])),
    "last digit": lambda x: x * int(str(x.shape[0])[-1]),
    "shape": lambda x: x * len(str(x.shape)),
    "list": lambda x: x * len(repr([*x.shape])),
    "module": Named(),
    "result": lambda x: (x, f"of {x.shape[0]}"),
    "name of a result": lambda x: {f"of {x.shape[0]}": x},
}


@pytest.mark.parametrize("name", SIZES)
def test_what_a_text_of_a_size_decides_is_seen(name: str) -> None:
    with pytest.raises(CaptureError, match="at N=59 than at N=4") as caught:
        isthmus.compile(SIZES[name], torch.randn(4, 3), dynamic_shapes=DYNAMIC)
    assert "is a text of the size" in str(caught.value.found)
    assert f"{__file__}:" in str(caught.value.found)
    net = isthmus.compile(SIZES[name], torch.randn(4, 3))
    assert net.verify(seeds=1).ok


def test_texts_of_sizes_that_are_only_shown(capsys: pytest.CaptureFixture[str]) -> None:
    def shown(x: torch.Tensor) -> torch.Tensor:
        print(f"{x.shape}", x.shape[0], f"{x.shape[0] / 2:>6.2f}", x[x > 0].shape)
        print(x.shape)
        return x * 2

    net = isthmus.compile(shown, torch.randn(4, 3), dynamic_shapes=DYNAMIC)
    assert capsys.readouterr().out.startswith("torch.Size([4, 3]) 4   2.00 torch.Size([u0])\ntorch.Size([4, 3])\n")
    x = torch.randn(7, 3)
    torch.testing.assert_close(net(x), x * 2)
    (first, data, second) = [note for note in net.report.notes if "text" in note or "shows" in note]
    line = shown.__code__.co_firstlineno
    assert first.startswith('`f"{x.shape}"` is a text of the size N, as it is where the model is watched')
    assert f"{__file__}:{line + 1}" in first
    assert "shows u0 without its number, which depends on data" in data
    assert f"{__file__}:{line + 2}" in second


def test_names_in_errors_stay_names() -> None:
    with pytest.raises(CaptureError, match="fixes the size N to 4"):
        isthmus.compile(lambda x: x * len([0] * x.shape[0]), torch.randn(4, 3), dynamic_shapes=DYNAMIC)


DATA: dict[str, Callable[..., Any]] = {
    "key": lambda x, n: x * {"4": 2.0}.get(str(n.item()), 7.0),
    "f-string": lambda x, n: x * 2 if f"{n.item()}" == "4" else x,
    "reversed": lambda x, n: x * 2 if "4" == str(n.item()) else x,  # noqa: SIM300
    "in a list": lambda x, n: x * 2 if str(n) in ["4"] else x,
    "in a set": lambda x, n: x * 2 if str(n) in {"4"} else x,
    "within": lambda x, n: x * 2 if "4" in repr(n) else x,
    "length": lambda x, n: x * len(str(n.item())),
    "loop": lambda x, n: x * sum(digit == "4" for digit in str(n.item())),
    "digit": lambda x, n: x * 2 if str(n.item())[-1] == "4" else x,
    "number": lambda x, n: x * int(str(n.item())),
    "float": lambda x, n: x * float(f"{x.sum():.2f}"),
    "joined": lambda x, n: x * float("1" + f"{x.sum():.2f}"),
    "padded": lambda x, n: x * float(f"{x.sum():.2f}".rjust(8).strip()),
    "formatted": lambda x, n: x * float(f"{str(x.sum())!s:>9}"),
    "start": lambda x, n: x * 2 if str(n.item()).startswith("4") else x,
    "split": lambda x, n: x * len(str(x).split(",")),
    "copied": lambda x, n: x * 2 if copy.deepcopy(str(n.item())) == "4" else x,
    "module": lambda x, n: getattr(torch, str(n.item()))(x),
    "size": lambda x, n: x * len(f"{x[x > 0].shape[0]}"),
}


@pytest.mark.parametrize("name", DATA)
def test_who_looks_into_a_text_of_data_is_refused(name: str) -> None:
    with pytest.raises(CaptureError, match="Python needs the text of a tensor, `") as caught:
        isthmus.compile(DATA[name], (torch.randn(4, 3), torch.tensor(2)))
    assert "that depends on the input" in caught.value.message
    assert str(caught.value.location).startswith(f"{__file__}:{DATA[name].__code__.co_firstlineno}")
    assert "compute without texts" in str(caught.value.remedy)


def test_a_text_of_data_is_no_result() -> None:
    with pytest.raises(CaptureError, match="Python needs the text of a tensor that depends on the input x"):
        isthmus.compile(lambda x: (x, str(x)), torch.randn(4, 3))


def test_texts_of_data_that_are_only_shown(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    kept: list[str] = []

    def shown(x: torch.Tensor) -> torch.Tensor:
        total = f"{x.sum():.3f}"
        print(total, str(x).upper(), "x: " + repr(x), total or "none")
        print(total, file=(file := io.StringIO()))
        assert file.getvalue()
        logging.getLogger().warning(total)
        warnings.warn(total, stacklevel=1)
        kept[:] = [total]
        return x * 2

    with pytest.warns(UserWarning, match="watched float32"):
        net = isthmus.compile(shown, torch.randn(3))
    assert "<watched float32[]> <WATCHED FLOAT32[3]> x: <watched float32[3]> <watched float32[]>" in capsys.readouterr().out
    assert "watched float32" in caplog.text
    assert kept[0] == "<watched float32[]>"  # now that nobody watches
    assert len({kept[0], copy.copy(kept[0])}) == 1
    torch.testing.assert_close(net(torch.ones(3)), torch.full((3,), 2.0))
