"""Shows that work grows with the size of a graph and no faster, and that depth meets no recursion limit.

A graph of 10,000 nodes and one of 100,000 go through the default passes, are printed, parsed and emitted; then a chain
of 50,000 nodes and a module nested 1,000 deep. Prints one table; exits with 1 when a step takes more than 12 times as
long for ten times the nodes.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from isthmus.backends.onnx import OnnxBackend
from isthmus.ir import Builder, Graph, Tensor, dims
from isthmus.ir.dtypes import f32
from isthmus.ir.parser import parse
from isthmus.ir.printer import weight_table
from isthmus.passes import default_passes, legalize, run_passes
from isthmus.tables import table, text

SMALL, LARGE, LIMIT = 10_000, 100_000, 12.0
CHAIN, DEPTH = 50_000, 1_000


def wide(nodes: int) -> Graph:
    """Residual blocks: six nodes a block, among them something to fold, to share and to remove."""
    graph = Graph("wide")
    batch = graph.symbols.declare("N", hint=2).dim
    value = graph.add_input(Tensor(f32, (batch, 8)), "x")
    b = Builder(graph)
    rng = np.random.default_rng(0)
    weight = b.constant(rng.standard_normal((8, 8), np.float32) / 3)
    for number in range(nodes // 6):
        product = b.matmul(value, weight)
        scaled = b.mul(product, np.float32(1 + number % 7))
        shaped = b.reshape(scaled, shape=[batch, 2, 4])
        back = b.reshape(shaped, shape=[batch, 8])
        value = b.tanh(b.add(value, back))
    graph.set_outputs([value])
    return graph


def chain(nodes: int) -> Graph:
    """One value handed on and on."""
    graph = Graph("chain")
    value = graph.add_input(Tensor(f32, (dims.product([2, 3]),)), "x")
    b = Builder(graph)
    for number in range(nodes):
        value = b.sin(value) if number % 2 else b.tanh(value)
    graph.set_outputs([value])
    return graph


def steps(graph: Graph) -> dict[str, float]:
    """Seconds of each step on one graph, which is changed."""
    backend = OnnxBackend(OnnxBackend.Options())
    found: dict[str, float] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        gc.collect()
        start = time.perf_counter()
        result = work()
        found[name] = time.perf_counter() - start
        return result

    weights = weight_table(graph)
    printed = timed("print", lambda: str(graph))
    timed("parse", lambda: parse(printed, weights))
    timed("passes", lambda: run_passes(graph, default_passes()))
    timed("legalize", lambda: legalize(graph, backend))
    timed("emit", lambda: backend.emit(graph))
    return found


def nested(depth: int) -> int:
    """Compiles a module nested so deep; gives the number of nodes.."""
    import torch

    import isthmus

    class Level(torch.nn.Module):
        def __init__(self, inner: torch.nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            return self.inner(x) + 1

    model: torch.nn.Module = torch.nn.Linear(4, 4)
    for _ in range(depth):
        model = Level(model)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(2 * depth + 1000)  # `eval` alone needs a frame a level
    try:
        net = isthmus.compile(model.eval(), torch.ones(2, 4))
        net.verify()
    finally:
        sys.setrecursionlimit(limit)
    return net.report.nodes["artefact"]


def main() -> int:
    """Prints the table."""
    steps(wide(600))  # imports and caches are not what is measured
    small, large = steps(wide(SMALL)), steps(wide(LARGE))
    small["all"], large["all"] = sum(small.values()), sum(large.values())
    rows: list[tuple[object, ...]] = [
        (step, small[step], large[step], large[step] / small[step], "met" if large[step] <= LIMIT * small[step] else "NOT MET")
        for step in small
    ]
    print(text(table(["step", f"s at {SMALL:,} nodes", f"s at {LARGE:,} nodes", f"ratio (goal {LIMIT:g})", ""], rows)))
    start = time.perf_counter()
    steps(chain(CHAIN))
    print(f"a chain of {CHAIN:,} nodes: {time.perf_counter() - start:.2f} s")
    start = time.perf_counter()
    nodes = nested(DEPTH)
    print(f"a module nested {DEPTH:,} deep: {nodes:,} nodes, {time.perf_counter() - start:.2f} s")
    return int(large["all"] > LIMIT * small["all"])


if __name__ == "__main__":
    sys.exit(main())
