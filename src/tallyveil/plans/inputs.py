"""Inputs of a release, as data: its records, its geography, and the steps that make its spine."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainSerializer

from tallyveil.budget.caps import MOST_LOSS, Reference
from tallyveil.budget.spine.regroup import Measure
from tallyveil.budget.strategy import LARGEST_WANTED, can_be_wanted
from tallyveil.declared import (
    UNSTATED,
    ByName,
    Declared,
    Exact,
    Many,
    Name,
    Text,
    Whole,
    left_out,
)
from tallyveil.errors import BudgetError
from tallyveil.exact import in_short
from tallyveil.geography.bypass import BypassRule
from tallyveil.geography.optimise import Step, families_of
from tallyveil.geography.steps import FanOutLimit
from tallyveil.schema.names import PlainName
from tallyveil.storage.addresses import InputPath
from tallyveil.storage.read import TextForm


@dataclass(frozen=True)
class MemberNumber(Declared):
    """An attribute of households that counts their members. Its levels are ranges."""

    column: Annotated[
        Name | None,
        left_out(None),
        Field(description="Column by which members are chosen. Default: all count."),
    ] = None
    values: Annotated[
        Many[Name], left_out(()), Field(description="Values of that column of the members that count.")
    ] = ()

    def __post_init__(self) -> None:
        if (self.column is None) != (not self.values):
            raise ValueError("give both column and values, or neither")


@dataclass(frozen=True, kw_only=True)
class MemberValue(Declared):
    """An attribute of households that is that of one member."""

    column: Annotated[Name, Field(description="Column of the value.")]
    where: Annotated[Name, Field(description="Column that says which member it is taken from.")]
    equals: Annotated[Name, Field(description="Value of that column of the member.")]
    otherwise: Annotated[
        Name, Field(description="Level of households in which no member has that value, or several have.")
    ]


@dataclass(frozen=True, kw_only=True)
class Households(Declared):
    """How records of households follow from those of persons. A household is all persons with one value of `id`.

    Its place is the least geocode of its members, as text. Persons without a value of `id`, or with spaces alone, are
    in no household.
    """

    id: Annotated[Name, Field(description="Column that says which household a person is in.")]
    number: Annotated[ByName[MemberNumber], Field(description="Attributes that count members, by name.")] = ()
    value: Annotated[
        ByName[MemberValue],
        left_out(()),
        Field(description="Attributes that are those of one member, by name."),
    ] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of persons that are read, beside that of the geocode."""
        numbers = [item.column for _, item in self.number if item.column is not None]
        values = [column for _, item in self.value for column in (item.column, item.where)]
        return tuple(dict.fromkeys([self.id, *numbers, *values]))


@dataclass(frozen=True)
class Records(Declared):
    """How the table of confidential records is read."""

    geocode: Annotated[Name, Field(description="Column of the finest geocode (text).")] = "geocode"
    count: Text | None = None
    columns: Annotated[
        ByName[Name], Field(description="Column of each attribute whose column has another name.")
    ] = ()
    numbers: Annotated[
        Many[Name],
        left_out(()),
        Field(
            description="Attributes whose columns hold whole numbers. Their levels are ranges, such as "
            '"18-24" or "85+".'
        ),
    ] = ()
    missing: Annotated[
        ByName[Name],
        left_out(()),
        Field(description='Level that a record without a value has, by attribute, such as "not asked".'),
    ] = ()
    delimiter: Annotated[
        Literal[",", ";", "|", "\t"] | None,
        left_out(None),
        Field(
            description="What stands between the columns of a CSV file. Default: what its header line says."
        ),
    ] = None
    encoding: Annotated[
        Literal["utf-8", "iso-8859-1", "windows-1252"],
        left_out("utf-8"),
        Field(description="Encoding of a CSV file. Any but utf-8 is read into memory as a whole."),
    ] = "utf-8"
    decimal: Annotated[
        Literal[".", ","], left_out("."), Field(description="Decimal sign of the numbers of a CSV file.")
    ] = "."
    household: Annotated[
        Households | None,
        left_out(None),
        Field(description="How records of households follow from the records, which are those of persons."),
    ] = None

    @property
    def form(self) -> TextForm:
        """How its text file is written."""
        return TextForm(self.delimiter, self.encoding, self.decimal)

    @property
    def reading(self) -> dict[str, Any]:
        """What every reader of the table is told of it, as arguments by name."""
        return {
            "geocode": self.geocode,
            "columns": dict(self.columns),
            "numbers": self.numbers,
            "missing": dict(self.missing),
            "form": self.form,
        }

    @property
    def counting(self) -> dict[str, Any]:
        """The same, with what a reader needs who counts records (`confidential.records.read_records`)."""
        return {**self.reading, "count": self.count, "household": self.household}


@dataclass(frozen=True)
class RecordsInput(Records):
    """The confidential table."""

    # A plan on published measurements, which has no table, states an empty text.
    count: Annotated[
        Name | None, Field(description="Column of counts. Without it, each row is one record.")
    ] = None
    _: KW_ONLY
    path: Annotated[
        InputPath,
        UNSTATED,
        Field(description="Parquet or CSV file, relative to the release file."),
    ]


@dataclass(frozen=True, kw_only=True)
class GeographyInput(Declared):
    """The public table of all finest geounits, and how the geolevels follow from it."""

    path: Annotated[
        InputPath,
        Field(description="Parquet or CSV file with one row for each finest geounit, empty or not."),
    ]
    geocode: Annotated[Name, Field(description="Column of the finest geocode (text).")] = "geocode"
    geolevels: Annotated[
        Many[PlainName], Field(min_length=1, description="Names of the geolevels, root first.")
    ]
    prefix_lengths: Annotated[
        Many[Annotated[Whole, Field(ge=0, le=1000)]] | None,
        Field(description="Length of the geocode's prefix at each geolevel, in characters."),
    ] = None
    parent_columns: Annotated[
        Many[Name] | None,
        Field(description="Column of the geocode at each geolevel except the finest."),
    ] = None
    names: Annotated[
        InputPath | None,
        Field(
            description="Parquet or CSV file with the text columns geolevel (or family of entities), geocode and name. "
            "The release publishes the names."
        ),
    ] = None
    geometry: Annotated[
        InputPath | None,
        Field(
            description="GeoParquet, GeoJSON, shapefile (.shp) or GeoPackage with polygons or points of finest "
            "geounits. The release publishes them. Needs the extra `maps`."
        ),
    ] = None
    geometry_geocode: Annotated[
        Name | None,
        Field(
            description='Column of the geometry file that holds the finest geocode (text). Default: "geocode".'
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.geometry is None and self.geometry_geocode is not None:
            raise ValueError("geometry_geocode names a column of the file of geometry: give geometry as well")
        # Two statements of the same parents could contradict each other, and none leaves them open.
        if (self.prefix_lengths is None) == (self.parent_columns is None):
            raise ValueError("give either prefix_lengths or parent_columns, and not both")
        if self.prefix_lengths is not None and any(
            below <= above for above, below in pairwise(self.prefix_lengths)
        ):
            raise ValueError(
                "prefix_lengths do not rise: the geocode of a geounit begins with that of the geounit above it, and is "
                "longer"
            )
        entries = self.prefix_lengths if self.prefix_lengths is not None else self.parent_columns
        # The finest geolevel has the column `geocode`, so parent columns are one fewer.
        wanted = len(self.geolevels) - (self.prefix_lengths is None)
        if entries is not None and len(entries) != wanted:
            key = "prefix_lengths" if self.prefix_lengths is not None else "parent_columns"
            raise ValueError(
                f"{key} has {len(entries)} entries, wanted {wanted} for {len(self.geolevels)} geolevels"
            )


def _step(value: Any) -> Any:
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        raise ValueError("a step has no kind")
    return value


def _table(value: Any) -> Any:
    if not isinstance(value, dict):
        raise ValueError("is no table")
    return value


@dataclass(frozen=True, kw_only=True)
class StatedSpine(Declared):
    """The spine of a finished release, as its plan states it.

    Nothing is computed from its steps again: the geography beside the plan has the spine that they made. So the steps
    and the groups are held as they are written.
    """

    original: Annotated[Many[Text], Field(alias="from")]
    geocode: Text
    families: Many[Text]
    steps: Many[Annotated[Any, AfterValidator(_step)]]
    preset: Annotated[Text | None, left_out(None)] = None
    overlapping: Annotated[Many[Any], left_out(())] = ()
    regroup: Annotated[Any, left_out(None), AfterValidator(_table)] = None
    bypassing: Annotated[Text | None, left_out(None)] = None
    most_children: Annotated[Whole | None, left_out(None)] = None


@dataclass(frozen=True)
class Regroup(Declared):
    """Groups of a geolevel chosen by the resulting variances (`group_by_variance`), with limits for all other areas.

    Attributes:
        geolevel: Geolevel whose geounits are the groups.
        limit: Largest number of children of a group.
        aim: Weight of each family and geolevel whose variances are minimised. The name of `geolevel` means the geounits
            that it has in the geography.
        measure: What is minimised: the weighted sum of mean variances, or the greatest variance.
        most_loss: Exact by which the mean standard deviation of any other family or geolevel may grow.
        reference: The spine from which that growth is measured.
        may_worsen: Families and geolevels that have no such limit, and that are not added to the aim automatically.
    """

    geolevel: Name
    limit: FanOutLimit
    aim: ByName[Exact]
    measure: Measure
    most_loss: Exact = MOST_LOSS
    reference: Reference = Reference.STEPS
    may_worsen: Many[Name] = ()

    def __post_init__(self) -> None:
        """Refuse numbers that the search, which uses floats, cannot take; raises BudgetError."""
        for name, weight in self.aim:
            if not can_be_wanted(weight):
                raise BudgetError(
                    f"the aim of the groups gives {name} the weight {in_short(weight)}; wanted a number above 0, from "
                    "1e-9 to 1e9. Leave out of the aim what does not matter."
                )
        if not 0 <= self.most_loss <= LARGEST_WANTED:
            raise BudgetError(
                f"the standard deviations outside the aim of the groups may grow by {in_short(self.most_loss)}; wanted "
                'a fraction from 0 to 1e9, such as "1/20".'
            )


@dataclass(frozen=True, kw_only=True)
class SpineInput(StatedSpine):
    """Off-spine entities, and the steps that make the spine of the release from its geography.

    Attributes:
        original: Geolevels of the geography.
        entities: Parquet or CSV file with one row for each finest geounit.
        geocode: Column holding the finest geocode, in all tables of entities.
        families: Columns that name the entity of each finest geounit. Each column is a family.
        steps: Changes to the spine of the geography, in order. Without steps it stays as it is.
        preset: Name of the production spine that has these steps; None for other steps.
        overlapping: Families whose entities may overlap, each with its Parquet or CSV file: a row for each finest
            geounit of each entity. The plan states the families alone.
        regroup: Groups of geounits that are then chosen by variance; None to keep all groups.
        bypassing: Rule by which geounits are bypassed, after all other changes; None to bypass nothing.
        most_children: Never bypass a geounit with more children; None for no limit.
    """

    steps: Many[Step]
    overlapping: Annotated[
        tuple[tuple[str, Path], ...],
        left_out(()),
        PlainSerializer(lambda pairs: [family for family, _ in pairs]),
    ] = ()
    regroup: Annotated[Regroup | None, left_out(None)] = None
    bypassing: Annotated[BypassRule | None, left_out(None)] = None
    entities: Annotated[Path | None, UNSTATED] = None

    @property
    def changes(self) -> bool:
        """Whether the spine of the release differs from the spine of its geography, or has shares of its own."""
        return bool(self.steps) or self.regroup is not None or self.bypassing is not None


def with_protected(asked: Regroup, steps: Sequence[Step]) -> Regroup:
    """The same, with the families that the steps were made for in the aim, each with weight 1.

    Steps make the spine for their families, and groups chosen without these families would undo that. A family that
    `may_worsen` names does not join. If the aim is the greatest variance, no family joins: the search would then make
    small the greatest variance of a family that nobody asked for. These families have a limit instead, like all others.
    """
    if asked.measure is Measure.MAXIMUM:
        return asked
    given = dict(asked.aim)
    joined = [name for name in families_of(steps) if name not in given and name not in asked.may_worsen]
    return replace(asked, aim=(*asked.aim, *((name, Fraction(1)) for name in joined)))
