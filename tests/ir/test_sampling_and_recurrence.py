"""What the rows of recurrent layers, sampling and detection object to, and how lengths are kept to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isthmus.ir import interpreter
from isthmus.ir.builder import Builder
from isthmus.ir.dtypes import f32, i64
from isthmus.ir.errors import InferError
from isthmus.ir.graph import Graph
from isthmus.ir.types import Tensor

WINDOW = {"strides": [1, 1], "pads": [0] * 4, "dilations": [1, 1]}


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "words"),
    [
        ("lstm", [(4, 2, 3), (1, 20, 3), (1, 16, 5)], {}, "the sizes of recurrence and of the others"),
        ("lstm", [(4, 2, 3), (1, 20, 3), (1, 20, 5)], {"direction": "bidirectional"}, "the sizes of weight and of the others"),
        ("lstm", [(4, 2, 3), (1, 20, 4), (1, 20, 5)], {}, "the sizes of weight and of the others"),
        ("gru", [(4, 2), (1, 15, 3), (1, 15, 5)], {}, "operand x must have rank 3"),
        ("gru", [(4, 2, 3), (1, 15, 3), (1, 15, 5), (1, 15)], {}, "the sizes of bias and of the others"),
        ("rnn", [(4, 2, 3), (1, 5, 3), (1, 5, 5)], {"direction": "both"}, "is not one of forward, reverse, bidirectional"),
        ("grid_sample", [(1, 2, 4, 5), (1, 3, 3, 3)], {}, "the last size of grid"),
        ("grid_sample", [(2, 2, 4, 5), (1, 3, 3, 2)], {}, "the batches of x and grid"),
        ("grid_sample", [(1, 2, 4, 5), (1, 3, 2)], {}, "grid must have rank 4"),
        ("nms", [(5, 4), (4,)], {"iou_threshold": 0.5}, "the numbers of boxes and of scores"),
        ("nms", [(5, 5), (5,)], {"iou_threshold": 0.5}, "the last size of boxes"),
        ("deform_conv", [(1, 2, 5, 5), (4, 2, 3, 3), (1, 17, 3, 3)], WINDOW, "the sizes of offset and of the result"),
        ("deform_conv", [(1, 2, 5, 5), (4, 2, 3, 3), (1, 18, 3, 3)], WINDOW | {"offset_groups": 3}, "do not divide"),
    ],
)
def test_objects(op: str, shapes: list[tuple[int, ...]], attrs: dict[str, Any], words: str) -> None:
    b = Builder(Graph())
    values = [b.graph.add_input(Tensor(f32, shape)) for shape in shapes]
    with pytest.raises(InferError, match=words):
        getattr(b, op)(*values, **attrs)


def test_boxes_are_of_as_many_images() -> None:
    b = Builder(Graph())
    x, rois = b.graph.add_input(Tensor(f32, (2, 3, 8, 8))), b.graph.add_input(Tensor(f32, (5, 4)))
    batch = b.graph.add_input(Tensor(i64, (4,)))
    with pytest.raises(InferError, match="the numbers of rois and of batch"):
        b.roi_align(x, rois, batch, output_size=[2, 2])
    with pytest.raises(InferError, match="output_size must be two sizes"):
        b.roi_align(x, rois, batch, output_size=[2])


@pytest.mark.parametrize("op", ["lstm", "gru", "rnn"])
def test_a_padded_sequence_is_as_the_sequence_alone(op: str) -> None:
    draws = np.random.default_rng(0)
    gates = {"lstm": 4, "gru": 3, "rnn": 1}[op]
    shapes = {"x": (5, 2, 3), "weight": (2, gates * 4, 3), "recurrence": (2, gates * 4, 4), "bias": (2, gates * 8)}
    x, *parameters = (draws.standard_normal(shape).astype(np.float32) for shape in shapes.values())

    def run(x: Any, lengths: Any) -> list[Any]:
        graph = Graph()
        b, value = Builder(graph), graph.add_input(Tensor(f32, x.shape))
        graph.set_outputs(getattr(b, op)(value, *map(b.constant, parameters), lengths, direction="bidirectional"))
        return interpreter.run(graph, [x])

    together = run(x, np.array([5, 3]))
    alone = run(x[:3, 1:], None)
    np.testing.assert_allclose(together[0][:3, :, 1:], alone[0], rtol=1e-6, atol=1e-6)
    assert not together[0][3:, :, 1].any()
    for padded, wanted in zip(together[1:], alone[1:], strict=True):
        np.testing.assert_allclose(padded[:, 1:], wanted, rtol=1e-6, atol=1e-6)
