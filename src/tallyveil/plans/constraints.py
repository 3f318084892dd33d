"""Invariants and public bounds of a release, as data."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Invariant:
    """A query published exactly: its true answers at some geolevels become constraints.

    Privacy: the guarantee then holds only between populations that agree on these answers.
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
        name: Name in errors and in the report.
        query: The bounded query, such as `hhgq`.
        geolevel: Geolevel of the table's geocodes. The sums of the bounds hold at every coarser geolevel.
        path: Table with the columns `geocode`, one column for each factor of the query, `lower` and `upper` (null:
            unbounded).
        missing_upper: Upper bound of an answer that has no row: 0, or None for unbounded.
    """

    name: str
    query: str
    geolevel: str
    path: Path
    missing_upper: int | None
