"""Checks the invariants of the IR, in time linear in the number of nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from isthmus.ir import nested
from isthmus.ir.attributes import TYPES, symbols_in
from isthmus.ir.dims import Dim, Expr, Symbol, substitute, symbols
from isthmus.ir.errors import InferError, VerifyError
from isthmus.ir.graph import Graph, Node, User, Value, type_symbols
from isthmus.ir.op import Call, Trait
from isthmus.ir.printer import attribute_text, excerpt
from isthmus.ir.scratch import Scratch
from isthmus.ir.types import Tensor, Type, same_kind
from isthmus.ir.weights import Weight


def verify(graph: Graph) -> None:
    """Checks a whole model (a nested graph together with all that is around it).

    * Links: nodes, their graphs, their regions, the number of nodes; uses are known on both sides.
    * SSA: what is used was defined before, in the same graph or one around it, and not across an isolated region.
    * Attributes are in normal form, operands fit the op's row, and the results' types are those that the op infers, with
      no equality taken for granted that the graph does not assume.
    * Each symbol in use is in the table of symbols and has one binder, which comes before and is in scope.

    Raises:
        VerifyError: one of them does not hold; it names the node and its location and shows the text around it.
    """
    _Verifier(graph.root).run()


class _Verifier:
    def __init__(self, root: Graph) -> None:
        self.root = root
        self.scratch = Scratch(root.symbols)
        self.users: set[User] = set()
        self.values: list[Value] = []
        self.defined: set[Value] = set()
        self.hidden: list[set[Value]] = []
        self.bound: set[Symbol] = set()
        self.closed: set[Symbol] = set()
        self.given: dict[Symbol, Dim] = {}

    def run(self) -> None:
        nested.run(self.graph(self.root))
        for value in self.values:
            for user, index in value.uses:
                used = user.operands if isinstance(user, Node) else user.outputs
                if user not in self.users or index >= len(used) or used[index] is not value:
                    self.fail(f"{value!r} lists a use that does not use it, or is not in the graph", value.producer)

    def fail(
        self, message: str, node: Node | None, expected: str | None = None, found: str | None = None, links: bool = True
    ) -> NoReturn:
        """Raises the error; `links`: the lists of nodes are sound, so that the graph can be printed."""
        text = excerpt(self.root, node) if links else ""
        op, location = (None, None) if node is None else (node.op.name, node.location)
        raise VerifyError(message, op=op, location=location, expected=expected, found=found, excerpt=text)

    # ---- structure

    def links(self, graph: Graph) -> list[Node]:
        """The nodes, each checked to be linked to its neighbours."""
        nodes: list[Node] = []
        previous, node = None, graph._first
        while node is not None:
            if node.previous is not previous or node.graph is not graph or len(nodes) > len(graph):
                self.fail(f"the links of graph {graph.name} are broken", node, links=False)
            nodes.append(node)
            previous, node = node, node.next
        if graph._last is not previous or len(nodes) != len(graph):
            self.fail(f"graph {graph.name} has lost count of its nodes", previous, links=False)
        return nodes

    def graph(self, graph: Graph) -> nested.Steps:
        nodes = self.links(graph)
        mine = list(graph.inputs)
        bound: list[Symbol] = []
        for index, value in enumerate(graph.inputs):
            if value.graph is not graph or value.index != index or value.producer is not None:
                self.fail(f"input {index} of graph {graph.name} belongs to something else", graph.parent)
            self.bind(value, bound)
        for value in graph.inputs:  # inputs may use each other's symbols in any order
            self.in_scope(type_symbols(value.type), graph.parent, f"the type of input {value.name or value.index}")
        self.defined.update(mine)
        for node in nodes:
            self.node(node, bound)
            if node.regions:
                yield self.regions(node)
            types = self.infer(node)
            for index, (value, type) in enumerate(zip(node.results, types, strict=True)):
                if value.producer is not node or value.index != index or value.graph is not None:
                    self.fail(f"result {index} belongs to something else", node)
                self.result(node, value, type, bound)
            self.defined.update(node.results)
            mine += node.results
        self.uses(graph, graph.outputs, graph.parent)
        self.values += mine
        self.defined.difference_update(mine)
        self.bound.difference_update(bound)
        self.closed.update(bound)

    def regions(self, node: Node) -> nested.Steps:
        isolated = node.has(Trait.ISOLATED)
        if isolated:
            self.hidden.append(self.defined)
            self.defined = set()
        for region in node.regions:
            if region.parent is not node:
                self.fail(f"region {region.name} belongs to another node", node)
            yield self.graph(region)
        if isolated:
            self.defined = self.hidden.pop()

    def node(self, node: Node, bound: list[Symbol]) -> None:
        self.uses(node, node.operands, node)
        if len(node.regions) != len(node.op.regions):
            self.fail("has another number of regions than its row", node, expected=", ".join(node.op.regions) or "none")
        try:
            normal = node.op.normalize(node.attrs)
        except InferError as error:
            self.fail(error.message, node, error.expected, error.found)
        if list(normal) != list(node.attrs):
            self.fail("its attributes are not in normal form", node, expected=", ".join(normal), found=", ".join(node.attrs))
        for name, value in node.attrs.items():
            form = normal[name]
            if form is not value and not _same_attribute(form, value):
                self.fail(f"attribute {name} is not in normal form", node, expected=repr(form), found=repr(value))
            if value.__class__ is Symbol:
                self.bind_once(value, node)
                bound.append(value)
            # What results are said to be binds symbols as their types do, which are looked at in their turn.
            elif value.__class__ is not int and value.__class__ is not str and node.op.attributes[name] is not TYPES:
                self.in_scope(symbols_in(value), node, f"attribute {name}")

    def uses(self, user: User, operands: Iterable[Value | None], node: Node | None) -> None:
        self.users.add(user)
        for index, value in enumerate(operands):
            if value is None:
                continue
            what = f"output {index} of graph {user.name}" if isinstance(user, Graph) else f"operand {index}"
            if value not in self.defined:
                if any(value in outside for outside in self.hidden):
                    self.fail(f"{what}, {value!r}, is a value from outside an isolated region", node)
                if value.producer is not None and value.producer.graph is None:
                    self.fail(f"{what}, {value!r}, is a result of a node that was erased", node)
                self.fail(f"{what}, {value!r}, is not defined before it is used", node)
            if (user, index) not in value.uses:
                self.fail(f"{what}, {value!r}, does not know that it is used", node)

    # ---- types

    def infer(self, node: Node) -> list[Type]:
        """The results' types, inferred again; nothing is written into the graph's symbols."""
        scratch = self.scratch
        scratch.start()
        scratch.lenient = _in_branch(node)
        self.given.clear()
        types = [None if operand is None else operand.type for operand in node.operands]
        call = Call(node.op, types, node.attrs, node.regions, scratch, node.operands)
        try:
            inferred = list(node.op.infer_checked(call))
        except InferError as error:
            wanted = f"; the graph does not assume {scratch.missing[0]}" if scratch.missing else ""
            self.fail(error.message + wanted, node, error.expected, error.found)
        if scratch.missing:
            self.fail(f"holds only for {scratch.missing[0]}, which the graph does not assume", node)
        if len(inferred) != len(node.results):
            self.fail(f"has {len(node.results)} results, not {len(inferred)}", node)
        return inferred

    def result(self, node: Node, value: Value, inferred: Type, bound: list[Symbol]) -> None:
        new: list[Symbol] = []
        self.bind(value, new)
        self.in_scope(type_symbols(value.type), node, "a result's type")
        if value.type != inferred and not self.matches(value.type, inferred, new):
            self.fail(f"result {value.index} has another type than its op infers", node,
                      expected=str(inferred), found=str(value.type))  # fmt: skip
        bound += new

    def matches(self, stored: Type, inferred: Type, new: list[Symbol]) -> bool:
        """Whether a type says what was inferred; symbols that are `new` here stand for whatever size was inferred."""
        if stored == inferred:
            return True
        if not isinstance(stored, Tensor) or not isinstance(inferred, Tensor):
            return same_kind(stored, inferred) and self.matches(stored.element, inferred.element, new)  # type: ignore[union-attr]
        if stored.dtype is not inferred.dtype or stored.shape is None or inferred.shape is None:
            return stored == inferred
        if len(stored.shape) != len(inferred.shape):
            return False
        pairs = list(zip(stored.shape, inferred.shape, strict=True))
        # What is one symbol says what it stands for; expressions over them come after.
        pairs.sort(key=lambda pair: not all(isinstance(dim, int) or (isinstance(dim, Expr) and dim.symbol) for dim in pair))
        return all(self.size_matches(left, right, new) for left, right in pairs)

    def size_matches(self, stored: Dim | None, inferred: Dim | None, new: list[Symbol]) -> bool:
        if stored is None or inferred is None:
            return stored is inferred
        stored = substitute(stored, self.given)
        answer = self.scratch.same(stored, inferred)
        if answer is not None:
            return answer
        if self.scratch.stands_for(inferred, stored):
            return True
        symbol = stored.symbol if isinstance(stored, Expr) else None
        if symbol not in new:
            return False
        self.given[symbol] = inferred
        return True

    # ---- symbols

    def bind(self, value: Value, bound: list[Symbol]) -> None:
        """Lets a value bind the symbols that stand alone in its type and have no binder yet."""
        if isinstance(value.type, Tensor):
            for dim in value.type.shape or ():
                if dim is None:
                    self.fail(f"the type of {value!r} lacks a size", value.producer)
                if dim.__class__ is Expr and (symbol := dim.symbol) is not None and symbol not in self.bound:
                    self.bind_once(symbol, value.producer)
                    bound.append(symbol)

    def bind_once(self, symbol: Symbol, node: Node | None) -> None:
        if symbol in self.bound or symbol in self.closed:
            self.fail(f"symbol {symbol} has a second binder", node)
        self.bound.add(symbol)

    def in_scope(self, used: Iterable[Symbol], node: Node | None, what: str) -> None:
        for symbol in used:
            if self.root.symbols.by_name.get(symbol.name) is not symbol:
                self.fail(f"{what} uses {symbol}, which is not in the graph's table of symbols", node)
            if symbol in self.bound:
                continue
            if symbol.joined is not None:  # it stands for what it was joined to
                self.in_scope(symbols(symbol.joined), node, what)
            else:
                ended = " any more: its region has ended" if symbol in self.closed else " before"
                self.fail(f"{what} uses {symbol}, which nothing binds{ended}", node)


def _in_branch(node: Node) -> bool:
    """Whether a node is run only where a condition holds: what it needs of sizes may be what the condition asks."""
    parent = None if node.graph is None else node.graph.parent
    while parent is not None:
        if len(parent.op.regions) > 1:
            return True
        parent = None if parent.graph is None else parent.graph.parent
    return False


def _same_attribute(a: Any, b: Any) -> bool:
    """Equal in kind and value; a nan is equal to a nan."""
    if isinstance(a, Weight) or isinstance(b, Weight):
        return a is b
    if a.__class__ is not b.__class__:
        return False
    if a.__class__ is tuple:
        return len(a) == len(b) and all(map(_same_attribute, a, b))
    if a.__class__ is dict:
        return list(a) == list(b) and all(map(_same_attribute, a.values(), b.values()))
    return bool(a == b) or attribute_text(a) == attribute_text(b)
