"""Products of matrices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from isthmus.ir.attributes import STR
from isthmus.ir.builder import Builder
from isthmus.ir.dims import Dim, product
from isthmus.ir.graph import Value
from isthmus.ir.op import Call, Op, Sample, Trait, operands, register, rng, sample
from isthmus.ir.ops.conv import volume
from isthmus.ir.ops.numerics import compute
from isthmus.ir.types import Tensor, Type


@register
class MatMul(Op):
    """The product of matrices in the last two axes; the axes before broadcast.

    A vector on the left is a row, one on the right a column, and that axis is missing in the result.
    """

    name = "matmul"
    operands = operands("x: numeric T, y: numeric T")
    source = "numpy.matmul"

    def infer(self, call: Call) -> Sequence[Type]:
        x, y = call.tensor(0), call.shape(1)
        left: tuple[Dim, ...] = x.shape  # type: ignore[assignment]
        if not left or not y:
            raise call.error("a scalar is not a matrix")
        inner, outer = left[-1], y[-2] if len(y) > 1 else y[0]
        if inner is not outer and inner != outer:
            call.unify(inner, outer, "inner sizes")
        if len(left) == 1:
            return (Tensor(x.dtype, y[:-2] + y[-1:] if len(y) > 1 else ()),)
        if len(y) == 1:
            return (Tensor(x.dtype, left[:-1]),)
        batch = left[:-2] if len(y) == 2 else call.broadcast(left[:-2], y[:-2])
        return (Tensor(x.dtype, (*batch, left[-2], y[-1])),)

    def effort(self, call: Call) -> int:
        (result,), inner = self.infer(call), call.shape(0)[-1]
        assert isinstance(result, Tensor)
        return volume((*(result.shape or ()), inner))

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return compute(np.matmul, *operands)

    def samples(self) -> Iterable[Sample]:
        x, y = rng().standard_normal((2, 2, 3, 3)).astype(np.float32)
        x = x[:, :2]
        yield sample(x[0], y[0], note="plain")
        yield sample(x, y, note="batch")
        yield sample(x[:1], y, note="broadcast")
        yield sample(x, y[0], note="shared")
        yield sample(x[0], y[:, None], note="left-shared")
        yield sample(x[0, 0], y, note="row")
        yield sample(x, y[0, 0], note="column")
        yield sample(x[0, 0], y[0, 0], note="vectors")
        yield sample(x.astype(np.float16), y.astype(np.float16), note="f16")
        yield sample(x.astype(ml_dtypes.bfloat16), y.astype(ml_dtypes.bfloat16), note="bf16")
        yield sample(np.arange(6).reshape(2, 3), np.arange(6).reshape(3, 2), note="i64")
        yield sample(x[:, :, :0], y[:, :0], note="empty-inner")
        yield sample(x[:0], y[:0], note="empty-batch")


@register
class Linear(Op):
    """``x @ weight.T + bias`` over the last axis of `x[..., in]`, with ``weight[out, in]`` and ``bias[out]``."""

    name = "linear"
    operands = operands("x: numeric T, weight: numeric T, bias?: numeric T")
    traits = Trait.PURE | Trait.COARSE
    source = "torch.nn.functional.linear"

    def infer(self, call: Call) -> Sequence[Type]:
        x, weight = call.tensor(0), call.shape(1)
        if not x.shape or len(weight) != 2:
            raise call.error("expects x[..., in] and weight[out, in]")
        if x.shape[-1] != weight[1]:
            call.unify(x.shape[-1], weight[1], "input sizes")
        if call.types[2] is not None:
            bias = call.shape(2)
            if len(bias) != 1:
                raise call.error("expects bias[out]")
            if bias[0] != weight[0]:
                call.unify(weight[0], bias[0], "output sizes")
        return (Tensor(x.dtype, (*x.shape[:-1], weight[0])),)

    def effort(self, call: Call) -> int:
        return volume(call.shape(0)) * volume(call.shape(1)[:1])

    def evaluate(self, call: Call, *operands: Any) -> Any:
        x, weight, bias = operands
        if bias is None:
            return compute(lambda x, weight: x @ weight.T, x, weight)
        return compute(lambda x, weight, bias: x @ weight.T + bias, x, weight, bias)

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        x, weight, bias = operands
        found = b.matmul(x, b.permute(weight, perm=[1, 0]))
        return found if bias is None else b.add(found, bias)

    def samples(self) -> Iterable[Sample]:
        draws = rng()
        x, w, bias = (draws.standard_normal(shape).astype(np.float32) for shape in ((2, 4, 3), (5, 3), (5,)))
        yield sample(x, w, bias)
        yield sample(x[0], w, None, note="no-bias")
        yield sample(x[0, 0], w, bias, note="vector")
        yield sample(x.astype(np.float16), w.astype(np.float16), bias.astype(np.float16), note="f16")
        yield sample(x[:0], w, bias, note="empty")


@register
class Det(Op):
    """The determinants of the square matrices in the last two axes."""

    name = "det"
    operands = operands("x: float T")
    source = "numpy.linalg.det"

    def infer(self, call: Call) -> Sequence[Type]:
        x = call.tensor(0)
        shape: tuple[Dim, ...] = x.shape  # type: ignore[assignment]
        if len(shape) < 2:
            raise call.error("expects matrices", found=str(x))
        call.unify(shape[-2], shape[-1], "rows and columns")
        return (Tensor(x.dtype, shape[:-2]),)

    def effort(self, call: Call) -> int:
        return volume((*call.shape(0), call.shape(0)[-1]))

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return compute(np.linalg.det, *operands)

    def samples(self) -> Iterable[Sample]:
        x = rng().standard_normal((2, 3, 3)).astype(np.float32)
        yield sample(x)
        yield sample(x[0].astype(np.float16), note="f16")
        yield sample(x.astype(np.float64), note="f64")
        yield sample(np.zeros((2, 2), np.float32), note="singular")


def plain_equation(equation: str) -> str:
    """An equation without spaces, and in small letters where these are enough; in the same order, which is that of an output
    that is not spelt out."""
    letters = sorted({letter for letter in equation if letter.isalpha()})
    small = len(letters) > 26 or all(letter.islower() for letter in letters)
    names = {} if small else {letter: chr(ord("a") + number) for number, letter in enumerate(letters)}
    return "".join(names.get(letter, letter) for letter in equation.replace(" ", ""))


class _Equation:
    """An einsum equation applied to operands of known rank; an ellipsis is spelt out in letters of its own."""

    def __init__(self, call: Call) -> None:
        left, arrow, right = call["equation"].replace(" ", "").partition("->")
        terms = left.split(",")
        if len(terms) != len(call.types):
            raise call.error(f"the equation is about {len(terms)} operands", found=f"{len(call.types)} operands")
        spare = [chr(ord("0") + number) for number in range(10)]  # digits stand for the axes of the ellipsis
        longest = 0
        self.terms: list[str] = []
        for index, term in enumerate(terms):
            rank = len(call.shape(index))
            named = len(term.replace("...", ""))
            if ("..." in term and named > rank) or ("..." not in term and named != rank) or rank - named > len(spare):
                raise call.error(f"{term!r} does not fit the rank of operand {index}")
            count = rank - named
            longest = max(longest, count)
            self.terms.append(term.replace("...", "".join(reversed(spare[:count]))))
        ellipsis = "".join(reversed(spare[:longest]))
        every = "".join(self.terms)
        if arrow:
            self.output = right.replace("...", ellipsis)
        else:
            self.output = ellipsis + "".join(sorted(c for c in set(every) if every.count(c) == 1 and not c.isdigit()))
        bad = set(every + self.output) - set("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
        if bad or len(set(self.output)) != len(self.output) or set(self.output) - set(every):
            raise call.error(f"{call['equation']!r} is not an equation")
        self.sizes: dict[str, Dim] = {}
        for index, term in enumerate(self.terms):
            for letter, dim in zip(term, call.shape(index), strict=True):
                known = self.sizes.get(letter, 1)
                if isinstance(known, int) and known == 1:
                    self.sizes[letter] = dim
                elif not (isinstance(dim, int) and dim == 1):
                    self.sizes[letter] = call.unify(known, dim, f"sizes of {letter!r}")


@register
class Einsum(Op):
    """A sum of products, as the equation says: ``...ij,...jk->...ik``."""

    name = "einsum"
    operands = operands("xs*: numeric T")
    attributes = {"equation": STR}
    traits = Trait.PURE | Trait.COARSE
    source = "numpy.einsum"

    def infer(self, call: Call) -> Sequence[Type]:
        equation = _Equation(call)
        return (Tensor(call.dtype(0), tuple(equation.sizes[letter] for letter in equation.output)),)

    def effort(self, call: Call) -> int:
        return volume(list(_Equation(call).sizes.values()))

    def evaluate(self, call: Call, *operands: Any) -> Any:
        return compute(lambda *xs: np.einsum(call["equation"], *xs), *operands[0])

    def decompose(self, b: Builder, call: Call, *operands: Any) -> Any:
        equation = _Equation(call)
        parts = list(zip(equation.terms, operands[0], strict=True))
        term, value = _diagonals(b, *parts.pop(0))
        while parts:
            other_term, other = _diagonals(b, *parts.pop(0))
            needed = set(equation.output).union(*(term for term, _ in parts))
            term, value = _contract(b, equation.sizes, (term, value), (other_term, other), needed)
        term, value = _sum_out(b, term, value, set(equation.output))
        return _arrange(b, term, value, equation.output)

    def samples(self) -> Iterable[Sample]:
        draws = rng()
        x, y, z = (draws.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 4), (2, 4, 5), (5, 3)))
        yield sample([x, y], equation="bij,bjk->bik", note="batch-matmul")
        yield sample([x, y], equation="bij,bjk->kbi", note="permuted")
        yield sample([x[0], y[0]], equation="ij,jk", note="implicit")
        yield sample([x, y[:1]], equation="...ij,...jk->...ik", note="ellipsis")
        yield sample([x[:, :, :1], y], equation="bij,bjk->bik", note="one-stands-for-many")
        yield sample([x, y, z], equation="bij,bjk,kl->bl", note="three")
        yield sample([x], equation="bij->jb", note="sum-permute")
        yield sample([y[0, :, :4]], equation="ii->i", note="diagonal")
        yield sample([y[0, :, :4]], equation="ii->", note="trace")
        yield sample([x[0, 0], z[0]], equation="i,j->ij", note="outer")
        yield sample([x[0], x[1]], equation="ij,ij->", note="inner")
        yield sample([x.astype(np.float16), y.astype(np.float16)], equation="bij,bjk->bik", note="f16")
        yield sample([x[:0], y[:0]], equation="bij,bjk->ik", note="empty")
        yield sample([x[0], y[0]], equation="Aj, jB", note="capitals")
        yield sample([x, y[0]], equation="...ij,...jk->...ik", note="shorter-ellipsis")
        yield sample([x, z[0]], equation="...ik,...j->ij...", note="empty-ellipsis", symbolic=False)


def _diagonals(b: Builder, term: str, value: Value) -> tuple[str, Value]:
    """Each letter once: a repeated one becomes the diagonal."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            first = term.index(letter)
            second = term.index(letter, first + 1)
            value = b.diagonal(value, offset=0, axis1=first, axis2=second)
            term = term[:first] + term[first + 1 : second] + term[second + 1 :] + letter
    return term, value


def _sum_out(b: Builder, term: str, value: Value, keep: set[str]) -> tuple[str, Value]:
    axes = [axis for axis, letter in enumerate(term) if letter not in keep]
    if not axes:
        return term, value
    return "".join(letter for letter in term if letter in keep), b.reduce_sum(value, axes=axes)


def _arrange(b: Builder, term: str, value: Value, wanted: str) -> Value:
    """The axes in the wanted order; those that are missing are put in with size 1."""
    present = [letter for letter in wanted if letter in term]
    perm = [term.index(letter) for letter in present]
    if perm != sorted(perm):
        value = b.permute(value, perm=perm)
    missing = [axis for axis, letter in enumerate(wanted) if letter not in term]
    return b.unsqueeze(value, axes=missing) if missing else value


def _contract(
    b: Builder, sizes: dict[str, Dim], left: tuple[str, Value], right: tuple[str, Value], needed: set[str]
) -> tuple[str, Value]:
    """Two operands multiplied; the letters that are not needed afterwards are summed."""
    x_term, x = _sum_out(b, *left, needed | set(right[0]))
    y_term, y = _sum_out(b, *right, needed | set(x_term))
    batch = [letter for letter in x_term if letter in y_term and letter in needed]
    summed = [letter for letter in x_term if letter in y_term and letter not in needed]
    rows = [letter for letter in x_term if letter not in y_term]
    columns = [letter for letter in y_term if letter not in x_term]
    result = "".join([*batch, *rows, *columns])
    if not summed:
        return result, b.mul(_arrange(b, x_term, x, result), _arrange(b, y_term, y, result))

    def matrix(term: str, value: Value, first: list[str], second: list[str]) -> Value:
        value = _arrange(b, term, value, "".join([*batch, *first, *second]))
        shape: tuple[Dim, ...] = value.tensor.shape  # type: ignore[assignment]
        lead = shape[: len(batch)]
        full = (*lead, *(sizes[letter] for letter in [*first, *second]))
        if any(have.__class__ is int and have == 1 and want != 1 for have, want in zip(shape, full, strict=True)):
            value = b.expand(value, shape=full)  # a summed axis of size 1 stands for as many as the other operand has
        if len(first) == len(second) == 1:
            return value
        middle = len(lead) + len(first)
        found: Value = b.reshape(value, shape=(*lead, product(full[len(lead) : middle]), product(full[middle:])))
        return found

    found = b.matmul(matrix(x_term, x, rows, summed), matrix(y_term, y, summed, columns))
    if len(rows) != 1 or len(columns) != 1:
        lead = found.tensor.shape[: len(batch)]
        found = b.reshape(found, shape=(*lead, *(sizes[letter] for letter in [*rows, *columns])))
    return result, found
