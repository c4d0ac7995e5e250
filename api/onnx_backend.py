"""isthmus as a backend of ONNX's own: ``prepare(model).run(inputs)``, as `onnx.backend.base` has it.

The standard's own runner drives it: ``onnx.backend.test.BackendTest(isthmus.onnx_backend, __name__)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

from isthmus.compiled import Compiled
from isthmus.compiler import compile
from isthmus.ir.errors import EvaluationError, UnsupportedError

OPSETS: Final = (7, 28)
"""A file's own opset is kept where it lies between these, as far as the installed onnx knows it."""


class Prepared(BackendRep):  # type: ignore[misc]
    """A compiled model.

    Attributes:
        net: what `isthmus.compile` gave.

    Args:
        net: the same.
        otherwise: compiles it for ONNX's own evaluator, should onnxruntime refuse it; None where that is not asked for.
    """

    def __init__(self, net: Compiled, otherwise: Callable[[], Compiled] | None = None) -> None:
        self.net = net
        self._otherwise = otherwise
        self._kind = namedtupledict("Outputs", net.output_names)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs, as a tuple that knows their names.

        Args:
            inputs: one an input, in the model's order, or by name in a dict: arrays, lists for sequences, None for an absent
                optional; an array alone is the only input. Those that have a content in the file may be left out.
            kwargs: not taken.

        Raises:
            UsageError: they are not what the model takes.
            EvaluationError: nothing here runs it.
        """
        try:
            found = self._call(inputs)
        except EvaluationError:
            if self._otherwise is None:
                raise
            self.net, self._otherwise = self._otherwise(), None
            found = self._call(inputs)
        made: tuple[Any, ...] = self._kind(*found.values())
        return made

    def _call(self, inputs: Any) -> Any:
        if isinstance(inputs, Mapping):
            return self.net(**inputs)
        return self.net(*(inputs if isinstance(inputs, (list, tuple)) else (inputs,)))


class IsthmusBackend(Backend):  # type: ignore[misc]
    """Compiles models with `isthmus.compile`, by default for onnxruntime at the file's own opset; what onnxruntime cannot run,
    for ONNX's own evaluator."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether it computes there: on the CPU."""
        return device.partition(":")[0] == "CPU"

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> Prepared:
        """Compiles a model.

        Args:
            model: a ModelProto, or the path of a file.
            device: ``CPU``.
            kwargs: options of `isthmus.compile`: ``target`` is ``onnx`` by default, or ``reference``.

        Raises:
            ValueError: another device.
            IsthmusError: as `isthmus.compile` does.
        """
        if not cls.supports_device(device):
            raise ValueError(f"isthmus computes on the CPU, not on {device}")
        if kwargs.get("target", "onnx") != "onnx":
            return Prepared(compile(model, **kwargs))
        options = {"opset": _opset(model), **kwargs} if "opset" not in kwargs else kwargs
        if "profile" in kwargs:
            return Prepared(compile(model, **options))

        def otherwise() -> Compiled:
            return compile(model, **options, profile="onnx")

        try:
            return Prepared(compile(model, **options), otherwise)
        except UnsupportedError:
            return Prepared(otherwise())

    @classmethod
    def run_node(
        cls, node: Any, inputs: Any, device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None, **kwargs: Any,
    ) -> tuple[Any, ...]:  # fmt: skip
        """The results of one node.

        Args:
            node: the NodeProto.
            inputs: one an input that it names.
            device: ``CPU``.
            outputs_info: the element types and shapes of its results; inferred by default.
            kwargs: options of `isthmus.compile`; ``opset_version`` is the opset that the node is of.
        """
        opset = kwargs.pop("opset_version", None) or onnx.defs.onnx_opset_version()
        given = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        names = [name for name in dict.fromkeys(node.input) if name]
        tensors = [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in zip(names, given, strict=True)]
        ends = [onnx.helper.make_tensor_value_info(each.name, each.data_type, each.dims) for each in tensors]
        imports = [onnx.helper.make_opsetid("", opset)]
        if node.domain not in ("", "ai.onnx"):
            imports.append(onnx.helper.make_opsetid(node.domain, kwargs.pop("domain_version", 1)))
        made = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        for proto, (dtype, shape) in zip(made, outputs_info or (), strict=False):
            kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            proto.CopyFrom(onnx.helper.make_tensor_value_info(proto.name, kind, shape))
        model = onnx.helper.make_model(onnx.helper.make_graph([node], "node", ends, made), opset_imports=imports)
        return cls.prepare(model, device, **kwargs).run(dict(zip(names, given, strict=True)))


def _opset(model: Any) -> int:
    """The opset to write a model at: its own, or the nearest that there is."""
    proto = model if isinstance(model, onnx.ModelProto) else onnx.load(Path(model), load_external_data=False)
    own = max((each.version for each in proto.opset_import if each.domain in ("", "ai.onnx")), default=1)
    return int(min(max(own, OPSETS[0]), OPSETS[1], onnx.defs.onnx_opset_version()))


is_compatible = IsthmusBackend.is_compatible
prepare = IsthmusBackend.prepare
run_model = IsthmusBackend.run_model
run_node = IsthmusBackend.run_node
supports_device = IsthmusBackend.supports_device
