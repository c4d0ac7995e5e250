"""Runs a TorchScript graph under the watcher: blocks and nodes, and the table of ops that are TorchScript's own."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

import torch
from torch.utils import _pytree as pytree

from isthmus.frontends.torch import leaving
from isthmus.frontends.torch.aliases import Entry
from isthmus.frontends.torch.control import region
from isthmus.frontends.torch.lowering import dtype_of
from isthmus.frontends.torch.provenance import is_library_file
from isthmus.frontends.torch.script.notation import ENUMERATIONS, NUMBER_OF_DTYPE, last_uses, module_path, overload_of, place
from isthmus.frontends.torch.script.outcomes import Raised, Rerun
from isthmus.frontends.torch.script.values import (
    NUMBERS,
    Box,
    Dict,
    Instance,
    List,
    Maybe,
    Message,
    Scalar,
    Scope,
    is_known,
    kind_of,
)  # fmt: skip
from isthmus.ir import dtypes
from isthmus.ir.dims import Dim, resolve, symbols
from isthmus.ir.errors import CaptureError, IsthmusError
from isthmus.ir.graph import Graph, Value
from isthmus.ir.location import Location

if TYPE_CHECKING:
    from isthmus.frontends.torch.watcher import Watcher

OPS: Final[dict[str, Callable[..., Any]]] = {}
"""TorchScript's own ops that take values and give one, by name, with the overload or without: ``op(i, *arguments)``."""
NODES: Final[dict[str, Callable[..., list[Any]]]] = {}
"""Kinds of nodes that are no such ops: ``run(i, node, env)`` gives the results."""


def script_op(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: puts a function into `OPS`."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        OPS.update(dict.fromkeys(names, function))
        return function

    return register


def script_node(*kinds: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: puts a function into `NODES`."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        NODES.update(dict.fromkeys(kinds, function))
        return function

    return register


class Interpreter:
    """Runs graphs for one watch.

    Args:
        watcher: writes the nodes down.

    Attributes:
        w: the lowerings' helper.
        scope: the part of the run that the nodes go to; None outside of all branches and loops.
        modules: modules by torch's own handle.
        path: of the module whose method runs.
        function: the name of the function or method that runs.
        sites: the lines of the calls that are under way, outermost first.
    """

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.w = watcher.w
        self.scope: Scope | None = None
        self.modules: dict[Any, Instance] = {}
        self.path = self.function = ""
        self.sites: list[Location] = []

    # ---- blocks and nodes

    def run(self, graph: Any, arguments: Sequence[Any], function: str) -> list[Any]:
        """The results of a graph, for Python."""
        outer, before = self.watcher.provenance.script, (self.path, self.function)
        self.path, self.function = self.watcher.provenance.path[-1], function
        try:
            return [self.leave(each) for each in self.block(graph, {}, [self.enter(each) for each in arguments])]
        except IsthmusError as error:
            error.location = error.location or self.location
            raise
        except Raised as error:
            raise CaptureError(
                f"the model raised {error}", location=error.location, remedy="check that the model runs on the example inputs"
            ) from None
        finally:
            self.watcher.provenance.script = outer
            self.path, self.function = before

    def call(self, graph: Any, arguments: Sequence[Any], path: str, function: str) -> list[Any]:
        """The results of a function or method that a script calls."""
        before = self.path, self.function
        self.path, self.function = path, function
        self.sites.append(self.location)
        try:
            return self.block(graph, {}, arguments)
        finally:
            self.path, self.function = before
            self.sites.pop()

    def block(self, block: Any, env: dict[int, Any], arguments: Sequence[Any]) -> list[Any]:
        """The results of a block on these arguments."""
        for value, argument in zip(block.inputs(), arguments, strict=True):
            env[value.unique()] = argument
        nodes = list(block.nodes())
        done = last_uses(block, nodes)
        for number, node in enumerate(nodes):
            kind = node.kind()
            if kind == "prim::Constant":
                env[node.output().unique()] = self.constant(node)
                continue
            if kind not in _PLACELESS:
                location = self.watcher.provenance.script = self.here(node)
                self.w.b.location = self.watcher.graph.symbols.location = location
            try:
                results = self.node(kind, node, env)
            except (IsthmusError, Raised, Rerun):
                raise
            except Exception as error:  # torch's ops and the user's classes raise anything
                location = self.location
                raise CaptureError(
                    f"the script raised {type(error).__name__}: {error}", location=location,
                    found=linecache.getline(location.file, location.line).strip() or None,
                    remedy="check that the model runs on the example inputs",
                ) from error  # fmt: skip
            env.update(zip([value.unique() for value in node.outputs()], results, strict=True))
            for unique in done.get(number, ()):  # a tensor that nobody has any more is no other one's alias
                del env[unique]
        return [env[value.unique()] for value in block.outputs()]

    def node(self, kind: str, node: Any, env: dict[int, Any]) -> list[Any]:
        """The results of a node."""
        run = NODES.get(kind)
        if run is not None:
            return run(self, node, env)
        arguments = [env[value.unique()] for value in node.inputs()]
        schema = node.schema()
        name = schema.partition("(")[0]
        op = OPS.get(name) or OPS.get(name.partition(".")[0]) or OPS.get(kind)
        if op is not None:
            found = op(self, *arguments)
            return [found] if node.outputsSize() else []
        overload = overload_of(name)
        if overload is None:
            self.refuse(f"the op {kind} of TorchScript is not carried over")
        if torch._C._dispatch_has_kernel(name):
            found = self.op(overload, *arguments)
        elif all(map(is_known, arguments)):  # TorchScript's own arithmetic on numbers and strings
            found = overload(*map(self.leave, arguments))
        else:
            from isthmus.frontends.torch.script.numbers import on_numbers

            found = on_numbers(self, name.partition(".")[0], schema, arguments)
            if found is NotImplemented:
                self.refuse(f"the op {name} of TorchScript is not carried over where only data can tell its arguments")
        count = node.outputsSize()
        return [] if not count else [self.enter(found)] if count == 1 else [self.enter(each) for each in found]

    def constant(self, node: Any) -> Any:
        value = node.output().toIValue()
        if isinstance(value, torch.Tensor) and value.dim():
            name = node.output().debugName()
            if name.startswith("self."):  # a parameter of a frozen module
                path = self.watcher.provenance.path[-1]
                self.watcher.reals.names.setdefault(id(value), f"{path}{name[4:]}" if path else name[5:])
        return self.enter(value)

    # ---- ops of torch

    def op(self, overload: Any, *arguments: Any) -> Any:
        """Has the watcher write down an ATen op."""
        args, kwargs = [], {}
        declared = overload._schema.arguments
        tensors = {each.name: x.dtype for each, x in zip(declared, arguments, strict=False) if isinstance(x, torch.Tensor)}
        dtype = tensors.get("self", next(iter(tensors.values()), None))
        for argument, given in zip(declared, arguments, strict=False):
            passed = self.passed(given, argument, dtype)
            if argument.kwarg_only:
                kwargs[argument.name] = passed
            else:
                args.append(passed)
        try:
            return self.watcher.__torch_dispatch__(overload, (), args, kwargs)
        except (TypeError, AttributeError) as error:
            if all(is_known(each) or isinstance(each, torch.Tensor) for each in pytree.tree_leaves((args, kwargs, arguments))):
                raise
            told = f"{overload} takes a number that only sizes or data can tell, which is not carried over"
            raise CaptureError(told, location=self.location, remedy="compute with tensors, or use a fixed number") from error

    def passed(self, x: Any, argument: Any, dtype: torch.dtype | None) -> Any:
        """An argument as an op takes it."""
        if x is None or isinstance(x, torch.Tensor):
            return x
        real = str(argument.real_type)
        if isinstance(x, int) and not isinstance(x, bool):
            for word, of_number in ENUMERATIONS.items():
                if word in real:
                    return of_number[x]
            return x
        if isinstance(x, Scalar):
            return self.tensor(self.wrapped(x, dtype))
        if isinstance(x, List):
            return [self.passed(each, argument, dtype) for each in self.flat(x)]
        if isinstance(x, tuple):
            return [self.passed(each, argument, dtype) for each in x]
        if isinstance(x, Maybe):
            self.refuse(f"only data can tell whether the argument {argument.name} is None", "use it only where it is not")
        return x

    def wrapped(self, x: Scalar, dtype: torch.dtype | None) -> Value:
        """A number as a 0-d value of the element type in which torch computes it with a tensor of `dtype`."""
        kept = dtype is not None and (dtype.is_floating_point or dtype.is_complex)
        if x.kind is float:
            target = dtype if kept and dtype is not None else torch.get_default_dtype()
            return self.w.cast(x.value, dtypes.f64 if target.is_complex else dtype_of(target))
        return x.value if dtype is None else self.w.cast(x.value, dtype_of(dtype))

    def flat(self, items: List, what: str = "the items of a list") -> list[Any]:
        """The items of a list whose length is known.

        Raises:
            CaptureError: only data can tell it.
        """
        if items.head is not None:
            self.refuse(
                f"{what} are needed one by one, but only data can tell how many there are",
                "stack or concatenate the list, take single items, or loop over it in the script",
            )
        return items.items

    # ---- values

    def enter(self, x: Any) -> Any:
        """A value from Python as one of TorchScript."""
        if isinstance(x, (list, torch.Size)):
            return List([self.enter(each) for each in x], self.scope)
        if isinstance(x, dict):
            return Dict({key: self.enter(each) for key, each in x.items()}, self.scope)
        if isinstance(x, tuple):
            return _like(x, [self.enter(each) for each in x])
        if isinstance(x, torch.SymBool):
            return self.truth(x)
        if isinstance(x, torch.dtype):
            return NUMBER_OF_DTYPE[x]
        if isinstance(x, torch._C.ScriptModule):
            return self.module(x)
        if torch.jit._state._get_script_class(type(x)) is not None:
            made = Instance(self.scope, type(x).__name__)
            made.items = {name: self.enter(each) for name, each in vars(x).items()}
            return made
        return x

    def leave(self, x: Any) -> Any:
        """A value of TorchScript as one of Python.

        Raises:
            CaptureError: only data can tell what it is made of.
        """
        if isinstance(x, List):
            return [self.leave(each) for each in self.flat(x, "the items of a list that leaves the script")]
        if isinstance(x, Instance):
            if x.module is None:
                self.refuse(f"an object of the class {x.type} leaves the script", "return its tensors")
            return x.module
        if isinstance(x, Dict):
            return {key: self.leave(each) for key, each in x.items.items()}
        if isinstance(x, tuple):
            return _like(x, [self.leave(each) for each in x])
        if isinstance(x, Scalar):
            found: Any = self.tensor(x.value)
            found.number = True
            return found
        if isinstance(x, Maybe):
            self.refuse("only data can tell whether a result of the script is None", "return a tensor in both cases")
        if isinstance(x, Message):
            self.refuse("a text that leaves the script tells of sizes or data")
        return x

    def module(self, handle: Any, path: str = "") -> Instance:
        """A module, the same object for the same one."""
        found = self.modules.get(handle)
        if found is None:
            found = self.modules[handle] = Instance(None, handle._type().name(), handle, path)
        return found

    def change(self, box: Box) -> None:
        """To be called before something is changed in place."""
        if box.doubt:
            self.refuse(f"a list, dict or object is changed in place, and {box.doubt}", "make a new one instead")
        if box.attribute:
            note = f"the model changes its attribute {box.attribute} in place; the graph does not keep that"
            if note not in self.watcher.notes:
                self.watcher.notes.append(note)
        scope = self.scope
        if scope is not None and box.home is not scope and box not in scope.changed:
            scope.changed[box] = box.content()

    def tensor(self, value: Value, contiguous: bool = True) -> torch.Tensor:
        """A tensor for a value; where it may be of other strides, nobody can tell what shares its storage."""
        found: torch.Tensor = self.watcher.tensor(value, Entry(value, None, contiguous))
        return found

    def value(self, x: Any) -> Value:
        """The value of a tensor or number."""
        if isinstance(x, torch.Tensor):
            return self.watcher.value(x)
        if isinstance(x, Scalar):
            return x.value
        if isinstance(x, torch.SymInt):
            return self.w.tensor(self.dim(x), dtypes.i64)
        if isinstance(x, torch.SymFloat):
            return self.w.tensor(self.watcher.take(x), dtypes.f64)
        kind = kind_of(x)
        if kind is None:
            self.refuse(f"a {type(x).__name__} cannot be computed with where only data can tell what it is")
        return self.w.tensor(x, NUMBERS[kind])

    def number(self, value: Value, kind: type) -> Any:
        """A 0-d value as a number: Python's where it is known, a size for other ints."""
        content = self.w.known(value)
        if content is not None:
            return kind(content.reshape(-1)[0].item())
        if self.w.dims(value):
            value = self.w.b.reshape(value, shape=[])
        if kind is int:
            return leaving.whole(self.watcher, self.w.cast(value, dtypes.i64))
        return Scalar(kind, self.w.cast(value, NUMBERS[kind]))

    def dim(self, x: Any) -> Dim:
        """An int as a dim."""
        # Past `Sizes.take`, which refuses a size of a body that is over: its graph may still be written to.
        return x if isinstance(x, int) else resolve(x.node.expr)

    def truth(self, x: Any) -> bool | Scalar:
        """A bool that is Python's or that data tells, of any that is neither."""
        if isinstance(x, torch.SymBool):
            return self.decided(x.node.expr)
        return x if isinstance(x, (bool, Scalar)) else bool(x)

    def decided(self, expr: Any) -> bool | Scalar:
        """The truth of a relation between sizes."""
        if isinstance(expr, bool):
            return expr
        word, left, right = expr
        if word in _COMPARED:
            known = self.watcher.sizes.known(word, left, right)
            if known is not None:
                return known
            sides = (self.w.tensor(side, dtypes.i64) for side in (left, right))
            return Scalar(bool, getattr(self.w.b, _COMPARED[word])(*sides), expr)
        return self.both(word, self.decided(left), self.decided(right))

    def both(self, word: str, left: bool | Scalar, right: bool | Scalar) -> bool | Scalar:
        """``left and right`` or ``left or right``."""
        for one, other in ((left, right), (right, left)):
            if isinstance(one, bool):
                return one if one is (word == "or") else other
        assert isinstance(left, Scalar)
        assert isinstance(right, Scalar)
        known = left.relation is not None and right.relation is not None
        value = getattr(self.w.b, f"logical_{word}")(left.value, right.value)
        return Scalar(bool, value, (word, left.relation, right.relation) if known else None)

    # ---- places, and parts of a run

    @property
    def location(self) -> Location:
        """The line that runs."""
        found: Location = self.watcher.provenance.here()
        return found

    def here(self, node: Any) -> Location:
        """The line of a node; that of the call where it is in torch's own code."""
        file, line, function = place(node.sourceRange())
        path = ".".join(part for part in (self.path, module_path(node.getModuleHierarchy())) if part)
        if not file and self.watcher.provenance.script is not None:
            return self.watcher.provenance.script
        if is_library_file(file):
            for site in reversed(self.sites):
                if not is_library_file(site.file):
                    return replace(site, module=path)
        return Location(file, line, function or self.function, path)

    def refuse(
        self, what: str, remedy: str | None = None, found: str | None = None, kind: type[CaptureError] = CaptureError
    ) -> NoReturn:
        """An error at the script's line.

        Raises:
            CaptureError: always.
        """
        location = self.location
        line = linecache.getline(location.file, location.line).strip() if location.file else ""
        raise kind(what + (f", in `{line}`" if line else ""), location=location, remedy=remedy, found=found)

    @contextmanager
    def within(self, name: str) -> Iterator[Scope]:
        """Nodes go to a nested graph for a while; what is changed there is as it was afterwards."""
        watcher, outer = self.watcher, self.scope
        written = watcher.outside
        with region(watcher, name) as graph:
            assert watcher.inside is not None
            watcher.outside = {}
            scope = Scope(graph, watcher.inside, watcher.outside, outer)
            self.scope = scope
            try:
                yield scope
            except BaseException:
                graph.release()
                raise
            finally:
                self.scope, watcher.outside = outer, written
                for box, content in scope.changed.items():
                    box.restore(content)

    @contextmanager
    def at(self, location: Location) -> Iterator[None]:
        """What is written down meanwhile comes from this line."""
        watcher = self.watcher
        before, watcher.provenance.script = watcher.provenance.script, location
        self.w.b.location = watcher.graph.symbols.location = location
        try:
            yield
        finally:
            watcher.provenance.script = before

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Lists and dicts that are made meanwhile belong to no branch or loop."""
        scope, self.scope = self.scope, None
        try:
            yield
        finally:
            self.scope = scope

    @contextmanager
    def attempt(self) -> Iterator[Callable[[], None]]:
        """What the watcher notes meanwhile may be taken back, by the function that is given."""
        watcher, table = self.watcher, self.watcher.graph.symbols
        refusals, notes, names = dict(watcher.refusals), len(watcher.notes), set(table.by_name)

        def undo() -> None:
            watcher.refusals.clear()
            watcher.refusals.update(refusals)
            del watcher.notes[notes:]
            gone = {table.by_name.pop(name) for name in [*table.by_name] if name not in names}
            table.assumptions = [
                each for each in table.assumptions if gone.isdisjoint([*symbols(each.left), *symbols(each.right)])
            ]

        yield undo

    @contextmanager
    def into(self, graph: Graph) -> Iterator[None]:
        """Nodes are added to the end of a nested graph that was left before."""
        builder = self.w.b
        self.w.b = type(builder)(graph, None, builder.location)
        try:
            yield
        finally:
            self.w.b = builder


_PLACELESS: Final = frozenset((
    "prim::GetAttr", "prim::ListConstruct", "prim::TupleConstruct", "prim::TupleUnpack", "prim::TupleIndex",
))  # fmt: skip
"""Nodes that nothing comes of in the graph, for whose line it is not worth asking."""
_COMPARED: Final = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def _like(old: tuple[Any, ...], items: list[Any]) -> tuple[Any, ...]:
    """A tuple, or a named one where the old one is."""
    return type(old)(*items) if hasattr(old, "_fields") else tuple(items)
