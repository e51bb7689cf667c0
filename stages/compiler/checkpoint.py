"""Where a compile stops and goes on: after a pass, as text that a person may have edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from stages.compiler.draft import Draft, Pass
from stages.compiler.interleaving import Interleaving
from stages.compiler.progress import Progress, begin_decisions, decide, in_text_order, rewrite
from stages.errors import InputError
from stages.hardware.spec import HardwareSpec
from stages.package.stopped import Stopped, StoppedFacts
from stages.package.store import code_digest
from stages.recipe.decisions import Engine, Recipe
from stages.recipe.kinds import CONTRACTIONS, Kind
from stages.recipe.printer import print_group
from stages.recipe.refusal import IllegalRecipeError, refuse
from stages.recipe.verify import verify

_OWN = frozenset({Kind.RELAYOUT, Kind.IDENTITY, Kind.RESHAPE})
"""Kinds that the compiler puts in by itself; no list names them."""


def is_past(progress: Progress, steps: Sequence[Pass]) -> bool:
    """Whether the last pass came behind all of these: it is none of them."""
    return bool(progress.after) and progress.after not in [step.name for step in steps]


def rewritten(progress: Progress, steps: Sequence[Pass], spec: HardwareSpec) -> Progress:
    """Behind the rewrites that are left, where decisions begin; as it is where they have begun.

    Raises:
        CompileError: no recipe for this device exists.
    """
    if is_past(progress, steps):
        return progress
    names = [step.name for step in steps]
    done = names.index(progress.after) + 1 if progress.after else 0
    return begin_decisions(rewrite(progress, steps[done:], spec), spec)


def undecided(progress: Progress, steps: Sequence[Pass]) -> Sequence[Pass]:
    """The decisions that are left of these."""
    names = [step.name for step in steps]
    return steps[names.index(progress.after) + 1 :] if progress.after in names else steps


def run_to(
    progress: Progress,
    first: Sequence[Pass],
    then: Sequence[Pass],
    spec: HardwareSpec,
    stop_after: str,
) -> Progress:
    """Go on behind `progress.after`: the rewrites `first`, the decisions `then`, up to a pass.

    Raises:
        InputError: there is no such pass, or it is behind already.
        CompileError: no recipe for this device exists.
    """
    names = [step.name for step in (*first, *then)]
    done = names.index(progress.after) + 1 if progress.after else 0
    _check_pass(stop_after, names[done:], "--stop-after")
    stop = names.index(stop_after) + 1
    if stop <= len(first):
        return rewrite(progress, first[done:stop], spec)
    progress = rewritten(progress, first, spec)
    left = undecided(progress, then)
    return decide(progress, left[: len(left) - (len(names) - stop)], spec)


def _check_pass(name: str, names: Sequence[str], where: str) -> None:
    """Refuse what is no pass of this compile.

    Raises:
        InputError: the error lists the passes.
    """
    if name not in names:
        raise InputError(
            f"there is no pass {name!r} here",
            where=where,
            hint=f"the passes, in order: {', '.join(names)}" if names else "none is left",
        )


def stopped(progress: Progress, then: Sequence[Pass], inputs: Mapping[str, str]) -> Stopped:
    """What goes to the files where a compile of these `inputs` (their digests by name) stops, whose
    decisions are the passes `then`."""
    whole = progress.whole
    begun = _have_begun(progress.after, then)
    facts = StoppedFacts(
        progress.after,
        progress.structure_sha256,
        progress.draft.recipe.notes if begun else (),
        len(progress.draft.weighed) if begun else 0,
        progress.sources,
        progress.interleaving.value,
        code_digest(),
    )
    return Stopped(facts, whole.recipe, whole.constants, whole.weighed, inputs)


def _have_begun(after: str, then: Sequence[Pass]) -> bool:
    return after in [step.name for step in then]


def resumed(
    found: Stopped,
    inputs: Mapping[str, str],
    first: Sequence[Pass],
    then: Sequence[Pass],
    spec: HardwareSpec,
    interleaving: Interleaving,
) -> Progress:
    """Where a stopped compile of these `inputs` (their digests by name) goes on, of the rewrites
    `first` and the decisions `then`.

    What a hand changed is noted in the recipe, and checked: what the text breaks is an error at the
    operator. Decisions that a hand changed, or that were begun with another `interleaving` or by
    other code, don't follow from their structure any more, so nothing can be used again of them.

    Raises:
        InputError: the recipe is for another device, was begun from another input, breaks a rule,
            or was stopped after a pass that this compile doesn't have.
    """
    _check_pass(found.facts.after, [step.name for step in (*first, *then)], "stopped.json")
    _check(found, spec)
    _check_inputs(found.inputs, inputs)
    facts, recipe = found.facts, found.recipe
    own = facts.notes
    if found.is_edited:
        notes = (*recipe.notes, f"edited by hand after {facts.after}")
        recipe = replace(recipe, notes=notes)
    whole = in_text_order(Draft(recipe, found.constants, found.weighed))
    if not _have_begun(facts.after, then):
        return Progress(whole, facts.after, interleaving=interleaving)
    split = len(found.weighed) - facts.weighed_count
    bare = replace(whole, recipe=replace(whole.recipe, notes=own), weighed=found.weighed[split:])
    others = tuple(note for note in recipe.notes if note not in own)
    decided_so = (facts.cascades, facts.code_sha256) == (interleaving.value, code_digest())
    follows = decided_so and not found.is_edited
    return Progress(
        bare,
        facts.after,
        facts.structure_sha256 if follows else "",
        others,
        found.weighed[:split],
        dict(facts.sources),
        interleaving,
    )


def _check(found: Stopped, spec: HardwareSpec) -> None:
    target = found.recipe.target
    if (target.hardware, target.version) != (spec.name, spec.version):
        raise InputError(
            f"the recipe is for {target.hardware} {target.version}, the spec is {spec.name} "
            f"{spec.version}",
            where="the recipe's first line",
            hint="give the spec that it was begun for, or begin again",
        )
    try:
        verify(found.recipe, found.constants)
        if found.is_edited:
            _check_engines(found.recipe, spec)
    except IllegalRecipeError as error:
        raise InputError(error.problem, where=error.where, hint=error.hint) from error


def _check_inputs(found: Mapping[str, str], given: Mapping[str, str]) -> None:
    names = [name for name in {**found, **given} if found.get(name) != given.get(name)]
    if names:
        raise InputError(
            f"the stopped compile was begun from another {', '.join(names)}",
            where="stopped.json",
            hint="give what it was begun from, or begin again",
        )


def _check_engines(recipe: Recipe, spec: HardwareSpec) -> None:
    """What runs on an engine must be of a kind that the device knows; the tensor core contracts.
    The rules of plans look closer, once there is a plan."""
    operators = {operator.name: operator for operator in recipe.graph.operators}
    for group in recipe.groups:
        kinds = [operators[name].kind for name in group.operators]
        if group.engine in (Engine.HOST, Engine.NONE):
            continue
        unknown = [kind for kind in kinds if kind not in spec.operators and kind not in _OWN]
        if group.engine is Engine.TENSOR_CORE and not CONTRACTIONS.intersection(kinds):
            unknown = kinds
        if unknown:
            refuse(
                f"{unknown[0]} doesn't run on the {group.engine} of {spec.name}",
                partial(print_group, group),
                str(group.engine),
                'write `on host because "..."`, or name the engine that the spec gives it',
                " on ",
            )
