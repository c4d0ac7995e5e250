"""What became of a model file that was simplified."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from isthmus.report import Report
from isthmus.tables import table, text


class Simplified(BaseModel):
    """A model file before and after. Prints as a table.

    Attributes:
        source: the file.
        files: those that were written, the model first.
        opset: of what was written.
        ops_before: how many nodes there were of each op, those in functions and nested graphs included, constants not.
        ops_after: how many there are.
        bytes_before: of the file and of those beside it that it has its weights in.
        bytes_after: of the files that were written.
        unused: files of weights that the old model had, and the new one in its place has not.
        report: what was done.
    """

    source: str
    files: list[str]
    opset: int
    ops_before: dict[str, int]
    ops_after: dict[str, int]
    bytes_before: int
    bytes_after: int
    unused: list[str] = Field(default_factory=list)
    report: Report

    def __str__(self) -> str:
        before, after = self.ops_before, self.ops_after
        changed = sorted(op for op in {*before, *after} if before.get(op, 0) != after.get(op, 0))
        rows = [
            *((op, before.get(op, 0), after.get(op, 0)) for op in changed),
            ("nodes", sum(before.values()), sum(after.values())),
            ("bytes", self.bytes_before, self.bytes_after),
        ]
        lines = [f"holds only for {taken}" for taken in self.report.assumptions]
        notes = [*self.report.notes, *(f"{file} is of no use any more" for file in self.unused)]
        lines += [f"note: {each}" for each in notes]
        lines.append(f"wrote {', '.join(self.files)}")
        warnings = [f"WARNING: {warning}" for warning in self.report.warnings]
        return text(*warnings, f"{self.source}, opset {self.opset}", table(["", "before", "after"], rows), *lines)


def told(captured: Any, report: Report, artefact: Any, files: Sequence[Path]) -> Simplified:
    """The report of a model that was saved.

    Args:
        captured: the model, from an ONNX file.
        report: of its compilation.
        artefact: what it became.
        files: those that were written.
    """
    held = captured.files.opened.values()
    own = captured.files.own.path
    written = {file.resolve() for file in files}
    gone = [file.path for file in held if file.path.resolve() not in written] if own.resolve() in written else []
    return Simplified(
        source=str(own), files=list(map(str, files)), opset=report.options["opset"],
        ops_before=_without_constants(captured.op_counts()), ops_after=_without_constants(artefact.op_counts),
        bytes_before=sum(file.size for file in held), bytes_after=sum(file.stat().st_size for file in files),
        unused=list(map(str, gone)), report=report,
    )  # fmt: skip


def _without_constants(counts: dict[str, int]) -> dict[str, int]:
    return {op: count for op, count in counts.items() if op != "Constant"}
