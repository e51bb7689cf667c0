"""What a wrong spec is told: the problem with its value, file and line, and the cure."""

import re
from pathlib import Path

import pytest

from stages.errors import HardwareSpecError, Outcome
from stages.hardware.load import find_spec, load_spec, spec_names
from tests.hardware.specs import SPECS, line_of, write_edited

SRAM = "size: 256 KiB"
SIZE_HINT = "write a size such as `384 KiB` (units: B, kB, MB, GB, KiB, MiB, GiB)"
DTYPES = "known: bf16, bool, f16, f32, f64, i16, i32, i64, i8, u16, u32, u64, u8"

CASES = {
    # name: (old, new, problem, fragment on the line that is named, hint)
    "wrong unit": (
        SRAM,
        "size: 256 MB/s",
        "memory.sram.size: '256 MB/s' is a bandwidth, not a size",
        "256 MB/s",
        SIZE_HINT,
    ),
    "no unit": (SRAM, "size: 256", "memory.sram.size: 256 has no unit", "size: 256", SIZE_HINT),
    "negative size": (
        SRAM,
        "size: -256 KiB",
        "memory.sram.size: '-256 KiB' is negative",
        "-256 KiB",
        SIZE_HINT,
    ),
    "size of zero": (
        SRAM,
        "size: 0 KiB",
        "memory.sram.size: '0 KiB' must be more than zero",
        "0 KiB",
        SIZE_HINT,
    ),
    "not a number": (
        SRAM,
        "size: .nan",
        "memory.sram.size: nan has no unit",
        ".nan",
        SIZE_HINT,
    ),
    "no value": (SRAM, "size:", "memory.sram.size: no value", "    size:", SIZE_HINT),
    "list for a number": (
        SRAM,
        "size: [1 KiB]",
        "memory.sram.size: ['1 KiB'] isn't a size",
        "[1 KiB]",
        SIZE_HINT,
    ),
    "missing key": (
        "    size: 256 KiB\n",
        "",
        "memory.sram.size: missing key",
        "  sram:",
        "add `size:`; the keys here are reserved, alignment, read_bandwidth, write_bandwidth,"
        " read_latency, write_latency, burst, banks",
    ),
    "misspelt key": (
        SRAM,
        "sise: 256 KiB",
        "memory.sram.sise: unknown key",
        "sise:",
        "did you mean `size`?",
    ),
    "unknown key": (
        "  banks: 8",
        "  banks: 8\n    colour: 3",
        "memory.sram.colour: unknown key",
        "colour",
        "known: bank_interleave, channels, interleave, read_efficiency, write_efficiency",
    ),
    "unknown section": (
        "driver:\n",
        "drivers: {}\ndriver:\n",
        "drivers: unknown key",
        "drivers:",
        "did you mean `driver`?",
    ),
    "duplicate key": (
        SRAM,
        "size: 256 KiB\n    size: 1 MiB",
        "memory.sram.size: duplicate key, first on line <size: 256 KiB>",
        "size: 1 MiB",
        "remove one of the two",
    ),
    "array of zero": (
        "rows: 16",
        "rows: 0",
        "tensor_core.array.rows: 0 is less than 1",
        "rows: 0",
        "raise it",
    ),
    "fraction of a row": (
        "rows: 16",
        "rows: 16.5",
        "tensor_core.array.rows: 16.5 isn't a count",
        "rows: 16.5",
        "write a whole number",
    ),
    "count in quotes": (
        "rows: 16",
        'rows: "16"',
        "tensor_core.array.rows: '16' isn't a count",
        'rows: "16"',
        "write a whole number",
    ),
    "enormous count": (
        "outstanding: 2",
        "outstanding: 9999999999999999",
        "dma.outstanding: 9999999999999999 is more than 281474976710656",
        "9999999999999999",
        "lower it",
    ),
    "array against rate": (
        "rows: 16",
        "rows: 32",
        "tensor_core.macs_per_cycle.i8: 256 contradicts the array, which does 512 MACs a cycle",
        "macs_per_cycle: {",
        "rows x cols x depth x instances is the rate of array_dtype",
    ),
    "deep systolic array": (
        "cols: 16, depth: 1",
        "cols: 8, depth: 2",
        "tensor_core.array.depth: 2 on a systolic array",
        "depth: 2",
        "a systolic array has depth 1; dot_product arrays have more",
    ),
    "weights of a systolic array": (
        "weight_load: 0 cycles",
        "weight_load: 4 cycles",
        "tensor_core.weight_load: 4 cycles on a weight_stationary array",
        "weight_load",
        "write `0 cycles`: only dot_product arrays wait for weights",
    ),
    "array type without rate": (
        "array_dtype: i8",
        "array_dtype: f32",
        "tensor_core.array_dtype: f32 has no rate",
        "array_dtype",
        "add `f32` to tensor_core.macs_per_cycle",
    ),
    "depthwise over peak": (
        "depthwise_macs_per_cycle: 32",
        "depthwise_macs_per_cycle: 257",
        "tensor_core.depthwise_macs_per_cycle: 257 is more than the peak of i8",
        "depthwise_macs_per_cycle",
        "give the rate in that type; 0 where depthwise has no mode of its own",
    ),
    "output stage": (
        "output_stage: [add,",
        "output_stage: [softmax, add,",
        "tensor_core.output_stage[0]: softmax can't act on each result alone",
        "output_stage",
        "list it under operators, with engine vector",
    ),
    "unknown layout": (
        "nc1hwc2/8:",
        "nchw8:",
        "layouts.nchw8: 'nchw8' is an unknown layout",
        "nchw8:",
        "write `row_major`, `nhwc`, or `nc1hwc2/16` with its channel quantum",
    ),
    "quantum of no type": (
        "nc1hwc2/8:",
        "nc1hwc2/7:",
        "layouts.nc1hwc2/7: no dtype has a channel quantum of 7",
        "nc1hwc2/7:",
        "give the quantum of one of the types in channel_quantum",
    ),
    "layout twice": (
        "[conv, conv_transpose, max_pool, average_pool]",
        "[conv, conv]",
        "layouts.nc1hwc2/8[1]: conv is already under nc1hwc2/8",
        "[conv, conv]",
        "list it once",
    ),
    "unknown dtype": (
        "channel_quantum: {f16: 8",
        "channel_quantum: {fp16: 8",
        "channel_quantum.fp16: 'fp16' is an unknown dtype",
        "fp16",
        "did you mean `f16`?",
    ),
    "foreign dtype": (
        "array_dtype: i8",
        "array_dtype: qint",
        "tensor_core.array_dtype: 'qint' is an unknown dtype",
        "qint",
        DTYPES,
    ),
    "unknown operator kind": (
        "kinds: [matmul]",
        "kinds: [matmull]",
        "operators[1].kinds[0]: 'matmull' is an unknown operator kind",
        "matmull",
        "did you mean `matmul`?",
    ),
    "kind twice": (
        "kinds: [matmul]",
        "kinds: [matmul, conv]",
        "operators[1].kinds[1]: conv is already in operators[0]",
        "[matmul, conv]",
        "list it once",
    ),
    "kind on the wrong engine": (
        "- engine: vector\n    kinds: [max_pool, average_pool]",
        "- engine: dma\n    kinds: [max_pool, average_pool]",
        "operators[2].kinds[0]: max_pool can't run on dma",
        "kinds: [max_pool",
        "max_pool runs on vector\nalso wrong in this file:"
        " operators[2].kinds[1] on line <kinds: [max_pool>",
    ),
    "tensor core without a type": (
        "    kinds: [matmul]\n    dtypes: [f16, i8, u8, i32]",
        "    kinds: [matmul]\n    dtypes: [f64]",
        "operators[1].dtypes: the tensor core multiplies none of f64",
        "[f64]",
        "it multiplies i8, u8, f16: see tensor_core.macs_per_cycle",
    ),
    "limit upside down": (
        "stride: [1, 8]",
        "stride: [8, 1]",
        "operators[0].limits.stride: [8, 1] holds nothing",
        "[8, 1]",
        "write [lowest, highest]",
    ),
    "half a limit": (
        "stride: [1, 8]",
        "stride: [1]",
        "operators[0].limits.stride: too few entries: 1",
        "stride: [1]",
        "give at least 2",
    ),
    "limit of a stranger": (
        "    kinds: [matmul]\n",
        "    kinds: [matmul]\n    limits: {stride: [1, 2]}\n",
        "operators[1].limits.stride: matmul has no stride",
        "stride: [1, 2]",
        "move those kinds to an entry without this limit",
    ),
    "unknown limit": (
        "stride: [1, 8]",
        "strides: [1, 8]",
        "operators[0].limits.strides: 'strides' is an unknown limit",
        "strides: [1, 8]",
        "did you mean `stride`?",
    ),
    "unknown dataflow": (
        "dataflow: weight_stationary",
        "dataflow: weights_stationary",
        "tensor_core.dataflow: 'weights_stationary' is an unknown dataflow",
        "weights_stationary",
        "did you mean `weight_stationary`?",
    ),
    "unknown sync mode": (
        "sync_mode: async",
        "sync_mode: lax",
        "driver.sync_mode: 'lax' is an unknown sync mode",
        "lax",
        "known: async, strict",
    ),
    "trips out of order": (
        "temperature: 95 degC",
        "temperature: 80 degC",
        "thermal.trips[1]: trip table out of order: 85 degC (clock/2) comes before"
        " 80 degC (clock/4)",
        "80 degC",
        "list trips from the coolest up, each with a larger divider or a slower clock",
    ),
    "divider and clock": (
        "divider: 2, ",
        "divider: 2, clock: 250 MHz, ",
        "thermal.trips[0]: 85 degC (250 MHz) has both divider and clock",
        "divider: 2, clock: 250 MHz",
        "give `divider: 2`, or `clock:` with one of operating_points",
    ),
    "neither divider nor clock": (
        "divider: 2, ",
        "",
        "thermal.trips[0]: 85 degC has neither divider nor clock",
        "85 degC",
        "give `divider: 2`, or `clock:` with one of operating_points",
    ),
    "clock that is no operating point": (
        "divider: 2, ",
        "clock: 200 MHz, ",
        "thermal.trips[0].clock: 200 MHz is no operating point",
        "clock: 200 MHz",
        "give one of 125 MHz, 250 MHz, 500 MHz",
    ),
    "clock that isn't slower": (
        "divider: 2, ",
        "clock: 500 MHz, ",
        "thermal.trips[0].clock: 500 MHz isn't below the nominal clock",
        "degC, clock: 500 MHz",
        "give less than 500 MHz",
    ),
    "a divider under a step-wise governor": (
        "  trips:\n",
        "  governor: step_wise\n  trips:\n",
        "thermal.trips[0]: 85 degC (clock/2) under a step-wise governor",
        "85 degC",
        "give temperature and hysteresis alone: it steps through operating_points\n"
        "also wrong in this file: thermal.trips[1] on line <95 degC>, thermal.trips[1] on line"
        " <95 degC>",
    ),
    "unknown governor": (
        "  trips:\n",
        "  governor: stepwise\n  trips:\n",
        "thermal.governor: 'stepwise' is an unknown governor",
        "stepwise",
        "did you mean `step_wise`?",
    ),
    "air that resists more": (
        "resistance: 27 K/W",
        "resistance: 40 K/W",
        "thermal.airflow[2]: 40 K/W at 2 m/s comes after 35 K/W at 1 m/s",
        "40 K/W",
        "list speeds from the slowest up; faster air doesn't resist more",
    ),
    "divider of one": (
        "divider: 2",
        "divider: 1",
        "thermal.trips[0].divider: 1 is less than 2",
        "divider: 1",
        "raise it",
    ),
    "always tripped": (
        "ambient: 25 degC",
        "ambient: 90 degC",
        "thermal.ambient: 90 degC is over the first trip",
        "ambient:",
        "the device would never run at its full clock",
    ),
    "clock of no operating point": (
        "clock: 500 MHz",
        "clock: 400 MHz",
        "clock: 400 MHz is no operating point",
        "clock: 400 MHz",
        "list the nominal clock in operating_points with its voltage",
    ),
    "operating points out of order": (
        "{clock: 125 MHz",
        "{clock: 300 MHz",
        "operating_points: clocks out of order: 300 MHz, 250 MHz, 500 MHz",
        "operating_points:",
        "list each step once, from the slowest up",
    ),
    "energy missing": (
        "mac: {i8: 0.3 pJ, u8: 0.3 pJ, f16: 1 pJ}",
        "mac: {i8: 0.3 pJ, u8: 0.3 pJ}",
        "power.mac: no energy for f16",
        "mac: {i8: 0.3",
        "add `f16: 0.5 pJ` or the like",
    ),
    "half a kelvin": (
        "leakage_doubling: 25 K",
        "leakage_doubling: 2.5 K",
        "power.leakage_doubling: 2500 mK isn't a whole number of kelvin",
        "2.5 K",
        "round it to 1 K",
    ),
    "reserved over size": (
        "reserved: 1 KiB",
        "reserved: 256 KiB",
        "memory.sram.reserved: 256 KiB leave nothing of 256 KiB",
        "reserved: 256 KiB",
        "lower it, or raise the size",
    ),
    "odd alignment": (
        "alignment: 64 B",
        "alignment: 48 B",
        "memory.sram.alignment: 48 B isn't a power of two",
        "48 B",
        "round it up to one",
    ),
    "odd interleave": (
        "    banks: 8\n  ddr:",
        "    banks: 8\n    interleave: 48 B\n  ddr:",
        "memory.sram.interleave: 48 B isn't a power of two",
        "interleave: 48 B",
        "round it up to one",
    ),
    "interleave below a burst": (
        "    banks: 8\n  ddr:",
        "    banks: 8\n    bank_interleave: 8 B\n  ddr:",
        "memory.sram.bank_interleave: 8 B is less than a burst of 16 B",
        "bank_interleave: 8 B",
        "a burst comes from one bank of one channel: raise it",
    ),
    "half a set": (
        "memory:\n",
        "memory:\n  l2: {size: 1000 B, line: 64 B, ways: 4, read_bandwidth: 1 GB/s, "
        "write_bandwidth: 1 GB/s, read_latency: 1 ns, write_latency: 1 ns}\n",
        "memory.l2.size: 1,000 B isn't a whole number of sets of 4 lines of 64 B",
        "size: 1000 B",
        "size is line x ways x sets",
    ),
    "a cache of a terabyte": (
        "memory:\n",
        "memory:\n  l2: {size: 1024 GiB, line: 64 B, ways: 4, read_bandwidth: 1 GB/s, "
        "write_bandwidth: 1 GB/s, read_latency: 1 ns, write_latency: 1 ns}\n",
        "memory.l2.size: 1,024 GiB are 17,179,869,184 lines of 64 B",
        "size: 1024 GiB",
        "a cache has at most 4,194,304 lines: check the prefixes",
    ),
    "one set": (
        "memory:\n",
        "memory:\n  l2: {size: 64 KiB, line: 64 B, ways: 1024, read_bandwidth: 1 GB/s, "
        "write_bandwidth: 1 GB/s, read_latency: 1 ns, write_latency: 1 ns}\n",
        "memory.l2.ways: 1024 lines share a set",
        "ways: 1024",
        "write at most 128: of a fully associative cache too, sets behave alike then",
    ),
    "odd line": (
        "memory:\n",
        "memory:\n  l2: {size: 960 B, line: 48 B, ways: 4, read_bandwidth: 1 GB/s, "
        "write_bandwidth: 1 GB/s, read_latency: 1 ns, write_latency: 1 ns}\n",
        "memory.l2.line: 48 B isn't a power of two",
        "line: 48 B",
        "round it up to one",
    ),
    "no share": (
        "  startup: 16 cycles\n",
        "  startup: 16 cycles\n  efficiency: 0.8\n",
        "vector.efficiency: 0.8 has no unit",
        "efficiency: 0.8",
        "write a share such as `85 %` (units: permille, %)",
    ),
    "more than all": (
        "  startup: 16 cycles\n",
        "  startup: 16 cycles\n  efficiency: 110 %\n",
        "vector.efficiency: 110 % is more than all of it",
        "efficiency: 110 %",
        "write `100 %` or less",
    ),
    "efficiency of a stranger": (
        "tensor_core:\n",
        "tensor_core:\n  efficiency: {f32: 50 %}\n",
        "tensor_core.efficiency.f32: f32 has no rate",
        "efficiency: {f32",
        "it multiplies i8, u8, f16: see tensor_core.macs_per_cycle",
    ),
    "half the lanes": (
        "tensor_core:\n",
        "tensor_core:\n  lanes: 4\n",
        "tensor_core.lanes: means nothing without lane_alignment and misaligned_lanes",
        "lanes: 4",
        "give all three of lanes, lane_alignment and misaligned_lanes, or none",
    ),
    "more lanes than there are": (
        "tensor_core:\n",
        "tensor_core:\n  lanes: 4\n  lane_alignment: 64 B\n  misaligned_lanes: 5\n",
        "tensor_core.misaligned_lanes: 5 of 4 lanes",
        "misaligned_lanes: 5",
        "write at most lanes",
    ),
    "blocks of an array": (
        "tensor_core:\n",
        "tensor_core:\n  blocks_per_instance: 2\n",
        "tensor_core.blocks_per_instance: 2 on a weight_stationary array",
        "blocks_per_instance: 2",
        "only blocked cores deal blocks; leave it out",
    ),
    "shapes of an array": (
        "tensor_core:\n",
        "tensor_core:\n  blocks: [[32, 32]]\n",
        "tensor_core.blocks: [[32, 32]] on a weight_stationary array",
        "blocks: [[32",
        "only blocked cores deal blocks; leave it out",
    ),
    "half a shape": (
        "tensor_core:\n",
        "tensor_core:\n  blocks: [[32]]\n",
        "tensor_core.blocks[0]: too few entries: 1",
        "blocks: [[32",
        "give at least 2",
    ),
    "odd dma alignment": (
        "alignment: 1 B",
        "alignment: 3 B",
        "dma.alignment: 3 B isn't a power of two",
        "3 B",
        "round it up to one",
    ),
    "transfer below alignment": (
        "max_transfer: 64 KiB\n",
        "max_transfer: 1 B\n",
        "dma.max_transfer: 1 B is less than the alignment of 2 B",
        "max_transfer: 1 B",
        "raise it",
    ),
    "jitter twice": (
        "cause: interrupt",
        "cause: dram_refresh",
        "jitter[1].cause: dram_refresh twice",
        "interval: 4 ms",
        "list it once",
    ),
    "stall without end": (
        "stall: 160 ns",
        "stall: 8 us",
        "jitter[0].stall: 8 us every 7.8 us never ends",
        "stall: 8 us",
        "the stall must be shorter than the interval",
    ),
    "no source": (
        "  clock: {mark: inferred",
        "  sram: {mark: inferred",
        "clock: '500 MHz' has no source",
        "clock: 500 MHz",
        "add `clock: {mark: inferred, source: ...}` to sources"
        " (marks: published, recalled, inferred, fitted)\n"
        "also wrong in this file: sources.sram on line <  sram: {mark>",
    ),
    "unknown mark": (
        "clock: {mark: inferred",
        "clock: {mark: guessed",
        "sources.clock.mark: 'guessed' is an unknown mark",
        "guessed",
        "known: fitted, inferred, published, recalled",
    ),
    "newer compiler": (
        'compiler: ">=0.1,<1"',
        'compiler: ">=99"',
        "compiler: the spec needs >=99, and this is 0.1.0",
        "compiler:",
        "install a matching recipe-pipeline, or take an older version of the spec",
    ),
    "no range of versions": (
        'compiler: ">=0.1,<1"',
        "compiler: newest",
        "compiler: 'newest' isn't a range of versions",
        "newest",
        'write a range such as ">=0.1,<1"',
    ),
    "version as a number": (
        'version: "1.0"',
        "version: 1.0",
        "version: 1.0 isn't text",
        "version: 1.0",
        'put it in quotes: "1.0"',
    ),
    "unknown schema": ("schema: 1", "schema: 2", "schema: 2 isn't 1", "schema: 2", "change it"),
    "odd name": (
        "name: npu_tiny",
        "name: NPU Tiny",
        "name: 'NPU Tiny' isn't a name",
        "NPU Tiny",
        "use lower-case letters, digits and underscores, at most 64",
    ),
    "section without keys": (
        "vector:\n  width",
        "vector: 7\nvectors:\n  width",
        "vector: 7 isn't a mapping",
        "vector: 7",
        "write `key: value` lines\nalso wrong in this file: vectors on line <vectors:>",
    ),
}


def with_lines(text: str, path: Path) -> str:
    """The text with `<fragment>` replaced by the number of the line that holds it."""
    return re.sub(r"line <(.+?)>", lambda found: f"line {line_of(path, found[1])}", text)


@pytest.mark.parametrize("name", CASES)
def test_refusal(name: str, tmp_path: Path) -> None:
    old, new, problem, fragment, hint = CASES[name]
    edits = [(old, new)]
    if name == "transfer below alignment":
        edits.append(("alignment: 1 B", "alignment: 2 B"))
    path = write_edited(tmp_path, *edits)
    with pytest.raises(HardwareSpecError) as caught:
        load_spec(path)
    error = caught.value
    assert error.problem == with_lines(problem, path)
    assert error.where == f"{path}:{line_of(path, fragment)}"
    assert error.hint == with_lines(hint, path)
    assert str(error) == f"{error.problem}\nat: {error.where}\nhint: {error.hint}"
    assert error.outcome is Outcome.BAD_HARDWARE_SPEC


def refusal(path: Path) -> HardwareSpecError:
    """The error that a file is refused with."""
    with pytest.raises(HardwareSpecError) as caught:
        load_spec(path)
    return caught.value


def test_a_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    error = refusal(path)
    assert error.problem == "can't read the hardware spec: No such file or directory"
    assert error.where == str(path)
    assert error.hint == "`recipe hardware list` names the specs that exist"


def test_a_folder(tmp_path: Path) -> None:
    assert refusal(tmp_path).problem == "can't read the hardware spec: Is a directory"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "a hardware spec is a mapping of keys, and this file isn't"),
        (b"- 1\n- 2\n", "a hardware spec is a mapping of keys, and this file isn't"),
        (b"name: \xff\n", "byte 0xff at offset 6 isn't UTF-8"),
        (b"a: [1, 2\nb: 3\n", "not YAML: expected ',' or ']', but got ':'"),
        (b"a: *x\n", "not YAML: found undefined alias 'x'"),
        (b"a: 1\n---\nb: 2\n", "not YAML: but found another document"),
        (
            b"a: \x00\n",
            "not YAML: unacceptable character #x0000: special characters are not allowed",
        ),
        (b"a: &x {b: 1}\nc: *x\n", "c: YAML aliases aren't allowed here"),
        (b"a: &x [*x]\n", "a[0]: YAML aliases aren't allowed here"),
        (b"? [1]\n: 2\n", "top: a key must be text"),
        (b"a: !!python/name:os.system x\n", "a: can't read 'x'"),
        (b"a: !!int x\n", "a: can't read 'x'"),
        (b"[" * 5000, "not YAML: maximum recursion depth exceeded"),
        (b"#" * 1_000_001, "the file is larger than 1,000,000 bytes: it can't be a hardware spec"),
    ],
)
def test_no_spec_at_all(content: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_bytes(content)
    error = refusal(path)
    assert error.problem.startswith(problem)
    assert error.where.startswith(str(path))


def test_an_empty_mapping_names_every_missing_key(tmp_path: Path) -> None:
    path = tmp_path / "bare.yaml"
    path.write_text("{}\n")
    error = refusal(path)
    assert error.problem == "schema: missing key"
    assert error.hint.startswith("add `schema:`\nalso wrong in this file: name on line 1,")
    assert error.hint.endswith("and 17 more")


def test_errors_are_named_in_the_order_of_the_file(tmp_path: Path) -> None:
    edits = [("rows: 16", "rows: 0"), ("channels: 1", "channels: 0"), ("banks: 8", "banks: 0")]
    path = write_edited(tmp_path, *edits)
    error = refusal(path)
    assert error.problem == "tensor_core.array.rows: 0 is less than 1"
    dma, sram = line_of(path, "channels: 0"), line_of(path, "banks: 0")
    assert error.hint == (
        f"raise it\nalso wrong in this file: dma.channels on line {dma},"
        f" memory.sram.banks on line {sram}"
    )


def test_a_dead_source_is_refused(tmp_path: Path) -> None:
    path = write_edited(tmp_path, ("sources:\n", "sources:\n  dmas: {mark: fitted, source: x}\n"))
    error = refusal(path)
    assert error.problem == "sources.dmas: covers nothing"
    assert error.hint == "a key path such as `thermal.trips`; or remove it"


def test_a_source_covers_whole_keys_only(tmp_path: Path) -> None:
    path = write_edited(tmp_path, ("  power: {mark", "  pow: {mark"))
    assert refusal(path).problem == "power.idle: '20 mW' has no source"


def test_find_spec_knows_the_shipped_ones() -> None:
    assert find_spec("npu_tiny", SPECS) == SPECS / "npu_tiny.yaml"


KNOWN = ", ".join(spec_names(SPECS))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        (
            "npu_tny",
            f"did you mean `npu_tiny`? (known: {KNOWN})",
        ),
        ("zz", f"known: {KNOWN}"),
        ("../npu_tiny", None),
    ],
)
def test_an_unknown_name_lists_the_known_ones(name: str, hint: str | None) -> None:
    with pytest.raises(HardwareSpecError) as caught:
        find_spec(name, SPECS)
    assert caught.value.problem == f"unknown hardware {name!r}"
    assert caught.value.where == str(SPECS)
    if hint is not None:
        assert caught.value.hint == hint


def test_a_folder_without_specs(tmp_path: Path) -> None:
    with pytest.raises(HardwareSpecError) as caught:
        find_spec("npu_tiny", tmp_path)
    assert caught.value.hint == f"no .yaml file is in {tmp_path}"
