"""What the published files of a release must keep, and the name of every check."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.errors import SolverError
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine
from tallyveil.schema.counts import PublicCounts
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema

NOT_NEGATIVE: Final = "no count is negative"
POSSIBLE: Final = "no structural zero is filled"
RECORDS: Final = "microdata hold exactly the records of the finest counts"


class Bounded(NamedTuple):
    """An invariant, or bounds, that the published counts must keep.

    Attributes:
        name: For messages and the names of checks.
        query: The bounded query.
        lower: Bounds by geolevel from the root down, shape (rows, query.size); int64, or narrow (`narrow_limits`).
        upper: Likewise.
        groups: The row that each geounit of the last of these geolevels is summed into; None where each has its own.
        stated: The geolevel of the geography whose geounits these sums are; None where there are no groups.
    """

    name: str
    query: QueryGroup
    lower: Sequence[NDArray[Any]]
    upper: Sequence[NDArray[Any]]
    groups: Integers | None = None
    stated: str | None = None

    @property
    def last_level(self) -> int:
        """Number of the finest geolevel of the constraint."""
        return len(self.lower) - 1

    def holds_by_geounit(self, level: int) -> bool:
        """Whether each geounit of a geolevel has bounds of its own."""
        return level < self.last_level or (level == self.last_level and self.groups is None)

    def name_of_check(self, spine: Spine) -> str:
        """What is checked, in words."""
        n_whole = len(self.lower) - (self.groups is not None)
        places = [", ".join(spine.geolevels[:n_whole])] if n_whole else []
        if self.groups is not None:
            places.append(f"every sum of {spine.geolevels[n_whole]} geounits that makes one {self.stated}")
        return f"{self.name} holds at {' and '.join(places)}"


class Agreeing(NamedTuple):
    """Counts of another release that the published counts must keep, at every geolevel.

    Attributes:
        name: For messages and the names of checks.
        query: The query whose answers agree.
        counts: Counts of every geolevel, root first; each answer by one of its cells.
    """

    name: str
    query: QueryGroup
    counts: Sequence[PublicCounts]

    @property
    def name_of_check(self) -> str:
        """What is checked, in words."""
        return f"{self.name} holds in every answer at {', '.join(one.geolevel for one in self.counts)}"


@dataclass(frozen=True, slots=True, eq=False)
class Promises:
    """Everything that the files of a release are held to.

    Attributes:
        schema: The universe.
        spine: The hierarchy.
        tables: The published queries.
        bounded: Every invariant and bound.
        microdata: Whether the release has microdata.
        areas: What tables are published of beside the spine's geolevels, on the spine; one with the name of a
            geolevel stands in its place.
        agreed: Counts of other releases that are kept.
    """

    schema: Schema
    spine: Spine
    tables: Sequence[QueryGroup]
    bounded: Sequence[Bounded]
    microdata: bool = True
    areas: Sequence[EntityFamily] = ()
    agreed: Sequence[Agreeing] = ()

    def has_tables(self, level: int) -> bool:
        """Whether tables of this geolevel are published, and not of areas that have its name."""
        return self.spine.geolevels[level] not in {area.name for area in self.areas}

    def names(self) -> list[str]:
        """The names of all checks, in the order of the manifest."""
        names = [NOT_NEGATIVE, POSSIBLE]
        names += [self.name_of_sums(level) for level in range(1, self.spine.n_levels)]
        names += [one.name_of_check(self.spine) for one in self.bounded]
        names += [agreement.name_of_check for agreement in self.agreed]
        names += [RECORDS] if self.microdata else []
        names += [name_of_table(group) for group in self.tables]
        names += [self.name_of_area(area) for area in self.areas if self.tables]
        return names

    def name_of_sums(self, level: int) -> str:
        """The check that a geolevel adds up to the one above it."""
        above, below = self.spine.geolevels[level - 1 : level + 1]
        return f"every {above} is the sum of its {below} geounits in every cell"

    def name_of_area(self, area: EntityFamily) -> str:
        """The check of the tables of some areas."""
        return f"tables of {area.name} are sums of the published {self.spine.geolevels[-1]} counts"


def name_of_table(group: QueryGroup) -> str:
    """The check of the tables of a query."""
    return f"table {group.name} agrees with the counts"


def require(name: str, passed: bool) -> None:
    """Raise SolverError if a check has not passed."""
    if not passed:
        raise SolverError(
            f"final check failed: {name}. The release must not be published; keep the folder and report this.",
            code="check-failed",
        )
