"""What the schema of an ATen overload says about a call, worked out once an overload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from isthmus.frontends.torch.lowering import LOWERINGS, plan
from isthmus.ir.dtypes import i64
from isthmus.ir.errors import Refusal
from isthmus.ir.graph import Value

_DROPPED_TYPES: Final = ("Device", "Layout", "Generator", "MemoryFormat")
_DROPPED_NAMES: Final = frozenset(("device", "layout", "generator", "pin_memory", "non_blocking", "memory_format"))
_DEFAULT_DTYPES: Final = {4: i64}  # schemas write a dtype as its number in c10::ScalarType
# The schemas of these do not say that the result is the argument itself where there is nothing to drop out.
_PASS_THROUGH: Final = frozenset((
    "dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "unsafe_split", "unsafe_split_with_sizes",
    "_unsafe_view",
))  # fmt: skip
# Ops that torch composes of views, of which their schemas say nothing: they are watched in what they are composed of.
_COMPOSED: Final = frozenset((
    "atleast_1d", "atleast_2d", "atleast_3d", "meshgrid", "ravel", "type_as", "unsafe_chunk",
))  # fmt: skip
# Functional forms that are not called after the ops that write.
_IRREGULAR: Final = {"normal_": "normal_functional", "_native_batch_norm_legit": "_native_batch_norm_legit_functional"}


class Plan:
    """How calls of one overload are taken apart.

    Attributes:
        name: such as ``aten.add.Tensor``.
        packet: such as ``add``.
        function: its lowering; None for none.
        parameters: the lowering's parameter for each schema argument that it takes.
        arguments: position, name, default and whether it is dropped, of each argument.
        names: the arguments' names.
        values: names of the arguments that are not written to as ``out``, in order: those of the functional overload.
        writes: names of the arguments that are written to.
        lists: whether those are lists of tensors.
        returned: names of the written arguments that are returned, in order.
        functional: the overload without the writes; None where there is none.
        view: position of the argument that the results may be views of; None for none.
        geometry: the name under which `views` knows how they lie in it.
        returns: the number of results.
        single: there is one result and it is a tensor.
        listed: the only result is a list.
        pointwise: it is elementwise.
        composed: torch composes it of views, and its schema does not say so.
        aside: it has to do with no tensor, such as one that tells a version, and is run as it is.
    """

    __slots__ = (
        "arguments", "aside", "composed", "defaults", "function", "functional", "geometry", "listed", "lists", "name", "names",
        "packet", "parameters", "pointwise", "returned", "returns", "single", "values", "view", "writes",
    )  # fmt: skip

    def __init__(self, func: Any) -> None:
        schema = func._schema
        namespace, _, base = schema.name.partition("::")
        self.packet = base
        self.name = f"{namespace}.{base}.{schema.overload_name or 'default'}"
        self.arguments: list[tuple[int, str, Any, bool]] = []
        self.writes: list[str] = []
        self.lists = False
        self.view: int | None = None
        for position, argument in enumerate(schema.arguments):
            type = str(argument.type)
            dropped = any(word in type for word in _DROPPED_TYPES) or argument.name in _DROPPED_NAMES
            default = argument.default_value if argument.has_default_value() else None
            if default is not None and "ScalarType" in str(argument.real_type):
                default = _DEFAULT_DTYPES[default]
            self.arguments.append((position, argument.name, default, dropped))
            if argument.alias_info is not None and argument.alias_info.is_write:
                self.writes.append(argument.name)
                self.lists = self.lists or "List" in type
        self.values = [argument.name for argument in schema.arguments if not argument.is_out]
        self.names = {name for _, name, _, _ in self.arguments}
        self.defaults = {name: default for _, name, default, _ in self.arguments}
        self.returns = len(schema.returns)
        kinds = [str(result.type) for result in schema.returns]
        self.aside = not any("Tensor" in kind for kind in (*kinds, *(str(argument.type) for argument in schema.arguments)))
        self.single = kinds == ["Tensor"]
        self.listed = len(kinds) == 1 and kinds[0].startswith("List[")
        self.pointwise = torch.Tag.pointwise in func.tags
        self.geometry = base
        self.composed = base in _COMPOSED
        self.returned = _returned(schema, self.writes)
        if not self.writes and any(result.alias_info is not None for result in schema.returns):
            sources = [i for i, argument in enumerate(schema.arguments) if argument.alias_info is not None]
            self.view = sources[0] if sources else None
        elif base in _PASS_THROUGH:
            self.view = 0
        self.functional = _functional(func) if self.writes else None
        self.function: Callable[..., Any] | None = LOWERINGS.get(self.name)
        self.parameters = {} if self.function is None else plan(self.function, [name for _, name, _, _ in self.arguments])

    def is_default(self, name: str, argument: Any) -> bool:
        """Whether an argument is what the schema has it be by default, or says nothing."""
        if argument is None or argument is self.defaults[name]:
            return True
        return not isinstance(argument, (Value, list)) and bool(argument == self.defaults[name])


def _returned(schema: Any, writes: list[str]) -> list[str]:
    """The written arguments that the results are, by their alias sets."""
    sets = {frozenset(a.alias_info.before_set): a.name for a in schema.arguments if a.name in writes}
    return [
        sets[frozenset(result.alias_info.before_set)]
        for result in schema.returns
        if result.alias_info is not None and frozenset(result.alias_info.before_set) in sets
    ]


def _functional(func: Any) -> Any:
    """The overload that computes the same without writing; None when there is none."""
    schema = func._schema
    namespace, _, base = schema.name.partition("::")
    outs = {a.name for a in schema.arguments if a.is_out}
    wanted = [str(a.type) for a in schema.arguments if a.name not in outs]
    plain = base
    if not outs:
        if base in _IRREGULAR:
            plain = _IRREGULAR[base]
        elif base.startswith("__i") and base.endswith("__"):
            plain = f"__{base[3:]}"
        elif base.endswith("_"):
            plain = base[:-1]
        else:
            return None
    packet = getattr(getattr(torch.ops, namespace), plain, None)
    for name in () if packet is None else packet.overloads():
        candidate = getattr(packet, name)
        arguments = candidate._schema.arguments
        if not candidate._schema.is_mutable and [str(a.type) for a in arguments] == wanted:
            return candidate
    return None


_PLANS: Final[dict[Any, Plan]] = {}


def plan_of(func: Any) -> Plan:
    """The plan of an overload.

    Raises:
        Refusal: its lowering does not fit its schema.
    """
    found = _PLANS.get(func)
    if found is None:
        try:
            found = _PLANS[func] = Plan(func)
        except TypeError as error:
            raise Refusal(str(error), op=str(func)) from error
    return found
