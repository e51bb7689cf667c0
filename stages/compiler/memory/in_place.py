"""Residents that take the place of one that dies as they are made.

An elementwise group reads each element before it writes the one at the same place, so its result
may lie where an operand lay that nobody reads any more: both stay in the SRAM in the bytes of one.
A plan's rule `in_place` judges it apart from this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stages.compiler.cascade.stripes import Striped
from stages.compiler.memory.lifetimes import Storage
from stages.compiler.memory.offsets import Placed, Request
from stages.compiler.tiling.workload import Workload
from stages.recipe.decisions import Engine
from stages.recipe.operators import is_elementwise

Heirs = Mapping[str, str]
"""For a storage that may take another's place, that other one; each is taken once at most."""


def heirs(
    works: Mapping[int, Workload],
    stores: Mapping[str, Storage],
    roots: Mapping[str, str],
    cascades: Sequence[Striped],
) -> dict[str, str]:
    """The storages of results that may take the place of an operand's. None within a cascade: it
    makes rows again that it has read already."""
    striped = {number for item in cascades for number in range(item.chain.start, item.chain.stop)}
    found: dict[str, str] = {}
    for number, work in sorted(works.items()):
        elementwise = all(is_elementwise(member.kind) for member in work.members)
        if number in striped or work.group.engine is not Engine.VECTOR or not elementwise:
            continue
        made = stores.get(work.result)
        if made is None or made.crosses or (made.start, made.producer) != (number, number):
            continue
        touched = [roots[value] for value in work.operands]
        for value in work.operands:
            read = stores.get(value)
            if (
                read is not None
                and not read.crosses
                and read.stop == number + 1
                and touched.count(value) == 1
                and _alike(work, value)
                and read.size_bytes == made.size_bytes
            ):
                found[work.result] = value
                break
    return found


def _alike(work: Workload, value: str) -> bool:
    """Whether a value lies in memory as the result does, element by element."""
    held, result = work.types[value], work.result_type
    return (
        held.shape == result.shape
        and held.dtype.size_bytes == result.dtype.size_bytes
        and work.layout(value) == work.layout(work.result)
    )


def alive_bytes(resident: Mapping[str, Storage], number: int, taken: Heirs) -> int:
    """Bytes of the residents alive at a group; of two in one place once."""
    return sum(
        item.size_bytes
        for item in resident.values()
        if item.start <= number < item.stop
        and not (item.start == number and taken.get(item.root) in resident)
    )


def homes(resident: Mapping[str, Storage], taken: Heirs) -> dict[str, str]:
    """For each resident the first of those that follow each other in its place."""
    found: dict[str, str] = {}
    for item in sorted(resident.values(), key=lambda item: item.start):
        before = taken.get(item.root)
        found[item.root] = found.get(before, item.root) if before else item.root
    return found


def requests(resident: Mapping[str, Storage], home: Mapping[str, str]) -> list[Request]:
    """One place for all residents that follow each other in it."""
    found: dict[str, Request] = {}
    for item in resident.values():
        name = home[item.root]
        other = found.get(name, Request(name, item.size_bytes, item.start, item.stop))
        start, stop = min(other.start, item.start), max(other.stop, item.stop)
        found[name] = Request(name, item.size_bytes, start, stop)
    return list(found.values())


def placed_residents(
    resident: Mapping[str, Storage], home: Mapping[str, str], placed: Sequence[Placed]
) -> dict[str, Placed]:
    """Every resident with its own life at the address of its place."""
    addresses = {item.request.name: item.address for item in placed}
    return {
        root: Placed(Request(root, item.size_bytes, item.start, item.stop), addresses[home[root]])
        for root, item in resident.items()
    }
