"""Compiles every model of the table at several opsets and compares it with eager at other sizes. Run it with ``make sweep``.

``PYTHONPATH=examples python bench/sweep_models.py NAME...`` runs only those models, and writes nothing unless ``--keep`` is
given; without names all are run and ``docs/models.md`` is written. ``--peers`` counts the nodes of other exporters, too.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import platform
import signal
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from isthmus.backends.onnx.opsets import DEFAULT, NEWEST
from isthmus.tables import table, text

ROOT = Path(__file__).resolve().parent.parent
PAGE, KEPT = ROOT / "docs" / "models.md", ROOT / "bench" / "models.json"
OPSETS = (7, 9, 11, 13, 15, 17, 20, NEWEST)
LIMIT, PEERS_LIMIT = 600, 600
"""Seconds for one model."""
TIMED = 3
"""Times that a model is compiled for its time, the least of which counts."""
HEAD = """\
# Models

{right} of {all} models are right at all {number} opsets from {oldest} to {newest}, the others at some: of {runs} files, one a
model and opset, {rights} are right, {refused} refused with the reason (see *Why not*), and {wrong} wrong. {lean} of the
{counted} models that another exporter can make have no more nodes than the fewest of the others.

Each is compiled with random weights as if it had been trained and passes `onnx.checker`; the file names the opset asked for
and no other, and all its ops are of that opset. Every output is compared in onnxruntime with the model's own, run plainly,
on fresh inputs at the sizes given, which are not the example's: values, dtypes and shapes. *Error* is the worst over all
runs, of the output's greatest value. *Nodes* are counted at opset {opset}, constants left out, beside the fewest of
torch.onnx (dynamo) and what onnxslim and onnxsim make of it, what is wrong at these sizes left out. A file *comes back*
that is read as the graph that it was written from, but for names, at that opset. *Compile* is the whole
way without writing a file, at that opset. Written by `make sweep`, on
{versions}.

"""
COLUMNS = (
    "model", "compared at", *(f"opset {opset}" for opset in OPSETS), "error", "nodes", "of others", "comes back", "compile, s",
)  # fmt: skip


def entries(names: list[str]) -> list[str]:
    """The names of the table's models, or of those of them that are wanted."""
    from models import all_entries

    known = [entry.name for entry in all_entries()]
    if unknown := set(names) - set(known):
        sys.exit(f"no such model: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return names or known


def find(name: str) -> Any:
    """The model's entry, without loading the families behind its own."""
    from models import FAMILIES

    families = (import_module(f"models.{family}").ENTRIES for family in FAMILIES)
    return next(entry for family in families for entry in family if entry.name == name)


# ---- in a process of its own


def compiled(example: Any, opset: int) -> Any:
    """The example's model by isthmus, no file written."""
    import isthmus

    return isthmus.compile(
        example.model, example.args, example.kwargs, dynamic_shapes=example.dynamic_shapes, opset=opset
    )


def ours(name: str) -> dict[str, Any]:
    """What became of a model at each opset."""
    import torch

    import isthmus

    torch.set_num_threads(1)
    entry = find(name)
    sizes = [", ".join(f"{symbol}={size}" for symbol, size in setting.items()) for setting in entry.sizes]
    found: dict[str, Any] = {"sizes": sizes, "verdicts": {}, "why": {}, "error": None}
    example = entry.make()
    for opset in OPSETS:
        try:
            net = compiled(example, opset)
            net.artefact.validate()
            if told := strangers(net.artefact, opset):
                raise ValueError(told)
            calls = [call_at(net.captured, seed, setting) for seed, setting in enumerate(entry.sizes)]
            report = net.verify(inputs=calls)
            if report.skipped:
                raise ValueError("\n".join(report.skipped))
            found["error"] = max(found["error"] or 0.0, report.worst)
            verdict, why = "right", ""
        except (isthmus.errors.CaptureError, isthmus.errors.UnsupportedError) as error:
            verdict, why = "refused", str(error)
        except Exception as error:  # whatever it is, it belongs in the table
            verdict, why = "wrong", f"{type(error).__name__}: {error}"
        found["verdicts"][str(opset)], found["why"][str(opset)] = verdict, portable(why)
        gc.collect()
    if found["verdicts"][str(NEWEST)] == "right":
        reports = [compiled(example, DEFAULT).report for _ in range(TIMED)]
        seconds = min(sum(report.seconds.values()) for report in reports)
        found |= {"nodes": reports[0].nodes["artefact"], "seconds": seconds, "back": comes_back(example)}
    return found


def comes_back(example: Any) -> str:
    """Whether what is written, and read again, is the same graph but for names."""
    sys.path.insert(0, str(ROOT / "tests" / "frontends" / "onnx"))
    from round_trip import model_difference

    with tempfile.TemporaryDirectory() as folder:
        return "no" if model_difference(compiled(example, DEFAULT), Path(folder) / "net.onnx", DEFAULT) else "yes"


def strangers(artefact: Any, opset: int) -> str:
    """What in a file is not of the opset that was asked for, in words; nothing where all is."""
    import onnx

    told = [] if artefact.imports == {"": opset} else [f"the file imports {artefact.imports}"]
    for op in artefact.op_counts:
        try:
            schema = onnx.defs.get_schema(op, opset, "")
        except onnx.defs.SchemaError:
            told.append(f"there is no {op} at opset {opset}")
        else:
            told += [f"{op} is deprecated at opset {opset}"] if schema.deprecated else []
    return "; ".join(told)


def portable(text: str) -> str:
    """A text without the places of this machine."""
    return text.replace(f"{sysconfig.get_path('purelib')}/", "").replace(f"{ROOT}/", "")


def call_at(captured: Any, seed: int, sizes: dict[str, int]) -> Any:
    """Fresh arguments at these sizes.

    Raises:
        ValueError: these are not the model's symbols.
    """
    from isthmus.sizes import free_symbols

    known, free = set(captured.graph.symbols.by_name), {symbol.name for symbol in free_symbols(captured.graph)}
    if not free <= set(sizes) <= known:
        raise ValueError(f"the sizes {sizes} are not those of the model's symbols, {', '.join(sorted(free))}")
    return captured.fresh_inputs(seed, sizes)


def peers(name: str) -> dict[str, int | str]:
    """Nodes of the model by torch.onnx, and by what simplifies its output; in words why there are none, or what is wrong."""
    import copy

    import onnxsim
    import onnxslim
    import torch
    from compile import count, quiet

    from isthmus.errors import MismatchError
    from isthmus.verification import verify

    entry = find(name)
    example = entry.make()
    captured = compiled(example, DEFAULT).captured
    calls = [call_at(captured, seed, setting) for seed, setting in enumerate(entry.sizes)]
    dynamic = torch.utils._pytree.tree_map_only(str, lambda _: torch.export.Dim.DYNAMIC, example.dynamic_shapes)
    found: dict[str, int | str] = {}
    makers = {
        "torch.onnx": lambda _: torch.onnx.export(
            example.model, example.args, kwargs=example.kwargs, dynamic_shapes=dynamic, opset_version=DEFAULT, dynamo=True,
            verbose=False,
        ).model_proto,
        "onnxslim": lambda model: onnxslim.slim(copy.deepcopy(model)),
        "onnxsim": lambda model: onnxsim.simplify(model)[0],
    }  # fmt: skip
    first = None
    for peer, make in makers.items():
        try:
            with quiet():
                model = make(first)
            first = first or model
            found[peer] = count(model)
            verify(captured, runner(model, captured.input_names), calls)
        except MismatchError as error:
            found[peer] = f"wrong: {error.message}"
        except Exception as error:  # whatever it is, it belongs in the table
            found[peer] = portable(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")[:200]
            if first is None:
                break
    return found


def runner(model: Any, names: list[str]) -> Any:
    """What runs a peer's model on our inputs; it may lack those that make no difference."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = [each.name for each in session.get_inputs()]

    def run(inputs: Any) -> Any:
        feeds = dict(zip(wanted if len(wanted) == len(inputs) else names, inputs, strict=True))
        return session.run(None, {name: feeds[name] for name in wanted})

    return run


# ---- around it


def child(what: str, name: str, limit: int) -> dict[str, Any]:
    """What a process of its own finds; how it ended where it finds nothing."""
    command = [sys.executable, __file__, "--only", what, name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"ended": f"takes more than {limit} s"}
    if done.returncode:
        end = signal.Signals(-done.returncode).name if done.returncode < 0 else (done.stderr.strip().splitlines() or [""])[-1]
        return {"ended": f"the process died: {end}"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def sweep(name: str, with_peers: bool, kept: dict[str, Any]) -> dict[str, Any]:
    """A model's row; its peers as they were where they are not asked for."""
    found = child("ours", name, LIMIT)
    if ended := found.pop("ended", None):
        found = {"sizes": [], "verdicts": {str(opset): "wrong" for opset in OPSETS}, "why": {"": ended}}
    found["peers"] = child("peers", name, PEERS_LIMIT) if with_peers else kept.get("peers", {})
    print(f"{name}: {', '.join(found['verdicts'].values())}", file=sys.stderr, flush=True)
    return found


def is_right(found: dict[str, Any]) -> bool:
    """Whether it is at all opsets."""
    return all(found["verdicts"].get(str(opset)) == "right" for opset in OPSETS)


def is_failure(found: dict[str, Any]) -> bool:
    """Whether a model is wrong anywhere, or not right at the newest opset; older ones may lack what it needs."""
    verdicts = [found["verdicts"].get(str(opset)) for opset in OPSETS]
    return verdicts[-1] != "right" or not set(verdicts) <= {"right", "refused"}


def fewest(found: dict[str, Any]) -> tuple[int, str] | None:
    """The fewest nodes of the peers, and whose; None where none has made the model."""
    return min(((nodes, peer) for peer, nodes in found["peers"].items() if isinstance(nodes, int)), default=None)


def row(name: str, found: dict[str, Any]) -> list[object]:
    """The row of the table."""
    best = fewest(found)
    told = "wrong" if any(str(each).startswith("wrong") for each in found["peers"].values()) else "fails"
    others = f"{best[0]} ({best[1]})" if best else told if found["peers"] else None
    verdicts = [found["verdicts"].get(str(opset)) for opset in OPSETS]
    sizes = "; ".join(found["sizes"])
    return [name, sizes, *verdicts, found.get("error"), found.get("nodes"), others, found.get("back"), found.get("seconds")]


def reasons(results: dict[str, Any]) -> Iterator[str]:
    """Why models are not right; one line for the same reason at several opsets."""
    for name, found in results.items():
        for why in dict.fromkeys(filter(None, found["why"].values())):
            yield f"{name} (opset {', '.join(opset for opset, other in found['why'].items() if other == why)}): {why}"


def page(results: dict[str, Any]) -> str:
    """``docs/models.md``."""
    packages = ("torch", "torchvision", "transformers", "onnx", "onnxruntime", "onnxslim", "onnxsim")
    versions = ", ".join([f"Python {platform.python_version()}", *(f"{package} {version(package)}" for package in packages)])
    rights = sum(map(is_right, results.values()))
    pairs = [(found["nodes"], best[0]) for found in results.values() if "nodes" in found and (best := fewest(found))]
    lean = sum(nodes <= least for nodes, least in pairs)
    verdicts = Counter(filter(None, (found["verdicts"].get(str(opset)) for found in results.values() for opset in OPSETS)))
    lines = [
        HEAD.format(
            right=rights, all=len(results), number=len(OPSETS), oldest=OPSETS[0], newest=OPSETS[-1], runs=verdicts.total(),
            rights=verdicts["right"], refused=verdicts["refused"], wrong=verdicts["wrong"], lean=lean, counted=len(pairs),
            opset=DEFAULT, versions=versions,
        )
    ]  # fmt: skip
    lines += [f"| {' | '.join(COLUMNS)} |\n", f"|{'---|' * len(COLUMNS)}\n"]
    for name, found in results.items():
        cells = ["" if cell is None else f"{cell:.1e}" if isinstance(cell, float) else str(cell) for cell in row(name, found)]
        seconds = found.get("seconds")
        lines.append(f"| {' | '.join([*cells[:-1], '' if seconds is None else f'{seconds:.2f}'])} |\n")
    if told := [f"* {' '.join(line.split())}\n" for line in reasons(results)]:
        lines += ["\n## Why not\n\n", *told]
    return "".join(lines)


def keep(results: dict[str, Any]) -> None:
    """Writes what is known of the table's models, in its order, and the page."""
    known = {name: results[name] for name in entries([]) if name in results}
    KEPT.write_text(json.dumps(known, indent=1) + "\n")
    PAGE.write_text(page(known))


def main() -> int:
    """Prints one row a model; exits with 1 when one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", action="store_true", help="count the nodes of other exporters, too: minutes a model")
    parser.add_argument("--keep", action="store_true", help="write what was found where only some models were run, too")
    parser.add_argument("--jobs", type=int, default=1, help="models at a time")
    parser.add_argument("--only", choices=["ours", "peers"], help=argparse.SUPPRESS)
    parser.add_argument("models", nargs="*", help="only these")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    if options.only:
        print("\n" + json.dumps({"ours": ours, "peers": peers}[options.only](options.models[0])))
        return 0
    names = entries(options.models)
    keeps = options.keep or not options.models
    kept: dict[str, Any] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    results: dict[str, Any] = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        rows = pool.map(lambda name: sweep(name, options.peers, kept.get(name, {})), names)
        for name, found in zip(names, rows, strict=True):
            results[name] = found
            if keeps:
                keep(kept | results)
    rights = sum(map(is_right, results.values()))
    lines = [*reasons(results), f"{rights} of {len(results)} models are right"]
    print(text(table(COLUMNS, [row(name, found) for name, found in results.items()]), *lines))
    return int(any(map(is_failure, results.values())))


if __name__ == "__main__":
    sys.exit(main())
