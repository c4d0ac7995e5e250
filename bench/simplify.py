"""Measures simplifying exported ONNX models against onnxsim, onnxslim, onnxscript's optimizer and onnxoptimizer.

Models of the table are exported by torch.onnx with its two exporters, sizes left open where the exporter can, and kept under
``build/bench/exports``; delete that folder to export anew. Each is measured in a process of its own,
the least CPU seconds of the runs counting: on a machine with other work the wall's clock tells little. Ours is run in
onnxruntime against the original, at sizes that are not the example's. Prints one table and writes
``build/bench/simplify.json``. Run it with ``make bench``; ``PYTHONPATH=examples python bench/simplify.py NAME...`` runs some.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import logging
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from compile import OPSET, OUT, ROOT, count, quiet

import isthmus
from isthmus.compiler import lower
from isthmus.tables import table, text
from models import Entry, all_entries, as_trained
from models.language import SIZES
from models.language import text as text_model
from zoo import Example, bert

EXPORTS = OUT / "exports"
MODELS = (
    "resnet50", "vit_b_16", "swin_t", "BERT-base", "GPT-2 small", "YOLO head", "DETR", "SSDlite", "Faster R-CNN", "alexnet",
    "densenet121", "googlenet", "mobilenet_v3_small", "shufflenet_v2_x0_5", "efficientnet_b0", "regnet_y_400mf",
    "convnext_tiny", "deeplabv3_mobilenet_v3_large", "r3d_18", "U-Net, bilinear", "ESPCN", "nn.TransformerEncoder, pre-norm",
    "nn.Transformer", "LSTM classifier", "GRU classifier", "DistilBERT", "Llama", "Qwen2", "T5", "CLIP", "ViT",
    "Whisper encoder", "SegFormer",
)  # fmt: skip
EXPORTERS = ("dynamo", "script")
GOALS = {"onnxslim": 0.5, "onnxsim": 1.0}
"""Our time, of theirs."""
LIMIT, LONG = 900, 20
"""Seconds for one model by one exporter; what takes longer is not run again."""


class Boxes(torch.nn.Module):
    """A detector of torchvision's for one image."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: torch.Tensor) -> Any:
        """The boxes, scores and labels."""
        (found,) = self.model([image])
        return found["boxes"], found["scores"], found["labels"]


def detector(name: str, **options: Any) -> Entry:
    """A detector of torchvision's over an image of any size, which it resizes to its own."""

    def make() -> Example:
        import torchvision

        torch.manual_seed(0)
        model = torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=5, **options)
        return Example(Boxes(as_trained(model)).eval(), (torch.rand(3, 96, 128),), dynamic_shapes=({1: "H", 2: "W"},))

    return Entry(name, make, ({"H": 80, "W": 96}, {"H": 133, "W": 101}))


DETECTORS = {
    "SSDlite": detector("ssdlite320_mobilenet_v3_large"),
    "Faster R-CNN": detector("fasterrcnn_mobilenet_v3_large_320_fpn", min_size=96, max_size=160, box_score_thresh=0.0),
}
GPT2 = {
    "vocab_size": 50257, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "bos_token_id": 0,
    "max_position_embeddings": 1024, "eos_token_id": 1, "use_cache": False,
}  # fmt: skip
LARGE = {
    "BERT-base": Entry("BERT-base", bert, SIZES),
    "GPT-2 small": Entry("GPT-2 small", text_model("GPT2LMHeadModel", **GPT2), SIZES),
}  # fmt: skip


def find(name: str) -> Entry:
    """A model's entry, of the table or of those here."""
    found = {entry.name: entry for entry in all_entries()} | DETECTORS | LARGE
    return found[name]


class Flat(torch.nn.Module):
    """A model whose tensors come by position and whose results are a flat tuple, for tracing."""

    def __init__(self, example: Example) -> None:
        super().__init__()
        self.model, self.names = example.model, list(example.kwargs)

    def forward(self, *tensors: torch.Tensor) -> Any:
        """The results that are tensors."""
        found = self.model(**dict(zip(self.names, tensors, strict=True))) if self.names else self.model(*tensors)
        leaves = [each for each in torch.utils._pytree.tree_leaves(found) if isinstance(each, torch.Tensor)]
        return leaves[0] if len(leaves) == 1 else tuple(leaves)


def by_dynamo(example: Example) -> onnx.ModelProto:
    """torch.onnx by torch.export; of one size where it cannot leave them open."""
    shapes = torch.utils._pytree.tree_map_only(str, lambda _: torch.export.Dim.DYNAMIC, example.dynamic_shapes)
    for dynamic in (shapes, None):
        try:
            made = torch.onnx.export(
                example.model, example.args, kwargs=example.kwargs, dynamic_shapes=dynamic, opset_version=OPSET, dynamo=True,
                verbose=False,
            )  # fmt: skip
            return made.model_proto
        except Exception:
            if dynamic is None:
                raise
    raise AssertionError


def by_script(example: Example) -> onnx.ModelProto:
    """torch.onnx by TorchScript."""
    out = io.BytesIO()
    args = example.args or tuple(example.kwargs.values())
    axes = list(example.dynamic_shapes.values() if isinstance(example.dynamic_shapes, dict) else example.dynamic_shapes)
    names = list(example.kwargs) or [f"input_{place}" for place in range(len(args))]
    torch.onnx.export(
        Flat(example), args, out, input_names=names, dynamic_axes=dict(zip(names, axes, strict=True)), opset_version=OPSET,
        dynamo=False,
    )  # fmt: skip
    return onnx.load_model_from_string(out.getvalue())


def export(name: str, exporter: str) -> None:
    """Writes the exported model, and inputs at other sizes."""
    EXPORTS.mkdir(parents=True, exist_ok=True)
    entry = find(name)
    example = entry.make()
    with quiet():
        model = {"dynamo": by_dynamo, "script": by_script}[exporter](entry.make())
    fixed = not any(dim.dim_param for each in model.graph.input for dim in each.type.tensor_type.shape.dim)
    arrays = {
        f"{turn}/{given.name}": array for turn, call in enumerate(calls(name, example, [{}] if fixed else [{}, *entry.sizes]))
        for given, array in zip(model.graph.input, call, strict=True)
    }  # fmt: skip
    path = place_of(name, exporter)
    onnx.save(model, path)
    np.savez(path.with_suffix(".npz"), **arrays)


def calls(name: str, example: Example, settings: Iterable[dict[str, int]]) -> Iterator[list[Any]]:
    """Fresh inputs at these sizes, flat; the example's where no size is open."""
    if name in DETECTORS:
        for sizes in settings:
            yield [np.random.default_rng(0).random((3, sizes.get("H", 96), sizes.get("W", 128)), np.float32)]
        return
    with quiet():
        captured, _, _ = lower(
            example.model, example.args, example.kwargs, dynamic_shapes=example.dynamic_shapes, until="captured"
        )
    for turn, sizes in enumerate(settings):
        args, kwargs = captured.fresh_inputs(turn, sizes) if sizes else (example.args, example.kwargs)
        yield captured.flatten(args, kwargs)


def place_of(name: str, exporter: str) -> Path:
    """Where an exported model is kept."""
    return EXPORTS / f"{name.replace(' ', '_').replace(',', '')}-{exporter}.onnx"


# ---- contenders


def ours(source: Path, target: Path) -> None:
    """isthmus, at the file's own opset; its weights are mapped."""
    isthmus.compile(source, target="onnx").save(target)


def by_onnxsim(source: Path, target: Path) -> None:
    """onnxsim."""
    import onnxsim

    onnx.save(onnxsim.simplify(onnx.load(source))[0], target)


def by_onnxslim(source: Path, target: Path) -> None:
    """onnxslim."""
    import onnxslim

    onnx.save(onnxslim.slim(onnx.load(source)), target)


def by_onnxscript(source: Path, target: Path) -> None:
    """onnxscript's optimizer."""
    import onnxscript.optimizer

    onnx.save(onnxscript.optimizer.optimize(onnx.load(source)), target)


def by_onnxoptimizer(source: Path, target: Path) -> None:
    """onnxoptimizer, its default passes."""
    import onnxoptimizer

    onnx.save(onnxoptimizer.optimize(onnx.load(source)), target)


CONTENDERS: dict[str, Callable[[Path, Path], None]] = {
    "isthmus": ours, "onnxsim": by_onnxsim, "onnxslim": by_onnxslim, "onnxscript": by_onnxscript,
    "onnxoptimizer": by_onnxoptimizer,
}  # fmt: skip


def size(model: onnx.ModelProto) -> int:
    """The bytes of a model, without what it tells of the types of inner values, which goes."""
    del model.graph.value_info[:]
    return int(model.ByteSize())


def session(model: onnx.ModelProto) -> Any:
    """A session of onnxruntime that changes nothing of the model."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def difference(first: onnx.ModelProto, second: onnx.ModelProto, inputs: Path) -> float:
    """The worst difference of an output over its greatest value; infinite where a shape or dtype is another.

    Tracing may have fixed sizes that the file calls open: where the first model itself fails, nothing is compared.
    """
    arrays = np.load(inputs)
    calls: dict[str, dict[str, Any]] = {}
    for key in arrays:
        turn, _, name = key.partition("/")
        calls.setdefault(turn, {})[name] = arrays[key]
    runs = [session(model) for model in (first, second)]
    worst = 0.0
    for turn, feeds in calls.items():
        try:
            wanted = runs[0].run(None, feeds)
        except Exception:  # of the runtime's, which have no common base of their own
            if turn == "0":
                raise
            continue
        for one, other in zip(wanted, runs[1].run(None, feeds), strict=True):
            if one.shape != other.shape or one.dtype != other.dtype:
                return float("inf")
            if one.size:
                apart = np.abs(np.nan_to_num(one.astype(np.float64)) - np.nan_to_num(other.astype(np.float64))).max()
                worst = max(worst, float(apart / max(np.abs(np.nan_to_num(one)).max(), 1e-3)))
    return worst


def measure(name: str, exporter: str, runs: int) -> dict[str, Any]:
    """One exported model's figures."""
    path = place_of(name, exporter)
    if not path.exists():
        export(name, exporter)
        gc.collect()
    model = onnx.load(path)
    found: dict[str, Any] = {"nodes": {"original": count(model)}, "bytes": {"original": size(model)}, "seconds": {}}
    relu = '<ir_version: 8, opset_import: ["":18]> g (float[N] x) => (float[N] y) {y = Relu(x)}'
    with tempfile.TemporaryDirectory(dir=EXPORTS) as folder:
        small, target = Path(folder, "small.onnx"), Path(folder, "target.onnx")
        onnx.save(onnx.parser.parse_model(relu), small)
        for contender, simplify in CONTENDERS.items():
            with quiet():
                simplify(small, target)  # what is imported on first use is not what is measured
            for _ in range(runs):
                gc.collect()
                try:
                    with quiet():
                        start = time.process_time()
                        simplify(path, target)
                        seconds = time.process_time() - start
                except Exception as error:  # whatever stops one belongs in the table
                    found[f"{contender} fails"] = f"{type(error).__name__}: {error}".strip().splitlines()[0]
                    break
                found["seconds"][contender] = min(seconds, found["seconds"].get(contender, seconds))
                if seconds > LONG:
                    break
            if contender in found["seconds"]:
                made = onnx.load(target)
                found["nodes"][contender], found["bytes"][contender] = count(made), size(made)
                if contender == "isthmus":
                    found["difference"] = difference(model, made, path.with_suffix(".npz"))
    return found


def isolated(name: str, exporter: str, runs: int) -> dict[str, Any]:
    """One model's figures from a process of its own."""
    command = [sys.executable, __file__, "--runs", str(runs), "--only", exporter, name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return {"ended": f"over {LIMIT} s"}
    if done.returncode:
        return {"ended": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1][:200]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def verdicts(found: dict[str, Any]) -> Iterator[str]:
    """What is not as it should be."""
    if "ended" in found or "isthmus" not in found["nodes"]:
        yield "; ".join(str(value)[:100] for key, value in found.items() if key.endswith(("ended", "fails")))
        return
    nodes = {name: number for name, number in found["nodes"].items() if name != "isthmus"}
    if found["nodes"]["isthmus"] > min(nodes.values()):
        yield f"MORE NODES than {min(nodes, key=nodes.__getitem__)}"
    for name, goal in GOALS.items():
        if name in found["seconds"] and found["seconds"]["isthmus"] > goal * found["seconds"][name]:
            yield f"SLOWER than {goal:g} of {name}"
    if found["bytes"]["isthmus"] > found["bytes"]["original"]:
        yield "LARGER"
    if not found["difference"] <= 1e-4:
        yield f"WRONG by {found['difference']:.1e}"


def show(results: dict[str, dict[str, Any]]) -> str:
    """The table."""
    rows = []
    for name, found in results.items():
        cells: list[object] = [name]
        if "ended" not in found:
            cells.append(found["nodes"]["original"])
            cells += [found["nodes"].get(each) for each in CONTENDERS]
            cells += [found["seconds"].get(each) for each in CONTENDERS]
            cells += [found["bytes"].get("isthmus", 0) / found["bytes"]["original"], found.get("difference")]
        else:
            cells += [None] * 13
        rows.append((*cells, ", ".join(verdicts(found)) or "met"))
    columns = ["model", "nodes", *CONTENDERS, *(f"{each}, CPU s" for each in CONTENDERS), "bytes, share", "difference", ""]
    met = sum(not list(verdicts(found)) for found in results.values())
    return text(table(columns, rows), f"{met} of {len(results)} meet all goals")


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="runs of each contender")
    parser.add_argument("--only", choices=EXPORTERS, help=argparse.SUPPRESS)
    parser.add_argument("models", nargs="*", help="in place of those of the list")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if options.only:
        print("\n" + json.dumps(measure(options.models[0], options.only, options.runs)))
        return
    results = {}
    OUT.mkdir(parents=True, exist_ok=True)
    for name in options.models or MODELS:
        for exporter in EXPORTERS:
            print(name, exporter, file=sys.stderr, flush=True)
            results[f"{name}, {exporter}"] = isolated(name, exporter, options.runs)
            (OUT / "simplify.json").write_text(json.dumps(results, indent=2))  # each time: it takes a while
    print(show(results))


if __name__ == "__main__":
    main()
