"""Losses cut into cells, against every combination of their values, closed forms, and an integral in 30 digits."""

import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import arb

from tallyveil.accounting import Gaussian, PoissonSampled, compose
from tallyveil.accounting.conversion import _rough, epsilon_at
from tallyveil.accounting.engines import cells
from tallyveil.accounting.engines.ball_tails import Enumeration, OneSample
from tallyveil.accounting.engines.cells import Cells, _Delta, _Law, _Side
from tallyveil.accounting.engines.choose import engine_for
from tallyveil.accounting.losses import (
    ExponentialLoss,
    GaussianLoss,
    LaplaceLoss,
    Law,
    MixtureLoss,
    NormalLoss,
    ResponseLoss,
    SampledLoss,
    merged_law,
    mirrored,
)
from tallyveil.noise.balls import precision, rational

NORMAL = NormalLoss(Fraction(1))
MIXTURE = MixtureLoss(Fraction(2), ((Fraction(1), Fraction(1, 3)), (Fraction(2), Fraction(2, 3))))


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("base", [NORMAL, MIXTURE, ExponentialLoss(Fraction(3, 2))], ids=str)
@pytest.mark.parametrize("q", [Fraction(1, 10**6), Fraction(1, 5)])
def test_one_sample_has_the_tails_of_its_closed_form(base, q, added: bool) -> None:
    law: Law = (SampledLoss(base, q, added=added),)
    engine, truth = Cells(law, 200), OneSample.build(law)
    assert truth is not None
    for epsilon in (Fraction(-1, 100), Fraction(0), q / 3, Fraction(1, 10), Fraction(1)):
        bounds, exact = engine.log_deltas([epsilon])[0], truth.log_tails(epsilon).log_delta
        assert bounds.lower <= exact.upper
        assert exact.lower <= bounds.upper
        if math.isfinite(exact.lower):
            assert bounds.width < 0.2


@pytest.mark.parametrize(
    "law",
    [
        (SampledLoss(LaplaceLoss(Fraction(2), 3, 1), Fraction(1, 7), multiplicity=4),),
        (SampledLoss(ResponseLoss(Fraction(1), 4), Fraction(1, 7), changed=True, multiplicity=5),),
        (
            SampledLoss(LaplaceLoss(Fraction(2), 3, 1), Fraction(1, 7), multiplicity=2),
            LaplaceLoss(Fraction(3), 2, 3),
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize("few", [16, 0])
def test_bounds_enclose_every_combination_of_few_values(
    law, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where pairs of values are cut into cells that are not needed."""
    monkeypatch.setattr(cells, "_FEW", few)
    for way in (law, mirrored(law)):
        engine, truth = Cells(merged_law(way), 60), Enumeration.build(merged_law(way))
        assert truth is not None
        for epsilon in (Fraction(-1, 2), Fraction(1, 10), Fraction(1, 2), Fraction(3, 2)):
            bounds, exact = engine.log_tails(epsilon), truth.log_tails(epsilon)
            for name in ("log_first", "log_second", "log_delta"):
                assert getattr(bounds, name).lower <= getattr(exact, name).upper + 1e-12
                assert getattr(exact, name).lower <= getattr(bounds, name).upper + 1e-12
            assert bounds.log_delta.width < (1e-9 if few else 0.5)


@pytest.mark.parametrize("added", [False, True])
def test_failures_on_samples(added: bool) -> None:
    """Given that nothing is revealed, a failure without the record has the loss ln(1 - q)."""
    q, fails = Fraction(1, 7), Fraction(1, 10)
    engine = Cells((SampledLoss(ResponseLoss(Fraction(1), 3), q, fails, added),), 60)
    whole = 1 if added else 1 - q * fails
    for epsilon in (-0.1, 0.02, 0.1):
        total = 0.0
        # Of three options one is likelier under Q, one under P, and one alike.
        odds = {-1.0: math.e, 0.0: 1.0, 1.0: 1.0}
        for under_q, ratio in [
            *(((1 - fails) * odd / (math.e + 2), 1 - q + q * math.exp(b)) for b, odd in odds.items()),
            (fails, 1 - q),
        ]:
            first, second = (under_q, ratio * under_q) if added else (ratio * under_q, under_q)
            total += max(0.0, first - math.exp(epsilon) * second) / whole
        bounds = engine.log_deltas([epsilon])[0]
        assert bounds.lower - 1e-12 <= math.log(total) <= bounds.upper + 1e-12


@pytest.mark.nightly
def test_two_rare_samples_are_known_to_nine_digits() -> None:
    """Delta of two samples is an integral over the first one of the closed form of the second."""
    q = mpmath.mpf("1e-6")
    bounds = compose(PoissonSampled(Gaussian(1), "1e-6", multiplicity=2), neighbours="unbounded").epsilon(
        "1e-8"
    )
    assert 0 < bounds.width < 1e-9
    with mpmath.workdps(30):

        def delta_of_one(kappa):
            # E_Q (R - kappa)+ for R = 1 - q + q exp(x - 1/2).
            if kappa <= 1 - q:
                return 1 - kappa
            place = mpmath.log((kappa - 1 + q) / q) + mpmath.mpf("0.5")
            return (1 - q) * mpmath.ncdf(-place) + q * mpmath.ncdf(1 - place) - kappa * mpmath.ncdf(-place)

        def delta_of_two(kappa):
            def part(x):
                ratio = 1 - q + q * mpmath.exp(x - mpmath.mpf("0.5"))
                return mpmath.npdf(x) * ratio * delta_of_one(kappa / ratio)

            return mpmath.quad(part, list(range(-12, 20)))

        assert delta_of_two(mpmath.exp(bounds.lower)) >= mpmath.mpf("1e-8") * (1 - mpmath.mpf("1e-12"))
        assert delta_of_two(mpmath.exp(bounds.upper)) <= mpmath.mpf("1e-8") * (1 + mpmath.mpf("1e-12"))


def test_tiny_deltas_keep_their_digits() -> None:
    law = (SampledLoss(GaussianLoss(Fraction(1), 1, 1), Fraction(1, 100), multiplicity=2),)
    engine = Cells(law, 400)
    for epsilon in (5.0, 20.0):
        bounds = engine.log_deltas([epsilon])[0]
        assert bounds.width < 0.02
    assert bounds.upper < -200


@pytest.mark.parametrize("places", [[-1.0, 2.0], [9.0, 11.0], [12.0, 13.0]])
def test_no_cell_of_integer_noise_has_losses_on_both_sides_of_0(places: list[float]) -> None:
    """So that a sample of fixed size leaves out no loss above 0, wherever its cells are cut."""
    loss = SampledLoss(GaussianLoss(Fraction(4), 21, 1), Fraction(1, 3), changed=True)
    with precision(192):
        outcomes = cells._all_cells(loss, lambda _: np.array(places))
        plain = Fraction(-1, 8)
        weights = {y: (rational(plain) * (y * y)).exp() for y in range(-80, 81)}
        above = sum((weights[y] for y in range(11, 81)), arb(0)) / sum(weights.values(), arb(0))
        upper = [cell for cell in outcomes if not cell.least < 1 and cell.most is not None]
        held = sum((cell.second for cell in upper if cell.least > 1), arb(0))
    assert float(held) == pytest.approx(float(above), rel=1e-12)


@pytest.mark.parametrize("is_upper", [True, False])
def test_sums_are_on_their_side_of_plain_sums(is_upper: bool) -> None:
    rng = np.random.default_rng(5)
    left, right = (_Law(np.sort(rng.normal(0, 1, 40)), rng.uniform(0, 1, 40)) for _ in range(2))
    side = _Side(is_upper, 1.0, 25)
    total = side._cut(left, right, math.inf)
    whole = float(left.masses.sum() * right.masses.sum())
    assert total.masses.sum() == pytest.approx(whole, rel=1e-9)
    # From above both probabilities stay as they are; from below, too, as only what is told apart changes.
    seconds = float((left.masses * np.exp(-left.values)).sum() * (right.masses * np.exp(-right.values)).sum())
    assert float((total.masses * np.exp(-total.values)).sum()) == pytest.approx(seconds, rel=1e-9)
    sums = np.add.outer(left.values, right.values)
    assert (np.diff(total.values) >= 0).all()
    for epsilon in (-2.0, 0.3, 1.0):
        plain = float(
            (np.multiply.outer(left.masses, right.masses) * np.maximum(-np.expm1(epsilon - sums), 0)).sum()
        )
        delta = math.exp(_Delta.of(total, cells._NONE).log_delta(Fraction(epsilon), 1 if is_upper else -1))
        assert delta >= plain if is_upper else delta <= plain
        both = math.exp(_Delta.of(left, right).log_delta(Fraction(epsilon), 1 if is_upper else -1))
        assert both == pytest.approx(plain, rel=1e-9)
        assert both >= plain if is_upper else both <= plain


def test_one_infinite_loss_is_enough() -> None:
    left, right = _Law(np.zeros(1), np.ones(1), 0.25), _Law(np.zeros(1), np.ones(1), 0.125)
    assert cells._infinite(left, right) == pytest.approx(0.25 * 1.125 + 0.125)
    assert replace(left, slip=1.0).infinite == 0.25


@pytest.mark.parametrize(("mass", "is_upper"), [(1e-170, True), (1.62e-162, False)])
def test_products_below_every_float_are_on_the_safe_side(mass: float, is_upper: bool) -> None:
    """One product is lost, the other one is rounded up to twice its size; a large factor makes up for both."""
    law = _Law(np.array([0.0, 10.0]), np.array([1.0, mass]))
    for total in (
        _Side(is_upper, 1.0, 25).sum(law, law, math.inf),
        _Side(is_upper, 1.0, 25)._cut(law, law, math.inf),
    ):
        log_delta = _Delta.of(total, _Law(np.zeros(1), np.array([1e250]))).log_delta(
            Fraction(15), 1 if is_upper else -1
        )
        plain = 2 * math.log(mass) + math.log(1e250) + math.log(-math.expm1(-5))
        assert log_delta >= plain if is_upper else log_delta <= plain


def test_equal_ends_add_up_to_the_safe_side() -> None:
    for is_upper in (True, False):
        law = cells._law([(1.0, 1.0), (1.0, 2.0**-53), (1.0, 2.0**-53)], 0.0, is_upper=is_upper)
        assert law.masses.size == 1
        exact = 1 + Fraction(2, 2**53)
        assert Fraction(law.masses[0]) > exact if is_upper else Fraction(law.masses[0]) < exact


def test_single_samples_of_two_kinds_are_one_half_each() -> None:
    """Nothing is lost by cutting their sum."""
    law = (SampledLoss(NORMAL, Fraction(1, 5)), SampledLoss(MIXTURE, Fraction(1, 7)))
    near = Cells(law, 60)._at(1.0)
    assert min(near.upper.left.values.size, near.upper.right.values.size) > 30


def test_the_lower_end_holds_where_the_slope_of_delta_is_hardly_known() -> None:
    law: Law = (SampledLoss(NORMAL, Fraction(1, 10**12)),)
    truth = OneSample.build(law)
    assert truth is not None
    bounds = epsilon_at(Cells(law, 400), law, Fraction(1, 10**300))
    exact = epsilon_at(truth, law, Fraction(1, 10**300))
    assert 9 < bounds.lower <= exact.upper
    assert exact.lower <= bounds.upper < 9.1


def test_a_search_sees_cells_where_a_contour_is_wide() -> None:
    law: Law = (SampledLoss(NormalLoss(Fraction(90)), Fraction(1, 10), multiplicity=10),)
    engine = _rough(engine_for(law, "auto", 1e-9))
    bounds = engine.log_deltas([332.63])[0]
    assert bounds.width < 0.2
