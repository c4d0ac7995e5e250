"""Profiles: what one reader of ONNX files takes, stated as data.

A profile is a TOML file: the ops that the reader knows, the element types, ranks, attributes and constants that each takes,
and what holds of all tensors. What it refuses is said in other ops, or refused with the profile's reason. One that `extends`
another states only what differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field, PlainValidator, model_validator

from isthmus.backends.onnx import opsets
from isthmus.backends.onnx.opsets import Signature
from isthmus.backends.stated import Shelf, Stated, any_of
from isthmus.ir import dtypes
from isthmus.ir.dims import Dim, bounds, same
from isthmus.ir.dtypes import DType
from isthmus.ir.types import Tensor, Type, Unknown
from isthmus.ir.weights import Weight

Shape: TypeAlias = "tuple[Dim, ...] | None"
Kind = Literal["tensors", "inputs", "outputs", "constants"]

BUILT_IN: Final = ("onnxruntime", "onnx", "opencv", "tensorrt-parser")


def _dtype(name: Any) -> DType:
    if not isinstance(name, str) or not dtypes.is_dtype(name):
        raise ValueError(f"there is no element type {name!r}")
    return dtypes.dtype(name)


def _listed(item: Any) -> Any:
    return [item] if isinstance(item, dict) else item


Element = Annotated[DType, PlainValidator(_dtype)]
Scalar = bool | int | float | str


class Tensors(Stated):
    """What holds of tensors.

    Attributes:
        types: the element types that they may have; None for any.
        ranks: the ranks that they may have; None for any.
        empty: whether they may be without elements.
    """

    types: frozenset[Element] | None = None
    ranks: tuple[int, ...] | None = None
    empty: bool = True

    def objection(self, type: Tensor) -> str | None:
        """Why a tensor may not be; None where it may."""
        if self.types is not None and type.dtype not in self.types:
            return f"{_list(self.types)} alone, and this is {type.dtype}"
        if type.shape is None:
            return None if self.ranks is None and self.empty else "known ranks alone"
        if self.ranks is not None and len(type.shape) not in self.ranks:
            return f"rank {_list(self.ranks)} alone, and this is {type}"
        if not self.empty and any(bounds(dim)[0] < 1 for dim in type.shape if dim is not None):
            return f"no tensors without elements, and this is {type}"
        return None


@dataclass(frozen=True, slots=True)
class Given:
    """What is known of an input of a node: its shape; its content, where it is a constant; whether it may become one."""

    shape: Shape
    content: Weight | None = None
    fixed: bool = False


class Rule(Stated):
    """What a reader takes of an op.

    Attributes:
        refused: why it takes none at all.
        types: the element types for each of the standard's type parameters.
        ranks: the ranks of each input, by the input's name.
        constant: inputs that must be constants.
        computed: inputs that must be none.
        absent: inputs that may not be given.
        known: inputs whose sizes must be numbers.
        numbers: the only numbers that constant inputs may hold.
        least: the least number that a constant input may hold.
        most: the greatest one.
        size: how many elements a constant input, or an attribute, may have.
        values: the only values that attributes may have, number by number where they are lists.
        without: attributes that may not be given.
        inputs: how many inputs it may have; None for as many as the standard has.
        results: how many results may be used.
        alike: what the shapes of inputs may differ in: so many of the last axes, or the attribute ``axis``; None where they
            may as the standard has it.
    """

    refused: str | None = None
    types: dict[str, frozenset[Element]] = Field(default_factory=dict)
    ranks: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    constant: tuple[str, ...] = ()
    computed: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    numbers: dict[str, tuple[int | float, ...]] = Field(default_factory=dict)
    least: dict[str, int | float] = Field(default_factory=dict)
    most: dict[str, int | float] = Field(default_factory=dict)
    size: dict[str, int] = Field(default_factory=dict)
    values: dict[str, tuple[Scalar, ...]] = Field(default_factory=dict)
    without: tuple[str, ...] = ()
    inputs: int | None = None
    results: int | None = None
    alike: int | Literal["axis"] | None = None

    def objection(
        self, signature: Signature, types: Mapping[str, DType], inputs: Sequence[Given | None],
        attrs: Mapping[str, Any], results: int,
    ) -> str | None:  # fmt: skip
        """Why the reader does not take a node, in words that follow the op's name; None where it does. See `Profile.node`."""
        if self.refused is not None:
            return f"is not taken: {self.refused}"
        if self.inputs is not None and any(given is not None for given in inputs[self.inputs :]):
            return f"has at most {self.inputs} inputs"
        if self.results is not None and results > self.results:
            return f"gives no more than {_count(self.results, 'result')}"
        for parameter, allowed_types in self.types.items():
            dtype = types.get(parameter)
            if dtype is not None and dtype not in allowed_types:
                return f"takes {_list(allowed_types)} alone, not {dtype}"
        for index, given in enumerate(inputs):
            if given is not None and (found := self._of_input(signature, index, given)) is not None:
                return found
        shapes = [given.shape for given in inputs if given is not None]
        if self.alike is not None and any(not _alike(shapes[0], shape, self.alike, attrs) for shape in shapes[1:]):
            return "takes inputs of one shape alone" + (" but for the axis" if self.alike == "axis" else "")
        given_attrs = {key: value for key, value in attrs.items() if value is not None}
        for key in self.without:
            if key in given_attrs:
                return f"has no {key}"
        for key, most in self.size.items():
            if len(given_attrs.get(key, ())) > most:
                return f"takes {key} of at most {_count(most, 'number')}"
        for key, allowed in self.values.items():
            items = given_attrs.get(key, ())
            items = items if isinstance(items, (list, tuple)) else [items]
            if any(item not in allowed for item in items):
                return f"takes {key} {_list(allowed)} alone, not {_list(items)}"
        return None

    def _of_input(self, signature: Signature, index: int, given: Given) -> str | None:
        name, shape, content = signature.name_of(index), given.shape, given.content
        if name in self.absent:
            return f"takes no {name}"
        if name in self.known and (shape is None or not all(isinstance(dim, int) for dim in shape)):
            return f"takes {name} of known sizes alone"
        ranks = self.ranks.get(name)
        if ranks is not None and shape is not None and len(shape) not in ranks:
            return f"takes {name} of rank {_list(ranks)} alone"
        if name in self.computed and given.fixed:
            return f"takes no constant {name}"
        if content is None:
            return f"takes {name} as a constant alone" if name in self.constant else None
        if name in self.numbers and not all(item in self.numbers[name] for item in _flat(content)):
            return f"takes {name} {_list(self.numbers[name])} alone"
        if name in self.least and any(item < self.least[name] for item in _flat(content)):
            return f"takes {name} of at least {self.least[name]}"
        if name in self.most and any(item > self.most[name] for item in _flat(content)):
            return f"takes {name} of at most {self.most[name]}"
        if name in self.size and content.size > self.size[name]:
            return f"takes {name} of at most {_count(self.size[name], 'number')}"
        return None


class Profile(Stated):
    """What one reader takes.

    Attributes:
        name: its name.
        about: which reader it is for.
        measured: the reader's version that was asked.
        base: what else holds: ``onnxruntime``, whose kernels then take all that is written, too, and run it here; or ``onnx``,
            all of the standard.
        opsets: the oldest and the newest opset.
        ir_version: the newest version of the file format.
        sizes: whether sizes of tensors may differ from run to run (``any``) or are numbers (``known``).
        unused_inputs: whether inputs may be there that nothing uses.
        constant_nodes: whether it takes nodes whose inputs are all constants.
        own_constants: ops whose constants may be no other node's as well.
        functions: whether it takes local functions.
        custom: whether it takes ops of other domains.
        others: whether it takes ops that are not named below.
        tensors, inputs, outputs, constants: what holds of all that is computed or goes in; of what goes in; of what comes out;
            and of constants.
        ops: what it takes of each op: a rule, or several of which one must hold.
    """

    name: str
    about: str
    measured: str = ""
    extends: str | None = None
    base: Literal["onnxruntime", "onnx"] = "onnxruntime"
    opsets: tuple[int, int] = (opsets.OLDEST, opsets.NEWEST)
    ir_version: int | None = None
    sizes: Literal["any", "known"] = "any"
    unused_inputs: bool = True
    constant_nodes: bool = True
    own_constants: frozenset[str] = frozenset()
    functions: bool = True
    custom: bool = True
    others: Literal["take", "refuse"] = "take"
    tensors: Tensors = Tensors()
    inputs: Tensors = Tensors()
    outputs: Tensors = Tensors()
    constants: Tensors = Tensors()
    ops: dict[str, Annotated[tuple[Rule, ...], BeforeValidator(_listed)]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> Profile:
        problems = list(self._contradictions())
        if problems:
            raise ValueError("\n".join(problems))
        return self

    def _contradictions(self) -> Iterator[str]:
        first, last = self.opsets
        if not opsets.OLDEST <= first <= last <= opsets.NEWEST:
            yield f"opsets: {first} to {last} are not within {opsets.OLDEST} to {opsets.NEWEST}"
        for name, rules in self.ops.items():
            forms = [form for version in range(opsets.OLDEST, opsets.NEWEST + 1) if (form := opsets.signature(name, version))]
            if not forms:
                yield f"ops.{name}: the standard has no such op"
                continue
            names = {each for form in forms for each in form.names}
            parameters = {each for form in forms for each in (*form.inputs, *form.outputs)}
            attributes = {each for form in forms for each in form.attributes}
            for rule in rules:
                for place, given, known in (
                    ("types", rule.types, parameters), ("ranks", rule.ranks, names), ("constant", rule.constant, names),
                    ("computed", rule.computed, names), ("absent", rule.absent, names),
                    ("known", rule.known, names),
                    ("numbers", rule.numbers, names), ("least", rule.least, names),
                    ("most", rule.most, names), ("size", rule.size, names | attributes),
                    ("values", rule.values, attributes), ("without", rule.without, attributes),
                ):  # fmt: skip
                    for each in given:
                        if each not in known:
                            yield f"ops.{name}.{place}: there is no {each}: it has {_list(sorted(known)) if known else 'none'}"

    @cached_property
    def plain(self) -> bool:
        """Whether it refuses nothing that its base takes."""
        stated = self.model_fields_set - {"name", "about", "measured", "extends", "base", "opsets", "ir_version"}
        return all(getattr(self, each) == Profile.model_fields[each].get_default(call_default_factory=True) for each in stated)

    def has(self, op: str) -> bool:
        """Whether it takes some nodes of an op."""
        return op in self.ops or self.others != "refuse"

    def node(
        self, signature: Signature, types: Mapping[str, DType], inputs: Sequence[Given | None],
        attrs: Mapping[str, Any], results: int,
    ) -> str | None:  # fmt: skip
        """Why the reader does not take a node; None where it does.

        Args:
            signature: its op's.
            types: the element types that stand for the type parameters of the standard, where they are known.
            inputs: what is known of its inputs; None for an absent one.
            attrs: its attributes; None for one that is not given.
            results: how many results it has.
        """
        rules = self.ops.get(signature.name)
        if rules is None:
            return f"{self._reader} takes no {signature.name}" if self.others == "refuse" else None
        found = [rule.objection(signature, types, inputs, attrs, results) for rule in rules]
        return None if None in found else f"in {self._reader} {signature.name} {found[-1]}"

    def value(self, type: Type, kind: Kind = "tensors") -> str | None:
        """Why the reader takes no value of this type; None where it does."""
        if self.plain:
            return None
        if isinstance(type, Unknown):
            return None if self.custom else f"{self._reader} takes no values of which no type is known"
        if not isinstance(type, Tensor):
            refuses = self.others == "refuse"
            return f"{self._reader} takes tensors alone" if refuses else self.value(type.element, kind)
        type = opsets.written(type)
        found = getattr(self, kind).objection(type)
        if found is None and kind in ("inputs", "outputs"):
            return self.value(type)
        if found is not None:
            return f"{self._reader} takes {'' if kind == 'tensors' else f'{kind} of '}{found}"
        if self.sizes == "known" and type.shape is not None and not all(isinstance(dim, int) for dim in type.shape):
            return f"{self._reader} takes sizes that are known alone, and this is {type}"
        return None

    def opset(self, opset: int) -> str | None:
        """Why the reader takes no files of an opset; None where it does."""
        first, last = self.opsets
        if not first <= opset <= last:
            return f"{self._reader} takes opsets {first} to {last}, not {opset}"
        if self.ir_version is not None and opsets.ir_version(opset) > self.ir_version:
            return f"{self._reader} takes files of IR version {self.ir_version} at most, and opset {opset} needs a newer one"
        return None

    @property
    def _reader(self) -> str:
        return f"the profile {self.name}"


def _flat(content: Weight) -> Sequence[Any]:
    return content.array().reshape(-1).tolist()


def _alike(one: Shape, other: Shape, but: int | Literal["axis"], attrs: Mapping[str, Any]) -> bool:
    """Whether shapes are surely the same, but for so many of the last axes, or for the attribute ``axis``."""
    if one is None or other is None or len(one) != len(other):
        return False
    rank = len(one)
    free = {(attrs.get("axis") or 0) % rank} if but == "axis" else set(range(rank - but, rank))
    return all(same(*pair) is True for axis, pair in enumerate(zip(one, other, strict=True)) if axis not in free)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _list(items: Any) -> str:
    return any_of(sorted(map(str, items)) if isinstance(items, frozenset) else items)


load: Final = Shelf("profile", Profile, resources.files(__package__) / "profiles", BUILT_IN).load
"""The profile of a name, or in a TOML file; see `Shelf.load`."""
