"""Old decisions for new weights: everything but the packing is as it was."""

from __future__ import annotations

from stages.compiler.draft import Draft
from stages.compiler.pipeline import Decided
from stages.compiler.progress import Progress, merged
from stages.package import DecidedFacts, PlanFiles, StoredDecisions
from stages.recipe.verify import verify


def facts_of(decided: Decided) -> DecidedFacts:
    """What a package keeps of its decisions."""
    progress = decided.progress
    return DecidedFacts(
        progress.structure_sha256,
        progress.draft.recipe.notes,
        len(progress.draft.weighed),
        progress.sources,
        decided.packings,
        len(decided.plan.instructions),
        decided.cycles,
    )


def to_store(decided: Decided, facts: DecidedFacts, plan: PlanFiles) -> StoredDecisions:
    """Decisions as they can be used again."""
    draft = decided.progress.draft
    return StoredDecisions(facts, draft.recipe, draft.weighed, plan)


def reused(progress: Progress, stored: StoredDecisions) -> Draft:
    """The draft that old decisions make of a graph of the same structure: the recipe and what was
    weighed as they were, with the new constants.

    Raises:
        IllegalRecipeError: the decisions aren't for these constants.
    """
    sources, held = stored.facts.sources, progress.draft.constants
    constants = {name: held[sources[name]] for name in stored.recipe.graph.constants}
    verify(stored.recipe, constants)
    draft = Draft(stored.recipe, constants, stored.weighed)
    return merged(draft, progress.notes, progress.weighed)
