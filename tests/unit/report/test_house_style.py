"""There is one style for all plots that are files of their own."""

from pathlib import Path

import tallyveil
from tallyveil.report.figure import house_style


def test_only_the_house_style_sets_matplotlib():
    source = Path(tallyveil.__file__).parent
    setting = [path.name for path in source.rglob("*.py") if "rcParams" in path.read_text(encoding="utf-8")]
    assert setting == ["figure.py"]


def test_settings_of_a_user_neither_enter_nor_are_lost():
    import matplotlib as mpl  # here, so that it is not imported by every worker that reads this file

    with mpl.rc_context({"font.size": 31.0, "lines.linewidth": 9.0}):
        with house_style("figure"):
            assert mpl.rcParams["font.size"] == 10.5
            assert mpl.rcParams["lines.linewidth"] == mpl.rcParamsDefault["lines.linewidth"]
            assert mpl.rcParams["svg.hashsalt"] == "figure"
        assert mpl.rcParams["font.size"] == 31.0
