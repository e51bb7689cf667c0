"""What benches are asked on their command lines: models of the zoo, and devices."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from flows.project.places import Project, hardware_path
from stages.hardware.load import load_spec, spec_names
from stages.hardware.spec import HardwareSpec


def bench_parser(
    bench: str, about: str | None, models: Sequence[str], hardware: Sequence[str]
) -> argparse.ArgumentParser:
    """The parser of a bench of models on devices, with those that it takes by default."""
    parser = argparse.ArgumentParser(prog=f"python -m flows.benchmarks.{bench}", description=about)
    parser.add_argument("--models", nargs="+", default=models)
    parser.add_argument("--hardware", nargs="+", default=hardware)
    return parser


def load_specs(names: Sequence[str] | None, project: Project) -> list[HardwareSpec]:
    """The devices with these names; all where none is named.

    Raises:
        HardwareSpecError: there is no such spec, or it is wrong.
    """
    chosen = names or spec_names(project.hardware_specs)
    return [load_spec(hardware_path(name, project)) for name in chosen]
