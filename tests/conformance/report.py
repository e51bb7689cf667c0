"""`docs/conformance.md`: how many node tests run where, and why the others don't."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

import onnx

from tests.conformance.judge import Outcome, Verdict

_HEAD = """# Conformance with ONNX's node tests

Written by `python -m tests.conformance`; don't edit.

Every test that `onnx.backend.test` generates (onnx {onnx}) is normalised, imported, compiled for
`{hardware}` and run on its simulated device. Results are compared with the expected ones twice:
those of the imported graph within the test's own tolerance and 1e-5 of the output's range, those of
the device within 1 % of it, since it computes in 16 bits. Tests feed axes and shapes that models
hold as constants: one that is refused is tried again with inputs made constants, and counted in the
third column.
"""

_MEANINGS = {
    Verdict.DEVICE: "every operator runs on the device, or was folded into a constant",
    Verdict.HOST: "compiles and computes the expected result, at least one operator on the host",
    Verdict.REFUSED: "refused with a message",
    Verdict.NARROW: "as expected only within 16 bits: the test's values don't fit them",
    Verdict.WRONG: "computes something else than expected",
    Verdict.BROKEN: "ends with an exception that isn't a message",
}


def write_report(outcomes: Sequence[Outcome], hardware: str) -> str:
    """The page as Markdown."""
    lines = [_HEAD.format(onnx=onnx.__version__, hardware=hardware)]
    counts = Counter(outcome.verdict for outcome in outcomes)
    fixed = Counter(outcome.verdict for outcome in outcomes if outcome.fixed)
    lines += ["| verdict | tests | of them with constants | meaning |", "|---|---:|---:|---|"]
    lines += [f"| {v} | {counts[v]} | {fixed[v] or ''} | {_MEANINGS[v]} |" for v in Verdict]
    lines += [f"| all | {len(outcomes)} | {fixed.total()} | |", ""]
    lines += _reasons(outcomes, Verdict.HOST, "Why operators run on the host")
    lines += _reasons(outcomes, Verdict.REFUSED, "Why tests are refused")
    lines += _listed(outcomes, Verdict.NARROW, "Beyond 16 bits")
    lines += _listed(outcomes, Verdict.WRONG, "Wrong results")
    lines += _listed(outcomes, Verdict.BROKEN, "Broken")
    lines += _operators(outcomes)
    return "\n".join(lines).rstrip() + "\n"


def general(reason: str) -> str:
    """A reason with names, types and numbers taken out, so that like ones group together.

    Of several reasons, one for each operator, the first stands for all.
    """
    text = re.sub(r"'[^']*'|%\S+|\"[^\"]*\"", "…", reason.split("; ")[0])
    text = re.sub(r" on (?:[iuf]\d+|bf16|bool)(?=:)", " on another type", text)
    text = re.sub(r"\[[^\]]*\]", "[…]", text)
    return re.sub(r"\b\d+\b", "n", text).replace("|", "\\|")


def _reasons(outcomes: Sequence[Outcome], verdict: Verdict, title: str) -> list[str]:
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.verdict is verdict:
            groups[general(outcome.reason)].append(outcome)
    if not groups:
        return []
    lines = [f"## {title}", "", "| reason | tests | operators |", "|---|---:|---|"]
    for reason, members in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        operators = sorted({outcome.operator for outcome in members})
        shown = ", ".join(operators[:8]) + (
            f" and {len(operators) - 8} more" * (len(operators) > 8)
        )
        lines.append(f"| {reason} | {len(members)} | {shown} |")
    return [*lines, ""]


def _listed(outcomes: Sequence[Outcome], verdict: Verdict, title: str) -> list[str]:
    members = [outcome for outcome in outcomes if outcome.verdict is verdict]
    if not members:
        return []
    lines = [f"## {title}", "", "| test | what |", "|---|---|"]
    lines += [
        f"| {outcome.name} | {outcome.reason.replace('|', chr(92) + '|')} |" for outcome in members
    ]
    return [*lines, ""]


def _operators(outcomes: Sequence[Outcome]) -> list[str]:
    table: dict[str, Counter[Verdict]] = defaultdict(Counter)
    for outcome in outcomes:
        table[outcome.operator][outcome.verdict] += 1
    lines = ["## By operator", "", "The operator is the first one of the test's model.", ""]
    lines += ["| operator | " + " | ".join(Verdict) + " |", "|---" + "|---:" * len(Verdict) + "|"]
    for operator in sorted(table):
        cells = " | ".join(str(table[operator][verdict] or "") for verdict in Verdict)
        lines.append(f"| {operator} | {cells} |")
    return lines
