"""Prototxt: what is written is read again, and what is malformed is refused with line and column."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus.backends.caffe import schema, text
from isthmus.backends.caffe.schema import Message
from isthmus.errors import FileError

BASE = schema.base()

EXAMPLE = """\
name: "net"  # a comment
layer { name: 'a' type: "Input" top: "a"
  input_param: { shape: < dim: 1, dim: 3; dim: [8, 8] > } }
layer {
  name: "p\\"\\101\\x42" "q"
  type: "Pooling" bottom: "a" top: "b"
  pooling_param { pool: AVE kernel_size: 0x2 global_pooling: false }
}
layer { name: "s" type: "Power" power_param { scale: -1.5e-3 shift: 2.f power: inf } phase: 1 }
"""


def test_what_text_may_look_like() -> None:
    net = text.read(EXAMPLE, BASE, "net.prototxt")
    first, second, third = net["layer"]
    assert net["name"] == "net"
    assert first["input_param"]["shape"][0]["dim"] == [1, 3, 8, 8]
    assert second["name"] == 'p"ABq'
    assert second["pooling_param"].fields == {"pool": "AVE", "kernel_size": 2, "global_pooling": False}
    assert third["power_param"].fields == {"scale": -1.5e-3, "shift": 2.0, "power": float("inf")}
    assert third["phase"] == "TEST"
    assert text.read(text.write(net, BASE), BASE, "again") == net


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        ('name: "net', "1:7", "is not expected here"),
        ("name: 3", "1:7", "NetParameter.name is a string, not '3'"),
        ('name: "a"\nname: "b"', "2:1", "NetParameter.name is there twice"),
        ("layer {\n  nam: 'x' }", "2:3", "LayerParameter has no field 'nam'"),
        ("layer {", "1:8", "the file ends inside LayerParameter"),
        ("layer { } }", "1:11", "'}' is not the name of a field"),
        ("layer: 3", "1:8", "NetParameter.layer is a message"),
        ("input_dim: 1.5", "1:12", "NetParameter.input_dim is an integer, not '1.5'"),
        ("input_dim: 5000000000", "1:12", "is out of range"),
        ("input_dim 5", "1:11", "has no value"),
        ("force_backward: maybe", "1:17", "is true or false, not 'maybe'"),
        ("name: ['a']", "1:8", "NetParameter.name does not repeat"),
        ("input_dim: [1 2]", "1:15", "'2' is not expected in a list"),
        ("layer { phase: LATER }", "1:16", "LayerParameter.phase cannot be 'LATER'"),
        ("layer { power_param { scale: big } }", "1:30", "PowerParameter.scale is a number, not 'big'"),
        ("layers { }", "1:1", "NetParameter has no field 'layers'"),
        ("\x00", "1:1", "is not expected here"),
        ("layer { pooling_param { ceil_mode: false } }", "1:25", "PoolingParameter has no field 'ceil_mode'"),
    ],
)
def test_malformed_text(content: str, place: str, message: str) -> None:
    with pytest.raises(FileError) as caught:
        text.read(content, BASE, "net.prototxt")
    assert caught.value.message.startswith(f"net.prototxt:{place}: ")
    assert message in caught.value.message


NESTED = schema.Schema({}, {}).extended({"Box": "box=1:Box"}, {})


def test_nesting_has_an_end() -> None:
    with pytest.raises(FileError, match="nest more than"):
        text.read("box {" * 10000, NESTED, "net.prototxt", "Box")


@given(st.text())
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_or_refused(content: str) -> None:
    try:
        net = text.read(content, BASE, "net.prototxt")
    except FileError:
        return
    assert text.read(text.write(net, BASE), BASE, "again") == net


@given(st.text(), st.floats(width=32, allow_nan=False), st.lists(st.integers(-(2**63), 2**63 - 1)))
@settings(max_examples=200, deadline=None)
def test_every_content_comes_back(name: str, scale: float, dims: list[int]) -> None:
    shape = Message("BlobShape", {"dim": dims} if dims else {})
    layer = Message("LayerParameter", {
        "name": name, "power_param": Message("PowerParameter", {"scale": scale}),
        "reshape_param": Message("ReshapeParameter", {"shape": shape}),
    })  # fmt: skip
    net = Message("NetParameter", {"layer": [layer]})
    (found,) = text.read(text.write(net, BASE), BASE, "again")["layer"]
    assert found["name"] == name
    assert np.float32(found["power_param"]["scale"]) == np.float32(scale)
    assert found["reshape_param"]["shape"] == shape
