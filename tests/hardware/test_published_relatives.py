"""Specs against published latencies of chips that are made of the same parts.

Where a chip's own figures weren't published, its sisters' were: the multiprocessors of a Jetson
Orin Nano also run in Orin NX and AGX Orin, those of an H200 in the H100 PCIe card. A sister is the
spec with another clock, number of multiprocessors and memory. The sum over layers is that of
`test_published.py`: it knows no tiling, so that it may stay below what was measured.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from stages.hardware.load import load_spec
from stages.hardware.spec import HardwareSpec
from stages.tensors import DType
from tests.hardware.specs import SPECS
from tests.hardware.test_published import Layer, conv, latency_ms, resnet50

LOWEST, HIGHEST = 0.7, 1.15
GRAPH_LAUNCH_NS = 4_000


def alexnet() -> Iterable[Layer]:
    """AlexNet as torchvision has it: nearly all of its weights in three products."""
    yield Layer(55 * 55, 64, 363, 1, 121, 224 * 224 * 3 + 55 * 55 * 64 + 363 * 64)
    yield Layer(0, 0, 0, 1, 1, 55 * 55 * 64 + 27 * 27 * 64)
    yield conv(27, 64, 192, 5, 1)
    yield Layer(0, 0, 0, 1, 1, 27 * 27 * 192 + 13 * 13 * 192)
    for inputs, outputs in ((192, 384), (384, 256), (256, 256)):
        yield conv(13, inputs, outputs, 3, 1)
    yield Layer(0, 0, 0, 1, 1, 13 * 13 * 256 + 6 * 6 * 256)
    for inputs, outputs in ((6 * 6 * 256, 4096), (4096, 4096), (4096, 1000)):
        yield conv(1, inputs, outputs, 1, 1)


def sister(name: str, megahertz: int, instances: int, gigabytes_per_second: float) -> HardwareSpec:
    """A GPU of the same multiprocessors, whose kernels are launched as a captured graph, as in
    MLPerf. What all multiprocessors together do goes with their number."""
    spec = load_spec(SPECS / f"{name}.yaml")
    core = spec.tensor_core
    bandwidth = int(gigabytes_per_second * 1e9)
    return replace(
        spec,
        clock_hz=megahertz * 1_000_000,
        driver=replace(
            spec.driver,
            launch_ns={
                engine: min(launch_ns, GRAPH_LAUNCH_NS)
                for engine, launch_ns in spec.driver.launch_ns.items()
            },
        ),
        tensor_core=replace(
            core,
            instances=instances,
            macs_per_cycle={
                dtype: rate * instances // core.instances
                for dtype, rate in core.macs_per_cycle.items()
            },
            operand_feed_bytes=core.operand_feed_bytes * instances // core.instances,
        ),
        ddr=replace(spec.ddr, read_bandwidth=bandwidth, write_bandwidth=bandwidth),
    )


@pytest.mark.parametrize(
    ("name", "megahertz", "instances", "gigabytes_per_second", "published_ms"),
    [
        # MLPerf v3.1 edge, closed, SingleStream, P90: LoadGen to LoadGen, with the host's runtime
        pytest.param("jetson_orin_nano", 918, 8, 102.4, 1.0823, id="orin_nx_16gb"),
        pytest.param("jetson_orin_nano", 1300, 16, 204.8, 0.6403, id="agx_orin_64gb"),
        # the same of v3.0
        pytest.param("nvidia_h200", 1755, 114, 2039, 0.4207, id="h100_pcie_80gb"),
    ],
)
def test_sisters_on_resnet50_in_int8(
    name: str, megahertz: int, instances: int, gigabytes_per_second: float, published_ms: float
) -> None:
    spec = sister(name, megahertz, instances, gigabytes_per_second)
    predicted = latency_ms(spec, resnet50(), DType.I8)
    assert LOWEST <= predicted / published_ms <= HIGHEST, f"{predicted:.3f} ms"


def test_alexnet_on_ascend_310_is_its_weights_over_the_memory() -> None:
    """One of a card's four chips, fp16, batch 1 (Ascend/ModelZoo-PyTorch, ACL_PyTorch, "Interface
    throughputRate"): 122 MB of weights, which no buffer holds. What else is published of this chip
    stands in `measurements/ascend_310.csv`.
    """
    predicted = latency_ms(load_spec(SPECS / "ascend_310.yaml"), alexnet(), DType.F16)
    assert LOWEST <= predicted * 317.707 / 1000 <= HIGHEST, f"{predicted:.3f} ms"


def test_the_layers_are_alexnets() -> None:
    layers = list(alexnet())
    assert round(sum(layer.m * layer.n * layer.k for layer in layers) / 1e6) == 714
    assert round(sum(layer.n * layer.k for layer in layers) / 1e6, 1) == 61.1
