"""What a night was asked for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NightRequest:
    """A night. `seed` None means the date; `jobs` None means one a core.

    `only_stale` brings the project's own checkout up to date instead, with the seeds that it has,
    and on this machine. `shards` and `work_pool` let the workers of a pool run the stages; both are
    given, or neither.
    """

    seed: int | None = None
    only_stale: bool = False
    jobs: int | None = None
    shards: int | None = None
    work_pool: str = ""
