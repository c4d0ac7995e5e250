"""What a script calls: its own functions and methods, and functions of Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from isthmus.frontends.torch.script.interpreter import script_node, script_op
from isthmus.frontends.torch.script.notation import inlined
from isthmus.frontends.torch.script.values import Instance

if TYPE_CHECKING:
    from isthmus.frontends.torch.script.interpreter import Interpreter


@script_node("prim::PythonOp")
def _python(i: Interpreter, node: Any, env: dict[int, Any]) -> list[Any]:
    """A function that is not scripted (`torch.jit.ignore`), which runs as in any model."""
    arguments = [i.leave(env[value.unique()]) for value in node.inputs()]
    place, i.watcher.provenance.script = i.watcher.provenance.script, None
    try:
        with i.watcher:
            found = node.pyobj()(*arguments)
    finally:
        i.watcher.provenance.script = place
    count = node.outputsSize()
    return [] if not count else [i.enter(found)] if count == 1 else [i.enter(each) for each in found]


@script_node("prim::CallMethod")
def _call_method(i: Interpreter, node: Any, env: dict[int, Any]) -> list[Any]:
    owner, *arguments = (env[value.unique()] for value in node.inputs())
    if isinstance(owner, Instance) and owner.module is not None:
        return i.call(owner.module._get_method(node.s("name")).graph, [owner, *arguments], owner.path, node.s("name"))
    return i.call(inlined(node), [owner, *arguments], i.path, node.s("name"))


@script_node("prim::CallFunction")
def _call_function(i: Interpreter, node: Any, env: dict[int, Any]) -> list[Any]:
    function, *arguments = node.inputs()
    return i.call(inlined(node), [env[value.unique()] for value in arguments], i.path, function.node().s("name"))


@script_node("prim::fork")
def _fork(i: Interpreter, node: Any, env: dict[int, Any]) -> list[Any]:
    """A part that may run beside the others; it runs at once."""
    found = i.block(node.g("Subgraph"), {}, [env[value.unique()] for value in node.inputs()])
    return [found[0] if len(found) == 1 else tuple(found)]


@script_op("aten::wait")
def _wait(i: Interpreter, x: Any) -> Any:
    return x
