"""What methods are compared by: no gain below zero, no share of few people, and no method that no office uses alone."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from tests.comparisons import publications, small_input, targets_of

from tallyveil.compare.attacks.attack import Finding
from tallyveil.compare.columns import FEWEST_TRIED, Column
from tallyveil.compare.figures import Dot, frontier
from tallyveil.compare.losses import losses_of
from tallyveil.compare.methods.permutation_swapping import certificate_of
from tallyveil.compare.methods.rounding import Rounding
from tallyveil.compare.methods.sampling import Sampling
from tallyveil.compare.methods.suppression import Suppression
from tallyveil.compare.methods.swapping import Swapping
from tallyveil.compare.results import MethodResult

GAIN = Finding("an attack", "bits gained", -0.2, -0.3, 0.1, FEWEST_TRIED)
COLUMN = Column(
    "bits", lambda result: result.findings[0].value, str, "fewer", lambda result: result.findings[0]
)


@pytest.fixture(scope="module")
def targets():
    return targets_of(small_input(60), 400)


def result_of(targets, finding, method):
    losses = losses_of(targets.shared, publications(method, targets)[0], "group")
    return MethodResult(method, losses, (finding,), None, (), 1, 0.0)


def test_a_misled_attacker_counts_as_one_who_gains_nothing(targets):
    misled = result_of(targets, GAIN, Rounding(name="x", base=5))
    nothing = replace(misled, findings=(replace(GAIN, value=0.0, low=-0.1, high=0.1),))
    gains = replace(misled, findings=(replace(GAIN, value=0.5, low=0.4, high=0.6),))
    assert COLUMN.value(misled) == -0.2
    assert COLUMN.ranked(misled) == 0
    assert not COLUMN.is_apart(misled, nothing)
    assert COLUMN.is_apart(misled, gains)


@pytest.mark.parametrize(
    ("finding", "method"),
    [
        (replace(GAIN, tried=FEWEST_TRIED - 1), Rounding(name="x", base=5)),
        (GAIN, Suppression(name="x", threshold=3, secondary=False)),
        (GAIN, Sampling(name="x", share=Fraction(1, 2))),
    ],
    ids=["few people", "sensitive counts alone", "a sample"],
)
def test_what_is_not_compared(targets, finding, method):
    result = result_of(targets, finding, method)
    assert COLUMN.value(result) == -0.2
    assert COLUMN.ranked(result) is None


def test_hollow_dots_beat_nobody():
    dots = [
        Dot(number, f"{number}", "rounding", loss, risk, risk, risk, is_ranked=number != 3)
        for number, loss, risk in ((1, 1.0, 0.5), (2, 2.0, 0.2), (3, 0.5, 0.1), (4, 3.0, 0.3))
    ]
    assert [dot.number for dot in frontier(dots)] == [1, 2]


def test_a_bound_near_one_is_empty():
    assert certificate_of(100, Fraction(1, 10), ()).is_empty
    assert not certificate_of(2, Fraction(1, 2), ()).is_empty


def test_targeted_swapping_moves_who_is_unique():
    shared = small_input(240)
    shares = {}
    for targeting in (0, 4):
        method = Swapping(
            name="x", rate="1/5", within="Region", across="Town", match=["age"], targeting=targeting
        )
        shares[targeting] = method.swapped(shared, np.random.default_rng(1))[2]
    # Partners are taken at random, so that some of the unique move without targeting as well.
    assert shares[4] > shares[0] + 0.2
