"""What a refusal tells to do is told in the words of where the model comes from, and once for each cause."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from onnx import parser

import isthmus
from isthmus.errors import Refusal, UnsupportedError
from isthmus.ir.location import Location

FILE = parser.parse_model(
    """<ir_version: 8, opset_import: ["" : 17]> g (float[N,3,H,W] x, float[1,3,1,1] b) => (float[N,3,H,W] z) {
    r = Relu (x) s = Add (r, b) t = Sigmoid (s) z = Mul (t, x) }"""
)
DOUBLE = parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17]> g (double[2,3] x) => (double[2,3] z) { y = Relu (x) z = Sigmoid (y) }'
)


def refused(model: Any, *args: Any, **options: Any) -> UnsupportedError:
    with pytest.raises(UnsupportedError) as caught:
        isthmus.compile(model, *args, **options)
    return caught.value


@pytest.mark.parametrize("options", [{"target": "caffe"}, {"profile": "opencv"}], ids=["caffe", "opencv"])
def test_of_a_file_an_input_fixes_sizes(options: dict[str, Any]) -> None:
    error = refused(FILE, **options)
    assert len(error.refusals) > 1
    text = str(error)
    assert text.count("\n- ") == 1
    assert "relu, add, sigmoid, mul: " in text
    assert "dynamic_shapes" not in text
    spec = re.search(r"--input x=(\S+)", text)
    assert spec is not None
    assert spec[1] == "f32[1,3,224,224]"
    assert f"isthmus.compile(path, {{'x': isthmus.spec('{spec[1]}')}})" in text
    isthmus.compile(FILE, {"x": isthmus.spec(spec[1])}, **options)


def test_of_code_the_dynamic_shapes_do() -> None:
    text = str(refused(torch.nn.ReLU(), torch.randn(2, 3), target="caffe", dynamic_shapes=({0: "N"},)))
    assert "leave N out of dynamic_shapes" in text
    assert "--input" not in text


def test_element_types() -> None:
    assert {each.remedy for each in refused(DOUBLE, target="caffe").refusals} == {"export the model in float32"}
    (refusal,) = refused(torch.nn.ReLU(), torch.randn(2, 3, dtype=torch.float64), target="caffe").refusals
    assert refusal.remedy == "give the model and its inputs in float32: model.float()"


def test_a_loop_over_as_many_parts_as_data_says_may_stay_in_the_model() -> None:
    def total(rows: torch.Tensor) -> torch.Tensor:
        found = rows.new_zeros(rows.shape[1])
        for i in range(rows.shape[0]):
            found = found + rows[i].relu()
        return found

    (refusal,) = refused(lambda x: torch.stack([row.relu() for row in x[x[:, 0] > 0]]), torch.randn(4, 3)).refusals
    assert "torch.while_loop, or script the function" in str(refusal.remedy)
    scripted = torch.jit.script(total)
    net = isthmus.compile(lambda x: scripted(x[x[:, 0] > 0]), torch.randn(4, 3))
    x = torch.randn(4, 3)
    torch.testing.assert_close(net(x), total(x[x[:, 0] > 0]))


def test_what_has_one_cause_is_told_once_with_the_first_places() -> None:
    places = [Location("model.py", line) for line in range(1, 9)]
    found = [Refusal(f"the size {i} is open", cause="the size is open", op=f"op{i % 7}", location=place, remedy="fix it")
             for i, place in enumerate(places)]  # fmt: skip
    found += [Refusal("no such op", op="erf", location=places[0]), Refusal("no such op", op="sin")]
    assert str(UnsupportedError("10 things", found)).split("\n") == [
        "10 things",
        "- op0 (2 times), op1, op2, op3, op4 and 2 more ops: the size 0 is open",
        "    at model.py:1", "    at model.py:2", "    at model.py:3", "    at model.py:4", "    at model.py:5",
        "    and at 3 more places",
        "    remedy: fix it",
        "- erf: no such op",
        "    at model.py:1",
        "- sin: no such op",
    ]  # fmt: skip
