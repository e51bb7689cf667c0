"""Names of parameters, what a spec marks as fitted, and values as text."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages import units
from stages.calibration.parameters import (
    MOST_PARAMETERS,
    choose_parameters,
    known_parameters,
    quantity_text,
)
from stages.calibration.predict import Tuner, read_base
from stages.errors import InputError
from stages.hardware.load import load_spec, spec_files
from tests.calibration.synthetic import SPECS
from tests.hardware.specs import write_edited


def names_of(path: Path, *chosen: str) -> list[str]:
    return [parameter.name for parameter in choose_parameters(read_base(path), chosen)]


def test_a_spec_without_fitted_numbers_has_the_usual_five() -> None:
    assert names_of(SPECS / "npu_tiny.yaml") == [
        "driver.submit",
        "driver.launch",
        "tensor_core.efficiency",
        "vector.efficiency",
        "memory.ddr.bandwidth",
    ]


@pytest.mark.parametrize("path", spec_files(SPECS), ids=lambda path: path.stem)
def test_no_shipped_spec_has_more_than_six_fitted_parameters(path: Path) -> None:
    chosen = choose_parameters(read_base(path), [])
    assert 1 <= len(chosen) <= MOST_PARAMETERS
    for parameter in chosen:
        assert parameter.low <= parameter.start <= parameter.high


def test_what_a_spec_marks_as_fitted_is_fitted(tmp_path: Path) -> None:
    fitted = "  memory.ddr.write_bandwidth: {mark: fitted, source: t}\n"
    text = (SPECS / "npu_tiny.yaml").read_text(encoding="utf-8")
    text = text.replace("\nsources:\n", "\nsources:\n" + fitted)
    path = tmp_path / "npu_tiny.yaml"
    path.write_text(text, encoding="utf-8")
    assert names_of(path) == ["memory.ddr.write_bandwidth"]
    both = fitted + "  memory.ddr.read_bandwidth: {mark: fitted, source: t}\n"
    path.write_text(text.replace(fitted, both), encoding="utf-8")
    assert names_of(path) == ["memory.ddr.bandwidth"]


def test_one_name_sets_several_keys() -> None:
    known = known_parameters(read_base(SPECS / "npu_tiny.yaml"))
    assert known["memory.ddr.bandwidth"].paths == (
        ("memory", "ddr", "read_bandwidth"),
        ("memory", "ddr", "write_bandwidth"),
    )
    assert known["tensor_core.efficiency"].paths == (
        ("tensor_core", "efficiency", "i8"),
        ("tensor_core", "efficiency", "u8"),
        ("tensor_core", "efficiency", "f16"),
    )
    assert known["tensor_core.efficiency.i8"].start == 1000


def test_types_with_one_fitted_efficiency_are_one_parameter(tmp_path: Path) -> None:
    text = (SPECS / "npu_tiny.yaml").read_text(encoding="utf-8")
    mark = "  tensor_core.efficiency: {mark: fitted, source: t}\n"
    text = text.replace("\nsources:\n", "\nsources:\n" + mark)
    path = tmp_path / "npu_tiny.yaml"
    for efficiency, names in (
        ("{i8: 80 %, u8: 80 %}", ["tensor_core.efficiency"]),
        ("{i8: 80 %, u8: 80 %, f16: 70 %}",
         ["tensor_core.efficiency.f16", "tensor_core.efficiency.int8"]),
    ):  # fmt: skip
        edited = text.replace("\n  fill:", f"\n  efficiency: {efficiency}\n  fill:", 1)
        path.write_text(edited, encoding="utf-8")
        assert sorted(names_of(path)) == names


def test_an_engine_without_overhead_keeps_none() -> None:
    document = read_base(SPECS / "nvidia_t4.yaml")
    assert document.value(("driver", "launch", "dma")) == "0 ns"
    assert ("driver", "launch", "dma") not in known_parameters(document)["driver.launch"].paths


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["memory.dd.bandwidth"], "'memory.dd.bandwidth' is no parameter"),
        (["memory.l2.bandwidth"], "'memory.l2.bandwidth' is no parameter"),
        (["driver.launch", "driver.launch.vector"], "would be fitted twice"),
        (["driver.submit", "driver.submit"], "driver.submit would be fitted twice"),
        (
            [
                "driver.submit", "driver.launch", "tensor_core.efficiency", "vector.efficiency",
                "vector.startup", "host.sync", "host.call",
            ],
            "7 parameters are too many, at most 6",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(names: list[str], problem: str) -> None:
    with pytest.raises(InputError, match=problem) as refused:
        names_of(SPECS / "npu_tiny.yaml", *names)
    assert refused.value.where == "--fit"
    assert refused.value.hint


@pytest.mark.parametrize(
    ("value", "dimension", "text"),
    [
        (9_310_000_000, units.BANDWIDTH, "9.31 GB/s"),
        (1_000_000_007, units.BANDWIDTH, "1.000000007 GB/s"),
        (853, units.SHARE, "85.3 %"),
        (1000, units.SHARE, "100 %"),
        (5, units.SHARE, "5 permille"),
        (1518, units.DURATION, "1.518 us"),
        (40, units.CYCLES, "40 cycles"),
    ],
)
def test_values_are_written_as_a_person_would(value: int, dimension, text: str) -> None:
    assert quantity_text(value, dimension) == text


@given(
    st.integers(1, 10**15),
    st.sampled_from([units.BANDWIDTH, units.DURATION, units.SHARE, units.CYCLES]),
)
def test_a_written_value_is_read_exactly(value: int, dimension: units.Dimension) -> None:
    assert units.parse_quantity(quantity_text(value, dimension), dimension) == value
    assert Fraction(1) in dimension.factors.values()


def test_a_count_is_written_without_a_unit(tmp_path: Path) -> None:
    path = write_edited(tmp_path)
    known = known_parameters(read_base(path))["tensor_core.depthwise_macs_per_cycle"]
    spec = load_spec(path)
    assert known.yaml(17) == 17
    assert known.text(17) == "17"
    assert known.start == max(1, spec.tensor_core.depthwise_macs_per_cycle)


@pytest.mark.parametrize("path", spec_files(SPECS), ids=lambda path: path.stem)
def test_what_a_fit_may_try_no_spec_refuses(path: Path) -> None:
    document = read_base(path)
    for parameter in known_parameters(document).values():
        for value in (parameter.low, parameter.start, parameter.high):
            Tuner(document, (parameter,)).spec([value])
