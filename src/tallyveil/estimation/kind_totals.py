"""How many records of a class are of each kind: expected from facilities alone, and from noisy sums of several kinds.

*Problem.* In some finest geounits the records of a class, such as people in institutions, are of several kinds, and
how many are of each is not known. A kind has f facilities, of F in all, and r records of the class are left when
every facility has one. Measurements of a geounit and of those above it are noisy sums over some kinds.

*Before measurements*, every way to divide the r records among the F facilities is taken to be equally likely. Then
a kind with the share p = f / F of the facilities gets r p of them on average. The variance of its number is
r (r + F) / (1 + F) times p (1 - p), and the covariance of two kinds with the shares p and q is the same factor times
-p q. Geounits are independent, so that their covariances add up to that of a geounit above. This law is chosen and
not estimated: types of facilities may have different sizes.

*Step.* The numbers of a geounit are taken to be normal. Let a noisy sum have noise of variance v, and let its true
value have the covariance h with each number, and the variance s, which is the sum of h over the kinds in the sum. If
the noisy sum exceeds its expectation by d, the expected numbers change by d h / (s + v), and their covariance falls
by h h' / (s + v). Sums are used one after another, which gives the same result as all at once. A number that is known
exactly is a sum with v = 0.

*Division.* The number Y of a parent is divided into whole numbers y of its children, within limits l <= y <= u, at the
least sum of (y - t)^2 / v, for the mean t and variance v of each child. One more record raises the sum by
(2 y + 1 - 2 t) / v, which grows with y. So records are added where they raise it least, until there are Y: this is
optimal, since each term is convex. If two children are equal in this, the record goes to the first.

Worked case: children with t = 2.2 and 5.2, v = 1 and 3, and Y = 9. In real numbers, the missing 1.6 would be divided
into 0.4 and 1.2, which gives 2.6 and 6.4. The whole numbers with the least sum are 3 and 6, with
0.64 + 0.64 / 3 = 0.85; 2 and 7 have 1.12.

All sums are of a few terms in a fixed order, without BLAS, so that numbers are the same on every machine.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from tallyveil.arrays import Bools, Floats, Integers

SMALLEST_VARIANCE: Final = 2.0**-10
"""Squared records. A number with a smaller variance counts as known. Rounding of floats leaves less than this of the
variance of a million records. The variance of a single record, p (1 - p), is larger unless a kind has less than a
thousandth of the facilities, so that only for such kinds results depend on this constant."""


def spread_among_facilities(rest: Integers, facilities: Integers) -> Floats:
    """Covariances of the numbers of kinds, if every way to divide records among facilities is equally likely.

    Args:
        rest: Records that are left when every facility has one, shape (geounits,).
        facilities: Facilities of each kind, shape (geounits, kinds).
    Returns:
        Shape (geounits, kinds, kinds), in squared records.
    """
    whole = facilities.sum(axis=1)
    share = facilities / np.maximum(whole, 1)[:, None]
    scale = rest * ((rest + whole) / (1.0 + whole))
    among = np.eye(facilities.shape[1]) * share[:, :, None] - share[:, :, None] * share[:, None, :]
    spread: Floats = scale[:, None, None] * among
    return spread


@dataclass(slots=True, eq=False)
class KindTotals:
    """What is known of the numbers of kinds in some geounits, as differences from the division by facilities.

    Attributes:
        mean: Expected differences, shape (geounits, kinds).
        covariance: In squared records, shape (geounits, kinds, kinds).
    """

    mean: Floats
    covariance: Floats

    def observe(self, of_sum: Bools, value: Floats, variance: Floats) -> None:
        """Condition the numbers of every geounit on a sum over kinds.

        Args:
            of_sum: Whether each kind is in the sum, shape (kinds,).
            value: The measured sum, less that of the division by facilities; shape (geounits,).
            variance: Variance of its noise; 0 where it is exact, and infinite where it was not measured.
        """
        mean, spread = np.zeros_like(value), variance.copy()
        with_sum = np.zeros_like(self.mean)
        for kind in np.flatnonzero(of_sum):
            mean += self.mean[:, kind]
            with_sum += self.covariance[:, :, kind]
        for kind in np.flatnonzero(of_sum):
            spread += with_sum[:, kind]
        # An exact sum of numbers that are known already changes nothing.
        is_new = spread > SMALLEST_VARIANCE
        gain = np.where(is_new[:, None], with_sum / np.where(is_new, spread, 1.0)[:, None], 0.0)
        self.mean += gain * (value - mean)[:, None]
        self.covariance -= gain[:, :, None] * with_sum[:, None, :]

    def of_kind(self, kind: int) -> tuple[Floats, Floats]:
        """Mean and variance of the number of a kind, both of shape (geounits,)."""
        return self.mean[:, kind], np.maximum(self.covariance[:, kind, kind], SMALLEST_VARIANCE)


def nearest_split(total: int, mean: Floats, variance: Floats, lower: Integers, upper: Integers) -> Integers:
    """Whole numbers within limits that add up to a total and are nearest to their means.

    Args:
        total: The total, between the sums of the limits.
        mean: What each number should be near, shape (children,).
        variance: In squared records, above zero.
        lower: Smallest numbers.
        upper: Largest numbers.
    Returns:
        The numbers with the least sum of squared distances from the means, each divided by the variance.
    """
    room = upper - lower
    child = np.repeat(np.arange(len(room)), room)
    # The records of a child are numbered from its lower limit, so that each one's cost is that of one more.
    place = np.arange(len(child)) - np.repeat(np.cumsum(room) - room, room)
    cost = (lower[child] + place + 0.5 - mean[child]) / variance[child]
    # Stable, so that ties are served in the same order on every machine.
    taken = np.argsort(cost, kind="stable")[: total - int(lower.sum())]
    numbers: Integers = lower + np.bincount(child[taken], minlength=len(room))
    return numbers
