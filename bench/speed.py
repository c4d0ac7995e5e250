"""Measures twenty models of the table against torch.onnx and torch.export: compilation, and the latency of what comes out.

Each model is measured in a process of its own, contenders alternating; the least of the runs counts for compiling, and for
latency the median of paired ratios of CPU time in onnxruntime, on one thread, against whichever peer is the fastest.
Peers are torch.onnx (dynamo), and what onnxslim and onnxsim make of its model. Prints one table and writes
``build/bench/speed.json``. Run it with ``make bench``; ``PYTHONPATH=examples python bench/speed.py NAME...`` runs some.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import logging
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import torch
from compile import OPSET, OUT, ROOT, capture_ours, fresh, ours, quiet

from isthmus.tables import table, text
from models import all_entries
from zoo import Example

MODELS = (
    "alexnet", "vgg11_bn", "resnet50", "densenet121", "googlenet", "mobilenet_v3_small", "shufflenet_v2_x0_5",
    "efficientnet_b0", "regnet_y_400mf", "convnext_tiny", "vit_b_16", "swin_t", "deeplabv3_mobilenet_v3_large",
    "r3d_18", "BERT", "GPT-2", "Llama", "T5", "CLIP", "Mamba",
)  # fmt: skip
GOALS = {"compile": 1 / 20, "capture": 1 / 10}
"""Geometric means of the ratios to torch.onnx and to torch.export."""
WORST = 1 / 5
"""No single model's compilation may take a greater share of torch.onnx's time."""
SECONDS = 12.0
"""How long two models are run in turns: on a machine with other work less does not tell 1% apart."""
LIMIT = 900
"""Seconds for one model, all contenders together."""


def dynamic(example: Example) -> Any:
    """The example's dynamic shapes in torch's own form."""
    return torch.utils._pytree.tree_map_only(str, lambda _: torch.export.Dim.DYNAMIC, example.dynamic_shapes)


def by_export(example: Example) -> Any:
    """torch.export, not strict."""
    return torch.export.export(example.model, example.args, example.kwargs, dynamic_shapes=dynamic(example), strict=False)


def by_dynamo(example: Example) -> Any:
    """torch.onnx by torch.export, no file written."""
    return torch.onnx.export(
        example.model, example.args, kwargs=example.kwargs, dynamic_shapes=dynamic(example), opset_version=OPSET,
        dynamo=True, verbose=False,
    )  # fmt: skip


def least(contender: Callable[[Example], Any], example: Example, runs: int) -> tuple[float, Any]:
    """The least CPU seconds of so many runs, each on an instance that nothing has seen, and the last result."""
    best, result = float("inf"), None
    for _ in range(runs):
        case, result = fresh(example), None
        gc.collect()
        with quiet():
            start = time.process_time()
            result = contender(case)
            best = min(best, time.process_time() - start)
    return best, result


def session(model: onnx.ModelProto) -> Any:
    """An onnxruntime session on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def latency(mine: Any, others: dict[str, onnx.ModelProto], inputs: list[Any], seconds: float) -> dict[str, float]:
    """For each other model, the median of our CPU time over its, run in pairs whose order alternates."""
    first = session(onnx.load(mine))
    found = {}
    for name, model in others.items():
        second = session(model)
        pair = [(each, dict(zip([i.name for i in each.get_inputs()], inputs, strict=True))) for each in (first, second)]
        ratios: list[float] = []
        deadline = time.perf_counter() + seconds
        while len(ratios) < 8 or (time.perf_counter() < deadline and len(ratios) < 300):
            spent = [0.0, 0.0]
            for place in (0, 1) if len(ratios) % 2 else (1, 0):
                runs, feeds = pair[place]
                start = time.process_time()
                runs.run(None, feeds)
                spent[place] = time.process_time() - start
            ratios.append(spent[0] / spent[1])
        found[name] = statistics.median(ratios[2:])
    return found


def measure(name: str, runs: int) -> dict[str, Any]:
    """One model's figures."""
    import onnxsim
    import onnxslim

    example = next(entry for entry in all_entries() if entry.name == name).make()
    with quiet():
        ours(fresh(example))  # what is imported on first use is not what is measured
    found: dict[str, Any] = {}
    found["ours"], net = least(ours, example, runs + 2)
    found["capture"], _ = least(capture_ours, example, runs + 2)
    found["steps"] = net.report.seconds
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / f"speed-{name}.onnx"
    net.save(path)
    inputs = net.captured.flatten(example.args, example.kwargs)
    for peer, contender in (("torch.export", by_export), ("torch.onnx", by_dynamo)):
        try:
            found[peer], made = least(contender, example, runs)
        except Exception as error:  # whatever stops a peer belongs in the table
            found[f"{peer} fails"] = f"{type(error).__name__}: {error}".splitlines()[0]
            made = None
    if made is not None:
        others = {"torch.onnx": made.model_proto}
        with quiet():
            for peer, simplify in (("onnxslim", onnxslim.slim), ("onnxsim", lambda model: onnxsim.simplify(model)[0])):
                try:
                    others[peer] = simplify(copy.deepcopy(made.model_proto))
                except Exception as error:
                    found[f"{peer} fails"] = f"{type(error).__name__}: {error}".splitlines()[0]
        found["latency"] = latency(path, others, inputs, SECONDS)
    for written in OUT.glob(f"speed-{name}.*"):
        written.unlink()
    return found


def isolated(name: str, runs: int) -> dict[str, Any]:
    """One model's figures from a process of its own."""
    command = [sys.executable, __file__, "--runs", str(runs), "--only", name]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return {"ended": f"over {LIMIT} s"}
    if done.returncode:
        return {"ended": f"exit status {done.returncode}"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def show(results: dict[str, dict[str, Any]]) -> str:
    """The table, and the means beside their goals."""
    pairs = {"compile": ("ours", "torch.onnx"), "capture": ("capture", "torch.export")}
    ratios: dict[str, dict[str, float]] = {
        what: {name: found[a] / found[b] for name, found in results.items() if a in found and b in found}
        for what, (a, b) in pairs.items()
    }
    rows = []
    for name, found in results.items():
        slowest = max(found.get("latency", {}).items(), key=lambda each: each[1], default=("", None))
        notes = "; ".join(f"{key}: {value}" for key, value in found.items() if key.endswith(("fails", "ended")))
        rows.append((
            name, found.get("ours"), found.get("torch.onnx"), ratios["compile"].get(name), found.get("capture"),
            found.get("torch.export"), ratios["capture"].get(name), slowest[1], slowest[0], notes,
        ))  # fmt: skip
    columns = [
        "model", "compile, CPU s", "torch.onnx", "ratio", "capture", "torch.export", "ratio", "latency, of the best peer",
        "peer", "",
    ]  # fmt: skip
    lines = []
    for what, goal in GOALS.items():
        if ratios[what]:
            mean = math.exp(float(np.mean(np.log(list(ratios[what].values())))))
            lines.append(f"{what}: geometric mean {mean:.4f} (goal {goal:.3f}), worst {max(ratios[what].values()):.3f}")
    lines.append(f"goal for the worst compile: {WORST}")
    return text(table(columns, rows), *lines)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2, help="runs of each peer; two more of ours")
    parser.add_argument("--only", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("models", nargs="*", help="in place of the twenty")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    if options.only:
        print(json.dumps(measure(options.models[0], options.runs)))
        return
    results = {}
    OUT.mkdir(parents=True, exist_ok=True)
    for name in options.models or MODELS:
        print(name, file=sys.stderr, flush=True)
        results[name] = isolated(name, options.runs)
        (OUT / "speed.json").write_text(json.dumps(results, indent=2))  # each time: it takes a quarter of an hour
    print(show(results))


if __name__ == "__main__":
    main()
