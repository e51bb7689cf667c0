"""Nanoseconds and cycles of the nominal clock."""

from __future__ import annotations

from stages.hardware.spec import HardwareSpec
from stages.units import ceil_div

NANOSECONDS_PER_SECOND = 1_000_000_000


def nanoseconds_to_cycles(spec: HardwareSpec, ns: int) -> int:
    """Nanoseconds as cycles of the nominal clock, rounded up."""
    return ceil_div(ns * spec.clock_hz, NANOSECONDS_PER_SECOND)


def cycles_to_nanoseconds(spec: HardwareSpec, cycles: int) -> int:
    """Cycles of the nominal clock as nanoseconds, rounded up."""
    return ceil_div(cycles * NANOSECONDS_PER_SECOND, spec.clock_hz)
