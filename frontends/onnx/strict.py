"""With ``strict`` nothing is taken for granted that the file does not say: an error tells all of it."""

from __future__ import annotations

from collections import Counter
from typing import Final

import onnx

from isthmus.frontends.onnx.importing import Imported
from isthmus.ir.errors import Refusal, UnsupportedError

STANDARD: Final = frozenset(schema.domain for schema in onnx.defs.get_all_schemas())


def refuse_what_is_assumed(imported: Imported) -> None:
    """Holds an imported model against ``strict``.

    Raises:
        UnsupportedError: its ops ask sizes to be equal that the file does not call the same, or are of domains that nobody
            here knows.
    """
    graph = imported.graph
    found = [
        Refusal(each.in_full, remedy="give both sizes one name in the file, or numbers with isthmus.spec")
        for each in graph.symbols.assumptions
    ]
    nodes = [node for node in graph.walk() if node.op.name == "custom" and node.attrs["domain"] not in STANDARD]
    counts = Counter((node.attrs["domain"], node.attrs["name"]) for node in nodes)
    first = {(node.attrs["domain"], node.attrs["name"]): node.location for node in reversed(nodes)}
    found += [
        Refusal(f"{imported.opaque[op]}; {count} node{'s' if count > 1 else ''}", op=".".join(op), location=first[op])
        for op, count in counts.items()
    ]
    if found:
        things = "one thing" if len(found) == 1 else f"{len(found)} things"
        raise UnsupportedError(f"the model takes {things} for granted, which strict does not allow", found)
