"""Which values stay in the SRAM from the group that makes them to the last one that reads them.

A value that stays saves its way to the DDR and back, but leaves less room to the tiles of every
group over which it lives. Going through the groups in order, all that a choice so far means for
the groups to come is which values stay alive from here on; so the cheapest way to each such set is
exact (dynamic programming over the sets, as in register allocation by dynamic programming over
live sets), and where there are more sets than `WIDTH` the cheapest ones are kept (a beam).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from stages.compiler.memory.lifetimes import Storage

WIDTH = 32
"""Sets of alive residents that are followed at once."""

State = frozenset[str]
Cost = Callable[[int, frozenset[str], int], int | None]
"""The cycles of a group, given its number, the storages that stay in the SRAM, and the bytes that
they leave to its tiles; None where its tiles don't fit."""


@dataclass(frozen=True, slots=True)
class _Path:
    """The cheapest way to a state: what it costs, and the storages that stay, newest first."""

    cycles: int
    kept: tuple[Storage, tuple[object, ...]] | tuple[()]
    bytes_alive: int


@dataclass(frozen=True, slots=True)
class Residency:
    """The storages that stay, the estimated cycles of the whole, and whether these are the least
    possible (by the estimate; False where the beam cut states off)."""

    kept: Mapping[str, Storage]
    cycles: int
    is_exact: bool


def choose_residents(
    candidates: Sequence[Storage], count: int, capacity_bytes: int, cost: Cost
) -> Residency | None:
    """The residents among `candidates` that make `count` groups cheapest; None where no choice lets
    every group's tiles fit."""
    starting: dict[int, list[Storage]] = {}
    ending: dict[int, list[Storage]] = {}
    for item in candidates:
        starting.setdefault(item.start, []).append(item)
        ending.setdefault(item.stop, []).append(item)
    states: dict[State, _Path] = {frozenset(): _Path(0, (), 0)}
    is_exact = True
    for number in range(count):
        for item in ending.get(number, ()):
            states = _without(states, item)
        for item in starting.get(number, ()):
            states = _with_and_without(states, item, capacity_bytes)
        states = _run(states, number, capacity_bytes, cost)
        if not states:
            return None
        if len(states) > WIDTH:
            is_exact = False
            ranked = sorted(states.items(), key=lambda pair: (pair[1].cycles, sorted(pair[0])))
            states = dict(ranked[:WIDTH])
    best = min(states.items(), key=lambda pair: (pair[1].cycles, sorted(pair[0])))[1]
    return Residency({item.root: item for item in _listed(best)}, best.cycles, is_exact)


def _without(states: Mapping[State, _Path], item: Storage) -> dict[State, _Path]:
    """The states after a storage has died."""
    found: dict[State, _Path] = {}
    for state, path in states.items():
        if item.root in state:
            state = state - {item.root}
            path = _Path(path.cycles, path.kept, path.bytes_alive - item.size_bytes)
        other = found.get(state)
        if other is None or path.cycles < other.cycles:
            found[state] = path
    return found


def _with_and_without(
    states: Mapping[State, _Path], item: Storage, capacity_bytes: int
) -> dict[State, _Path]:
    found = dict(states)
    for state, path in states.items():
        alive = path.bytes_alive + item.size_bytes
        if alive <= capacity_bytes:
            found[state | {item.root}] = _Path(path.cycles, (item, path.kept), alive)
    return found


def _run(
    states: Mapping[State, _Path], number: int, capacity_bytes: int, cost: Cost
) -> dict[State, _Path]:
    found = {}
    for state, path in states.items():
        cycles = cost(number, state, capacity_bytes - path.bytes_alive)
        if cycles is not None:
            found[state] = _Path(path.cycles + cycles, path.kept, path.bytes_alive)
    return found


def _listed(path: _Path) -> list[Storage]:
    found: list[Storage] = []
    rest: object = path.kept
    while isinstance(rest, tuple) and rest:
        item, rest = rest
        assert isinstance(item, Storage)
        found.append(item)
    return found[::-1]
