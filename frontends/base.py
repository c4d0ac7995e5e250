"""What every frontend hands over: a graph, and how to run the original beside it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from isthmus.ir.dims import Dim, Symbol
from isthmus.ir.dtypes import DType
from isthmus.ir.graph import Graph, Value
from isthmus.ir.weights import Weight

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor that stands for an example input.

    Attributes:
        dtype: its element type.
        shape: its sizes; symbols are matched by name, and their range and hint are taken over.
    """

    dtype: DType
    shape: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a source.

    Attributes:
        name: its path, such as ``layer1.0.conv2.weight``.
        nbytes: its bytes.
        value: the constant that it is in the graph, as captured; None where the model did not meet it.
        read: the program took its content, so that what it did with it is not in the graph.
    """

    name: str
    nbytes: int
    value: Value | None = None
    read: bool = False


@dataclass
class Captured(ABC):
    """A model as a graph, with what is needed to compare the two.

    Attributes:
        graph: the model.
        input_names: the names of the graph's inputs.
        output_names: the names of the graph's outputs.
        notes: what the user should know beside the graph's assumptions: buffers that the model writes to, dims that became
            numbers.
        warnings: what makes it likely that the graph is not the model that the user meant.
        seconds: how long each step took.
        parameters: the parameters of a source that is a whole model, each once. Where they are told, one that is neither used
            nor read by the program falls away.
        asks: the places in the source that asked, while it was captured, whether it is being exported.
        weights: handles onto the source's weights that are read later, or onto the files that they are in.
        perhaps_empty: sizes that nobody gave a least one, and for which the graph holds down to 0. Where a target has a
            worse form for what may be empty, or none, they may be taken to be 1 at least.
        integers: the symbols that are the integer in an input of one element, and the place of that input.
        growth: tells, of the graph as it is by then, by how many bytes it may grow for constants in place of what computes
            them, where the model comes from a file, which is not to grow; None where it does not matter.
        by_example: whether the graph is what one call of the model did, which may have left the model early.
    """

    by_example: ClassVar[bool] = False

    graph: Graph
    input_names: list[str]
    output_names: list[str]
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    parameters: Sequence[Parameter] = ()
    asks: Sequence[str] = ()
    weights: Sequence[Weight] = ()
    perhaps_empty: Sequence[Symbol] = ()
    integers: Mapping[Symbol, int] = field(default_factory=dict)
    growth: Callable[[Graph], int] | None = None

    @abstractmethod
    def check(self) -> None:
        """That the source's weights are those that were captured: all of them, also those that a pass has folded since.

        Raises:
            CaptureError: one was changed.
            FileError: a file that some are mapped from was changed.
        """

    def needed(self, path: Path) -> list[Path]:
        """The files that its source goes on being read from, if something else is saved at a path."""
        return []

    @abstractmethod
    def flatten(self, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> list[Array]:
        """The content of the graph's inputs, from a call of the model.

        Raises:
            UsageError: the call has another structure than the one that was captured.
        """

    @abstractmethod
    def unflatten(self, outputs: list[Array]) -> Any:
        """The graph's outputs in the model's own structure, as the framework's tensors."""

    @abstractmethod
    def eager(self, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> list[Array]:
        """The original model's flat outputs, run plainly."""

    def as_captured(self) -> Self | None:
        """The same, with `eager` telling the model what it was told while it was captured, such as that it is exported.

        None where that was nothing.
        """
        return None

    @abstractmethod
    def fresh_inputs(self, seed: int, sizes: Mapping[str, int] | None = None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """New arguments of the same kind with other values.

        Args:
            seed: of the generator that they are drawn from.
            sizes: the size of each symbol by name; the hints by default.
        """
