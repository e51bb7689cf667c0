"""What `recipe hardware list` and `recipe hardware check` tell about a spec."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from stages.hardware.spec import Cache, Dataflow, HardwareSpec, Mark, TensorCore, Trip
from stages.tensors import DType
from stages.units import format_bandwidth, format_bytes, format_frequency, format_ns

_HIGHEST_USUAL_RIDGE = 20_000  # an Edge TPU behind USB: 4 TOPS over 400 MB/s


@dataclass(frozen=True, slots=True)
class SpecRow:
    """One spec in the list: what tells it from the others."""

    name: str
    chip: str
    clock_hz: int
    sram_bytes: int
    peak_ops_per_second: int
    peak_dtype: DType
    dtypes: tuple[DType, ...]

    def cells(self) -> tuple[str, ...]:
        """Name, chip, clock, SRAM, peak and types, as they are printed."""
        return (
            self.name,
            self.chip,
            format_frequency(self.clock_hz),
            format_bytes(self.sram_bytes),
            f"{format_ops(self.peak_ops_per_second)} {self.peak_dtype}",
            " ".join(self.dtypes),
        )


@dataclass(frozen=True, slots=True)
class Fact:
    """A line of a check: a name, and a value as it is printed."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class SpecWarning:
    """Something legal that is probably a slip, with the key path that it is about."""

    key_path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.key_path}: {self.problem}"


@dataclass(frozen=True, slots=True)
class SpecSummary:
    """The answer of a check."""

    row: SpecRow
    facts: tuple[Fact, ...]
    warnings: tuple[SpecWarning, ...]


def list_row(spec: HardwareSpec) -> SpecRow:
    """The spec's line in the list."""
    rates = spec.tensor_core.macs_per_cycle
    fastest = max(rates, key=lambda dtype: rates[dtype])
    return SpecRow(
        name=spec.name,
        chip=spec.chip,
        clock_hz=spec.clock_hz,
        sram_bytes=spec.sram.size_bytes,
        peak_ops_per_second=peak_ops(spec, fastest),
        peak_dtype=fastest,
        dtypes=tuple(rates),
    )


def summarise(spec: HardwareSpec, stem: str) -> SpecSummary:
    """Facts and warnings about a spec that was read from a file with this stem."""
    return SpecSummary(list_row(spec), tuple(_facts(spec)), tuple(_warnings(spec, stem)))


def peak_ops(spec: HardwareSpec, dtype: DType) -> int:
    """Operations (two for a multiply-accumulate) per second at peak."""
    return 2 * spec.tensor_core.macs_per_cycle[dtype] * spec.clock_hz


def ridge_point(spec: HardwareSpec, dtype: DType) -> Fraction:
    """Operations per byte of `ddr` traffic at which compute and memory take equally long
    (Williams, Waterman, Patterson: Roofline, CACM 2009)."""
    return Fraction(peak_ops(spec, dtype), _traffic_bandwidth(spec))


def format_ops(ops_per_second: int) -> str:
    """Operations per second as data sheets print them: `2.05 TOPS`, `256 GOPS`, `2,141 TOPS`."""
    unit, scale = ("TOPS", 10**12) if ops_per_second >= 10**12 else ("GOPS", 10**9)
    figure = ops_per_second / scale
    return f"{figure:,.0f} {unit}" if round(figure) >= 1000 else f"{figure:.3g} {unit}"


def _traffic_bandwidth(spec: HardwareSpec) -> int:
    """The most bytes per second between `ddr` and the chip."""
    port = max(spec.ddr.read_bandwidth, spec.ddr.write_bandwidth)
    return min(port, spec.dma.channels * spec.dma.bandwidth)


def _facts(spec: HardwareSpec) -> Iterator[Fact]:
    core = spec.tensor_core
    yield Fact("chip", f"{spec.vendor} {spec.chip}, firmware {spec.firmware}")
    yield Fact("spec version", f"{spec.version}, for compilers {spec.compiler}")
    yield Fact("digest", spec.digest)
    yield Fact("clock", format_frequency(spec.clock_hz))
    yield Fact("array", _array_text(core))
    for dtype in core.macs_per_cycle:
        yield Fact(
            f"peak {dtype}",
            f"{format_ops(peak_ops(spec, dtype))}, {core.macs_per_cycle[dtype]:,} MACs a cycle, "
            f"ridge at {float(ridge_point(spec, dtype)):.4g} operations a byte",
        )
    yield Fact("sram", f"{format_bytes(spec.sram.size_bytes)}, {_bandwidth_text(spec, 'sram')}")
    yield Fact("ddr", f"{format_bytes(spec.ddr.size_bytes)}, {_bandwidth_text(spec, 'ddr')}")
    if spec.l2 is not None:
        yield Fact("l2", _l2_text(spec.l2))
    if spec.weight_cache is not None:
        yield Fact(
            "weight cache",
            f"{format_bytes(spec.weight_cache.size_bytes)}, reads "
            f"{format_bandwidth(spec.weight_cache.read_bandwidth)}",
        )
    if efficiencies := _efficiency_text(spec):
        yield Fact("efficiency", efficiencies)
    yield Fact(
        "dma",
        f"{spec.dma.channels} x {format_bandwidth(spec.dma.bandwidth)}, "
        f"{spec.dma.outstanding} outstanding each",
    )
    yield Fact("operators", _operators_text(spec))
    yield Fact("driver", f"{spec.driver.sync_mode}, submit {format_ns(spec.driver.submit_ns)}")
    trips = ", ".join(map(_trip_text, spec.thermal.trips)) or "none"
    yield Fact("trips", f"{trips}; critical {spec.thermal.critical_celsius:g} degC")
    yield Fact("power at peak", _power_text(spec))
    marks = Counter(source.mark for source in spec.sources.values())
    yield Fact("sources", ", ".join(f"{marks[mark]} {mark}" for mark in Mark if marks[mark]))


def _array_text(core: TensorCore) -> str:
    shape = f"{core.rows}x{core.cols}"
    if core.dataflow is Dataflow.DOT_PRODUCT:
        shape += f"x{core.depth}"
    instances = f"{core.instances} x " if core.instances > 1 else ""
    blocks = "".join(f", {rows}x{cols}" for rows, cols in core.block_shapes)
    return f"{instances}{shape}{blocks} {core.dataflow}, {core.array_dtype}"


def _bandwidth_text(spec: HardwareSpec, name: str) -> str:
    memory = spec.sram if name == "sram" else spec.ddr
    return (
        f"reads {format_bandwidth(memory.read_bandwidth)} after "
        f"{format_ns(memory.read_latency_ns)}, writes "
        f"{format_bandwidth(memory.write_bandwidth)} after {format_ns(memory.write_latency_ns)}"
    )


def _l2_text(cache: Cache) -> str:
    return (
        f"{format_bytes(cache.size_bytes)}, {cache.ways} ways of {cache.line_bytes} B lines, reads "
        f"{format_bandwidth(cache.read_bandwidth)} after {format_ns(cache.read_latency_ns)}, "
        f"writes {format_bandwidth(cache.write_bandwidth)} after "
        f"{format_ns(cache.write_latency_ns)}"
    )


def _efficiency_text(spec: HardwareSpec) -> str:
    """What is achieved of modelled rates, where it isn't all of them."""
    rates = {str(dtype): rate for dtype, rate in spec.tensor_core.efficiency_permille.items()}
    rates["vector"] = spec.vector.efficiency_permille
    for memory in (spec.sram, spec.ddr):
        rates[f"{memory.name} reads"] = memory.read_efficiency_permille
        rates[f"{memory.name} writes"] = memory.write_efficiency_permille
    return ", ".join(f"{name} {rate / 10:g} %" for name, rate in rates.items() if rate != 1000)


def _operators_text(spec: HardwareSpec) -> str:
    engines = Counter(support.engine for support in spec.operators.values())
    return ", ".join(f"{count} on {engine}" for engine, count in sorted(engines.items()))


def peak_milliwatts(spec: HardwareSpec, dtype: DType) -> int:
    """Power when the array and the memory port both run at their peak, at 25 degrees Celsius."""
    power = spec.power
    macs = spec.tensor_core.macs_per_cycle[dtype] * spec.clock_hz
    traffic = _traffic_bandwidth(spec)
    femtowatts = (
        macs * power.mac_femtojoules[dtype]
        + traffic * power.dram_femtojoules_per_byte
        + traffic * power.sram_femtojoules_per_byte
    )
    return power.idle_milliwatts + power.leakage_milliwatts + femtowatts // 10**12


def _power_text(spec: HardwareSpec) -> str:
    dtype = list_row(spec).peak_dtype
    milliwatts = peak_milliwatts(spec, dtype)
    rise = milliwatts * sum(stage.millikelvin_per_watt for stage in spec.thermal.stages)
    settled = spec.thermal.ambient_celsius + rise / 10**6
    return f"{milliwatts / 1000:.3g} W in {dtype}, which settles at {settled:.0f} degC"


def _warnings(spec: HardwareSpec, stem: str) -> Iterator[SpecWarning]:
    if spec.name != stem:
        yield SpecWarning("name", f"{spec.name} isn't the name of its file, {stem}")
    yield from _thermal_warnings(spec)
    yield from _bandwidth_warnings(spec)
    yield from _size_warnings(spec)
    yield from _operator_warnings(spec)


def _trip_text(trip: Trip) -> str:
    if trip.clock_hz:
        return f"{trip.celsius:g} degC {format_frequency(trip.clock_hz)}"
    if trip.divider == 1:
        return f"{trip.celsius:g} degC step-wise"
    return f"{trip.celsius:g} degC clock/{trip.divider}"


def _thermal_warnings(spec: HardwareSpec) -> Iterator[SpecWarning]:
    thermal = spec.thermal
    if not thermal.trips:
        yield SpecWarning("thermal.trips", "no trip: the clock never changes, however hot it gets")
    for number, trip in enumerate(thermal.trips):
        if trip.celsius >= thermal.critical_celsius:
            yield SpecWarning(
                f"thermal.trips[{number}].temperature",
                f"{trip.celsius:g} degC isn't below critical, {thermal.critical_celsius:g} degC",
            )
        if number and trip.celsius - trip.hysteresis_celsius <= thermal.trips[number - 1].celsius:
            yield SpecWarning(
                f"thermal.trips[{number}].hysteresis",
                f"reaches down to the trip at {thermal.trips[number - 1].celsius:g} degC",
            )
    fastest = max(point.clock_hz for point in spec.operating_points)
    if spec.clock_hz < fastest:
        yield SpecWarning(
            "clock",
            f"{format_frequency(spec.clock_hz)} is below the fastest operating point, "
            f"{format_frequency(fastest)}",
        )


def _bandwidth_warnings(spec: HardwareSpec) -> Iterator[SpecWarning]:
    fastest_ddr = max(spec.ddr.read_bandwidth, spec.ddr.write_bandwidth)
    slowest_sram = min(spec.sram.read_bandwidth, spec.sram.write_bandwidth)
    if slowest_sram < fastest_ddr:
        yield SpecWarning(
            "memory.sram.read_bandwidth",
            f"{format_bandwidth(slowest_sram)} is less than ddr's {format_bandwidth(fastest_ddr)}",
        )
    if spec.l2 is not None and spec.l2.read_bandwidth < spec.ddr.read_bandwidth:
        yield SpecWarning(
            "memory.l2.read_bandwidth",
            f"{format_bandwidth(spec.l2.read_bandwidth)} is less than the ddr behind it gives, "
            f"{format_bandwidth(spec.ddr.read_bandwidth)}",
        )
    if spec.l2 is not None and spec.l2.line_bytes < spec.ddr.burst_bytes:
        yield SpecWarning(
            "memory.l2.line",
            f"{spec.l2.line_bytes} B is less than a burst of ddr, {spec.ddr.burst_bytes} B",
        )
    fastest = max(fastest_ddr, slowest_sram)
    if spec.dma.bandwidth > 2 * fastest:
        yield SpecWarning(
            "dma.bandwidth",
            f"{format_bandwidth(spec.dma.bandwidth)} a channel is over twice what any memory "
            f"gives, {format_bandwidth(fastest)}",
        )
    bytes_per_cycle = Fraction(fastest_ddr, spec.clock_hz)
    if bytes_per_cycle > 4096:
        yield SpecWarning(
            "memory.ddr.read_bandwidth",
            f"{format_bandwidth(fastest_ddr)} is {float(bytes_per_cycle):.0f} bytes a cycle",
        )
    dtype = list_row(spec).peak_dtype
    ridge = float(ridge_point(spec, dtype))
    if not 1 <= ridge <= _HIGHEST_USUAL_RIDGE:
        yield SpecWarning(
            "tensor_core.macs_per_cycle",
            f"the ridge point of {dtype}, {ridge:.3g} operations a byte, is out of the usual range",
        )


def _size_warnings(spec: HardwareSpec) -> Iterator[SpecWarning]:
    if spec.sram.size_bytes >= spec.ddr.size_bytes:
        yield SpecWarning("memory.sram.size", "not smaller than ddr: check the prefix")
    for dtype in spec.tensor_core.macs_per_cycle:
        if dtype not in spec.channel_quantum:
            yield SpecWarning("channel_quantum", f"no quantum for {dtype}")


def _operator_warnings(spec: HardwareSpec) -> Iterator[SpecWarning]:
    rates = spec.tensor_core.macs_per_cycle
    for kind, support in sorted(spec.operators.items()):
        if support.engine != "tensor_core":
            continue
        if unused := [dtype for dtype in rates if dtype not in support.dtypes]:
            yield SpecWarning(
                "operators", f"{kind} leaves out {', '.join(unused)}, which the array multiplies"
            )
    for kind in ("conv", "matmul"):
        if kind not in spec.operators:
            yield SpecWarning("operators", f"no {kind}: every one of them runs on the host")
