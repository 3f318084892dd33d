"""Tables decide exactly what the boundaries' digits decide."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import chain, repeat

import numpy as np
import pytest
from tests.oracles.inversion import refine_reference

from tallyveil.errors import SolverError
from tallyveil.exact import as_given
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


@pytest.mark.parametrize(("word_bits", "bits", "least"), [(64, 80, 1 << 40), (0, 16, 1)])
def test_boundaries_within_the_tail_are_not_asked_for(
    monkeypatch: pytest.MonkeyPatch, word_bits: int, bits: int, least: int
) -> None:
    asked: list[tuple[int, int]] = []

    def tail_floors(self: DiscreteGaussian, bits: int, least: int) -> list[int]:
        asked.append((bits, least))
        return [least, least - 1]

    monkeypatch.setattr(DiscreteGaussian, "tail_floors", tail_floors)
    table = InversionTable.build(DiscreteGaussian(Fraction(5)), word_bits=word_bits)
    assert asked == [(bits, least)]
    assert table.lowest == -1


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_boundaries_are_stored_up_to_the_tail_and_no_further(law: Law) -> None:
    for tail_bits in (30, 40):
        table = InversionTable.build(law, tail_bits=tail_bits)
        assert law.cdf(table.lowest) >= 2.0**-tail_bits
        assert law.cdf(table.lowest - 1) < 2.0**-tail_bits


@pytest.mark.parametrize("word_bits", [64, 48])
def test_words_beyond_the_last_boundary_are_left_to_the_third_step(word_bits: int) -> None:
    law = DiscreteGaussian(Fraction("68.49"))
    table = InversionTable.build(law, word_bits=word_bits)
    boundary = law.floor_bits(table.lowest - 1, 16 + word_bits) << 64 - word_bits
    last = boundary + (1 << 64 - word_bits) - 1  # it has the digits of the boundary, so it is undecided
    assert first_two_steps(table, 0, last) is None
    assert first_two_steps(table, 0, last + 1) == table.lowest
    assert first_two_steps(table, 65535, (1 << 64) - 1 - last) is None
    assert first_two_steps(table, 65535, (1 << 64) - 2 - last) == -table.lowest


@pytest.mark.parametrize(
    "law", [DiscreteGaussian(Fraction(1, 250)), DiscreteLaplace(Fraction(1, 250))], ids=str
)
def test_a_law_that_stores_no_boundary_still_has_its_tails(law: Law) -> None:
    """An outcome other than 0 comes once in 10**54 draws or less, and never if the outer cells decided at once."""
    table = InversionTable.build(law)
    assert table.fractions.size == 0
    assert table.direct[[1, 65534]].tolist() == [0, 0]
    top = (1 << 64) - 1
    for cell, word, sign in ((0, 0, -1), (65535, top, 1)):
        assert first_two_steps(table, cell, word) is None
        one = law.floor_bits(-1, 16 + 7 * 64)
        words = [one - 1 >> 64 * part & top for part in reversed(range(7))]
        assert table.resolve(cell, iter([part if cell == 0 else top - part for part in words])) == sign


def test_few_boundaries_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search by halves among the outcomes up to a reach, which is found by doubling."""
    law = DiscreteGaussian(Fraction(5))
    none, nothing = np.zeros(0, np.int32), np.uint64(0)
    table = InversionTable(law, none, 0, none, none.astype(np.uint64), nothing, 0, nothing)
    asked: list[int] = []
    plain = DiscreteGaussian.tail_is_below, InversionTable._floor

    def tail_is_below(self: DiscreteGaussian, x: int, bits: int) -> bool:
        asked.append(x)
        assert len(asked) <= 10
        return plain[0](self, x, bits)

    def floor(self: InversionTable, j: int, bits: int) -> int:
        asked.append(j)
        assert len(asked) <= 10
        return plain[1](self, j, bits)

    monkeypatch.setattr(DiscreteGaussian, "tail_is_below", tail_is_below)
    reach = table._reach(80)
    monkeypatch.undo()
    assert law.tail_is_below(reach, 80)
    monkeypatch.setattr(InversionTable, "_floor", floor)
    for j in (-9, 5):
        asked.clear()
        assert table._compare(law.floor_bits(j, 80) + 1, 80) == j + 1


def test_running_out_of_words_is_an_error() -> None:
    table = InversionTable.build(LAWS[1])
    with pytest.raises(SolverError, match="one draw had no outcome after 208 bits") as caught:
        table.resolve(0, repeat(0, 3))
    assert str(caught.value).startswith(as_given(LAWS[1]))


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
