"""Reads what the stages wrote about one pair."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from stages.errors import InputError

Report = Mapping[str, Any]
NOTHING: Report = MappingProxyType({})

FILES = MappingProxyType(
    {
        "compile": "package/manifest.json",
        "validate": "validation/validation.json",
        "benchmark": "benchmark/benchmark.json",
        "gate": "gate/gate.json",
        "thermal_stress": "stress/stress.json",
    }
)
"""The report of each stage, from the pair's folder."""


@dataclass(frozen=True, slots=True)
class PairFacts:
    """The reports of one pair; empty where a stage gave none."""

    folder: Path
    manifest: Report
    validation: Report
    benchmark: Report
    gate: Report
    stress: Report


def gather_facts(folder: Path, stages: Collection[str]) -> PairFacts:
    """The reports of these stages in a pair's folder.

    Raises:
        InputError: a report is missing or isn't JSON.
    """
    reports = {
        stage: read_report(folder / file) if stage in stages else NOTHING
        for stage, file in FILES.items()
    }
    return PairFacts(
        folder,
        reports["compile"],
        reports["validate"],
        reports["benchmark"],
        reports["gate"],
        reports["thermal_stress"],
    )


def read_report(path: Path) -> Report:
    """A stage's report.

    Raises:
        InputError: it is missing or isn't a JSON object.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"the report can't be read: {error.strerror}",
            where=str(path),
            hint="run the stage that writes it again",
        ) from error
    except ValueError as error:
        raise InputError(
            f"the report isn't JSON: {error}",
            where=str(path),
            hint="run the stage that writes it again",
        ) from error
    if not isinstance(content, dict):
        raise InputError("the report isn't a JSON object", where=str(path))
    return content
