"""Every trusted value of the census allocations, by every engine that takes them.

The trusted values come from exact integer polynomials in ball arithmetic and are printed to twelve digits: an
upper bound may lie 1e-12 below one, and no further.
"""

import math
from fractions import Fraction

import pytest

from tallyveil.accounting import Neighbours, zcdp_to_epsilon_textbook
from tallyveil.accounting.events import DiscreteGaussian
from tallyveil.accounting.guarantee import compose

PRINTED = 1e-12
WIDEST = 1e-9
ENGINES = ("auto", "closed_form", "quadrature", "tilted_fft")
RHO = Fraction(365, 100)
SHARES = (20, 274, 85, 131, 238, 118, 3)  # thousandths
COUNTS = (10, 10, 10, 20, 10, 10, 10)

LEVELS = [
    # variance, zCDP at 1e-11, exact at 1e-11, zCDP at 1e-5, exact at 1e-5, variance for the zCDP one, reduction %
    ("68.49", 2.7926069, 2.468210254142, 1.9065597, 1.478135886784, "54.191402355493", 20.8769),
    ("5.00", 11.0654729, 10.124830934481, 7.7861404, 6.571195284952, "4.245685818070", 15.0863),
    ("16.12", 5.9159617, 5.326792891088, 4.0895952, 3.328005572559, "13.286231556140", 17.5792),
    ("10.46", 7.4371157, 6.737262012840, 5.1698386, 4.266526600607, "8.720864715788", 16.6265),
    ("5.76", 10.2460062, 9.348887172958, 7.1906686, 6.044121308363, "4.875840917054", 15.3500),
    ("11.61", 7.0361233, 6.362078616174, 4.8840635, 4.017102534069, "9.648473819142", 16.8951),
    ("456.62", 1.0642249, 0.917830869218, 0.7210678, 0.522190555676, "343.268296779377", 24.8241),
]


def level(variance, engine="auto"):
    event = DiscreteGaussian(Fraction(variance), 1, 10)
    return compose(event, neighbours=Neighbours.UNBOUNDED, engine=engine)


def all_levels(engine="auto", factor=1):
    events = [
        DiscreteGaussian(factor * 10 / (2 * Fraction(share, 1000) * RHO), 1, count)
        for share, count in zip(SHARES, COUNTS, strict=True)
    ]
    return compose(*events, neighbours=Neighbours.UNBOUNDED, engine=engine)


def holds(bounds, trusted, printed=PRINTED):
    return bounds.width <= WIDEST and bounds.upper >= trusted - printed and bounds.lower <= trusted + printed


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("row", LEVELS, ids=lambda row: row[0])
def test_epsilon_of_one_level(row, engine) -> None:
    variance, _, at_11, _, at_5, _, _ = row
    guarantee = level(variance, engine)
    assert holds(guarantee.epsilon("1e-11"), at_11)
    assert holds(guarantee.epsilon("1e-5"), at_5)


@pytest.mark.parametrize("row", LEVELS, ids=lambda row: row[0])
def test_textbook_epsilon_and_the_variance_that_meets_it(row) -> None:
    variance, textbook_11, _, textbook_5, _, enough, reduction = row
    rho = 10 / (2 * Fraction(variance))
    stated = zcdp_to_epsilon_textbook(rho, Fraction("1e-11"))
    assert stated == pytest.approx(textbook_11, abs=6e-8)
    assert zcdp_to_epsilon_textbook(rho, Fraction("1e-5")) == pytest.approx(textbook_5, abs=6e-8)
    # The smaller variance has that epsilon exactly: its twelve digits after the point decide twelve of epsilon.
    found = level(enough).epsilon("1e-11")
    assert found.lower - 1e-11 <= stated <= found.upper + 1e-11
    assert round(100 * (1 - float(Fraction(enough) / Fraction(variance))), 4) == reduction


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("delta", "epsilon"),
    [
        ("1e-10", 20.324689750790),
        ("1e-5", 14.576026882760),
        ("1e-8", 18.273412805607),
        ("1e-12", 22.164818329670),
        ("1e-15", 24.640678667177),
    ],
)
def test_epsilon_of_all_levels(engine, delta, epsilon) -> None:
    assert holds(all_levels(engine).epsilon(delta), epsilon)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("epsilon", "delta", "digits"),
    [
        ("5", 0.207210363764, 12),
        ("10", 4.567884368769e-3, 13),
        ("15", 4.956003122094e-6, 13),
        ("20", 2.151064104538e-10, 13),
        ("25", 3.428036821068e-16, 13),
        ("20.838545", 2.891656952691e-11, 13),
    ],
)
def test_delta_of_all_levels(engine, epsilon, delta, digits) -> None:
    found = all_levels(engine).delta(epsilon)
    printed = 10.0 ** (1 - digits)
    assert found.upper >= delta * (1 - printed)
    assert found.lower <= delta * (1 + printed)
    assert found.width <= 1e-10 * delta


def test_first_term_only() -> None:
    """The published method keeps the first of the two terms, which is an upper bound."""
    guarantee = all_levels("tilted_fft")
    engine = guarantee.computed_by[0]
    at = engine.log_tails(Fraction("20.838545")).log_first
    assert math.exp(at.upper) == pytest.approx(9.980295360747e-11, rel=2e-12)
    step, offset = engine.lattice.step, engine.lattice.offset
    points = [offset + step * index for index in range(23540, 23549)]
    passing = [point for point in points if engine.log_tails(point).log_first.upper <= math.log(1e-10)]
    assert points[0] < passing[0]
    assert round(float(passing[0]), 5) == 20.83712


def test_textbook_epsilon_of_all_levels_and_the_reduction_it_allows() -> None:
    stated = zcdp_to_epsilon_textbook(RHO, Fraction("1e-10"))
    assert stated == pytest.approx(21.985141765940, abs=1e-12)
    assert all_levels(factor=Fraction("0.8772025")).epsilon("1e-10").upper < stated
    assert all_levels(factor=Fraction("0.8772015")).epsilon("1e-10").lower > stated


def test_engines_agree_where_delta_has_no_float() -> None:
    bounds = [all_levels(engine).log_delta(140) for engine in ("closed_form", "tilted_fft")]
    assert bounds[0].upper < math.log(5e-324)
    assert max(one.width for one in bounds) < 1e-10
    assert bounds[0].lower <= bounds[1].upper
    assert bounds[1].lower <= bounds[0].upper


def test_epsilon_at_300_zeros_is_proved() -> None:
    """Exact integer arithmetic agrees on one level at delta 1e-300."""
    from tallyveil.accounting.engines.ball_tails import Proved
    from tallyveil.accounting.losses import GaussianLoss

    found = level("5", "tilted_fft").epsilon("1e-300")
    assert found.width < WIDEST
    proved = Proved.build((GaussianLoss(Fraction(5), 1, 10),), least_delta=Fraction(1, 10**305))
    assert proved.log_tails(found.upper).log_delta.upper <= -300 * math.log(10) + 1e-9
    assert proved.log_tails(found.lower).log_delta.lower >= -300 * math.log(10) - 1e-9


def test_census_redistricting_and_dhc() -> None:
    """The released allocations: without a usable lattice, and on one of 1e-4."""
    from tallyveil.budget.presets import load_strategy_preset

    strategy = load_strategy_preset("redistricting-us").strategy
    released = compose(strategy.event(), neighbours=strategy.neighbours).epsilon("1e-10")
    assert released.width < 2e-9
    # What the certificate of the release says is 17.14 by the best conversion of zCDP.
    assert 16.4651 < released.lower <= released.upper < 16.4652


def test_dhc_persons() -> None:
    """Demographic and Housing Characteristics, persons: 80 budgets in units of 1e-4, each query twice."""
    same = (73, 999, 310, 478, 478, 868, 430, 11)
    sixth = (292, 3996, 1240, 1912, 1912, 3472, 430, 11)
    seventh = (73, 999, 1240, 478, 478, 3472, 430, 11)
    rows = [same] * 5 + [sixth, seventh] + [same] * 3
    assert sum(map(sum, rows)) == 49622
    events = [DiscreteGaussian(Fraction(10**4, rho), 1, 2) for row in rows for rho in row]
    found = {
        engine: compose(*events, neighbours=Neighbours.BOUNDED, engine=engine).epsilon("1e-10")
        for engine in ("tilted_fft", "auto")
    }
    assert found["tilted_fft"].width < WIDEST
    assert found["auto"].lower <= found["tilted_fft"].upper
    assert found["tilted_fft"].lower <= found["auto"].upper
    # The certificate states 26.34 by the textbook conversion.
    assert zcdp_to_epsilon_textbook(Fraction(24811, 5000), Fraction("1e-10")) == pytest.approx(
        26.34, abs=5e-3
    )
    assert 24.4 < found["tilted_fft"].lower < found["tilted_fft"].upper < 24.6
