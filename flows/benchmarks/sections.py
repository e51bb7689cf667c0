"""Tables in Markdown, and pages that a bench shares with other benches or with people: it replaces
its own section, or what stands between its marks, and leaves the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from flows.project.files import write_beside

_LEVEL = "## "
_END = "<!-- end -->"


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


def replace_marked(page: Path, name: str, lines: Sequence[str]) -> None:
    """Puts `lines` between `<!-- NAME -->` and the `<!-- end -->` that follows.

    Raises:
        ValueError: the page lacks one of the two.
    """
    begin = f"<!-- {name} -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(_END)
    if not found or not closed:
        raise ValueError(f"{page} lacks {begin if not found else _END}")
    write_beside(page, "\n".join([before + begin, *lines, _END + after]).encode())


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    return [table_row(cells) for cells in (head, ["---"] * len(head), *rows)]


def table_row(cells: Sequence[str]) -> str:
    """One line of it."""
    return f"| {' | '.join(cells)} |"


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
