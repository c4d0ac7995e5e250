"""A conformance suite for any backend, out of the op table. A backend's own tests use it like this::

    from isthmus.backends.testing import Case, check, suite
    from isthmus.passes import legalize

    @pytest.mark.parametrize("case", suite("mine", some_option=1))
    def test_conformance(case: Case) -> None:
        check(case, legalize)

Every sample of every op is made legal, emitted, looked at by the target's checker, run by its runtime, and compared with
the reference interpreter; or it is refused with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import pytest

from isthmus.backends import registry
from isthmus.backends.base import Backend
from isthmus.ir import interpreter
from isthmus.ir.builder import Builder
from isthmus.ir.errors import EvaluationError, UnsupportedError, VerifyError
from isthmus.ir.graph import Graph
from isthmus.ir.op import Op, Trait
from isthmus.ir.testing import agree, graph_of, samples
from isthmus.ir.weights import weight

Form: TypeAlias = Literal["static", "symbolic", "constants"]
"""How a sample becomes a graph: with the sizes that it has; with symbols for them; with all operands but the first as
constants, for targets whose layers hold their parameters."""

Legalize: TypeAlias = Callable[[Graph, Any], object]
"""Makes a graph legal for a backend, or raises UnsupportedError: `isthmus.passes.legalize`, and what else comes before
emission. It is handed over because backends know no passes."""

Run: TypeAlias = Callable[[Any, Sequence[Any]], list[Any]]
"""From an artefact and inputs to outputs, as `Artefact.run`."""

RUNTIME: Final[Mapping[str, Run]] = {"the runtime": lambda artefact, inputs: artefact.run(inputs)}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a sample.

    Attributes:
        kind: ``native`` where each node was legal as it stood; ``decomposed`` where lowerings or decompositions made it so;
            ``refused``; or ``wrong``.
        why: the reason of a refusal, or what is wrong, in words that stay the same from run to run.
        detail: what the checker or the runtime said.
    """

    kind: Literal["native", "decomposed", "refused", "wrong"]
    why: str = ""
    detail: str = field(default="", compare=False)

    @property
    def told(self) -> str:
        """``ok``, or kind and reason: what a list of known exceptions holds."""
        return f"{self.kind}: {self.why}" if self.why else "ok"


@dataclass(frozen=True)
class Case:
    """An op for a backend.

    Attributes:
        backend: the backend.
        op: the op.
        forms: the graphs to make of each sample.
        finite: infinities and nan are kept out of the inputs and not compared in the outputs, for targets that promise
            nothing about them.
    """

    backend: Backend
    op: Op
    forms: Sequence[Form] = ("static", "symbolic")
    finite: bool = False

    def graphs(self) -> Iterator[tuple[str, Graph, list[Any]]]:
        """Each sample in each form that it can have: its name, such as ``add-0-f32/symbolic``, a graph, and inputs."""
        for _, sample, name in samples([self.op]):
            for form in self.forms:
                if form == "symbolic" and not sample.symbolic:
                    continue
                graph, inputs = graph_of(self.op, sample, form == "symbolic")
                if self.finite:
                    inputs = [_finite(content) for content in inputs]
                if form == "constants":
                    if not all(isinstance(content, np.ndarray) for content in inputs[1:]) or len(inputs) < 2:
                        continue
                    inputs = _hold(graph, inputs)
                yield (name if form == "static" else f"{name}/{form}"), graph, inputs


def suite(
    target: str | Backend, /, *, forms: Sequence[Form] = ("static", "symbolic"), finite: bool = False, marks: Any = (),
    **options: Any,
) -> list[Any]:  # fmt: skip
    """A `pytest.param` with a `Case` for each op of the table that has samples.

    Args:
        target: the name of an installed backend, or a backend.
        forms: see `Case`.
        finite: see `Case`.
        marks: pytest's marks for all of them.
        options: the backend's options, where `target` is a name.

    Raises:
        UsageError: there is no such backend, or it cannot be loaded.
    """
    if isinstance(target, str):
        kind = registry.find(target)
        target = kind(kind.Options(**options))
    told = "".join(f"-{name}={value}" for name, value in options.items())
    ops = {op.name: op for op, _, _ in samples()}
    return [pytest.param(Case(target, op, forms, finite), id=f"{name}{told}", marks=marks) for name, op in ops.items()]


def outcomes(case: Case, legalize: Legalize, runs: Mapping[str, Run] = RUNTIME, validate: bool = True) -> dict[str, Outcome]:
    """What becomes of each sample of a case, by the sample's name.

    Args:
        case: the op and the backend.
        legalize: makes a graph legal for the backend.
        runs: what runs an artefact, by a name to be told by; by default its own runtime. None at all: samples are only made
            legal and emitted.
        validate: whether the target's own checker looks at the artefact.
    """
    return {name: _outcome(case, graph, inputs, legalize, runs, validate) for name, graph, inputs in case.graphs()}


def check(
    case: Case, legalize: Legalize, *, runs: Mapping[str, Run] = RUNTIME, validate: bool = True,
    known: Mapping[str, str] | None = None,
) -> dict[str, Outcome]:  # fmt: skip
    """Asserts that no sample of a case goes wrong.

    Args:
        case: the op and the backend.
        legalize: see `outcomes`, here and below.
        runs: what runs an artefact.
        validate: whether the target's own checker looks at it.
        known: `Outcome.told` of each sample that is refused or known to go wrong, by its name; the others must be ``ok``.
            None where every refusal will do.

    Returns:
        The outcomes, by the sample's name.

    Raises:
        AssertionError: it names each sample that goes wrong, or otherwise than is known.
    """
    found = outcomes(case, legalize, runs, validate)
    if known is None:
        wrong = [f"{name}: {each.told}\n{each.detail}" for name, each in found.items() if each.kind == "wrong"]
    else:
        wrong = [
            f"{name}: {each.told}, and not {known.get(name, 'ok')}\n{each.detail}"
            for name, each in found.items() if each.told != known.get(name, "ok")
        ]  # fmt: skip
    if wrong:
        raise AssertionError("\n".join(map(str.rstrip, wrong)))
    return found


def _outcome(
    case: Case, graph: Graph, inputs: list[Any], legalize: Legalize, runs: Mapping[str, Run], validate: bool
) -> Outcome:  # fmt: skip
    backend = case.backend
    wanted = interpreter.run(graph, inputs) if runs else []
    native = all(backend.legal(node) is None for node in graph.walk())
    try:
        legalize(graph, backend)
        artefact = backend.emit(graph)
    except UnsupportedError as error:
        why = error.refusals[0].message if error.refusals else ""
        return Outcome("refused", why) if why else Outcome("wrong", "it is refused without a reason", str(error))
    if not graph.outputs:  # an effect
        dropped = artefact.node_count == 0 and not artefact.notes
        return Outcome("wrong", "an effect is lost, and no note says so") if dropped else _good(native)
    if validate:
        try:
            artefact.validate()
        except VerifyError as error:
            return Outcome("wrong", "the checker objects", str(error))
    differing = []
    for name, run in runs.items():
        try:
            got = run(artefact, inputs)
        except EvaluationError as error:
            return Outcome("wrong", f"{name} fails", str(error))
        if not (_same_types if Trait.RANDOM in case.op.traits else _same_finite if case.finite else agree)(got, wanted):
            differing.append((name, got))
    if differing:
        detail = "\n".join(f"{name} gives {got}" for name, got in differing)
        return Outcome("wrong", f"{' and '.join(name for name, _ in differing)} differs", f"{detail}\nand not {wanted}")
    return _good(native)


def _good(native: bool) -> Outcome:
    return Outcome("native" if native else "decomposed")


def _same_types(got: list[Any], wanted: list[Any]) -> bool:
    return [(each.dtype, each.shape) for each in got] == [(each.dtype, each.shape) for each in wanted]


def _same_finite(got: list[Any], wanted: list[Any]) -> bool:
    if not _same_types(got, wanted):
        return False
    return agree([np.where(np.isfinite(want), each, want) for each, want in zip(got, wanted, strict=True)], wanted)


def _finite(content: Any) -> Any:
    real = isinstance(content, np.ndarray) and content.dtype == np.float32
    return np.asarray(np.nan_to_num(content, nan=0.25, posinf=9, neginf=-9)) if real else content


def _hold(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    """Makes constants of all inputs but the first, in place; the inputs that are left."""
    builder = Builder(graph, next(graph.nodes))
    for value, content in zip(graph.inputs[1:], inputs[1:], strict=True):
        value.replace_by(builder.constant(weight(content)))
    for index in range(len(inputs) - 1, 0, -1):
        graph.remove_input(index)
    return list(inputs[:1])


__all__ = ["Case", "Form", "Legalize", "Outcome", "Run", "check", "outcomes", "suite"]
