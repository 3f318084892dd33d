"""Properties of noise that hold for every address, table and order."""

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil.kernels.noise import LaneBlocks, Refinement, dense_refinement, scattered_addresses
from tallyveil.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Law,
    NoiseSource,
    insecure_key,
)
from tallyveil.noise.address import CELLS, GEOUNIT_BITS, REFINEMENT, high_word

NOISE = NoiseSource(insecure_key("property"))
LAWS: list[Law] = [
    DiscreteGaussian(Fraction(1, 10)),
    DiscreteGaussian(Fraction("68.49")),
    DiscreteGaussian(Fraction(10**6)),
    DiscreteLaplace(Fraction("7.3")),
]

laws = st.sampled_from(LAWS)
geolevels = st.integers(0, 255)
queries = st.integers(0, 65535)
geounit_numbers = st.one_of(st.integers(0, 50), st.integers(0, (1 << 36) - 1))
few_geounits = st.lists(geounit_numbers, min_size=1, max_size=12)


@given(laws, geolevels, queries, few_geounits, st.integers(1, 70), st.data())
def test_dense_and_scattered_agree(
    law: Law, geolevel: int, query: int, geounits: list[int], n_answers: int, data: st.DataObject
) -> None:
    drawn = NOISE.dense(law, geolevel, query, geounits, n_answers)
    picks = data.draw(
        st.lists(st.tuples(st.integers(0, len(geounits) - 1), st.integers(0, n_answers - 1)), max_size=40)
    )
    rows = np.array([row for row, _ in picks], dtype=np.int64)
    answers = np.array([answer for _, answer in picks], dtype=np.int64)
    scattered = NOISE.at(law, geolevel, query, np.array(geounits, dtype=np.int64)[rows], answers)
    np.testing.assert_array_equal(scattered, drawn[rows, answers])


@given(laws, few_geounits, st.integers(1, 70), st.integers(1, 70))
def test_a_draw_depends_neither_on_width_nor_on_company(
    law: Law, geounits: list[int], width: int, other: int
) -> None:
    drawn = NOISE.dense(law, 1, 1, geounits, width)
    common = min(width, other)
    for i, geounit in enumerate(geounits):
        alone = NOISE.dense(law, 1, 1, [geounit], other)
        np.testing.assert_array_equal(alone[0, :common], drawn[i, :common])


@given(
    st.lists(
        st.tuples(geolevels, queries, geounit_numbers, st.integers(0, (1 << 48) - 1)),
        min_size=2,
        max_size=20,
        unique=True,
    )
)
def test_distinct_draws_never_share_bits(draws: list[tuple[int, int, int, int]]) -> None:
    seen = set()
    for geolevel, query, geounit, answer in draws:
        block = np.empty(2, dtype=np.uint64)
        high, lane_of = high_word(CELLS, geolevel, query), np.empty(1, np.int32)
        scattered_addresses(high, np.array([geounit]), np.array([answer]), 0, block, lane_of)
        low, high = block.tolist()
        assert (high >> 60, high >> 52 & 255, high >> 36 & 65535, high & (1 << 36) - 1) == (
            CELLS,
            geolevel,
            query,
            geounit,
        )
        assert 8 * low + answer % 8 == answer
        seen.add((low, high, answer % 8))
    assert len(seen) == len(draws)


@given(geounit_numbers, st.integers(0, 2015))
def test_refinement_addresses_hold_the_whole_address(geounit: int, answer: int) -> None:
    address, cells = np.empty(2, dtype=np.uint64), np.empty(1, dtype=np.uint16)
    lanes = np.arange(2016, dtype=np.uint16)
    dense_refinement(
        high_word(REFINEMENT, 7, 9),
        np.array([geounit]),
        2016,
        LaneBlocks(0, lanes),
        np.array([answer]),
        Refinement(address, cells),
    )
    low, high = address.tolist()
    assert (low >> 16, low & 65535, high >> 60, high & (1 << GEOUNIT_BITS) - 1) == (answer, 0, 1, geounit)
    assert cells[0] == answer


@settings(max_examples=30)
@given(
    st.fractions(Fraction(4, 25), Fraction(2000), max_denominator=10**6),
    st.fractions(Fraction(0), Fraction(999, 1000), max_denominator=10**4),
)
def test_margin_covers_and_is_tight(parameter: Fraction, confidence: Fraction) -> None:
    for law in (DiscreteGaussian(parameter), DiscreteLaplace(parameter / 40)):
        margin = law.margin(confidence)
        outside = 2 * law.cdf(-margin - 1, 128)
        assert float(1 - outside) >= float(confidence) - 1e-15
        if margin > 0:
            assert float(1 - 2 * law.cdf(-margin, 128)) < float(confidence) + 1e-15


@settings(max_examples=30)
@given(st.fractions(Fraction(1, 20), Fraction(200), max_denominator=10**4), st.integers(-30, 30))
def test_boundary_digits_are_a_prefix_of_longer_ones(parameter: Fraction, j: int) -> None:
    for law in (DiscreteGaussian(parameter), DiscreteLaplace(parameter / 10)):
        digits = law.floor_bits(j, 300)
        assert law.floor_bits(j, 80) == digits >> 220
        assert law.floor_bits(j, 80) <= law.floor_bits(j + 1, 80)
        assert law.floor_bits(-j - 1, 300) == (1 << 300) - 1 - digits
