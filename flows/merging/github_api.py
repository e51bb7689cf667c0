"""Requests to GitHub's REST API about one pull request, tried again where that can help.

Source: GitHub REST API, version 2022-11-28, and its best practices on retries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

from stages.errors import InputError, Outcome, RecipeError

API_URL = "https://api.github.com"
_TIMEOUT_SECONDS = 30.0
_ATTEMPTS = 4
_FIRST_WAIT_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 60.0
_MOST_PAGES = 100
_PAGE = 100
_TRY_AGAIN = frozenset({429, 500, 502, 503, 504})
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _GONE, _UNPROCESSABLE = 401, 403, 404, 410, 422
_TOO_MANY, _UNAVAILABLE = 429, 503
_HINTS = {
    _UNAUTHORIZED: "the token isn't valid any more: give GITHUB_TOKEN a new one",
    _FORBIDDEN: "the token may not comment: give the job `permissions: {pull-requests: write}`; "
    "runs for a fork's pull request never may, let a `workflow_run` job comment for them",
    _NOT_FOUND: "check GITHUB_REPOSITORY and the pull request's number, and that the token may "
    "read the repository",
    _GONE: "comments are closed there",
    _UNPROCESSABLE: "GitHub refuses the text: it is too long, or the conversation is locked",
}


class GitHubError(RecipeError):
    """GitHub refused, or can't be reached."""

    outcome = Outcome.BAD_INPUT


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request, and the right to comment on it."""

    repository: str
    number: int
    token: str = field(repr=False)
    api_url: str = API_URL


@dataclass(frozen=True, slots=True)
class Talk:
    """Requests to one pull request's repository, tried again where that can help."""

    client: httpx.Client
    pull: PullRequest
    sleep: Callable[[float], None]

    @property
    def comments_path(self) -> str:
        """Where the comments are."""
        return f"/repos/{self.pull.repository}/issues/{self.pull.number}/comments"

    def send(
        self,
        method: str,
        path: str,
        content: Mapping[str, str] | None = None,
        absent: Collection[int] = (),
    ) -> httpx.Response | None:
        """The answer; None where its status is one of `absent`.

        Raises:
            GitHubError: GitHub refuses, or can't be reached; the hint is the cure.
        """
        wait = _FIRST_WAIT_SECONDS
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                response = self.client.request(method, path, json=content)
            except httpx.HTTPError as error:
                # A POST that was sent may have been heard: a second could comment twice.
                if attempt == _ATTEMPTS or not _never_arrived(error, method):
                    raise self._unreachable(error) from error
            else:
                if response.is_success:
                    return response
                if response.status_code in absent and not _is_limit(response):
                    return None
                if attempt == _ATTEMPTS or not _may_help(response, method):
                    raise _refusal(response, self.pull)
                wait = _asked_wait(response, wait)
            self.sleep(min(wait, _LONGEST_WAIT_SECONDS))
            wait *= 2
        raise AssertionError("the last attempt returns or raises")

    def comments(self) -> Iterator[dict[str, Any]]:
        """All comments, oldest first, page by page."""
        path = f"{self.comments_path}?per_page={_PAGE}"
        for _ in range(_MOST_PAGES):
            response = self.send("GET", path)
            assert response is not None
            yield from read_json(response, self.pull)
            following = response.links.get("next", {}).get("url", "")
            if not following:
                return
            path = self._checked(following)

    def _checked(self, url: str) -> str:
        """The next page's address; the token goes to no other host."""
        own, other = urlsplit(str(self.client.base_url)), urlsplit(url)
        if (own.scheme, own.netloc) != (other.scheme, other.netloc):
            raise GitHubError(
                f"the next page of comments is said to be at {other.netloc!r}",
                where=self.pull.api_url,
                hint="set GITHUB_API_URL to the API's own address",
            )
        return url

    def _unreachable(self, error: httpx.HTTPError) -> GitHubError:
        return GitHubError(
            f"GitHub can't be reached: {str(error) or type(error).__name__}",
            where=self.pull.api_url,
            hint="check the network and GITHUB_API_URL; the report is written all the same",
        )


def open_client(pull: PullRequest) -> httpx.Client:
    """A client with the token in its headers. Follows no redirect.

    Raises:
        InputError: the API's URL isn't one.
    """
    url = urlsplit(pull.api_url)
    if url.scheme not in ("http", "https") or not url.netloc:
        raise InputError(
            f"{pull.api_url!r} isn't the address of an API",
            where="GITHUB_API_URL",
            hint=f"unset it for {API_URL}, or give your server's, such as https://HOST/api/v3",
        )
    return httpx.Client(
        base_url=pull.api_url,
        timeout=_TIMEOUT_SECONDS,
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {pull.token}",
            "X-GitHub-Api-Version": "2022-11-28",
            "User-Agent": "recipe-pipeline",
        },
    )


def _never_arrived(error: httpx.HTTPError, method: str) -> bool:
    return method != "POST" or isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)


def _is_limit(response: httpx.Response) -> bool:
    """Whether it means: too often. GitHub says so with a 403 too."""
    if response.status_code != _FORBIDDEN:
        return response.status_code == _TOO_MANY
    remaining = response.headers.get("x-ratelimit-remaining")
    return "retry-after" in response.headers or remaining == "0"


def _may_help(response: httpx.Response, method: str) -> bool:
    """Whether the same request can succeed later. A POST that failed inside may be there twice."""
    if response.status_code == _FORBIDDEN:
        return _is_limit(response)
    if method == "POST":
        return response.status_code in (_TOO_MANY, _UNAVAILABLE)
    return response.status_code in _TRY_AGAIN


def _asked_wait(response: httpx.Response, otherwise: float) -> float:
    asked = response.headers.get("retry-after", "")
    return float(asked) if asked.isdigit() else otherwise


def read_json(response: httpx.Response, pull: PullRequest) -> Any:
    """The content of an answer.

    Raises:
        GitHubError: it isn't JSON.
    """
    try:
        return response.json()
    except ValueError as error:
        raise GitHubError(
            "the answer isn't JSON",
            where=pull.api_url,
            hint="GITHUB_API_URL must be the API's address, not the site's",
        ) from error


def _refusal(response: httpx.Response, pull: PullRequest) -> GitHubError:
    code = response.status_code
    hint = _HINTS.get(code, "try again later; the report is written all the same")
    if _is_limit(response):
        hint = "too many requests with this token: try again later"
    if response.is_redirect:
        hint = "the repository has moved: set GITHUB_REPOSITORY to its new name"
    return GitHubError(
        f"GitHub answers {code} {_message(response)}".rstrip(),
        where=f"pull request {pull.number} of {pull.repository}",
        hint=hint,
    )


def _message(response: httpx.Response) -> str:
    try:
        content = response.json()
    except ValueError:
        return response.reason_phrase
    said = content.get("message") if isinstance(content, dict) else None
    return f"({said})" if said else response.reason_phrase
