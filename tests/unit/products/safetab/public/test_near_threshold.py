"""Near a threshold, margins cover at least 95 % given the choice, whatever the true count, and so do those of cells."""

from fractions import Fraction

import numpy as np
import pytest
from tests.samples import few

from tallyveil.noise.laws import SMALLEST_PARAMETER, DiscreteGaussian, DiscreteLaplace
from tallyveil.products.safetab.public.estimates import UNIT, chosen_law, estimator_of, noise_sum
from tallyveil.products.safetab.public.group_numbers import near_threshold, quality_arrays

GAMMA = Fraction(1, 10)
BUDGETS = ("50", "10", "2.134")
CHOICES = [(1, None, 60), (8, 60, 75), (46, 600, None)]


def laws(mechanism, budget):
    one = Fraction(budget) / 9
    parts = GAMMA * one, (1 - GAMMA) * one
    if mechanism == "gaussian":
        return tuple(DiscreteGaussian(1 / (2 * part)) for part in parts)
    return tuple(DiscreteLaplace(1 / part) for part in parts)


def total_given_choice(estimator, count):
    """Exactly, over every stage-1 count and sum: coverage, and mean squared error by the mean stated variance."""
    y1, p1 = chosen_law(noise_sum(estimator.stage_1, 1), count, estimator.lowest, estimator.highest)
    law = noise_sum(estimator.stage_2, estimator.n)
    s, ps = count + np.arange(-law.reach, law.reach + 1), law.probabilities
    y1, p1, s, ps = y1[p1 > 1e-13 * p1.max()], p1[p1 > 1e-13 * p1.max()], s[ps > 1e-13], ps[ps > 1e-13]
    left, right = (x.reshape(-1) for x in np.meshgrid(y1, s, indexing="ij"))
    totals = right + estimator.n * estimator.shifts(left, right) / UNIT
    weights = np.outer(p1, ps).reshape(-1) / (p1.sum() * ps.sum())
    variances, margins, _ = quality_arrays(estimator, estimator.n, totals)
    errors = totals - count
    return weights[np.abs(errors) <= margins].sum(), float(weights @ errors**2) / float(weights @ variances)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("budget", BUDGETS[:2])
@pytest.mark.parametrize(("n", "lowest", "highest"), CHOICES)
def test_a_total_is_covered_given_the_choice_wherever_the_truth_lies(mechanism, budget, n, lowest, highest):
    estimator = estimator_of(n, *laws(mechanism, budget), lowest, highest)
    counts = near_threshold(estimator, n).first
    for count in counts[:: max(1, len(counts) // 12)].astype(int).tolist():
        covered, ratio = total_given_choice(estimator, count)
        assert covered >= 0.95 - 1e-6
        assert ratio <= 1.01  # shifts are rounded to 1/4096 of a person, which shows at the largest budget


def test_gaussian_margins_hold_at_production_budgets_where_a_choice_is_rare():
    estimator = estimator_of(46, *laws("gaussian", "2.134"), 600, None)
    for count in (572, 579, 586, 591, 596, 599, 600, 603, 610, 625, 640):
        covered, ratio = total_given_choice(estimator, count)
        assert 0.95 - 1e-6 <= covered < 0.985
        assert ratio <= 1.002


def test_margins_narrow_to_the_combined_one_and_are_about_those_without_stage_1_at_most():
    estimator = estimator_of(46, *laws("gaussian", "2.134"), 600, None)
    estimates = np.array([585.0, 600.0, 615.0, 640.0, 700.0])
    _, margins, near = quality_arrays(estimator, 46, estimates)
    assert margins[:2].min() > margins[2:].max()
    assert margins[-1] == estimator.combined(46).margin
    assert not near[-1]
    assert margins[0] <= estimator.measured(46).margin + 1


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("parts", few(1, [1, 2, 4]))
def test_sums_of_some_cells_are_covered_given_the_choice(mechanism, parts):
    """200,000 draws a count: a true coverage of 95 % fails with a chance of 1e-6, one of 94.6 % passes with 1e-3."""
    estimator = estimator_of(8, *laws(mechanism, "10"), 60, 200)
    rng, n = np.random.default_rng(5), 200_000

    def drawn(law):
        return rng.choice(
            np.arange(-law.reach, law.reach + 1), n, p=law.probabilities / law.probabilities.sum()
        )

    for count in (52, 58, 60, 62, 68):
        y1, p1 = chosen_law(noise_sum(estimator.stage_1, 1), count, 60, 200)
        chosen = rng.choice(y1, n, p=p1 / p1.sum())
        own = drawn(noise_sum(estimator.stage_2, parts))
        sums = count + own + drawn(noise_sum(estimator.stage_2, 8 - parts))
        shifts = estimator.shifts(chosen, sums)
        variances, margins, _ = quality_arrays(estimator, parts, sums + 8 * shifts / UNIT)
        errors = own + parts * shifts / UNIT
        assert (np.abs(errors) <= margins).mean() > 0.95 - 4.76 * (0.95 * 0.05 / n) ** 0.5
        assert (errors**2).mean() < 1.02 * variances.mean()


@pytest.mark.parametrize("law", [DiscreteGaussian, DiscreteLaplace])
@pytest.mark.parametrize("parts", [1, 8])
def test_the_smallest_noise_has_margins_of_next_to_nothing(law, parts):
    smallest = law(SMALLEST_PARAMETER)
    estimator = estimator_of(8, smallest, smallest, 60, 200)
    _, margins, _ = quality_arrays(estimator, parts, np.array([58.0, 60.0, 61.0, 100.0, 199.0, 200.0]))
    assert margins.max() < 2
    assert estimator.measured(parts).margin == 0
