"""What every workflow of this repository keeps to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ci.files import ACTIONS, WORKFLOWS

USES = re.compile(r"uses: *(\S+)(.*)")
PINNED = re.compile(r"[\w-]+/[\w/-]+@[0-9a-f]{40}")
VERSION = re.compile(r" # v\d+\.\d+\.\d+")
each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
each_file = pytest.mark.parametrize("path", [*WORKFLOWS, *ACTIONS], ids=lambda path: path.name)


def read(path: Path) -> dict[Any, Any]:
    """A workflow; its `on` under that name, which YAML 1.1 reads as true."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return {"on" if key is True else key: value for key, value in content.items()}


def workflow(name: str) -> dict[Any, Any]:
    return read(next(path for path in WORKFLOWS if path.name == f"{name}.yml"))


def steps(content: dict[Any, Any]) -> list[dict[str, Any]]:
    holders = [*content.get("jobs", {}).values(), content.get("runs", {"steps": []})]
    return [step for holder in holders for step in holder["steps"]]


def test_all_four_are_there() -> None:
    names = {path.stem for path in WORKFLOWS}
    assert names == {"ci", "merge-gate", "model-commit", "nightly"}


@each_file
def test_actions_are_pinned_by_commit_with_the_version_beside(path: Path) -> None:
    found = USES.findall(path.read_text(encoding="utf-8"))
    assert found
    for action, rest in found:
        if not action.startswith("./"):
            assert PINNED.fullmatch(action), action
            assert VERSION.fullmatch(rest), f"{action}: no version in a comment"


def test_an_action_has_one_version_everywhere() -> None:
    pins: dict[str, set[str]] = {}
    for path in (*WORKFLOWS, *ACTIONS):
        for action, rest in USES.findall(path.read_text(encoding="utf-8")):
            name, _, commit = action.partition("@")
            pins.setdefault("/".join(name.split("/")[:2]), set()).add(commit + rest)
    assert {name: found for name, found in pins.items() if len(found) > 1} == {}


@each_file
def test_no_expression_in_a_script(path: Path) -> None:
    scripts = [step["run"] for step in steps(read(path)) if "run" in step]
    assert not [script for script in scripts if "${{" in script]


@each_workflow
def test_starts_without_permissions_and_no_job_takes_more_than_it_needs(path: Path) -> None:
    content = read(path)
    assert content["permissions"] == {}
    granted = {
        (scope, level)
        for job in content["jobs"].values()
        for scope, level in job["permissions"].items()
        if (scope, level) != ("contents", "read")
    }
    allowed = {
        "merge-gate": {("pull-requests", "write")},
        "nightly": {("contents", "write")},
    }
    assert granted == allowed.get(path.stem, set())


@each_workflow
def test_every_job_has_a_timeout_and_every_workflow_a_group(path: Path) -> None:
    content = read(path)
    assert "cancel-in-progress" in content["concurrency"]
    assert all("timeout-minutes" in job for job in content["jobs"].values())


@each_workflow
def test_checkouts_leave_no_credentials(path: Path) -> None:
    checkouts = [step for step in steps(read(path)) if "checkout@" in step.get("uses", "")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


@each_workflow
def test_untrusted_code_is_never_run_with_the_base_repositorys_rights(path: Path) -> None:
    assert not {"pull_request_target", "workflow_run"} & set(read(path)["on"])


@each_workflow
def test_secrets_reach_single_steps_only(path: Path) -> None:
    content = read(path)
    for holder in (content, *content["jobs"].values()):
        assert "secrets." not in str(holder.get("env", {}))


def test_what_is_saved_is_what_is_restored() -> None:
    # An entry is found again only by the very list of paths that it was saved with.
    paths = {
        step["with"]["path"]
        for path in (*WORKFLOWS, *ACTIONS)
        for step in steps(read(path))
        if "actions/cache/" in step.get("uses", "")
    }
    assert len(paths) == 1


def test_only_superseded_merge_gates_are_cancelled() -> None:
    assert workflow("merge-gate")["concurrency"]["cancel-in-progress"] is True
    for name in ("nightly", "model-commit"):
        assert workflow(name)["concurrency"]["cancel-in-progress"] is False


def test_each_model_commit_has_its_own_group() -> None:
    # In a shared group a third event cancels the one that waits, and its commits would be lost.
    assert "client_payload.after" in workflow("model-commit")["concurrency"]["group"]


def test_only_the_nightly_pushes_history() -> None:
    pushing = {
        path.stem
        for path in WORKFLOWS
        if any("history push" in step.get("run", "") for step in steps(read(path)))
    }
    assert pushing == {"nightly"}


@pytest.mark.parametrize("name", ["merge-gate", "nightly", "model-commit"])
def test_results_are_kept_and_shown_when_the_verdict_is_fail(name: str) -> None:
    after = steps(workflow(name))
    flow = next(index for index, step in enumerate(after) if "recipe flow" in step.get("run", ""))
    assert after[flow + 1 :]
    for step in after[flow + 1 :]:
        assert re.search(r"!cancelled\(\)|always\(\)", step["if"]), step["name"]
