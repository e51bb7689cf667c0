"""Every `recipe` command line that this repository shows or runs is one that the command takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ci.command_lines import (
    app_command,
    in_file,
    in_shell,
    patterns_in,
    why_refused,
    why_unknown,
)
from tests.ci.files import ACTIONS, GITLAB, JENKINSFILE, REPOSITORY, SCRIPTS, WORKFLOWS

PAGES = tuple(sorted([REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")]))
CI_FILES = (*WORKFLOWS, *ACTIONS, GITLAB, JENKINSFILE, *SCRIPTS)
FLOWS = {("flow", "commit"), ("flow", "nightly"), ("flow", "merge-gate")}


@pytest.mark.parametrize(
    "path", [*CI_FILES, *PAGES], ids=lambda path: str(path.relative_to(REPOSITORY))
)
def test_every_command_line_is_taken(path: Path) -> None:
    refused = {
        " ".join(words): why for words in in_file(path) if (why := why_refused(words)) is not None
    }
    assert refused == {}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_every_command_in_the_text_exists(path: Path) -> None:
    unknown = {
        " ".join(words): why
        for words in patterns_in(path)
        if (why := why_unknown(words)) is not None
    }
    assert unknown == {}


@pytest.mark.parametrize("path", [GITLAB, JENKINSFILE], ids=lambda path: path.name)
def test_the_other_cis_run_the_three_flows_too(path: Path) -> None:
    flows = {words[:2] for words in in_file(path) if words[0] == "flow"}
    assert flows == FLOWS


def test_the_workflows_run_the_three_flows() -> None:
    flows = {words[:2] for path in WORKFLOWS for words in in_file(path) if words[0] == "flow"}
    assert flows == FLOWS


class TestExtraction:
    """A test that finds no command lines would pass on anything."""

    def test_a_call_ends_where_the_shell_ends_it(self) -> None:
        text = 'recipe run "$M" --hardware a || status=$?; .venv/bin/recipe models list > x\n'
        assert list(in_shell(text)) == [("run", "1", "--hardware", "a"), ("models", "list")]

    def test_arrays_stand_at_their_longest(self) -> None:
        text = 'if x; then a+=(--jobs "$N"); fi\na+=(--quiet)\nrecipe run m "${a[@]}"\n'
        assert list(in_shell(text)) == [("run", "m", "--jobs", "1", "--quiet")]

    def test_lines_that_go_on_are_one(self) -> None:
        assert list(in_shell("recipe hardware \\\n  list")) == [("hardware", "list")]

    def test_the_word_alone_is_no_call(self) -> None:
        assert list(in_shell('echo "a recipe for"\npip install recipe\n')) == []

    def test_alternatives_are_patterns_of_their_own(self, tmp_path: Path) -> None:
        page = tmp_path / "page.md"
        page.write_text("Say `recipe show | export PACKAGE [--plan]`, or:\n```\nrecipe x\n```\n")
        assert list(patterns_in(page)) == [
            ("show", "PACKAGE", "--plan"),
            ("export", "PACKAGE", "--plan"),
        ]
        assert list(in_file(page)) == [("x",)]


class TestRefusal:
    @pytest.mark.parametrize(
        "line",
        [
            "run model.onnx --hardware a --jobs 2",
            "--quiet compile x --hardware y --out z",
            "hardware list --help",
        ],
    )
    def test_what_is_right_is_taken(self, line: str) -> None:
        assert why_refused(tuple(line.split())) is None

    @pytest.mark.parametrize(
        "line",
        [
            "walk model.onnx",
            "run model.onnx --hardwear a",
            "run model.onnx --hardware a --jobs many",
            "run --hardware a",
            "hardware list all",
            "hardware lost",
        ],
    )
    def test_what_is_wrong_is_refused(self, line: str) -> None:
        assert why_refused(tuple(line.split()))

    def test_a_pattern_needs_a_command_and_its_options(self) -> None:
        assert why_unknown(("run", "MODEL", "...", "--hardware", "NAME")) is None
        assert why_unknown(("flow", "...")) is None
        assert why_unknown(("run", "MODEL", "--hardwear")) == "no option --hardwear"
        assert why_unknown(("hardware", "lost")) == "no command lost"
        assert "run" in app_command().commands
