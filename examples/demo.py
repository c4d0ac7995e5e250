"""Compiles three models to ONNX with dynamic sizes, compares each with PyTorch at other sizes, and writes them.

Run it with ``make demo``. The files are left in build/demo/.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import zoo

import isthmus
from isthmus.tables import table, text

OUT = Path("build/demo")


def main() -> None:
    """Prints one row a model."""
    logging.disable(logging.WARNING)
    OUT.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, make in zoo.ALL.items():
        print(f"{name}: compiling and verifying", file=sys.stderr, flush=True)
        example = make()
        net = isthmus.compile(example.model, example.args, example.kwargs, dynamic_shapes=example.dynamic_shapes)
        verified = net.verify()
        net.save(OUT / f"{name.lower()}.onnx")
        report = net.report
        passes = sum(report.seconds[stage] for stage in ("passes", "legalize", "cleanup"))
        rows.append((
            name, report.nodes["captured"], report.nodes["artefact"], report.seconds["capture"] * 1e3, passes * 1e3,
            report.seconds["emit"] * 1e3, verified.worst, "; ".join(turn.title for turn in verified.rounds),
        ))  # fmt: skip
    columns = [
        "model", "nodes captured", "nodes in ONNX", "capture ms", "passes ms", "emit ms", "largest error, of scale",
        "verified at",
    ]  # fmt: skip
    print(text(table(columns, rows), f"The files are in {OUT}/."))


if __name__ == "__main__":
    main()
