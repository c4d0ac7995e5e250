"""Dialects: what one reader of Caffe files takes, stated as data.

A dialect is a TOML file: the layer types it knows, the fields, values, ranks and numbers of blobs that each takes, and the
fields that its schema has besides the common ones. One that `extends` another states only what differs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from isthmus.backends.caffe import schema
from isthmus.backends.caffe.schema import Message, Schema
from isthmus.ir import dtypes
from isthmus.ir.errors import FileError

BUILT_IN: Final = ("bvlc", "mnn", "opencv", "portable")

Scalar = bool | int | float | str


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LayerRule(_Data):
    """What a dialect takes of one layer type.

    Attributes:
        fields: the parameters that may be there.
        required: those that must be.
        values: the only values that a parameter may have.
        single: parameters that repeat by the schema and may be there once.
        ranks: the ranks that the first bottom may have; empty for any up to the dialect's.
        bottoms: how few and how many bottoms.
        tops: how few and how many tops.
        blobs: the numbers of blobs that it may have.
    """

    fields: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    values: dict[str, tuple[Scalar, ...]] = Field(default_factory=dict)
    single: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    bottoms: tuple[int, int] = (1, 1)
    tops: tuple[int, int] = (1, 1)
    blobs: tuple[int, ...] = (0,)


class Pooling(_Data):
    """How a dialect pools. All round the number of windows up unless told otherwise.

    Attributes:
        floor: the parameters that tell it to round down; empty where nothing does.
        padded_average: whether the readers agree that an average counts the padding, too.
    """

    floor: dict[str, Scalar] = Field(default_factory=dict)
    padded_average: bool


class Dialect(_Data):
    """What one reader, or every one of several, takes.

    Attributes:
        name: its name.
        about: which readers it is for.
        dtypes: element types that blobs may have.
        max_rank: the greatest rank of a blob.
        batch: whether axis 0 is always passed through as it is (``kept``), or is an axis like the others (``free``).
        batch_varies: whether the size of axis 0 may differ from run to run.
        pooling: how it pools.
        layers: what it takes of each layer type.
        messages: further fields of its schema, in the notation of `isthmus.backends.caffe.schema`.
        enums: further enums.
        parameters: the field of LayerParameter for layer types that the common schema does not know.
    """

    name: str
    about: str
    extends: str | None = None
    dtypes: tuple[str, ...]
    max_rank: int = Field(ge=1)
    batch: Literal["kept", "free"]
    batch_varies: bool = False
    pooling: Pooling
    layers: dict[str, LayerRule]
    messages: dict[str, str] = Field(default_factory=dict)
    enums: dict[str, str] = Field(default_factory=dict)
    parameters: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> Dialect:
        unknown = [name for name in self.dtypes if not dtypes.is_dtype(name)]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is not an element type")
        for type, rule in self.layers.items():
            table = self._parameters(type)
            floor = self.pooling.floor if type == "Pooling" else ()
            named = {*rule.fields, *rule.required, *rule.values, *rule.single, *floor}
            strange = sorted(named - table.keys())
            if strange:
                known = ", ".join(table) or "none"
                raise ValueError(f"the schema has no parameter {', '.join(strange)} of {type}: it has {known}")
        return self

    @cached_property
    def format(self) -> Schema:
        """The messages and fields of its files."""
        return schema.base().extended(self.messages, self.enums, f"dialect {self.name}")

    def parameter_field(self, type: str) -> str | None:
        """The field of LayerParameter with a layer type's parameters; None where it has none."""
        return self.parameters.get(type) or schema.PARAMETERS.get(type)

    def _parameters(self, type: str) -> Any:
        name = self.parameter_field(type)
        if name is None:
            return {}
        row = self.format.messages["LayerParameter"].get(name)
        if row is None or row.type not in self.format.messages:
            raise ValueError(f"the schema has no parameters {name} for {type}")
        return self.format.messages[row.type]

    def objection(
        self, type: str, parameters: Message | None, bottoms: int, tops: int, blobs: int, rank: int | None = None,
    ) -> str | None:  # fmt: skip
        """Why the dialect does not take a layer; None where it does.

        Args:
            type: its type.
            parameters: its parameters.
            bottoms: the number of its bottoms.
            tops: the number of its tops.
            blobs: the number of its blobs.
            rank: the rank of its first bottom; None where that is not known.
        """
        rule = self.layers.get(type)
        if rule is None:
            return f"the dialect {self.name} has no layer {type}"
        if rank is not None and rank not in (rule.ranks or range(1, self.max_rank + 1)):
            allowed = f"rank {_list(rule.ranks)}" if rule.ranks else f"a rank of at most {self.max_rank}"
            return f"{type} takes {allowed} in the dialect {self.name}, and this has rank {rank}"
        for what, count, (least, most) in (("bottoms", bottoms, rule.bottoms), ("tops", tops, rule.tops)):
            if not least <= count <= most:
                return f"{type} has {count} {what} in the dialect {self.name}, which takes {least} to {most}"
        if blobs not in rule.blobs:
            return f"{type} has {blobs} blobs in the dialect {self.name}, which takes {_list(rule.blobs)}"
        given = {} if parameters is None else parameters.fields
        for name in rule.required:
            if name not in given:
                return f"{type} needs the parameter {name} in the dialect {self.name}"
        for name, content in given.items():
            if name not in rule.fields:
                return f"{type} has no parameter {name} in the dialect {self.name}"
            items = content if isinstance(content, list) else [content]
            if name in rule.single and len(items) > 1:
                return f"{type} takes {name} once in the dialect {self.name}"
            allowed_values = rule.values.get(name)
            if allowed_values and any(item not in allowed_values for item in items):
                return f"{type} takes {name} {_list(allowed_values)} in the dialect {self.name}, not {_list(items)}"
        return None


def _list(items: Sequence[Any]) -> str:
    *most, last = map(str, items)
    return f"{', '.join(most)} or {last}" if most else last


def load(name: str) -> Dialect:
    """The dialect of a name, or in a TOML file.

    Args:
        name: one of `BUILT_IN`, or the path of a file that ends in ``.toml``.

    Raises:
        FileError: there is no such dialect, or the file cannot be read, is not TOML, or does not state a dialect.
    """
    data, source = _data(name, Path(), ())
    try:
        return Dialect.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise FileError(f"{source} is not a dialect: {place + ': ' if place else ''}{first['msg']}") from None


def _data(name: str, folder: Path, seen: tuple[str, ...]) -> tuple[dict[str, Any], str]:
    """The content of a file, with what it does not state taken from the one that it extends."""
    if name in BUILT_IN:
        text, source, folder = (resources.files(__package__) / "dialects" / f"{name}.toml").read_text(), name, Path()
    elif name.endswith(".toml"):
        path = folder / name
        source = str(path)
        try:
            text, folder = path.read_text(), path.parent
        except (OSError, UnicodeDecodeError) as error:
            raise FileError(f"the dialect {path} could not be read: {error}") from None
    else:
        asked = f"{seen[-1]} extends what is not there: " if seen else ""
        raise FileError(f"{asked}there is no dialect {name!r}", expected=f"{_list(BUILT_IN)}, or the path of a .toml file")
    if source in seen:
        raise FileError(f"the dialect {source} extends itself: {' -> '.join((*seen, source))}")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FileError(f"the dialect {source} is not TOML: {error}") from None
    parent = data.get("extends")
    if not isinstance(parent, str):
        return data, source
    inherited, _ = _data(parent, folder, (*seen, source))
    merged = {**inherited, **data}
    for table in ("layers", "messages", "enums", "parameters", "pooling"):
        own, old = data.get(table, {}), inherited.get(table, {})
        if isinstance(own, dict):
            merged[table] = {**old, **own}
    for message, fields in inherited.get("messages", {}).items():
        if isinstance(merged["messages"].get(message), str) and message in data.get("messages", {}):
            merged["messages"][message] = f"{fields} {data['messages'][message]}"
    return merged, source
