"""Figures of pages: scales, ticks, marks, legends that lie within the figure, and text that is never markup."""

import math
from xml.etree import ElementTree

import pytest

from tallyveil.report.svg import (
    COLOURS,
    SHAPES,
    WIDTH,
    Canvas,
    Key,
    Scale,
    amount_ticks,
    dot_plot,
    even_ticks,
    legend_of,
    text_width,
    wrapped,
)

SVG = "{http://www.w3.org/2000/svg}"
CENSUS = [
    f"{geography} level {level}"
    for geography in ("USA", "STATE", "COUNTY", "TRACT", "PLACE")
    for level in (1, 2)
]
NAMES = {
    "geolevels": ["US", "State", "County", "Tract", "Block_Group", "Block"],
    "stays": ["all stays", "chapters", "all diagnoses of one chapter", "codes", "chapters by region"],
    "census": CENSUS,
    "long": [f"{letter * 200}" for letter in "abcde"],
    "one": ["only"],
}


def drawn(canvas: Canvas) -> ElementTree.Element:
    return ElementTree.fromstring(canvas.svg("figure", "A figure", "What it shows."))


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text for element in root.iter(f"{SVG}text")]


def test_scales_put_the_ends_of_an_axis_in_their_places():
    linear = Scale(-2, 2, 100, 0)
    assert [linear(value) for value in (-2, 0, 2)] == [100, 50, 0]
    powers = Scale(1, 100, 0, 50, logarithmic=True)
    assert [powers(value) for value in (1, 10, 100)] == pytest.approx([0, 25, 50])


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (-3.2, 3.1, [-2, 0, 2]),
        (-1, 1, [-1, 0, 1]),
        (-98, 205, [0, 100, 200]),
        (-250.0, 240, [-200, -100, 0, 100, 200]),
        (0.2, 0.7, []),
    ],
)
def test_ticks_are_round_whole_numbers(low, high, ticks):
    assert even_ticks(low, high, 5) == ticks


def test_there_are_never_more_ticks_than_wanted():
    for high in (1, 7, 23, 99, 450, 12_345, 10**9):
        found = even_ticks(-high / 3, high, 5)
        assert 2 <= len(found) <= 5
        step = found[1] - found[0]
        assert str(step).rstrip("0") in ("1", "2", "5")
        assert all(tick % step == 0 for tick in found)


def test_ticks_of_amounts():
    assert amount_ticks(0.9, 60) == [1, 2, 5, 10, 20, 50]
    assert amount_ticks(0.9, 6000) == [1, 10, 100, 1000]


def test_a_figure_has_a_title_and_a_description():
    root = drawn(Canvas(10))
    assert root.get("role") == "img"
    named = {element.get("id"): element.text for element in root}
    assert named[root.get("aria-labelledby")] == "A figure"
    assert named[root.get("aria-describedby")] == "What it shows."


def test_text_is_never_markup():
    canvas = Canvas(10)
    odd = "</text><script>alert(1)</script>&\"'"
    canvas.text((0, 5), odd)
    canvas.text((0, 5), "left\u202eright")
    assert texts(drawn(canvas))[0] == odd
    assert "\u202e" not in texts(drawn(canvas))[1]


def test_what_has_no_length_is_not_drawn():
    canvas = Canvas(10)
    canvas.bar((0, 0), 0, 5, COLOURS[0])
    canvas.bar((0, 0), 5, -1, COLOURS[0])
    canvas.points([], COLOURS[0], diameter=2)
    assert [element.tag for element in drawn(canvas)] == [f"{SVG}title", f"{SVG}desc"]


def test_every_shape_is_drawn():
    canvas = Canvas(10)
    for shape in range(SHAPES):
        canvas.dots([(3, 4), (5, 6)], COLOURS[0], shape=shape)
    groups = list(drawn(canvas).iter(f"{SVG}g"))
    assert [len(group) for group in groups] == [2] * SHAPES
    assert len({ElementTree.tostring(group) for group in groups}) == SHAPES


@pytest.mark.parametrize("kind", NAMES)
def test_a_legend_is_as_wide_as_there_is_room(kind):
    keys = [Key(name, COLOURS[0]) for name in NAMES[kind]]
    legend = legend_of(keys, 500)
    assert [key for column in legend.columns for key in column] == keys
    assert sum(legend.widths) <= 520
    assert legend.height >= 16 * math.ceil(len(keys) / len(legend.columns))
    if kind == "geolevels":
        assert len(legend.columns) == len(keys)


@pytest.mark.parametrize("kind", NAMES)
def test_the_text_of_a_dot_plot_lies_within_it(kind):
    names = NAMES[kind]
    values = {("10", name): 2.0 + n for n, name in enumerate(names)}
    svg = dot_plot(
        "p", ["10", "a very long title of a row " * 4], names, values, axis="error", description="Errors."
    )
    root = ElementTree.fromstring(svg)
    for element in root.iter(f"{SVG}text"):
        wide = text_width(element.text)
        left = (
            float(element.get("x"))
            - {"start": 0, "middle": wide / 2, "end": wide}[element.get("text-anchor")]
        )
        assert left >= 0
        assert left + wide <= WIDTH
    tall = float(root.get("viewBox").split()[3])
    assert all(float(element.get("y")) < tall for element in root.iter(f"{SVG}text"))


def test_zeros_are_left_of_every_other_dot():
    values = {("a", "State"): 0.0, ("b", "State"): 4.0}
    svg = dot_plot("p", ["a", "b"], ["State"], values, axis="error", description="Errors.", below=2.0)
    root = ElementTree.fromstring(svg)
    _, zero, positive = (float(dot.get("cx")) for dot in root.iter(f"{SVG}circle"))
    assert zero < positive
    assert "0" in texts(root)
    assert "1" not in texts(root)


def test_a_dot_plot_without_values_has_an_axis():
    svg = dot_plot("p", ["a"], ["State"], {}, axis="error", description="None.")
    assert {"1", "2", "5"} <= set(texts(ElementTree.fromstring(svg)))


def test_long_titles_take_two_lines():
    assert wrapped("race", 100) == ["race"]
    assert wrapped("household or type of group quarters", 180) == ["household or type of group", "quarters"]
    assert wrapped("x" * 100, 60) == ["x" * 10, "x" * 9 + "…"]
