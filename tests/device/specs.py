"""A hardware spec with round numbers, so that times can be computed by hand."""

from __future__ import annotations

from stages.hardware.spec import (
    Dataflow,
    Dma,
    Driver,
    HardwareSpec,
    Host,
    Jitter,
    JitterCause,
    Memory,
    OperatingPoint,
    OperatorSupport,
    Power,
    SyncMode,
    TensorCore,
    Thermal,
    ThermalStage,
    Trip,
    VectorUnit,
)
from stages.recipe.kinds import Kind
from stages.tensors import DType


def _memory(name: str, size_bytes: int, bandwidth: int, latency_ns: int) -> Memory:
    return Memory(
        name=name,
        size_bytes=size_bytes,
        reserved_bytes=0,
        alignment_bytes=16,
        read_bandwidth=bandwidth,
        write_bandwidth=bandwidth,
        read_latency_ns=latency_ns,
        write_latency_ns=latency_ns,
        burst_bytes=16,
        banks=1,
    )


def tiny_spec(
    sync_mode: SyncMode = SyncMode.ASYNC, jitter: tuple[Jitter, ...] | None = None
) -> HardwareSpec:
    """1 GHz (a cycle is a nanosecond); DDR moves 8 bytes a cycle after 100, a channel 4."""
    if jitter is None:
        jitter = (
            Jitter(JitterCause.DRAM_REFRESH, interval_ns=3_900, stall_ns=160),
            Jitter(JitterCause.INTERRUPT, interval_ns=100_000, stall_ns=3_000),
            Jitter(JitterCause.VOLTAGE_DROOP, interval_ns=20_000, stall_ns=300),
        )
    return HardwareSpec(
        name="test_npu",
        chip="test",
        vendor="nobody",
        firmware="0",
        version="1.0",
        compiler=">=0.1",
        digest="0" * 64,
        clock_hz=1_000_000_000,
        tensor_core=TensorCore(
            dataflow=Dataflow.OUTPUT_STATIONARY,
            rows=16,
            cols=16,
            depth=1,
            instances=1,
            array_dtype=DType.F16,
            macs_per_cycle={DType.F16: 256, DType.I8: 512, DType.U8: 512},
            depthwise_macs_per_cycle=16,
            fill_cycles=0,
            output_stage=frozenset({Kind.ADD, Kind.RELU, Kind.CLIP, Kind.QUANTIZE}),
            max_m=1 << 20,
            max_n=1 << 20,
            max_k=1 << 20,
        ),
        vector=VectorUnit(
            bytes_per_cycle=32, startup_cycles=10, default_cycles=1, cycles_by_kind={}
        ),
        dma=Dma(
            channels=2,
            outstanding=2,
            setup_ns=50,
            bandwidth=4_000_000_000,
            alignment_bytes=16,
            max_transfer_bytes=1 << 20,
            max_dimensions=5,
        ),
        sram=_memory("sram", 256 * 1024, 32_000_000_000, 0),
        ddr=_memory("ddr", 1 << 24, 8_000_000_000, 50),
        host=Host(
            flops_per_second=1_000_000_000,
            memory_bandwidth=1_000_000_000,
            link_bandwidth=1_000_000_000,
            sync_ns=1_000,
            call_ns=500,
        ),
        layouts={},
        channel_quantum={},
        operators={
            Kind.CONV: OperatorSupport("tensor_core", frozenset({DType.F16}), {}),
        },
        driver=Driver(
            sync_mode=sync_mode,
            submit_ns=1_000,
            launch_ns={"tensor_core": 200, "vector": 100},
            event_cycles=5,
        ),
        operating_points=(OperatingPoint(1_000_000_000, 800),),
        power=Power(
            idle_milliwatts=100,
            leakage_milliwatts=50,
            leakage_doubling_celsius=25,
            mac_femtojoules={DType.F16: 1_000, DType.I8: 300, DType.U8: 300},
            vector_femtojoules_per_byte=500,
            sram_femtojoules_per_byte=300,
            dram_femtojoules_per_byte=20_000,
        ),
        thermal=Thermal(
            stages=(
                ThermalStage("die", millikelvin_per_watt=5_000, millijoules_per_kelvin=10),
                ThermalStage("board", millikelvin_per_watt=20_000, millijoules_per_kelvin=5_000),
            ),
            ambient_celsius=25.0,
            poll_ns=1_000_000,
            trips=(Trip(85.0, 2, 2.0), Trip(95.0, 4, 2.0)),
            critical_celsius=115.0,
        ),
        jitter=jitter,
        sources={},
    )
