"""What a commit of a model repository asks for: the range, the models it touches, their pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from flows.git.command import SHORT, is_ancestor, merge_base
from flows.project.params import load_params
from flows.project.places import Project
from flows.project.requests import Pair
from flows.repositories.model_changes import ModelChanges, changes
from flows.repositories.model_repository import (
    Mirror,
    RepositoryConfig,
    find_repository,
    open_mirror,
)
from flows.repositories.processed import BranchRecord, Failing, last_processed

RETRIED = "retried"


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """Which repository, and which commits: from `since`, exclusive, to `until`.

    None means since the last one processed, and until the branch's head. `hardware` empty means
    what repositories.yaml or else the matrix says.
    """

    repository: str
    since: str | None = None
    until: str | None = None
    hardware: tuple[str, ...] = ()
    jobs: int | None = None


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """What there is to do. `pairs` says of each pair what happened to its model, in a word.

    `before` is what was recorded of the branch. `advances` says that the range begins where the
    last one ended, on all devices, so that it may be recorded as processed.
    """

    mirror: Mirror
    changes: ModelChanges
    hardware: tuple[str, ...]
    pairs: Mapping[Pair, str]
    before: BranchRecord | None
    advances: bool
    remarks: tuple[str, ...]

    @property
    def config(self) -> RepositoryConfig:
        """The repository."""
        return self.mirror.config


def plan_commit(project: Project, request: CommitRequest, say: Callable[[str], None]) -> CommitPlan:
    """Fetches the repository, and compares the models at both ends of the range.

    Raises:
        GitError: the repository can't be fetched, or has no such branch or commit.
        InputError: a configuration is wrong, or two models have one name.
        HardwareSpecError: no such device.
    """
    config = find_repository(project, request.repository)
    hardware = _hardware(project, request, config)
    mirror = open_mirror(project, config, say)
    until = mirror.head() if request.until is None else mirror.commit(request.until)
    before = last_processed(project, config.name, config.branch)
    remarks: list[str] = []
    if request.since is not None:
        since: str | None = mirror.commit(request.since)
    else:
        since = _since(mirror, before, until, remarks)
    found = changes(mirror, since, until)
    pairs = {Pair(name, device): found.kind_of(name)
             for name in found.affected for device in hardware}  # fmt: skip
    advances = _advances(mirror, request, before, since, until)
    if not advances:
        remarks.append(
            f"the last commit processed stays {_named(before)}: this range isn't what follows it, "
            "or not all devices were asked for"
        )
    elif request.since is None and before is not None:
        pairs |= _never_run(found, before, hardware)
        pairs |= dict.fromkeys(_to_retry(found, before, hardware, pairs), RETRIED)
    every = (*remarks, *found.remarks)
    return CommitPlan(mirror, found, hardware, pairs, before, advances, every)


def _hardware(
    project: Project, request: CommitRequest, config: RepositoryConfig
) -> tuple[str, ...]:
    from stages.hardware.load import find_spec

    wanted = request.hardware or config.hardware or load_params(project.params).matrix.hardware
    for name in wanted:
        find_spec(name, project.hardware_specs)
    return tuple(dict.fromkeys(wanted))


def _since(
    mirror: Mirror, before: BranchRecord | None, until: str, remarks: list[str]
) -> str | None:
    """Where the range begins: at the last commit processed, or what is left of its history."""
    if before is None:
        return None
    last, name = before.commit, mirror.config.name
    if not mirror.has(last):
        remarks.append(
            f"{name} was force-pushed, and the last commit processed, {last[:SHORT]}, is gone: "
            "all models are compared with what was run"
        )
        return None
    if is_ancestor(mirror.folder, last, until):
        return last
    if is_ancestor(mirror.folder, until, last):
        remarks.append(f"{until[:SHORT]} was processed before, as part of {last[:SHORT]}")
        return until
    base = merge_base(mirror.folder, last, until)
    fallback = f"their merge base {base[:SHORT]}" if base else "nothing: they share no history"
    remarks.append(
        f"{name} was force-pushed: the last commit processed, {last[:SHORT]}, isn't an ancestor "
        f"of {until[:SHORT]}; compared with {fallback}"
    )
    return base


def _never_run(
    found: ModelChanges, before: BranchRecord, hardware: tuple[str, ...]
) -> Iterator[tuple[Pair, str]]:
    """Pairs of models that differ from what was last run, though the range doesn't touch them: the
    globs or the registry's place were changed, or history was rewritten."""
    for name, model in found.models.items():
        if name not in found.affected and before.models.get(name) != model.fingerprint:
            for device in hardware:
                yield Pair(name, device), "not run before"


def _to_retry(
    found: ModelChanges,
    before: BranchRecord,
    hardware: tuple[str, ...],
    pairs: Mapping[Pair, str],
) -> Iterator[Pair]:
    """Pairs that failed by the machine, or whose files couldn't be had."""
    for name, by_device in before.failing.items():
        for device, failing in by_device.items():
            pair = Pair(name, device)
            known = name in found.models and device in hardware and pair not in pairs
            if known and (failing.is_worth_retrying or failing.by_defect):
                yield pair


def _advances(
    mirror: Mirror,
    request: CommitRequest,
    before: BranchRecord | None,
    since: str | None,
    until: str,
) -> bool:
    """Whether afterwards everything up to `until` has been run, on all devices."""
    if request.hardware:
        return False
    if before is None or not mirror.has(before.commit):
        return True
    last = before.commit
    if request.since is not None and since is not None:
        begins_later = not is_ancestor(mirror.folder, since, last)
    else:
        begins_later = False
    return not begins_later and (request.until is None or is_ancestor(mirror.folder, last, until))


def _named(before: BranchRecord | None) -> str:
    return before.commit[:SHORT] if before is not None else "none"


def still_failing(plan: CommitPlan) -> Mapping[Pair, Failing]:
    """Pairs that failed before, and that this range doesn't run."""
    if plan.before is None:
        return {}
    return {
        Pair(name, device): failing
        for name, by_device in plan.before.failing.items()
        for device, failing in by_device.items()
        if name in plan.changes.models and Pair(name, device) not in plan.pairs
    }
