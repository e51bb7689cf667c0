"""The specs against published latencies of the chips.

A sum over a network's layers, each the larger of its arithmetic by the cost model and its traffic
at the DRAM's bandwidth, plus the driver's overheads, must come out below what was published, and
not far below. It knows no tiling, no rounding of channels to blocks, and none of the vector work
between layers, so it checks the magnitudes of the specs and predicts nothing:
`docs/device_accuracy.md` holds compiled plans against measurements.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from stages.hardware.cost import (
    compulsory_cycles,
    contraction_cycles,
    cycles_to_nanoseconds,
    launch_cycles,
    nanoseconds_to_cycles,
)
from stages.hardware.load import load_spec
from stages.hardware.spec import HardwareSpec
from stages.tensors import DType
from tests.hardware.specs import SPECS


@dataclass(frozen=True)
class Layer:
    """`groups` products of m x k by k x n (none where m is 0); `elements` go to or from DRAM."""

    m: int
    n: int
    k: int
    groups: int
    taps: int
    elements: int


def conv(size: int, inputs: int, outputs: int, kernel: int, stride: int, extra: int = 0) -> Layer:
    """A square convolution; `extra` elements are read besides, for a residual."""
    after, k = size // stride, inputs * kernel * kernel
    elements = size * size * inputs + after * after * outputs + k * outputs + extra
    return Layer(after * after, outputs, k, 1, kernel * kernel, elements)


def depthwise(size: int, channels: int, stride: int) -> Layer:
    """A 3 x 3 depthwise convolution."""
    after = size // stride
    return Layer(after * after, 1, 9, channels, 9, (size * size + after * after + 9) * channels)


def resnet50() -> Iterable[Layer]:
    """ResNet-50 at 224 x 224, its residual additions fused."""
    yield conv(224, 3, 64, 7, 2)
    yield Layer(0, 0, 0, 1, 1, 112 * 112 * 64 + 56 * 56 * 64)
    size, inputs = 56, 64
    for width, blocks, first_stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            if block == 0:
                yield conv(size, inputs, 4 * width, 1, stride)
            yield conv(size, inputs, width, 1, 1)
            yield conv(size, width, width, 3, stride)
            size //= stride
            yield conv(size, width, 4 * width, 1, 1, extra=size * size * 4 * width)
            inputs = 4 * width
    yield conv(1, 2048, 1000, 1, 1)


def mobilenet_v2() -> Iterable[Layer]:
    """MobileNetV2 at 224 x 224, its residual additions fused."""
    yield conv(224, 3, 32, 3, 2)
    size, inputs = 112, 32
    for expand, outputs, blocks, first_stride in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            width = inputs * expand
            if expand > 1:
                yield conv(size, inputs, width, 1, 1)
            yield depthwise(size, width, stride)
            size //= stride
            residual = size * size * outputs if stride == 1 and inputs == outputs else 0
            yield conv(size, width, outputs, 1, 1, extra=residual)
            inputs = outputs
    yield conv(7, 320, 1280, 1, 1)
    yield conv(1, 1280, 1000, 1, 1)


def bert(hidden: int, layers: int) -> Iterable[Layer]:
    """A BERT encoder on 128 tokens."""
    tokens, heads = 128, hidden // 64

    def product(m: int, n: int, k: int, groups: int = 1) -> Layer:
        return Layer(m, n, k, groups, 1, (m * n + m * k + k * n) * groups)

    for _ in range(layers):
        yield product(tokens, 3 * hidden, hidden)
        yield product(tokens, tokens, 64, heads)
        yield Layer(0, 0, 0, 1, 1, 2 * tokens * tokens * heads)
        yield product(tokens, 64, tokens, heads)
        yield product(tokens, hidden, hidden)
        yield product(tokens, 4 * hidden, hidden)
        yield product(tokens, hidden, 4 * hidden)
        for _ in range(2):
            yield Layer(0, 0, 0, 1, 1, 2 * tokens * hidden)


def latency_ms(spec: HardwareSpec, layers: Iterable[Layer], dtype: DType) -> float:
    """The sum over the layers."""
    cycles = nanoseconds_to_cycles(spec, spec.driver.submit_ns)
    for layer in layers:
        work = contraction_cycles(
            spec.tensor_core, layer.m, layer.n, layer.k, layer.groups, layer.taps, dtype
        )
        traffic = compulsory_cycles(spec, layer.elements * dtype.size_bytes)
        cycles += launch_cycles(spec, "tensor_core") + max(work, traffic)
    return cycles_to_nanoseconds(spec, cycles) / 1e6


@pytest.mark.parametrize(
    ("name", "layers", "dtype", "published_ms"),
    [
        # rknn_model_zoo@bad6c73, one core, mean
        ("rk3588_npu", resnet50(), DType.I8, 9.083),
        ("rk3588_npu", mobilenet_v2(), DType.I8, 2.219),
        # TensorRT demoBERT, batch 1, 128 tokens, mean. The card's power limit lowers its clock
        # in longer work, which this model doesn't know: batches of 8 and more take twice as long.
        ("nvidia_t4", bert(768, 12), DType.F16, 1.95),
        ("nvidia_t4", bert(1024, 24), DType.F16, 5.53),
    ],
)
def test_near_what_was_published(
    name: str, layers: Iterable[Layer], dtype: DType, published_ms: float
) -> None:
    predicted = latency_ms(load_spec(SPECS / f"{name}.yaml"), layers, dtype)
    assert 0.5 <= predicted / published_ms <= 1.15, f"{predicted:.2f} ms"


def test_the_layer_lists_are_the_networks() -> None:
    assert sum(layer.m * layer.n * layer.k * layer.groups for layer in resnet50()) == 4_089_184_256
    total = sum(layer.m * layer.n * layer.k * layer.groups for layer in mobilenet_v2())
    assert total == 300_774_272
