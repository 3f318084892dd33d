"""What a release keeps exactly or within public limits, as data."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Invariant:
    """A query published exactly: its true answers at some geolevels become constraints.

    Privacy: the guarantee then holds between populations that agree on it.
    """

    query: str
    geolevels: tuple[str, ...]

    @property
    def statement(self) -> str:
        """What is published, in words."""
        return f"{self.query} at {', '.join(self.geolevels)} is published exactly"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Public lower and upper bounds on the answers of a query, by geounit, read from a table.

    Attributes:
        name: Shown in errors and in the report.
        query: The bounded query, such as `hhgq`.
        geolevel: Where the table's geocodes live; sums of the bounds hold at every coarser geolevel.
        path: Table with columns `geocode`, one a factor of the query, `lower`, `upper` (null: unbounded).
        missing_upper: Upper bound of an answer with no row: 0, or None for unbounded.
    """

    name: str
    query: str
    geolevel: str
    path: Path
    missing_upper: int | None
