"""How far a session may step at once without missing what a poll would change."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from stages.device.die import Die
from stages.units import ceil_div

_STEPS_PER_TIME_CONSTANT = 8  # of the chain's fastest mode: what leaks is followed that finely
_POWER_MARGIN = 2.0  # how far the power of the next steps may exceed that of the last one


@dataclass(slots=True)
class Pace:
    """A poll period is made of `parts`; up to `most_polls` of them may pass in one step.

    The session's answer depends on the steps only by the error of the midpoint rule for leakage,
    and by work being spread evenly over each.
    """

    parts: tuple[int, ...]
    poll_ns: int
    most_polls: int
    _polls: int = 1

    @staticmethod
    def of(die: Die) -> Pace:
        """For that chain and that poll period."""
        poll = max(1, die.spec.thermal.poll_ns)
        longest = max(1, int(die.chain.fastest_ns / _STEPS_PER_TIME_CONSTANT))
        count = min(poll, ceil_div(poll, longest))
        bounds = [poll * index // count for index in range(count + 1)]
        parts = tuple(later - earlier for earlier, later in pairwise(bounds))
        return Pace(parts, poll, max(1, longest // poll))

    def next_steps(
        self, die: Die, quiet: tuple[float, float], watts: float | None
    ) -> tuple[int, ...]:
        """Lengths of the steps to the next poll that matters.

        Several polls pass in one step where the die can't leave the quiet band in them, whatever
        it does: neither by all of its heat flowing off nor by twice the last power. Without a last
        power at this clock there is one poll.
        """
        if self.most_polls == 1 or watts is None:
            self._polls = 1
            return self.parts
        low, high = quiet
        room = min(high - die.junction_celsius, die.junction_celsius - low)
        polls = min(self.most_polls, 2 * self._polls)
        while polls > 1 and _most_moved(die, polls * self.poll_ns, watts) >= room:
            polls //= 2
        self._polls = polls
        return (polls * self.poll_ns,) if polls > 1 else self.parts


def _most_moved(die: Die, duration_ns: int, watts: float) -> float:
    """More kelvin than the die moves in that time."""
    step, weights = die.chain.step(duration_ns), die.chain.die_weights
    cooling = sum(
        abs(weight * mode) * (1 - decay)
        for weight, mode, decay in zip(weights, die.modes, step.decays, strict=True)
    )
    heating = sum(weight * rise for weight, rise in zip(weights, step.rises, strict=True))
    return cooling + _POWER_MARGIN * watts * heating
