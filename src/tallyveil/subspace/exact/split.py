"""The cells of a block given their sum, drawn exactly by divide and conquer over certified tables of sums.

Problem. n independent cells with the same law have the sum t. Wanted are draws of the cells given this sum.

Steps. The block is halved again and again, down to single cells. At each node, the sum s of the left half has
probability L(s) R(t - s) / W(t), where L, R and W are the laws of the sums of the left half, the right half and all
cells of the node. The right half gets t - s. A kernel decides nearly every split. One that it leaves undecided is
decided here in integers, with more digits of the same uniform number and finer tables, so every split has exactly its
law.

Stopping rule. The number of digits doubles until the interval that contains the uniform number lies inside one
outcome's interval; random digits practically always reach this, and after `MOST_WORDS` words an error is raised.

*Alias tables* (`AliasTables`), for blocks whose cells sum to zero, decide a split in one look-up. A table
(`kernels.subspace.sums`) gives each s slightly less than its probability, and the rest to "undecided"; an undecided s
is drawn by inversion from exactly what the table leaves out. Rounding and omitted sums only make a split undecided: in
181 blocks of 13 laws and 14 sizes, with probability below 2**-23 at every node (docs/proofs/alias-tables.md). If a
node needs more than `MOST_COLUMN_BITS` bits for its columns, or all tables too many entries, the kernel works in
floats with an error margin instead.

Worked case. Four columns have mass 1/4 each. Let s be -1, 0, 1 with probabilities 0.2, 0.6, 0.2. The columns of -1 and
1 give them 0.2, and 0.05 to s = 0. The column of 0 gives 0.25 to it, and so does that of "undecided" (up to a tiny
rest): 0.25 + 0.05 + 0.05 + 0.25 = 0.6. One uniform number selects a column and a place in it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import Integers, Words
from tallyveil.errors import SolverError
from tallyveil.kernels.subspace.sums import (
    FRACTION_BITS,
    AliasArrays,
    FloatTables,
    TreeNodes,
    fill_alias,
    split_by_alias,
    split_sums,
)
from tallyveil.noise.laws import Law
from tallyveil.subspace.exact.convolution import FLOAT_TABLE_BITS, SumLaws
from tallyveil.subspace.exact.digits import NoiseAddress, prefix

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
        # Contiguous and writable: for other arrays the kernel would be compiled once more.
        words, cells = np.require(words, None, ["C", "W"]), np.require(cells, None, ["C", "W"])
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
        left, right, whole = (laws.float_table(part) for part in (n // 2, n - n // 2, n))
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
    left, right, whole = (laws.float_table(part) for part in (n // 2, n - n // 2, n))
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


BATCH_WORDS: Final = 1 << 20
"""Number of uniform numbers held at a time: 8 MiB."""

MOST_WORDS: Final = 64
"""64-bit words of one uniform number, 4,096 bits. They double from 1, and nearly all draws need the first one alone."""


class SplitTree(NamedTuple):
    """A binary tree over n cells. Parents come before their parts; node 0 is the root.

    Attributes:
        lefts, rights: int64 [2 n - 1], the parts of each node, -1 for a cell.
        sizes: int64 [2 n - 1], number of cells below each node.
        leaves: int64 [n], the node of each cell.
    """

    lefts: Integers
    rights: Integers
    sizes: Integers
    leaves: Integers

    @property
    def inner(self) -> Integers:
        """int64 [n - 1], the nodes that are split, parents before parts."""
        return np.flatnonzero(self.lefts >= 0)

    @property
    def inner_parts(self) -> tuple[Integers, Integers]:
        """Parts of each inner node, renumbered: inner nodes are 0 to n - 2 in order, and cells follow from n - 1."""
        place = np.empty(self.sizes.size, dtype=np.int64)
        inner = self.inner
        place[inner] = np.arange(inner.size)
        place[self.leaves] = inner.size + np.arange(self.leaves.size)
        return place[self.lefts[inner]], place[self.rights[inner]]


def split_tree(n: int) -> SplitTree:
    """Halve n cells repeatedly, down to single cells."""
    lefts, rights, sizes, leaves = [-1], [-1], [n], []
    node = 0
    while node < len(sizes):
        if sizes[node] == 1:
            leaves.append(node)
        else:
            lefts[node], rights[node] = len(sizes), len(sizes) + 1
            half = sizes[node] // 2
            lefts += [-1, -1]
            rights += [-1, -1]
            sizes += [half, sizes[node] - half]
        node += 1
    return SplitTree(*(np.array(part, dtype=np.int64) for part in (lefts, rights, sizes, leaves)))


@dataclass(frozen=True, slots=True, eq=False)
class BlockSplitter:
    """Draws the cells of one block given the block's sum. Made by `BlockSplitter.build`.

    Attributes:
        laws: Tables of sums of cells.
        tree: Tree over the block's cells.
        kinds: Number of the table of each node.
        tables: Tables as floats, used if there are no alias tables.
        alias: Alias tables, only for blocks with sum zero.
        ignored_digits: Number of digits of every word, or of alias tables, that are ignored. It is 0 except in tests of
            the exact decisions.
    """

    laws: SumLaws
    tree: SplitTree
    kinds: Integers
    tables: FloatTables
    alias: AliasTables | None
    ignored_digits: int

    @classmethod
    def build(
        cls, law: Law | SumLaws, n_cells: int, *, alias_entries: int = 0, ignored_digits: int = 0
    ) -> "BlockSplitter":
        """Certify the tables for blocks of n cells.

        Args:
            law: The law of one cell.
            n_cells: Number of cells of the block.
            alias_entries: Largest number of entries in alias tables; 0 for none. Alias tables are useful if all
                requested sums will be zero.
            ignored_digits: As the attribute.
        """
        laws = law if isinstance(law, SumLaws) else SumLaws(law)
        tree = split_tree(n_cells)
        sizes, kinds = np.unique(tree.sizes, return_inverse=True)
        tables = laws.floats(tuple(int(n) for n in sizes))
        alias = None
        if alias_entries:
            alias = alias_tables(
                laws, tree.sizes[tree.inner], tree.inner_parts, alias_entries, ignored_digits
            )
        return cls(laws, tree, kinds.astype(np.int64), tables, alias, ignored_digits)

    @property
    def n_cells(self) -> int:
        """Number of cells of the block."""
        return int(self.tree.leaves.size)

    @property
    def n_sites(self) -> int:
        """Number of uniform numbers for one draw, rounded up to an even number."""
        return (self.n_cells - 1) + (self.n_cells - 1) % 2

    def draw(self, address: NoiseAddress, draws: Integers, first_site: int, totals: Integers) -> Integers:
        """Cells of the block, for many draws.

        Args:
            address: Source of the uniform numbers.
            draws: [n], numbers of the draws.
            first_site: Site of the first of the `n_sites` uniform numbers; even.
            totals: [n], sums of the block.
        Returns:
            int64 [n, n_cells].
        """
        out = np.empty((draws.size, self.n_cells), dtype=np.int64)
        step = max(1, BATCH_WORDS // max(self.n_cells, 1))
        for first in range(0, draws.size, step):
            some = draws[first : first + step]
            words = address.numbers(some, first_site, self.n_cells - 1)
            sites = np.full(some.size, first_site, dtype=np.int64)
            out[first : first + step] = self.split(words, totals[first : first + step], address, some, sites)
        return out

    def fill(
        self,
        words: npt.NDArray[np.uint64],
        address: NoiseAddress,
        draws: Integers,
        site: int,
        cells: Integers,
        out: Integers,
    ) -> None:
        """Write the cells of a block with sum zero to their positions.

        Args:
            words: [n, n_cells - 1], the first 64 digits of the uniform numbers.
            address: Source of further digits.
            draws: [n], numbers of the draws.
            site: Site of the first uniform number.
            cells: [n_cells], position of each cell in a row of `out`.
            out: int64 [n, cells of the table], changed at these positions.
        """
        if self.alias is None:
            zeros, sites = np.zeros_like(draws), np.full_like(draws, site)
            out[:, cells] = self.split(words, zeros, address, draws, sites)
            return
        for i in np.flatnonzero(self.alias.split(words, cells, out)).tolist():
            out[i, cells] = self._exactly(address, int(draws[i]), site, 0)[self.tree.leaves]

    def split(
        self,
        words: npt.NDArray[np.uint64],
        totals: Integers,
        address: NoiseAddress,
        draws: Integers,
        sites: Integers,
    ) -> Integers:
        """`draw`, given the uniform numbers.

        Args:
            words: [n, n_cells - 1], their first 64 digits.
            totals: [n], sums of the block.
            address: Source of further digits.
            draws: [n], numbers of the draws.
            sites: [n], site of the first uniform number of each draw.
        """
        if self.alias is not None:
            out = np.empty((draws.size, self.n_cells), dtype=np.int64)
            open_draws = self.alias.split(words, np.arange(self.n_cells), out)
            for i in np.flatnonzero(open_draws | (totals != 0)).tolist():
                sums = self._exactly(address, int(draws[i]), int(sites[i]), int(totals[i]))
                out[i] = sums[self.tree.leaves]
            return out
        tree = self.tree
        sums = np.zeros((draws.size, tree.sizes.size), dtype=np.int64)
        sums[:, 0] = totals
        open_draws = np.zeros(draws.size, dtype=np.bool_)
        nodes = TreeNodes(tree.lefts, tree.rights, tree.sizes, self.kinds)
        shift = np.uint64(self.ignored_digits)
        split_sums(np.ascontiguousarray(words), self.tables, nodes, shift, sums, open_draws)
        for i in np.flatnonzero(open_draws).tolist():
            sums[i] = self._exactly(address, int(draws[i]), int(sites[i]), int(totals[i]))
        return np.asarray(sums[:, tree.leaves])

    def _exactly(self, address: NoiseAddress, draw: int, first_site: int, total: int) -> Integers:
        tree = self.tree
        sums = np.zeros(tree.sizes.size, dtype=np.int64)
        sums[0] = total
        for place, node in enumerate(tree.inner.tolist()):
            left, right = int(tree.lefts[node]), int(tree.rights[node])
            t = int(sums[node])
            s = self._split_exactly(place, t, address, draw, first_site + place)
            sums[left], sums[right] = s, t - s
        return sums

    def _split_exactly(self, place: int, t: int, address: NoiseAddress, draw: int, site: int) -> int:
        n = int(self.tree.sizes[self.tree.inner[place]])
        digits = address.all_digits(draw, site)
        if self.alias is None:
            return exact_split(self.laws, (n // 2, n - n // 2), t, digits)
        outcome = self.alias.outcome(place, t, next(digits))
        if outcome is not None:
            return outcome
        # The following digits are independent of those that selected "undecided".
        return exact_split(self.laws, (n // 2, n - n // 2), t, digits, self.alias.given(place, t))


def exact_split(
    laws: SumLaws, parts: tuple[int, int], total: int, digits: Iterator[int], given: Given = NOTHING_GIVEN
) -> int:
    """The sum of the left part, given the sum of both parts, by inversion in integers.

    Args:
        laws: Laws of sums of cells.
        parts: Number of cells on the left and on the right.
        total: Sum of both parts.
        digits: Digits of the uniform number, in groups of 64.
        given: Probabilities that are subtracted from the outcomes. The draw is from what remains.
    """
    uniform, words, wanted = 0, 0, 1
    while wanted <= MOST_WORDS:
        more, count = prefix(digits, wanted - words)
        uniform, words = uniform << count | more, wanted
        outcome = _decide(laws, parts, total, uniform, 64 * words, given)
        if outcome is not None:
            return outcome
        wanted *= 2
    raise SolverError(
        f"{laws.law}: one draw had no outcome after {64 * words} bits, which has a negligible probability for random "
        "bits. Check that the bits come from a cipher."
    )


def candidates(centre: int) -> Iterator[int]:
    """Integers by increasing distance from the centre. All samplers of sums use this order."""
    i = 0
    while True:
        yield centre + (i + 1) // 2 if i % 2 else centre - i // 2
        i += 1


def _decide(
    laws: SumLaws, parts: tuple[int, int], total: int, uniform: int, digits: int, given: Given
) -> int | None:
    """The outcome of every uniform number with these digits, or None if more digits are needed."""
    bits = digits + FLOAT_TABLE_BITS
    here, there = laws.table(parts[0], bits), laws.table(parts[1], bits)
    n = parts[0] + parts[1]
    whole = laws.table(n, bits)
    mass = whole.at(total) << bits  # in units of 4**-bits, like the products
    slack = whole.error << bits
    left = (1 << given.bits) - given.total
    # U mass / 2**digits lies in [low, high) for all U with these first digits and all masses within the error.
    low = (uniform * left * max(mass - slack, 0)) >> digits
    high = -(-(uniform + 1) * left * (mass + slack) >> digits)
    cumulated = 0
    error = 0
    centre = (2 * total * parts[0] + n) // (2 * n)
    for i, s in enumerate(candidates(centre)):
        p, q, share = here.at(s), there.at(total - s), given.shares.get(s, 0)
        cumulated += (p * q << given.bits) - share * mass
        # (p + a)(q + b) differs from p q by at most a q + b p + a b.
        error += here.error * q + there.error * p + here.error * there.error << given.bits
        error += share * slack
        if cumulated + error > low:
            return s if cumulated - error >= high else None
        if i > 2 * (whole.reach + here.reach + there.reach) + 2:
            return None
    return None
