"""Runs ONNX models with onnxruntime, on the CPU, or with ONNX's own evaluator."""

from __future__ import annotations

import ctypes
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from isthmus.backends.onnx.opsets import by_enum, enum
from isthmus.ir.dtypes import from_numpy
from isthmus.ir.errors import EvaluationError, UsageError
from isthmus.ir.weights import Array, ArrayWeight

COMPLEX: Final = "isthmus.complex"
"""The key of a file's metadata that says which inputs and outputs are complex: pairs of reals, along a last axis."""


class OnnxRunner(ABC):
    """A model that is ready to run.

    Attributes:
        inputs: the names of its inputs, in order.

    Args:
        inputs: these names.
        outputs: the names of its outputs.
        pairs: what the file's metadata says under `COMPLEX`.
    """

    runtime: str
    """What runs it, as errors name it."""

    def __init__(self, inputs: list[str], outputs: list[str], pairs: str) -> None:
        self.inputs = inputs
        self._outputs = outputs
        found = json.loads(pairs)
        self._complex_inputs = frozenset(found.get("inputs", ()))
        self._complex_outputs = [name in found.get("outputs", ()) for name in outputs]

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs on these inputs, in the order of the model's own.

        Raises:
            UsageError: another number of inputs than the model has.
            EvaluationError: the runtime refuses them.
        """
        if len(inputs) != len(self.inputs):
            expected = ", ".join(self.inputs)
            raise UsageError(f"the model takes {len(self.inputs)} inputs", expected=expected, found=str(len(inputs)))
        feeds = dict(zip(self.inputs, inputs, strict=True))
        feeds.update({name: _as_pairs(np.asarray(feeds[name])) for name in self._complex_inputs})
        try:
            found = self._run(feeds)
        except Exception as error:  # onnxruntime's errors have no common base of their own; the evaluator's ops raise any
            raise EvaluationError(f"{self.runtime}: {error}") from error
        return [_as_complex(array) if pairs else array for array, pairs in zip(found, self._complex_outputs, strict=True)]

    @abstractmethod
    def _run(self, feeds: dict[str, Any]) -> list[Any]:
        """The outputs, complex ones as pairs."""


class Session(OnnxRunner):
    """A model that onnxruntime runs.

    Args:
        model: the file's content, or its path.
        weights: initializers that are kept in memory beside it, by name.
        frugal: weights stay as they are: neither laid out anew for the kernels, which runs faster, nor computed with.

    Raises:
        EvaluationError: onnxruntime is not installed, or refuses the model.
    """

    runtime = "onnxruntime"

    def __init__(
        self, model: bytes | bytearray | Path, weights: Mapping[str, Array] | None = None, frugal: bool = False,
    ) -> None:  # fmt: skip
        try:
            import onnxruntime
        except ImportError as error:
            raise EvaluationError("onnxruntime is not installed", remedy="pip install 'isthmus[onnx]'") from error
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self._arrays = {name: np.ascontiguousarray(array) for name, array in (weights or {}).items()}
        self._values = list(map(_to_runtime, self._arrays.values()))
        if self._arrays:
            options.add_external_initializers(list(self._arrays), self._values)
        disabled = None
        if frugal:
            options.add_session_config_entry("session.disable_prepacking", "1")
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
            disabled = ["ConstantFolding"]
            # Each node runs late: casts of narrow weights to what a kernel takes would all come first otherwise.
            options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
        source = str(model) if isinstance(model, Path) else model
        try:
            self._session = onnxruntime.InferenceSession(
                source, options, providers=["CPUExecutionProvider"], disabled_optimizers=disabled
            )
        except Exception as error:  # as above
            raise EvaluationError(f"onnxruntime refuses the model: {error}") from error
        given, gives = self._session.get_inputs(), self._session.get_outputs()
        inputs = [node.name for node in given]
        if overridable := {node.name for node in self._session.get_overridable_initializers()}:
            inputs = _in_order(model, overridable.union(inputs))
        self._plain = all(node.type.startswith("tensor(") and node.type != "tensor(string)" for node in (*given, *gives))
        pairs = self._session.get_modelmeta().custom_metadata_map.get(COMPLEX, "{}")
        super().__init__(inputs, [node.name for node in gives], pairs)

    def _run(self, feeds: dict[str, Any]) -> list[Any]:
        if self._plain:
            given = {name: _to_runtime(np.asarray(array)) for name, array in feeds.items()}
            found = [_from_runtime(value) for value in self._session.run_with_ort_values(self._outputs, given)]
        else:
            found = list(self._session.run(self._outputs, feeds))
        for index, name in enumerate(self._outputs):
            if name in feeds and isinstance(found[index], np.ndarray):
                # onnxruntime hands such an input back as the memory that it was given, and does not keep that.
                found[index] = found[index].copy()
        return found


class Evaluator(OnnxRunner):
    """A model that ONNX's own evaluator runs: slowly, and what no runtime has.

    Args:
        model: the file's content, or its path.

    Raises:
        EvaluationError: it knows an op as little.
    """

    runtime = "ONNX's evaluator"

    def __init__(self, model: bytes | bytearray | Path) -> None:
        from onnx.reference import ReferenceEvaluator

        from isthmus.backends.onnx.more_ops import MORE

        proto = onnx.load(model) if isinstance(model, Path) else onnx.ModelProto.FromString(bytes(model))
        pairs = next((each.value for each in proto.metadata_props if each.key == COMPLEX), "{}")
        # Before IR version 4 every initializer is an input as well.
        constants = {each.name for each in proto.graph.initializer} if proto.ir_version < 4 else ()
        inputs = [each.name for each in proto.graph.input if each.name not in constants]
        super().__init__(inputs, [each.name for each in proto.graph.output], pairs)
        try:
            self._evaluator = ReferenceEvaluator(proto, new_ops=MORE)
        except Exception as error:  # it raises whatever its ops raise
            raise EvaluationError(f"ONNX's evaluator refuses the model: {error}") from error

    def _run(self, feeds: dict[str, Any]) -> list[Any]:
        return list(self._evaluator.run(None, feeds))


def _in_order(model: bytes | bytearray | Path, names: Collection[str]) -> list[str]:
    """Names of inputs in the order of the file, where the runtime tells those that have a content by themselves apart."""
    proto = onnx.load(model, load_external_data=False) if isinstance(model, Path) else onnx.ModelProto.FromString(bytes(model))
    return [each.name for each in proto.graph.input if each.name in names]


def _as_pairs(array: Array) -> Array:
    return np.ascontiguousarray(array).view(array.real.dtype).reshape(*array.shape, 2)


def _as_complex(array: Array) -> Array:
    complex_type = np.result_type(array.dtype, np.complex64)
    return np.ascontiguousarray(array).view(complex_type).reshape(array.shape[:-1])


def _to_runtime(array: Any) -> Any:
    import onnxruntime

    array = np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype.isbuiltin == 1:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    dtype = from_numpy(array.dtype)
    if dtype.bits % 8 == 0:
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array, enum(dtype))
    value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(array.shape), enum(dtype), "cpu")
    content = b"".join(map(bytes, ArrayWeight(array).chunks()))
    ctypes.memmove(value.data_ptr(), content, len(content))
    return value


def _from_runtime(value: Any) -> Any:
    """An array of the runtime's tensor; numpy does not know all element types, so the bytes are read where need be."""
    dtype = by_enum(value.element_type())
    if dtype.numpy.isbuiltin == 1:
        return value.numpy().view(dtype.numpy)  # u64 may come as another type of numpy's of 64 bits, which torch refuses
    shape = tuple(value.shape())
    count = math.prod(shape)
    size = (count * dtype.bits + 7) // 8
    content = np.frombuffer(ctypes.string_at(value.data_ptr(), size), np.uint8) if size else np.empty(0, np.uint8)
    if dtype.bits % 8 == 0:
        return content.view(dtype.numpy).reshape(shape)
    places = 8 // dtype.bits
    shifts = np.arange(places, dtype=np.uint8) * dtype.bits
    codes = (content[:, None] >> shifts & (2**dtype.bits - 1)).reshape(-1)[:count]
    if dtype.is_signed and dtype.is_integer:
        codes = np.where(codes >> (dtype.bits - 1), codes | (255 << dtype.bits & 255), codes).astype(np.uint8)
        return codes.view(np.int8).astype(dtype.numpy).reshape(shape)
    return codes.view(dtype.numpy).reshape(shape)
