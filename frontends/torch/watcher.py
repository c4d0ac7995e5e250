"""The watcher: a dispatch mode that writes down every ATen op as IR nodes while the model runs on tensors without data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any, Final, NoReturn
from weakref import ref

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from isthmus.frontends.torch import leaving, sharing, views
from isthmus.frontends.torch.aliases import Aliases, Entry, doubt, view
from isthmus.frontends.torch.calls import Plan, plan_of
from isthmus.frontends.torch.lowering import Lowering, dtype_of, torch_dtype
from isthmus.frontends.torch.provenance import Provenance, library
from isthmus.frontends.torch.questions import question
from isthmus.frontends.torch.reals import Reals
from isthmus.frontends.torch.size_nodes import SizeNode
from isthmus.frontends.torch.sizes import Sizes
from isthmus.frontends.torch.specials import SPECIALS
from isthmus.frontends.torch.strided import become
from isthmus.frontends.torch.tensors import Watched, watched
from isthmus.frontends.torch.texts import Text
from isthmus.frontends.torch.weights import real
from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, Expr
from isthmus.ir.errors import CaptureError, InferError, Refusal
from isthmus.ir.graph import Graph, Value
from isthmus.ir.types import Tensor

PLAIN: Final = (
    int, float, str, bool, complex, type(None), bytes, np.generic, Enum, torch.dtype, torch.device, torch.layout,
    torch.memory_format, type(Ellipsis),
)  # fmt: skip
"""Results that hold no tensors: they are given back as they were."""
_OTHER_ORDER: Final = (torch.channels_last, torch.channels_last_3d)


class Writer(Lowering):
    """The helper of lowerings, with the capture's policy behind `decide`."""

    def __init__(self, builder: Builder, sizes: Sizes) -> None:
        super().__init__(builder)
        self.sizes = sizes

    def always(self, relation: str, left: Dim, right: Dim) -> bool | None:
        return self.sizes.known(relation, left, right)

    def decide(self, relation: str, left: Dim, right: Dim) -> bool:
        return self.sizes.decide(relation, left, right)

    def dims(self, value: Value) -> tuple[Dim, ...]:
        shape = value.tensor.shape
        assert shape is not None, "a watched tensor has a rank"
        for dim in shape:
            if dim.__class__ is not int:
                return tuple([self.sizes.resolve(dim) for dim in shape])
        return shape

    def same(self, left: Dim, right: Dim) -> bool | None:
        return self.sizes.prove("==", left, right)


class Watcher(TorchDispatchMode):  # type: ignore[misc]
    """One watch of one model.

    Args:
        on_size_branch: see `Sizes`.

    Attributes:
        graph: what was written down.
        w: the lowerings' helper.
        sizes: the capture's dims.
        provenance: the user's lines.
        aliases: views and writes.
        refusals: ops that cannot be carried over, by op and line.
        failure: the first error that was raised into the model, which may have caught it.
        trying: a tensor is asked for an integer, which torch's C++ may do in vain.
        tried: it was when the first error was raised.
        drew: Python or numpy drew random numbers.
        shared: tensors that have one memory with arrays of numpy.
        made: every tensor for the model to compute with.
        assumed: names of the inputs whose assumed value the graph relies on.
        items: sizes that are bound to the only element of a value.
        notes: what the user should know.
        reals: parameters, buffers and other tensors with data.
        decided: branches on tensors that depend on sizes alone, which were decided at those of this watch.
        asked: the places in the program that ask whether it is being exported or compiled.
        read: names of those that the program has read past torch's ops.
        inside: the tensors that are of the body that is being watched, and whether it may write to them; None outside bodies.
        outside: where a body may write to others, those that it wrote to.
        kept: attributes that scripted modules set, by their paths: the module, and the attribute's own name.
        script: what interprets scripts; None before the first one.
    """

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: torch would put a wrapper around `__torch_dispatch__` whose first call imports its compiler, for seconds."""
        return False

    def __init__(self, on_size_branch: str = "record") -> None:
        super().__init__()
        self.graph = Graph("main")
        self.provenance = Provenance()
        self.sizes = Sizes(self, on_size_branch, lambda answer: question(self.provenance.outside, answer))
        self.w = Writer(Builder(self.graph), self.sizes)
        self.aliases = Aliases(self.w, self._written)
        self.refusals: dict[tuple[str, str], Refusal] = {}
        self.failure: CaptureError | None = None
        self.trying = self.tried = self.drew = False
        self.shared: list[sharing.Shared] = []
        self.made: list[ref[Watched]] = []
        self.assumed: set[str] = set()
        self.notes: list[str] = []
        self.reals = Reals(self.graph, self.provenance)
        self.decided: list[Refusal] = []
        self.shown: set[tuple[str, str]] = set()
        self.asked: dict[str, None] = {}
        self.read: set[str] = set()
        self.inside: dict[Entry, bool] | None = None
        self.outside: dict[Entry, None] | None = None
        self.kept: dict[str, tuple[Any, str]] = {}
        self.script: Any = None
        self._reals = self.reals.entries
        self.items: dict[Value, Dim] = {}
        self._takers: dict[type, Callable[[Any], Any]] = {
            Watched: self._read_watched, torch.Tensor: self._read_real, torch.nn.Parameter: self._read_real,
            int: _itself, float: _itself, bool: _itself, str: _itself, complex: _itself, type(None): _itself,
            torch.SymInt: self.sizes.take, torch.SymFloat: self._take_float, torch.SymBool: bool,
            torch.dtype: dtype_of, list: self._take_list, tuple: self._take_list, torch.Size: self._take_list,
            torch.device: _itself, torch.memory_format: _itself, torch.layout: _itself,
        }  # fmt: skip

    # ---- tensors and values

    def entry(self, tensor: torch.Tensor) -> Entry:
        """Which value a tensor stands for; a real one never met before is a constant."""
        if self.shared:
            sharing.refresh(self)
        if tensor.__class__ is Watched:
            entry: Entry = tensor.entry
            return entry if entry.home is self.w.knowledge else self._foreign(tensor)
        known = self._reals.get(id(tensor))
        return known[1] if known is not None else self.reals.meet(tensor)

    def value(self, tensor: torch.Tensor) -> Value:
        """The value that a tensor has now."""
        return self.aliases.read(self.entry(tensor))

    def _foreign(self, tensor: Watched) -> Entry:
        """A tensor that an earlier capture, or a body here, left behind, in a cache: a constant where it depends on nothing."""
        known = self._reals.get(id(tensor))
        if known is None:
            left = tensor.entry.home is None
            entry = self.entry(self._left(tensor) if left else tensor.grounded(str(self.provenance.here())))
            known = self._reals[id(tensor)] = (tensor, entry)
        return known[1]

    def _left(self, tensor: Watched) -> torch.Tensor:
        """What a tensor is that a body made which has ended, where it depends on nothing."""
        content = self.w.knowledge.content(tensor.entry.value)
        if content is None:
            raise CaptureError(
                "a tensor that a branch or the body of a loop made is used outside of it",
                location=self.provenance.here(), remedy="return it from there",
            )  # fmt: skip
        return real(content, tensor.entry.value.tensor.dtype)

    def output(self, leaf: Any) -> Value:
        """The value of a result of the model or of a part of it.

        Raises:
            CaptureError: it is neither a tensor nor a number.
        """
        if isinstance(leaf, torch.Tensor):
            return self.value(leaf)
        if isinstance(leaf, torch.SymInt):
            return self.w.b.size(self.sizes.take(leaf))
        if isinstance(leaf, torch.SymFloat):
            return self.w.tensor(self._take_float(leaf), dtypes.f64)
        if isinstance(leaf, Text):
            leaf.look()
        raise CaptureError(
            f"the model returns a {type(leaf).__name__}, which is not a tensor",
            location=self.provenance.here(),
            remedy="return tensors, numbers, or tuples, lists, dicts and dataclasses of them",
        )

    def outputs(self, leaves: Sequence[Any]) -> list[Value]:
        """The values of a model's results; plain numbers, strings and None among them stay out of the graph."""
        return [self.output(leaf) for leaf in leaves if not isinstance(leaf, PLAIN) or isinstance(leaf, Text)]

    def _written(self, owner: Entry) -> None:
        if self.outside is not None and owner not in (self.inside or ()):
            self.outside[owner] = None
        elif self.inside is not None and not self.inside.get(owner):
            raise Refusal(
                "a branch, loop or module kept whole writes to a tensor from outside, or to its argument",
                remedy="call .clone() before the write, and return the new value",
            )
        self.reals.writes(owner)

    def tensor(self, value: Value, entry: Entry | None = None, device: torch.device | None = None) -> Watched:
        """A tensor for the model to compute with."""
        if entry is None:
            entry = Entry(value)
        entry.home = self.w.knowledge
        if self.inside is not None:
            self.inside[entry] = True
        type = value.type
        assert isinstance(type, Tensor), "only tensors are watched"
        sizes, strides = self.sizes.layout(type.shape or ())
        if entry.strides is not None:
            strides = [self.sizes.give(stride) for stride in entry.strides]
        tensor = watched(entry, sizes, strides, torch_dtype(type.dtype), device or torch.device("cpu"))
        self.made.append(ref(tensor))
        return tensor

    # ---- arguments

    def take(self, argument: Any) -> Any:
        """An argument as lowerings see it."""
        taker = self._takers.get(argument.__class__)
        if taker is None:
            taker = self._taker(argument)
        return taker(argument)

    def _taker(self, argument: Any) -> Callable[[Any], Any]:
        for kind in (torch.Tensor, list, tuple, bool, int, float):
            if isinstance(argument, kind):
                taker = self._read_real if kind is torch.Tensor else self._takers[kind]
                if argument.__class__ is not torch.Tensor:
                    self._takers[argument.__class__] = taker
                return taker
        return _itself

    def _read_watched(self, tensor: Watched) -> Value:
        entry = self.entry(tensor)
        return entry.value if entry.base is None and not self.aliases.tainted else self.aliases.read(entry)

    def _read_real(self, tensor: torch.Tensor) -> Value:
        return self.aliases.read(self.entry(tensor))

    def _take_list(self, items: Iterable[Any]) -> list[Any]:
        return [self.take(item) for item in items]

    def _take_float(self, x: torch.SymFloat) -> Any:
        """A float computed from sizes: a number where it is one, else a 0-d value."""
        node = x.node
        if not isinstance(node, SizeNode):
            return float(x)
        constant = node.maybe_as_float()
        if constant is not None:
            return constant
        value = node.expr.value(self.w.b)
        self.w.floats.add(value)
        return value

    # ---- ops

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        w = self.w
        location = w.b.location = self.provenance.here()
        self.graph.symbols.location = location
        if func.__class__ is not torch._ops.OpOverload and not isinstance(func, torch._ops.OpOverload):
            from isthmus.frontends.torch.control import higher_order

            return higher_order(self, func, args, kwargs)
        plan = plan_of(func)
        try:
            special = SPECIALS.get(plan.name)
            if special is not None:
                found = special(self, *args, **kwargs)
                if found is not NotImplemented:
                    return found
            if plan.composed or (plan.packet == "einsum" and len(args) > 1 and len(args[1]) == 1):
                found = self._decomposed(func, args, kwargs)
                if found is not NotImplemented:
                    return found
            if plan.aside and plan.function is None:
                with torch._C._DisableTorchDispatch():
                    return func(*args, **kwargs)
            if plan.function is None and (plan.functional is None or plan_of(plan.functional).function is None):
                found = self._decomposed(func, args, kwargs)
                if found is not NotImplemented:
                    return found
            if plan.writes:
                return self._write(plan, args, kwargs)
            bound = self._bind(plan, args, kwargs)
            results = self._lower(plan, bound)
            return self._give(plan, args, kwargs, bound, results)
        except Refusal as refusal:
            return self._refuse(refusal, plan, args, kwargs)
        except InferError as error:
            return self._refuse(Refusal(str(error).replace("\n  ", "; ")), plan, args, kwargs, check=True)

    def _decomposed(self, func: Any, args: Any, kwargs: Any) -> Any:
        """An op that has no lowering, watched in the finer ops that torch itself makes it of; NotImplemented for a basic one.

        Torch's references (`torch._refs`) are left out: they end in ops of another namespace, which nobody asked for.
        """
        from torch._decomp import decomposition_table

        made_of = func.decompose
        if not torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
            made_of = decomposition_table.get(func)
            if made_of is None or made_of.__module__.startswith("torch._refs"):
                return NotImplemented
        with self:
            return made_of(*args, **kwargs)

    def _bind(self, plan: Plan, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Every argument of the schema, translated, by its name."""
        given = len(args)
        takers = self._takers
        bound = {}
        for position, name, default, dropped in plan.arguments:
            if position < given:
                argument = args[position]
            elif name in kwargs:
                argument = kwargs[name]
            else:
                if not dropped:
                    bound[name] = default
                continue
            if dropped:
                if argument.__class__ is torch.Generator:
                    leaving.seeded(self)
                continue
            taker = takers.get(argument.__class__)
            bound[name] = (taker or self._taker(argument))(argument)
        return bound

    def _lower(self, plan: Plan, bound: dict[str, Any]) -> Any:
        function = plan.function
        if function is None:
            raise Refusal("has no lowering")
        passed = {}
        parameters = plan.parameters
        for name, argument in bound.items():
            parameter = parameters.get(name)
            if parameter is not None:
                passed[parameter] = argument
            elif not plan.is_default(name, argument):
                raise Refusal(f"the argument {name}={argument} is not carried over")
        self.graph.symbols.asker = plan.packet
        try:
            return function(self.w, **passed)
        finally:
            self.graph.symbols.asker = ""

    def _give(self, plan: Plan, args: Any, kwargs: Any, bound: dict[str, Any], results: Any) -> Any:
        """A lowering's results as the model sees them."""
        if plan.single and results.__class__ is Value:
            if plan.view is None:
                entry = self._fresh(plan, args, results)
                return self.tensor(results, entry, self._device(args, kwargs))
        elif results is None and not plan.returns:
            return None
        flat = list(results) if isinstance(results, (tuple, list)) else [results]
        base = self.entry(args[plan.view]) if plan.view is not None and plan.view < len(args) else None
        entries: list[Entry] | None = None
        if base is not None and all(isinstance(result, Value) for result in flat):
            entries = self._views(plan, bound, base, flat, (*args[1:], *kwargs.values()))
        device = self._device(args, kwargs)
        given = [
            self.tensor(result, entries[index] if entries else self._fresh(plan, args, result), device)
            if isinstance(result, Value)
            else self.sizes.give(result)
            if isinstance(result, Expr)
            else result
            for index, result in enumerate(flat)
        ]
        if plan.listed:
            return given
        return given[0] if len(given) == 1 and plan.returns == 1 else tuple(given)

    def _device(self, args: Any, kwargs: Any) -> torch.device | None:
        device = kwargs.get("device")
        if device is not None:
            return device
        for argument in args:
            if isinstance(argument, torch.Tensor):
                return argument.device
            if argument.__class__ is list and argument and isinstance(argument[0], torch.Tensor):
                return argument[0].device
        return None

    def _fresh(self, plan: Plan, args: Any, value: Value) -> Entry:
        """The entry of a result with storage of its own."""
        if plan.packet in views.AS_FIRST:
            args = args[:1]
        inputs = [argument.entry for argument in args if argument.__class__ is Watched]
        if all(entry.strides is None and entry.certain for entry in inputs):
            return Entry(value)
        if plan.pointwise or plan.packet in views.AS_FIRST:
            strides, certain = views.elementwise_strides(self.w, inputs, value)
            return Entry(value, strides, certain)
        return Entry(value, None, views.always_contiguous(plan.packet, self.w.rank(value)))

    def _views(
        self, plan: Plan, bound: dict[str, Any], base: Entry, results: list[Value], options: Sequence[Any],
    ) -> list[Entry] | None:  # fmt: skip
        """The entries of results that the schema lets be views of `base`; None where they are copies."""
        base_name = plan.arguments[plan.view or 0][1]
        try:
            if any(option in _OTHER_ORDER for option in options if option.__class__ is torch.memory_format):
                raise views.Unknown
            lies = views.geometry(self.w, plan.geometry, base, bound, results)
        except views.Unknown as unknown:
            perhaps = isinstance(unknown, views.Perhaps)
            entries = [Entry(result, None, perhaps) for result in results]
            told = "which depends on whether a size is 1" if perhaps else "which depends on strides"
            for entry in entries:
                doubt(base, entry, f"{plan.packet} at {self.w.b.location} made either a view or a copy of it, {told}", True)
            return entries
        if lies is None:
            return None

        def taker(index: int) -> Callable[[Value], Value]:
            def take(value: Value) -> Value:
                found = self._lower(plan, {**bound, base_name: value})
                result: Value = found[index] if isinstance(found, (tuple, list)) else found
                return result

            return take

        return [
            view(base, result, taker(index), lie.push, lie.strides, lie.certain)
            for index, (result, lie) in enumerate(zip(results, lies, strict=True))
        ]

    # ---- writes

    def _write(self, plan: Plan, args: Any, kwargs: Any) -> Any:
        """An op that writes to its arguments: the functional overload, and then the writes."""
        names = {name: args[position] if position < len(args) else kwargs.get(name) for position, name, _, _ in plan.arguments}
        targets = [names[name] for name in plan.writes]
        if plan.functional is None:
            raise Refusal("writes to its argument in a way that has no functional form")
        if any(given.alias_info is not None for given in plan.functional._schema.returns):  # transpose_ moves no elements
            return become(self, targets[0], self.__torch_dispatch__(plan.functional, (), args, kwargs))
        functional = plan_of(plan.functional)
        bound = self._bind(plan, args, kwargs)
        # The functional overload has the same arguments without the outs; now and then it names them otherwise.
        bound = {ours: bound[name] for name, ours in zip(plan.values, functional.values, strict=True) if name in bound}
        found = self._lower(functional, bound)
        results = list(found) if isinstance(found, (tuple, list)) else [found]
        if plan.lists:  # torch._foreach_*_: a list is written to
            targets = [item for target in targets for item in target]
        for target, result in zip(targets, results, strict=False):
            self.put(target, result)
        returned = [names[name] for name in plan.returned]
        return returned[0] if len(returned) == 1 else tuple(returned) or None

    def put(self, target: torch.Tensor, result: Value) -> None:
        """Writes a value to a tensor."""
        entry = self.entry(target)
        old = self.aliases.read(entry)
        shape, new = self.w.dims(old), self.w.dims(result)
        if len(shape) != len(new) or any(self.w.same(a, b) is False for a, b in zip(shape, new, strict=True)):
            raise Refusal(f"a write would change the shape {list(shape)} to {list(new)}", remedy="write out of place")
        if shape != new:
            for a, b in zip(shape, new, strict=True):
                self.graph.symbols.unify(a, b)
        if not torch.can_cast(torch_dtype(result.tensor.dtype), target.dtype):
            raise Refusal(f"a write of {result.tensor.dtype} does not fit {old.tensor.dtype}")
        self.aliases.write(entry, self.w.cast(result, old.tensor.dtype))
        if self.shared:
            sharing.written(self, entry.owner)

    # ---- what cannot be carried over

    def fail(self, error: CaptureError) -> NoReturn:
        """Ends the watch, also where the model catches the error.

        Raises:
            CaptureError: always.
        """
        if self.failure is None:
            self.failure, self.tried = error, self.trying
        raise error

    def swallowed(self) -> CaptureError | None:
        """The error that the model has caught; torch's C++ may, when it tries whether it was given an integer."""
        trace = None if self.failure is None else self.failure.__traceback__
        if not self.tried:
            return self.failure
        while trace is not None:
            if not library(trace.tb_frame.f_code):
                return self.failure
            trace = trace.tb_next
        return None

    def _refuse(self, refusal: Refusal, plan: Plan, args: Any, kwargs: Any, check: bool = False) -> Any:
        """Notes a refusal, and goes on with results whose types torch tells."""
        from isthmus.frontends.torch.unsupported import stand_ins

        refusal.op = plan.name
        refusal.location = self.w.b.location
        self.refusals.setdefault((plan.name, str(refusal.location)), refusal)
        return stand_ins(self, plan, args, kwargs, refusal, check)


def _itself(argument: Any) -> Any:
    return argument
