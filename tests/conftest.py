"""Settings that every test shares: reproducible hypothesis, no telemetry, no user's flow server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "reproducible",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("reproducible")

os.environ.update(
    DO_NOT_TRACK="1", DVC_NO_ANALYTICS="1", PREFECT_SERVER_ANALYTICS_ENABLED="false", NO_COLOR="1"
)
# Downloads and the flow server's database outlive a run of the tests.
os.environ.setdefault("RECIPE_CACHE", str(Path(__file__).resolve().parent.parent / ".cache/tests"))
for variable in ("PREFECT_API_URL", "PREFECT_API_KEY", "PREFECT_PROFILE", "RECIPE_ROOT"):
    os.environ.pop(variable, None)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The project's root folder."""
    return Path(__file__).resolve().parent.parent
