"""The steps of docs/proofs/alias-tables.md, in fractions and whole numbers, on random laws."""

from dataclasses import replace
from fractions import Fraction
from math import floor, nextafter
from random import Random

import numpy as np
import pytest
from tests.proofs.rational_laws import (
    RationalSums,
    convolved,
    random_block,
    random_masses,
    split_law,
    sums_of,
)
from tests.samples import every

from tallyveil.kernels.subspace.sums import FRACTION_BITS, fill_alias
from tallyveil.subspace.exact.convolution import ConvolvedSums, floats_of
from tallyveil.subspace.exact.split import (
    LARGEST_ENTRIES,
    NOTHING_GIVEN,
    Given,
    alias_tables,
    candidates,
    exact_split,
    split_tree,
)

COLUMN = 1 << FRACTION_BITS
SEEDS = every(20, range(200))


def block_tables(sums, n, ignored=0):
    tree = split_tree(n)
    tables = alias_tables(sums, tree.sizes[tree.inner], tree.inner_parts, LARGEST_ENTRIES, ignored)
    return tree.sizes[tree.inner].tolist(), tables


def every_table(sums, n, ignored=0):
    """Each table of a block: what it gives, and the law of the split."""
    sizes, tables = block_tables(sums, n, ignored)
    for node, size in enumerate(sizes):
        reach = int(tables.arrays.reaches[node])
        left, right = sums.exact(size // 2), sums.exact(size - size // 2)
        for t in range(-reach, reach + 1):
            yield tables, node, t, split_law(left, right, t)


def columns_hold(table, masses):
    """Whether the columns hold exactly these masses, and every column is a whole one."""
    held = [0] * len(table)
    for i, entry in enumerate(table.tolist()):
        threshold, other = divmod(entry, 4096)
        if not 0 <= threshold <= COLUMN or other >= len(table):
            return False
        held[i] += threshold
        held[other] += COLUMN - threshold
    return held == list(masses)


def laid_out(shares, bits):
    """The table for floats that are the shares of outcomes 1, 2, ..., and the masses that these stand for."""
    n = 1 << bits
    left = np.zeros(2 * n + 1)
    left[n - n // 2 + 1 : n - n // 2 + n] = shares
    table = np.zeros(n, dtype=np.uint64)
    fill_alias(left, np.ones(4 * n + 1), 1.0, 0, bits, 0, table)
    scale = n * COLUMN * (1 - 2.0**-40)
    masses = [int(share * scale) for share in shares]
    return table, [n * COLUMN - sum(masses), *masses]


def sums_within_their_errors(random, sums):
    bits = random.choice([40, 64, 192])
    for n in range(1, 8):
        table, exact = sums.table(n, bits), sums.exact(n)
        for s in range(min(exact) - 2, max(exact) + 3):
            if abs(table.at(s) - exact.get(s, Fraction(0)) * 2**bits) > table.error:
                return False
    return True


@pytest.mark.parametrize("seed", SEEDS)
def test_w1_tables_of_sums_err_by_no_more_than_they_say(seed):
    random, sums, _ = random_block(seed)
    assert sums_within_their_errors(random, sums)


def test_w1_fails_for_a_law_that_is_not_symmetric():
    """As many entries are left out at one end of a table as at the other."""
    random = Random("lopsided")
    lopsided = [sums_of(random_masses(random, 3, 10**4, symmetric=False)) for _ in range(60)]
    assert not all(sums_within_their_errors(random, sums) for sums in lopsided)


def test_w1_fails_without_the_error_of_the_parts():
    """An error of one unit, from the last rounding alone, is too small for sums of seven cells."""
    missed = 0
    for seed in range(20):
        _, sums, _ = random_block(seed)
        table, exact = sums.table(7, 64), sums.exact(7)
        missed += any(abs(table.at(s) - mass * 2**64) > 1 for s, mass in exact.items())
    assert missed


@pytest.mark.parametrize("seed", SEEDS)
def test_w2_floats_are_right_to_their_share_or_zero(seed):
    random, _, _ = random_block(seed)
    random_bits = random.choice([60, 80, 192])  # with few bits, some entries are too small to be kept
    sums = sums_of(random_masses(random, 3, 10 ** random.randint(1, 9)))
    table, exact = sums.table(4, random_bits), sums.exact(4)
    if max(table.values) < table.error << 50:
        return
    values = floats_of(table)
    for s, mass in exact.items():
        found = Fraction(float(values[s + values.size // 2])) if abs(s) <= values.size // 2 else 0
        assert found == 0 or abs(found - mass) <= mass / 2**49


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("ignored", [0, 30])
def test_w3_no_outcome_gets_more_than_its_probability(seed, ignored):
    _, sums, n = random_block(seed)
    for tables, node, t, law in every_table(sums, n, ignored):
        given = tables.given(node, t)
        for s, share in given.shares.items():
            assert Fraction(share, 1 << given.bits) <= law[s]


def pushed_shares(seed, error):
    """Masses by the kernel, over their exact bounds, where floats of the parts are too large and that of the sum too
    small, each by the same relative error."""
    random = Random(f"pushed {seed}")
    left, right = random_masses(random, 3), random_masses(random, 3)
    t = random.randint(-2, 2)
    whole, law = convolved(left, right)[t], split_law(left, right, t)

    def near(value, factor, away):
        return nextafter(float(value * factor), away)

    high = [np.array([near(part[x], 1 + error, 0.0) for x in range(-3, 4)]) for part in (left, right)]
    table = np.zeros(16, dtype=np.uint64)
    fill_alias(high[0], high[1], near(whole, 1 - error, 1.0), t, 4, 0, table)
    held = [0] * 16
    for i, entry in enumerate(table.tolist()):
        held[i] += entry >> 12
        held[entry & 4095] += COLUMN - (entry >> 12)
    origin = t // 2 - 8
    return [
        Fraction(held[i], 16 * COLUMN) / law[origin + i]
        for i in range(1, 16)
        if held[i] and origin + i in law
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_w3_the_margin_covers_the_largest_errors_of_floats(seed):
    assert max(pushed_shares(seed, Fraction(1, 2**49))) <= 1


def test_w3_the_margin_is_above_what_the_roundings_add_up_to():
    one, unit = Fraction(1, 2**49), Fraction(1, 2**53)
    assert (1 + one) ** 2 / (1 - one) * (1 + unit) ** 3 * (1 - Fraction(1, 2**40)) < 1


def test_w3_fails_without_accurate_floats():
    assert max(max(pushed_shares(seed, Fraction(1, 2**38))) for seed in range(20)) > 1


@pytest.mark.parametrize("seed", SEEDS)
def test_w4_the_rest_holds_all_that_is_not_given(seed):
    """What is left is not negative, and no smaller than the outcomes that the table omits."""
    _, sums, n = random_block(seed)
    for tables, node, t, law in every_table(sums, n):
        given = tables.given(node, t)
        left = (1 << given.bits) - given.total
        omitted = sum(mass for s, mass in law.items() if s not in given.shares)
        assert left >= omitted * (1 << given.bits)
        rest = [law[s] - Fraction(given.shares.get(s, 0), 1 << given.bits) for s in law]
        assert sum(rest) == Fraction(left, 1 << given.bits)
        assert min(rest) >= 0


@pytest.mark.parametrize("seed", SEEDS)
def test_w5_columns_hold_the_masses_exactly(seed):
    random = Random(f"layout {seed}")
    for bits in (2, 3, 6):
        weights = [random.choice([0, 1, random.randint(1, 10**6)]) for _ in range((1 << bits) - 1)]
        over = max(sum(weights), 1) * random.choice([1.0, 1.5, 40.0])
        table, masses = laid_out([weight / over for weight in weights], bits)
        assert masses[0] >= 0
        assert columns_hold(table, masses)


def test_w5_fails_without_a_total_of_one():
    """Masses of one and a half: the rest is negative, and some column does not hold what it should."""
    table, masses = laid_out([0.5, 0.5, 0.5], 2)
    assert masses[0] < 0
    assert not columns_hold(table, masses)


def test_w5_the_check_sees_one_unit():
    table, masses = laid_out([0.3, 0.2, 0.1], 2)
    assert columns_hold(table, masses)
    table[1] += np.uint64(4096)
    assert not columns_hold(table, masses)


@pytest.mark.parametrize("seed", SEEDS)
def test_w6_a_word_chooses_an_outcome_as_often_as_its_mass(seed):
    """Each column is walked through at its threshold: the first and the last word of both stretches."""
    random, sums, n = random_block(seed)
    for tables, node, t, _ in every_table(sums, n, random.choice([0, 30])):
        given, chosen = tables.given(node, t), {}
        n_columns = 1 << given.bits - FRACTION_BITS
        spare = 64 - given.bits
        for column in range(n_columns):
            threshold = int(tables._table(node, t)[column]) >> 12
            for first, last in ((0, threshold), (threshold, COLUMN)):
                if first < last:
                    word, end = ((column * COLUMN + digits) << spare for digits in (first, last))
                    outcome = tables.outcome(node, t, word)
                    assert tables.outcome(node, t, end - 1) == outcome
                    chosen[outcome] = chosen.get(outcome, 0) + last - first
        assert chosen.pop(None, 0) == (1 << given.bits) - given.total
        assert chosen == given.shares


def by_inversion(left, right, t, given, digits, bits):
    """The outcome of every U that begins with these digits, or None if they do not decide it; all in fractions."""
    law = split_law(left, right, t)
    rest = 1 - Fraction(given.total, 1 << given.bits)
    low, high, reached = Fraction(digits, 1 << bits), Fraction(digits + 1, 1 << bits), Fraction(0)
    centre = floor(Fraction(2 * t * given.parts[0] + sum(given.parts), 2 * sum(given.parts)))
    for s in candidates(centre):
        before = reached
        reached += (law.get(s, Fraction(0)) - Fraction(given.shares.get(s, 0), 1 << given.bits)) / rest
        if before <= low and high <= reached:
            return s
        if low < reached:
            return None
    raise AssertionError("the candidates have no end")


class Subtracted(Given):
    """What a table gives, with the numbers of cells of both parts."""

    parts: tuple[int, int]


def compare_inversion(random, sums, parts, t, given):
    """Words near every boundary and at random places: the code's outcome is the one that fractions give."""
    left, right = sums.exact(parts[0]), sums.exact(parts[1])
    subtracted = Subtracted(*given)
    subtracted.parts = parts
    law, reached, near = split_law(left, right, t), Fraction(0), []
    rest = 1 - Fraction(given.total, 1 << given.bits)
    centre = floor(Fraction(2 * t * parts[0] + sum(parts), 2 * sum(parts)))
    for s, _ in zip(candidates(centre), range(40), strict=False):
        reached += (law.get(s, Fraction(0)) - Fraction(given.shares.get(s, 0), 1 << given.bits)) / rest
        near.append(floor(reached * 2**64))
    words = {word + step for word in near for step in (-1, 0, 1) if 0 <= word + step < 1 << 64}
    decided = 0
    for word in [*words, *(random.getrandbits(64) for _ in range(5))]:
        more = [random.getrandbits(64) for _ in range(7)]
        found = exact_split(sums, parts, t, iter([word, *more]), given)
        wanted = by_inversion(left, right, t, subtracted, word, 64)
        if wanted is None:
            digits = int.from_bytes(b"".join(one.to_bytes(8, "big") for one in [word, *more]), "big")
            wanted = by_inversion(left, right, t, subtracted, digits, 512)
        decided += wanted is not None
        assert found == wanted
    assert decided > 5


@pytest.mark.parametrize("seed", every(40, range(200)))
def test_w7_what_is_left_is_inverted_exactly(seed):
    random, sums, n = random_block(seed)
    for tables, node, t, _ in every_table(sums, n, random.choice([0, 30, 45])):
        size = block_tables(sums, n)[0][node]
        given = tables.given(node, t)
        if given.total < 1 << given.bits and abs(t) < 3:
            compare_inversion(random, sums, (size // 2, size - size // 2), t, given)


class Rough(RationalSums):
    """Tables whose entries are off by about a quarter of the last digit that decides, and say so."""

    def table(self, n, bits=0):
        random, error, exact = Random(f"rough {n} {bits}"), 1 << 190, self.exact(n)
        reach = max(exact)
        values = tuple(
            floor(exact[s] * 2**bits) + random.randint(2 - error, error - 2) for s in range(-reach, reach + 1)
        )
        return ConvolvedSums(bits, reach, error, values)


@pytest.mark.parametrize("seed", SEEDS)
def test_w7_decisions_allow_for_the_errors_of_tables(seed):
    random = Random(f"rough {seed}")
    sums = Rough("a law of fractions", cell=random_masses(random, random.randint(1, 4)))
    t = random.randint(-1, 1)
    shares = {
        s: floor(mass * 2**50 * 7 / 8) for s, mass in split_law(sums.exact(1), sums.exact(1), t).items()
    }
    for given in (NOTHING_GIVEN, Given(50, shares, sum(shares.values()))):
        compare_inversion(random, sums, (1, 1), t, given)


class Understated(RationalSums):
    """Tables whose entries are off by far more than they say."""

    def _single(self, bits):
        table = super()._single(bits)
        return replace(table, values=(table.values[0] + 2 ** (bits - 30), *table.values[1:]))


def test_w7_fails_where_tables_err_by_more_than_they_say():
    random = Random("understated")
    sums = Understated("a law of fractions", cell=random_masses(random, 2))
    with pytest.raises(AssertionError):
        compare_inversion(random, sums, (1, 1), 0, NOTHING_GIVEN)


def second_law(law, given):
    """What inversion of the rest draws: the stretches by which the cumulated rest rises above all it was before."""
    reached, highest, drawn = Fraction(0), Fraction(0), {}
    for s, mass in law.items():
        reached += mass - Fraction(given.shares.get(s, 0), 1 << given.bits)
        drawn[s], highest = max(reached - highest, 0), max(reached, highest)
    return {s: mass / highest for s, mass in drawn.items()}


def law_of_both_steps(law, given):
    unit = Fraction(1, 1 << given.bits)
    second = second_law(law, given)
    return {s: given.shares.get(s, 0) * unit + (1 - given.total * unit) * second[s] for s in law}


@pytest.mark.parametrize("seed", SEEDS)
def test_w8_both_steps_together_have_the_law_of_the_split(seed):
    _, sums, n = random_block(seed)
    for tables, node, t, law in every_table(sums, n, 35):
        assert law_of_both_steps(law, tables.given(node, t)) == law


def test_w8_fails_without_shares_below_the_probabilities():
    """A table that gives an outcome more than its probability: no draw from the rest can make up for it."""
    sums, tried = sums_of(random_masses(Random("above"), 2)), 0
    for tables, node, t, law in every_table(sums, 4, 36):
        given = tables.given(node, t)
        left = (1 << given.bits) - given.total
        for s, share in given.shares.items():
            if share + left // 2 > law[s] * 2**given.bits:
                more = Given(given.bits, given.shares | {s: share + left // 2}, given.total + left // 2)
                assert law_of_both_steps(law, given) == law != law_of_both_steps(law, more)
                tried += 1
    assert tried
