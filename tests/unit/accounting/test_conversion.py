"""Epsilon from delta through any engine, also one whose bounds are useless, wide, or exact."""

import math
from dataclasses import dataclass
from fractions import Fraction

import pytest

from tallyveil.accounting import conversion
from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.conversion import epsilon_at, real_number
from tallyveil.accounting.engines.choose import ENGINES, FallbackEngine, NoLoss, choose_engine
from tallyveil.accounting.engines.tails import NOTHING, DeltaByTails, LossEngine, Tails, log_delta_of
from tallyveil.accounting.losses.factors import GaussianLoss, LaplaceLoss, lattice_of
from tallyveil.errors import BudgetError, SolverError

GAUSSIANS = (GaussianLoss(Fraction(5, 2), 1, 3),)
LAPLACES = (LaplaceLoss(Fraction(2), 1, 2),)


@dataclass(frozen=True)
class Around(DeltaByTails):
    """The tails of another engine, with delta widened by a constant factor on either side."""

    inner: LossEngine
    below: float
    above: float
    name: str = "around"

    def log_tails(self, epsilon) -> Tails:
        found = self.inner.log_tails(epsilon)
        delta = Bounds(found.log_delta.lower - self.below, min(found.log_delta.upper + self.above, 0.0))
        return Tails(found.log_first, found.log_second, delta)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_none_are_refused(value) -> None:
    with pytest.raises(BudgetError, match="finite"):
        real_number(value, "delta")
    assert real_number(0.5, "delta") == Fraction(1, 2)
    assert real_number("1/3", "delta") == Fraction(1, 3)


def test_deltas_at_the_ends_of_their_range() -> None:
    engine = choose_engine(LAPLACES)
    with pytest.raises(BudgetError, match="0 or more"):
        epsilon_at(engine, LAPLACES, Fraction(-1))
    assert epsilon_at(engine, LAPLACES, Fraction(1)) == Bounds(0.0, 0.0)
    assert epsilon_at(NoLoss(), (), Fraction(1, 10)) == Bounds(0.0, 0.0)
    pure = epsilon_at(engine, LAPLACES, Fraction(0))
    assert pure.lower <= 1 <= pure.upper
    assert epsilon_at(choose_engine(GAUSSIANS), GAUSSIANS, Fraction(0)) == Bounds(math.inf, math.inf)
    assert epsilon_at(choose_engine(GAUSSIANS), GAUSSIANS, Fraction(999, 1000)) == Bounds(0.0, 0.0)


@pytest.mark.parametrize("factors", [GAUSSIANS, LAPLACES])
@pytest.mark.parametrize("delta", [Fraction(1, 10), Fraction(1, 1000), Fraction(1, 10**9)])
@pytest.mark.parametrize(("below", "above"), [(0.0, 0.0), (0.3, 0.0), (0.0, 0.3), (1.0, 1.0)])
def test_wide_engines_give_wide_answers_that_enclose_the_narrow_ones(factors, delta, below, above) -> None:
    engine = choose_engine(factors)
    narrow = epsilon_at(engine, factors, delta)
    wide = epsilon_at(Around(engine, below, above), factors, delta)
    assert wide.lower <= narrow.upper
    assert narrow.lower <= wide.upper
    assert wide.upper >= narrow.lower
    assert wide.lower <= narrow.lower + 1e-9


def test_an_engine_that_knows_nothing_is_refused_or_gives_the_largest_loss() -> None:
    """Delta is at most 1 and may be 0: no finite epsilon follows, except where the loss itself ends."""

    class Blank(DeltaByTails):
        name = "blank"

        def log_tails(self, epsilon) -> Tails:
            return Tails(NOTHING, NOTHING, Bounds(-math.inf, 0.0))

    with pytest.raises(SolverError, match="blank"):
        epsilon_at(Blank(), GAUSSIANS, Fraction(1, 100))
    found = epsilon_at(Blank(), LAPLACES, Fraction(1, 100))
    assert found.lower == 0.0
    assert found.upper == pytest.approx(1.0)


def test_a_steep_guess_does_not_leave_the_bracket() -> None:
    assert conversion._step(1.0, -math.inf, -5.0, 1.0) == -math.inf
    assert conversion._step(1.0, -5.2, -5.0, 1e-12) == -math.inf
    assert conversion._step(1.0, -5.0, -5.0, 1.0) == 1.0
    assert conversion._slope(1.0, -3.0, -math.inf) == 1.0
    assert conversion._middle(Bounds(-math.inf, -3.0)) == -3.0


def test_engines_are_chosen_by_name_or_refused() -> None:
    with pytest.raises(BudgetError, match="no engine 'fast'"):
        choose_engine(GAUSSIANS, "fast")
    with pytest.raises(BudgetError, match="cannot take"):
        choose_engine(LAPLACES, "closed_form")
    for name in ENGINES:
        assert isinstance(choose_engine((), name), NoLoss)
    nothing = NoLoss().log_tails(-1.0)
    truth = math.log(-math.expm1(-1.0))
    assert nothing.log_delta.lower <= truth <= nothing.log_delta.upper
    assert NoLoss().log_tails(0.0).log_delta == NOTHING
    with pytest.raises(BudgetError, match="empty"):
        lattice_of(())


def test_a_fast_engine_with_wide_bounds_asks_the_other_one() -> None:
    exact = choose_engine(GAUSSIANS)
    both = FallbackEngine(Around(exact, 1.0, 1.0), lambda: exact)
    assert both.name == "around"
    wanted, found = exact.log_tails(2.0), both.log_tails(2.0)
    assert found.log_delta.lower >= wanted.log_delta.lower - 1e-12
    assert found.log_delta.upper <= wanted.log_delta.upper + 1e-12
    assert FallbackEngine(exact, lambda: Around(exact, 9.0, 9.0)).log_tails(2.0) == wanted


@pytest.mark.parametrize("epsilon", [-1.0, 0.0, 0.7, Fraction(5, 2)])
def test_delta_alone_is_that_of_the_tails(epsilon) -> None:
    dithered = choose_engine(GAUSSIANS, "dithered", 1e-4)
    engines = [choose_engine(GAUSSIANS, name) for name in ("closed_form", "quadrature", "tilted_fft")]
    engines += [
        dithered,
        FallbackEngine(engines[0], lambda: engines[1]),
        FallbackEngine(dithered, lambda: engines[0]),
    ]
    for engine in engines:
        alone, tails = log_delta_of(engine, epsilon), engine.log_tails(epsilon).log_delta
        assert (alone.lower, alone.upper) == (tails.lower, tails.upper)
    assert log_delta_of(engines[-1], epsilon).width < 1e-9
