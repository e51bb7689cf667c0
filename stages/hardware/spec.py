"""A hardware spec as frozen data: every number in its base unit, ready for arithmetic.

Times are nanoseconds, sizes bytes, bandwidths bytes per second, frequencies hertz, temperatures
degrees Celsius, energies picojoules, shares permille. `load.py` makes these from YAML; nothing
else does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from stages.tensors import DType, Layout


class Dataflow(StrEnum):
    """How a tensor core walks through a contraction of m x n x k (see `cost.py` for the cycles)."""

    OUTPUT_STATIONARY = "output_stationary"  # systolic, rows x cols outputs stay
    WEIGHT_STATIONARY = "weight_stationary"  # systolic, rows x cols weights stay
    INPUT_STATIONARY = "input_stationary"  # systolic, rows x cols inputs stay
    DOT_PRODUCT = "dot_product"  # rows pixels x cols output channels x depth input channels a cycle
    BLOCKED = "blocked"  # rows x cols output blocks, dealt in waves to the instances


class SyncMode(StrEnum):
    """What the driver lets overlap."""

    STRICT = "strict"  # a transfer waits until compute is idle, and the other way round
    ASYNC = "async"


@dataclass(frozen=True, slots=True)
class TensorCore:
    """The contraction engine.

    `macs_per_cycle` is the peak for each operand type over all instances; `array_dtype` is the
    type for which the array has the shape given. `output_stage` holds the operator kinds that act
    on results as they drain, at no cost of their own. Limits bound one instruction. A dot-product
    array holds each block of weights for at least `weight_load_cycles`, while the next one loads.

    `efficiency_permille` is what the chip achieves of its modelled rate, by type (others: all of
    it). An input whose stride is off `lane_alignment_bytes` drives `misaligned_lanes` of `lanes`.

    A `blocked` core keeps `blocks_per_instance` blocks of an instance in flight. It may take
    `block_shapes` besides rows x cols, and split k over up to `max_split_k` blocks.
    `operand_feed_bytes` a cycle reach all of its instances (0: as many as they take), and at most
    `group_blocks` blocks work on one group of a batched product at once (0: any number).

    `strided_input_bytes` a cycle are gathered for a convolution with a stride, before an array
    that reads only neighbours can start (0: it reads at any stride).

    Results drain in blocks of `cols` one-byte channels; `output_cycles_by_kind` is what a block
    takes where the output stage does that kind, `default_output_cycles` where it does none of
    them (0: draining is never the slower). `output_cycles_by_type` says it of kinds for which it
    depends on the type of the results: of types that aren't there, the most counts. A convolution
    of at most `image_channels` input channels reads its input row-major, as an image comes. Behind
    a kind in `output_ends` the output stage only changes the number format.
    """

    dataflow: Dataflow
    rows: int
    cols: int
    depth: int
    instances: int
    array_dtype: DType
    macs_per_cycle: Mapping[DType, int]
    depthwise_macs_per_cycle: int
    fill_cycles: int
    output_stage: frozenset[str]
    max_m: int
    max_n: int
    max_k: int
    weight_load_cycles: int = 0
    efficiency_permille: Mapping[DType, int] = field(default_factory=dict)
    lanes: int = 1
    lane_alignment_bytes: int = 1
    misaligned_lanes: int = 1
    blocks_per_instance: int = 1
    block_shapes: tuple[tuple[int, int], ...] = ()
    max_split_k: int = 1
    operand_feed_bytes: int = 0
    group_blocks: int = 0
    strided_input_bytes: int = 0
    default_output_cycles: int = 0
    output_cycles_by_kind: Mapping[str, int] = field(default_factory=dict)
    output_cycles_by_type: Mapping[str, Mapping[DType, int]] = field(default_factory=dict)
    image_channels: int = 0
    output_ends: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class VectorUnit:
    """The elementwise engine: `cycles_by_kind` is the cost of one vector of `bytes_per_cycle`,
    and `efficiency_permille` what it achieves of that. Arithmetic on elements of fewer than
    `least_element_bytes` is done on so many. The kinds of `ends` cost nothing beside another: the
    unit converts and clamps what it reads and writes.

    The kinds of `compares` only compare, which integers do as they are: where a chain does nothing
    else, its `quantize` and `dequantize` cost nothing. `pixel_channels` are worked on for each
    pixel of an image with an operand that has a number for each of its channels (0: as many as
    there are)."""

    bytes_per_cycle: int
    startup_cycles: int
    default_cycles: int
    cycles_by_kind: Mapping[str, int]
    efficiency_permille: int = 1000
    least_element_bytes: int = 1
    ends: frozenset[str] = frozenset()
    compares: frozenset[str] = frozenset()
    pixel_channels: int = 0


@dataclass(frozen=True, slots=True)
class Dma:
    """The transfer engines. `outstanding` transfers a channel hide each other's latency."""

    channels: int
    outstanding: int
    setup_ns: int
    bandwidth: int
    alignment_bytes: int
    max_transfer_bytes: int
    max_dimensions: int


@dataclass(frozen=True, slots=True)
class Memory:
    """One level of memory. `reserved_bytes` at its start are not the compiler's.

    Efficiencies are what is achieved of the bandwidths. Addresses go round the `channels` every
    `interleave_bytes`, and round the `banks` every `bank_interleave_bytes` (0: the memory
    doesn't say, and a strided access costs whole bursts alone).
    """

    name: str
    size_bytes: int
    reserved_bytes: int
    alignment_bytes: int
    read_bandwidth: int
    write_bandwidth: int
    read_latency_ns: int
    write_latency_ns: int
    burst_bytes: int
    banks: int
    read_efficiency_permille: int = 1000
    write_efficiency_permille: int = 1000
    channels: int = 1
    interleave_bytes: int = 0
    bank_interleave_bytes: int = 0

    @property
    def usable_bytes(self) -> int:
        """What is left to the compiler."""
        return self.size_bytes - self.reserved_bytes


@dataclass(frozen=True, slots=True)
class Cache:
    """A set-associative cache with least-recently-used replacement before `ddr`."""

    size_bytes: int
    line_bytes: int
    ways: int
    read_bandwidth: int
    write_bandwidth: int
    read_latency_ns: int
    write_latency_ns: int


@dataclass(frozen=True, slots=True)
class WeightCache:
    """Memory on chip that keeps constants from one inference to the next: whole constants in the
    order of their first use, up to `size_bytes`. The others stream from `ddr` every time."""

    size_bytes: int
    read_bandwidth: int


class HostMemory(StrEnum):
    """Where a host call finds its operands."""

    OWN = "own"  # copied there over the link, whole
    SHARED = "shared"  # in the device's memory: only what the host reads passes the link


@dataclass(frozen=True, slots=True)
class Host:
    """The processor that runs fallbacks. A call costs `sync_ns`, `call_ns` for each operator, the
    transfers over the link both ways, and the larger of arithmetic and memory time."""

    flops_per_second: int
    memory_bandwidth: int
    link_bandwidth: int
    sync_ns: int
    call_ns: int
    memory: HostMemory = HostMemory.OWN


@dataclass(frozen=True, slots=True)
class OperatorSupport:
    """An operator kind that an engine runs, for operands of these types and within these limits.

    `limits` bounds facts of the operator, inclusive at both ends: `rank`, `kernel`, `stride`,
    `dilation`, `group`, `spatial` (number of spatial axes), `extent`, `taps` (elements along an
    axis from which a resize makes one: 1 where it copies, 2 where it is linear, 4 where cubic).
    `constant_dtypes` are types that constants may have besides where the group is quantised: the
    vendor's compiler quantises them, as it does scales.
    """

    engine: str
    dtypes: frozenset[DType]
    limits: Mapping[str, tuple[int, int]]
    constant_dtypes: frozenset[DType] = frozenset()


@dataclass(frozen=True, slots=True)
class Driver:
    """Overheads that the vendor's runtime adds.

    `submit_ns` once an inference, and `float_io_ns` more where the model takes or gives floats,
    which some runtimes convert outside the graph.
    """

    sync_mode: SyncMode
    submit_ns: int
    launch_ns: Mapping[str, int]  # by engine class, charged where a group begins
    event_cycles: int
    float_io_ns: int = 0


@dataclass(frozen=True, slots=True)
class VendorCompiler:
    """What the vendor's compiler is known to do otherwise than its chip could: kinds of the output
    stage that it runs as operators of their own, and movements that it makes without a copy.

    It matters only where networks are compiled as vendors do (`compiler/vendor_way.py`).
    """

    unfused: frozenset[str] = frozenset()
    views: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """One DVFS step."""

    clock_hz: int
    millivolts: int


@dataclass(frozen=True, slots=True)
class Power:
    """Energy at nominal voltage, and leakage `leakage_milliwatts` at 25 degrees Celsius that
    doubles every `leakage_doubling_celsius`."""

    idle_milliwatts: int
    leakage_milliwatts: int
    leakage_doubling_celsius: int
    mac_femtojoules: Mapping[DType, int]
    vector_femtojoules_per_byte: int
    sram_femtojoules_per_byte: int
    dram_femtojoules_per_byte: int


@dataclass(frozen=True, slots=True)
class ThermalStage:
    """One RC stage of the chain from die to air."""

    name: str
    millikelvin_per_watt: int
    millijoules_per_kelvin: int


class GovernorKind(StrEnum):
    """How the driver reacts to the die's temperature at each poll."""

    TABLE = "table"  # each trip that holds sets its clock
    STEP_WISE = "step_wise"  # one operating point at a time, as Linux's governor of that name


@dataclass(frozen=True, slots=True)
class Trip:
    """At `celsius` the compute clock falls, until `hysteresis_celsius` below.

    It falls to the operating point of `clock_hz`, with that point's voltage; where `clock_hz` is 0
    it is divided by `divider` at the nominal voltage. A step-wise governor takes neither.
    """

    celsius: float
    divider: int
    hysteresis_celsius: float
    clock_hz: int = 0


@dataclass(frozen=True, slots=True)
class AirSpeed:
    """What lies between the last stage and the air that passes it at that speed."""

    millimetres_per_second: int
    millikelvin_per_watt: int


@dataclass(frozen=True, slots=True)
class Thermal:
    """Stages from the die outwards, trips from the coolest up, air speeds from the slowest up.

    The last stage's own resistance is that in the device's usual air.
    """

    stages: tuple[ThermalStage, ...]
    ambient_celsius: float
    poll_ns: int
    trips: tuple[Trip, ...]
    critical_celsius: float
    governor: GovernorKind = GovernorKind.TABLE
    airflow: tuple[AirSpeed, ...] = ()


class JitterCause(StrEnum):
    """What makes runs differ."""

    DRAM_REFRESH = "dram_refresh"  # stalls transfers
    INTERRUPT = "interrupt"  # stalls the host
    VOLTAGE_DROOP = "voltage_droop"  # stretches the clock of compute
    SCHEDULER = "scheduler"  # stalls the host: another thread has its core
    CLOCK_STEP = "clock_step"  # compute runs a bin below the nominal clock: power or boost limits
    MEMORY_CONTENTION = "memory_contention"  # stalls transfers: another master has the memory


@dataclass(frozen=True, slots=True)
class Jitter:
    """Stalls of `stall_ns` (the mean, where it varies) that come every `interval_ns`.

    DRAM refresh is periodic with a random phase; the others are a Poisson process with
    exponential stalls.
    """

    cause: JitterCause
    interval_ns: int
    stall_ns: int


class Mark(StrEnum):
    """How sure a number is."""

    PUBLISHED = "published"
    RECALLED = "recalled"  # from a data sheet, not read again
    INFERRED = "inferred"
    FITTED = "fitted"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where the numbers under a key path come from."""

    mark: Mark
    source: str


@dataclass(frozen=True, slots=True)
class HardwareSpec:
    """One device."""

    name: str
    chip: str
    vendor: str
    firmware: str
    version: str
    compiler: str  # versions that can compile for it, such as ">=0.1,<1"
    digest: str  # sha256 of the file
    clock_hz: int
    tensor_core: TensorCore
    vector: VectorUnit
    dma: Dma
    sram: Memory
    ddr: Memory
    host: Host
    layouts: Mapping[str, Layout]  # by operator kind; others take row-major
    channel_quantum: Mapping[DType, int]
    operators: Mapping[str, OperatorSupport]
    driver: Driver
    operating_points: tuple[OperatingPoint, ...]
    power: Power
    thermal: Thermal
    jitter: tuple[Jitter, ...]
    sources: Mapping[str, Provenance]
    l2: Cache | None = None
    weight_cache: WeightCache | None = None
    vendor_compiler: VendorCompiler = VendorCompiler()

    @property
    def float_dtype(self) -> DType | None:
        """The float type that the tensor core multiplies fastest; None where it has none."""
        rates = self.tensor_core.macs_per_cycle
        floats = [dtype for dtype in rates if dtype.is_float]
        return max(floats, key=lambda dtype: rates[dtype]) if floats else None
