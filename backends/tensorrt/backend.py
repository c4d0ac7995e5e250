"""The target ``tensorrt``: what TensorRT takes, how it is said, and for which GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, cast

from pydantic import BaseModel, Field, field_validator

from isthmus.backends import base, widen
from isthmus.backends.names import Names
from isthmus.backends.tensorrt import (
    control,
    elementwise,
    indexing,
    layers,
    library,
    pooling,
    profiles,
    quantization,
    sampling,
    shapes,
    table,
)  # fmt: skip
from isthmus.backends.tensorrt.artefact import TensorRTArtefact
from isthmus.backends.tensorrt.emitter import Emitter, Probe, new_network, storable
from isthmus.backends.tensorrt.library import Choice
from isthmus.ir import dtypes
from isthmus.ir.builder import Builder
from isthmus.ir.dtypes import DType
from isthmus.ir.errors import IsthmusError, UsageError
from isthmus.ir.graph import Graph, Node, Value

FAMILIES = (control, elementwise, indexing, layers, pooling, quantization, sampling, shapes)
"""The modules that fill the table of emitters."""

WIDER: Final[dict[DType, tuple[DType, ...]]] = {
    dtypes.bool_: (dtypes.i32,), dtypes.u8: (dtypes.i32,), dtypes.i8: (dtypes.i32,), dtypes.f8e4m3fn: (dtypes.f32,),
    dtypes.f16: (dtypes.f32,), dtypes.bf16: (dtypes.f32,),
}  # fmt: skip
"""The element types to compute in where TensorRT lacks one."""

Sizes = dict[str, Annotated[int, Field(strict=True, ge=0, le=profiles.GREATEST)]]


class TensorRTOptions(base.Options):
    """Options of the target ``tensorrt``.

    Attributes:
        targets: the GPUs that a saved engine is for, such as ``["sm86", "sm89"]``: consumer and workstation cards of the
            Ampere and Ada generations. TensorRT for RTX knows sm75, sm80, sm86, sm89, sm120 and sm121; the other TensorRT
            builds for the GPU of the machine, whatever stands here.
        min: least size of dynamic axes, by the symbol's name. By default the least that the model allows, at least 1.
        opt: size that the engine is tuned for. By default that of the example.
        max: greatest size. By default the greatest that the model allows, or four times `opt` where nothing bounds it.
        workspace: bytes of GPU memory that a layer may use for scratch; by default all there is.
        optimization_level: how long TensorRT looks for faster kernels, 0 to 5; by default its own choice.
        verbose: keeps all that TensorRT says in ``artefact.lines``, in place of warnings and errors.
        library: the module to use; ``auto`` takes ``tensorrt_rtx`` where it is installed, else ``tensorrt``.
    """

    targets: tuple[str, ...] = ("sm86", "sm89")
    min: Sizes = Field(default_factory=dict)
    opt: Sizes = Field(default_factory=dict)
    max: Sizes = Field(default_factory=dict)
    workspace: int | None = Field(default=None, gt=0)
    optimization_level: int | None = Field(default=None, ge=0, le=5)
    verbose: bool = False
    library: Choice = "auto"

    @field_validator("targets")
    @classmethod
    def _not_empty(cls, targets: tuple[str, ...]) -> tuple[str, ...]:
        if not targets or len(set(targets)) != len(targets):
            raise ValueError("name at least one GPU, each once, such as sm89")
        return targets


class TensorRTBackend(base.Backend):
    """Builds a network through TensorRT's own API, strongly typed.

    Raises:
        UsageError: TensorRT is not installed, or does not know a GPU in `targets`.
    """

    name = "tensorrt"
    Options: ClassVar[type[BaseModel]] = TensorRTOptions

    def __init__(self, options: BaseModel | None = None) -> None:
        super().__init__(options)
        self._own = cast(TensorRTOptions, self.options)
        self._trt = library.load(self._own.library)
        known = getattr(self._trt, "ComputeCapability", None)
        if known is not None:
            names = [name.lower() for name in known.__members__ if name.startswith("SM")]
            unknown = [target for target in self._own.targets if target not in names]
            if unknown:
                raise UsageError(f"TensorRT builds nothing for {', '.join(unknown)}", expected=", ".join(names))

    @cached_property
    def _probe(self) -> Probe:
        return Probe(self._trt)

    def legal(self, node: Node) -> str | None:
        refused = self._probe.refusal(node)
        return None if refused is None else str(refused)

    def remedy(self, node: Node) -> str | None:
        refused = self._probe.refusal(node)
        if refused is None or node.graph is None:
            return None
        return refused.remedy(node.graph, (*node.operands, *node.results))

    def lower(self, b: Builder, node: Node) -> Sequence[Value] | None:
        if any(storable(value) is not None for value in (*node.operands, *node.results) if value is not None):
            return None  # no other words help
        found: Any = table.lower(b, node)
        if found is None:
            found = widen.lower(self.legal, WIDER, b, node)
        if found is None:
            return None
        return (found,) if isinstance(found, Value) else tuple(found)

    def emit(
        self, graph: Graph, *, input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
    ) -> TensorRTArtefact:  # fmt: skip
        trt = self._trt
        for value in (*graph.inputs, *graph.outputs):
            refused = storable(value)
            if refused is not None:
                raise IsthmusError(f"the value {value.name!r} cannot go in or out: {refused}", location=value.location,
                                   remedy=refused.remedy(graph, [value]))  # fmt: skip
        builder = trt.Builder(library.log(trt))
        network = new_network(trt, builder)
        e = Emitter(trt, network, graph.binders())
        sizes = profiles.ranges(graph, self._own.min, self._own.opt, self._own.max, e.note)
        config = self._config(builder)
        profile = builder.create_optimization_profile()
        taken = Names(taken=input_names or ())
        names = input_names or [taken.unique(value.name or "input") for value in graph.inputs]
        for value, name in zip(graph.inputs, names, strict=True):
            e.define(value, e.cast(_input(trt, network, value, name, profile, sizes), value.tensor.dtype))
        if sizes:
            config.add_optimization_profile(profile)
        outputs = e.body(graph)
        wanted = output_names or [taken.unique(value.name or "output") for value in graph.outputs]
        _mark(e, graph.outputs, outputs, wanted)
        artefact = TensorRTArtefact(trt, builder, network, config, profile, e.kept, self._own)
        artefact.notes += e.notes
        return artefact

    def _config(self, builder: Any) -> Any:
        config, options = builder.create_builder_config(), self._own
        if options.workspace is not None:
            config.set_memory_pool_limit(self._trt.MemoryPoolType.WORKSPACE, options.workspace)
        if options.optimization_level is not None:
            config.builder_optimization_level = options.optimization_level
        config.profiling_verbosity = self._trt.ProfilingVerbosity.DETAILED
        return config


def _input(trt: Any, network: Any, value: Value, name: str, profile: Any, sizes: Any) -> Any:
    """A network input, and its sizes in the profile."""
    dims = value.tensor.shape or ()
    shape = [dim if isinstance(dim, int) else -1 for dim in dims]
    tensor = network.add_input(name, library.outer(trt, value.tensor.dtype), shape)
    if tensor is None:
        raise UsageError(f"TensorRT takes no input named {name!r}")
    if -1 in shape:
        profile.set_shape(name, *profiles.shapes(dims, sizes))
        for axis, dim in enumerate(dims):
            symbol = None if isinstance(dim, int) else dim.symbol
            if symbol is not None:
                tensor.set_dimension_name(axis, symbol.name)
    return tensor


def _mark(e: Emitter, values: Sequence[Value], outputs: Sequence[Any], names: Sequence[str]) -> None:
    """Makes tensors outputs of these names. One that is an input, or an output already, is handed on by a layer."""
    marked: set[str] = set()
    for value, tensor, name in zip(values, outputs, names, strict=True):
        outer = library.outer(e.trt, value.tensor.dtype)
        if tensor.dtype != outer:
            tensor = e.add("cast", tensor, outer)
        elif tensor.is_network_input or tensor.name in marked or e.is_constant(tensor):
            tensor = e.add("identity", tensor)
        tensor.name = name
        marked.add(name)
        e.network.mark_output(tensor)
