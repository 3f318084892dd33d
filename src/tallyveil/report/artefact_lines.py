"""Known artefacts of a release, arranged for reading."""

from dataclasses import dataclass

import polars as pl

from tallyveil.report.wording import grouped, percent, query_title
from tallyveil.universe.unit import Unit

_TITLES = {
    "empty": "empty",
    "filled": "empty, but published with {many}",
    "emptied": "not empty, but published as empty",
}


@dataclass(frozen=True, slots=True)
class ArtefactLine:
    """One artefact, as text.

    Attributes:
        title: What kind of geounits.
        true, published: How many of them there truly are, and how many as published; "" where one number says it.
        records: What is in them, and its share of all.
    """

    title: str
    true: str
    published: str
    records: str


def artefact_lines(artefacts: pl.DataFrame, geolevel: str, unit: Unit) -> list[ArtefactLine]:
    """The artefacts of one geolevel; groups that occur neither truly nor as published are left out."""
    lines = []
    for row in artefacts.filter(pl.col("geolevel") == geolevel).iter_rows(named=True):
        both = row["true_geounits"], row["published_geounits"]
        if row["artefact"] == "only":
            if row["group"] is not None and both == (0, 0):
                continue
            group = "in one group" if row["group"] is None else f"“{row['group']}”"
            title = f"all {unit.many} {group}: {query_title(row['factor'])}"
        else:
            title = _TITLES[row["artefact"]].format(many=unit.many)
        records = ""
        if row["records"] is not None:
            share = "" if row["share"] is None else f" ({percent(row['share'])})"
            records = f"{grouped(row['records'])}{share}"
        one_number = row["artefact"] in ("filled", "emptied")
        lines.append(ArtefactLine(title, grouped(both[0]), "" if one_number else grouped(both[1]), records))
    return lines
