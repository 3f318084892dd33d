"""Invariants, public bounds and agreements of a release, as data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Levels = tuple[tuple[str, tuple[str, ...]], ...]
"""Some levels of some attributes. Attributes that are not named may have any level."""


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


@dataclass(frozen=True, slots=True)
class Agreement:
    """Counts of a finished release that the counts of this one keep exactly, at every geolevel.

    The counts are published already, so keeping them costs no budget.

    Attributes:
        name: Name in errors and in the report. No two agreements of a release have the same.
        path: Folder of the finished release; None where a programme says it.
        query: Query of this schema whose answers are kept.
        theirs: Query of the other release's schema with the same labels, factor by factor in the order of the names.
        release: Name of the other release in a programme of releases, where it is not the name of the agreement.
    """

    name: str
    path: Path | None
    query: str
    theirs: str
    release: str | None = None

    @property
    def release_name(self) -> str:
        """Name of the other release in a programme of releases."""
        return self.name if self.release is None else self.release

    @classmethod
    def from_mapping(cls, item: Mapping[str, str]) -> "Agreement":
        """The inverse of `to_mapping`, without a path."""
        return cls(item["name"], None, item["query"], item["theirs"], item.get("release"))

    def to_mapping(self) -> dict[str, str]:
        """Plain data for `plan.json`, without the path."""
        return {
            "name": self.name,
            "query": self.query,
            "theirs": self.theirs,
            **({} if self.release is None else {"release": self.release}),
        }


@dataclass(frozen=True, slots=True)
class Residents:
    """The people of a finished release who live in the units that this release counts.

    Their counts are published already, so that it costs no budget to publish units in which they fit.

    Attributes:
        name: Name in errors and in the report, and the name of the release in a programme of releases.
        path: Folder of the finished release; None where a programme says it.
        people: Levels of the other release's attributes that the people who live in units have.
        adults: Further levels, which the adults among these people have; none if nobody asks for adults.
        households: Query of this schema that counts households of one person, two and so on; the last of its answers
            also counts all larger ones. None if sizes need not add up.
        geolevel: Geolevel of the geounits in which the sizes of households add up to the people.
    """

    name: str
    path: Path | None
    people: Levels
    adults: Levels = ()
    households: str | None = None
    geolevel: str | None = None

    def to_mapping(self) -> dict[str, Any]:
        """Plain data for `plan.json`, without the path."""
        adults = {"adults": _lists(self.adults)} if self.adults else {}
        sizes = {"households": self.households, "geolevel": self.geolevel}
        given = {key: value for key, value in sizes.items() if value is not None}
        return {"name": self.name, "people": _lists(self.people), **adults, **given}

    @property
    def release_name(self) -> str:
        """Name of the other release in a programme of releases."""
        return self.name

    @classmethod
    def from_mapping(cls, item: Mapping[str, Any]) -> "Residents":
        """The residents that `plan.json` states."""
        people, adults = levels_of(item["people"]), levels_of(item.get("adults", {}))
        return cls(item["name"], None, people, adults, item.get("households"), item.get("geolevel"))


def levels_of(table: Mapping[str, Sequence[str]]) -> Levels:
    """Levels by attribute, as a plan has them."""
    return tuple((name, tuple(levels)) for name, levels in table.items())


def _lists(levels: Levels) -> dict[str, list[str]]:
    return {name: list(own) for name, own in levels}
