"""Passes: transformations of graphs, rules, and legalization."""

from collections.abc import Callable

from isthmus.ir.graph import Node
from isthmus.passes.batch_norm import FoldBatchNorm
from isthmus.passes.canonicalize import Canonicalize
from isthmus.passes.cse import CommonSubexpressions
from isthmus.passes.dead_code import DeadCode
from isthmus.passes.dims import DimArithmetic
from isthmus.passes.driver import Pass, PassRecord, Phase, Pipeline, count_nodes, flatten, run_pass, run_passes
from isthmus.passes.fold import GROWTH, Fold, Growth
from isthmus.passes.fuse import Fuse
from isthmus.passes.legalize import Target, legalize
from isthmus.passes.rewrite import Rewriting
from isthmus.passes.rules import NearMiss, NodeRule, Refused, Rule, explain, on, refuse, rule
from isthmus.passes.whole import SpellOut

__all__ = [
    "Canonicalize", "CommonSubexpressions", "DeadCode", "DimArithmetic", "Fold", "FoldBatchNorm", "Fuse", "NearMiss",
    "NodeRule", "Pass", "PassRecord", "Phase", "Pipeline", "Refused", "Rewriting", "Rule", "SpellOut", "Target",
    "cleanup_passes", "count_nodes", "default_passes", "default_pipeline", "explain", "flatten", "legalize", "on", "refuse",
    "rule", "run_pass", "run_passes",
]  # fmt: skip


def default_pipeline(growth: Growth = GROWTH, takes: Callable[[Node], bool] = lambda node: True) -> Pipeline:
    """What happens to a graph between a frontend and legalization, as phases of new passes.

    Args:
        growth: the part of its weights (or what tells the bytes) by which a model may grow for constants in place of nodes that
            compute them; see `Fold`.
        takes: whether the target takes a node as it is; see `SpellOut`.
    """
    return (
        Phase(
            "canonicalize",
            # Sizes went from nodes into attributes when these were built: often half of the nodes have no use left.
            (
                DeadCode(), DimArithmetic(), Canonicalize(), Fold(growth), DimArithmetic(again=True), CommonSubexpressions(),
                DeadCode(), SpellOut(takes=takes),
            ),
            before="a valid graph",
            after="no op without effect, no constant that is not folded (where that does not grow the model), nothing twice, "
            "nothing kept whole that is one node",
        ),
        Phase(
            "fuse",
            (Fuse(), FoldBatchNorm(), Canonicalize(), Fold(growth), CommonSubexpressions(), DeadCode()),
            before="what the phase before gave: patterns are written for canonical forms",
            after="coarse ops where fine ones spelt them; no batch norm behind a layer of which it can be a part",
        ),
    )


def default_passes(growth: Growth = GROWTH, takes: Callable[[Node], bool] = lambda node: True) -> list[Pass]:
    """The passes of `default_pipeline`, in order."""
    return flatten(default_pipeline(growth, takes))


def cleanup_passes(growth: Growth = GROWTH) -> list[Pass]:
    """New passes for a graph that was just legalized: they only remove nodes or make constants of them, so it stays legal."""
    return [Fold(growth), CommonSubexpressions(), DeadCode()]
