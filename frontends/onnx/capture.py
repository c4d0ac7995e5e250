"""From an ONNX file to a graph, with the original beside it to compare with."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from pydantic import BaseModel, ConfigDict

from isthmus.frontends import weight_files
from isthmus.frontends.base import Array, Captured, TensorSpec
from isthmus.frontends.onnx.external import Files
from isthmus.frontends.onnx.files import read
from isthmus.frontends.onnx.importing import Imported, import_model, inputs_of
from isthmus.frontends.onnx.original import Original
from isthmus.frontends.onnx.strict import refuse_what_is_assumed
from isthmus.ir.dims import Dim, evaluate, hint, symbols
from isthmus.ir.errors import FileError, UsageError
from isthmus.ir.graph import Graph, Value, type_symbols
from isthmus.ir.types import Tensor, Type

MOST_MADE_UP: Final = 1 << 30
"""No input with more elements is made up."""


class CaptureOptions(BaseModel):
    """How a model is read.

    Attributes:
        strict: what the file does not say is not taken for granted: sizes of different names that must be equal, and ops of
            domains that nobody here knows, are an error, which tells all of them; and sizes may be 0.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    strict: bool = False


class OnnxCaptured(Captured):
    """An imported ONNX model."""

    imported: Imported
    original: Original
    files: Files | None

    def check(self) -> None:
        for file in self.files.opened.values() if self.files is not None else ():
            file.check()

    def needed(self, path: Path) -> list[Path]:
        if self.files is None or path.resolve() == self.files.own.path.resolve():
            return []
        return [file.path for file in self.files.opened.values()]

    def op_counts(self) -> dict[str, int]:
        """How many nodes the file has of each op, those in functions and nested graphs included."""
        return dict(Counter(node.op_type for node in self._nodes()))

    def _nodes(self) -> Iterator[Any]:
        work = [self.original.proto.graph, *self.original.proto.functions]
        while work:
            for node in work.pop().node:
                yield node
                for each in node.attribute:
                    work += [*each.graphs, *([each.g] if each.HasField("g") else ())]

    def spare(self, graph: Graph) -> int:
        """By how many bytes constants may grow so that the file does not: half of what the nodes took in it that are gone, less
        what constants have grown by meanwhile."""
        sizes: list[int] = [node.ByteSize() for node in self.original.proto.graph.node if node.op_type != "Constant"]
        gone = len(sizes) - sum(not node.op.is_constant for node in graph.walk())
        grown = sum(weight.nbytes for weight in graph.weights()) - sum(weight.nbytes for weight in self.weights)
        return max(0, gone * sum(sizes) // max(2 * len(sizes), 1) - max(0, grown))

    def flatten(self, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> list[Array]:
        names = self.original.inputs
        found = _by_name(names, args, kwargs or {})
        for name, weight in self.graph.defaults.items():
            if found.get(name) is None:
                found[name] = weight.array()
        if missing := [name for name in names if name not in found]:
            lacks = "; ".join(f"no {name}" for name in missing)
            raise UsageError("the inputs do not fit the model", expected=", ".join(names), found=lacks)
        return [_content_of(found[name], value.type) for name, value in zip(names, self.graph.inputs, strict=True)]

    def unflatten(self, outputs: list[Array]) -> Any:
        return dict(zip(self.output_names, outputs, strict=True))

    def eager(self, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> list[Array]:
        found = self.original([_as_pairs(array) for array in self.flatten(args, kwargs)])
        return [_as_complex(array, value.type) for array, value in zip(found, self.graph.outputs, strict=True)]

    def fresh_inputs(self, seed: int, sizes: Mapping[str, int] | None = None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        random = np.random.default_rng(seed)
        return tuple(_content(value.type, random, sizes or {}) for value in self.graph.inputs), {}


def _by_name(names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What a caller gives for inputs, by their names.

    Raises:
        UsageError: there is no such input.
    """
    if len(args) == 1 and isinstance(args[0], Mapping) and not kwargs:  # all of them in one dict
        return _by_name(names, (), args[0])
    if len(args) > len(names):
        raise UsageError(f"the model takes {len(names)} inputs", expected=", ".join(names), found=str(len(args)))
    found = {**kwargs, **dict(zip(names, args, strict=False))}
    if unknown := sorted(found.keys() - set(names)):
        wrong = "; ".join(f"unknown {name}" for name in unknown)
        raise UsageError("the inputs do not fit the model", expected=", ".join(names), found=wrong)
    return found


def _content_of(given: Any, type: Type) -> Any:
    """What a caller gives for an input: an array for a tensor; a list, or for an optional None, stays as it is."""
    return np.asarray(given) if isinstance(type, Tensor) or not (given is None or isinstance(given, list)) else given


def _as_pairs(array: Any) -> Any:
    """Complex numbers as the file has them: pairs of reals, along a last axis."""
    paired = isinstance(array, np.ndarray) and array.dtype.kind == "c"
    return np.stack([array.real, array.imag], -1) if paired else array


def _as_complex(array: Any, type: Type) -> Any:
    paired = isinstance(type, Tensor) and type.dtype.is_complex and array.dtype.kind == "f"
    return array[..., 0] + 1j * array[..., 1] if paired else array


def _content(type: Type, random: np.random.Generator, sizes: Mapping[str, int]) -> Any:
    """Content of a type, drawn at random."""
    if not isinstance(type, Tensor) or type.shape is None:
        raise UsageError(f"no inputs can be made up for an input of the type {type}", remedy="give example inputs")
    shape = [_size(dim, sizes) for dim in type.shape]
    if math.prod(size or 1 for size in shape) > MOST_MADE_UP:
        raise UsageError(f"no inputs are made up of the sizes {shape}", remedy="give example inputs")
    dtype = type.dtype
    if dtype.kind == "string":
        return random.choice(np.array(["", "a", "bc", "def"], object), shape)
    if dtype.kind == "bool":
        return random.integers(0, 2, shape).astype(bool)
    if dtype.is_integer:
        return random.integers(0, 2, shape).astype(dtype.numpy)
    drawn = random.standard_normal(shape)
    return (drawn + 1j * random.standard_normal(shape) if dtype.is_complex else drawn).astype(dtype.numpy)


def _size(dim: Dim, sizes: Mapping[str, int]) -> int:
    return evaluate(dim, {symbol: sizes.get(symbol.name, symbol.hint or 2) for symbol in symbols(dim)})


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
) -> OnnxCaptured:
    """Reads an ONNX model as a graph.

    Args:
        model: a ``ModelProto``, or the path of a file.
        args: example inputs, in the order of the model's; none are needed. Numbers in an `isthmus.spec(...)` become the sizes
            that the file leaves open; arrays tell only at which sizes the model may be run.
        kwargs: the same, by name.
        dynamic_shapes: not taken: the file says which sizes are dynamic.
        input_names: other names for the inputs.
        output_names: other names for the outputs.
        weights: not taken: the file has its own.
        options: see `CaptureOptions`.

    Raises:
        UsageError: an argument that a file does not take, or sizes that contradict it.
        FileError: the file is missing or malformed.
        UnsupportedError: with ``strict``, all that it does not allow.
    """
    if dynamic_shapes is not None or weights is not None:
        which = "dynamic_shapes" if dynamic_shapes is not None else "weights"
        remedy = "a number fixes a size that is open: isthmus.spec('f32[1,3,224,224]')" if dynamic_shapes is not None else None
        raise UsageError(f"{which} is not taken for an ONNX model, which says so itself", remedy=remedy)
    began = time.perf_counter()
    path = None if isinstance(model, onnx.ModelProto) else Path(model)
    proto, files = (model, None) if path is None else read(path)
    examples = _by_name([each.name for each in inputs_of(proto)], args, kwargs or {})
    given = {name: example for name, example in examples.items() if isinstance(example, TensorSpec)}
    try:
        imported = import_model(proto, files, "" if path is None else path.name, given)
    except FileError as error:
        if given and error.remedy is None:
            error.remedy = "leave the sizes open, if the model is not made for those that were given"
        raise
    graph = imported.graph
    if options is not None and options.strict:
        refuse_what_is_assumed(imported)
    names = [value.name for value in graph.inputs]
    notes = [
        f"{', '.join(ops)} {'stay opaque nodes' if len(ops) > 1 else 'stays an opaque node'}: {why}"
        for why, ops in imported.opaque_ops().items()
    ]
    notes += _changes(proto)
    captured = OnnxCaptured(
        graph, _renamed(names, input_names, "input"), _renamed(imported.output_names, output_names, "output"), notes,
        {"import": time.perf_counter() - began}, weights=list(graph.weights()),
    )  # fmt: skip
    captured.growth = captured.spare
    captured.imported, captured.original, captured.files = imported, Original(proto, path, names, files), files
    # A file says no least sizes; what its ops give for no elements is what the same ops will give.
    sizes = {symbol: None for value in graph.inputs for symbol in type_symbols(value.type)}
    captured.perhaps_empty = [symbol for symbol in sizes if symbol.lo == 0 and not (options and options.strict)]
    for value in graph.inputs:
        if examples.get(value.name) is not None:
            _hint(value, examples[value.name])
    return captured


def _changes(proto: Any) -> list[str]:
    """What of a file does not come back as it was."""
    sparse = [each.values.name for each in proto.graph.sparse_initializer]
    told = {
        "what the file says of training is left out": proto.training_info,
        "what the file says of devices is left out": proto.configuration,
        f"the sparse constants {', '.join(sparse)} are written out, as what infers shapes wants them": sparse,
    }
    return [text for text, found in told.items() if found]


def _renamed(names: Sequence[str], given: Sequence[str] | None, what: str) -> list[str]:
    if given is None:
        return list(names)
    if len(given) != len(names):
        raise UsageError(f"the model has {len(names)} {what}s", expected=", ".join(names), found=", ".join(given))
    return list(given)


def _hint(value: Value, example: Any) -> None:
    """The example's sizes as hints of an input's symbols."""
    if not isinstance(value.type, Tensor) or value.type.shape is None or isinstance(example, list):
        return
    sizes = map(hint, example.shape) if isinstance(example, TensorSpec) else np.shape(example)
    shape = tuple(sizes)
    if len(value.type.shape) != len(shape):
        raise UsageError(f"the input {value.name} has rank {len(value.type.shape)}", found=str(shape))
    for dim, size in zip(value.type.shape, shape, strict=True):
        symbol = None if isinstance(dim, int) else dim.symbol
        if symbol is not None and size is not None:
            symbol.hint = int(size)
