"""With ``strict`` a model takes nothing for granted: what it does is an error that tells all of it, each with a remedy."""

from __future__ import annotations

from collections.abc import Collection

from isthmus.frontends.torch.inputs import Inputs
from isthmus.frontends.torch.second import Watch
from isthmus.ir.dims import INF, Expr, Symbol, symbols
from isthmus.ir.errors import CaptureError, Refusal
from isthmus.ir.symbols import Assumption, Symbols


def refuse_assumptions(watch: Watch, inputs: Inputs) -> None:
    """Holds a watch against ``strict``, when all is known.

    Args:
        watch: what was watched, without the assumptions that say nothing about the model.
        inputs: the model's inputs, with the ranges and relations that the user declared.

    Raises:
        CaptureError: the model holds only for some sizes or values, of those that were declared.
    """
    table = Symbols()
    inputs.declare(table, {})
    own = {str(assumption) for assumption in table.assumptions}
    watcher = watch.watcher
    found = [
        Refusal(assumption.in_full, remedy=_remedy(assumption, watcher.sizes.declared, watcher.assumed))
        for assumption in watch.graph.symbols.assumptions
        if str(assumption) not in own
    ]
    reached = {symbol.name: symbol for symbol in watcher.sizes.declared}
    found += [
        Refusal(
            f"{name} is 1 at least: {watch.never_empty.get(name, 'the model was not watched at 0')}",
            remedy=f"say so, with min=1 for {name}",
        )
        for name in inputs.unbounded
        if name in reached and reached[name].joined is None and reached[name].lo == 1
    ]
    found += [
        Refusal(f"{each.message} (at {each.location})", remedy="compute with the sizes as integers, not as tensors")
        for each in watcher.decided
    ]
    if found:
        things = "one thing" if len(found) == 1 else f"{len(found)} things"
        raise CaptureError(
            f"the model takes {things} for granted, which strict does not allow",
            found="".join(f"\n    - {each.message}\n      remedy: {each.remedy}" for each in found),
            remedy="without strict the report tells these, and the model is compiled for them alone",
        )


def _remedy(assumption: Assumption, declared: Collection[Symbol], assumed: Collection[str]) -> str:
    involved = {*symbols(assumption.left), *symbols(assumption.right)}
    names = ", ".join(sorted(symbol.name for symbol in involved))
    if involved - set(declared):
        if names in assumed:
            return f"leave {names} out of assume"
        return f"{names} depends on data: compute the same for every size, or with both outcomes, by torch.cond"
    sides = [side for side in (assumption.left, assumption.right) if isinstance(side, Expr) and side.symbol is not None]
    if assumption.relation == "==" and len(sides) == 2:
        return f"declare {names} by one name"
    (symbol,) = involved if len(involved) == 1 else (None,)
    if assumption.relation not in ("==", "!=") and symbol is not None and len(sides) == 1:
        ends = [f"min={symbol.lo}", *([] if symbol.hi == INF else [f"max={symbol.hi}"])]
        return f'declare the range: torch.export.Dim("{names}", {", ".join(ends)})'
    return f"declare {names} static, or compute the same for every size"
