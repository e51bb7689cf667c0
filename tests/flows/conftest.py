"""A flow server that runs for all tests that need one: starting one takes seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from flows.project.places import Project
from flows.running.flow_server import API_VARIABLE, FlowServer
from tests.flows.command import REPOSITORY


@pytest.fixture(scope="session")
def flow_server() -> Iterator[None]:
    """Runs find the running server by themselves, as one run finds another's."""
    server = FlowServer(Project(REPOSITORY).cache / "prefect")
    server.open()
    server.wait_until_ready()
    os.environ.pop(API_VARIABLE)
    yield
    server.close()
