"""What must hold between the keys of a hardware spec, beyond each key's own form."""

from __future__ import annotations

from collections.abc import Iterator

from stages.hardware import vocabulary
from stages.hardware.refusals import Refusal
from stages.hardware.schema import SpecFile, TensorCoreSection
from stages.hardware.spec import Dataflow
from stages.hardware.thermal_consistency import thermal_inconsistencies
from stages.tensors import LayoutKind
from stages.units import format_bytes, format_frequency, format_ns


def inconsistencies(file: SpecFile) -> Iterator[Refusal]:
    """Everything in the file that contradicts something else in it."""
    yield from _tensor_core(file.tensor_core)
    yield from _memories(file)
    yield from _layouts(file)
    yield from _operators(file)
    yield from _clocks_and_power(file)
    yield from _whole_kelvin(file)
    yield from thermal_inconsistencies(file)
    yield from _jitter(file)


def _tensor_core(core: TensorCoreSection) -> Iterator[Refusal]:
    rates = core.macs_per_cycle
    if core.array_dtype not in rates:
        yield Refusal(
            ("tensor_core", "array_dtype"),
            f"{core.array_dtype} has no rate",
            f"add `{core.array_dtype}` to tensor_core.macs_per_cycle",
        )
    else:
        yield from _array_rate(core, rates[core.array_dtype])
    for dtype, rate in rates.items():
        if rate < core.array.instances:
            yield Refusal(
                ("tensor_core", "macs_per_cycle", str(dtype)),
                f"{rate} is less than one for each of {core.array.instances} instances",
                "the rate is the sum over all instances",
            )
    peak = rates.get(core.array_dtype)
    if peak is not None and core.depthwise_macs_per_cycle > peak:
        yield Refusal(
            ("tensor_core", "depthwise_macs_per_cycle"),
            f"{core.depthwise_macs_per_cycle} is more than the peak of {core.array_dtype}",
            "give the rate in that type; 0 where depthwise has no mode of its own",
        )
    for index, kind in enumerate(core.output_stage):
        if kind not in vocabulary.OUTPUT_STAGE:
            yield Refusal(
                ("tensor_core", "output_stage", index),
                f"{kind} can't act on each result alone",
                "list it under operators, with engine vector",
            )


def _array_rate(core: TensorCoreSection, rate: int) -> Iterator[Refusal]:
    """The array's shape and its rate say the same, except where the rows and cols are a block."""
    array = core.array
    if core.dataflow is not Dataflow.DOT_PRODUCT and core.weight_load:
        yield Refusal(
            ("tensor_core", "weight_load"),
            f"{core.weight_load} cycles on a {core.dataflow} array",
            "write `0 cycles`: only dot_product arrays wait for weights",
        )
    if core.dataflow is Dataflow.BLOCKED:
        return
    if core.dataflow is not Dataflow.DOT_PRODUCT and array.depth != 1:
        yield Refusal(
            ("tensor_core", "array", "depth"),
            f"{array.depth} on a systolic array",
            "a systolic array has depth 1; dot_product arrays have more",
        )
        return
    macs = array.rows * array.cols * array.depth * array.instances
    if macs != rate:
        yield Refusal(
            ("tensor_core", "macs_per_cycle", str(core.array_dtype)),
            f"{rate} contradicts the array, which does {macs} MACs a cycle",
            "rows x cols x depth x instances is the rate of array_dtype",
        )


def _memories(file: SpecFile) -> Iterator[Refusal]:
    for name, memory in (("sram", file.memory.sram), ("ddr", file.memory.ddr)):
        key = ("memory", name)
        if memory.reserved >= memory.size:
            yield Refusal(
                (*key, "reserved"),
                f"{format_bytes(memory.reserved)} leave nothing of {format_bytes(memory.size)}",
                "lower it, or raise the size",
            )
        for part, value in (("alignment", memory.alignment), ("burst", memory.burst)):
            if value & (value - 1):
                yield Refusal((*key, part), f"{value} B isn't a power of two", "round it up to one")
    if file.dma.alignment & (file.dma.alignment - 1):
        yield Refusal(
            ("dma", "alignment"),
            f"{file.dma.alignment} B isn't a power of two",
            "round it up to one",
        )
    if file.dma.max_transfer < file.dma.alignment:
        yield Refusal(
            ("dma", "max_transfer"),
            f"{file.dma.max_transfer} B is less than the alignment of {file.dma.alignment} B",
            "raise it",
        )


def _layouts(file: SpecFile) -> Iterator[Refusal]:
    seen: dict[str, str] = {}
    quanta = set(file.channel_quantum.values())
    for layout, kinds in file.layouts.items():
        key = ("layouts", str(layout))
        if layout.kind is LayoutKind.NC1HWC2 and layout.quantum not in quanta:
            yield Refusal(
                key,
                f"no dtype has a channel quantum of {layout.quantum}",
                "give the quantum of one of the types in channel_quantum",
            )
        for index, kind in enumerate(kinds):
            if kind in seen:
                yield Refusal(
                    (*key, index), f"{kind} is already under {seen[kind]}", "list it once"
                )
            seen.setdefault(kind, str(layout))


def _operators(file: SpecFile) -> Iterator[Refusal]:
    seen: dict[str, int] = {}
    for number, entry in enumerate(file.operators):
        for index, kind in enumerate(entry.kinds):
            key = ("operators", number, "kinds", index)
            if kind in seen:
                yield Refusal(key, f"{kind} is already in operators[{seen[kind]}]", "list it once")
            seen.setdefault(kind, number)
            if kind not in vocabulary.RUNS_ON[entry.engine]:
                yield Refusal(
                    key,
                    f"{kind} can't run on {entry.engine}",
                    _engines_for(kind),
                )
        for name, bounds in entry.limits.items():
            bound = ("operators", number, "limits", name)
            low, high = bounds
            if low > high:
                yield Refusal(bound, f"[{low}, {high}] holds nothing", "write [lowest, highest]")
            if strangers := [kind for kind in entry.kinds if kind not in vocabulary.LIMITS[name]]:
                yield Refusal(
                    bound,
                    f"{', '.join(strangers)} has no {name}",
                    "move those kinds to an entry without this limit",
                )
        if entry.engine == "tensor_core":
            yield from _contraction_types(file, number)


def _contraction_types(file: SpecFile, number: int) -> Iterator[Refusal]:
    """Something that the core multiplies is among the types of its operators."""
    entry = file.operators[number]
    rates = file.tensor_core.macs_per_cycle
    if not any(dtype in rates for dtype in entry.dtypes):
        yield Refusal(
            ("operators", number, "dtypes"),
            f"the tensor core multiplies none of {', '.join(entry.dtypes)}",
            f"it multiplies {', '.join(rates)}: see tensor_core.macs_per_cycle",
        )


def _engines_for(kind: str) -> str:
    engines = [engine for engine, kinds in vocabulary.RUNS_ON.items() if kind in kinds]
    return f"{kind} runs on {' or '.join(engines)}"


def _clocks_and_power(file: SpecFile) -> Iterator[Refusal]:
    clocks = [point.clock for point in file.operating_points]
    if sorted(set(clocks)) != clocks:
        yield Refusal(
            ("operating_points",),
            f"clocks out of order: {', '.join(map(format_frequency, clocks))}",
            "list each step once, from the slowest up",
        )
    if file.clock not in clocks:
        yield Refusal(
            ("clock",),
            f"{format_frequency(file.clock)} is no operating point",
            "list the nominal clock in operating_points with its voltage",
        )
    for dtype in file.tensor_core.macs_per_cycle:
        if dtype not in file.power.mac:
            yield Refusal(
                ("power", "mac"), f"no energy for {dtype}", f"add `{dtype}: 0.5 pJ` or the like"
            )


def _whole_kelvin(file: SpecFile) -> Iterator[Refusal]:
    millikelvin = file.power.leakage_doubling
    if millikelvin % 1000:
        yield Refusal(
            ("power", "leakage_doubling"),
            f"{millikelvin} mK isn't a whole number of kelvin",
            "round it to 1 K",
        )


def _jitter(file: SpecFile) -> Iterator[Refusal]:
    seen = set()
    for number, jitter in enumerate(file.jitter):
        if jitter.cause in seen:
            yield Refusal(("jitter", number, "cause"), f"{jitter.cause} twice", "list it once")
        seen.add(jitter.cause)
        if jitter.stall >= jitter.interval:
            yield Refusal(
                ("jitter", number, "stall"),
                f"{format_ns(jitter.stall)} every {format_ns(jitter.interval)} never ends",
                "the stall must be shorter than the interval",
            )
