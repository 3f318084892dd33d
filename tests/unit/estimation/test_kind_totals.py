"""Numbers of kinds: from facilities, from noisy sums, and as whole numbers. Each has a slow oracle."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.estimation.kind_totals import KindTotals, nearest_split, spread_among_facilities


def divisions(total: int, facilities: int) -> list[tuple[int, ...]]:
    """All ways to divide records among facilities."""
    return [way for way in product(range(total + 1), repeat=facilities) if sum(way) == total]


@pytest.mark.parametrize(
    ("rest", "facilities"), [(5, (1, 1)), (4, (2, 1)), (3, (1, 2, 1)), (0, (1, 3)), (6, (2, 0))]
)
def test_covariances_are_those_of_all_divisions(rest, facilities):
    kind = np.repeat(np.arange(len(facilities)), facilities)
    ways = np.array(divisions(rest, len(kind)), dtype=float)
    numbers = np.stack([ways[:, kind == k].sum(axis=1) for k in range(len(facilities))])
    spread = spread_among_facilities(np.array([rest]), np.array([facilities]))[0]
    assert np.allclose(spread, np.cov(numbers, bias=True))
    assert np.allclose(numbers.mean(axis=1), rest * np.array(facilities) / sum(facilities))


def test_sums_one_after_another_are_all_of_them_at_once():
    rng = np.random.default_rng(2)
    roots = rng.normal(size=(3, 4, 4))
    covariance = roots @ roots.transpose(0, 2, 1)
    of_sums = np.array([[1, 0, 1, 0], [0, 1, 1, 0], [1, 1, 1, 1]], dtype=bool)
    values, variances = (
        rng.normal(size=(3, 3)),
        np.array([[2.0, 0.5, 0.0], [1.0, np.inf, 4.0], [3.0, 1.0, 1.0]]),
    )
    totals = KindTotals(np.zeros((3, 4)), covariance.copy())
    for number, of_sum in enumerate(of_sums):
        totals.observe(of_sum, values[:, number], variances[:, number])
    for geounit in range(3):
        known = np.isfinite(variances[geounit])
        rows = of_sums[known].astype(float)
        with_sums = covariance[geounit] @ rows.T
        spread = rows @ with_sums + np.diag(variances[geounit][known])
        gain = np.linalg.solve(spread, with_sums.T).T
        assert np.allclose(totals.mean[geounit], gain @ values[geounit][known])
        assert np.allclose(totals.covariance[geounit], covariance[geounit] - gain @ with_sums.T)


def test_an_exact_sum_of_nothing_open_changes_nothing():
    totals = KindTotals(np.zeros((1, 2)), np.zeros((1, 2, 2)))
    totals.observe(np.array([True, False]), np.array([3.0]), np.array([0.0]))
    assert not totals.mean.any()
    assert totals.of_kind(0)[1] > 0


@given(st.data())
def test_the_nearest_split_costs_least(data):
    n = data.draw(st.integers(1, 4))
    lower = np.array(data.draw(st.lists(st.integers(-2, 2), min_size=n, max_size=n)))
    room = np.array(data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)))
    mean = np.array(data.draw(st.lists(st.floats(-9, 9), min_size=n, max_size=n)))
    variance = np.array(data.draw(st.lists(st.floats(0.01, 50), min_size=n, max_size=n)))
    total = int(lower.sum()) + data.draw(st.integers(0, int(room.sum())))
    numbers = nearest_split(total, mean, variance, lower, lower + room)
    assert numbers.sum() == total
    assert ((numbers >= lower) & (numbers <= lower + room)).all()

    def cost(ways: np.ndarray) -> np.ndarray:
        return ((ways - mean) ** 2 / variance).sum(axis=-1)

    ways = np.array(
        list(product(*(range(low, low + more + 1) for low, more in zip(lower, room, strict=True))))
    )
    least = cost(ways[ways.sum(axis=1) == total]).min()
    assert cost(numbers) == pytest.approx(least, abs=1e-6)


def test_the_worked_case():
    limits = np.zeros(2, dtype=np.int64), np.full(2, 9)
    assert nearest_split(9, np.array([2.2, 5.2]), np.array([1.0, 3.0]), *limits).tolist() == [3, 6]
