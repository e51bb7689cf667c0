"""What tests of flows share: a flow server, since starting one takes seconds, and Git as it
is set up on no machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.project.places import CACHE_VARIABLE, Project
from flows.running.flow_server import API_VARIABLE, FlowServer
from tests.flows.command import REPOSITORY
from tests.flows.git_repositories import Repository, set_git_environment


@pytest.fixture(scope="session")
def flow_server() -> Iterator[str]:
    """The address of the server; runs find it by themselves, as one run finds another's."""
    server = FlowServer(Project(REPOSITORY).cache / "prefect")
    server.open()
    server.wait_until_ready()
    address = os.environ.pop(API_VARIABLE)
    yield address
    server.close()


@pytest.fixture(scope="module")
def prefect_here(flow_server: str) -> Iterator[str]:
    """The shared server's address, where Prefect in this process finds it; runs get its tag.

    Prefect was imported before the address was known. Its threads must learn of it, too: they would
    start a server of their own. What Prefect still holds is sent at the end: after the server's own
    it would try for a minute.
    """
    from prefect import tags
    from prefect.context import refresh_global_settings_context

    from flows.running.dead_runs import own_tag
    from flows.running.engine import drain

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(API_VARIABLE, flow_server)
        refresh_global_settings_context()
        with tags(own_tag()):
            yield flow_server
            drain()
    refresh_global_settings_context()


@pytest.fixture
def surroundings() -> Iterator[None]:
    """Git as tests want it, and each project's cache in its own folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(CACHE_VARIABLE, raising=False)
        set_git_environment(patch)
        yield


@pytest.fixture
def models(tmp_path: Path) -> Repository:
    """A repository of models without a commit."""
    return Repository.make(tmp_path / "models")
