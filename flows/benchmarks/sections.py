"""A page made by several benches: each replaces its own section and leaves the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from flows.project.files import write_beside

_LEVEL = "## "


def replace_section(page: Path, title: str, lines: Sequence[str]) -> None:
    """Puts `lines` under the heading `title` of a Markdown page, in place of what is there up to
    the next heading of that level, or at the page's end."""
    known = page.read_text(encoding="utf-8").splitlines() if page.is_file() else []
    sections = dict(_sections(known))
    sections[title] = ["", *lines]
    written = [
        "\n".join([_LEVEL + name, *body] if name else body).rstrip("\n") + "\n"
        for name, body in sections.items()
    ]
    write_beside(page, "\n".join(written).encode())


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def _sections(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """What stands before the first heading under the empty title, then each section by title."""
    title, body = "", list[str]()
    for line in lines:
        if line.startswith(_LEVEL):
            yield title, body
            title, body = line.removeprefix(_LEVEL), []
        else:
            body.append(line)
    yield title, body
