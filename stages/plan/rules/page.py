"""The page of the rules, `docs/plan-rules.md`, made from their docstrings."""

from __future__ import annotations

from inspect import cleandoc

from stages.plan.rules import REPORTED, RULES, rule_name
from stages.plan.rules.agreement import AGREEMENTS, agreement_name

_HEAD = f"""\
# Plan rules

The simulated device checks a plan against these rules each time it loads one, for `recipe
validate`, `recipe benchmark` and `recipe stress` alike, and runs nothing that breaks one. They are
worked out from the plan and the hardware spec alone, and share no code with the compiler. A message
begins with the rule's name, says what is wrong and where, and ends with the cure. At most
{REPORTED} breaches of one rule are reported.

This page is made from the rules' docstrings: `python -m stages.plan.rules > docs/plan-rules.md`.
"""

_AGREEMENT = """\
# Package rules

A legal plan may be that of another model. A package's plan is also held against its recipe and its
weights, by the names that operators, values and constants have in all of them, and by which part
of a value lies where; `package-placement` judges only what keeps to the other rules. The elements
of constants aren't looked at: `recipe validate` compares every output with the model's.
"""


def rules_page() -> str:
    """The whole page, as Markdown."""
    plan_rules = [_section(rule_name(rule), rule.__doc__) for rule in RULES]
    package_rules = [_section(agreement_name(rule), rule.__doc__) for rule in AGREEMENTS]
    return "\n".join([_HEAD, *plan_rules, _AGREEMENT, *package_rules])


def _section(name: str, docstring: str | None) -> str:
    text = cleandoc(docstring or "")
    first, _, rest = text.partition("\n\n")
    body = rest.replace("Cure: ", "**Cure:** ")
    title = " ".join(first.split())
    return f"## {name}\n\n**{title}**\n\n{body}\n" if body else f"## {title}\n"
