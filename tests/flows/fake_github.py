"""A GitHub of one pull request on the loopback address, for tests of what talks to it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PREFIX = "/api/v3"
_COMMENTS = re.compile(r"/repos/owner/models/issues/7/comments(?:\?(.*))?")
_ONE = re.compile(r"/repos/owner/models/issues/comments/(\d+)")


@dataclass
class FakeGitHub:
    """Its comments, and answers that it gives before it does what it is asked.

    `login` is who the token is; None for an Actions token, which may not ask.
    """

    login: str | None = None
    pages: int = 100
    comments: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    first: list[tuple[int, dict[str, str], str]] = field(default_factory=list)
    next_host: str = ""
    url: str = ""

    def add(self, body: str, login: str = "github-actions[bot]", kind: str = "Bot") -> int:
        """A comment that is there already; gives its number."""
        number = len(self.comments) + 1
        self.comments.append({"id": number, "body": body, "user": {"login": login, "type": kind}})
        return number

    def answer(self, method: str, path: str, content: Any) -> tuple[int, dict[str, str], str]:
        """Status, headers and text."""
        self.requests.append((method, path))
        if self.first:
            return self.first.pop(0)
        if path == "/user":
            return (200, {}, json.dumps({"login": self.login})) if self.login else _refused(403)
        one, all_of_them = _ONE.fullmatch(path), _COMMENTS.fullmatch(path)
        if all_of_them and method == "GET":
            return self._page(all_of_them[1] or "")
        if all_of_them and method == "POST":
            self.add(content["body"])
            return 201, {}, "{}"
        found = [c for c in self.comments if one and c["id"] == int(one[1])]
        if not found or method != "PATCH":
            return _refused(404)
        found[0]["body"] = content["body"].replace("\n", "\r\n")
        return 200, {}, "{}"

    def _page(self, query: str) -> tuple[int, dict[str, str], str]:
        match = re.search(r"\bpage=(\d+)", query)
        page = int(match[1]) if match else 1
        start, stop = (page - 1) * self.pages, page * self.pages
        host = self.next_host or self.url
        following = f"{host}/repos/owner/models/issues/7/comments?per_page=100&page={page + 1}"
        headers = {"Link": f'<{following}>; rel="next"'} if stop < len(self.comments) else {}
        return 200, headers, json.dumps(self.comments[start:stop])


def _refused(status: int) -> tuple[int, dict[str, str], str]:
    return status, {}, json.dumps({"message": f"status {status}"})


@contextmanager
def serving(github: FakeGitHub) -> Iterator[FakeGitHub]:
    """Serves it at its `url` meanwhile."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            content = json.loads(self.rfile.read(size)) if size else None
            github.tokens.add(self.headers.get("Authorization", ""))
            path = self.path.removeprefix(PREFIX)
            status, headers, text = github.answer(self.command, path, content)
            if status == 0:  # hangs up
                self.close_connection = True
                return
            body = text.encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = _answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    github.url = f"http://127.0.0.1:{server.server_address[1]}{PREFIX}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield github
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
