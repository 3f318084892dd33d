"""The quadrature: trusted values, side peaks, Laplace noise, its conditions, hostile numbers."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from tallyveil.accounting.engines import quadrature
from tallyveil.accounting.engines.ball_tails import Proved
from tallyveil.accounting.engines.closed_form import ClosedForm
from tallyveil.accounting.engines.lattice_points import UNIT
from tallyveil.accounting.engines.quadrature import DELTA, FIRST, SECOND, Quadrature, _Used
from tallyveil.accounting.losses import GaussianLoss, LaplaceLoss, LossLattice
from tallyveil.errors import BudgetError

CENSUS = tuple(
    GaussianLoss(10 / (2 * Fraction(a, 1000) * Fraction(365, 100)), 1, n)
    for a, n in zip((20, 274, 85, 131, 238, 118, 3), (10, 10, 10, 20, 10, 10, 10), strict=True)
)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (5.0, 0.207210363764),
        (10.0, 4.567884368769e-3),
        (15.0, 4.956003122094e-6),
        (20.0, 2.151064104538e-10),
        (25.0, 3.428036821068e-16),
        (20.324689750790, 1e-10),
        (24.640678667177, 1e-15),
    ],
)
def test_eight_levels(epsilon: float, delta: float) -> None:
    engine = Quadrature.build(CENSUS)
    assert engine is not None
    bounds = engine.log_tails(epsilon).log_delta
    assert bounds.width < 5e-12
    assert bounds.lower == pytest.approx(math.log(delta), abs=5e-12)


def test_it_meets_the_closed_form_far_out() -> None:
    quadrature, closed = Quadrature.build(CENSUS), ClosedForm.build(CENSUS)
    assert quadrature is not None
    assert closed is not None
    for epsilon in (-80.0, -3.0, -1e-9, 0.0, 1e-9, 3.65, 40.0, 103.549646920006578, 110.0):
        one, other = quadrature.log_tails(epsilon), closed.log_tails(epsilon)
        for name in ("log_first", "log_second", "log_delta"):
            a, b = getattr(one, name), getattr(other, name)
            assert a.lower <= b.upper, (epsilon, name)
            assert b.lower <= a.upper, (epsilon, name)
            assert a.width < 1e-10, (epsilon, name)


@pytest.mark.parametrize(
    "factors",
    [
        # Weights 3 and 4 with small variances: the transform has side peaks, and the closed form refuses.
        (GaussianLoss(Fraction(3), 1, 2), GaussianLoss(Fraction(9, 2), 2, 3)),
        # Weights 1 and 20: almost all of the law is on multiples of 20.
        (GaussianLoss(Fraction(20), 1, 1), GaussianLoss(Fraction(1), 1, 3)),
        (GaussianLoss(Fraction(1, 4), 1, 3),),
        (
            GaussianLoss(Fraction(5, 2), 2, 2),
            LaplaceLoss(Fraction(5, 3), 3, 2),
            LaplaceLoss(Fraction(1, 4), 1, 1),
        ),
        (LaplaceLoss(Fraction(1, 20), 2, 3), LaplaceLoss(Fraction(7), 1, 4)),
        (LaplaceLoss(Fraction(10), 1, 100),),
        (LaplaceLoss(Fraction(10**5), 1, 3), GaussianLoss(Fraction(10**5), 1, 1)),
    ],
)
def test_the_oracle_is_enclosed(factors: tuple[GaussianLoss | LaplaceLoss, ...]) -> None:
    engine, proved = Quadrature.build(factors), Proved.build(factors, least_delta=Fraction(1, 10**100))
    assert engine is not None
    mean = float(proved.lattice.offset) + float(proved.lattice.step) * engine.mean
    with ctx.workprec(1000):
        top = max(1e-3, 2 * abs(mean))
        for epsilon in (-3 * top, -mean, -0.1 * top, 0.0, 0.1 * top, mean, 1.5 * mean, 3 * top, 6 * top):
            tails = engine.log_tails(epsilon)
            for name, ball in zip(
                ("log_first", "log_second", "log_delta"), proved.balls(Fraction(epsilon)), strict=True
            ):
                bounds = getattr(tails, name)
                low = arb(bounds.lower).exp() if bounds.lower > -math.inf else arb(0)
                high = arb(bounds.upper).exp() if bounds.upper > -math.inf else arb(0)
                assert low <= ball.upper(), (epsilon, name, bounds, ball)
                assert high >= ball.lower(), (epsilon, name, bounds, ball)
                if ball.lower() > 1e-99:
                    # Laplace noise alone, of scales far apart, leaves gaps in the law: valid there, less tight.
                    tight = 1e-9 if factors[0] != LaplaceLoss(Fraction(1, 20), 2, 3) else 1e-4
                    assert bounds.width < tight, (epsilon, name, bounds, ball)


def test_the_last_loss_of_bounded_losses() -> None:
    factors = (LaplaceLoss(Fraction(23, 8), 1, 1),)
    engine = Quadrature.build(factors)
    assert engine is not None
    largest = Fraction(8, 23)
    just_below = float(largest)  # 8.3e-18 below
    assert Fraction(just_below) < largest
    bounds = engine.log_tails(just_below).log_delta
    assert bounds.width < 1e-12
    assert math.exp(bounds.upper) == pytest.approx(
        float(largest - Fraction(just_below)) / (1 + math.exp(-8 / 23))
    )
    assert engine.log_tails(largest).log_delta.upper == -math.inf
    assert engine.log_tails(-largest - 1).log_first.lower == 0


@pytest.mark.parametrize(
    ("factors", "reason"),
    [
        ((), "no loss"),
        ((GaussianLoss(Fraction(1, 5), 1, 1),), "1/4"),
        ((GaussianLoss(Fraction(10**400), 1, 1),), "1/4"),
        ((LaplaceLoss(Fraction(1, 10**9), 1, 1),), "scales"),
        ((LaplaceLoss(Fraction(1), 65, 1),), "sensitivities"),
        ((GaussianLoss(Fraction(9), 10**400, 1),), "too fine"),
        ((GaussianLoss(Fraction(9), 1, 10**400),), "too often"),
        (
            (GaussianLoss(Fraction(10**9 + 7, 10**6), 1, 1), GaussianLoss(Fraction(10**9 + 9, 10**6), 1, 1)),
            "too fine",
        ),
        ((LaplaceLoss(Fraction(1), 1, 10**8),), "nodes"),
        ((GaussianLoss(Fraction(1, 4), 1, 1000),), "so many answers"),
    ],
)
def test_conditions(factors: tuple[GaussianLoss | LaplaceLoss, ...], reason: str) -> None:
    assert Quadrature.build(factors) is None
    said = Quadrature.why_not(factors)
    assert said is not None
    assert reason in said


@pytest.mark.parametrize("most", [GaussianLoss(Fraction(10**15), 1, 1), LaplaceLoss(Fraction(10**15), 64, 1)])
@pytest.mark.parametrize("least", [GaussianLoss(Fraction(1, 4), 1, 1), LaplaceLoss(Fraction(1, 10**6), 1, 1)])
def test_the_ends_of_its_range_are_taken_and_nothing_beyond(least, most) -> None:
    def refused(*factors) -> bool:
        return quadrature._out_of_range(factors, LossLattice(Fraction(1), Fraction(0), (1, 1))) is not None

    assert not refused(least, most)
    for one in (least, most):
        name = "variance" if isinstance(one, GaussianLoss) else "scale"
        beyond = getattr(one, name) * (1 + Fraction(1 if one is most else -1, 10**30))
        assert refused(replace(one, **{name: beyond}))
        assert not refused(replace(one, multiplicity=(1 << 31) - 1))
        assert refused(replace(one, multiplicity=1 << 31))
    assert quadrature._out_of_range((least,), LossLattice(Fraction(1), Fraction(0), (1, 1 << 31))) is not None


@pytest.mark.parametrize(
    "factors",
    [
        (GaussianLoss(Fraction(5, 2), 1, 2), GaussianLoss(Fraction(4), 1, 1)),
        (GaussianLoss(Fraction(6), 1, 2), LaplaceLoss(Fraction(3), 2, 2)),
        (LaplaceLoss(Fraction(3), 2, 4), LaplaceLoss(Fraction(6), 1, 3)),
    ],
)
def test_what_wraps_around_is_within_the_bounds(factors, monkeypatch) -> None:
    """With few points for each deviation, whole periods of the rule are by far the largest error."""
    monkeypatch.setattr(quadrature, "_POINTS_PER_DEVIATION", 5)
    engine, proved = Quadrature.build(factors), Proved.build(factors)
    assert engine is not None
    widest = 0.0
    for epsilon in (-0.7, 0.0, 0.31, 0.9, 1.45, 2.2):
        found = engine.log_tails(epsilon)
        for bounds, exact in zip(
            (found.log_first, found.log_second, found.log_delta), proved.balls(Fraction(epsilon)), strict=True
        ):
            assert arb(bounds.lower).exp() <= exact.upper()
            assert arb(bounds.upper).exp() >= exact.lower()
        widest = max(widest, found.log_delta.width)
    assert 1e-9 < widest < 3


def test_a_gap_that_is_not_known_exactly_widens_the_bounds_of_delta() -> None:
    """As for epsilons in floats beside a loss: here by far more than rounding would."""
    engine = Quadrature.build((GaussianLoss(Fraction(6), 1, 2), LaplaceLoss(Fraction(3), 2, 2)))
    assert engine is not None
    z = np.arange(3, 12, 2)
    for share in (0.3, 0.6):
        gaps = np.full(z.size, share * engine.step)
        slips = 0.2 * gaps
        found = engine._log_sums(DELTA, z, (gaps, slips))
        for moved in (-1, 1):
            exact = engine._log_sums(DELTA, z, (gaps + moved * slips, np.zeros(z.size)))
            assert np.all(found.lower <= exact.upper)
            assert np.all(exact.lower <= found.upper)
        assert np.all(found.width < 2)


MIXED = (
    GaussianLoss(Fraction(3, 10), 1, 3),
    GaussianLoss(Fraction(6), 1, 2),
    LaplaceLoss(Fraction(3), 2, 2),
    LaplaceLoss(Fraction(6, 5), 1, 1),
)
"""Weights on the common lattice that are not 1, and both kinds of noise."""

BOUNDED = (LaplaceLoss(Fraction(3), 2, 4), LaplaceLoss(Fraction(6), 1, 3))
PLACES = np.array([-7, 0, 12, 40])
TAUS, MOMENTS, FURTHER = np.array([0.4, 0.02, 1.3, 2.2]), np.array([-1.5, 0.3, 2.0, 9.0]), np.full(4, 4.5)
"""Contours that no engine would take, on which every term of a bound counts."""


@pytest.mark.parametrize("kind", [FIRST, SECOND])
@pytest.mark.parametrize("factors", [MIXED, pytest.param(CENSUS, marks=pytest.mark.nightly)])
def test_the_units_of_sums_and_their_roundings_are_those_of_the_proof(factors, kind) -> None:
    built = Quadrature.build(factors)
    assert built is not None
    engine = replace(built, log_norm=3.0)
    scales, roundings = engine._log_scales(kind, _Used(TAUS, MOMENTS, FURTHER), PLACES)
    proved = Proved.build(factors, least_delta=Fraction(1, 1000))
    for scale, rounding, tau, moment, z in zip(scales, roundings, TAUS, MOMENTS, PLACES, strict=True):
        gaussian = engine.variance * tau * tau / 2
        first = gaussian - 3.0 + moment - tau * z
        units = 16 + 8 * (gaussian + 3.0 + abs(moment) + abs(tau * z) + abs(first))
        if factors is MIXED:
            units += 16 * (engine.laplace.largest_log + tau * engine.laplace.reach)
        wanted = first
        if kind == SECOND:
            loss = float(proved.lattice.offset + proved.lattice.step * int(z))
            wanted = first - loss
            units += 8 * abs(loss) + 8 * abs(wanted)
        assert scale == pytest.approx(wanted, rel=1e-12)
        assert rounding == pytest.approx(UNIT * units, rel=1e-9, abs=0)


@pytest.mark.parametrize("kind", [FIRST, SECOND])
@pytest.mark.parametrize("factors", [MIXED, BOUNDED])
def test_the_bound_of_what_wraps_around_is_that_of_the_proof(factors, kind, monkeypatch) -> None:
    """A geometric series of whole periods on one side, and Chernoff's bound further out on the other one."""
    monkeypatch.setattr(quadrature, "_POINTS_PER_DEVIATION", 3)
    built = Quadrature.build(factors)
    assert built is not None
    engine, period = replace(built, log_norm=1.0), built.nodes.n_points
    scales, roundings = np.array([-2.0, 0.5, -30.0, -1.0]), np.array([1e-3, 0.2, 0.0, 0.1])
    last = (engine.largest or 0) - period  # beyond it no period from here is left
    z = np.array([-7, 0, last, last + 1])
    found = engine._wrap_around(kind, _Used(TAUS, MOMENTS, FURTHER), z, scales, roundings)
    beyond = 9 / (2 * period)
    for i in range(z.size):
        decay = (TAUS[i] + (engine.step if kind == SECOND else 0)) * period
        below = math.exp(roundings[i] - decay - scales[i]) / (1 - math.exp(-decay))
        tau = TAUS[i] + beyond
        exponent = engine.variance * (tau**2 - TAUS[i] ** 2) / 2 + FURTHER[i] - MOMENTS[i] + 1.0
        exponent += 2 * roundings[i] - beyond * (int(z[i]) + period)
        above = math.exp(exponent) / (1 - math.exp(-beyond * period))
        if engine.largest is not None and z[i] + period > engine.largest:
            above = 0.0
        assert found[i] == pytest.approx(1.001 * (below + above), rel=1e-9, abs=0)


def test_contours_are_kept_for_the_next_epsilon_and_only_some() -> None:
    engine = Quadrature.build(CENSUS)
    assert engine is not None
    for index in range(200):
        engine._contour(DELTA, index)
        assert len(engine._contours) <= quadrature._MOST_CACHED
    assert len(engine._contours) == quadrature._MOST_CACHED
    kept = engine._contour(DELTA, 150)
    assert engine._contour(DELTA, 150) is kept
    assert (DELTA, 0) not in engine._contours


def test_hostile_epsilons() -> None:
    for factors in (
        CENSUS,
        (LaplaceLoss(Fraction(1), 2, 3),),
        (*CENSUS, LaplaceLoss(Fraction(5000, 73), 1, 1)),
    ):
        engine = Quadrature.build(factors)
        assert engine is not None
        for epsilon in (1e300, Fraction(10) ** 500, 1e9):
            assert engine.log_tails(epsilon).log_delta.upper < -1e9
        for epsilon in (-1e300, -(Fraction(10) ** 500), -1e9, -5e-324):
            tails = engine.log_tails(epsilon)
            assert tails.log_first.upper <= 0
            assert tails.log_delta.upper <= 0
            assert tails.log_delta.lower > -10
        for epsilon in (math.nan, math.inf, -math.inf):
            with pytest.raises(BudgetError, match="finite"):
                engine.log_tails(epsilon)
