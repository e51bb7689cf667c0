"""Pages that several benches make: each replaces its own section."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.benchmarks.sections import replace_marked, replace_section, table

PAGE = "# Benchmarks\n\nWords.\n\n## One\n\nold\n\n### Part\n\nolder\n\n## Two\n\nkept\n"


def test_one_section_is_replaced_and_the_others_stay(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    replace_section(page, "One", ["new"])
    assert page.read_text() == "# Benchmarks\n\nWords.\n\n## One\n\nnew\n\n## Two\n\nkept\n"
    replace_section(page, "Three", table(("a", "b"), [("1", "2")]))
    assert page.read_text().endswith("kept\n\n## Three\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n")
    before = page.read_text()
    replace_section(page, "Two", ["kept"])
    assert page.read_text() == before


MARKED = (
    "# Page\n\n<!-- one -->\nold\n\n- older\n<!-- end -->\nWords.\n\n<!-- two -->\n<!-- end -->\n"
)


def test_what_stands_between_marks_is_replaced_and_the_rest_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(MARKED)
    replace_marked(page, "one", ["new", "", "newer"])
    assert page.read_text() == MARKED.replace("old\n\n- older", "new\n\nnewer")
    before = page.read_text()
    replace_marked(page, "two", [])
    assert page.read_text() == before


@pytest.mark.parametrize(("text", "lacks"), [("<!-- end -->", "<!-- one -->"),
                                             ("<!-- one -->", "<!-- end -->")])  # fmt: skip
def test_a_page_that_lacks_a_mark_is_left_alone(tmp_path: Path, text: str, lacks: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(ValueError, match=f"lacks {lacks}"):
        replace_marked(page, "one", ["new"])
    assert page.read_text() == text
