"""Pages that several benches make: each replaces its own section."""

from __future__ import annotations

from pathlib import Path

from flows.benchmarks.sections import replace_section, table

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
