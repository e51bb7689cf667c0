"""Finds the model that a word on the command line means."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flows.places import Project

if TYPE_CHECKING:
    from stages.normalizer.source import ModelSource


def find_model(word: str, project: Project, samples: Path | None) -> ModelSource:
    raise NotImplementedError
