"""What came of a commit: a row for each pair, results.json and report.md in the history."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.git.command import SHORT
from flows.project.files import write_beside
from flows.project.places import Project
from flows.project.requests import Pair
from flows.repositories.commit_plan import CommitPlan
from flows.repositories.processed import Failing
from flows.terminal.outcomes import GRAVITY, worst
from stages.comparison.nights import Figure, PairNight
from stages.comparison.stage_names import STAGES
from stages.errors import InputError, Outcome
from stages.report.markdown import escape
from stages.report.night import value_text

COMMITS_FOLDER = "history/commits"
RESULTS_FILE, REPORT_FILE = "results.json", "report.md"
_SHOWN = (
    Figure.P50,
    Figure.P99,
    Figure.TAIL,
    Figure.HOT_TAIL,
    Figure.SRAM,
    Figure.DDR,
    Figure.FALLBACKS,
    Figure.SQNR,
)


@dataclass(frozen=True, slots=True)
class CommitRow:
    """A pair at a commit. `change` says in a word what happened to the model, `changed_in` is the
    newest commit that touched it; `by_defect` that its files can't be had."""

    commit: str
    change: str
    changed_in: str
    path: str
    measured: PairNight
    by_defect: bool = False

    @property
    def pair(self) -> Pair:
        """The model and the device."""
        return Pair(self.measured.model, self.measured.hardware)

    @property
    def outcome(self) -> Outcome:
        """The worst of its stages."""
        return self.measured.outcome


@dataclass(frozen=True, slots=True)
class CommitResult:
    """What came of a range of commits; `rows` worst first.

    `headline` says it in a line. `folder` holds results.json and report.md, None where no model
    was touched. `still_failing` are pairs that failed before, and that weren't run.
    """

    plan: CommitPlan
    rows: tuple[CommitRow, ...]
    still_failing: Mapping[Pair, Failing]
    headline: str
    report: str
    folder: Path | None
    recorded: bool

    @property
    def outcome(self) -> Outcome:
        """The worst of the pairs that the range affects."""
        return worst(row.outcome for row in self.rows)


def worst_first(rows: Sequence[CommitRow]) -> tuple[CommitRow, ...]:
    """Gravest outcome first, then by name."""
    order = {outcome: place for place, outcome in enumerate(GRAVITY)}
    return tuple(sorted(rows, key=lambda row: (order[row.outcome], row.pair)))


def headline_of(plan: CommitPlan, rows: Sequence[CommitRow]) -> str:
    """What came of it in one line, the reason of the worst pair in it."""
    changes = plan.changes
    here = f"{plan.config.name} at {changes.until[:SHORT]}"
    gone = f"; deleted: {', '.join(changes.deleted)}" if changes.deleted else ""
    if not rows:
        since = f" since {changes.since[:SHORT]}" if changes.since else ""
        what = "no model to run" if changes.deleted else "no model changed"
        return f"{here}: nothing to do, {what}{since}{gone}"
    models = {row.pair.model for row in rows}
    bad = [row for row in rows if row.outcome is not Outcome.PASSED]
    count = f"{len(models)} of {len(changes.models)} models, {_pairs(len(rows))}"
    if not bad:
        return f"{here}: {count}, all passed{gone}"
    first = bad[0]
    why = f"{first.outcome.name}, {first.pair.model} on {first.pair.hardware}"
    reason = f": {first.measured.reason}" if first.measured.reason else ""
    return f"{here}: {why}{reason}; {len(bad)} of {_pairs(len(rows))} failed{gone}"


def _pairs(count: int) -> str:
    return f"{count} pair{'' if count == 1 else 's'}"


def commit_folder(project: Project, plan: CommitPlan) -> Path:
    """Where the results of the plan's last commit lie."""
    return project.root / COMMITS_FOLDER / plan.config.name / plan.changes.until


def write_results(
    project: Project,
    plan: CommitPlan,
    rows: Sequence[CommitRow],
    failing: Mapping[Pair, Failing],
    report: str,
) -> Path:
    """Writes results.json and report.md; rows of other pairs of the commit stay in results.json.

    Raises:
        InputError: the history can't be written.
    """
    folder = commit_folder(project, plan)
    path = folder / RESULTS_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        content = _document(plan, rows, failing, _rows_before(path))
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        write_beside(path, text.encode("utf-8", "backslashreplace"))
        write_beside(folder / REPORT_FILE, report.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise InputError(
            f"the commit's results can't be written: {error.strerror}",
            where=str(folder),
            hint="free some space or let the folder be written, and run again: what ran is cached",
        ) from error
    return folder


def _rows_before(path: Path) -> list[dict[str, Any]]:
    """Rows of an earlier run of the same commit; one that was cut off or is missing has none."""
    try:
        rows = json.loads(path.read_bytes())["rows"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return []
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _document(
    plan: CommitPlan,
    rows: Sequence[CommitRow],
    failing: Mapping[Pair, Failing],
    before: list[dict[str, Any]],
) -> dict[str, object]:
    changes = plan.changes
    ours = {(row.pair.model, row.pair.hardware) for row in rows}
    others = [row for row in before if (row.get("model"), row.get("hardware")) not in ours]
    return {
        "version": 1,
        "repository": plan.config.name,
        "url": plan.config.shown_url,
        "branch": plan.config.branch,
        "since": changes.since,
        "commit": changes.until,
        "renamed": dict(changes.renamed),
        "deleted": list(changes.deleted),
        "remarks": list(plan.remarks),
        "still_failing": [
            {
                "model": pair.model,
                "hardware": pair.hardware,
                "since": known.since,
                "outcome": Outcome(known.outcome).name,
            }
            for pair, known in failing.items()
        ],
        "rows": [*(_row_document(row) for row in rows), *others],
    }


def _row_document(row: CommitRow) -> dict[str, object]:
    measured = row.measured
    return {
        "commit": row.commit,
        "model": measured.model,
        "hardware": measured.hardware,
        "change": row.change,
        "changed_in": row.changed_in,
        "path": row.path,
        "outcome": measured.outcome.name,
        "verdicts": dict(zip(STAGES, measured.verdicts, strict=True)),
        "reason": measured.reason,
        "package": measured.package,
        "hardware_digest": measured.hardware_digest,
        "project": measured.commit,
        "seed": measured.seed,
        "runs": measured.runs,
        "p50_ns": measured.p50_ns,
        "p99_ns": measured.p99_ns,
        "hot_p50_ns": measured.hot_p50_ns,
        "hot_p99_ns": measured.hot_p99_ns,
        "peak_sram_bytes": measured.peak_sram_bytes,
        "peak_ddr_bytes": measured.peak_ddr_bytes,
        "fallbacks": measured.fallbacks,
        "sqnr_db": measured.sqnr_db,
    }


def report_of(
    plan: CommitPlan, rows: Sequence[CommitRow], failing: Mapping[Pair, Failing], headline: str
) -> str:
    """The report in Markdown: the headline, a row for each pair, and what else is to be said."""
    changes, config = plan.changes, plan.config
    since = f"`{changes.since[:SHORT]}`.." if changes.since else "all models at "
    lines = [f"**{escape(headline)}**", ""]
    lines += [f"{escape(config.name)}, branch {escape(config.branch)}: {since}"
              f"`{changes.until}`"]  # fmt: skip
    if rows:
        heads = ["model", "device", "change", "result", *_SHOWN, "package", "commit"]
        lines += ["", f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
        lines += [f"| {' | '.join(cells_of(row))} |" for row in rows]
    reasons = [row for row in rows if row.measured.reason]
    if reasons:
        lines += ["", *(f"- {_pair_text(row.pair)}: {escape(row.measured.reason)}"
                        for row in reasons)]  # fmt: skip
    said = [f"{escape(old)} is called {escape(new)} now, and is held against the old name's "
            "baselines" for new, old in changes.renamed.items()]  # fmt: skip
    said += [f"{escape(name)} was deleted: its pairs weren't run" for name in changes.deleted]
    said += [
        f"{_pair_text(pair)} still fails since `{known.since[:SHORT]}` "
        f"({Outcome(known.outcome).name}); it wasn't run"
        for pair, known in failing.items()
    ]
    said += [escape(remark) for remark in plan.remarks]
    if said:
        lines += ["", *(f"- {line}" for line in said)]
    return "\n".join(lines) + "\n"


def _pair_text(pair: Pair) -> str:
    return f"{escape(pair.model)} on {escape(pair.hardware)}"


def cells_of(row: CommitRow) -> list[str]:
    """The row's cells in Markdown."""
    measured = row.measured
    result = "PASS" if row.outcome is Outcome.PASSED else f"**{row.outcome.name}**"
    figures = [value_text(figure, measured.value(figure)) for figure in _SHOWN]
    package = f"`{measured.package[:SHORT]}`" if measured.package else "-"
    names = [escape(measured.model), escape(measured.hardware), escape(row.change)]
    return [*names, result, *figures, package, f"`{row.changed_in[:SHORT]}`"]
