"""transformers: small configurations, random weights; batch and sequence length may vary.

Language models, and those for sound and images that the same library holds. Inputs are drawn within the vocabulary,
masks with zeros among them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers
from models import Entry, as_trained
from zoo import Example

VOCABULARY = 99
SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 64, "max_position_embeddings": 64,
}  # fmt: skip
TWO_HEADS = {"num_key_value_heads": 2, "use_cache": False, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
TOKENS = {0: "N", 1: "S"}
SIZES = ({"N": 1, "S": 9}, {"N": 3, "S": 1})


def model_of(name: str, **config: Any) -> torch.nn.Module:
    """The model of a class name, such as ``BertModel``, from a configuration."""
    torch.manual_seed(0)
    kind = getattr(transformers, name)
    return as_trained(kind(kind.config_class(**config)))


def tokens(count: int = 2, length: int = 7) -> torch.Tensor:
    """Token ids with the first and the last one of the vocabulary among them."""
    ids = torch.randint(0, VOCABULARY, (count, length))
    ids[0, 0], ids[0, 1] = 0, VOCABULARY - 1
    return ids


def mask(count: int = 2, length: int = 7) -> torch.Tensor:
    """An attention mask; the last row ends in padding."""
    found = torch.ones(count, length, dtype=torch.int64)
    found[-1, length // 2 :] = 0
    return found


def text(name: str, **config: Any) -> Callable[[], Example]:
    """A model of tokens and a mask."""

    def make() -> Example:
        model = model_of(name, **{**SMALL, **config})
        inputs = {"input_ids": tokens(), "attention_mask": mask()}
        return Example(model, (), inputs, {"input_ids": TOKENS, "attention_mask": TOKENS})

    return make


ENTRIES: list[Entry] = [
    Entry("BERT", text("BertModel"), SIZES),
    Entry("RoBERTa", text("RobertaModel", pad_token_id=1), SIZES),
    Entry("DistilBERT", text("DistilBertModel", dim=32, n_layers=2, n_heads=4, hidden_dim=64), SIZES),
    Entry("ALBERT", text("AlbertModel", embedding_size=16), SIZES),
    Entry("MobileBERT", text("MobileBertModel", embedding_size=16, intra_bottleneck_size=16), SIZES),
    Entry("GPT-2", text("GPT2LMHeadModel", use_cache=False, bos_token_id=0, eos_token_id=1), SIZES),
    Entry("Llama", text("LlamaForCausalLM", **TWO_HEADS), SIZES),
    Entry("Mistral", text("MistralForCausalLM", sliding_window=4, **TWO_HEADS), SIZES),
    Entry("Qwen2", text("Qwen2ForCausalLM", **TWO_HEADS), SIZES),
]
