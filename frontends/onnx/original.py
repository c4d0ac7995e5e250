"""The original model, run as it is: by onnxruntime without optimizations, or by ONNX's reference evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx

from isthmus.frontends.base import Array
from isthmus.frontends.onnx.external import Files
from isthmus.ir.errors import EvaluationError


def refusals() -> tuple[type[Exception], ...]:
    """What onnxruntime raises at models that it does not take; its own errors have no common base."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    own = (each for each in vars(state).values() if isinstance(each, type) and issubclass(each, Exception))
    return (*own, RuntimeError, ValueError)


class Original:
    """A model as its author made it.

    Args:
        proto: the ModelProto, without external data.
        path: the file that it comes from; None where it was made in memory.
        inputs: the names of its inputs.
        files: the files that its tensors lie in.
    """

    def __init__(self, proto: Any, path: Path | None, inputs: Sequence[str], files: Files | None = None) -> None:
        self.proto = proto
        self.path = path
        self.inputs = list(inputs)
        self.files = files
        self._run: Any = None

    def __call__(self, arrays: Sequence[Any]) -> list[Array]:
        """The outputs on these inputs.

        Raises:
            EvaluationError: neither runtime runs it.
            FileError: another file is in the place of one that it comes from.
        """
        if self._run is None:
            for file in self.files.opened.values() if self.files is not None else ():
                file.check_name()
            self._run = self._session()
        return list(self._run(dict(zip(self.inputs, arrays, strict=True))))

    def _session(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        source = self.proto.SerializeToString() if self.path is None else str(self.path)
        try:
            session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        except refusals() as error:
            return self._reference(error)
        return lambda feeds: session.run(None, feeds)

    def _reference(self, reason: Exception) -> Any:
        from onnx.reference import ReferenceEvaluator

        try:
            evaluator = ReferenceEvaluator(self.proto if self.path is None else onnx.load(self.path))
        except Exception as error:  # it raises whatever its ops raise
            raise EvaluationError(f"no runtime here runs the original model: {reason}; {error}") from error
        return lambda feeds: evaluator.run(None, feeds)
