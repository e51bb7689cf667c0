"""`history/processed.json`: how far each branch of each model repository has been processed.

A commit is recorded once its results are on disk, whatever they say. Pairs that failed stay on
record with the commit since which they fail, until their model changes, passes or is deleted. Those
that failed by the model itself aren't run again, since the same bytes give the same answer; those
that failed by the machine (a device out of reach, a bug of ours) are, up to three times.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flows.locks.file_lock import file_lock
from flows.project.files import write_beside
from flows.project.places import Project
from stages.errors import InputError, Outcome

PROCESSED_FILE = "history/processed.json"
MOST_ATTEMPTS = 3
_PASSING = frozenset({Outcome.INTERNAL_ERROR, Outcome.DEVICE_ERROR, Outcome.BAD_PACKAGE})
"""Outcomes that the same model may not have next time."""


class Failing(BaseModel):
    """A pair that fails. `by_defect` says that its files can't be had: that is asked again."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    since: str
    outcome: Annotated[int, Field(ge=1)]
    attempts: Annotated[int, Field(ge=1)] = 1
    by_defect: bool = False

    @property
    def is_worth_retrying(self) -> bool:
        """Whether the same model may fare better now."""
        return Outcome(self.outcome) in _PASSING and self.attempts < MOST_ATTEMPTS


class BranchRecord(BaseModel):
    """How far one branch was processed: the commit, the models' fingerprints, and what fails there
    by model and device."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    commit: str
    models: Mapping[str, str] = {}
    failing: Mapping[str, Mapping[str, Failing]] = {}


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    repositories: dict[str, dict[str, BranchRecord]] = {}


def last_processed(project: Project, repository: str, branch: str) -> BranchRecord | None:
    """The branch's record; None where nothing has been processed yet.

    Raises:
        InputError: the file can't be read.
    """
    return _read(project.root / PROCESSED_FILE).repositories.get(repository, {}).get(branch)


def record_processed(project: Project, repository: str, branch: str, record: BranchRecord) -> None:
    """Replaces the branch's record, under a lock; the others stay.

    Raises:
        InputError: the file can't be read or written; it is as it was then.
    """
    path = project.root / PROCESSED_FILE
    with file_lock(project.cache.absolute() / "processed.lock", PROCESSED_FILE):
        document = _read(path)
        document.repositories.setdefault(repository, {})[branch] = record
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_beside(path, document.model_dump_json(indent=2).encode() + b"\n")
        except OSError as error:
            raise InputError(
                f"what was processed can't be recorded: {error.strerror}",
                where=str(path),
                hint="free some space or let the folder be written, and run again: results stay",
            ) from error


def _read(path: Path) -> _Document:
    try:
        return _Document.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return _Document()
    except (OSError, ValidationError) as error:
        raise InputError(
            f"the record of processed commits can't be read: {str(error).splitlines()[0]}",
            where=str(path),
            hint="restore it from a copy, or delete it: all models count as new then",
        ) from error
