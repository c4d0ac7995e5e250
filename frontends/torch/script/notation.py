"""What TorchScript writes in other ways than Python does: dtypes as numbers, places as texts, ops by their schemas."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import torch

from isthmus.frontends.torch.provenance import is_library_file

_DTYPES: Final = dict(enumerate((
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
    torch.complex32, torch.complex64, torch.complex128, torch.bool,
))) | {
    15: torch.bfloat16, 23: torch.float8_e5m2, 24: torch.float8_e4m3fn, 25: torch.float8_e5m2fnuz,
    26: torch.float8_e4m3fnuz, 27: torch.uint16, 28: torch.uint32, 29: torch.uint64,
}  # fmt: skip
"""Dtypes by their numbers in c10::ScalarType, as which TorchScript has them."""
NUMBER_OF_DTYPE: Final = {dtype: number for number, dtype in _DTYPES.items()}
ENUMERATIONS: Final[dict[str, Any]] = {
    "ScalarType": _DTYPES,
    "MemoryFormat": (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d),
    "Layout": (torch.strided, torch.sparse_coo, torch.sparse_csr),
}


def dtype_of_number(number: int) -> torch.dtype:
    """The dtype that TorchScript has as this number."""
    return _DTYPES[number]


@lru_cache(1024)
def overload_of(name: str) -> Any:
    """The op of this name; None for none."""
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    return None if packet is None else getattr(packet, overload or "default", None)


def last_uses(block: Any, nodes: Sequence[Any]) -> dict[int, list[int]]:
    """The values of a block that nobody asks for behind a node, by the node's number.

    Only of a block with branches or loops in it, which make new tensors that may be the old ones.
    """
    if not any(node.kind() in ("prim::Loop", "prim::If") for node in nodes):
        return {}
    last = {value.unique(): -1 for value in block.inputs()}
    for number, node in enumerate(nodes):
        if node.kind() != "prim::Constant":
            last.update(dict.fromkeys((value.unique() for value in node.outputs()), number))
            for unique in _used(node):
                if unique in last:
                    last[unique] = number
    for value in block.outputs():
        last.pop(value.unique(), None)
    found: dict[int, list[int]] = {}
    for unique, number in last.items():
        found.setdefault(number, []).append(unique)
    return found


def _used(node: Any) -> Iterator[int]:
    """The values that a node or anything nested in it uses."""
    for value in node.inputs():
        yield value.unique()
    for block in node.blocks():
        for inner in block.nodes():
            yield from _used(inner)
        for value in block.outputs():
            yield value.unique()


def inlined(node: Any) -> Any:
    """What a call does, as a graph of its own whose inputs are the call's, a function to call left out.

    A function is not looked up by its name, which may be that of several in several files.
    """
    graph = torch._C.Graph()
    mapped = {}
    for value in node.inputs():
        made = value.node()
        if made.kind() == "prim::Constant" and value.type().kind() == "FunctionType":
            copy = graph.createClone(made, lambda each: each)
            graph.appendNode(copy)
            mapped[value.unique()] = copy.output()
        else:
            mapped[value.unique()] = graph.addInput().setType(value.type())
    call = graph.createClone(node, lambda each: mapped[each.unique()])
    graph.appendNode(call)
    for value in call.outputs():
        graph.registerOutput(value)
    torch._C._jit_pass_inline(graph)
    return graph


_SCRIPTED: Final = re.compile(r'File "(.*)", line (\d+)')
_TRACED: Final = re.compile(r"^(.*)\((\d+)\): (.*)$", re.MULTILINE)


@lru_cache(4096)
def place(source: str) -> tuple[str, int, str]:
    """File, line and function of a node; those of the first place outside torch where a trace tells several."""
    scripted = _SCRIPTED.search(source)
    if scripted is not None:
        function = re.search(r"def (\w+)", source)
        return scripted[1], int(scripted[2]), function[1] if function else ""
    places = [(each[1], int(each[2]), each[3]) for each in _TRACED.finditer(source)]
    return next((each for each in places if not is_library_file(each[0])), places[0] if places else ("", 0, ""))


@lru_cache(1024)
def module_path(hierarchy: str) -> str:
    """The path of a module, from such as ``sub(Sub).l(Linear)``."""
    names = [part.partition("(")[0] for part in re.split(r"\.(?![^(]*\))", hierarchy)]
    return ".".join(name for name in names if name and name not in ("UNKNOWN_INSTANCE", "SELF"))

