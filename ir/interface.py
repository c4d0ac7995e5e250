"""What a file says around a model's graph: who made it, what it says of inputs and outputs, what it notes at what is in it.

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
class Note:
    """What is noted at something.

    Attributes:
        doc: a text.
        metadata: free text by key.
    """

    doc: str = ""
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass
class End(Note):
    """An input or output.

    Attributes:
        type: its type in the format's own bytes, in base 64; empty where it has none.
    """

    type: str = ""


@dataclass
class Notes:
    """What a file notes at what is in its graph, by names. Graphs carry it along; it is no part of their text form.

    Attributes:
        version: of the file's format.
        graph: at the graph itself, without its text.
        nodes: at nodes.
        values: at what nodes give.
        weights: at constants.
        quantized: the names of the scales and zero points of values, by what they are, by the values' names.
    """

    version: int = 0
    graph: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, Note] = field(default_factory=dict)
    values: dict[str, Note] = field(default_factory=dict)
    weights: dict[str, Note] = field(default_factory=dict)
    quantized: dict[str, dict[str, str]] = field(default_factory=dict)

    def has_metadata(self) -> bool:
        """Whether there is free text by key."""
        kinds = (self.nodes, self.values, self.weights)
        return bool(self.graph) or any(note.metadata for kind in kinds for note in kind.values())


@dataclass
class Interface:
    """See above.

    Attributes:
        format: the format that it is of, such as ``onnx``.
        model: what the file says of the model, by the format's names of the fields.
        graph: what it says of the graph.
        inputs: its inputs, in order.
        outputs: its outputs.
        version: of the format's op set, in which the file is written; 0 where it does not say.
        outside: whether its weights lie in files beside it.
    """

    format: str
    model: dict[str, str | int] = field(default_factory=dict)
    graph: dict[str, str] = field(default_factory=dict)
    inputs: list[End] = field(default_factory=list)
    outputs: list[End] = field(default_factory=list)
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
