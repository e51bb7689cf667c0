"""A scatter plot of predicted over measured latencies, as SVG text.

Both axes are logarithmic and alike, so the diagonal is a perfect prediction and lines beside it are
equal relative errors. The same points give the same text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from html import escape

_SIDE = 640
_LEFT, _TOP, _RIGHT, _BOTTOM = 78, 56, 24, 64
_BAND = 0.2
_NAMED_ERROR = 0.1
_MOST_NAMES = 12
_STEPS = (1.0, 2.0, 5.0)
_CHARACTER_WIDTH, _LINE_HEIGHT = 6.2, 12


class Marker(StrEnum):
    """The shape and colour of a series."""

    CIRCLE = "#1b6ca8"
    SQUARE = "#c2561a"
    TRIANGLE = "#3c7a3b"


@dataclass(frozen=True, slots=True)
class Point:
    """One row: in milliseconds. A filled point judges, a hollow one was fitted."""

    name: str
    measured_ms: float
    predicted_ms: float
    filled: bool

    @property
    def error(self) -> float:
        """(predicted - measured) / measured."""
        return (self.predicted_ms - self.measured_ms) / self.measured_ms


@dataclass(frozen=True, slots=True)
class Series:
    """Points under one name in the legend."""

    name: str
    marker: Marker
    points: tuple[Point, ...]


def scatter_svg(title: str, series: Sequence[Series]) -> str:
    """The plot of at least one point.

    Raises:
        ValueError: no point, or a latency that isn't positive.
    """
    axis = _axis_of([point for item in series for point in item.points])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_SIDE}" height="{_SIDE}" '
        f'viewBox="0 0 {_SIDE} {_SIDE}" font-family="sans-serif" font-size="12" fill="#222">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_SIDE}" height="{_SIDE}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="24" font-size="16">{escape(title)}</text>',
        *_grid(axis),
        *_diagonals(axis),
        *_legend(series),
    ]
    for item in series:
        parts += [_mark(item.marker, point, axis) for point in item.points]
    parts += _names(series, axis)
    return "\n".join([*parts, "</svg>"]) + "\n"


@dataclass(frozen=True, slots=True)
class _Axis:
    """Milliseconds at both ends of each axis."""

    low: float
    high: float

    def x(self, value: float) -> float:
        return _LEFT + self._share(value) * (_SIDE - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return _SIDE - _BOTTOM - self._share(value) * (_SIDE - _TOP - _BOTTOM)

    def _share(self, value: float) -> float:
        return math.log(value / self.low) / math.log(self.high / self.low)


def _axis_of(points: Sequence[Point]) -> _Axis:
    values = [value for point in points for value in (point.measured_ms, point.predicted_ms)]
    if not values or min(values) <= 0:
        raise ValueError("a scatter plot needs a point, and latencies above zero")
    ticks = list(_ticks(min(values) / 1.15, max(values) * 1.15))
    return _Axis(ticks[0], ticks[-1])


def _ticks(low: float, high: float) -> Iterator[float]:
    """1, 2, 5, 10, ... from the last one at or below `low` to the first at or above `high`."""
    decade = math.floor(math.log10(low)) - 1
    steps = [step * 10.0**power for power in range(decade, decade + 12) for step in _STEPS]
    first = max(index for index, step in enumerate(steps) if step <= low)
    last = min(index for index, step in enumerate(steps) if step >= high)
    yield from steps[first : max(last, first + 1) + 1]


def _grid(axis: _Axis) -> Iterator[str]:
    left, right, top, bottom = _LEFT, _SIDE - _RIGHT, _TOP, _SIDE - _BOTTOM
    for tick in _ticks(axis.low, axis.high):
        x, y = axis.x(tick), axis.y(tick)
        yield f'<path d="M{x:.1f} {top}V{bottom}M{left} {y:.1f}H{right}" stroke="#e4e4e4"/>'
        label = f"{tick:g}"
        yield f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{label}</text>'
        yield f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    yield (
        f'<rect x="{left}" y="{top}" width="{right - left}" height="{bottom - top}" '
        'fill="none" stroke="#888"/>'
    )
    middle = (left + right) / 2
    yield f'<text x="{middle}" y="{_SIDE - 22}" text-anchor="middle">measured, ms</text>'
    centre = (top + bottom) / 2
    yield (
        f'<text transform="translate(22 {centre}) rotate(-90)" '
        'text-anchor="middle">predicted, ms</text>'
    )


def _diagonals(axis: _Axis) -> Iterator[str]:
    """The diagonal, and where predictions are off by a fifth."""
    for factor, style in ((1.0, "#555"), (1 + _BAND, "#999"), (1 - _BAND, "#999")):
        low, high = axis.low / min(1.0, factor), axis.high / max(1.0, factor)
        dash = "" if factor == 1 else ' stroke-dasharray="4 4"'
        yield (
            f'<path d="M{axis.x(low):.1f} {axis.y(low * factor):.1f}'
            f'L{axis.x(high):.1f} {axis.y(high * factor):.1f}" stroke="{style}"{dash}/>'
        )


def _legend(series: Sequence[Series]) -> Iterator[str]:
    x = float(_LEFT)
    for item in series:
        yield _shape(item.marker, x + 5, 40.0, filled=True, name="")
        yield f'<text x="{x + 14:.1f}" y="44">{escape(item.name)}</text>'
        x += 24 + _CHARACTER_WIDTH * len(item.name)
    note = "filled: judged; hollow: fitted; dashed: 20 % off"
    yield f'<text x="{_SIDE - _RIGHT}" y="44" text-anchor="end" fill="#666">{note}</text>'


def _mark(marker: Marker, point: Point, axis: _Axis) -> str:
    name = (
        f"{point.name}: measured {point.measured_ms:.3f} ms, predicted "
        f"{point.predicted_ms:.3f} ms, {100 * point.error:+.1f} %"
    )
    x, y = axis.x(point.measured_ms), axis.y(point.predicted_ms)
    return _shape(marker, x, y, filled=point.filled, name=name)


def _shape(marker: Marker, x: float, y: float, *, filled: bool, name: str) -> str:
    colour = marker.value
    style = f'fill="{colour if filled else "#fff"}" fill-opacity="0.75" stroke="{colour}"'
    inner = f"<title>{escape(name)}</title>" if name else ""
    match marker:
        case Marker.CIRCLE:
            return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" {style}>{inner}</circle>'
        case Marker.SQUARE:
            corner = f'x="{x - 4:.1f}" y="{y - 4:.1f}"'
            return f'<rect {corner} width="8" height="8" {style}>{inner}</rect>'
        case Marker.TRIANGLE:
            path = f"M{x:.1f} {y - 5:.1f}l5 9h-10z"
            return f'<path d="{path}" {style}>{inner}</path>'


def _names(series: Sequence[Series], axis: _Axis) -> Iterator[str]:
    """Names of the points furthest off, each where it covers no other name."""
    points = [point for item in series for point in item.points]
    points = [point for point in points if abs(point.error) >= _NAMED_ERROR]
    points.sort(key=lambda point: (-abs(point.error), point.name))
    taken: list[tuple[float, float, float]] = []
    for point in points[:_MOST_NAMES]:
        width = _CHARACTER_WIDTH * len(point.name)
        x, y = axis.x(point.measured_ms), axis.y(point.predicted_ms)
        above = point.error > 0
        left = x - 8 - width if above else x + 8
        left = min(max(left, _LEFT + 2), _SIDE - _RIGHT - width - 2)
        line = y + 4
        while any(
            abs(line - other) < _LINE_HEIGHT and left < end and begin < left + width
            for other, begin, end in taken
        ):
            line += -_LINE_HEIGHT if above else _LINE_HEIGHT
        taken.append((line, left, left + width))
        yield f'<text x="{left:.1f}" y="{line:.1f}" font-size="11">{escape(point.name)}</text>'
