"""Models that compute with complex numbers and Fourier transforms, compiled, run, saved and read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import isthmus
from isthmus.backends.onnx import OnnxBackend
from isthmus.backends.onnx.runtime import COMPLEX
from isthmus.errors import UnsupportedError


class LogMel(nn.Module):
    """The front end of a speech recogniser."""

    def __init__(self, n_fft: int = 400, hop: int = 160) -> None:
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("filters", torch.rand(80, n_fft // 2 + 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spectrum = torch.stft(x, self.n_fft, self.hop, window=self.window, return_complex=True)
        mel = self.filters @ spectrum.abs() ** 2
        return torch.clamp(mel, min=1e-10).log10()


class SpectralConv(nn.Module):
    """The layer of a Fourier neural operator: the lowest frequencies are mixed by complex weights."""

    def __init__(self, modes: int = 5) -> None:
        super().__init__()
        self.modes = modes
        self.low = nn.Parameter(torch.randn(3, 4, modes, modes, dtype=torch.cfloat))
        self.high = nn.Parameter(torch.randn(3, 4, modes, modes, dtype=torch.cfloat))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, _, height, width = x.shape
        m, spectrum = self.modes, torch.fft.rfft2(x)
        out = torch.zeros(batch, 4, height, width // 2 + 1, dtype=torch.cfloat)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :m, :m], self.low)
        out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -m:, :m], self.high)
        return torch.fft.irfft2(out, s=(height, width))


class Masked(nn.Module):
    """A source separator: a mask on the spectrogram, and back to the signal."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = torch.stft(x, 64, 16, window=self.window, return_complex=True)
        mask = torch.sigmoid(z.abs() - 1)
        return torch.istft(z * mask, 64, 16, window=self.window)


class Rotary(nn.Module):
    """Positions as turns of pairs, as in the first LLaMA."""

    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(64).float(), 1 / 10000 ** (torch.arange(0, 8, 2) / 8))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * self.turns[: x.shape[1], None]).flatten(3).type_as(x)


class Complex(nn.Module):
    """Complex numbers in and out."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 5, dtype=torch.cfloat))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        z = x @ self.weight
        return z, {"size": z.abs(), "same": x, "sum": (y + x).conj()}


DYNAMIC: dict[str, tuple[nn.Module, torch.Tensor, dict[int, Any]]] = {
    "mel": (LogMel(), torch.randn(2, 4000), {0: "B", 1: torch.export.Dim("T", min=400)}),
    "long_windows": (LogMel(2048, 512), torch.randn(1, 6000), {0: "B", 1: torch.export.Dim("T", min=2048)}),
    "spectral_conv": (SpectralConv(), torch.randn(2, 3, 16, 18), {0: "B"}),
    "masked": (Masked(), torch.randn(2, 640), {0: "B", 1: torch.export.Dim("T", min=64)}),
    "rotary": (Rotary(), torch.randn(2, 6, 2, 8), {0: "B", 1: torch.export.Dim("S", max=64)}),
}


@pytest.mark.parametrize("opset", [13, 17, 20])
@pytest.mark.parametrize("name", DYNAMIC)
def test_models_at_open_sizes(name: str, opset: int) -> None:
    model, x, dims = DYNAMIC[name]
    net = isthmus.compile(model.eval(), (x,), opset=opset, dynamic_shapes={"x": dims}, verify_ir=True)
    assert net.verify(seeds=3).worst < 1e-5
    net.artefact.validate()


@pytest.mark.parametrize("opset", [17, 20])
def test_transforms_of_open_length(opset: int) -> None:
    """In double precision where onnxruntime's kernel needs it: its own single precision loses two digits here."""
    dims = {"x": {0: "B", 2: torch.export.Dim("H", min=10), 3: torch.export.Dim("W", min=10)}}
    net = isthmus.compile(SpectralConv().eval(), (torch.randn(2, 3, 16, 18),), opset=opset, dynamic_shapes=dims)
    assert net.verify().worst < 1e-5
    x = torch.randn(1, 3, 97, 101)
    np.testing.assert_allclose(net(x), net.captured.eager((x,))[0], atol=1e-4)
    assert "DFT" in net.artefact.op_counts


def test_signals_put_together_as_long_as_they_were() -> None:
    window = torch.hann_window(32)

    def model(x: torch.Tensor) -> Any:
        z, length = torch.stft(x, 32, 8, window=window, return_complex=True), x.shape[1]
        named = torch.istft(input=z, n_fft=32, hop_length=8, window=window, length=length + 3)
        return torch.istft(z, 32, 8, window=window, length=length), named, z.istft(32, 8, window=window, length=length - 5)

    net = isthmus.compile(model, torch.randn(2, 200), dynamic_shapes={"x": {0: "N", 1: "T"}})
    assert not net.report.assumptions
    for x in (torch.randn(1, 101), torch.randn(3, 96)):
        for ours, theirs in zip(net(x), model(x), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_below_opset_17_a_transform_of_open_length_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"dft: it needs opset 17(.|\n)*choose opset >= 17"):
        isthmus.compile(lambda x: torch.fft.fft(x), (torch.randn(8),), opset=13, dynamic_shapes={"x": {0: "N"}})


@pytest.mark.parametrize("opset", [13, 20])
@pytest.mark.parametrize("length", [1009, 1200, 4096])
def test_long_transforms(length: int, opset: int) -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            z = torch.fft.fft(x, norm="ortho")
            return z, torch.fft.ifft(z), torch.fft.irfft(torch.fft.rfft(x.real), n=length)

    net = isthmus.compile(Model(), (torch.randn(2, length, dtype=torch.cfloat),), opset=opset)
    assert net.verify().worst < 3e-6
    assert net.report.weights_bytes < (1 << 24) + (1 << 26) * (length == 1009)  # a prime, which has no factors


def test_a_window_is_one_convolution() -> None:
    net = isthmus.compile(LogMel().eval(), (torch.randn(2, 4000),), dynamic_shapes={"x": {1: torch.export.Dim("T", min=400)}})
    counts = net.artefact.op_counts
    assert counts["Conv"] == 1
    assert not counts.keys() & {"Sqrt", "ReduceL2", "Gather", "Shape"}


def test_complex_numbers_go_in_and_come_out(tmp_path: Path) -> None:
    model, x, y = Complex(), torch.randn(3, 4, dtype=torch.cfloat), torch.randn(4, dtype=torch.cfloat)
    net = isthmus.compile(model, (x, y), output_names=["z"])
    wanted, found = model(x, y), net(x, y)
    torch.testing.assert_close(found, tuple(wanted))
    assert net.verify().ok
    assert net.report.inputs == {"x": "c64[3, 4]", "y": "c64[4]"}
    (note,) = (note for note in net.report.notes if "complex" in note)
    assert "the inputs x, y and the outputs z, " in note
    # In the file they are pairs.
    path = net.save(tmp_path / "net.onnx")[0]
    file = onnx.load(path)
    shapes = {
        value.name: (value.type.tensor_type.elem_type, [dim.dim_value for dim in value.type.tensor_type.shape.dim])
        for value in (*file.graph.input, *file.graph.output)
    }
    assert shapes["x"] == (onnx.TensorProto.FLOAT, [3, 4, 2])
    assert shapes["z"] == (onnx.TensorProto.FLOAT, [3, 5, 2])
    assert not {"Identity"} & {node.op_type for node in file.graph.node if node.output[0] == "z"}
    told = json.loads(next(item.value for item in file.metadata_props if item.key == COMPLEX))
    assert told["inputs"] == ["x", "y"]
    assert len(told["outputs"]) == 3
    loaded = OnnxBackend().load(path)([x.numpy(), y.numpy()])
    for mine, theirs in zip(loaded, net.captured.eager((x, y)), strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore:Complex modules are a new feature:UserWarning")
def test_double_precision() -> None:
    model, x = Complex().to(torch.cdouble), torch.randn(3, 4, dtype=torch.cdouble)
    net = isthmus.compile(model, (x, x[0]))
    assert net.verify().worst < 1e-14
    assert net(x, x[0])[0].dtype is torch.complex128


def test_the_reference_computes_with_complex_numbers() -> None:
    x = torch.randn(3, 4, dtype=torch.cfloat)
    net = isthmus.compile(Complex(), (x, x[0]), target="reference")
    assert net.verify().ok
    assert "view_as_real" not in str(net.graph)


def test_modules_kept_whole_and_branches() -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Rotary()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            z = torch.view_as_complex(self.inner(x).unflatten(-1, (-1, 2)))
            return torch.cond(z.real.sum() > 0, lambda z: z * 1j, lambda z: z.conj() + 1, (z,))

    for keep in (False, True):
        net = isthmus.compile(Outer(), (torch.randn(2, 6, 2, 8),), coarse=("Rotary",), keep_functions=keep)
        assert net.verify().ok


@pytest.mark.parametrize("target", ["tensorrt", "caffe"])
def test_complex_numbers_inside_need_nothing_of_a_target(target: str) -> None:
    class Power(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fft.rfft(x).abs() ** 2

    if target == "tensorrt":
        pytest.importorskip("tensorrt")
    assert isthmus.compile(Power(), (torch.randn(2, 16),), target=target).artefact.node_count
    with pytest.raises(UnsupportedError, match=r"input input_0.*: (TensorRT|Caffe) has"):
        isthmus.compile(torch.neg, (torch.randn(2, 3, dtype=torch.cfloat),), target=target)


def test_what_has_no_form_is_refused_with_its_line() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x.asinh()

    with pytest.raises(UnsupportedError, match="on complex numbers cannot be carried over to onnx") as caught:
        isthmus.compile(model, (torch.randn(3, dtype=torch.cfloat),))
    (refusal,) = caught.value.refusals
    assert (refusal.op, refusal.message) == ("asinh", "it has no form of pairs of real numbers")
    assert refusal.location is not None
    assert refusal.location.file.endswith("test_spectral.py")
