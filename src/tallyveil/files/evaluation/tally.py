"""A tally of integer errors. It is exact, and small for any number of answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tallyveil.arrays import Integers


@dataclass(frozen=True, slots=True, eq=False)
class ErrorTally:
    """Errors (estimate minus truth) of some answers, by the number of times each absolute error occurs.

    Attributes:
        n_geounits: Number of geounits whose answers are tallied.
        n_answers: Number of answers, including exact ones.
        sizes: Absolute errors above zero that occur, increasing; shape (k,).
        times: Number of times each occurs; shape (k,).
        signed_sum: Sum of the errors.
        true_sum: Sum of the true answers.
    """

    n_geounits: int
    n_answers: int
    sizes: Integers
    times: Integers
    signed_sum: int
    true_sum: int

    @property
    def absolute_sum(self) -> int:
        """Sum of the absolute errors."""
        return int(self.sizes @ self.times)

    @property
    def mean_absolute_error(self) -> float:
        """Mean over all answers, in records."""
        return self.absolute_sum / self.n_answers

    @property
    def mean_squared_error(self) -> float:
        """Mean of the squared errors over all answers, in records squared; rounded once."""
        pairs = zip(self.sizes.tolist(), self.times.tolist(), strict=True)
        return float(Fraction(sum(size * size * times for size, times in pairs), self.n_answers))

    @property
    def bias(self) -> float:
        """Mean signed error over all answers, in records. It is positive if estimates are too high."""
        return self.signed_sum / self.n_answers

    @property
    def relative_l1(self) -> float | None:
        """Sum of absolute errors divided by the sum of true answers; None if the latter is zero."""
        return self.absolute_sum / self.true_sum if self.true_sum else None

    def quantile(self, percent: int) -> int:
        """Smallest error that at least `percent` percent of the answers do not exceed, in records."""
        rank = -(-self.n_answers * percent // 100)
        n_exact = self.n_answers - int(self.times.sum())
        if rank <= n_exact:
            return 0
        reached = n_exact + np.cumsum(self.times)
        return int(self.sizes[np.searchsorted(reached, rank)])


def tally_errors(errors: Integers, *, n_geounits: int, n_answers: int, true_sum: int) -> ErrorTally:
    """Make a tally from errors. The list of errors need not contain the exact answers.

    Args:
        errors: The nonzero errors, in any order. Zeros may be included.
        n_geounits, n_answers, true_sum: As in `ErrorTally`.
    """
    sizes, times = np.unique(np.abs(errors[errors != 0]), return_counts=True)
    return ErrorTally(
        n_geounits, n_answers, sizes, times.astype(np.int64, copy=False), int(errors.sum()), true_sum
    )


def merge_tallies(tallies: Sequence[ErrorTally]) -> ErrorTally:
    """Merge tallies of separate answers into one. There must be at least one."""
    sizes = np.concatenate([tally.sizes for tally in tallies])
    times = np.concatenate([tally.times for tally in tallies])
    distinct, place = np.unique(sizes, return_inverse=True)
    summed = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(summed, place, times)
    return ErrorTally(
        n_geounits=sum(tally.n_geounits for tally in tallies),
        n_answers=sum(tally.n_answers for tally in tallies),
        sizes=distinct,
        times=summed,
        signed_sum=sum(tally.signed_sum for tally in tallies),
        true_sum=sum(tally.true_sum for tally in tallies),
    )
