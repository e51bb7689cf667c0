"""Operators that follow from what a list has."""

from __future__ import annotations

from dataclasses import replace

from stages.hardware.compositions import composed_cycles, with_compositions
from stages.hardware.spec import OperatorSupport
from stages.tensors import DType

WHOLE = "softmax_numerator"
PARTS = ("reduce_max", "sub", "exp")
ALL = frozenset({DType.F16, DType.I8})


def _listed(**other: OperatorSupport) -> dict[str, OperatorSupport]:
    return {part: OperatorSupport("vector", ALL, {}) for part in PARTS} | other


def test_it_takes_what_all_of_its_parts_take() -> None:
    narrow = OperatorSupport("vector", frozenset({DType.F16}), {"rank": (1, 4), "extent": (1, 99)})
    low = OperatorSupport("vector", ALL, {"rank": (2, 8)})
    found = with_compositions(_listed(exp=narrow, sub=low))[WHOLE]
    assert found == OperatorSupport(
        "vector", frozenset({DType.F16}), {"rank": (2, 4), "extent": (1, 99)}
    )


def test_there_is_none_where_a_part_is_missing_or_runs_elsewhere() -> None:
    for part in PARTS:
        rest = {kind: entry for kind, entry in _listed().items() if kind != part}
        assert WHOLE not in with_compositions(rest)
        elsewhere = {part: replace(_listed()[part], engine="dma")}
        assert WHOLE not in with_compositions(_listed(**elsewhere))


def test_what_a_spec_says_itself_stays() -> None:
    own = OperatorSupport("vector", frozenset({DType.I8}), {})
    assert with_compositions(_listed(**{WHOLE: own}))[WHOLE] is own
    assert composed_cycles({WHOLE: 3, "exp": 18}, 1)[WHOLE] == 3


def test_its_cycles_are_its_parts_together() -> None:
    assert composed_cycles({"reduce_max": 16, "exp": 18}, 1) == {
        "reduce_max": 16, "exp": 18, WHOLE: 35,
    }  # fmt: skip
