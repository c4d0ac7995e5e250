"""Graphs as networkx sees them, and as Graphviz does."""

from __future__ import annotations

import networkx
import pytest

from isthmus.ir import Graph, parse

TEXT = """\
graph @main(%x: f32[4], %c: bool[]) {
  %sum: f32[4] = add(%x, %x)   # layer  model.py:7 in forward
  %0: f32[4] = if(%c) then {
    %1: f32[4] = neg(%sum)
    return %1
  } else {
    return %x
  }
  return %0
}
"""


@pytest.fixture
def graph() -> Graph:
    return parse(TEXT)


def test_networkx(graph: Graph) -> None:
    found = graph.to_networkx()
    assert found.name == "main"
    labels = [(number, attrs["kind"], attrs["label"], attrs["parent"]) for number, attrs in found.nodes(data=True)]
    assert labels == [
        (0, "graph", "main", None),
        (1, "input", "x: f32[4]", 0),
        (2, "input", "c: bool[]", 0),
        (3, "node", "add", 0),
        (4, "node", "if", 0),
        (5, "graph", "then", 4),
        (6, "node", "neg", 5),
        (7, "output", "output 0", 5),
        (8, "graph", "else", 4),
        (9, "output", "output 0", 8),
        (10, "output", "output 0", 0),
    ]
    assert found.nodes[3]["op"] == "add"
    assert found.nodes[3]["location"] == "model.py:7 in forward (layer)"
    edges = sorted((a, b, attrs["operand"]) for a, b, attrs in found.edges(data=True))
    assert edges == [(1, 3, 0), (1, 3, 1), (1, 9, 0), (2, 4, 0), (3, 6, 0), (4, 10, 0), (6, 7, 0)]
    assert found.edges[3, 6, 0] == {"name": "sum", "type": "f32[4]", "operand": 0}
    assert networkx.is_directed_acyclic_graph(found)


def test_dot(graph: Graph) -> None:
    text = graph.to_dot()
    assert text.count("subgraph cluster_") == 3
    assert text.count("{") == text.count("}")
    assert '  n1 -> n3 [label="f32[4]"];' in text.splitlines()
    assert '      n6 [label="neg", shape=box];' in text.splitlines()
    inside = text[text.index("subgraph cluster_5") : text.index("subgraph cluster_8")]
    assert "n6 [" in inside
    assert "n3 [" not in inside


def test_labels_are_quoted() -> None:
    text = parse('graph @"a \\"b\\" \\\\"(%"x\\"y": str[]) {\n}\n').to_dot()
    assert text.startswith('digraph "a \\"b\\" \\\\" {')
    assert 'label="x\\"y: str[]"' in text


def test_a_region_alone(graph: Graph) -> None:
    region = list(graph.graphs())[1]
    found = region.to_networkx()
    assert len(found) == 3  # the value from outside has no node
    assert [(a, b) for a, b in found.edges()] == [(1, 2)]
