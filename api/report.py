"""What a compilation did: time, nodes, rewrites, what was taken for granted."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from isthmus.pruning import Pruned
from isthmus.tables import table, text


class PassReport(BaseModel):
    """One pass.

    Attributes:
        name: the pass.
        seconds: how long it took.
        nodes_before: nodes in front of it.
        nodes_after: nodes behind it.
        counts: rewrites by rule.
        changed: whether the graph is another one now.
    """

    name: str
    seconds: float
    nodes_before: int
    nodes_after: int
    counts: dict[str, int] = Field(default_factory=dict)
    changed: bool


class Report(BaseModel):
    """What a compilation did. Prints as a table; `model_dump_json` gives the same to machines.

    Attributes:
        model: name of the model's class.
        target: what it was compiled to.
        options: the target's options.
        seconds: time by stage: ``capture``, ``passes``, ``legalize``, ``cleanup``, ``emit``.
        capture_seconds: time by step of the capture, as the frontend tells it.
        nodes: nodes behind each stage, constants left out: ``captured``, ``passes``, ``legal``, ``artefact``.
        passes: each pass that ran, in order.
        legalized: rewrites by op that the target could not take as it was.
        pruned: what of the model reaches no output.
        warnings: what makes it likely that this is not the model that was meant; printed first.
        notes: what a user should know: buffers that the model writes to, and so on.
        assumptions: what the compiled model takes for granted about its sizes.
        inputs: type of each input, by name.
        outputs: type of each output, by name.
        weights_bytes: bytes of all weights, tied ones once.
    """

    model: str
    target: str
    options: dict[str, Any] = Field(default_factory=dict)
    seconds: dict[str, float] = Field(default_factory=dict)
    capture_seconds: dict[str, float] = Field(default_factory=dict)
    nodes: dict[str, int] = Field(default_factory=dict)
    passes: list[PassReport] = Field(default_factory=list)
    legalized: dict[str, int] = Field(default_factory=dict)
    pruned: Pruned | None = None
    warnings: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    assumptions: list[str] = Field(default_factory=list)
    inputs: dict[str, str] = Field(default_factory=dict)
    outputs: dict[str, str] = Field(default_factory=dict)
    weights_bytes: int = 0

    def __str__(self) -> str:
        behind = {"capture": "captured", "passes": "passes", "cleanup": "legal", "emit": "artefact"}
        options = ", ".join(f"{name}={value}" for name, value in self.options.items() if value is not None)
        target = f"{self.target} ({options})" if options else self.target
        title = f"{self.model} -> {target}, {self.weights_bytes / 1e6:.1f} MB of weights"
        stages = table(
            ["stage", "ms", "nodes"],
            [(stage, seconds * 1e3, self.nodes.get(behind.get(stage, ""))) for stage, seconds in self.seconds.items()],
        )
        passes = table(
            ["pass", "ms", "before", "after", "rewrites"],
            [(p.name, p.seconds * 1e3, p.nodes_before, p.nodes_after, _counts(p.counts)) for p in self.passes],
        )
        lines = [f"{what}: {', '.join(f'{name}: {type}' for name, type in types.items())}" for what, types in
                 (("inputs", self.inputs), ("outputs", self.outputs)) if types]  # fmt: skip
        if self.legalized:
            lines.append(f"legalized: {_counts(self.legalized)}")
        lines += self.pruned.lines if self.pruned else []
        lines += [f"holds only for {assumption}" for assumption in self.assumptions]
        lines += [f"note: {note}" for note in self.notes]
        warnings = [f"WARNING: {warning}" for warning in self.warnings]
        return text(*warnings, title, stages, *([passes] if self.passes else []), *lines)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items() if count)
