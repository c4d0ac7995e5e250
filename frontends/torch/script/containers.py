"""TorchScript's lists, tuples, dicts, objects and strings."""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch

from isthmus.frontends.torch.script.interpreter import OPS, script_node, script_op
from isthmus.frontends.torch.script.sequences import (
    alike,
    copied,
    grow,
    item,
    item_value,
    joined,
    kind_of_item,
    length,
    looked_at,
    replaced,
    sequence,
    sliced,
)  # fmt: skip
from isthmus.frontends.torch.script.values import (
    UNSET,
    Box,
    Dict,
    Head,
    Instance,
    List,
    Maybe,
    Message,
    is_known,
    kind_of,
)  # fmt: skip
from isthmus.ir.dtypes import i64

if TYPE_CHECKING:
    from isthmus.frontends.torch.script.interpreter import Interpreter


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
    if isinstance(x, Message):
        i.refuse("the length of a text depends on sizes or data")
    return x.shape[0] if isinstance(x, torch.Tensor) else len(x.items if isinstance(x, Dict) else x)


def _index(items: Any, index: int) -> int:
    """The place of an item, counted from the front."""
    if not -len(items) <= index < len(items):
        raise IndexError("list index out of range")
    return index % len(items)


@script_op("aten::__getitem__", "aten::select.t")
def _getitem(i: Interpreter, x: Any, key: Any) -> Any:
    if isinstance(x, Dict):
        return x.items[_key(i, key)]
    if isinstance(x, str):
        return x[key]
    if is_known(key) and (x.head is None or -len(x.items) <= key < 0):
        return x.items[_index(x.items, key) if x.head is None else key]
    place = i.w.tensor(i.dim(key), i64)
    if x.head is None and alike(i, x.items):
        kind = kind_of_item(x.items[0])
        whole = i.value(i.op(torch.ops.aten.stack.default, List([i.tensor(item_value(i, each)) for each in x.items], None), 0))
        return copied(i, item(i, i.w.b.gather(whole, place, axis=0), kind), x)
    if x.head is not None and looked_at(i, x.head).stacked and not x.items:
        return copied(i, item(i, i.w.b.gather(x.head.value, place, axis=0), x.head.kind), x)
    found = sequence(i, x)
    return copied(i, item(i, i.w.b.sequence_at(found.value, place), found.kind), x)


@script_op("aten::_set_item")
def _setitem(i: Interpreter, x: Any, key: Any, new: Any) -> Any:
    i.change(x)
    if isinstance(x, Dict):
        x.items[_key(i, key)] = new
    elif is_known(key) and (x.head is None or -len(x.items) <= key < 0):
        x.items[_index(x.items, key) if x.head is None else key] = new
    elif x.head is None and alike(i, [*x.items, new]):
        b, place = i.w.b, i.w.tensor(i.dim(key), i64)
        place = b.where(b.lt(place, 0), b.add(place, len(x.items)), place)
        value, kind = item_value(i, new), kind_of_item(new)
        x.items = [
            item(i, b.where(b.eq(place, number), value, item_value(i, each)), kind) for number, each in enumerate(x.items)
        ]
    else:
        x.head, x.items = replaced(i, sequence(i, x), key, new), []
    return x


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
        grow(i, x, more)


@script_op("aten::insert")
def _insert(i: Interpreter, x: List, key: Any, new: Any) -> None:
    i.change(x)
    if x.head is None and is_known(key):
        x.items.insert(key, new)
        return
    b = i.w.b
    whole = sequence(i, x)
    count = b.sequence_length(whole.value)
    place = i.w.tensor(i.dim(key), i64)
    place = b.minimum(b.maximum(b.where(b.lt(place, 0), b.add(place, count), place), 0), count)
    x.head, x.items = Head(b.sequence_insert(whole.value, item_value(i, new), place), whole.kind), []


@script_op("aten::pop")
def _pop(i: Interpreter, x: Any, key: Any = -1, default: Any = UNSET) -> Any:
    i.change(x)
    if isinstance(x, Dict):
        return x.items.pop(_key(i, key)) if default is UNSET else x.items.pop(_key(i, key), default)
    if is_known(key) and (x.head is None or -len(x.items) <= key < 0):
        return x.items.pop(key)
    if key not in (0, -1):
        i.refuse("an item is taken out of a list, which only data can tell", "keep the items in a tensor")
    found = _getitem(i, x, key)
    rest = sliced(i, x, 1, None, 1) if key == 0 else sliced(i, x, None, -1, 1)
    x.head, x.items = rest.head, []
    return found


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
    return sliced(i, x, start, end, step)


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
        ("aten::index", "the place of an item", "list_int list_float list_bool list_str", list.index),
        ("aten::count", "the count", "int float bool", list.count),
        ("aten::sorted", "the order", "int float bool str", sorted),
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
def _dict_of(i: Interpreter, x: Any = None) -> Dict:
    pairs = x.items.items() if isinstance(x, Dict) else [] if x is None else i.flat(x)
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
            made = i.module(found, path) if isinstance(found, torch._C.ScriptModule) else i.enter(found)
        if isinstance(made, Box) and not isinstance(found, torch._C.ScriptModule):
            made.attribute = path
        x.loaded[name] = made
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
    return text if is_known(parts) else Message(text)


def shown(x: Any) -> Any:
    """A value as text shows it; a word for what only sizes or data can tell."""
    if isinstance(x, List):
        return [shown(each) for each in x.items]
    return x if is_known(x) else "<number>" if kind_of(x) else repr(x)
