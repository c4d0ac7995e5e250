"""Measures what a reader of ONNX files takes, node by node, and states it as a profile for ``isthmus.compile(..., profile=)``.

``PYTHONPATH=bench python bench/measure_profile.py opencv --write mine.toml`` asks OpenCV; any other reader is named by
``module:function``, a function from a file's content, inputs by name and names of outputs to arrays (see `onnx_readers.Read`),
or to None where it only reads. With ``--check NAME`` nothing is written: a profile is held against the reader.

The nodes are those that the samples of the op table become. What tells those that the reader takes from those that it refuses
or gets wrong is found op by op: element types, ranks, constants, attributes, the number of results. Read what is written before
you trust it: a rule is no wider than the samples.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx_readers import READERS, Reader, Rejected

from isthmus.backends.onnx import opsets
from isthmus.backends.onnx.profile import Given, Profile, load
from isthmus.backends.onnx.runtime import Session
from isthmus.backends.testing import suite
from isthmus.errors import EvaluationError, UnsupportedError
from isthmus.ir.weights import ArrayWeight
from isthmus.passes import legalize

NEAR: Final = {"float16": 4e-3, "bfloat16": 3e-2}


@dataclass
class Form:
    """A node alone, as the reader is asked about it.

    Attributes:
        op: its op.
        model: the file.
        inputs: contents of the inputs by name.
        wanted: contents of the outputs by name, as onnxruntime has them.
        features: what rules can say of it.
        problem: what the reader says against it, or gives in place of `wanted`; empty where it is right.
    """

    op: str
    model: Any
    inputs: dict[str, Any]
    wanted: dict[str, Any]
    features: dict[tuple[str, str], Any]
    problem: str = ""


def forms(opset: int, base: str, only: Sequence[str] | None) -> Iterator[Form]:
    """Every node that the samples become, or of these ops alone, by itself; each once."""
    seen = set()
    for param in suite("onnx", forms=("static", "constants"), finite=True, opset=opset, profile=base, metadata=False):
        case = param.values[0]
        for _, graph, inputs in case.graphs():
            try:
                legalize(graph, case.backend)
                model = case.backend.emit(graph).model
                if only and not any(node.op_type in only for node in model.graph.node):
                    continue
                for form in alone(model, dict(zip([each.name for each in model.graph.input], inputs, strict=True))):
                    key = (str(form.features), [np.shape(each) for each in form.inputs.values()].__repr__())
                    if key not in seen:
                        seen.add(key)
                        yield form
            except (UnsupportedError, EvaluationError):
                continue  # what is not written, or does not run here, says nothing about the reader


def alone(model: Any, feeds: Mapping[str, Any]) -> Iterator[Form]:
    """The nodes of a model, each as a model of its own, on what the whole gives it."""
    if any(not isinstance(each, np.ndarray) or each.dtype.kind == "c" for each in feeds.values()):
        return
    whole = onnx.shape_inference.infer_shapes(model)
    types = {each.name: each.type for each in (*whole.graph.value_info, *whole.graph.output, *whole.graph.input)}
    made = [name for node in whole.graph.node for name in node.output if name in types and types[name].HasField("tensor_type")]
    del whole.graph.output[:]
    whole.graph.output.extend(onnx.ValueInfoProto(name=name, type=types[name]) for name in made)
    contents = {**feeds, **dict(zip(made, Session(whole.SerializeToString())(list(feeds.values())), strict=True))}
    held = {each.name: each for each in model.graph.initializer}
    for node in model.graph.node:
        if any(attribute.HasField("g") for attribute in node.attribute) or node.domain:
            continue
        used = [name for name in dict.fromkeys(node.input) if name]
        outputs = [name for name in node.output if name]
        if not all(name in held or name in contents for name in used) or not all(name in contents for name in outputs):
            continue
        given, wanted = ({name: contents[name] for name in names if name not in held} for names in (used, outputs))
        graph = helper.make_graph(
            [node], "alone", [_info(*each) for each in given.items()], [_info(*each) for each in wanted.items()],
            [held[name] for name in used if name in held],
        )  # fmt: skip
        file = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
        yield Form(node.op_type, file, given, wanted, _features(file))


def _info(name: str, content: Any) -> Any:
    array = np.asarray(content)
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def parts(model: Any) -> tuple[opsets.Signature, dict[str, Any], list[Given | None], dict[str, Any], int]:
    """The only node of a model as `Profile.node` takes it."""
    (node,) = model.graph.node
    signature = opsets.signature(node.op_type, model.opset_import[0].version)
    assert signature is not None
    held = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    given = {each.name: each.type.tensor_type for each in model.graph.input}
    types: dict[str, Any] = {}
    inputs: list[Given | None] = []
    for index, name in enumerate(node.input):
        if not name:
            inputs.append(None)
            continue
        weight = ArrayWeight(held[name]) if name in held else None
        dtype = weight.dtype if weight else opsets.by_enum(given[name].elem_type)
        types.setdefault(signature.parameter(index), dtype)
        shape = held[name].shape if weight else tuple(dim.dim_value for dim in given[name].shape.dim)
        inputs.append(Given(shape, weight, fixed=weight is not None))
    result = opsets.by_enum(model.graph.output[0].type.tensor_type.elem_type)
    types.setdefault(signature.outputs[0], result)
    attrs = {each.name: _plain(helper.get_attribute_value(each)) for each in node.attribute}
    return signature, types, inputs, attrs, len(node.output)


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else list(value) if isinstance(value, (list, tuple)) else value


def _features(model: Any) -> dict[tuple[str, str], Any]:
    signature, types, inputs, attrs, results = parts(model)
    found: dict[tuple[str, str], Any] = {("types", parameter): dtype.name for parameter, dtype in types.items()}
    for index, each in enumerate(inputs):
        if each is not None and each.shape is not None:
            found["constant", signature.name_of(index)] = each.content is not None
            found["ranks", signature.name_of(index)] = len(each.shape)
    for key in signature.attributes:
        if key in attrs and isinstance(attrs[key], (int, str, list)):
            found["values", key] = attrs[key]
    found["results", ""] = results
    return found


def judge(form: Form, reader: Reader) -> None:
    """Asks the reader."""
    try:
        got = reader(form.model.SerializeToString(), form.inputs, list(form.wanted))
    except Rejected as error:
        form.problem = str(error)
        return
    for array, wanted in zip(got or (), form.wanted.values(), strict=bool(got)):
        wanted = np.asarray(wanted)
        if array.size != wanted.size:
            form.problem = f"it gives {array.shape}, and not {wanted.shape}"
        elif not _near(array, wanted):
            form.problem = "it gives other numbers"


def _near(got: Any, wanted: Any) -> bool:
    tolerance = NEAR.get(wanted.dtype.name, 1e-4)
    wide, right = (np.asarray(each, np.float64).reshape(-1) for each in (got, wanted))
    finite = np.isfinite(right)
    scale = max(1, abs(right[finite]).max(initial=0))
    return bool(np.allclose(wide[finite], right[finite], rtol=tolerance, atol=tolerance / 10 * scale))


Cut = tuple[str, str, Any]
"""A restriction: its field in a rule, of what, and the value that is left out."""


def cuts(forms: Sequence[Form]) -> Iterator[tuple[Cut, Callable[[Form], bool]]]:
    """Restrictions that are possible, each with what it leaves."""
    for field, what in dict.fromkeys(key for form in forms for key in form.features):
        values = [form.features[field, what] for form in forms if (field, what) in form.features]
        if field in ("types", "ranks"):
            for value in dict.fromkeys(values):
                yield (field, what, value), lambda form, k=(field, what), v=value: form.features.get(k) != v  # type: ignore[misc]
        elif field == "constant":
            yield (field, what, False), lambda form, k=(field, what): form.features.get(k, True)  # type: ignore[misc]
            yield ("computed", what, True), lambda form, k=(field, what): not form.features.get(k, False)  # type: ignore[misc]
        elif field == "results":
            for most in sorted(set(values))[:-1]:
                yield (field, what, most), lambda form, m=most: form.features["results", ""] <= m  # type: ignore[misc]
        else:
            yield ("without", what, None), lambda form, k=(field, what): k not in form.features  # type: ignore[misc]
            for value in {item for each in values for item in _items(each)}:
                yield (field, what, value), lambda form, k=(field, what), v=value: v not in _items(form.features.get(k, ()))  # type: ignore[misc]


def _items(value: Any) -> Sequence[Any]:
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def rule(forms: Sequence[Form]) -> list[str]:
    """The lines of a rule that takes no form that is wrong, and as many right ones as it can."""
    right, wrong = ([form for form in forms if bool(form.problem) is bad] for bad in (False, True))
    taken: list[Cut] = []
    while wrong and right:
        scored = []
        for cut, leaves in cuts([*right, *wrong]):
            gone, lost = sum(not leaves(form) for form in wrong), sum(not leaves(form) for form in right)
            if gone:
                scored.append((gone / len(wrong) - 2 * lost / len(right), str(cut), cut, leaves))
        if not scored:
            break
        _, _, cut, leaves = max(scored, key=lambda item: item[:2])
        taken.append(cut)
        right, wrong = ([form for form in each if leaves(form)] for each in (right, wrong))
    if not right or wrong:
        told = Counter(form.problem for form in forms if form.problem).most_common(1)[0][0]
        return [f"refused = {_text(told[-100:])}"]
    lines = []
    for field in ("types", "ranks", "values"):
        for what in dict.fromkeys(what for other, what, _ in taken if other == field):
            values = {item for form in right if (field, what) in form.features for item in _items(form.features[field, what])}
            lines.append(f"{field}.{what} = [{', '.join(map(_text, sorted(values, key=str)))}]")
    for field in ("constant", "computed", "without"):
        names = [what for other, what, _ in taken if other == field]
        lines += [f"{field} = [{', '.join(map(_text, names))}]"] if names else []
    most = [value for field, _, value in taken if field == "results"]
    return lines + ([f"results = {min(most)}"] if most else [])


def _text(value: Any) -> str:
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if isinstance(value, str) else str(value)


def stated(name: str, about: str, found: Mapping[str, Sequence[Form]]) -> str:
    """The profile as TOML; ops of which nothing was right are not named."""
    lines = [f"name = {_text(name)}", f"about = {_text(about)}", 'others = "refuse"', ""]
    for op in sorted(found):
        if any(not form.problem for form in found[op]):
            lines += [f"[ops.{op}]", *rule(found[op]), ""]
    return "\n".join(lines)


def held_against(profile: Profile, found: Mapping[str, Sequence[Form]]) -> Iterator[str]:
    """Where a profile and the reader differ, a line an op and a way."""
    for op in sorted(found):
        counts: Counter[str] = Counter()
        for form in found[op]:
            takes = profile.node(*parts(form.model)) is None
            if takes and form.problem:
                counts[f"is taken by the profile, and the reader says: {form.problem[-90:]}"] += 1
            elif not takes and not form.problem:
                counts["is refused by the profile, and the reader has it right"] += 1
        yield from (f"{op}: {number} of {len(found[op])}: {told}" for told, number in counts.items())


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("reader", help=f"{', '.join(READERS)}, or module:function")
    parser.add_argument("--opset", type=int, default=opsets.DEFAULT)
    parser.add_argument("--base", default="onnxruntime", help="the profile that the samples are written for")
    parser.add_argument("--only", nargs="*", help="these ops of ONNX alone")
    parser.add_argument("--write", type=Path, help="the file to write")
    parser.add_argument("--check", help="a profile to be held against the reader")
    options = parser.parse_args(arguments)
    reader = Reader(options.reader)
    found: dict[str, list[Form]] = defaultdict(list)
    for form in forms(options.opset, options.base, options.only):
        if not options.only or form.op in options.only:
            judge(form, reader)
            found[form.op].append(form)
    reader.close()
    for op in sorted(found):
        wrong = sum(bool(form.problem) for form in found[op])
        print(f"{op}: {len(found[op]) - wrong} of {len(found[op])} right")
    if options.check:
        print(*held_against(load(options.check), found), sep="\n")
    if options.write:
        options.write.write_text(stated(options.write.stem, f"What {options.reader} takes, as measured.", found))
        load(str(options.write))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
