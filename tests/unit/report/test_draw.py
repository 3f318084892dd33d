"""Plots: readable labels, the same bytes every time, both formats."""

import numpy as np
import pytest
from tests.samples import nightly

from tallyveil.report.drawing import DotPanel, DotPlot, Dots, Line, LinePanel, LinePlot, Role, write_plot

X = np.linspace(0.0, 5.0, 20)
LINES = LinePlot(
    panels=tuple(
        LinePanel(f"panel {n}", (Line("exact", Role.OURS, X, np.exp(-(X**2))),), ((1e-6, "1e-6"),))
        for n in range(3)
    ),
    columns=2,
    x_label="epsilon",
    y_label="delta",
    log_y=True,
    y_limits=(1e-12, 1.0),
)
DOTS = DotPlot(
    rows=("State", "A county of a long name"),
    panels=(
        DotPanel(
            "error",
            (
                Dots("published", Role.PUBLISHED, (3.0, 450.0), ((2.0, 4.0), (300.0, 500.0))),
                Dots("ours", Role.OURS, (2.0, 300.0)),
            ),
            "persons",
            ("−15 %", "−25 %"),
        ),
    ),
    columns=1,
    log_x=True,
)


@pytest.mark.parametrize("drawing", [nightly(LINES), DOTS], ids=["lines", "dots"])
def test_same_bytes_every_time(tmp_path, drawing):
    first, second = tmp_path / "first.svg", tmp_path / "second.svg"
    write_plot(first, drawing, "A title")
    write_plot(second, drawing, "A title")
    assert first.read_bytes() == second.read_bytes()


def test_labels_are_plain_text(tmp_path):
    path = tmp_path / "plot.svg"
    write_plot(path, LINES, "A title")
    text = path.read_text()
    assert ">1e-8</text>" in text
    assert "mathdefault" not in text
    assert text.count(">exact</text>") == 1  # one legend for all panels
    write_plot(path, DOTS, "A title")
    assert ">100</text>" in path.read_text()
    assert "−25 %" in path.read_text()


def test_the_suffix_is_the_format(tmp_path):
    path = tmp_path / "plot.png"
    write_plot(path, DOTS, "A title")
    assert path.read_bytes().startswith(b"\x89PNG")
