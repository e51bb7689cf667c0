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

_MOST_LINES = 1 << 22
_MOST_WAYS = 128


def inconsistencies(file: SpecFile) -> Iterator[Refusal]:
    """Everything in the file that contradicts something else in it."""
    yield from _tensor_core(file.tensor_core)
    yield from _utilisation(file.tensor_core)
    yield from _vendor_compiler(file)
    yield from _memories(file)
    yield from _caches(file)
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


def _vendor_compiler(file: SpecFile) -> Iterator[Refusal]:
    """It can only leave unfused what the output stage does, and view what has views."""
    for index, kind in enumerate(file.vendor_compiler.unfused):
        if kind not in file.tensor_core.output_stage:
            yield Refusal(
                ("vendor_compiler", "unfused", index),
                f"{kind} isn't in tensor_core.output_stage",
                "leave it out: nothing would fuse it",
            )
    for index, kind in enumerate(file.vendor_compiler.views):
        if kind not in vocabulary.VIEWED:
            yield Refusal(
                ("vendor_compiler", "views", index),
                f"{kind} is always copied",
                f"known: {', '.join(sorted(vocabulary.VIEWED))}",
            )


def _utilisation(core: TensorCoreSection) -> Iterator[Refusal]:
    """Efficiencies are of types that have a rate, lanes are described whole or not at all, and
    only what deals blocks keeps several of them in flight."""
    for dtype in core.efficiency:
        if dtype not in core.macs_per_cycle:
            yield Refusal(
                ("tensor_core", "efficiency", str(dtype)),
                f"{dtype} has no rate",
                f"it multiplies {', '.join(core.macs_per_cycle)}: see tensor_core.macs_per_cycle",
            )
    lanes = ("lanes", "lane_alignment", "misaligned_lanes")
    missing = [key for key in lanes if getattr(core, key) is None]
    if missing and len(missing) < len(lanes):
        present = next(key for key in lanes if key not in missing)
        yield Refusal(
            ("tensor_core", present),
            f"means nothing without {' and '.join(missing)}",
            "give all three of lanes, lane_alignment and misaligned_lanes, or none",
        )
    elif core.misaligned_lanes and core.lanes and core.misaligned_lanes > core.lanes:
        yield Refusal(
            ("tensor_core", "misaligned_lanes"),
            f"{core.misaligned_lanes} of {core.lanes} lanes",
            "write at most lanes",
        )
    for kind in core.output_cycles_by_type:
        if kind in core.output_cycles:
            yield Refusal(
                ("tensor_core", "output_cycles_by_type", kind),
                f"{kind} stands in output_cycles too",
                "say it once: for all types there, or by type here",
            )
    yield from _blocks(core)


def _blocks(core: TensorCoreSection) -> Iterator[Refusal]:
    """Only a core that deals blocks says how."""
    given = {
        "blocks_per_instance": core.blocks_per_instance > 1,
        "blocks": bool(core.blocks),
        "max_split_k": core.max_split_k > 1,
        "group_blocks": core.group_blocks > 0,
        "operand_feed": core.operand_feed is not None,
    }
    if core.dataflow is not Dataflow.BLOCKED:
        for key in (key for key, is_given in given.items() if is_given):
            yield Refusal(
                ("tensor_core", key),
                f"{getattr(core, key)} on a {core.dataflow} array",
                "only blocked cores deal blocks; leave it out",
            )
    elif core.operand_feed is None:
        for key in ("blocks", "max_split_k"):
            if given[key]:
                yield Refusal(
                    ("tensor_core", key),
                    "no operand_feed, without which small blocks would cost nothing",
                    "add `operand_feed: 1280 B`, the bytes a cycle that reach all instances",
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
        for part in ("alignment", "burst", "interleave", "bank_interleave"):
            value: int | None = getattr(memory, part)
            if value is None:
                continue
            if value & (value - 1):
                yield Refusal((*key, part), f"{value} B isn't a power of two", "round it up to one")
            elif part.endswith("interleave") and value < memory.burst:
                yield Refusal(
                    (*key, part),
                    f"{value} B is less than a burst of {memory.burst} B",
                    "a burst comes from one bank of one channel: raise it",
                )
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


def _caches(file: SpecFile) -> Iterator[Refusal]:
    cache = file.memory.l2
    if cache is None:
        return
    key = ("memory", "l2")
    if cache.line & (cache.line - 1):
        yield Refusal((*key, "line"), f"{cache.line} B isn't a power of two", "round it up to one")
    if cache.size % (cache.line * cache.ways):
        yield Refusal(
            (*key, "size"),
            f"{format_bytes(cache.size)} isn't a whole number of sets of {cache.ways} lines of "
            f"{cache.line} B",
            "size is line x ways x sets",
        )
    if cache.size // cache.line > _MOST_LINES:
        yield Refusal(
            (*key, "size"),
            f"{format_bytes(cache.size)} are {cache.size // cache.line:,} lines of {cache.line} B",
            f"a cache has at most {_MOST_LINES:,} lines: check the prefixes",
        )
    if cache.ways > _MOST_WAYS:
        yield Refusal(
            (*key, "ways"),
            f"{cache.ways} lines share a set",
            f"write at most {_MOST_WAYS}: of a fully associative cache too, sets behave alike then",
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
