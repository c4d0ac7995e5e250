"""Texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isthmus.frontends.onnx.conversion import Conversion
from isthmus.frontends.onnx.table import converts
from isthmus.ir.graph import Value


@converts("StringConcat")
def concat(c: Conversion, x: Value, y: Value) -> Value:
    """Texts joined, element by element."""
    made: Value = c.b.string_concat(x, y)
    return made


@converts("StringSplit")
def split(c: Conversion, x: Value, *, delimiter: str | None = None, maxsplit: int | None = None) -> Any:
    """The parts of texts, and how many they are."""
    return c.b.string_split(x, delimiter=delimiter or None, maxsplit=maxsplit)


@converts("StringNormalizer")
def normalizer(
    c: Conversion, x: Value, *, case_change_action: str = "NONE", is_case_sensitive: int = 0, locale: str | None = None,
    stopwords: Sequence[str] = (),
) -> Value:  # fmt: skip
    """Another case, and no stop words."""
    made: Value = c.b.string_normalizer(
        x, case=case_change_action.lower(), case_sensitive=bool(is_case_sensitive), stopwords=list(stopwords), locale=locale
    )
    return made


@converts("RegexFullMatch")
def regex_full_match(c: Conversion, x: Value, *, pattern: str = "") -> Value:
    """Whether a regular expression matches."""
    made: Value = c.b.regex_full_match(x, pattern=pattern)
    return made


@converts("TfIdfVectorizer")
def tfidf(
    c: Conversion, x: Value, *, mode: str, min_gram_length: int, max_gram_length: int, max_skip_count: int,
    ngram_counts: Sequence[int], ngram_indexes: Sequence[int], pool_int64s: Sequence[int] = (),
    pool_strings: Sequence[str] = (), weights: Sequence[float] | None = None,
) -> Value:  # fmt: skip
    """Counts of n-grams."""
    made: Value = c.b.tfidf(
        x, mode=mode.lower(), least=min_gram_length, most=max_gram_length, skip=max_skip_count, counts=ngram_counts,
        indexes=ngram_indexes, ints=pool_int64s, strings=pool_strings, weights=weights,
    )  # fmt: skip
    return made
