"""What of a package was decided without a look at any constant's elements.

Graph, types, spec and compiler decide groups, layouts, tiles, addresses and the plan; the elements
of weights decide nothing of it. `structure_sha256` stands for all of what does. So where another
model has the same structure, these decisions hold for it as they are, and only its weights must be
packed. They lie in `decisions.json`, in each package, together with its other files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from stages.package.json_door import Piece, malformed
from stages.plan.packing import Packed, Packing, Part, Whole
from stages.recipe.decisions import Recipe
from stages.recipe.explanation import Weighed
from stages.tensors import Box


@dataclass(frozen=True, slots=True)
class PlanFiles:
    """A plan as it lies in a package: its text and its binary form."""

    text: bytes
    binary: bytes


@dataclass(frozen=True, slots=True)
class DecidedFacts:
    """What `decisions.json` holds.

    `structure_sha256` is empty where a hand changed the decisions: then they are no one's but this
    package's. `notes` and the last `weighed_count` entries of the explanation come with the
    decisions; what stands before them comes from rewrites, which do read constants. `sources` name,
    for each constant of the recipe, the one that the rewrites left. `instructions` and `cycles`
    (jitter-free, of one inference) are those of the plan.
    """

    structure_sha256: str = ""
    notes: tuple[str, ...] = ()
    weighed_count: int = 0
    sources: Mapping[str, str] = field(default_factory=dict)
    packings: tuple[Packing, ...] = ()
    instructions: int = 0
    cycles: int = 0


@dataclass(frozen=True, slots=True)
class StoredDecisions:
    """Decisions that can be used again: the recipe and what was weighed, without what the rewrites
    said, and the plan as files."""

    facts: DecidedFacts
    recipe: Recipe
    weighed: tuple[Weighed, ...]
    plan: PlanFiles


_Size = Annotated[int, Field(ge=0)]


class _Packing(Piece):
    """`parts`: index of the value among `values`, offset, then start and stop of each axis."""

    name: str
    whole: str = ""
    size_bytes: _Size = 0
    values: list[str] = Field(default_factory=list)
    parts: list[list[_Size]] = Field(default_factory=list)


class _Document(Piece):
    structure_sha256: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]
    notes: list[str]
    weighed_count: _Size
    sources: dict[str, str]
    packings: list[_Packing]
    instructions: _Size
    cycles: _Size


def print_decisions(facts: DecidedFacts) -> str:
    """The text of `decisions.json`: one line a packing."""
    head = {
        "structure_sha256": facts.structure_sha256,
        "notes": facts.notes,
        "weighed_count": facts.weighed_count,
        "instructions": facts.instructions,
        "cycles": facts.cycles,
        "sources": dict(sorted(facts.sources.items())),
    }
    lines = [f"{_compact(key)}: {_compact(value)}" for key, value in head.items()]
    packings = ",\n".join(_compact(_packing_document(item)) for item in facts.packings)
    lines.append(f'"packings": [\n{packings}\n]' if packings else '"packings": []')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read_decisions(data: bytes, where: str) -> DecidedFacts:
    """What `print_decisions` wrote; `where` names the file in errors.

    Raises:
        PackageError: it isn't in the form.
    """
    try:
        found = _Document.model_validate_json(data)
        packings = tuple(_packing(item) for item in found.packings)
    except (ValueError, IndexError) as error:
        hint = "compile the package again with this program"
        raise malformed("the package's decisions", error, where, hint) from error
    return DecidedFacts(
        found.structure_sha256,
        tuple(found.notes),
        found.weighed_count,
        found.sources,
        packings,
        found.instructions,
        found.cycles,
    )


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _packing_document(item: Packing) -> dict[str, object]:
    if isinstance(item, Whole):
        return {"name": item.name, "whole": item.value}
    values = list(dict.fromkeys(part.value for part in item.parts))
    index = {value: number for number, value in enumerate(values)}
    parts = [
        [index[part.value], part.offset_bytes, *(edge for span in part.box for edge in span)]
        for part in item.parts
    ]
    return {"name": item.name, "size_bytes": item.size_bytes, "values": values, "parts": parts}


def _packing(item: _Packing) -> Packing:
    if item.whole:
        return Whole(item.name, item.whole)
    parts = tuple(
        Part(item.values[numbers[0]], _box(numbers[2:]), numbers[1]) for numbers in item.parts
    )
    return Packed(item.name, item.size_bytes, parts)


def _box(edges: list[int]) -> Box:
    return tuple(zip(edges[::2], edges[1::2], strict=True))
