"""Measures compilation against torch.onnx and torch.export: time, nodes and memory, side by side in one process.

Runs alternate between the contenders, each on a fresh instance of the model; the least of all runs counts. Prints one
table with the ratios beside their goals, and writes build/bench/compile.json. Run it with ``make bench``.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import gc
import io
import json
import logging
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import onnxsim
import onnxslim
import torch

import isthmus
import zoo
from isthmus.compiler import lower
from isthmus.tables import table, text

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "bench"
OPSET = 18
GOALS = {
    "time, of torch.onnx(dynamo)": 1 / 20, "time, of torch.onnx(script)+onnxsim": 1.0,
    "capture, of torch.export": 1 / 10, "nodes, of the fewest": 1.0, "memory, of the weights": 1 / 10,
}  # fmt: skip


def torch_dims(example: zoo.Example) -> Any:
    """The example's dynamic shapes in torch's own form."""
    dims = {"N": torch.export.Dim("N"), "S": torch.export.Dim("S", max=512)}
    return {arg: {axis: dims[name] for axis, name in axes.items()} for arg, axes in example.dynamic_shapes.items()}


def ours(example: zoo.Example) -> Any:
    """isthmus, no file written."""
    return isthmus.compile(
        example.model, example.args, example.kwargs, dynamic_shapes=example.dynamic_shapes, target="onnx", opset=OPSET
    )


def capture_ours(example: zoo.Example) -> Any:
    """isthmus, the capture alone."""
    return lower(example.model, example.args, example.kwargs, dynamic_shapes=example.dynamic_shapes, until="captured")


def capture_torch(example: zoo.Example) -> Any:
    """torch.export, not strict."""
    return torch.export.export(
        example.model, example.args, example.kwargs, dynamic_shapes=torch_dims(example), strict=False
    )


def onnx_dynamo(example: zoo.Example) -> Any:
    """torch.onnx by torch.export, no file written."""
    return torch.onnx.export(
        example.model, example.args, kwargs=example.kwargs, dynamic_shapes=torch_dims(example), opset_version=OPSET,
        dynamo=True, verbose=False,
    )  # fmt: skip


class ByPosition(torch.nn.Module):
    """A model whose tensors come by position: tracing does not know keywords."""

    def __init__(self, example: zoo.Example) -> None:
        super().__init__()
        self.model, self.names = example.model, list(example.kwargs)

    def forward(self, *tensors: torch.Tensor) -> Any:
        """The model's outputs, flat."""
        found = self.model(**dict(zip(self.names, tensors, strict=True))) if self.names else self.model(*tensors)
        return found if isinstance(found, torch.Tensor) else tuple(found.values())


def onnx_script(example: zoo.Example) -> onnx.ModelProto:
    """torch.onnx by TorchScript, into memory."""
    out = io.BytesIO()
    names = list(example.dynamic_shapes)
    torch.onnx.export(
        ByPosition(example), example.args or tuple(example.kwargs.values()), out, input_names=names,
        dynamic_axes=example.dynamic_shapes, opset_version=OPSET, dynamo=False,
    )  # fmt: skip
    return onnx.load_model_from_string(out.getvalue())


def onnx_script_sim(example: zoo.Example) -> onnx.ModelProto:
    """torch.onnx by TorchScript, then onnxsim."""
    return onnxsim.simplify(onnx_script(example))[0]


TIMED: dict[str, Callable[[zoo.Example], Any]] = {
    "isthmus": ours, "isthmus capture": capture_ours, "torch.export": capture_torch, "torch.onnx(dynamo)": onnx_dynamo,
    "torch.onnx(script)+onnxsim": onnx_script_sim,
}  # fmt: skip


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps the exporters' chatter away."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def fresh(example: zoo.Example) -> zoo.Example:
    """The same example with an instance of the model that nothing has seen yet."""
    return zoo.Example(copy.deepcopy(example.model), example.args, example.kwargs, example.dynamic_shapes)


def measure(example: zoo.Example, runs: int) -> dict[str, dict[str, float]]:
    """Least wall and CPU seconds of each contender."""
    best: dict[str, dict[str, float]] = {name: {"wall": float("inf"), "cpu": float("inf")} for name in TIMED}
    for turn in range(runs):
        for name, contender in TIMED.items():
            print(f"  run {turn + 1} of {runs}: {name}", file=sys.stderr, flush=True)
            case = fresh(example)
            gc.collect()
            with quiet():
                wall, cpu = time.perf_counter(), time.process_time()
                result = contender(case)
                wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            del result, case
            best[name] = {"wall": min(best[name]["wall"], wall), "cpu": min(best[name]["cpu"], cpu)}
    return best


def count(model: onnx.ModelProto) -> int:
    """Nodes, those of functions and nested graphs included; constants are left out."""

    def nodes(graph: Any) -> int:
        nested = [sub for node in graph.node for attr in node.attribute for sub in (attr.g, *attr.graphs)]
        return sum(node.op_type != "Constant" for node in graph.node) + sum(map(nodes, nested))

    return nodes(model.graph) + sum(map(nodes, model.functions))


def count_nodes(example: zoo.Example) -> dict[str, int]:
    """Nodes of each way to make the model."""
    with quiet():
        dynamo = onnx_dynamo(fresh(example)).model_proto
        script = onnx_script(fresh(example))
        found = {"isthmus": ours(fresh(example)).artefact.node_count}
        for name, model in (("dynamo", dynamo), ("script", script)):
            found[f"torch.onnx({name})"] = count(model)
            found[f"torch.onnx({name})+onnxslim"] = count(onnxslim.slim(copy.deepcopy(model)))
            found[f"torch.onnx({name})+onnxsim"] = count(onnxsim.simplify(model)[0])
    return found


def peak(name: str) -> dict[str, float]:
    """Memory that compiling and saving takes beside the model, measured in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--memory-of", name], stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def memory_of(name: str) -> None:
    """Prints the extra peak memory of compiling and saving one model, and its weights' size, in bytes."""
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / "memory.onnx"
    small = zoo.Example(torch.nn.Linear(2, 2).eval(), (torch.ones(1, 2),), dynamic_shapes={"input": {0: "N"}})
    ours(small).save(path)  # imports are not what is measured
    example = zoo.ALL[name]()
    weights = sum(p.untyped_storage().nbytes() for p in {p.data_ptr(): p for p in example.model.state_dict().values()}.values())
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = memory("VmRSS")
    ours(example).save(path)
    after = memory("VmHWM")
    path.unlink()
    print(json.dumps({"extra": after - before, "weights": weights}))


def memory(field: str) -> int:
    """A field of this process's status, in bytes."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024


def ratios(found: dict[str, Any], clock: str = "wall") -> dict[str, float]:
    """What the goals are about, by the wall's clock or by the CPU's."""
    seconds = {name: times[clock] for name, times in found["seconds"].items()}
    others = [number for name, number in found["nodes"].items() if name != "isthmus"]
    return {
        "time, of torch.onnx(dynamo)": seconds["isthmus"] / seconds["torch.onnx(dynamo)"],
        "time, of torch.onnx(script)+onnxsim": seconds["isthmus"] / seconds["torch.onnx(script)+onnxsim"],
        "capture, of torch.export": seconds["isthmus capture"] / seconds["torch.export"],
        "nodes, of the fewest": found["nodes"]["isthmus"] / min(others),
        "memory, of the weights": found["memory"]["extra"] / found["memory"]["weights"],
    }


def show(results: dict[str, Any]) -> str:
    """One table with everything."""
    rows: list[tuple[object, ...]] = []
    for model, found in results.items():
        for name, times in found["seconds"].items():
            rows.append((model, f"seconds: {name}", f"{times['wall']:.3f} wall, {times['cpu']:.3f} CPU", "", ""))
        for name, nodes in found["nodes"].items():
            rows.append((model, f"nodes: {name}", f"{nodes:,}", "", ""))
        extra, weights = found["memory"]["extra"], found["memory"]["weights"]
        rows.append((model, "extra memory, weights", f"{extra / 1e6:.1f} MB, {weights / 1e6:.1f} MB", "", ""))
        for (name, ratio), cpu in zip(ratios(found).items(), ratios(found, "cpu").values(), strict=True):
            timed = f"{ratio:.3f} wall, {cpu:.3f} CPU" if ratio != cpu else f"{ratio:.3f}"
            met = "met" if ratio <= GOALS[name] else "NOT MET"
            rows.append((model, f"ratio: {name}", timed, f"{GOALS[name]:.3f}", met))
    return text(table(["model", "what", "figure", "goal", ""], rows))


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two runs, not five")
    parser.add_argument("--model", action="append", choices=list(zoo.ALL), help="only this model; may be repeated")
    parser.add_argument("--memory-of", choices=list(zoo.ALL), help=argparse.SUPPRESS)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    if options.memory_of:
        memory_of(options.memory_of)
        return
    results: dict[str, Any] = {}
    for name in options.model or zoo.ALL:
        print(name, file=sys.stderr, flush=True)
        example = zoo.ALL[name]()
        results[name] = {
            "seconds": measure(example, 2 if options.quick else 5), "nodes": count_nodes(example), "memory": peak(name),
        }  # fmt: skip
        results[name]["ratios"] = ratios(results[name])
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "compile.json").write_text(json.dumps(results, indent=2))
    print(show(results))


if __name__ == "__main__":
    main()
