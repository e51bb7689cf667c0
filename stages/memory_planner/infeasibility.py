"""Proofs of infeasibility that need no search: each names an instant and the buffers there."""

from __future__ import annotations

from stages.memory_planner.problem import Problem, profile
from stages.memory_planner.solution import Infeasible

_NAMED = 5  # buffers that a message names before it counts the rest


def find_proof(problem: Problem) -> Infeasible | None:
    """Why no solution exists, where one instant or one fixed offset shows it.

    The instant with the most bytes live is named, and all its buffers, largest first.
    """
    return _overload(problem) or _fixed_outside(problem) or _fixed_clash(problem)


def names_in_words(names: tuple[str, ...]) -> str:
    """A few names and the number of the others."""
    shown = ", ".join(names[:_NAMED])
    rest = len(names) - _NAMED
    return f"{shown} and {rest} more" if rest > 0 else shown


def _overload(problem: Problem) -> Infeasible | None:
    worst = max(profile(problem.buffers), key=lambda load: load.live_bytes, default=None)
    if worst is None or worst.live_bytes <= problem.capacity_bytes:
        return None
    live = [item for item in problem.buffers if item.lower <= worst.instant < item.upper]
    names = tuple(item.name for item in sorted(live, key=lambda item: -item.size_bytes))
    over = worst.live_bytes - problem.capacity_bytes
    return Infeasible(
        f"at instant {worst.instant}, {len(names)} buffers of {worst.live_bytes} B are live, "
        f"{over} B more than the capacity of {problem.capacity_bytes} B: {names_in_words(names)}",
        worst.instant,
        names,
    )


def _fixed_outside(problem: Problem) -> Infeasible | None:
    for item in problem.buffers:
        fixed = item.fixed_offset_bytes
        if fixed is not None and fixed + item.size_bytes > problem.capacity_bytes:
            return Infeasible(
                f"buffer {item.name} is fixed at {fixed} and ends at {fixed + item.size_bytes}, "
                f"past the capacity of {problem.capacity_bytes} B",
                item.lower,
                (item.name,),
            )
    return None


def _fixed_clash(problem: Problem) -> Infeasible | None:
    fixed = sorted(
        (item.fixed_offset_bytes, item.fixed_offset_bytes + item.size_bytes, number)
        for number, item in enumerate(problem.buffers)
        if item.fixed_offset_bytes is not None
    )
    for place, (start, end, number) in enumerate(fixed):
        one = problem.buffers[number]
        for other_start, _, other_number in fixed[place + 1 :]:
            if other_start >= end:
                break
            other = problem.buffers[other_number]
            if one.overlaps(other):
                instant = max(one.lower, other.lower)
                return Infeasible(
                    f"at instant {instant}, buffers {one.name}, fixed at {start}, and "
                    f"{other.name}, fixed at {other_start}, share bytes",
                    instant,
                    (one.name, other.name),
                )
    return None
