"""What a file says around a model's graph: who made it, what it says of inputs and outputs, what it notes at its nodes.

A frontend puts it into the metadata of a graph, a backend that writes files of the same format takes it from there, so that
what comes out of a file goes back into one as it was. Neither knows the other.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from isthmus.ir.graph import Graph

KEY = "isthmus.interface"
"""The key of a graph's metadata."""


@dataclass
class End:
    """An input or output.

    Attributes:
        type: its type in the format's own bytes, in base 64; empty where it has none.
        doc: what is noted at it.
        metadata: free text by key.
    """

    type: str = ""
    doc: str = ""
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass
class Interface:
    """See above.

    Attributes:
        format: the format that it is of, such as ``onnx``.
        model: what the file says of the model, by the format's names of the fields.
        graph: what it says of the graph.
        inputs: its inputs, in order.
        outputs: its outputs.
        docs: what is noted at nodes, by their names.
        version: of the format's op set, in which the file is written; 0 where it does not say.
        outside: whether its weights lie in files beside it.
    """

    format: str
    model: dict[str, str | int] = field(default_factory=dict)
    graph: dict[str, str] = field(default_factory=dict)
    inputs: list[End] = field(default_factory=list)
    outputs: list[End] = field(default_factory=list)
    docs: dict[str, str] = field(default_factory=dict)
    version: int = 0
    outside: bool = False

    def keep(self, graph: Graph) -> None:
        """Puts it into the metadata of a graph."""
        graph.metadata[KEY] = json.dumps(_told(asdict(self)))


def _told(value: Any) -> Any:
    """Without what is empty."""
    if isinstance(value, list):
        return [_told(item) for item in value]
    return {key: _told(item) for key, item in value.items() if item} if isinstance(value, dict) else value


def interface(graph: Graph, format: str) -> Interface | None:
    """What a file of this format said around the graph; None where it comes from elsewhere."""
    text = graph.metadata.get(KEY)
    if text is None:
        return None
    told = json.loads(text)
    if told.get("format") != format:
        return None
    inputs, outputs = ([End(**end) for end in told.pop(side, ())] for side in ("inputs", "outputs"))
    return Interface(inputs=inputs, outputs=outputs, **told)
