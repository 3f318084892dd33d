"""How public counts of an earlier census enter the model of who lives in a geounit.

The counts are of the geounits of one geolevel. In the prior, the shares of such a geounit, or the divisions of a block,
are no longer around the shares of the geounit above alone. A part of what they are around, `renewal`, is these shares.
The rest is the shares in the earlier census, once `discount` persons with the shares of the geounit above are added to
its persons (`kernels.posterior.moves.centre`).

So a group of 3 persons says little of its own shares and one of 300 much, and a geounit where nobody lived says
nothing. The renewal is as of people who came since, and are like those around: without it, a group that nobody of a
large block belonged to could hardly have come. Each step of divisions has one discount and one renewal for all
geounits, which are learned from the measurements: where the counts are wrong, the renewal becomes nearly 1, or the
discount large, and then they say nothing.

A file need not have all attributes. Divisions by another one stay around the shares above. Groups that differ by
another one alone have the same shares in the file.
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
    """The same by the geounits and groups of the prior.

    Attributes:
        row: Geolevel of the prior: 0 for blocks, 1 for families, and so on.
        counts: Persons of each group; shape (geounits, columns); without geounits if there is no earlier census.
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
        """Sum counts of cells to groups.

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
        """Number of the discount and renewal of each column's division; -1 where it says nothing of it."""
        place = np.searchsorted(self.named_steps, self.step)
        return np.where(np.isin(self.step, self.named_steps), place, -1)

    def at(self, row: int, discount: Floats, renewal: Floats) -> Earlier:
        """What it says of a geolevel of the prior, with the discount and the renewal of each step that it tells."""
        # Of other steps it says nothing: the renewal is 1.
        return Earlier(
            self.counts if row == self.row else self.counts[:0],
            np.append(discount, 1.0)[self.tied],
            np.append(renewal, 1.0)[self.tied],
        )
