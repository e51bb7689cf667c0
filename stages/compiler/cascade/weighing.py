"""What was weighed about cascades, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stages.compiler.cascade.estimates import Estimate
from stages.recipe.explanation import Alternative, Weighed


@dataclass(frozen=True, slots=True)
class Outcome:
    """A cascade that was tried, the stripes that would have come next, what its groups cost layer
    by layer and in stripes (cycles, and bytes to and from the DDR), and `how` that was found."""

    options: tuple[Estimate, ...]
    layers: tuple[int, int]
    stripes: tuple[int, int]
    is_kept: bool
    how: str

    def weighed(self) -> Iterator[Weighed]:
        """One answer for each of its groups."""
        chosen = self.options[0]
        cycles, size = self.layers
        alternatives = (
            Alternative("layer by layer", cycles, f"at least {size} B of DRAM"),
            *(Alternative(_name(item), item.cycles, _remark(item)) for item in self.options),
        )
        name = _name(chosen) if self.is_kept else "layer by layer"
        for work in chosen.chain.works:
            yield Weighed(work.group.name, "cascade", alternatives, name, self._bound())

    def _bound(self) -> str:
        names = ", ".join(work.group.name for work in self.options[0].chain.works)
        (cycles, size), (others, other_size) = self.stripes, self.layers
        return (
            f"{self.how}, {names} take {cycles} cycles and {size} B of DRAM in stripes, "
            f"{others} cycles and at least {other_size} B layer by layer"
        )


def _name(item: Estimate) -> str:
    return f"stripes of {item.stripe} along axis {item.chain.axes[-1]}, {_rows(item)}"


def _rows(item: Estimate) -> str:
    rows = ", ".join(f"%{value} {count}" for value, count in item.wanted.items())
    return f"rows held: {rows}"


def _remark(item: Estimate) -> str:
    return f"estimated; {item.ddr_bytes} B of DRAM, {item.sram_bytes} B of SRAM"


def note(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """What the recipe says of its cascades; nothing where it has none."""
    kept = [item for item in outcomes if item.is_kept]
    if not kept:
        return ()
    chains = [item.options[0].chain for item in kept]
    groups = sum(len(chain.works) for chain in chains)
    held = sum(len(chain.held) for chain in chains)
    cycles, size = (sum(item.stripes[at] for item in kept) for at in range(2))
    others, other_size = (sum(item.layers[at] for item in kept) for at in range(2))
    return (
        f"{groups} groups run in {len(kept)} cascades, which keep {held} values off the DRAM: "
        f"they take {cycles} cycles and move {size} B, layer by layer {others} cycles and "
        f"at least {other_size} B",
    )
