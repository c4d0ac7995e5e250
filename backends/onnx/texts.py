"""Emitters of what is done with texts."""

from __future__ import annotations

from typing import Any

from isthmus.backends.onnx.emitter import Emitter
from isthmus.backends.onnx.table import emits
from isthmus.ir.graph import Node


@emits("string_concat", since=20)
def _string_concat(e: Emitter, node: Node, x: str, y: str) -> Any:
    return e.op("StringConcat", x, y)


@emits("string_split", since=20)
def _string_split(e: Emitter, node: Node, x: str) -> Any:
    return tuple(e.op("StringSplit", x, results=2, delimiter=node.attrs["delimiter"], maxsplit=node.attrs["maxsplit"]))


@emits("regex_full_match", since=20)
def _regex_full_match(e: Emitter, node: Node, x: str) -> Any:
    return e.op("RegexFullMatch", x, pattern=node.attrs["pattern"])


@emits("string_normalizer", since=10)
def _string_normalizer(e: Emitter, node: Node, x: str) -> Any:
    attrs = node.attrs
    return e.op(
        "StringNormalizer", x, case_change_action=attrs["case"].upper(), is_case_sensitive=int(attrs["case_sensitive"]),
        stopwords=list(attrs["stopwords"]) or None, locale=attrs["locale"],
    )  # fmt: skip


@emits("tfidf", since=9)
def _tfidf(e: Emitter, node: Node, x: str) -> Any:
    attrs = node.attrs
    return e.op(
        "TfIdfVectorizer", x, mode=attrs["mode"].upper(), min_gram_length=attrs["least"], max_gram_length=attrs["most"],
        max_skip_count=attrs["skip"], ngram_counts=list(attrs["counts"]), ngram_indexes=list(attrs["indexes"]),
        pool_int64s=list(attrs["ints"]) or None, pool_strings=list(attrs["strings"]) or None, weights=attrs["weights"],
    )  # fmt: skip
