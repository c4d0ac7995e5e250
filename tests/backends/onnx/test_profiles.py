"""What a reader lacks is said in other ops, or refused: by the readers themselves, OpenCV's and TensorRT's parser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from onnx_readers import Reader, Rejected
from torch import Tensor, nn

import isthmus
from isthmus.backends.onnx import opsets, profile
from isthmus.errors import FileError, UnsupportedError, UsageError


def started(library: str, kind: str) -> Iterator[Reader]:
    """A reader in a process of its own, closed at the end."""
    pytest.importorskip(library)
    reader = Reader(kind)
    yield reader
    reader.close()


@pytest.fixture(scope="module")
def opencv() -> Iterator[Reader]:
    yield from started("cv2", "opencv")


@pytest.fixture(scope="module")
def tensorrt() -> Iterator[Reader]:
    yield from started("tensorrt_rtx", "tensorrt-builder")


class Model(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *xs: Tensor) -> Any:
        return self.function(*xs)


def ask(reader: Reader, net: Any, inputs: tuple[Tensor, ...]) -> list[Any] | None:
    """What a reader makes of a compiled model."""
    model = net.artefact.model
    names = [each.name for each in model.graph.input]
    feeds = {name: array.numpy() for name, array in zip(names, inputs, strict=True)}
    return reader(model.SerializeToString(), feeds, [each.name for each in model.graph.output])


def is_right(got: list[Any] | None, model: nn.Module, inputs: tuple[Tensor, ...]) -> bool:
    """Whether a reader's outputs are eager's; OpenCV gives all as f32."""
    with torch.no_grad():
        wanted = model(*inputs)
    wanted = [wanted] if isinstance(wanted, Tensor) else list(wanted)
    assert got is not None
    close = [
        each.size == want.numel() and np.allclose(each.reshape(-1), want.numpy().reshape(-1), rtol=1e-4, atol=1e-5)
        for each, want in zip(got, wanted, strict=True)
    ]
    return all(close)


def image(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


X = image(2, 3, 6, 8)
W = image(4, 3, 3) / 3
CUBE = image(2, 3, 4, 5, 6)
THIRDS = image(3, 3, 1, 1, 1)
MASK = torch.arange(8) % 3 > 0
SCALES = image(2, 3, 1, 1)

torch.manual_seed(0)
GRU, RNN = nn.GRU(3, 4, 2, bidirectional=True), nn.RNN(3, 4, bias=False)

LACKING: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...], int]] = {
    "max-pool's indices": (lambda x: F.max_pool2d(x, 2, return_indices=True), (X,), 18),
    "dilated max-pool": (lambda x: F.max_pool2d(x, 2, 1, dilation=2), (X,), 18),
    "an average that counts the padding": (lambda x: F.avg_pool2d(x, 3, 2, padding=1), (X,), 18),
    "logic": (lambda x: torch.where((x > 0) & (x < 1) | (x < -1), x, 2 * x), (X,), 18),
    "a known condition": (lambda x: torch.where(MASK, x, -1.0), (X,), 18),
    "truth of a number": (lambda x: x.round().bool().float() + x, (X,), 18),
    "several new axes": (lambda x: x.mean((2, 3))[:, None, :, None] * x.permute(0, 2, 1, 3), (X,), 18),
    "a flip": (lambda x: x.flip(2, 3), (X,), 18),
    "gelu by tanh": (lambda x: F.gelu(x, approximate="tanh"), (X,), 18),
    "a sigmoid of lines times another": (lambda x: F.hardsigmoid(x.mean((2, 3), keepdim=True)) * x, (X,), 18),
    "a constant that is broadcast on the right": (lambda x: x @ W[None, :3], (image(2, 3, 6, 3),), 18),
    "a window padded on one side": (lambda x: F.conv1d(F.pad(x, (1, 0)), W), (image(2, 3, 9),), 18),
    "cubic resizing": (lambda x: F.interpolate(x, size=(9, 5), mode="bicubic"), (X,), 18),
    "the nearest of other places": (lambda x: F.interpolate(x, size=(7, 5), mode="nearest-exact"), (X,), 18),
    "a lower triangle": (lambda x: x.tril(1), (X,), 18),
    "log-softmax of large numbers": (lambda x: F.log_softmax(400 * x, 1), (X,), 18),
    "rows of a matrix at known places": (lambda x: x[:, [0, 2, -1], [1, 1, 0]] * 2, (image(2, 3, 6, 8),), 18),
    "an axis repeated in front of a single one": (lambda x: x.expand(4, 5, 1).exp(), (image(4, 1, 1),), 18),
    "a mean along three axes": (lambda x: x.mean((1, 2, 3)), (CUBE,), 18),
    "the sum of all": (lambda x: x.sum((0, 1), keepdim=True), (image(4, 5),), 18),
    "a mean of a cube": (lambda x: F.adaptive_avg_pool3d(x, 1), (CUBE,), 18),
    "a sum of convolutions of cubes": (lambda x: x.exp() + F.conv3d(x, THIRDS), (CUBE,), 18),
    "a layer that goes both ways": (lambda x: GRU(x)[0], (image(5, 2, 3),), 18),
    "a layer from a state": (lambda x, h: RNN(x, h)[1], (image(5, 2, 3), image(1, 2, 4)), 18),
    "causal attention": (lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), (image(1, 2, 5, 4),), 23),
}  # fmt: skip


@pytest.mark.parametrize("name", LACKING)
def test_opencv_gets_what_it_takes(name: str, opencv: Reader) -> None:
    function, inputs, opset = LACKING[name]
    model = Model(function)
    net = isthmus.compile(model, inputs, profile="opencv", opset=opset)
    assert is_right(ask(opencv, net, inputs), model, inputs)
    net.verify()


REFUSED_BY_OPENCV = sorted(set(LACKING) - {
    "a window padded on one side", "a lower triangle", "several new axes", "the nearest of other places", "gelu by tanh",
    "max-pool's indices",
})  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_BY_OPENCV)
def test_opencv_refuses_or_gets_wrong_what_is_written_otherwise(name: str, opencv: Reader) -> None:
    function, inputs, opset = LACKING[name]
    model = Model(function)
    try:
        right = is_right(ask(opencv, isthmus.compile(model, inputs, opset=opset), inputs), model, inputs)
    except Rejected:
        right = False
    assert not right


class Small(nn.Module):
    """A convolution, a max-pool and its way back."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.pool = nn.MaxPool2d(2, return_indices=True)
        self.back = nn.MaxUnpool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        y, places = self.pool(self.conv(x))
        return self.back(y, places)


def test_tensorrt_has_no_places_of_maxima(tensorrt: Reader) -> None:
    model, inputs, sizes = Small(), (X,), ({0: "N"},)
    plain = isthmus.compile(model, inputs, dynamic_shapes=sizes)
    with pytest.raises(Rejected, match=r"MaxPool|MaxUnpool"):
        ask(tensorrt, plain, inputs)
    net = isthmus.compile(model, inputs, dynamic_shapes=sizes, profile="tensorrt-parser")
    assert ask(tensorrt, net, inputs) is None
    net.verify()


def test_tensorrt_attends_in_half_precision_alone(tensorrt: Reader) -> None:
    inputs = (image(1, 2, 5, 64), image(1, 2, 7, 64), image(1, 2, 7, 64))
    model = Model(lambda q, k, v: F.scaled_dot_product_attention(q, k, v))
    plain = isthmus.compile(model, inputs, opset=23)
    assert "Attention" in plain.artefact.op_counts
    with pytest.raises(Rejected):
        ask(tensorrt, plain, inputs)
    net = isthmus.compile(model, inputs, opset=23, profile="tensorrt-parser")
    assert "Attention" not in net.artefact.op_counts
    assert ask(tensorrt, net, inputs) is None
    net.verify()
    halves = tuple(each.half() for each in inputs)
    half = isthmus.compile(model, halves, opset=23, profile="tensorrt-parser")
    assert "Attention" in half.artefact.op_counts
    assert ask(tensorrt, half, halves) is None


def test_tensorrt_reads_equations_in_small_letters(tensorrt: Reader) -> None:
    inputs = (image(2, 3, 4), image(2, 5, 4))
    net = isthmus.compile(Model(lambda x, y: torch.einsum("B I D, B J D -> B I J", x, y)), inputs, profile="tensorrt-parser")
    assert ask(tensorrt, net, inputs) is None
    net.verify()


def test_a_layer_with_a_state_is_opencv_s_own(opencv: Reader) -> None:
    lstm, inputs = nn.LSTM(3, 4), (image(5, 2, 3), image(1, 2, 4), image(1, 2, 4))
    model = Model(lambda x, h, c: (lambda y, last: (y, *last))(*lstm(x, (h, c))))
    net = isthmus.compile(model, inputs, profile="opencv")
    assert net.artefact.op_counts["LSTM"] == 1
    assert is_right(ask(opencv, net, inputs), model, inputs)


def test_onnxruntime_has_no_kernel_that_the_standard_has() -> None:
    """In f64 alone: the profile of onnxruntime is the one that is taken by itself."""
    model, x = Model(lambda x: F.avg_pool2d(x, 2)), X.double()
    plain = isthmus.compile(model, (x,), profile="onnx")
    assert plain.artefact.op_counts == {"AveragePool": 1}
    net = isthmus.compile(model, (x,), profile="onnxruntime")
    assert "AveragePool" not in net.artefact.op_counts
    net.verify()


@pytest.mark.parametrize(
    ("function", "inputs", "why"),
    [
        (lambda x: x.double(), (X,), "takes bool, f32 or i64 alone, and this is f64"),
        (lambda x: x.sum(), (X,), "takes rank 2, 3, 4, 5, 6, 7 or 8 alone"),
        (lambda x: x.long(), (X,), "Cast takes bool alone, not f32"),
        (lambda x: x.nonzero(), (X,), "takes no tensors without elements"),
        (lambda x, y: x + 1, (X, X), "takes no inputs that nothing uses"),
    ],
)  # fmt: skip
def test_what_opencv_cannot_be_told_is_refused(function: Any, inputs: tuple[Tensor, ...], why: str) -> None:
    with pytest.raises(UnsupportedError, match=f"the profile opencv (.|\n)*{why}|in the profile opencv {why}"):
        isthmus.compile(Model(function), inputs, profile="opencv")


def test_sizes_that_vary_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="the profile opencv takes sizes that are known alone"):
        isthmus.compile(Model(lambda x: x + 1), (X,), dynamic_shapes=(({0: "N"},),), profile="opencv")


def test_a_refusal_names_profiles_that_take_it() -> None:
    with pytest.raises(UnsupportedError, match=r"remedy: choose the profile 'onnxruntime' or 'onnx'"):
        isthmus.compile(Model(torch.nonzero), (X,), profile="tensorrt-parser")


def test_opsets_of_a_profile(tmp_path: Path) -> None:
    path = state(tmp_path, 'opsets = [9, 13]')
    with pytest.raises(UsageError, match="the profile mine takes opsets 9 to 13, not 18"):
        isthmus.compile(Model(torch.relu), (X,), profile=path, opset=18)
    assert isthmus.compile(Model(torch.relu), (X,), profile=path).artefact.imports == {"": 13}
    assert isthmus.compile(Model(torch.relu), (X,), profile=path, opset=9).artefact.op_counts == {"Relu": 1}
    path = state(tmp_path, 'ir_version = 7', name="older.toml")
    with pytest.raises(UsageError, match="IR version 7 at most"):
        isthmus.compile(Model(torch.relu), (X,), profile=path)


# ---- files of the user's


def state(folder: Path, text: str, name: str = "mine.toml") -> str:
    path = folder / name
    path.write_text(f'name = "mine"\nabout = "A reader of my own."\n{text}\n')
    return str(path)


def test_a_file_of_the_users(tmp_path: Path) -> None:
    path = state(tmp_path, '[ops.HardSwish]\nrefused = "it crashes"\n[ops.Softmax]\nranks.input = [2]')
    net = isthmus.compile(Model(F.hardswish), (X,), profile=path)
    assert "HardSwish" not in net.artefact.op_counts
    net.verify()
    net = isthmus.compile(Model(lambda x: F.softmax(x, 1)), (X,), profile=path)
    assert "Softmax" not in net.artefact.op_counts
    net.verify()
    path = state(tmp_path, '[ops.NonZero]\nrefused = "there is no such kernel"', "other.toml")
    with pytest.raises(UnsupportedError, match="in the profile mine NonZero is not taken: there is no such kernel"):
        isthmus.compile(Model(torch.nonzero), (X,), profile=path)


def test_a_file_extends_another(tmp_path: Path) -> None:
    state(tmp_path, 'others = "refuse"\n[ops.Relu]\n[ops.Tanh]\n[ops.Add]', "first.toml")
    path = state(tmp_path, 'extends = "first.toml"\n[ops.Tanh]\nrefused = "it is slow"', "second.toml")
    found = profile.load(path)
    assert found.others == "refuse"
    assert set(found.ops) == {"Relu", "Tanh", "Add"}
    assert found.ops["Tanh"][0].refused == "it is slow"
    (tmp_path / "second.toml").write_text('name = "b"\nabout = ""\nextends = "second.toml"')
    with pytest.raises(FileError, match="extends itself"):
        profile.load(path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[ops.Strange]", "ops.Strange: the standard has no such op"),
        ('[ops.Conv]\nconstant = ["Z"]', "ops.Conv.constant: there is no Z: it has B, W or X"),
        ('[ops.Conv]\ntypes.T = ["f31"]', "there is no element type 'f31'"),
        ('[ops.Conv]\nvalues.stride = [1]', "ops.Conv.values: there is no stride"),
        ('[ops.Conv]\nfoo = 1', "foo: is nothing that a profile states"),
        ('opsets = [3, 9]', "opsets: 3 to 9 are not within 7 to"),
        ('others = "perhaps"', "others: Input should be 'take' or 'refuse', not 'perhaps'"),
        ('ops = 3 =', "is not TOML"),
        ('extends = "nothing"', "there is no profile 'nothing'"),
    ],
)  # fmt: skip
def test_a_file_that_is_wrong_is_told_so(tmp_path: Path, text: str, why: str) -> None:
    path = state(tmp_path, text)
    with pytest.raises(FileError) as caught:
        isthmus.compile(Model(torch.relu), (X,), profile=path)
    assert path in str(caught.value)
    assert why in str(caught.value)


@pytest.mark.parametrize(("name", "kind", "told"), [
    ("opencv4", UsageError, "there is no profile"), ("nowhere.toml", FileError, "could not be read"),
])  # fmt: skip
def test_a_profile_that_is_not_there(name: str, kind: type[Exception], told: str) -> None:
    with pytest.raises(kind, match=told):
        isthmus.compile(Model(torch.relu), (X,), profile=name)


@pytest.mark.parametrize("name", profile.BUILT_IN)
def test_built_in_profiles(name: str) -> None:
    found = profile.load(name)
    assert found.name == name
    assert found.plain == (name in ("onnxruntime", "onnx"))
    assert found.opset(opsets.DEFAULT) is None


def test_inputs_that_are_outputs_in_opencv(opencv: Reader) -> None:
    """By their own names, as in a file, and by others."""
    file = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[2,3,6,8] x) => (float[2,3,6,8] x, float[2,3,6,8] z) { z = Relu (x) }""")
    code = Model(lambda x: (x, x.relu(), x))
    for net in (isthmus.compile(file, profile="opencv"), isthmus.compile(code, X, profile="opencv")):
        found = ask(opencv, net, (X,))
        assert found is not None
        assert len(found) >= 2
        assert all(np.array_equal(each, want) for each, want in zip(found, (X, X.relu(), X), strict=False))
