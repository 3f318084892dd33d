"""A guarantee shows itself without computing, and draws its certified curves."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tallyveil.accounting import (
    DiscreteGaussian,
    DiscreteLaplace,
    Guarantee,
    InvariantEvent,
    ParallelEvent,
    WorstEvent,
    compose,
)

EVENTS = (DiscreteGaussian(8, multiplicity=2), DiscreteGaussian(3), DiscreteLaplace(3))


@pytest.fixture
def new_axes() -> Callable[[], Any]:
    """Makes empty axes. matplotlib is imported here, so that it is not by every worker that reads this file."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib.figure import Figure

    return lambda: Figure().subplots()


def test_the_lines_of_a_guarantee() -> None:
    found = compose(*EVENTS, *map(InvariantEvent, ("a", "b", "<c>", "d")), neighbours="bounded")
    assert repr(found) == (
        "<Guarantee\n  events: 2 DiscreteGaussian, 1 DiscreteLaplace, 4 InvariantEvent\n  neighbours: bounded\n"
        "  engines: quadrature\n  published exactly: a; b; <c>; and 1 more>"
    )
    assert "&lt;c&gt;" in found._repr_html_()
    assert repr(compose(neighbours="unbounded")).startswith("<Guarantee\n  events: none")
    assert "events: none" in repr(compose(ParallelEvent(()), neighbours="unbounded"))
    worst = compose(WorstEvent((DiscreteGaussian(4), DiscreteLaplace("3/2"))), neighbours="unbounded")
    assert "alternatives: 2, of which the worst one counts" in repr(worst)


def test_nothing_is_computed_to_show_a_guarantee(monkeypatch: pytest.MonkeyPatch) -> None:
    found = compose(*EVENTS, neighbours="bounded")

    def refuse(*_: object) -> None:
        raise AssertionError("computed")

    for name in ("epsilon", "log_profile", "beta", "mu"):
        monkeypatch.setattr(Guarantee, name, refuse)
    assert "DiscreteLaplace" in repr(found) + found._repr_html_()


def test_the_drawn_curves_are_the_certified_ends(new_axes: Callable[[], Any]) -> None:
    found = compose(DiscreteGaussian(8), neighbours="bounded")
    axes = new_axes()
    assert found.plot_tradeoff(axes) is axes
    alphas, betas = axes.lines[0].get_xydata().T
    assert (alphas[0], alphas[-1]) == (0, 1)
    assert betas[50] == found.beta(float(alphas[50])).lower
    axes = new_axes()
    found.plot_profile(ax=axes)
    epsilons, deltas = axes.lines[0].get_xydata().T
    assert deltas[30] == pytest.approx(found.delta(float(epsilons[30])).upper, rel=1e-10)
    assert np.all(np.diff(deltas) < 0)
    assert axes.get_yscale() == "log"


def test_a_guarantee_of_nothing_and_one_without_gaussian_noise_are_drawn(new_axes: Callable[[], Any]) -> None:
    for events in ((), (DiscreteLaplace(3),)):
        found = compose(*events, neighbours="unbounded")
        found.plot_profile(new_axes())
        found.plot_tradeoff(new_axes())


@pytest.mark.usefixtures("new_axes")
def test_without_axes_the_current_ones_are_taken() -> None:
    from matplotlib import pyplot

    axes = compose(DiscreteGaussian(8), neighbours="bounded").plot_profile()
    assert axes is pyplot.gca()
    pyplot.close("all")


def test_matplotlib_is_imported_to_draw_only() -> None:
    code = (
        "import sys; from tallyveil.accounting import DiscreteGaussian, compose; "
        "repr(compose(DiscreteGaussian(8), neighbours='bounded')); print('matplotlib' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"
