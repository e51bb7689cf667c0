"""Where files lie: the project, its hardware specs, registry, baselines, and the output tree."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from stages.errors import InputError

PARAMS_FILE = "params.yaml"
ROOT_VARIABLE = "RECIPE_ROOT"
CACHE_VARIABLE = "RECIPE_CACHE"
WORKSPACES = "workspaces"


@dataclass(frozen=True, slots=True)
class Project:
    """The folder that holds params.yaml and what goes with it."""

    root: Path

    @property
    def params(self) -> Path:
        """The limits and run counts."""
        return self.root / PARAMS_FILE

    @property
    def hardware_specs(self) -> Path:
        """One YAML file a device."""
        return self.root / "hardware_specs"

    @property
    def registry(self) -> Path:
        """The models known by name, a folder each."""
        return self.root / "models"

    @property
    def cache(self) -> Path:
        """What may be deleted at any time: downloads, built models, decisions,
        the flow server's database."""
        named = os.environ.get(CACHE_VARIABLE)
        if named:
            return Path(named)
        home = self.root.resolve().parent
        if home.name == WORKSPACES and (home / f".{self.root.name}.lock").exists():
            return home.parent  # a workspace lies in the cache of its project, and shares it
        return self.root / ".cache"

    @property
    def decisions(self) -> Path:
        """Decisions of compiles, kept for the next weights."""
        return self.cache / "decisions"

    def baseline(self, hardware: str, model: str) -> Path:
        """The accepted facts of one pair; may not exist."""
        return self.root / "baselines" / hardware / f"{model}.json"


def find_project() -> Project:
    """The project around the current folder, or else the one that this code belongs to.

    Raises:
        InputError: RECIPE_ROOT names a folder without params.yaml.
    """
    named = os.environ.get(ROOT_VARIABLE)
    if named:
        root = Path(named)
        if not (root / PARAMS_FILE).is_file():
            raise InputError(
                f"no {PARAMS_FILE} in {named!r}",
                where=f"the environment variable {ROOT_VARIABLE}",
                hint="let it name the project's folder, or unset it",
            )
        return Project(root)
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / PARAMS_FILE).is_file() and (folder / "hardware_specs").is_dir():
            return Project(folder)
    return Project(Path(__file__).resolve().parents[2])


def project_at(folder: str) -> Project:
    """The project in a folder; where that is empty, the one that `find_project` finds. A deployment
    with an empty folder runs on any worker that has the project.

    Raises:
        InputError: there is no params.yaml.
    """
    if not folder:
        return find_project()
    root = Path(folder).resolve()
    if not (root / PARAMS_FILE).is_file():
        raise InputError(
            f"no {PARAMS_FILE} in {folder!r}",
            where="the parameter `project`",
            hint="let it name the project's folder, or be empty: then RECIPE_ROOT names it",
        )
    return Project(root)


@dataclass(frozen=True, slots=True)
class PairPlaces:
    """The output folders of one (model, hardware) pair under OUT."""

    out: Path
    model: str
    hardware: str

    @property
    def normalized(self) -> Path:
        """model.onnx, samples.npz, normalize.json, quantization.yaml: shared by all devices."""
        return self.out / "normalized" / self.model

    @property
    def folder(self) -> Path:
        """Everything of this pair."""
        return self.out / self.hardware / self.model

    @property
    def package(self) -> Path:
        """The recipe package."""
        return self.folder / "package"

    @property
    def validation(self) -> Path:
        """validation.json."""
        return self.folder / "validation"

    @property
    def benchmark(self) -> Path:
        """samples.csv, benchmark.json, trace.json."""
        return self.folder / "benchmark"

    @property
    def gate(self) -> Path:
        """gate.json."""
        return self.folder / "gate"

    @property
    def stress(self) -> Path:
        """stress.json, stress.csv."""
        return self.folder / "stress"

    @property
    def report(self) -> Path:
        """The pair's facts in Markdown."""
        return self.folder / "report.md"


def hardware_path(name: str, project: Project) -> Path:
    """The spec's file, for a name or a path.

    Raises:
        RecipeError: no such spec.
    """
    from stages.hardware.load import find_spec

    if name.endswith((".yaml", ".yml")) or os.sep in name:
        return Path(name)
    return find_spec(name, project.hardware_specs)


def require_writable(folder: Path) -> None:
    """Makes the folder where it is missing.

    Raises:
        InputError: it can't be made or written.
    """
    hint = "choose another folder with `--out`, or make this one writable"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"the output folder can't be made: {error.strerror}", where=str(folder), hint=hint
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError("the output folder can't be written", where=str(folder), hint=hint)
