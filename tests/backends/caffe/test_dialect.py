"""Dialects as data: those that come along, a user's own, and malformed ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import isthmus
from isthmus.backends.caffe import CaffeBackend, CaffeOptions
from isthmus.backends.caffe.dialect import BUILT_IN, Dialect, load
from isthmus.errors import FileError, UnsupportedError, UsageError


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
        ("name = 'x'", "own.toml: about: is missing"),
        (OWN + "colour = 'red'\n", "own.toml: layers.Pooling.colour: is nothing that a dialect states"),
        (OWN.replace("portable", "nothing"), "own.toml: extends: there is no dialect 'nothing'"),
        (OWN.replace("portable", "own.toml"), "extends itself"),
        (OWN.replace("down=77:bool(false)", "down=bool"), "messages.PoolingParameter: 'down=bool' is not name=number"),
        (OWN.replace("bool(false)", "Colour"), "own.toml: messages.PoolingParameter: down is of an unknown type 'Colour'"),
        (OWN.replace("bool(false)", "bool(1)"), "messages.PoolingParameter: '1' is no default for down, which is bool"),
        (OWN.replace('"stride", "down"', '"stride", "up"'), "layers.Pooling.fields: the schema has no parameter up"),
        (OWN.replace("floor = { down", "floor = { up"), "own.toml: pooling.floor: up is not among the fields of Pooling"),
        (OWN.replace("[4]", "'four'"), "own.toml: layers.Pooling.ranks: Input should be a valid tuple, not 'four'"),
        (OWN + "\n[enums]\nWay = 'UP'\n", "own.toml: enums.Way: 'UP' is not name=number"),
        ("dtypes = ['f33']\n" + OWN, "own.toml: dtypes: Caffe's blobs are f32, and 'f33' is not"),
    ],
)
def test_malformed_dialects(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(FileError) as caught:
        load(own(tmp_path, text))
    assert message in str(caught.value)


_AXIS = "layers.Concat.fields = ['axis']\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dtypes = []", "Caffe's blobs are f32, and there is no type here"),
        ("dtypes = ['f32', 'i64']", "Caffe's blobs are f32, and 'i64' is not"),
        ("max_rank = 1000", "Caffe's blobs have 1 to 32 axes, not 1000"),
        ("max_rank = 0", "Caffe's blobs have 1 to 32 axes, not 0"),
        ("layers.ReLU.bottoms = [2, 1]", "these are the least and the greatest number, and 2 to 1 is no number at all"),
        ("layers.ReLU.tops = [-1, 1]", "these are the least and the greatest number, and -1 to 1 is no number at all"),
        ("layers.ReLU.bottoms = [0, 0]", "only Input has none"),
        ("layers.ReLU.tops = [0, 0]", "a layer without tops makes nothing"),
        ("layers.ReLU.blobs = [2, 1]", "these are single numbers from 0 on, in ascending order, not 2, 1"),
        ("layers.ReLU.blobs = []", "there is no number here"),
        ("layers.ReLU.ranks = [4, 4]", "these are single numbers from 0 on, in ascending order, not 4, 4"),
        ("layers.ReLU.ranks = [0, 5]", "0 or 5, and max_rank allows 1 to 4"),
        ("layers.ReLU.required = ['negative_slope']", "negative_slope is not among the fields of ReLU"),
        ("layers.ReLU.single = ['negative_slope']", "negative_slope is not among the fields of ReLU"),
        (_AXIS + "layers.Concat.single = ['axis']", "axis never repeats"),
        (_AXIS + "layers.Concat.values.axis = []", "it may have no value at all"),
        (_AXIS + "layers.Concat.values.axis = ['a']", "'a' is not i32"),
        ("layers.Input = { fields = [] }", "every net begins with Input layers that have a shape, and this has none"),
        ("parameters.Pad = 'pad_param'", "the schema has no parameters pad_param"),
        ("messages.PadParameter = 'before=0:i32'", "before has the number 0, and fields have 1 to 536870911"),
    ],
)
def test_dialects_that_contradict_themselves(text: str, message: str, tmp_path: Path) -> None:
    path = own(tmp_path, f"extends = 'portable'\nname = 'own'\nabout = 'of a test'\n{text}\n")
    with pytest.raises(FileError) as caught:
        load(path)
    place = text.splitlines()[-1].partition(" = ")[0]
    assert caught.value.message == f"{path}: {place}: {message}"
    assert "isthmus.backends.caffe.dialect.Dialect tells" in str(caught.value.remedy)


def test_values_are_those_of_the_field(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"own.toml: pooling.floor.down: 'yes' is not bool"):
        load(own(tmp_path, OWN.replace("down = true", "down = 'yes'")))
    with pytest.raises(FileError, match=r"own.toml: layers.Pooling.values.pool: 'MEDIAN' is not PoolMethod"):
        load(own(tmp_path, OWN.replace("MAX", "MEDIAN")))
    with pytest.raises(FileError, match=r"own.toml: layers.Pooling.values.pool.0: this is neither a number nor text"):
        load(own(tmp_path, OWN.replace('"MAX"', "[1]")))


def test_every_problem_of_a_dialect_has_a_line_through_compile_too(tmp_path: Path) -> None:
    text = "extends = 'portable'\nname = 'own'\ndtypes = []\nmax_rank = 99\nlayers.ReLU.tops = [2, 1]\ncolour = 'red'\n"
    path = own(tmp_path, text)
    with pytest.raises(FileError) as caught:
        isthmus.compile(nn.ReLU(), torch.randn(1, 2), target="caffe", dialect=path)
    fields = [line.removeprefix(f"{path}: ").partition(":")[0] for line in caught.value.message.splitlines()]
    assert fields == ["dtypes", "max_rank", "layers.ReLU.tops", "colour"]


def test_a_dialect_without_a_layer_that_names_outputs(tmp_path: Path) -> None:
    class Same(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = torch.relu(x)
            return y, y

    head = "name = 'own'\nabout = 'of a test'\ndtypes = ['f32']\nmax_rank = 4\nbatch = 'free'\npooling.padded_average = true\n"
    path = own(tmp_path, head + "[layers]\nReLU = {}\nInput = { fields = ['shape'], bottoms = [0, 0] }\n")
    isthmus.compile(nn.ReLU(), torch.randn(1, 2), target="caffe", dialect=path).verify(seeds=1)
    with pytest.raises(UnsupportedError, match="the dialect own has no layer Power"):
        isthmus.compile(Same(), torch.randn(1, 2), target="caffe", dialect=path)


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
