"""Caches of transformers as arguments and results: what they hold are the graph's inputs and outputs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from watching import agree

from isthmus.frontends.torch import capture
from isthmus.ir.errors import CaptureError

caches = pytest.importorskip("transformers.cache_utils")
PAST = {0: "N", 2: "P"}
SIZES = ({"N": 1, "S": 4, "P": 1}, {"N": 3, "S": 1, "P": 4})


def filled(layers: int = 2, **config: Any) -> Any:
    return caches.DynamicCache([(torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 4)) for _ in range(layers)])


class Attention(torch.nn.Module):
    """Writes its input into a cache and reads all of it; counts in Python what the cache holds already."""

    def forward(self, x: torch.Tensor, cache: Any) -> dict[str, Any]:
        before = cache.get_seq_length()
        found = [cache.update(x + layer, x * before, layer) for layer in range(len(cache.layers))]
        return {"sums": [keys.sum(2) + values.sum(2) for keys, values in found], "cache": cache}


def test_a_cache_goes_in_and_out() -> None:
    cache = filled()
    before = cache.layers[0].keys.clone()
    given = torch.randn(2, 3, 2, 4), cache
    dynamic = {"x": {0: "N", 2: "S"}, "cache": [[PAST] * 2, [PAST] * 2]}
    captured = agree(Attention(), given, dynamic=dynamic, sizes=SIZES)
    names = [f"cache_{what}_cache_{layer}" for what in ("key", "value") for layer in (0, 1)]
    assert captured.input_names == ["x", *names]
    assert captured.output_names == ["sums_0", "sums_1", *names]
    assert [str(value.type) for value in captured.graph.outputs[2:]] == ["f32[N, 3, P + S, 4]"] * 4
    assert torch.equal(cache.layers[0].keys, before)
    first, second = (captured.eager(given) for _ in range(2))
    assert [array.shape for array in first] == [array.shape for array in second], "a run leaves the caller's cache as it was"


def test_a_result_is_a_cache_again() -> None:
    given = torch.randn(2, 3, 2, 4), filled()
    captured = capture(Attention(), given)
    result = captured.unflatten(captured.eager(given))
    assert isinstance(result["cache"], caches.DynamicCache)
    assert result["cache"].get_seq_length() == 7


def test_a_pair_of_caches() -> None:
    def step(x: torch.Tensor, pair: Any) -> Any:
        keys, _ = pair.self_attention_cache.update(x, x, 0)
        return keys.sum(2) + pair.cross_attention_cache.layers[0].values.sum(2), pair

    pair = caches.EncoderDecoderCache(filled(1), filled(1))
    dynamic = {"x": {0: "N", 2: "S"}, "pair": {"self_attention_cache": {"key_cache": [PAST], "value_cache": [PAST]},
                                               "cross_attention_cache": [[{0: "N"}], [{0: "N"}]]}}  # fmt: skip
    captured = agree(step, (torch.randn(2, 3, 2, 4), pair), dynamic=dynamic, sizes=SIZES)
    assert captured.input_names[1] == "pair_self_attention_cache_key_cache_0"


def test_another_object_among_the_results_is_named() -> None:
    with pytest.raises(CaptureError, match="returns a object"):
        capture(lambda x: (x, object()), (torch.rand(2),))
