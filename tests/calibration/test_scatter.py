"""The scatter plot: sound XML, every point in its place, the same bytes again."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from stages.calibration.scatter import Marker, Point, Series, scatter_svg

SVG = "{http://www.w3.org/2000/svg}"
CIRCLES = Series(
    "fp16", Marker.CIRCLE, (Point("exact", 4.0, 4.0, True), Point("a<b", 10.0, 20.0, False))
)
SQUARES = Series("int8", Marker.SQUARE, (Point("fast", 1.0, 0.5, True),))


def parsed(*series: Series) -> ElementTree.Element:
    return ElementTree.fromstring(scatter_svg("A <title>", series))


def test_points_are_marks_with_a_name_and_an_error() -> None:
    root = parsed(CIRCLES, SQUARES)
    titles = [title.text for title in root.iter(f"{SVG}title")]
    assert titles[0] == "A <title>"
    assert "a<b: measured 10.000 ms, predicted 20.000 ms, +100.0 %" in titles
    assert "fast: measured 1.000 ms, predicted 0.500 ms, -50.0 %" in titles
    marks = [item for item in root.iter(f"{SVG}circle") if item.find(f"{SVG}title") is not None]
    assert [mark.get("fill") for mark in marks] == [Marker.CIRCLE.value, "#fff"]


def test_an_exact_prediction_lies_on_the_diagonal() -> None:
    root = parsed(CIRCLES, SQUARES)
    mark = next(
        item for item in root.iter(f"{SVG}circle")
        if (title := item.find(f"{SVG}title")) is not None and "exact" in str(title.text)
    )  # fmt: skip
    frame = list(root.iter(f"{SVG}rect"))[1]
    left, top, width, height = (float(frame.get(key, "")) for key in ("x", "y", "width", "height"))
    across = (float(mark.get("cx", "")) - left) / width
    up = (top + height - float(mark.get("cy", ""))) / height
    assert across == pytest.approx(up, abs=0.001)


def test_only_points_far_off_are_named_and_names_do_not_cover_each_other() -> None:
    points = tuple(Point(f"network {n}", 5.0 + n / 100, 9.0, True) for n in range(9))
    root = parsed(Series("fp16", Marker.CIRCLE, (*points, Point("near", 5.0, 5.2, True))))
    labels = [item for item in root.iter(f"{SVG}text") if item.get("font-size") == "11"]
    assert {item.text for item in labels} == {point.name for point in points}
    lines = [float(item.get("y", "")) for item in labels]
    assert min(b - a for a, b in zip(sorted(lines), sorted(lines)[1:], strict=False)) >= 11.9


def test_equal_points_give_equal_bytes() -> None:
    assert scatter_svg("t", [CIRCLES]) == scatter_svg("t", [CIRCLES])


@pytest.mark.parametrize("points", [(), (Point("x", 0.0, 1.0, True),)])
def test_nothing_to_plot_is_refused(points: tuple[Point, ...]) -> None:
    with pytest.raises(ValueError, match="a scatter plot needs a point"):
        scatter_svg("t", [Series("fp16", Marker.CIRCLE, points)])
