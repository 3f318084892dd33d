"""Epsilon from delta through any engine, also one whose bounds are useless, wide, or exact."""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import mpmath
import pytest

from tallyveil.accounting import conversion
from tallyveil.accounting.conversion import epsilon_at, real_number
from tallyveil.accounting.engines.ball_tails import Enumeration
from tallyveil.accounting.engines.choose import ENGINES, FallbackEngine, NoLoss, choose_engine
from tallyveil.accounting.engines.enclosing import Between
from tallyveil.accounting.engines.tails import NOTHING, DeltaByTails, LossEngine, Tails, log_delta_of
from tallyveil.accounting.losses import ExponentialLoss, GaussianLoss, LaplaceLoss, lattice_of
from tallyveil.accounting.numbers import Bounds
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


def test_no_epsilon_is_above_the_largest_loss_of_the_truth() -> None:
    """Real Laplace noise that covers discrete Laplace noise has a larger one."""
    law = (LaplaceLoss(Fraction(300), 300, 2),)
    upper_law, lower_law = (ExponentialLoss(1 + Fraction(part, 360_000), 2) for part in (1, 0))
    engines = [Enumeration.build((one,)) for one in (upper_law, lower_law)]
    assert engines[0] is not None
    assert engines[1] is not None
    between = Between(engines[0], engines[1], (upper_law,), (lower_law,), 0.01)
    assert epsilon_at(between, (upper_law,), Fraction(0)).upper > 2
    for delta in (Fraction(0), Fraction(1, 10**30)):
        bounds = epsilon_at(between, law, delta)
        assert bounds.upper == 2
        assert bounds.lower <= 2
    assert epsilon_at(between, law, Fraction(0)).lower == 2


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


@dataclass
class Counted:
    """Another engine, and how often it was asked."""

    inner: LossEngine
    asked: list[object] = field(default_factory=list)
    name: str = "counted"

    def log_tails(self, epsilon):
        self.asked.append(epsilon)
        return self.inner.log_tails(epsilon)

    def log_deltas(self, epsilons):
        self.asked.append(epsilons)
        return self.inner.log_deltas(epsilons)


@pytest.mark.parametrize(
    ("factors", "least", "most"),
    [
        (GAUSSIANS, 30, 12),
        ((GaussianLoss(Fraction(50), 1, 40), LaplaceLoss(Fraction(5), 1, 2)), 200, 14),
        ((GaussianLoss(Fraction(10**6), 1, 1),), 200, 11),
        ((LaplaceLoss(Fraction(3), 2, 20),), 9, 32),
    ],
)
def test_a_search_asks_for_few_deltas_and_ends_close(factors, least, most) -> None:
    for exponent in (1, 3, 9, 30, 200):
        if exponent > least:
            continue
        engine = Counted(choose_engine(factors))
        found = epsilon_at(engine, factors, Fraction(1, 10**exponent))
        assert len(engine.asked) <= most
        assert found.width <= 2e-12 * (1 + 5 * found.upper)
        target = -exponent * math.log(10)
        if found.lower:
            assert log_delta_of(engine, found.lower).lower >= target * (1 + 1e-15)
        assert log_delta_of(engine, found.upper).upper <= target * (1 - 1e-15)


@pytest.mark.parametrize("mu", [0.01, 0.7, 3.0, 20.0])
@pytest.mark.parametrize("exponent", [1, 5, 30, 200])
def test_a_search_begins_at_the_epsilon_of_a_normal_answer(mu: float, exponent: int) -> None:
    found = conversion._gaussian_epsilon(mu, -exponent * math.log(10))
    with mpmath.workdps(250):

        def delta(epsilon):
            a, b = mu / 2 - mpmath.mpf(epsilon) / mu, -mu / 2 - mpmath.mpf(epsilon) / mu
            return mpmath.ncdf(a) - mpmath.exp(epsilon) * mpmath.ncdf(b)

        target = mpmath.mpf(10) ** -exponent
        if delta(0) < target:
            assert 0 <= found < 1e-6 * mu
        else:
            size = found / mu + 1
            assert delta(found - 1e-4 * mu * size) > target > delta(found + 1e-4 * mu * size)
            assert found < 40 * (mu + mu * mu)


def test_the_logarithm_of_the_normal_distribution_function_is_near() -> None:
    for x in (-300.0, -30.0, -10.001, -9.999, -2.0, 0.0, 3.0):
        with mpmath.workdps(40):
            assert conversion._log_normal(x) == pytest.approx(float(mpmath.log(mpmath.ncdf(x))), rel=1e-5)


def test_the_guess_takes_the_rho_of_all_losses() -> None:
    """Laplace noise of a large epsilon counts with about half that instead of half its square."""
    for factors, rho in (
        ((GaussianLoss(Fraction(50), 3, 40),), 9 * 40 / 100),
        ((LaplaceLoss(Fraction(20), 2, 30),), 30 * 0.1**2 / 2),
        ((LaplaceLoss(Fraction(1, 20), 2, 3), GaussianLoss(Fraction(5), 1, 1)), 3 * 40 / 2 + 0.1),
    ):
        wanted = conversion._gaussian_epsilon(math.sqrt(2 * rho), -20.0)
        assert conversion.about_epsilon(factors, -20.0) == pytest.approx(wanted, rel=1e-9)


def test_a_step_ends_where_a_line_or_a_cell_meets_the_target() -> None:
    assert conversion._step(2.0, -5.0, -8.0, 1.5) == pytest.approx(4.0)
    assert conversion._step(2.0, -8.0, -5.0, 1.5) == pytest.approx(0.0)
    # Within a cell A - exp(epsilon) B meets the target exactly.
    first, second, epsilon, target = 0.5, 0.1, 0.9, 0.25
    delta = first - math.exp(epsilon) * second
    slope = conversion._slope(epsilon, math.log(second), math.log(delta))
    assert slope == pytest.approx(math.exp(epsilon) * second / delta)
    found = conversion._step(epsilon, math.log(delta), math.log(target), slope)
    assert first - math.exp(found) * second == pytest.approx(target, rel=1e-12)
    assert conversion._slope(1.0, -900.0, -1.0) == 1e-12
    assert conversion._slope(1e4, -1.0, -1.0) == math.exp(700)


def test_strides_are_short_at_first_and_never_nothing() -> None:
    for attempt, short in ((0, 1e-12 / 64), (1, 1e-12 / 8), (2, 1e-12), (4, 64e-12), (12, 1e-12 * 8**10)):
        assert conversion._stride(1e-5, 5.0, attempt) == pytest.approx(min(short, 5.5), rel=1e-9, abs=0)
    assert conversion._stride(1e-5, 1e-13, 9) == pytest.approx(1.1e-13, rel=1e-9, abs=0)
    assert conversion._stride(1e5, 0.0, 0) == math.ulp(1e5)
    assert conversion._stride(1e5, 1.0, 2) == 16 * math.ulp(1e5)
    assert conversion._stride(1.0, math.inf, 10**6) > 1e200


def test_a_certified_end_is_the_first_place_that_holds() -> None:
    """Also where the bound of delta is the target exactly."""

    @dataclass
    class Line(DeltaByTails):
        name: str = "line"

        def log_tails(self, epsilon) -> Tails:
            log_delta = Bounds(-float(epsilon) - 0.25, -float(epsilon) + 0.25)
            return Tails(NOTHING, NOTHING, log_delta)

    target = Bounds(-5.0, -5.0)
    assert conversion._certified_upper(Line(), 5.25, 1.0, target, math.inf) == 5.25
    assert conversion._certified_lower(Line(), 4.75, 1.0, target) == 4.75
    assert conversion._certified_upper(Line(), 5.0, 1.0, target, math.inf) == pytest.approx(5.25, abs=0.05)
    assert conversion._certified_upper(Line(), 5.0, 1.0, target, math.inf) >= 5.25
    assert conversion._certified_lower(Line(), 5.0, 1.0, target) == pytest.approx(4.75, abs=0.05)
    assert conversion._certified_lower(Line(), 5.0, 1.0, target) <= 4.75
    assert conversion._certified_upper(Line(), 5.0, 1.0, target, 5.1) == 5.1
    assert conversion._certified_lower(Line(), 5.0, 1.0, Bounds(1.0, 1.0)) == 0.0
    found = conversion._by_halving(Line(), 4.0, target)
    assert 5.25 <= found <= 5.25 + 4 / 2**19
    with pytest.raises(SolverError, match="line"):
        conversion._by_halving(Line(), 1e-9, Bounds(-10.0, -10.0))
