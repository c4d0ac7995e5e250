"""Graphs, nodes and values: SSA, mutable, and safe to edit while being walked.

The nodes of a graph are a linked list, so that insertion, erasure and replacement cost the same in a graph of ten
nodes and of a hundred thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from isthmus.ir import attributes, nested
from isthmus.ir.dims import Symbol, symbols
from isthmus.ir.errors import IsthmusError
from isthmus.ir.location import UNKNOWN, Location
from isthmus.ir.op import Call, Op, Trait
from isthmus.ir.symbols import Symbols
from isthmus.ir.types import Tensor, Type, Unknown
from isthmus.ir.weights import Weight

if TYPE_CHECKING:
    import networkx

    from isthmus.ir.interface import Notes

User: TypeAlias = "Node | Graph"


class Value:
    """A result of a node or an input of a graph.

    Attributes:
        type: its type.
        producer: the node that it is a result of; None for an input of a graph.
        graph: the graph that it is an input of; None for a result.
        index: its position among the results or inputs.
        name: a name for people; made unique when printed or emitted. Empty for none.
        uses: where it is used, as ``(node, operand index)``, or ``(graph, output index)`` where it is an output.
    """

    __slots__ = ("graph", "index", "name", "producer", "type", "uses")

    def __init__(self, type: Type, producer: Node | None, graph: Graph | None, index: int, name: str = "") -> None:
        self.type = type
        self.producer = producer
        self.graph = graph
        self.index = index
        self.name = name
        self.uses: dict[tuple[User, int], None] = {}

    @property
    def tensor(self) -> Tensor:
        """The type, of a value that is a tensor.

        Raises:
            TypeError: it is not.
        """
        if not isinstance(self.type, Tensor):
            raise TypeError(f"{self!r} is not a tensor")
        return self.type

    @property
    def owner(self) -> Graph:
        """The graph that this value is defined in."""
        graph = self.graph if self.producer is None else self.producer.graph
        assert graph is not None, "the value's node was erased"
        return graph

    @property
    def weight(self) -> Weight | None:
        """The weight that this value is, when its producer is a constant."""
        node = self.producer
        if node is not None and node.op.is_constant:
            found: Weight = node.attrs["value"]
            return found
        return None

    @property
    def location(self) -> Location:
        """Where it was made."""
        return self.producer.location if self.producer is not None else UNKNOWN

    @property
    def source(self) -> Value:
        """The value that this one is, however often `identity` handed it on."""
        value = self
        while (node := value.producer) is not None and node.op.name == "identity" and node.operands[0] is not None:
            value = node.operands[0]
        return value

    def replace_by(self, other: Value, when: Callable[[User, int], bool] | None = None) -> None:
        """Uses `other` wherever this value is used (or where `when(user, index)` says so), outputs included."""
        if other is self:
            return
        for user, index in list(self.uses):
            if when is None or when(user, index):
                user._set_use(index, other)

    def __repr__(self) -> str:
        return f"Value({self.name or '%'}: {self.type})"


class Node:
    """An op applied to values.

    Attributes:
        op: the row of the op table.
        operands: the values it uses, flat; None for an absent one. Change them with `set_operand`.
        attrs: its attributes in normal form. Change them with `set_attrs`.
        results: the values it makes.
        regions: nested graphs.
        location: where in the user's model it comes from.
        graph: the graph that it is in; None once erased.
    """

    __slots__ = ("_next", "_previous", "attrs", "graph", "location", "op", "operands", "regions", "results")

    def __init__(
        self, op: Op, operands: Iterable[Value | None], attrs: dict[str, Any], types: Sequence[Type],
        regions: Sequence[Graph] = (), location: Location = UNKNOWN,
    ) -> None:  # fmt: skip
        self.op = op
        self.operands: list[Value | None] = list(operands)
        self.attrs = attrs
        self.results = [Value(type, self, None, index) for index, type in enumerate(types)]
        self.regions = tuple(regions)
        self.location = location
        self.graph: Graph | None = None
        self._next: Node | None = None
        self._previous: Node | None = None
        for region in self.regions:
            region.parent = self

    @property
    def result(self) -> Value:
        """The only result.

        Raises:
            ValueError: there are several.
        """
        (only,) = self.results
        return only

    @property
    def next(self) -> Node | None:
        """The node after this one."""
        return self._next

    @property
    def previous(self) -> Node | None:
        """The node before this one."""
        return self._previous

    def has(self, trait: Trait) -> bool:
        """Whether the op has all of these traits."""
        return trait in self.op.traits

    def call(self) -> Call:
        """The node as what `infer`, `evaluate` and `decompose` look at."""
        types = [None if operand is None else operand.type for operand in self.operands]
        return Call(self.op, types, self.attrs, self.regions, self.graph.symbols if self.graph else None, self.operands)

    def set_operand(self, index: int, value: Value | None) -> None:
        """Uses another value at a flat operand index.

        Raises:
            IsthmusError: there is no such operand.
        """
        if not 0 <= index < len(self.operands):
            raise IsthmusError(f"has no operand {index}", op=self.op.name, location=self.location)
        old = self.operands[index]
        if old is value:
            return
        if old is not None:
            old.uses.pop((self, index), None)
        self.operands[index] = value
        if value is not None:
            value.uses[self, index] = None
        if self.graph is not None:
            self.graph.touch()

    _set_use = set_operand

    def set_attrs(self, **attrs: Any) -> None:
        """Changes attributes; the results' types are not inferred again."""
        self.attrs = self.op.normalize({**self.attrs, **attrs})
        if self.graph is not None:
            self.graph.touch()

    def replace_by(self, values: Value | Sequence[Value]) -> None:
        """Uses other values for all results, then erases the node. Names of the results move along."""
        replacements = [values] if isinstance(values, Value) else list(values)
        if len(replacements) != len(self.results):
            raise IsthmusError(f"{len(replacements)} values cannot replace {len(self.results)} results", op=self.op.name)
        for old, new in zip(self.results, replacements, strict=True):
            if old.name and not new.name and new.producer is not None:
                new.name = old.name
            old.replace_by(new)
        self.erase()

    def erase(self) -> None:
        """Takes the node out of its graph.

        Raises:
            IsthmusError: a result is still used.
        """
        for result in self.results:
            if result.uses:
                raise IsthmusError("cannot be erased: a result is still used", op=self.op.name, location=self.location)
        graph = self.graph
        if graph is None:
            return
        for region in self.regions:
            region.release()
        for index, operand in enumerate(self.operands):
            if operand is not None:
                operand.uses.pop((self, index), None)
        graph._unlink(self)
        self.graph = None

    def walk_values(self) -> Iterator[Value]:
        """The values used here, those that the regions take from outside included."""
        for operand in self.operands:
            if operand is not None:
                yield operand
        for region in self.regions:
            yield from region.captured()

    def symbols(self) -> list[Symbol]:
        """The symbols that the attributes use."""
        found: list[Symbol] = []
        for value in self.attrs.values():
            if value.__class__ not in attributes.DIMLESS:
                found += attributes.symbols_in(value)
        return found

    def __repr__(self) -> str:
        return f"Node({self.op.name} at {self.location})"


class Graph:
    """Inputs, nodes in order, outputs. A nested one is a region of a node and may use values from around it.

    Attributes:
        name: its name.
        inputs: its inputs. Add with `add_input`.
        parent: the node whose region this is; None at the top.
        version: counts changes at the top graph; equal versions mean that nothing changed.
        metadata: free text by key: where the model came from.
        defaults: the content of inputs, by name, where a caller leaves them out.
        notes: what its file notes at what is in it.
    """

    def __init__(self, name: str = "main", symbols: Symbols | None = None) -> None:
        self.name = name
        self.inputs: list[Value] = []
        self.parent: Node | None = None
        self.metadata: dict[str, str] = {}
        self.defaults: dict[str, Weight] = {}
        self.notes: Notes | None = None
        self._symbols = symbols or Symbols()
        self._outputs: list[Value] = []
        self._first: Node | None = None
        self._last: Node | None = None
        self._count = 0
        self._version = 0

    # ---- what is in it

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The outputs. Change them with `set_outputs`."""
        return tuple(self._outputs)

    @property
    def root(self) -> Graph:
        """The graph at the top."""
        graph = self
        while graph.parent is not None and graph.parent.graph is not None:
            graph = graph.parent.graph
        return graph

    @property
    def symbols(self) -> Symbols:
        """The symbols of the whole model: those of the graph at the top."""
        return self._symbols if self.parent is None else self.root._symbols

    @property
    def version(self) -> int:
        """Counts changes, in nested graphs too."""
        return self.root._version

    def touch(self) -> None:
        """Counts a change."""
        root = self if self.parent is None else self.root
        root._version += 1

    def __len__(self) -> int:
        return self._count

    @property
    def nodes(self) -> Iterator[Node]:
        """The nodes in order. Nodes may be inserted, erased and replaced meanwhile; those put after the place that the
        walk has reached are visited, erased ones are not."""
        node = self._first
        while node is not None:
            yield node
            after = node._next
            node = after if after is not None and after.graph is self else self._behind(node)

    def _behind(self, at: Node) -> Node | None:
        """The node that a walk goes on to behind one that may have been erased, and what came behind it as well."""
        node = at._next
        while node is not None and node.graph is not self:
            node = node._next
        if node is None and at.graph is not self:  # something may have been put at the end since
            before = at._previous
            while before is not None and before.graph is not self:
                before = before._previous
            node = self._first if before is None else before._next
        return node

    def reversed_nodes(self) -> Iterator[Node]:
        """The nodes, last first; the same freedom to edit."""
        node = self._last
        while node is not None:
            yield node
            node = node._previous
            while node is not None and node.graph is not self:
                node = node._previous

    @property
    def last(self) -> Node | None:
        """The last node."""
        return self._last

    def between(self, before: Node | None, after: Node | None = None) -> list[Node]:
        """The nodes behind one (all from the first, for None) and in front of another (all to the last), in order."""
        found = []
        node = self._last if after is None else after._previous
        while node is not None and node is not before:
            found.append(node)
            node = node._previous
        found.reverse()
        return found

    def erase_between(self, before: Node | None, after: Node | None = None) -> None:
        """Erases the nodes behind one and in front of another: takes back what was built there.

        Raises:
            IsthmusError: something else uses a result.
        """
        if before is not (self._last if after is None else after._previous):
            for node in reversed(self.between(before, after)):
                node.erase()

    def walk(self) -> Iterator[Node]:
        """The nodes in order, those of nested graphs after the node that holds them."""
        stack: list[tuple[Graph, Node | None]] = [(self, None)]  # graphs, and the node behind which to go on
        while stack:
            graph, at = stack.pop()
            node = graph._first if at is None else graph._behind(at)
            while node is not None:
                yield node
                if node.regions and node.graph is not None:
                    stack.append((graph, node))
                    stack += [(region, None) for region in reversed(node.regions)]
                    break
                after = node._next
                node = after if after is not None and after.graph is graph else graph._behind(node)

    def graphs(self) -> Iterator[Graph]:
        """This graph and all nested ones."""
        yield self
        for node in self.walk():
            yield from node.regions

    def captured(self) -> Iterator[Value]:
        """The values from outside that this graph and those in it use, each once."""
        inside: set[int] = {id(graph) for graph in self.graphs()}
        seen: set[int] = set()
        used = [operand for node in self.walk() for operand in node.operands if operand is not None]
        used += [output for graph in self.graphs() for output in graph._outputs]
        for value in used:
            if id(value) not in seen:
                seen.add(id(value))
                if id(value.owner) not in inside:
                    yield value

    def weights(self) -> Iterator[Weight]:
        """The weights of all constants, each handle once."""
        seen: set[int] = set()
        for node in self.walk():
            if node.op.is_constant:
                found: Weight = node.attrs["value"]
                if id(found) not in seen:
                    seen.add(id(found))
                    yield found

    # ---- editing

    def add_input(self, type: Type, name: str = "") -> Value:
        """A new input, after the others."""
        value = Value(type, None, self, len(self.inputs), name)
        self.inputs.append(value)
        self.touch()
        return value

    def remove_input(self, index: int) -> None:
        """Takes an unused input away.

        Raises:
            IsthmusError: it is used.
        """
        if self.inputs[index].uses:
            raise IsthmusError(f"input {self.inputs[index].name} is used and cannot be removed")
        del self.inputs[index]
        for position, value in enumerate(self.inputs):
            value.index = position
        self.touch()

    def set_outputs(self, values: Iterable[Value]) -> None:
        """Makes these the outputs; a value may be there more than once.

        Raises:
            IsthmusError: one is no value.
        """
        outputs = list(values)
        for index, value in enumerate(outputs):
            if not isinstance(value, Value):
                raise IsthmusError(f"output {index} of graph {self.name} is not a value", found=repr(value))
        for index, old in enumerate(self._outputs):
            old.uses.pop((self, index), None)
        self._outputs = outputs
        for index, new in enumerate(self._outputs):
            new.uses[self, index] = None
        self.touch()

    def _set_use(self, index: int, value: Value) -> None:
        self._outputs[index].uses.pop((self, index), None)
        self._outputs[index] = value
        value.uses[self, index] = None
        self.touch()

    def append(self, node: Node) -> Node:
        """Puts a node at the end."""
        return self.insert(node, before=None)

    def insert(self, node: Node, before: Node | None) -> Node:
        """Puts a node in front of another; at the end for None."""
        node.graph = self
        previous = self._last if before is None else before._previous
        node._previous, node._next = previous, before
        if previous is None:
            self._first = node
        else:
            previous._next = node
        if before is None:
            self._last = node
        else:
            before._previous = node
        self._count += 1
        for index, operand in enumerate(node.operands):
            if operand is not None:
                operand.uses[node, index] = None
        self.touch()
        return node

    def move(self, node: Node, before: Node | None) -> None:
        """Moves a node, of this graph or of another, in front of one of this graph; to the end for None."""
        if before is node:
            return
        (node.graph or self)._unlink(node)
        self.insert(node, before)

    def _unlink(self, node: Node) -> None:
        # The node keeps its own links, so that a walk standing on it finds the way on.
        if node._previous is None:
            self._first = node._next
        else:
            node._previous._next = node._next
        if node._next is None:
            self._last = node._previous
        else:
            node._next._previous = node._previous
        self._count -= 1
        self.touch()

    def release(self) -> None:
        """Forgets all uses that this nested graph makes of values, its own and outer ones."""
        for graph in list(self.graphs()):
            for index, output in enumerate(graph._outputs):
                output.uses.pop((graph, index), None)
            for node in graph.nodes:
                for index, operand in enumerate(node.operands):
                    if operand is not None:
                        operand.uses.pop((node, index), None)

    def clone(self, mapping: dict[Value, Value] | None = None) -> Graph:
        """A copy that shares weights, symbols and, when nested, the outer values that it uses.

        Args:
            mapping: filled with the copy of each value; outer values found in it are replaced.
        """
        mapping = {} if mapping is None else mapping
        copy = Graph(self.name, self._symbols)
        nested.run(self._clone_into(copy, mapping))
        return copy

    def _clone_into(self, copy: Graph, mapping: dict[Value, Value]) -> nested.Steps:
        copy.metadata, copy.defaults, copy.notes = dict(self.metadata), dict(self.defaults), self.notes
        for value in self.inputs:
            mapping[value] = copy.add_input(value.type, value.name)
        for node in self.nodes:
            regions = [Graph(region.name, region._symbols) for region in node.regions]
            for region, twin in zip(node.regions, regions, strict=True):
                yield region._clone_into(twin, mapping)
            copy.append(_copy_node(node, regions, mapping))
        copy.set_outputs([mapping.get(value, value) for value in self._outputs])

    def settle(self) -> None:
        """Replaces joined symbols, everywhere, by what they were joined to."""
        known: dict[Type, Type] = {}  # the same types stand in many places

        def settle(value: Value) -> None:
            found = known.get(value.type)
            if found is None:
                found = known[value.type] = attributes.resolved(value.type)
            value.type = found

        for graph in self.graphs():
            for value in graph.inputs:
                settle(value)
            for node in graph.nodes:
                if node.op.is_constant:
                    continue  # its sizes are numbers
                for result in node.results:
                    settle(result)
                for name, attr in node.attrs.items():
                    if attr.__class__ not in attributes.DIMLESS:
                        node.attrs[name] = attributes.resolved(attr)
        self.touch()

    # ---- symbols

    def binders(self) -> dict[Symbol, tuple[Value, int | None]]:
        """What binds each symbol: a value and the axis whose size it is, or a value and None where it is the value itself.

        Inputs of graphs and region arguments bind the symbols that stand alone in their types, the first one that
        does; so do results of nodes; an integer that a model reads from data binds the symbol in its `symbol`
        attribute.
        """
        found: dict[Symbol, tuple[Value, int | None]] = {}
        for graph in self.graphs():
            for value in graph.inputs:
                bind(found, value)
            for node in graph.nodes:
                if not node.regions:
                    symbol = node.attrs.get("symbol")
                    if isinstance(symbol, Symbol):
                        found.setdefault(symbol, (node.results[0], None))
                for result in node.results:
                    bind(found, result)
        return found

    def to_networkx(self) -> networkx.MultiDiGraph:
        """As a `networkx.MultiDiGraph`; see `isthmus.ir.export.to_networkx`."""
        from isthmus.ir.export import to_networkx

        return to_networkx(self)

    def to_dot(self) -> str:
        """In Graphviz's language; see `isthmus.ir.export.to_dot`."""
        from isthmus.ir.export import to_dot

        return to_dot(self)

    def __str__(self) -> str:
        from isthmus.ir.printer import print_graph

        return print_graph(self)

    def __repr__(self) -> str:
        return f"Graph({self.name}, {len(self.inputs)} inputs, {len(self)} nodes, {len(self._outputs)} outputs)"


def bind(found: dict[Symbol, tuple[Value, int | None]], value: Value) -> None:
    """Adds the symbols that stand alone in a value's type and have no binder yet."""
    if isinstance(value.type, Tensor) and value.type.shape:
        for axis, dim in enumerate(value.type.shape):
            if dim.__class__ is not int and dim is not None:
                symbol = dim.symbol  # type: ignore[union-attr]
                if symbol is not None and symbol not in found:
                    found[symbol] = (value, axis)


def clone_node(node: Node, mapping: dict[Value, Value]) -> Node:
    """A copy of a node, in no graph yet, with operands replaced as `mapping` says; its results are added to it."""
    return _copy_node(node, [region.clone(mapping) for region in node.regions], mapping)


def _copy_node(node: Node, regions: Sequence[Graph], mapping: dict[Value, Value]) -> Node:
    operands = [None if operand is None else mapping.get(operand, operand) for operand in node.operands]
    copy = Node(node.op, operands, dict(node.attrs), [result.type for result in node.results], regions, node.location)
    for old, new in zip(node.results, copy.results, strict=True):
        new.name = old.name
        mapping[old] = new
    return copy


def type_symbols(type: Type) -> Sequence[Symbol]:
    """The symbols in a type."""
    if isinstance(type, Tensor):
        return [symbol for dim in type.shape or () if dim.__class__ is not int for symbol in symbols(dim)]
    return () if isinstance(type, Unknown) else type_symbols(type.element)
