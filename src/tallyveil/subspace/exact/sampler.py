"""Exact samplers: one repeats trials until they succeed, the other splits sums and never fails.

Problem. Wanted are lattice vectors with exactly a given law.

Steps. `TrialSampler` runs the trials of a proposal (`proposals`, `nearest_planes`) and takes the first that succeeds.
`SplitSampler` is for lattices on which every block of like cells sums to zero: it draws the cells of each block given
that sum (`split`), and all other cells independently.

Stopping rule. A draw ends with its first successful trial. After `MOST_TRIALS` trials an error is raised.

Worked case. If trials succeed with probability 1/4, a draw takes 4 trials on average. Trials of one draw have
consecutive numbers, so the first success does not depend on how many trials are computed at once.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import Integers
from tallyveil.errors import SolverError
from tallyveil.noise.laws import Law
from tallyveil.subspace.exact.alias import LARGEST_ENTRIES
from tallyveil.subspace.exact.convolution import SumLaws
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.exact.proposals import Proposal
from tallyveil.subspace.exact.split import BlockSplitter
from tallyveil.subspace.structure import Structure

MOST_TRIALS: Final = 1 << 26
"""Number of trials of one draw after which there must be an error."""

ROUND_CELLS: Final = 1 << 20
"""Number of cells in all trials that are computed together."""

CACHED_CELLS: Final = 1 << 16
"""Number of cells that split sums draw at a time, so that their uniform numbers stay in cache."""


class VectorSampler(Protocol):
    """Draws lattice vectors of one law."""

    @property
    def total_variation(self) -> Fraction:
        """Bound on the total variation between the output and the law; 0 if the support is not truncated."""

    def draw(self, address: NoiseAddress, draws: range | npt.ArrayLike) -> Integers:
        """Vectors of the draws with these numbers, int64 [n, n_cells]."""


@dataclass(frozen=True, slots=True, eq=False)
class TrialSampler:
    """Repeats the trials of a proposal until one succeeds. The output has exactly the law.

    Attributes:
        proposal: Makes the trials.
        n_cells: Number of cells of the table.
    """

    proposal: Proposal
    n_cells: int

    @property
    def total_variation(self) -> Fraction:
        """Zero, because the support is not truncated."""
        return Fraction(0)

    def draw(self, address: NoiseAddress, draws: range | npt.ArrayLike) -> Integers:
        """Vectors of the draws with these numbers. The result for a number does not depend on the other numbers.

        Args:
            address: Place of the noise in the address space.
            draws: [n], each 0 to 2**36 - 1.
        Returns:
            int64 [n, n_cells].
        """
        wanted = np.asarray(draws, dtype=np.int64)
        out = np.empty((wanted.size, self.n_cells), dtype=np.int64)
        at_once = max(1, ROUND_CELLS // self.n_cells)
        for first in range(0, wanted.size, at_once):
            self._fill(address, wanted[first : first + at_once], out[first : first + at_once], at_once)
        return out

    def _fill(self, address: NoiseAddress, draws: Integers, out: Integers, at_once: int) -> None:
        left = np.arange(draws.size)
        trial = 0
        while left.size:
            if trial >= MOST_TRIALS:
                raise SolverError(
                    f"An exact sampler rejected {trial} trials of one draw. Use the chain sampler."
                )
            # Fewer draws left, more trials each: the cells of a round stay within `ROUND_CELLS`.
            n = max(1, min(self.proposal.trials_at_once, at_once // left.size))
            vectors, accepted = self.proposal.trials(address, draws[left], trial, n)
            hits = accepted.reshape(left.size, n)
            done = hits.any(axis=1)
            # The first success in the order of trials: any other choice would depend on how they are batched.
            first = np.argmax(hits, axis=1)
            out[left[done]] = vectors.reshape(left.size, n, -1)[np.flatnonzero(done), first[done]]
            left = left[~done]
            trial += n


@dataclass(frozen=True, slots=True, eq=False)
class SplitSampler:
    """Draws the cells of every block given that they sum to zero, and all others independently.

    Made by `split_sampler`.

    Attributes:
        law: The law of one cell.
        n_cells: Number of cells of the table.
        free: Cells in no block.
        blocks: Cells of each block.
        splitters: One for each block.
    """

    law: Law
    n_cells: int
    free: Integers
    blocks: tuple[Integers, ...]
    splitters: tuple[BlockSplitter, ...]

    @property
    def total_variation(self) -> Fraction:
        """Zero, because the support is not truncated."""
        return Fraction(0)

    def draw(self, address: NoiseAddress, draws: range | npt.ArrayLike) -> Integers:
        """Vectors of the draws with these numbers, int64 [n, n_cells]."""
        wanted = np.asarray(draws, dtype=np.int64)
        out = np.empty((wanted.size, self.n_cells), dtype=np.int64)
        at_once = max(1, CACHED_CELLS // self.n_cells)
        for first in range(0, wanted.size, at_once):
            self._fill(address, wanted[first : first + at_once], out[first : first + at_once])
        return out

    def _fill(self, address: NoiseAddress, draws: Integers, out: Integers) -> None:
        if self.free.size:
            out[:, self.free] = address.cells(self.law, draws, 0, self.free.size)
        words = address.numbers(draws, 0, sum(splitter.n_sites for splitter in self.splitters))
        site = 0
        for block, splitter in zip(self.blocks, self.splitters, strict=True):
            splitter.fill(words[:, site : site + block.size - 1], address, draws, site, block, out)
            site += splitter.n_sites


def split_sampler(law: Law, structure: Structure, n_cells: int) -> SplitSampler:
    """Prepare a sampler for a structure whose block sums are all zero (`Structure.sums_vanish`)."""
    laws = SumLaws(law)
    # Like cells have one law, so blocks of one size share their tables.
    sizes = {int(block.size) for block in structure.blocks}
    part = LARGEST_ENTRIES // max(len(sizes), 1)
    by_size = {size: BlockSplitter.build(laws, size, alias_entries=part) for size in sizes}
    splitters = tuple(by_size[int(block.size)] for block in structure.blocks)
    return SplitSampler(law, n_cells, structure.free, structure.blocks, splitters)


def acceptance_rate(proposal: Proposal, address: NoiseAddress, n_trials: int = 4096) -> float:
    """The fraction of some trials that succeed, without data. It is an estimate, used only for choosing a sampler."""
    if proposal.always_accepts:
        return 1.0
    _, accepted = proposal.trials(address, np.zeros(1, dtype=np.int64), 0, n_trials)
    return float(accepted.mean())
