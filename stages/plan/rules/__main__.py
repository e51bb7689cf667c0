"""Prints the page of the rules: `python -m stages.plan.rules > docs/plan-rules.md`."""

from stages.plan.rules.page import rules_page

if __name__ == "__main__":
    print(rules_page(), end="")
