"""The restricted law: exact by listing, with the sums, and with few trials whatever the counts."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from scipy.stats import chi2
from tests.samples import few

from tallyveil.noise import NoiseSource, insecure_key
from tallyveil.noise.balls import precision
from tallyveil.subspace import nonnegative
from tallyveil.subspace.constraints import ConstraintSystem, recognise
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.nonnegative import TiltedCell, draw_restricted

SOURCE = NoiseSource(insecure_key("restricted"))


def draws(counts, epsilon, n, sets=None):
    counts = np.array(counts)
    structure = recognise(
        ConstraintSystem.from_sets([range(counts.size)] if sets is None else sets, counts.size)
    )
    return np.stack(
        [draw_restricted(NoiseAddress(SOURCE, 0, i), counts, structure, epsilon) for i in range(n)]
    )


@pytest.mark.parametrize(
    ("counts", "epsilon"), few(1, [((0, 2, 1), Fraction(1, 2)), ((1, 1, 0), Fraction(2))])
)
def test_the_law_is_that_of_a_list(counts, epsilon):
    """By chance it fails with probability 1e-6."""
    n = 400
    found = Counter(map(tuple, draws(counts, epsilon, n).tolist()))
    tables = [y for y in itertools.product(range(sum(counts) + 1), repeat=3) if sum(y) == sum(counts)]
    weights = np.array(
        [math.exp(-epsilon * sum(abs(a - b) for a, b in zip(y, counts, strict=True))) for y in tables]
    )
    expected = n * weights / weights.sum()
    statistic = sum((found[y] - e) ** 2 / e for y, e in zip(tables, expected, strict=True))
    assert sum(found[y] for y in tables) == n
    assert chi2.sf(statistic, len(tables) - 1) > 1e-6


def test_free_cells_follow_the_truncated_law():
    n, epsilon = 1500, Fraction(1, 2)
    found = Counter(draws([2], epsilon, n, sets=[])[:, 0].tolist())
    weights = np.exp(-0.5 * np.abs(np.arange(60) - 2))
    expected = n * weights / weights.sum()
    statistic = sum((found[y] - expected[y]) ** 2 / expected[y] for y in range(9))
    assert chi2.sf(statistic, 8) > 1e-6


@pytest.mark.parametrize("tilt", [Fraction(0), Fraction(1, 5), Fraction(1, 2), Fraction(3)])
@pytest.mark.parametrize("count", [0, 1, 7])
def test_the_expectation_of_a_cell_is_that_of_a_list(count, tilt):
    values = np.arange(400)
    weights = np.exp(-0.5 * np.abs(values - count) - float(tilt) * values)
    with precision(256):
        excess = TiltedCell(count, Fraction(1, 2), tilt).excess()
    assert float(excess) == pytest.approx((weights * values).sum() / weights.sum() - count, abs=1e-9)


@pytest.mark.parametrize("tilt", [Fraction(0), Fraction(1, 2), Fraction(1)])
def test_a_cell_draws_every_count_by_inversion(tilt):
    """On a grid of uniform numbers, each value gets as many points as its probability says, up to one or two."""
    law, n = TiltedCell(3, Fraction(1, 2), tilt), 64
    points = [(i << 58) + (1 << 57) for i in range(n)]
    pairs = itertools.product(points, points)
    found = Counter(law.draw([iter([side]), iter([place])].__getitem__) for side, place in pairs)
    values = np.arange(200)
    weights = np.exp(-0.5 * np.abs(values - 3) - float(tilt) * values)
    for value in range(8):
        assert found[value] / n**2 == pytest.approx(weights[value] / weights.sum(), abs=0.03)


def test_undecided_digits_are_followed_by_more():
    asked = []

    def digits():
        for word in (1 << 63, 0, 5):
            asked.append(word)
            yield word

    assert nonnegative._positive(digits(), lambda u: u - arb(1) / 2)  # a half and 2**-187 * 5
    assert len(asked) == 3


@pytest.mark.parametrize(
    "counts", [[0] * 60, [0] * 59 + [1], [0] * 59 + [10**9], [1] * 60, list(range(60)), [1 << 34] * 60]
)
def test_few_trials_are_enough_whatever_the_counts(counts, monkeypatch):
    trials = []
    trial = nonnegative._trial
    monkeypatch.setattr(nonnegative, "_trial", lambda *a: trials.append(0) or trial(*a))
    found = draws(counts, Fraction(1, 10), 2)
    assert (found >= 0).all()
    assert (found.sum(axis=1) == sum(counts)).all()
    assert len(trials) < 2 * 200


def test_a_draw_is_a_function_of_its_address_and_blocks_are_apart():
    counts, sets = [0, 3, 2, 2, 1, 4], [[0, 1, 2], [3, 4, 5]]
    both = draws(counts, Fraction(1, 4), 2, sets)
    assert np.array_equal(both, draws(counts, Fraction(1, 4), 2, sets))
    assert (both[:, :3].sum(axis=1) == 5).all()
    assert (both[:, 3:].sum(axis=1) == 7).all()
    same = draws([2, 2, 1, 2, 2, 1], Fraction(1, 4), 20, sets)
    assert not np.array_equal(same[:, :3], same[:, 3:])
