"""Models that were right until somebody changed something in them: an error of isthmus', or a model; nothing else.

``python tests/frontends/onnx/fuzz.py SEED COUNT [WORD...]`` changes the standard's test models (those whose names hold one of
the words) at random, compiles each for a random opset, evaluates it here, and prints what goes wrong, with its seed.
"""

from __future__ import annotations

import collections
import copy
import random
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import onnx
from onnx import TensorProto

import isthmus
from isthmus.backends.onnx.opsets import NEWEST
from isthmus.errors import IsthmusError

OPSETS: Final = (7, 9, 11, 13, 15, 17, 18, 21, NEWEST)
NUMBERS: Final = (0, 1, -1, 2, 3, -2, 7, 100, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 62) - 1, (1 << 63) - 1, -(1 << 63))
FLOATS: Final = (0.0, -1.0, 1e-30, 1e30, float("inf"), float("nan"))
TYPES: Final = tuple(range(1, 29))
SECONDS: Final = 15
"""Of this process; others may be on the machine."""
MEMORY: Final = 4 << 30


OUTCOMES: Final = ("made", "refused", "made, evaluated", "refused, evaluated")


class SlowError(Exception):
    """It takes too long."""


def graphs(proto: Any) -> list[Any]:
    """The graph of a model and those nested in it."""
    found = [proto.graph]
    for graph in found:
        for node in graph.node:
            found += [inner for each in node.attribute for inner in (each.g, *each.graphs) if inner.node]
    return found


def _node(graph: Any, draws: random.Random) -> Any:
    return draws.choice(graph.node) if graph.node else None


def _names(graph: Any) -> list[str]:
    made = [name for node in graph.node for name in (*node.input, *node.output)]
    return [*made, *(each.name for each in (*graph.input, *graph.initializer)), "", "nothing"]


def swap_inputs(graph: Any, draws: random.Random) -> None:
    node = _node(graph, draws)
    if node is not None and len(node.input) > 1:
        inputs = list(node.input)
        draws.shuffle(inputs)
        del node.input[:]
        node.input.extend(inputs)


def _name_at(ends: str, graph: Any, draws: random.Random) -> None:
    """Another name at one of a node's ends."""
    node = _node(graph, draws)
    if node is not None and (names := getattr(node, ends)):
        names[draws.randrange(len(names))] = draws.choice(_names(graph))


def _fewer(part: str, graph: Any, draws: random.Random) -> None:
    """One less of a part of a node."""
    node = _node(graph, draws)
    if node is not None and (items := getattr(node, part)):
        del items[draws.randrange(len(items))]


def more_ends(graph: Any, draws: random.Random) -> None:
    node = _node(graph, draws)
    if node is not None:
        draws.choice((node.input, node.output)).append(draws.choice(_names(graph)))


def another_op(graph: Any, draws: random.Random) -> None:
    node = _node(graph, draws)
    if node is not None:
        node.op_type = draws.choice(ALL_OPS)


def another_number(graph: Any, draws: random.Random) -> None:
    node = _node(graph, draws)
    if node is None or not node.attribute:
        return
    each = draws.choice(node.attribute)
    if each.type == each.INT:
        each.i = draws.choice(NUMBERS)
    elif each.type == each.FLOAT:
        each.f = draws.choice(FLOATS)
    elif each.type == each.INTS:
        numbers = [draws.choice((number, *NUMBERS)) for number in each.ints]
        del each.ints[:]
        each.ints.extend(numbers[: draws.randint(0, len(numbers))] if draws.random() < 0.3 else numbers)
    elif each.type == each.STRING:
        each.s = draws.choice((b"", b"linear", b"VALID", b"SAME_UPPER", b"max", b"\xff", each.s * 2))


def another_type(graph: Any, draws: random.Random) -> None:
    ends = [*graph.input, *graph.output, *graph.value_info]
    if ends:
        draws.choice(ends).type.tensor_type.elem_type = draws.choice(TYPES)


def another_size(graph: Any, draws: random.Random) -> None:
    ends = [each for each in (*graph.input, *graph.output) if each.type.tensor_type.shape.dim]
    if ends:
        dims = draws.choice(ends).type.tensor_type.shape.dim
        dim = dims[draws.randrange(len(dims))]
        kind = draws.randrange(3)
        if kind == 0:
            dim.dim_value = draws.choice(NUMBERS)
        elif kind == 1:
            dim.dim_param = draws.choice(("N", "M", "N + 1", "N//2", "", "-1", "N*M"))
        else:
            del dims[:1]


def another_constant(graph: Any, draws: random.Random) -> None:
    tensors = [*graph.initializer, *(each.t for node in graph.node for each in node.attribute if each.type == each.TENSOR)]
    if not tensors:
        return
    tensor = draws.choice(tensors)
    if tensor.data_type == TensorProto.INT64 and tensor.raw_data and draws.random() < 0.7:
        content = bytearray(tensor.raw_data)
        at = draws.randrange(0, max(1, len(content) - 7), 8)
        content[at : at + 8] = draws.choice(NUMBERS).to_bytes(8, "little", signed=True)
        tensor.raw_data = bytes(content)
    elif tensor.dims and draws.random() < 0.5:
        tensor.dims[draws.randrange(len(tensor.dims))] = draws.choice(NUMBERS)
    else:
        tensor.data_type = draws.choice(TYPES)


def input_as_constant(graph: Any, draws: random.Random) -> None:
    """An input becomes a small constant, so that what follows is folded."""
    if graph.input:
        at = draws.randrange(len(graph.input))
        type = graph.input[at].type.tensor_type
        size = draws.choice((0, 1, 2, 3))
        if type.elem_type in (TensorProto.FLOAT, TensorProto.INT64):
            made = onnx.helper.make_tensor(graph.input[at].name, type.elem_type, [size], [draws.choice(NUMBERS[:8])] * size)
            graph.initializer.append(made)
            del graph.input[at]


def node_twice(graph: Any, draws: random.Random) -> None:
    node = _node(graph, draws)
    if node is not None:
        graph.node.insert(draws.randrange(len(graph.node) + 1), copy.deepcopy(node))


def no_node(graph: Any, draws: random.Random) -> None:
    if graph.node:
        del graph.node[draws.randrange(len(graph.node))]


CHANGES: Final[Sequence[Callable[[Any, random.Random], None]]] = (
    swap_inputs, partial(_name_at, "input"), partial(_fewer, "input"), more_ends, partial(_name_at, "output"), another_op,
    partial(_fewer, "attribute"), another_number, another_number,
    another_type, another_size, another_size, another_constant, another_constant, input_as_constant, node_twice, no_node,
)  # fmt: skip
ALL_OPS: Final = sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain})


def changed(proto: Any, draws: random.Random) -> Any:
    """A copy with one to three changes."""
    made = copy.deepcopy(proto)
    for _ in range(draws.randint(1, 3)):
        if draws.random() < 0.05 and made.opset_import:
            made.opset_import[0].version = draws.choice((*OPSETS, 1, 3, 5, 6, 99))
        else:
            draws.choice(CHANGES)(draws.choice(graphs(made)), draws)
    return made


def outcome(proto: Any, draws: random.Random) -> str:
    """What becomes of a model, one of `OUTCOMES`; an exception that is not isthmus' passes."""
    try:
        isthmus.compile(proto, opset=draws.choice(OPSETS), verify_ir=True)
        found = "made"
    except IsthmusError:
        found = "refused"
    try:
        net = isthmus.compile(proto, target="reference")
        args, kwargs = net.captured.fresh_inputs(0)
        net(*args, **kwargs)
    except IsthmusError:
        return found
    return f"{found}, evaluated"


def _alarm(*_: Any) -> None:
    raise SlowError


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    import standard

    warnings.simplefilter("ignore")
    first, count, *words = sys.argv[1:]
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))
    signal.signal(signal.SIGVTALRM, _alarm)
    models = [(name, standard.load(case)[1]) for name, case in standard.cases().items() if "_light_" not in name]
    models = [(name, model) for name, model in models if model.ByteSize() < 1 << 16]
    models = [(name, model) for name, model in models if not words or any(word in name for word in words)]
    counts: collections.Counter[str] = collections.Counter()
    for seed in range(int(first), int(first) + int(count)):
        draws = random.Random(seed)
        name, model = draws.choice(models)
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        try:
            found = outcome(changed(model, draws), draws)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            found = f"WRONG: {type(error).__name__}"
            where = "".join(traceback.format_tb(error.__traceback__)[-2:])
            print(seed, name, found, str(error)[:200], where, flush=True)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        counts[found] += 1
    print(dict(counts))
