"""Transformer parts for the graph builder."""

from __future__ import annotations

from math import sqrt

from models.zoo.graph import GraphBuilder, Value


def self_attention(g: GraphBuilder, x: Value, heads: int, mask: Value | None = None) -> Value:
    """Multi-head attention of x[batch, tokens, width] with itself, and its output projection.

    `mask` is added to the scores [batch, heads, tokens, tokens].
    """
    batch, tokens, width = x.shape
    size = width // heads
    query, key, value = (
        g.transpose(g.reshape(g.linear(x, width), (batch, tokens, heads, size)), order)
        for order in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
    )
    scores = g.mul(g.matmul(query, key), g.scalar(1 / sqrt(size)))
    if mask is not None:
        scores = g.add(scores, mask)
    mixed = g.matmul(g.softmax(scores), value)
    joined = g.reshape(g.transpose(mixed, (0, 2, 1, 3)), (batch, tokens, width))
    return g.linear(joined, width)


def encoder_layer(
    g: GraphBuilder,
    x: Value,
    heads: int,
    hidden: int,
    act: str,
    *,
    norm_first: bool,
    mask: Value | None = None,
    epsilon: float = 1e-5,
) -> Value:
    """A transformer layer: attention and two matrix products, each with residual and norm.

    `norm_first` puts the normalisation before them (CLIP, ViT, GPT), else behind (BERT).
    """
    width = x.shape[-1]
    if norm_first:
        x = g.add(x, self_attention(g, g.layer_norm(x, epsilon), heads, mask))
        inner = g.linear(g.layer_norm(x, epsilon), hidden, act)
        return g.add(x, g.linear(inner, width))
    x = g.layer_norm(g.add(x, self_attention(g, x, heads, mask)), epsilon)
    inner = g.linear(x, hidden, act)
    return g.layer_norm(g.add(x, g.linear(inner, width)), epsilon)
