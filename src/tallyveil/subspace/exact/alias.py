"""Alias tables for splitting a block whose cells sum to zero. One look-up decides nearly every split.

Problem. A node of a tree holds n cells with sum t. The sum s of its left half has probability L(s) R(t - s) / W(t),
where L, R and W are the laws of the sums of the left half, the right half and all n cells. Wanted are draws of s with
exactly this law, in one look-up.

Steps. A table (`kernels.subspace.alias`) gives each s slightly less than its probability, and the rest to the outcome
"undecided". An undecided s is drawn by inversion from exactly what the table leaves out (`AliasTables.given`). So each
split has the same law as by inversion, if no table gives an outcome more than its probability. Rounding, and sums and
outcomes that the tables omit, only make a split undecided. In 181 blocks of 13 laws and 14 sizes, this had a
probability below 2**-23 at every node. docs/proofs/alias-tables.md has the proof.

Stopping rule. A table is made with at most `MOST_COLUMN_BITS` bits for its columns. If a node needs more, or all tables
together need too many entries, there are no alias tables.

Worked case. Four columns have mass 1/4 each. Let s be -1, 0, 1 with probabilities 0.2, 0.6, 0.2. The columns of -1 and
1 give them 0.2, and 0.05 to s = 0. The column of 0 gives 0.25 to it, and so does the column of "undecided" (up to a
tiny rest). The sum for s = 0 is 0.25 + 0.05 + 0.05 + 0.25 = 0.6. One uniform number selects a column and a place in it.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import Integers, Words
from tallyveil.kernels.subspace.alias import FRACTION_BITS, AliasArrays, fill_alias, split_by_alias
from tallyveil.subspace.exact.convolution import SumLaws, floats_of

LARGEST_ENTRIES: Final = 1 << 22
"""Entries of all alias tables of a sampler, 8 bytes each. A block that needs more than its part has no alias tables."""

MOST_COLUMN_BITS: Final = 11
"""Bits of the columns of one table: up to 2,048 outcomes. A block with a node that needs more has no alias tables."""
LEAST_COLUMN_BITS: Final = 2
"""Where the search for enough columns starts."""

_TAIL: Final = 2.0**-28
"""Largest mass that may be omitted: of the sums t of a node, and of the outcomes of the largest t. Other t may omit
more: the columns of an odd t reach one outcome less far to one side."""


class Given(NamedTuple):
    """The masses that a table gives to its outcomes, in units of 2**-bits.

    Attributes:
        bits: The unit is 2**-bits.
        shares: Mass of each s that has any.
        total: Sum of the masses.
    """

    bits: int
    shares: dict[int, int]
    total: int


NOTHING_GIVEN: Final = Given(0, {}, 0)
"""The draw is from the whole law: no alias table has taken a share of it."""


@dataclass(frozen=True, slots=True, eq=False)
class AliasTables:
    """Alias tables for all splits of a block, one for each inner node of its tree. Made by `alias_tables`.

    Attributes:
        arrays, lefts, rights: In the layout of `split_by_alias`.
    """

    arrays: AliasArrays
    lefts: Integers
    rights: Integers

    def split(self, words: Words, cells: Integers, out: Integers) -> npt.NDArray[np.bool_]:
        """Write the cells of many draws. Returns which draws are not valid because some split is undecided.

        Args:
            words: [n, n_splits], the first 64 digits of the uniform number of each split.
            cells: [n_splits + 1], position of each cell in a row of `out`.
            out: int64 [n, n_cells], changed at these positions.
        """
        open_draws = np.zeros(words.shape[0], dtype=np.bool_)
        split_by_alias(words, self.arrays, self.lefts, self.rights, cells, out, open_draws)
        return open_draws

    def outcome(self, node: int, t: int, word: int) -> int | None:
        """The left sum that the first 64 digits of a uniform number decide, or None if they do not decide it."""
        reach, bits = int(self.arrays.reaches[node]), int(self.arrays.column_bits[node])
        if abs(t) > reach:
            return None
        digits = word >> 64 - FRACTION_BITS - bits
        column, fraction = digits >> FRACTION_BITS, digits & ((1 << FRACTION_BITS) - 1)
        threshold, other = divmod(int(self._table(node, t)[column]), 4096)
        outcome = column if fraction < threshold else other
        return _origin(t, bits) + outcome if outcome else None

    def given(self, node: int, t: int) -> Given:
        """The masses in the table of a node and a sum; nothing if there is no such table."""
        if abs(t) > self.arrays.reaches[node]:
            return NOTHING_GIVEN
        table = self._table(node, t)
        columns = np.arange(table.size)
        thresholds, others = (
            (table >> np.uint64(12)).astype(np.int64),
            (table & np.uint64(4095)).astype(np.int64),
        )
        mass = np.zeros(table.size, dtype=np.int64)
        np.add.at(mass, columns, thresholds)
        np.add.at(mass, others, (1 << FRACTION_BITS) - thresholds)
        origin = _origin(t, int(self.arrays.column_bits[node]))
        shares = {origin + i: int(mass[i]) for i in range(1, table.size) if mass[i]}
        return Given(FRACTION_BITS + int(self.arrays.column_bits[node]), shares, int(mass[1:].sum()))

    def _table(self, node: int, t: int) -> Words:
        bits = int(self.arrays.column_bits[node])
        first = int(self.arrays.starts[node]) + ((t + int(self.arrays.reaches[node])) << bits)
        return self.arrays.entries[first : first + (1 << bits)]


def alias_tables(
    laws: SumLaws, sizes: Integers, parts: tuple[Integers, Integers], largest: int, ignored: int = 0
) -> AliasTables | None:
    """Make the tables of a block whose sum is zero; None if they would be too large.

    Args:
        laws: Laws of sums of cells.
        sizes: [n_splits], number of cells below each inner node, the root first. A node's left part has half of them.
        parts: [n_splits], left and right part of each node, in the layout of `split_by_alias`.
        largest: Largest number of entries in the tables.
        ignored: Number of digits of masses that are rounded away; 0 except in tests.
    """
    distinct, kinds = np.unique(sizes, return_inverse=True)
    shapes = [_shape(laws, int(n), is_root=bool(sizes.size and n == sizes[0])) for n in distinct]
    lengths = [(2 * reach + 1) << bits for reach, bits in shapes]
    if sum(lengths) > largest or any(bits > MOST_COLUMN_BITS for _, bits in shapes):
        return None
    reaches = np.array([reach for reach, _ in shapes], dtype=np.int64)
    column_bits = np.array([bits for _, bits in shapes], dtype=np.int64)
    starts = np.cumsum([0, *lengths])[:-1].astype(np.int64)
    entries = np.empty(sum(lengths), dtype=np.uint64)
    for kind, n in enumerate(distinct.tolist()):
        reach, bits = shapes[kind]
        left, right, whole = (floats_of(laws.table(part)) for part in (n // 2, n - n // 2, n))
        for t in range(-reach, reach + 1):
            first = int(starts[kind]) + ((t + reach) << bits)
            table = entries[first : first + (1 << bits)]
            fill_alias(left, right, whole[whole.size // 2 + t], t, bits, ignored, table)
    entries.setflags(write=False)
    return AliasTables(AliasArrays(entries, starts[kinds], reaches[kinds], column_bits[kinds]), *parts)


def _origin(t: int, column_bits: int) -> int:
    """The s that outcome 0 would denote."""
    return t // 2 - (1 << column_bits - 1)


def _shape(laws: SumLaws, n: int, *, is_root: bool) -> tuple[int, int]:
    """(largest sum, bits of a column) for the tables of nodes with n cells."""
    left, right, whole = (floats_of(laws.table(part)) for part in (n // 2, n - n // 2, n))
    beyond = whole[whole.size // 2 :][::-1].cumsum()[::-1]  # P(sum >= t), t = 0, 1, ...
    reach = 0 if is_root else int(np.count_nonzero(beyond > _TAIL / 2))
    reach = min(reach, whole.size // 2)
    s = np.arange(-(left.size // 2), left.size // 2 + 1)
    s = s[np.abs(reach - s) <= right.size // 2]
    shares = left[s + left.size // 2] * right[reach - s + right.size // 2] / whole[whole.size // 2 + reach]
    bits = LEAST_COLUMN_BITS
    while bits <= MOST_COLUMN_BITS and shares[np.abs(s - reach // 2) >= 1 << bits - 1].sum() > _TAIL:
        bits += 1
    return reach, bits
