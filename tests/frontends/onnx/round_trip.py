"""What is written is read back as it was: graphs made legal, emitted, imported and made legal again, compared up to names.

``python tests/frontends/onnx/round_trip.py [OPSET] [WORD...]`` prints the samples that are not, and why.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from isthmus.backends.onnx import OnnxBackend, OnnxOptions
from isthmus.backends.testing import Case, suite
from isthmus.compiled import Compiled
from isthmus.frontends.onnx.capture import capture
from isthmus.frontends.onnx.importing import import_model
from isthmus.ir import attributes
from isthmus.ir.dims import Symbol, bounds, simplify
from isthmus.ir.errors import IsthmusError, UnsupportedError
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.interpreter import run
from isthmus.ir.op import Trait
from isthmus.ir.printer import attribute_text
from isthmus.ir.testing import agree
from isthmus.ir.types import Tensor
from isthmus.ir.weights import Weight
from isthmus.passes import SpellOut, cleanup_passes, default_passes, legalize, run_passes
from isthmus.passes.fold import GROWTH


def settled(graph: Graph, backend: OnnxBackend, growth: float = GROWTH) -> Graph:
    """A graph as it is just before it is emitted, with nothing kept whole."""
    run_passes(graph, [SpellOut(lambda node: False), *default_passes(growth)])
    legalize(graph, backend)
    run_passes(graph, cleanup_passes(growth))
    return graph


def same_ranges(before: Graph, after: Graph) -> None:
    """Between which numbers sizes lie no file can say: the sizes of inputs lie between the same in both."""
    for mine, theirs in zip(before.inputs, after.inputs, strict=True):
        if isinstance(mine.type, Tensor) and isinstance(theirs.type, Tensor):
            for dim, other in zip(mine.type.shape or (), theirs.type.shape or (), strict=True):
                symbol = None if isinstance(other, int) else other.symbol
                if symbol is not None:
                    lo, hi = bounds(dim)
                    symbol.lo, symbol.hi = max(lo, symbol.lo), hi
    for body in after.graphs():
        for value in (*body.inputs, *(result for node in body.nodes for result in node.results)):
            value.type = attributes.map_dims(value.type, simplify)
        for node in body.nodes:
            node.attrs = {name: attributes.map_dims(each, simplify) for name, each in node.attrs.items()}


class Text:
    """A graph in words, in which nothing depends on names or on the order of what could stand in any."""

    def __init__(self, graph: Graph) -> None:
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.symbols: dict[Symbol, str] = {}
        for value in graph.inputs:
            self.names[value] = f"input {value.index}: {self.dims(value.type)}"
        self.graph(graph)

    def graph(self, graph: Graph) -> None:
        for node in graph.nodes:
            if Trait.EFFECT in node.op.traits or Trait.RANDOM in node.op.traits:
                self.node(node)
        self.lines.append(f"return {[self.value(value) for value in graph.outputs]}")

    def value(self, value: Value | None) -> str:
        """A name for a value, whose node is told first."""
        if value is None:
            return "none"
        stack = [value]
        while stack:
            top = stack[-1]
            node = top.producer
            if top in self.names or node is None:
                stack.pop()
                continue
            pending = [each for each in node.walk_values() if each not in self.names and each.producer is not None]
            if pending:
                stack += pending[:1]
            else:
                self.node(node)
        return self.names.get(value, "?")

    def node(self, node: Node) -> None:
        if node.results and node.results[0] in self.names:
            return
        if Trait.CONSTANT in node.op.traits:
            self.names[node.result] = f"constant {_content(node.attrs['value'])}"
            return
        operands = [self.value(operand) for operand in node.operands]
        if node.op.name == "identity":
            self.names[node.result] = operands[0]
            return
        attrs = {name: self.dims(_counted(node, name)) for name in node.attrs if name != "symbol"}
        if not node.operands and not node.regions and Trait.PURE in node.op.traits and len(node.results) == 1:
            self.names[node.result] = f"{node.op.name} {attrs}"
            return
        number = len(self.lines)
        self.lines.append("")
        for region in node.regions:
            for value in region.inputs:
                self.names[value] = f"argument {value.index} of {number}: {self.dims(value.type)}"
            self.graph(region)
        for value in node.results:
            self.names[value] = f"%{number}.{value.index}"
        if isinstance(symbol := node.attrs.get("symbol"), Symbol):
            self.symbols[symbol] = f"%{number}"
        types = ", ".join(self.dims(value.type) for value in node.results)
        self.lines[number] = f"%{number}: {types} = {node.op.name}({', '.join(operands)}) {attrs}"

    def dims(self, value: Any) -> str:
        """A type or an attribute, its symbols by the order in which they are met."""
        for symbol in attributes.symbols_in(value):
            self.symbols.setdefault(symbol, f"S{len(self.symbols)}")
        renamed = attributes.substituted(value, {old: Symbol(new, 0).dim for old, new in self.symbols.items()})
        return attribute_text(_narrow(renamed), 1 << 20)


FEW: Final = 64
"""Constants of no more elements are told in full, others by a hash of what they hold."""


def _content(weight: Weight) -> str:
    told = attribute_text(weight, FEW) if weight.size <= FEW else f"{weight.dtype}{list(weight.shape)} {weight.digest()}"
    return re.sub(r'weight<"[^"]*" ', "weight<", told)


def _counted(node: Node, name: str) -> Any:
    """An attribute; axes are counted from the front."""
    value = node.attrs[name]
    operand = next(iter(node.results if node.op.name == "unsqueeze" else node.operands), None)
    if name not in ("axis", "axes") or operand is None or not isinstance(operand.type, Tensor) or operand.type.shape is None:
        return value
    rank = len(operand.type.shape)
    if isinstance(value, tuple):
        return tuple(axis % rank for axis in value)
    return value if value is None else value % rank


def _narrow(value: Any) -> Any:
    """Numbers in attributes as ONNX holds them, in f32."""
    if isinstance(value, tuple):
        return tuple(map(_narrow, value))
    return float(np.float32(value)) if isinstance(value, float) else value


def difference(graph: Graph, inputs: Sequence[Any], opset: int) -> str | None:
    """How what is read back differs from a graph, in words; None where it does not.

    Raises:
        UnsupportedError: the graph cannot be written at this opset.
        AssertionError: what is read back computes something else.
    """
    backend = OnnxBackend(OnnxOptions(opset=opset))
    wanted = run(graph, inputs)
    drawn = any(Trait.RANDOM in node.op.traits for node in graph.walk())
    before = settled(graph, backend)
    after = import_model(backend.emit(before).model).graph
    if not drawn:
        assert agree(run(after, inputs), wanted), f"other numbers:\n{after}"
    return first_difference(before, after, backend)


def first_difference(before: Graph, after: Graph, backend: OnnxBackend) -> str | None:
    """The first nodes in which what is read back is another graph than what was written, in words; both are changed."""
    same_ranges(before, after)
    # Both in the form that what is read takes on: importing fuses what legalization took apart, where that stays legal. By how
    # much constants may still grow is another question: they would be made of other numbers where one is written otherwise.
    mine, theirs = (Text(settled(each, backend, 0)).lines for each in (before, after))
    for one, other in zip(mine, theirs, strict=False):
        if one != other:
            return f"{one}   BUT   {other}"
    return None if len(mine) == len(theirs) else f"{len(mine)} lines and {len(theirs)}"


def model_difference(net: Compiled, path: Path, opset: int) -> str | None:
    """How a model comes back from its file, which is written, in words; None where it is as it was."""
    net.save(path)
    return first_difference(net.graph, capture(path).graph, OnnxBackend(OnnxOptions(opset=opset)))


REASONS: Final = {
    r"^roll": "the remainder of a size is written with quotients of floats before opset 10, which nothing follows",
    r"^loop-3-both": "the least of two numbers of turns is that of a list before opset 12",
    r"^group_norm": "that a size is a multiple of a number is not in a file",
    r"^dynamic_reshape": "a 0 in a shape that is data keeps a size before opset 14",
    r"^max_pool_with_index": "two sizes that broadcast come to an expression that is too large to follow",
    r"^sequence_empty": "a file tells of a list of nothing the type of element alone",
    r"^(unique|nms-4)": "how many there are is a symbol in one, and told in the other",
}
"""Why samples come back otherwise, by what their first difference or their name has."""


def reason(name: str, difference: str) -> str:
    """Why a sample comes back otherwise: one of `REASONS`, or the difference itself."""
    found = (told for pattern, told in REASONS.items() if re.search(pattern, f"{name} | {difference}"))
    return next(found, difference[:160])


def differences(case: Case, opset: int) -> Iterator[tuple[str, str | None]]:
    """What becomes of each sample of an op that can be written."""
    for name, graph, inputs in case.graphs():
        try:
            if graph.outputs:
                yield name, difference(graph, inputs, opset)
        except UnsupportedError:
            continue
        except (IsthmusError, AssertionError) as error:
            yield name, f"WRONG: {type(error).__name__}: {error}".replace("\n", " ")


if __name__ == "__main__":
    opset, *words = sys.argv[1:] or ["18"]
    good = bad = 0
    for param in suite("onnx", opset=int(opset)):
        (case,) = param.values
        if words and not any(word in case.op.name for word in words):
            continue
        for name, found in differences(case, int(opset)):
            good, bad = good + (found is None), bad + (found is not None)
            if found is not None:
                print(name, "|", found[:400], flush=True)
    print(f"{good} equal, {bad} not")
