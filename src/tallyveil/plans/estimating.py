"""The part of a plan that is needed after the measurements. It names no input file, so it can be read from a folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Final, Literal

from pydantic import Field

from tallyveil.budget.outer_pass import OuterPass
from tallyveil.budget.strategy import Strategy
from tallyveil.declared import Declared, Exact, Many, Name, left_out
from tallyveil.errors import ConfigError
from tallyveil.estimation.problem import RoundingTarget
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema

MeasurementFiles = Literal["full", "small", "support", "none"]

# 8,192 answers. Twice as many can write twice as much; with half, tables of some queries have no intervals.
SMALL_QUERY: Final = 1 << 13
MOST_NUMBERS: Final = 1 << 27
"""With `measurements = "small"`, the most answers of a query that is written at every geolevel; and the most noisy
answers of all geounits of a geolevel together that are written of a larger query."""

LARGEST_SCHEMA: Final = 1 << 16
"""Cells of the largest schema of which intervals have one model of all cells."""

Values = Literal["own", "tree"]
"""What a geolevel's families are fitted to: the noisy answers of each child ("own"), or the answers of its best linear
unbiased estimate from everything that is measured in or below it ("tree")."""


TREE_VALUES: Final = "values of the tree"
"""Stage of a release with values = "tree"."""


Stages = Many[Many[Name]]
"""Queries of passes or of rounding stages, first to last."""


@dataclass(frozen=True)
class GeolevelEstimation(Declared):
    """Ordered passes of one geolevel.

    Attributes:
        passes: Query names of each least-squares pass. Together the passes use every measured query once.
        slack: Number of persons by which a later pass may change an answer of an earlier pass.
        rounding: Query names of each rounding stage, first stage first.
        target: Value that rounded answers shall be near: the estimate ("fraction"), or its nearest integer ("nearest").
        values: What the families are fitted to. Always "own" at the finest geolevel, below which nothing is measured.
    """

    passes: Stages
    slack: Exact
    rounding: Annotated[Stages, Field(min_length=1)]
    target: Annotated[RoundingTarget, Field(alias="rounding_target")] = "fraction"
    values: Annotated[Values, left_out("own")] = "own"


@dataclass(frozen=True, slots=True)
class EstimationPlan:
    """How counts are estimated from measurements, and which results are written.

    Attributes:
        schema: The universe.
        strategy: The measured queries and their budgets.
        estimation: Passes and rounding of each geolevel.
        tables: Queries published for every geounit.
        entities: Families of entities that tables are published for.
        measurements: Which noisy answers are written.
        microdata: Whether one row for each person is written.
        intervals: Coverage of the intervals that are written beside every published count; None for no intervals.
        outer: Outer passes over the whole spine, first to last; none where each geolevel is finished before the next.
    """

    schema: Schema
    strategy: Strategy
    estimation: tuple[tuple[str, GeolevelEstimation], ...]
    tables: tuple[str, ...]
    entities: tuple[str, ...]
    measurements: MeasurementFiles
    microdata: bool
    intervals: Fraction | None
    outer: tuple[OuterPass, ...] = ()

    def estimation_of(self, geolevel: str) -> GeolevelEstimation:
        """Passes and rounding stages of a geolevel."""
        # The tuple is in the order of geolevels, root first.
        return dict(self.estimation)[geolevel]

    @property
    def uses_tree(self) -> bool:
        """Whether some geolevel is fitted to more than its own noisy answers."""
        return any(item.values == "tree" for _, item in self.estimation)

    @property
    def tables_apart(self) -> bool:
        """Whether intervals of each table have a model of their own, because one of all cells would be too large."""
        # Above LARGEST_SCHEMA, blocks of all cells would not fit into the memory of a machine.
        return self.measurements == "small" or self.schema.size > LARGEST_SCHEMA

    def query(self, name: str) -> QueryGroup:
        """The query group of that name."""
        return self.schema.query(name)

    def written(self, geolevel: str, n_geounits: int) -> tuple[str, ...]:
        """The measured queries of a geolevel of which every noisy answer is written, whatever the counts are.

        Args:
            geolevel: A geolevel that is measured.
            n_geounits: Its number of geounits.
        """
        queries = self.strategy.queries(geolevel)
        if self.measurements == "full":
            return queries
        # By sizes alone, which are public: what is written must not depend on the counts.
        if self.measurements == "small":
            sizes = [self.query(name).size for name in queries]
            return tuple(
                name
                for name, size in zip(queries, sizes, strict=True)
                if size <= SMALL_QUERY or size * n_geounits <= MOST_NUMBERS
            )
        # The support of a root's families is every cell, so all answers of the root are written.
        is_root = geolevel == self.strategy.geolevels[0]
        return queries if self.measurements == "support" and is_root else ()


def values_in_words(estimation: Sequence[tuple[str, GeolevelEstimation]], *, drawn: bool) -> str:
    """What the families of a plan are fitted to, as a sentence.

    Args:
        estimation: How each geolevel is estimated, root first.
        drawn: Whether the release has counts that are drawn on a lattice.
    """
    if any(item.values == "tree" for _, item in estimation):
        return (
            f"above {estimation[-1][0]}, families are fitted to estimates from everything measured in or below each "
            "geounit"
        )
    reason = ", because the sweep up the spine cannot use counts that are drawn on a lattice" if drawn else ""
    return f"families are fitted to each geounit's own noisy answers{reason}"


def refuse_drawn_counts(estimation: Sequence[tuple[str, GeolevelEstimation]], *, drawn: bool) -> None:
    """Refuse the values of the tree beside counts that are drawn on a lattice.

    Args:
        estimation: How each geolevel is estimated.
        drawn: Whether the release has such counts.
    Raises:
        ConfigError: both are asked for.
    """
    # The sweep takes noise of different geounits as independent, which noise on a lattice is not.
    if drawn and any(item.values == "tree" for _, item in estimation):
        raise ConfigError(
            '[estimation] values is "tree", and the release has [[subspace]] queries. Counts drawn on a lattice have '
            "noise that depends on the invariants, which the sweep up the spine does not take into account. Write "
            'values = "own", or measure these queries with [strategy] instead.',
            code="tree-values",
        )
