"""From aims to a strategy: against shares worked out by hand, where every share buys one unrelated count."""

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tallyveil.accounting import compose
from tallyveil.accounting.events import Neighbours
from tallyveil.budget.optimal.aims import Aim, Aims, Goal, Target, VarianceModel
from tallyveil.budget.optimal.choose import (
    LOSS,
    MARGIN,
    _check_targets,
    _least,
    _rounded_up,
    choose_shares,
    present_shares,
)
from tallyveil.budget.optimal.solve import Evaluated
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import BudgetError
from tallyveil.noise.laws import LARGEST_VARIANCE

DELTA = Fraction(1, 10**10)
MOST = Fraction(2)
STRATEGY = Strategy(
    Mechanism.DISCRETE_GAUSSIAN,
    Neighbours.BOUNDED,
    MOST,
    (("Town", Fraction(1, 4)), ("Block", Fraction(3, 4))),
    (
        ("Town", (("total", Fraction(1)),)),
        ("Block", (("total", Fraction(1, 3)), ("age", Fraction(2, 3)))),
    ),
)
PLACES = (("Town", "total"), ("Block", "total"), ("Block", "age"))
PRESENT = np.array([1 / 4, 1 / 4, 1 / 2])
SIZES = np.array([1.0, 4.0, 9.0])


def variances(shares):
    """The variance of each place of `PLACES` at the total of the strategy."""
    return Evaluated(SIZES / shares, np.diag(-SIZES / shares**2))


def some(*chosen):
    """The same of some places, in this order."""

    def of_some(shares):
        found = variances(shares)
        return Evaluated(found.values[list(chosen)], found.slopes[list(chosen)])

    return of_some


def aims_of(*weights, **further):
    aims = tuple(Aim(*place, Fraction(one)) for place, one in zip(PLACES, weights, strict=False))
    return Aims(VarianceModel.LEAST_SQUARES, **{"relative": False, "spare": False, "aims": aims, **further})


def chosen(aims, most=MOST, of=variances, strategy=STRATEGY):
    return choose_shares(strategy, aims, of, DELTA, most)


@pytest.fixture
def by_rho(monkeypatch):
    """The budget is accounted for by rho, which is quick: epsilon stands for it."""
    monkeypatch.setattr(
        "tallyveil.budget.optimal.choose.epsilon_of", lambda strategy, _: float(strategy.total)
    )
    monkeypatch.setattr("tallyveil.budget.optimal.choose.rho_for_target", lambda _, epsilon, __: epsilon)


def values_of(strategy):
    """The variances that a strategy gives, by its own shares and total."""
    spent = [float(strategy.share(*place)) for place in PLACES]
    return SIZES * float(MOST) / np.array(spent)


@pytest.mark.usefixtures("by_rho")
def test_the_weighted_sum_is_as_small_as_can_be():
    """The least of sum a_k c_k / w_k is (sum of the roots of a_k c_k)^2."""
    found = chosen(aims_of(1, 9, 1))
    shares = present_shares(found.strategy)
    least = (1 + 6 + 3) ** 2
    assert shares == pytest.approx([0.1, 0.6, 0.3], rel=0.05)
    reached = float(np.array([1, 9, 1]) @ (SIZES / shares))
    assert least <= reached <= least / (1 - found.gap)
    assert found.gap < 1e-3
    assert found.before is STRATEGY
    assert [(one.area, one.query) for one in found.outcomes] == list(PLACES)
    assert [(one.weight, one.wanted) for one in found.outcomes] == [(1, None), (9, None), (1, None)]
    assert [one.before**2 for one in found.outcomes] == pytest.approx(list(SIZES / PRESENT))
    assert [one.after**2 for one in found.outcomes] == pytest.approx(list(values_of(found.strategy)))


@pytest.mark.usefixtures("by_rho")
def test_relative_variances_are_divided_by_the_present_ones():
    """The present shares are then the weights: the least of sum p_k / w_k is at w_k as the root of p_k."""
    shares = present_shares(chosen(aims_of(1, 1, 1, relative=True)).strategy)
    assert shares == pytest.approx(np.sqrt(PRESENT) / np.sqrt(PRESENT).sum(), rel=0.05)
    assert 1 - np.sum(PRESENT / shares) ** -1 * np.sqrt(PRESENT).sum() ** 2 < 1e-3


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.usefixtures("by_rho")
def test_the_largest_weighted_variance_is_as_small_as_can_be(relative):
    found = chosen(aims_of(1, 2, 1, goal=Goal.MAXIMUM, relative=relative))
    units = SIZES / PRESENT if relative else np.ones(3)
    weighted = np.array([1, 2, 1]) / units * (SIZES / present_shares(found.strategy))
    assert weighted == pytest.approx(np.full(3, (np.array([1, 2, 1]) / units * SIZES).sum()), rel=2e-3)
    assert found.gap < 1e-3


@pytest.mark.usefixtures("by_rho")
def test_no_aim_that_is_spared_becomes_worse():
    greedy = chosen(aims_of(1, 1, 100))
    assert greedy.outcomes[0].ratio > 1.5
    spared = chosen(
        aims_of(1, 1, 100, spare=True, aims=(Aim(*PLACES[0]), Aim(*PLACES[2], Fraction(100)))), of=some(0, 2)
    )
    assert spared.outcomes[0].ratio == pytest.approx(1, abs=1e-3)
    assert spared.outcomes[1].ratio < 0.9


@pytest.mark.nightly
def test_the_epsilon_and_the_declared_rho_are_kept():
    def epsilon(strategy):
        return compose(strategy.event(), neighbours=strategy.neighbours).epsilon(DELTA).upper

    free, bound = (
        chosen(aims_of(1, 9, 1), most=Fraction(3)),
        chosen(aims_of(1, 9, 1), most=Fraction(199, 100)),
    )
    assert bound.strategy.total == Fraction(199, 100)
    assert bound.strategy.geolevel_shares == free.strategy.geolevel_shares
    for found in (free, bound):
        assert found.epsilon == epsilon(found.strategy)
        assert found.epsilon_before == epsilon(STRATEGY)
        assert found.delta == DELTA
        assert [one.after**2 for one in found.outcomes] == pytest.approx(list(values_of(found.strategy)))
    assert found.epsilon_before * (1 - 1e-6) < free.epsilon <= found.epsilon_before
    assert bound.epsilon < free.epsilon


def targets_of(*deviations):
    return tuple(Target(*place, Fraction(one)) for place, one in zip(PLACES, deviations, strict=True) if one)


@pytest.mark.usefixtures("by_rho")
def test_the_least_rho_of_targets():
    """Target k needs the part w_k >= c_k / s_k^2 of the present total: the sum of these parts is the least."""
    aims = aims_of(goal=Goal.RHO, targets=targets_of(1, 3, 2))
    found = chosen(aims, most=Fraction(1))  # what is declared does not count
    least = 2 * (1 + 4 / 9 + 9 / 4)
    assert least <= float(found.strategy.total) <= least * (1 + 1.5e-3)
    assert found.strategy.total == _rounded_up(found.strategy.total)
    assert np.all(np.sqrt(values_of(found.strategy)) <= np.array([1, 3, 2]) * (1 + 1e-9))
    assert [(one.weight, one.wanted) for one in found.outcomes] == [(None, 1), (None, 3), (None, 2)]
    assert [one.after**2 for one in found.outcomes] == pytest.approx(list(values_of(found.strategy)))
    assert found.mean_ratio == pytest.approx(np.sqrt(np.mean([one.ratio**2 for one in found.outcomes])))


@pytest.mark.usefixtures("by_rho")
def test_the_least_rho_of_targets_that_spares_the_aims():
    aims = aims_of(1, goal=Goal.RHO, spare=True, targets=targets_of(None, None, 2))
    found = chosen(aims, of=some(0, 2))
    aim, target = found.outcomes
    assert aim.after <= aim.before * (1 + 1e-9)
    assert target.after <= 2 * (1 + 1e-9)
    assert float(found.strategy.total) == pytest.approx(2 * (1 / 4 + 9 / 4), rel=1.5e-3)
    assert found.mean_ratio == aim.ratio  # of aims alone, where there are any


@pytest.mark.usefixtures("by_rho")
def test_a_target_binds_the_sum_after_rounding_and_calibration():
    aims = aims_of(1, 1, 9, targets=targets_of("3/2", None, None))
    found = chosen(aims)
    shares = present_shares(found.strategy)
    assert np.sqrt(values_of(found.strategy)[0]) <= 1.5
    assert shares[0] == pytest.approx(4 / 9, rel=5e-3)
    assert shares[1:] == pytest.approx(np.array([2, 9]) / 11 * 5 / 9, rel=0.05)


@pytest.mark.usefixtures("by_rho")
def test_targets_that_no_shares_reach():
    aims = aims_of(1, 1, 1, targets=targets_of(1, 3, 3))
    with pytest.raises(
        BudgetError, match=r"with rho = 2 and 0\.2% of each variance to spare: at least"
    ) as error:
        chosen(aims)
    assert error.value.code == "target-out-of-reach"
    least = 2 * (1 + 4 / 9 + 1) * (1 + MARGIN)
    (needed,) = re.findall("at least rho = ([0-9.]+)", str(error.value))
    assert least * (1 - 1e-3) < float(needed) <= least


@pytest.mark.usefixtures("by_rho")
def test_targets_within_reach_that_the_present_shares_miss():
    """0.9 of the budget is needed. The present shares give the first place too little."""
    found = chosen(aims_of(1, 1, 1, targets=targets_of("5/4", 7, 7)))
    assert np.all(np.sqrt(values_of(found.strategy)) <= [1.25, 7, 7])


def test_a_target_is_checked_at_the_very_end():
    aims = aims_of(1, targets=targets_of(2, None, None))
    _check_targets(aims, np.array([4.0]))
    with pytest.raises(BudgetError, match=r"becomes 2\.0[0-9]*; wanted") as error:
        _check_targets(aims, np.array([4.0 * (1 + 1e-6)]))
    assert error.value.code == "target-out-of-reach"


@pytest.mark.usefixtures("by_rho")
def test_what_is_kept_is_kept_exactly():
    aims = aims_of(100, 100, 1, keep=(("Block", "age", Fraction(2, 5)), ("Town", "total", Fraction(1, 100))))
    with_these = chosen(aims).strategy
    shares = {place: with_these.share(*place) / with_these.total for place in PLACES}
    assert Fraction(2, 5) <= shares["Block", "age"] < Fraction(41, 100)
    assert float(shares["Block", "total"] / shares["Town", "total"]) == pytest.approx(2, rel=0.05)
    with pytest.raises(BudgetError, match=r"'age' at Town, which .* Measured there: total") as error:
        chosen(aims_of(1, 1, 1, keep=(("Town", "age", Fraction(1, 5)),)))
    assert error.value.code == "bad-aim"


def test_a_share_is_never_below_what_can_be_drawn_or_written():
    aims = aims_of(1, 1, 1)
    plain = _least(STRATEGY, aims, PRESENT)
    assert plain == pytest.approx(np.full(3, 1 / 7500))
    tiny = np.array([1e-5, 0.5, 0.49999])
    assert _least(STRATEGY, aims, tiny) == pytest.approx([5e-6, 1 / 7500, 1 / 7500])
    # With this total, the largest variance that can be drawn takes a fifth of it.
    poor = replace(STRATEGY, total=5 / LARGEST_VARIANCE)
    drawn = _least(poor, aims, PRESENT)
    assert drawn == pytest.approx([0.202, 0.202, 0.202])
    barely = _least(poor, aims, np.array([0.201, 0.299, 0.5]))
    assert barely == pytest.approx([0.201 / 1.01, 0.202, 0.202])
    kept = _least(STRATEGY, aims_of(1, 1, 1, keep=(("Block", "total", Fraction(1, 5)),)), PRESENT)
    assert kept == pytest.approx([1 / 7500, 0.2 * (1 + 2 * LOSS), 1 / 7500])


@pytest.mark.usefixtures("by_rho")
def test_present_shares_below_the_least_ones_are_raised_first():
    """One present share is below what is to be kept."""
    found = chosen(aims_of(1, 1, 1, keep=(("Town", "total", Fraction(3, 10)),)))
    shares = present_shares(found.strategy)
    assert shares == pytest.approx([0.3, 0.28, 0.42], rel=0.05)
    assert shares[0] >= 0.3


@pytest.mark.parametrize(
    ("value", "rounded"),
    [("1", "1"), ("1.23456789", "1.23456789"), ("1.234567890001", "1.2345679"), ("98765.43210001", "98765.4322"),
     ("0.0123456789999", "0.0123456790"), ("999.9999999", "1000")],
)  # fmt: skip
def test_the_least_rho_is_rounded_up_to_nine_digits(value, rounded):
    assert _rounded_up(Fraction(value)) == Fraction(rounded)
