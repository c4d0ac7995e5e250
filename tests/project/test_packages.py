"""What is built is what a user should get: the package and the licence, and nothing of ours beside it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ["api", "ir", "frontends", "passes", "backends"]
FILES = ["pyproject.toml", "README.md", "LICENSE"]


def build(source: Path, kind: str, out: Path) -> Path:
    command = [sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = out.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return made


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository, so that building leaves nothing behind in it."""
    copy = tmp_path_factory.mktemp("source")
    for folder in [*ROOMS, "tests", "docs", "examples", "bench"]:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in FILES:
        shutil.copy(ROOT / file, copy / file)
    return copy


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return zipfile.ZipFile(build(source, "wheel", tmp_path_factory.mktemp("wheel"))).namelist()


def contents(pattern: str = "*") -> set[str]:
    """Every file of the rooms, under the name that it installs as."""
    found = set()
    for room in ROOMS:
        for path in (ROOT / room).rglob(pattern):
            inside = path.relative_to(ROOT / room).as_posix()
            if path.is_file() and "__pycache__" not in inside:
                found.add(f"isthmus/{inside}" if room == "api" else f"isthmus/{room}/{inside}")
    return found


def test_the_wheel_holds_every_file_of_the_rooms_and_nothing_else(wheel: list[str]) -> None:
    inside = {name for name in wheel if ".dist-info/" not in name}
    assert inside == contents()


def test_the_wheel_carries_the_licence(wheel: list[str]) -> None:
    assert [name for name in wheel if name.endswith("licenses/LICENSE")]
    assert all(name.startswith(("isthmus/", "isthmus-")) for name in wheel)


def test_the_source_archive_builds_the_same_wheel(source: Path, wheel: list[str], tmp_path: Path) -> None:
    with tarfile.open(build(source, "sdist", tmp_path / "sdist")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames() if "/" in name}
        archive.extractall(tmp_path, filter="data")
    assert "LICENSE" in names
    tops = {name.partition("/")[0] for name in names} - {"setup.cfg", "PKG-INFO", "isthmus.egg-info"}
    assert tops == {*ROOMS, *FILES}
    (unpacked,) = (path for path in tmp_path.glob("isthmus-*") if path.is_dir())
    again = zipfile.ZipFile(build(unpacked, "wheel", tmp_path / "again")).namelist()
    assert sorted(again) == sorted(wheel)


def test_every_folder_of_modules_is_declared() -> None:
    declared = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    assert declared == {name.rpartition("/")[0].replace("/", ".") for name in contents("*.py")}


def test_the_licence_is_whole() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
