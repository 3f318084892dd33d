"""Laws against sums in plain decimal arithmetic, which shares no code with them."""

import math
from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import islice, pairwise

import pytest
from flint import arb, ctx

from tallyveil.errors import BudgetError, SolverError
from tallyveil.exact import as_given
from tallyveil.noise import DiscreteGaussian, DiscreteLaplace, Law, laws
from tallyveil.noise.balls import precision, rational
from tallyveil.noise.laws import IntegerLaw

GAUSSIANS = [DiscreteGaussian(Fraction(v)) for v in ("1/10", "1/2", "51/100", "5", "68.49", "456.62")]
LAPLACES = [DiscreteLaplace(Fraction(s)) for s in ("1/10", "1", "7.3", "22")]
LAWS: list[Law] = [*GAUSSIANS, *LAPLACES]


@pytest.fixture(autouse=True)
def sixty_digits() -> Iterator[None]:
    with localcontext() as context:
        context.prec = 60
        yield


def probabilities(law: Law) -> dict[int, Decimal]:
    """P(X = x) to about 55 digits, by summing weights until they are below 1e-60."""
    if isinstance(law, DiscreteGaussian):
        rate = -Decimal(law.variance.denominator) / (2 * law.variance.numerator)
        weights = [(rate * x * x).exp() for x in range(400)]
    else:
        rate = -Decimal(law.scale.denominator) / law.scale.numerator
        weights = [(rate * x).exp() for x in range(3500)]
    assert weights[-1] < Decimal("1e-60")
    total = weights[0] + 2 * sum(weights[1:])
    return {sign * x: weight / total for x, weight in enumerate(weights) for sign in (-1, 1)}


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_boundary_digits_match_decimal_sums(law: Law) -> None:
    p = probabilities(law)
    below = Decimal(0)
    for j in sorted(p):
        below += p[j]
        if abs(j) > 150:
            continue
        scaled = below * (1 << 80)
        if min(scaled % 1, 1 - scaled % 1) > Decimal("1e-20") and scaled > 1:
            assert law.floor_bits(j, 80) == int(scaled), j


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_floats_match_decimal_sums(law: Law) -> None:
    p = probabilities(law)
    variance = sum(x * x * q for x, q in p.items())
    assert law.variance_float() == pytest.approx(float(variance), rel=1e-14)
    assert law.standard_deviation() == pytest.approx(float(variance.sqrt()), rel=1e-14)
    for x in (0, 1, -1, 7, -20):
        assert law.probability(x) == pytest.approx(float(p[x]), rel=1e-14)
        assert float(law.probability_ball(x)) == law.probability(x)


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize(
    "confidence", [Fraction(0), Fraction(1, 2), Fraction(9, 10), 1 - Fraction(1, 10**30)]
)
def test_margin_is_the_smallest_that_suffices(law: Law, confidence: Fraction) -> None:
    p = probabilities(law)
    covered, margin = p[0], 0
    while covered * confidence.denominator < confidence.numerator:
        margin += 1
        covered += 2 * p[margin]
    assert law.margin(confidence) == margin


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_tail_floors_agree_with_single_ones(law: Law) -> None:
    floors = law.tail_floors(80, 1 << 40)
    assert floors[-1] < 1 << 40 <= (floors[-2] if len(floors) > 1 else 1 << 40)
    for x in {1, 2, len(floors) // 2 or 1, len(floors)}:
        assert floors[x - 1] == law.tail_floor(x, 80)


@pytest.mark.parametrize("law", [DiscreteGaussian(Fraction(1)), DiscreteLaplace(Fraction(1, 4))], ids=str)
def test_tails_differ_by_the_probabilities_between_them(law: Law) -> None:
    with precision(200):
        assert abs(law._probability(0) + 2 * sum(map(law._probability, range(1, 40))) - 1) < arb(2) ** -180
        tails = list(islice(law._tails(arb(8)), 4))
        assert (8 * law._probability(0)).overlaps(8 - 2 * tails[0])
        for x, (one, after) in enumerate(pairwise(tails), start=1):
            assert (8 * law._probability(x)).overlaps(one - after)
            assert (one - after).rad() < arb(2) ** -180
            assert law._tail(x, arb(8)).overlaps(one)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_distribution_function_is_symmetric_and_proved(law: Law) -> None:
    for j in (-3, -1, 0, 2):
        assert (law.cdf(j, 200) + law.cdf(-j - 1, 200) - 1).contains(arb(0))
        assert law.cdf(j, 200).rad() < arb(2) ** -150


@pytest.mark.parametrize("whole", [1, 2, 3, 4])
def test_sums_that_are_cut_off_contain_what_is_left_out(whole: int) -> None:
    """Against 60 terms that are added up at a far higher precision.

    The ball of a sum is about as wide as what is left out, so it contains the sum by chance at most rates even where
    the bound of what is left out is too small or has the wrong sign. So there are many rates, and low precisions.
    """
    for rate in (whole + Fraction(part, 256) for part in range(256)):
        with precision(800):
            terms = [(k * k, (-rational(rate) * (k * k)).exp()) for k in range(1, 30)]
            total, moment = sum((one for _, one in terms), arb(0)), sum((k * one for k, one in terms), arb(0))
        for bits in (*range(8, 64, 2), 100, 250):
            with precision(bits):
                found = laws._quick_sums(rational(rate))
            for ball, exact in zip(found, (total, moment), strict=True):
                assert ball.contains(exact)
                assert ball.rad() < exact * arb(2) ** (5 - bits)


def test_a_sum_that_is_cut_off_takes_few_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laws, "count", lambda first: range(first, 8))
    with precision(53):
        total, moment = laws._quick_sums(arb(1))
        assert total.rad() < arb(2) ** -48
        assert moment.rad() < arb(2) ** -48


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_quick_bound_of_a_tail_is_a_bound_and_a_close_one(law: Law) -> None:
    """From one x to the next, tails fall faster and faster, so a tail is at least its first two terms."""
    for x in (1, 2, 5, 20):
        with precision(6000):
            first, tail, bound = law._probability(x), law._tail(x, arb(1)), law._tail_bound(x)
            ratio, rounding = law._probability(x + 1) / first, 1 + arb(2) ** -2000
            assert first * (1 + ratio) < tail * rounding
            assert tail < bound * rounding
            assert bound * (1 - ratio**2) < tail * rounding


def test_far_boundaries_are_found_at_once() -> None:
    law = DiscreteGaussian(Fraction(5))
    assert law.floor_bits(-(10**9), 80) == 0
    assert law.floor_bits(10**9, 80) == (1 << 80) - 1


def test_both_sides_of_the_poisson_switch_agree() -> None:
    # The variance is summed directly up to 1/2 and by Poisson summation above; it is smooth across.
    below = DiscreteGaussian(Fraction(1, 2) - Fraction(1, 10**9)).variance_float()
    above = DiscreteGaussian(Fraction(1, 2) + Fraction(1, 10**9)).variance_float()
    assert 0 < above - below < 4e-9


@pytest.mark.parametrize(
    ("law", "deviation"),
    [
        (DiscreteGaussian(Fraction(10**10)), 1e5),
        (DiscreteLaplace(Fraction(10**5)), 141421.35623672025),
        (DiscreteGaussian(Fraction(1, 250)), (2 * math.exp(-125)) ** 0.5),
        (DiscreteLaplace(Fraction(1, 250)), (2 * math.exp(-250)) ** 0.5),
    ],
    ids=str,
)
def test_extreme_parameters(law: Law, deviation: float) -> None:
    assert law.standard_deviation() == pytest.approx(deviation, rel=1e-12)
    assert law.margin(Fraction(1, 2)) <= deviation


def test_the_ends_of_the_range_belong_to_it() -> None:
    assert DiscreteGaussian(laws.SMALLEST_PARAMETER).variance == laws.SMALLEST_PARAMETER
    assert DiscreteGaussian(laws.LARGEST_VARIANCE).variance == laws.LARGEST_VARIANCE
    assert DiscreteLaplace(laws.SMALLEST_PARAMETER).scale == laws.SMALLEST_PARAMETER
    assert DiscreteLaplace(laws.LARGEST_SCALE).scale == laws.LARGEST_SCALE


@pytest.mark.parametrize(
    "law", [*LAWS, DiscreteGaussian(Fraction(10**9)), DiscreteLaplace(Fraction(99_999))], ids=str
)
def test_balls_are_as_narrow_as_their_bits(law: Law) -> None:
    """The guard makes up for rounding, so a ball has at least the accuracy that was asked for."""
    for bits in (20, 64, 200):
        assert law.variance_ball(bits).rel_accuracy_bits() >= bits
        assert law.probability_ball(3, bits).rel_accuracy_bits() >= bits
        assert law.cdf(-3, bits).rel_accuracy_bits() >= bits


@pytest.mark.parametrize("confidence", [Fraction(1), Fraction(-1, 2), 0.9])
def test_confidence_outside_the_range_is_refused(confidence: Fraction) -> None:
    with pytest.raises(BudgetError) as caught:
        GAUSSIANS[0].margin(confidence)
    said = str(caught.value)
    assert said.startswith(
        f"{as_given(GAUSSIANS[0])}: confidence is {as_given(confidence)}, wanted a Fraction"
    )


class FairCoin(IntegerLaw):
    """P(X >= x) = 2**-(x + 1): boundaries with finitely many digits, which no certificate can settle."""

    __slots__ = ()

    @property
    def _guard_bits(self) -> int:
        return 64

    def _tails(self, unit: arb) -> Iterator[arb]:
        while True:
            unit = unit / 2
            yield unit / 2

    def _tail_bound(self, x: int) -> arb:
        return arb(1)

    def _probability(self, x: int) -> arb:
        raise NotImplementedError

    def _variance(self) -> arb:
        raise NotImplementedError


def test_undecidable_boundary_is_an_error() -> None:
    law = FairCoin()
    with pytest.raises(SolverError, match=r"the first 80 bits of .* are undecided at 65536 bits") as caught:
        law.tail_floor(1, 80)
    assert str(caught.value).startswith(as_given(law))


def test_a_bound_of_exactly_the_limit_proves_nothing() -> None:
    assert not FairCoin().tail_is_below(1, 0)
    assert FairCoin().tail_is_below(1, -1)


def test_a_margin_may_suffice_exactly() -> None:
    assert FairCoin().margin(Fraction(1, 2)) == 0


@pytest.mark.parametrize("offset", [arb(0, 2.0**-10), arb(2.0**-10, 2.0**-10)], ids=["around", "from it up"])
def test_undecidable_margin_is_an_error(offset: arb) -> None:
    class NearlyFairCoin(FairCoin):
        def _tails(self, unit: arb) -> Iterator[arb]:
            return (tail + offset for tail in super()._tails(unit))

    with pytest.raises(SolverError, match=r"NearlyFairCoin.*: P\(abs\(X\) <= m\) is too close to 1/2 to"):
        NearlyFairCoin().margin(Fraction(1, 2))


class Recording(FairCoin):
    """Notes at which precisions it is asked for something."""

    def __init__(self) -> None:
        self.precisions: list[int] = []

    def _noted(self, ball: arb) -> arb:
        self.precisions.append(ctx.prec)
        assert len(self.precisions) < 20
        return ball

    def _tails(self, unit: arb) -> Iterator[arb]:
        self._noted(unit)
        return super()._tails(unit)

    def _tail_bound(self, x: int) -> arb:
        return self._noted(arb(1))

    def _probability(self, x: int) -> arb:
        return self._noted(arb(1))

    def _variance(self) -> arb:
        return self._noted(arb(1))


class Undecided(Recording):
    """Never knows where its tails become small enough."""

    def _first_tail_at_most(self, allowed: arb) -> int | None:
        self._noted(allowed)
        return None


@pytest.mark.parametrize(
    ("ask", "bits"),
    [
        (lambda law: law.cdf(2), 64),
        (lambda law: law.cdf(-2, 200), 200),
        (lambda law: law.tail_is_below(1, 80), 64),
        (lambda law: law.probability_ball(1), 192),
        (lambda law: law.probability_ball(1, 80), 80),
        (lambda law: law.variance_ball(), 192),
        (lambda law: law.variance_ball(80), 80),
        (lambda law: law.probability(1), 192),
        (lambda law: law.variance_float(), 192),
        (lambda law: law.standard_deviation(), 192),
    ],
)
def test_the_guard_is_added_to_the_bits_that_are_asked_for(ask: Callable[[Law], object], bits: int) -> None:
    law = Recording()
    ask(law)
    assert law.precisions == [bits + law._guard_bits]


def test_the_precision_doubles_until_the_largest_one() -> None:
    law = Recording()
    with pytest.raises(SolverError, match="undecided"):
        law.tail_floor(1, 64)  # 64 and the guard of 64 are 128
    assert law.precisions[1:] == [1 << power for power in range(7, 17)]
    law = Undecided()
    with pytest.raises(SolverError, match="too close"):
        law.margin(1 - Fraction(1, 1 << 126))  # 1 - confidence is halved, and 2**127 has 128 bits: 256 in all
    assert law.precisions == [1 << power for power in range(8, 17)]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_floors_of_all_tails_are_those_of_each(law: Law) -> None:
    floors = law.tail_floors(40, 1000)
    assert floors == [law.tail_floor(x, 40) for x in range(1, len(floors) + 1)]
    assert all(floor >= 1000 for floor in floors[:-1])
    assert floors[-1] < 1000


def test_a_floor_that_the_first_precision_leaves_open_is_decided_by_a_higher_one(monkeypatch) -> None:
    law = DiscreteGaussian(Fraction(5))
    wanted = law.tail_floors(40, 1000)
    monkeypatch.setattr(laws, "certified_floor", lambda ball: None)
    monkeypatch.setattr(IntegerLaw, "tail_floor", lambda self, x, bits: wanted[x - 1])
    assert law.tail_floors(40, 1000) == wanted


@pytest.mark.parametrize(("least", "bound"), [("17/4", "5.8e-34"), ("5", "2.8e-40"), ("10", "1.5e-82")])
def test_the_decrease_of_the_variance_is_within_published_bounds(least, bound):
    """Fact A.3 of Su, Su, Wang 2025. The decrease falls with the parameter: each range is tested at its lower end."""
    with precision(400):
        saved = rational(Fraction(least)) - DiscreteGaussian(Fraction(least)).variance_ball(400)
        assert saved > 0
        assert saved < rational(Fraction(bound))
