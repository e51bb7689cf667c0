"""Definitions of networks whose latencies are published, by name; see `docs/device_accuracy.md`.

Each is built on request with seeded weights (under a CPU-second), opset 17, batch 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import onnx

from models.zoo import (
    ai_hub,
    encoders,
    inceptions,
    mobilenets,
    pixels,
    resnets,
    rknn_table,
    yolo11,
)

ZOO: Mapping[str, Callable[[], onnx.ModelProto]] = MappingProxyType(
    {
        **resnets.DEFINITIONS,
        **inceptions.DEFINITIONS,
        **mobilenets.DEFINITIONS,
        **encoders.DEFINITIONS,
        **rknn_table.DEFINITIONS,
        **ai_hub.DEFINITIONS,
        **yolo11.DEFINITIONS,
        **pixels.DEFINITIONS,
    }
)
"""Every definition, by the name that rows of measurements use."""


def build(name: str) -> onnx.ModelProto:
    """The model of that name.

    Raises:
        KeyError: no such definition; the message names those that exist.
    """
    if name not in ZOO:
        raise KeyError(f"no model {name!r} in the zoo; it has {', '.join(sorted(ZOO))}")
    return ZOO[name]()
