"""Which engine computes a composition, and how a second one helps where the first one's bounds are wide."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from tallyveil.accounting.conversion import epsilon_at
from tallyveil.accounting.engines import choose
from tallyveil.accounting.engines.ball_tails import OneSample
from tallyveil.accounting.engines.choose import ENGINES, FallbackEngine, NoLoss, choose_engine, first_asked
from tallyveil.accounting.engines.dithered import Dithered
from tallyveil.accounting.engines.enclosing import Between, Conditioned, RenyiUpper, WithFailure
from tallyveil.accounting.engines.halves import Halves
from tallyveil.accounting.engines.tails import NOTHING, DeltaByTails, ManyBounds, Tails
from tallyveil.accounting.engines.tilted_fft import TiltedFFT
from tallyveil.accounting.losses import (
    GaussianLoss,
    LaplaceLoss,
    NormalLoss,
    ResponseLoss,
    SampledLoss,
    merged,
)
from tallyveil.accounting.numbers import Bounds
from tallyveil.errors import BudgetError

GAUSSIANS = (GaussianLoss(Fraction(5, 2), 1, 3),)
WITHOUT_LATTICE = merged(tuple(GaussianLoss(Fraction(1000 + 7 * i, 31 + i), 1, 1) for i in range(12)))


@dataclass(frozen=True)
class Stated:
    """An engine whose bounds have a stated width at each epsilon."""

    widths: dict[float, float]
    name: str = "stated"

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        one = Bounds(-2.0 - self.widths[float(epsilon)], -2.0)
        return Tails(one, one, one)

    def log_deltas(self, epsilons: Sequence[float | Fraction]) -> ManyBounds:
        return ManyBounds.of([self.log_tails(epsilon).log_delta for epsilon in epsilons])


def test_the_second_engine_is_asked_where_the_first_one_is_wide_and_nowhere_else() -> None:
    asked: list[float | Fraction] = []

    @dataclass(frozen=True)
    class Second(Stated):
        def log_deltas(self, epsilons: Sequence[float | Fraction]) -> ManyBounds:
            asked.extend(epsilons)
            return ManyBounds(np.full(len(epsilons), -2.25), np.full(len(epsilons), -1.75))

    engine = FallbackEngine(Stated({1.0: 0.1, 2.0: 0.5, 3.0: 0.125, 4.0: 9.0}), lambda: Second({}), 0.125)
    found = engine.log_deltas([1.0, 2.0, 3.0, 4.0])
    assert asked == [2.0, 4.0]
    assert found.lower.tolist() == [-2.1, -2.25, -2.125, -2.25]
    assert found.upper.tolist() == [-2.0] * 4
    asked.clear()
    assert engine.log_deltas([1.0, 3.0]).lower.tolist() == [-2.1, -2.125]
    assert asked == []
    assert engine.general is engine.general


def test_a_fast_engine_without_a_second_one_is_asked_once() -> None:
    asked: list[float | Fraction] = []

    @dataclass(frozen=True)
    class Counted(Stated):
        def log_tails(self, epsilon: float | Fraction) -> Tails:
            asked.append(epsilon)
            return Stated.log_tails(self, epsilon)

    alone = Counted({1.0: 9.0})
    engine = FallbackEngine(alone, lambda: alone, 0.125)
    assert engine.log_tails(1.0) == Stated.log_tails(alone, 1.0)
    assert engine.log_deltas([1.0])[0] == Bounds(-11.0, -2.0)
    assert asked == [1.0, 1.0]


def test_engines_within_others_are_all_seen() -> None:
    fast, low, rest = Stated({}, "fast"), Stated({}, "low"), Stated({}, "rest")
    conditioned = Conditioned((), (), Fraction(0), rest, 0.1)
    between = Between(
        FallbackEngine(fast, NoLoss), WithFailure(Fraction(0), Fraction(1), low, ()), (), (), 0.1
    )
    names = [engine.name for engine in choose.engines_within(between) if isinstance(engine, Stated)]
    assert names == ["fast", "low"]
    assert list(choose.engines_within(conditioned)) == [conditioned, rest]


def test_a_wide_probability_alone_is_enough_to_ask_again() -> None:
    narrow, wide = Bounds(-1.0, -1.0), Bounds(-3.0, -1.0)

    @dataclass(frozen=True)
    class Fixed(DeltaByTails):
        tails: Tails
        name: str = "fixed"

        def log_tails(self, epsilon: float | Fraction) -> Tails:
            return self.tails

    second = Fixed(Tails(narrow, narrow, narrow))
    for tails, again in (
        (Tails(wide, narrow, narrow), False),
        (Tails(narrow, wide, narrow), True),
        (Tails(narrow, narrow, wide), True),
    ):
        found = FallbackEngine(Fixed(tails), lambda: second).log_tails(0.0)
        assert (found == second.tails) is again


def test_what_is_chosen() -> None:
    assert choose_engine(GAUSSIANS).name == "closed_form"
    mixed = choose_engine((*GAUSSIANS, LaplaceLoss(Fraction(5), 1, 2)))
    assert isinstance(mixed, FallbackEngine)
    assert (mixed.name, type(mixed.general)) == ("quadrature", TiltedFFT)
    narrow = choose_engine((GaussianLoss(Fraction(1, 5), 1, 3),))
    assert isinstance(narrow, FallbackEngine)
    assert (narrow.name, type(narrow.general)) == ("tilted_fft", Halves)
    # Too large for an enumeration.
    assert isinstance(choose_engine((GaussianLoss(Fraction(1, 10**7), 1, 3),)), TiltedFFT)
    off = choose_engine(WITHOUT_LATTICE, "auto", 1e-4)
    assert isinstance(off, Dithered)
    assert off.width == 1e-4
    tiny = merged((*WITHOUT_LATTICE, GaussianLoss(Fraction(1, 5), 1, 1)))
    both = choose_engine(tiny, "auto", 1e-4)
    assert isinstance(both, FallbackEngine)
    assert isinstance(both.fast, Dithered)
    assert isinstance(both.general, Conditioned)
    scales = (("3.37", 1, 5), ("7.113", 1, 8), ("2.29", 2, 3))
    few = choose_engine(tuple(LaplaceLoss(Fraction(t), k, n) for t, k, n in scales))
    assert isinstance(few, Halves)
    many = merged(tuple(LaplaceLoss(Fraction(10007 + 97 * i * i, 1000 + i), 1, 6) for i in range(8)))
    assert isinstance(choose_engine(many), Halves)
    scales = tuple(LaplaceLoss(Fraction(10007 + 97 * i * i, 100 + i), 1, 25) for i in range(40))
    assert isinstance(choose_engine(merged(scales)), Dithered)
    for name in ENGINES:
        if name not in ("auto", "direct"):
            assert choose_engine(GAUSSIANS, name, 1e-4).name == name
        assert isinstance(choose_engine((), name), NoLoss)


def test_losses_of_few_values_are_taken_apart_from_the_others() -> None:
    """Beside one sample of normal noise, whose closed form is asked at epsilon less each of their values."""
    sample, answer = SampledLoss(NormalLoss(Fraction(1, 4)), Fraction(1, 10)), ResponseLoss(Fraction(5), 3)
    both, alone = choose._conditioned((sample, answer), 1e-9), OneSample.build((sample,))
    assert both is not None
    assert alone is not None
    assert both.name == "one_sample"
    contour = Dithered.build((sample, answer), 1e-4)
    assert contour is not None
    values, chances = [5.0, 0.0, -5.0], np.array([math.exp(5), 1.0, 1.0]) / (math.exp(5) + 2)
    for epsilon in (-1.0, 0.3, 4.0, 5.5, 8.0):
        found = both.log_deltas([epsilon])[0]
        parts = np.exp(alone.log_deltas([epsilon - value for value in values]).upper)
        assert found.upper == pytest.approx(math.log(float(chances @ parts)), abs=1e-12)
        assert found.width < 1e-11
        wide = contour.log_deltas([epsilon])[0]
        assert wide.lower <= found.upper
        assert found.lower <= wide.upper
    # Nothing is taken apart without losses of few values, or without others, or where they have many values together.
    assert choose._conditioned((sample,), 1e-9) is None
    assert choose._conditioned((answer,), 1e-9) is None
    assert choose._conditioned((sample, LaplaceLoss(Fraction(3), 100, 1)), 1e-9) is None


def test_atoms_that_are_far_apart_are_enumerated() -> None:
    """Between them a transform knows delta to a hundredth of epsilon or worse."""
    factors = (
        GaussianLoss(Fraction(7, 250), 1, 2),
        LaplaceLoss(Fraction(4, 33), 1, 1),
        LaplaceLoss(Fraction(5, 89), 1, 1),
    )
    engine = choose_engine(factors)
    assert engine.name == "tilted_fft"
    delta = Fraction(188, 10**59)
    assert epsilon_at(engine, factors, delta).width < 1e-10
    assert epsilon_at(first_asked(engine), factors, delta).width > 1


def test_noise_that_is_cut_off_is_cut_further_out_where_delta_is_smaller() -> None:
    law = (GaussianLoss(Fraction(1, 5), 1, 1), LaplaceLoss(Fraction(7, 3), 1, 1))
    engine = choose._by_transform(law, 1e-9)
    assert isinstance(engine, FallbackEngine)
    once, deeper = engine.fast, engine.general
    assert isinstance(deeper, Halves)
    far = 60
    assert once.log_tails(far).log_delta.width == math.inf
    assert deeper.log_tails(far).log_delta.width < 1e-11
    assert engine.log_deltas([far])[0].width < 1e-11


@pytest.mark.parametrize("width", [1e-12, 1.0])
def test_the_widths_at_the_ends_of_their_range_are_taken(width: float) -> None:
    assert choose_engine(GAUSSIANS, "auto", width).name == "closed_form"
    for bad in (width * 0.999, width * 1.001):
        if not 1e-12 <= bad <= 1:
            with pytest.raises(BudgetError, match="between 1e-12 and 1"):
                choose_engine(GAUSSIANS, "auto", bad)


def test_a_width_that_is_too_narrow_is_raised_tenfold(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def build(factors: object, width: float, engine_of: object) -> Dithered | None:
        tried.append(width)
        return None

    monkeypatch.setattr(Dithered, "build", build)
    assert choose._wider(WITHOUT_LATTICE, 1e-9) is None
    assert tried == [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3]
    tried.clear()
    sample = SampledLoss(NormalLoss(Fraction(1)), Fraction(1, 10))
    assert choose._wider((sample,), 1e-9) is None
    assert tried == [1e-8, 1e-7, 1e-6]
    # Without a contour Renyi divergences bound delta from above alone.
    last = choose_engine(WITHOUT_LATTICE)
    assert isinstance(last, Between)
    assert isinstance(last.upper, RenyiUpper)
    assert isinstance(last.lower, NoLoss)


def test_noise_that_protects_nobody_has_upper_bounds_alone() -> None:
    engine = choose_engine((LaplaceLoss(Fraction(1), 1, 10**12),))
    assert isinstance(engine, Between)
    assert isinstance(engine.upper, RenyiUpper)
    failing = SampledLoss(
        LaplaceLoss(Fraction(1), 1, 1), Fraction(1, 2), Fraction(1, 10), multiplicity=10**12
    )
    assert choose._of_nobody((failing,), 1e-9) is None
    assert choose._of_nobody(GAUSSIANS, 1e-9) is None


def test_without_losses_delta_is_that_of_equal_laws() -> None:
    for epsilon in (-1.0, -1e-12, -700.0):
        found = NoLoss().log_tails(epsilon)
        assert found.log_first == found.log_second == Bounds(0.0, 0.0)
        with mpmath.workdps(400):
            wanted = mpmath.log(-mpmath.expm1(epsilon))
            assert found.log_delta.lower <= wanted <= found.log_delta.upper
        assert found.log_delta.width <= 2.1e-15 * (1 + abs(float(wanted)))
    assert NoLoss().log_tails(0.0) == NoLoss().log_tails(3.0) == Tails(NOTHING, NOTHING, NOTHING)
