"""The hook that tells of a push: what it posts, and that it never stands in a push's way."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.flows.command import REPOSITORY
from tests.flows.git_repositories import ENVIRONMENT

HOOK = REPOSITORY / "docs" / "ci" / "post-receive"


class Listener:
    """Stands for a Prefect server: keeps what is posted to /api/events."""

    def __init__(self) -> None:
        self.posted: list[tuple[str, str, Any]] = []
        self.status = 204
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                credentials = self.headers.get("Authorization", "")
                listener.posted.append((self.path, credentials, json.loads(body)))
                self.send_response(listener.status)
                self.end_headers()

            def log_message(self, *_given: object) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.api = f"http://127.0.0.1:{self._server.server_port}/api"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Answers no more."""
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    """A server that listens."""
    listener = Listener()
    yield listener
    listener.close()


class Clone:
    """A work tree whose origin is a bare repository that has the hook."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bare = folder / "work", folder / "team.git"
        self._git(folder, "init", "-q", "--bare", str(self.bare))
        shutil.copy(HOOK, self.bare / "hooks" / "post-receive")
        self._git(folder, "clone", "-q", str(self.bare), str(self.folder))

    def set(self, key: str, value: str) -> None:
        """Configures the bare repository."""
        self._git(self.bare, "config", key, value)

    def commit(self) -> str:
        """An empty commit; its hash."""
        self._git(self.folder, "commit", "-q", "--allow-empty", "-m", "one")
        return self._git(self.folder, "rev-parse", "HEAD").stdout.strip()

    def push(self, *references: str, **environment: str) -> str:
        """Pushes; what the hook said. Fails where the push does."""
        return self._git(self.folder, "push", "origin", *references, **environment).stderr

    def _git(
        self, folder: Path, *arguments: str, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        ended = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env={**os.environ, **ENVIRONMENT, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    """A clone of an empty bare repository."""
    return Clone(tmp_path)


def test_a_push_is_one_event_for_each_branch(clone: Clone, listener: Listener) -> None:
    clone.set("recipe.prefectApi", f"{listener.api}/")
    first = clone.commit()
    said = clone.push("HEAD:refs/heads/main")
    assert f"recipe: team main: the pipeline knows of it ({listener.api})" in said
    second = clone.commit()
    clone.push("HEAD:refs/heads/main", "HEAD:refs/heads/a/b", "HEAD:refs/tags/v1")
    events = [event for _, _, (event,) in listener.posted]
    assert [path for path, _, _ in listener.posted] == ["/api/events"] * 3
    assert {event["event"] for event in events} == {"recipe.model-repository.pushed"}
    assert events[1]["resource"] | {"recipe.branch": ""} == {
        "prefect.resource.id": "recipe.model-repository.team",
        "prefect.resource.name": "team",
        "recipe.branch": "",
    }
    by_branch = {event["payload"]["branch"]: event["payload"] for event in events[1:]}
    assert by_branch["main"] == {
        "repository": "team",
        "branch": "main",
        "before": first,
        "after": second,
    }
    assert by_branch["a/b"]["before"] == "0" * 40
    assert len({event["id"] for event in events}) == 3


def test_a_deleted_branch_is_no_event(clone: Clone, listener: Listener) -> None:
    clone.set("recipe.prefectApi", listener.api)
    clone.commit()
    clone.push("HEAD:refs/heads/gone")
    listener.posted.clear()
    clone.push(":refs/heads/gone")
    assert listener.posted == []


def test_names_are_quoted_and_the_password_is_sent(clone: Clone, listener: Listener) -> None:
    clone.set("recipe.prefectApi", listener.api)
    clone.set("recipe.repository", "my models")
    clone.set("recipe.prefectAuth", 'ann:a"b')
    clone.commit()
    clone.push('HEAD:refs/heads/"quoted"$(id>x)`')
    ((_, credentials, (event,)),) = listener.posted
    assert event["payload"]["repository"] == "my models"
    assert event["payload"]["branch"] == '"quoted"$(id>x)`'
    assert base64.b64decode(credentials.removeprefix("Basic ")) == b'ann:a"b'
    assert not (clone.bare / "x").exists()


def test_a_server_that_is_down_refuses_or_isnt_set_lets_the_push_be(
    clone: Clone, listener: Listener
) -> None:
    clone.commit()
    assert "no Prefect server is told of this push" in clone.push("HEAD:refs/heads/main")
    clone.commit()
    said = clone.push("HEAD:refs/heads/main", PREFECT_API_URL="http://127.0.0.1:9/api")
    assert "your push is done, but the pipeline doesn't know of it: curl: (7)" in said
    assert "run `recipe flow commit team`" in said
    listener.status = 500
    clone.set("recipe.prefectApi", listener.api)
    clone.commit()
    assert "doesn't know of it: curl: (22)" in clone.push("HEAD:refs/heads/main")


def test_a_machine_without_curl_lets_the_push_be(clone: Clone, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("git", "sh", "sed", "date", "cat", "basename"):
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    clone.set("recipe.prefectApi", "http://127.0.0.1:9/api")
    clone.commit()
    said = clone.push("HEAD:refs/heads/main", PATH=str(tools))
    assert "your push is done, but the pipeline doesn't know of it" in said
    assert "curl" in said
