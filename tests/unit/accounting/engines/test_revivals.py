"""The scan for revivals: no frequency at which the transform may count is missed."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from tests.samples import few

from tallyveil.accounting.engines import loss_transform
from tallyveil.accounting.engines.loss_transform import (
    Depth,
    GaussianFactors,
    Windows,
    _joined,
    _scanned,
    _Segment,
    _split,
    _States,
    find_windows,
    nodes_within,
    number_of_nodes,
    windows_up_to,
)
from tallyveil.accounting.losses import GaussianLoss

PARTS = 12


def factors_of(seed: int) -> GaussianFactors:
    draw = random.Random(seed)
    return GaussianFactors.of(
        [
            GaussianLoss(Fraction(draw.uniform(0.3, 12)), draw.randint(1, 3), draw.randint(1, 3))
            for _ in range(draw.randint(1, 4))
        ]
    )


def log_size(factors: GaussianFactors, u: np.ndarray) -> np.ndarray:
    """ln of the product of the sums of all images: the largest modulus of the transform on any contour, times C."""
    total = np.zeros(u.size)
    for v, k, m in zip(factors.variances, factors.sensitivities, factors.powers, strict=True):
        nearest = np.round(k * u / (2 * np.pi * v))
        images = [-((k * u - 2 * np.pi * v * (nearest + j)) ** 2) / (2 * v) for j in range(-4, 5)]
        total += m * np.logaddexp.reduce(images, axis=0)
    return total


@pytest.mark.parametrize("seed", few(3, range(6)))
def test_outside_the_windows_the_transform_is_below_the_bound(seed: int) -> None:
    factors, depth = factors_of(seed), Depth(14.0, 0.05, PARTS)
    windows = find_windows(factors.decay, depth)
    u = np.linspace(0, windows.end, 100_001)
    order = np.argsort(windows.lows)
    lows, highs = windows.lows[order], np.maximum.accumulate(windows.highs[order])
    place = np.searchsorted(lows, u, side="right") - 1
    inside = (place >= 0) & (u <= highs[np.maximum(place, 0)])
    begin = windows.first * 2.0 ** np.floor(np.log2(np.maximum(u, windows.first) / windows.first))
    bound = np.array(
        [depth.depth if x < windows.first else depth.at(float(b)) for x, b in zip(u, begin, strict=True)]
    )
    assert np.all(inside | (log_size(factors, u) <= -bound + 1e-9))
    assert depth.at(windows.end) <= 0 < depth.at(windows.end / 2)
    if factors.count > 1:
        assert inside.mean() < 0.9  # and it does leave most of the range out


def test_no_node_on_the_edge_of_a_window_is_missed() -> None:
    """Quotients of floats are off by more than any fixed distance where nodes are many."""
    for step in (0.1, 1 / 3, 7e-5):
        wanted = np.array([0, 1, 17, 10**5 + 3, 3 * 10**8 + 1, 7 * 10**10 + 9])
        edges = wanted * step
        found = nodes_within(edges, edges, step)
        assert set(wanted.tolist()) <= set(found.tolist())
        assert nodes_within(edges[:4], edges[:4] + 2.5 * step, step).tolist() == sorted(
            {int(one) + more for one in wanted[:4] for more in (0, 1, 2)}
        )


def test_one_factor_has_a_window_at_every_multiple_of_its_period() -> None:
    factors = GaussianFactors.of([GaussianLoss(Fraction(40), 2, 3)])
    windows = find_windows(factors.decay, Depth(20.0, 0.01, PARTS))
    assert windows is not None
    period = 2 * math.pi * 40 / 2
    centres = {
        round(float(low + high) / 2 / period) for low, high in zip(windows.lows, windows.highs, strict=True)
    }
    assert centres == set(range(max(centres) + 1))
    assert max(centres) == round(windows.highs.max() / period)


def test_factors_are_ordered_and_carry_what_the_proof_names() -> None:
    """docs/proofs/off-lattice.md, sections 3 and 4."""
    given = [
        GaussianLoss(Fraction(1, 4), 1, 3),
        GaussianLoss(Fraction(5), 2, 2),
        GaussianLoss(Fraction(9), 1, 1),
    ]
    found = GaussianFactors.of(given)
    assert found.variances.tolist() == [5.0, 9.0, 0.25]  # by variance times multiplicity
    assert found.sensitivities.tolist() == [2.0, 1.0, 1.0]
    assert found.powers.tolist() == [2.0, 1.0, 3.0]
    assert found.count == 3
    assert found.variance == 12 + Fraction(8, 5) + Fraction(1, 9)
    log_norm = loss = 0.0
    for v, k, m, rate, period, pull in zip(
        found.variances,
        found.sensitivities,
        found.powers,
        found.rates,
        found.periods,
        found.pulls,
        strict=True,
    ):
        assert rate == pytest.approx(k * k / v)
        assert period == pytest.approx(2 * math.pi * v / k)
        assert pull == pytest.approx(m * k * k / v * (1 - 2 * math.log(2) / (math.pi**2 * v)))
        log_norm += m * math.log(sum(math.exp(-2 * math.pi**2 * v * n * n) for n in range(-9, 10)))
        loss += m * math.exp(4 - 2 * math.pi**2 * v)
    assert found.log_norm == pytest.approx(log_norm, rel=1e-12)
    assert found.loss == pytest.approx(loss, rel=1e-12)


def pull_sum(factors: GaussianFactors, u: np.ndarray) -> np.ndarray:
    """F(u)."""
    total = np.zeros(u.size)
    for period, pull in zip(factors.periods, factors.pulls, strict=True):
        total += pull * (u - np.round(u / period) * period) ** 2 / 2
    return total


@pytest.mark.parametrize("seed", range(6))
def test_windows_are_where_the_sum_of_pulls_is_within_the_bound_and_hardly_wider(seed: int) -> None:
    factors = factors_of(seed)
    for bound in (0.7, 6.0):
        end = 40 * float(factors.periods.max())
        found = windows_up_to(factors.decay, bound, end)
        assert found is not None
        u = np.linspace(0, end, 300_001)
        inside = np.zeros(u.size, dtype=bool)
        for low, high in zip(*found, strict=True):
            inside |= (u >= low) & (u <= high)
        sums = pull_sum(factors, u)
        assert np.all(inside[sums <= bound + factors.loss])
        assert np.all(sums[inside] <= (bound + factors.loss) * (1 + 1e-6) + 1e-6)
        assert found[0].min() == 0


def test_states_are_split_into_the_cells_that_they_touch() -> None:
    columns = [1.0, 7.0], [0.5, 0.25], [0.2, 6.9], [3.4, 7.1], [9.0, 8.0], [0.1, 0.2]
    states = _States(*map(np.array, columns))
    found = _split(states, 2.0, 100)
    assert found is not None
    rows, centres = found
    # The cells of 0, 2 and 4 for the first interval, and those of 6 and 8 for the other one.
    assert centres.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]
    assert rows.middle.tolist() == [1.0] * 3 + [7.0] * 2
    assert rows.rest.tolist() == [0.5] * 3 + [0.25] * 2
    assert (rows.bound.tolist(), rows.slip.tolist()) == ([9.0] * 3 + [8.0] * 2, [0.1] * 3 + [0.2] * 2)
    assert (rows.low.tolist(), rows.high.tolist()) == ([0.2] * 3 + [6.9] * 2, [3.4] * 3 + [7.1] * 2)
    assert _split(states, 2.0, 5) is not None
    assert _split(states, 2.0, 4) is None
    whole = _split(states, 50.0, 2)
    assert whole is not None
    assert whole[0] is states
    assert whole[1].tolist() == [0.0, 0.0]


def test_the_square_is_completed_and_intervals_shrink_to_the_bound() -> None:
    weight, pull, period, bound, slip = 2.0, 3.0, 20.0, 4.0, 0.01
    columns = [1.0, 1.0], [0.5, 3.9], [-9.0, -9.0], [9.0, 9.0], [bound, bound], [slip, slip]
    states = _States(*map(np.array, columns))
    found = _joined(states, np.array([1.5, 1.5]), (weight, pull, period))
    # weight (u - 1)^2 / 2 + 1/2 + pull (u - 3/2)^2 / 2 as one square; of the second state nothing remains.
    middle, rest = (weight * 1.0 + pull * 1.5) / 5, 0.5 + weight * pull / 5 * 0.25 / 2
    reach = math.sqrt(2 * (bound - rest) / 5)
    assert found.middle.tolist() == pytest.approx([middle])
    assert found.rest.tolist() == pytest.approx([rest])
    assert found.low.tolist() == pytest.approx([middle - reach - slip])
    assert found.high.tolist() == pytest.approx([middle + reach + slip])
    narrow = _joined(states, np.array([1.5, 1.5]), (weight, pull, 0.5))
    assert narrow.low.tolist() == pytest.approx([1.5 - 0.25 - slip])
    assert narrow.high.tolist() == pytest.approx([1.5 + 0.25 + slip])


def test_the_bound_is_raised_by_what_rounding_may_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a unit of rounding beside which floats are exact: one factor, whose only window is around 0."""
    large = 2.0**-20
    monkeypatch.setattr(loss_transform, "UNIT", large)
    factors, bound, stop = GaussianFactors.of([GaussianLoss(Fraction(7), 1, 2)]), 2.5, 9.0
    segment = [_Segment(0.0, stop, bound)]
    found = _scanned(factors.decay, segment, 1000)
    assert found is not None
    slip = 40 * large * stop
    raised = (math.sqrt(bound) + slip * math.sqrt(8 * factors.pulls[0])) ** 2 * (1 + 1e-9) + 1e-9
    assert found[0].tolist() == [0.0]
    assert found[1].tolist() == pytest.approx([math.sqrt(2 * raised / factors.pulls[0]) + slip], rel=1e-12)
    two = GaussianFactors.of([GaussianLoss(Fraction(7), 1, 2), GaussianLoss(Fraction(9), 1, 1)])
    assert _scanned(two.decay, segment, 1) is None
    assert _scanned(two.decay, segment, 2) is not None


def test_a_scan_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    factors, depth = GaussianFactors.of([GaussianLoss(Fraction(40), 2, 3)]), Depth(20.0, 0.01, PARTS)
    windows = find_windows(factors.decay, depth)
    assert windows.first == pytest.approx(8 / math.sqrt(factors.variance))
    assert windows.end == pytest.approx(windows.first * 2.0 ** (windows.segments - 1))
    monkeypatch.setattr(loss_transform, "MOST_WINDOWS", windows.lows.size)
    assert find_windows(factors.decay, depth).lows.size == windows.lows.size
    monkeypatch.setattr(loss_transform, "MOST_WINDOWS", windows.lows.size - 1)
    assert_every_frequency(find_windows(factors.decay, depth))
    monkeypatch.undo()
    monkeypatch.setattr(loss_transform, "MOST_STATES", windows.lows.size // 2)
    assert_every_frequency(find_windows(factors.decay, depth))


def assert_every_frequency(windows: Windows) -> None:
    assert windows.lows.tolist() == [0.0, *windows.highs[:-1].tolist()]
    assert windows.highs[-1] == windows.end


def test_nodes_are_counted_about() -> None:
    lows, highs = np.array([0.0, 7.0]), np.array([1.0, 9.5])
    assert number_of_nodes(lows, highs, 0.5) == 2 + 7
    assert Depth(20.0, 0.5, 10).at(4.0) == pytest.approx(20 - math.log(4))
    assert Depth(20.0, 0.5, 10).at(40.0) == pytest.approx(20 - math.log(40) - 10 * math.log(2))
