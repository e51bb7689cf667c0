"""Layouts: each group gets its values as its engine wants them; conversions stand between."""

from __future__ import annotations

from dataclasses import dataclass, field

from stages.compiler.draft import Draft
from stages.compiler.layout.choices import Choices
from stages.compiler.layout.greedy import greedy
from stages.compiler.layout.network import Network, network
from stages.compiler.layout.prices import LayoutPrices
from stages.compiler.layout.problem import Answer, Method
from stages.compiler.layout.rewrite import Rewriting
from stages.compiler.layout.solve import Solving
from stages.hardware.spec import HardwareSpec
from stages.recipe.explanation import Alternative, Weighed


@dataclass(frozen=True, slots=True)
class AssignLayouts:
    """Contractions take the layout that the spec wants, and what follows them any that its kind
    keeps, so that padding and the `relayout` groups between layouts cost least. The answer is
    exact but for graphs knotted so tightly that `solving` gives up; a note says which it is."""

    solving: Solving = field(default_factory=Solving)
    name: str = "layout"

    def run(self, draft: Draft, spec: HardwareSpec) -> Draft:
        """Choose a layout for each group, and convert values where it changes."""
        choices = Choices(spec, draft.graph.types, frozenset(draft.constants))
        found = network(draft, choices, LayoutPrices(spec))
        answer = self.solving.answer(found.problem)
        rewriting = Rewriting(draft, choices, found.layouts(answer.chosen))
        laid_out = rewriting.run()
        if all(len(options) == 1 for options in found.choices):
            return laid_out
        weighed = _weighed(found, answer, rewriting.conversions)
        return laid_out.with_notes([_note(found, answer)]).with_weighed([weighed])


def _note(found: Network, answer: Answer) -> str:
    free = sum(len(options) > 1 for options in found.choices)
    return (
        f"layout: {answer.cost:.0f} cycles, bound {answer.bound:.0f}, gap {answer.gap:.2%}, "
        f"{free} of {len(found.choices)} groups free; {_how(answer)}"
    )


def _how(answer: Answer) -> str:
    if answer.method is Method.GREEDY:
        return f"greedy: {answer.program_nodes} nodes are too many for the integer program"
    if answer.method is Method.CUT:
        return f"exact, cut at articulation points into {answer.blocks} blocks"
    if answer.program_nodes:
        return f"exact, by an integer program of {answer.program_nodes} nodes"
    return "exact, by elimination"


def _weighed(found: Network, answer: Answer, conversions: int) -> Weighed:
    step_by_step = found.problem.cost(greedy(found.problem))
    alternatives = (
        Alternative("optimal", int(answer.cost), f"{conversions} transposes, {_how(answer)}"),
        Alternative("greedy", int(step_by_step), "each group as suits those before it"),
    )
    chosen = "greedy" if answer.method is Method.GREEDY else "optimal"
    kept = alternatives[1:] if chosen == "greedy" else alternatives
    bound = f"no layouts cost less than {answer.bound:.0f} cycles: gap {answer.gap:.2%}"
    return Weighed("", "layout", kept, chosen, bound)
