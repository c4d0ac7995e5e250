"""Files that appear all at once or not at all: what every artefact's `save` writes with."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from isthmus.ir.errors import FileError, UsageError

_SEPARATORS: Final = tuple(filter(None, (os.sep, os.altsep)))
_ENDING: Final = ".prototxt.data"
"""As long as anything that a target adds to a name."""


def destination(path: str | os.PathLike[str]) -> Path:
    """A path that was given to save at.

    Raises:
        UsageError: it is no path.
        FileError: no file can have that name, or it is that of a folder.
    """
    try:
        name = os.fspath(path)
    except TypeError:
        name = path  # type: ignore[assignment]
    if not isinstance(name, str):
        raise UsageError("the place to save at is not a path", expected="text or a pathlib.Path", found=repr(path))
    try:
        possible = b"\0" not in os.fsencode(name) and Path(name).name not in ("", "..")
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise FileError(f"{name!r} is not the name of a file")
    if _is_long(name + _ENDING):
        raise FileError(f"the name {Path(name).name[:40]!r}... is too long for a file", remedy="choose a shorter one")
    # Targets add endings of their own, so that the folder itself would not be in their way.
    if name.endswith(_SEPARATORS) or os.path.isdir(name):
        example = os.path.join(name, "net")
        raise FileError(f"{name!r} is a folder, not a file to save as", remedy=f"name a file in it: {example!r}")
    return Path(name)


def _is_long(name: str) -> bool:
    try:
        os.lstat(name)
    except OSError as error:
        return error.errno == errno.ENAMETOOLONG
    return False


@contextmanager
def together(paths: Sequence[Path], gone: Sequence[Path] = ()) -> Iterator[list[BinaryIO]]:
    """Opens files beside their places and puts them there when all went well; else leaves nothing.

    Args:
        paths: the places.
        gone: files that were there with the old ones and have no successor; they go with them.

    A link is followed: the file that it leads to is replaced, the link stays. Of several files, old and new ones never
    stand together, whatever comes between: the old ones go aside first, the last one before the others, and the new last
    one comes last.

    Raises:
        FileError: a file could not be written, or what is there is not a file.
    """
    made: list[tuple[BinaryIO, Path, Path]] = []
    try:
        for path in map(_place, paths):
            beside = _beside(path)
            made.append((beside.open("xb"), beside, path))
        yield [file for file, _, _ in made]
        for file, _, _ in made:
            file.close()
        _put([(beside, path) for _, beside, path in made], [(_beside(path), path) for path in gone])
    except OSError as error:
        raise FileError(f"{paths[0]} could not be written: {error.strerror or error}") from error
    finally:
        for file, beside, _ in made:
            with suppress(OSError):  # on a full disk it cannot write what it still holds; the file goes anyway
                file.close()
            beside.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name[:200]}.{secrets.token_hex(4)}.part")


def _put(files: Sequence[tuple[Path, Path]], gone: Sequence[tuple[Path, Path]]) -> None:
    """Moves files to their places, each a pair of paths; an error, or an interrupt, puts back what was there."""
    several = len(files) + len(gone) > 1
    aside: list[tuple[Path, Path]] = []
    came: list[tuple[Path, Path]] = []
    try:
        for beside, path in (*reversed(files), *gone) if several else ():
            if path.exists():
                aside.append((beside.with_suffix(".old"), path))
                path.replace(aside[-1][0])
        for beside, path in files:
            came.append((beside, path))
            beside.replace(path)
    except BaseException:
        for beside, path in reversed(came):
            if not beside.exists() and several:
                path.unlink()
        for old, path in reversed(aside):
            if old.exists():
                old.replace(path)
        raise
    for old, _ in aside:
        old.unlink()


def _place(path: Path) -> Path:
    """Where a file's content is or will be; devices, pipes and folders are not replaced."""
    found = Path(os.path.realpath(path)) if path.is_symlink() else path
    if os.path.lexists(found) and not found.is_file():
        kind = "a folder" if found.is_dir() else "not a regular file"
        raise FileError(f"{path} could not be written: it is {kind}", remedy="save at another place")
    return found
