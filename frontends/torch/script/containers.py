"""TorchScript's lists, tuples, dicts, objects and strings."""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch

from isthmus.frontends.torch.script.interpreter import OPS, Rerun, script_node, script_op
from isthmus.frontends.torch.script.values import (
    UNSET,
    Dict,
    Head,
    Instance,
    List,
    Maybe,
    Text,
    is_known,
    kind_of,
)  # fmt: skip
from isthmus.ir.dtypes import i64
from isthmus.ir.graph import Value
from isthmus.ir.types import Sequence, Tensor

if TYPE_CHECKING:
    from isthmus.frontends.torch.script.interpreter import Interpreter


# ---- lists of which only data can tell the length


def kind_of_item(x: Any) -> type:
    """``torch.Tensor``, or what number an item is."""
    return torch.Tensor if isinstance(x, torch.Tensor) else kind_of(x) or type(x)


def looked_at(head: Head) -> Head:
    """The head of a list whose items somebody looks at.

    Raises:
        Rerun: a loop has to be run anew, with the list as one of its values.
    """
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
    head = None if items.head is None else looked_at(items.head)
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
    head = looked_at(items.head)
    assert head.value is not None
    if head.stacked:
        count = i.watcher.sizes.give(i.w.dims(head.value)[0])
    else:
        count = i.number(i.w.b.sequence_length(head.value), int)
    return count + len(items.items) if items.items else count


def joined(i: Interpreter, items: List, axis: int, new: bool) -> torch.Tensor:
    """The items of a list with a head, stacked along a new axis or concatenated."""
    assert items.head is not None
    head = looked_at(items.head)
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
    axis %= len(element.shape) + new or 1
    return i.tensor(i.w.b.sequence_concat(whole.value, axis=axis, new_axis=new))


@script_op("aten::stack")
def _stack(i: Interpreter, items: List, dim: Any) -> Any:
    return joined(i, items, dim, True) if items.head else i.op(torch.ops.aten.stack.default, items, dim)


@script_op("aten::cat", "aten::concat", "aten::concatenate")
def _cat(i: Interpreter, items: List, dim: Any = 0) -> Any:
    return joined(i, items, dim, False) if items.head else i.op(torch.ops.aten.cat.default, items, dim)


# ---- lists


@script_node("prim::ListConstruct")
def _list(i: Interpreter, node: Any, env: dict[int, Any]) -> list[Any]:
    return [List([env[value.unique()] for value in node.inputs()], i.scope)]


@script_op("aten::list", "aten::copy.t", "aten::copy.Dict_str", "aten::copy.Dict_int", "aten::copy.Dict_float")
def _copy(i: Interpreter, items: Any) -> Any:
    if isinstance(items, str):
        return List(list(items), i.scope)
    if isinstance(items, Dict):
        return Dict(dict(items.items), i.scope)
    return List(list(items.items), i.scope, items.head)


@script_op("aten::len")
def _len(i: Interpreter, x: Any) -> Any:
    if isinstance(x, List):
        return length(i, x)
    return x.shape[0] if isinstance(x, torch.Tensor) else len(x.items if isinstance(x, Dict) else x)


def _index(i: Interpreter, items: Any, index: Any) -> int:
    """The place of an item in a list whose length is known."""
    if is_known(index):
        if not -len(items) <= index < len(items):
            raise IndexError("list index out of range")
        return int(index) % len(items)
    return -1


@script_op("aten::__getitem__", "aten::select.t")
def _getitem(i: Interpreter, x: Any, key: Any) -> Any:
    if isinstance(x, Dict):
        return x.items[_key(i, key)]
    if isinstance(x, str):
        return x[key]
    if x.head is None and is_known(key):
        return x.items[_index(i, x.items, key)]
    if x.head is None and all(is_known(each) and each == x.items[0] for each in x.items[1:]) and len(x.items) > 1:
        return x.items[0]
    head = x.head
    if head is not None and is_known(key) and -len(x.items) <= key < 0:
        return x.items[key]
    if head is not None and looked_at(head).stacked and not x.items:
        value = i.w.b.gather(head.value, i.w.tensor(i.dim(key), i64), axis=0)
        return item(i, value, head.kind)
    if head is None and kind_of_item(x.items[0]) is not torch.Tensor:
        stacked = i.value(OPS["aten::tensor"](i, x))
        return item(i, i.w.b.gather(stacked, i.w.tensor(i.dim(key), i64), axis=0), kind_of_item(x.items[0]))
    whole = sequence(i, x)
    return item(i, i.w.b.sequence_at(whole.value, i.w.tensor(i.dim(key), i64)), whole.kind)


@script_op("aten::_set_item")
def _setitem(i: Interpreter, x: Any, key: Any, new: Any) -> Any:
    i.change(x)
    if isinstance(x, Dict):
        x.items[_key(i, key)] = new
    elif x.head is None and is_known(key):
        x.items[_index(i, x.items, key)] = new
    elif x.head is not None and is_known(key) and -len(x.items) <= key < 0:
        x.items[key] = new
    else:
        x.head, x.items = _replaced(i, sequence(i, x), key, new), []
    return x


def _replaced(i: Interpreter, whole: Head, key: Any, new: Any) -> Head:
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


@script_op("aten::append")
def _append(i: Interpreter, x: List, new: Any) -> List:
    i.change(x)
    x.items.append(new)
    return x


@script_op("aten::extend")
def _extend(i: Interpreter, x: List, more: List) -> None:
    i.change(x)
    if more.head is None or (x.head is None and not x.items):
        x.head, x.items = more.head or x.head, x.items + list(more.items)
    else:
        _grow(i, x, more)


def _grow(i: Interpreter, x: List, more: List) -> None:
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


@script_op("aten::insert")
def _insert(i: Interpreter, x: List, key: Any, new: Any) -> None:
    i.change(x)
    if x.head is None and is_known(key):
        x.items.insert(key, new)
    else:
        i.refuse("an item is put into a list at a place or of a length that only data can tell", "append it")


@script_op("aten::pop")
def _pop(i: Interpreter, x: Any, key: Any = -1, default: Any = UNSET) -> Any:
    i.change(x)
    if isinstance(x, Dict):
        return x.items.pop(key) if default is UNSET else x.items.pop(key, default)
    if not is_known(key) or (x.head is not None and not -len(x.items) <= key < 0):
        i.refuse("an item is taken out of a list, which only data can tell", "keep the items in a tensor")
    return x.items.pop(key)


@script_op("aten::clear")
def _clear(i: Interpreter, x: Any) -> None:
    i.change(x)
    if isinstance(x, List):
        x.head = None
    x.items.clear()


@script_op("aten::reverse")
def _reverse(i: Interpreter, x: List) -> None:
    i.change(x)
    x.items = i.flat(x)[::-1]


@script_op("aten::add.t")
def _add(i: Interpreter, left: List, right: List) -> List:
    found = List(list(left.items), i.scope, left.head)
    _extend(i, found, right)
    return found


OPS["aten::add_.t"] = lambda i, left, right: (_extend(i, left, right), left)[1]


@script_op("aten::mul.left_t", "aten::mul.right_")
def _mul(i: Interpreter, left: Any, right: Any) -> List:
    items, count = (left, right) if isinstance(left, List) else (right, left)
    if not is_known(count):
        i.refuse("a list is repeated a number of times that only sizes or data can tell", "use torch.full, or repeat a tensor")
    return List(i.flat(items) * count, i.scope)


@script_op("aten::slice.t")
def _slice(i: Interpreter, x: List, start: Any, end: Any, step: Any) -> List:
    if x.head is None and is_known((start, end, step)):
        return List(x.items[start:end:step], i.scope)
    if start in (0, None) and (end is None or (is_known(end) and end >= 2**62)):
        return List(list(x.items), i.scope, x.head)
    return _sliced(i, x, start, end, step)


def _sliced(i: Interpreter, x: List, start: Any, end: Any, step: Any) -> List:
    """A part of a list between places that only data can tell, taken out item by item."""
    if step != 1:
        i.refuse("every second or further item is taken out of a list of a length that only data can tell")
    b, w = i.w.b, i.w
    whole = sequence(i, x)
    assert whole.value is not None
    assert isinstance(whole.value.type, Sequence)
    count = b.sequence_length(whole.value)

    def place(given: Any, default: Value) -> Value:
        if given is None:
            return default
        at = w.tensor(i.dim(given), i64)
        at = b.where(b.lt(at, 0), b.add(at, count), at)
        found: Value = b.minimum(b.maximum(at, 0), count)
        return found

    first, last = place(start, w.tensor(0, i64)), place(end, count)
    empty = b.sequence_empty(type=whole.value.type.element)

    def body(inner: Any, turn: Value, items: Value) -> list[Value]:
        return [inner.constant(True), inner.sequence_insert(items, inner.sequence_at(whole.value, inner.add(turn, first)))]

    graph = b.subgraph([Tensor(i64, ()), empty.type], body)
    found = b.emit("loop", [b.sub(last, first), None, empty], {"carried": 1}, [graph]).results[0]
    return List([], i.scope, Head(found, whole.kind))


def _of_known(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """An op on a list of numbers and strings that are Python's."""

    def op(i: Interpreter, x: List, *rest: Any) -> Any:
        items = i.flat(x)
        if not is_known(x) or not is_known(rest):
            i.refuse(f"{what} of a list whose items only sizes or data can tell is not carried over", "put them into a tensor")
        found = function(items, *rest)
        return List(found, i.scope) if isinstance(found, list) else found

    return op


OPS.update({
    f"{name}.{overload}": _of_known(what, function)
    for name, what, overloads, function in (
        ("aten::sum", "the sum", "int float bool", sum),
        ("aten::index", "the place of an item", "list_int list_float list_bool list_str", list.index),
        ("aten::count", "the count", "int float bool", list.count),
        ("aten::sorted", "the order", "int float bool str", sorted),
        ("prim::min", "the least", "self_int self_float self_bool", min),
        ("prim::max", "the greatest", "self_int self_float self_bool", max),
        ("aten::any", "any", "int float bool str", any),
        ("aten::all", "all", "int float bool", all),
    )
    for overload in overloads.split()
})  # fmt: skip


@script_op("aten::sort.int", "aten::sort.float", "aten::sort.str", "aten::sort.bool")
def _sort(i: Interpreter, x: List, reverse: Any = False) -> None:
    i.change(x)
    if not is_known(x):
        i.refuse("a list is sorted whose items only sizes or data can tell", "put them into a tensor, and sort that")
    x.items.sort(reverse=reverse)


@script_op("aten::remove")
def _remove(i: Interpreter, x: List, gone: Any) -> None:
    i.change(x)
    if not is_known(x) or not is_known(gone):
        i.refuse("an item is taken out of a list whose items only sizes or data can tell")
    x.items.remove(gone)


@script_node("prim::ListUnpack", "prim::TupleUnpack")
def _unpack(i: Interpreter, node: Any, env: dict[int, Any]) -> list[Any]:
    (x,) = (env[value.unique()] for value in node.inputs())
    items = list(x) if isinstance(x, tuple) else i.flat(x)
    if len(items) != node.outputsSize():
        raise RuntimeError(f"Expected {node.outputsSize()} elements in a list but found {len(items)}")
    return items


# ---- tuples


@lru_cache(64)
def _named(name: str, fields: tuple[str, ...]) -> Any:
    return namedtuple(name, fields)


@script_node("prim::TupleConstruct")
def _tuple(i: Interpreter, node: Any, env: dict[int, Any]) -> list[Any]:
    items = [env[value.unique()] for value in node.inputs()]
    type = node.output().type()
    if type.str().startswith("NamedTuple("):
        fields = tuple(re.findall(r"(\w+) : ", type.str()))
        if len(fields) == len(items):
            return [_named(type.annotation_str.rpartition(".")[2], fields)(*items)]
    return [tuple(items)]


@script_op("prim::TupleIndex")
def _tuple_index(i: Interpreter, x: Any, key: Any) -> Any:
    return x[key]


@script_node("prim::TupleSlice")
def _tuple_slice(i: Interpreter, node: Any, env: dict[int, Any]) -> list[Any]:
    (x,) = (env[value.unique()] for value in node.inputs())
    return [tuple(x[node.i("beg") : node.i("end")])]


# ---- dicts


def _key(i: Interpreter, key: Any) -> Any:
    if not is_known(key):
        i.refuse("the key of a dict depends on sizes or data", "use a fixed key, or keep a tensor")
    return key


@script_node("prim::DictConstruct")
def _dict(i: Interpreter, node: Any, env: dict[int, Any]) -> list[Any]:
    given = [env[value.unique()] for value in node.inputs()]
    return [Dict({_key(i, key): value for key, value in zip(given[::2], given[1::2], strict=True)}, i.scope)]


@script_op("aten::dict")
def _dict_of(i: Interpreter, x: Any) -> Dict:
    pairs = x.items.items() if isinstance(x, Dict) else i.flat(x)
    return Dict({_key(i, key): value for key, value in pairs}, i.scope)


@script_op("aten::__contains__")
def _contains(i: Interpreter, x: Any, key: Any) -> Any:
    if isinstance(x, Dict):
        return _key(i, key) in x.items
    found: Any = False
    for each in i.flat(x):
        found = i.both("or", found, OPS["aten::eq"](i, each, key) if kind_of(each) else each == key)
    return found


OPS.update({
    "aten::keys": lambda i, x: List(list(x.items), i.scope),
    "aten::values": lambda i, x: List(list(x.items.values()), i.scope),
    "aten::items": lambda i, x: List(list(x.items.items()), i.scope),
})


@script_op("aten::get")
def _get(i: Interpreter, x: Dict, key: Any, default: Any = None) -> Any:
    return x.items.get(_key(i, key), default)


@script_op("aten::setdefault")
def _setdefault(i: Interpreter, x: Dict, key: Any, default: Any) -> Any:
    i.change(x)
    return x.items.setdefault(_key(i, key), default)


@script_op("aten::update")
def _update(i: Interpreter, x: Dict, more: Dict) -> None:
    i.change(x)
    x.items.update(more.items)


@script_op("aten::Delete", "aten::__delitem__")
def _delete(i: Interpreter, x: Any, key: Any) -> None:
    i.change(x)
    if isinstance(x, Dict):
        del x.items[_key(i, key)]
    elif not is_known(key):
        i.refuse("an item is deleted at a place that only data can tell")
    else:
        del i.flat(x)[key]


@script_op("aten::popitem")
def _popitem(i: Interpreter, x: Dict) -> Any:
    i.change(x)
    return x.items.popitem()


# ---- objects


@script_node("prim::CreateObject")
def _create(i: Interpreter, node: Any, env: dict[int, Any]) -> list[Any]:
    return [Instance(i.scope, node.output().type().annotation_str)]


@script_node("prim::GetAttr")
def _getattr(i: Interpreter, node: Any, env: dict[int, Any]) -> list[Any]:
    (x,) = (env[value.unique()] for value in node.inputs())
    return [attribute(i, x, node.s("name"))]


def attribute(i: Interpreter, x: Any, name: str) -> Any:
    """An attribute of an object or module."""
    if isinstance(x, tuple):
        return getattr(x, name)
    if name in x.items or x.module is None:
        return x.items[name]
    if name not in x.loaded:
        found = x.module.getattr(name)
        path = f"{x.path}.{name}" if x.path else name
        with i.outside():
            x.loaded[name] = i.module(found, path) if isinstance(found, torch._C.ScriptModule) else i.enter(found)
    return x.loaded[name]


@script_node("prim::SetAttr")
def _setattr(i: Interpreter, node: Any, env: dict[int, Any]) -> list[Any]:
    x, new = (env[value.unique()] for value in node.inputs())
    name = node.s("name")
    if x.module is not None:
        old = attribute(i, x, name)
        if old is new:
            return []  # `self.count += 1` on a tensor, which was written to in place
        scope = i.scope
        while scope is not None:  # both branches know the attribute then
            if x in scope.changed:
                scope.changed[x].setdefault(name, old)
            scope = scope.parent
        x.items.setdefault(name, old)
        i.watcher.kept[f"{x.path}.{name}" if x.path else name] = (x, name)
    i.change(x)
    x.items[name] = new
    return []


@script_op("prim::ModuleContainerIndex")
def _module_index(i: Interpreter, x: Instance, key: Any) -> Any:
    if not is_known(key):
        i.refuse("a module is chosen by a number or name that only data can tell", "call all, and choose among the results")
    return attribute(i, x, str(key))


# ---- what may be None


@script_op("prim::unchecked_cast", "prim::unchecked_unwrap_optional", "aten::_unwrap_optional")
def _unwrap(i: Interpreter, x: Any) -> Any:
    if x is None:
        raise RuntimeError("Unwrapping null optional")
    return x.held if isinstance(x, Maybe) else x


# ---- strings


@script_op("aten::format")
def _format(i: Interpreter, text: str, *parts: Any) -> str:
    return told(text.format(*map(shown, parts)), parts)


@script_op("aten::percentFormat")
def _percent(i: Interpreter, text: str, *parts: Any) -> str:
    return told(text % tuple(map(shown, parts)) if all(map(is_known, parts)) else text, parts)


@script_op("aten::str")
def _str(i: Interpreter, x: Any) -> str:
    return told(str(shown(x)), (x,))


@script_op("aten::join")
def _join(i: Interpreter, text: str, parts: List) -> str:
    return told(text.join(i.flat(parts)), parts)


def told(text: str, parts: Any) -> str:
    """A text made of these."""
    return text if is_known(parts) else Text(text)


def shown(x: Any) -> Any:
    """A value as text shows it; a word for what only sizes or data can tell."""
    if isinstance(x, List):
        return [shown(each) for each in x.items]
    return x if is_known(x) else "<number>" if kind_of(x) else repr(x)
