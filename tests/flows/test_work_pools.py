"""The work pools' job templates, against Prefect's own schema and its own templates, offline."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import prefect.server
import pytest
from jsonschema import Draft7Validator
from prefect.server.schemas.actions import WorkPoolCreate
from prefect.utilities.templating import find_placeholders
from prefect.workers.process import ProcessJobConfiguration

from tests.flows.command import REPOSITORY

FOLDER = REPOSITORY / "deploy" / "work-pools"
KINDS = ("kubernetes", "process")
_CATALOGUE = Path("api", "collections_data", "views", "aggregate-worker-metadata.json")
_QUIET = {"DO_NOT_TRACK": "1", "DVC_NO_ANALYTICS": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}


def _template(kind: str) -> dict[str, Any]:
    content = json.loads((FOLDER / f"{kind}.json").read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


def _own_template(kind: str) -> dict[str, Any]:
    """Prefect's default, from the catalogue that its server comes with."""
    assert prefect.server.__file__
    catalogue = json.loads((Path(prefect.server.__file__).parent / _CATALOGUE).read_text())
    package = "prefect" if kind == "process" else f"prefect-{kind}"
    template = catalogue[package][kind]["default_base_job_configuration"]
    assert isinstance(template, dict)
    return template


@pytest.mark.parametrize("kind", KINDS)
def test_the_server_takes_it(kind: str) -> None:
    pool = WorkPoolCreate(name="machines", type=kind, base_job_template=_template(kind))
    assert pool.base_job_template == _template(kind)
    Draft7Validator.check_schema(_template(kind)["variables"])


@pytest.mark.parametrize("kind", KINDS)
def test_it_holds_what_the_worker_asks_for(kind: str) -> None:
    ours, own = _template(kind), _own_template(kind)
    assert set(own["job_configuration"]) <= set(ours["job_configuration"])
    assert set(own["variables"]["properties"]) <= set(ours["variables"]["properties"])


@pytest.mark.parametrize("kind", KINDS)
def test_every_variable_is_used_and_every_placeholder_is_a_variable(kind: str) -> None:
    template = _template(kind)
    used = {found.name for found in find_placeholders(template["job_configuration"])}
    assert used == set(template["variables"]["properties"])


@pytest.mark.parametrize("kind", KINDS)
def test_its_defaults_are_of_their_own_types(kind: str) -> None:
    properties = _template(kind)["variables"]["properties"]
    defaults = {name: facts["default"] for name, facts in properties.items() if "default" in facts}
    Draft7Validator(_template(kind)["variables"]).validate(defaults)
    assert _QUIET.items() <= defaults["env"].items()


def test_a_process_gets_the_quiet_settings() -> None:
    made = asyncio.run(
        ProcessJobConfiguration.from_template_and_values(
            _template("process"),
            {"env": {"RECIPE_ROOT": "/srv/recipe"}},
            client=object(),  # type: ignore[arg-type]
        )
    )
    assert made.env == {**_QUIET, "RECIPE_ROOT": "/srv/recipe"}


def test_a_kubernetes_job_is_filled_in_and_asks_for_no_rights() -> None:
    worker = pytest.importorskip("prefect_kubernetes.worker", reason="no prefect-kubernetes here")
    made = asyncio.run(
        worker.KubernetesWorkerJobConfiguration.from_template_and_values(
            _template("kubernetes"), {"image": "team/recipe:1"}, client=object()
        )
    )
    pod = made.job_manifest["spec"]["template"]["spec"]
    assert not find_placeholders(made.job_manifest)
    assert pod["containers"][0]["image"] == "team/recipe:1"
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
