"""The device limit: the least time that a recipe's groups could take if nothing ever waited.

    limit = submission + max(for each engine: sum of its groups' launches and best-tile cycles,
                             compulsory bytes over the bandwidth of the DDR)

Each group counts at the tile that needs the fewest cycles of its engine and whose slots fit the
SRAM; loads, stores, relayouts and copies count only as compulsory bytes: each weight, model input
and model output once. It is the roofline with the engines' own losses in it (Williams et al.,
"Roofline", 2009, for the plain form), so what lies between it and a plan's latency is waiting.

Some of that waiting no plan can avoid: weights come no earlier than the SRAM has room for them, so
a network whose last layers have most weights and least arithmetic ends waiting for the DDR. The
*buffered limit* counts that in: for each group k of the recipe's order, all work of one engine
before k, and then the weights of k and after, less one SRAM full of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from stages.compiler.draft import Draft
from stages.compiler.support import TILED
from stages.compiler.tiling.footprint import Span
from stages.compiler.tiling.search import Search
from stages.compiler.tiling.tile_prices import TilePrices
from stages.compiler.tiling.workload import Workload, work_signature, workload
from stages.hardware.cost import compulsory_cycles, launch_cycles, nanoseconds_to_cycles
from stages.hardware.spec import HardwareSpec
from stages.plan.costs import Role, instruction_costs
from stages.plan.instructions import Plan
from stages.recipe.decisions import Engine, Group, Recipe, Tile
from stages.recipe.graph import Graph, Operator
from stages.recipe.kinds import Kind


@dataclass(frozen=True, slots=True)
class DeviceLimit:
    """Cycles of the nominal clock: of each engine alone, of the compulsory bytes at the DDR's
    bandwidth, and of the driver's submission, which comes before either. `buffered_cycles` is the
    limit with an SRAM of the size that it has, submission included."""

    engine_cycles: Mapping[str, int]
    compulsory_bytes: int
    memory_cycles: int
    submit_cycles: int
    buffered_cycles: int

    @property
    def cycles(self) -> int:
        """The limit itself."""
        return self.submit_cycles + max(self.memory_cycles, *self.engine_cycles.values())

    @property
    def bound(self) -> str:
        """What limits: an engine's name, or `ddr`."""
        bounds = {**self.engine_cycles, "ddr": self.memory_cycles}
        return max(bounds, key=lambda name: bounds[name])


def device_limit(draft: Draft, plan: Plan, spec: HardwareSpec) -> DeviceLimit:
    """The limit of a compiled recipe. `plan` is any plan of it: host calls and bytes are read off
    it."""
    recipe = draft.recipe
    operators = {op.name: op for op in recipe.graph.operators}
    best: dict[object, int] = {}
    engines = {str(engine): 0 for engine in (*TILED, Engine.HOST)}
    before: list[tuple[int, Group]] = []
    for group in recipe.groups:
        before.append((max(engines[engine] for engine in TILED), group))
        if group.engine not in TILED:
            continue
        work = workload(draft, group, operators)
        key = work_signature(work)
        if key not in best:
            best[key] = least_cycles(work, spec)
        engines[group.engine] += best[key] + launch_cycles(spec, group.engine)
    costs = instruction_costs(plan, spec)
    engines[Engine.HOST] = sum(
        cycles + launch
        for role, cycles, launch in zip(costs.roles, costs.cycles, costs.launch, strict=True)
        if role is Role.HOST
    )
    size_bytes = compulsory_bytes(recipe)
    submit = nanoseconds_to_cycles(spec, spec.driver.submit_ns)
    memory_cycles = compulsory_cycles(spec, size_bytes)
    buffered = max(memory_cycles, *engines.values(), _last_weights(before, recipe.graph, spec))
    return DeviceLimit(engines, size_bytes, memory_cycles, submit, submit + buffered)


def _last_weights(before: Sequence[tuple[int, Group]], graph: Graph, spec: HardwareSpec) -> int:
    """The most of: cycles before a group, then loading what weights it and later groups have
    beyond what the SRAM holds. Weights that an earlier group reads, too, don't count."""
    reader: dict[str, int] = {}
    operators = {op.name: op for op in graph.operators}
    for number, (_, group) in enumerate(before):
        if group.engine in TILED:
            for name in group.operators:
                for value in operators[name].operands:
                    reader.setdefault(value, number)
    loads = [0] * len(before)
    consumers = graph.consumers()
    for value in graph.constants:
        if value in reader:
            loads[reader[value]] += _read_bytes(value, consumers[value], graph)
    found = waiting = 0
    for (cycles, _), size_bytes in reversed(list(zip(before, loads, strict=True))):
        waiting += size_bytes
        late = max(0, waiting - spec.sram.size_bytes)
        found = max(found, cycles + compulsory_cycles(spec, late))
    return found


def compulsory_bytes(recipe: Recipe) -> int:
    """Bytes that any plan of a recipe moves between the DDR and the chip: each weight, input and
    output once, of a table no more than is gathered from it, and nothing for what only the host
    reads."""
    graph = recipe.graph
    hosted = {name for group in recipe.fallbacks for name in group.operators}
    ends = sum(graph.types[value].size_bytes for value in (*graph.inputs, *graph.outputs))
    readers = graph.consumers()
    return ends + sum(
        _read_bytes(value, [op for op in readers[value] if op.name not in hosted], graph)
        for value in graph.constants
    )


def _read_bytes(constant: str, readers: Sequence[Operator], graph: Graph) -> int:
    size = graph.types[constant].size_bytes
    if not readers:
        return 0
    if all(op.kind is Kind.GATHER and op.inputs[0] == constant for op in readers):
        picked = sum(graph.types[op.outputs[0]].element_count for op in readers)
        return min(size, picked * graph.types[constant].dtype.size_bytes)
    return size


def least_cycles(work: Workload, spec: HardwareSpec) -> int:
    """Cycles that a group keeps its engine busy at its best tile, operands in the SRAM or not."""
    found: list[int] = []
    for resident in (frozenset[str](), frozenset((*work.operands, work.result))):
        search = Search(work, spec, resident)
        tiles = {
            (tile.extents, tile.reduction): tile
            for tile in search.fitting_tiles(spec.sram.usable_bytes)
        }
        found += [busy_cycles(work, tile, search.prices) for tile in tiles.values()]
    return min(found)


def busy_cycles(work: Workload, tile: Tile, prices: TilePrices) -> int:
    """Cycles that all steps of a tiled group keep its engine busy.

    Along each axis the first step, one of those between, and the last are priced: those between
    are alike.
    """
    axes = [
        _spans(extent, step)
        for extent, step in zip(work.result_type.shape, tile.extents, strict=True)
    ]
    extent = work.reduction_extent
    cut = bool(tile.reduction) and tile.reduction < extent
    reductions = _spans(extent, tile.reduction) if cut else [(None, 1)]
    total = 0
    for chosen in product(*axes):
        box = tuple(span for span, _ in chosen)
        for reduction, count in reductions:
            times = count * prod(many for _, many in chosen)
            total += times * prices.compute_cycles(work.boxes(box, reduction))
    return total


def _spans(extent: int, step: int) -> list[tuple[Span, int]]:
    """The first, an inner and the last of the spans that cut an axis, and how many are like it."""
    if not extent or step >= extent:
        return [((0, extent), 1)]
    count = -(-extent // step)
    inner = [((step, 2 * step), count - 2)] if count > 2 else []
    return [((0, step), 1), *inner, (((count - 1) * step, extent), 1)]
