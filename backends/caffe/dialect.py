"""Dialects: what one reader of Caffe files takes, stated as data.

A dialect is a TOML file: the layer types it knows, the fields, values, ranks and numbers of blobs that each takes, and the
fields that its schema has besides the common ones. One that `extends` another states only what differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import resources
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, PlainValidator, model_validator

from isthmus.backends.caffe import schema
from isthmus.backends.caffe.schema import Message, Schema
from isthmus.backends.stated import Shelf, Stated, any_of

BUILT_IN: Final = ("bvlc", "mnn", "opencv", "portable")

MAX_AXES: Final = 32
"""Caffe's own limit, ``kMaxBlobAxes``."""


def _scalar(item: Any) -> Any:
    if not isinstance(item, bool | int | float | str):
        raise ValueError("this is neither a number nor text nor true or false")
    return item


def _range(limits: tuple[int, int]) -> tuple[int, int]:
    if not 0 <= limits[0] <= limits[1]:
        raise ValueError(f"these are the least and the greatest number, and {limits[0]} to {limits[1]} is no number at all")
    return limits


def _numbers(items: tuple[int, ...]) -> tuple[int, ...]:
    if list(items) != sorted(set(items)) or min(items, default=0) < 0:
        raise ValueError(f"these are single numbers from 0 on, in ascending order, not {', '.join(map(str, items))}")
    return items


def _some(items: tuple[int, ...]) -> tuple[int, ...]:
    if not items:
        raise ValueError("there is no number here")
    return items


def _rank(rank: int) -> int:
    if not 1 <= rank <= MAX_AXES:
        raise ValueError(f"Caffe's blobs have 1 to {MAX_AXES} axes, not {rank}")
    return rank


def _floats(names: tuple[str, ...]) -> tuple[str, ...]:
    other = [name for name in names if name != "f32"]
    if other or not names:
        raise ValueError(f"Caffe's blobs are f32, and {f'{other[0]!r} is not' if other else 'there is no type here'}")
    return names


Scalar = Annotated[bool | int | float | str, PlainValidator(_scalar)]
Range = Annotated[tuple[int, int], AfterValidator(_range)]
Numbers = Annotated[tuple[int, ...], AfterValidator(_numbers)]


class LayerRule(Stated):
    """What a dialect takes of one layer type.

    Attributes:
        fields: the parameters that may be there.
        required: those that must be.
        values: the only values that a parameter may have.
        single: parameters that repeat by the schema and may be there once.
        ranks: each rank that the first bottom may have; empty for any up to the dialect's.
        bottoms: how few and how many bottoms.
        tops: how few and how many tops.
        blobs: each number of blobs that it may have.
    """

    fields: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    values: dict[str, tuple[Scalar, ...]] = Field(default_factory=dict)
    single: tuple[str, ...] = ()
    ranks: Numbers = ()
    bottoms: Range = (1, 1)
    tops: Range = (1, 1)
    blobs: Annotated[Numbers, AfterValidator(_some)] = (0,)


class Pooling(Stated):
    """How a dialect pools. All round the number of windows up unless told otherwise.

    Attributes:
        floor: the parameters that tell it to round down; empty where nothing does.
        padded_average: whether the readers agree that an average counts the padding, too.
    """

    floor: dict[str, Scalar] = Field(default_factory=dict)
    padded_average: bool


class Dialect(Stated):
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
    dtypes: Annotated[tuple[str, ...], AfterValidator(_floats)]
    max_rank: Annotated[int, AfterValidator(_rank)]
    batch: Literal["kept", "free"]
    batch_varies: bool = False
    pooling: Pooling
    layers: dict[str, LayerRule]
    messages: dict[str, str] = Field(default_factory=dict)
    enums: dict[str, str] = Field(default_factory=dict)
    parameters: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> Dialect:
        problems = list(self._contradictions())
        if problems:
            raise ValueError("\n".join(problems))
        return self

    def _contradictions(self) -> Iterator[str]:
        if "shape" not in (self.layers["Input"].fields if "Input" in self.layers else ()):
            yield "layers.Input: every net begins with Input layers that have a shape, and this has none"
        for type, name in self.parameters.items():
            if self._parameters(type) is None:
                yield f"parameters.{type}: the schema has no parameters {name}"
        for type, rule in self.layers.items():
            table = self._parameters(type)
            if table is None:
                yield f"layers.{type}: the schema has no parameters {self.parameter_field(type)}"
                continue
            strange = [name for name in rule.fields if name not in table]
            if strange:
                known = ", ".join(table) or "none"
                yield f"layers.{type}.fields: the schema has no parameter {', '.join(strange)}: it has {known}"
                continue
            values = {f"layers.{type}.values": rule.values}
            if type == "Pooling":
                values["pooling.floor"] = {name: (item,) for name, item in self.pooling.floor.items()}
            named = {f"layers.{type}.required": rule.required, f"layers.{type}.single": rule.single} | values
            for place, names in named.items():
                yield from (f"{place}: {name} is not among the fields of {type}" for name in names if name not in rule.fields)
            for place, rows in values.items():
                for name, items in rows.items():
                    if not items:
                        yield f"{place}.{name}: it may have no value at all"
                    wrong = [item for item in items if name in table and not self.format.takes(table[name], item)]
                    if wrong:
                        yield f"{place}.{name}: {wrong[0]!r} is not {table[name].type}"
            once = [name for name in rule.single if name in rule.fields and not table[name].repeated]
            yield from (f"layers.{type}.single: {name} never repeats" for name in once)
            if rule.ranks and not 1 <= rule.ranks[0] <= rule.ranks[-1] <= self.max_rank:
                yield f"layers.{type}.ranks: {any_of(rule.ranks)}, and max_rank allows 1 to {self.max_rank}"
            if type != "Input" and rule.bottoms[1] < 1:
                yield f"layers.{type}.bottoms: only Input has none"
            if rule.tops[1] < 1:
                yield f"layers.{type}.tops: a layer without tops makes nothing"

    @cached_property
    def format(self) -> Schema:
        """The messages and fields of its files."""
        return schema.base().extended(self.messages, self.enums)

    def parameter_field(self, type: str) -> str | None:
        """The field of LayerParameter with a layer type's parameters; None where it has none."""
        return self.parameters.get(type) or schema.PARAMETERS.get(type)

    def _parameters(self, type: str) -> Mapping[str, schema.Field] | None:
        """The fields of the parameters of a layer type, {} where it has none; None where they should be there and are not."""
        name = self.parameter_field(type)
        row = self.format.messages["LayerParameter"].get(name) if name is not None else None
        return {} if name is None else self.format.messages.get(row.type) if row is not None else None

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
            allowed = f"rank {any_of(rule.ranks)}" if rule.ranks else f"a rank of at most {self.max_rank}"
            return f"{type} takes {allowed} in the dialect {self.name}, and this has rank {rank}"
        for what, count, (least, most) in (("bottoms", bottoms, rule.bottoms), ("tops", tops, rule.tops)):
            if not least <= count <= most:
                return f"{type} has {count} {what} in the dialect {self.name}, which takes {least} to {most}"
        if blobs not in rule.blobs:
            return f"{type} has {blobs} blobs in the dialect {self.name}, which takes {any_of(rule.blobs)}"
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
                return f"{type} takes {name} {any_of(allowed_values)} in the dialect {self.name}, not {any_of(items)}"
        return None


load: Final = Shelf("dialect", Dialect, resources.files(__package__) / "dialects", BUILT_IN, grows="messages").load
"""The dialect of a name, or in a TOML file; see `Shelf.load`."""
