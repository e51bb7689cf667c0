"""What was weighed about cascades, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stages.compiler.cascade.prices import Estimate
from stages.recipe.explanation import Alternative, Weighed


@dataclass(frozen=True, slots=True)
class Outcome:
    """A cascade that was tried, the stripes that would have come next, and what its groups cost in
    the whole plan, layer by layer and in stripes: cycles and bytes to and from the DDR."""

    options: tuple[Estimate, ...]
    layers: tuple[int, int]
    stripes: tuple[int, int]
    is_kept: bool

    def weighed(self) -> Iterator[Weighed]:
        """One answer for each of its groups."""
        chosen = self.options[0]
        cycles, size = self.layers
        alternatives = (
            Alternative("layer by layer", cycles, f"{size} B of DRAM"),
            *(Alternative(_name(item), item.cycles, _remark(item)) for item in self.options),
        )
        name = _name(chosen) if self.is_kept else "layer by layer"
        for work in chosen.chain.works:
            yield Weighed(work.group.name, "cascade", alternatives, name, self._bound())

    def _bound(self) -> str:
        names = ", ".join(work.group.name for work in self.options[0].chain.works)
        (cycles, size), (others, other_size) = self.stripes, self.layers
        return (
            f"in the whole plan {names} take {cycles} cycles and {size} B of DRAM in stripes, "
            f"{others} cycles and {other_size} B layer by layer"
        )


def _name(item: Estimate) -> str:
    return f"stripes of {item.stripe} along axis {item.chain.axes[-1]}, {_rows(item)}"


def _rows(item: Estimate) -> str:
    rows = ", ".join(f"%{value} {count}" for value, count in item.wanted.items())
    return f"rows held: {rows}"


def _remark(item: Estimate) -> str:
    return f"estimated; {item.ddr_bytes} B of DRAM, {item.sram_bytes} B of SRAM"


def note(
    kept: Sequence[Estimate], layers: tuple[int, int], cascaded: tuple[int, int]
) -> tuple[str, ...]:
    """What the recipe says of its cascades; nothing where it has none."""
    if not kept:
        return ()
    groups = sum(len(item.chain.works) for item in kept)
    held = sum(len(item.chain.held) for item in kept)
    return (
        f"{groups} groups run in {len(kept)} cascades, which keep {held} values off the DRAM: "
        f"{cascaded[0]} cycles and {cascaded[1]} B of DRAM, layer by layer {layers[0]} cycles and "
        f"{layers[1]} B",
    )
