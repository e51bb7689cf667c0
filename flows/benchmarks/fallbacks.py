"""Which operators of which model run on the host of which device, and why.

    python -m flows.benchmarks.fallbacks FOLDER_OF_NORMALISED_MODELS... [--hardware NAMES] [--int8]

Runs the compiler's passes as far as placement and element types: tiles and addresses decide no
fallback. A row is *claimed* where the spec's operator list names the kind that fell back: then a
constraint of the list (types, limits) must exclude it, and the row shows it.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from flows.benchmarks.choice import load_specs
from flows.project.places import find_project
from models.zoo.ranges import fused_quantization
from stages.compiler.draft import Draft
from stages.compiler.pipeline import begin, rewrites
from stages.compiler.progress import Progress, rewrite
from stages.compiler.quantization import Quantization
from stages.errors import RecipeError
from stages.hardware.spec import HardwareSpec
from stages.recipe.graph import Graph
from stages.recipe.kinds import Kind
from stages.recipe.onnx_import import import_model
from stages.tensors import Array

_MODEL = "model.onnx"


@dataclass(frozen=True, slots=True)
class Fallback:
    """Operators of one kind and reason that run on the host; `claimed`: the list has the kind."""

    model: str
    hardware: str
    kind: str
    reason: str
    claimed: bool
    count: int


def fallbacks(name: str, draft: Draft, spec: HardwareSpec) -> list[Fallback]:
    """What a placed draft leaves to the host, most first."""
    kinds = {op.name: op for op in draft.graph.operators}
    found: Counter[tuple[Kind, str]] = Counter()
    for group in draft.recipe.fallbacks:
        working = [kinds[item] for item in group.operators if item == group.name]
        operator = working[0] if working else kinds[group.operators[-1]]
        found[operator.kind, group.reason] += 1
    return [
        Fallback(name, spec.name, str(kind), reason, kind in spec.operators, count)
        for (kind, reason), count in sorted(found.items(), key=lambda item: (-item[1], item[0]))
    ]


def placed(
    graph: Graph,
    constants: Mapping[str, Array],
    spec: HardwareSpec,
    quantization: Quantization | None,
) -> Progress:
    """Behind the passes that decide what runs where.

    Raises:
        CompileError: no recipe for this device exists.
    """
    return rewrite(begin(graph, constants, spec), rewrites(quantization, None), spec)


def survey(
    models: Iterable[Path], specs: Sequence[HardwareSpec], *, int8: bool
) -> Iterator[tuple[str, HardwareSpec, Draft | RecipeError]]:
    """Every model, placed on every device; an error where it has no recipe."""
    for path in models:
        graph, constants = import_model(onnx.load(path))
        for spec in specs:
            try:
                ranges = fused_quantization(graph, constants, spec) if int8 else None
                yield path.parent.name, spec, placed(graph, constants, spec, ranges).draft
            except RecipeError as error:
                yield path.parent.name, spec, error


def main() -> None:
    """Prints one line for each kind and reason, and a summary for each device."""
    parser = argparse.ArgumentParser(prog="python -m flows.benchmarks.fallbacks")
    parser.add_argument("models", nargs="+", type=Path, help="folders that normalize wrote")
    parser.add_argument("--hardware", nargs="+", help="specs; else all")
    parser.add_argument("--int8", action="store_true", help="with nominal ranges, as for timing")
    parser.add_argument("--claimed", action="store_true", help="only kinds that the list names")
    chosen = parser.parse_args()
    specs = load_specs(chosen.hardware, find_project())
    totals: Counter[tuple[str, str]] = Counter()
    paths = [path / _MODEL for path in chosen.models if (path / _MODEL).is_file()]
    for model, spec, draft in survey(paths, specs, int8=chosen.int8):
        if isinstance(draft, RecipeError):
            print(f"{model:28} {spec.name:18} NO RECIPE: {draft.problem}")
            totals[spec.name, "no recipe"] += 1
            continue
        groups = len(draft.recipe.groups)
        rows = fallbacks(model, draft, spec)
        on_host = sum(row.count for row in rows)
        print(f"{model:28} {spec.name:18} {groups:4} groups, {on_host} on the host", flush=True)
        for row in rows:
            totals[spec.name, "claimed" if row.claimed else "unlisted"] += row.count
            if row.claimed or not chosen.claimed:
                mark = "claimed " if row.claimed else "unlisted"
                print(f"    {row.count:4} {mark} {row.kind}: {row.reason}")
    for (hardware, what), count in sorted(totals.items()):
        print(f"total {hardware:18} {what:10} {count}")


if __name__ == "__main__":
    main()
