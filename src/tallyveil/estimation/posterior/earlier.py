"""How public counts of an earlier census enter the model of who lives in a geounit.

The counts are of the geounits of one geolevel. Without them, the expected shares of a geounit in the prior are the
shares of the geounit above. With them, the expected shares of a geounit of this geolevel, or of the divisions of a
block, are a weighted mean of two shares (`kernels.posterior.moves.centre`). The weight `renewal` is that of the shares
of the geounit above. The rest of the weight is that of the shares in the earlier census, after `discount` persons with
the shares of the geounit above have been added to its persons.

The discount makes the file count little where few persons lived: a group of 3 persons says little of how it is divided,
one of 300 much, and a geounit where nobody lived nothing. The renewal stands for people who came since and are like
those around them. Without it, a large block could hardly have people of a group that had nobody there before. Each
attribute has one discount and one renewal for all geounits, which are learned from the measurements. Where the counts
are wrong, the renewal becomes nearly 1 or the discount large, and then the file has little influence.

A file need not have all attributes of the schema. For an attribute that it lacks, the shares above stay the expected
ones. Groups that differ only by such an attribute have the same counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tallyveil.arrays import Floats, Int32s, Integers
from tallyveil.kernels.posterior.moves import Earlier, Steps
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema


@dataclass(frozen=True, slots=True, eq=False)
class EarlierCensus:
    """Public counts of an earlier census.

    Attributes:
        level: Number of the geolevel of the spine, root first; not the root.
        query: What is counted: a query whose answers are levels of some attributes.
        counts: A sparse array of scipy of whole numbers, in all at most 2^30; shape (geounits, query.size).
    """

    level: int
    query: QueryGroup
    counts: Any

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that it has."""
        return tuple(factor.attribute for factor in self.query.named_factors)


@dataclass(frozen=True, slots=True, eq=False)
class EarlierShapes:
    """The counts of an earlier census for the geounits and groups of the prior.

    Attributes:
        row: Geolevel of the prior: 0 for blocks, 1 for families, and so on.
        counts: Persons of each group; shape (geounits, columns), with 0 geounits if there is no earlier census.
        named_steps: Steps of the attributes that it has, in the order of discounts and renewals.
        step: Step of each column.
    """

    row: int
    counts: Int32s
    named_steps: Integers
    step: Int32s

    @classmethod
    def none(cls, step: Int32s) -> "EarlierShapes":
        """No earlier census."""
        return cls(0, np.zeros((0, len(step)), np.int32), np.zeros(0, np.int64), step)

    @classmethod
    def of(
        cls,
        census: EarlierCensus,
        schema: Schema,
        steps: Steps,
        attributes: Sequence[str],
        row: int,
        geounit: Integers,
    ) -> "EarlierShapes":
        """Lay out an earlier census for the prior: persons of each of its groups in each of its geounits.

        Args:
            census: The earlier census.
            schema: The universe.
            steps: The steps.
            attributes: The attribute of each step after the first.
            row: Geolevel of the prior.
            geounit: The spine's geounit of each geounit of the prior there.
        """
        from scipy.sparse import csr_array

        cells = np.flatnonzero(schema.possible(np.arange(schema.size)))
        answer = np.asarray(census.query.answers_of(cells), np.int64)
        # Of each group, the answers that count a possible cell of it: then groups have the sum of their parts.
        pairs = np.unique(
            np.concatenate([np.stack([answer, columns[cells]], axis=1) for columns in steps.group]), axis=0
        )
        counted = csr_array(
            (np.ones(len(pairs), np.int32), (pairs[:, 0], pairs[:, 1])), (census.query.size, len(steps.step))
        )
        named_steps = [step for step, name in enumerate(attributes) if name in census.attributes]
        counts = (csr_array(census.counts)[geounit] @ counted).toarray()
        return cls(row, np.ascontiguousarray(counts, np.int32), np.array(named_steps, np.int64), steps.step)

    @property
    def tied(self) -> Integers:
        """For each column, the number of the discount and renewal of its step; -1 if the file lacks the attribute."""
        place = np.searchsorted(self.named_steps, self.step)
        return np.where(np.isin(self.step, self.named_steps), place, -1)

    def at(self, row: int, discount: Floats, renewal: Floats) -> Earlier:
        """The earlier census at a geolevel of the prior, with a discount and a renewal for each of `named_steps`."""
        # The renewal of other steps is 1, so that only the shares of the geounit above count.
        return Earlier(
            self.counts if row == self.row else self.counts[:0],
            np.append(discount, 1.0)[self.tied],
            np.append(renewal, 1.0)[self.tied],
        )
