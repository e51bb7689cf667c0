"""What becomes of damaged plans: `python -m tests.device.mutants FIRST LAST EACH [HARDWARE ...]`.

Compiles the random models of these seeds, damages each plan EACH times in every way of
`tests.plan.mutations`, and says which net caught what. Exits 1 if anything slipped through.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from stages.compiler.pipeline import Compiled, compile_graph
from stages.device.admission import RefusedPlanError, admit
from stages.device.functional import Machine
from stages.device.stalls import attribute
from stages.errors import CompileError, RecipeError
from stages.hardware.spec import HardwareSpec
from stages.package import DecidedFacts, Manifest, Package
from stages.plan.costs import instruction_costs
from stages.plan.instructions import Plan
from stages.plan.timing import run_costs
from stages.tensors import Array
from tests.compiler.campaign import model_of
from tests.compiler.judged import Case, JudgementError, case_of, judge_numbers
from tests.compiler.specs import hardware
from tests.plan.mutations import MUTATIONS, Dice, Mutation, NothingToDamageError


class Fate(StrEnum):
    """What became of a damaged plan."""

    REFUSED = "refused by a rule"
    HARMLESS = "changes nothing"
    WRONG = "runs, and its numbers are wrong"
    SLIPPED = "runs, and its numbers are others, if not wrong"


@dataclass(frozen=True)
class Subject:
    """A compiled model on a device, and what it computes."""

    seed: int
    hardware: str
    spec: HardwareSpec
    case: Case
    compiled: Compiled
    outputs: dict[str, Array]


@dataclass(frozen=True)
class Found:
    """A damaged plan and what became of it; `rule` is the first that refused it."""

    subject: Subject
    mutation: str
    number: int
    fate: Fate
    rule: str = ""


def subjects(first: int, last: int, names: tuple[str, ...]) -> Iterator[Subject]:
    """The models of these seeds that have instructions, on each device."""
    for seed in range(first, last):
        model = model_of(seed)
        case = case_of(model.model, model.feeds)
        for name in names:
            spec = hardware(name)
            try:
                compiled = compile_graph(case.graph, case.constants, spec)
            except CompileError:
                continue
            if compiled.plan.instructions:
                run = Machine(compiled.plan, compiled.weights, spec).run(case.feeds)
                yield Subject(seed, name, spec, case, compiled, run.outputs)


def mutants(subject: Subject, each: int) -> Iterator[Found]:
    """Every damage to one plan, judged."""
    plan = subject.compiled.plan
    for number in range(each):
        for place, mutation in enumerate(MUTATIONS):
            dice = Dice(np.random.default_rng([subject.seed, number, place]))
            damaged = _damaged(plan, mutation, dice)
            if damaged is not None and damaged != plan:
                fate, rule = _fate(subject, damaged)
                yield Found(subject, mutation.__name__, number, fate, rule)


def _damaged(plan: Plan, mutation: Mutation, dice: Dice) -> Plan | None:
    try:
        return mutation(plan, dice)
    except NothingToDamageError:
        return None


def _fate(subject: Subject, plan: Plan) -> tuple[Fate, str]:
    compiled, spec = subject.compiled, subject.spec
    manifest = Manifest("m", "1" * 64, spec.name, spec.version, spec.digest, "0.1.0")
    try:
        decided = DecidedFacts(packings=compiled.packings)
        package = Package(compiled.recipe, plan, compiled.weights, manifest, decided=decided)
        admit(package, spec)
    except RefusedPlanError as refused:
        return Fate.REFUSED, refused.violations[0].rule
    costs = instruction_costs(plan, spec)
    total = int(run_costs(costs).total_cycles[0])
    assert total == attribute(costs).total_cycles > 0
    try:
        outputs = Machine(plan, compiled.weights, spec).run(subject.case.feeds).outputs
        if _same(outputs, subject.outputs):
            return Fate.HARMLESS, ""
        judge_numbers(subject.case, replace(compiled, plan=plan), spec)
    except (JudgementError, RecipeError):
        return Fate.WRONG, ""
    return Fate.SLIPPED, ""


def _same(outputs: dict[str, Array], others: dict[str, Array]) -> bool:
    return outputs.keys() == others.keys() and all(
        np.array_equal(array, others[name], equal_nan=array.dtype.kind == "f")
        for name, array in outputs.items()
    )


def main(first: int, last: int, each: int, names: tuple[str, ...]) -> int:
    """Print the fates of each kind of damage, and the rules that refused; give how many escaped."""
    fates: Counter[tuple[str, Fate]] = Counter()
    rules: Counter[str] = Counter()
    for subject in subjects(first, last, names):
        for found in mutants(subject, each):
            fates[found.mutation, found.fate] += 1
            rules[found.rule] += 1
            if found.fate not in (Fate.REFUSED, Fate.HARMLESS):
                print(f"{subject.seed} {subject.hardware} {found.mutation} {found.number}: "
                      f"{found.fate}")  # fmt: skip
    for mutation in MUTATIONS:
        row = {str(fate): fates[mutation.__name__, fate] for fate in Fate}
        print(mutation.__name__, row, flush=True)
    print({str(fate): sum(fates[name.__name__, fate] for name in MUTATIONS) for fate in Fate})
    print(dict(rules.most_common()))
    escaped = (Fate.WRONG, Fate.SLIPPED)
    return sum(count for (_, fate), count in fates.items() if fate in escaped)


if __name__ == "__main__":
    start, stop, times, *chosen = sys.argv[1:]
    sys.exit(bool(main(int(start), int(stop), int(times), tuple(chosen) or ("npu_tiny/16K",))))
