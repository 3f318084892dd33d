"""Known artefacts of a release, as text for the evaluation page."""

from dataclasses import dataclass

import polars as pl

from tallyveil.report.titles import Titles
from tallyveil.report.wording import grouped, name_title, percent

_TITLES = {
    "empty": "empty",
    "filled": "empty, but published with {many}",
    "emptied": "not empty, but published as empty",
}


@dataclass(frozen=True, slots=True)
class ArtefactLine:
    """One artefact, as text.

    Attributes:
        title: The kind of geounits.
        true: Number of these geounits in the true counts.
        published: Number of these geounits in the published counts; "" if the artefact has only one number.
        records: Number of records in them and the share of all records; "" if it is unknown.
    """

    title: str
    true: str
    published: str
    records: str


def artefact_lines(artefacts: pl.DataFrame, geolevel: str, titles: Titles) -> list[ArtefactLine]:
    """The artefacts of one geolevel. Groups with no true and no published geounits are left out."""
    lines, unit = [], titles.unit
    for row in artefacts.filter(pl.col("geolevel") == geolevel).iter_rows(named=True):
        both = row["true_geounits"], row["published_geounits"]
        if row["artefact"] == "only":
            # A group that no geounit is all of would be a line of zeros.
            if row["group"] is not None and both == (0, 0):
                continue
            group = "in one group" if row["group"] is None else f"“{name_title(row['group'])}”"
            title = f"all {unit.many} {group}: {titles.factor(row['factor'])}"
        else:
            title = _TITLES[row["artefact"]].format(many=unit.many)
        records = ""
        if row["records"] is not None:
            share = "" if row["share"] is None else f" ({percent(row['share'])})"
            records = f"{grouped(row['records'])}{share}"
        # These two compare true and published in one number.
        is_single = row["artefact"] in ("filled", "emptied")
        lines.append(ArtefactLine(title, grouped(both[0]), "" if is_single else grouped(both[1]), records))
    return lines
