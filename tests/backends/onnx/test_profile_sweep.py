"""Every sample of the op table under the profile of a reader: what the profile lets through, the reader takes.

OpenCV gives the reference's numbers, too. TensorRT's parser only reads here; the same file gives them in onnxruntime.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from onnx_readers import Reader, Rejected

from isthmus.backends.onnx.opsets import by_enum
from isthmus.backends.onnx.runtime import COMPLEX
from isthmus.backends.testing import Case, outcomes, suite
from isthmus.errors import EvaluationError
from isthmus.passes import cleanup_passes, legalize, run_passes

KNOWN = {
    "opencv": {},
    "tensorrt-parser": dict.fromkeys(("reduce_max-13-nan", "reduce_min-13-nan"), "onnxruntime, which runs it, loses a nan"),
}
"""What goes wrong all the same, by profile and sample."""

SUITES = {
    "opencv": suite("onnx", profile="opencv", forms=("static", "constants"), finite=True),
    "tensorrt-parser": suite("onnx", profile="tensorrt-parser", forms=("static",)),
}
MODULES = {"opencv": "cv2", "tensorrt-parser": "tensorrt_rtx"}


@pytest.fixture(scope="module")
def readers() -> Iterator[dict[str, Reader]]:
    found = {name: Reader(name) for name in SUITES}
    yield found
    for reader in found.values():
        reader.close()


def prepare(graph: Any, target: Any) -> None:
    legalize(graph, target)
    run_passes(graph, cleanup_passes())


def run(reader: Reader, artefact: Any, inputs: Sequence[Any]) -> list[Any]:
    """What a reader gives, in the element types and shapes that the file states."""
    model = artefact.model
    feeds = {each.name: _pairs(content) for each, content in zip(model.graph.input, inputs, strict=True)}
    try:
        got = reader(model.SerializeToString(), feeds, [each.name for each in model.graph.output])
    except Rejected as error:
        raise EvaluationError(str(error)) from None
    if got is None:
        return artefact.run(inputs)  # type: ignore[no-any-return]
    told = next((each.value for each in model.metadata_props if each.key == COMPLEX), "{}")
    pairs = json.loads(told).get("outputs", ())
    return [_as_told(array, each, pairs) for array, each in zip(got, model.graph.output, strict=True)]


def _pairs(content: Any) -> Any:
    if not isinstance(content, np.ndarray) or content.dtype.kind != "c":
        return content
    return np.ascontiguousarray(content).view(content.real.dtype).reshape(*content.shape, 2)


def _as_told(array: Any, output: Any, pairs: Sequence[str]) -> Any:
    type = output.type.tensor_type
    shape = [dim.dim_value for dim in type.shape.dim]
    if array.size == np.prod(shape):
        array = array.reshape(shape)
    array = array.astype(by_enum(type.elem_type).numpy)
    return array.view(np.result_type(array.dtype, np.complex64)).reshape(shape[:-1]) if output.name in pairs else array


@pytest.mark.parametrize(
    ("case", "name"), [pytest.param(*param.values, name, id=param.id) for name, each in SUITES.items() for param in each]
)
def test_what_a_profile_lets_through_the_reader_takes(case: Case, name: str, readers: dict[str, Reader]) -> None:
    pytest.importorskip(MODULES[name])
    found = outcomes(case, prepare, {name: partial(run, readers[name])}, validate=False)
    wrong = {sample: f"{each.told}\n{each.detail}" for sample, each in found.items() if each.kind == "wrong"}
    assert wrong.keys() == {sample for sample in KNOWN[name] if sample in found}, "\n".join(wrong.values())


@pytest.mark.parametrize("name", SUITES)
def test_what_is_known_are_samples(name: str) -> None:
    samples = {sample for param in SUITES[name] for sample, *_ in param.values[0].graphs()}
    assert KNOWN[name].keys() <= samples
