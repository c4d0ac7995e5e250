"""The target ``onnx``: what an opset can say, how to say it, and the file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, cast

import onnx
from pydantic import BaseModel, Field, ValidationInfo, field_validator, model_validator

from isthmus.backends import base, widen
from isthmus.backends.onnx import (
    as_told,
    control,
    custom,
    detection,
    division,
    early,
    early_places,
    early_turns,
    elementwise,
    indexing,
    native,
    neural,
    opsets,
    plainer,
    pooling,
    quantization,
    random,
    recurrent,
    resizing,
    sampling,
    shapes,
    spectral,
    table,
    texts,
)  # fmt: skip
from isthmus.backends.onnx.artefact import External, OnnxArtefact
from isthmus.backends.onnx.attributes import plain
from isthmus.backends.onnx.emitter import Emitter, Scope
from isthmus.backends.onnx.probe import Probe
from isthmus.backends.onnx.profile import BUILT_IN, Kind, Profile, load
from isthmus.backends.onnx.runtime import COMPLEX, Session
from isthmus.backends.onnx.wire import check_external
from isthmus.ir import dtypes, remedies
from isthmus.ir.builder import Builder
from isthmus.ir.checks import ASSUMPTIONS, assumptions
from isthmus.ir.dtypes import DType
from isthmus.ir.errors import FileError, Refusal, UnsupportedError, UsageError
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.interface import KEY, Notes, interface
from isthmus.ir.ops.whole import Whole

FAMILIES = (
    control, custom, detection, division, early, early_places, early_turns, elementwise, indexing, native, neural,
    pooling, quantization, random, recurrent, resizing, sampling, shapes, spectral, texts,
)  # fmt: skip
"""The modules that fill the table of emitters."""


WIDER: Final[dict[DType, tuple[DType, ...]]] = {
    dtypes.bool_: (dtypes.u8, dtypes.i32, dtypes.i64),
    dtypes.u8: (dtypes.i32, dtypes.i64), dtypes.i8: (dtypes.i32, dtypes.i64),
    dtypes.u16: (dtypes.i32, dtypes.i64), dtypes.i16: (dtypes.i32, dtypes.i64),
    dtypes.u32: (dtypes.i64,), dtypes.i32: (dtypes.i64,),
    dtypes.f16: (dtypes.f32,), dtypes.bf16: (dtypes.f32,), dtypes.f32: (dtypes.f64,),
    **dict.fromkeys((dtypes.f8e4m3fn, dtypes.f8e4m3fnuz, dtypes.f8e5m2, dtypes.f8e5m2fnuz, dtypes.f4e2m1), (dtypes.f32,)),
    **dict.fromkeys((dtypes.i4, dtypes.u4, dtypes.i2, dtypes.u2), (dtypes.i32,)),
}  # fmt: skip
"""The element types to compute in where onnxruntime lacks one."""


class OnnxOptions(base.Options):
    """Options of the target ``onnx``.

    Attributes:
        opset: the version of the standard op set. 18, of late 2022, is read by every runtime in use; a model from an ONNX file
            keeps its own.
        external_data: whether weights go into a second file, ``<name>.data``: ``auto`` where one file cannot hold them; a model
            from an ONNX file with weights outside has them outside.
        checksum: whether a model file with weights in a second file tells that file's SHA-1 digest, under the key that
            onnx.proto has for it; `isthmus verify` then checks it.
        metadata: whether each node carries its source line and module, and the file what it takes for granted, under the key
            ``isthmus.assumptions``, one thing a line.
        keep_functions: whether modules that the user kept whole become functions of the file, of the modules' names;
            otherwise, and below opset 15, they are taken apart.
        keep_ops: whether the ops of an ONNX file stay as they are even where the reader lacks them, or is known to compute
            something else than the standard says: what took the file takes them.
        profile: what is to read the file: ``onnxruntime``, ``opencv`` (its dnn module), ``tensorrt-parser``, or the path of a
            TOML file that states what a reader takes. Whatever else is written is what onnxruntime runs; ``onnx`` is all of the
            standard, and such a model is run here by ONNX's own evaluator where onnxruntime refuses it.
    """

    opset: int = Field(default=opsets.DEFAULT)
    external_data: External = "auto"
    checksum: bool = False
    metadata: bool = True
    keep_functions: bool = False
    keep_ops: bool = False
    profile: str = Field(default="onnxruntime")

    @field_validator("opset")
    @classmethod
    def _known(cls, opset: int) -> int:
        if not opsets.OLDEST <= opset <= opsets.NEWEST:
            raise ValueError(f"opset {opset} is not supported: from {opsets.OLDEST} to {opsets.NEWEST}")
        return opset

    @model_validator(mode="before")
    @classmethod
    def _of_profile(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Without an opset, the one that the profile takes which is next to the default."""
        profile = given.get("profile")
        if not isinstance(profile, str) or "opset" in given:
            return given
        first, last = load(profile).opsets
        return {**given, "opset": min(max(opsets.DEFAULT, first), last)}

    @field_validator("profile")
    @classmethod
    def _read(cls, profile: str, info: ValidationInfo) -> str:
        read = load(profile)  # the errors of a file speak for themselves
        reason = read.opset(info.data["opset"]) if "opset" in info.data else None
        if reason is not None:
            raise ValueError(reason)
        return profile


class OnnxBackend(base.Backend):
    """Writes ONNX, for onnxruntime and whatever else reads it."""

    name = "onnx"
    Options: ClassVar[type[BaseModel]] = OnnxOptions

    @classmethod
    def usual(cls, graph: Graph) -> dict[str, Any]:
        """A model from an ONNX file is written at its own opset, or the nearest; weights that were outside are so again."""
        told = interface(graph, "onnx")
        if told is None:
            return {}
        opset = {"opset": opsets.nearest(told.version)} if told.version else {}
        return {**opset, **({"external_data": "always"} if told.outside else {})}

    @property
    def opset(self) -> int:
        """The opset written."""
        return cast(OnnxOptions, self.options).opset

    @cached_property
    def profile(self) -> Profile:
        """What is to read the file."""
        return load(cast(OnnxOptions, self.options).profile)

    def _probe_of(self, opset: int, profile: Profile | None = None) -> Probe:
        options = cast(OnnxOptions, self.options)
        return Probe(opset, options.keep_functions, profile or self.profile, options.keep_ops)

    @cached_property
    def _probe(self) -> Probe:
        return self._probe_of(self.opset)

    def legal(self, node: Node) -> str | None:
        if not self.profile.constant_nodes and plainer.is_known(node):
            return f"the profile {self.profile.name} takes no nodes of constants alone"
        return self._probe.reason(node)

    def takes(self, node: Node) -> bool:
        return self._probe.is_one(node)

    def stays(self, node: Node) -> bool:
        return self._probe.tried(node, native.of_whole) is None

    def remedy(self, node: Node) -> str | None:
        """The opset next to the chosen one at which the node is legal, an older one if there is any; or another reader."""
        values = [value for value in (*node.operands, *node.results) if value is not None]
        if self.profile.sizes == "known" and node.graph is not None and (found := remedies.open_sizes(values)):
            apart = f"keep this part outside the model: its sizes come from data, and {self.profile.name} must know them"
            return remedies.fix_sizes(node.graph, found) or apart
        older = range(self.opset - 1, opsets.OLDEST - 1, -1)
        newer = range(self.opset + 1, opsets.NEWEST + 1)
        for sign, versions in (("<=", older), (">=", newer)):
            for opset in versions:
                if self._probe_of(opset).reason(node) is None:
                    return f"choose opset {sign} {opset}"
        others = [load(name) for name in BUILT_IN if name != self.profile.name]
        takers = [repr(each.name) for each in others if self._probe_of(self.opset, each).reason(node) is None]
        return f"choose the profile {' or '.join(takers)}, if another runtime is to read the file" if takers else None

    def lower(self, b: Builder, node: Node) -> Sequence[Value] | None:
        if isinstance(node.op, Whole):
            return native.lowered(b, node) if self.stays(node) else None
        if self.profile.sizes == "known" and remedies.open_sizes(value for value in node.operands if value is not None):
            return None  # no other words help
        found: Any = plainer.lower(b, node) if not self.profile.plain else None
        if found is None:
            found = table.lower(node.op.name, self.opset, b, node)
        if found is None:
            found = widen.lower(self.legal, WIDER, b, node)
        if found is None:
            return None
        return (found,) if isinstance(found, Value) else tuple(found)

    def load(self, path: str | Path) -> base.Runner:
        if not Path(path).is_file():
            raise FileError(f"there is no file {path}")
        check_external(Path(path))
        return Session(Path(path))

    def _check_ends(self, graph: Graph) -> None:
        """An input or output that no node has to do with is seen by no other check."""
        sides: tuple[tuple[str, Kind, Sequence[Value]], ...] = (
            ("input", "inputs", graph.inputs), ("output", "outputs", graph.outputs),
        )  # fmt: skip
        found = [(what, value, self._probe.storable(value, kind)) for what, kind, values in sides for value in values]
        if not self.profile.unused_inputs:
            unused = f"the profile {self.profile.name} takes no inputs that nothing uses"
            found += [("input", value, unused) for value in graph.inputs if not value.uses]
        refusals = [
            Refusal(reason, op=what, location=value.location, remedy=remedies.fix_sizes(graph, remedies.open_sizes([value])))
            for what, value, reason in found if reason is not None
        ]  # fmt: skip
        if refusals:
            raise UnsupportedError(f"{len(refusals)} of the inputs and outputs cannot be carried over to onnx", refusals)

    def emit(
        self, graph: Graph, *, input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
    ) -> OnnxArtefact:  # fmt: skip
        options = cast(OnnxOptions, self.options)
        e = Emitter(options.opset, graph.binders(), options.metadata, options.keep_functions, self.profile, options.keep_ops)
        scope = Scope(graph, graph.name)
        e.reserve(graph)
        e.noted = frozenset(graph.notes.values if graph.notes is not None else ())
        proto = scope.proto
        self._check_ends(graph)
        around = interface(graph, "onnx")
        inputs = _names("input", input_names, graph.inputs)
        for value, name in zip(graph.inputs, inputs, strict=True):
            e.define(value, e.unique("", own=name))
            proto.input.append(e.told(e.name(value), value.type))
            if value.name in graph.defaults:
                e.initializers[e.name(value)] = graph.defaults[value.name]
        wanted = _names("output", output_names, graph.outputs)
        e.scopes.append(scope)
        # An input is an output by itself only where that is asked for by its very name.
        itself = {} if output_names is None else dict(zip(graph.inputs, inputs, strict=True))
        ends: dict[tuple[Value, str], str] = {}  # a file may list an output twice
        for value, name in zip(graph.outputs, wanted, strict=True):
            if (value, name) not in ends:
                ends[value, name] = name if itself.get(value) == name else e.unique("", own=name)
        outputs = e.body(graph, graph.outputs, [ends[end] for end in zip(graph.outputs, wanted, strict=True)])
        for value, name in zip(graph.outputs, outputs, strict=True):
            proto.output.append(e.told(name, value.type))
        model = onnx.ModelProto(ir_version=opsets.ir_version(options.opset), producer_name="isthmus")
        noted: dict[str, Any] = {}
        if around is not None:
            noted, lost = as_told.restore(around, graph.notes or Notes(), options.opset, model, proto, e.initializers)
            if lost:
                e.note(f"what the file says of the quantization of {', '.join(lost)} is left out")
            if around.version != opsets.nearest(around.version) == options.opset:
                e.note(f"the file is of opset {around.version}, and is written at {options.opset}, the nearest that is written")
        model.functions.extend(e.functions.values())
        for domain, version in e.domains.items():
            model.opset_import.add(domain=domain, version=version)
        if options.metadata:
            props = {**graph.metadata, **({ASSUMPTIONS: "\n".join(taken)} if (taken := assumptions(graph)) else {})}
            for key, text in sorted(props.items()):
                if key != KEY:
                    model.metadata_props.add(key=plain(key), value=plain(text))
        pairs = {
            side: [item.name for item, value in zip(items, values, strict=True) if opsets.is_complex(value.type)]
            for side, items, values in (("inputs", proto.input, graph.inputs), ("outputs", proto.output, graph.outputs))
        }
        if any(pairs.values()):
            model.metadata_props.add(key=COMPLEX, value=json.dumps(pairs))
            told = " and the ".join(f"{side} {', '.join(names)}" for side, names in pairs.items() if names)
            e.note(f"ONNX runtimes have no complex numbers: the {told} are pairs of reals in the file, along a last axis")
        artefact = OnnxArtefact(model, proto, e.initializers, options.external_data, options.checksum, self.profile.base,
                                noted)  # fmt: skip
        artefact.notes += e.notes
        return artefact


def _names(kind: str, given: Sequence[str] | None, values: Sequence[Value]) -> list[str]:
    """The names to give inputs or outputs."""
    if given is None:
        return [value.name or kind for value in values]
    names = list(given)
    if len(names) != len(values):
        raise UsageError(f"the names of {kind}s are not as many as these", expected=f"{len(values)} names", found=str(names))
    for name in names:
        if not isinstance(name, str) or not name or name != plain(name):
            raise UsageError(f"{name!r} is no name for an {kind}", expected="text of Unicode characters, not empty")
    return names


__all__ = ["OnnxBackend", "OnnxOptions"]
