"""The page of the rules, `docs/plan-rules.md`, made from their docstrings."""

from __future__ import annotations

from inspect import cleandoc

from stages.plan.rules import REPORTED, RULES, Rule, rule_name

_HEAD = f"""\
# Plan rules

Every compile checks its plan against these rules, and `recipe validate` checks it again. They are
worked out from the plan and the hardware spec alone, and share no code with the compiler. A message
begins with the rule's name, says what is wrong and where, and ends with the cure. At most
{REPORTED} breaches of one rule are reported.

This page is made from the rules' docstrings: `python -m stages.plan.rules > docs/plan-rules.md`.
"""


def rules_page() -> str:
    """The whole page, as Markdown."""
    return "\n".join([_HEAD, *(_section(rule) for rule in RULES)])


def _section(rule: Rule) -> str:
    text = cleandoc(rule.__doc__ or "")
    first, _, rest = text.partition("\n\n")
    body = rest.replace("Cure: ", "**Cure:** ")
    title = " ".join(first.split())
    return f"## {rule_name(rule)}\n\n**{title}**\n\n{body}\n" if body else f"## {title}\n"
