"""params.yaml: run counts and limits, checked where they come in."""

from __future__ import annotations

from fractions import Fraction as Exact
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flows.project.places import PARAMS_FILE
from stages.errors import InputError

if TYPE_CHECKING:
    from stages.comparison.drift import Bands
    from stages.device.session import Length
    from stages.device.surroundings import Surroundings

MODELS_KEY, HARDWARE_KEY = "matrix.models", "matrix.hardware"
"""The matrix's lists, as an overlay of parameters names them."""

Count = Annotated[int, Field(ge=1)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Names = Annotated[tuple[str, ...], Field(strict=False)]  # YAML has lists
Percent = Annotated[float, Field(gt=0)]
Ratio = Annotated[float, Field(ge=1)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class MatrixParams(_Section):
    """The models and devices that dvc.yaml spans."""

    models: Names = ()
    hardware: Names = ()


class NormalizeParams(_Section):
    """How the stage proves that the normalised model computes what the original computes."""

    seed: int = 0
    sample_count: Count = 2


class ValidateParams(_Section):
    """Limits of the validation."""

    min_cosine: Fraction = 0.999
    max_relative_error: Annotated[float, Field(gt=0)] = 0.01
    min_sqnr_db: float = 30.0
    max_fallbacks: Annotated[int, Field(ge=0)] | None = None
    max_sram_bytes: Count | None = None
    max_ddr_bytes: Count | None = None


class BenchmarkParams(_Section):
    """How often the device runs, and the seed of its weather; by hardware spec the command line of
    the real device, where there is one."""

    runs: Count = 1000
    warmup: Annotated[int, Field(ge=0)] = 50
    seed: int = 0
    commands: dict[str, str] = {}


class GateParams(_Section):
    """How much slower than the baseline a package may be."""

    max_p99_increase_percent: Annotated[int, Field(ge=0)] = 5
    max_p99_over_p50: Ratio = 1.5


class StressParams(_Section):
    """The hot run: where the device stands, how long it works there, and how slow it may get."""

    runs: Count = 1000
    minutes: Annotated[float, Field(gt=0, le=1440)] | None = None
    seed: int = 0
    junction_celsius: Annotated[float, Field(gt=0, lt=200)] = 85.0
    ambient_celsius: Annotated[float, Field(gt=-60, lt=200)] | None = None
    airflow_m_per_s: Annotated[float, Field(ge=0, le=100)] | None = None
    max_p99_over_p50: Ratio = 2.0
    max_slowdown: Ratio | None = None

    def length(self) -> Length:
        """Minutes where they are given, else runs."""
        from stages.device.session import Length

        if self.minutes is not None:
            return Length(duration_ns=round(self.minutes * 60e9))
        return Length(runs=self.runs)

    def surroundings(self) -> Surroundings:
        """Air where its temperature is given, else the chamber."""
        from stages.device.surroundings import Surroundings

        return Surroundings(
            junction_celsius=self.junction_celsius if self.ambient_celsius is None else None,
            ambient_celsius=self.ambient_celsius,
            air_millimetres_per_second=(
                None if self.airflow_m_per_s is None else round(self.airflow_m_per_s * 1000)
            ),
        )


class NightlyParams(_Section):
    """When `recipe serve` runs the night, and how far a figure may stray without having moved."""

    cron: str = "0 2 * * *"
    timezone: str = "UTC"
    median_nights: Annotated[int, Field(ge=3)] = 7
    p50_percent: Percent = 1.0
    p99_percent: Percent = 5.0
    memory_percent: Percent = 1.0
    sqnr_db: Annotated[float, Field(gt=0)] = 1.0

    def bands(self) -> Bands:
        """The bands, exactly as they are written."""
        from stages.comparison.drift import Bands

        names = ("p50_percent", "p99_percent", "memory_percent", "sqnr_db")
        return Bands(*(Exact(str(getattr(self, name))) for name in names))


class Params(_Section):
    """The whole file: the matrix, one section a stage, and the night."""

    matrix: MatrixParams = MatrixParams()
    normalize: NormalizeParams = NormalizeParams()
    validate_: Annotated[ValidateParams, Field(alias="validate")] = ValidateParams()
    benchmark: BenchmarkParams = BenchmarkParams()
    gate: GateParams = GateParams()
    thermal_stress: StressParams = StressParams()
    nightly: NightlyParams = NightlyParams()

    def with_benchmark(self, runs: int | None, seed: int | None) -> Params:
        """These parameters, with what the command line says about the benchmark."""
        return self.model_copy(update={"benchmark": _overridden(self.benchmark, runs, seed)})

    def with_stress(
        self,
        runs: int | None,
        seed: int | None,
        minutes: float | None = None,
        ambient: float | None = None,
        airflow: float | None = None,
    ) -> Params:
        """These parameters, with what the command line says about the hot run; `runs` there
        overrules minutes here.

        Raises:
            InputError: both runs and minutes are given.
        """
        if runs is not None and minutes is not None:
            raise InputError("both --runs and --minutes", hint="give one: each ends the hot run")
        said = {"minutes": minutes, "ambient_celsius": ambient, "airflow_m_per_s": airflow}
        update: dict[str, object] = {key: value for key, value in said.items() if value is not None}
        if runs is not None:
            update["minutes"] = None
        stress = _overridden(self.thermal_stress, runs, seed).model_copy(update=update)
        return self.model_copy(update={"thermal_stress": stress})


_Timed = TypeVar("_Timed", BenchmarkParams, StressParams)


def _overridden(section: _Timed, runs: int | None, seed: int | None) -> _Timed:
    said = {"runs": runs, "seed": seed}
    return section.model_copy(
        update={key: value for key, value in said.items() if value is not None}
    )


def parse_params(content: bytes) -> Any:
    """The document in the bytes of a params.yaml of some commit, unchecked.

    Raises:
        InputError: it isn't YAML.
    """
    try:
        return yaml.safe_load(content)
    except yaml.YAMLError as error:
        raise InputError("the parameters aren't YAML", where=PARAMS_FILE) from error


def load_params(path: Path) -> Params:
    """The parameters in the file.

    Raises:
        InputError: the file is missing, isn't YAML, or a value is wrong; names the key.
    """
    hint = "see the params.yaml that comes with the project for every key and its unit"
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"the parameters can't be read: {error.strerror}", where=str(path), hint=hint
        ) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise InputError("the parameters aren't YAML", where=where, hint=hint) from error
    try:
        return Params.model_validate(content or {})
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the file"
        raise InputError(
            f"{key} = {first['input']!r}: {first['msg'].lower()}", where=str(path), hint=hint
        ) from error
