"""The night's summary."""

from __future__ import annotations

from dataclasses import replace

from stages.comparison.drift import Drift, compare_nights
from stages.errors import Outcome
from stages.report.night import NightHeading, night_headline, night_markdown, night_table
from tests.comparison.test_drift import BROKEN, SOUND

HEADING = NightHeading("2026-01-02", 20260102, "0123456789abcdef+changes", 3)


def _markdown(heading: NightHeading, drift: Drift) -> str:
    return night_markdown(night_headline(drift), heading, drift)


def _night() -> Drift:
    earlier = [replace(SOUND, model=name) for name in ("a", "b", "c", "d", "old")]
    earlier += [replace(BROKEN, model="e")]
    tonight = [
        replace(SOUND, model="a", p99_ns=1_300_000, fallbacks=1, package="p2"),
        replace(SOUND, model="b", p99_ns=1_000_000),
        replace(SOUND, model="c"),
        replace(BROKEN, model="d", hardware="hw", reason="a|tile <b> doesn't fit"),
        replace(BROKEN, model="d", hardware="hw2", reason="a|tile <b> doesn't fit"),
        replace(SOUND, model="e"),
        replace(SOUND, model="f"),
    ]
    return compare_nights(tonight, earlier)


def test_the_headline_names_the_worst_first() -> None:
    said = "2 newly broken, 1 worse, 1 better, 1 mended, 1 new, 1 unchanged, 1 gone"
    assert night_headline(_night()) == f"7 pairs: {said}"
    assert night_headline(Drift()) == "0 pairs: nothing ran"


def test_the_summary_reads_worst_first() -> None:
    assert _markdown(HEADING, _night()) == (
        "**7 pairs: 2 newly broken, 1 worse, 1 better, 1 mended, 1 new, 1 unchanged, 1 gone**\n"
        "\n"
        "Night 2026-01-02, seed 20260102, project 0123456789+changes, compared with 3 earlier "
        "nights\n"
        "\n"
        "### Broken\n"
        "\n"
        "- **d on hw, hw2**, compile: compile refused: a\\|tile \\<b\\> doesn't fit\n"
        "\n"
        "### Worse\n"
        "\n"
        "| model | device | figure | change | tonight | before | usual | why |\n"
        "|---|---|---|--:|--:|--:|--:|---|\n"
        "| a | hw | P99 | +18.2 % | 1.3 ms | 1.1 ms | - | recipe changed |\n"
        "|  |  | P99/P50 | +18.2 % | 1.300 | 1.100 | - |  |\n"
        "|  |  | fallbacks | +1 | 1 | 0 | - |  |\n"
        "\n"
        "### Better\n"
        "\n"
        "| model | device | figure | change | tonight | before | usual | why |\n"
        "|---|---|---|--:|--:|--:|--:|---|\n"
        "| b | hw | P99 | -9.1 % | 1 ms | 1.1 ms | - | same recipe |\n"
        "|  |  | P99/P50 | -9.1 % | 1.000 | 1.100 | - |  |\n"
        "\n"
        "Mended: e on hw\n"
        "\n"
        "New: f on hw\n"
        "\n"
        "Gone: old on hw\n"
    )


def test_a_failed_gate_shows_its_figures_too() -> None:
    slow = replace(
        SOUND,
        outcome=Outcome.GATE_FAILED,
        verdicts=("PASS", "PASS", "PASS", "PASS", "FAIL", "PASS"),
        reason="P99 is 136 % of the baseline's",
        p99_ns=1_500_000,
    )
    text = _markdown(HEADING, compare_nights([slow], [SOUND]))
    assert "- **m on hw**, gate: gate failed: P99 is 136 % of the baseline's\n" in text
    assert "### Broken, and moved" in text
    assert "+36.4 %" in text


def test_when_a_figure_moved_is_said_unless_it_was_tonight() -> None:
    earlier = [replace(SOUND, started=str(night), package="p0") for night in range(4)]
    earlier += [replace(SOUND, started=str(night), p99_ns=1_300_000) for night in range(4, 6)]
    rows = compare_nights([replace(SOUND, p99_ns=1_300_000)], earlier)
    text = _markdown(HEADING, rows)
    assert "| P99 | +18.2 % | 1.3 ms | 1.3 ms | 1.1 ms | recipe changed, earlier |" in text
    assert "|  |  | P99/P50 | +18.2 % | 1.300 | 1.300 | 1.100 | earlier |" in text


def test_what_was_broken_before_says_so() -> None:
    text = _markdown(HEADING, compare_nights([BROKEN], [BROKEN]))
    first = "- **m on hw**, compile: compile refused, not for the first night: tile doesn't fit\n"
    assert first in text


def test_notes_and_the_first_night() -> None:
    heading = NightHeading("2026-01-02", None, "", 0, ("the last line was cut off",))
    text = _markdown(heading, compare_nights([SOUND], []))
    assert "Night 2026-01-02, the first" in text
    assert "> the last line was cut off" in text


def test_many_names_are_counted() -> None:
    rows = [replace(SOUND, model=f"m{number:02}") for number in range(30)]
    text = _markdown(HEADING, compare_nights(rows, []))
    assert text.endswith("m11 on hw and 18 more\n")


def test_the_table_has_a_row_for_each_pair_in_the_same_order() -> None:
    table = night_table(_night())
    assert [row["standing"] for row in table] == [
        "broken",
        "broken",
        "worse",
        "better",
        "mended",
        "new",
        "unchanged",
    ]
    assert table[0]["what"] == "compile: a|tile <b> doesn't fit"
    assert table[0]["P99"] == "-"
    assert table[2]["what"] == (
        "P99 +18.2 %, P99/P50 +18.2 %, fallbacks +1 (tonight, recipe changed)"
    )
    assert table[2]["P99"] == "1.3 ms"
    assert table[2]["gate"] == "NEW"
    assert table[6]["what"] == ""
