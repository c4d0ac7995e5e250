"""A compiled model: runs, verifies and saves itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isthmus.ir.checks import check_inputs
from isthmus.ir.errors import FileError, UsageError
from isthmus.ir.weight_sources import files_of
from isthmus.verification import Call, VerifyReport, compare

if TYPE_CHECKING:
    from isthmus.backends.base import Artefact
    from isthmus.frontends.base import Captured
    from isthmus.ir.graph import Graph
    from isthmus.report import Report


class Compiled:
    """A model in its target's form. Call it as you would call the model.

    It refers to the model's weights and does not copy them. When one is changed in place after the compilation, calls,
    `verify` and `save` raise `CaptureError` (see `TorchWeight` for what is noticed), and `FileError` where a file of weights
    has changed; new weights in place of the old ones leave it as it was compiled.

    Attributes:
        captured: the source: how arguments become inputs, and outputs the model's own structure.
        artefact: the target's form.
        report: what the compilation did.
    """

    def __init__(self, captured: Captured, artefact: Artefact, report: Report) -> None:
        self.captured = captured
        self.artefact = artefact
        self.report = report

    @property
    def graph(self) -> Graph:
        """The IR that the artefact was made from. ``print(net.graph)`` shows it."""
        return self.captured.graph

    @property
    def input_names(self) -> list[str]:
        """The names of the inputs, in order."""
        return list(self.captured.input_names)

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs, in order."""
        return list(self.captured.output_names)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The model's outputs, in the model's own structure, by the target's runtime.

        Args:
            args: the model's positional arguments.
            kwargs: its keyword arguments.

        Raises:
            UsageError: they are not of the structure, dtypes and sizes that the model was compiled for; sizes must be
                in their ranges, and they and integers in inputs of one element keep every assumption that they decide.
            EvaluationError: the runtime refuses them.
            CaptureError: a weight of the model was changed since.
        """
        self.captured.check()
        inputs = self.captured.flatten(args, kwargs)
        check_inputs(self.graph, inputs, UsageError, self.captured.integers)
        return self.captured.unflatten(self.artefact.run(inputs))

    def verify(
        self, inputs: Sequence[Any] | None = None, seeds: int = 3, rtol: float = 1e-4, atol: float = 1e-5
    ) -> VerifyReport:
        """Compares every output with the model's own, run plainly.

        Where the weights were given to `compile`, the model runs over these: files are mapped, and not read to memory.

        Args:
            inputs: calls to compare at, in place of fresh ones: a list whose elements are each a tuple of positional
                arguments, a pair ``(args, kwargs)`` of a tuple and a dict, or a bare argument.
            seeds: how many fresh draws: the first with every dynamic size at its least (1, usually), the others at
                sizes other than the example's.
            rtol: relative tolerance, for float outputs.
            atol: absolute tolerance, as a share of the output's greatest absolute value.

        Raises:
            MismatchError: they disagree; it holds a table of all outputs. Behind random ops, only dtypes and shapes
                are compared.
            CaptureError: a weight of the model was changed since.
        """
        self.captured.check()
        calls = None if inputs is None else [_as_call(call) for call in inputs]
        return compare(self.captured, self.artefact.run, calls, seeds=seeds, rtol=rtol, atol=atol)

    def save(self, path: str | Path) -> list[Path]:
        """Writes the model.

        Args:
            path: the file to write.

        Returns:
            All the files that were written, the main one first.

        Raises:
            FileError: it could not be written; nothing half-written is left. A file that weights of the model are read from
                is not written over, unless it is held open, as those of ONNX models are.
            CaptureError: a weight of the model was changed since.
        """
        self.captured.check()
        there = [file for file in self.artefact.files(path) if file.exists()]
        held = files_of([*self.captured.weights, *self.graph.weights()]) if there else {}
        needed = {needed.resolve() for needed in self.captured.needed(Path(path))} if there else set()
        for file in there:
            if file.resolve() in needed:
                raise FileError(
                    f"{file} was not written: {self.report.model} has its weights there",
                    remedy=f"save under another name, or in the place of {self.report.model} itself",
                )
            if (state := file.stat()) and (state.st_dev, state.st_ino) in held:
                raise FileError(
                    f"{file} was not written: weights of the model are read from that file", remedy="save under another name"
                )
        return self.artefact.save(path)

    def __repr__(self) -> str:
        return f"Compiled({self.report.model} -> {self.report.target}, {self.artefact.node_count} nodes)"


def _as_call(call: Any) -> Call:
    if not isinstance(call, tuple):
        return (call,), {}
    if len(call) == 2 and isinstance(call[0], tuple) and isinstance(call[1], dict):
        return call
    return call, {}
