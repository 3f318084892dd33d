"""Alias tables of the splits of a block whose cells sum to zero: one look-up decides nearly every split.

A table gives an outcome s slightly less than its probability, and the rest to "undecided" (`kernels.subspace_alias`).
What is undecided is drawn from exactly what the table leaves out (`AliasTables.given`), so that the law of a split is
that of inversion, whatever the tables hold: their rounding, and sums and outcomes that they leave out, only send
draws to whole numbers, with probability below 2**-29 or so a split.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import Integers, Words
from tallyveil.kernels.subspace.alias import FRACTION_BITS, fill_alias, split_by_alias
from tallyveil.subspace.exact.convolution import SumLaws, floats_of

LARGEST_ENTRIES: Final = 1 << 22
"""Entries of all alias tables of a sampler, 8 bytes each; blocks that need more than their part are split without."""

MOST_COLUMN_BITS: Final = 11
LEAST_COLUMN_BITS: Final = 2

_TAIL: Final = 2.0**-28
"""Mass of the sums, and of the outcomes of one sum, that may be left out."""


class Given(NamedTuple):
    """What a table gives its outcomes, in units of 2**-bits.

    Attributes:
        bits: The unit.
        shares: Mass of each s that has one.
        total: Of all.
    """

    bits: int
    shares: dict[int, int]
    total: int


NOTHING_GIVEN: Final = Given(0, {}, 0)


@dataclass(frozen=True, slots=True, eq=False)
class AliasTables:
    """Tables of all splits of a block, by the inner nodes of its tree. Made by `alias_tables`.

    Attributes:
        entries, starts, reaches, column_bits, lefts, rights: As `split_by_alias` takes them.
    """

    entries: Words
    starts: Integers
    reaches: Integers
    column_bits: Integers
    lefts: Integers
    rights: Integers

    def split(self, words: Words, cells: Integers, out: Integers) -> npt.NDArray[np.bool_]:
        """Write the cells of many draws; says which of these mean nothing, because a split stayed open.

        Args:
            words: [n, n_splits], the first 64 digits of the uniform number of each split.
            cells: [n_splits + 1], where in a row of `out` each cell goes.
            out: int64 [n, n_cells], changed at these.
        """
        open_draws = np.zeros(words.shape[0], dtype=np.bool_)
        split_by_alias(
            words, self.entries, self.starts, self.reaches, self.column_bits, self.lefts, self.rights, cells,
            out, open_draws,
        )  # fmt: skip
        return open_draws

    def outcome(self, node: int, t: int, word: int) -> int | None:
        """The left sum that a uniform number decides on by its first 64 digits; None if it does not."""
        reach, bits = int(self.reaches[node]), int(self.column_bits[node])
        if abs(t) > reach:
            return None
        digits = word >> 64 - FRACTION_BITS - bits
        column, fraction = digits >> FRACTION_BITS, digits & ((1 << FRACTION_BITS) - 1)
        threshold, other = divmod(int(self._table(node, t)[column]), 4096)
        found = column if fraction < threshold else other
        return _origin(t, bits) + found if found else None

    def given(self, node: int, t: int) -> Given:
        """What the table of a node and a sum gives; nothing where there is none."""
        if abs(t) > self.reaches[node]:
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
        origin = _origin(t, int(self.column_bits[node]))
        shares = {origin + i: int(mass[i]) for i in range(1, table.size) if mass[i]}
        return Given(FRACTION_BITS + int(self.column_bits[node]), shares, int(mass[1:].sum()))

    def _table(self, node: int, t: int) -> Words:
        bits = int(self.column_bits[node])
        first = int(self.starts[node]) + ((t + int(self.reaches[node])) << bits)
        return self.entries[first : first + (1 << bits)]


def alias_tables(
    laws: SumLaws, sizes: Integers, parts: tuple[Integers, Integers], largest: int, ignored: int = 0
) -> AliasTables | None:
    """Lay out the tables of a block whose sum is zero; None where they would be too large.

    Args:
        laws: Of one cell.
        sizes: [n_splits], cells below each inner node, the root's first. A node's left part has half of them.
        parts: [n_splits] left and right part of each, as `split_by_alias` takes them.
        largest: Entries that the tables may have.
        ignored: Digits of masses that are rounded away; 0 but for tests.
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
    return AliasTables(entries, starts[kinds], reaches[kinds], column_bits[kinds], *parts)


def _origin(t: int, column_bits: int) -> int:
    """The s that outcome 0 would stand for."""
    return t // 2 - (1 << column_bits - 1)


def _shape(laws: SumLaws, n: int, *, is_root: bool) -> tuple[int, int]:
    """(largest sum, digits of a column) of the tables of nodes with n cells."""
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
