"""Mean variances of answers over geolevels and families of entities, for any shares, with their derivatives."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from tallyveil.arrays import Floats
from tallyveil.budget.optimal.solve import Evaluated
from tallyveil.estimation.intervals.by_share.dual import Dual
from tallyveil.estimation.intervals.by_share.measured import BlockPart, MeasuredQueries


class AskedVariance(NamedTuple):
    """One mean variance: of a query's answers, over a geolevel (its position) or a family of entities (its name)."""

    area: int | str
    query: str


class ByShare(Protocol):
    """Mean variances of what is asked, as functions of the shares."""

    def at(self, shares: Floats, *, known: float = 1.0, unknown: float = 1.0) -> Evaluated:
        """The variances at some shares; see `VariancesByShare.at`."""
        ...


@dataclass(frozen=True, eq=False)
class Added:
    """Variances that are sums of independent terms.

    Attributes:
        terms: The terms, for the same shares and what is asked.
    """

    terms: Sequence[ByShare]

    def at(self, shares: Floats, *, known: float = 1.0, unknown: float = 1.0) -> Evaluated:
        """The variances at some shares; see `VariancesByShare.at`."""
        evaluated = [term.at(shares, known=known, unknown=unknown) for term in self.terms]
        return Evaluated(
            np.sum([term.values for term in evaluated], axis=0),
            np.sum([term.slopes for term in evaluated], axis=0),
        )


AT_ONCE = 1 << 21
"""Numbers in the derivatives of the covariances of one geolevel, about. Classes of blocks are worked on one run after
the other, so that a nation with tens of thousands of kinds of tracts needs no more memory than one class does."""


class Estimator(Protocol):
    """How estimates are made from measurements.

    Attributes:
        n_matrices: Largest number of covariance matrices of one geolevel.
    """

    @property
    def n_matrices(self) -> int: ...

    def means(self, information: list[Dual], areas: Iterable[int | str]) -> dict[int | str, Dual]:
        """The mean covariance of every area, from the precision of one geounit of each geolevel."""


@dataclass(frozen=True, eq=False)
class VariancesByShare:
    """Mean variances of what is asked, for any shares.

    Attributes:
        queries: What is measured.
        estimator: How estimates are made.
        asked: What is asked.
    """

    queries: MeasuredQueries
    estimator: Estimator
    asked: Sequence[AskedVariance]

    def at(self, shares: Floats, *, known: float = 1.0, unknown: float = 1.0) -> Evaluated:
        """The variances at some shares.

        Args:
            shares: Above 0; shape (shares,).
            known: Factor on the precision of exact answers.
            unknown: Factor on the least precision of directions that nothing may inform about.
        """
        # Areas once each, in the order asked: several queries share their covariances.
        n_levels, areas = self.queries.n_levels, dict.fromkeys(area for area, _ in self.asked)
        values = np.zeros(len(self.asked))
        slopes = np.zeros((len(self.asked), len(shares)))
        # Parts and runs of classes are independent: variances and slopes add up.
        for number, (part, grams) in enumerate(zip(self.queries.parts, self._grams, strict=True)):
            for run in self._runs(part):
                information = self.queries.information(number, run, shares, known, unknown)
                means = self.estimator.means(information, areas)
                weights, rank = part.weights[:, run], part.directions.shape[1]
                for place, (area, _) in enumerate(self.asked):
                    mean, gram = means[area], grams[place][run]
                    values[place] += float(np.sum(mean.value[0] * gram))
                    slope = np.einsum("tcij,cij->tc", mean.slope[0], gram)
                    # Derivatives along directions; the chain rule turns them into derivatives by shares.
                    along = slope.reshape(n_levels, rank, len(gram))[self.queries.level]
                    slopes[place] += np.einsum("scr,src->s", weights, along)
        return Evaluated(values, slopes)

    def _runs(self, part: BlockPart) -> list[slice]:
        """Runs of classes whose matrices need little memory together."""
        classes, rank, dim, _ = part.directions.shape
        each = self.estimator.n_matrices * self.queries.n_levels * rank * dim * dim
        # At least one class, even if it alone needs more.
        length = max(1, AT_ONCE // each)
        return [slice(start, start + length) for start in range(0, classes, length)]

    @cached_property
    def _grams(self) -> list[list[Floats]]:
        """For each part, the Gram blocks of everything asked."""
        schema = self.queries.algebra.schema
        by_query = {query: self.queries.grams(schema.query(query)) for _, query in self.asked}
        return [[by_query[query][part] for _, query in self.asked] for part in range(len(self.queries.parts))]
