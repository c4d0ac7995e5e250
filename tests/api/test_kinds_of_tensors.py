"""Tensors that share memory and tensors that are no plain ones, as inputs, weights and results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from signatures import T, right, same
from torch import nn
from torch.utils import _pytree as pytree

import isthmus
from isthmus.errors import CaptureError, UnsupportedError, UsageError

# ---- the same tensor, views and writes


def written(x: torch.Tensor) -> torch.Tensor:
    return x.add_(1)


def by_parts(x: torch.Tensor) -> Any:
    x[0] = 5
    x[:, 1].mul_(3)
    return x, x.sum()


def copied(x: torch.Tensor) -> Any:
    y = x.t().contiguous().add_(1)
    return x, y


def turned(x: torch.Tensor) -> Any:
    y = x.T.reshape(-1)
    y.mul_(2)
    return x * 1, y


def viewed(x: torch.Tensor) -> Any:
    y = x.reshape(-1)
    y[2:5] = 7
    return x * 1, y


def twice(x: torch.Tensor) -> Any:
    y = x + 1
    return y, y, [y, x, x], {"again": y.view(-1)}


SHARING: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "inputs returned": (lambda a, b: (b, a), (T(3), T(2))),
    "views of an input": (lambda a: (a.t(), a[0], a.view(-1), a[:, None], a, a.expand(2, 3, 4)), (T(3, 4),)),
    "one result often": (twice, (T(3, 4),)),
    "write": (written, (T(3),)),
    "writes to parts": (by_parts, (T(3, 4),)),
    "a contiguous copy is another tensor": (copied, (T(3, 4),)),
    "unless it is none": (copied, (T(1, 4),)),
    "a reshape that copies": (turned, (T(3, 4),)),
    "a reshape that does not": (viewed, (T(3, 4),)),
    "unused": (lambda a, b, c: a * 2, (T(3), T(2), torch.tensor([1]))),
    "unused in a dict": (lambda d: d["a"] * 2, ({"a": T(3), "u": T(2)},)),
}


@pytest.mark.parametrize("name", SHARING)
def test_sharing(name: str) -> None:
    model, args = SHARING[name]
    net = right(model, args)
    assert len(net.input_names) == sum(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(args))
    assert len(net.artefact.model.graph.input) == len(net.input_names), "unused ones are kept"
    assert net.verify().ok


def test_one_tensor_for_two_arguments() -> None:
    x = T(3)
    net = right(lambda a, b: a - 2 * b, (x, x), None, ((T(3), T(3)), {}))
    assert net.input_names == ["a", "b"]


def test_a_write_to_one_of_two_inputs_with_one_memory() -> None:
    def model(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return b * 2

    base = T(4)
    for args in ((base, base), (base[:3], base[1:])):
        with pytest.raises(CaptureError, match=r"writes to the input a, which shares its memory with the input b"):
            isthmus.compile(model, args)
    right(model, (T(3), T(3)))


def test_a_write_to_what_may_be_a_view() -> None:
    """Of an input that is not contiguous in the example, nobody knows whether it will be in a call."""

    def model(x: torch.Tensor) -> Any:
        y = x.contiguous()
        y.add_(1)
        return x * 2, y

    with pytest.raises(UnsupportedError, match=r"contiguous at .* made either a view or a copy"):
        isthmus.compile(model, T(3, 4).t())
    right(model, (T(3, 4),))
    right(lambda x: x.contiguous().view(-1) + 1, (T(3, 4).t(),))


# ---- tensors that are no plain ones


class Tagged(torch.Tensor):
    pass


class Odd(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(func, types, args, kwargs or {})


class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, x: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype)  # type: ignore[attr-defined]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError


def in_inference(made: Callable[[], Any]) -> Any:
    with torch.inference_mode():
        return made()


INPUTS: dict[str, Callable[[], torch.Tensor]] = {
    "requires a gradient": lambda: T(3).requires_grad_(),
    "has a gradient's function": lambda: T(3).requires_grad_() * 2,
    "inference": lambda: in_inference(lambda: T(3)),
    "parameter": lambda: nn.Parameter(T(3)),
    "class without ways of its own": lambda: T(3).as_subclass(Tagged),
    "turned": lambda: T(2, 3).t()[:, 0],
    "expanded": lambda: T(1).expand(3),
    "conjugate's part": lambda: torch.randn(3, dtype=torch.complex64).conj().imag,
}


@pytest.mark.parametrize("name", INPUTS)
def test_tensors_of_all_kinds(name: str) -> None:
    made = INPUTS[name]
    net: Any = isthmus.compile(lambda x: x * 2 + 1, made())
    x = made()
    same(net(x), (x * 2 + 1).as_subclass(torch.Tensor))


def test_weights_made_for_inference() -> None:
    right(in_inference(lambda: nn.Linear(3, 4)), (T(3),))


NO_INPUTS: list[tuple[Callable[[], torch.Tensor], str]] = [
    (lambda: torch.eye(3).to_sparse(), r"found: a sparse_coo one\n  remedy: give x\.to_dense"),
    (lambda: torch.eye(4).to_sparse_csr(), "found: a sparse_csr one"),
    (lambda: torch.quantize_per_tensor(T(3), 0.1, 0, torch.qint8), r"found: a quantized one\n  remedy: give x\.dequantize"),
    (lambda: torch.nested.nested_tensor([T(2), T(3)]), "found: a nested one"),
    (lambda: torch.nested.nested_tensor([T(2), T(3)], layout=torch.jagged), "found: a nested one"),
    (lambda: T(3).as_subclass(Odd), r"found: a Odd, which computes in its own way(.|\n)*as_subclass"),
    (lambda: Wrapper(T(3)), "found: a Wrapper, which computes in its own way"),
]


@pytest.mark.filterwarnings("ignore:.*(nested|Sparse|quantize).*")
@pytest.mark.parametrize(("made", "told"), NO_INPUTS)
def test_tensors_that_are_refused(made: Callable[[], torch.Tensor], told: str) -> None:
    with pytest.raises(UsageError, match=f"the input x must be a dense tensor\n  {told}"):
        isthmus.compile(lambda x: x, made())
    net: Any = isthmus.compile(lambda x: x, T(3))
    with pytest.raises(UsageError, match=f"the input x must be a dense tensor\n  {told}"):
        net(made())


def test_a_sparse_weight_is_refused() -> None:
    layer = nn.Module()
    layer.register_buffer("s", torch.eye(3).to_sparse())
    layer.forward = lambda x: torch.sparse.mm(layer.s, x)  # type: ignore[assignment]
    with pytest.raises(UnsupportedError, match=r"a tensor s of layout torch\.sparse_coo"):
        isthmus.compile(layer, T(3, 3))
