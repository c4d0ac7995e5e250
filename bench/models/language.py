"""transformers: small configurations, random weights; batch and sequence length may vary.

Language models, and those for sound and images that the same library holds. Inputs are drawn within the vocabulary,
masks with zeros among them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import torch
import transformers
from transformers import DynamicCache
from transformers.models.mamba import modeling_mamba

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
AFTER = ({"N": 1, "S": 9, "P": 1, "T": 10}, {"N": 3, "S": 1, "P": 6, "T": 7})


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


def cached(name: str, past: int = 5, **config: Any) -> Callable[[], Example]:
    """A decoder with what it computed for earlier tokens as inputs, and for those and the new ones as outputs.

    The mask is over both; how many there were may vary as well.
    """

    def make() -> Example:
        model = model_of(name, **{**SMALL, **TWO_HEADS, "use_cache": True, **config})
        cache = DynamicCache([(torch.randn(2, 2, past, 8), torch.randn(2, 2, past, 8)) for _ in range(2)])
        before = [{0: "N", 2: "P"}] * 2
        inputs = {"input_ids": tokens(), "attention_mask": mask(2, past + 7), "cache": cache}
        return Example(model, (), inputs, {
            "input_ids": TOKENS, "attention_mask": {0: "N", 1: "T"}, "cache": [before, before],
        })  # fmt: skip

    return make


def windowed() -> Example:
    """Longformer with local attention: a mask of bools cannot ask for global attention, which takes another path."""
    model = model_of("LongformerModel", **{**SMALL, "attention_window": 4, "pad_token_id": 1})
    inputs = {"input_ids": tokens(), "attention_mask": mask().bool()}
    return Example(model, (), inputs, {"input_ids": TOKENS, "attention_mask": TOKENS})


def text_to_text() -> Example:
    """T5 whole: encoder and decoder."""
    config = {
        "vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "use_cache": False,
    }  # fmt: skip
    inputs = {"input_ids": tokens(), "attention_mask": mask(), "decoder_input_ids": tokens(2, 5)}
    sizes = {"input_ids": TOKENS, "attention_mask": TOKENS, "decoder_input_ids": {0: "N", 1: "T"}}
    return Example(model_of("T5ForConditionalGeneration", **config), (), inputs, sizes)


def speech_encoder() -> Example:
    """Whisper's encoder, whose spectrograms are of one length."""
    model = model_of(
        "WhisperModel", vocab_size=VOCABULARY, num_mel_bins=16, encoder_layers=2, decoder_layers=1, d_model=32,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=20,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    return Example(model.encoder, (torch.randn(2, 16, 40),), {}, {"input_features": {0: "N"}})


def speech(**config: Any) -> Callable[[], Example]:
    """Wav2Vec2 over sound of any length, with or without a mask."""

    def make() -> Example:
        model = model_of(
            "Wav2Vec2ForCTC", vocab_size=32, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
            conv_dim=(16, 16, 16), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 2), num_conv_pos_embeddings=16,
            num_conv_pos_embedding_groups=4, **config,
        )  # fmt: skip
        inputs = {"input_values": torch.randn(2, 400)}
        if config.get("feat_extract_norm") == "layer":
            inputs["attention_mask"] = mask(2, 400)
        return Example(model, (), inputs, dict.fromkeys(inputs, TOKENS))

    return make


def image_and_text() -> Example:
    """CLIP, both towers."""
    shared = {key: SMALL[key] for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")}
    shared["projection_dim"] = 16
    words = {**shared, "vocab_size": VOCABULARY, "max_position_embeddings": 32, "eos_token_id": VOCABULARY - 1}
    pictures = {**shared, "image_size": 32, "patch_size": 8}
    model = model_of("CLIPModel", text_config=words, vision_config=pictures, projection_dim=16)
    inputs = {"input_ids": tokens(), "pixel_values": torch.randn(3, 3, 32, 32), "attention_mask": mask()}
    sizes = {"input_ids": TOKENS, "pixel_values": {0: "M"}, "attention_mask": TOKENS}
    return Example(model, (), inputs, sizes)


def image(name: str, *dims: str, size: int = 32, **config: Any) -> Callable[[], Example]:
    """A model of images; height and width may vary where they are named."""

    def make() -> Example:
        sizes = dict(zip((0, 2, 3), ("N", *dims), strict=False))
        return Example(model_of(name, **config), (torch.randn(2, 3, size, size),), {}, {"pixel_values": sizes})

    return make


def detection() -> Example:
    """DETR over images of any size, with a mask of what is padding."""
    layers = {f"{part}_{what}": count for part in ("encoder", "decoder") for what, count in
              (("layers", 2), ("ffn_dim", 64), ("attention_heads", 4))}  # fmt: skip
    backbone = transformers.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic", out_features=["stage2"]
    )
    model = model_of("DetrForObjectDetection", backbone_config=backbone, d_model=32, num_queries=5, num_labels=7, **layers)
    shown = torch.ones(2, 64, 48, dtype=torch.int64)
    shown[1, 40:] = 0
    sizes = {0: "N", 1: "H", 2: "W"}
    inputs = {"pixel_values": torch.randn(2, 3, 64, 48), "pixel_mask": shown}
    return Example(model, (), inputs, {"pixel_values": {0: "N", 2: "H", 3: "W"}, "pixel_mask": sizes})


class Scanned(torch.nn.Module):
    """Mamba by torch's associative scan, which it takes when it is compiled, but not when it is exported."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor) -> Any:
        with mock.patch.object(modeling_mamba, "is_torchdynamo_exporting", return_value=False):
            return self.model(input_ids)


def scanned(dynamic: bool) -> Example:
    """Mamba over sequences of any length, or of one: its loop over the time steps is unrolled then."""
    model = model_of(
        "MambaForCausalLM", vocab_size=VOCABULARY, hidden_size=32, state_size=8, num_hidden_layers=2, use_cache=False,
        pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return Example(Scanned(model) if dynamic else model, (tokens(),), {}, {"input_ids": TOKENS if dynamic else {0: "N"}})


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
    Entry("Qwen2 with cache", cached("Qwen2ForCausalLM"), AFTER),
    Entry("Llama with cache", cached("LlamaForCausalLM"), AFTER),
    Entry("Mistral with cache", cached("MistralForCausalLM", sliding_window=4), AFTER),
    Entry("Qwen2 to a cache", text("Qwen2ForCausalLM", **{**TWO_HEADS, "use_cache": True}), SIZES),
    Entry("DeBERTa-v2", text(
        "DebertaV2Model", relative_attention=True, pos_att_type=["c2p", "p2c"], position_buckets=8, share_att_key=True,
        norm_rel_ebd="layer_norm",
    ), SIZES),
    Entry("Mixtral", text("MixtralForCausalLM", num_local_experts=4, num_experts_per_tok=2, **TWO_HEADS), SIZES),
    Entry("T5", text_to_text, ({"N": 1, "S": 9, "T": 3}, {"N": 3, "S": 1, "T": 1})),
    Entry("Longformer", windowed, ({"N": 1, "S": 8}, {"N": 3, "S": 1})),
    Entry("Mamba", partial(scanned, dynamic=True), SIZES),
    Entry("Mamba, unrolled", partial(scanned, dynamic=False), ({"N": 1}, {"N": 3})),
    Entry("Whisper encoder", speech_encoder, ({"N": 1}, {"N": 3})),
    Entry("Wav2Vec2", speech(), ({"N": 1, "S": 320}, {"N": 3, "S": 517})),
    Entry("Wav2Vec2, masked", speech(
        feat_extract_norm="layer", do_stable_layer_norm=True, conv_bias=True,
    ), ({"N": 1, "S": 320}, {"N": 3, "S": 517})),
    Entry("CLIP", image_and_text, ({"N": 1, "S": 9, "M": 1}, {"N": 3, "S": 1, "M": 2})),
    Entry("ViT", image(
        "ViTForImageClassification", hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        image_size=32, patch_size=8,
    ), ({"N": 1}, {"N": 3})),
    Entry("DETR", detection, ({"N": 1, "H": 40, "W": 72}, {"N": 3, "H": 33, "W": 47})),
    Entry("SegFormer", image(
        "SegformerForSemanticSegmentation", "H", "W", size=64, depths=[1, 1, 1, 1], hidden_sizes=[16, 16, 32, 32],
        num_attention_heads=[1, 1, 2, 2], decoder_hidden_size=32, num_labels=5,
    ), ({"N": 1, "H": 64, "W": 96}, {"N": 3, "H": 80, "W": 73})),
]
