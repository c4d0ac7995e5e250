"""From a torch model to a graph: watch it once, watch it again at other sizes, and hand over the graph."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, Final, Literal, Self

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch.utils import _pytree as pytree

from isthmus.frontends import weight_files
from isthmus.frontends.base import Array, Captured
from isthmus.frontends.torch import assumed, chance, containers, left, script, shadows, sharing
from isthmus.frontends.torch import aten as aten
from isthmus.frontends.torch.assumed import Number
from isthmus.frontends.torch.control import composite
from isthmus.frontends.torch.escapes import swapped
from isthmus.frontends.torch.exporting import Export, exporting, otherwise, told
from isthmus.frontends.torch.given import Given
from isthmus.frontends.torch.inputs import Inputs, flatten
from isthmus.frontends.torch.parameters import parameters
from isthmus.frontends.torch.provenance import raised_at
from isthmus.frontends.torch.remedies import of_raised, raised
from isthmus.frontends.torch.residues import Multiples, settle
from isthmus.frontends.torch.restore import Untouched, below_autograd, deep, flags, uncompiled
from isthmus.frontends.torch.second import Cells, Watch, confirm
from isthmus.frontends.torch.sources import Source, source_of
from isthmus.frontends.torch.strict import refuse_assumptions
from isthmus.frontends.torch.tensors import Watched
from isthmus.frontends.torch.unsupported import stop
from isthmus.frontends.torch.watcher import Watcher
from isthmus.frontends.torch.weights import TorchWeight, contents, real
from isthmus.ir.dims import evaluate, resolve, symbols
from isthmus.ir.errors import CaptureError, IsthmusError, MismatchError, Refusal, UnsupportedError, UsageError
from isthmus.ir.graph import Graph, Value
from isthmus.ir.op import Trait
from isthmus.ir.weights import MappedWeight


class CaptureOptions(BaseModel):
    """How a model is captured.

    Attributes:
        on_size_branch: a branch on a size that depends on data is recorded as an assumption, or refused.
        buffers: buffers and parameters that the model writes to are reported, made further outputs, or refused.
        coarse: modules kept as one node each, by path, class name or class.
        export_flags: models that ask whether they are being exported or compiled hear yes, and the lines that ask are noted;
            with ``compiled``, those that ask whether they are compiled. `torch.jit.is_tracing` and its kind answer no.
        assume: values of inputs of one element, by the inputs' names, which Python may read: loops over them are unrolled, and
            branches decided. The graph holds for these values alone.
        second_watch: a model with dynamic sizes is watched again at other sizes, and both graphs must be equal.
        strict: what the model takes for granted about sizes and values beyond what was declared is an error, which tells all
            of it.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, frozen=True)

    on_size_branch: Literal["record", "refuse"] = "record"
    buffers: Literal["report", "output", "refuse"] = "report"
    coarse: tuple[str | type, ...] = ()
    export_flags: Export = True
    assume: dict[str, Number] = Field(default_factory=dict)
    second_watch: bool = True
    strict: bool = False


class TorchCaptured(Captured):
    """A captured torch model."""

    by_example = True

    source: Source
    inputs: Inputs
    spec: pytree.TreeSpec
    leaves: list[Any]
    written: list[str]
    names: list[str]
    weights: list[TorchWeight | MappedWeight]
    given: Given | None
    assumed: dict[str, Number]
    export: Export
    told: Export = False

    def check(self) -> None:
        for weight in self.weights:
            weight.check()

    def flatten(self, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> list[Array]:
        arrays = self.inputs.arrays(args, kwargs or {})
        assumed.hold(self.input_names, arrays, self.assumed)
        return arrays

    def unflatten(self, outputs: list[Array]) -> Any:
        given = iter(zip(self.graph.outputs, outputs, strict=True))
        leaves = []
        for leaf in self.leaves:
            if isinstance(leaf, torch.Tensor):
                value, array = next(given)
                found = real(array, value.tensor.dtype)
                leaves.append(found.item() if isinstance(leaf, Watched) and leaf.number else found)
            elif isinstance(leaf, (torch.SymInt, torch.SymFloat)):
                leaves.append(next(given)[1].item())
            else:
                leaves.append(leaf)
        return containers.unflatten(leaves, self.spec)

    def eager(self, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> list[Array]:
        untouched = Untouched(self.source.stateful)
        scripts = script.untouched(self.source.modules)
        with torch.no_grad(), deep(), exporting(self.told), uncompiled(), untouched, scripts:
            if self.given is not None:
                self.given.place()
            places = self.source.copied(self.written, self.names)  # the model writes to these; its own stay as they are
            # Containers and tensors of their own: a model may fill a cache that it is given, and write to a tensor.
            given, spec = flatten((tuple(args), dict(kwargs or {})))
            copies = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in given]
            args, kwargs = containers.unflatten(copies, spec)
            results = self.source.call(*args, **kwargs)
            state = {name: registry[key] for name, (registry, key) in places.items()}
        leaves, spec = flatten(results)
        if len(leaves) != len(self.leaves):
            raise MismatchError(
                "the model returns another structure than it did while it was captured",
                expected=str(self.spec), found=str(spec),
            )  # fmt: skip
        arrays = [
            contents(leaf) if isinstance(leaf, torch.Tensor) else np.asarray(leaf)
            for leaf, known in zip(leaves, self.leaves, strict=True)
            if isinstance(known, (torch.Tensor, torch.SymInt, torch.SymFloat))
        ]
        return arrays + [contents(state[name]) for name in self.written if len(self.output_names) > len(arrays)]

    def as_captured(self) -> Self | None:
        if not self.export:
            return None
        other = copy(self)
        other.told = self.export
        return other

    def fresh_inputs(self, seed: int, sizes: Mapping[str, int] | None = None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return self.inputs.fresh(seed, sizes or {})


@deep()
@chance.kept()
def capture(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    weights: weight_files.Source | None = None,
    options: CaptureOptions | None = None,
) -> TorchCaptured:
    """Writes a model down as a graph, by running it once on tensors without data.

    Args:
        model: a module, an ``ExportedProgram``, an ``fx.GraphModule`` or a function; in the mode (train or eval) it is in.
        args: example inputs, or `TensorSpec`s in their place; an ``ExportedProgram``'s own, when none are given.
        kwargs: the same, by keyword.
        dynamic_shapes: which sizes are dynamic: as for ``torch.export.export``, or with names in place of `Dim` objects.
        input_names: names for the inputs; when there are more names than inputs, the others name the parameters in the
            order of the state dict.
        output_names: names for the outputs.
        weights: what stands in place of the model's own parameters and buffers, which may be on the meta device: see
            `weight_files.open_weights` and `Given`.
        options: see `CaptureOptions`.

    Raises:
        UsageError: the arguments, names, dynamic shapes or weights do not fit the model.
        FileError: a file of weights is malformed.
        CaptureError: the model raised an error, or left the watched world; it names the line.
        UnsupportedError: ops cannot be carried over; it names them all.
    """
    options = options or CaptureOptions()
    if isinstance(args, torch.Tensor):
        args = (args,)
    if isinstance(model, torch.export.ExportedProgram) and not args and not kwargs and model.example_inputs is not None:
        args, kwargs = model.example_inputs
    began = time.perf_counter()
    source = source_of(model, args, kwargs or {})
    inputs = Inputs(source.signature, args, kwargs or {}, source.dynamic_shapes or dynamic_shapes, tuple(input_names or ()))
    assumed.assume(inputs.leaves, options.assume)
    names = list((input_names or ())[len(inputs.leaves) :])
    given = None if weights is None else Given(source, weight_files.open_weights(weights))
    notes: list[str] = []

    untouched = Untouched(source.stateful)
    asking: list[dict[str, Any]] = []

    def once(
        hints: Mapping[str, int], cells: Cells | None = None, granted: Collection[str] = (),
        multiples: Sequence[Multiples] = (), /,
    ) -> Watch:  # fmt: skip
        while True:
            try:
                with untouched, script.untouched(source.modules):
                    if given is not None:
                        given.place()
                    known = source.names(names)
                    watch = _watch(source, inputs, hints, known, given, options, cells or {}, granted, multiples, asking)
                break
            except shadows.Again as again:
                asking.append(again.names)
        paths = [*(path for path, _ in source.modules), ""]
        changed = [f"{paths[place]}.{name}".lstrip(".") for place, name in untouched.changed]
        if changed:
            watch.watcher.notes.append(
                f"the model sets {', '.join(changed)} on itself; the graph computes what the first call from here on does"
            )
        return watch

    hints = inputs.first_hints()
    try:
        first = once(hints)
    except UnsupportedError:
        raise
    except CaptureError as error:
        own = {name: size for name, size in _own_sizes(inputs).items() if name in hints}
        if own == hints:
            raise
        first, hints = once({}), {}
        notes.append(f"captured at the example's own sizes, since other ones failed: {error.message}")
    if (own := _own_sizes(inputs)) != hints and _broken_at(first, own):
        first, hints = once({}), {}  # what is asked about sizes is answered as the example does
    seconds = {"watch": time.perf_counter() - began}
    if first.watcher.drew:
        chance.compare(first, once(hints))
    if options.second_watch and first.watcher.sizes.declared:
        second = time.perf_counter()
        first = settle(first, once)
        confirm(first, once, inputs.ranges(), inputs.unbounded)
        first.limit()
        seconds["second watch"] = time.perf_counter() - second
    if (broken := _broken_at(first, own)) is not None:
        raise CaptureError(
            "the graph would not hold for its own example", found=broken,
            remedy="declare sizes that are 1 in the example static",
        )  # fmt: skip
    graph = first.graph
    graph.settle()
    held = [weight for weight in graph.weights() if isinstance(weight, TorchWeight)]
    for weight in held:
        weight.seal()
    files = {weight.path: weight for weight in graph.weights() if isinstance(weight, MappedWeight)}
    captured = TorchCaptured(graph, [leaf.name for leaf in inputs.leaves], [], notes, seconds)
    captured.source, captured.inputs, captured.spec, captured.leaves = source, inputs, first.spec, first.leaves
    captured.weights, captured.given = [*held, *files.values()], given
    captured.perhaps_empty = [] if options.strict else first.perhaps_empty
    captured.written = list(first.written)
    captured.names = names
    inputs.check_apart(_written_inputs(first.watcher))
    captured.parameters = parameters(source, first.watcher, names)
    captured.export, captured.asks = options.export_flags, list(first.watcher.asked)
    if options.strict:
        refuse_assumptions(first, inputs)
    captured.notes += [f"{each.message} ({each.location})" for each in first.watcher.decided]
    captured.notes += [*first.watcher.notes, *first.watcher.sizes.notes, *told(first.watcher.asked)]
    captured.notes += [*_other_paths(source), *_drawn(source, graph)]
    captured.assumed = {name: number for name, number in options.assume.items() if name in first.watcher.assumed}
    captured.notes += [
        f"assume says that {name} is {number!r}, which nothing needs: it is an input like any other"
        for name, number in options.assume.items()
        if name not in captured.assumed
    ]
    captured.output_names = _output_names(first, options, output_names)
    for symbol in first.watcher.sizes.declared:
        symbol.hint = _own_sizes(inputs).get(symbol.name, symbol.hint)
    return captured


def _other_paths(source: Source) -> list[str]:
    """What torch computes in another way where a model runs plainly."""
    if not torch.backends.mha.get_fastpath_enabled():
        return []
    paths = [
        path or type(module).__name__
        for path, module in source.modules
        if isinstance(module, torch.nn.TransformerEncoder) and not module.training
        and getattr(module, "use_nested_tensor", False)
    ]
    return [
        f"torch's fast path of {path} was off: under no_grad it may give zeros at masked positions, the graph computes them; "
        "torch.backends.mha.set_fastpath_enabled(False) makes torch compute them too"
        for path in paths
    ]


def _drawn(source: Source, graph: Graph) -> list[str]:
    """Where the graph draws random numbers, as layers in training mode do."""
    places = list(dict.fromkeys(str(node.location) for node in graph.walk() if Trait.RANDOM in node.op.traits))
    if not places:
        return []
    told = f"random numbers are drawn anew in each run of the graph, at {', '.join(places[:MOST_TOLD])}"
    more = f" and {len(places) - MOST_TOLD} more places" if len(places) > MOST_TOLD else ""
    training = any(module.training for _, module in source.modules)
    return [f"{told}{more}{'; in eval mode, layers such as dropout draw none' if training else ''}"]


MOST_TOLD: Final = 3
"""So many places are told."""


def _broken_at(watch: Watch, sizes: Mapping[str, int]) -> str | None:
    """What a watch takes for granted of declared sizes that is not so at these; None where all is."""
    values = {symbol: sizes[symbol.name] for symbol in watch.watcher.sizes.declared if symbol.name in sizes}
    for symbol, size in values.items():
        dim = resolve(symbol.dim)
        if {*symbols(dim)} <= values.keys() and evaluate(dim, values) != size:
            return f"{symbol.name} == {dim}"
    for assumption in watch.graph.symbols.assumptions:
        if {*symbols(assumption.left), *symbols(assumption.right)} <= values.keys() and not assumption.holds(values):
            return assumption.in_full
    return None


def _own_sizes(inputs: Inputs) -> dict[str, int]:
    """The example's sizes by symbol."""
    found: dict[str, int] = {}
    for leaf in inputs.leaves:
        for dim, size in zip(leaf.shape, leaf.tensor.shape, strict=True):
            symbol = None if isinstance(dim, int) else dim.symbol
            if symbol is not None:
                found.setdefault(symbol.name, int(size))
    return found


def _watch(
    source: Source, inputs: Inputs, hints: Mapping[str, int], names: Mapping[int, str], given: Given | None,
    options: CaptureOptions, cells: Cells, granted: Collection[str], multiples: Sequence[Multiples],
    asking: Sequence[dict[str, Any]],
) -> Watch:  # fmt: skip
    """Runs the model once under the watcher."""
    watcher = Watcher(options.on_size_branch)
    watcher.provenance.outside = sys._getframe().f_code
    graph = watcher.graph
    watcher.sizes.declared, watcher.sizes.auto = inputs.declare(graph.symbols, hints)
    watcher.sizes.cells = {graph.symbols.by_name[name]: cell for name, cell in cells.items()}
    for symbol, (least, _) in watcher.sizes.cells.items():
        symbol.lo = min(symbol.lo, least)
    watcher.sizes.granted = granted
    for each in multiples:
        watcher.sizes.declared |= set(each.join(graph.symbols, hints[each.name]))
    watcher.reals.names = dict(names)
    if given is not None:
        watcher.reals.given, watcher.reals.bare = given.handles, given.bare
    tensors = []
    for leaf, type in zip(inputs.leaves, inputs.types(), strict=True):
        value = graph.add_input(type, leaf.name)
        tensor = watcher.tensor(value, None, leaf.tensor.device)
        tensor.entry.certain = leaf.tensor.is_contiguous()  # how the elements lie of what a call gives is not known then
        watcher.reals.label(tensor.entry, f"{_INPUT}{leaf.name}")
        watcher.w.knowledge.examples[value] = partial(contents, leaf.tensor)
        if leaf.assumed is not None:
            watcher.w.knowledge.assumed[value] = partial(assumed.rely, watcher, value, leaf.assumed)
        tensors.append(tensor)
    before = chance.state()
    try:
        with (
            flags(),
            uncompiled(),
            exporting(options.export_flags, watcher.asked),
            swapped(watcher),
            shadows.shadowed(
                [source.signature, *(getattr(module.__class__, "forward", None) for _, module in source.modules)], asking
            ),
            torch.no_grad(),
            torch.random.fork_rng([]),
            watcher.provenance.modules(source.modules, _around(watcher, options)),
            watcher,
            below_autograd(),
        ):
            args, kwargs = inputs.rebuild(tensors)
            leaves, spec = flatten(source.call(*args, **kwargs))
            leaves = [bool(leaf) if isinstance(leaf, torch.SymBool) else leaf for leaf in leaves]
            values = watcher.outputs(leaves)
            written = _written(watcher, source.modules)
        watcher.drew = chance.state() != before
        left.look(watcher, leaves, source.modules)
        if (swallowed := watcher.swallowed()) is not None:
            raise swallowed
    except IsthmusError as error:
        error.location = error.location or raised_at(error, watcher.provenance)
        if watcher.refusals and not isinstance(error, UnsupportedError):
            raise stop(watcher, error.location) from error
        if isinstance(error, Refusal):
            raise CaptureError(
                error.message, op=error.op, location=error.location, found=error.found, remedy=error.remedy
            ) from error
        raise
    except Exception as error:  # the user's model may raise anything
        failure = watcher.failure if _comes_of(error, watcher.failure) else watcher.swallowed()
        if failure is not None:
            raise failure from error
        if watcher.refusals:
            raise stop(watcher, raised_at(error, watcher.provenance)) from error
        raise CaptureError(
            f"the model raised {raised(error)}",
            location=raised_at(error, watcher.provenance),
            remedy=_remedy(error, watcher),
        ) from error
    finally:
        sharing.end(watcher)
    if watcher.refusals:
        raise stop(watcher)
    _report(watcher, written, options)
    if options.buffers == "output":
        values += written.values()
    graph.set_outputs(values)
    return Watch(graph, watcher, spec, leaves, written)


def _comes_of(error: BaseException | None, cause: BaseException | None) -> bool:
    """Whether an exception was raised because of another one."""
    while error is not None and error is not cause:
        error = error.__cause__ or error.__context__
    return error is not None


def _remedy(error: BaseException, watcher: Watcher) -> str:
    known = of_raised(error)
    if known is not None:
        return known
    sizes = ", ".join(f"{symbol.name}={symbol.hint}" for symbol in watcher.sizes.declared)
    said = otherwise(watcher.asked)
    return f"check that the model runs on the example inputs; it was watched at sizes {sizes or 'of the example'}{said}"


def _around(watcher: Watcher, options: CaptureOptions) -> Callable[..., Any] | None:
    """What runs in place of a module's call, when some are to be kept whole."""
    if not options.coarse:
        return None
    words = {word for word in options.coarse if isinstance(word, str)}
    classes = tuple(word for word in options.coarse if isinstance(word, type))

    def around(module: torch.nn.Module, name: str, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if name in words or type(module).__name__ in words or isinstance(module, classes):
            return composite(watcher, type(module).__name__, lambda: call(*args, **kwargs))
        return call(*args, **kwargs)

    return around


def _written(watcher: Watcher, modules: Sequence[tuple[str, torch.nn.Module]]) -> dict[str, Value]:
    """Parameters and buffers that the model wrote to or replaced, with their last value."""
    found = watcher.reals.written()
    for path, part in modules:
        for key, held in part._buffers.items():
            if held.__class__ is Watched:
                found[f"{path}.{key}" if path else key] = watcher.value(held)
    watcher.notes += [
        f"the model keeps a tensor on itself as {name}; the graph does not"
        for name, held in left.on_modules(modules)
        if held.__class__ is Watched
    ]
    buffers = {f"{path}.{key}" if path else key for path, part in modules for key, _ in part._buffers.items()}
    return found | script.kept(watcher, buffers)


_INPUT: Final = "the input "


def _written_inputs(watcher: Watcher) -> list[str]:
    """The names of inputs that the model wrote to."""
    return [name.removeprefix(_INPUT) for name in watcher.reals.written() if name.startswith(_INPUT)]


def _report(watcher: Watcher, written: dict[str, Value], options: CaptureOptions) -> None:
    for name in _written_inputs(watcher):
        del written[_INPUT + name]
        watcher.notes.append(f"the model writes to {_INPUT}{name}; the graph leaves it as it is")
    if not written:
        return
    names = ", ".join(written)
    if options.buffers == "refuse":
        raise CaptureError(
            f"the model writes to {names}",
            remedy="put the model into eval mode, or capture with buffers='output' or 'report'",
        )
    if options.buffers == "report":
        watcher.notes.append(f"the model writes to {names}; the graph computes with the new values and does not keep them")


def _output_names(first: Watch, options: CaptureOptions, names: Sequence[str] | None) -> list[str]:
    count = len(first.graph.outputs)
    # Containers may compute with what they are made of, and a watched tensor computes no more.
    ended = [torch.empty([0] * leaf.dim()) if isinstance(leaf, torch.Tensor) else leaf for leaf in first.leaves]
    paths = [
        "_".join(str(containers.word(key)) for key in path)
        for path, leaf in pytree.tree_flatten_with_path(pytree.tree_unflatten(ended, first.spec))[0]
        if isinstance(leaf, (torch.Tensor, torch.SymInt, torch.SymFloat))
    ]
    found = ["output" if not path else f"output_{path}" if path[0].isdigit() else path for path in paths] + (
        list(first.written) if options.buffers == "output" else []
    )
    if names is not None:
        if len(names) > count:
            raise UsageError(f"{len(names)} output_names for {count} outputs", found=", ".join(names))
        found[: len(names)] = names
    return found
