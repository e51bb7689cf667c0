"""Transformers of the `transformers` library, small ones from their configuration, seeded.

Needs the optional extra `transformers`; nothing is downloaded.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

Exportable = tuple[nn.Module, dict[str, Tensor]]


def bert_tiny() -> Exportable:
    """BERT of two layers, width 128; i64[1,128] twice -> f32[1,128,128]."""
    return _bert(
        "bert_tiny", hidden_size=128, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=512, vocab_size=4000,
    )  # fmt: skip


def bert_base() -> Exportable:
    """BERT-base, 109 M parameters; i64[1,128] twice -> f32[1,128,768]."""
    return _bert(
        "bert_base", hidden_size=768, num_hidden_layers=12, num_attention_heads=12,
        intermediate_size=3072, vocab_size=30522,
    )  # fmt: skip


def gpt2_mini() -> Exportable:
    """GPT-2 of two layers, width 128, without a cache; i64[1,64] twice -> f32[1,64,2000]."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        use_cache=False, n_embd=128, n_layer=2, n_head=4, vocab_size=2000, n_positions=128,
        bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    return _tokens("gpt2_mini", lambda: GPT2LMHeadModel(config), 64, 2000)


def vit_tiny() -> Exportable:
    """Vision transformer of four layers, width 128; f32[1,3,224,224] -> f32[1,197,128]."""
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=512
    )
    _seed("vit_tiny")
    image = torch.randn(1, 3, 224, 224)
    return _FirstResult(ViTModel(config), ["pixel_values"]).eval(), {"pixel_values": image}


def whisper_mini_enc() -> Exportable:
    """Whisper's encoder, two layers, width 96; f32[1,80,400] -> f32[1,200,96]."""
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=96, encoder_layers=2, encoder_attention_heads=3, encoder_ffn_dim=384,
        max_source_positions=200,
    )  # fmt: skip
    _seed("whisper_mini_enc")
    features = torch.randn(1, 80, 400)
    module = _FirstResult(WhisperEncoder(config), ["input_features"])
    return module.eval(), {"input_features": features}


def _bert(
    name: str, *, hidden_size: int, num_hidden_layers: int, num_attention_heads: int,
    intermediate_size: int, vocab_size: int,
) -> Exportable:  # fmt: skip
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=hidden_size, num_hidden_layers=num_hidden_layers,
        num_attention_heads=num_attention_heads, intermediate_size=intermediate_size,
        vocab_size=vocab_size,
    )  # fmt: skip
    return _tokens(name, lambda: BertModel(config), 128, vocab_size)


def _tokens(name: str, build: Callable[[], nn.Module], length: int, vocabulary: int) -> Exportable:
    _seed(name)
    inputs = {
        "input_ids": torch.randint(0, vocabulary, (1, length), dtype=torch.int64),
        "attention_mask": torch.ones(1, length, dtype=torch.int64),
    }
    return _FirstResult(build(), list(inputs)).eval(), inputs


def _seed(name: str) -> None:
    torch.manual_seed(zlib.crc32(name.encode()) & 0x7FFFFFFF)


class _FirstResult(nn.Module):
    """A `transformers` model with positional inputs and its main result alone."""

    def __init__(self, module: nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.module = module
        self.names = list(names)

    def forward(self, *inputs: Tensor) -> Tensor:
        results = self.module(**dict(zip(self.names, inputs, strict=True)), return_dict=True)
        return results.logits if hasattr(results, "logits") else results.last_hidden_state
