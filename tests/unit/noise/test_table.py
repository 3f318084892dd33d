"""Tables decide exactly what the boundaries' digits decide."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import chain, repeat

import numpy as np
import pytest

from tallyveil.errors import SolverError
from tallyveil.kernels.inversion import refine_reference
from tallyveil.noise import DiscreteGaussian, DiscreteLaplace, Law
from tallyveil.noise.table import InversionTable

LAWS: list[Law] = [
    DiscreteGaussian(Fraction(1, 10)),
    DiscreteGaussian(Fraction("68.49")),
    DiscreteGaussian(Fraction(10**6)),
    DiscreteLaplace(Fraction("7.3")),
    DiscreteLaplace(Fraction(1, 10)),
]


def first_two_steps(table: InversionTable, cell: int, word: int) -> int | None:
    """The outcome after 16 + 64 digits, or None where a third step is needed."""
    direct = int(table.direct[cell])
    if direct != table.open_mark:
        return direct
    out, still_open = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    undecided = refine_reference(
        np.array([cell], dtype=np.uint16),
        np.array([word, 0], dtype=np.uint64),
        table.second_part,
        np.array([0]),
        False,
        out,
        still_open,
    )
    return None if undecided else int(out[0])


def no_words() -> Iterator[int]:
    raise AssertionError("no further word should be asked for")
    yield 0


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_digits_around_every_boundary_are_decided_right(law: Law) -> None:
    table = InversionTable.build(law)
    n_kept = table.fractions.size
    assert table.lowest == -n_kept // 2
    for index in {0, 1, n_kept // 3, n_kept // 2, n_kept - 1}:
        j = table.lowest + index
        digits = law.floor_bits(j, 80)
        for step, wanted in ((-1, j), (0, None), (1, j + 1)):
            cell, word = divmod(digits + step, 1 << 64)
            assert first_two_steps(table, cell, word) == wanted, (j, step)
            if wanted is not None:
                assert table.resolve(cell, chain([word], no_words())) == wanted


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_equal_digits_are_settled_by_the_next_words(law: Law) -> None:
    table = InversionTable.build(law)
    for j in (-2, -1, 0, 1):
        digits = law.floor_bits(j, 80 + 128)
        words = [digits >> 128 & (1 << 64) - 1, digits >> 64 & (1 << 64) - 1, digits & (1 << 64) - 1]
        cell = digits >> 192
        assert first_two_steps(table, cell, words[0]) is None or law.tail_is_below(abs(j), 40)
        assert table.resolve(cell, iter([*words[:2], words[2] - 1])) == j
        assert table.resolve(cell, iter([*words[:2], words[2] + 1])) == j + 1


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_ends_are_left_to_the_third_step(law: Law) -> None:
    table = InversionTable.build(law)
    top = (1 << 64) - 1
    assert first_two_steps(table, 0, 0) is None
    assert first_two_steps(table, 65535, top) is None
    word = 0xABCDEF0123456789
    lowest = table.resolve(0, iter([0, word]))
    assert lowest <= table.lowest
    assert law.floor_bits(lowest - 1, 144) < word < law.floor_bits(lowest, 144)
    assert table.resolve(65535, iter([top, top - word])) == -lowest


def test_running_out_of_words_is_an_error() -> None:
    table = InversionTable.build(LAWS[1])
    with pytest.raises(SolverError, match="no outcome"):
        table.resolve(0, repeat(0, 3))


@pytest.mark.parametrize("direct_bits", [16, 9, 1])
@pytest.mark.parametrize("word_bits", [64, 5, 0])
def test_shorter_words_only_leave_more_open(direct_bits: int, word_bits: int) -> None:
    law = DiscreteGaussian(Fraction("68.49"))
    full = InversionTable.build(law)
    short = InversionTable.build(law, direct_bits=direct_bits, word_bits=word_bits)
    closed = short.direct != short.open_mark
    np.testing.assert_array_equal(short.direct[closed], full.direct[closed])
    if direct_bits < 16:
        assert np.count_nonzero(closed) < np.count_nonzero(full.direct != full.open_mark)
    rng = np.random.default_rng(7)
    for word in rng.integers(0, 2**64, 50, dtype=np.uint64).tolist():
        for cell in (0, 1, 12345, 32767, 65535):
            outcome = first_two_steps(short, cell, word)
            assert outcome is None or outcome == first_two_steps(full, cell, word)


def test_large_laws_use_wider_outcomes() -> None:
    assert InversionTable.build(LAWS[1]).direct.dtype == np.int16
    table = InversionTable.build(DiscreteGaussian(Fraction(3 * 10**7)))
    assert table.direct.dtype == np.int32
    assert table.open_mark == np.iinfo(np.int32).min


def test_arrays_are_read_only() -> None:
    table = InversionTable.build(LAWS[0])
    for array in (table.direct, table.starts, table.fractions):
        assert not array.flags.writeable
