"""Whatever a spec file holds, it is read or refused with file, problem and cure."""

from __future__ import annotations

import copy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stages.errors import HardwareSpecError
from stages.hardware.cost import contraction_cycles, host_cycles, transfer_cost, vector_cycles
from stages.hardware.load import load_spec
from stages.hardware.spec import HardwareSpec
from stages.hardware.summary import summarise
from stages.plan.costs import Role, instruction_costs
from tests.device.plans import copy as copy_of
from tests.device.plans import plan, region
from tests.hardware.specs import TINY, with_optional_keys

BASE = yaml.safe_load(TINY)
PLAN = plan(
    (
        copy_of(region("ddr", 0, (64, 8), strides=(512, 2)), region("sram", 0, (64, 8))),
        copy_of(region("sram", 0, (64, 8)), region("ddr", 0, (64, 8), strides=(512, 2))),
    )
)
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["1 KiB", "0 B", "-1 ns", "1e9 GHz", "5 cycles", "1 degC", "1 pJ", "f16", "conv", "nhwc"]
    ),
    st.just([]),
    st.just({}),
    st.lists(st.integers(0, 3), max_size=3),
    st.dictionaries(st.text(max_size=4), st.integers(0, 3), max_size=2),
)


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything inside a value."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    found = [(*path, key) for key, _ in items]
    for key, item in items:
        found += paths_of(item, (*path, key))
    return found


PATHS = paths_of(BASE)
with TemporaryDirectory() as _folder:
    RICH = yaml.safe_load(with_optional_keys(Path(_folder)).read_text(encoding="utf-8"))
OPTIONAL = [path for path in paths_of(RICH) if path not in set(PATHS)]


def exercise(spec: HardwareSpec) -> None:
    """Whatever is loaded can be summarised and priced."""
    summarise(spec, spec.name)
    for dtype in spec.tensor_core.macs_per_cycle:
        assert contraction_cycles(spec.tensor_core, 49, 64, 576, 1, 9, dtype) >= 1
    assert vector_cycles(spec.vector, ["softmax"], 1000, 2) >= 1
    assert transfer_cost(spec, 1000, 100, "ddr", "sram").channel_cycles >= 1
    assert host_cycles(spec, 1, 1000, 1000, 1000) >= 1
    costs = instruction_costs(PLAN, spec)
    assert all(
        cycles >= 1
        for cycles, role in zip(costs.cycles, costs.roles, strict=True)
        if role is Role.TRANSFER
    )


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.tuples(st.just(BASE), st.sampled_from(PATHS))
    | st.tuples(st.just(RICH), st.sampled_from(OPTIONAL)),
    JUNK,
    st.sampled_from(["replace", "remove", "rename"]),
)
def test_one_change_is_read_or_refused(
    tmp_path: Path, case: tuple[Any, tuple[Any, ...]], junk: Any, how: str
) -> None:
    base, where = case
    data = copy.deepcopy(base)
    parent = data
    for key in where[:-1]:
        parent = parent[key]
    if how == "replace" or isinstance(parent, list):
        parent[where[-1]] = junk
    else:
        taken = parent.pop(where[-1])
        if how == "rename":
            parent[f"{where[-1]}x"] = taken
    path = tmp_path / "npu_tiny.yaml"
    path.write_text(yaml.safe_dump(data, allow_unicode=True), encoding="utf-8")
    try:
        spec = load_spec(path)
    except HardwareSpecError as error:
        assert error.problem  # noqa: PT017
        assert error.where.startswith(str(path))  # noqa: PT017
        assert error.hint  # noqa: PT017
    else:
        exercise(spec)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=40))
def test_any_bytes_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bytes.yaml"
    path.write_bytes(content)
    with pytest.raises(HardwareSpecError) as caught:
        load_spec(path)
    assert caught.value.where.startswith(str(path))
