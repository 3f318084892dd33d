"""Tables with given sums and with counts between bounds, by drawing free noise again until no count is out of bounds.

Problem. Given a true table x, wanted is a table y with A y = A x and 0 <= y_i <= u, with probability proportional to
q(y - x). A sampler draws free noise z from q on the whole lattice.

Steps. Each round first stops with probability p = 2**-16. If it does not stop, it draws z. If all counts of x + z are
between the bounds, x + z is the table. If not, the next round begins. So a round gives y with probability (1 - p)
q(y - x), and the table that comes out has exactly the wanted law.

Why it stops. The probability a that a free table is within the bounds depends on x. Without an end, draws could take
for ever where a is small, and an end after a fixed number of rounds would show more of a than the guarantee allows.
With the random stop there are at most 2**16 rounds on average, whatever x is, and a release is stopped with
probability p / (p + (1 - p) a). This probability differs by a factor of at most e^(epsilon r) between tables at
distance r. So the guarantee covers a stop, as it covers every table.

Which tables are drawn in this way. `share_within` estimates a for a typical table with the same sums, from these alone.

Worked case. For x = (5, 5) with its sum, and noise (z, -z), a is the probability of |z| <= 5.

Source: docs/proofs/integer-subspace.md, section 7.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.errors import SolverError
from tallyveil.noise.key import insecure_key
from tallyveil.noise.source import NoiseSource
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.exact.sampler import VectorSampler

STOP_BITS: Final = 16
"""A round stops with probability 2**-16. At 6 x 6 x 6 cells 2**16 rounds take about an hour."""
PILOT_ROUNDS: Final = 64
"""Rounds around a typical table, with a public key."""

_ROUND_BITS: Final = 24
"""Draw d has the free noise with the numbers from d * 2**24 on. All its rounds pass without a stop with probability
e**-256."""
_STOP_SITE: Final = 1 << 47
"""Site of the uniform number that decides whether a round stops. The samplers of free noise use smaller sites."""
_MOST_AT_ONCE: Final = 64
"""Rounds that are drawn together. They double from one round on."""
_SCALINGS: Final = 50
"""How often a typical table is fitted to each sum."""


@dataclass(frozen=True, slots=True, eq=False)
class RedrawingSampler:
    """Draws what a table from the restricted law differs by from the true one. Confidential.

    Attributes:
        free: Draws free noise.
        counts: int64 [n_cells], the true table.
        bounded: bool [n_cells], the cells that have to be within the bounds.
        largest: Largest count of a cell; None for no bound.
        stop_bits: A round stops with probability 2**-stop_bits.
    """

    free: VectorSampler
    counts: Integers
    bounded: Bools
    largest: int | None
    stop_bits: int = STOP_BITS

    @property
    def total_variation(self) -> Fraction:
        """That of one round, times the expected number of rounds."""
        return self.free.total_variation * (1 << self.stop_bits)

    def draw(self, address: NoiseAddress, draws: range | npt.ArrayLike) -> Integers:
        """Differences of the draws with these numbers, int64 [n, n_cells]; a number is below 2**12.

        Raises:
            SolverError: a draw was stopped. It is stopped again whenever it is repeated with the same key.
        """
        return np.stack([self._drawn(address, draw) for draw in np.asarray(draws, dtype=np.int64).tolist()])

    def _drawn(self, address: NoiseAddress, draw: int) -> Integers:
        first, n = draw << _ROUND_BITS, 1
        end = first + (1 << _ROUND_BITS)
        while first < end:
            rounds = np.arange(first, min(first + n, end))
            words = address.numbers(rounds, _STOP_SITE, 2)[:, 0]
            stopped = words >> np.uint64(64 - self.stop_bits) == 0
            noise = self.free.draw(address, rounds)
            over = np.flatnonzero(stopped | within(self.counts + noise, self.bounded, self.largest))
            if over.size:
                if stopped[over[0]]:
                    break
                drawn: Integers = noise[over[0]]
                return drawn
            first, n = first + n, min(2 * n, _MOST_AT_ONCE)
        raise SolverError(
            "the draw of a table without negative counts was stopped at random, which is part of its law: free noise "
            "made too many tables with a count out of bounds. The budget is spent, and no table can be published for "
            'it. For a new release use outputs = "nonnegative", which is never stopped, or more epsilon.',
            code="subspace-stopped",
        )


def within(tables: Integers | Floats, bounded: Bools, largest: int | None) -> Bools:
    """Which tables have counts from 0 to the largest in all bounded cells."""
    counts = tables[..., bounded]
    inside = counts >= 0 if largest is None else (counts >= 0) & (counts <= largest)
    return np.asarray(inside.all(axis=-1))


def typical_table(system: ConstraintSystem, totals: Integers, largest: int | None) -> Floats:
    """A table with about the given sums in which counts differ as little as the sums let them (iterative scaling).

    Sums with negative coefficients are left out. It serves a prediction only.

    Args:
        system: The constraints.
        totals: int64 [n_constraints], the sums of some table of counts.
        largest: Largest count of a cell; None for no bound.
    Returns:
        float64 [n_cells], from 0.
    """
    fitted = np.full(system.n_cells, 1.0 if largest is None else largest / 2)
    rows = [
        (row, int(total))
        for row, total in zip(system.matrix.toarray(), totals, strict=True)
        if row.any() and (row >= 0).all()
    ]
    for _ in range(_SCALINGS):
        for row, total in rows:
            now = float(row @ fitted)
            if now > 0:
                fitted *= (total / now) ** (row / row.max())
    return fitted


def share_within(free: VectorSampler, table: Floats, bounded: Bools, largest: int | None) -> Fraction:
    """The share of some rounds around a table that stay within the bounds. The noise has a public key."""
    place = NoiseAddress(NoiseSource(insecure_key("rate of redraws")), 0, 0)
    tables = table + free.draw(place, range(PILOT_ROUNDS))
    return Fraction(int(within(tables, bounded, largest).sum()), PILOT_ROUNDS)
