"""TorchScript's arithmetic on numbers that only sizes or data can tell.

Ints stay sizes as long as they are whole sums, products and quotients of such; floats and truths are computed by the
graph, in f64 and bool. Arithmetic on Python's own numbers is torch's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import torch

from isthmus.frontends.torch import leaving
from isthmus.frontends.torch.lowering import torch_dtype
from isthmus.frontends.torch.ratios import ratio
from isthmus.frontends.torch.script.interpreter import OPS, script_op
from isthmus.frontends.torch.script.values import NUMBERS, Dict, List, Maybe, Scalar, is_known, kind_of
from isthmus.frontends.torch.size_nodes import SizeNode
from isthmus.ir import dims
from isthmus.ir.dims import symbols
from isthmus.ir.dtypes import bool_, f64, i64

if TYPE_CHECKING:
    from isthmus.frontends.torch.script.interpreter import Interpreter

_aten: Final = torch.ops.aten

_WHOLE: Final[dict[str, Callable[..., Any]]] = {
    "aten::add": operator.add, "aten::sub": operator.sub, "aten::mul": operator.mul, "aten::neg": operator.neg,
    "aten::floordiv": dims.floordiv, "aten::remainder": dims.mod, "prim::min": dims.minimum, "prim::max": dims.maximum,
}  # fmt: skip
"""What whole numbers stay sizes under."""
_TENSORS: Final[dict[str, Any]] = {
    "aten::add": _aten.add.Tensor, "aten::sub": _aten.sub.Tensor, "aten::mul": _aten.mul.Tensor, "aten::div": _aten.div.Tensor,
    "aten::floordiv": _aten.floor_divide.default, "aten::remainder": _aten.remainder.Tensor,
    "aten::pow": _aten.pow.Tensor_Tensor, "aten::fmod": _aten.fmod.Tensor, "aten::atan2": _aten.atan2.default,
    "prim::min": _aten.minimum.default, "prim::max": _aten.maximum.default,
    "aten::__and__": _aten.bitwise_and.Tensor, "aten::__or__": _aten.bitwise_or.Tensor,
    "aten::__xor__": _aten.bitwise_xor.Tensor, "aten::__lshift__": _aten.bitwise_left_shift.Tensor,
    "aten::__rshift__": _aten.bitwise_right_shift.Tensor,
    **{
        f"aten::{name}": getattr(_aten, name).default
        for name in (
            "neg", "sqrt", "exp", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
            "cosh", "tanh", "floor", "ceil", "round", "trunc", "abs", "isnan", "isinf", "isfinite", "erf", "sigmoid",
        )
    },
    "prim::abs": _aten.abs.default,
}  # fmt: skip
"""The op on tensors that does the same."""
_EXACT: Final[dict[str, Callable[..., Any]]] = {
    "aten::add": operator.add, "aten::sub": operator.sub, "aten::mul": operator.mul, "aten::div": operator.truediv,
    "aten::neg": operator.neg, "aten::floor": lambda x: torch.SymInt(x.node.floor()),
    "aten::ceil": lambda x: torch.SymInt(x.node.ceil()),
}  # fmt: skip
"""What exact ratios of sizes stay such under."""
_RELATIONS: Final = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _kind(xs: tuple[Any, ...]) -> type:
    """The kind of number that arithmetic on these is done in."""
    kinds = [kind_of(x) for x in xs]
    return float if float in kinds else int


def compute(i: Interpreter, name: str, result: type, *xs: Any) -> Any:
    """The result of arithmetic on numbers, of the kind `result`."""
    whole = _WHOLE.get(name)
    if whole is not None and result is int and all(kind_of(x) is int for x in xs):
        return i.watcher.sizes.give(whole(*map(i.dim, xs)))
    if name in _EXACT and all(_is_exact(i, x) for x in xs) and (name != "aten::div" or _positive(xs[1])):
        return _EXACT[name](*xs)
    kind = bool if all(kind_of(x) is bool for x in xs) else float if result is float else _kind(xs)
    tensors = [i.tensor(i.w.cast(i.value(x), NUMBERS[kind])) for x in xs]
    return i.number(i.value(i.op(_TENSORS[name], *tensors)), result)


def on_numbers(i: Interpreter, name: str, schema: str, xs: Sequence[Any]) -> Any:
    """An op of TorchScript on numbers of which only sizes or data can tell some; NotImplemented for another op.

    Args:
        i: the interpreter.
        name: the op, such as ``aten::add``.
        schema: of its overload, which tells the kind of number that comes of it.
        xs: the arguments.
    """
    if name not in _TENSORS or not all(kind_of(x) for x in xs):
        return NotImplemented
    result = {"int": int, "bool": bool, "float": float}.get(schema.rpartition("-> ")[2])
    return compute(i, name, result or _kind(tuple(xs)), *xs)


def _is_exact(i: Interpreter, x: Any) -> bool:
    """Whether a number is an exact ratio of declared sizes, which are never negative, and so stays an expression of them."""
    expr = i.watcher.sizes.take(x) if isinstance(x, torch.SymInt) else x.node.expr if isinstance(x, torch.SymFloat) else x
    found = ratio(expr) if not isinstance(x, Scalar) else None
    involved = [] if found is None else [*symbols(found.num), *symbols(found.den)]
    return found is not None and found.exact and all(symbol in i.watcher.sizes.declared for symbol in involved)


def _positive(x: Any) -> bool:
    return isinstance(x, (int, float)) and x > 0


def _comparison(word: str, relation: str) -> None:
    tensors = getattr(_aten, word).Tensor

    def op(i: Interpreter, left: Any, right: Any) -> Any:
        if isinstance(left, torch.Tensor):
            return i.op(tensors if isinstance(right, torch.Tensor) else getattr(_aten, word).Scalar, left, right)
        if isinstance(left, (List, Dict, tuple)):
            return _equal(i, left, right) if word == "eq" else negated(i, _equal(i, left, right))
        if is_known(left) and is_known(right):
            return getattr(operator, word)(left, right)
        if kind_of(left) is kind_of(right) is int:
            return i.decided((relation, i.dim(left), i.dim(right)))
        if kind_of(left) is kind_of(right) is bool:
            dtype = bool_
        else:
            dtype = f64 if _kind((left, right)) is float else i64
        left, right = (i.tensor(i.w.cast(i.value(x), dtype)) for x in (left, right))
        return i.number(i.value(i.op(tensors, left, right)), bool)

    OPS[f"aten::{word}"] = op


def _equal(i: Interpreter, left: Any, right: Any) -> Any:
    """Whether two lists, tuples or dicts hold the same."""
    if isinstance(left, Dict):
        i.refuse("dicts are compared, which is not carried over")
    one, other = (x if isinstance(x, tuple) else i.flat(x) for x in (left, right))
    if len(one) != len(other):
        return False
    found: Any = True
    for a, b in zip(one, other, strict=True):
        same = OPS["aten::eq"](i, a, b)
        if isinstance(same, torch.Tensor):
            same = truth(i, i.op(_aten.all.default, same))
        found = i.both("and", found, same)
    return found


def _folded(step: Callable[..., Any], start: Any = None) -> Callable[..., Any]:
    """An op on a list of numbers: two at a time."""

    def op(i: Interpreter, x: List) -> Any:
        items = list(i.flat(x))
        return reduce(lambda left, right: step(i, left, right), items if start is None else [start, *items])

    return op


def _chosen(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    def step(i: Interpreter, left: Any, right: Any) -> Any:
        return plain(left, right) if is_known((left, right)) else compute(i, name, _kind((left, right)), left, right)

    return step


_FOLDS: Final = {
    "prim::min": (_folded(_chosen("prim::min", min)), "self_int self_float self_bool"),
    "prim::max": (_folded(_chosen("prim::max", max)), "self_int self_float self_bool"),
    "aten::sum": (_folded(_chosen("aten::add", operator.add), 0), "int float"),
    "aten::any": (_folded(lambda i, a, b: i.both("or", truth(i, a), truth(i, b)), False), "int float bool"),
    "aten::all": (_folded(lambda i, a, b: i.both("and", truth(i, a), truth(i, b)), True), "int float bool"),
}
for _name, (_fold, _overloads) in _FOLDS.items():
    OPS.update(dict.fromkeys((f"{_name}.{overload}" for overload in _overloads.split()), _fold))


def negated(i: Interpreter, x: Any) -> Any:
    """``not x`` of a bool."""
    if isinstance(x, bool):
        return not x
    relation = None if x.relation is None else SizeNode(i.watcher.sizes, x.relation, bool).sym_not().expr
    return Scalar(bool, i.w.b.logical_not(x.value), relation)


def truth(i: Interpreter, x: Any) -> Any:
    """``bool(x)``."""
    if isinstance(x, torch.Tensor):
        value = i.value(x)
        known = leaving.known_truth(i.watcher, value)
        return known if known is not None else i.number(value, bool)
    if is_known(x):
        return bool(x)
    if kind_of(x) is int:
        return i.decided(("!=", i.dim(x), 0))
    return x if kind_of(x) is bool else Scalar(bool, i.w.cast(i.value(x), bool_))


@script_op("aten::Bool", "aten::is_nonzero")
def _bool(i: Interpreter, x: Any) -> Any:
    return truth(i, x)


@script_op("aten::Int", "aten::IntImplicit", "aten::floor.float_int")
def _int(i: Interpreter, x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return i.number(i.w.cast(i.value(x), i64), int)
    if isinstance(x, torch.SymFloat):
        return torch.sym_int(x)
    if is_known(x):
        return int(x)
    return x if kind_of(x) is int else i.number(i.w.cast(i.value(x), i64), int)


@script_op("aten::Float", "aten::FloatImplicit")
def _float(i: Interpreter, x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return i.number(i.w.cast(i.value(x), f64), float)
    if is_known(x):
        return float(x)
    if isinstance(x, torch.SymInt) and _is_exact(i, x):
        return torch.sym_float(x)
    return x if kind_of(x) is float else Scalar(float, i.w.cast(i.value(x), f64))


@script_op("aten::ScalarImplicit", "aten::item", "aten::Scalar")
def _item(i: Interpreter, x: Any) -> Any:
    if not isinstance(x, torch.Tensor):
        return x
    value = i.value(x)
    dtype = value.tensor.dtype
    if dtype.is_complex:
        i.refuse("a complex number is taken out of a tensor, which is not carried over", "compute with tensors")
    return i.number(value, bool if dtype is bool_ else int if dtype.is_integer else float)


@script_op("aten::__not__")
def _not(i: Interpreter, x: Any) -> Any:
    return negated(i, x)


@script_op("aten::__and__.bool")
def _and(i: Interpreter, left: Any, right: Any) -> Any:
    return i.both("and", left, right)


@script_op("aten::__or__.bool")
def _or(i: Interpreter, left: Any, right: Any) -> Any:
    return i.both("or", left, right)


@script_op("aten::__is__")
def _is(i: Interpreter, left: Any, right: Any) -> Any:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Maybe) and other is None:
            return Scalar(bool, i.w.b.logical_not(one.present))
    return left is right


@script_op("aten::__isnot__")
def _is_not(i: Interpreter, left: Any, right: Any) -> Any:
    return negated(i, _is(i, left, right))


@script_op("prim::NumToTensor")
def _num_to_tensor(i: Interpreter, x: Any) -> Any:
    dtype = {int: torch.int64, float: torch_dtype(f64), bool: torch.bool}[kind_of(x) or int]
    return torch.tensor(x, dtype=dtype) if is_known(x) else i.tensor(i.value(x))


@script_op("aten::__range_length")
def _range_length(i: Interpreter, start: Any, stop: Any, step: Any) -> Any:
    if all(map(is_known, (start, stop, step))):
        return len(range(start, stop, step))
    if not isinstance(step, int):
        i.refuse("the step of a range depends on sizes or data", "use a fixed step, or a while loop")
    first, last = i.dim(start), i.dim(stop)
    return i.watcher.sizes.give(dims.maximum(0, dims.ceildiv(last - first if step > 0 else first - last, abs(step))))


@script_op("aten::__derive_index")
def _derive_index(i: Interpreter, index: Any, start: Any, step: Any) -> Any:
    return i.watcher.sizes.give(i.dim(start) + i.dim(index) * i.dim(step))


for _word, _relation in _RELATIONS.items():
    _comparison(_word, _relation)
