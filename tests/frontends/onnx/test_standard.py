"""Every test model of the standard: evaluated here, and compiled and run, against the stored outputs.

``exceptions.json`` says, for each target, which are not right, and why. A change either way shows. Run this file as a script,
with `tests` among PYTHONPATH, to write the list anew, and read the difference.
"""

from __future__ import annotations

import json
import warnings
from functools import cache
from pathlib import Path

import onnx
import pytest
from loading import module

from isthmus.backends.onnx.opsets import NEWEST
from isthmus.frontends.onnx import ops as ops
from isthmus.frontends.onnx.table import converter

HERE = Path(__file__).parent
STANDARD = module(HERE / "standard.py")
TARGETS = ("reference", "onnx")
PARTS = 8
"""The models are made up in seconds, so that each process makes them once, and goes through a part of them in one test."""
OTHERS = (9, 13, 17, NEWEST)
"""Opsets to which models of others are brought, a part of the models each. ``make sweep`` brings all of them to each."""


@cache
def pinned() -> dict[str, dict[str, str]]:
    """What is not right, by target and name."""
    found: dict[str, dict[str, str]] = json.loads((HERE / "exceptions.json").read_text())
    return found


def verdicts(target: str, part: int = 0, parts: int = 1, **options: int) -> dict[str, str]:
    """What becomes of each model of a part, where that is not right."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = list(STANDARD.cases())[part::parts]
        found = {name: STANDARD.verdict(name, target, **options) for name in names}
    return {name: told for name, told in found.items() if told != "right"}


def kinds(told: dict[str, str]) -> dict[str, str]:
    return {name: text.partition(":")[0] for name, text in told.items()}


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("target", TARGETS)
def test_standard_models(target: str, part: int) -> None:
    names = set(list(STANDARD.cases())[part::PARTS])
    wanted = kinds({name: told for name, told in pinned()[target].items() if name in names})
    found = verdicts(target, part, PARTS)
    assert kinds(found) == wanted, {name: found.get(name, "right") for name in found.keys() | wanted if found != wanted}


@pytest.mark.parametrize("keep_ops", [True, False])
def test_sizes_that_are_all_open(keep_ops: bool) -> None:
    """A part of the models: those that onnxruntime runs with open sizes are right, or refused."""
    found = {name: STANDARD.opened(name, keep_ops=keep_ops) for name in list(STANDARD.cases())[5::10]}
    assert sum(told == "right" for told in found.values()) > 0.85 * len(found)
    assert not {name: told for name, told in found.items() if told.startswith(("wrong", "crash"))}


def made_simpler(part: int = 0, parts: int = 1) -> dict[str, str]:
    """What becomes of each model of a part that is made simpler, where that is not right."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {name: STANDARD.simplified(name) for name in list(STANDARD.cases())[part::parts]}
    return {name: told for name, told in found.items() if told != "right"}


def test_none_grows_and_all_are_simple_at_once() -> None:
    """But for known ones, of a part of all; ``make sweep`` has the rest."""
    names = list(STANDARD.cases())[3::40]
    known = kinds(pinned()["simplified"])
    assert kinds(made_simpler(3, 40)) == {name: told for name, told in known.items() if name in names}


@pytest.mark.parametrize("name", [
    "test_reduce_l2_keep_dims_random", "test_constant_pad_axes", "test_resize_downsample_scales_cubic_antialias", "test_slice",
    "test_split_variable_parts_2d_opset18", "test_squeeze", "test_unsqueeze_negative_axes", "test_tril", "test_top_k",
    "test_tile",
    "test_attention_4d_gqa_causal", "test_center_crop_pad_crop_expanded", "test_bitshift_right_uint8", "test_mod_uint8",
    "test_causal_conv_with_state_silu_expanded", "test_loop11", "test_PixelShuffle", "test_sequence_map_add_2_sequences",
])  # fmt: skip
def test_models_that_must_not_grow(name: str) -> None:
    assert STANDARD.simplified(name) == "right"


@pytest.mark.parametrize("target", TARGETS)
def test_exceptions_are_of_models_that_there_are(target: str) -> None:
    assert not pinned()[target].keys() - STANDARD.cases().keys()


@pytest.mark.parametrize("opset", OTHERS)
def test_other_opsets(opset: int) -> None:
    """What cannot be said at an opset is refused, and nothing is wrong that is not so at the model's own."""
    found = verdicts("onnx", OTHERS.index(opset), PARTS, opset=opset)
    wrong = {name: told for name, told in found.items() if told.startswith(("wrong", "crash"))}
    assert not wrong.keys() - pinned()["onnx"].keys(), wrong


@pytest.mark.parametrize("target", TARGETS)
def test_what_the_unchanged_model_passes_is_right(target: str) -> None:
    short = {name: told for name, told in pinned()[target].items() if not told.startswith(("evaluated", "nearer"))}
    assert not {name: told for name, told in short.items() if STANDARD.counts(name) and "ai_onnx_ml" not in name}


def test_no_standard_op_stays_opaque() -> None:
    opaque = {name for name, told in pinned()["onnx"].items() if told.startswith("opaque")}
    assert all("ai_onnx_ml" in name for name in opaque), opaque


def test_every_op_of_every_opset_has_a_converter_or_is_a_function() -> None:
    """With all its attributes. What `Gradient` differentiates is the graph around it, by names in the file: it stays so."""
    lacking = []
    for schema in onnx.defs.get_all_schemas_with_history():
        row = converter(schema.domain, schema.name, {schema.domain: schema.since_version})
        if row is None:
            function = schema.has_function or schema.has_context_dependent_function
            lacking += [] if function else [f"{schema.domain}.{schema.name}"]
        elif row.attributes is not None and (more := schema.attributes.keys() - row.attributes):
            lacking.append(f"{schema.domain}.{schema.name}-{schema.since_version}: {more}")
    assert lacking == ["ai.onnx.preview.training.Gradient"]


if __name__ == "__main__":
    found = {**{target: verdicts(target) for target in TARGETS}, "simplified": made_simpler()}
    text = json.dumps({run: {name: told[:160] for name, told in each.items()} for run, each in found.items()}, indent=1)
    (HERE / "exceptions.json").write_text(text + "\n")
