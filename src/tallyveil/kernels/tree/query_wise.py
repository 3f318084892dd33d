"""The sweep up the tree in which every query goes up by itself.

Problem. The blocks of the full covariances can be too large (`tallyveil.kernels.tree.upward`). Then each answer is
estimated from the answers of the same query alone.

Variables, for each answer of each query. v is the estimate and s its variance; s is infinity where nothing is known,
and zero where the answer is known exactly. Over children both add up.

Step. A geounit's own noisy answer y with variance r gives v += s / (s + r) (y - v) and s = s r / (s + r); if s is
infinity, v = y and s = r. An exact answer t gives v = t and s = 0.

If all geounits of a geolevel have equally many children and the same precisions, and if nothing is known to be zero,
least squares of these estimates with the weights 1 / s is the best estimate of the cells. Otherwise the estimates are
unbiased, and their variance is larger than the least one.

Worked case. Two children have variance 1 each and the geounit is measured with variance 1: s = 2, so that v moves by
2/3 of the difference and s becomes 2/3.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Floats, Integers
from tallyveil.kernels.compiled import njit
from tallyveil.kernels.tree.upward import Alike, ChildSums, Told


class AnswerPlaces(NamedTuple):
    """Where the answers of U queries are in the rows of one geolevel.

    Attributes:
        begin: Where each query begins in a row of estimates. [U + 1]
        query: Number of the query among those measured at the geolevel, -1: none. [U]
        measured: Where it begins in a row of noisy answers. [U]
        exact: Where it begins in a row of exact answers, -1: it is not exact. [U]
    """

    begin: Integers
    query: Integers
    measured: Integers
    exact: Integers


@njit(nogil=True, cache=True)
def add_finest_answers(
    places: AnswerPlaces, variances: Floats, alike: Alike, sums: ChildSums, first: int, last: int
) -> None:
    """Add the finest geounits of parents first..last to the parents' sums.

    Args:
        places: Of the finest geolevel.
        variances: Variance of each answer of one geounit, from its noisy answer and zeros; one row a kind.
        alike: Groups of geounits of one kind.
        sums: Changed.
        first: First parent.
        last: One past the last.
    """
    for p in range(first, last):
        for g in range(alike.begin[p], alike.begin[p + 1]):
            # Geounits of one kind have equal variances, so the group's is `number` times one geounit's, without a
            # loop over them.
            kind, number = alike.signature[g], alike.number[g]
            for u in range(places.query.size):
                for k in range(places.begin[u + 1] - places.begin[u]):
                    at = places.begin[u] + k
                    variance = variances[kind, at]
                    # Variance 0 is a known zero: it adds nothing to the estimate and nothing to the variance.
                    if variance > 0.0:
                        # An exact answer wins over a noisy one of the same query. Its variance is 0, so that only
                        # the estimate grows.
                        if places.exact[u] >= 0:
                            sums.estimates[p, at] += alike.exact[g, places.exact[u] + k]
                        elif places.query[u] >= 0 and variance < np.inf:
                            sums.estimates[p, at] += alike.values[g, places.measured[u] + k]
                            sums.spread[p, at] += number * variance
                        # Neither measured nor exact: from here on the sum is unknown, whatever the other children
                        # say.
                        else:
                            sums.spread[p, at] = np.inf


@njit(nogil=True, cache=True)
def learn_answers(
    places: AnswerPlaces, told: Told, sums: ChildSums, first: int, last: int, out: Floats
) -> None:
    """Turn the sums over the children of geounits first..last into the geounits' own estimates.

    Args:
        places: Of their geolevel.
        told: The answers.
        sums: Changed.
        first: First geounit.
        last: One past the last.
        out: Estimates of the answers that the geolevel measures, as in a row of noisy answers.
    """
    for g in range(first, last):
        # One row if all geounits of the geolevel have the same precisions, which is the common case.
        precisions = told.precisions[g if told.precisions.shape[0] > 1 else 0]
        v, s = sums.estimates[g], sums.spread[g]
        for u in range(places.query.size):
            q, begin = places.query[u], places.begin[u]
            for k in range(places.begin[u + 1] - begin):
                at = begin + k
                # Set, not moved: what the children said of an answer that is known exactly is dropped.
                if places.exact[u] >= 0:
                    v[at], s[at] = told.exact[g, places.exact[u] + k], 0.0
                # s = 0 means known already: a measurement could only move it by 0.
                elif q >= 0 and precisions[q] > 0.0 and s[at] > 0.0:
                    y, r = told.values[g, places.measured[u] + k], 1.0 / precisions[q]
                    # The limit of the rule below for large s, stated by itself since infinity / infinity is not a
                    # number.
                    if s[at] == np.inf:
                        v[at], s[at] = y, r
                    else:
                        # Written by differences: v moves by a part of y - v, which keeps digits where both are
                        # large and close.
                        part = s[at] / (s[at] + r)
                        v[at] += part * (y - v[at])
                        # s r / (s + r), from the same quotient.
                        s[at] = part * r
                if q >= 0:
                    out[g, places.measured[u] + k] = v[at]
