"""One comment on a pull request, against a server of our own on the loopback address."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.merging.github_api import GitHubError, PullRequest
from flows.merging.github_comment import (
    CommentChange,
    append_summary,
    pull_request_here,
    put_comment,
)
from stages.errors import InputError
from tests.flows.fake_github import FakeGitHub, serving

MARKER = "<!-- recipe merge gate: pipeline -->"
BODY = f"### PASS: fine\n\n{MARKER}\n"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    with serving(FakeGitHub()) as server:
        yield server


waits: list[float] = []


@pytest.fixture(autouse=True)
def _no_waits() -> None:
    waits.clear()


def put(github: FakeGitHub, body: str = BODY) -> CommentChange:
    pull = PullRequest("owner/models", 7, "secret", github.url)
    return put_comment(pull, body, MARKER, waits.append)


def test_the_first_run_comments_and_later_ones_edit(github: FakeGitHub) -> None:
    github.add("LGTM", "ann", "User")
    assert put(github) is CommentChange.CREATED
    assert put(github) is CommentChange.SAME
    later = BODY.replace("fine", "finer")
    assert put(github, later) is CommentChange.EDITED
    assert put(github, later) is CommentChange.SAME
    assert [comment["body"].split()[0] for comment in github.comments] == ["LGTM", "###"]
    assert "finer" in github.comments[1]["body"]
    assert github.tokens == {"Bearer secret"}


def test_it_is_found_behind_many_pages(github: FakeGitHub) -> None:
    github.pages = 10
    for number in range(25):
        github.add(f"comment {number}", "ann", "User")
    github.add(f"old\n\n{MARKER}")
    assert put(github) is CommentChange.EDITED
    pages = [path for method, path in github.requests if method == "GET" and "comments" in path]
    assert len(pages) == 3
    assert github.comments[25]["body"].startswith("### PASS")


def test_a_quote_and_another_gate_are_left_alone(github: FakeGitHub) -> None:
    github.add(f"> old\n> {MARKER}\n\nwhy?", "ann", "User")
    github.add(f"fake\n{MARKER}", "mallory", "User")
    github.add("other\n<!-- recipe merge gate: vision -->")
    assert put(github) is CommentChange.CREATED
    assert len(github.comments) == 4
    assert github.comments[1]["body"].startswith("fake")


def test_a_personal_token_edits_only_its_own(github: FakeGitHub) -> None:
    github.login = "ann"
    github.add(f"bot's\n{MARKER}")
    github.add(f"ann's\n{MARKER}", "ann", "User")
    assert put(github) is CommentChange.EDITED
    assert github.comments[0]["body"].startswith("bot's")
    assert github.comments[1]["body"].startswith("### PASS")


def test_a_comment_deleted_meanwhile_is_made_anew(github: FakeGitHub) -> None:
    github.add(f"old\n{MARKER}")
    github.comments[0]["id"] = 99
    original = github.answer

    def deleted(method: str, path: str, content: object) -> tuple[int, dict[str, str], str]:
        if method == "PATCH":
            github.comments.clear()
        return original(method, path, content)

    github.answer = deleted  # type: ignore[method-assign]
    assert put(github) is CommentChange.CREATED
    assert len(github.comments) == 1


@pytest.mark.parametrize(
    ("status", "headers", "hint"),
    [
        (401, {}, "give GITHUB_TOKEN a new one"),
        (403, {}, "permissions: {pull-requests: write}"),
        (404, {}, "check GITHUB_REPOSITORY"),
        (410, {}, "closed"),
        (422, {}, "too long"),
        (301, {"Location": "http://127.0.0.1:1/"}, "has moved"),
        (418, {}, "try again later"),
    ],
)
def test_a_refusal_says_what_to_do(
    github: FakeGitHub, status: int, headers: dict[str, str], hint: str
) -> None:
    github.first = [(status, headers, '{"message": "said so"}')]
    with pytest.raises(GitHubError) as caught:
        put(github)
    assert hint in caught.value.hint
    assert caught.value.problem == f"GitHub answers {status} (said so)"
    assert caught.value.where == "pull request 7 of owner/models"
    assert "secret" not in str(caught.value)
    assert waits == []


@pytest.mark.parametrize(
    ("answer", "waited"),
    [
        ((429, {"Retry-After": "7"}, ""), [7.0]),
        ((403, {"Retry-After": "999"}, ""), [60.0]),
        ((403, {"X-RateLimit-Remaining": "0"}, ""), [1.0]),
        ((502, {}, "<html>"), [1.0]),
        ((0, {}, ""), [1.0]),
    ],
)
def test_what_passes_is_tried_again(
    github: FakeGitHub, answer: tuple[int, dict[str, str], str], waited: list[float]
) -> None:
    github.first = [answer]
    assert put(github) is CommentChange.CREATED
    assert waits == waited


def test_in_the_end_it_gives_up(github: FakeGitHub) -> None:
    github.first = [(429, {}, "")] * 9
    with pytest.raises(GitHubError, match="429 Too Many Requests") as caught:
        put(github)
    assert "too many requests" in caught.value.hint
    assert waits == [1.0, 2.0, 4.0]


@pytest.mark.parametrize("status", [0, 500])
def test_a_post_that_may_have_been_heard_is_not_sent_twice(github: FakeGitHub, status: int) -> None:
    original = github.answer

    def heard(method: str, path: str, content: object) -> tuple[int, dict[str, str], str]:
        done = original(method, path, content)
        return (status, {}, "") if method == "POST" else done

    github.answer = heard  # type: ignore[method-assign]
    with pytest.raises(GitHubError):
        put(github)
    assert len(github.comments) == 1


def test_the_token_goes_to_no_other_host(github: FakeGitHub) -> None:
    github.pages, github.next_host = 1, "http://127.0.0.2:9"
    github.add("one")
    github.add("two")
    with pytest.raises(GitHubError, match=r"at '127\.0\.0\.2:9'"):
        put(github)


def test_nobody_there_and_a_page_that_is_no_api(github: FakeGitHub) -> None:
    github.first = [(200, {}, "<html>")]
    with pytest.raises(GitHubError, match="isn't JSON"):
        put(github)
    nobody = PullRequest("owner/models", 7, "secret", "http://127.0.0.1:9/api")
    with pytest.raises(GitHubError, match="can't be reached"):
        put_comment(nobody, BODY, MARKER, waits.append)
    with pytest.raises(InputError, match="isn't the address of an API"):
        put_comment(PullRequest("o/n", 7, "secret", "api.github"), BODY, MARKER)


def environment(**more: str) -> dict[str, str]:
    return {"GITHUB_REPOSITORY": "owner/models", "GITHUB_TOKEN": " t ", **more}


def test_the_pull_request_comes_from_the_run(tmp_path: Path) -> None:
    found = pull_request_here(environment(GITHUB_REF="refs/pull/12/merge"))
    assert (found.repository, found.number, found.token) == ("owner/models", 12, "t")
    assert found.api_url == "https://api.github.com"
    assert "'t'" not in repr(found)
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 13}}))
    here = environment(GITHUB_EVENT_PATH=str(event), GITHUB_REF="refs/heads/x", GITHUB_API_URL="u")
    assert pull_request_here(here).number == 13
    assert pull_request_here(here).api_url == "u"
    assert pull_request_here(environment(), 14).number == 14


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"GITHUB_TOKEN": ""}, "GITHUB_TOKEN isn't set"),
        ({"GITHUB_REPOSITORY": ""}, "GITHUB_REPOSITORY isn't set"),
        ({"GITHUB_REPOSITORY": "../../user"}, "isn't a repository"),
        ({"GITHUB_REF": "refs/heads/main"}, "isn't a run for a pull request"),
        ({"GITHUB_REF": "", "GITHUB_EVENT_PATH": "/nowhere"}, "isn't a run for a pull request"),
    ],
)
def test_what_the_environment_lacks_is_said(changed: dict[str, str], where: str) -> None:
    with pytest.raises(InputError, match=where):
        pull_request_here(environment(GITHUB_REF="refs/pull/1/merge") | changed)


def test_the_summary_is_appended_where_there_is_one(tmp_path: Path) -> None:
    assert not append_summary("x", {})
    path = tmp_path / "summary.md"
    here = {"GITHUB_STEP_SUMMARY": str(path)}
    assert append_summary("one", here)
    assert append_summary("two\n", here)
    assert path.read_text() == "one\ntwo\n"
    with pytest.raises(InputError, match="the job summary can't be written"):
        append_summary("x", {"GITHUB_STEP_SUMMARY": str(tmp_path)})
