"""What each instruction of a plan multiplies and moves, in columns; whose time it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.hardware.spec import HardwareSpec
from stages.plan.costs import Costs
from stages.plan.host_prices import operator_flops
from stages.plan.instructions import DDR, Contraction, Instruction, Kernel, Opcode, Plan
from stages.plan.tables import ddr_read_bytes
from stages.recipe.kinds import CONTRACTIONS, Kind
from stages.tensors import DType

_MOVERS = (Opcode.DMA_COPY, Opcode.VECTOR, Opcode.ACTIVATION)
Bytes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Work:
    """One entry an instruction in each column; cache columns are None without a cache.

    `ddr_read` and `ddr_written` count what transfers and gathers ask of `ddr`, but for constants
    that stay on chip; the host's traffic crosses its own link. `crossed` counts what goes through
    the port of `ddr`: both of these, or behind a cache lines fetched and changed ones put out.
    """

    contractions: tuple[Contraction | None, ...]
    ddr_read: Bytes
    ddr_written: Bytes
    hits: Bytes | None
    misses: Bytes | None
    crossed: Bytes

    def macs_of(self, rows: Bytes | None) -> dict[DType, int]:
        """Multiply-accumulates by type, of some instructions or of all."""
        macs: dict[DType, int] = {}
        chosen = range(len(self.contractions)) if rows is None else rows.tolist()
        for row in chosen:
            work = self.contractions[row]
            if work is not None:
                macs[work.dtype] = macs.get(work.dtype, 0) + work.macs
        return macs

    def cache_bytes(self, rows: Bytes | None) -> tuple[int | None, int | None]:
        """Bytes that the cache had and hadn't, of some instructions or of all."""
        if self.hits is None or self.misses is None:
            return None, None
        chosen = slice(None) if rows is None else rows
        return int(self.hits[chosen].sum()), int(self.misses[chosen].sum())


def work_of(plan: Plan, costs: Costs, spec: HardwareSpec) -> Work:
    """Count a plan, instruction by instruction."""
    read, written = [], []
    for row in plan.instructions:
        moves = row.opcode in _MOVERS
        read.append(ddr_read_bytes(row, plan.kernels) if moves else 0)
        written.append(
            sum(item.size_bytes for item in row.writes if item.memory == DDR) if moves else 0
        )
    kept = np.array(costs.kept_bytes, dtype=np.int64)
    asked = np.array(read, dtype=np.int64)
    ddr_read = asked - kept if kept.size else asked
    ddr_written = np.array(written, dtype=np.int64)
    picked = np.array([row.opcode is not Opcode.DMA_COPY for row in plan.instructions], np.bool_)
    past_cache = np.array(costs.crossed_bytes, dtype=np.int64) + np.where(picked, ddr_read, 0)
    return Work(
        contractions=tuple(row.contraction for row in plan.instructions),
        ddr_read=ddr_read,
        ddr_written=ddr_written,
        hits=np.array(costs.hit_bytes, dtype=np.int64) if spec.l2 else None,
        misses=np.array(costs.miss_bytes, dtype=np.int64) if spec.l2 else None,
        crossed=past_cache if spec.l2 else ddr_read + ddr_written,
    )


def operator_cycles(
    kernel: Kernel, row: Instruction, spec: HardwareSpec
) -> Sequence[tuple[str, str, int]]:
    """The operators of an instruction, with their kinds and what each weighs in its time."""
    return [
        (operator.name, str(operator.kind), _weight(operator.kind, place, kernel, row, spec))
        for place, operator in enumerate(kernel.operators)
    ]


def _weight(kind: Kind, place: int, kernel: Kernel, row: Instruction, spec: HardwareSpec) -> int:
    if row.contraction is not None:
        return int(kind in CONTRACTIONS)
    if row.opcode is Opcode.HOST_CALL:
        return 1 + operator_flops(kernel.operators[place], kernel.types)
    return spec.vector.cycles_by_kind.get(kind, spec.vector.default_cycles)
