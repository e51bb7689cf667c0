"""The shipped specs, the words of specs, and what is told about them."""

from __future__ import annotations

import hashlib
import pickle
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from stages.hardware import vocabulary
from stages.hardware.load import load_spec, spec_names
from stages.hardware.spec import (
    Cache,
    Dataflow,
    HardwareSpec,
    Mark,
    SyncMode,
    VendorCompiler,
    WeightCache,
)
from stages.hardware.summary import (
    format_ops,
    list_row,
    peak_milliwatts,
    peak_ops,
    ridge_point,
    summarise,
)
from stages.recipe.kinds import Kind
from stages.tensors import DType, Layout, LayoutKind
from stages.version import COMPILER_VERSION
from tests.hardware.specs import ROOT, SPECS, with_optional_keys, write_edited

NAMES = spec_names(SPECS)


@pytest.fixture(params=NAMES)
def spec(request: pytest.FixtureRequest) -> HardwareSpec:
    """Each shipped spec in turn."""
    return load_spec(SPECS / f"{request.param}.yaml")


def test_all_are_shipped() -> None:
    assert set(NAMES) >= {
        "ascend_310",
        "ethos_u55_256",
        "ethos_u65_512",
        "jetson_orin_nano",
        "npu_tiny",
        "nvidia_a100",
        "nvidia_h200",
        "nvidia_t4",
        "qualcomm_htp_v73",
        "rk3576_npu",
        "rk3588_npu",
    }


def test_the_words_are_the_recipes() -> None:
    assert frozenset(Kind) - {Kind.HOST_CALL} == vocabulary.KINDS


def test_the_version_is_the_projects() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project.get("version", COMPILER_VERSION) == COMPILER_VERSION


def test_shipped_specs_have_nothing_odd(spec: HardwareSpec) -> None:
    assert summarise(spec, spec.name).warnings == ()


def test_digest_is_of_the_bytes(spec: HardwareSpec) -> None:
    content = (SPECS / f"{spec.name}.yaml").read_bytes()
    assert spec.digest == hashlib.sha256(content).hexdigest()


def test_specs_travel_between_processes(spec: HardwareSpec) -> None:
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_every_source_says_something(spec: HardwareSpec) -> None:
    for key, provenance in spec.sources.items():
        assert len(provenance.source) >= 8, key


def test_convolutions_and_products_run_in_every_native_type(spec: HardwareSpec) -> None:
    for kind in ("conv", "conv_transpose", "matmul"):
        support = spec.operators[kind]
        assert support.engine == "tensor_core"
        assert set(spec.tensor_core.macs_per_cycle) <= support.dtypes
        assert DType.I32 in support.dtypes  # the bias of an integer convolution


def test_float_devices_run_every_float_operator() -> None:
    for name in (
        "ascend_310",
        "jetson_orin_nano",
        "npu_tiny",
        "nvidia_h200",
        "nvidia_t4",
        "rk3588_npu",
    ):
        spec = load_spec(SPECS / f"{name}.yaml")
        assert spec.float_dtype is DType.F16
        logic = {"and", "or", "xor", "not", "is_nan"}
        for kind in vocabulary.KINDS - logic:
            assert kind in spec.operators, (name, kind)
            assert DType.F16 in spec.operators[kind].dtypes, (name, kind)


def test_ethos_has_no_float_at_all() -> None:
    for name in ("ethos_u55_256", "ethos_u65_512"):
        spec = load_spec(SPECS / f"{name}.yaml")
        assert spec.float_dtype is None
        for kind, support in spec.operators.items():
            assert not any(dtype.is_float for dtype in support.dtypes), (name, kind)


def test_an_ethos_u65_is_two_u55_cores() -> None:
    """Vela gives the one half the other's cycles, and the same list of operators."""
    small = load_spec(SPECS / "ethos_u55_256.yaml")
    large = load_spec(SPECS / "ethos_u65_512.yaml")
    assert small.operators == large.operators
    for dtype, rate in large.tensor_core.macs_per_cycle.items():
        assert small.tensor_core.macs_per_cycle[dtype] * 2 == rate
    assert small.vector.cycles_by_kind.keys() == large.vector.cycles_by_kind.keys()
    for kind, cycles in large.vector.cycles_by_kind.items():
        assert small.vector.cycles_by_kind[kind] == 2 * cycles, kind


def test_facts_that_the_sources_state() -> None:
    rk3588 = load_spec(SPECS / "rk3588_npu.yaml")
    assert rk3588.sram.size_bytes == 12 * 32 * 1024
    assert rk3588.thermal.trips[0].celsius == 85
    assert rk3588.thermal.trips[0].hysteresis_celsius == 2
    assert rk3588.thermal.poll_ns == 20_000_000
    assert rk3588.thermal.critical_celsius == 115
    assert rk3588.layouts["conv"] == Layout(LayoutKind.NC1HWC2, 8)
    assert rk3588.channel_quantum[DType.I8] == 16
    ethos = load_spec(SPECS / "ethos_u65_512.yaml")
    assert ethos.tensor_core.macs_per_cycle[DType.I8] == 512
    assert (ethos.ddr.read_latency_ns, ethos.ddr.write_latency_ns) == (500, 250)
    assert ethos.dma.outstanding == 2
    turing = load_spec(SPECS / "nvidia_t4.yaml")
    assert turing.tensor_core.dataflow is Dataflow.BLOCKED
    assert format_ops(peak_ops(turing, DType.I8)) == "130 TOPS"
    assert format_ops(peak_ops(turing, DType.F16)) == "65.1 TOPS"
    assert turing.sram.size_bytes == 40 * 64 * 1024
    micro = load_spec(SPECS / "ethos_u55_256.yaml")
    assert (micro.sram.read_bandwidth, micro.ddr.read_bandwidth) == (4 * 10**9, 5 * 10**8)
    assert micro.dma.outstanding == 1
    davinci = load_spec(SPECS / "ascend_310.yaml")
    assert format_ops(peak_ops(davinci, DType.I8)) == "22.3 TOPS"
    assert davinci.ddr.read_bandwidth == 67 * davinci.clock_hz
    assert davinci.l2 is not None
    assert davinci.l2.size_bytes == 8 * 2**20
    orin = load_spec(SPECS / "jetson_orin_nano.yaml")
    assert format_ops(peak_ops(orin, DType.I8)) == "33.4 TOPS"
    assert orin.ddr.read_bandwidth == 2 * 3_200_000_000 * 16
    hopper = load_spec(SPECS / "nvidia_h200.yaml")
    assert peak_ops(hopper, DType.F16) * 183 // 198 == 132 * 2048 * 2 * 1_830_000_000
    assert format_ops(peak_ops(hopper, DType.I8)) == "2,141 TOPS"
    assert hopper.l2 is not None
    assert hopper.l2.size_bytes == 50 * 2**20
    tiny = load_spec(SPECS / "npu_tiny.yaml")
    assert (tiny.tensor_core.rows, tiny.tensor_core.cols) == (16, 16)
    assert tiny.sram.size_bytes == 256 * 1024
    assert tiny.driver.sync_mode is SyncMode.ASYNC
    assert {item.mark for item in tiny.sources.values()} == {Mark.INFERRED}


def test_list_row() -> None:
    row = list_row(load_spec(SPECS / "rk3588_npu.yaml"))
    assert row.cells() == (
        "rk3588_npu",
        "RK3588 NPU, one core",
        "1 GHz",
        "384 KiB",
        "2.05 TOPS i8",
        "i8 u8 f16",
    )


def test_summary_of_npu_tiny() -> None:
    spec = load_spec(SPECS / "npu_tiny.yaml")
    facts = {fact.name: fact.value for fact in summarise(spec, "npu_tiny").facts}
    assert facts["array"] == "16x16 weight_stationary, i8"
    assert facts["peak i8"] == "256 GOPS, 256 MACs a cycle, ridge at 64 operations a byte"
    assert facts["sram"] == "256 KiB, reads 16 GB/s after 4 ns, writes 16 GB/s after 4 ns"
    assert facts["dma"] == "1 x 4 GB/s, 2 outstanding each"
    assert facts["trips"] == "85 degC clock/2, 95 degC clock/4; critical 110 degC"
    assert ridge_point(spec, DType.F16) == 32
    # 20 mW idle + 10 mW leakage + 256 * 0.5 GHz * 0.3 pJ + 4 GB/s * (50 + 1) pJ/B
    assert peak_milliwatts(spec, DType.I8) == 20 + 10 + 242


@pytest.mark.parametrize(
    ("edit", "warning"),
    [
        (
            ("critical: 110 degC", "critical: 90 degC"),
            "thermal.trips[1].temperature: 95 degC isn't below critical, 90 degC",
        ),
        (
            ("divider: 4, hysteresis: 2 K", "divider: 4, hysteresis: 10 K"),
            "thermal.trips[1].hysteresis: reaches down to the trip at 85 degC",
        ),
        (
            ("{clock: 500 MHz, voltage: 800 mV}", "{clock: 500 MHz, voltage: 800 mV}\n"
             "  - {clock: 1 GHz, voltage: 900 mV}"),
            "clock: 500 MHz is below the fastest operating point, 1 GHz",
        ),
        (
            ("read_bandwidth: 16 GB/s", "read_bandwidth: 1 GB/s"),
            "memory.sram.read_bandwidth: 1 GB/s is less than ddr's 4 GB/s",
        ),
        (
            ("bandwidth: 4 GB/s", "bandwidth: 40 GB/s"),
            "dma.bandwidth: 40 GB/s a channel is over twice what any memory gives, 16 GB/s",
        ),
        (
            ("size: 256 KiB", "size: 256 GiB"),
            "memory.sram.size: not smaller than ddr: check the prefix",
        ),
        (
            ("{f16: 8, i8: 16, u8: 16,", "{f16: 8, i8: 16,"),
            "channel_quantum: no quantum for u8",
        ),
        (
            ("kinds: [matmul]\n    dtypes: [f16, i8, u8, i32]",
             "kinds: [matmul]\n    dtypes: [i8, u8, i32]"),
            "operators: matmul leaves out f16, which the array multiplies",
        ),
        (
            ("  - engine: tensor_core\n    kinds: [matmul]\n    dtypes: [f16, i8, u8, i32]\n", ""),
            "operators: no matmul: every one of them runs on the host",
        ),
        (("name: npu_tiny", "name: npu_b"), "name: npu_b isn't the name of its file, npu_tiny"),
    ],
)  # fmt: skip
def test_warnings(edit: tuple[str, str], warning: str, tmp_path: Path) -> None:
    path = write_edited(tmp_path, edit)
    assert [str(item) for item in summarise(load_spec(path), path.stem).warnings] == [warning]


def test_optional_keys_are_read(tmp_path: Path) -> None:
    spec = load_spec(with_optional_keys(tmp_path))
    core = spec.tensor_core
    assert core.efficiency_permille == {DType.I8: 850, DType.F16: 705}
    assert (core.lanes, core.lane_alignment_bytes, core.misaligned_lanes) == (4, 64, 2)
    assert spec.vector.efficiency_permille == 600
    assert (spec.sram.channels, spec.sram.bank_interleave_bytes) == (1, 16)
    assert (spec.ddr.channels, spec.ddr.interleave_bytes) == (2, 256)
    assert spec.ddr.bank_interleave_bytes == 0
    assert (spec.ddr.read_efficiency_permille, spec.ddr.write_efficiency_permille) == (900, 800)
    assert spec.l2 == Cache(65536, 64, 4, 8 * 10**9, 6 * 10**9, 20, 10)
    assert spec.weight_cache == WeightCache(32768, 8 * 10**9)
    assert (spec.driver.launch_ns["dma"], spec.driver.launch_ns["host"]) == (100, 1000)
    facts = {fact.name: fact.value for fact in summarise(spec, spec.name).facts}
    assert facts["l2"] == (
        "64 KiB, 4 ways of 64 B lines, reads 8 GB/s after 20 ns, writes 6 GB/s after 10 ns"
    )
    assert facts["weight cache"] == "32 KiB, reads 8 GB/s"
    assert facts["efficiency"] == (
        "i8 85 %, f16 70.5 %, vector 60 %, ddr reads 90 %, ddr writes 80 %"
    )
    assert summarise(spec, spec.name).warnings == ()


def test_optional_keys_of_blocks_are_read(tmp_path: Path) -> None:
    path = write_edited(
        tmp_path,
        ("dataflow: weight_stationary\n", "dataflow: blocked\n  blocks_per_instance: 2\n"
         "  blocks: [[128, 256], [32, 64]]\n  max_split_k: 8\n  operand_feed: 1280 B\n"),
    )  # fmt: skip
    core = load_spec(path).tensor_core
    assert (core.blocks_per_instance, core.max_split_k, core.operand_feed_bytes) == (2, 8, 1280)
    assert core.block_shapes == ((128, 256), (32, 64))
    spec = load_spec(path)
    facts = {fact.name: fact.value for fact in summarise(spec, spec.name).facts}
    assert facts["array"] == "16x16, 128x256, 32x64 blocked, i8"


def test_what_is_left_out_is_neutral() -> None:
    spec = load_spec(SPECS / "npu_tiny.yaml")
    core = spec.tensor_core
    assert (core.efficiency_permille, core.block_shapes, core.operand_feed_bytes) == ({}, (), 0)
    assert (core.lanes, core.misaligned_lanes, core.blocks_per_instance) == (1, 1, 1)
    assert (spec.ddr.channels, spec.ddr.bank_interleave_bytes) == (1, 0)
    assert (spec.l2, spec.weight_cache, spec.vector.efficiency_permille) == (None, None, 1000)
    assert spec.vendor_compiler == VendorCompiler(frozenset(), frozenset())


def test_what_the_vendors_compiler_does_is_read(tmp_path: Path) -> None:
    path = write_edited(
        tmp_path, ("sources:\n", "vendor_compiler: {unfused: [relu], views: [concat]}\nsources:\n")
    )
    assert load_spec(path).vendor_compiler == VendorCompiler(
        frozenset({"relu"}), frozenset({"concat"})
    )


@pytest.mark.parametrize(
    ("cache", "warning"),
    [
        (
            Cache(65536, 64, 4, 10**9, 8 * 10**9, 0, 0),
            "memory.l2.read_bandwidth: 1 GB/s is less than the ddr behind it gives, 4 GB/s",
        ),
        (
            Cache(65536, 32, 4, 8 * 10**9, 8 * 10**9, 0, 0),
            "memory.l2.line: 32 B is less than a burst of ddr, 64 B",
        ),
    ],
)
def test_warnings_about_caches(cache: Cache, warning: str) -> None:
    spec = replace(load_spec(SPECS / "npu_tiny.yaml"), l2=cache)
    assert [str(item) for item in summarise(spec, spec.name).warnings] == [warning]


def test_warnings_about_numbers_out_of_any_range() -> None:
    spec = load_spec(SPECS / "npu_tiny.yaml")
    fast = replace(
        spec,
        ddr=replace(spec.ddr, read_bandwidth=10**16),
        sram=replace(spec.sram, read_bandwidth=10**17, write_bandwidth=10**17),
        dma=replace(spec.dma, bandwidth=10**16),
        thermal=replace(spec.thermal, trips=()),
    )
    assert [str(item) for item in summarise(fast, "npu_tiny").warnings] == [
        "thermal.trips: no trip: the clock never changes, however hot it gets",
        "memory.ddr.read_bandwidth: 10,000 TB/s is 20000000 bytes a cycle",
        "tensor_core.macs_per_cycle: the ridge point of i8, 2.56e-05 operations a byte,"
        " is out of the usual range",
    ]


def test_cost_needs_no_pydantic_and_no_yaml() -> None:
    code = (
        "import sys, stages.hardware.cost, stages.units;"
        "print(sorted({'pydantic', 'yaml'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
