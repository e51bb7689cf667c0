"""Overlays: written for review, refused before it, and never silently in the spec."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from stages.calibration.calibrate import Calibration, calibrate
from stages.calibration.fit import FitOptions
from stages.calibration.measurements import (
    Measurement,
    Measurements,
    Precision,
    Use,
)
from stages.calibration.overlay import overlay_text
from stages.calibration.parameters import choose_parameters
from stages.calibration.predict import Tuner, read_base
from stages.errors import HardwareSpecError, InputError
from stages.hardware.load import load_spec, spec_names
from stages.hardware.spec import Mark
from tests.calibration.synthetic import measured_rows, synthetic_plans, tuner_of
from tests.hardware.specs import write_edited

FITTED = ("driver.launch", "memory.ddr.bandwidth")


@pytest.fixture(scope="module")
def calibration(tmp_path_factory: pytest.TempPathFactory) -> Calibration:
    """npu_tiny in a folder of its own, fitted to every other of the made-up rows."""
    return calibrated(write_edited(tmp_path_factory.mktemp("specs")))


def calibrated(spec: Path, uses: tuple[Use, Use] = (Use.FIT, Use.JUDGE)) -> Calibration:
    document = read_base(spec)
    tuner = Tuner(document, choose_parameters(document, FITTED))
    truth = measured_rows(tuner_of(FITTED))
    rows = tuple(
        Measurement(str(index), Precision.FP16, 1, row.measured_ns, "", "", uses[index % 2], index)
        for index, row in enumerate(truth)
    )
    plans = synthetic_plans()
    return calibrate(
        tuner,
        Measurements(Path("made_up.csv"), "0" * 64, rows),
        lambda row, spec: plans[int(row.model)],
        FitOptions(starts=1),
        rounds=2,
    )


def written(calibration: Calibration, folder: Path, *edits: tuple[str, str]) -> Path:
    """The spec and its overlay in a folder, with edits to the overlay."""
    spec = calibration.tuner.document
    (folder / "npu_tiny.yaml").write_bytes(spec.content)
    text = overlay_text(calibration)
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    path = folder / "npu_tiny.overlay.yaml"
    path.write_text(text, encoding="utf-8")
    return path


REVIEWED = ("reviewed: false", "reviewed: true")


def test_rows_that_the_fit_never_saw_judge_it(calibration: Calibration) -> None:
    held_out = calibration.figures(Use.JUDGE)
    assert held_out is not None
    assert held_out.count == len(synthetic_plans()) // 2
    assert held_out.mape < 0.01
    before = calibration.figures(Use.JUDGE, before=True)
    assert before is not None
    assert before.mape > 0.05
    assert calibration.moved == pytest.approx(1, abs=0.01)


def test_a_reviewed_overlay_gives_the_fitted_spec(calibration: Calibration, tmp_path: Path) -> None:
    path = written(calibration, tmp_path, REVIEWED)
    loaded = load_spec(path)
    fitted = calibration.tuner.spec(calibration.fit.values)
    same = {"digest": loaded.digest, "version": loaded.version, "sources": loaded.sources}
    assert replace(fitted, **same) == loaded
    for name in ("driver.launch.vector", "memory.ddr.read_bandwidth"):
        assert loaded.sources[name].mark is Mark.FITTED
        assert "made_up.csv" in loaded.sources[name].source


def test_an_overlaid_spec_has_another_digest_and_says_it(
    calibration: Calibration, tmp_path: Path
) -> None:
    path = written(calibration, tmp_path, REVIEWED)
    base, loaded = load_spec(tmp_path / "npu_tiny.yaml"), load_spec(path)
    contents = (tmp_path / "npu_tiny.yaml").read_bytes() + path.read_bytes()
    assert loaded.digest == hashlib.sha256(contents).hexdigest() != base.digest
    mark = hashlib.sha256(path.read_bytes()).hexdigest()[:8]
    assert loaded.version == f"{base.version}+overlay.{mark}"
    assert loaded.name == base.name


def test_the_spec_itself_stays_as_it_is(calibration: Calibration, tmp_path: Path) -> None:
    path = written(calibration, tmp_path, REVIEWED)
    base = load_spec(tmp_path / "npu_tiny.yaml")
    assert base.ddr != load_spec(path).ddr
    assert spec_names(tmp_path) == ["npu_tiny"]


def test_equal_calibrations_give_equal_overlays(calibration: Calibration) -> None:
    again = calibrated(calibration.tuner.document.path)
    assert overlay_text(again) == overlay_text(calibration)


def test_an_unreviewed_overlay_is_refused(calibration: Calibration, tmp_path: Path) -> None:
    path = written(calibration, tmp_path)
    with pytest.raises(HardwareSpecError, match="nobody has reviewed this overlay") as refused:
        load_spec(path)
    assert "write `reviewed: true`" in refused.value.hint
    assert refused.value.where.startswith(f"{path}:")


def test_an_overlay_of_a_changed_spec_is_refused(calibration: Calibration, tmp_path: Path) -> None:
    path = written(calibration, tmp_path, REVIEWED)
    spec = tmp_path / "npu_tiny.yaml"
    spec.write_bytes(spec.read_bytes() + b"# changed\n")
    with pytest.raises(HardwareSpecError, match=r"fitted to another npu_tiny\.yaml") as refused:
        load_spec(path)
    assert "recipe calibrate npu_tiny" in refused.value.hint


def test_an_overlay_away_from_its_spec_is_refused(calibration: Calibration, tmp_path: Path) -> None:
    path = written(calibration, tmp_path, REVIEWED)
    (tmp_path / "npu_tiny.yaml").unlink()
    with pytest.raises(HardwareSpecError, match=r"no npu_tiny\.yaml lies beside it"):
        load_spec(path)


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (("overlay: 1", "overlay: 2"), "overlay: input should be 1"),
        (("hardware: npu_tiny", "hardwares: npu_tiny"), "hardware: missing key"),
        (("reviewed: true", "reviewed: yes please"), "reviewed: input should be a valid boolean"),
        (("    mark: fitted", "    mark: published"), "mark: input should be 'fitted'"),
        (('hardware_sha256: "', 'hardware_sha256: "x'), "hardware_sha256: string should match"),
        (("  driver.launch.vector:", "  driver..vector:"), "isn't the key path of a number"),
        (("  driver.launch.vector:", "  name.vector:"), "isn't the key path of a number"),
        (("  driver.launch.vector:", "  clock.vector:"), "`clock` isn't a mapping"),
        (("  driver.launch.vector:", "  driver.launch.vektor:"), "'vektor' is an unknown engine"),
        (("  driver.launch.vector:", "  driver.lunch:"), "driver.lunch: unknown key"),
    ],
)
def test_a_wrong_overlay_is_refused(
    calibration: Calibration, tmp_path: Path, edit: tuple[str, str], problem: str
) -> None:
    path = written(calibration, tmp_path, REVIEWED, edit)
    with pytest.raises(HardwareSpecError) as refused:
        load_spec(path)
    assert problem in refused.value.problem
    assert refused.value.where.startswith(str(path)) or "laid over" in refused.value.where
    assert refused.value.hint


def test_a_value_that_the_spec_refuses_names_both_files(
    calibration: Calibration, tmp_path: Path
) -> None:
    path = written(calibration, tmp_path, REVIEWED)
    lines = path.read_text(encoding="utf-8").splitlines()
    number = next(i for i, line in enumerate(lines) if "driver.launch.vector" in line) + 1
    lines[number] = '    value: "3 GB/s"'
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(HardwareSpecError, match="is a bandwidth, not a duration") as refused:
        load_spec(path)
    assert refused.value.where.startswith(f"{path}, laid over ")


def test_nothing_held_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no row is held out"):
        calibrated(write_edited(tmp_path), (Use.FIT, Use.FIT))
    with pytest.raises(InputError, match="0 rows to fit can't pin down 2 parameters"):
        calibrated(write_edited(tmp_path), (Use.JUDGE, Use.JUDGE))
