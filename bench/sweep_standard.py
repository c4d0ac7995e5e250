"""Runs ONNX's own test models through isthmus and says which are right, refused, wrong or crash. Writes ``docs/standard.md``.

Each is evaluated here, and written at its own opset, at older ones and at the newest. With ``--peers`` other tools that make
models simpler have their turn as well; without it their figures are those of ``bench/standard.json``, where all is kept.

``python bench/sweep_standard.py RUN...`` takes only these runs (``reference``, ``own``, ``9``, ...) anew.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "frontends" / "onnx"))

import standard  # noqa: E402

from isthmus.backends.onnx.opsets import NEWEST  # noqa: E402

PAGE, KEPT = ROOT / "docs" / "standard.md", ROOT / "bench" / "standard.json"
RUNS = {"reference": "evaluated here", "own": "ONNX, at the model's own opset",
        **{str(opset): f"ONNX, at opset {opset}" for opset in (9, 13, 17, NEWEST)}}  # fmt: skip
PEERS = ("onnxsim", "onnxslim", "onnxscript", "onnxoptimizer")
SIMPLIFIED = "simplified"
FINE = ("right", "nearer", "evaluated")


# ---- in a process of its own


def simpler(peer: str) -> Callable[[Any], Any]:
    """What a peer makes of a model."""
    if peer == "onnxsim":
        import onnxsim

        return lambda model: onnxsim.simplify(model)[0]
    if peer == "onnxslim":
        import onnxslim

        return lambda model: onnxslim.slim(model)
    if peer == "onnxscript":
        import onnxscript.optimizer

        return lambda model: onnxscript.optimizer.optimize(model)
    import onnxoptimizer

    return lambda model: onnxoptimizer.optimize(model)


def of_peer(peer: str, name: str) -> str:
    """What becomes of a model that a peer made simpler, run as the original is."""
    case = standard.cases()[name]
    _, model = standard.load(case)
    kind = {"onnxruntime": standard.Session, "evaluator": standard.Evaluator}[standard.original(name)[0]]
    try:
        made = simpler(peer)(standard.load(case)[1])
        off = standard.changed(model, made) or standard.compared(case, model, standard.run_plainly(kind, made))
    except Exception as error:  # whatever it is, it belongs in the table
        return f"crash: {type(error).__name__}: {error}"
    return "right" if off is None else f"wrong: {off}"


def work(run: str, names: list[str]) -> None:
    """Prints a line for each model as soon as it is known what becomes of it."""
    warnings.simplefilter("ignore")
    for name in names or standard.cases():
        if run == "original":
            runtime, off = standard.original(name)
            found = "right" if off is None else f"{runtime}: {off}"
        elif run in PEERS:
            found = of_peer(run, name)
        elif run == SIMPLIFIED:
            found = standard.simplified(name)
        elif run == "reference":
            found = standard.verdict(name)
        else:
            found = standard.verdict(name, "onnx", **({} if run == "own" else {"opset": int(run)}))
        print("\n" + json.dumps([name, found]), flush=True)


# ---- around it


def swept(run: str, names: list[str]) -> dict[str, str]:
    """What becomes of each model; a process that dies costs the model that it was at."""
    found: dict[str, str] = {}
    while left := [name for name in names if name not in found]:
        command = [sys.executable, __file__, "--worker", run]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(left))
        child.stdin.close()
        for line in child.stdout:
            if line.startswith('["test_'):
                name, told = json.loads(line)
                found[name] = told
        if child.wait():
            found[next(name for name in left if name not in found)] = f"crash: the process ends with {child.returncode}"
    return found


def portable(text: str) -> str:
    """Without what is of this machine or this run."""
    text = re.sub(r"/\S*/(?=\w+)", "", text)
    text = re.sub(r"\d+ operations? cannot be carried over to \w+ - ", "", text)
    return " ".join(text.partition(" remedy:")[0].replace("|", "/").split())[:220]


def reason(told: str) -> str:
    """Why a model is refused, without what is its own."""
    text = portable(told.partition(": ")[2])
    return re.sub(r" (at \S+ )?in \S+.*$", "", text.partition(" - ")[0]).strip()


def counted(found: dict[str, str]) -> Counter[str]:
    return Counter(told.partition(":")[0] for told in found.values())


def page(kept: dict[str, dict[str, str]]) -> str:
    """What is written for people."""
    total = len(kept["own"])
    original = kept["original"]
    passed = [name for name, told in original.items() if told == "right"]
    lines = [
        "# The standard's own test models", "",
        f"`onnx.backend.test` brings {total:,} models along: nodes, functions, models that PyTorch made, and nine networks "
        "with weights that are all alike. Each goes through isthmus: read, made simpler, written (or evaluated here), run, and "
        "compared with the stored outputs by the model's own tolerance. It is *right* only where inputs and outputs have "
        "kept their names, element types and declared shapes, and where `onnx.checker` objects to nothing that it does not "
        "object to in the original. Written by `make sweep`, on "
        + ", ".join(f"{package} {version(package)}" for package in ("onnx", "onnxruntime", *PEERS)) + ".", "",
        "| | right | nearer | evaluated | opaque | refused | wrong | crash |", "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for run, what in RUNS.items():
        counts = counted(kept[run])
        lines.append(f"| {what} | " + " | ".join(f"{counts[kind]:,}" for kind in standard.VERDICTS) + " |")
    lines += [
        "", "*nearer*: the stored outputs were rounded on the way (to f16 after each step, or by a transform in f32); what "
        "isthmus gives is nearer than they to what the model gives in f64, and farther from them than the tolerance. "
        "*evaluated*: right where ONNX's own evaluator runs it, as it does the original, which onnxruntime does not run; "
        "such a model is compiled with `profile=\"onnx\"`. *opaque*: right, with nodes that stay as they were, of domains of "
        "which isthmus does not know the ops.",
        "", "## Beside others", "",
        f"The unchanged model gives the stored outputs of {len(passed):,} of them, in onnxruntime or, where that cannot run "
        "it, in ONNX's evaluator. (The others draw random numbers, or are rounded otherwise by onnxruntime.) Of these are "
        "right, with names and types kept, after:", "",
        "| | right | of these |", "|---|---|---|",
    ]  # fmt: skip
    mine = sum(kept["own"][name].partition(":")[0] in (*FINE, "opaque") for name in passed)
    lines.append(f"| isthmus | {mine:,} | {mine / len(passed):.2%} |")
    for peer in PEERS:
        if peer in kept:
            right = sum(kept[peer].get(name) == "right" for name in passed)
            lines.append(f"| {peer} | {right:,} | {right / len(passed):.2%} |")
    worse = {name: told for name, told in kept[SIMPLIFIED].items() if told != "right"}
    numbers = counted(worse)
    lines += [
        "", "## Smaller, and at once", "",
        f"`isthmus simplify` gives {numbers['grown']} of the {total:,} models more nodes than they had (those of functions and "
        f"nested graphs counted, constants not), and {numbers['unstable']} of them are written otherwise when what was written "
        "is simplified again:", "", "| model | |", "|---|---|",
        *(f"| {name} | {told} |" for name, told in worse.items()),
    ]  # fmt: skip
    lines += ["", "## What is not right", "", "| model | here | ONNX, at its own opset | the original |", "|---|---|---|---|"]
    for name in kept["own"]:
        told = [kept[run][name] for run in ("reference", "own")]
        if any(each.partition(":")[0] not in ("right", "evaluated") for each in told):
            lines.append(f"| {name} | " + " | ".join(portable(each) for each in (*told, original[name])) + " |")
    lines += ["", "## What is refused at other opsets", "", "By reason, the number of models.", "",
              "| why | " + " | ".join(list(RUNS)[2:]) + " |", "|---|" + "---|" * (len(RUNS) - 2)]  # fmt: skip
    refused: dict[str, Counter[str]] = defaultdict(Counter)
    for run in list(RUNS)[2:]:
        for told in kept[run].values():
            if told.startswith("refused"):
                refused[reason(told)][run] += 1
    for why, numbers in sorted(refused.items(), key=lambda item: (-sum(item[1].values()), item[0])):
        lines.append(f"| {why} | " + " | ".join(str(numbers[run] or "") for run in list(RUNS)[2:]) + " |")
    return "\n".join(lines) + "\n"


def read(names: list[str]) -> dict[str, dict[str, str]]:
    """What is kept of earlier runs; of what is right nothing is written down."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    return {run: dict.fromkeys(names, "right") | told for run, told in kept.items()}


def write(kept: dict[str, dict[str, str]]) -> None:
    short = {run: {name: told for name, told in found.items() if told != "right"} for run, found in kept.items()}
    KEPT.write_text(json.dumps(short, indent=1) + "\n")


def runs(options: argparse.Namespace) -> Iterator[str]:
    yield from options.runs or ("original", *RUNS, SIMPLIFIED)
    if options.peers:
        yield from PEERS


def main() -> int:
    """Runs the sweep; exits with 1 when anything is wrong or crashes that the unchanged model passes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--peers", action="store_true", help="have the peers' turn as well")
    parser.add_argument("runs", nargs="*", metavar="RUN", help="only these anew")
    options = parser.parse_args()
    if options.worker:
        work(options.worker, json.load(sys.stdin))
        return 0
    names = list(standard.cases())
    kept = read(names)
    for run in runs(options):
        asked = [name for name in names if kept["original"][name] == "right"] if run in PEERS else names
        kept[run] = {name: portable(told) for name, told in swept(run, asked).items()}
        write(kept)
        print(f"{run}: {dict(counted(kept[run]))}", file=sys.stderr, flush=True)
    PAGE.write_text(page(kept))
    bad = {
        f"{run} {name}": told for run in RUNS for name, told in kept[run].items()
        if told.startswith(("wrong", "crash")) and kept["original"][name] == "right"
    }  # fmt: skip
    for name, told in bad.items():
        print(f"{name}: {told}", file=sys.stderr)
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
