"""The merge gate's report as JUnit XML, which GitLab, Jenkins and others show by themselves.

One testsuite a device, one testcase a model. What blocks the merge is a failure; what fails on both
sides is skipped with a message, so that it marks nothing red. Deleted pairs are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from stages.comparison.merge_rule import PairJudgement, PairVerdict
from stages.report.merge_cells import TITLES, delta_text
from stages.report.merge_report import MergeReport, headline
from stages.report.merge_text import xml_text

_NAME = "recipe merge gate"


def merge_junit(report: MergeReport) -> str:
    """The XML document, in UTF-8 when encoded; equal facts give equal text."""
    tested = [p for p in report.judgement.pairs if p.verdict is not PairVerdict.DELETED]
    devices = sorted({pair.sides.hardware for pair in tested})
    root = ElementTree.Element("testsuites", {"name": _NAME, **_numbers(tested)})
    for device in devices:
        pairs = [pair for pair in tested if pair.sides.hardware == device]
        suite = ElementTree.SubElement(
            root, "testsuite", {"name": xml_text(device), **_numbers(pairs)}
        )
        for pair in pairs:
            suite.append(_case(pair))
    if not tested:  # readers take a file without a test for a broken one
        suite = ElementTree.SubElement(root, "testsuite", {"name": _NAME, **_numbers([], empty=1)})
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": _NAME, "name": "affected pairs"}
        )
        ElementTree.SubElement(case, "system-out").text = xml_text(headline(report))
        root.set("tests", "1")
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _numbers(pairs: Sequence[PairJudgement], empty: int = 0) -> dict[str, str]:
    skipped = sum(pair.verdict is PairVerdict.STILL_FAILING for pair in pairs)
    return {
        "tests": str(len(pairs) + empty),
        "failures": str(sum(pair.blocks for pair in pairs)),
        "errors": "0",
        "skipped": str(skipped),
    }


def _case(pair: PairJudgement) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase",
        {"classname": xml_text(pair.sides.hardware), "name": xml_text(pair.sides.model)},
    )
    first = xml_text(pair.reasons[0])
    if pair.blocks:
        kind = pair.outcome.name.lower()
        failure = ElementTree.SubElement(case, "failure", {"message": first, "type": kind})
        failure.text = xml_text("\n".join(pair.reasons))
    elif pair.verdict is PairVerdict.STILL_FAILING:
        ElementTree.SubElement(case, "skipped", {"message": first})
    lines = [f"{TITLES[delta.metric]}: {delta_text(delta)}" for delta in pair.deltas]
    lines = [f"verdict: {pair.verdict.value}", *pair.reasons, *lines]
    ElementTree.SubElement(case, "system-out").text = xml_text("\n".join(lines))
    return case
