"""Measures twenty models of the table against torch.onnx and torch.export: compilation, and the latency of what comes out.

Each model is measured in a process of its own, and the least of the runs counts for compiling. Peers are torch.onnx
(dynamo), and what onnxslim and onnxsim make of its model. Latency is CPU time in onnxruntime, on one thread, against the
fastest of the peers. One session of a file may be some percent faster than the next one of the same file, by where its
memory happens to lie: so fresh sessions of both take turns, the median over sessions counts, and the peer is held against
itself in the same way. No worse is what is no worse than that tells apart.

Prints one table and writes ``build/bench/speed.json``. Run it with ``make bench``; ``PYTHONPATH=examples python
bench/speed.py NAME...`` runs some. ``--keep`` leaves the peers' files in ``build/bench/peers`` (gigabytes), and ``--again``
measures latency alone, against those.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import logging
import math
import re
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
SECONDS, ROUNDS, SCREENING = 30.0, range(10, 41), 3
"""CPU seconds in which sessions take turns, in how many rounds, and in how many of them the fastest peer is found first."""
RUNS, SESSION = range(4, 1001), 0.2
"""How many runs of one session count for its least, and about how many seconds they take."""
PEERS = OUT / "peers"
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


def why(error: Exception) -> str:
    """An error in a few words, without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", f"{type(error).__name__}: {error}".splitlines()[0])[:80]


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


def spent(model: bytes, inputs: list[Any]) -> float:
    """The least CPU seconds of a run in a fresh session on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feeds = dict(zip([each.name for each in session.get_inputs()], inputs, strict=True))
    times: list[float] = []
    for _ in range(2):
        session.run(None, feeds)
    while len(times) < RUNS.start or (sum(times) < SESSION and len(times) < RUNS.stop):
        start = time.process_time()
        session.run(None, feeds)
        times.append(time.process_time() - start)
    return min(times)


def latency(mine: bytes, peers: dict[str, bytes], inputs: list[Any], seconds: float) -> dict[str, Any]:
    """Our time over that of the fastest peer, the peer's over its own, and how far from 1 that may come to lie by chance."""
    screened = {peer: min(spent(model, inputs) for _ in range(SCREENING)) for peer, model in peers.items()}
    best = min(screened, key=screened.__getitem__)
    rounds: list[list[float]] = []
    deadline = time.process_time() + seconds
    while len(rounds) < ROUNDS.start or (time.process_time() < deadline and len(rounds) < ROUNDS.stop):
        turn = [0.0, 0.0, 0.0]
        for place in np.roll(range(3), len(rounds)):  # no place in the round is always the same contender's
            turn[place] = spent(peers[best] if place else mine, inputs)
        rounds.append(turn)
    times = np.array(rounds)
    chosen = np.random.default_rng(0).integers(len(times), size=(2000, len(times)))
    chances = np.median(times[chosen], axis=1)
    return {
        "peer": best, "seconds": float(np.median(times[:, 0])), "times": times.tolist(),
        "ratio": float(np.median(times[:, 0]) / np.median(times[:, 1:])),
        "control": float(np.median(times[:, 1]) / np.median(times[:, 2])),
        "spread": float(np.quantile(abs(chances[:, 1] / chances[:, 2] - 1), 0.95)),
    }  # fmt: skip


def simplified(model: onnx.ModelProto, found: dict[str, Any]) -> dict[str, bytes]:
    """The files of torch.onnx and of what simplifies its own; why there is none goes to what is found."""
    import onnxsim
    import onnxslim

    made = {"torch.onnx": model.SerializeToString()}
    with quiet():
        for peer, simplify in (("onnxslim", onnxslim.slim), ("onnxsim", lambda model: onnxsim.simplify(model)[0])):
            try:
                made[peer] = simplify(copy.deepcopy(model)).SerializeToString()
            except Exception as error:  # whatever stops a peer belongs in the table
                found[f"{peer} fails"] = why(error)
    return made


def measure(name: str, runs: int, keep: bool, seconds: float) -> dict[str, Any]:
    """One model's figures."""
    example = next(entry for entry in all_entries() if entry.name == name).make()
    with quiet():
        ours(fresh(example))  # what is imported on first use is not what is measured
    found: dict[str, Any] = {}
    found["ours"], net = least(ours, example, runs + 2)
    found["capture"], _ = least(capture_ours, example, runs + 2)
    found["steps"] = net.report.seconds
    made = None
    for peer, contender in (("torch.export", by_export), ("torch.onnx", by_dynamo)):
        try:
            found[peer], made = least(contender, example, runs)
        except Exception as error:  # whatever stops a peer belongs in the table
            found[f"{peer} fails"] = why(error)
            made = None
    if made is not None:
        peers = simplified(made.model_proto, found)
        if keep:
            PEERS.mkdir(parents=True, exist_ok=True)
            for peer, model in peers.items():
                (PEERS / f"{name}.{peer}.onnx").write_bytes(model)
        del made
        found["latency"] = latency(saved(net, name), peers, inputs_of(net, example), seconds)
    return found


def measure_again(name: str, seconds: float) -> dict[str, Any]:
    """One model's latency against the peers' files of an earlier run."""
    peers = {path.name[len(name) + 1 : -len(".onnx")]: path.read_bytes() for path in sorted(PEERS.glob(f"{name}.*.onnx"))}
    if not peers:
        sys.exit(f"no peer's file of {name} was kept")
    example = next(entry for entry in all_entries() if entry.name == name).make()
    with quiet():
        net = ours(example)
    return {"latency": latency(saved(net, name), peers, inputs_of(net, example), seconds)}


def inputs_of(net: Any, example: Example) -> list[Any]:
    """The example's inputs, flat."""
    inputs: list[Any] = net.captured.flatten(example.args, example.kwargs)
    return inputs


def saved(net: Any, name: str) -> bytes:
    """Our file, weights inside."""
    path = OUT / f"speed-{name}.onnx"
    net.save(path)
    model = onnx.load(path).SerializeToString()
    for written in OUT.glob(f"speed-{name}.*"):
        written.unlink()
    return model


def isolated(name: str, *options: str) -> dict[str, Any]:
    """One model's figures from a process of its own."""
    command = [sys.executable, __file__, *options, "--only", name]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return {"ended": f"over {LIMIT} s"}
    if done.returncode:
        return {"ended": f"exit status {done.returncode}"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def is_worse(told: dict[str, Any]) -> bool:
    """Whether our latency is greater than the best peer's, beyond what chance makes of two runs of that peer."""
    return bool(told["ratio"] > 1 + told["spread"])


def show(results: dict[str, dict[str, Any]]) -> str:
    """The table, and the means beside their goals."""
    pairs = {"compile": ("ours", "torch.onnx"), "capture": ("capture", "torch.export")}
    ratios: dict[str, dict[str, float]] = {
        what: {name: found[a] / found[b] for name, found in results.items() if a in found and b in found}
        for what, (a, b) in pairs.items()
    }
    rows = []
    for name, found in results.items():
        told = found.get("latency", {})
        rows.append((
            name, found.get("ours"), found.get("torch.onnx"), ratios["compile"].get(name), found.get("capture"),
            found.get("torch.export"), ratios["capture"].get(name), *map(told.get, ("seconds", "ratio", "control", "spread")),
            f"{'worse' if is_worse(told) else 'no worse'} than {told['peer']}" if told else None,
        ))  # fmt: skip
    columns = [
        "model", "compile, CPU s", "torch.onnx", "ratio", "capture", "torch.export", "ratio", "latency, CPU s",
        "of the best peer", "peer of itself", "by chance", "",
    ]  # fmt: skip
    lines = [
        f"{name}: {key}: {value}" for name, found in results.items() for key, value in found.items()
        if key.endswith(("fails", "ended"))
    ]  # fmt: skip
    for what, goal in GOALS.items():
        if ratios[what]:
            mean = math.exp(float(np.mean(np.log(list(ratios[what].values())))))
            lines.append(f"{what}: geometric mean {mean:.4f} (goal {goal:.3f}), worst {max(ratios[what].values()):.3f}")
    lines.append(f"goal for the worst compile: {WORST}")
    measured = [found["latency"] for found in results.values() if "latency" in found]
    lines.append(f"latency: no worse than the best peer on {len(measured) - sum(map(is_worse, measured))} of {len(measured)}")
    return text(table(columns, rows), *lines)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2, help="runs of each peer; two more of ours")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="CPU seconds for each model's latency")
    parser.add_argument("--keep", action="store_true", help="leave the peers' files for --again")
    parser.add_argument("--again", action="store_true", help="latency alone, against the files that were left")
    parser.add_argument("--only", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("models", nargs="*", help="in place of the twenty")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    if options.only:
        (name,) = options.models
        again, seconds = options.again, options.seconds
        print(json.dumps(measure_again(name, seconds) if again else measure(name, options.runs, options.keep, seconds)))
        return
    kinds = ["--runs", str(options.runs), "--seconds", str(options.seconds)]
    kinds += [f"--{kind}" for kind in ("keep", "again") if getattr(options, kind)]
    results = {}
    OUT.mkdir(parents=True, exist_ok=True)
    for name in options.models or MODELS:
        results[name] = isolated(name, *kinds)
        told = results[name].get("latency", {})
        print(name, *map(told.get, ("peer", "ratio", "control", "spread")), file=sys.stderr, flush=True)
        (OUT / "speed.json").write_text(json.dumps(results, indent=2))  # each time: it takes a quarter of an hour
    print(show(results))


if __name__ == "__main__":
    main()
