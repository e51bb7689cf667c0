"""How far a compile has come: a draft, and which of its decisions depend on no constant's elements.

Rewrites read constants; what follows them does not, and so can be used again for other weights of
the same structure. `structure_sha256` is taken where the first ends and the second begins.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from stages.compiler.cascading import Cascading
from stages.compiler.draft import Draft, Pass
from stages.hardware.spec import HardwareSpec
from stages.recipe.explanation import Weighed
from stages.recipe.printer import print_recipe
from stages.recipe.verify import Verified, verify
from stages.version import COMPILER_VERSION


@dataclass(frozen=True, slots=True)
class Progress:
    """A draft, `after` a pass.

    Once decisions began, `draft` holds only their own notes and reasons; `notes` and `weighed` are
    those of the rewrites, and `sources` name, for each constant, the one that the rewrites left.
    `structure_sha256` is empty before. `cascading` is an option of the compile.
    """

    draft: Draft
    after: str = ""
    structure_sha256: str = ""
    notes: tuple[str, ...] = ()
    weighed: tuple[Weighed, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    cascading: Cascading = Cascading.ON

    @property
    def whole(self) -> Draft:
        """The draft with everything that was noted and weighed."""
        return merged(self.draft, self.notes, self.weighed)


def merged(draft: Draft, notes: Sequence[str], weighed: Sequence[Weighed]) -> Draft:
    """A draft with these notes and reasons before its own."""
    own = draft.recipe.notes
    empty = replace(draft, recipe=replace(draft.recipe, notes=()), weighed=())
    with_reasons = empty.with_weighed(weighed).with_weighed(draft.weighed)
    return with_reasons.with_notes((*notes, *own))


@dataclass(slots=True)
class _Checks:
    """Drafts behind passes, each verified where the pass changed anything."""

    verified: Verified = field(default_factory=dict)
    before: Draft | None = None

    def check(self, draft: Draft) -> None:
        """Verify a draft.

        Raises:
            IllegalRecipeError: the pass broke a rule.
        """
        if self.before is None or not _is_alike(self.before, draft):
            verify(draft.recipe, draft.constants, self.verified)
        self.before = draft


def _is_alike(one: Draft, other: Draft) -> bool:
    """Whether two drafts differ in notes and reasons at most. Constants must be the same arrays."""
    if one.constants.keys() != other.constants.keys():
        return False
    if any(one.constants[name] is not array for name, array in other.constants.items()):
        return False
    return replace(one.recipe, notes=()) == replace(other.recipe, notes=())


def rewrite(progress: Progress, steps: Sequence[Pass], spec: HardwareSpec) -> Progress:
    """After these passes, which may read and change constants.

    Raises:
        CompileError: no recipe for this device exists.
    """
    draft, checks = progress.draft, _Checks()
    for step in steps:
        draft = in_text_order(step.run(draft, spec))
        checks.check(draft)
        progress = replace(progress, draft=draft, after=step.name)
    return progress


def begin_decisions(progress: Progress, spec: HardwareSpec) -> Progress:
    """The same draft where the rewrites have ended: its structure is what decides from here on."""
    draft = progress.draft
    # Each constant becomes an object of its own, so that renamed ones can be traced.
    constants = {name: array.view() for name, array in draft.constants.items()}
    bare = Draft(replace(draft.recipe, notes=()), constants)
    return Progress(
        bare,
        progress.after,
        structure_of(bare, spec, progress.cascading),
        draft.recipe.notes,
        draft.weighed,
        {name: name for name in bare.constants},
        progress.cascading,
    )


def decide(progress: Progress, steps: Sequence[Pass], spec: HardwareSpec) -> Progress:
    """After these passes, which read no constant's elements: they keep, drop or rename constants.

    Raises:
        CompileError: no recipe for this device exists.
    """
    checks = _Checks()
    for step in steps:
        draft = in_text_order(step.run(progress.draft, spec))
        checks.check(draft)
        sources = _traced(step.name, progress, draft)
        progress = replace(progress, draft=draft, after=step.name, sources=sources)
    return progress


def structure_of(draft: Draft, spec: HardwareSpec, cascading: Cascading) -> str:
    """The SHA-256 of all that decisions depend on: graph, types, groups, spec, compiler and its
    options. No constant's elements, and no note."""
    text = print_recipe(replace(draft.recipe, notes=()))
    digest = hashlib.sha256()
    for part in (COMPILER_VERSION, spec.digest, cascading.value, text):
        digest.update(f"{len(part)}:".encode() + part.encode())
    return digest.hexdigest()


def in_text_order(draft: Draft) -> Draft:
    """The same draft, its values in the order in which its text names them: what a pass makes of a
    draft and of its text, read back, is the same."""
    graph, recipe = draft.graph, draft.recipe
    made = [value for operator in graph.operators for value in operator.outputs]
    order = dict.fromkeys((*graph.inputs, *graph.constants, *made, *graph.types))
    types = {name: graph.types[name] for name in order if name in graph.types}
    layouts = {name: recipe.layouts[name] for name in order if name in recipe.layouts}
    places = {name: recipe.allocations[name] for name in order if name in recipe.allocations}
    ordered = replace(
        recipe, graph=replace(graph, types=types), layouts=layouts, allocations=places
    )
    constants = {name: draft.constants[name] for name in graph.constants}
    return replace(draft, recipe=ordered, constants=constants)


def _traced(name: str, before: Progress, after: Draft) -> Mapping[str, str]:
    """Where the constants behind a pass come from: each is an array from before it."""
    known = {id(array): before.sources[value] for value, array in before.draft.constants.items()}
    found = {}
    for value, array in after.constants.items():
        source = known.get(id(array))
        assert source is not None, f"pass {name} made constant {value}; it must be a rewrite"
        found[value] = source
    return found
