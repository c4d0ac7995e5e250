"""Lists of which only data can tell the length: sequences, or tensors with the items along their first axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from isthmus.frontends.torch.aliases import doubt
from isthmus.frontends.torch.script.interpreter import OPS
from isthmus.frontends.torch.script.outcomes import Rerun
from isthmus.frontends.torch.script.values import Head, List, kind_of
from isthmus.ir.dtypes import i64
from isthmus.ir.graph import Value
from isthmus.ir.types import Sequence, Tensor

if TYPE_CHECKING:
    from isthmus.frontends.torch.script.interpreter import Interpreter


def kind_of_item(x: Any) -> type:
    """``torch.Tensor``, or what number an item is."""
    return torch.Tensor if isinstance(x, torch.Tensor) else kind_of(x) or type(x)


def looked_at(i: Interpreter, head: Head) -> Head:
    """The head of a list whose items somebody looks at.

    Raises:
        Rerun: a loop has to be run anew, with the list as one of its values.
        Refusal: an item was written to, which the list does not see.
    """
    i.watcher.aliases.read(head.owner)
    if head.growing is not None:
        head.growing.look()
        raise Rerun(head.growing)
    return head


def item_value(i: Interpreter, x: Any) -> Value:
    """An item as a value that a sequence can hold."""
    if not isinstance(x, torch.Tensor) and kind_of(x) is None:
        i.refuse(
            f"a list of {type(x).__name__} has a length that only data can tell",
            "keep a list for each tensor, or put them into one tensor",
        )
    return i.value(x)


def alike(i: Interpreter, items: list[Any]) -> bool:
    """Whether items are tensors of one type, or numbers of one kind."""
    kinds = {kind_of_item(each) for each in items}
    if len(kinds) != 1 or not kinds <= {torch.Tensor, int, float, bool}:
        return False
    return kinds != {torch.Tensor} or len({i.value(each).type for each in items}) == 1


def copied(i: Interpreter, found: Any, items: List) -> Any:
    """An item that was taken out of a list as a copy: a write to it is refused, since the list would not see it."""
    if isinstance(found, torch.Tensor):
        owners = [] if items.head is None else [items.head.owner]
        owners += [i.watcher.entry(each).owner for each in items.items if isinstance(each, torch.Tensor)]
        for owner in owners:
            doubt(i.watcher.entry(found), owner, "it is an item of a list, at a place that only sizes or data can tell")
    return found


def item(i: Interpreter, value: Value, kind: type) -> Any:
    """An item of a sequence as the script sees it."""
    return i.tensor(value) if kind is torch.Tensor else i.number(value, kind)


def sequence(i: Interpreter, items: List, element: Tensor | None = None, kind: type | None = None) -> Head:
    """All the items of a list as a sequence.

    Args:
        i: the interpreter.
        items: the list, which stays as it is.
        element: the type of the items, for a list without any.
        kind: what the items are, for a list without any.
    """
    b = i.w.b
    head = None if items.head is None else looked_at(i, items.head)
    values = [item_value(i, each) for each in items.items]
    if head is None:
        kind = kind_of_item(items.items[0]) if items.items else kind
        if element is None and not values:
            i.refuse("an empty list is needed whose items nobody knows yet", "put the first item in before the loop or branch")
        if values and all(element is None or value.type == element for value in values):
            return Head(b.sequence_construct(values), kind or torch.Tensor)
        found: Value = b.sequence_empty(type=element)
        for value in values:
            found = b.sequence_insert(found, value)
        return Head(found, kind or torch.Tensor)
    found = _unstacked(i, head)
    for value in values:
        found = b.sequence_insert(found, value)
    return Head(found, head.kind)


def _unstacked(i: Interpreter, head: Head) -> Value:
    """The items of a head as a sequence; those of a stacked one are put in one by one."""
    assert head.value is not None
    if not head.stacked:
        return head.value
    b, w = i.w.b, i.w
    slice_type = Tensor(head.value.tensor.dtype, w.dims(head.value)[1:])
    start = b.sequence_empty(type=slice_type)

    def body(inner: Any, turn: Value, items: Value, piece: Value) -> list[Value]:
        return [inner.constant(True), inner.sequence_insert(items, piece)]

    graph = b.subgraph([Tensor(i64, ()), start.type, slice_type], body)
    found: Value = b.emit("loop", [None, None, start, head.value], {"carried": 1}, [graph]).results[0]
    return found


def length(i: Interpreter, items: List) -> Any:
    """The number of items."""
    if items.head is None:
        return len(items.items)
    head = looked_at(i, items.head)
    assert head.value is not None
    if head.stacked:
        count = i.watcher.sizes.give(i.w.dims(head.value)[0])
    else:
        count = i.number(i.w.b.sequence_length(head.value), int)
    return count + len(items.items) if items.items else count


def joined(i: Interpreter, items: List, axis: int, new: bool) -> torch.Tensor:
    """The items of a list with a head, stacked along a new axis or concatenated."""
    assert items.head is not None
    head = looked_at(i, items.head)
    assert head.value is not None
    aten = torch.ops.aten
    if head.stacked:
        first = i.tensor(head.value)
        if items.items:
            first = i.op(aten.cat.default, List([first, i.op(aten.stack.default, List(items.items, None), 0)], None), 0)
        rank = i.w.rank(i.value(first))
        axis = axis % rank if new else axis % (rank - 1)
        if new:
            return i.op(aten.movedim.int, first, 0, axis)
        apart = i.op(aten.movedim.int, first, 0, axis)
        return i.op(aten.flatten.using_ints, apart, axis, axis + 1)
    whole = sequence(i, items)
    assert whole.value is not None
    assert isinstance(whole.value.type, Sequence)
    element = whole.value.type.element
    if not isinstance(element, Tensor) or element.shape is None:
        i.refuse("a list of tensors of different ranks is put together")
    if element.shape or whole.kind is torch.Tensor:
        axis %= len(element.shape) + new or 1
        return i.tensor(i.w.b.sequence_concat(whole.value, axis=axis, new_axis=new))
    # There may be no number at all, and no list is put together of nothing.
    more = i.w.b.sequence_insert(whole.value, i.w.tensor(0, element.dtype), i.w.tensor(0, i64))
    return i.op(aten.slice.Tensor, i.tensor(i.w.b.sequence_concat(more, axis=0, new_axis=True)), 0, 1, None, 1)


def replaced(i: Interpreter, whole: Head, key: Any, new: Any) -> Head:
    """A sequence with another item at a place, which is taken apart around it."""
    b = i.w.b
    place = i.w.tensor(i.dim(key), i64)
    count = b.sequence_length(whole.value)
    place = b.where(b.lt(place, 0), b.add(place, count), place)
    assert whole.value is not None
    assert isinstance(whole.value.type, Sequence)
    start, value = b.sequence_empty(type=whole.value.type.element), item_value(i, new)
    merged = b.sequence_insert(start, value)
    if merged.type != start.type:  # sizes differ from item to item
        start = b.sequence_empty(type=merged.type.element)

    def body(inner: Any, turn: Value, items: Value) -> list[Value]:
        old = inner.sequence_at(whole.value, turn)
        then = inner.subgraph([], lambda b: [b.sequence_insert(items, value)], "then")
        other = inner.subgraph([], lambda b: [b.sequence_insert(items, old)], "else")
        return [inner.constant(True), inner.emit("if", [inner.eq(turn, place)], {}, [then, other]).results[0]]

    graph = b.subgraph([Tensor(i64, ()), start.type], body)
    return Head(b.emit("loop", [count, None, start], {"carried": 1}, [graph]).results[0], whole.kind)


def grow(i: Interpreter, x: List, more: List) -> None:
    """Puts the items of one sequence behind those of another."""
    b = i.w.b
    start, rest = sequence(i, x), sequence(i, more)
    assert start.value is not None
    assert rest.value is not None
    assert isinstance(start.value.type, Sequence)
    assert isinstance(rest.value.type, Sequence)
    if start.value.type != rest.value.type:
        i.refuse("two lists of lengths that only data can tell are put together, and their items have different sizes")

    def body(inner: Any, turn: Value, items: Value) -> list[Value]:
        return [inner.constant(True), inner.sequence_insert(items, inner.sequence_at(rest.value, turn))]

    graph = b.subgraph([Tensor(i64, ()), start.value.type], body)
    found = b.emit("loop", [b.sequence_length(rest.value), None, start.value], {"carried": 1}, [graph]).results[0]
    x.head, x.items = Head(found, start.kind), []


def _tensor(i: Interpreter, x: List) -> tuple[Value, Head] | None:
    """The items of a list along the first axis of a tensor, where they are there already or are numbers."""
    if x.head is not None and looked_at(i, x.head).stacked and x.head.value is not None and not x.items:
        return x.head.value, x.head
    if x.head is None and alike(i, x.items) and kind_of_item(x.items[0]) is not torch.Tensor:
        items = List([i.tensor(item_value(i, each)) for each in x.items], None)
        return i.value(i.op(torch.ops.aten.stack.default, items, 0)), Head(None, kind_of_item(x.items[0]))
    return None


def sliced(i: Interpreter, x: List, start: Any, end: Any, step: Any) -> List:
    """A part of a list between places that only data can tell, taken out item by item where the items are in no tensor."""
    whole = _tensor(i, x)
    if whole is not None:
        value, head = whole
        found = OPS["aten::slice.Tensor"](i, i.tensor(value), 0, start, end, step)
        return List([], i.scope, Head(i.value(found), head.kind, stacked=True, owner=head.owner))
    if step != 1:
        i.refuse("every second or further item is taken out of a list of a length that only data can tell")
    b, w = i.w.b, i.w
    items = sequence(i, x)
    assert items.value is not None
    assert isinstance(items.value.type, Sequence)
    count = b.sequence_length(items.value)

    def place(given: Any, default: Value) -> Value:
        if given is None:
            return default
        at = w.tensor(i.dim(given), i64)
        at = b.where(b.lt(at, 0), b.add(at, count), at)
        found: Value = b.minimum(b.maximum(at, 0), count)
        return found

    first, last = place(start, w.tensor(0, i64)), place(end, count)
    empty = b.sequence_empty(type=items.value.type.element)

    def body(inner: Any, turn: Value, part: Value) -> list[Value]:
        return [inner.constant(True), inner.sequence_insert(part, inner.sequence_at(items.value, inner.add(turn, first)))]

    graph = b.subgraph([Tensor(i64, ()), empty.type], body)
    made = b.emit("loop", [b.sub(last, first), None, empty], {"carried": 1}, [graph]).results[0]
    return List([], i.scope, Head(made, items.kind))
