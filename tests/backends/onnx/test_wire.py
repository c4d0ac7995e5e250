"""The wire writer against protobuf's own reader, and files that appear whole or not at all."""

from __future__ import annotations

import hashlib
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from emitted import Model
from onnx import numpy_helper

from isthmus.backends.onnx import OnnxBackend, OnnxOptions, wire
from isthmus.backends.onnx.artefact import OnnxArtefact
from isthmus.ir import ArrayWeight, Builder, Graph, LazyWeight, MappedWeight, Tensor, Weight, weight
from isthmus.ir.dtypes import f32
from isthmus.ir.errors import EvaluationError, FileError
from isthmus.ir.protobuf_wire import collect, varint


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 2**31, 2**63 - 1])
def test_varint(number: int) -> None:
    written = varint(number)
    assert sum((byte & 127) << 7 * place for place, byte in enumerate(written)) == number
    assert [byte >> 7 for byte in written] == [1] * (len(written) - 1) + [0]


WEIGHTS = [
    np.arange(6, dtype=np.float32).reshape(2, 3), np.float64(3.5), np.zeros((0, 4), np.int64), np.array([True, False]),
    np.arange(8).astype(ml_dtypes.bfloat16), np.arange(-3, 4).astype(ml_dtypes.int4), np.array(["a", "bc"], object),
    np.arange(12, dtype=np.int16).reshape(3, 4).T, np.arange(300, dtype=np.uint8), np.ones(3, np.complex64),
]  # fmt: skip


@pytest.mark.parametrize("array", WEIGHTS, ids=lambda array: f"{array.dtype}{list(array.shape)}")
def test_weights_are_read_back(array: Any) -> None:
    model = onnx.ModelProto(ir_version=10, producer_name="test")
    graph = onnx.GraphProto(name="g")
    graph.initializer.append(numpy_helper.from_array(np.ones(2), "before"))
    content = collect(lambda out: wire.write_model(out, model, graph, {"w": weight(array), "v": weight(np.int32(7))}))
    read = onnx.ModelProto.FromString(content)
    assert [item.name for item in read.graph.initializer] == ["before", "w", "v"]
    found = numpy_helper.to_array(read.graph.initializer[1])
    assert found.shape == array.shape
    assert found.tolist() == array.tolist()
    assert (read.ir_version, read.producer_name, read.graph.name) == (10, "test", "g")


def _linear(*weights: Weight, **options: Any) -> OnnxArtefact:
    """A model that multiplies by matrices, one after the other."""
    graph = Graph()
    b = Builder(graph)
    x = graph.add_input(Tensor(f32, (2, weights[0].shape[0])), "x")
    y = x
    for number, handle in enumerate(weights):
        y = b.matmul(y, b.constant(handle, name=f"w{number}"))
    graph.set_outputs([y])
    return OnnxBackend(OnnxOptions(**options)).emit(graph)


def _matrix(size: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal((size, size)).astype(np.float32)


def test_one_file(tmp_path: Path) -> None:
    matrix = _matrix(20)
    paths = _linear(ArrayWeight(matrix)).save(tmp_path / "net.onnx")
    assert paths == [tmp_path / "net.onnx"]
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]
    assert np.array_equal(numpy_helper.to_array(onnx.load(paths[0]).graph.initializer[0]), matrix)


def test_external_data(tmp_path: Path) -> None:
    matrices = [_matrix(20, seed) for seed in range(3)]
    artefact = _linear(*map(ArrayWeight, matrices), external_data="always")
    model, data = artefact.save(tmp_path / "net.onnx")
    assert (model.name, data.name) == ("net.onnx", "net.onnx.data")
    assert model.stat().st_size < 2000
    onnx.checker.check_model(str(model), full_check=True)
    bare = onnx.load(model, load_external_data=False)
    offsets = [int({entry.key: entry.value for entry in item.external_data}["offset"]) for item in bare.graph.initializer]
    assert [offset % wire.ALIGNMENT for offset in offsets] == [0, 0, 0]
    read = [numpy_helper.to_array(item).tolist() for item in onnx.load(model).graph.initializer]
    assert read == [matrix.tolist() for matrix in matrices]
    import onnxruntime

    x = np.ones((2, 20), np.float32)
    (found,) = onnxruntime.InferenceSession(model).run(None, {"x": x})
    assert np.allclose(found, artefact.run([x])[0], rtol=1e-5)


def test_a_second_file_goes_when_the_new_model_has_none(tmp_path: Path) -> None:
    weight = ArrayWeight(_matrix(20))
    outside, inside = _linear(weight, external_data="always"), _linear(weight, external_data="never")
    outside.save(tmp_path / "net.onnx")
    assert inside.files(tmp_path / "net.onnx") == [tmp_path / "net.onnx", tmp_path / "net.onnx.data"]
    assert inside.save(tmp_path / "net.onnx") == [tmp_path / "net.onnx"]
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]


@pytest.mark.parametrize("case", ["inside", "another's", "elsewhere", "no model", "no file", "link"])
def test_a_file_beside_the_model_that_is_not_its_own_stays(tmp_path: Path, case: str) -> None:
    path, data = tmp_path / "net.onnx", tmp_path / "net.onnx.data"
    artefact = _linear(ArrayWeight(_matrix(20)), external_data="never" if case == "inside" else "always")
    artefact.save(path)
    model = onnx.load(path, load_external_data=False)
    if case == "another's":
        model.producer_name = "pytorch"
    elif case == "elsewhere":
        extra = model.graph.initializer.add()
        extra.CopyFrom(wire.external("more", ArrayWeight(_matrix(20)), "more.data", 0))
    path.write_bytes(b"not a model" if case == "no model" else model.SerializeToString())
    if case == "no file":
        path.unlink()
    if case == "link":
        data.rename(tmp_path / "far")
        data.symlink_to(tmp_path / "far")
    else:
        data.write_bytes(b"the user's")
    kept = data.read_bytes()
    assert _linear(ArrayWeight(_matrix(20))).save(path) == [path]
    assert data.read_bytes() == kept


@pytest.mark.parametrize("name", ["back\\slash.onnx", "a..b.onnx", "..net", "net.", "n\udcff.onnx"])
def test_names_that_readers_do_not_take_for_weights(tmp_path: Path, name: str) -> None:
    weight = ArrayWeight(_matrix(20))
    with pytest.raises(FileError, match="readers of ONNX do not take"):
        _linear(weight, external_data="always").save(tmp_path / name)
    assert not list(tmp_path.iterdir())
    (path,) = _linear(weight).save(tmp_path / name)
    assert path.exists()


@pytest.mark.parametrize("name", [" net.onnx", "a:b.onnx", "n\u00e9t.onnx", ".net"])
def test_names_that_readers_take_for_weights(tmp_path: Path, name: str) -> None:
    model, _ = _linear(ArrayWeight(_matrix(20)), external_data="always").save(tmp_path / name)
    onnx.checker.check_model(str(model), full_check=True)


def test_small_weights_stay_inside(tmp_path: Path) -> None:
    paths = _linear(ArrayWeight(_matrix(4)), external_data="always").save(tmp_path / "net.onnx")
    assert len(paths) == 1


class Huge(Weight):
    """Claims to be large, and has nothing to show."""

    __slots__ = ()

    @property
    def key(self) -> Any:
        return id(self)

    def array(self) -> Any:
        raise AssertionError("nobody may ask for the whole")

    def rows(self, start: int, stop: int) -> Any:
        raise AssertionError("nobody may ask for a part")

    def chunks(self) -> Iterator[memoryview]:
        yield memoryview(b"")


def test_large_models_go_outside_by_themselves_or_are_refused(tmp_path: Path) -> None:
    huge = Huge(f32, (1 << 15, 1 << 15), "huge")
    assert list(_linear(huge)._outside()) == ["w0"]
    with pytest.raises(FileError, match=r"2 GB at most(.|\n)*external_data"):
        _linear(huge, external_data="never").save(tmp_path / "net.onnx")
    assert list(tmp_path.iterdir()) == []


class Failing(ArrayWeight):
    """A weight whose source goes away in the middle."""

    __slots__ = ()

    def chunks(self) -> Iterator[memoryview]:
        yield next(iter(super().chunks()))[:100]
        raise OSError(5, "Input/output error")


class Short(ArrayWeight):
    """A weight that has fewer bytes than it says."""

    __slots__ = ()

    def chunks(self) -> Iterator[memoryview]:
        yield next(iter(super().chunks()))[:100]


@pytest.mark.parametrize("external", ["never", "always"])
@pytest.mark.parametrize(("kind", "text"), [(Failing, "Input/output error"), (Short, "gave 100 bytes")])
def test_nothing_is_left_of_a_failed_save(tmp_path: Path, external: str, kind: type[ArrayWeight], text: str) -> None:
    path = tmp_path / "net.onnx"
    path.write_text("the file of before")
    artefact = _linear(ArrayWeight(_matrix(20)), kind(_matrix(20, 1)), external_data=external)
    with pytest.raises(FileError, match=text):
        artefact.save(path)
    assert [(found.name, found.read_text()) for found in tmp_path.iterdir()] == [("net.onnx", "the file of before")]


def test_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"nowhere/net.onnx could not be written: No such file"):
        _linear(ArrayWeight(_matrix(4))).save(tmp_path / "nowhere" / "net.onnx")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(FileError, match="Permission denied"):
        _linear(ArrayWeight(_matrix(4))).save(tmp_path / "net.onnx")


def test_path_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").mkdir()
    with pytest.raises(FileError, match="is a folder"):
        _linear(ArrayWeight(_matrix(4))).save(tmp_path / "net.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]


def test_files_get_the_usual_permissions(tmp_path: Path) -> None:
    (path,) = _linear(ArrayWeight(_matrix(4))).save(tmp_path / "net.onnx")
    (tmp_path / "other").touch()
    assert path.stat().st_mode == (tmp_path / "other").stat().st_mode


class Interrupted(ArrayWeight):
    """A weight at which the user loses patience."""

    __slots__ = ()

    def chunks(self) -> Iterator[memoryview]:
        yield next(iter(super().chunks()))[:100]
        raise KeyboardInterrupt


@pytest.mark.parametrize("external", ["never", "always"])
def test_nothing_is_left_of_an_interrupted_save(tmp_path: Path, external: str) -> None:
    paths = [tmp_path / "net.onnx", tmp_path / "net.onnx.data"]
    for path in paths:
        path.write_text("before")
    with pytest.raises(KeyboardInterrupt):
        _linear(Interrupted(_matrix(20)), external_data=external).save(paths[0])
    assert {path: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(paths, "before")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Path.open

    def full(path: Path, *arguments: Any) -> Any:
        path.touch()
        return opened(Path("/dev/full"), "wb")

    monkeypatch.setattr(Path, "open", full)
    artefact = _linear(ArrayWeight(_matrix(20)), external_data="always")
    with pytest.raises(FileError, match="could not be written: No space left on device"):
        artefact.save(tmp_path / "net.onnx")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("isthmus.backends.onnx.artefact.IN_MEMORY", 0)
    with pytest.raises(FileError, match=r"No space left on device(.|\n)*takes 0 MB of room there; TMPDIR"):
        artefact.run([np.ones((2, 20), np.float32)])


def test_checksums_are_of_the_file_and_are_held_against_it(tmp_path: Path) -> None:
    matrices = [ArrayWeight(_matrix(20, seed)) for seed in range(2)]
    path, data = _linear(*matrices, external_data="always", checksum=True).save(tmp_path / "net.onnx")
    told = [{entry.key: entry.value for entry in item.external_data} for item in _bare(path)]
    assert [entry["checksum"] for entry in told] == [hashlib.sha1(data.read_bytes()).hexdigest()] * 2
    onnx.checker.check_model(str(path), full_check=True)
    x = np.ones((2, 20), np.float32)
    np.testing.assert_allclose(OnnxBackend().load(path)([x])[0], x @ _matrix(20) @ _matrix(20, 1), rtol=1e-4)
    content = bytearray(data.read_bytes())
    content[5000] ^= 1
    data.write_bytes(content)
    with pytest.raises(FileError, match=r"net\.onnx\.data does not hold the weights that net\.onnx was written with"):
        OnnxBackend().load(path)
    data.unlink()
    with pytest.raises(FileError, match=r"net\.onnx\.data, which holds weights, cannot be read"):
        OnnxBackend().load(path)


def test_no_checksums_unless_asked_for(tmp_path: Path) -> None:
    path, _ = _linear(ArrayWeight(_matrix(20)), external_data="always").save(tmp_path / "net.onnx")
    assert [entry.key for entry in _bare(path)[0].external_data] == ["location", "offset", "length"]


def _bare(path: Path) -> Any:
    return onnx.load(path, load_external_data=False).graph.initializer


def test_large_models_run_from_a_file_that_is_gone_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isthmus.backends.onnx.artefact.IN_MEMORY", 0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for handle in (ArrayWeight(_matrix(20)), LazyWeight(f32, (20, 20), np.negative, [weight(-_matrix(20))], "negative")):
        artefact = _linear(handle, external_data="never")
        x = np.ones((2, 20), np.float32)
        for _ in range(2):
            np.testing.assert_allclose(artefact.run([x])[0], x @ _matrix(20), rtol=1e-4)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("external", ["never", "always"])
def test_saving_takes_little_memory(tmp_path: Path, external: str) -> None:
    matrix = np.zeros((2048, 2048), np.float32)  # 16 MB
    scale = ArrayWeight(np.ones(2048, np.float32))
    lazy = LazyWeight(f32, matrix.shape, np.multiply, [ArrayWeight(matrix), scale], "scaled", elementwise=True)
    artefact = _linear(ArrayWeight(matrix), lazy, external_data=external)
    tracemalloc.start()
    artefact.save(tmp_path / "net.onnx")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * matrix.nbytes / 10


def test_transposed_weight_is_streamed(tmp_path: Path) -> None:
    matrix = np.random.default_rng(0).standard_normal((1024, 2048)).astype(np.float32)  # 8 MB
    graph = Graph()
    b = Builder(graph)
    x = graph.add_input(Tensor(f32, (1, 2, 2048)), "x")
    graph.set_outputs([b.linear(x, b.constant(matrix), None)])
    artefact = OnnxBackend().emit(graph)
    tracemalloc.start()
    (path,) = artefact.save(tmp_path / "net.onnx")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 << 20
    assert np.array_equal(numpy_helper.to_array(onnx.load(path).graph.initializer[0]), matrix.T)


def test_saving_over_the_file_that_the_weights_are_in(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    arrays = [np.arange(600, dtype=np.float32), -np.arange(600, dtype=np.float32)]
    path.write_bytes(b"".join(array.tobytes() for array in arrays))
    m = Model()
    x = m.input(600)
    for place in range(2):
        x = m.b.add(x, m.b.constant(MappedWeight(path, 2400 * place, f32, (600,), f"w{place}")))
    artefact = m.emit(x)
    artefact.save(path)
    held = {each.name: numpy_helper.to_array(each) for each in onnx.load(path).graph.initializer}
    np.testing.assert_array_equal(held["w0"], arrays[0])
    np.testing.assert_array_equal(held["w1"], arrays[1])
    saved = path.read_bytes()
    with pytest.raises(FileError, match=r"net\.onnx, which holds the weight 'w0', has changed since it was read"):
        artefact.save(path)
    assert path.read_bytes() == saved


@pytest.mark.parametrize("name", ["model.json", "model.prototxt", "model.txt"])
def test_what_is_no_model_file_is_said_so_whatever_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"layer": 1}')
    with pytest.raises(EvaluationError, match="refuses the model"):
        OnnxBackend(OnnxOptions()).load(tmp_path / name)
