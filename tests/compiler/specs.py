"""Hardware for the compiler's tests: the four specs, and npu_tiny with less memory."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from stages.hardware.load import load_spec
from stages.hardware.spec import HardwareSpec

FOLDER = Path(__file__).resolve().parents[2] / "hardware_specs"
NAMES = ("npu_tiny", "npu_tiny/16K", "npu_tiny/8K", "rk3588_npu", "ethos_u65_512", "nvidia_t4")


@cache
def hardware(name: str) -> HardwareSpec:
    """A spec by its name; `NAME/16K` is that device with 16 KiB of SRAM, 1 KiB reserved."""
    stem, _, size = name.partition("/")
    spec = load_spec(FOLDER / f"{stem}.yaml")
    return with_sram(spec, int(size.removesuffix("K")) * 1024) if size else spec


def with_sram(spec: HardwareSpec, size_bytes: int) -> HardwareSpec:
    """The same device with another size of SRAM."""
    return replace(spec, sram=replace(spec.sram, size_bytes=size_bytes))
