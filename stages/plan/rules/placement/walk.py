"""Goes through a program and keeps account of what each buffer holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from stages.plan.instructions import Instruction, Kernel, Opcode, Plan, Region
from stages.plan.packing import Packing
from stages.plan.rules.facts import LiveBuffers
from stages.plan.rules.placement.forms import span_of
from stages.plan.rules.placement.holdings import Holding
from stages.plan.rules.placement.kernel_maps import KernelMaps, Located
from stages.plan.rules.placement.lattice import fragment, normal
from stages.plan.rules.placement.loading import load_constants
from stages.plan.rules.placement.regions import Reader
from stages.plan.rules.placement.tile import MisplacedError
from stages.plan.rules.placement.transfers import copy
from stages.plan.rules.placement.views import Views
from stages.plan.rules.violation import Finding, Findings, say_region
from stages.plan.syntax import print_name
from stages.recipe.decisions import Recipe


@dataclass(slots=True)
class Walk:
    """The state of memory at an instruction that only moves forward."""

    plan: Plan
    recipe: Recipe
    packings: Iterable[Packing]
    live: LiveBuffers = field(init=False)
    held: dict[int, Holding] = field(default_factory=dict)
    maps: KernelMaps = field(init=False)
    reader: Reader = field(init=False)

    def __post_init__(self) -> None:
        self.live = LiveBuffers(self.plan.buffers)
        self.live.advance(0)
        self.maps = KernelMaps(self.recipe.graph)
        computed = frozenset(
            operator.name for kernel in self.plan.kernels for operator in kernel.operators
        )
        self.reader = Reader(self.recipe, Views(self.recipe, computed))

    def findings(self) -> Findings:
        """Everything that isn't where it's read, in program order."""
        self._load()
        for index, row in enumerate(self.plan.instructions):
            if row.opcode is Opcode.DMA_COPY:
                self.live.advance(index)
                self._copy(row)
            elif row.kernel >= 0:
                self.live.advance(index)
                for fault in self._compute(row, self.plan.kernels[row.kernel]):
                    yield _misplaced(f"instruction {index} {fault}", index)
        self.live.advance(max(0, len(self.plan.instructions) - 1))
        for binding in self.plan.outputs:
            region = binding.region
            if not region.size_bytes:
                continue
            try:
                found = self.reader.read(self._holding(region), region, binding.name)
                if all(any(place) for place in (found.starts, *found.others)):
                    raise MisplacedError("another part of it is there")
            except MisplacedError as fault:
                yield _misplaced(
                    f"output %{print_name(binding.name)} isn't at {say_region(region)}: {fault}"
                )

    def _holding(self, region: Region) -> Holding:
        stop = region.address + span_of(region).reach_bytes
        number = self.live.holder(region.memory, region.address, stop)
        holding = self.held.get(number)
        if holding is None:
            base = self.plan.buffers[number].address if number >= 0 else 0
            holding = self.held[number] = Holding(base)
        return holding

    def _load(self) -> None:
        for binding in self.plan.inputs:
            if binding.region.size_bytes:
                full = self.recipe.graph.types[binding.name].shape
                whole = Located(binding.name, full, (0,) * len(full))
                self._put(binding.region, whole)
        known = {item.name: item for item in self.packings}
        for binding in self.plan.constants:
            if binding.region.size_bytes:
                packing = known[binding.name]
                load_constants(self._holding(binding.region), binding, packing, self.recipe)

    def _copy(self, row: Instruction) -> None:
        source, target = row.reads[0], row.writes[0]
        if source.size_bytes:
            copy(self._holding(source), self._holding(target), source, target)

    def _compute(self, row: Instruction, kernel: Kernel) -> Iterator[str]:
        found: dict[str, Located] = {}
        for name, region in zip(kernel.parameters, row.reads, strict=True):
            if not region.size_bytes:
                found[name] = self.reader.unknown(name)
                continue
            try:
                found[name] = self.reader.read(self._holding(region), region, name)
            except MisplacedError as fault:
                yield f"reads %{print_name(name)} at {say_region(region)}: {fault}"
                found[name] = self.reader.unknown(name)
        made: Mapping[str, Located] | None = None
        try:
            made = self.maps.results(row.kernel, kernel, found)
        except MisplacedError as fault:
            yield f"computes of parts that don't belong together, in {fault}"
        for name, region in zip(kernel.results, row.writes, strict=True):
            if not region.size_bytes:
                continue
            try:
                self._put(region, None if made is None else made[name])
            except MisplacedError as fault:
                yield f"writes %{print_name(name)} at {say_region(region)}: {fault}"
                self._put(region, None)

    def _put(self, region: Region, item: Located | None) -> None:
        """What was computed or loaded is in a region."""
        holding = self._holding(region)
        put = [] if item is None else self.reader.fragments(region, item)
        if not put:
            steps = span_of(region).steps
            axes = normal((count, step, 0) for count, step in steps)
            put = [fragment(region.address, region.dtype.size_bytes, None, 0, axes)]
        for item_put in put:
            holding.put(item_put)


def _misplaced(message: str, instruction: int | None = None) -> Finding:
    return Finding(message, "recompile the model: parts of values lie where others are read",
                   instruction)  # fmt: skip
