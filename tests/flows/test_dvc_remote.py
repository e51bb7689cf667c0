"""Results shared over a DVC remote: a folder, and S3 as moto serves it on loopback."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.dvc_graph.graph import open_graph
from flows.dvc_graph.remote import Moved, RemoteError
from flows.project.requests import Pair
from flows.steps.board import steps_of
from flows.workers.run_cache import fetch_run_cache, push_run_cache
from tests.flows.copied_matrix import make_project, ran, run_all, set_remote

PAIRS = [Pair(model, "h1") for model in ("m1", "m2")]
STEPS = 2 + 5 * len(PAIRS)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return make_project(tmp_path / "here", ("m1", "m2"), ("h1",))


@pytest.fixture
def there(here: Path, tmp_path: Path) -> Path:
    """Another checkout, with a cache of its own."""
    other = tmp_path / "there"
    subprocess.run(["git", "clone", "--quiet", str(here), str(other)], check=True)
    return other


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The address of an S3 server with one bucket."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    threaded = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    threaded.start()
    host, port = threaded.get_host_and_port()
    address = f"http://{host}:{port}"
    boto3.client("s3", endpoint_url=address, region_name="us-east-1", **_KEYS).create_bucket(
        Bucket="shared"
    )
    yield address
    threaded.stop()


_KEYS = {"aws_access_key_id": "nobody", "aws_secret_access_key": "nothing"}


def _s3_settings(address: str) -> dict[str, str]:
    keys = {"access_key_id": "nobody", "secret_access_key": "nothing"}
    return {"endpointurl": address, "region": "us-east-1", **keys}


def _restore_all(root: Path) -> list[bool]:
    with open_graph(root) as graph:
        restored = [graph.restore(name) for name in graph.select()]
        graph.record()
        return restored


def _results(root: Path) -> dict[str, bytes]:
    folder = root / "results"
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".gitignore"
    }


def _assert_shared(here: Path, there: Path) -> None:
    run_all(here)
    sent = push_run_cache(here, PAIRS)
    assert sent is not None
    assert sent.entries == STEPS
    assert push_run_cache(here, PAIRS) == Moved(0, 0)
    assert fetch_run_cache(there, PAIRS) == Moved(sent.objects, STEPS)
    assert _restore_all(there) == [True] * STEPS
    assert ran(there) == []
    assert _results(there) == _results(here)
    assert fetch_run_cache(there, PAIRS) == Moved(0, 0)
    assert push_run_cache(there, PAIRS) == Moved(0, 0)
    status = subprocess.run(
        ["dvc", "status"], cwd=there, capture_output=True, text=True, check=True, env=_with_dvc()
    )
    assert "up to date" in status.stdout


def _with_dvc() -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "DVC_NO_ANALYTICS": "1"}


def test_a_second_checkout_restores_everything_from_s3(here: Path, there: Path, s3: str) -> None:
    for root in (here, there):
        set_remote(root, "s3://shared/results", _s3_settings(s3))
    _assert_shared(here, there)


def test_a_folder_is_a_remote_too(here: Path, there: Path, tmp_path: Path) -> None:
    for root in (here, there):
        set_remote(root, str(tmp_path / "shared"), {})
    _assert_shared(here, there)


def test_only_what_was_asked_for_is_sent(here: Path, there: Path, tmp_path: Path) -> None:
    for root in (here, there):
        set_remote(root, str(tmp_path / "shared"), {})
    run_all(here)
    sent = push_run_cache(here, PAIRS[:1])
    assert sent is not None
    assert sent.entries == 6
    brought = fetch_run_cache(there, PAIRS)
    assert brought is not None
    assert brought.entries == 6
    assert sum(_restore_all_that_can(there)) == 6


def _restore_all_that_can(root: Path) -> Iterator[bool]:
    wanted = steps_of(PAIRS[0])
    with open_graph(root) as graph:
        for name in graph.select():
            if graph.nodes[name].step in wanted:
                yield graph.restore(name)


def test_dvc_itself_shares_with_us(here: Path, there: Path, tmp_path: Path) -> None:
    for root in (here, there):
        set_remote(root, str(tmp_path / "shared"), {})
    run_all(here)
    command = ["dvc", "push", "--quiet", "--run-cache"]
    subprocess.run(command, cwd=here, check=True, env=_with_dvc())
    assert push_run_cache(here, PAIRS) == Moved(0, 0)
    brought = fetch_run_cache(there, PAIRS)
    assert brought is not None
    assert brought.entries == STEPS
    assert _restore_all(there) == [True] * STEPS


def test_without_a_remote_nothing_is_shared_and_nothing_fails(here: Path) -> None:
    run_all(here)
    assert push_run_cache(here, PAIRS) is None
    assert fetch_run_cache(here, PAIRS) is None
    with pytest.raises(RemoteError, match="no DVC remote 'nowhere'"):
        push_run_cache(here, PAIRS, "nowhere")


def test_an_s3_that_is_down_is_named_and_nothing_is_lost(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")  # its client would try for long
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    set_remote(here, "s3://shared/results", _s3_settings(f"http://127.0.0.1:{port}"))
    run_all(here)
    before = _results(here)
    with pytest.raises(RemoteError) as caught:
        push_run_cache(here, PAIRS)
    assert "s3://shared/results" in str(caught.value)
    assert "nothing is lost" in str(caught.value)
    with pytest.raises(RemoteError):
        fetch_run_cache(here, PAIRS)
    assert _results(here) == before
    shutil.rmtree(here / "results")
    assert _restore_all(here) == [True] * STEPS


def test_a_folder_that_cannot_be_written_is_named(here: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    set_remote(here, str(tmp_path / "file"), {})
    run_all(here)
    with pytest.raises(RemoteError, match="file"):
        push_run_cache(here, PAIRS)
