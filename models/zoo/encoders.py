"""Transformer encoders: BERT with its heads, DistilBERT, ViT."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import sqrt

import onnx

from models.zoo.attention import encoder_layer
from models.zoo.graph import GraphBuilder, Value

_WORDS = 30522


def _embed(g: GraphBuilder, tokens: int, width: int, tables: int) -> Value:
    """Word embeddings with positions, and segments where `tables` is 3, normalised."""
    ids = g.input("input_ids", (1, tokens), "i64")
    x = g.gather(g.weight((_WORDS, width), width), ids)
    x = g.add(x, g.slice(g.weight((512, width), width), 0, tokens, 0))
    if tables == 3:
        segments = g.input("segment_ids", (1, tokens), "i64")
        x = g.add(x, g.gather(g.weight((2, width), width), segments))
    return g.layer_norm(x, 1e-12)


def _mask(g: GraphBuilder, tokens: int) -> Value:
    """What is added to scores: 0 for tokens that count, -10000 for the others."""
    kept = g.reshape(g.input("mask", (1, tokens)), (1, 1, 1, tokens))
    return g.mul(g.sub(g.scalar(1.0), kept), g.scalar(-10000.0))


def _fused_attention(g: GraphBuilder, x: Value, heads: int, mask: Value) -> Value:
    """Attention as TensorRT's demoBERT has it: one product makes queries, keys and values of all
    heads side by side (demo/BERT/builder.py, attention_layer_opt)."""
    _, tokens, width = x.shape
    size = width // heads
    parts = g.split(g.linear(x, 3 * width), (width, width, width), 2)
    query, key, value = (
        g.transpose(g.reshape(part, (1, tokens, heads, size)), order)
        for part, order in zip(parts, ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)), strict=True)
    )
    scores = g.add(g.mul(g.matmul(query, key), g.scalar(1 / sqrt(size))), mask)
    mixed = g.matmul(g.softmax(scores), value)
    return g.linear(g.reshape(g.transpose(mixed, (0, 2, 1, 3)), x.shape), width)


def bert_squad(layers: int, width: int, tokens: int, name: str) -> onnx.ModelProto:
    """BERT with the question-answering head, as TensorRT's demoBERT builds it."""
    g = GraphBuilder(name)
    x, mask = _embed(g, tokens, width, 3), _mask(g, tokens)
    for _ in range(layers):
        x = g.layer_norm(g.add(x, _fused_attention(g, x, width // 64, mask)), 1e-12)
        x = g.layer_norm(g.add(x, g.linear(g.linear(x, 4 * width, "gelu"), width)), 1e-12)
    g.output(g.linear(x, 2))
    return g.build()


def _masked_words(g: GraphBuilder, x: Value) -> onnx.ModelProto:
    """The masked-language head, its decoder's weights those of the embedding: scores of all words
    at all places."""
    width = x.shape[-1]
    x = g.layer_norm(g.linear(x, width, "gelu"), 1e-12)
    counted = g.parameter_count
    scores = g.linear(x, _WORDS)
    g.parameter_count = counted + _WORDS
    g.output(g.reduce("ReduceMax", scores, 2))
    return g.build()


def _masked_bert(layers: int, tables: int, name: str) -> onnx.ModelProto:
    tokens, width = 384, 768
    g = GraphBuilder(name)
    x, mask = _embed(g, tokens, width, tables), _mask(g, tokens)
    for _ in range(layers):
        x = encoder_layer(g, x, 12, 4 * width, "gelu", norm_first=False, mask=mask, epsilon=1e-12)
    return _masked_words(g, x)


def bert_base_mlm_seq384() -> onnx.ModelProto:
    """BERT base with the masked-language head on 384 tokens, as Qualcomm AI Hub has it."""
    return _masked_bert(12, 3, "bert_base_mlm_seq384")


def distilbert_base_mlm_seq384() -> onnx.ModelProto:
    """DistilBERT base with the masked-language head on 384 tokens, as Qualcomm AI Hub has it."""
    return _masked_bert(6, 2, "distilbert_base_mlm_seq384")


def vit(layers: int, width: int, heads: int, name: str) -> onnx.ModelProto:
    """A vision transformer of torchvision: 16 x 16 patches of 224 x 224."""
    g = GraphBuilder(name)
    x = g.conv(g.input("image", (1, 3, 224, 224)), width, 16, 16, pads=0)
    x = g.transpose(g.reshape(x, (1, width, 196)), (0, 2, 1))
    x = g.add(g.concat([g.weight((1, 1, width), width), x], 1), g.weight((1, 197, width), width))
    for _ in range(layers):
        x = encoder_layer(g, x, heads, 4 * width, "gelu", norm_first=True, epsilon=1e-6)
    x = g.reshape(g.slice(g.layer_norm(x, 1e-6), 0, 1, 1), (1, width))
    g.output(g.linear(x, 1000))
    return g.build()


DEFINITIONS: dict[str, Callable[[], onnx.ModelProto]] = {
    **{
        f"bert_{size}_seq{tokens}": partial(
            bert_squad, layers, width, tokens, f"bert_{size}_seq{tokens}"
        )
        for size, layers, width in (("base", 12, 768), ("large", 24, 1024))
        for tokens in (128, 384)
    },
    "bert_base_mlm_seq384": bert_base_mlm_seq384,
    "distilbert_base_mlm_seq384": distilbert_base_mlm_seq384,
    "vit_base": partial(vit, 12, 768, 12, "vit_base"),
    "vit_large": partial(vit, 24, 1024, 16, "vit_large"),
}
