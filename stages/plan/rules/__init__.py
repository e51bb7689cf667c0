"""The judge: what every plan must obey, worked out from the plan and the spec alone."""

from __future__ import annotations

from itertools import islice

from stages.hardware.spec import HardwareSpec
from stages.plan.instructions import Plan
from stages.plan.rules.addresses import align, bounds, elements, region
from stages.plan.rules.arithmetic import contraction, epilogue, support
from stages.plan.rules.buffers import buffer, live, overlap, peak
from stages.plan.rules.contents import constants, unwritten
from stages.plan.rules.engines import limits, operands, queue, reach, target, transfer
from stages.plan.rules.events import deadlock, event_order, events
from stages.plan.rules.facts import work_out_facts
from stages.plan.rules.in_place import in_place
from stages.plan.rules.kernels import kernel_form, kernel_shapes, kernel_types
from stages.plan.rules.races import race
from stages.plan.rules.violation import Rule, Violation, rule_name

__all__ = ["RULES", "Rule", "Violation", "check_plan", "rule_name"]

RULES: tuple[Rule, ...] = (
    target,
    queue,
    operands,
    region,
    elements,
    align,
    bounds,
    buffer,
    live,
    overlap,
    peak,
    transfer,
    limits,
    reach,
    kernel_form,
    kernel_shapes,
    kernel_types,
    contraction,
    support,
    epilogue,
    events,
    event_order,
    deadlock,
    race,
    in_place,
    unwritten,
    constants,
)

REPORTED = 20
"""Violations of one rule that are reported; one fault often breaks a rule at every instruction."""


def check_plan(plan: Plan, spec: HardwareSpec) -> tuple[Violation, ...]:
    """Every way in which a plan breaks a rule, at most `REPORTED` for each rule; none if legal."""
    facts = work_out_facts(plan, spec)
    return tuple(
        Violation(rule_name(rule), finding.message, finding.hint, finding.instruction)
        for rule in RULES
        for finding in islice(rule(facts), REPORTED)
    )
