"""What to write instead, by what a program asks of data and what for."""

from __future__ import annotations

import re
from typing import Final

from isthmus.frontends.torch.asking import Asking
from isthmus.frontends.torch.tensors import Watched

_LOOP: Final = "keep the loop in the model with torch.while_loop, or script the function that holds it (torch.jit.script)"
_CALLS: Final = {
    "equal": "compare with tensors, (a == b).all(), and use that in torch.where or torch.cond",
    "allclose": "compare with tensors, torch.isclose(a, b).all(), and use that in torch.where or torch.cond",
    "max": "use torch.maximum, or torch.amax of a tensor, in place of max()",
    "min": "use torch.minimum, or torch.amin of a tensor, in place of min()",
    "sorted": "use torch.sort in place of sorted()",
    "any": "use torch.any in place of any(), and torch.where or torch.cond in place of a branch on it",
    "all": "use torch.all in place of all(), and torch.where or torch.cond in place of a branch on it",
}
_ASKED: Final[dict[tuple[str, str], str]] = {
    ("the truth", "while"): _LOOP,
    ("the truth", ""): "use torch.where or torch.cond, so that both outcomes are in the model",
    ("the number", "while"): _LOOP,
    ("the number", "for"): _LOOP,
    ("the number", "if"): "compare tensors, and use torch.where or torch.cond, so that both outcomes are in the model",
    ("the number", "index"): "index a tensor: torch.stack(items)[index]; or choose with torch.where or torch.cond",
    ("the number", "format"): "leave the text out; only tensors are carried over",
    ("the number", ""): "compute with the tensor itself to the end (t.sqrt() in place of math.sqrt(t)); a number that only "
    "sizes or indexes other tensors may be an integer's .item(), not int()",
    ("the content", "for"): "compute with whole tensors to the end, or loop with torch.while_loop or torch.scan",
    ("the content", ""): "compute with torch's own functions to the end, without numpy and Python's lists; torch.from_numpy "
    "makes a tensor of an array",
    ("the value", ""): "a constant is the same for all inputs: leave isthmus.constant out, or compute from weights and static "
    "sizes alone",
    ("the text", ""): "compute without texts: compare tensors, index torch.stack(items)[index] with one, or choose with "
    "torch.where or torch.cond",
    ("the address", ""): "do not ask where tensors lie",
    ("the offset", ""): "do not ask where tensors lie: slice, or use torch.as_strided with an offset of your own",
    ("the storage", ""): "compute with the tensor itself: its storage holds nothing while a model is captured",
}


def remedy(what: str, asked: Asking, fixed: str = "") -> str:
    """What the user can do.

    Args:
        what: what was asked for, such as ``the truth``.
        asked: who asked.
        fixed: an example of `assume` that would answer; empty where none would.
    """
    kind = what.partition(" (")[0]
    place = "for" if asked.function == "range" else asked.place
    found = _CALLS.get(asked.function) if kind == "the truth" and place != "while" else None
    found = found or _ASKED.get((kind, place)) or _ASKED[kind, ""]
    unrolls = ", and unrolls the loop" if place in ("for", "while") else ""
    return f"{found}; assume={fixed} compiles for that value alone{unrolls}" if fixed else found


_RAISED: Final = {
    "an integer from data":
        "an integer read from data is the key of a dict or in a set, or the argument of a cached function, there: index "
        "a tensor with it, torch.stack([...])[index], or choose with torch.where",
    "unhashable type: non-nested Sym":
        "a dynamic size is the key of a dict or in a set, or the argument of a cached function, there: declare it static",
    "len() of a 0-d tensor":
        "torch.Tensor([...]), torch.FloatTensor([...]) and their kind take no tensors there: use torch.tensor([...])",
    "could not convert string to float": "a text shows tensors, and integers from data, without numbers: compute without texts",
    "invalid literal for int()": "a text shows tensors, and integers from data, without numbers: compute without texts",
    "does not require grad":
        "what autograd records is not there while a model is captured: derivatives inside of a model are carried over as "
        "torch.func.grad(function)(x), torch.func.vjp, jvp, jacrev and their kind",
    "array is read-only": "an array that a weight lies in cannot be written to while the model is captured: copy it first",
    "both arguments should be Rational": "compute sizes with +, -, *, // and %, and numbers from data with tensors",
    "SymInt": "sizes and integers read from data are no ints there: compute with +, -, *, // and %, or with tensors",
    "'Watched'": "tensors have no content while a model is captured: compute with torch's own functions",
    "of type numpy.object_": "make tensors of sizes without numpy: torch.tensor([...])",
    "pointer on an invalid python storage": "compute with the tensor itself: it has no content while a model is captured",
}  # fmt: skip


def raised(error: BaseException) -> str:
    """An exception that the model raised, as it names a tensor where the model runs plainly."""
    return f"{type(error).__name__}: {_OURS.sub('Tensor', str(error))}"


_OURS: Final = re.compile(rf"\b({re.escape(Watched.__module__)}\.)?{Watched.__name__}\b")


def of_raised(error: BaseException) -> str | None:
    """What to do about an exception that the model raised, by its text; None where nothing is known."""
    if isinstance(error, AttributeError) and isinstance(error.obj, Watched):
        return None  # any tensor of torch raises it, too
    text = str(error)
    return next((remedy for part, remedy in _RAISED.items() if part in text), None)
