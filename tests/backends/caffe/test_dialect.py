"""Dialects as data: those that come along, a user's own, and malformed ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import isthmus
from isthmus.backends.caffe import CaffeBackend, CaffeOptions
from isthmus.backends.caffe.dialect import BUILT_IN, Dialect, load
from isthmus.errors import FileError, UsageError


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_dialect_takes_what_the_portable_one_does(name: str) -> None:
    dialect, portable = load(name), load("portable")
    assert dialect.name == name
    for type, rule in portable.layers.items():
        own = dialect.layers[type]
        assert set(rule.fields) <= set(own.fields), type
        assert set(rule.blobs) <= set(own.blobs), type
        assert not own.values.keys() - rule.values.keys(), type
        assert own.bottoms[1] >= rule.bottoms[1], type


def test_field_13_of_pooling_is_another_one_in_each_dialect() -> None:
    found = {name: load(name).format.numbers["PoolingParameter"].get(13) for name in BUILT_IN}
    assert {name: row.name if row else None for name, row in found.items()} == {
        "bvlc": "round_mode", "mnn": None, "opencv": "ceil_mode", "portable": None,
    }  # fmt: skip


OWN = """
name = "own"
about = "Rounds down by a word of its own."
extends = "portable"
[messages]
PoolingParameter = "down=77:bool(false)"
[pooling]
floor = { down = true }
[layers.Pooling]
fields = ["pool", "kernel_size", "stride", "down"]
values.pool = ["MAX"]
ranks = [4]
"""


def own(folder: Path, text: str) -> str:
    path = folder / "own.toml"
    path.write_text(text)
    return str(path)


def test_a_dialect_of_the_users_own(tmp_path: Path) -> None:
    net = isthmus.compile(nn.MaxPool2d(2), torch.randn(1, 2, 5, 5), target="caffe", dialect=own(tmp_path, OWN))
    prototxt, _ = net.save(tmp_path / "net")
    assert "  pooling_param {\n    pool: MAX\n    kernel_size: 2\n    stride: 2\n    down: true\n  }\n" in prototxt.read_text()
    net.artefact.validate()
    net.verify(seeds=1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = [", "is not TOML"),
        ("name = 'x'", "is not a dialect: about: Field required"),
        (OWN + "colour = 'red'\n", "is not a dialect: layers.Pooling.colour: Extra inputs are not permitted"),
        (OWN.replace("portable", "nothing"), "there is no dialect 'nothing'"),
        (OWN.replace("portable", "own.toml"), "extends itself"),
        (OWN.replace("down=77:bool(false)", "down=bool"), "'down=bool' of PoolingParameter is not a field"),
        (OWN.replace("bool(false)", "Colour"), "PoolingParameter.down is of an unknown type 'Colour'"),
        (OWN.replace("bool(false)", "bool(perhaps)"), "'perhaps' is no default for PoolingParameter.down"),
        (OWN.replace('"stride", "down"', '"stride", "up"'), "the schema has no parameter up of Pooling"),
        (OWN.replace("floor = { down", "floor = { up"), "the schema has no parameter up of Pooling"),
        (OWN.replace("[4]", "'four'"), "is not a dialect: layers.Pooling.ranks"),
        (OWN + "\n[enums]\nWay = 'UP'\n", "'UP' of enum Way is not a value"),
        ("dtypes = ['f33']\n" + OWN, "'f33' is not an element type"),
    ],
)
def test_malformed_dialects(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(FileError) as caught:
        load(own(tmp_path, text))
    assert message in str(caught.value)
    assert "own" in str(caught.value)


def test_a_dialect_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="could not be read"):
        load(str(tmp_path / "none.toml"))
    with pytest.raises(UsageError) as caught:
        isthmus.compile(nn.ReLU(), torch.randn(1, 2), target="caffe", dialect="caffe2")
    assert "there is no dialect 'caffe2'" in str(caught.value)
    assert "bvlc, mnn, opencv or portable" in str(caught.value)


def test_objections() -> None:
    dialect: Dialect = CaffeBackend(CaffeOptions(dialect="portable")).dialect
    message = dialect.objection
    assert message("Tile", None, 1, 1, 0) == "the dialect portable has no layer Tile"
    assert message("ReLU", None, 2, 1, 0) == "ReLU has 2 bottoms in the dialect portable, which takes 1 to 1"
    assert message("ReLU", None, 1, 1, 0, 5) == "ReLU takes a rank of at most 4 in the dialect portable, and this has rank 5"
    assert message("Slice", None, 1, 2, 0) == "Slice needs the parameter slice_point in the dialect portable"
    assert message("BatchNorm", None, 1, 1, 2) == "BatchNorm has 2 blobs in the dialect portable, which takes 3"
