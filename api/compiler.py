"""The way through: capture, the default passes, legalization, cleanup, emission."""

from __future__ import annotations

import gc
import inspect
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ValidationError

from isthmus.backends import registry
from isthmus.compiled import Compiled
from isthmus.ir.attributes import map_dims
from isthmus.ir.checks import assumptions, read_integers
from isthmus.ir.dims import Dim, Expr, Symbol, evaluate, symbols
from isthmus.ir.errors import CaptureError, IsthmusWarning, UsageError
from isthmus.ir.graph import Node
from isthmus.passes import PassRecord, SpellOut, cleanup_passes, count_nodes, default_passes, legalize, run_passes
from isthmus.passes.fold import GROWTH
from isthmus.pruning import early_exit, pruned
from isthmus.report import PassReport, Report

if TYPE_CHECKING:
    from isthmus.backends.base import Backend
    from isthmus.frontends.base import Captured
    from isthmus.frontends.weight_files import Source
    from isthmus.passes import Pass

FRONTENDS = {"torch": "isthmus.frontends.torch", "onnx": "isthmus.frontends.onnx"}
"""The frontend for models whose class comes from a package of this name."""

FILES = {".onnx": "isthmus.frontends.onnx"}
"""The frontend for files by the ending of their names."""

Stage = Literal["captured", "passes", "legal"]


def compile(
    model: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    target: str = "onnx",
    dynamic_shapes: Any = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    weights: Source | None = None,
    passes: Sequence[Pass] | None = None,
    verify_ir: bool = False,
    **options: Any,
) -> Compiled:
    """Compiles a model for a target.

    The model is watched as it runs once without data; it comes back as it went in.

    Args:
        model: a `torch.nn.Module`, `torch.export.ExportedProgram`, `torch.fx.GraphModule`, or a function of tensors; the path
            of an ``.onnx`` file, or an `onnx.ModelProto`.
        args: its example arguments, nested as the model takes them: tensors, or `isthmus.spec(...)` in their place.
            A single tensor may be given bare. A dict at the end stays an argument. A file needs none; a number in a spec fixes
            a size that it leaves open.
        kwargs: its keyword arguments.
        target: ``onnx``, ``caffe``, ``tensorrt``, ``reference``, or what other installed packages offer; `isthmus targets`
            lists them.
        dynamic_shapes: which sizes may vary: what `torch.export.export` takes, or plain names, such as
            ``{"x": {0: "N", 2: "H"}}``. They begin at 1; those of ``torch.export.Dim.DYNAMIC`` and ``AUTO`` at 0, where the
            model asks for no more and the target's form is as good.
        input_names: names for the inputs, in order; further ones name the parameters in state-dict order.
        output_names: names for the outputs, in order.
        weights: content for all the model's parameters and buffers, in place of their own; they may then be on torch's meta
            device, as may the example arguments. A ``.safetensors`` file, the ``.safetensors.index.json`` of a sharded one,
            a list of files, or tensors, arrays or what `isthmus.open_weights` gives, by name. Files are mapped, and read
            only while the model is saved, run or verified.
        passes: run these in place of the default passes.
        verify_ir: check the IR's invariants after every pass.
        options: the frontend's options (such as ``on_size_branch``, ``buffers``, ``coarse``) and the target's (such as
            ``opset``).

    Raises:
        UsageError: an unknown target, option or name, or a malformed dynamic shape; weights that do not fit the model, all at
            once.
        FileError: a file of weights is malformed, or two of them hold the same name.
        CaptureError: the model raised, or did what cannot be watched.
        UnsupportedError: ops that the target cannot carry, all at once, each with its place in the source.
    """
    with _collecting_nothing():
        captured, report, backend = lower(
            model, args, kwargs, target=target, dynamic_shapes=dynamic_shapes, input_names=input_names,
            output_names=output_names, weights=weights, passes=passes, verify_ir=verify_ir, **options,
        )  # fmt: skip
        return emit(captured, report, backend)


def emit(captured: Captured, report: Report, backend: Backend) -> Compiled:
    """What `lower` gave, in the target's form."""
    with _stage(report, "emit"):
        artefact = backend.emit(captured.graph, input_names=captured.input_names, output_names=captured.output_names)
    report.nodes["artefact"] = artefact.node_count
    report.notes += artefact.notes
    return Compiled(captured, artefact, report)


def lower(
    model: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    target: str = "onnx",
    dynamic_shapes: Any = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    weights: Source | None = None,
    passes: Sequence[Pass] | None = None,
    verify_ir: bool = False,
    until: Stage = "legal",
    on_stage: Callable[[str], None] | None = None,
    **options: Any,
) -> tuple[Captured, Report, Backend]:
    """`compile` without the emission.

    Args:
        model: see `compile`, here and below.
        args: example arguments.
        kwargs: example keyword arguments.
        target: what to legalize for.
        dynamic_shapes: which sizes may vary.
        input_names: names for the inputs.
        output_names: names for the outputs.
        weights: in place of the model's own.
        passes: in place of the default passes.
        verify_ir: check the invariants after every pass.
        until: the stage after which to stop.
        on_stage: called with the name of each stage as it begins.
        options: the frontend's and the target's.

    Returns:
        The captured model, with its graph after the last stage that ran; the report so far; the backend.
    """
    _check_names("input_names", input_names)
    _check_names("output_names", output_names)
    for each in passes or ():
        if not callable(getattr(each, "apply", None)):
            raise UsageError(f"{each!r} is no pass", expected="a name and apply(graph), as isthmus.passes.Pass says")
    frontend = _frontend(model)
    kind, capture_options = _options(target, frontend, options)
    report = Report(model=_name(model), target=target)
    tell = on_stage or (lambda stage: None)

    tell("capture")
    with _stage(report, "capture"):
        captured: Captured = frontend.capture(
            model, _as_args(args), _as_kwargs(kwargs), dynamic_shapes=dynamic_shapes, input_names=input_names,
            output_names=output_names, weights=weights, options=capture_options,
        )  # fmt: skip
    if both := set(output_names or ()) & set(captured.input_names):
        raise UsageError("output_names has the name of an input", found=", ".join(sorted(both)))
    graph = captured.graph
    backend = kind(_validated(kind.Options, {**kind.usual(graph), **options}))
    report.options = backend.options.model_dump(exclude_none=True)
    if not graph.outputs:
        raise CaptureError(f"{report.model} has no tensor among its results: there is nothing to compute")
    captured.integers = read_integers(graph)
    report.pruned = pruned(captured)
    if captured.by_example and (warning := early_exit(graph, report.pruned)) is not None:
        captured.warnings.append(warning)
    for told in captured.warnings:
        warnings.warn(told, IsthmusWarning, stacklevel=3)
    report.warnings = list(captured.warnings)
    report.capture_seconds = dict(captured.seconds)
    report.notes += captured.notes
    report.nodes["captured"] = count_nodes(graph)
    growth = GROWTH if captured.growth is None else captured.growth
    if until != "captured":
        SpellOut(backend.stays, backend.takes).apply(graph)
        tell("passes")
        with _stage(report, "passes"):
            records = run_passes(graph, default_passes(growth, backend.takes) if passes is None else passes, verify=verify_ir)
        report.passes += map(_told, records)
        report.nodes["passes"] = count_nodes(graph)
    if until == "legal":
        tell("legalize")
        with _stage(report, "legalize"):
            record = _legalize(captured, backend, report)
        report.legalized = dict(record.counts)
        with _stage(report, "cleanup"):
            records = run_passes(graph, cleanup_passes(growth), verify=verify_ir)
        report.passes += map(_told, [record, *records])
        report.nodes["legal"] = count_nodes(graph)
    report.inputs = {name: str(value.type) for name, value in zip(captured.input_names, graph.inputs, strict=True)}
    report.outputs = {name: str(value.type) for name, value in zip(captured.output_names, graph.outputs, strict=True)}
    report.assumptions = assumptions(graph)
    report.weights_bytes = sum({weight.key: weight.nbytes for weight in graph.weights()}.values())
    return captured, report, backend


def _legalize(captured: Captured, backend: Backend, report: Report) -> PassRecord:
    """Legalizes the graph. What may be empty may be so where the target's form is the same then, and not worse."""
    graph, sizes, names = captured.graph, captured.perhaps_empty, captured.output_names
    if not sizes:
        return legalize(graph, backend, names)
    legal = {node for node in graph.walk() if backend.legal(node) is None}
    with graph.symbols.supposing([(">=", symbol.dim, 1) for symbol in sizes]):
        record = legalize(graph, backend, names, legal)
    new = [node for node in graph.walk() if node not in legal]
    if any(backend.legal(node) is not None for node in new) or not all(_sound_without(sizes, node) for node in new):
        for symbol in sizes:
            graph.symbols.narrow(symbol, 1)
        told = ", ".join(symbol.name for symbol in sizes)
        report.notes.append(f"{told} {'are' if len(sizes) > 1 else 'is'} taken to be 1 at least, which takes fewer nodes")
    return record


def _sound_without(sizes: Sequence[Symbol], node: Node) -> bool:
    """Whether the sizes in a node are some where those that may be 0 are: none is negative, none divides by 0."""
    dims: list[Dim] = []

    def note(dim: Dim) -> Dim:
        dims.append(dim)
        return dim

    for item in (*(value.type for value in node.results), *node.attrs.values()):
        map_dims(item, note)
    used = {symbol: symbol.hint or 1 for dim in dims for symbol in symbols(dim)}
    affected = [symbol for symbol in sizes if symbol in used]
    for empty in (affected, *([symbol] for symbol in affected)):
        at = used | dict.fromkeys(empty, 0)
        try:
            if any(isinstance(dim, Expr) and evaluate(dim, at) < 0 for dim in dims):
                return False
        except ZeroDivisionError:
            return False
    return True


@contextmanager
def _stage(report: Report, stage: str) -> Iterator[None]:
    """Times a stage, with the cycle collector at rest."""
    start = time.perf_counter()
    try:
        with _collecting_nothing():
            yield
    finally:
        report.seconds[stage] = time.perf_counter() - start


@contextmanager
def _collecting_nothing() -> Iterator[None]:
    """The cycle collector at rest: a compilation makes many small objects that live on, little garbage."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _told(record: PassRecord) -> PassReport:
    return PassReport.model_validate(record, from_attributes=True)


def _name(model: Any) -> str:
    if isinstance(model, (str, Path)):
        return Path(model).name
    return str(getattr(model, "__name__", model.__class__.__name__))


def _as_args(args: Any) -> tuple[Any, ...]:
    """The positional arguments: a tuple or list holds them, anything else is the only one."""
    return tuple(args) if isinstance(args, (tuple, list)) else (args,)


def _as_kwargs(kwargs: Any) -> dict[str, Any]:
    """Raises UsageError where keyword arguments are not a mapping from names."""
    if not isinstance(kwargs or {}, Mapping) or not all(isinstance(name, str) for name in kwargs or {}):
        raise UsageError("kwargs must be a dict of arguments by name", found=repr(kwargs))
    return dict(kwargs or {})


def _check_names(what: str, names: Sequence[str] | None) -> None:
    """Raises UsageError where names are not different, non-empty strings."""
    if isinstance(names, str) or not all(isinstance(name, str) and name for name in names or ()):
        raise UsageError(f"{what} must be a list of names", found=repr(names))
    if len(set(names or ())) != len(names or ()):
        raise UsageError(f"{what} has a name twice", found=", ".join(names or ()))


def _frontend(model: Any) -> Any:
    """The frontend's module, found by where the model's classes come from, without importing a framework.

    Raises:
        UsageError: no frontend takes such a model.
    """
    if isinstance(model, (str, Path)):
        found = FILES.get(Path(model).suffix)
        if found is None:
            raise UsageError(f"no frontend takes a file like {model}", expected=f"a name that ends in {', '.join(FILES)}")
        return import_module(found)
    for package in (base.__module__.partition(".")[0] for base in type(model).__mro__):
        if package in FRONTENDS:
            return import_module(FRONTENDS[package])
    if callable(model) and not inspect.isclass(model):  # it says nothing of its framework; so far one takes functions
        return import_module(FRONTENDS["torch"])
    kind = f"{type(model).__module__}.{type(model).__qualname__}"
    remedy = "make an instance of the class" if inspect.isclass(model) else None
    raise UsageError("isthmus takes no such model", expected="a torch.nn.Module, ExportedProgram or GraphModule, or a function",
                     found=f"the class {model.__qualname__}" if inspect.isclass(model) else f"an object of {kind}",
                     remedy=remedy)  # fmt: skip


def _options(target: str, frontend: Any, options: dict[str, Any]) -> tuple[type[Backend], Any]:
    """The backend, and the frontend's options. The backend's are checked; it may choose others by the graph.

    Raises:
        UsageError: an option that neither has, or a value that one does not take.
    """
    kind = registry.find(target)
    own: Any = frontend.CaptureOptions
    known = kind.Options.model_fields
    unknown = [name for name in options if name not in own.model_fields and name not in known]
    if unknown:
        raise UsageError(
            f"there is no option {', '.join(unknown)}",
            expected=f"{', '.join(known) or 'none'} (of the target {target}); {', '.join(own.model_fields)} (of the capture)",
        )
    _validated(kind.Options, options)
    return kind, _validated(own, options)


def _validated(model: type[BaseModel], options: dict[str, Any]) -> Any:
    """The options of one side.

    Raises:
        UsageError: a value that it does not take.
    """
    try:
        return model(**{name: value for name, value in options.items() if name in model.model_fields})
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, item['loc']))}: {item['msg'].removeprefix('Value error, ')}" for item in error.errors()]
        found = ", ".join(f"{item['loc'][0]}={item['input']!r}" for item in error.errors())
        raise UsageError("an option has a wrong value", expected="; ".join(lines), found=found) from None
