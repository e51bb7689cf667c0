"""`recipe` command lines out of shell and Markdown, and whether the real command takes them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer
import typer.exceptions

from flows.arguments import spread_bindings
from flows.cli import app
from tests.ci.files import shell_blocks

Words = tuple[str, ...]

_STAND_IN = "1"
"""For what the shell fills in: it passes as a number, a name and a path."""
_VARIABLE = re.compile(r"\$\{[^}]*\}|\$\w+|\$\([^)]*\)")
_ARRAY = re.compile(r"^\$\{(\w+)\[@\]\}$")
_APPEND = re.compile(r"\b(\w+)\+=\(([^)]*)\)")
_ENDS = frozenset({"&&", "||", "|", ";", "&", "(", ")", ">", ">>", "<", "2>", "then", "do", "fi"})
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)`(recipe [^`]+)`(?!`)")
_SHELL = frozenset({"", "sh", "bash", "shell", "console"})
_RECIPE_TEXT = re.compile(r'^recipe "[^"\n]*" for .*$', re.MULTILINE)
_PLACEHOLDER = re.compile(r"[\[\]]")


def in_shell(text: str) -> Iterator[Words]:
    """Each call of `recipe` in a piece of shell, less that word; arrays at their longest."""
    arrays: dict[str, list[str]] = {}
    for name, words in _APPEND.findall(text):
        arrays.setdefault(name, []).extend(shlex.split(words))
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:  # a quote that goes on in the next line: no call of ours
            continue
        while words:
            start = next((i for i, word in enumerate(words) if _is_recipe(words, i, word)), None)
            if start is None:
                break
            words = words[start + 1 :]
            stop = next((i for i, word in enumerate(words) if word in _ENDS), len(words))
            yield tuple(_filled(words[:stop], arrays))
            words = words[stop:]


def _is_recipe(words: Sequence[str], index: int, word: str) -> bool:
    if word != "recipe" and not word.endswith("/bin/recipe"):
        return False
    before = words[index - 1] if index else ";"
    return before in _ENDS or "=" in before or before in {"$", "exec", "nice", "time"}


def _filled(words: Sequence[str], arrays: dict[str, list[str]]) -> Iterator[str]:
    for word in words:
        if array := _ARRAY.match(word):
            yield from _filled(arrays[array[1]], {})
        else:
            yield _VARIABLE.sub(_STAND_IN, word)


def in_file(path: Path) -> Iterator[Words]:
    """Each whole command line in a CI file, a script or a Markdown file's blocks."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        text = _RECIPE_TEXT.sub("", text)  # the first line of a recipe, which a page may show
        for language, block in _FENCE.findall(text):
            if language in _SHELL:
                yield from in_shell(re.sub(r"^\$ ", "", block, flags=re.MULTILINE))
    else:
        for block in shell_blocks.shell_blocks(path):
            yield from in_shell(block.text)


def patterns_in(path: Path) -> Iterator[Words]:
    """Each `recipe ...` in a Markdown file's running text: a pattern, such as
    `recipe flow commit | nightly` or `recipe show PACKAGE [--plan]`; alternatives one by one."""
    text = re.sub(_FENCE, "", path.read_text(encoding="utf-8"))
    for span in _SPAN.findall(text):
        words = _PLACEHOLDER.sub(" ", span.replace("\\|", "|")).split()[1:]
        yield from _alternatives(tuple(words))


def _alternatives(words: Words) -> Iterator[Words]:
    """`a b | c | d e` as `a b e`, `a c e`, `a d e`."""
    if "|" not in words:
        yield words
        return
    first = words.index("|") - 1
    last = first
    while words[last + 1 : last + 2] == ("|",):
        last += 2
    for choice in words[first : last + 1 : 2]:
        yield from _alternatives((*words[:first], choice, *words[last + 1 :]))


def why_refused(words: Words) -> str | None:
    """What the real command says against a command line; None where it would run."""
    try:
        context = app_command().make_context("recipe", spread_bindings(words))
        while hasattr(context.command, "resolve_command"):
            rest = [*context._protected_args, *context.args]
            name, command, rest = context.command.resolve_command(context, rest)
            context = command.make_context(name, rest, parent=context)
    except typer.exceptions.TyperException as refusal:
        return str(refusal)
    except typer.Exit:  # --help
        return None
    return None


def why_unknown(pattern: Words) -> str | None:
    """What of a pattern the real command doesn't have: its command, or one of its options."""
    command: Any = app_command()
    options = _options(command)
    for word in pattern:
        if word.startswith("-"):
            if word.split("=")[0] not in options:
                return f"no option {word}"
        elif word == "...":
            return None  # whichever command
        elif hasattr(command, "commands"):
            if word not in command.commands:
                return f"no command {word}"
            command = command.commands[word]
            options |= _options(command)
    return None


def _options(command: Any) -> set[str]:
    names = (set(p.opts) | set(p.secondary_opts) for p in command.params)
    return {"--help"}.union(*names)


def app_command() -> typer.core.TyperGroup:
    """The whole `recipe` command."""
    command = typer.main.get_command(app)
    assert isinstance(command, typer.core.TyperGroup)
    return command
