"""Measurements of very many tiny countries at once, by the measuring code of the TopDown release.

Every country is a release of its own: it has its own root, and noise of its own, because addresses differ. All
countries of a side are alike, so that one call measures as many independent releases as there are countries.

A country has the counties A and B, of two blocks and one. The person lives alone in the first block of A. On the other
side the person is absent (unbounded neighbours) or lives in the block of B and has other characteristics (bounded). So
all answers move that can move. The adversary knows everybody else.

An output has the published measurements, and beside them the answers that families are estimated from. Both should be
the same numbers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from tests.auditors.drawing.claims import claim_of
from tests.auditors.drawing.evidence import Measured, scores
from tests.auditors.outputs import Outputs
from tests.histograms import histogram_from_triplets

from tallyveil.accounting import Neighbours
from tallyveil.budget.allocation import allocation_of
from tallyveil.budget.queries import sensitivities_of
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.confidential.histogram import aggregate_all
from tallyveil.confidential.measure import Measurer
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.measurements.answers import answers_on_support
from tallyveil.noise import NoiseSource, insecure_key
from tallyveil.schema.attribute import Attribute, Recode
from tallyveil.schema.schema import Schema

Integers = NDArray[np.int64]

LEVELS = ("Country", "County", "Block")
BLOCKS = ("A1", "A2", "B1")
PLAIN = Schema(
    "audit",
    (Attribute("sex", ("female", "male")), Attribute("age", ("young", "old"))),
)
COMBINATIONS = Schema(
    "audit-combinations",
    (Attribute("group", ("a", "b", "both")),),
    (Recode("combined", "group", (("a", ("a", "both")), ("b", ("b", "both"))), overlapping=True),),
)


@dataclass(frozen=True)
class Country:
    """What is measured in each country.

    Attributes:
        name: Name of the target.
        schema: The universe.
        strategy: The division of the budget.
        others: (block, cell, count) of everybody else.
        first, second: Where the person is on each side, as (block, cell); None where the person is absent.
        families: Whether the answers of families are part of the output.
    """

    name: str
    schema: Schema
    strategy: Strategy
    others: tuple[tuple[int, int, int], ...]
    first: tuple[int, int] | None
    second: tuple[int, int]
    families: bool = True


def _strategy(
    mechanism: Mechanism, neighbours: Neighbours, total: Fraction, schema: Schema, queries: tuple[str, ...]
) -> Strategy:
    share = tuple((query, Fraction(1, len(queries))) for query in queries)
    return Strategy(
        mechanism=mechanism,
        neighbours=neighbours,
        total=total,
        geolevel_shares=tuple(zip(LEVELS, (Fraction(1, 4), Fraction(1, 4), Fraction(1, 2)), strict=True)),
        query_shares=(
            # A person who moves within the country does not change its total.
            (LEVELS[0], share if neighbours is Neighbours.UNBOUNDED else ((queries[-1], Fraction(1)),)),
            *((level, share) for level in LEVELS[1:]),
        ),
        sensitivities=sensitivities_of(schema, queries),
    )


def countries() -> tuple[Country, ...]:
    """The countries that are audited."""
    bounded, unbounded = Neighbours.BOUNDED, Neighbours.UNBOUNDED
    gaussian, laplace = Mechanism.DISCRETE_GAUSSIAN, Mechanism.DISCRETE_LAPLACE
    queries = ("total", "sex", "sex*age")
    others = ((1, 0, 2), (2, 3, 1))
    return (
        Country(
            "tree-gaussian-bounded",
            PLAIN,
            _strategy(gaussian, bounded, Fraction(1), PLAIN, queries),
            others,
            (0, 0),
            (2, 3),
        ),
        Country(
            "tree-laplace-unbounded",
            PLAIN,
            _strategy(laplace, unbounded, Fraction(3, 2), PLAIN, queries),
            others,
            None,
            (0, 0),
        ),
        Country(
            "tree-overlapping-groups",
            COMBINATIONS,
            _strategy(gaussian, unbounded, Fraction(1, 2), COMBINATIONS, ("total", "combined")),
            others[:1],
            None,
            (0, 2),
            families=False,
        ),
    )


def draw(number: int) -> Iterator[Outputs]:
    """The outputs of every country, so many on each side."""
    for country in countries():
        strategy = country.strategy
        sides = [
            Side(country, person, number, f"auditors: {country.name} {place}")
            for place, person in enumerate((country.first, country.second))
        ]
        allocation = sides[0].measurer.allocation
        gaussian = strategy.mechanism is Mechanism.DISCRETE_GAUSSIAN
        claim = claim_of(
            strategy.event(),  # what a plan shows before it has read the geography
            allocation.event(),  # what a release spends
            neighbours=strategy.neighbours,
            delta=Fraction(1, 100),
            **{"rho" if gaussian else "epsilon": strategy.total},
        )
        columns = [side.columns() for side in sides]
        truths = [Side(country, person, 1, "").truth() for person in (country.first, country.second)]
        measured = list(measured_of(country, *truths))
        evidence = [scores(rows, measured) for rows in columns]
        yield Outputs(country.name, columns[0], columns[1], evidence[0], evidence[1], claim)


@dataclass(frozen=True, eq=False)
class Side:
    """All countries of one side."""

    country: Country
    person: tuple[int, int] | None
    number: int
    key: str

    @property
    def measurer(self) -> Measurer:
        """Measures all of them."""
        country, n = self.country, self.number
        people = [*country.others, *(() if self.person is None else ((*self.person, 1),))]
        blocks, cells, counts = (np.array(column, np.int64) for column in zip(*people, strict=True))
        spine = spine_from_prefixes(
            [f"{place:07d}{block}" for place in range(n) for block in BLOCKS], LEVELS, (7, 8, 9)
        )
        finest = histogram_from_triplets(
            LEVELS[-1],
            n * len(BLOCKS),
            (np.arange(n)[:, None] * len(BLOCKS) + blocks).reshape(-1),
            np.tile(cells, n),
            np.tile(counts, n),
        )
        allocation = allocation_of(country.strategy, spine)
        noise = NoiseSource(insecure_key(self.key))
        return Measurer(aggregate_all(finest, spine), country.schema, allocation, noise)

    def columns(self) -> Integers:
        """One row for each country: the measurements, then the answers of families."""
        measurer = self.measurer
        spine, strategy = measurer.allocation.spine, self.country.strategy
        published, fitted = [], []
        for level, geolevel in enumerate(LEVELS):
            names = strategy.queries(geolevel)
            groups = [self.country.schema.query(name) for name in names]
            n = spine.n_geounits(level)
            for group in groups:
                values = measurer.measure(geolevel, group.name, 0, n, np.arange(group.size)).values
                published.append(values.reshape(self.number, -1))
            if level and self.country.families:
                begin = spine.child_offsets[level - 1]
                size, parents = self.country.schema.size, len(begin) - 1
                wanted = answers_on_support(
                    geolevel,
                    groups,
                    begin,
                    np.arange(parents + 1) * size,
                    np.tile(np.arange(size), parents),
                    np.zeros(parents, bool),
                )
                values = measurer.measure_families(wanted)
                for place in range(len(groups)):
                    own = values[wanted.value_begin[place, 0] : wanted.value_begin[place, -1]]
                    fitted.append(own.reshape(self.number, -1))
        return np.concatenate([*published, *fitted], axis=1).astype(np.int32)

    def truth(self) -> Integers:
        """The true answers behind the measurements, of one country."""
        measurer = self.measurer
        spine = measurer.allocation.spine
        return np.concatenate(
            [
                measurer.histograms[level]
                .answers(self.country.schema.query(query), 0, spine.n_geounits(level))
                .reshape(-1)
                for level, geolevel in enumerate(LEVELS)
                for query in self.country.strategy.queries(geolevel)
            ]
        )


def measured_of(country: Country, first: Integers, second: Integers) -> Iterator[Measured]:
    """What the columns of a row are, up to the answers of families."""
    column = 0
    for level, geolevel in enumerate(LEVELS):
        for query in country.strategy.queries(geolevel):
            end = column + (1, 2, len(BLOCKS))[level] * country.schema.query(query).size
            law = country.strategy.law(geolevel, query)
            yield Measured(law, first[column:end].tolist(), second[column:end].tolist())
            column = end
