"""The standard's own test models, run through isthmus: imported, and evaluated here or compiled, run and compared.

``python tests/frontends/onnx/standard.py [WORD...] [--onnx] [--opset=N]`` prints what becomes of those whose names hold one of
the words: evaluated here, or compiled for onnxruntime, at the opset that the file is of or at another.
"""

from __future__ import annotations

import glob
import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np
import onnx
from onnx.backend.test.loader import load_model_tests

import isthmus
from isthmus.backends.onnx.opsets import NEWEST, OLDEST
from isthmus.backends.onnx.runtime import Evaluator, Session
from isthmus.errors import EvaluationError, IsthmusError, UnsupportedError
from isthmus.verification import random_outputs

KINDS: Final = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")
"""The kinds of models that onnx brings along. Of the real ones these are the light ones, whose weights are all alike."""
STANDARD: Final = ("", "ai.onnx.preview", "ai.onnx.preview.training", "ai.onnx.ml")
VERDICTS: Final = ("right", "nearer", "evaluated", "opaque", "refused", "wrong", "crash")
"""What becomes of a model, the best first. ``nearer``: not within the case's tolerance of the stored outputs, which were
rounded on the way, and nearer than they to what the model gives in f64. ``evaluated``: right where ONNX's own evaluator runs
it, as it runs the original, which onnxruntime does not. ``opaque``: right, with nodes that stay as they were."""


@cache
def cases() -> dict[str, Any]:
    """Every test model by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for kind in KINDS for case in load_model_tests(kind=kind)}


def file_of(case: Any) -> Path | None:
    """The file of a case; None where it is made in memory."""
    if case.model is not None:
        return None
    if case.model_dir:
        return Path(case.model_dir, "model.onnx")
    return Path(onnx.__file__).parents[1] / case.url


def load(case: Any) -> tuple[Any, Any]:
    """What to compile (a file where there is one), and the model."""
    path = file_of(case)
    return (case.model, case.model) if path is None else (path, onnx.load(path, load_external_data=False))


def inputs_of(model: Any) -> list[Any]:
    """What a caller gives. Before IR version 4 all initializers are among the inputs."""
    constants = {each.name for each in model.graph.initializer} if model.ir_version < 4 else ()
    return [each for each in model.graph.input if each.name not in constants]


def data(case: Any, model: Any) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """The stored inputs by name, and outputs in order, of a case."""
    names = [each.name for each in model.graph.input]
    for inputs, outputs in case.data_sets or ():
        yield dict(zip(names, map(_array, inputs), strict=True)), list(map(_array, outputs))
    for folder in sorted(glob.glob(os.path.join(case.model_dir, "test_data_set_*"))) if case.model_dir else ():
        inputs, outputs = (
            [_read(os.path.join(folder, f"{what}_{index}.pb"), value.type) for index, value in enumerate(values)]
            for what, values in (("input", model.graph.input), ("output", model.graph.output))
        )
        constants = {each.name: each for each in model.graph.initializer}
        found = dict(zip(names, inputs, strict=True))
        own = {name: _array(constants[name]) for name, content in found.items() if content is None and name in constants}
        yield found | own, outputs
    if case.url:  # as the standard's runner makes them up
        shapes = {each.name: [dim.dim_value for dim in each.type.tensor_type.shape.dim] for each in inputs_of(model)}
        made = {each.name: _array(each) for each in model.graph.initializer}
        made.update((name, _rising(shape)) for name, shape in shapes.items())
        path = str(file_of(case)).removesuffix(".onnx")
        yield made, [_read(f"{path}_output_{index}.pb", value.type) for index, value in enumerate(model.graph.output)]


def _rising(shape: list[int]) -> Any:
    count = int(np.prod(shape))
    return (np.arange(count).reshape(shape) / count).astype(np.float32)


def _array(content: Any) -> Any:
    return onnx.numpy_helper.to_array(content) if isinstance(content, onnx.TensorProto) else content


def _read(path: str, type: Any) -> Any:
    if not os.path.exists(path):
        return None
    content = Path(path).read_bytes()
    kind = type.WhichOneof("value")
    if kind == "sequence_type":
        return onnx.numpy_helper.to_list(onnx.SequenceProto.FromString(content))
    if kind == "optional_type":
        return onnx.numpy_helper.to_optional(onnx.OptionalProto.FromString(content))
    return onnx.numpy_helper.to_array(onnx.TensorProto.FromString(content))


def differs(found: Any, wanted: Any, case: Any, drawn: bool = False) -> str | None:
    """How two outputs differ, by the case's own tolerance; None where they do not. Of what is drawn at random, element type and
    shape count."""
    if wanted is None or isinstance(wanted, list):
        if (found is None) != (wanted is None):
            return f"{found!r} in place of {wanted!r}"
        if wanted is None:
            return None
        if len(found) != len(wanted):
            return f"{len(found)} elements in place of {len(wanted)}"
        return next(filter(None, (differs(a, b, case) for a, b in zip(found, wanted, strict=True))), None)
    if isinstance(wanted, dict):
        return None if found == wanted else f"{found!r} in place of {wanted!r}"
    found, wanted = np.asarray(found), np.asarray(wanted)
    if found.shape != wanted.shape:
        return f"shape {found.shape} in place of {wanted.shape}"
    if wanted.dtype.kind in "OUST":
        return None if (found.astype(str) == wanted.astype(str)).all() else "texts differ"
    if found.dtype != wanted.dtype:
        return f"element type {found.dtype} in place of {wanted.dtype}"
    if drawn:
        return None
    if wanted.dtype.kind in "biu":
        return None if np.array_equal(found, wanted) else "numbers differ"
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    a, b = found.astype(wide), wanted.astype(wide)
    rtol = max(case.rtol, 2**-6) if wanted.dtype == ml_dtypes.bfloat16 else case.rtol  # as the standard's runner has it
    if np.allclose(a, b, rtol=rtol, atol=case.atol, equal_nan=True):
        return None
    return f"off by {np.nanmax(np.abs(a - b)):.3g}"


def compared(case: Any, model: Any, run: Callable[[dict[str, Any]], Sequence[Any]], drawn: Sequence[bool] = ()) -> str | None:
    """How what a model gives differs from the stored outputs; None where it does not."""
    for inputs, outputs in data(case, model):
        random = drawn or [False] * len(outputs)
        for index, (mine, theirs, chance) in enumerate(zip(run(inputs), outputs, random, strict=True)):
            off = differs(mine, theirs, case, chance)
            if off is not None:
                return f"output {index}: {off}"
    return None


def run_plainly(kind: Any, model: Any) -> Callable[[dict[str, Any]], Sequence[Any]]:
    """A model as it is, in `Session` or `Evaluator`."""
    session = kind(model.SerializeToString() if isinstance(model, onnx.ModelProto) else model)

    def run(inputs: dict[str, Any]) -> Sequence[Any]:
        found: Sequence[Any] = session([inputs[name] for name in session.inputs])
        return found

    return run


@cache
def original(name: str) -> tuple[str, str | None]:
    """What runs the unchanged model (``onnxruntime``, ``evaluator`` or ``nothing``), and how its outputs differ from the stored
    ones; None where they do not."""
    case = cases()[name]
    path, model = load(case)
    reasons = []
    for what, kind in (("onnxruntime", Session), ("evaluator", Evaluator)):
        try:
            return what, compared(case, model, run_plainly(kind, path))
        except IsthmusError as error:
            reasons.append(_line(error))
    return "nothing", "; ".join(reasons)


def counts(name: str) -> bool:
    """Whether the unchanged model gives the stored outputs, so that isthmus must give them as well."""
    return original(name)[1] is None


def opset_of(model: Any) -> int:
    """The opset to write a model at: its own, where there is one to write."""
    own = max((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), default=1)
    return int(min(max(own, OLDEST), NEWEST))


def changed(model: Any, written: Any) -> str | None:
    """What a file that isthmus wrote says otherwise of inputs and outputs than the original does; None where it is the same."""
    meant = {each.name for each in inputs_of(model)}
    constants = {each.name for each in model.graph.initializer} - meant
    for what, mine, theirs in (
        ("input", [each for each in inputs_of(written) if each.name not in constants], inputs_of(model)),
        ("output", list(written.graph.output), list(model.graph.output)),
    ):
        names = [[each.name for each in ends] for ends in (mine, theirs)]
        if names[0] != names[1]:
            return f"the {what}s are {names[0]} in place of {names[1]}"
        for one, other in zip(mine, theirs, strict=True):
            if other.type.WhichOneof("value") and one.type != other.type:
                return f"the {what} {one.name} is of another type: {_line(one.type)} in place of {_line(other.type)}"
    return None


def objection(model: Any) -> str | None:
    """What `onnx.checker` has against a model."""
    try:
        onnx.checker.check_model(str(model) if isinstance(model, Path) else model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return _line(error)
    return None


def verdict(name: str, target: str = "reference", **options: Any) -> str:
    """What becomes of a case: one of `VERDICTS`, all but the first with a colon and what there is to say."""
    found = _verdict(name, target, options)
    if target != "onnx" or found == "right" or "profile" in options or original(name)[0] == "onnxruntime":
        return found
    again = _verdict(name, target, {**options, "profile": "onnx"})
    return f"evaluated: {found}" if again == "right" else again if again.startswith(("opaque", "wrong")) else found


def _verdict(name: str, target: str, options: dict[str, Any]) -> str:
    case = cases()[name]
    path, model = load(case)
    if target == "onnx":
        options = {"opset": opset_of(model), **options}
    try:
        net = isthmus.compile(path, target=target, **options)
        if target == "onnx":
            written = net.artefact.model  # type: ignore[attr-defined]
            off = changed(model, written) or (_no_more_than(path, objection(written)))
            if off is not None:
                return f"wrong: {off}"
        off = compared(
            case, model, lambda inputs: list(net(*(inputs[name] for name in net.input_names)).values()),
            random_outputs(net.captured.graph),
        )  # fmt: skip
    except IsthmusError as error:
        return f"refused: {_line(error)}"
    except Exception as error:
        return f"crash: {type(error).__name__}: {_line(error)}"
    if off is not None:
        return f"{'nearer' if ': off by' in off and nearer(name, net) else 'wrong'}: {off}"
    opaque = [f"{domain}.{op}" if domain else op for domain, op in net.captured.imported.opaque]  # type: ignore[attr-defined]
    return f"opaque: {', '.join(opaque)}" if opaque else "right"


def simplified(name: str) -> str:
    """What becomes of a case that is made simpler, as `isthmus simplify` does it, and then once more: ``right``, ``grown`` or
    ``unstable`` (the second file is another than the first); the latter with a colon and what there is to say."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        first = _simpler(load(cases()[name])[0])
        first.save(path)
        content = path.read_bytes()
        _simpler(path).save(path)
        again = path.read_bytes()
    nodes = [counts - Counter({"Constant": counts["Constant"]}) for counts in map(Counter, _ops(first))]
    if nodes[1].total() > nodes[0].total():
        more, fewer = (", ".join(sorted((one - other).elements())) for one, other in (nodes[::-1], nodes))
        return f"grown: {nodes[0].total()} to {nodes[1].total()} nodes: {more}{' in place of ' + fewer if fewer else ''}"
    return "right" if again == content else "unstable: it is written otherwise the second time"


def opened(name: str, **options: Any) -> str:
    """What becomes of a case when each size of its inputs is open, on the stored data: ``right``; ``refused``, ``wrong`` or
    ``crash``, with a colon and what there is to say; or ``unlike`` where onnxruntime does not get that model right as it is."""
    case = cases()[name]
    _, model = load(case)
    made = onnx.ModelProto.FromString(model.SerializeToString())
    del made.graph.value_info[:]
    for value in inputs_of(made):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            dim.dim_param = f"{value.name}_{axis}"
    for value in made.graph.output:
        for dim in value.type.tensor_type.shape.dim:
            dim.Clear()
    try:
        net = isthmus.compile(made, **options)
        random = random_outputs(net.captured.graph)
        off = compared(case, model, lambda inputs: list(net(*(inputs[name] for name in net.input_names)).values()), random)
    except UnsupportedError as error:
        return f"refused: {_line(error)}"
    except EvaluationError as error:
        off = _line(error)
    except Exception as error:
        return f"crash: {type(error).__name__}: {_line(error)}"
    if off is None:
        return "right"
    try:
        return "unlike" if compared(case, model, run_plainly(Session, made)) is not None else f"wrong: {off}"
    except IsthmusError:
        return "unlike"


def _simpler(model: Any) -> Any:
    try:
        return isthmus.compile(model, keep_ops=True)
    except UnsupportedError:
        return isthmus.compile(model, keep_ops=True, profile="onnx")


def _ops(net: Any) -> tuple[dict[str, int], dict[str, int]]:
    """How many nodes there are of each op, in the file and in what was written."""
    return net.captured.op_counts(), net.artefact.op_counts


NARROW: Final = frozenset((onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16))


def widened(model: Any) -> Any:
    """A model that computes in f64 what the given one computes in fewer digits."""
    made = onnx.ModelProto.FromString(model.SerializeToString())
    graph = made.graph
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type in NARROW:
            value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    attributes = [each for node in graph.node for each in node.attribute]
    for tensor in (*graph.initializer, *(each.t for each in attributes if each.type == each.TENSOR)):
        if tensor.data_type in NARROW:
            wide = onnx.numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(onnx.numpy_helper.from_array(wide, tensor.name))
    for each in attributes:
        if each.name in ("to", "dtype", "softmax_precision") and each.i in NARROW:
            each.i = onnx.TensorProto.DOUBLE
    return made


@cache
def exactly(name: str) -> list[list[Any]] | None:
    """What a case gives in f64, by ONNX's evaluator; None where it has no such form."""
    case = cases()[name]
    _, model = load(case)
    found = []
    try:
        run = run_plainly(Evaluator, widened(model))
        for inputs, _ in data(case, model):
            wide = {key: _wide(each) for key, each in inputs.items()}
            found.append(list(run(wide)))
    except IsthmusError:
        return None
    return found


def _wide(content: Any) -> Any:
    narrow = isinstance(content, np.ndarray) and content.dtype in (np.float16, np.float32, ml_dtypes.bfloat16)
    return content.astype(np.float64) if narrow else content


def nearer(name: str, net: Any) -> bool:
    """Whether what isthmus gives is nearer than the stored outputs to what the model gives in f64."""
    case = cases()[name]
    exact = exactly(name)
    if exact is None:
        return False
    for (inputs, outputs), whole in zip(data(case, load(case)[1]), exact, strict=True):
        found = list(net(*(inputs[each] for each in net.input_names)).values())
        for mine, theirs, right in zip(found, outputs, whole, strict=True):
            errors = [float(np.nanmax(np.abs(_wide(each) - right), initial=0)) for each in (mine, theirs)]
            if right.dtype != np.float64 or errors[0] > errors[1]:
                return False
    return True


def _no_more_than(original: Any, objected: str | None) -> str | None:
    """An objection to what was written, unless there is one to the original as well."""
    return None if objected is None or objection(original) is not None else f"onnx.checker objects: {objected}"


def _line(text: Any) -> str:
    return " ".join(str(text).split())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    target = "onnx" if "--onnx" in sys.argv else "reference"
    opsets = [int(word.partition("=")[2]) for word in sys.argv if word.startswith("--opset=")]
    told: Counter[str] = Counter()
    for name in cases():
        if words and not any(word in name for word in words):
            continue
        found = verdict(name, target, **({"opset": opsets[0]} if opsets else {}))
        told[found.split(":")[0]] += 1
        if found != "right":
            print(name, found[:250], flush=True)
    print(dict(told))
