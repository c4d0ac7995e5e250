"""Passes: transformations of graphs, rules, and legalization."""

from isthmus.passes.cse import CommonSubexpressions
from isthmus.passes.dead_code import DeadCode
from isthmus.passes.dims import DimArithmetic
from isthmus.passes.driver import Pass, PassRecord, Phase, Pipeline, count_nodes, flatten, run_pass, run_passes
from isthmus.passes.fold import Fold
from isthmus.passes.legalize import Target, legalize
from isthmus.passes.rewrite import Rewriting
from isthmus.passes.rules import NearMiss, NodeRule, Refused, Rule, explain, on, refuse, rule

__all__ = [
    "CommonSubexpressions", "DeadCode", "DimArithmetic", "Fold", "NearMiss", "NodeRule", "Pass", "PassRecord", "Phase",
    "Pipeline", "Refused", "Rewriting", "Rule", "Target", "cleanup_passes", "count_nodes", "default_passes", "explain",
    "flatten", "legalize", "on", "refuse", "rule", "run_pass", "run_passes",
]  # fmt: skip


def default_passes() -> list[Pass]:
    """New passes for a graph as a frontend gives it."""
    return [DimArithmetic(), Fold(), CommonSubexpressions(), DeadCode()]


def cleanup_passes() -> list[Pass]:
    """New passes for a graph that was just legalized: nothing that they do makes a legal node illegal."""
    return [Fold(), CommonSubexpressions(), DeadCode()]
