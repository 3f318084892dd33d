"""A table or figure of a paper, the numbers that the paper prints, and the results of recomputing them.

Printed numbers are in the file `printed.toml` of the paper's folder. The data of Figures 6, 8 and 9 of the
census study is a user's own, or that of public data sets.
"""

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from tallyveil.arrays import Floats, Integers
from tallyveil.errors import ConfigError
from tallyveil.report.drawing import Drawing


class PrintedClaim(StrEnum):
    """What a printed number claims.

    VALUE: the number is the quantity, rounded.
    UPPER_BOUND: the quantity is at most this number.
    OTHER_DATA: the number was measured on data that we do not have, or with draws that cannot be repeated. It is shown
        to the reader, but not judged.
    """

    VALUE = "value"
    UPPER_BOUND = "upper_bound"
    OTHER_DATA = "other_data"


class Verdict(StrEnum):
    """The result of comparing a printed number with ours."""

    AGREES = "agrees"
    LAST_DIGIT = "within one unit of the last digit"
    DIFFERS = "differs"
    HOLDS = "bound holds"
    VIOLATED = "bound violated"
    NOT_JUDGED = "other data"


@dataclass(frozen=True, slots=True)
class PrintedNumber:
    """A number as a paper prints it.

    Attributes:
        text: Its digits, such as "54.19" or "3e-37". They also show how it was rounded.
        source: Its place in the paper.
        kind: What it claims.
        remark: A remark for the reader; may be empty.
    """

    text: str
    source: str
    kind: PrintedClaim = PrintedClaim.VALUE
    remark: str = ""

    @property
    def value(self) -> Fraction:
        """The number as an exact fraction."""
        return Fraction(self.text)

    @property
    def unit(self) -> Fraction:
        """One unit of its last digit."""
        mantissa, _, exponent = self.text.lower().partition("e")
        # Trailing zeros count: "5.00" is known to a hundredth.
        decimals = len(mantissa.partition(".")[2])
        return Fraction(10) ** (int(exponent or 0) - decimals)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A printed number and what we compute for the same quantity.

    Attributes:
        quantity: Name of the quantity, in words.
        printed: The paper's number.
        ours: Our number. If we have a lower and an upper bound, it is the upper bound. A fraction is exact.
    """

    quantity: str
    printed: PrintedNumber
    ours: float | Fraction

    @property
    def verdict(self) -> Verdict:
        """Whether the numbers agree, given how the paper rounded its number."""
        if self.printed.kind is PrintedClaim.OTHER_DATA:
            return Verdict.NOT_JUDGED
        is_bound = self.printed.kind is PrintedClaim.UPPER_BOUND
        # Infinity has no exact fraction.
        if isinstance(self.ours, float) and not math.isfinite(self.ours):
            return Verdict.VIOLATED if is_bound else Verdict.DIFFERS
        difference = Fraction(self.ours) - self.printed.value
        if is_bound:
            return Verdict.HOLDS if difference <= 0 else Verdict.VIOLATED
        # Half a unit of the last digit: the number rounds to the printed one. Exactly, in fractions.
        if 2 * abs(difference) <= self.printed.unit:
            return Verdict.AGREES
        return Verdict.LAST_DIGIT if abs(difference) <= self.printed.unit else Verdict.DIFFERS


def printed_numbers(paper: str, section: str) -> dict[str, PrintedNumber]:
    """The numbers of one section, by name.

    Args:
        paper: Folder of the paper under `studies`.
        section: Section of its `printed.toml`.

    Raises:
        ConfigError: there is no such section.
    """
    sections = _sections(paper)
    if section not in sections:
        raise ConfigError(
            f"there is no section '{section}' of printed numbers; there are {', '.join(sections)}."
        )
    table = sections[section]
    remarks = table.get("remarks", {})
    return {
        name: PrintedNumber(
            text, table["source"], PrintedClaim(table.get("kind", "value")), remarks.get(name, "")
        )
        for name, text in table["values"].items()
    }


def beside_ours(
    paper: str, section: str, ours: Mapping[str, float | Fraction], what: str
) -> tuple[Comparison, ...]:
    """The printed numbers of a section beside ours.

    Args:
        paper: Folder of the paper under `studies`.
        section: Section of its `printed.toml`.
        ours: Our numbers by the same names. Names that the paper does not print are left out.
        what: The quantity, in words.

    Raises:
        ConfigError: there is no such section.
    """
    return tuple(
        Comparison(f"{what}, {name}", number, ours[name])
        # In the order of the paper.
        for name, number in printed_numbers(paper, section).items()
        if name in ours
    )


@cache
def _sections(paper: str) -> Mapping[str, Any]:
    # Read from the package, so that an installed copy has it, too.
    text = (resources.files("tallyveil_studies") / paper / "printed.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


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
            name = {"counts": "[counts]", "regressions": "[[regressions]] or [blocks]"}[table]
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


class ReleaseMaker(Protocol):
    """Makes a release as `tallyveil.run` does, which it usually is."""

    def __call__(self, release: Path, out: Path, /, *, insecure_test_key: str) -> object:
        """Make a release, from its file into a folder, with the test key that a text stands for."""


def _no_releases(release_file: Path, _out: Path, *, insecure_test_key: str) -> None:
    # A mistake of the program, not of the user: the command gives every study its maker.
    raise RuntimeError(f"nothing was given to these inputs that could make the release of {release_file}")


@dataclass(frozen=True, slots=True)
class StudyInputs:
    """The inputs of an exhibit besides the numbers in the package.

    Attributes:
        data: Folder of public data sets; None if the user gave no folder.
        own_data: Data of the user's own, which figures show in the place of public data sets; None if there are none.
        make_release: Makes a release of public counts with a test key, on the path of every release. It comes from
            above, because a study cannot reach the rooms that see records.
    """

    data: Path | None = None
    own_data: OwnData | None = None
    make_release: ReleaseMaker = _no_releases

    def files(self, exhibit: str, names: tuple[str, ...]) -> tuple[Path, ...]:
        """Paths of the files that an exhibit needs.

        Raises:
            MissingDataError: no folder was given, or a file is missing in it.
        """
        if self.data is None:
            raise MissingDataError(
                f"{exhibit} needs public counts ({', '.join(names)}). Give the folder that holds them with --data "
                "DIR."
            )
        paths = tuple(self.data / name for name in names)
        # All missing files are named at once.
        absent = [path for path in paths if not path.is_file()]
        if absent:
            raise MissingDataError(
                f"{exhibit} needs {', '.join(map(str, absent))}, which does not exist. Give the folder that holds it "
                "with --data DIR."
            )
        return paths


@dataclass(frozen=True, slots=True)
class Findings:
    """The results of recomputing one exhibit.

    Attributes:
        tables: Tables of numbers, by name. The first is the exhibit itself.
        comparisons: The paper's printed numbers, each with ours.
        drawings: Plots, by file name.
        notes: What a reader must know to understand the numbers.
        subject: What the data are of, such as a State, if the user can choose them; otherwise empty.
    """

    tables: Mapping[str, pl.DataFrame]
    comparisons: tuple[Comparison, ...] = ()
    drawings: Mapping[str, Drawing] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    subject: str = ""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A table or figure that can be recomputed.

    Attributes:
        name: "table-1", "figure-7", or a word of our own for an exhibit that is not in the paper.
        title: What it shows.
        recompute: Function that computes the results.
        own_table: Table of a user's file of own data that it shows, "counts" or "regressions"; empty if it shows none.
    """

    name: str
    title: str
    recompute: Callable[[StudyInputs], Findings]
    own_table: str = ""

    def heading(self, findings: Findings) -> str:
        """The title with what the data are of."""
        return f"{self.title}, {findings.subject}" if findings.subject else self.title
