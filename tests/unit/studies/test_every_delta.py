"""Section 3.1 of the f-DP paper: epsilon is smaller at every delta, by at least what is proved."""

import random
from fractions import Fraction

import pytest
from flint import arb

from tallyveil.accounting import (
    DiscreteGaussian,
    DiscreteLaplace,
    Neighbours,
    SequentialEvent,
    compose,
    curve_excess,
    rho_of,
)
from tallyveil.accounting.reduction import STEPS, ShrunkCurve, certified_reduction
from tallyveil.accounting.renyi import ZcdpConversion, ZcdpCurve
from tallyveil.budget.guarantees import TOGETHER
from tallyveil.budget.presets import load_product, product_names
from tallyveil.noise.balls import precision, rational
from tallyveil_studies.exhibit import StudyInputs
from tallyveil_studies.fdp_census.allocation import geolevels
from tallyveil_studies.fdp_census.every_delta import (
    FAR_DELTAS,
    PAPER,
    bureau,
    every_delta,
    far_deltas,
    reductions,
)

CLOSE = 1e-9
"""Relative: upper ends of certified bounds are this close to the exact epsilon."""
DRAWS = random.Random(7)
PAIRS = [
    (Fraction(DRAWS.randint(1, 10**6), 10**4), Fraction(DRAWS.randint(1, 10**6), 10**5)) for _ in range(200)
]


def constant(x: arb) -> arb:
    """c(x) of the lemma."""
    return (x * x.log() - (1 + x) * (1 + x).log()).exp()


def left(t: arb) -> arb:
    return 1 - (-t).exp()


@pytest.mark.parametrize("share", [Fraction(1), Fraction(99, 100)], ids=["the constant", "less"])
def test_the_constant_bounds_every_loss_and_no_smaller_one_does(share):
    with precision(200):
        holds = [bool(left(t) <= rational(share) * constant(x) * (x * t).exp()) for x, t in map(balls, PAIRS)]
        at_worst = [
            bool(
                left((1 + 1 / x).log())
                <= rational(share) * constant(x) * (x * (1 + 1 / x).log()).exp() * (1 + arb(2) ** -99)
            )
            for x, _ in map(balls, PAIRS)
        ]
        below_one = [bool(constant(x) < 1) for x, _ in map(balls, PAIRS)]
    assert all(below_one)
    if share == 1:
        assert all(holds)
        assert all(at_worst)
    else:
        assert not any(at_worst)


def balls(pair: tuple[Fraction, Fraction]) -> tuple[arb, arb]:
    return rational(pair[0]), rational(pair[1])


MECHANISMS = pytest.mark.parametrize(
    "event",
    [
        DiscreteGaussian(Fraction(1, 3)),
        DiscreteGaussian(Fraction(400), multiplicity=1890),
        DiscreteLaplace(Fraction(2), multiplicity=3),
        SequentialEvent((DiscreteGaussian(Fraction(5), multiplicity=2), DiscreteGaussian(Fraction(20)))),
    ],
    ids=["wide", "1,890 queries", "Laplace", "two variances"],
)


@pytest.mark.parametrize("delta", FAR_DELTAS)
@MECHANISMS
def test_every_mechanism_keeps_what_is_proved(event, delta):
    promised = bureau(rho_of(event, laplace_as_zcdp=True), Fraction(delta))
    exact = compose(event, neighbours=Neighbours.UNBOUNDED).epsilon(delta)
    assert exact.lower <= promised.proved_at_most
    assert promised.proved_less > 0
    assert exact.upper < promised.epsilon


@MECHANISMS
def test_the_profile_is_below_the_best_conversions_at_every_epsilon(event):
    guarantee = compose(event, neighbours=Neighbours.UNBOUNDED)
    best = ZcdpCurve(rho_of(event, laplace_as_zcdp=True), ZcdpConversion.BEST)
    end = best.epsilon(Fraction("1e-200"))
    for place in range(41):
        epsilon = end * place / 40
        assert guarantee.log_delta(epsilon).upper < best.log_delta_below(epsilon)


@pytest.mark.parametrize("conversion", list(ZcdpConversion))
@MECHANISMS
def test_a_reduction_holds_at_every_delta_and_no_larger_one_does(event, conversion):
    guarantee, smallest = compose(event, neighbours=Neighbours.UNBOUNDED), Fraction("1e-10")
    curve = ZcdpCurve(rho_of(event, laplace_as_zcdp=True), conversion)
    certified = certified_reduction(guarantee, curve, smallest, guarantee.epsilon(smallest))
    assert certified > 0
    for exponent in range(21):
        delta = Fraction(10) ** -10 * Fraction(5, 2) ** exponent
        assert guarantee.epsilon(delta).upper <= (1 - certified) * Fraction(curve.epsilon(delta)) + CLOSE
    # One step more is too much, at a point that can be named.
    more = ShrunkCurve(curve, 1 - certified - Fraction(1, STEPS))
    worst = curve_excess(guarantee, more, more.epsilon(smallest), sign_only=True)
    assert worst.largest > 0
    assert guarantee.log_delta(worst.epsilon).lower > more.log_delta_below(worst.epsilon)


def test_losses_on_a_lattice_may_be_worse_than_at_the_smallest_delta():
    # One query: its losses are so far apart that the reduction rises and falls between them.
    event = DiscreteGaussian(Fraction(1, 3))
    guarantee, curve = compose(event, neighbours=Neighbours.UNBOUNDED), ZcdpCurve(rho_of(event))
    exact = guarantee.epsilon("1e-10")
    at_delta = 1 - exact.upper / curve.epsilon(Fraction("1e-10"))
    assert float(certified_reduction(guarantee, curve, Fraction("1e-10"), exact)) < at_delta - 1 / STEPS


def test_nothing_is_certified_of_a_curve_that_is_exceeded():
    guarantee = compose(DiscreteGaussian(Fraction(5), multiplicity=10), neighbours=Neighbours.UNBOUNDED)
    exact = guarantee.epsilon("1e-10")
    assert certified_reduction(guarantee, ZcdpCurve(Fraction(1, 2)), Fraction("1e-10"), exact) == 0


def check_reductions(rows):
    for row in rows:
        for conversion in ZcdpConversion:
            at_delta = 100 * (1 - row["exact_epsilon_upper"] / row[f"{conversion}_epsilon"])
            assert 0 < row[f"smaller_than_{conversion}_percent"] <= at_delta


def test_geolevels_of_the_paper_and_of_products_have_a_percentage():
    paper, product = list(reductions(PAPER)), list(reductions("dhc-persons-us"))
    assert [row["geolevel"] for row in paper] == [*geolevels(), TOGETHER]
    assert [row["geolevel"] for row in product] == [
        *load_product("dhc-persons-us").strategies[0].geolevels,
        TOGETHER,
    ]
    check_reductions([*paper, *product])
    # What the paper prints of the State at one delta.
    assert paper[1]["smaller_than_textbook_percent"] == 8.5


@pytest.mark.nightly
def test_every_geolevel_of_every_product_has_a_percentage():
    findings = every_delta(StudyInputs(None))
    table = findings.tables["every-delta-geolevels"]
    assert list(table["allocation"].unique(maintain_order=True)) == [PAPER, *product_names()]
    assert table.height == 9 + 7 + 6 + 7 + 6 + 9 + 8 + 9 + 8 + 6
    check_reductions(table.iter_rows(named=True))
    assert [str(comparison.verdict) for comparison in findings.comparisons] == ["agrees"]


def test_the_table_has_every_geolevel_and_a_certified_difference():
    table = far_deltas()
    assert table.select("geolevel", "delta").rows() == [
        (name, delta) for name in (*geolevels(), TOGETHER) for delta in FAR_DELTAS
    ]
    for row in table.iter_rows(named=True):
        assert row["smaller_by"] >= row["proved_smaller_by"] - CLOSE * row["bureau_epsilon"]
        assert row["proved_smaller_by"] > 0
    state = table.filter(geolevel="State", delta="1e-11").row(0, named=True)
    assert (round(state["bureau_epsilon"], 2), round(state["exact_epsilon_upper"], 2)) == (11.07, 10.13)


@pytest.mark.parametrize(("variance", "delta"), [(4, "1/2"), (1000, "9/10")], ids=["exact", "both"])
def test_an_epsilon_of_zero_is_no_division_by_zero(variance, delta):
    event = DiscreteGaussian(Fraction(variance))
    guarantee = compose(event, neighbours=Neighbours.UNBOUNDED)
    curve = ZcdpCurve(rho_of(event), ZcdpConversion.BEST)
    assert 0 <= certified_reduction(guarantee, curve, Fraction(delta), guarantee.epsilon(delta)) < 1
