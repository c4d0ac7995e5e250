"""What a backend is, and what it leaves behind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from isthmus.backends.files import destination
from isthmus.ir.builder import Builder
from isthmus.ir.errors import UsageError
from isthmus.ir.graph import Graph, Node, Value

Runner = Callable[[Sequence[Any]], list[Any]]
"""From the inputs of a model to its outputs."""


class Options(BaseModel):
    """A backend's options, typed and checked. Backends extend it; an unknown option is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Artefact(ABC):
    """A compiled model in the target's own form.

    Attributes:
        notes: what the user should know about it, such as checks that the target cannot carry; one sentence each.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []

    @property
    @abstractmethod
    def node_count(self) -> int:
        """The number of operations, those in functions and nested graphs included; constants are not counted."""

    @abstractmethod
    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs on these inputs, by the target's own runtime.

        Args:
            inputs: one an input of the graph: an array, a list of arrays for a sequence, None for an absent optional.

        Raises:
            EvaluationError: the runtime is missing or refuses.
        """

    def files(self, path: str | Path) -> list[Path]:
        """The files that `save` writes, or takes away, when it is given this path; the first is named to the runtime.

        Raises:
            UsageError, FileError: nothing can be saved there.
        """
        return [destination(path)]

    @abstractmethod
    def save(self, path: str | Path) -> list[Path]:
        """Writes the model; all its files appear at once or not at all.

        Returns:
            The files, the one to be named to the runtime first.

        Raises:
            FileError: a file could not be written; nothing half-written is left.
        """

    @abstractmethod
    def validate(self) -> None:
        """Has the target's own checker look at it.

        Raises:
            VerifyError: the checker objects.
        """


class Backend(ABC):
    """A target: what it can say, and how to say it.

    A third party adds one by subclassing this and naming the class in the entry-point group ``isthmus.backends``.

    Attributes:
        name: the target's name, as in ``isthmus.compile(..., target=name)``.
        Options: the model of its options.
        complex_numbers: whether it computes with complex numbers. Where it does not, a graph reaches it with pairs of reals in
            their place; only inputs and outputs may be complex, with `view_as_real` behind and `view_as_complex` before them.
    """

    name: ClassVar[str]
    complex_numbers: ClassVar[bool] = False
    Options: ClassVar[type[BaseModel]] = Options

    def __init__(self, options: BaseModel | None = None) -> None:
        self.options = self.Options() if options is None else options

    @classmethod
    def usual(cls, graph: Graph) -> dict[str, Any]:
        """Values for options in place of their defaults, for a graph as it was captured: by where it comes from, say.

        What the user says goes before.
        """
        return {}

    @abstractmethod
    def legal(self, node: Node) -> str | None:
        """None when the target can say this node as it is; else why not, in one sentence."""

    def takes(self, node: Node) -> bool:
        """Whether the target says a node as it is, by one of its own."""
        return self.legal(node) is None

    def stays(self, node: Node) -> bool:
        """Whether the target has the very op that a node of the op `whole` is of; such a node is lowered to a `native` one."""
        return False

    def lower(self, b: Builder, node: Node) -> Sequence[Value] | None:
        """The target's own way to say a node in other ones.

        Args:
            b: builds in front of the node.
            node: one that is not legal; it stays, and the caller replaces it.

        Returns:
            A value for each result; None when the target has no way of its own.
        """
        return None

    def remedy(self, node: Node) -> str | None:
        """What the user can do about a node that is neither legal nor lowered; None where nothing special is known."""
        return None

    def load(self, path: str | Path) -> Runner:
        """What runs a saved model, as `Artefact.run` runs a fresh one.

        Raises:
            UsageError: the target has no files that it reads back.
            FileError: there is no such file.
            EvaluationError: the runtime is missing or refuses the file.
        """
        raise UsageError(f"the target {self.name} reads no files back")

    @abstractmethod
    def emit(
        self, graph: Graph, *, input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
    ) -> Artefact:  # fmt: skip
        """The graph in the target's form. Every node must be legal; the graph is not changed.

        Args:
            graph: a graph at the top.
            input_names: names of the inputs; by default those of the values.
            output_names: names of the outputs; by default those of the values.
        """
