"""What saving does to what is at the place already."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
import torch

import isthmus
from isthmus.backends.files import destination, together
from isthmus.ir.errors import FileError, UsageError


def _write(path: Path, content: bytes) -> None:
    with together([path]) as (file,):
        file.write(content)


@pytest.mark.parametrize("name", ["", ".", "/", "..", "a/..", "a\0b", "a\ud800"])
def test_names_that_no_file_has(name: str) -> None:
    with pytest.raises(FileError, match="is not the name of a file"):
        destination(name)


def test_a_folder_is_not_what_to_save_as(tmp_path: Path) -> None:
    for given in (f"{tmp_path}/new/", str(tmp_path), tmp_path):
        with pytest.raises(FileError) as caught:
            destination(given)
        assert caught.value.message == f"{str(given)!r} is a folder, not a file to save as"
        assert caught.value.remedy == f"name a file in it: {os.path.join(given, 'net')!r}"


@pytest.mark.parametrize("target", ["caffe", "onnx"])
def test_no_target_writes_beside_a_folder(target: str, tmp_path: Path) -> None:
    net = isthmus.compile(torch.nn.ReLU(), torch.randn(1, 2), target=target)
    (tmp_path / "there").mkdir()
    for given in ("new/", "there", "there/"):
        with pytest.raises(FileError, match="is a folder"):
            net.save(f"{tmp_path}/{given}")
    assert os.listdir(tmp_path) == ["there"]
    assert not os.listdir(tmp_path / "there")


@pytest.mark.parametrize("path", [None, 3, b"net.onnx"])
def test_what_is_no_path(path: Any) -> None:
    with pytest.raises(UsageError, match="not a path"):
        destination(path)


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = destination(str(tmp_path / "net"))
    for content in (b"first", b"second"):
        _write(path, content)
        assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["net"]


def test_a_long_name(tmp_path: Path) -> None:
    _write(tmp_path / ("n" * 250), b"content")
    assert os.listdir(tmp_path) == ["n" * 250]


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_followed(tmp_path: Path, there: bool) -> None:
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "target", tmp_path / "link"
    if there:
        target.write_bytes(b"old")
    link.symlink_to(target)
    _write(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert os.listdir(tmp_path / "far") == ["target"]


@pytest.mark.parametrize("by_link", [True, False])
def test_a_pipe_is_not_replaced(tmp_path: Path, by_link: bool) -> None:
    path = pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    if by_link:
        path = tmp_path / "link"
        path.symlink_to(pipe)
    with pytest.raises(FileError, match="not a regular file"):
        _write(path, b"content")
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)


def test_a_folder_or_a_circle_of_links_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="it is a folder"):
        _write(tmp_path, b"content")
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(FileError, match="could not be written"):
        _write(tmp_path / "a", b"content")


def test_an_error_leaves_the_old_files(tmp_path: Path) -> None:
    paths = [tmp_path / "one", tmp_path / "two"]
    for path in paths:
        path.write_bytes(b"old")

    def fail() -> None:
        with together(paths) as (first, _):
            first.write(b"new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == [b"old", b"old"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
@pytest.mark.parametrize("fails_at", range(4))
def test_files_of_before_and_of_now_never_stand_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int, error: Any
) -> None:
    paths = [tmp_path / "data", tmp_path / "model"]
    for path in paths:
        path.write_bytes(b"old")
    replace = Path.replace
    moves: list[set[bytes]] = []

    def watched(self: Path, target: Path) -> Path:
        moved = replace(self, target)
        moves.append({path.read_bytes() for path in paths if path.exists()})
        if len(moves) == fails_at + 1:
            raise error
        return moved

    monkeypatch.setattr(Path, "replace", watched)
    def save() -> None:
        with together(paths) as files:
            for file in files:
                file.write(b"new")

    with pytest.raises((KeyboardInterrupt, FileError)):
        save()
    assert all(len(found) < 2 for found in moves)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == dict.fromkeys(paths, b"old")


def test_several_files_replace_several(tmp_path: Path) -> None:
    paths = [tmp_path / "data", tmp_path / "model"]
    for content in (b"first", b"second"):
        with together(paths) as files:
            for file in files:
                file.write(content)
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == dict.fromkeys(paths, content)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device"), None])
@pytest.mark.parametrize("fails_at", range(3))
def test_a_file_without_a_successor_goes_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int, error: Any
) -> None:
    model, data = tmp_path / "model", tmp_path / "data"
    for path in (model, data):
        path.write_bytes(b"old")
    replace = Path.replace
    moves: list[list[bytes]] = []

    def watched(self: Path, target: Path) -> Path:
        moved = replace(self, target)
        moves.append([path.read_bytes() for path in (model, data) if path.exists()])
        if error is not None and len(moves) == fails_at + 1:
            raise error
        return moved

    monkeypatch.setattr(Path, "replace", watched)

    def save() -> None:
        with together([model], gone=[data]) as (file,):
            file.write(b"new")

    if error is None:
        save()
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == {model: b"new"}
    else:
        with pytest.raises((KeyboardInterrupt, FileError)):
            save()
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == {model: b"old", data: b"old"}
    assert [b"new", b"old"] not in moves


@pytest.mark.parametrize("length", [250, 300, 5000])
def test_a_name_that_is_too_long(length: int, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="is too long for a file"):
        destination(tmp_path / ("a" * length + ".onnx"))
    assert not list(tmp_path.iterdir())
