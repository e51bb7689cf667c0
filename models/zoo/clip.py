"""CLIP ViT-B/32 (openai/clip-vit-base-patch32): its two towers as rknn_model_zoo exports them."""

from __future__ import annotations

import numpy as np
import onnx

from models.zoo.attention import encoder_layer
from models.zoo.graph import GraphBuilder, Value

_EMBEDDING = 512


def clip_images() -> onnx.ModelProto:
    """The image tower; f32[1,3,224,224] -> f32[1,512]."""
    return images_graph().build()


def clip_text() -> onnx.ModelProto:
    """The text tower on 20 tokens; i64[1,20] -> f32[1,512]."""
    return text_graph().build()


def images_graph() -> GraphBuilder:
    """The builder of the image tower, with its counts."""
    width, heads, layers, patches = 768, 12, 12, 49
    g = GraphBuilder("clip_images")
    x = g.conv(g.input("pixel_values", (1, 3, 224, 224)), width, 32, 32, pads=0, bias=False)
    x = g.transpose(g.reshape(x, (1, width, patches)), (0, 2, 1))
    x = g.concat([g.weight((1, 1, width), 1), x], axis=1)
    x = g.layer_norm(g.add(x, g.weight((1, patches + 1, width), 1)))
    for _ in range(layers):
        x = encoder_layer(g, x, heads, 4 * width, "quick_gelu", norm_first=True)
    _project(g, g.layer_norm(g.reshape(g.slice(x, 0, 1, 1), (1, width))))
    return g


def text_graph(tokens: int = 20) -> GraphBuilder:
    """The builder of the text tower, with its counts. Positions beyond `tokens` aren't exported."""
    width, heads, layers, words = 512, 8, 12, 49408
    g = GraphBuilder("clip_text")
    ids = g.input("input_ids", (1, tokens), "i64")
    x = g.gather(g.weight((words, width), 1), ids)
    x = g.add(x, g.weight((1, tokens, width), 1))
    mask = g.constant(np.triu(np.full((1, 1, tokens, tokens), -1e4, np.float32), 1))
    for _ in range(layers):
        x = encoder_layer(g, x, heads, 4 * width, "quick_gelu", norm_first=True, mask=mask)
    x = g.reshape(g.layer_norm(x), (tokens, width))
    end = g.node("ArgMax", [ids], (1,), {"axis": 1, "keepdims": 0})
    _project(g, g.gather(x, end))
    return g


def _project(g: GraphBuilder, x: Value) -> None:
    """Into the common space, at length one."""
    y = g.linear(x, _EMBEDDING, bias=False)
    length = g.node("ReduceL2", [y], (1, 1), {"axes": [1], "keepdims": 1})
    g.output(g.div(y, length))
