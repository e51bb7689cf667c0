"""The checks of the validate stage, but for the running of samples: each says what failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stages.evaluation.output_checks import AccuracyLimits
from stages.evaluation.package_facts import Fallback, MemoryFacts
from stages.evaluation.verdict import Check
from stages.plan.rules import Violation

_FALLBACKS_NAMED = 5


@dataclass(frozen=True, slots=True)
class ValidationLimits:
    """Limits of the validation; None where there is none.

    `min_cosine`, `max_relative_error`: float models. `min_sqnr_db`: integer models, against the
    float meaning of the same graph. `max_fallbacks` counts operators on the host.
    """

    min_cosine: float = 0.999
    max_relative_error: float = 0.01
    min_sqnr_db: float = 30.0
    max_fallbacks: int | None = None
    max_sram_bytes: int | None = None
    max_ddr_bytes: int | None = None

    @property
    def accuracy(self) -> AccuracyLimits:
        """The limits on outputs."""
        return AccuracyLimits(self.min_cosine, self.max_relative_error, self.min_sqnr_db)


def check_rules(violations: Sequence[Violation]) -> tuple[Check, ...]:
    """One failed check for each violation, or one that passed."""
    if not violations:
        return (Check("plan rules", passed=True, figure="0 broken", limit="0"),)
    return tuple(
        Check(violation.rule, passed=False, figure="broken", limit="kept", message=str(violation))
        for violation in violations
    )


def check_fallbacks(found: Sequence[Fallback], limits: ValidationLimits) -> Check:
    """Operators on the host against the allowed number."""
    count = sum(len(item.operators) for item in found)
    allowed = limits.max_fallbacks
    passed = allowed is None or count <= allowed
    named = ", ".join(
        f"{'+'.join(dict.fromkeys(item.kinds))} {item.group!r} ({item.reason})"
        for item in found[:_FALLBACKS_NAMED]
    )
    more = f" and {len(found) - _FALLBACKS_NAMED} more" if len(found) > _FALLBACKS_NAMED else ""
    message = (
        f"{count} operators run on the host, {allowed} are allowed: {named}{more}. Replace them by "
        "operators of the spec's list, or raise `validate.max_fallbacks` in params.yaml"
    )
    limit = "" if allowed is None else str(allowed)
    return Check("fallbacks", passed, str(count), limit, "" if passed else message)


def check_memory(facts: Sequence[MemoryFacts], limits: ValidationLimits) -> tuple[Check, ...]:
    """Peak use of each memory against what the device has, and the limit if there is one."""
    own_limits = {"sram": limits.max_sram_bytes, "ddr": limits.max_ddr_bytes}
    checks = []
    for item in facts:
        own = own_limits.get(item.memory)
        allowed = item.available_bytes if own is None else min(own, item.available_bytes)
        passed = item.peak_bytes <= allowed
        message = (
            f"peak {item.memory} is {item.peak_bytes} bytes, {item.peak_bytes - allowed} over the "
            f"limit of {allowed}: compile for a device with more, or raise the limit"
        )
        checks.append(
            Check(
                f"peak {item.memory}",
                passed,
                f"{item.peak_bytes} B",
                f"{allowed} B",
                "" if passed else message,
            )
        )
    return tuple(checks)
