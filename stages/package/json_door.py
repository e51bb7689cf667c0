"""What the doors of a package's JSON files share."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

from stages.errors import PackageError


class Piece(BaseModel):
    """A piece of a document: no key but the known ones, each value of its own type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


def malformed(what: str, error: Exception, where: str, hint: str) -> PackageError:
    """The refusal of a document that isn't in its form, which tells of its first fault."""
    fault = str(error)
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        fault = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
    return PackageError(f"{what} isn't in the form: {fault}", where=where, hint=hint)
