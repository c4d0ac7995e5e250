"""Graphs for other tools to look at: networkx and Graphviz."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from isthmus.ir import nested
from isthmus.ir.graph import Graph, Value

if TYPE_CHECKING:
    import networkx


def to_networkx(graph: Graph) -> networkx.MultiDiGraph:
    """The graph, nested ones included, as a `networkx.MultiDiGraph`.

    Its nodes are numbered in the order of the text form. Each has a `kind` (``graph``, ``input``, ``node``, ``output``),
    a `label`, and a `parent`: the number of the graph that it is in; for a graph, of the node whose region it is, and
    None at the top. A ``node`` has its `op` and `location` as well. An edge goes from where a value is made to where it is
    used; it has the value's `name` and `type`, and `operand`, the index among what the user takes.
    """
    import networkx

    drawing = _Drawing()
    nested.run(drawing.graph(graph, None))
    result = networkx.MultiDiGraph(name=graph.name)
    result.add_nodes_from(enumerate(drawing.nodes))
    result.add_edges_from(drawing.edges())
    return result


def to_dot(graph: Graph) -> str:
    """The graph in Graphviz's language; regions are clusters."""
    drawing = _Drawing()
    nested.run(drawing.graph(graph, None))
    shapes = {"node": "box", "input": "ellipse", "output": "ellipse"}
    inside: dict[int | None, list[int]] = {}
    for number, attrs in enumerate(drawing.nodes):
        inside.setdefault(attrs["parent"], []).append(number)
    lines = [f"digraph {_quote(graph.name)} {{", "  node [fontname=monospace];"]

    def cluster(number: int, indent: str) -> nested.Steps:
        lines.append(f"{indent}subgraph cluster_{number} {{")
        lines.append(f"{indent}  label={_quote(drawing.nodes[number]['label'])};")
        for member in inside.get(number, ()):
            attrs = drawing.nodes[member]
            lines.append(f"{indent}  n{member} [label={_quote(attrs['label'])}, shape={shapes[attrs['kind']]}];")
            for region in inside.get(member, ()):
                yield cluster(region, indent + "  ")
        lines.append(f"{indent}}}")

    for top in inside.get(None, ()):
        nested.run(cluster(top, "  "))
    for source, target, attrs in drawing.edges():
        lines.append(f"  n{source} -> n{target} [label={_quote(attrs['type'])}];")
    return "\n".join([*lines, "}"]) + "\n"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


class _Drawing:
    """Everything in a graph, numbered."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.made: dict[Value, int] = {}
        self.used: list[tuple[Value, int, int]] = []

    def add(self, kind: str, label: str, parent: int | None, **more: Any) -> int:
        self.nodes.append({"kind": kind, "label": label, "parent": parent, **more})
        return len(self.nodes) - 1

    def graph(self, graph: Graph, parent: int | None) -> nested.Steps:
        here = self.add("graph", graph.name, parent)
        for index, value in enumerate(graph.inputs):
            self.made[value] = self.add("input", f"{value.name or index}: {value.type}", here)
        for node in graph.nodes:
            number = self.add("node", node.op.name, here, op=node.op.name, location=str(node.location))
            self.used.extend((value, number, index) for index, value in enumerate(node.operands) if value is not None)
            self.made.update(dict.fromkeys(node.results, number))
            for region in node.regions:
                yield self.graph(region, number)
        for index, value in enumerate(graph.outputs):
            self.used.append((value, self.add("output", f"output {index}", here), 0))

    def edges(self) -> list[tuple[int, int, dict[str, Any]]]:
        """An edge for each use of a value that is made in here."""
        return [
            (self.made[value], number, {"name": value.name, "type": str(value.type), "operand": index})
            for value, number, index in self.used
            if value in self.made
        ]
