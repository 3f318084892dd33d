"""Exact samplers: trials repeated until they succeed, and the l2 Laplace law as a mixture of Gaussians."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from tallyveil.errors import SolverError
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.exact.proposals import Proposal

Integers = npt.NDArray[np.int64]

MOST_TRIALS: Final = 1 << 26
"""Trials of one draw after which something must be wrong."""

ROUND_CELLS: Final = 1 << 20
"""Cells of all trials that run side by side."""

CACHED_CELLS: Final = 1 << 17
"""Cells drawn at a time where nothing is tried: few enough to stay in cache on their way."""


class VectorSampler(Protocol):
    """Draws lattice vectors of one law."""

    @property
    def total_variation(self) -> Fraction:
        """Bound on the total variation between the output and the law; 0 where the support is not cut."""

    def draw(self, address: NoiseAddress, draws: range | npt.ArrayLike) -> Integers:
        """Vectors of the draws with these numbers, int64 [n, n_cells]."""


@dataclass(frozen=True, slots=True, eq=False)
class TrialSampler:
    """Repeats the trials of a proposal until one succeeds: exact in law, nothing cut.

    Attributes:
        proposal: Whose trials are repeated.
        n_cells: Of the table.
    """

    proposal: Proposal
    n_cells: int

    @property
    def total_variation(self) -> Fraction:
        """Zero: nothing is cut."""
        return Fraction(0)

    def draw(self, address: NoiseAddress, draws: range | npt.ArrayLike) -> Integers:
        """Vectors of the draws with these numbers; which numbers are asked for together changes nothing.

        Args:
            address: Where the noise lies.
            draws: [n], each 0 to 2**36 - 1.
        Returns:
            int64 [n, n_cells].
        """
        wanted = np.asarray(draws, dtype=np.int64)
        out = np.empty((wanted.size, self.n_cells), dtype=np.int64)
        if self.proposal.always_accepts:
            at_once = max(1, CACHED_CELLS // self.n_cells)
            for first in range(0, wanted.size, at_once):
                some = wanted[first : first + at_once]
                out[first : first + at_once] = self.proposal.trials(address, some, 0, 1)[0]
            return out
        at_once = max(1, ROUND_CELLS // self.n_cells)
        for first in range(0, wanted.size, at_once):
            self._fill(address, wanted[first : first + at_once], out[first : first + at_once], at_once)
        return out

    def _fill(self, address: NoiseAddress, draws: Integers, out: Integers, at_once: int) -> None:
        left = np.arange(draws.size)
        trial = 0
        while left.size:
            if trial >= MOST_TRIALS:
                raise SolverError(f"An exact sampler made {trial} trials of one draw. Use the chain sampler.")
            n = max(1, min(1024, at_once // left.size))
            vectors, accepted = self.proposal.trials(address, draws[left], trial, n)
            hits = accepted.reshape(left.size, n)
            done = hits.any(axis=1)
            first = np.argmax(hits, axis=1)
            out[left[done]] = vectors.reshape(left.size, n, -1)[np.flatnonzero(done), first[done]]
            left = left[~done]
            trial += n


def acceptance_rate(proposal: Proposal, address: NoiseAddress, n_trials: int = 4096) -> float:
    """The share of trials that succeed, from a data-free look at some of them; an estimate for choosing only."""
    if proposal.always_accepts:
        return 1.0
    _, accepted = proposal.trials(address, np.zeros(1, dtype=np.int64), 0, n_trials)
    return float(accepted.mean())
