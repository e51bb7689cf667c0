"""Layer by layer or in cascades: both ways are emitted and timed, and the better one is kept.

The choice among cascades goes by estimates. Whether one is worth it is settled by its groups' own
instructions as the device runs them, layer by layer and in stripes; then the choice is made again
without those that weren't.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from stages.compiler.cascade.choice import Interval, Options, choose, rank
from stages.compiler.cascade.grounds import Stand, grounds_of
from stages.compiler.cascade.likeness import likeness
from stages.compiler.cascade.replay import replayed
from stages.compiler.cascade.weighing import Outcome, note
from stages.compiler.draft import Draft
from stages.compiler.emit.examples import Example
from stages.compiler.emit.plan import PlanEmitter
from stages.compiler.memory.assign import Assignment, Memory
from stages.compiler.memory.cascades import NoRoomError
from stages.errors import DoesNotFitError
from stages.plan.costs import submission_cycles
from stages.plan.ddr_traffic import ddr_bytes
from stages.plan.timing import plan_cycles

_TRIES = 4
"""Times that cascades are tried, at most: each time without those that didn't gain."""
_CLEAR = 0.9
"""Of the price layer by layer: prices were never so far off the timed instructions."""
Solved = tuple[Draft, Memory]


@dataclass(slots=True)
class Trial:
    """Cascades being chosen and tried beside what was solved layer by layer. `outcomes` are those
    of all that were tried, `times` those of the programs that were timed, by likeness."""

    assignment: Assignment
    layers: Solved
    outcomes: dict[Interval, Outcome] = field(default_factory=dict)
    times: dict[object, tuple[int, int]] = field(default_factory=dict)
    examples: dict[object, Example] = field(default_factory=dict)

    def run(self) -> Solved:
        """The best memory decisions that were found, with what was weighed."""
        stand = grounds_of(self.assignment, self.layers[1]).best()
        options = dict(stand.options)
        for _ in range(_TRIES):
            chosen, tried = self._placed(stand, options)
            losing = self._losing(chosen, tried, stand)
            if not losing:
                break
            for interval in losing:
                del options[interval]
        kept = {interval: item for interval, item in chosen.items() if interval in options}
        final = self._beside(kept.values(), stand) if losing else tried
        if isinstance(final, int) or not self._gains(kept, stand):
            return self._explained(self.layers, frozenset())
        return self._explained(final, frozenset(kept))

    def _gains(self, kept: Mapping[Interval, Options], stand: Stand) -> bool:
        """Whether the whole is cheaper than layer by layer, residents that gave way counted in."""
        inside = {number for interval in kept for number in range(*interval)}
        cascades = sum(item[0].cycles for item in kept.values())
        others = sum(n for number, n in stand.ground.cycles.items() if number not in inside)
        return cascades + others < sum(self.layers[1].cycles.values()) or not stand.has_changed(
            self.layers[1].resident
        )

    def _placed(
        self, stand: Stand, options: dict[Interval, Options]
    ) -> tuple[dict[Interval, Options], Solved]:
        """The best choice that finds its place; ways to cut that don't are taken out."""
        while True:
            chosen = _settled(stand, options)
            tried = self._beside(chosen.values(), stand)
            if not isinstance(tried, int):
                return chosen, tried
            (interval,) = [item for item in chosen if item[0] == tried]
            _, *others = options.pop(interval)
            if others:
                options[interval] = tuple(others)

    def _losing(
        self, chosen: Mapping[Interval, Options], tried: Solved, stand: Stand
    ) -> list[Interval]:
        """Those of the chosen ones that don't gain."""
        for interval, options in chosen.items():
            known = self.outcomes.get(interval)
            if known is None or known.options[0] != options[0]:
                self.outcomes[interval] = self._outcome(options, tried, stand)
        return [interval for interval in chosen if not self.outcomes[interval].is_kept]

    def _beside(self, chosen: Collection[Options], stand: Stand) -> Solved | int:
        """Memory with these cascades, or the first group of one whose buffers find no place."""
        cascades = tuple(options[0].cut for options in chosen if options[0].cut is not None)
        if not cascades:
            return self.layers
        kept = frozenset(stand.kept)
        try:
            return self.assignment.beside(cascades, kept).run()
        except NoRoomError as error:
            return error.start
        except DoesNotFitError:
            return max(item.chain.start for item in cascades)

    def _outcome(self, options: Options, tried: Solved, stand: Stand) -> Outcome:
        """Whether a cascade gains: by the prices where they leave no doubt, else as its groups'
        instructions run by themselves, in fewer cycles, or in as many and with fewer bytes."""
        best = options[0]
        cycles = self.layers[1].cycles
        alone = sum(cycles[number] for number in best.chain.numbers)
        if best.cycles < alone * _CLEAR:
            size = sum(stand.ground.costs[number][1] for number in best.chain.numbers)
            return Outcome(options, (alone, size), (best.cycles, best.ddr_bytes), True, "priced")
        timed = [self._timed(solved, best.interval) for solved in (self.layers, tried)]
        return Outcome(options, timed[0], timed[1], timed[1] < timed[0], "timed by themselves")

    def _timed(self, solved: Solved, interval: Interval) -> tuple[int, int]:
        """Cycles of some groups by themselves, without submission, and bytes that they move to and
        from the DDR. Layers repeat: what is alike is timed once."""
        spec = self.assignment.spec
        emitter = PlanEmitter(*solved, spec, examples=self.examples)
        emitter.write_segment(*interval)
        key = likeness(emitter.program, emitter.constants, spec)
        if key not in self.times:
            plan = emitter.segment()
            cycles = plan_cycles(plan, spec) - submission_cycles(plan, spec)
            self.times[key] = cycles, ddr_bytes(plan)
        return self.times[key]

    def _explained(self, found: Solved, kept: Collection[Interval]) -> Solved:
        """The same with what was weighed."""
        final = [
            replace(item, is_kept=interval in kept)
            for interval, item in sorted(self.outcomes.items())
        ]
        weighed = [answer for item in final for answer in item.weighed()]
        draft, memory = found
        return draft.with_weighed(weighed).with_notes(note(final)), memory


def _settled(stand: Stand, options: dict[Interval, Options]) -> dict[Interval, Options]:
    """The best choice, every cascade of which was priced part by part: what looked best until then
    may give way to another, in `options` too."""
    while True:
        chosen = {item[0].interval: item for item in choose(stand.ground, options)}
        rough = [interval for interval, item in chosen.items() if item[0].cut is None]
        if not rough:
            return chosen
        for interval in rough:
            first, *others = options.pop(interval)
            found = replayed(first, stand.prices)
            if found is not None:
                others.append(found)
            if others:
                options[interval] = tuple(sorted(others, key=rank))
