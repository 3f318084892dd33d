"""Losses on a grid, against every combination of their values: the two sides of delta, and each bound behind them.

The grid has few points here. So what dividing atoms adds, and what lies outside of the window, are large.
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tallyveil.accounting.engines import gridded
from tallyveil.accounting.engines.gridded import (
    Gridded,
    GriddedLaw,
    Listable,
    _beyond,
    _Divided,
    _excess,
    _height,
    _logarithm,
    _mass,
    _reach,
    _summed,
    gridded_law,
    listed,
)
from tallyveil.accounting.engines.loss_transform import fft_error, power_with_error
from tallyveil.accounting.engines.tails import NOTHING
from tallyveil.accounting.losses import GaussianLoss, LaplaceLoss, ResponseLoss, SampledLoss
from tallyveil.accounting.numbers import Bounds
from tallyveil.arrays import Floats

Plain = tuple[Floats, Floats]
"""Losses and their probabilities under P."""

LAPLACE = LaplaceLoss(Fraction(5, 2), 3, 2)
COMPOSITIONS: dict[str, tuple[Listable, ...]] = {
    "one answer": (ResponseLoss(Fraction(3, 2), 5, 1),),
    "several answers": (LAPLACE, ResponseLoss(Fraction(1), 3, 2)),
    "samples": (SampledLoss(ResponseLoss(Fraction(1), 4, 1), Fraction(3, 10), multiplicity=5), LAPLACE),
    "samples of an added record": (
        SampledLoss(LaplaceLoss(Fraction(1), 1, 1), Fraction(1, 2), Fraction(1, 50), True, 6),
    ),
    "no largest loss": (GaussianLoss(Fraction(2), 1, 2), LAPLACE),
}


LENGTH = 512


def convolved(losses: tuple[Listable, ...], step: float | None = None) -> Plain:
    """The law of the sum; with a step, each atom is first divided between two points of a grid."""
    total = np.zeros(1), np.ones(1)
    for loss in losses:
        found = listed(loss, 0.0)
        values, masses = found.losses, found.weights * math.exp(found.log_scale)
        if step is not None:
            below = np.floor(values / step) * step
            share = np.expm1(below - values) / math.expm1(-step)
            values = np.concatenate([below, below + step])
            masses = np.concatenate([masses * (1 - share), masses * share])
        for _ in range(loss.multiplicity):
            values_now, place = np.unique(np.round(np.add.outer(total[0], values), 12), return_inverse=True)
            products = np.multiply.outer(total[1], masses)
            total = values_now, np.bincount(place.ravel(), weights=products.ravel())
    return total


def delta(law: Plain, epsilon: float) -> float:
    losses, masses = law
    return math.fsum(masses * np.maximum(-np.expm1(epsilon - losses), 0.0))


def epsilons_of(law: Plain) -> list[float]:
    """Far below, on and between losses, and where delta is small."""
    losses, masses = law
    mean = float(losses @ masses)
    deviation = math.sqrt(float((losses - mean) ** 2 @ masses))
    wanted = [mean + x * deviation for x in (-6.0, -1.0, 0.0, 0.5, 1.7, 3.0, 4.1)]
    return [-mean, *(epsilon for epsilon in wanted if epsilon < losses.max() - 1e-6)]


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_delta_lies_between_its_bounds_and_the_upper_one_is_that_of_divided_atoms(name: str) -> None:
    losses = COMPOSITIONS[name]
    engine, true = Gridded(losses, LENGTH), convolved(losses)
    for epsilon in epsilons_of(true):
        found = engine.log_deltas([epsilon])[0]
        step = engine._gridded(engine._tilt(epsilon)).step
        raised = math.log(delta(convolved(losses, step), epsilon))
        assert found.lower <= math.log(delta(true, epsilon)) <= found.upper + 1e-12
        assert raised - 1e-12 <= found.upper <= raised + 1e-7


def unit(law: GriddedLaw, epsilon: float) -> float:
    """In which sums above an epsilon are given."""
    return math.exp(law.log_scale.upper - law.tilt * epsilon)


def added_by_dividing(losses: tuple[Listable, ...], law: GriddedLaw, epsilon: float) -> float:
    return delta(convolved(losses, law.step), epsilon) - delta(convolved(losses), epsilon)


@pytest.mark.parametrize("tilt", [0.0, 2.0])
@pytest.mark.parametrize(("answers", "share"), [(1, 1.5), (6, 1.9)])
def test_what_dividing_adds_is_bounded_closely_at_an_atom_halfway_between_two_points(
    answers: int, share: float, tilt: float
) -> None:
    losses = (LaplaceLoss(Fraction(256, 257), 1, answers),)
    law = gridded_law(losses, tilt, LENGTH)
    loss = (257 / 256) * answers
    assert law.step in {2.0**-5, 2.0**-7}
    losses = (LaplaceLoss(1 / (1 + Fraction(law.step) / 2), 1, answers),)
    law = gridded_law(losses, tilt, LENGTH)
    loss = answers * (1 + law.step / 2) - 2 * (answers // 3) * (1 + law.step / 2)
    log_delta = math.log(delta(convolved(losses, law.step), loss))
    bound = _excess(law, Fraction(loss), log_delta) * unit(law, loss)
    added = added_by_dividing(losses, law, loss)
    assert added <= bound <= share * added


def test_what_dividing_adds_falls_with_the_distance_from_the_nearest_loss() -> None:
    losses = (LaplaceLoss(Fraction(64, 65), 1, 6),)
    law = gridded_law(losses, 0.0, LENGTH)
    root = math.sqrt(law.spread)
    assert law.spread == pytest.approx(6 * law.step**2 / 4, rel=2e-3)
    assert law.spread >= 6 * 4 * math.sinh(law.step / 4) ** 2
    most = {0.0: 1.0, 3.5: 1.0, 4.5: 0.55, 5.5: 0.2, 7.5: 2e-3, 9.5: 3e-5, 11.0: 2e-6}
    bounds = []
    for distance, share in most.items():
        epsilon = 2 * 65 / 64 + distance * root
        log_delta = math.log(delta(convolved(losses, law.step), epsilon))
        bound = _excess(law, Fraction(epsilon), log_delta) * unit(law, epsilon)
        assert added_by_dividing(losses, law, epsilon) <= bound
        bounds.append(bound)
        assert bound <= share * bounds[0]
    assert _excess(law, Fraction(100), -math.inf) == 0


@pytest.mark.parametrize("x", [0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("answers", [1, 4, 30])
def test_the_height_covers_what_dividing_adds_far_from_a_loss(answers: int, x: float) -> None:
    """Losses 0 in the middle between two points: T has a binomial law."""
    step = 0.1
    spread = answers * 4 * math.sinh(step / 4) ** 2
    raised = -math.expm1(-step / 2) / -math.expm1(-step)
    ups = np.arange(answers + 1)
    masses = np.array([math.comb(answers, n) * raised**n * (1 - raised) ** (answers - n) for n in ups])
    moved = (ups - answers / 2) * step
    for side in (-1, 1):
        epsilon = side * (spread / 2 + x * math.sqrt(spread))
        added = masses @ np.maximum(-np.expm1(epsilon - moved), 0.0) - max(-math.expm1(epsilon), 0.0)
        assert added <= _height(x, spread) <= math.exp(-x * x / 2)
    # The factor b of exp(-x^2 / 2), about 1 / (e (1 + x / sqrt(A))).
    power = x / math.sqrt(spread)
    assert _height(x, spread) == pytest.approx(
        power**power / (1 + power) ** (1 + power) * math.exp(-x * x / 2), rel=1e-9
    )


@pytest.mark.parametrize("tilt", [0.0, 1.5])
@pytest.mark.parametrize("name", COMPOSITIONS)
def test_the_weights_are_the_tilted_masses_of_the_divided_atoms(name: str, tilt: float) -> None:
    losses = COMPOSITIONS[name]
    law = gridded_law(losses, tilt, LENGTH)
    values, masses = convolved(losses, law.step)
    tilted = masses * np.exp(tilt * values - law.log_scale.upper)
    at = np.rint(values / law.step).astype(int) - law.first
    inside = (at >= 0) & (at < law.weights.size)
    wanted = np.bincount(at[inside], weights=tilted[inside], minlength=512)
    assert np.abs(wanted - law.weights).max() <= 1e-13
    assert tilted[~inside].sum() <= law.lost
    assert law.entry_error < 1e-12
    assert law.log_scale.width < 1e-12
    assert law.relative < 1e-11
    assert 0 <= law.slip < 1e-12
    assert law.lost < 1e-20
    mean = float(tilted @ values) / float(tilted.sum())
    assert law.deviation == pytest.approx(
        math.sqrt(float(tilted @ (values - mean) ** 2) / float(tilted.sum())), rel=0.02
    )


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize("name", COMPOSITIONS)
def test_the_mass_beyond_an_end_is_bounded(name: str, side: int) -> None:
    losses, tilt, step = COMPOSITIONS[name], 0.5, 1 / 32
    lists = [(listed(loss, tilt), loss.multiplicity) for loss in losses]
    divided = [(_Divided.of(atoms, tilt, step), n) for atoms, n in lists]
    values, masses = convolved(losses, step)
    tilted = masses * np.exp(tilt * values)
    tilted /= tilted.sum()
    mean = float(tilted @ values)
    variance = float(tilted @ (values - mean) ** 2)
    for deviations in (1.0, 2.0, 3.0, 5.0):
        end = mean + side * deviations * math.sqrt(variance)
        beyond = float(tilted[side * values >= side * end].sum())
        found = _beyond(divided, step, end, variance, side)
        assert beyond <= found
        assert found <= 60 * beyond or not beyond
    assert _beyond(divided, step, side * 1e3, variance, side) <= 1e-60
    assert _beyond(divided, step, -side * 1e3, variance, side) == 1
    if name != "no largest loss":
        assert _beyond(divided, step, side * 1e3, variance, side) == 0


@pytest.mark.parametrize("side", [-1, 1])
def test_the_window_holds_all_but_little_and_is_hardly_wider_than_that(side: int) -> None:
    """For a normal loss the least window is sqrt(2 * 48) deviations wide on either side."""
    loss = GaussianLoss(Fraction(200), 5, 7)
    lists, variance = [(listed(loss, 0.0), 7)], 7 * 25 / 200
    found = _reach(lists, variance / 2, variance, side) / math.sqrt(variance)
    assert math.sqrt(2 * 48) < found < math.sqrt(2 * 52)


def test_the_mass_near_an_epsilon_is_that_of_the_points_there() -> None:
    losses = COMPOSITIONS["several answers"]
    for tilt in (0.0, 1.5):
        law = gridded_law(losses, tilt, LENGTH)
        values = (law.first + np.arange(law.weights.size)) * law.step
        for epsilon, reach in ((0.3, 0.5), (-2.0, 0.01), (3.4, 1.0), (-3.9, 0.7), (1.0, 40.0)):
            damped = law.weights * np.exp(-tilt * (values - epsilon))
            found = _mass(law, Fraction(epsilon), reach)
            inside = damped[np.abs(values - epsilon) <= reach].sum()
            nearly = damped[np.abs(values - epsilon) <= reach + law.step].sum()
            assert inside - 1e-15 <= found <= 1.002 * nearly + 1e-10
        assert 0 <= _mass(law, Fraction(1000), 1.0) <= 1e-10
        assert 0 <= _mass(law, Fraction(-1000), 1.0) <= 1e-10


def test_a_logarithm_is_rounded_to_its_side_by_little() -> None:
    law = gridded_law(COMPOSITIONS["samples"], 1.5, LENGTH)
    for value in (1e-300, 0.3, 1.0, 7.0):
        exact = math.log(value) + law.log_scale.upper - 1.5 * 0.7
        lower, upper = (_logarithm(value, law, Fraction(7, 10), side) for side in (-1, 1))
        assert exact - 1e-11 < lower < exact < upper < exact + 1e-11
        assert upper - exact > law.relative - 1e-13
    for value in (0.0, -1e-9, math.nan):
        assert _logarithm(value, law, Fraction(0), -1) == -math.inf
        assert _logarithm(value, law, Fraction(0), 1) == 0


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_the_tilt_is_the_least_one_that_keeps_the_digits(name: str) -> None:
    """At the best tilt Chernoff's bound is least. At the one taken it is at most exp(4) times as large."""
    engine, law = Gridded(COMPOSITIONS[name], LENGTH), convolved(COMPOSITIONS[name])
    losses, masses = (part[law[1] > 0] for part in law)

    def log_bound(tilt: float, epsilon: float) -> float:
        return float(np.logaddexp.reduce(np.log(masses) + tilt * (losses - epsilon)))

    for epsilon in epsilons_of(law):
        tilt = engine._tilt(epsilon)
        least = min(log_bound(one, epsilon) for one in np.linspace(0.0, 40.0, 800))
        assert log_bound(tilt, epsilon) <= least + 4.2
        if tilt:
            assert log_bound(0.7 * tilt, epsilon) > least + 3.9
    assert engine._tilt(-1.0) == 0


def test_nothing_lies_above_the_largest_loss_and_few_laws_are_kept() -> None:
    engine = Gridded(COMPOSITIONS["several answers"], LENGTH)
    most = Fraction(12, 5) + 2 + Fraction(1, 10**12)
    assert engine.log_deltas([most, most + 1])[0] == NOTHING
    assert engine.log_deltas([float(most) - 1e-6])[0].upper > -math.inf
    for tilt in range(20):
        engine._gridded(float(tilt))
    assert sorted(engine._laws) == [float(tilt) for tilt in range(4, 20)]
    assert engine._gridded(5.0) is engine._laws[5.0]


def test_both_probabilities_are_known_to_a_few_per_cent() -> None:
    losses = COMPOSITIONS["several answers"]
    engine, (values, masses) = Gridded(losses, 1 << 12), convolved(losses)
    for epsilon in (-2.05, 0.1, 1.13):
        found = engine.log_tails(epsilon)
        first = masses[values > epsilon].sum()
        second = (masses * np.exp(-values))[values > epsilon].sum()
        assert found.log_first.lower <= math.log(first) <= found.log_first.upper
        assert found.log_second.lower <= math.log(second) <= found.log_second.upper
        assert found.log_first.width < 0.1
        assert found.log_second.width < 0.2


@pytest.mark.parametrize(
    "losses",
    [
        (SampledLoss(LaplaceLoss(Fraction(1, 600), 1, 1), Fraction(1, 2), multiplicity=3000),),
        (LaplaceLoss(Fraction(1, 600), 1, 1), GaussianLoss(Fraction(4), 1, 1)),
        (ResponseLoss(Fraction(600), 3, 10**9), LAPLACE),
    ],
    ids=["wide steps", "a steep tilt", "steps beyond floats"],
)
@pytest.mark.parametrize("epsilon", [590, 600, 602, 650])
def test_losses_of_hundreds_have_bounds_and_no_overflow(losses: tuple[Listable, ...], epsilon: int) -> None:
    (bounds,) = Gridded(losses, 1 << 12).log_deltas([epsilon])
    assert bounds.lower <= bounds.upper <= 0


LARGE = 2.0**-30
"""A unit of rounding beside which floats are exact: error bounds then show each of their terms."""


def some_law(tilt: float) -> GriddedLaw:
    return GriddedLaw(
        tilt, 0.25, -2, np.array([0.1, 0.4, 0.3, 0.2]), Bounds(-1.5, -1.25), 1e-4, 1e-3, 0.01, 0.0, 0.1, 1.0
    )


@pytest.mark.parametrize("tilt", [0.0, 1.5])
@pytest.mark.parametrize("epsilon", ["-1", "-0.5", "-0.3", "0", "0.3"])
def test_the_error_of_a_sum_counts_every_weight_the_rest_and_the_roundings(
    epsilon: str, tilt: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gridded, "UNIT", LARGE)
    law, exact = some_law(tilt), Fraction(epsilon)
    total, error = _summed(law, exact)
    wanted = values = rounding = 0.0
    for place, weight in enumerate(law.weights.tolist()):
        distance = float((place - 2) * Fraction(1, 4) - exact)
        if distance > 0:
            value = math.exp(-tilt * distance) * (1 - math.exp(-distance))
            wanted, values = wanted + weight * value, values + value
            rounding += LARGE * weight * value * (8 * tilt * distance + 80)
    assert total == pytest.approx(wanted, rel=1e-12, abs=0)
    assert error == pytest.approx(1.01 * (1e-4 * values + 1e-3 + rounding), rel=1e-9, abs=0)


@pytest.mark.parametrize("side", [-1, 1])
def test_a_logarithm_is_rounded_by_its_terms(side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gridded, "UNIT", LARGE)
    law = some_law(1.5)
    for value in (0.02, 5.0):
        scale = (-1.25 if side > 0 else -1.5) - 1.5 * 7
        slack = 0.01 + 8 * LARGE * (abs(math.log(value)) + abs(scale) + 1)
        found = _logarithm(value, law, Fraction(7), side)
        assert found == pytest.approx(math.log(value) + scale + side * slack, rel=1e-12)


def test_the_relative_error_of_divided_atoms_grows_with_those_on_one_point(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gridded, "UNIT", LARGE)
    atoms = replace(
        listed(COMPOSITIONS["one answer"][0], 0.0),
        losses=np.array([0.1, 0.2, 0.9]),
        weights=np.full(3, 1 / 3),
    )
    for tilt in (0.0, 2.0):
        # Two of the three atoms fall between the same two points.
        assert _Divided.of(atoms, tilt, 0.5).relative == pytest.approx(LARGE * (120 + 4 * (tilt + 1) + 4))


@pytest.mark.parametrize("tilt", [0.0, 1.5])
@pytest.mark.parametrize("name", COMPOSITIONS)
def test_a_law_adds_up_the_errors_of_its_answers(
    name: str, tilt: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gridded, "UNIT", LARGE)
    losses = COMPOSITIONS[name]
    law = gridded_law(losses, tilt, LENGTH)
    lists = [(listed(loss, tilt), loss.multiplicity) for loss in losses]
    divided = [(_Divided.of(atoms, tilt, law.step), n) for atoms, n in lists]
    answers = sum(loss.multiplicity for loss in losses)
    assert law.slip == pytest.approx(1.01 * sum(n * atoms.slip for atoms, n in lists), rel=1e-9, abs=0)
    relative = sum(n * (a.relative + d.relative) for (a, n), (d, _) in zip(lists, divided, strict=True))
    assert law.relative == pytest.approx(1.01 * relative, rel=1e-9, abs=0)
    assert law.spread == pytest.approx(1.001 * answers * 4 * math.sinh(law.step / 4) ** 2, rel=1e-12)
    scales = [n * atoms.log_scale for atoms, n in lists]
    assert (law.log_scale.lower + law.log_scale.upper) / 2 == pytest.approx(math.fsum(scales), abs=1e-12)
    assert law.log_scale.width == pytest.approx(8 * LARGE * math.fsum(map(abs, scales)), rel=1e-6, abs=1e-14)
    # The window: Chernoff's on either side, or twice the largest loss; then a power of two that holds it.
    mean = sum(n * float(atoms.weights @ atoms.losses) for atoms, n in lists)
    variance = law.deviation**2
    most = sum(n * float(np.abs(atoms.losses).max()) for atoms, n in lists)
    low = max(mean - _reach(lists, mean, variance, -1), -1.001 * most)
    high = min(mean + _reach(lists, mean, variance, 1), 1.001 * most)
    assert law.step == 2.0 ** math.ceil(math.log2((high - low) / (512 - 64)))
    # It is centred on the grid.
    first, last = law.first * law.step, (law.first + 511) * law.step
    assert abs((low - first) - (last - high)) <= 2 * law.step
    spare = (512 * law.step - (high - low)) / 2
    outside = _beyond(divided, law.step, high + spare - law.step, variance, 1)
    outside += _beyond(divided, law.step, low - spare + law.step, variance, -1)
    left_out = 4 * outside + 2 * sum(n * atoms.lost for atoms, n in lists)
    assert law.lost == pytest.approx(left_out, rel=1e-6, abs=0)
    if answers == 1:
        assert law.entry_error == 0
        return
    size, off = np.ones(257), np.zeros(257)
    for one, n in divided:
        mass = np.bincount(one.cells.astype(int) % 512, one.down, 512)
        mass += np.bincount((one.cells.astype(int) + 1) % 512, one.up, 512)
        values = np.fft.rfft(mass)
        slip = np.full(257, 1.01 * fft_error(512) * mass.sum())
        raised, error = power_with_error(values, abs(values), slip, n)
        off = size * error + off * (abs(raised) + error) + 8 * LARGE * size * abs(raised)
        size = size * abs(raised)
    wanted = 1.01 * 2 * (off.mean() + fft_error(512) * size.mean())
    assert law.entry_error == pytest.approx(wanted, rel=1e-6, abs=0)


def test_atoms_are_divided_so_that_both_masses_stay() -> None:
    """Under P and under Q, and each tilted with the loss that it is moved to."""
    tilt, atoms = 0.7, listed(LAPLACE, 0.7)
    # In shorter cells there is one atom each, and longer ones hold several.
    for step in (0.25, 2.0):
        divided = _Divided.of(atoms, tilt, step)
        for cell, down, up in zip(
            divided.cells.tolist(), divided.down.tolist(), divided.up.tolist(), strict=True
        ):
            low, high = cell * step, (cell + 1) * step
            inside = (atoms.losses >= low) & (atoms.losses < high)
            assert inside.any()
            losses = atoms.losses[inside]
            masses = atoms.weights[inside] * np.exp(-tilt * losses)
            below, above = down * math.exp(-tilt * low), up * math.exp(-tilt * high)
            assert below + above == pytest.approx(masses.sum())
            assert below * math.exp(-low) + above * math.exp(-high) == pytest.approx(masses @ np.exp(-losses))
        assert divided.cells.size == np.unique(np.floor(atoms.losses / step)).size
    assert divided.cells.size < atoms.losses.size


def test_what_dividing_adds_is_unknown_where_floats_end() -> None:
    law = gridded_law(COMPOSITIONS["several answers"], 1.5, LENGTH)
    assert _excess(law, Fraction(1, 2), -1.0) < math.inf
    assert _excess(law, Fraction(500), -1.0) == math.inf
    assert _excess(replace(law, spread=1e6), Fraction(1, 2), -1.0) == math.inf
