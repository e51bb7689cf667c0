"""Reads a YAML file that a model brings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from stages.errors import InputError


@dataclass(frozen=True, slots=True)
class YamlFile:
    """The bytes of a file, and what they say."""

    content: bytes
    document: object


def read_yaml(path: Path, what: str, missing: str, wrong: str) -> YamlFile:
    """Reads the file; `what` names it in messages, `missing` and `wrong` are their hints.

    Raises:
        InputError: no such file, or it can't be read, or isn't YAML: with the line.
    """
    try:
        content = path.read_bytes()
        return YamlFile(content, yaml.safe_load(content.decode("utf-8")))
    except FileNotFoundError as error:
        raise InputError(f"no {what} {path.name!r}", where=str(path), hint=missing) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise InputError(
            f"the {what} isn't YAML: {problem}",
            where=f"{path}:{mark.line + 1}" if mark else str(path),
            hint=wrong,
        ) from error
    except (OSError, ValueError, RecursionError) as error:  # a date such as 2026-13-01, deep nests
        raise InputError(
            f"the {what} can't be read: {error}", where=str(path), hint=wrong
        ) from error
