"""The merge gate's reports: golden text, and what parsers make of them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from flows.terminal.outcomes import GRAVITY
from stages.comparison.merge_facts import Accuracy, Failure, PairSides, SideFacts
from stages.comparison.merge_rule import MergeLimits, judge_merge
from stages.errors import InputError, Outcome
from stages.report.facts import FOLDERS
from stages.report.merge_json import merge_json
from stages.report.merge_junit import merge_junit
from stages.report.merge_markdown import MOST_CHARACTERS, marker, merge_markdown
from stages.report.merge_reading import read_side
from stages.report.merge_report import MergeReport, headline
from stages.report.merge_text import code_block, html_literal, literal, xml_text
from tests.comparison.merge_cases import (
    HOT_TAIL,
    INACCURATE,
    LONG_TAIL,
    SOFTSIGN,
    refused_side,
    side,
    sides,
)
from tests.flows.sample_reports import CHECK, FALLBACK, OUTPUT, REPORTS, SRAM, write_report


def report(*pairs: PairSides, notes: tuple[str, ...] = (), untouched: int = 0) -> MergeReport:
    judged = judge_merge(pairs, MergeLimits(5), GRAVITY)
    return MergeReport(judged, "main (1a2b3c4)", "5d6e7f8", "", 5, untouched, notes)


SLOWER = sides(side(), side(2_913_000, fallbacks=(SOFTSIGN,), package="b2"))
REFUSED_PAIR = sides(side(), refused_side(), "net_a")
STILL = sides(side(failures=(LONG_TAIL,)), side(failures=(LONG_TAIL,)), "net_c")
SAME = sides(side(), side(), "net_d", "rk3588_npu")
GONE = sides(side(), None, "old")
NEW = sides(None, side(), "young")
HOSTILE = "a|b`c`<script>alert(1)</script> @team **x** \x00\x1b[31m\u202e &lt; --> \ud800 ]]>"

GOLDEN = Path(__file__).with_name("merge_golden.md")


def test_markdown_reads_as_it_should() -> None:
    found = report(SLOWER, SAME, GONE, NEW, notes=("base: old",), untouched=7)
    assert merge_markdown(found) == GOLDEN.read_text()


def test_a_model_repository_is_named() -> None:
    said = merge_markdown(replace(report(), repository="my_models")).splitlines()
    assert said[2].startswith("my\\_models: main (1a2b3c4) → 5d6e7f8. ")


def test_a_cure_is_in_the_details() -> None:
    text = merge_markdown(report(REFUSED_PAIR))
    assert text.startswith(
        "### FAIL: net\\_a on npu\\_tiny: compile failed: %x needs 9 bytes more\n"
    )
    block = "compile:\n\n```text\n%x needs 9 bytes more\nat: conv1\nhint: smaller tiles\n```"
    assert block in text
    assert "| net\\_a on npu\\_tiny | **FAIL** | 1.000 ms → none |" in text


@pytest.mark.parametrize(
    ("pairs", "line"),
    [
        ((), "PASS: no pair is affected (3 untouched)"),
        ((SAME,), "PASS: 1 pair compared: 1 with equal results; 3 untouched"),
        (
            (STILL, SAME, sides(side(), side(1_216_000, package="b"), "m")),
            "PASS: 3 pairs compared: 1 still failing, 1 changed within the limits, 1 with equal "
            "results; 3 untouched; P99 at worst +1.0 %, m on npu_tiny",
        ),
        (
            (SLOWER, REFUSED_PAIR, sides(None, side(failures=(HOT_TAIL,)), "n")),
            "FAIL: net_a on npu_tiny: compile failed: %x needs 9 bytes more (and 2 more pairs)",
        ),
        (
            (sides(None, side(failures=(INACCURATE,)), "n"),),
            "FAIL: n on npu_tiny (new): validation failed: cosine 0.9, below 0.999",
        ),
    ],
)
def test_the_first_line(pairs: tuple[PairSides, ...], line: str) -> None:
    assert headline(report(*pairs, untouched=3)) == line


def hostile_sides() -> PairSides:
    failure = Failure("compile", "", Outcome.COMPILE_REFUSED, f"{HOSTILE}\nat: ```\n````{HOSTILE}")
    head = SideFacts(failures=(failure,), fallbacks=(replace(SOFTSIGN, name=HOSTILE),))
    return sides(side(), replace(head, answered=frozenset({"validate"})), HOSTILE, HOSTILE)


def test_no_name_breaks_the_markdown() -> None:
    text = merge_markdown(report(hostile_sides(), sides(side(), side(), HOSTILE + "2")))
    text.encode()
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert rows
    for row in rows:
        assert len(re.findall(r"(?<!\\)\|", row)) == 11
    outside = re.sub(r"(`{3,})text\n.*?\n\1", "", text, flags=re.DOTALL)
    assert not re.search(r"(?<!\\)<(?!/?(details|summary|!--))", outside)
    assert not re.search(r"(?<![\w@])@(?=\w)", outside)
    assert "\x1b" not in text
    assert "\u202e" not in text
    fence = re.search(r"^(`{3,})text$", text, flags=re.MULTILINE)
    assert fence is not None
    assert len(fence[1]) == 5
    assert text.count("<!-- recipe merge gate") == 1


def test_a_parser_sees_one_table_and_no_markup_of_names() -> None:
    hostile = hostile_sides()
    html = MarkdownIt("commonmark").enable("table").render(merge_markdown(report(hostile, SLOWER)))
    rows = re.findall(r"<tr>(.*?)</tr>", html, flags=re.DOTALL)
    assert [len(re.findall(r"<t[hd]>", row)) for row in rows] == [10, 10, 10]
    assert "<h3>FAIL: " in html.splitlines()[0]
    assert not re.search(r"<(script|em|code|a )", re.sub(r"<pre>.*?</pre>", "", html, flags=re.S))
    assert rows[1].count("&lt;script&gt;alert(1)&lt;/script&gt;") == 2
    assert "&amp;lt;" in rows[1]


def test_literal_text() -> None:
    assert literal("a_b\n<i> &lt; user@host @team") == (
        "a\\_b \\<i\\> &amp;lt; user@host @<!-- -->team"
    )
    assert html_literal("<b>\n@x") == "&lt;b&gt; @<!-- -->x"
    assert code_block("a\n````") == "`````text\na\n````\n`````"


def test_a_marker_is_a_comment_whatever_its_key() -> None:
    assert marker("vision") == "<!-- recipe merge gate: vision -->"
    assert marker("a-->b<!--") == "<!-- recipe merge gate: a__b___ -->"


def test_a_long_report_is_cut_from_its_least_important_end() -> None:
    wide = 4000
    failing = [
        sides(side(1_000), side(2_000 + n, fallbacks=(SOFTSIGN,), package="b"), f"bad{n}")
        for n in range(wide // 40)
    ]
    passing = [sides(side(), side(package="b"), f"good{n}") for n in range(wide)]
    same = [sides(side(), side(), f"same{n}") for n in range(wide)]
    text = merge_markdown(report(*failing, *passing, *same))
    assert MOST_CHARACTERS - 400 < len(text) <= MOST_CHARACTERS
    assert text.count("| **FAIL** |") == len(failing)
    assert text.count("<summary>bad") == len(failing)
    assert 0 < text.count("| PASS |") < wide
    left = re.search(r"(\d+) rows of the table, 4000 names of pairs with equal results", text)
    assert left is not None
    assert int(left[1]) == wide - text.count("| PASS |")
    assert text.endswith("They are in report.json.\n\n<!-- recipe merge gate: pipeline -->\n")


def test_the_first_failures_keep_their_details_among_thousands() -> None:
    failing = [sides(side(1_000), side(2_000, package="b"), f"bad{n}") for n in range(3000)]
    text = merge_markdown(report(*failing))
    assert len(text) <= MOST_CHARACTERS
    assert text.count("<details open>") >= 5


@settings(max_examples=25)
@given(st.integers(5_000, 20_000), st.integers(0, 40), st.integers(0, 40))
def test_it_never_is_too_long(most: int, failing: int, same: int) -> None:
    pairs = [sides(side(1_000), side(2_000, package="b"), f"b{n}") for n in range(failing)]
    pairs += [sides(side(), side(), f"s{n}") for n in range(same)]
    assert len(merge_markdown(report(*pairs), most)) <= most


def test_one_endless_name_is_cut() -> None:
    failure = Failure("compile", "", Outcome.COMPILE_REFUSED, "x" * 10**6 + "\nat: y")
    endless = sides(
        side(), SideFacts(failures=(failure,), answered=frozenset({"gate"})), "n" * 9999
    )
    text = merge_markdown(report(endless, notes=("note " * 10_000,)))
    assert len(text) < 10_000


def test_json_says_everything() -> None:
    found = json.loads(merge_json(report(SLOWER, SAME, GONE, notes=("n",), untouched=2)))
    assert (found["schema"], found["version"]) == ("recipe-merge-gate", 1)
    assert (found["verdict"], found["exit_code"], found["untouched"]) == ("FAIL", 6, 2)
    assert found["counts"]["FAIL"] == 1
    worst = found["pairs"][0]
    assert worst["deltas"]["p99_ns"] == {
        "before": 1_204_000,
        "after": 2_913_000,
        "change_percent": 141.943522,
    }
    assert worst["newly_on_host"] == [
        {"name": "Softsign_3", "kind": "softsign", "reason": "npu_tiny has no softsign"}
    ]
    assert worst["deltas"]["p99_over_p50"]["before"] == 1.204
    assert worst["base"]["package"] == "a1"
    assert found["pairs"][1]["head"] is None


def test_the_documentation_names_every_key_of_the_json(repository: Path) -> None:
    page = (repository / "docs" / "merge-gate.md").read_text()
    found = json.loads(merge_json(report(SLOWER, REFUSED_PAIR)))
    known = set(re.findall(r"`([a-z0-9_]+)`", page))
    assert _keys(found) - set(found["counts"]) <= known
    assert set(found["counts"]) <= set(re.findall(r"`([A-Z/ ]+)`", page))


def _keys(content: object) -> set[str]:
    if isinstance(content, dict):
        return set(content) | {key for value in content.values() for key in _keys(value)}
    if isinstance(content, list):
        return {key for value in content for key in _keys(value)}
    return set()


def test_junit_has_a_suite_for_each_device() -> None:
    text = merge_junit(report(SLOWER, STILL, SAME, GONE, REFUSED_PAIR))
    root = ElementTree.fromstring(text)
    assert root.tag == "testsuites"
    assert {key: root.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4",
        "failures": "2",
        "errors": "0",
        "skipped": "1",
    }
    suites = {suite.get("name"): suite for suite in root}
    assert list(suites) == ["npu_tiny", "rk3588_npu"]
    cases = {case.get("name"): case for case in suites["npu_tiny"]}
    assert list(cases) == ["net_a", "net_b", "net_c"]
    failure = cases["net_b"].find("failure")
    assert failure is not None
    assert failure.get("type") == "gate_failed"
    assert "Softsign_3 (npu_tiny has no softsign)" in str(failure.get("message"))
    assert cases["net_a"].find("failure").get("type") == "compile_refused"  # type: ignore[union-attr]
    assert cases["net_c"].find("skipped") is not None
    assert cases["net_b"].get("classname") == "npu_tiny"


def test_junit_without_a_pair_has_one_test() -> None:
    root = ElementTree.fromstring(merge_junit(report(untouched=4)))
    assert root.get("tests") == "1"
    assert root.findtext("testsuite/testcase/system-out") == (
        "PASS: no pair is affected (4 untouched)"
    )


@given(st.text(max_size=40), st.text(max_size=40))
def test_junit_is_xml_whatever_the_names(model: str, message: str) -> None:
    failure = Failure("gate", "p99_over_p50", Outcome.GATE_FAILED, message)
    pair = sides(side(), side(failures=(failure,)), model, message)
    root = ElementTree.fromstring(merge_junit(report(pair)).encode())
    case = root.find("testsuite/testcase")
    assert case is not None
    # A parser may turn line ends and tabs in attributes into spaces; nothing else may change.
    assert str(case.get("name")).split() == xml_text(model).split()


def test_hostile_names_are_xml_too() -> None:
    root = ElementTree.fromstring(merge_junit(report(hostile_sides())).encode())
    (case,) = root.iter("testcase")
    assert str(case.get("name")).split() == xml_text(HOSTILE).split()
    (pair,) = json.loads(merge_json(report(hostile_sides())).encode())["pairs"]
    escaped = r"**x** \x00\x1b[31m\u202e &lt; --> \ud800 ]]>"
    assert pair["model"] == pair["hardware"]
    assert pair["model"].startswith("a|b`c`<script>alert(1)</script> @team ")
    assert pair["model"].endswith(escaped)


def write_side(folder: Path, **validation: object) -> None:
    """All reports of a pair, with the keys that the gate asks for."""
    for stage, name in FOLDERS.items():
        content = dict(REPORTS.get(stage, {})) | {"package": "p1", "checks": []}
        if stage == "validate":
            content |= validation
        if stage == "gate":
            content |= {"baseline_package": None}
        write_report(stage, folder / name, content)
    (folder / "benchmark" / "samples.csv").write_text("run,latency_ns\n0,1\n")
    (folder / "stress" / "stress.csv").write_text("run\n")


def test_a_side_is_read_from_the_reports(tmp_path: Path) -> None:
    failed = CHECK | {"passed": False, "message": "cosine 0.9"}
    other = CHECK | {"name": "links", "passed": False, "message": "wrong"}
    output = OUTPUT | {"check": failed}
    ddr = SRAM | {"memory": "ddr", "peak_bytes": 9}
    write_side(tmp_path, checks=[failed, other], outputs=[output, OUTPUT], memory=[SRAM, ddr])
    found = read_side(tmp_path, set(FOLDERS), ())
    assert found.failures == (
        Failure("validate", "accuracy", Outcome.VALIDATION_FAILED, "cosine 0.9"),
        Failure("validate", "links", Outcome.VALIDATION_FAILED, "wrong"),
    )
    assert found.accuracy == Accuracy(0.99999, 0.0004)
    assert (found.sram_bytes, found.ddr_bytes, found.fused_groups) == (204_800, 9, 12)
    assert found.latency is not None
    assert found.latency.p99_ns == 1_210_000
    assert found.package == "p1"
    assert [operator.reason for operator in found.fallbacks] == [FALLBACK["reason"]] * 2
    before = found.samples
    (tmp_path / "stress" / "stress.csv").write_text("run\n1\n")
    assert read_side(tmp_path, set(FOLDERS), ()).samples != before


def test_an_integer_model_is_known_by_its_noise(tmp_path: Path) -> None:
    noisy = [OUTPUT | {"sqnr_db": level} for level in (41.5, None, 38.0)]
    write_side(tmp_path, is_quantized=True, outputs=noisy)
    assert read_side(tmp_path, set(FOLDERS), ()).accuracy == Accuracy(sqnr_db=38.0)


def test_stages_that_gave_nothing_are_not_read(tmp_path: Path) -> None:
    failure = Failure("compile", "", Outcome.COMPILE_REFUSED, "no")
    found = read_side(tmp_path, {"normalize"}, (failure,))
    assert found == SideFacts(
        answered=frozenset({"normalize"}), failures=(failure,), samples=found.samples
    )


def test_a_missing_report_or_sample_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be read"):
        read_side(tmp_path, {"validate"}, ())
    write_side(tmp_path)
    (tmp_path / "benchmark" / "samples.csv").unlink()
    with pytest.raises(InputError, match="the samples can't be read"):
        read_side(tmp_path, set(FOLDERS), ())
