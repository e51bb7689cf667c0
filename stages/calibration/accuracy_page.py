"""The page that says how far the simulated device errs: Markdown, the same facts the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from stages.calibration.accuracy import (
    ChipAccuracy,
    JudgeSet,
    LeftOut,
    PredictedRow,
    figures_of,
    figures_of_own,
)
from stages.calibration.figures import ErrorFigures, rounded
from stages.calibration.measurements import Precision, Use
from stages.calibration.scatter import Marker, Point, Series, scatter_svg

_NS_PER_MS = 1e6
_MARKERS = {
    Precision.FP16: Marker.CIRCLE,
    Precision.INT8: Marker.SQUARE,
    Precision.W8A16: Marker.TRIANGLE,
}
NO_CASCADES = "not compiled"
"""What stands in the column of cascades where no plan with them was asked for."""

_INTRODUCTION = """\
# How far the simulated device errs

Made by `make bench` (`python -m flows.benchmarks.device_accuracy`) from the published latencies in
`measurements/` and the networks in `models/zoo/`; `recipe calibrate` does the same for any chip.

Each network is compiled for the shipped spec as the vendors' compilers do it: constants and
affines folded, operators fused, layouts chosen, then layer by layer. No load runs ahead of the
layer before, nothing is cascaded, and this project's own rewrites aren't made
(`stages/compiler/vendor_way.py`): what the vendor's compiler leaves to the host stays there, and a
concatenation is a copy. Where one vendor's compiler is known to do otherwise, the spec says so
(`vendor_compiler`); what it rewrites beyond that isn't modelled.

Then the parameters that the spec marks as fitted, at most six and the same for every network, are
fitted to half of the rows (**fit**) and judged on the others (**judge**); which is which was
decided before (`measurements/README.md`). *Predicted* is jitter-free, submission included;
*shipped* is the error of the spec as it is in the project. MAPE is the mean absolute error relative
to what was published.

The device must beat two regressions on a network's multiply-accumulates, parameters and
activations, which know nothing of layers: `log_linear` and `linear`, see
`stages/calibration/regression.py`. An earlier study of these tables, on networks of its own choice,
reached the errors under *study*. *Aim* is what the project wants of the rows that judge; it wants a
rank correlation (Spearman) of 0.97 of each chip.

The rows that judge were in view while the cost model took its shape: which keys a spec has, and
which of them are fitted, was decided by people who knew all rows. No value was fitted to them, but
a chip that nobody looked at would be predicted worse than they are. The tables *judged only* are
nearer to that.

The last descent of a fit weighs the spec's own values as measurements (`docs/calibration.md`).
Where those are marked as fitted they came from earlier fits to the same rows, so that this prior
isn't independent of them: errors of *fit* rows and intervals look somewhat better than a fit from
data sheets alone would have them. It has seen no row that judges.

The column *with cascades* is for the same fitted values and the plans that this project's compiler
makes where nothing is asked of it: loads that run ahead, cascades, and all its rewrites. Nobody
measured those; the column says how much the device would seem to err if they were taken for what
was published. In the tables of networks it is their latency; `not compiled` stands where they
weren't asked for (`--ways vendors`).
"""


Rows = tuple[str, Precision | None]
"""The rows of a spec in one precision, or in any."""


@dataclass(frozen=True, slots=True)
class Context:
    """What the page says beside the measurements: the MAPE that the project aims at on rows that
    judge (1 is 100 %) and the one for all others, the least rank correlation of a chip, the mean
    errors that an earlier study's regressions had, chips without a spec yet, and what bounds the
    error of each chip, in prose."""

    aims: Mapping[Rows, float]
    other_aim: float
    least_spearman: float
    study: Mapping[Rows, float]
    without_spec: Sequence[str]
    notes: Mapping[str, str]


def accuracy_page(chips: Sequence[ChipAccuracy], context: Context, plots: str) -> str:
    """The whole page; `plots` is the folder of the scatter plots, relative to it."""
    lines = [_INTRODUCTION, *_summary(chips, context), ""]
    for chip in chips:
        lines += [*_chip(chip, plots, context.notes.get(chip.spec.name, "")), ""]
    return "\n".join(lines).rstrip() + "\n"


def chip_plot(chip: ChipAccuracy) -> str | None:
    """The scatter plot of a chip, SVG; None where no row could be predicted."""
    series = [
        Series(
            str(precision),
            _MARKERS[precision],
            tuple(_point(item) for item in chip.rows if item.row.precision is precision),
        )
        for precision in chip.precisions
    ]
    if not series:
        return None
    return scatter_svg(f"{chip.spec.name}: predicted over measured latency", series)


def _point(item: PredictedRow) -> Point:
    return Point(
        item.row.model,
        item.row.latency_ns / _NS_PER_MS,
        item.predicted_ns / _NS_PER_MS,
        item.row.use is Use.JUDGE,
    )


def _summary(chips: Sequence[ChipAccuracy], context: Context) -> Iterator[str]:
    yield from _table_head(
        "spec", "precision", "rows", "MAPE judge", "aim", "MAPE fit", "MAPE all", "largest",
        "Spearman", "with cascades", "best regression", "study", "parameters",
    )  # fmt: skip
    for chip in chips:
        several = len(chip.precisions) > 1
        for precision in (*chip.precisions, *([None] if several else [])):
            yield _summary_row(chip, precision, context)
    if context.without_spec:
        yield ""
        yield f"Measured, but without a spec here: {', '.join(context.without_spec)}."


def _summary_row(chip: ChipAccuracy, precision: Precision | None, context: Context) -> str:
    key = (chip.spec.name, precision)
    judged = figures_of(chip.rows, precision, Use.JUDGE)
    everything = figures_of(chip.rows, precision, None)
    regressions = chip.regressions(precision) if precision is not None else ()
    alone = [item.leave_one_out for item in regressions]
    best = min((error for error in alone if error is not None), default=None)
    few = "too few rows" if precision is not None else ""
    whole = precision is None or len(chip.precisions) == 1
    return _table_row(
        chip.spec.name,
        str(precision or "any"),
        str(everything.count if everything else 0),
        _mape(judged),
        _aimed(context.aims.get(key, context.other_aim), judged),
        _mape(figures_of(chip.rows, precision, Use.FIT)),
        _mape(everything),
        _percent(everything.largest) if everything else "",
        _ranked(everything, context.least_spearman if whole else None),
        _mape(figures_of_own(chip.rows, precision, Use.JUDGE)) or NO_CASCADES,
        _beaten(best, judged) or few,
        _beaten(context.study.get(key), judged),
        str(len(chip.fit.estimates)) if chip.fit is not None else "0",
    )


def _aimed(aim: float, judged: ErrorFigures | None) -> str:
    if judged is None:
        return ""
    return f"≤ {100 * aim:.0f} %, {'met' if judged.mape <= aim else '**missed**'}"


def _ranked(figures: ErrorFigures | None, least: float | None) -> str:
    """The rank correlation, and whether it is what the project aims at for a whole chip."""
    if figures is None or figures.spearman is None or least is None:
        return _rank(figures)
    return _rank(figures) if figures.spearman >= least else f"{_rank(figures)}, **missed**"


def _beaten(regression: float | None, judged: ErrorFigures | None) -> str:
    """A regression's error, and whether the device's is smaller."""
    if regression is None:
        return ""
    if judged is None:
        return _percent(regression)
    return f"{_percent(regression)}, {'beaten' if judged.mape < regression else '**not beaten**'}"


def _chip(chip: ChipAccuracy, plots: str, note: str) -> Iterator[str]:
    yield f"## {chip.spec.name}: {chip.spec.chip}"
    yield ""
    if note:
        yield note
        yield ""
    if chip.rows:
        name = chip.spec.name
        yield f"![Predicted over measured latency of {name}]({plots}/{name}.svg)"
        yield ""
        yield from _parameters(chip)
        yield ""
        yield from _figures(chip)
        yield ""
        yield from _rows(chip.rows)
    yield from _left_out(chip.left_out)
    for judge_set in chip.judge_sets:
        yield ""
        yield from _judge_set(judge_set)


def _parameters(chip: ChipAccuracy) -> Iterator[str]:
    if chip.fit is None:
        yield f"Nothing was fitted ({chip.unfitted}): all figures are the shipped spec's."
        return
    yield from _table_head("parameter", "shipped", "fitted", "95 % interval", "")
    for estimate in chip.fit.estimates:
        parameter = estimate.parameter
        ends = [
            max(float(parameter.low), estimate.interval.low),
            min(float(parameter.high), estimate.interval.high),
        ]
        yield _table_row(
            f"`{parameter.name}`",
            parameter.text(parameter.own),
            parameter.text(estimate.value),
            " to ".join(parameter.text(rounded(end)) for end in ends),
            "; ".join(estimate.warnings),
        )


def _figures(chip: ChipAccuracy) -> Iterator[str]:
    yield from _table_head(
        "precision", "rows", "count", "MAPE", "largest", "Spearman", "shipped MAPE",
        *(f"{item.form} MAPE" for item in chip.regressions(chip.precisions[0])),
    )  # fmt: skip
    several = len(chip.precisions) > 1
    for precision in (*chip.precisions, *([None] if several else [])):
        for use in (Use.FIT, Use.JUDGE, None):
            figures = figures_of(chip.rows, precision, use)
            yield _table_row(
                str(precision or "any"),
                str(use or "all"),
                str(figures.count if figures else 0),
                _mape(figures),
                _percent(figures.largest) if figures else "",
                _rank(figures),
                _mape(figures_of(chip.rows, precision, use, shipped=True)),
                *_regressions(chip, precision, use),
            )
    yield ""
    yield (
        "The regressions' errors stand beside the rows that they are comparable with: fitted to "
        "`fit` and judged on `judge`, and leaving one row out at a time for `all`."
    )


def _regressions(chip: ChipAccuracy, precision: Precision | None, use: Use | None) -> Iterator[str]:
    for item in chip.regressions(precision or chip.precisions[0]):
        error = {Use.JUDGE: item.held_out, None: item.leave_one_out}.get(use)
        yield "" if precision is None or error is None else _percent(error)


def _rows(rows: Sequence[PredictedRow]) -> Iterator[str]:
    yield from _table_head(
        "model", "precision", "used to", "published", "predicted", "error", "with cascades",
        "operators on the host",
    )  # fmt: skip
    for item in sorted(rows, key=lambda item: (item.row.precision, item.row.model)):
        yield _table_row(
            item.row.model,
            str(item.row.precision),
            str(item.row.use),
            _milliseconds(item.row.latency_ns),
            _milliseconds(item.predicted_ns),
            f"{100 * item.error:+.1f} %",
            NO_CASCADES if item.own_ns is None else _milliseconds(item.own_ns),
            str(item.fallbacks) if item.fallbacks else "",
        )


def _left_out(left_out: Sequence[LeftOut]) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for item in left_out:
        reasons.setdefault(item.reason, []).append(f"{item.row.model} ({item.row.precision})")
    for reason, names in sorted(reasons.items()):
        yield ""
        yield f"Left out, {reason}: {', '.join(sorted(names))}."


def _judge_set(judge_set: JudgeSet) -> Iterator[str]:
    yield f"### Judged only: `{judge_set.name}`"
    yield ""
    if judge_set.rows:
        yield from _table_head("precision", "rows", "MAPE", "largest", "Spearman", "bias")
        present = {item.row.precision for item in judge_set.rows}
        for precision in (item for item in Precision if item in present):
            rows = [item for item in judge_set.rows if item.row.precision is precision]
            figures = figures_of(rows, None, None)
            bias = sum(item.error for item in rows) / len(rows)
            yield _table_row(
                str(precision),
                str(len(rows)),
                _mape(figures),
                _percent(figures.largest) if figures else "",
                _rank(figures),
                f"{100 * bias:+.1f} %",
            )
    yield from _left_out(judge_set.left_out)


def _table_head(*columns: str) -> Iterator[str]:
    yield _table_row(*columns)
    yield f"|{' --- |' * len(columns)}"


def _table_row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _mape(figures: ErrorFigures | None) -> str:
    return _percent(figures.mape) if figures is not None else ""


def _rank(figures: ErrorFigures | None) -> str:
    return "" if figures is None or figures.spearman is None else f"{figures.spearman:.3f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _milliseconds(latency_ns: float) -> str:
    return f"{latency_ns / _NS_PER_MS:.3f} ms"
