"""A chance that everything is revealed, and two engines that enclose the truth: against exact formulas."""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import pytest
from flint import arb

from tallyveil.accounting.conversion import epsilon_at
from tallyveil.accounting.engines import enclosing
from tallyveil.accounting.engines.ball_tails import Normal
from tallyveil.accounting.engines.choose import NoLoss, engine_for
from tallyveil.accounting.engines.enclosing import Between, Conditioned, WithFailure
from tallyveil.accounting.engines.tails import DeltaByTails, LossEngine, Tails, float_bounds
from tallyveil.accounting.losses import LaplaceLoss, NormalLoss, ResponseLoss, SampledLoss
from tallyveil.accounting.numbers import Bounds
from tallyveil.errors import SolverError
from tallyveil.noise.balls import precision, rational

MU_SQUARED = Fraction(3, 2)
REST = Normal(MU_SQUARED)
LAW = (NormalLoss(MU_SQUARED),)
CHANCES = [Fraction(1, 10**300), Fraction(1, 10**9), Fraction(3, 10), 1 - Fraction(1, 10**12)]
EPSILONS = (-3.0, 0.0, 1.5, 30.0)


def mixed(chance: Fraction, logarithm: Bounds) -> Bounds:
    """ln(D + (1 - D) x) from ln x, in balls."""
    with precision(1200):
        ends = [
            (rational(chance) + rational(1 - chance) * arb(end).exp()).log()
            for end in (logarithm.lower, logarithm.upper)
        ]
        return Bounds(float_bounds(ends[0]).lower, float_bounds(ends[1]).upper)


@pytest.mark.parametrize("chance", CHANCES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_failure_is_added_to_every_tail_but_that_of_the_other_law(epsilon: float, chance: Fraction) -> None:
    engine, rest = WithFailure(chance, chance, REST, LAW), REST.log_tails(epsilon)
    found = engine.log_tails(epsilon)
    for bounds, of_rest in ((found.log_first, rest.log_first), (found.log_delta, rest.log_delta)):
        wanted = mixed(chance, of_rest)
        assert bounds.lower <= wanted.lower <= wanted.upper <= bounds.upper <= 0
        assert bounds.width <= wanted.width + 1e-13 * (1 + abs(wanted.upper))
    with precision(256):
        less = float_bounds(rational(1 - chance).log())
    assert found.log_second.lower <= rest.log_second.lower + less.upper
    assert rest.log_second.upper + less.lower <= found.log_second.upper <= 0
    assert found.log_second.width < 1e-12 * (1 + abs(found.log_second.upper))
    assert engine.log_deltas([epsilon])[0] == found.log_delta


def test_a_chance_that_is_not_known_exactly_widens_the_bounds_on_its_side() -> None:
    least, most = Fraction(1, 5), Fraction(1, 4)
    engine = WithFailure(least, most, REST, LAW)
    found, low, high = (
        one.log_tails(1.0)
        for one in (engine, WithFailure(least, least, REST, LAW), WithFailure(most, most, REST, LAW))
    )
    assert (found.log_delta.lower, found.log_delta.upper) == (low.log_delta.lower, high.log_delta.upper)
    assert (found.log_first.lower, found.log_first.upper) == (low.log_first.lower, high.log_first.upper)
    assert (found.log_second.lower, found.log_second.upper) == (high.log_second.lower, low.log_second.upper)
    # D + (1 - D) delta' is the delta; it solves for delta' at either end.
    for end, chance in zip(engine.deltas_of_rest(Fraction(1, 2)), (most, least), strict=True):
        assert chance + (1 - chance) * end == Fraction(1, 2)
    assert max(engine.deltas_of_rest(Fraction(1, 10))) < 0
    for end, chance in zip(engine.levels_of_rest(Fraction(1, 2)), (most, least), strict=True):
        assert end * (1 - chance) == Fraction(1, 2)
    assert engine.levels_of_rest(Fraction(9, 10)) == (1, 1)
    beta = engine.beta(Bounds(0.1, 0.2), Bounds(0.3, 0.4))
    assert 0.1 * 0.75 * (1 - 1e-14) < beta.lower < 0.1 * 0.75
    assert 0.4 * 0.8 < beta.upper < 0.4 * 0.8 * (1 + 1e-14)
    assert engine.beta(Bounds(1.0, 1.0), Bounds(1.0, 1.0)).upper <= 1


def test_without_a_chance_nothing_is_added() -> None:
    found = WithFailure(Fraction(0), Fraction(0), REST, LAW).log_tails(1.0)
    assert found.log_delta.lower <= REST.log_tails(1.0).log_delta.lower
    assert found.log_delta.upper == pytest.approx(REST.log_tails(1.0).log_delta.upper, abs=1e-13)


def test_between_takes_each_side_from_its_engine() -> None:
    low, high = Normal(Fraction(1)), Normal(Fraction(2))
    engine = Between(high, low, LAW, LAW, 0.01)
    for epsilon in EPSILONS:
        found = engine.log_deltas([epsilon, 1.0])[0]
        assert found.lower == low.log_tails(epsilon).log_delta.lower
        assert found.upper == high.log_tails(epsilon).log_delta.upper
    # Engines the wrong way round contradict each other.
    with pytest.raises(SolverError, match="one of them is wrong"):
        Between(low, high, LAW, LAW, 0.01).log_deltas([1.0])
    # Delta of no losses is 0 from 0 on, so that any lower bound above it is wrong.
    with pytest.raises(SolverError, match="one of them is wrong"):
        Between(NoLoss(), high, (), LAW, 0.01).log_deltas([1.0])
    assert Between(NoLoss(), NoLoss(), (), (), 0.01).log_deltas([1.0])[0].upper == -math.inf
    assert engine.log_tails(1.0).log_delta == engine.log_deltas([1.0])[0]
    assert engine.log_tails(1.0).log_first.lower <= low.log_tails(1.0).log_first.upper


@dataclass
class Asked(DeltaByTails):
    """An engine that notes every epsilon that it is asked."""

    engine: LossEngine
    name: str = "asked"
    epsilons: list[float] = field(default_factory=list)

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        self.epsilons.append(float(epsilon))
        return self.engine.log_tails(epsilon)


TWO_VALUES = (Fraction(240), Fraction(-240)), (Bounds(-1e-15, 0.0), Bounds(-240 - 1e-13, -240 + 1e-13))
"""Values of one answer with Laplace noise that protects nobody, and the logarithms of their probabilities."""


def test_values_that_hardly_count_are_not_asked() -> None:
    rest = Asked(REST)
    engine = Conditioned(*TWO_VALUES, Fraction(0), rest, 0.02)
    delta = engine.log_deltas([241])[0]
    assert set(rest.epsilons) == {1.0}
    known = REST.log_tails(1).log_delta
    assert delta.lower <= known.lower <= known.upper <= delta.upper <= known.upper + 1e-13
    # Where delta is below the probability of the other value, that one counts.
    rest.epsilons.clear()
    far = engine.log_deltas([300])[0]
    assert set(rest.epsilons) == {60.0, 540.0}
    assert far.upper == pytest.approx(REST.log_tails(60).log_delta.upper, rel=1e-12)


def test_a_search_on_a_flat_delta_stays_near() -> None:
    asked = Asked(Conditioned(*TWO_VALUES, Fraction(0), REST, 0.02))
    epsilon = epsilon_at(asked, (LaplaceLoss(Fraction(1, 240), 1, 1), *LAW), Fraction(1, 1000))
    assert epsilon.lower <= 240 + epsilon_at(REST, LAW, Fraction(1, 1000)).upper
    assert epsilon.upper >= 240 + epsilon_at(REST, LAW, Fraction(1, 1000)).lower
    assert epsilon.width < 1e-10
    assert max(asked.epsilons) < 1000
    assert len(asked.epsilons) < 100


@pytest.mark.nightly
def test_of_samples_that_may_fail_nothing_is_known_where_the_rest_has_all_of_the_other_law() -> None:
    """The rest has the mass 1 / (1 - D) there, which its bounds do not show."""
    sample = SampledLoss(ResponseLoss(Fraction(1), 3), Fraction(1, 2), Fraction(1, 10))
    engine = engine_for((sample, LaplaceLoss(Fraction(7, 3), 1, 1)), "auto", 1e-9)
    assert isinstance(engine, WithFailure)
    far, near = engine.log_tails(-30), engine.log_tails(0.3)
    # Under Q nothing fails and every loss is above -30, so that the probability is 1.
    assert far.log_second.upper == 0.0
    assert near.log_second.upper < -0.5


@pytest.mark.parametrize("epsilon", [0.0, 3.0])
def test_roundings_widen_what_failures_are_mixed_with(
    epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    slack = 1e-6
    monkeypatch.setattr(enclosing, "_SLACK", slack)
    least, most = Fraction(1, 5), Fraction(1, 4)
    engine, rest = WithFailure(least, most, REST, LAW), REST.log_tails(epsilon)
    found = engine.log_tails(epsilon)
    for bounds, of_rest in ((found.log_first, rest.log_first), (found.log_delta, rest.log_delta)):
        low = math.log(0.2 + 0.8 * math.exp(of_rest.lower))
        high = math.log(0.25 + 0.75 * math.exp(of_rest.upper))
        assert bounds.lower == pytest.approx(low - 8 * slack * (1 + abs(low)), rel=1e-9)
        assert bounds.upper == pytest.approx(high + 8 * slack * (1 + abs(high)), rel=1e-9)
    low, high = rest.log_second.lower + math.log(0.75), rest.log_second.upper + math.log(0.8)
    assert found.log_second.lower == pytest.approx(low - slack, rel=1e-9)
    assert found.log_second.upper == pytest.approx(high + slack, rel=1e-9)
    beta = engine.beta(Bounds(0.1, 0.2), Bounds(0.3, 0.4))
    assert beta.lower == pytest.approx(0.75 * 0.1 * (1 - slack), rel=1e-9)
    assert beta.upper == pytest.approx(0.8 * 0.4 * (1 + slack), rel=1e-9)
    assert (engine.name, Between(REST, REST, LAW, LAW, 0.1).name) == (REST.name, REST.name)
