"""Compares a compiled model with its source, output by output, on fresh inputs of other sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
from pydantic import BaseModel, Field

from isthmus.ir.checks import check_inputs
from isthmus.ir.dims import resolve, symbols
from isthmus.ir.dtypes import from_numpy
from isthmus.ir.errors import EvaluationError, FileError, MismatchError, UnavailableError, UsageError
from isthmus.ir.graph import Graph, Node, Value, type_symbols
from isthmus.ir.op import Trait
from isthmus.sizes import other_sizes
from isthmus.tables import table, text

if TYPE_CHECKING:
    from isthmus.frontends.base import Captured

Array = np.ndarray[Any, np.dtype[Any]]
Runner = Callable[[Sequence[Any]], list[Any]]
Call = tuple[tuple[Any, ...], dict[str, Any]]


class OutputCheck(BaseModel):
    """One output of one run.

    Attributes:
        name: the output.
        type: its dtype and shape, as the model gives it.
        max_abs: greatest absolute error; None where values are not compared.
        relative: the same over the greatest absolute value of the output.
        problem: what is wrong; empty when nothing is.
        random: it depends on a random op, so that only dtype and shape are compared.
    """

    name: str
    type: str
    max_abs: float | None = None
    relative: float | None = None
    problem: str = ""
    random: bool = False

    @property
    def verdict(self) -> str:
        """In a word, or in a few."""
        return self.problem or ("random" if self.random else "ok")


class Round(BaseModel):
    """One run of model and compiled model on the same inputs.

    Attributes:
        seed: what the inputs were drawn with; None for inputs of the caller.
        sizes: size of each symbol, by name.
        outputs: each output.
    """

    seed: int | None
    sizes: dict[str, int] = Field(default_factory=dict)
    outputs: list[OutputCheck] = Field(default_factory=list)

    @property
    def title(self) -> str:
        """Which run this is, in a few words."""
        sizes = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        return sizes or ("the inputs given" if self.seed is None else f"seed {self.seed}")


class VerifyReport(BaseModel):
    """What a verification found. Prints as a table.

    Attributes:
        rounds: the runs that were compared.
        skipped: runs that the model itself refused, with its words.
        rtol: relative tolerance.
        atol: absolute tolerance, as a share of the greatest absolute value of the output.
    """

    rounds: list[Round] = Field(default_factory=list)
    skipped: list[str] = Field(default_factory=list)
    rtol: float
    atol: float

    @property
    def ok(self) -> bool:
        """Whether at least one run was compared and all outputs of all runs agree."""
        return bool(self.rounds) and not any(check.problem for turn in self.rounds for check in turn.outputs)

    @property
    def worst(self) -> float:
        """The greatest error of all, relative to its output's scale; 0 when nothing was compared."""
        return max((check.relative or 0.0 for turn in self.rounds for check in turn.outputs), default=0.0)

    def __str__(self) -> str:
        rows = [
            (turn.title, check.name, check.type, check.max_abs, check.relative, check.verdict)
            for turn in self.rounds
            for check in turn.outputs
        ]
        title = f"Every output against the model (rtol {self.rtol:g}, atol {self.atol:g} of the output's scale)"
        columns = ["run", "output", "type", "max error", "of scale", "verdict"]
        return text(title, table(columns, rows), *(f"skipped: {line}" for line in self.skipped))


def compare(
    captured: Captured, run: Runner, calls: Sequence[Call] | None = None, *,
    seeds: int = 3, rtol: float = 1e-4, atol: float = 1e-5,
) -> VerifyReport:  # fmt: skip
    """`verify`, with an error that tells likely causes: that the model computes something else only because it is not being
    exported now, or that the inputs break what was taken for granted of sizes that depend on data."""

    def attempt(source: Captured) -> VerifyReport:
        return verify(source, run, calls, seeds=seeds, rtol=rtol, atol=atol)

    try:
        return attempt(captured)
    except MismatchError as error:
        told = captured.as_captured()
        if told is None or not _agrees(attempt, told):
            if error.remedy is None and (taken := _of_data(captured.graph)):
                error.remedy = f"check whether the inputs break what is taken for granted: {'; '.join(taken)}"
            raise
        places = f", which it asks at {', '.join(captured.asks)}" if captured.asks else ""
        raise MismatchError(
            f"{error.message}: it computes something else when it hears that it is being exported{places}, and the compiled "
            "model agrees with that",
            expected=error.expected,
            found=error.found,
            remedy="compile with export_flags=False, or have the model compute the same either way",
        ) from None


def _agrees(attempt: Callable[[Captured], VerifyReport], source: Captured) -> bool:
    try:
        attempt(source)
    except MismatchError:
        return False
    return True


def _of_data(graph: Graph) -> list[str]:
    """What a graph takes for granted that its inputs' sizes do not tell."""
    known = {symbol for value in graph.inputs for symbol in type_symbols(value.type)}
    return [
        assumption.in_full
        for assumption in graph.symbols.assumptions
        if not {symbol for side in (assumption.left, assumption.right) for symbol in symbols(resolve(side))} <= known
    ]


def verify(
    captured: Captured, run: Runner, calls: Iterable[Call] | None = None, *,
    seeds: int = 3, rtol: float = 1e-4, atol: float = 1e-5,
) -> VerifyReport:  # fmt: skip
    """Runs the model and its compiled form on the same inputs and compares every output.

    Args:
        captured: the model.
        run: the compiled form: from the graph's inputs to its outputs, flat.
        calls: arguments to use; by default fresh ones are drawn.
        seeds: how many fresh draws: first with every dynamic size at its least (1, usually), then at other sizes.
        rtol: relative tolerance; never tighter than a few roundings of the output's element type.
        atol: absolute tolerance, as a share of the output's greatest absolute value.

    Raises:
        UsageError: no runs are asked for, or given inputs do not fit what the model was compiled for.
        MismatchError: an output differs, the compiled form cannot run, or no run could be compared.
        UnavailableError: what the target runs on is not on this machine.
    """
    if calls is not None and not (calls := list(calls)):
        raise UsageError("there are no inputs to compare at", remedy="leave them out, and fresh ones are drawn")
    if calls is None and seeds < 1:
        raise UsageError("nothing would be compared", expected="seeds of 1 or more", found=str(seeds))
    report = VerifyReport(rtol=rtol, atol=atol)
    random = random_outputs(captured.graph)
    ordering = _behind(captured.graph, lambda node: node.op.name in _ORDERING)
    for seed, sizes, (args, kwargs) in _calls(captured, calls, seeds):
        turn = Round(seed=seed, sizes=sizes)
        inputs = captured.flatten(args, kwargs)
        try:
            check_inputs(captured.graph, inputs, UsageError, captured.integers)
        except UsageError as error:
            if seed is None or not captured.integers:
                raise
            report.skipped.append(f"{turn.title}: {error.message}")
            continue
        try:
            wanted = captured.eager(args, kwargs)
        except (MismatchError, FileError):  # a file that the model is read from may not be what it was
            raise
        except Exception as error:  # the user's model may raise anything at sizes it was not made for
            first = str(error).strip().partition("\n")[0]
            report.skipped.append(f"{turn.title}: the model raises {type(error).__name__}: {first}")
            continue
        try:
            found = run(inputs)
        except UnavailableError:
            raise  # that says nothing about the model
        except EvaluationError as error:
            raise MismatchError(f"the compiled model cannot run at {turn.title}, the model can", found=str(error)) from error
        if len(found) != len(wanted):
            what = "the compiled model has another number of outputs"
            raise MismatchError(what, expected=str(len(wanted)), found=str(len(found)))
        for name, want, got, is_random in zip(captured.output_names, wanted, found, random, strict=True):
            turn.outputs.append(_check(name, want, got, rtol, atol, is_random))
        report.rounds.append(turn)
    if not report.rounds:
        raise MismatchError(
            "nothing could be compared: the model refuses every input that was drawn",
            found="\n".join(report.skipped),
            remedy="give inputs that it takes: net.verify(inputs=[(x,)])",
        )
    if not report.ok:
        wrong = sorted({check.name for turn in report.rounds for check in turn.outputs if check.problem})
        ordered = [name for name, behind in zip(captured.output_names, ordering, strict=True) if behind and name in wrong]
        remedy = None
        if ordered:
            remedy = (
                f"{', '.join(ordered)} lies behind a sort, topk or argmax: where values are equal, which of them comes first "
                "differs between runtimes; give inputs without equal values: net.verify(inputs=[(x,)])"
            )
        what = f"the compiled model and the model disagree on {', '.join(wrong)}"
        raise MismatchError(what, found=f"\n{report}", remedy=remedy)
    return report


def _calls(captured: Captured, calls: Iterable[Call] | None, seeds: int) -> Iterable[tuple[int | None, dict[str, int], Call]]:
    if calls is not None:
        for call in calls:
            yield None, {}, call
        return
    for seed, sizes in enumerate(other_sizes(captured.graph, seeds)):
        yield seed, sizes, captured.fresh_inputs(seed, sizes)


def random_outputs(graph: Graph) -> list[bool]:
    """For each output, whether its values depend on a random op."""
    return _behind(graph, lambda node: node.has(Trait.RANDOM) or bool(node.attrs.get("random")))


_ORDERING = frozenset(("topk", "sort", "argmax", "argmin"))
"""Ops with indices that are a matter of choice where values are equal."""


def _behind(graph: Graph, found: Callable[[Node], bool]) -> list[bool]:
    """For each output, whether it depends on such a node."""
    tainted: set[Value] = set()
    for node in graph.nodes:
        inside = (inner for region in node.regions for inner in region.walk())
        if (
            found(node)
            or any(found(inner) for inner in inside)
            or (tainted and any(value in tainted for value in node.walk_values()))
        ):
            tainted.update(node.results)
    return [value in tainted for value in graph.outputs]


def _check(name: str, want: Any, got: Any, rtol: float, atol: float, random: bool) -> OutputCheck:
    if want is None or got is None or isinstance(want, (list, dict)):
        return _check_structure(name, want, got, rtol, atol, random)
    want, got = np.asarray(want), np.asarray(got)
    check = OutputCheck(name=name, type=_type(want), random=random)
    if want.dtype != got.dtype or want.shape != got.shape:
        check.problem = f"the compiled model gives {_type(got)}"
    elif random:
        pass
    elif from_numpy(want.dtype).is_float or want.dtype.kind == "c":
        _check_floats(check, want, got, rtol, atol)
    elif not np.array_equal(want, got):
        number = want.dtype.kind in "iub"
        if number and want.dtype.kind != "b":
            check.max_abs = float(np.max(np.abs(want.astype(np.float64) - got.astype(np.float64))))
        check.problem = f"{np.count_nonzero(want != got):,} of {want.size:,} elements differ"
    else:
        check.max_abs = check.relative = 0.0
    return check


def _check_structure(name: str, want: Any, got: Any, rtol: float, atol: float, random: bool) -> OutputCheck:
    """A sequence, an optional, or a map: keys and values."""
    if isinstance(want, dict) and isinstance(got, dict):
        want, got = ([[*each.keys()], [*each.values()]] for each in (want, got))
    if want is None or got is None or not isinstance(got, list) or len(want) != len(got):
        problem = "" if want is None and got is None else "one is absent or of another length"
        type = "nothing" if want is None else f"{len(want)} elements"
        return OutputCheck(name=name, type=type, problem=problem, random=random)
    parts = [_check(name, left, right, rtol, atol, random) for left, right in zip(want, got, strict=True)]
    worst = max(parts, key=lambda part: (bool(part.problem), part.relative or 0.0), default=OutputCheck(name=name, type=""))
    return worst.model_copy(update={"type": f"{len(want)} elements"})


def _check_floats(check: OutputCheck, want: Array, got: Array, rtol: float, atol: float) -> None:
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    rounding = 8 * float(ml_dtypes.finfo(want.real.dtype).eps)
    left, right = want.astype(wide), got.astype(wide)
    finite = np.isfinite(left)
    scale = float(np.max(np.abs(left[finite]), initial=0.0)) or 1.0
    with np.errstate(invalid="ignore"):
        error = np.asarray(np.abs(left - right))  # without dims numpy gives a number, which cannot be written to
    error[(left == right) | (np.isnan(left) & np.isnan(right))] = 0.0
    error[np.isnan(error)] = np.inf
    check.max_abs = float(np.max(error, initial=0.0))
    check.relative = check.max_abs / scale
    allowed = max(atol, rounding) * scale + max(rtol, rounding) * np.where(finite, np.abs(left), 0.0)
    wrong = error > allowed
    if wrong.any():
        place = np.unravel_index(int(np.argmax(np.where(wrong, error, -1.0))), error.shape)
        where = ", ".join(map(str, map(int, place)))
        check.problem = (
            f"{np.count_nonzero(wrong):,} of {want.size:,} elements differ; at [{where}] {got[place]}, not {want[place]}"
        )


def _type(array: Array) -> str:
    return f"{from_numpy(array.dtype)}[{', '.join(map(str, array.shape))}]"
