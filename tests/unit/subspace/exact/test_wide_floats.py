"""Sums with exponents of their own, against exact fractions."""

from fractions import Fraction

import numpy as np
from flint import arb
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.noise.balls import precision
from tallyveil.subspace.exact.wide_floats import WideFloats, choose, convolved, ones, summed, wide_floats

NUMBERS = st.lists(st.tuples(st.integers(0, 2**40), st.integers(-5000, 5000)), min_size=1, max_size=6)


def numbers_of(pairs):
    mantissas, exponents = np.frexp(np.array([float(mantissa) for mantissa, _ in pairs]))
    whole = WideFloats(mantissas, exponents + np.array([exponent for _, exponent in pairs]))
    return whole.where(mantissas > 0)


def fractions(numbers):
    pairs = zip(numbers.mantissas.tolist(), numbers.exponents.tolist(), strict=True)
    return [
        Fraction(mantissa) * Fraction(2) ** exponent if mantissa else Fraction(0)
        for mantissa, exponent in pairs
    ]


def is_just_above(value, exact):
    return exact <= value <= exact * (1 + Fraction(1, 2**30))


@given(NUMBERS, st.data())
def test_sums_are_just_above_the_exact_ones(pairs, data):
    first = numbers_of(pairs)
    second = numbers_of(
        data.draw(st.lists(NUMBERS.map(lambda some: some[0]), min_size=len(pairs), max_size=len(pairs)))
    )
    ends = sorted(data.draw(st.lists(st.integers(0, len(pairs)), max_size=3)))
    starts = np.array([0, *ends, len(pairs)])
    products = [a * b for a, b in zip(fractions(first), fractions(second), strict=True)]
    for i, value in enumerate(fractions(summed(first, second, starts))):
        assert is_just_above(value, sum(products[starts[i] : starts[i + 1]]))
    for place, value in enumerate(fractions(convolved(first, second))):
        exact = sum(fractions(first)[c] * fractions(second)[place - c] for c in range(place + 1))
        assert is_just_above(value, exact)


def test_balls_are_rounded_up_however_small_they_are():
    with precision(96):
        balls = [(-arb(d) / 3).exp() for d in (0, 1, 7, 10**6)]
        weights = wide_floats(balls)
        for place, ball in enumerate(balls):
            assert weights.ball(place) / ball >= 1
            assert weights.ball(place) / ball < 1 + arb(2) ** -50


def test_a_choice_takes_as_many_digits_as_it_needs():
    shares = numbers_of([(1, -3), (0, 0), (1, -4000), (3, -2)])
    whole = numbers_of([(1, 0)])

    def outcome(*words):
        return choose(shares, ones(4), whole, iter(words))

    assert outcome(0) == 0
    assert outcome((1 << 61) - 1) == 0
    assert outcome((1 << 61) + 1) == 3
    # At an eighth exactly, followed by zeros: inside the outcome of probability 2**-4000.
    assert outcome(1 << 61, *[0] * 62, 1) == 2
    assert outcome(1 << 61, *[0] * 60, 1) == 3
    assert outcome((7 << 61) + 1) is None
