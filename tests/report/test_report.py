"""Facts, figures and words of a pair."""

from __future__ import annotations

from pathlib import Path

import pytest

from stages.errors import InputError
from stages.report.facts import FOLDERS, gather_facts
from stages.report.figures import main_figure
from stages.report.markdown import StageRow, escape, pair_markdown
from stages.report.words import summary_lines
from tests.flows.sample_reports import FALLBACK, OUTPUT, REPORTS, write_pair, write_report


def test_every_stage_has_its_figure(tmp_path: Path) -> None:
    write_pair(tmp_path)
    write_report("normalize", tmp_path / "normalized")
    figures = {stage: main_figure(stage, tmp_path / name) for stage, name in FOLDERS.items()}
    assert main_figure("normalize", tmp_path / "normalized") == (
        "566 -> 142 nodes, opset 11 -> 17, differs by 1.5e-06 at most"
    )
    assert figures == {
        "compile": "2 groups, 1 on the host, weights 2 KiB",
        "validate": "cosine 0.999990, error 4.00e-04",
        "benchmark": "P50 1.1 ms, P99 1.21 ms",
        "gate": "no baseline yet: P99 is 1210000 ns",
        "thermal_stress": "P99/P50 1.100 from 85 degC, 40 of 1000 runs throttled",
    }


def test_an_inconclusive_figure_stays_and_says_so(tmp_path: Path) -> None:
    facts = OUTPUT | {"sqnr_db": 24.1, "measure": "sqnr", "is_conclusive": False}
    report = REPORTS["validate"] | {"is_quantized": True, "outputs": [facts]}
    write_report("validate", tmp_path, report)
    figure = main_figure("validate", tmp_path)
    assert figure == "SQNR 24.1 dB end to end (inconclusive), every link holds"


def test_a_failed_stage_is_known_by_its_first_reason(tmp_path: Path) -> None:
    failed = REPORTS["validate"] | {"verdict": "FAIL", "reasons": ["cosine 0.9 is below 0.999"]}
    write_report("validate", tmp_path, failed)
    assert main_figure("validate", tmp_path) == "cosine 0.9 is below 0.999"


def test_the_summary_counts_prices_and_explains_fallbacks(tmp_path: Path) -> None:
    write_pair(tmp_path)
    lines = summary_lines(gather_facts(tmp_path, FOLDERS))
    assert lines == [
        "latency: P50 1.1 ms, P99 1.21 ms, P99/P50 1.100; 2.20 times the roofline, 500 us",
        "peak memory: sram 200 KiB of 256 KiB (live at once 180 KiB)",
        "fused groups: 12; fallbacks: 2",
        "  2 host_call, 500 us: NonMaxSuppression isn't in the operator list of hw1",
    ]


def test_many_reasons_are_cut_and_counted(tmp_path: Path) -> None:
    many = [FALLBACK | {"reason": f"reason {number}"} for number in range(8)]
    write_pair(tmp_path)
    write_report("validate", tmp_path / "validation", REPORTS["validate"] | {"fallbacks": many})
    lines = summary_lines(gather_facts(tmp_path, FOLDERS))
    assert "fused groups: 12; fallbacks: 8" in lines
    assert "  and 3 more reasons: see validation.json" in lines


def test_what_failed_is_in_the_summary(tmp_path: Path) -> None:
    write_pair(tmp_path)
    write_report("gate", tmp_path / "gate", {"verdict": "FAIL", "reasons": ["slower", "long tail"]})
    lines = summary_lines(gather_facts(tmp_path, FOLDERS))
    assert lines[-2:] == ["gate FAIL: slower", "gate FAIL: long tail"]


def test_a_stage_that_gave_nothing_is_left_out(tmp_path: Path) -> None:
    facts = gather_facts(tmp_path, ())
    assert summary_lines(facts) == []


def test_a_missing_or_damaged_report_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be read"):
        gather_facts(tmp_path, ["gate"])
    write_report("gate", tmp_path / "gate", {"verdict": "PERHAPS", "reasons": []})
    with pytest.raises(InputError, match="verdict"):
        gather_facts(tmp_path, ["gate"])


def test_markdown_shows_names_literally(tmp_path: Path) -> None:
    row = StageRow("compile", "PASS", "a|b\n<script>")
    text = pair_markdown("a_b*c", "hw1", [row], gather_facts(tmp_path, ()))
    assert "### a\\_b\\*c on hw1" in text
    assert "| compile | PASS | a\\|b \\<script\\> |" in text
    assert escape("`x` [y](z)") == "\\`x\\` \\[y\\](z)"
