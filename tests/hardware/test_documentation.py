"""`docs/hardware-specs.md` names every key, unit, word and shipped spec."""

from __future__ import annotations

import re
from itertools import takewhile

import pytest

from stages.hardware import vocabulary
from stages.hardware.load import load_spec, spec_names
from stages.hardware.schema import (
    CacheSection,
    DmaSection,
    DriverSection,
    HostSection,
    MemorySection,
    Section,
    SpecFile,
    TensorCoreSection,
    VectorSection,
    VendorCompilerSection,
    WeightCacheSection,
)
from stages.hardware.spec import (
    Dataflow,
    GovernorKind,
    HostMemory,
    JitterCause,
    Mark,
    SyncMode,
)
from stages.hardware.summary import list_row
from stages.units import DIMENSIONS, format_bytes
from tests.hardware.specs import ROOT, SPECS

TEXT = (ROOT / "docs" / "hardware-specs.md").read_text(encoding="utf-8")
_TABLE_OF_SPECS = "| name | what it is | array | SRAM | types |"


def test_every_section_is_described() -> None:
    for name, field in SpecFile.model_fields.items():
        assert f"`{field.alias or name}" in TEXT, name


@pytest.mark.parametrize(
    "section",
    [
        TensorCoreSection,
        VectorSection,
        DmaSection,
        MemorySection,
        CacheSection,
        WeightCacheSection,
        HostSection,
        DriverSection,
        VendorCompilerSection,
    ],
)
def test_every_key_of_what_costs_is_described(section: type[Section]) -> None:
    for name in section.model_fields:
        assert re.search(rf"`(?:[a-z_]+\.(?:\*\.|[a-z0-9_]+\.)?)?{name}`", TEXT), name


@pytest.mark.parametrize(
    "options", [Dataflow, GovernorKind, HostMemory, JitterCause, Mark, SyncMode]
)
def test_every_option_is_named(
    options: type[Dataflow | GovernorKind | HostMemory | JitterCause | Mark | SyncMode],
) -> None:
    for option in options:
        assert f"`{option}`" in TEXT


def test_every_limit_and_engine_is_named() -> None:
    for word in (*vocabulary.LIMITS, *vocabulary.RUNS_ON):
        assert f"`{word}`" in TEXT


def test_every_unit_is_named() -> None:
    units = {unit for dimension in DIMENSIONS for unit in dimension.factors}
    words = set(TEXT.replace(",", " ").replace("|", " ").split())
    assert units <= words, units - words


def test_the_table_of_specs_has_each_once() -> None:
    lines = TEXT.splitlines()
    rows = takewhile(lambda line: line.startswith("| `"), lines[lines.index(_TABLE_OF_SPECS) + 2 :])
    assert sorted(row.split("`")[1] for row in rows) == spec_names(SPECS)


def test_the_table_of_specs_is_true() -> None:
    for name in spec_names(SPECS):
        spec = load_spec(SPECS / f"{name}.yaml")
        line = next(line for line in TEXT.splitlines() if line.startswith(f"| `{name}` |"))
        assert f"| {' '.join(list_row(spec).dtypes)} |" in line
        kib = f"{spec.sram.size_bytes // 1024} KiB"
        assert f"| {kib} |" in line, format_bytes(spec.sram.size_bytes)
