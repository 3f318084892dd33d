"""A black-box audit: a million runs of the real measuring code refute no epsilon that is claimed, and would if it lied.

Every region is a run of its own, since each has noise of its own: half a million regions with the same few people in
each, and half a million with one person more.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from tests.auditing import audit_epsilon, binomial_bounds
from tests.safetab_regions import BASE, measured, plan_of_tracts

from tallyveil.accounting import compose
from tallyveil.noise.laws import DiscreteGaussian, DiscreteLaplace
from tallyveil.products.safetab.public.levels import NEIGHBOURS

pytestmark = pytest.mark.nightly

RUNS = 500_000
CONFIDENCE = 0.999


def scores(one, people, key):
    """Scores of every region, with so many people in each; every detail is chosen somewhere."""
    found = measured(one, people, RUNS, key)
    assert len(found.groups) == one.stability
    assert {detail for part in found.parts for detail in np.unique(part.detail[:, found.groups])} == {
        0,
        1,
        2,
        3,
    }
    return found.scores


@pytest.mark.soak
@pytest.mark.parametrize(
    ("mechanism", "budget", "delta"), [("zcdp", 0.7, Fraction(1, 100)), ("puredp", 1.5, Fraction(1, 1000))]
)
def test_no_claimed_epsilon_is_refuted_and_halved_noise_is(tmp_path, mechanism, budget, delta):
    plan = plan_of_tracts(tmp_path / "p", mechanism, budget)
    (run,) = plan.runs
    (one,) = run.sets
    claimed = compose(run.event(), neighbours=NEIGHBOURS).epsilon(delta)

    def audited(law_set):
        sides = [scores(law_set, BASE + more, f"audit {more}") for more in (0, 1)]
        return audit_epsilon(*sides, delta=float(delta), confidence=CONFIDENCE)

    honest = audited(one)
    assert honest.lower <= claimed.upper
    assert honest.lower > 0.8 * claimed.upper  # an audit that sees nothing would refute nothing either

    def halved(law):
        if isinstance(law, DiscreteGaussian):
            return DiscreteGaussian(law.variance / 4)
        return DiscreteLaplace(law.scale / 2)

    lying = audited(replace(one, stage_1=halved(one.stage_1), stage_2=halved(one.stage_2)))
    assert lying.lower > claimed.upper


def test_binomial_bounds_are_exact():
    """Clopper and Pearson: at the bound the tail has exactly the chance of failure."""
    from scipy.stats import binom

    lower, upper = binomial_bounds(7, 50, 0.01)
    assert binom.sf(6, 50, lower) == pytest.approx(0.01)
    assert binom.cdf(7, 50, upper) == pytest.approx(0.01)
    assert binomial_bounds(0, 50, 0.01)[0] == 0
    assert binomial_bounds(50, 50, 0.01)[1] == 1


def test_equal_populations_show_no_difference():
    rng = np.random.default_rng(3)
    found = audit_epsilon(rng.normal(size=20_000), rng.normal(size=20_000), delta=0.0, confidence=0.999)
    assert found.lower == 0
