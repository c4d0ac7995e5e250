"""Canonical forms: fewer ops that do the same, and one way to say each thing."""

from __future__ import annotations

from isthmus.passes.chains import CHAINS
from isthmus.passes.forms import FORMS
from isthmus.passes.indices import INDICES
from isthmus.passes.loops import LOOPS
from isthmus.passes.no_ops import NO_OPS
from isthmus.passes.rewrite import Rewriting
from isthmus.passes.round_trips import ROUND_TRIPS


class Canonicalize(Rewriting):
    """Takes away no-ops and merges chains until nothing is left to do."""

    def __init__(self) -> None:
        super().__init__("canonicalize", (*NO_OPS, *FORMS, *CHAINS, *ROUND_TRIPS, *INDICES, *LOOPS))
