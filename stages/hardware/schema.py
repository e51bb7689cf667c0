"""What a hardware spec's YAML may hold: the door between text and the frozen `spec.py`.

Every model refuses unknown keys; every quantity needs its unit (`stages/units.py`); integers are
plain counts. Problems come out as pydantic errors of type `refused` with `problem` and `hint` in
their context, which `load.py` turns into messages with file and line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from stages import units
from stages.hardware import vocabulary
from stages.hardware.spec import Dataflow, GovernorKind, HostMemory, JitterCause, Mark, SyncMode
from stages.hardware.vocabulary import did_you_mean
from stages.tensors import DType, Layout, LayoutKind
from stages.units import Dimension, QuantityError

Word = TypeVar("Word", bound=StrEnum)
_LARGEST_COUNT = 2**48
_ALL_PERMILLE = 1000


def refusal(problem: str, hint: str) -> PydanticCustomError:
    """An error that says what is wrong and how to mend it."""
    return PydanticCustomError("refused", "{problem}", {"problem": problem, "hint": hint})


def _quantity(dimension: Dimension, *, positive: bool) -> Callable[[object], int]:
    def parse(value: object) -> int:
        if isinstance(value, int | float) and not isinstance(value, bool):
            raise refusal(f"{value} has no unit", dimension.hint)
        if value is None:
            raise refusal("no value", dimension.hint)
        if not isinstance(value, str):
            raise refusal(f"{value!r} isn't {dimension.with_article}", dimension.hint)
        try:
            number = units.parse_quantity(value, dimension)
        except QuantityError as error:
            raise refusal(error.problem, error.hint) from error
        if positive and number == 0:
            raise refusal(f"{value!r} must be more than zero", dimension.hint)
        return number

    return parse


def _positive(dimension: Dimension) -> BeforeValidator:
    return BeforeValidator(_quantity(dimension, positive=True))


def _any(dimension: Dimension) -> BeforeValidator:
    return BeforeValidator(_quantity(dimension, positive=False))


def _whole(permille: object) -> object:
    """Nothing achieves more than all of its rate."""
    if isinstance(permille, int) and permille > _ALL_PERMILLE:
        raise refusal(f"{permille / 10:g} % is more than all of it", "write `100 %` or less")
    return permille


def _choice(options: type[Word], what: str) -> BeforeValidator:
    """A validator that reads one of an enum's words."""

    def parse(value: object) -> Word:
        words = [str(option) for option in options]
        if value not in words:
            raise refusal(f"{value!r} is an unknown {what}", did_you_mean(str(value), words))
        return options(value)

    return BeforeValidator(parse)


def _word_of(known: Iterable[str], what: str) -> BeforeValidator:
    words = frozenset(known)

    def parse(value: object) -> str:
        if not isinstance(value, str) or value not in words:
            raise refusal(f"{value!r} is an unknown {what}", did_you_mean(str(value), words))
        return value

    return BeforeValidator(parse)


_LAYOUT = re.compile(r"nc1hwc2/([1-9][0-9]{0,3})")


def _layout(value: object) -> Layout:
    """`row_major`, `nhwc` or `nc1hwc2/QUANTUM`."""
    if value in ("row_major", "nhwc"):
        return Layout(LayoutKind(str(value)))
    match = _LAYOUT.fullmatch(str(value))
    if match is None:
        hint = "write `row_major`, `nhwc`, or `nc1hwc2/16` with its channel quantum"
        raise refusal(f"{value!r} is an unknown layout", hint)
    return Layout(LayoutKind.NC1HWC2, int(match.group(1)))


Size = Annotated[int, _positive(units.SIZE)]
SizeOrZero = Annotated[int, _any(units.SIZE)]
Bandwidth = Annotated[int, _positive(units.BANDWIDTH)]
Frequency = Annotated[int, _positive(units.FREQUENCY)]
Duration = Annotated[int, _positive(units.DURATION)]
DurationOrZero = Annotated[int, _any(units.DURATION)]
Cycles = Annotated[int, _any(units.CYCLES)]
SomeCycles = Annotated[int, _positive(units.CYCLES)]
Celsius = Annotated[int, _any(units.TEMPERATURE)]
Kelvin = Annotated[int, _positive(units.TEMPERATURE_STEP)]
KelvinOrZero = Annotated[int, _any(units.TEMPERATURE_STEP)]
Milliwatts = Annotated[int, _any(units.POWER)]
Millivolts = Annotated[int, _positive(units.VOLTAGE)]
Femtojoules = Annotated[int, _positive(units.ENERGY)]
FemtojoulesPerByte = Annotated[int, _positive(units.ENERGY_PER_BYTE)]
ThermalResistance = Annotated[int, _positive(units.THERMAL_RESISTANCE)]
HeatCapacity = Annotated[int, _positive(units.HEAT_CAPACITY)]
AirSpeed = Annotated[int, _any(units.SPEED)]
ArithmeticRate = Annotated[int, _positive(units.ARITHMETIC_RATE)]
Efficiency = Annotated[int, BeforeValidator(_whole), _positive(units.SHARE)]
Count = Annotated[int, Field(ge=1, le=_LARGEST_COUNT)]
CountOrZero = Annotated[int, Field(ge=0, le=_LARGEST_COUNT)]
Text = Annotated[str, Field(min_length=1, max_length=2000)]

BlockShape = Annotated[list[Count], Field(min_length=2, max_length=2)]
ElementType = Annotated[DType, _choice(DType, "dtype")]
OperatorKind = Annotated[str, _word_of(vocabulary.KINDS, "operator kind")]
EngineName = Annotated[str, _word_of(vocabulary.RUNS_ON, "engine")]
LaunchName = Annotated[str, _word_of(vocabulary.LAUNCHED, "engine")]
LimitName = Annotated[str, _word_of(vocabulary.LIMITS, "limit")]
TypedCycles = Annotated[dict[ElementType, SomeCycles], Field(min_length=1)]
TensorLayout = Annotated[Layout, BeforeValidator(_layout)]


class Section(BaseModel):
    """A mapping with known keys only."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class ArraySection(Section):
    """The shape of the tensor core; see `Dataflow` for what the axes mean."""

    rows: Count
    cols: Count
    depth: Count
    instances: Count


class InstructionLimits(Section):
    """The largest contraction that one instruction takes."""

    m: Count
    n: Count
    k: Count


class TensorCoreSection(Section):
    """See `spec.TensorCore`."""

    dataflow: Annotated[Dataflow, _choice(Dataflow, "dataflow")]
    array: ArraySection
    array_dtype: ElementType
    macs_per_cycle: Annotated[dict[ElementType, Count], Field(min_length=1)]
    depthwise_macs_per_cycle: CountOrZero
    fill: Cycles
    weight_load: Cycles
    output_stage: list[OperatorKind]
    limits: InstructionLimits
    efficiency: dict[ElementType, Efficiency] = {}
    lanes: Count | None = None
    lane_alignment: Size | None = None
    misaligned_lanes: Count | None = None
    blocks_per_instance: Count = 1
    blocks: list[BlockShape] = []
    max_split_k: Count = 1
    group_blocks: CountOrZero = 0
    strided_input: Size | None = None
    operand_feed: Size | None = None
    default_output_cycles: Cycles = 0
    output_cycles: dict[OperatorKind, SomeCycles] = {}
    output_cycles_by_type: dict[OperatorKind, TypedCycles] = {}
    image_channels: CountOrZero = 0
    output_ends: list[OperatorKind] = []


class VectorSection(Section):
    """See `spec.VectorUnit`; `cycles` is the cost of one vector of `width`."""

    width: Size
    startup: Cycles
    default_cycles: SomeCycles
    cycles: dict[OperatorKind, SomeCycles]
    efficiency: Efficiency = _ALL_PERMILLE
    least_element: Size | None = None
    ends: list[OperatorKind] = []
    compares: list[OperatorKind] = []
    pixel_channels: CountOrZero = 0


class DmaSection(Section):
    """See `spec.Dma`."""

    channels: Count
    outstanding: Count
    setup: DurationOrZero
    bandwidth: Bandwidth
    alignment: Size
    max_transfer: Size
    max_dimensions: Count


class MemorySection(Section):
    """See `spec.Memory`."""

    size: Size
    reserved: SizeOrZero
    alignment: Size
    read_bandwidth: Bandwidth
    write_bandwidth: Bandwidth
    read_latency: DurationOrZero
    write_latency: DurationOrZero
    burst: Size
    banks: Count
    read_efficiency: Efficiency = _ALL_PERMILLE
    write_efficiency: Efficiency = _ALL_PERMILLE
    channels: Count = 1
    interleave: Size | None = None
    bank_interleave: Size | None = None


class CacheSection(Section):
    """See `spec.Cache`."""

    size: Size
    line: Size
    ways: Count
    read_bandwidth: Bandwidth
    write_bandwidth: Bandwidth
    read_latency: DurationOrZero
    write_latency: DurationOrZero


class WeightCacheSection(Section):
    """See `spec.WeightCache`."""

    size: Size
    read_bandwidth: Bandwidth


class MemoriesSection(Section):
    """The two levels that a plan addresses, and caches that it doesn't see."""

    sram: MemorySection
    ddr: MemorySection
    l2: CacheSection | None = None
    weight_cache: WeightCacheSection | None = None


class HostSection(Section):
    """See `spec.Host`."""

    flops: ArithmeticRate
    memory_bandwidth: Bandwidth
    link_bandwidth: Bandwidth
    sync: DurationOrZero
    call: DurationOrZero
    memory: Annotated[HostMemory, _choice(HostMemory, "host memory")] = HostMemory.OWN


class OperatorsSection(Section):
    """Operator kinds that one engine runs for the same types within the same limits."""

    engine: EngineName
    kinds: Annotated[list[OperatorKind], Field(min_length=1)]
    dtypes: Annotated[list[ElementType], Field(min_length=1)]
    constants: list[ElementType] = []
    limits: dict[LimitName, Annotated[list[CountOrZero], Field(min_length=2, max_length=2)]] = {}


class DriverSection(Section):
    """See `spec.Driver`."""

    sync_mode: Annotated[SyncMode, _choice(SyncMode, "sync mode")]
    submit: DurationOrZero
    launch: dict[LaunchName, DurationOrZero]
    event: Cycles
    float_io: DurationOrZero = 0


class VendorCompilerSection(Section):
    """See `spec.VendorCompiler`."""

    unfused: list[OperatorKind] = []
    views: list[OperatorKind] = []


class OperatingPointSection(Section):
    """See `spec.OperatingPoint`."""

    clock: Frequency
    voltage: Millivolts


class PowerSection(Section):
    """See `spec.Power`."""

    idle: Milliwatts
    leakage: Milliwatts
    leakage_doubling: Kelvin
    mac: dict[ElementType, Femtojoules]
    vector: FemtojoulesPerByte
    sram: FemtojoulesPerByte
    dram: FemtojoulesPerByte


class ThermalStageSection(Section):
    """See `spec.ThermalStage`."""

    name: Text
    resistance: ThermalResistance
    capacity: HeatCapacity


class TripSection(Section):
    """See `spec.Trip`."""

    temperature: Celsius
    divider: Annotated[int, Field(ge=2, le=1024)] | None = None
    clock: Frequency | None = None
    hysteresis: KelvinOrZero


class AirSpeedSection(Section):
    """See `spec.AirSpeed`."""

    speed: AirSpeed
    resistance: ThermalResistance


class ThermalSection(Section):
    """See `spec.Thermal`."""

    ambient: Celsius
    poll: Duration
    critical: Celsius
    stages: Annotated[list[ThermalStageSection], Field(min_length=1)]
    governor: Annotated[GovernorKind, _choice(GovernorKind, "governor")] = GovernorKind.TABLE
    airflow: list[AirSpeedSection] = []
    trips: list[TripSection]


class JitterSection(Section):
    """See `spec.Jitter`."""

    cause: Annotated[JitterCause, _choice(JitterCause, "cause of jitter")]
    interval: Duration
    stall: Duration


class SourceSection(Section):
    """See `spec.Provenance`."""

    mark: Annotated[Mark, _choice(Mark, "mark")]
    source: Text


class SpecFile(Section):
    """A whole hardware spec."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_]{0,63}$")]
    chip: Text
    vendor: Text
    firmware: Text
    version: Text
    compiler: Text
    clock: Frequency
    tensor_core: TensorCoreSection
    vector: VectorSection
    dma: DmaSection
    memory: MemoriesSection
    host: HostSection
    layouts: dict[TensorLayout, list[OperatorKind]]
    channel_quantum: dict[ElementType, Count]
    operators: Annotated[list[OperatorsSection], Field(min_length=1)]
    driver: DriverSection
    operating_points: Annotated[list[OperatingPointSection], Field(min_length=1)]
    power: PowerSection
    thermal: ThermalSection
    jitter: list[JitterSection]
    vendor_compiler: VendorCompilerSection = VendorCompilerSection()
    sources: dict[str, SourceSection]
