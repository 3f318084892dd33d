"""The data that Figures 6, 8 and 9 of the census study show: a user's own, or those of public data sets."""

from dataclasses import dataclass
from pathlib import Path

from tallyveil.arrays import Floats, Integers
from tallyveil.errors import ConfigError


class MissingDataError(ConfigError):
    """Public data that an exhibit needs are missing. Other exhibits can still be recomputed."""


@dataclass(frozen=True, slots=True)
class CountedLevel:
    """The counts of one geolevel.

    Attributes:
        name: Its name in the figures.
        noise: The geolevel of Table 1 whose noise is added.
        counts: True counts, int64 [geounits, labels].
    """

    name: str
    noise: str
    counts: Integers


@dataclass(frozen=True, slots=True)
class CensusCounts:
    """The counts of a place.

    Attributes:
        name: What was counted, such as the name of a State.
        labels: Names of the counts of a geounit.
        levels: From the coarsest geolevel to the finest.
    """

    name: str
    labels: tuple[str, ...]
    levels: tuple[CountedLevel, ...]


@dataclass(frozen=True, slots=True)
class Places:
    """Places of one geolevel that have both counts of people by category and an outcome.

    Attributes:
        counts: int64 [places, categories], such as adults by education. The share of the last category in their sum
            explains the outcome.
        outcome: float64 [places], such as earnings in dollars a year.
    """

    counts: Integers
    outcome: Floats


@dataclass(frozen=True, slots=True)
class Regression:
    """One row of Figure 9.

    Attributes:
        name: What the places are.
        places: Their counts and outcomes.
        noise: The geolevel of Table 1 whose noise is added to the counts.
    """

    name: str
    places: Places
    noise: str


@dataclass(frozen=True, slots=True)
class OwnData:
    """A user's own data for the figures.

    Attributes:
        path: The TOML file that describes them.
        counts: Counts for Figures 6 and 8; None if the file has none.
        regressions: Regressions for Figure 9; empty if the file has none.
    """

    path: Path
    counts: CensusCounts | None
    regressions: tuple[Regression, ...]

    def require(self, table: str, exhibit: str) -> None:
        """Refuse an exhibit whose data the file does not have.

        Args:
            table: "counts" or "regressions".
            exhibit: The exhibit that needs it.
        Raises:
            MissingDataError: the file has no such table.
        """
        # None and the empty tuple both mean that the file has no such table.
        if not getattr(self, table):
            name = {"counts": "[counts]", "regressions": "[[regressions]]"}[table]
            raise MissingDataError(
                f"{exhibit} needs the table {name}, which {self.path} does not have. Add it, or do not ask for this "
                "exhibit."
            )

    def require_counts(self, exhibit: str) -> CensusCounts:
        """The counts. Raises MissingDataError if the file has none, as `require` does."""
        # Raises; the assertion is for the type checker.
        self.require("counts", exhibit)
        assert self.counts is not None
        return self.counts

    def require_regressions(self, exhibit: str) -> tuple[Regression, ...]:
        """The regressions. Raises MissingDataError if the file has none, as `require` does."""
        self.require("regressions", exhibit)
        return self.regressions
