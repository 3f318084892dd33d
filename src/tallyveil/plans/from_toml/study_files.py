"""The file of `tallyveil study --own`: counts and regressions of a user's own, for figures of the census study."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from tallyveil.declared import Name
from tallyveil.plans.from_toml.tables import Table
from tallyveil.schema.names import PlainName

MOST_GEOLEVELS = 8
"""Largest number of geolevels: the noise's addresses have room for so many."""

MOST_LABELS = 40
"""Largest number of counts of a geounit: a figure of more could not be read."""

MOST_REGRESSIONS = 40
"""Largest number of regressions: a figure of more could not be read."""


def _printable(label: str) -> str:
    if not label.isprintable():
        raise ValueError(
            f"{label!a} has a line break or an invisible character. A figure shows it, so rename it"
        )
    return label


Label = Annotated[Name, AfterValidator(_printable)]
"""The name of a count in a figure. Unlike other names it may have a slash, as in "AI/AN"."""


class CountedGeolevel(Table):
    """[[counts.geolevels]]: one geolevel, and the noise that its counts get."""

    name: PlainName = Field(description="Its name in the figure.")
    geounit: list[Name] = Field(
        min_length=1,
        description="Columns whose values together tell which geounit of this geolevel a row is in.",
    )
    noise: Name = Field(description="Geolevel of the paper's Table 1 whose noise is added.")


class CountsTable(Table):
    """[counts]: true counts by geounit, for Figures 6 and 8. They are treated as public."""

    name: PlainName = Field(
        description="What was counted, such as the name of a State. It stands in the titles."
    )
    path: Name = Field(description="Parquet or CSV file. The path is relative to this TOML file.")
    rows: dict[Name, Name] = Field(
        default_factory=dict, description="Only rows with these texts in these columns are read."
    )
    columns: dict[Label, Name] = Field(
        min_length=1, max_length=MOST_LABELS, description="Column of each count, by the count's label."
    )
    geolevels: list[CountedGeolevel] = Field(
        min_length=1, max_length=MOST_GEOLEVELS, description="From the coarsest to the finest."
    )

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        _require_distinct([geolevel.name for geolevel in self.geolevels], "geolevels")
        return self


class RegressionTable(Table):
    """[[regressions]]: places with counts of people by category and an outcome, for Figure 9. They are public."""

    name: PlainName = Field(description="What the places are. It stands in the figure.")
    path: Name = Field(description="Parquet or CSV file. The path is relative to this TOML file.")
    rows: dict[Name, Name] = Field(
        default_factory=dict, description="Only rows with these texts in these columns are read."
    )
    geounit: list[Name] = Field(
        min_length=1, description="Columns whose values together tell which place a row is."
    )
    counts: list[Name] = Field(
        min_length=2, description="Columns of counts. Each person of a place is in exactly one of them."
    )
    share: Name = Field(description="The column of `counts` whose share of their sum explains the outcome.")
    outcome: Name = Field(
        description="Column of the explained number. A place where it is empty is left out."
    )
    noise: Name = Field(description="Geolevel of the paper's Table 1 whose noise is added.")

    @model_validator(mode="after")
    def _is_a_share(self) -> Self:
        _require_share(self.counts, self.share)
        return self


class AreaRegression(Table):
    """[[blocks.regressions]]: areas that are made from blocks, and the outcome of each."""

    name: PlainName = Field(description="What the areas are. It stands in the figure.")
    area: Name = Field(description="Column of the tables of areas that has the area of each block.")
    path: Name = Field(description="Parquet or CSV file of outcomes. The path is relative to this TOML file.")
    rows: dict[Name, Name] = Field(
        default_factory=dict, description="Only rows with these texts in these columns are read."
    )
    geounit: Name = Field(description="Column of the file of outcomes with the code of the area.")
    outcome: Name = Field(
        description="Column of the explained number. An area without it, or without blocks, is left out."
    )
    noise: Name = Field(description="Geolevel of the paper's Table 1 whose noise is added.")


class BlocksTable(Table):
    """[blocks]: public counts of people by category in blocks, for Figure 9 in areas that are made from blocks."""

    path: Name = Field(description="Parquet or CSV file. The path is relative to this TOML file.")
    rows: dict[Name, Name] = Field(
        default_factory=dict, description="Only rows with these texts in these columns are read."
    )
    geocode: Name = Field(description="Column of the block, in this file and in the tables of areas.")
    counts: list[Name] = Field(
        min_length=2,
        description="Columns of counts. Each person of a block is in exactly one of them. Rows of one block "
        "are added up.",
    )
    share: Name = Field(description="The column of `counts` whose share of their sum explains the outcome.")
    areas: list[Name] = Field(
        min_length=1,
        description="Tables with the areas of every block, such as geography.parquet and entities.parquet of "
        "`tallyveil geography import`.",
    )
    regressions: list[AreaRegression] = Field(min_length=1, max_length=MOST_REGRESSIONS)

    @model_validator(mode="after")
    def _is_a_share(self) -> Self:
        _require_share(self.counts, self.share)
        return self


class StudyFile(Table):
    """The whole file."""

    counts: CountsTable | None = None
    regressions: list[RegressionTable] = Field(default_factory=list, max_length=MOST_REGRESSIONS)
    blocks: BlocksTable | None = None

    @model_validator(mode="after")
    def _is_not_empty(self) -> Self:
        if self.counts is None and not self.regressions and self.blocks is None:
            raise ValueError(
                "it describes no data. Add [counts] for Figures 6 and 8, or [[regressions]] or [blocks] for Figure 9"
            )
        of_areas = () if self.blocks is None else self.blocks.regressions
        _require_distinct([regression.name for regression in (*self.regressions, *of_areas)], "regressions")
        return self


def _require_share(counts: list[str], share: str) -> None:
    _require_distinct(counts, "columns of counts")
    if share not in counts:
        raise ValueError(
            f"share is '{share}', wanted one of counts: {', '.join(counts)}. Name one of them, or add "
            "the column to counts"
        )


def _require_distinct(names: list[str], what: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{what} are named twice: {', '.join(twice)}. Give each a name of its own")
