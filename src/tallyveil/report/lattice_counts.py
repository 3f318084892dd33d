"""Counts that were drawn with noise on the lattice of the invariants, as text for the page."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from tallyveil.report.privacy import Exact, exact
from tallyveil.report.release_files import ReleaseFiles
from tallyveil.report.wording import grouped, name_title, rounded

_NAMES_SHOWN: Final = 6


@dataclass(frozen=True, slots=True)
class DrawnCounts:
    """One query at one geolevel whose counts were drawn and then fixed.

    Attributes:
        query, geolevel: Titles for reading.
        counts: Number of counts.
        dimension: Dimension of the lattice: how many counts the invariants leave free.
        law: Distribution of the noise: its name together with the name of its parameter, and the parameter.
        symbol: Greek letter of the budget's unit.
        budget: Exact cost.
        invariants: Names of the first few invariants, and the number of the others.
        statement: The guarantee in a sentence.
        sampler, reason: How the noise was drawn, and why in this way.
        spread: Standard deviation of a count's noise (the smallest to the largest, if counts differ), mean absolute
            noise, and the number of draws behind both; None if the manifest has no spread.
        path: File that holds the counts.
    """

    query: str
    geolevel: str
    counts: str
    dimension: str
    law: tuple[str, Exact]
    symbol: str
    budget: Exact
    invariants: tuple[tuple[str, ...], str]
    statement: str
    sampler: str
    reason: str
    spread: tuple[str, str, str] | None
    path: str


def drawn_counts(files: ReleaseFiles) -> tuple[DrawnCounts, ...]:
    """The drawn counts that the manifest lists; empty if there are none."""
    return tuple(_drawn(files, item) for item in files.manifest.body.get("drawn", []))


def _drawn(files: ReleaseFiles, item: dict[str, Any]) -> DrawnCounts:
    noise, privacy = item["noise"], item["privacy"]
    names = privacy["invariants"]
    more = len(names) - _NAMES_SHOWN
    return DrawnCounts(
        files.titles.query(item["query"]),
        name_title(item["geolevel"]),
        grouped(noise["cells"]),
        grouped(noise["dimension"]),
        _law(item["law"]),
        "ρ" if files.declaration.budget_unit == "rho" else "ε",
        exact(Fraction(item["budget"])),
        (tuple(names[:_NAMES_SHOWN]), grouped(more) if more > 0 else ""),
        privacy["statement"],
        noise["sampler"],
        noise["reason"],
        _spread(noise["spread"]),
        item["path"],
    )


def _law(law: dict[str, str]) -> tuple[str, Exact]:
    if "variance" in law:
        return f"{law['kind']}, variance", exact(Fraction(law["variance"]))
    return f"{law['kind']}, {law['norm']} norm, ε by unit of distance", exact(Fraction(law["epsilon"]))


def _spread(spread: dict[str, Any] | None) -> tuple[str, str, str] | None:
    if spread is None:
        return None
    least, greatest = (rounded(spread["standard_deviation"][name]) for name in ("least", "greatest"))
    between = least if least == greatest else f"{least} to {greatest}"
    return between, rounded(spread["mean_absolute"]), grouped(spread["draws"])
