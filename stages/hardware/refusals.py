"""Turns what the schema refuses into messages with file, line, key path, value and cure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from stages.errors import HardwareSpecError
from stages.hardware import schema, vocabulary
from stages.hardware.document import Document, KeyPath, Value, path_text

_SHOWN_OTHERS = 4
_MISSING_KEY = "missing key"
_UNKNOWN_KEY = "unknown key"


@dataclass(frozen=True, slots=True)
class Refusal:
    """One thing that is wrong: at which key, what, and the cure."""

    key_path: KeyPath
    problem: str
    hint: str


def refuse(document: Document, refusals: Iterable[Refusal]) -> None:
    """Raise the first of the refusals, in the order of the file; do nothing where there is none.

    Raises:
        HardwareSpecError: there is one; the others are named by line and key in its hint.
    """
    ordered = sorted(refusals, key=lambda refusal: document.line(refusal.key_path))
    if not ordered:
        return
    first, *others = ordered
    hint = first.hint
    if others:
        named = [
            f"{path_text(other.key_path)} on line {document.line(other.key_path)}"
            for other in others[:_SHOWN_OTHERS]
        ]
        more = len(others) - len(named)
        tail = f" and {more} more" if more else ""
        hint += f"\nalso wrong in this file: {', '.join(named)}{tail}"
    key = path_text(first.key_path)
    raise HardwareSpecError(
        f"{key}: {first.problem}" if key else first.problem,
        where=document.where(first.key_path),
        hint=hint,
    )


def schema_refusals(document: Document, error: ValidationError) -> list[Refusal]:
    """What the schema refused, one for each key path."""
    found: dict[KeyPath, Refusal] = {}
    for details in error.errors(include_url=False):
        refusal = _of_details(document, details)
        found.setdefault(refusal.key_path, refusal)
    misspelt = {
        _meant(document, refusal) for refusal in found.values() if refusal.problem == _UNKNOWN_KEY
    }
    return [
        refusal
        for refusal in found.values()
        if refusal.problem != _MISSING_KEY or refusal.key_path not in misspelt
    ]


def _meant(document: Document, refusal: Refusal) -> KeyPath:
    """The key that an unknown key was probably meant to be."""
    parent, key = refusal.key_path[:-1], str(refusal.key_path[-1])
    near = vocabulary.nearest(key, _unused_keys(document, parent))
    return (*parent, near or key)


def _unused_keys(document: Document, key_path: KeyPath) -> list[str]:
    """The keys that the schema knows at a place and the file doesn't have there."""
    present = _keys_at(document, key_path)
    return [key for key in _allowed_keys(key_path) if key not in present]


def _of_details(document: Document, details: ErrorDetails) -> Refusal:
    key_path: KeyPath = tuple(part for part in details["loc"] if part != "[key]")
    value = document.value(key_path)
    context = details.get("ctx", {})
    match details["type"]:
        case "refused":
            if details["loc"][-1:] == ("[key]",):
                key_path = _parent_of_key(document, key_path)
            return Refusal(key_path, context["problem"], context["hint"])
        case "missing":
            known = _keys_at(document, key_path[:-1])
            beside = f"; the keys here are {', '.join(known)}" if known else ""
            return Refusal(key_path, _MISSING_KEY, f"add `{key_path[-1]}:`{beside}")
        case "extra_forbidden":
            key = str(key_path[-1])
            unused, allowed = _unused_keys(document, key_path[:-1]), _allowed_keys(key_path[:-1])
            is_near = vocabulary.nearest(key, unused) or not vocabulary.nearest(key, allowed)
            known = unused if unused and is_near else allowed
            return Refusal(key_path, _UNKNOWN_KEY, vocabulary.did_you_mean(key, known))
        case "greater_than_equal":
            return Refusal(key_path, f"{value} is less than {context['ge']}", "raise it")
        case "less_than_equal":
            return Refusal(key_path, f"{value} is more than {context['le']}", "lower it")
        case "int_type" | "int_from_float":
            return Refusal(key_path, f"{_shown(value)} isn't a count", "write a whole number")
        case "string_type":
            if value is None:
                return Refusal(key_path, "no value", "write text")
            return Refusal(key_path, f"{_shown(value)} isn't text", _quote_hint(value))
        case "list_type":
            return Refusal(key_path, f"{_shown(value)} isn't a list", "write `[a, b]`")
        case "model_type" | "dict_type" | "model_attributes_type":
            return Refusal(key_path, f"{_shown(value)} isn't a mapping", "write `key: value` lines")
        case "too_short":
            problem = f"too few entries: {context['actual_length']}"
            return Refusal(key_path, problem, f"give at least {context['min_length']}")
        case "too_long":
            problem = f"too many entries: {context['actual_length']}"
            return Refusal(key_path, problem, f"give at most {context['max_length']}")
        case "literal_error":
            return Refusal(key_path, f"{_shown(value)} isn't {context['expected']}", "change it")
        case "string_pattern_mismatch":
            hint = "use lower-case letters, digits and underscores, at most 64"
            return Refusal(key_path, f"{_shown(value)} isn't a name", hint)
        case _:
            problem = f"{_shown(value)}: {details['msg']}"
            return Refusal(key_path, problem, "see docs/hardware-specs.md")


def _parent_of_key(document: Document, key_path: KeyPath) -> KeyPath:
    """The path of the bad key itself, which is in the document like any other."""
    return key_path if key_path in document.lines else key_path[:-1]


def _shown(value: Value) -> str:
    """A value as it is shown in a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _quote_hint(value: Value) -> str:
    if isinstance(value, bool | int | float):
        return f'put it in quotes: "{value}"'
    return "write text"


def _keys_at(document: Document, key_path: KeyPath) -> list[str]:
    value = document.value(key_path)
    return list(value) if isinstance(value, dict) else []


def _allowed_keys(key_path: KeyPath) -> list[str]:
    """The keys that the schema knows at a place."""
    model: type[schema.Section] = schema.SpecFile
    for key in key_path:
        if isinstance(key, int):
            continue
        model = _section(model, key) or model
    return [field.alias or name for name, field in model.model_fields.items()]


def _section(model: type[schema.Section], key: str) -> type[schema.Section] | None:
    """The section model under a key: bare, or as the items of a list or mapping."""
    field = model.model_fields.get(key)
    annotation = field.annotation if field else None
    candidates = [annotation, *getattr(annotation, "__args__", ())]
    for candidate in candidates:
        if isinstance(candidate, type) and issubclass(candidate, schema.Section):
            return candidate
    return None
