"""Texts: joined, split, cleaned, matched and counted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from isthmus.ir.attributes import BOOL, FLOATS, INT, INTS, STR, STRS, choice
from isthmus.ir.dims import Dim, maximum
from isthmus.ir.dtypes import bool_, f32, i64, string
from isthmus.ir.op import Call, Op, Sample, Trait, operands, register, sample
from isthmus.ir.types import Tensor, Type


def _texts(*items: Any) -> Any:
    return np.array(items, object)


def _each(function: Any, x: Any, dtype: Any = object) -> Any:
    """A function of every element."""
    found = np.empty(x.shape, dtype)
    found.reshape(-1)[:] = [function(str(text)) for text in x.reshape(-1)]
    return found


@register
class StringConcat(Op):
    """Each text of ``x`` with that of ``y`` behind it."""

    name = "string_concat"
    operands = operands("x: string, y: string")
    traits = Trait.PURE | Trait.ELEMENTWISE
    source = "ONNX StringConcat-20"

    def infer(self, call: Call) -> Sequence[Type]:
        return (Tensor(string, call.broadcast(call.shape(0), call.shape(1))),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        x, y = np.broadcast_arrays(*operands)
        return _texts(*(f"{a}{b}" for a, b in zip(x.reshape(-1), y.reshape(-1), strict=True))).reshape(x.shape)

    def samples(self) -> Iterable[Sample]:
        yield sample(_texts("ab", "", "é"), _texts("c", "d", "e"))
        yield sample(_texts(["ab"], [""]), _texts("c", "d", "e"), note="broadcast")


@register
class StringSplit(Op):
    """The parts of each text between delimiters along a new last axis, with empty ones behind them, and how many they are.

    Without a delimiter runs of white space part the text, and there is no empty part. `maxsplit` is the greatest number of
    cuts, from the left. An empty text has no parts at all, as onnxruntime has it; ONNX does not say.
    """

    name = "string_split"
    operands = operands("x: string")
    attributes = {"delimiter": STR.optional(), "maxsplit": INT.optional()}
    source = "ONNX StringSplit-20"

    def infer(self, call: Call) -> Sequence[Type]:
        shape = call.shape(0)
        most = call["maxsplit"]
        parts = call.fresh() if most is None else call.fresh("u", 0, max(0, most) + 1)
        return (Tensor(string, (*shape, parts)), Tensor(i64, shape))

    def evaluate(self, call: Call, *operands: Any) -> Any:
        (x,) = operands
        most = -1 if call["maxsplit"] is None else call["maxsplit"]
        split = [str(text).split(call["delimiter"] or None, most) if text else [] for text in x.reshape(-1)]
        parts = np.full((len(split), max(map(len, split), default=0)), "", object)
        for row, found in zip(parts, split, strict=True):
            row[: len(found)] = found
        return parts.reshape(*x.shape, parts.shape[1]), np.array([len(found) for found in split], np.int64).reshape(x.shape)

    def samples(self) -> Iterable[Sample]:
        x = _texts("a,b,,c", "", "d e  f")
        yield sample(x)
        yield sample(x, delimiter=",", note="delimiter")
        yield sample(_texts(["a,b,,c"], ["x"]), delimiter=",", maxsplit=1, note="maxsplit")


@register
class StringNormalizer(Op):
    """Texts in another case, without those that are stop words; a single empty one where none is left. Shape [C] or [1, C]."""

    name = "string_normalizer"
    operands = operands("x: string")
    attributes = {"case": choice("none", "lower", "upper")("none"), "case_sensitive": BOOL(False), "stopwords": STRS(()),
                  "locale": STR.optional()}  # fmt: skip
    source = "ONNX StringNormalizer-10"

    def infer(self, call: Call) -> Sequence[Type]:
        shape = call.shape(0)
        if len(shape) not in (1, 2):
            raise call.error("takes texts of the shape [C] or [1, C]")
        if len(shape) == 2:
            call.unify(shape[0], 1, "the number of rows and 1")
        kept = call.fresh("u", 1) if call["stopwords"] else maximum(shape[-1], 1)
        return (Tensor(string, (*shape[:-1], kept)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        (x,) = operands

        def key(text: str) -> str:
            return text if call["case_sensitive"] else text.lower()

        stop = set(map(key, call["stopwords"]))
        kept = [str(text) for text in x.reshape(-1) if key(str(text)) not in stop] or [""]
        change = {"lower": str.lower, "upper": str.upper}.get(call["case"], str)
        return _texts(*map(change, kept)).reshape(*x.shape[:-1], len(kept))

    def samples(self) -> Iterable[Sample]:
        x = _texts("Monday", "tuesday", "Friday")
        yield sample(x)
        yield sample(x, case="upper", locale="C", note="upper")
        yield sample(x, case="lower", stopwords=["monday"], locale="C", note="stopwords")
        both = ["monday", "Friday"]
        yield sample(x[None], case="lower", case_sensitive=True, stopwords=both, locale="C", note="case-sensitive")
        yield sample(x[:1], stopwords=["MONDAY"], locale="C", note="nothing-left")


@register
class RegexFullMatch(Op):
    """Whether the whole of each text matches a regular expression. It may take its time, so it is not folded."""

    name = "regex_full_match"
    operands = operands("x: string")
    attributes = {"pattern": STR}
    traits = Trait.NONE
    source = "ONNX RegexFullMatch-20; RE2"

    def infer(self, call: Call) -> Sequence[Type]:
        return (Tensor(bool_, call.shape(0)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        try:
            matches = re.compile(call["pattern"]).fullmatch
        except re.error as error:
            raise ValueError(f"{call['pattern']!r} is no regular expression: {error}") from error
        return _each(lambda text: matches(text) is not None, operands[0], bool)

    def samples(self) -> Iterable[Sample]:
        yield sample(_texts("www.google.com", "google", ""), pattern=r"www\.[\w.-]+\.\bcom\b")


_POOL: Final = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7]


@register
class Tfidf(Op):
    """How often each n-gram of a pool is in a row, for each row of a matrix or for a list.

    The pool holds all n-grams one behind the other, those of n elements from `counts[n - 1]` on. Element `indexes[i]` of the
    result is about n-gram i. Between the elements of an n-gram in the row there may be up to `skip` others, the same number
    everywhere. `mode` is ``tf`` for counts, ``idf`` for weights where there is one at all, ``tfidf`` for counts times weights.
    """

    name = "tfidf"
    operands = operands("x: any")
    attributes = {
        "mode": choice("tf", "idf", "tfidf"), "least": INT, "most": INT, "skip": INT, "counts": INTS, "indexes": INTS,
        "ints": INTS(()), "strings": STRS(()), "weights": FLOATS.optional(),
    }  # fmt: skip
    source = "ONNX TfIdfVectorizer-9"

    def infer(self, call: Call) -> Sequence[Type]:
        shape: tuple[Dim, ...] = call.shape(0)
        if len(shape) not in (1, 2):
            raise call.error("takes a list or a matrix")
        if not call["indexes"] or min(call["indexes"]) < 0:
            raise call.error("has no indexes of 0 and up")
        if not 1 <= call["least"] <= call["most"] or call["skip"] < 0:
            raise call.error(f"n-grams of {call['least']} to {call['most']} elements with {call['skip']} between them are none")
        return (Tensor(f32, (*shape[:-1], max(call["indexes"]) + 1)),)

    def evaluate(self, call: Call, *operands: Any) -> Any:
        (x,) = operands
        grams = self._grams(call)
        rows = x.reshape(-1, x.shape[-1]).tolist()
        counts = np.zeros((len(rows), max(call["indexes"]) + 1), np.float32)
        for row, found in zip(rows, counts, strict=True):
            for size in range(call["least"], min(call["most"], len(row)) + 1):
                widest = min(call["skip"] + 1, (len(row) - 1) // (size - 1)) if size > 1 else 1  # wider ones do not fit
                for step in range(1, widest + 1):
                    for start in range(len(row) - (size - 1) * step):
                        place = grams.get(tuple(row[start : start + size * step : step]))
                        if place is not None:
                            found[call["indexes"][place]] += 1
        weights = np.ones(counts.shape[1], np.float32)
        if call["mode"] != "tf" and call["weights"] is not None:
            weights[list(call["indexes"])] = call["weights"]
        counts = (counts > 0) * weights if call["mode"] == "idf" else counts * weights
        return counts.astype(np.float32).reshape(*x.shape[:-1], counts.shape[-1])

    def _grams(self, call: Call) -> dict[tuple[Any, ...], int]:
        """The number of each n-gram of the pool."""
        pool = list(call["ints"] or call["strings"])
        ends = [*call["counts"][1:], len(pool)]
        found: dict[tuple[Any, ...], int] = {}
        number = 0
        for size, (start, end) in enumerate(zip(call["counts"], ends, strict=True), 1):
            for place in range(start, end, size):
                found[tuple(pool[place : place + size])] = number
                number += 1
        if number != len(call["indexes"]):
            raise ValueError(f"the pool holds {number} n-grams, and there are {len(call['indexes'])} indexes")
        return found

    def samples(self) -> Iterable[Sample]:
        x = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]], np.int32)
        more: dict[str, Any] = {"counts": [0, 4], "indexes": range(7), "ints": _POOL}
        yield sample(x, mode="tf", least=2, most=2, skip=0, **more)
        yield sample(x[1].astype(np.int64), mode="tf", least=1, most=2, skip=5, **more, note="skips")
        weights = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5]
        yield sample(x, mode="idf", least=1, most=2, skip=1, **more, weights=weights, note="idf")
        yield sample(x, mode="tfidf", least=1, most=2, skip=1, **more, weights=weights, note="tfidf")
        words = _texts("a", "b", "a", "c")
        yield sample(words, mode="tf", least=1, most=2, skip=0, counts=[0, 2], indexes=[1, 0, 3], strings=["a", "c", "a", "b"],
                     note="strings")  # fmt: skip
