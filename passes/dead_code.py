"""Dead code: what neither an output, nor an effect, nor a size in use needs is taken away."""

from __future__ import annotations

from collections import Counter

from isthmus.ir.dims import Symbol, symbols
from isthmus.ir.graph import Graph, Node, Value, type_symbols


class DeadCode:
    """Walks back from the outputs and the effects and erases every node that was not met.

    A live node needs its operands, its regions' outputs, and the binders of the symbols in its attributes and types.
    Inputs, region arguments and single results are left, used or not. A value that is bound to a symbol which nothing has is
    just that value.
    """

    name = "dead_code"

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def apply(self, graph: Graph) -> None:
        """Erases dead nodes, nested ones too. Linear in the size of the graph."""
        if not any(map(_is_loose, graph.walk())):
            return  # the last of dead nodes is one
        live, symbols_in_use = _needed(graph)
        dead: list[Node] = []
        inside_dead: set[Node] = set()
        for node in graph.walk():
            if node.graph is not None and node.graph.parent in inside_dead:
                inside_dead.add(node)  # goes with the node whose region it is in
            elif node not in live:
                inside_dead.add(node)
                dead.append(node)
        for node in reversed(dead):  # users before producers
            node.erase()
            self.counts[node.op.name] += 1
        for each in graph.symbols.assumptions:
            symbols_in_use.update((*symbols(each.left), *symbols(each.right)))
        for node in live:
            if node.op.name == "bind" and node.attrs["symbol"] not in symbols_in_use and node.operands[0] is not None:
                node.replace_by(node.operands[0])
                self.counts[node.op.name] += 1


def _is_loose(node: Node) -> bool:
    """Whether nothing uses what a node gives, and that is all that it does; or all that is used may be what it is given."""
    if node.op.name == "bind":
        return True
    for result in node.results:
        if result.uses:
            return False
    return not node.op.has_effect


def live_nodes(graph: Graph) -> set[Node]:
    """The nodes, nested ones included, that the outputs, the effects or the sizes in use need."""
    return _needed(graph)[0]


def _needed(graph: Graph) -> tuple[set[Node], set[Symbol]]:
    """The live nodes, and the symbols that these and the outputs have."""
    binders = graph.binders()
    live: set[Node] = set()
    known: set[Symbol] = set()
    work: list[Node] = []

    def need(value: Value) -> None:
        node = value.producer
        if node is None:
            node = value.graph.parent if value.graph is not None else None
        reach(node)

    def reach(node: Node | None) -> None:
        while node is not None and node not in live:  # a node inside a region needs the one that holds it
            live.add(node)
            work.append(node)
            node = node.graph.parent if node.graph is not None else None

    def need_symbol(first: Symbol) -> None:
        pending = [first]
        while pending:
            symbol = pending.pop()
            if symbol not in known:
                known.add(symbol)
                if symbol in binders:
                    need(binders[symbol][0])
                pending.extend(symbols(symbol.joined))

    def need_boundary(body: Graph) -> None:
        for value in (*body.inputs, *body.outputs):
            for symbol in type_symbols(value.type):
                need_symbol(symbol)
        for value in body.outputs:
            need(value)

    need_boundary(graph)
    for node in graph.walk():
        if node.op.has_effect:
            reach(node)
    while work:
        node = work.pop()
        for operand in node.operands:
            if operand is not None:
                need(operand)
        for symbol in node.symbols():
            if symbol not in known:
                need_symbol(symbol)
        for result in node.results:
            for symbol in type_symbols(result.type):
                if symbol not in known:
                    need_symbol(symbol)
        for region in node.regions:
            need_boundary(region)
    return live, known
