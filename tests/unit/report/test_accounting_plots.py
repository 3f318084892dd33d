"""Figures of a guarantee: plain labels, the same bytes every time."""

from tallyveil.accounting.numbers import Bounds
from tallyveil.report.figure import draw_profile


def test_labels_of_a_profile_are_plain_text(tmp_path):
    first, second = tmp_path / "first.svg", tmp_path / "second.svg"
    for path in (first, second):
        draw_profile(path, [0.0, 1.0, 2.0], [Bounds(1.0, 1.0), Bounds(1e-4, 1e-4), Bounds(1e-9, 1e-9)])
    text = first.read_text()
    assert ">1e-4</text>" in text
    assert "mathdefault" not in text
    assert first.read_bytes() == second.read_bytes()
