"""`explanation.json`: one line for each question that was weighed, so that a diff can be read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from stages.errors import PackageError
from stages.recipe.explanation import MAX_ALTERNATIVES, Alternative, Weighed


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class _Alternative(_Part):
    name: str
    cost_cycles: int | None
    remark: str = ""


class _Weighed(_Part):
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
        first = error.errors()[0]
        path = ".".join(map(str, first["loc"]))
        raise PackageError(
            f"the package's explanation isn't in the form: {path}: {first['msg']}",
            where=where,
            hint="compile the package again with this program",
        ) from error
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
