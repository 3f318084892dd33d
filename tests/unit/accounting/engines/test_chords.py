"""Both probabilities from delta alone, where all three are known: for normal losses and for one of few values."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import pytest

from tallyveil.accounting.engines import tails
from tallyveil.accounting.engines.ball_tails import Enumeration, Normal
from tallyveil.accounting.engines.choose import NoLoss
from tallyveil.accounting.engines.tails import NOTHING, LossEngine, ManyBounds, Tails, tails_by_chords
from tallyveil.accounting.losses import LaplaceLoss
from tallyveil.accounting.numbers import Bounds


@dataclass(frozen=True)
class Uncertain:
    """Another engine's delta, known less closely."""

    engine: LossEngine
    slack: float

    def log_deltas(self, epsilons: Sequence[float | Fraction]) -> ManyBounds:
        found = self.engine.log_deltas(epsilons)
        return ManyBounds(found.lower - self.slack, found.upper + self.slack)


EPSILONS = (-700.0, -30.0, -2.0, -0.3, 0.0, 0.7, Fraction(5, 2), 9.0, 40.0)


@pytest.mark.parametrize("slack", [0.0, 1e-9, 1e-3])
@pytest.mark.parametrize("length", [1e-4, 0.01, 1.0])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_chords_enclose_both_probabilities(epsilon: float | Fraction, length: float, slack: float) -> None:
    engine = Normal(Fraction(3, 2))
    true, found = engine.log_tails(epsilon), tails_by_chords(Uncertain(engine, slack), epsilon, length)
    for exact, bounds in ((true.log_first, found.log_first), (true.log_second, found.log_second)):
        assert bounds.lower <= exact.upper
        assert exact.lower <= bounds.upper <= 0
    if slack == 0 and epsilon > -3:
        # The slope of delta moves over a chord by about that much, relatively.
        steep = 1 + abs(float(epsilon))
        assert found.log_second.width < 2 * length * steep + 1e-6 / length
        assert found.log_first.width < 2 * length * steep + 1e-6 / length


def test_chords_across_few_losses() -> None:
    """Between two losses Q is constant, and the chords give it to the digits of delta."""
    engine = Enumeration.build((LaplaceLoss(Fraction(1), 1, 2),))
    assert engine is not None
    for epsilon in (-1.9, -0.5, 0.5, 1.9):
        true, found = engine.log_tails(epsilon), tails_by_chords(engine, epsilon, 0.05)
        assert found.log_second.lower <= true.log_second.lower <= found.log_second.upper
        assert found.log_first.lower <= true.log_first.lower <= found.log_first.upper
        assert found.log_second.width < 1e-10
        assert found.log_first.width < 1e-10
    on = tails_by_chords(
        engine, 0.0, 0.05
    ).log_second  # Q falls at 0: the chords say what lies on either side
    assert on.lower == pytest.approx(engine.log_tails(0.01).log_second.upper, abs=1e-10)
    assert on.upper == pytest.approx(engine.log_tails(-0.01).log_second.upper, abs=1e-10)


def test_where_delta_is_0_all_tails_are_empty() -> None:
    assert NoLoss().log_tails(0.0) == Tails(NOTHING, NOTHING, NOTHING)
    assert tails_by_chords(NoLoss(), 1.0, 0.1).log_first == NOTHING
    assert tails_by_chords(NoLoss(), 1.0, 0.1).log_second == NOTHING
    below = tails_by_chords(NoLoss(), -1.0, 0.1)
    assert below.log_first.upper == pytest.approx(0, abs=1e-10)
    assert below.log_second.lower == pytest.approx(0, abs=1e-10)


def test_without_a_lower_bound_of_delta_there_is_none_of_the_probabilities() -> None:
    class OnlyAbove:
        def log_deltas(self, epsilons: Sequence[float | Fraction]) -> ManyBounds:
            return ManyBounds.of(
                [Bounds(-math.inf, one.upper) for one in Normal(Fraction(1)).log_deltas(epsilons)]
            )

    found, true = tails_by_chords(OnlyAbove(), 1.0, 0.1), Normal(Fraction(1)).log_tails(1.0)
    assert found.log_first.lower == found.log_second.lower == -math.inf
    assert found.log_first.upper >= true.log_first.upper
    assert found.log_second.upper >= true.log_second.upper


@dataclass(frozen=True)
class Three:
    """An engine that knows delta at three places, and no others."""

    known: dict[Fraction, Bounds]

    def log_deltas(self, epsilons: Sequence[float | Fraction]) -> ManyBounds:
        return ManyBounds.of([self.known[Fraction(epsilon)] for epsilon in epsilons])


@pytest.mark.parametrize("epsilon", [Fraction(-3, 2), Fraction(0), Fraction(5, 2)])
def test_both_probabilities_take_the_ends_that_hurt_and_the_roundings(
    epsilon: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two chords, from both sides of delta, and P = delta + exp(epsilon) Q."""
    slack, d, e = 1e-5, 0.25, float(epsilon)
    monkeypatch.setattr(tails, "_CHORD_SLACK", slack)
    before, here, after = (Bounds(-x, -x + 0.01) for x in (4.0, 5.0, 6.5))
    chord = Fraction(d)
    found = tails_by_chords(
        Three({epsilon - chord: before, epsilon: here, epsilon + chord: after}), epsilon, d
    )
    lower = math.log((math.exp(here.lower) - math.exp(after.upper)) / (math.exp(e + d) - math.exp(e)))
    upper = math.log((math.exp(before.upper) - math.exp(here.lower)) / (math.exp(e) - math.exp(e - d)))
    lower -= slack * (1 + abs(lower) + abs(e))
    upper += slack * (1 + abs(upper) + abs(e))
    assert found.log_second.lower == pytest.approx(lower, rel=1e-9)
    assert found.log_second.upper == pytest.approx(min(upper, 0.0), rel=1e-9)
    least = math.log(math.exp(here.lower) + math.exp(e + lower))
    most = math.log(math.exp(here.upper) + math.exp(e + min(upper, 0.0)))
    assert found.log_first.lower == pytest.approx(min(least, 0.0), rel=1e-9)
    assert found.log_first.upper == pytest.approx(min(most + slack * (1 + abs(most) + abs(e)), 0.0), rel=1e-9)
    assert found.log_delta == here


def test_a_chord_has_a_least_length() -> None:
    chord = Fraction(1e-9)
    known = {-chord: Bounds(-1.0, -1.0), Fraction(0): Bounds(-1.5, -1.5), chord: Bounds(-2.0, -2.0)}
    assert tails_by_chords(Three(known), 0, 0.0).log_delta == known[Fraction(0)]
