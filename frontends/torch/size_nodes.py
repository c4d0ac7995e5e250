"""The nodes of `torch.SymInt`, `SymFloat` and `SymBool`: expressions over our own dims, in place of sympy's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from isthmus.frontends.torch import leaving
from isthmus.frontends.torch.asking import assigns
from isthmus.frontends.torch.computed import MOST_STEPS, Computed
from isthmus.frontends.torch.products import Product
from isthmus.frontends.torch.ratios import Ratio, ratio, square_root
from isthmus.frontends.torch.relations import HOLDS, NEGATED
from isthmus.ir import dims
from isthmus.ir.dims import Dim, floordiv, resolve

if TYPE_CHECKING:
    from isthmus.frontends.torch.sizes import Sizes


class SizeNode:
    """What `torch.SymInt`, `SymFloat` and `SymBool` ask of their node.

    Attributes:
        sizes: the capture's sizes.
        expr: a dim for an integer; a `Ratio`, a `Product`, a `Computed` or a float for a float; a relation, a bool or a
            nested tuple ``("and" | "or", left, right)`` for a bool.
        kind: int, float or bool.
    """

    __slots__ = ("expr", "kind", "sizes")

    add: Callable[..., SizeNode]
    sub: Callable[..., SizeNode]
    mul: Callable[..., SizeNode]
    ge: Callable[..., SizeNode]

    def __init__(self, sizes: Sizes, expr: Any, kind: type) -> None:
        self.sizes = sizes
        self.expr = expr
        self.kind = kind

    # ---- what it is

    def is_int(self) -> bool:
        return self.kind is int

    def is_float(self) -> bool:
        return self.kind is float

    def is_bool(self) -> bool:
        return self.kind is bool

    def is_nested_int(self) -> bool:
        return False

    def nested_int(self) -> None:
        return None

    def is_symbolic(self) -> bool:
        return True

    def is_constant(self) -> bool:
        return self.constant is not None

    @property
    def constant(self) -> int | float | bool | None:
        """The number, where there is no doubt about it."""
        return self.expr if isinstance(self.expr, (int, float)) else None

    def constant_int(self) -> int | None:
        return self.maybe_as_int()

    def constant_bool(self) -> bool | None:
        return self.maybe_as_bool()

    def maybe_as_int(self) -> int | None:
        return self.expr if self.kind is int and isinstance(self.expr, int) else None

    def maybe_as_float(self) -> float | None:
        return float(self.expr) if self.kind is float and isinstance(self.expr, (int, float)) else None

    def maybe_as_bool(self) -> bool | None:
        return self.expr if isinstance(self.expr, bool) else None

    def has_hint(self) -> bool:
        return True

    @property
    def hint(self) -> Any:
        return self.require_hint()

    def require_hint(self, *_: Any) -> Any:
        if self.kind is int:
            return self.sizes.hint(self.expr)
        if self.kind is float:
            if isinstance(self.expr, (int, float)):
                return float(self.expr)
            return self.expr.at(self.sizes.hint)
        return self._truth(lambda relation, left, right: HOLDS[relation](self.sizes.hint(left), self.sizes.hint(right)))

    def clone(self) -> SizeNode:
        return self

    def _graph_repr(self) -> Any:
        if self.kind is bool and isinstance(self.expr, tuple):
            first, second, third = self.expr
            return f"{second} {first} {third}" if first in HOLDS else f"({second}) {first} ({third})"
        return f"{self.expr}"

    str = __repr__ = _graph_repr

    def wrap_int(self, n: int) -> SizeNode:
        return SizeNode(self.sizes, n, int)

    def wrap_float(self, x: float) -> SizeNode:
        return SizeNode(self.sizes, x, float)

    def wrap_bool(self, x: bool) -> SizeNode:
        return SizeNode(self.sizes, x, bool)

    # ---- Python or C++ needs an answer

    def guard_int(self, file: Any = None, line: Any = None) -> int:
        dim = resolve(self.expr) if self.kind is int else self.expr
        return dim if isinstance(dim, int) else self.sizes.fix(dim, self.sizes.hint(dim))

    int_ = guard_int

    def guard_float(self, file: Any = None, line: Any = None) -> float:
        if isinstance(self.expr, (int, float)):
            return float(self.expr)
        for dim in self.expr.dims():
            self.sizes.fix(dim, self.sizes.hint(dim))
        return float(self.hint)

    def guard_bool(self, file: Any = None, line: Any = None) -> bool:
        """What C++ hears."""
        return self._leads() or self._asked()

    def _leads(self) -> bool:
        """Whether ``a[i] = b`` asks if all sizes of 1 that lead `b`'s shape are found, to leave them out, and so it seems.

        Nothing depends on the answer where `b` has no more axes than ``a[i]``: one of them is broadcast in any case.
        """
        if isinstance(self.expr, bool) or self.expr[0] != "!=" or self.expr[2] != 1 or not self.hint:
            return False
        frame = next(self.sizes.watcher.provenance.frames(), None)
        return frame is not None and assigns(frame)

    def _asked(self) -> bool:
        sizes = self.sizes
        outer, sizes.asking = sizes.asking, self
        try:
            return bool(self._truth(sizes.decide))
        finally:
            sizes.asking = outer

    def bool_(self) -> bool:
        """What Python hears."""
        if self.sizes.read and self._truth(self.sizes.known) is None:
            answer = leaving.branch(self.sizes.watcher, self.expr)
            if answer is not None:
                return answer
        return self._asked()

    def _truth(self, decide: Callable[..., bool | None]) -> bool | None:
        return _truth(self.expr, decide)

    def _proved(self, unknown: bool) -> bool:
        answer = self._truth(self.sizes.prove)
        return unknown if answer is None else answer

    def statically_known_true(self, file: Any = None, line: Any = None) -> bool:
        return self._proved(False)

    def guard_size_oblivious(self, file: Any = None, line: Any = None) -> bool:
        return self._proved(False)

    def guard_or_false(self, file: Any = None, line: Any = None) -> bool:
        return self._proved(False)

    def guard_or_true(self, file: Any = None, line: Any = None) -> bool:
        return self._proved(True)

    def expect_true(self, file: Any = None, line: Any = None) -> bool:
        return self.guard_bool()

    def expect_size(self, file: Any = None, line: Any = None) -> bool:
        return bool(self.ge(self.wrap_int(0)).guard_bool())

    # ---- arithmetic

    def _int(self, dim: Dim) -> SizeNode:
        return SizeNode(self.sizes, dim, int)

    def _ratio(self, x: Ratio) -> SizeNode:
        if not x.root and isinstance(x.num, int) and isinstance(x.den, int):
            return SizeNode(self.sizes, x.num / x.den, float)
        return SizeNode(self.sizes, x, float)

    def _inexact(self, what: Any) -> NoReturn:
        self.sizes.refuse(
            f"the model asks {what}, of a float that is no exact ratio of sizes",
            "compute sizes with integers (//, %, *), or with factors such as 0.5 and 1.5 that floats hold exactly",
        )

    def neg(self) -> SizeNode:
        return self._int(-self.expr) if self.kind is int else self.wrap_float(0.0).sub(self)

    def pos(self) -> SizeNode:
        return self

    def abs(self) -> SizeNode:
        if isinstance(self.expr, Computed):
            return self.computed("abs")
        return self.neg() if self.sizes.decide("<", self._floor(), 0) else self

    def _floor(self) -> Dim:
        found = self.expr if self.kind is int else None if (r := ratio(self.expr)) is None else r.floor()
        return self._whole(found, "rounded down")

    def _whole(self, found: Dim | None, how: Any) -> Dim:
        if found is None:
            self.sizes.refuse(f"{self} {how} is no exact expression of sizes", "compute sizes with integers (//, %, *)")
        return found

    def floor(self) -> SizeNode:
        if not isinstance(self.expr, Product):
            return self._int(self._floor())
        key = ("floor", self.expr.size, self.expr.factor)
        found = self.sizes.nodes.get(key)
        if found is None:
            found = self.sizes.nodes[key] = self._int(self.expr.floor(self.sizes.watcher.w.b))
        return found

    def ceil(self) -> SizeNode:
        found = self.expr if self.kind is int else None if (r := ratio(self.expr)) is None else r.ceil()
        return self._int(self._whole(found, "rounded up"))

    def round(self, digits: int | None = None) -> SizeNode:
        if digits:
            self.sizes.refuse(f"{self} is rounded to {digits} digits", "compute sizes with integers (//, %, *)")
        found = self.expr if self.kind is int else None if (r := ratio(self.expr)) is None else r.round()
        whole = self._int(self._whole(found, "rounded"))
        return whole if digits is None else whole.sym_float()

    def trunc(self) -> SizeNode:
        if isinstance(self.expr, Ratio) and not self.expr.root:
            return self.ceil() if self.sizes.decide("<", self.expr.num, 0) else self.floor()
        return self.floor()

    def sym_int(self) -> SizeNode:
        return self if self.kind is int else self.trunc()

    def sym_float(self) -> SizeNode:
        return self if self.kind is float else self._ratio(Ratio(self.expr))

    def is_integer(self) -> SizeNode:
        if self.kind is int:
            return self.wrap_bool(True)
        if not isinstance(self.expr, Ratio):
            self._inexact(f"whether {self} is whole")
        return SizeNode(self.sizes, ("==", dims.mod(self.expr.num, self.expr.den), 0), bool)

    def sqrt(self) -> SizeNode:
        r = ratio(self.expr)
        num, den = (None, None) if r is None else (square_root(r.num), square_root(r.den))
        if num is not None and den is not None:
            return self._ratio(Ratio(num, den))
        if r is None or r.root:
            return self.computed("sqrt")
        return self._ratio(Ratio(r.num, r.den, root=True))

    sym_sqrt = sqrt

    def computed(self, name: Any, *others: SizeNode) -> SizeNode:
        """A float that the graph computes as Python does, by an op of this name."""
        found = Computed(name, self.expr, *(other.expr for other in others))
        if found.steps > MOST_STEPS:
            self.sizes.refuse(f"the model computes a float of sizes in more than {MOST_STEPS} steps", "compute it with tensors")
        return SizeNode(self.sizes, found, float)

    def sym_not(self) -> SizeNode:
        return SizeNode(self.sizes, _negated(self.expr), bool)

    def sym_sum(self, nodes: Any) -> SizeNode:
        total: Dim = 0
        for node in nodes:
            total = total + node.expr
        return self._int(total)

    def sym_ite(self, then: SizeNode, other: SizeNode) -> SizeNode:
        return then if self.guard_bool() else other

    def floordiv(self, other: SizeNode) -> SizeNode:
        if self.kind is int and other.kind is int:
            if self.sizes.prove("==", other.expr, 0):
                raise ZeroDivisionError("integer division or modulo by zero")
            return self._int(floordiv(self.expr, other.expr))
        return self.truediv(other).floor().sym_float()

    int_floordiv = floordiv

    def rshift(self, other: SizeNode) -> SizeNode:
        return self.floordiv(self.wrap_int(1 << other.guard_int()))

    def lshift(self, other: SizeNode) -> SizeNode:
        return self.mul(self.wrap_int(1 << other.guard_int()))

    def mod(self, other: SizeNode) -> SizeNode:
        if self.kind is int and other.kind is int:
            return self._int(dims.mod(self.expr, other.expr))
        return self.sub(other.mul(self.truediv(other).floor().sym_float()))

    python_mod = mod

    def pow(self, other: SizeNode) -> SizeNode:
        exponent = other.constant
        if self.kind is int and isinstance(exponent, int) and exponent >= 0:
            return self._int(dims.product([self.expr] * exponent))
        if exponent == 0.5:
            return self.sqrt()
        if isinstance(exponent, float) and exponent.is_integer() and 0 <= exponent <= 8:
            result = self.wrap_float(1.0)
            for _ in range(int(exponent)):
                result = result.mul(self)
            return result
        if exponent == -0.5:
            return self.wrap_float(1.0).truediv(self.sqrt())
        if self.kind is int and other.kind is int and exponent is None:
            self.sizes.refuse(f"the model computes {self} ** {other}, an integer", "compute it with floats, or with tensors")
        return self.computed("pow", other)

    float_pow = pow_by_natural = pow

    def truediv(self, other: SizeNode) -> SizeNode:
        left, right = ratio(self.expr), ratio(other.expr)
        if left is None or right is None:
            return self.computed("div", other)
        if left.root or right.root:
            if left.root and right.exact and isinstance(right.num, int) and isinstance(right.den, int):
                return self._ratio(Ratio(left.num * right.den**2, left.den * right.num**2, root=True))
            if right.root and left.exact and isinstance(left.num, int) and isinstance(left.den, int) and left.num >= 0:
                return self._ratio(Ratio(right.den * left.num**2, right.num * left.den**2, root=True))
            return self.computed("div", other)
        if self.sizes.prove("==", right.num, 0):
            raise ZeroDivisionError("division by zero")
        if self.sizes.decide("<", right.num, 0):
            left, right = Ratio(-left.num, left.den), Ratio(-right.num, right.den)
        return self._ratio(Ratio(left.num * right.den, left.den * right.num))

    float_truediv = int_truediv = truediv

    # ---- C++ asks these about whole shapes; `unknown` is "no"

    def is_contiguous(self, sizes: Any, strides: Any) -> SizeNode:
        key = ("contiguous", *(node.expr for node in sizes), *(node.expr for node in strides))
        found = self.sizes.nodes.get(key)
        if found is None:
            found = self.sizes.nodes[key] = self.wrap_bool(_is_contiguous(key[1 : len(sizes) + 1], key[len(sizes) + 1 :]))
        return found

    def is_non_overlapping_and_dense(self, sizes: Any, strides: Any) -> SizeNode:
        return self.is_contiguous(sizes, strides)

    is_non_overlapping_and_dense_indicator = is_non_overlapping_and_dense

    def _no(self, sizes: Any, strides: Any) -> SizeNode:
        return self.wrap_bool(False)

    is_channels_last_contiguous_2d = is_channels_last_contiguous_3d = _no
    is_channels_last_strides_2d = is_channels_last_strides_3d = _no


def _is_contiguous(sizes: Sequence[Dim], strides: Sequence[Dim]) -> bool:
    expected: Dim = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected = expected * size
    return True


def _negated(expr: Any) -> Any:
    if isinstance(expr, bool):
        return not expr
    word, left, right = expr
    if word in NEGATED:
        return NEGATED[word], left, right
    return {"and": "or", "or": "and"}[word], _negated(left), _negated(right)


def _truth(expr: Any, decide: Callable[[str, Dim, Dim], bool | None]) -> bool | None:
    if isinstance(expr, bool):
        return expr
    word, left, right = expr
    if word in NEGATED:
        answer: bool | None = decide(word, left, right)
        return answer
    decisive = word == "or"
    answers = [_truth(left, decide)]
    if answers[0] is not decisive:
        answers.append(_truth(right, decide))
    if decisive in answers:
        return bool(decisive)
    return None if None in answers else not decisive


def _arithmetic(name: str, on_dims: Callable[[Any, Any], Any], on_ratios: Callable[[Ratio, Ratio], Ratio]) -> None:
    def method(self: SizeNode, other: SizeNode) -> SizeNode:
        if self.kind is int and other.kind is int:
            key = (name, self.expr, other.expr)
            found = self.sizes.nodes.get(key)
            if found is None:
                found = self.sizes.nodes[key] = SizeNode(self.sizes, on_dims(self.expr, other.expr), int)
            return found
        left, right = ratio(self.expr), ratio(other.expr)
        usable = left is not None and right is not None and left.exact and right.exact
        if not usable and name == "mul" and (product := _product(left, other.expr) or _product(right, self.expr)):
            return SizeNode(self.sizes, product, float)
        if not usable:
            return self.computed(_OPS.get(name, name), other)
        return self._ratio(on_ratios(left, right))  # type: ignore[arg-type]

    setattr(SizeNode, name, method)


_OPS: Final = {"sym_min": "minimum", "sym_max": "maximum"}


def _product(x: Ratio | None, factor: Any) -> Product | None:
    """A whole number from sizes, not negative, times a positive float that is no small ratio; None for others."""
    if x is None or x.root or x.den != 1 or dims.bounds(x.num)[0] < 0 or not isinstance(factor, float):
        return None
    return Product(x.num, factor) if 0 < factor < math.inf else None


_arithmetic("add", lambda a, b: a + b, lambda a, b: Ratio(a.num * b.den + b.num * a.den, a.den * b.den))
_arithmetic("sub", lambda a, b: a - b, lambda a, b: Ratio(a.num * b.den - b.num * a.den, a.den * b.den))
_arithmetic("mul", lambda a, b: a * b, lambda a, b: Ratio(a.num * b.num, a.den * b.den))
_arithmetic("sym_min", dims.minimum, lambda a, b: Ratio(dims.minimum(a.num * b.den, b.num * a.den), a.den * b.den))
_arithmetic("sym_max", dims.maximum, lambda a, b: Ratio(dims.maximum(a.num * b.den, b.num * a.den), a.den * b.den))


def _comparison(name: str, relation: str) -> None:
    def method(self: SizeNode, other: SizeNode) -> SizeNode:
        left, right = self.expr, other.expr
        if self.kind is float or other.kind is float:
            a, b = ratio(self.expr), ratio(other.expr)
            if a is None or b is None or a.root or b.root:
                self._inexact(f"whether {self} {relation} {other}")
            left, right = a.num * b.den, b.num * a.den
        known = self.sizes.known(relation, left, right)
        return SizeNode(self.sizes, (relation, left, right) if known is None else known, bool)

    setattr(SizeNode, name, method)


for _name, _relation in {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
    _comparison(_name, _relation)


def _connective(names: tuple[str, ...], word: str) -> None:
    def method(self: SizeNode, other: SizeNode) -> SizeNode:
        if self.kind is int and other.kind is int:
            return _bits(self, other, word)
        return SizeNode(self.sizes, (word, self.expr, other.expr), bool)

    for name in names:
        setattr(SizeNode, name, method)


def _bits(left: SizeNode, right: SizeNode, word: str) -> SizeNode:
    """The lowest bits of a number that is not negative: ``n & 7``."""
    number, mask = (left, right.constant) if right.constant is not None else (right, left.constant)
    bits = mask + 1 if word == "and" and isinstance(mask, int) and mask >= 0 else 0
    if not bits or bits & (bits - 1) or not left.sizes.prove(">=", number.expr, 0):
        left.sizes.refuse(f"the model computes the bits of {left} {word} {right}", "compute sizes with integers (//, %, *)")
    return SizeNode(left.sizes, dims.mod(number.expr, bits), int)


_connective(("sym_and", "and_", "bitwise_and"), "and")
_connective(("sym_or", "or_", "bitwise_or"), "or")
