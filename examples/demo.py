"""Compiles models for three targets, compares each with PyTorch where the target runs here, and writes the files.

Run it with ``make demo``. The files are left in build/demo/.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import isthmus
import zoo
from isthmus.errors import UnavailableError
from isthmus.tables import table, text

OUT = Path("build/demo")


class Target(NamedTuple):
    """What is shown of a target.

    Attributes:
        title: what runs it.
        ending: of its files.
        models: names in the zoo.
        dynamic: whether sizes vary.
        options: for `isthmus.compile`.
    """

    title: str
    ending: str
    models: tuple[str, ...]
    dynamic: bool
    options: dict[str, Any]


TARGETS = (
    Target("ONNX, onnxruntime", "onnx", ("AlexNet", "ResNet-50", "BERT-base"), True, {"target": "onnx"}),
    Target("Caffe portable, OpenCV", "prototxt", ("AlexNet", "ResNet-50"), False, {"target": "caffe", "dialect": "portable"}),
    Target("TensorRT for sm86, sm89", "engine", ("ResNet-50", "BERT-base"), True,
           {"target": "tensorrt", "targets": ["sm86", "sm89"]}),
)  # fmt: skip
NOT_RUN = "not run here"
COLUMNS = [
    "model", "target", "nodes captured", "nodes in target", "capture ms", "passes ms", "emit ms", "save s",
    "largest error, of scale", "verified at",
]  # fmt: skip


def row(name: str, make: Callable[[], zoo.Example], target: Target) -> Iterator[object]:
    """The cells of a model for a target."""
    example = make()
    sizes = example.dynamic_shapes if target.dynamic else None
    net = isthmus.compile(example.model, example.args, example.kwargs, dynamic_shapes=sizes, **target.options)
    try:
        verified = net.verify()
        at = "; ".join(turn.title for turn in verified.rounds) if target.dynamic else "the example's sizes"
        told: tuple[object, object] = verified.worst, at
    except UnavailableError:
        told = None, NOT_RUN
    start = time.perf_counter()
    net.save(OUT / f"{name.lower()}.{target.ending}")
    saved = time.perf_counter() - start
    report = net.report
    passes = sum(report.seconds[stage] for stage in ("passes", "legalize", "cleanup"))
    yield from (name, target.title, report.nodes["captured"], report.nodes["artefact"])
    yield from (report.seconds["capture"] * 1e3, passes * 1e3, report.seconds["emit"] * 1e3, saved, *told)


def main() -> None:
    """Prints one row a model and target."""
    logging.disable(logging.WARNING)
    OUT.mkdir(parents=True, exist_ok=True)
    rows = []
    for target in TARGETS:
        for name in target.models:
            print(f"{name} to {target.title}", file=sys.stderr, flush=True)
            rows.append(list(row(name, zoo.ALL[name], target)))
    lines = [f"The files are in {OUT}/."]
    if any(NOT_RUN in cells for cells in rows):
        lines.append("TensorRT's engines are built here and run only where there is an NVIDIA GPU of their kind.")
    print(text(table(COLUMNS, rows), *lines))


if __name__ == "__main__":
    main()
