"""What a solver answers: offsets, a proof that there are none, or that it gave up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stages.memory_planner.problem import Problem, max_live_bytes


@dataclass(frozen=True, slots=True)
class Solution:
    """An offset in bytes for each buffer by name, and the search steps that finding it took."""

    offsets: Mapping[str, int]
    steps: int = 0

    def peak_bytes(self, problem: Problem) -> int:
        """The end of the highest buffer."""
        return max(
            (self.offsets[item.name] + item.size_bytes for item in problem.buffers), default=0
        )

    def fragmentation(self, problem: Problem) -> float:
        """Peak over the max-live lower bound: 1.0 where no byte is lost (and for no buffers)."""
        live = max_live_bytes(problem.buffers)
        return self.peak_bytes(problem) / live if live else 1.0


@dataclass(frozen=True, slots=True)
class Infeasible:
    """A proof that no solution exists: the reason in words, the instant where one instant is
    enough (else None), and the buffers that can't be placed together."""

    reason: str
    instant: int | None
    buffers: tuple[str, ...]
    steps: int = 0


@dataclass(frozen=True, slots=True)
class GaveUp:
    """No answer within the steps allowed."""

    steps: int


Answer = Solution | Infeasible | GaveUp
