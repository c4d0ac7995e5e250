"""Writes in place, through views, with masks and ``out=``: each against eager torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from watching import agree

from isthmus.frontends.torch import capture
from isthmus.ir.errors import CaptureError, UnsupportedError

Function = Callable[[torch.Tensor], Any]


def add_in_place(x: torch.Tensor) -> Any:
    y = x * 1
    y.add_(2).mul_(3)
    y += x
    return y


def narrower_dtype(x: torch.Tensor) -> Any:
    y = (x * 4).to(torch.int64)
    y.add_(3)
    half = x.to(torch.float16)
    half.mul_(x.double())
    return y, half


def through_slice(x: torch.Tensor) -> Any:
    y = x + 0
    y[1:] = 7
    y[:, 1:3] += 1
    y[0, ::2] = x[1, ::2]
    return y


def through_select(x: torch.Tensor) -> Any:
    y = x + 0
    y[0] = 1
    y[-1, 2].fill_(9)
    y[:, -1] *= 2
    return y


def through_transpose(x: torch.Tensor) -> Any:
    y = x + 0
    y.t()[0] = 3
    y.transpose(0, 1)[1:3].mul_(2)
    y.permute(1, 0).add_(x.t())
    return y


def through_reshape(x: torch.Tensor) -> Any:
    y = x + 0
    y.view(-1)[::3] = 5
    y.reshape(2, 2, -1)[0, 1] = 6
    y.flatten().unsqueeze(0).squeeze(0)[1:4].neg_()
    return y


def copy_is_no_view(x: torch.Tensor) -> Any:
    y = x + 0
    y.t().contiguous().add_(1)
    y.t().reshape(-1).add_(1)
    y.clone().add_(1)
    y.t().flatten().add_(1)
    return y


def contiguous_is_a_view(x: torch.Tensor) -> Any:
    y = x + 0
    y.contiguous().add_(1)
    y.to(torch.float32).add_(1)
    y.reshape(-1).add_(1)
    return y


def views_of_elementwise_results(x: torch.Tensor) -> Any:
    y = x.t() + 1  # has the strides of x.t()
    y.contiguous().add_(1)
    y.t().reshape(-1).mul_(2)
    return y


def through_parts(x: torch.Tensor) -> Any:
    y = x + 0
    a, b = y.chunk(2)
    a.add_(1)
    c, d = y.split([1, 5], dim=1)
    d.mul_(2)
    rows = y.unbind(0)
    rows[1].fill_(4)
    return y, a, b, c


def siblings(x: torch.Tensor) -> Any:
    y = x + 0
    row = y[0]
    column = y[:, 0]
    row.add_(1)
    column.mul_(3)
    y.sub_(1)
    return y, row, column


def through_diagonal(x: torch.Tensor) -> Any:
    y = x[:, :4] + 0
    y.diagonal().fill_(1)
    y.diagonal(1).mul_(2)
    y.diagonal(-1).add_(5)
    return y


def masks(x: torch.Tensor) -> Any:
    y = x + 0
    y[y > 0.5] = 0
    y.masked_fill_(y < -0.5, 3)
    y[x > 1] += 1
    return y


def indices(x: torch.Tensor) -> Any:
    y = x + 0
    at = torch.tensor([0, 2])
    y[at] = 1
    y[:, at] = x[:, :2]
    y.index_put_((torch.tensor([1]), torch.tensor([1])), torch.tensor([8.0]))
    y.index_fill_(1, at, 2.5)
    y.index_add_(0, at, x[:2])
    y.scatter_(1, torch.zeros(4, 1, dtype=torch.int64), 4.0)
    return y


def copies(x: torch.Tensor) -> Any:
    y = torch.zeros(4, 6)
    y.copy_(x)
    z = torch.empty(4, 6)
    z.copy_(x[0])
    y.zero_()
    w = torch.zeros(2, 4, 6)
    w[1].copy_(x)
    return y, z, w


def out_arguments(x: torch.Tensor) -> Any:
    y = torch.empty(4, 6)
    torch.add(x, 1, out=y)
    values, places = torch.empty(4), torch.empty(4, dtype=torch.int64)
    torch.max(x, 1, out=(values, places))
    torch.mul(x[:, :3], 2, out=y[:, 3:])
    return y, values, places


def activations_in_place(x: torch.Tensor) -> Any:
    y = torch.nn.functional.relu(x + 0, inplace=True)
    z = torch.nn.functional.dropout(y, 0.5, training=False, inplace=True)
    z.clamp_(max=1)
    w = torch.sigmoid_(x + 0)
    return y, z, w


def dropout_is_its_input(x: torch.Tensor) -> Any:
    y = x + 0
    z = torch.nn.functional.dropout(y, 0.5, training=False)
    z += 1
    return y


def loop(x: torch.Tensor) -> Any:
    y = torch.zeros_like(x)
    for i in range(x.shape[0]):
        y[i] = x[i] * i
        if i:
            y[i] += y[i - 1]
    return y


def detached(x: torch.Tensor) -> Any:
    y = x + 0
    y.detach().add_(1)
    y.data.mul_(2)
    return y


def self_assignment(x: torch.Tensor) -> Any:
    y = x + 0
    y[1:] = y[:-1].clone()
    y[:, 0], y[:, 1] = y[:, 1].clone(), y[:, 0].clone()
    return y


def expanded_reads(x: torch.Tensor) -> Any:
    y = x[:1] + 0
    wide = y.expand(4, 6)
    y.add_(1)
    return wide * x


def reshaped_in_place(x: torch.Tensor) -> Any:
    y = x + 1
    row = y[0]
    y.unsqueeze_(0).transpose_(1, 2)
    torch.ops.aten.squeeze_.dim(y, 0)
    y[1] = 7.0
    y.t_()
    y[2] = 3.0
    y.detach_()
    return y, row, y.shape[0] * y


def shrunk(x: torch.Tensor) -> Any:
    y, z, whole = x + 1, x * 2, x - 1
    y.resize_(2, 3)
    y[0] = 5.0
    z.resize_as_(x[:2]).resize_(2, 6)
    return y, z, whole.resize_(4, 6) * 2


@pytest.mark.parametrize(
    "function",
    [
        add_in_place, narrower_dtype, through_slice, through_select, through_transpose, through_reshape, copy_is_no_view,
        contiguous_is_a_view, views_of_elementwise_results, through_parts, siblings, through_diagonal, masks, indices, copies,
        out_arguments, activations_in_place, dropout_is_its_input, loop, detached, self_assignment, expanded_reads,
        reshaped_in_place, shrunk,
    ],
)  # fmt: skip
def test_write(function: Function) -> None:
    agree(function, (torch.randn(4, 6),))


def dynamic_slices(x: torch.Tensor) -> Any:
    y = x + 0
    y[1:] += 1
    y[:, : x.shape[1] // 2] *= 2
    y.t()[0] = 3
    y.view(-1)[::2].neg_()
    y[-1] = 0
    a, _ = y.chunk(2, dim=1)
    a.add_(x.shape[0])
    return y


def diagonals_of_unknown_rows(x: torch.Tensor) -> Any:
    y = x + 0
    y.diagonal().fill_(1)
    y.diagonal(1).mul_(2)
    y.t().diagonal(1)[1:] += 5
    batch = y[:, None].repeat(1, 2, 1)
    batch.diagonal(0, 0, 2)[1].neg_()
    return y.t().fill_diagonal_(3), y, batch


def test_writes_at_other_sizes() -> None:
    for function in (dynamic_slices, reshaped_in_place):
        agree(function, (torch.randn(4, 6),), dynamic=({0: "N"},), sizes=[{"N": 5}, {"N": 9}])
    square = {"x": {0: "N", 1: "M"}}
    agree(diagonals_of_unknown_rows, (torch.randn(4, 6),), dynamic=square, sizes=[{"N": 5, "M": 3}, {"N": 2, "M": 2}])


def test_broadcast_tensors_take_nothing_for_granted() -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> Any:
        one, other = torch.broadcast_tensors(x, y)
        return one * other, torch.broadcast_tensors(x[None], y)[1] + 1

    captured = agree(
        model, (torch.randn(3, 4), torch.randn(3, 1)), dynamic=({0: "N"}, {0: "N"}), sizes=[{"N": 1}, {"N": 5}],
    )  # fmt: skip
    assert not captured.graph.symbols.assumptions


def through_expand(x: torch.Tensor) -> Any:
    y = x[:1] + 0
    y.expand(4, 6)[0] = 1
    return y


def unknown_alias(x: torch.Tensor) -> Any:
    y = torch.nn.functional.softmax(x.t(), 0)  # nobody declares the strides of this
    z = y.reshape(-1)
    z.add_(1)
    return y


def enlarged(x: torch.Tensor) -> Any:
    y = x + 1
    y.resize_(9, 9)
    return y


def resized(x: torch.Tensor) -> Any:
    y = torch.empty(0)
    torch.add(x, 1, out=y)
    return y


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (through_expand, "an expanded view, whose elements share storage"),
        (unknown_alias, "made either a view or a copy"),
        (enlarged, "resizing to more elements than there are"),
        (resized, "would change the shape [0] to [4, 6]"),
    ],
)
def test_refused(function: Function, text: str) -> None:
    with pytest.raises((UnsupportedError, CaptureError), match=r"test_writes\.py:\d+") as caught:
        capture(function, (torch.randn(4, 6),))
    assert text in str(caught.value)


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("last", torch.zeros(3))
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        self.last = x * self.weight
        return x + self.count


def test_buffers_are_values_and_stay_untouched() -> None:
    model = Counter()
    before = model.last
    captured = agree(model, (torch.randn(3),))
    assert model.count.item() == 0
    assert model.last is before
    assert any("the model writes to count, last" in note for note in captured.notes)


def test_buffers_as_outputs() -> None:
    captured = agree(Counter(), (torch.randn(3),), buffers="output")
    assert captured.output_names == ["output", "count", "last"]


def test_buffers_refused() -> None:
    with pytest.raises(CaptureError, match="the model writes to count, last"):
        agree(Counter(), (torch.randn(3),), buffers="refuse")


def test_batch_norm_in_training() -> None:
    model = torch.nn.BatchNorm2d(3).train()
    captured = agree(model, (torch.randn(4, 3, 5, 5),), buffers="output", tolerance=1e-4)
    assert captured.output_names == ["output", "num_batches_tracked", "running_mean", "running_var"]
    assert model.running_mean is not None
    assert not model.running_mean.any()


class Shared(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        whole = torch.zeros(6)
        self.register_buffer("whole", whole)
        self.register_buffer("part", whole[:3])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + self.part
        self.whole.add_(1)
        return y + self.part


def test_shared_storage_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="shares storage with another tensor"):
        capture(Shared(), (torch.randn(3),))


def test_input_written_to() -> None:
    captured = agree(lambda x: x.add_(1), (torch.randn(3),))
    assert captured.notes == ["the model writes to the input x; the graph leaves it as it is"]


def another_shape(x: torch.Tensor) -> Any:
    y = x * 2
    row = y[0]
    assert row.unsqueeze_(0) is row
    row += 1  # writes to `y`
    y.unsqueeze_(1).squeeze_().transpose_(0, 1)
    y[0] = 7
    z = x + 1
    return y, z.t_().unsqueeze_(-1), row, z.squeeze_(-1).shape[0]


def test_another_shape_in_place() -> None:
    agree(another_shape, (torch.randn(3, 4),), dynamic={"x": {0: "N"}}, sizes=[{"N": 5}])


@pytest.mark.parametrize(
    "copy", [lambda x: x.t().contiguous(), lambda x: x[:, :2].contiguous(), lambda x: x.t().reshape(-1)],
)
def test_what_is_a_view_where_a_size_is_1_alone(copy: Function) -> None:
    """Torch makes a copy otherwise: nobody may look at the tensor itself once the copy is written to."""

    def unread(x: torch.Tensor) -> Any:
        return copy(x).add_(1)

    def read(x: torch.Tensor) -> Any:
        copy(x).add_(1)
        return x + 0

    agree(unread, (torch.randn(3, 4),), dynamic={"x": {0: "N"}}, sizes=[{"N": 5}, {"N": 1}])
    agree(read, (torch.randn(3, 4),))
    with pytest.raises(UnsupportedError, match="depends on whether a size is 1"):
        capture(read, (torch.randn(3, 4),), dynamic_shapes={"x": {0: "N"}})


@pytest.mark.parametrize(
    "part",
    [
        torch.atleast_1d, torch.atleast_2d, torch.atleast_3d, lambda y: y.type_as(y), lambda y: torch.einsum("ij->ji", y),
        lambda y: torch.einsum("ij,jk->ik", y, torch.ones(4, 2)), torch.ravel, lambda y: torch.ravel(y[:, 0]),
        lambda y: y.unsafe_split(2)[0], lambda y: torch.unsafe_chunk(y, 2)[1], lambda y: torch.broadcast_tensors(y, y[:1])[0],
        lambda y: torch.meshgrid(y[:, 0], indexing="ij")[0],
    ],
)  # fmt: skip
def test_what_is_composed_of_views_is_a_view(part: Function) -> None:
    def model(x: torch.Tensor) -> Any:
        y = x.clone()
        part(y).add_(1)
        return y

    agree(model, (torch.randn(3, 4),))


def test_a_view_that_there_cannot_be_raises_as_in_torch() -> None:
    def model(x: torch.Tensor) -> Any:
        try:
            return x.t().view(-1)
        except RuntimeError:
            return x.contiguous().view(-1)

    agree(model, (torch.randn(3, 4),))
    with pytest.raises(CaptureError, match="view size is not compatible"):
        capture(lambda x: x.t().view(-1), (torch.randn(3, 4),))


def test_writes_of_numbers_and_by_functions_of_python() -> None:
    agree(lambda x: x.clone().copy_(2), (torch.randn(3),))
    with pytest.raises(CaptureError, match=r"the content \(apply_\)"):
        capture(lambda x: x.clone().apply_(abs), (torch.randn(3),))


def test_masks_that_are_written_alike_take_equally_many() -> None:
    def model(x: torch.Tensor) -> Any:
        y, mask = torch.zeros_like(x), x.abs() < 1
        y[~mask] = x[~mask] * 2
        y[x > 2] = x[x > 2] - 1
        x = x * 2
        return y, x[x > 2]

    captured = agree(model, (torch.randn(5, 4),), dynamic={"x": {0: "N"}}, sizes=[{"N": 3}, {"N": 1}])
    assert not captured.graph.symbols.assumptions
    assert sum(node.op.name == "nonzero" for node in captured.graph.nodes) == 3
