"""``docs/coverage.md``: what becomes of every op in every target. Run this file as a script to write it anew."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from isthmus.backends.onnx.opsets import NEWEST
from isthmus.backends.testing import Outcome, outcomes, suite
from isthmus.passes import cleanup_passes, legalize, run_passes

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coverage.md"
TARGETS: dict[str, Any] = {
    f"ONNX, opset {NEWEST}": lambda: suite("onnx", opset=NEWEST),
    "Caffe, portable": lambda: suite("caffe", forms=("static", "constants"), finite=True, dialect="portable"),
    "TensorRT": lambda: suite("tensorrt"),
    "reference": lambda: suite("reference"),
}
HEAD = """\
# Coverage

Ops by targets, counted over the samples of the op table; written by `make coverage`. *Native*: the target has it as it
is. *Decomposed*: it is said in other ops that the target has. *Refused*: neither, with the reason that most of the refused
samples have; other element types or shapes of the same op may be taken. ONNX and TensorRT get each sample with its own
sizes and with symbols in their place; Caffe with all operands as inputs, and with all but the first as constants.
`tests/backends/` runs every sample that is not refused, and names the few that a target's runtime gets wrong.
"""
OLDER = """\

## ONNX at older opsets

An op that an opset lacks is said there in those that it has, where that is exact in every case. Where it is not, the op is
refused: these are all the samples that are, of {samples} at each opset. `tests/backends/onnx/` holds each of them.

"""
PINS = Path(__file__).parents[1] / "backends" / "onnx" / "exceptions.json"
SHORT = 90


def prepare(graph: Any, target: Any) -> None:
    legalize(graph, target)
    run_passes(graph, cleanup_passes())


def cell(found: Sequence[Outcome]) -> str:
    """What became of an op's samples, in short."""
    counts = Counter(each.kind for each in found)
    if len(counts) == 1 and not counts["refused"]:
        return found[0].kind
    told = [f"{kind} {counts[kind]}" for kind in ("native", "decomposed") if counts[kind]]
    if counts["refused"]:
        why = Counter(each.why for each in found if each.kind == "refused").most_common(1)[0][0].replace("|", "\\|")
        number = f" {counts['refused']}" if told else ""
        told.append(f"refused{number}: {why if len(why) <= SHORT else why[:SHORT].rsplit(' ', 1)[0] + ' ...'}")
    return ", ".join(told)


def older() -> Iterator[str]:
    """What ONNX refuses, opset by opset, as the tests of that target have pinned it."""
    pins: dict[str, dict[str, str]] = json.loads(PINS.read_text())
    opsets: dict[tuple[str, str], dict[str, int]] = {}
    for opset, pinned in pins.items():
        for name, told in pinned.items():
            kind, _, why = told.partition(": ")
            op = name.partition("-")[0]
            if kind == "refused":
                why = re.sub(r"(?<=for )(\w+)-\d+| at opset \d+", r"\1", why.removesuffix(f" (needed for {op})"))
                key = ("any", why) if why.startswith("the element type") else (op, why)
                counts = opsets.setdefault(key, {})
                counts[opset] = counts.get(opset, 0) + 1
    refused = {opset: sum(counts.get(opset, 0) for counts in opsets.values()) for opset in pins}
    samples = sum(len(list(param.values[0].graphs())) for param in suite("onnx", opset=NEWEST))
    yield from OLDER.format(samples=f"{samples:,}").splitlines()
    yield f"| op | {' | '.join(f'opset {opset}' for opset in pins)} | why |"
    yield "|---" * (len(pins) + 2) + "|"
    yield f"| **all** | {' | '.join(str(refused[opset]) for opset in pins)} | |"
    for (op, why), counts in sorted(opsets.items()):
        yield f"| {op} | {' | '.join(str(counts.get(opset, '')) for opset in pins)} | {why.replace('|', chr(92) + '|')} |"


def lines() -> Iterator[str]:
    columns: list[dict[str, str]] = []
    for make in TARGETS.values():
        cases = [param.values[0] for param in make()]
        columns.append({
            case.op.name: cell(list(outcomes(case, prepare, runs={}, validate=False).values())) for case in cases
        })  # fmt: skip
    yield from HEAD.splitlines()
    yield ""
    yield f"| op | {' | '.join(TARGETS)} |"
    yield "|---" * (len(TARGETS) + 1) + "|"
    for name in columns[0]:
        yield f"| {name} | {' | '.join(column[name] for column in columns)} |"
    yield from older()


def test_the_page_is_current() -> None:
    """It is not: run ``make coverage``."""
    assert PAGE.read_text().splitlines() == list(lines())


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n")
