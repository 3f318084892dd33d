"""A tally of whole-number errors: small whatever the number of answers, and exact."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tallyveil.arrays import Integers


@dataclass(frozen=True, slots=True, eq=False)
class ErrorTally:
    """Errors (estimate minus truth) of some answers, by how often each absolute error occurs.

    Attributes:
        n_geounits: Geounits whose answers are tallied.
        n_answers: Answers, the exact ones too.
        sizes: Absolute errors above zero that occur, rising; shape (k,).
        times: How often each occurs; shape (k,).
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
        """Mean over all answers, records."""
        return self.absolute_sum / self.n_answers

    @property
    def bias(self) -> float:
        """Mean signed error over all answers, records: positive where estimates are too high."""
        return self.signed_sum / self.n_answers

    @property
    def relative_l1(self) -> float | None:
        """Sum of absolute errors over the sum of true answers; None where the latter is zero."""
        return self.absolute_sum / self.true_sum if self.true_sum else None

    def quantile(self, percent: int) -> int:
        """Smallest error that at least `percent` of a hundred answers do not exceed, records."""
        rank = -(-self.n_answers * percent // 100)
        n_exact = self.n_answers - int(self.times.sum())
        if rank <= n_exact:
            return 0
        reached = n_exact + np.cumsum(self.times)
        return int(self.sizes[np.searchsorted(reached, rank)])


def tally_errors(errors: Integers, *, n_geounits: int, n_answers: int, true_sum: int) -> ErrorTally:
    """Tally errors given without the exact answers among them.

    Args:
        errors: The errors that are not zero (zeros do no harm); any order.
        n_geounits, n_answers, true_sum: As in `ErrorTally`.
    """
    sizes, times = np.unique(np.abs(errors[errors != 0]), return_counts=True)
    return ErrorTally(
        n_geounits, n_answers, sizes, times.astype(np.int64, copy=False), int(errors.sum()), true_sum
    )


def merge_tallies(tallies: Sequence[ErrorTally]) -> ErrorTally:
    """One tally of answers tallied apart; at least one is needed."""
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
