"""The steps of docs/proofs/inversion-tables.md, in whole numbers, for laws whose boundaries are fractions."""

from fractions import Fraction
from itertools import islice
from math import floor
from random import Random

import numpy as np
import pytest
from tests.oracles.inversion import refine_reference
from tests.proofs.rational_laws import TwoSidedGeometric
from tests.samples import every

from tallyveil.noise.table import CELL_BITS, InversionTable

SEEDS = every(10, range(80))
WORD = 1 << 64


def random_law(seed):
    random = Random(f"inversion {seed}")
    if seed % 4 == 2:  # so narrow a law that no stored boundary lies in the first cell
        return random, TwoSidedGeometric(Fraction(2, 2 ** random.randint(43, 60) + 1))
    denominator = 2 * random.randint(4, 500) + 1
    return random, TwoSidedGeometric(Fraction(2 * random.randint(1, 3 * denominator // 8), denominator))


def table_of(random, law):
    word_bits = random.choice([64, 64, 8])
    return InversionTable.build(
        law, direct_bits=random.choice([16, 9]), word_bits=word_bits, tail_bits=random.choice([40, 16, 20])
    )


def outcome_by_fractions(law, digits, bits):
    """The outcome of every U in [digits, digits + 1) / 2^bits, or None if a boundary lies inside or at the end."""
    if digits in {0, (1 << bits) - 1}:
        return None
    low, high = Fraction(digits, 1 << bits), Fraction(digits + 1, 1 << bits)
    j = -1 if low < Fraction(1, 2) else 0
    while law.up_to(j) > low:
        j -= 1
    while law.up_to(j + 1) <= low:
        j += 1
    return j + 1 if high <= law.up_to(j + 1) else None


def by_two_steps(table, cell, word):
    """The outcome of the first sixteen and the next sixty-four digits, or None."""
    direct = int(table.direct[cell])
    if direct != table.open_mark:
        return direct
    out, still_open = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    words, cells = np.array([word, 0], dtype=np.uint64), np.array([cell], dtype=np.uint16)
    undecided = refine_reference(cells, words, table.second_part, np.zeros(1, int), False, out, still_open)
    return None if undecided else int(out[0])


def interesting_words(random, table, law, cell):
    """Words around every boundary of a cell, around both ends, and some others."""
    start, end = table.starts[cell], table.starts[cell + 1]
    near = [int(one) for one in table.fractions[start:end]][:6]
    near += [0, int(table.tail_word), WORD - 1, WORD - 1 - int(table.tail_word), random.getrandbits(64)]
    steps = (-256, -1, 0, 1, 256)
    return sorted({word + step for word in near for step in steps if 0 <= word + step < WORD})


def checked(random, table, law, cells):
    """How many words a table decides and leaves open; wrong decisions are counted, too."""
    decided = left = wrong = 0
    for cell in cells:
        for word in interesting_words(random, table, law, cell):
            found = by_two_steps(table, cell, word)
            exact = outcome_by_fractions(law, cell << 64 | word, CELL_BITS + 64)
            decided += found is not None
            left += found is None
            wrong += found is not None and found != exact
    return decided, left, wrong


def some_cells(random, table, n=12):
    undecided = np.flatnonzero(table.direct == table.open_mark)
    return {0, 65535, *random.choices(undecided.tolist(), k=n), *(random.randrange(65536) for _ in range(3))}


@pytest.mark.parametrize("seed", SEEDS)
def test_i1_floors_of_boundaries_are_exact(seed):
    random, law = random_law(seed)
    for bits in (16, 80, random.randint(1, 300)):
        for j in range(-6, 6):
            assert law.floor_bits(j, bits) == floor(law.up_to(j) * 2**bits)


@pytest.mark.parametrize("seed", SEEDS)
def test_i2_the_upper_half_mirrors_the_lower_one(seed):
    random, _ = random_law(seed)
    whole = 1 << random.randint(1, 100)
    tail = Fraction(random.randint(1, 10**9), 2 * 10**9 + 1)
    assert floor(whole * (1 - tail)) == whole - 1 - floor(whole * tail)


def test_i2_fails_where_a_boundary_has_finitely_many_digits():
    whole, tail = 1 << 10, Fraction(1, 8)
    assert floor(whole * (1 - tail)) != whole - 1 - floor(whole * tail)


@pytest.mark.parametrize("seed", SEEDS)
def test_i3_a_cell_without_a_boundary_has_one_outcome(seed):
    random, law = random_law(seed)
    table = table_of(random, law)
    closed = np.flatnonzero(table.direct != table.open_mark)
    for cell in random.choices(closed.tolist(), k=40) if closed.size else ():
        assert outcome_by_fractions(law, cell, CELL_BITS) == table.direct[cell]


@pytest.mark.parametrize("seed", SEEDS)
def test_i4_words_are_decided_right_or_left_open(seed):
    random, law = random_law(seed)
    table = table_of(random, law)
    decided, left, wrong = checked(random, table, law, some_cells(random, table))
    assert wrong == 0
    assert decided
    assert left


class RoundedUp(TwoSidedGeometric):
    """Boundaries that are rounded up instead of down."""

    def tail_floors(self, bits, least):
        return [one + 1 for one in super().tail_floors(bits, least)]


def test_i4_fails_without_floors():
    wrong = 0
    for seed in range(5):
        random, law = random_law(seed)
        table = InversionTable.build(RoundedUp(law.ratio))
        wrong += checked(random, table, law, some_cells(random, table))[2]
    assert wrong


@pytest.mark.parametrize("seed", SEEDS)
def test_i5_words_beyond_the_stored_boundaries_are_left_open(seed):
    """A word of the first or last cell is decided only if every boundary that is not stored lies on one side."""
    random, law = random_law(seed)
    table = table_of(random, law)
    beyond = law.up_to(table.lowest - 1)
    for word in interesting_words(random, table, law, 0):
        if Fraction(word, 1 << 80) < beyond:
            assert by_two_steps(table, 0, word) is None
        if Fraction(WORD - word, 1 << 80) <= beyond:
            assert by_two_steps(table, 65535, word) is None


def test_i5_fails_without_the_tail_word():
    """With nothing left open at the ends, a number below a boundary that is not stored gets a wrong outcome."""
    wrong = 0
    for seed in range(5):
        random, law = random_law(seed)
        table = InversionTable.build(law)
        object.__setattr__(table, "tail_word", np.uint64(0))
        wrong += checked(random, table, law, [0])[2]
    assert wrong


@pytest.mark.parametrize("seed", SEEDS)
def test_i6_further_words_decide_as_fractions_do(seed):
    """Numbers that share eighty or more digits with a boundary."""
    random, law = random_law(seed)
    table = table_of(random, law)
    for j in (-3, -1, 0, 2):
        bits = CELL_BITS + 64 * 3
        digits = floor(law.up_to(j) * 2**bits)
        near = (digits - 1, digits + 1, digits - 2**70, digits + 2**70)
        for number in (one for one in near if 0 < one < 2**bits - 1):
            cell = number >> 192
            words = [number >> 128 & WORD - 1, number >> 64 & WORD - 1, number & WORD - 1]
            exact = outcome_by_fractions(law, number, bits)
            assert exact is not None
            assert table.resolve(cell, iter(words)) == exact


def digits_of(law, table):
    """How many of the 2^80 groups of numbers the first two steps give to each outcome; the rest is undecided."""
    found: dict[int, int] = {}
    for cell in np.flatnonzero(table.direct != table.open_mark).tolist():
        found[int(table.direct[cell])] = found.get(int(table.direct[cell]), 0) + WORD
    tail = int(table.tail_word)
    for cell in np.flatnonzero(table.direct == table.open_mark).tolist():
        start, end = int(table.starts[cell]), int(table.starts[cell + 1])
        low = tail + 1 if cell == 0 else 0
        for place in range(start, end + 1):
            last = place == end
            high = int(table.fractions[place]) if not last else WORD - (tail + 1 if cell == 65535 else 0)
            found[table.lowest + place] = found.get(table.lowest + place, 0) + max(high - low, 0)
            low = high + 1
    return found


@pytest.mark.parametrize("seed", every(20, range(80)))
def test_i7_every_outcome_gets_its_probability(seed):
    """Walked through the whole table: an outcome gets the groups of numbers between two boundaries, and only the group
    of each boundary and both ends are left to the third step."""
    _, law = random_law(seed)
    table = InversionTable.build(law)
    found = digits_of(law, table)
    for j in range(table.lowest + 1, -table.lowest):
        low, high = (floor(law.up_to(k) * 2**80) for k in (j - 1, j))
        assert found[j] == max(high - low - 1, 0)
    stored = table.fractions.size
    ends = [table.lowest, -table.lowest]
    inner = sum(found.values()) - sum(found[j] for j in ends)
    assert all(0 <= found[j] <= (law.up_to(j) - law.up_to(j - 1)) * 2**80 for j in ends)
    spare = 2**80 - inner - stored - sum(found[j] for j in ends)
    assert 0 <= spare <= 2 * (int(table.tail_word) + 1)


def test_i7_fails_for_another_law():
    _, law = random_law(1)
    table = InversionTable.build(law)
    other = TwoSidedGeometric(law.ratio * Fraction(1001, 1003))
    found = digits_of(law, table)
    wanted = [floor(other.up_to(j) * 2**80) - floor(other.up_to(j - 1) * 2**80) - 1 for j in range(-2, 3)]
    assert [found[j] for j in range(-2, 3)] != wanted
    assert len(list(islice(found, 5))) == 5
