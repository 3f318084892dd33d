"""Which counts are sensitive: by a threshold, by dominance, or by the p % rule, from what each contributor adds.

A contributor, such as an establishment, a hospital or a household, adds as many records to a cell as it has there. Let
the contributions be x1 >= x2 >= ... with the sum X.

- *Threshold t*: sensitive if 0 < X < t.
- *Dominance (n, k)*: sensitive if the n largest contributions are more than k % of X: users would know a large
  contributor nearly exactly.
- *p %*: sensitive if X - x1 - x2 < p % of x1: the second largest contributor, who subtracts his own, would know the
  largest to within p %.

Where each record is a contributor of its own, every contribution is 1. The (n, k) rule then is the threshold
X < 100 n / k, and the p % rule is X <= 2 for every p up to 100: they say nothing that a threshold does not say.

Source: Hundepool et al. 2012, section 4.2.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import sparse

from tallyveil.arrays import Bools, Integers
from tallyveil.compare.inputs import Areas, SharedInput
from tallyveil.schema.query_group import QueryGroup


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules of which any makes a count sensitive.

    Attributes:
        threshold: Counts from 1 to below this are sensitive; None for no such rule.
        largest, percent: n and k of the dominance rule; None for no such rule.
        p: Of the p % rule; None for no such rule.
    """

    threshold: int | None
    largest: int | None
    percent: Fraction | None
    p: Fraction | None

    @property
    def looks_at_contributors(self) -> bool:
        """Whether a rule needs to know what each contributor adds."""
        return self.largest is not None or self.p is not None

    def sensitive(self, total: Integers, first: Integers, second: Integers, largest: Integers) -> Bools:
        """Which counts are sensitive; all arguments and the result have one shape.

        Args:
            total: The counts.
            first, second: The two largest contributions; 0 where there is none.
            largest: The sum of the `self.largest` largest contributions.
        """
        flags = np.zeros(total.shape, dtype=np.bool_)
        if self.threshold is not None:
            flags |= total < self.threshold
        if self.percent is not None:
            # Whole numbers throughout: a share of p / q per cent.
            flags |= 100 * self.percent.denominator * largest > self.percent.numerator * total
        if self.p is not None:
            rest = total - first - second
            flags |= 100 * self.p.denominator * rest < self.p.numerator * first
        return flags & (total > 0)

    def of_counts(self, counts: Integers) -> Bools:
        """The same where every record is a contributor of its own."""
        first = np.minimum(counts, 1)
        second = np.minimum(counts, 2) - first
        return self.sensitive(counts, first, second, np.minimum(counts, self.largest or 0))

    def of_table(self, shared: SharedInput, areas: Areas, query: QueryGroup) -> Bools:
        """Which true counts of a table are sensitive; shape (n_areas, query.size)."""
        total = shared.truth[areas.name, query.name]
        if shared.contributor is None or not self.looks_at_contributors:
            return self.of_counts(total)
        geounits, cells = np.divmod(
            np.repeat(np.arange(shared.counts.size), shared.counts.ravel()), shared.counts.shape[1]
        )
        record, answer = query.counted_in(cells)
        place = areas.place[geounits[record]]
        inside = place >= 0
        group = place[inside] * query.size + answer[inside]
        parts = self._of_groups(group, shared.contributor[record[inside]], total.size)
        return self.sensitive(total, *(part.reshape(total.shape) for part in parts))

    def of_unions(self, members: Bools, contributions: sparse.csr_matrix) -> Bools:
        """Which unions of geounits have a sensitive count.

        Args:
            members: Which geounits each union has, shape (n_unions, n_geounits).
            contributions: What each contributor adds in each geounit, shape (n_geounits, n_contributors).
        """
        added = np.sort(np.asarray(members.astype(np.int64) @ contributions), axis=1)[:, ::-1]
        padded = np.pad(added, ((0, 0), (0, 2)))
        return self.sensitive(
            added.sum(axis=1), padded[:, 0], padded[:, 1], added[:, : self.largest or 0].sum(axis=1)
        )

    def _of_groups(
        self, group: Integers, contributor: Integers, n_groups: int
    ) -> tuple[Integers, Integers, Integers]:
        """The two largest contributions of each group, and the sum of the largest."""
        pairs, amount = np.unique(np.stack([group, contributor]), axis=1, return_counts=True)
        order = np.lexsort((-amount, pairs[0]))
        where, amount = pairs[0][order], amount[order].astype(np.int64)
        rank = np.arange(where.size) - np.searchsorted(where, where)
        first, second, largest = (np.zeros(n_groups, dtype=np.int64) for _ in range(3))
        first[where[rank == 0]] = amount[rank == 0]
        second[where[rank == 1]] = amount[rank == 1]
        most = rank < (self.largest or 0)
        np.add.at(largest, where[most], amount[most])
        return first, second, largest
