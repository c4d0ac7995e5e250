"""Graphs in the making, written as ONNX and run."""

from __future__ import annotations

from typing import Any

import numpy as np

from isthmus.backends.onnx import OnnxBackend, OnnxOptions
from isthmus.backends.onnx.artefact import OnnxArtefact
from isthmus.ir import Builder, DType, Graph, Tensor, Value, interpreter
from isthmus.ir.dims import Dim
from isthmus.ir.dtypes import f32
from isthmus.ir.testing import agree
from isthmus.passes.legalize import legalize


class Model:
    """A graph in the making, with its symbols."""

    def __init__(self) -> None:
        self.graph = Graph("net")
        self.b = Builder(self.graph)

    def dim(self, name: str, lo: int = 1) -> Dim:
        return self.graph.symbols.declare(name, lo=lo).dim

    def input(self, *shape: Dim, dtype: DType = f32, name: str = "x") -> Value:
        return self.graph.add_input(Tensor(dtype, shape), name)

    def emit(self, *outputs: Value, opset: int = 18, metadata: bool = True, **names: Any) -> OnnxArtefact:
        """The artefact, checked."""
        self.graph.set_outputs(outputs)
        backend = OnnxBackend(OnnxOptions(opset=opset, metadata=metadata))
        legalize(self.graph, backend)
        artefact = backend.emit(self.graph, **names)
        artefact.validate()
        return artefact

    def check(self, artefact: OnnxArtefact, *inputs: Any) -> None:
        """The runtime gives what the reference gives."""
        assert all(map(agree, artefact.run(inputs), interpreter.run(self.graph, inputs)))


def f(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
