"""The contour that all laws share, against the same laws one by one, and against plain sums."""

import itertools
import math
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from tests.samples import few

from tallyveil.accounting import (
    ZCDP,
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Neighbours,
    ParallelEvent,
    PoissonSampled,
    PrivacyEvent,
    RandomizedResponse,
    SequentialEvent,
    alternatives_of,
    compose,
)
from tallyveil.accounting import guarantee as module
from tallyveil.accounting.conversion import epsilon_at
from tallyveil.accounting.engines import shared
from tallyveil.accounting.engines.choose import engine_for
from tallyveil.accounting.engines.shared import LatticeNoise, contour_for, takes
from tallyveil.accounting.guarantee import costliest_of, shared_epsilon
from tallyveil.accounting.losses import Choice, choices_of, enumerated, number_of_laws
from tallyveil.accounting.numbers import Bounds
from tallyveil.accounting.proved import proved_epsilon

BOUNDED, UNBOUNDED = Neighbours.BOUNDED, Neighbours.UNBOUNDED
WIDTH = 1e-9


def drawn(draw: random.Random, neighbours: Neighbours, spines: int = 1) -> PrivacyEvent:
    """Spines of some kinds of paths, most often of Gaussian noise, and sometimes noise beside them."""

    def answers() -> PrivacyEvent:
        n = 2 * draw.randint(1, 5)
        if draw.random() < 0.2:
            return DiscreteLaplace(Fraction(draw.randint(200, 2000), 97), draw.choice((1, 1, 2)), n)
        return DiscreteGaussian(Fraction(draw.randint(150, 3000), 97), draw.choice((1, 1, 1, 2)), n)

    parts: list[PrivacyEvent] = []
    for _ in range(spines):
        kinds = [SequentialEvent(tuple(answers() for _ in range(draw.randint(2, 4)))) for _ in range(3)]
        parts.append(ParallelEvent(tuple(kinds)))
    if neighbours is UNBOUNDED:
        parts += draw.sample(
            [Gaussian(draw.randint(1, 50)), RandomizedResponse("1/9", 5)], draw.randint(0, 2)
        )
    return SequentialEvent(tuple(parts))


@pytest.mark.parametrize(
    "seed", few(1, [0, 2, 5, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 3, 4))])
)
def test_it_is_the_worst_of_all_laws_one_by_one(seed: int) -> None:
    draw = random.Random(seed)
    neighbours = draw.choice((BOUNDED, UNBOUNDED))
    event, delta = drawn(draw, neighbours), Fraction(1, 10 ** draw.choice((2, 5, 10, 40)))
    choices = choices_of(event, neighbours)
    found = shared_epsilon(choices, delta)
    assert found is not None
    assert found.width < 1e-5
    each = [
        epsilon_at(engine_for(law, "auto", WIDTH), law, delta) for law in alternatives_of(event, neighbours)
    ]
    assert found.lower <= max(bounds.upper for bounds in each)
    assert max(bounds.lower for bounds in each) <= found.upper
    if found.width < 3e-9:
        assert found.upper <= max(bounds.upper for bounds in each) + 3e-9


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(2))
def test_its_bound_holds_at_every_epsilon_and_for_every_law(seed: int) -> None:
    """At one tilt, the bound is close near the epsilon that the tilt is for, and valid anywhere."""
    draw = random.Random(seed)
    choices = choices_of(drawn(draw, BOUNDED), BOUNDED)
    usual = costliest_of(choices)
    near = epsilon_at(engine_for(usual, "auto", WIDTH), usual, Fraction(1, 10**8)).upper
    contour = contour_for(choices, usual, near, math.log(1e-8), 1e-8)
    assert contour is not None
    for epsilon in (Fraction(0), Fraction(near) / 2, Fraction(near), Fraction(near) * 5 / 4):
        deltas = [engine_for(law, "auto", WIDTH).log_deltas([epsilon])[0] for law in enumerated(choices)]
        worst = contour.worst(epsilon)
        assert worst.log_delta >= max(bounds.lower for bounds in deltas)
        if epsilon == Fraction(near):
            assert worst.log_delta <= max(bounds.upper for bounds in deltas) + 1e-6
            assert worst.law in enumerated(choices)


def test_products_that_are_left_out_are_no_larger() -> None:
    """The largest value of the rule, with all products kept and with most of them left out."""
    kinds = ParallelEvent(tuple(DiscreteGaussian(Fraction(40, k), 1, 2 * k) for k in (3, 4, 5, 7)))
    choices = choices_of(SequentialEvent((kinds, DiscreteGaussian(9, 1, 8))), BOUNDED)
    contour = contour_for(choices, costliest_of(choices), 10.0, math.log(1e-6), 1e-7)
    assert contour is not None
    parts = list(zip((options.times for options in contour.options), contour.tables, strict=True))
    shifted = 10 - Fraction(contour.dither) / 2
    away = float(sum(times * table.centre for times, table in parts) - shifted)
    weights = contour.weights * np.exp(1j * contour.frequencies * away)
    ways = [itertools.combinations_with_replacement(table.values, times) for times, table in parts]
    products = (
        np.prod([row for rows in picks for row in rows], axis=0) for picks in itertools.product(*ways)
    )
    unit = sum(times * table.log_unit for times, table in parts)
    largest = math.log(max((weights @ product).real for product in products))
    largest += unit - contour.tilt * float(shifted)
    assert largest <= contour.worst(Fraction(10)).log_delta <= largest + 1e-5


def test_nodes_left_out_are_bounded() -> None:
    """All nodes up to the end of the scan, computed for one law, against the few that are kept."""
    choices = choices_of(DiscreteGaussian("7/3", 1, 6), UNBOUNDED)
    law = costliest_of(choices)
    near = epsilon_at(engine_for(law, "auto", WIDTH), law, Fraction(1, 10**6)).upper
    contour = contour_for(choices, law, near, math.log(1e-6), 1e-4)
    assert contour is not None
    (table,) = contour.tables
    step = float(np.diff(contour.frequencies).min())
    u = np.arange(1 << 15) * step
    v, n, s = 7 / 3, 6, contour.tilt
    z, nearest = s + 1j * u, np.rint(u / (2 * math.pi * v))
    images = sum(
        np.exp(-((u - 2 * math.pi * v * m) ** 2) / (2 * v) - 2j * math.pi * m * s)
        for m in (nearest - 1, nearest, nearest + 1)
    )
    at_zero = sum(math.exp(-2 * math.pi**2 * v * m * m) for m in range(-9, 10))
    moment = np.exp(n * (s + s * s) / (2 * v)) * (np.abs(images) / at_zero) ** n
    terms = moment * np.exp(z * z * contour.dither / 2) / (z * (z + 1)) * step / math.pi
    kept = np.isin(np.rint(u / step), np.rint(contour.frequencies / step))
    assert not kept.all()
    assert float(np.abs(terms[~kept]).sum()) <= contour.left_out * math.exp(table.log_unit)


def test_very_many_laws_take_as_long_as_few() -> None:
    draw = random.Random(9)
    spines = tuple(drawn(draw, BOUNDED, 2) for _ in range(6))
    found = compose(*spines, neighbours=BOUNDED)
    assert number_of_laws(found.choices) > 10**6
    assert found.engines[-1] == "shared"
    bounds = found.epsilon("1e-10")
    assert bounds.width < 3e-6
    # Any law is a lower bound.
    some = enumerated([Choice(choice.options[:1], choice.times) for choice in found.choices])[0]
    assert epsilon_at(engine_for(some, "auto", WIDTH), some, Fraction(1, 10**10)).lower <= bounds.upper


def test_both_ways_give_one_number(monkeypatch: pytest.MonkeyPatch) -> None:
    event = drawn(random.Random(2), BOUNDED)
    one_by_one = compose(event, neighbours=BOUNDED).epsilon("1e-10")
    monkeypatch.setattr(module, "_FEW", 1)
    found = compose(event, neighbours=BOUNDED)
    assert found.is_shared
    assert found.epsilon("1e-10").upper == pytest.approx(one_by_one.upper, abs=3e-9)
    assert found.epsilon(1) == Bounds(0.0, 0.0)


def tied_to_another_tilt() -> SequentialEvent:
    """Ways of which the costliest by zCDP needs four times the tilt that the worst one needs."""
    kinds = (
        SequentialEvent((DiscreteGaussian(9, 1, 6), DiscreteLaplace(1, 1, 6), DiscreteGaussian(21, 2, 2))),
        DiscreteGaussian(12, 2, 2),
        SequentialEvent((DiscreteGaussian(18, 2, 4), DiscreteGaussian("1/3", 1, 2))),
    )
    return SequentialEvent((ParallelEvent(kinds), DiscreteGaussian(8, 1, 2)))


def test_the_contour_is_made_for_the_worst_law() -> None:
    """At the tilt of another law the bound of delta is 1, and a step as long as that asks for adds 2 to epsilon."""
    event, delta = tied_to_another_tilt(), Fraction(1, 10**6)
    found = shared_epsilon(choices_of(event, BOUNDED), delta)
    assert found is not None
    one_by_one = compose(event, neighbours=BOUNDED).epsilon(delta)
    assert one_by_one.lower <= found.upper <= one_by_one.upper + 2e-6
    assert found.width < 2e-6


def test_the_width_that_a_contour_reached_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    event, delta = tied_to_another_tilt(), Fraction(1, 10**6)
    small = [ParallelEvent(tuple(DiscreteGaussian(v, 1, 2) for v in range(a, a + 3))) for a in (5000, 7000)]
    proved = proved_epsilon(SequentialEvent((event, *small)), BOUNDED, delta)
    assert proved.engines[-1] == "shared"
    assert proved.bounds.width < 3e-9
    assert proved.width_reached is None
    # Without the others, its first contour has too many nodes at the usual width.
    monkeypatch.setattr(module, "_FEW", 1)
    wider = proved_epsilon(event, BOUNDED, delta)
    assert wider.engines[-1] == "shared"
    assert wider.width_reached == wider.bounds.width > 1e-8
    guarantee = compose(event, neighbours=BOUNDED)
    assert guarantee.wider(guarantee.epsilon(delta)) == wider.width_reached
    assert guarantee.wider() is None


def test_a_step_that_is_too_long_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """However far the first contour for the worst law asks to go."""
    event, delta = drawn(random.Random(2), BOUNDED), Fraction(1, 10**10)
    choices = choices_of(event, BOUNDED)
    expected = shared_epsilon(choices, delta)
    bound, refused = shared.SharedContour.worst, []

    def refusing(contour: shared.SharedContour, epsilon: Fraction) -> shared.WorstLaw:
        worst = bound(contour, epsilon)
        if len(refused) < 3:
            refused.append(epsilon)
            return replace(worst, log_delta=0.0)
        return worst

    monkeypatch.setattr(shared.SharedContour, "worst", refusing)
    found = shared_epsilon(choices, delta)
    assert expected is not None
    assert found is not None
    assert len(refused) == 3
    assert expected.lower <= found.upper <= expected.upper + 1e-6


def test_a_largest_loss_ends_the_search() -> None:
    """Where all losses are bounded, no epsilon beyond the largest one is stated."""
    choices = (
        Choice(
            tuple(
                losses
                for event in (DiscreteLaplace(1, 1, 2), DiscreteLaplace(2, 1, 3))
                for losses in enumerated(choices_of(event, UNBOUNDED))
            ),
            2,
        ),
    )
    found = shared_epsilon(choices, Fraction(1, 10**30))
    assert found is not None
    assert found.lower <= 4 <= found.upper * (1 + 1e-12) < 4 * (1 + 1e-9)


@pytest.mark.parametrize("event", [ApproximateDP(1, "1e-9"), ZCDP("1/9"), PoissonSampled(Gaussian(1), "1/9")])
def test_stated_guarantees_and_samples_are_left_to_others(event: PrivacyEvent) -> None:
    assert not takes(choices_of(event, UNBOUNDED))


def line(variance: float, offset: float) -> tuple[np.ndarray, np.ndarray]:
    """Losses and probabilities of discrete Gaussian noise on the whole numbers plus an offset, moved by 1."""
    reach = int(14 * math.sqrt(variance)) + 3
    x = np.arange(-reach, reach + 1) + offset
    masses = np.exp(-x * x / (2 * variance))
    return (1 + 2 * x) / (2 * variance), masses / masses.sum()


def excess(epsilon: float, law: tuple[np.ndarray, np.ndarray]) -> float:
    losses, masses = law
    return float((masses * np.maximum(0, -np.expm1(epsilon - losses))).sum())


@pytest.mark.parametrize(("variance", "distance"), [(2, 2), (20, 2), (4, 4), (3, 8)])
@pytest.mark.parametrize("delta", ["1e-2", "1e-8"])
def test_no_offset_of_a_line_costs_more(variance: int, distance: int, delta: str) -> None:
    """Also if the offset and the distance are chosen by what another answer was."""
    lattice = LatticeNoise(Fraction(variance), distance)
    assert lattice.is_wide
    lines = [line(variance / n, offset) for n in range(1, distance + 1) for offset in np.linspace(0, 1, 17)]
    alone = shared_epsilon(
        choices_of(Gaussian(Fraction(variance, distance)), UNBOUNDED), Fraction(delta), lattices=[lattice]
    )
    assert alone is not None
    assert max(excess(alone.upper, law) for law in lines) <= float(Fraction(delta))
    normal = compose(Gaussian(Fraction(variance, distance)), neighbours=UNBOUNDED).epsilon(delta)
    assert normal.upper < alone.upper < 1.25 * normal.upper
    both = SequentialEvent((Gaussian(Fraction(variance, distance)), DiscreteGaussian(3)))
    found = shared_epsilon(choices_of(both, UNBOUNDED), Fraction(delta), lattices=[lattice])
    assert found is not None
    losses, masses = line(3.0, 0.0)
    chosen = sum(
        mass * max(excess(found.upper - loss, law) for law in lines)
        for loss, mass in zip(losses, masses, strict=True)
        if mass > 1e-30
    )
    assert chosen <= float(Fraction(delta))


def test_lattice_noise_of_little_variance_is_refused() -> None:
    assert not LatticeNoise(Fraction(1, 3), 2).is_wide
    assert not LatticeNoise(Fraction(10**9), shared._MOST_DISTANCES + 1).is_wide
