"""What a device lets in: plans that break no rule, in packages whose recipe they compute."""

from __future__ import annotations

from stages.errors import PackageError
from stages.hardware.spec import HardwareSpec
from stages.package import Package
from stages.plan.rules import Violation, check_plan
from stages.plan.rules.agreement import check_agreement


class RefusedPlanError(PackageError):
    """A plan that breaks rules; `violations` are all that were found."""

    def __init__(self, violations: tuple[Violation, ...]) -> None:
        first, more = violations[0], len(violations) - 1
        others = f" (and {more} more)" if more else ""
        super().__init__(
            f"the device refuses the plan: {first.rule}: {first.message}{others}",
            hint=f"{first.hint}; `recipe validate` names every breach",
        )
        self.violations = violations


def admit(package: Package, spec: HardwareSpec) -> None:
    """Judge a package's plan; a plan that breaks a plan rule isn't compared with its recipe.

    Raises:
        RefusedPlanError: it breaks a rule.
    """
    plan = package.plan
    violations = check_plan(plan, spec) or check_agreement(
        plan, package.recipe, package.weights, package.decided.packings
    )
    if violations:
        raise RefusedPlanError(violations)
