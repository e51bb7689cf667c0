"""One comment on a pull request, edited in place; and the job summary of a GitHub Actions run.

GitLab needs none of this: it shows junit.xml by itself where the job names it as a report.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from flows.merging.github_api import API_URL, PullRequest, Talk, open_client, read_json
from stages.errors import InputError

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
_BOT = "Bot"
_NOBODY = frozenset({403, 404})
_DELETED = frozenset({404, 410})
_PULL = re.compile(r"refs/pull/(\d+)/")
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


class CommentChange(StrEnum):
    """What became of the comment."""

    CREATED = "created"
    EDITED = "edited"
    SAME = "same"


def pull_request_here(environment: Mapping[str, str], number: int | None = None) -> PullRequest:
    """The pull request of this GitHub Actions run; `number` where it isn't of one.

    Raises:
        InputError: a variable is missing or wrong.
    """
    return PullRequest(
        repository=_repository(environment),
        number=_number(environment) if number is None else number,
        token=_required(
            environment,
            "GITHUB_TOKEN",
            "in a workflow: `env: {GITHUB_TOKEN: ${{ github.token }}}` on the step",
        ),
        api_url=environment.get("GITHUB_API_URL") or API_URL,
    )


def put_comment(
    pull: PullRequest,
    body: str,
    marker: str,
    sleep: Callable[[float], None] = time.sleep,
) -> CommentChange:
    """Posts `body`, or edits the comment that is ours: the first whose last line is `marker`.

    Raises:
        GitHubError: GitHub refuses, or can't be reached; the hint is the cure.
        InputError: the API's URL isn't one.
    """
    assert body.rstrip().endswith(marker), "the next run finds the comment by its last line"
    with open_client(pull) as client:
        talk = Talk(client, pull, sleep)
        found = _own_comment(talk, marker)
        if found is not None and _same(found["body"], body):
            return CommentChange.SAME
        if found is not None:
            path = f"/repos/{pull.repository}/issues/comments/{found['id']}"
            if talk.send("PATCH", path, {"body": body}, _DELETED) is not None:
                return CommentChange.EDITED  # else somebody deleted it meanwhile
        talk.send("POST", talk.comments_path, {"body": body})
        return CommentChange.CREATED


def append_summary(text: str, environment: Mapping[str, str]) -> bool:
    """Appends to the job summary where the environment names one; says whether it does.

    Raises:
        InputError: the file can't be written.
    """
    named = environment.get(SUMMARY_VARIABLE)
    if not named:
        return False
    try:
        with Path(named).open("a", encoding="utf-8") as stream:
            stream.write(text if text.endswith("\n") else f"{text}\n")
    except OSError as error:
        raise InputError(
            f"the job summary can't be written: {error.strerror}",
            where=SUMMARY_VARIABLE,
            hint=f"unset {SUMMARY_VARIABLE}, or let it name a file that can be written",
        ) from error
    return True


def _own_comment(talk: Talk, marker: str) -> dict[str, Any] | None:
    """The oldest comment of ours with the marker: others may quote it."""
    login = ""
    for comment in talk.comments():
        if not str(comment.get("body") or "").rstrip().endswith(marker):
            continue
        login = login or _own_login(talk)
        author = comment.get("user") or {}
        if author.get("login") == login or (login == _BOT and author.get("type") == _BOT):
            return comment
    return None


def _own_login(talk: Talk) -> str:
    """The name that the token comments under; an Actions token may not ask, and is a bot's."""
    response = talk.send("GET", "/user", absent=_NOBODY)
    if response is None:
        return _BOT
    content = read_json(response, talk.pull)
    return str(content.get("login") or _BOT)


def _same(old: str, new: str) -> bool:
    """GitHub keeps other line ends."""
    return old.replace("\r\n", "\n").strip() == new.strip()


def _repository(environment: Mapping[str, str]) -> str:
    found = _required(environment, "GITHUB_REPOSITORY", "give it as OWNER/NAME")
    if not _REPOSITORY.fullmatch(found):
        raise InputError(
            f"{found!r} isn't a repository", where="GITHUB_REPOSITORY", hint="give it as OWNER/NAME"
        )
    return found


def _number(environment: Mapping[str, str]) -> int:
    """From the ref of a pull request's run, or from the event that started it."""
    match = _PULL.match(environment.get("GITHUB_REF", ""))
    if match:
        return int(match[1])
    path = environment.get("GITHUB_EVENT_PATH", "")
    try:
        event = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
        return int(event["pull_request"]["number"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            "this isn't a run for a pull request, so there is none to comment on",
            where="GITHUB_REF and GITHUB_EVENT_PATH",
            hint="run it on `pull_request`, or give the number with `--pull-request`",
        ) from error


def _required(environment: Mapping[str, str], name: str, hint: str) -> str:
    found = environment.get(name, "").strip()
    if not found:
        raise InputError(f"{name} isn't set", where="the environment", hint=hint)
    return found
