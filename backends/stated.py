"""What a reader of files takes, stated as data: TOML files that may extend one another, checked field by field."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from isthmus.ir.errors import FileError, UsageError


class Stated(BaseModel):
    """Some of what a file states: the fields that are known, and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)


T = TypeVar("T", bound=Stated)

_WORDS: Final = {"missing": "is missing", "extra_forbidden": "is nothing that a {} states"}


class Shelf(Generic[T]):
    """The files of one kind: those that come along, and a user's own.

    Args:
        noun: what such a file states, such as ``profile``.
        model: what it is read as.
        folder: the folder of those that come along.
        names: their names.
        grows: the table whose texts are added to those of the same names in the file that is extended, rather than replace
            them.
    """

    def __init__(self, noun: str, model: type[T], folder: Traversable, names: tuple[str, ...], grows: str = "") -> None:
        self._noun = noun
        self._model = model
        self._folder = folder
        self._names = names
        self._grows = grows
        self._known: dict[str, T] = {}
        self._expected = f"{any_of(names)}, or the path of a .toml file"

    def load(self, name: str) -> T:
        """What the file of a name states.

        Args:
            name: that of one that comes along, or the path of a file that ends in ``.toml``.

        Raises:
            UsageError: there is nothing of this name.
            FileError: the file, or one that it extends, cannot be read, is not TOML, or does not state what it should; with a
                line a problem.
        """
        if name in self._known:
            return self._known[name]
        if name not in self._names and not name.endswith(".toml"):
            raise UsageError(f"there is no {self._noun} {name!r}", expected=self._expected)
        data, source = self._data(name, Path(), ())
        try:
            found = self._model.model_validate(data)
        except ValidationError as error:
            lines = [f"{source}: {line}" for item in error.errors() for line in self._lines(item)]
            raise self._bad("\n".join(lines)) from None
        if name in self._names:
            self._known[name] = found
        return found

    def _bad(self, message: str, expected: str | None = None) -> FileError:
        model = self._model
        remedy = f"mend the file; {model.__module__}.{model.__name__} tells what a {self._noun} states"
        return FileError(message, expected=expected, remedy=remedy)

    def _lines(self, item: Any) -> Iterator[str]:
        """What is wrong, each with its field, in one error of pydantic's."""
        word = _WORDS.get(item["type"], "").format(self._noun)
        reason = item.get("ctx", {}).get("error") or word or f"{item['msg']}, not {item['input']!r}"
        place = ".".join(map(str, item["loc"]))
        yield from (f"{place}: {line}" if place else line for line in str(reason).splitlines())

    def _data(self, name: str, folder: Path, seen: tuple[str, ...]) -> tuple[dict[str, Any], str]:
        """The content of a file, with what it does not state taken from the one that it extends."""
        path: Traversable
        if name in self._names:
            path, source, folder = self._folder / f"{name}.toml", name, Path()
        elif name.endswith(".toml"):
            path = folder / name
            source, folder = str(path), path.parent
        else:
            raise self._bad(f"{seen[-1]}: extends: there is no {self._noun} {name!r}", self._expected)
        if source in seen:
            raise self._bad(f"{seen[0]}: extends: the {self._noun} {source} extends itself: {' -> '.join((*seen, source))}")
        try:
            data = tomllib.loads(path.read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise self._bad(f"the {self._noun} {source} could not be read: {error}") from None
        except tomllib.TOMLDecodeError as error:
            raise self._bad(f"the {self._noun} {source} is not TOML: {error}") from None
        parent = data.get("extends")
        if not isinstance(parent, str):
            return data, source
        inherited, _ = self._data(parent, folder, (*seen, source))
        merged = {**inherited, **data}
        for key, old in inherited.items():
            own = merged[key]
            if isinstance(old, dict) and isinstance(own, dict):
                merged[key] = {**old, **own}
                if key == self._grows and own is not old:
                    merged[key] |= {
                        each: f"{text} {own[each]}" for each, text in old.items() if isinstance(own.get(each), str)
                    }
        return merged, source


def any_of(items: Iterable[Any]) -> str:
    """Some things in words: ``a, b or c``."""
    *most, last = map(str, items)
    return f"{', '.join(most)} or {last}" if most else last
