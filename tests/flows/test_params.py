"""params.yaml at the door."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.params import Params, load_params
from stages.errors import InputError


def test_the_projects_file_states_the_defaults(repository: Path) -> None:
    assert load_params(repository / "params.yaml") == Params()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("benchmark: {runs: 0}", "benchmark.runs = 0"),
        ("benchmark: {run: 5}", "benchmark.run = 5"),
        ("validate: {min_cosine: 2}", "validate.min_cosine = 2"),
        ("gate: {max_p99_increase_percent: five}", "gate.max_p99_increase_percent = 'five'"),
        ("gate: [", "aren't YAML"),
        ("- a", "the file = ['a']"),
    ],
)
def test_a_wrong_value_is_refused_by_its_key(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "params.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as refused:
        load_params(file)
    assert message in str(refused.value)
    assert str(file) in refused.value.where


def test_the_command_line_wins_over_the_file() -> None:
    params = Params().with_benchmark(7, None).with_stress(None, 3)
    assert (params.benchmark.runs, params.benchmark.seed) == (7, 0)
    assert (params.thermal_stress.runs, params.thermal_stress.seed) == (1000, 3)
