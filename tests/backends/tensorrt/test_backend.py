"""Options, errors and files of the target."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tensorrt_rtx
import torch
from tensorrt_reader import evaluate

import isthmus
from isthmus.backends import registry
from isthmus.backends.tensorrt import TensorRTBackend, TensorRTOptions, library, runtime
from isthmus.errors import FileError, IsthmusError, UnavailableError, UnsupportedError, UsageError, VerifyError


def linear(**options: Any) -> isthmus.Compiled:
    return isthmus.compile(torch.nn.Linear(3, 4), torch.randn(2, 3), target="tensorrt", **options)


def test_it_is_found() -> None:
    assert registry.find("tensorrt") is TensorRTBackend


# ---- what is missing


def test_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt_rtx", None)
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    with pytest.raises(UsageError, match="TensorRT is not installed") as caught:
        linear()
    assert "pip install 'isthmus[tensorrt]'" in str(caught.value)


def test_the_other_package_is_taken_where_it_is_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    other = types.ModuleType("tensorrt")
    other.__dict__.update({name: value for name, value in vars(tensorrt_rtx).items() if name != "ComputeCapability"})
    monkeypatch.setitem(sys.modules, "tensorrt_rtx", None)
    monkeypatch.setitem(sys.modules, "tensorrt", other)
    net = linear(targets=["sm90"])  # that module has no list of GPUs
    x = torch.randn(2, 3)
    artefact: Any = net.artefact
    assert artefact.trt is other
    np.testing.assert_allclose(evaluate(artefact, [x.numpy()])[0], net.captured.eager((x,), {})[0], rtol=1e-5)


def test_only_the_named_package_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    with pytest.raises(UsageError, match="TensorRT is not installed"):
        linear(library="tensorrt")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_it_says_so() -> None:
    net = linear()
    for ask in (lambda: net(torch.randn(2, 3)), net.verify):
        with pytest.raises(UnavailableError, match="NVIDIA GPU") as caught:
            ask()
        assert "net.save" in str(caught.value)


def test_without_torch_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UnavailableError, match="torch, which is not installed"):
        runtime.need_gpu()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.bool_, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_buffers(dtype: Any) -> None:
    array = np.array([[1, 0, 2]]).astype(dtype)
    back = runtime.to_array(runtime.to_tensor(array))
    assert back.dtype == array.dtype
    assert back.tobytes() == array.tobytes()


# ---- options


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"targets": ["sm90"]}, "nothing for sm90"),
        ({"targets": []}, "at least one GPU"),
        ({"targets": ["sm86", "sm86"]}, "each once"),
        ({"max": {"N": -1}}, "greater than or equal to 0"),
        ({"max": {"N": True}}, "should be a valid integer"),
        ({"max": {"N": 2**31}}, "less than or equal to 2147483647"),
        ({"optimization_level": 9}, "less than or equal to 5"),
        ({"workspace": 0}, "greater than 0"),
        ({"library": "trt"}, "tensorrt_rtx"),
        ({"precision": "fp16"}, "there is no option precision"),
    ],
)
def test_wrong_options(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        linear(**options)


def test_options_reach_tensorrt() -> None:
    net = linear(workspace=1 << 26, optimization_level=1, verbose=True)
    artefact: Any = net.artefact
    assert artefact.config.get_memory_pool_limit(tensorrt_rtx.MemoryPoolType.WORKSPACE) == 1 << 26
    assert artefact.config.builder_optimization_level == 1
    artefact.validate()
    assert any(line.startswith("[VERBOSE]") for line in artefact.lines)


# ---- refusals and failures


class Nonzero(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nonzero(x).double()


def test_everything_that_is_refused_comes_with_its_place() -> None:
    with pytest.raises(UnsupportedError) as caught:
        isthmus.compile(Nonzero(), torch.randn(2, 3), target="tensorrt")
    text = str(caught.value)
    assert "nonzero: the sizes of its result depend on data" in text
    assert "cast: TensorRT has no tensors of f64" in text
    assert text.count("test_backend.py:") == 2
    assert "remedy: keep the size and mask what does not count" in text
    assert "remedy: give the model and its inputs in float32: model.float()" in text


def test_a_size_that_must_be_known_can_be_fixed() -> None:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.topk(x, x.shape[0])[0]

    x, sizes = torch.randn(2, 8), {"x": {0: "N"}}
    with pytest.raises(UnsupportedError, match="leave N out of dynamic_shapes"):
        isthmus.compile(Net(), x, target="tensorrt", dynamic_shapes=sizes)
    isthmus.compile(Net(), x, target="tensorrt")


def test_an_input_of_a_type_that_tensorrt_lacks() -> None:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + 1

    with pytest.raises(IsthmusError, match="TensorRT has no tensors of f64"):
        isthmus.compile(Net(), (torch.randn(2), torch.randn(2).double()), target="tensorrt")


def test_an_engine_that_cannot_be_built_fails_with_the_words_of_tensorrt(tmp_path: Path) -> None:
    net = linear(targets=["sm75"])  # whose matrix products are not in float32
    with pytest.raises(VerifyError, match="cannot build an engine for sm75") as caught:
        net.save(tmp_path / "net.engine")
    assert "FP32" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_saving(tmp_path: Path) -> None:
    net = linear()
    path = tmp_path / "net.engine"
    path.write_bytes(b"old")
    assert net.save(path) == [path]
    assert path.stat().st_size > 1000
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileError, match="could not be written: No such file"):
        net.save(tmp_path / "nowhere" / "net.engine")
    with pytest.raises(FileError, match="is a folder"):
        net.save(tmp_path)
    assert list(tmp_path.iterdir()) == [path]


def test_checks_and_prints_are_noted() -> None:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch._assert_async((x > 0).all(), "must be positive")
            return x + 1

    net = isthmus.compile(Net(), torch.rand(2), target="tensorrt")
    assert any("must be positive" in note for note in net.report.notes)


def test_constants_count_as_no_operations() -> None:
    assert linear().artefact.node_count == 2


# ---- the log


def test_what_tensorrt_says_is_made_readable() -> None:
    said = ("ITensor::getDimensions: Error Code 4: API Usage Error ((Unnamed Layer* 0) [Unary]: input has type Int32 "
            "but must have type Float)")  # fmt: skip
    assert library.plain(said) == "Unary: input has type Int32 but must have type Float"
    assert library.plain("something else") == "something else"


def test_there_is_one_log_for_all() -> None:
    assert library.log(tensorrt_rtx) is library.log(tensorrt_rtx)
    assert TensorRTOptions().targets == ("sm86", "sm89")
