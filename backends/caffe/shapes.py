"""Reshapes, slices and concatenations as layers."""

from __future__ import annotations

from typing import Any

from isthmus.backends.caffe.layers import Blob, Layers, dims, emits, length, refuse, sizes
from isthmus.ir.dims import same
from isthmus.ir.graph import Node, Value


@emits("reshape", "squeeze", "unsqueeze")
def _reshape(s: Layers, node: Node, x: Value) -> Blob:
    old, new = sizes(x), sizes(node.result)
    if not old or not new:
        refuse("a blob has at least one axis")
    kept = same(old[0], new[0]) is True
    if not kept and s.dialect.batch == "kept":
        refuse(f"axis 0 is always the batch in the dialect {s.dialect.name}, and this gives it another size")
    if not all(isinstance(size, int) for size in new[1 if kept else 0 :]):
        refuse("the sizes are not known")
    return s.add("Reshape", x, rank=len(new), shape=dims([0 if kept else new[0], *new[1:]]))


@emits("permute")
def _permute(s: Layers, node: Node, x: Value) -> Blob:
    return s.add("Permute", x, order=list(node.attrs["perm"]))


@emits("concat")
def _concat(s: Layers, node: Node, xs: list[Value]) -> Blob:
    return s.add("Concat", *xs, axis=node.attrs["axis"] % node.result.tensor.rank)


@emits("slice")
def _slice(s: Layers, node: Node, x: Value) -> Blob:
    attrs = node.attrs
    if len(attrs["axes"]) != 1 or attrs["steps"][0] != 1:
        refuse("Slice cuts one axis, without a step")
    axis, start, end = attrs["axes"][0] % x.tensor.rank, attrs["starts"][0], attrs["ends"][0]
    if not all(isinstance(bound, int) for bound in (start, end)):
        refuse("the bounds are not known")
    points = [point for point in (start, end) if 0 < point < length(x, axis)]
    if not points:
        refuse("nothing is cut")
    tops = s.several("Slice", x, tops=len(points) + 1, hint="rest", axis=axis, slice_point=points)
    return tops[1 if start else 0]


@emits("split")
def _split(s: Layers, node: Node, x: Value) -> list[Blob]:
    parts: list[Any] = list(node.attrs["sizes"])
    if not all(isinstance(size, int) for size in parts):
        refuse("the sizes are not known")
    if len(parts) == 1:
        return [s.add("Power", x)]
    points = [sum(parts[:count]) for count in range(1, len(parts))]
    return s.several("Slice", x, tops=len(parts), axis=node.attrs["axis"] % x.tensor.rank, slice_point=points)
