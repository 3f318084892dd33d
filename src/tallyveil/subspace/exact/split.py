"""Cells of a block given their sum: exact, by divide and conquer over certified tables of sums.

The kernel decides nearly every split in floats with a margin. What it leaves open is decided here in whole
numbers, with more digits of the same uniform numbers and finer tables as needed, so the outcome is always that of
inversion of the exact law; the support is not cut anywhere.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tallyveil.errors import SolverError
from tallyveil.kernels.subspace_sums import split_sums
from tallyveil.noise.laws import Law
from tallyveil.subspace.exact.convolution import FLOAT_TABLE_BITS, FloatTables, SumLaws
from tallyveil.subspace.exact.digits import NoiseAddress, prefix

Integers = npt.NDArray[np.int64]

BATCH_WORDS: Final = 1 << 20
"""Uniform numbers held at a time: 8 MiB."""

MOST_WORDS: Final = 64


class SplitTree(NamedTuple):
    """A binary tree over n cells, parents before parts; node 0 is the root.

    Attributes:
        lefts, rights: int64 [2 n - 1], parts of each node, -1 for a cell.
        sizes: int64 [2 n - 1], cells below each node.
        leaves: int64 [n], the node of each cell.
    """

    lefts: Integers
    rights: Integers
    sizes: Integers
    leaves: Integers


def split_tree(n: int) -> SplitTree:
    """Halve n cells again and again."""
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
        laws: Tables of the cell's law.
        tree: Over the block's cells.
        kinds: Table of each node.
        tables: As floats.
        ignored_digits: Digits of every word that are not looked at in floats; 0 but for tests of what follows.
    """

    laws: SumLaws
    tree: SplitTree
    kinds: Integers
    tables: FloatTables
    ignored_digits: int

    @classmethod
    def build(cls, law: Law | SumLaws, n_cells: int, *, ignored_digits: int = 0) -> "BlockSplitter":
        """Certify the tables for blocks of n cells."""
        laws = law if isinstance(law, SumLaws) else SumLaws(law)
        tree = split_tree(n_cells)
        sizes, kinds = np.unique(tree.sizes, return_inverse=True)
        tables = laws.floats(tuple(int(n) for n in sizes))
        return cls(laws, tree, kinds.astype(np.int64), tables, ignored_digits)

    @property
    def n_cells(self) -> int:
        """Cells of the block."""
        return int(self.tree.leaves.size)

    @property
    def n_sites(self) -> int:
        """Uniform numbers of one draw, rounded up to an even number."""
        return (self.n_cells - 1) + (self.n_cells - 1) % 2

    def draw(self, address: NoiseAddress, draws: Integers, first_site: int, totals: Integers) -> Integers:
        """Cells of the block, for many draws.

        Args:
            address: Where the uniform numbers lie.
            draws: [n] numbers of the draws.
            first_site: First of the `n_sites` uniform numbers used, even.
            totals: [n] sums of the block.
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

    def split(
        self,
        words: npt.NDArray[np.uint64],
        totals: Integers,
        address: NoiseAddress,
        draws: Integers,
        sites: Integers,
    ) -> Integers:
        """`draw` with the uniform numbers at hand.

        Args:
            words: [n, n_cells - 1], their first 64 digits.
            totals: [n] sums of the block.
            address: Where further digits lie.
            draws: [n] numbers of the draws.
            sites: [n] the first uniform number of each.
        """
        tree, tables = self.tree, self.tables
        sums = np.zeros((draws.size, tree.sizes.size), dtype=np.int64)
        sums[:, 0] = totals
        open_draws = np.zeros(draws.size, dtype=np.bool_)
        split_sums(
            np.ascontiguousarray(words), tables.values, tables.centres, tables.reaches, tree.lefts, tree.rights,
            tree.sizes, self.kinds, np.uint64(self.ignored_digits), sums, open_draws,
        )  # fmt: skip
        for i in np.flatnonzero(open_draws).tolist():
            sums[i] = self._exactly(address, int(draws[i]), int(sites[i]), int(totals[i]))
        return np.asarray(sums[:, tree.leaves])

    def _exactly(self, address: NoiseAddress, draw: int, first_site: int, total: int) -> Integers:
        tree = self.tree
        sums = np.zeros(tree.sizes.size, dtype=np.int64)
        sums[0] = total
        site = first_site
        for node in range(tree.sizes.size):
            left, right = int(tree.lefts[node]), int(tree.rights[node])
            if left < 0:
                continue
            t = int(sums[node])
            s = exact_split(
                self.laws, (int(tree.sizes[left]), int(tree.sizes[right])), t, address, draw, site
            )
            sums[left], sums[right] = s, t - s
            site += 1
        return sums


def exact_split(
    laws: SumLaws, parts: tuple[int, int], total: int, address: NoiseAddress, draw: int, site: int
) -> int:
    """The sum of the left part, given that of both, by inversion in whole numbers.

    Args:
        laws: Of one cell.
        parts: Cells on the left and on the right.
        total: Sum of both.
        address: Of the release.
        draw: Number of the draw.
        site: Of the uniform number.
    """
    words = 1
    while words <= MOST_WORDS:
        uniform, digits = prefix(address.all_digits(draw, site), words)
        found = _decide(laws, parts, total, uniform, digits, digits + FLOAT_TABLE_BITS)
        if found is not None:
            return found
        words *= 2
    raise SolverError(
        f"{laws.law!r}: no outcome after {64 * words} digits of one draw; random digits never do this. Check that "
        "the digits come from a cipher."
    )


def candidates(centre: int) -> Iterator[int]:
    """Whole numbers outward from the centre, in the order all samplers of sums share."""
    i = 0
    while True:
        yield centre + (i + 1) // 2 if i % 2 else centre - i // 2
        i += 1


def _decide(
    laws: SumLaws, parts: tuple[int, int], total: int, uniform: int, digits: int, bits: int
) -> int | None:
    """The outcome of every uniform number with these digits, or None where more are needed."""
    here, there = laws.table(parts[0], bits), laws.table(parts[1], bits)
    n = parts[0] + parts[1]
    whole = laws.table(n, bits)
    mass = whole.at(total) << bits  # in units of 4**-bits, as products are
    slack = whole.error << bits
    # u mass / 2**digits lies in [low, high) for all u that begin so and all masses within the error.
    low = (uniform * max(mass - slack, 0)) >> digits
    high = -(-(uniform + 1) * (mass + slack) >> digits)
    cumulated = 0
    error = 0
    centre = (2 * total * parts[0] + n) // (2 * n)
    for i, s in enumerate(candidates(centre)):
        p, q = here.at(s), there.at(total - s)
        cumulated += p * q
        # (p + a)(q + b) differs from p q by at most a q + b p + a b.
        error += here.error * q + there.error * p + here.error * there.error
        if cumulated + error > low:
            return s if cumulated - error >= high else None
        if i > 2 * (whole.reach + here.reach + there.reach) + 2:
            return None
    return None
