"""Dot plots: the legend lies within the figure, however long the names are."""

import pytest
from markupsafe import Markup

from tallyveil.report import figure as plots

CENSUS = [
    f"{geography} level {level}"
    for geography in ("USA", "STATE", "COUNTY", "TRACT", "PLACE")
    for level in (1, 2)
]
STAYS = ["all stays", "chapters", "all diagnoses of one chapter", "codes", "chapters by region"]
NAMES = {
    "geolevels": ["US", "State", "County", "Tract", "Block_Group", "Block"],
    "stays": STAYS,
    "census": CENSUS,
    "long": [f"{letter * 200}" for letter in "abcde"],
    "one": ["only"],
}


@pytest.mark.parametrize("kind", NAMES)
def test_the_legend_lies_within_the_figure(kind, monkeypatch):
    drawn = []
    monkeypatch.setattr(plots, "to_svg", lambda figure, *_: drawn.append(figure) or Markup(""))
    names = NAMES[kind]
    values = {("10", name): 2.0 + n for n, name in enumerate(names)}
    plots.dot_plot("p", ["10"], names, values, axis="error", description="Errors.")
    (figure,) = drawn
    (legend,) = figure.legends
    assert legend.get_window_extent().x1 <= figure.bbox.x1
    assert legend.get_window_extent().y0 >= figure.axes[0].get_window_extent().y1 - 2
    assert len(legend.get_texts()) == len(names)
