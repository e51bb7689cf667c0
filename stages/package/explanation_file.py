"""`explanation.json`: one line for each question that was weighed, so that a diff can be read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from stages.package.json_door import Piece, malformed
from stages.recipe.explanation import MAX_ALTERNATIVES, Alternative, Weighed


class _Alternative(Piece):
    name: str
    cost_cycles: int | None
    remark: str = ""


class _Weighed(Piece):
    subject: str
    question: str
    alternatives: Annotated[list[_Alternative], Field(max_length=MAX_ALTERNATIVES)]
    chosen: str
    bound: str


def print_explanation(explanation: Iterable[Weighed]) -> str:
    """The text of `explanation.json`."""
    lines = [
        json.dumps(_document(item), ensure_ascii=False, separators=(",", ":"))
        for item in explanation
    ]
    return "[\n" + ",\n".join(lines) + "\n]\n" if lines else "[]\n"


def read_explanation(data: bytes, where: str) -> tuple[Weighed, ...]:
    """What `print_explanation` wrote; `where` names the file in errors.

    Raises:
        PackageError: it isn't in the form.
    """
    try:
        items = TypeAdapter(list[_Weighed]).validate_json(data)
    except ValidationError as error:
        hint = "compile the package again with this program"
        raise malformed("the explanation", error, where, hint) from error
    return tuple(
        Weighed(
            item.subject,
            item.question,
            tuple(Alternative(one.name, one.cost_cycles, one.remark) for one in item.alternatives),
            item.chosen,
            item.bound,
        )
        for item in items
    )


def _document(item: Weighed) -> dict[str, object]:
    alternatives = []
    for one in item.alternatives:
        found: dict[str, object] = {"name": one.name, "cost_cycles": one.cost_cycles}
        if one.remark:
            found["remark"] = one.remark
        alternatives.append(found)
    return {
        "subject": item.subject,
        "question": item.question,
        "alternatives": alternatives,
        "chosen": item.chosen,
        "bound": item.bound,
    }
