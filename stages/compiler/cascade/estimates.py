"""What a chain costs in stripes, and the order of ways to cut one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stages.compiler.cascade.chains import Chain
from stages.compiler.cascade.stripes import Striped
from stages.hardware.cost import compulsory_cycles
from stages.hardware.spec import HardwareSpec

Price = tuple[int, int]
"""Cycles and a little for traffic, then bytes to and from the DDR."""
Rank = tuple[int, int, int]
"""A price, then bytes of SRAM: the order of ways to cut one chain."""
EVENTS = 2
"""Events for each part that a group makes: it waits for one and signals one."""
_TRAFFIC_SHARE = 20  # of the time that bytes take on the DDR's port: what traffic itself costs


def price_of(cycles: int, ddr_bytes: int, spec: HardwareSpec) -> Price:
    """What a choice goes by: of ways that take nearly the same time the one that moves less."""
    return cycles + compulsory_cycles(spec, ddr_bytes) // _TRAFFIC_SHARE, ddr_bytes


@dataclass(frozen=True, slots=True)
class Estimate:
    """The cost of a chain in stripes: cycles, bytes to and from the DDR, bytes of SRAM that its
    buffers take, and rows that each buffer should hold. `cut`: its parts, where
    every one of them is priced, and not one round for all."""

    chain: Chain
    stripe: int
    cycles: int
    ddr_bytes: int
    sram_bytes: int
    wanted: Mapping[str, int]
    price: Price
    cut: Striped | None = None

    @property
    def interval(self) -> tuple[int, int]:
        """The groups `[start, stop)` of the chain."""
        return self.chain.start, self.chain.stop

    def is_cut_as(self, other: Estimate) -> bool:
        """Whether another way to cut the same groups comes to the same: its buffers may have been
        asked to hold more rounds than they can use."""
        return (
            self.stripe == other.stripe
            and self.wanted == other.wanted
            and self.chain.axes == other.chain.axes
        )
