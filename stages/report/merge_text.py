"""Text of others in reports: shown as it is, whatever it holds, in Markdown, HTML and XML."""

from __future__ import annotations

import html
import re

from stages.report.markdown import escape

_MENTION = re.compile(r"(?<![\w@])@(?=\w)")
_APART = "@<!-- -->"  # nobody is notified, and nothing is seen
_ILLEGAL_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_FENCE = re.compile("`{3,}")


def visible(text: str) -> str:
    """Control and direction characters, and halves of characters, shown as escapes."""
    return "".join(
        character
        if character.isprintable() or character in "\n\t"
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def clip(text: str, most: int) -> str:
    """The text, or its beginning where it is longer than `most` characters."""
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def literal(text: str) -> str:
    """Text in one line of Markdown, in a table cell too."""
    return _MENTION.sub(_APART, escape(visible(text).replace("&", "&amp;")))


def html_literal(text: str) -> str:
    """Text in one line of HTML."""
    return _MENTION.sub(_APART, html.escape(" ".join(visible(text).split()), quote=False))


def code_block(text: str) -> str:
    """Lines of text as they are."""
    plain = visible(text)
    longest = max((len(run) for run in _FENCE.findall(plain)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}text\n{plain}\n{fence}"


def xml_text(text: str) -> str:
    """Text that XML 1.0 can hold: what it can't is shown as an escape."""
    return _ILLEGAL_XML.sub(
        lambda match: match[0].encode("unicode_escape").decode("ascii"), text.replace("\r", "\\r")
    )
