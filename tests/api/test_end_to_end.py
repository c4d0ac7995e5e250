"""The models of the demonstration, from PyTorch to onnxruntime and back."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import isthmus
import zoo
from isthmus.backends.onnx import OnnxBackend
from isthmus.compiler import lower
from isthmus.ir import Graph
from isthmus.ir.equality import difference
from isthmus.ir.parser import parse
from isthmus.ir.printer import weight_table
from isthmus.ir.verifier import verify
from isthmus.passes import PassRecord, cleanup_passes, default_passes, legalize, run_passes

NEWEST = onnx.defs.onnx_opset_version()
OPSETS = [13, 17, NEWEST]
BATCHES = [1, 3, 7]


@cache
def example(name: str) -> zoo.Example:
    return zoo.ALL[name]()


def compiled(name: str, opset: int) -> isthmus.Compiled:
    case = example(name)
    return isthmus.compile(case.model, case.args, case.kwargs, dynamic_shapes=case.dynamic_shapes, opset=opset)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", ["AlexNet", "ResNet-50"])
def test_image_models_at_other_batches(name: str, opset: int) -> None:
    net = compiled(name, opset)
    report = net.verify([torch.randn(batch, 3, 224, 224) for batch in BATCHES])
    assert [turn.outputs[0].type for turn in report.rounds] == [f"f32[{batch}, 1000]" for batch in BATCHES]


@pytest.mark.parametrize("opset", OPSETS)
def test_bert_at_other_batches_and_lengths(opset: int) -> None:
    calls: list[Any] = []
    for batch, length in zip(BATCHES, (9, 33, 5), strict=True):
        ids = torch.randint(0, 30522, (batch, length))
        mask = torch.ones_like(ids)
        mask[-1, length // 2 + 1 :] = 0
        calls.append(((), {"input_ids": ids, "attention_mask": mask}))
    report = compiled("BERT-base", opset).verify(calls)
    assert [turn.outputs[0].type for turn in report.rounds] == ["f32[1, 9, 768]", "f32[3, 33, 768]", "f32[7, 5, 768]"]
    assert len(report.rounds[0].outputs) == 2


@pytest.mark.parametrize("name", zoo.ALL)
def test_fresh_inputs_at_other_sizes(name: str) -> None:
    report = compiled(name, 17).verify(seeds=2)
    assert report.rounds[0].sizes["N"] == 1
    assert not report.skipped


def test_the_saved_file_is_clean_and_right(tmp_path: Path) -> None:
    net = compiled("ResNet-50", 17)
    path, *others = net.save(tmp_path / "net.onnx")
    assert [path, *others] == [tmp_path / "net.onnx"]
    onnx.checker.check_model(str(path), full_check=True)
    model = onnx.load(str(path))
    assert model.opset_import[0].version == 17
    assert [dim.dim_param or dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim] == ["N", 3, 224, 224]
    x = torch.randn(3, 3, 224, 224)
    (found,) = onnxruntime.InferenceSession(path).run(None, {model.graph.input[0].name: x.numpy()})
    with torch.no_grad():
        wanted = example("ResNet-50").model(x).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())


def test_calls_return_the_model_s_own_structure() -> None:
    net = compiled("BERT-base", 17)
    case = example("BERT-base")
    found = net(**case.kwargs)
    with torch.no_grad():
        wanted = case.model(**case.kwargs)
    assert type(found) is type(wanted)
    torch.testing.assert_close(found.last_hidden_state, wanted.last_hidden_state, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found["pooler_output"], wanted["pooler_output"], rtol=1e-4, atol=1e-4)


def test_the_reference_target_agrees() -> None:
    case = example("AlexNet")
    isthmus.compile(case.model, case.args, dynamic_shapes=case.dynamic_shapes, target="reference").verify(seeds=1)


def test_batch_norm_is_folded_and_weights_are_counted() -> None:
    report = compiled("ResNet-50", 17).report
    assert report.weights_bytes == pytest.approx(25_557_032 * 4, rel=0.01)
    assert report.nodes["artefact"] <= 124


def test_the_newest_opset_is_offered() -> None:
    assert compiled("AlexNet", NEWEST).report.options["opset"] == NEWEST
    assert OnnxBackend.name == "onnx"


@pytest.mark.parametrize("name", zoo.ALL)
def test_the_text_form_reads_back_after_every_pass(name: str) -> None:
    case = example(name)
    captured, _, backend = lower(case.model, case.args, case.kwargs, dynamic_shapes=case.dynamic_shapes, until="captured")
    graph = captured.graph

    def check(record: PassRecord | None = None, changed: Graph | None = None) -> None:
        again = parse(str(graph), weight_table(graph))
        assert difference(graph, again) is None, record
        verify(graph)

    check()
    run_passes(graph, default_passes(), listener=check)
    legalize(graph, backend)
    check()
    run_passes(graph, cleanup_passes(), listener=check)
