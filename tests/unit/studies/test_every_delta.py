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
    rho_of,
)
from tallyveil.noise.balls import precision, rational
from tallyveil_studies.exhibit import StudyInputs
from tallyveil_studies.fdp_census.allocation import geolevels
from tallyveil_studies.fdp_census.table_1 import ALL_GEOLEVELS, FAR_DELTAS, bureau, every_delta

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


@pytest.mark.parametrize("delta", FAR_DELTAS)
@pytest.mark.parametrize(
    "event",
    [
        DiscreteGaussian(Fraction(1, 3)),
        DiscreteGaussian(Fraction(400), multiplicity=1890),
        DiscreteLaplace(Fraction(2), multiplicity=3),
        SequentialEvent((DiscreteGaussian(Fraction(5), multiplicity=2), DiscreteGaussian(Fraction(20)))),
    ],
    ids=["wide", "1,890 queries", "Laplace", "two variances"],
)
def test_every_mechanism_keeps_what_is_proved(event, delta):
    promised = bureau(rho_of(event, laplace_as_zcdp=True), Fraction(delta))
    exact = compose(event, neighbours=Neighbours.UNBOUNDED).epsilon(delta)
    assert exact.lower <= promised.proved_at_most
    assert promised.proved_less > 0
    assert exact.upper < promised.epsilon


def test_the_table_has_every_geolevel_and_a_certified_difference():
    table = every_delta(StudyInputs(None)).tables["every-delta"]
    assert table.select("geolevel", "delta").rows() == [
        (name, delta) for name in (*geolevels(), ALL_GEOLEVELS) for delta in FAR_DELTAS
    ]
    for row in table.iter_rows(named=True):
        assert row["smaller_by"] >= row["proved_smaller_by"] - CLOSE * row["bureau_epsilon"]
        assert row["proved_smaller_by"] > 0
    state = table.filter(geolevel="State", delta="1e-11").row(0, named=True)
    assert (round(state["bureau_epsilon"], 2), round(state["exact_epsilon_upper"], 2)) == (11.07, 10.13)
