"""The files of `tallyveil compare` and `tallyveil attack`: inputs, methods, and what attackers want to know."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from tallyveil.compare.inputs import EntitiesTable, UnitColumns
from tallyveil.compare.methods.cell_key import CellKey
from tallyveil.compare.methods.coarsening import Coarsening
from tallyveil.compare.methods.controlled_rounding import ControlledRounding
from tallyveil.compare.methods.elsewhere import PublishedCounts, ReleaseFolder
from tallyveil.compare.methods.exact import Exact
from tallyveil.compare.methods.permutation_swapping import PermutationSwapping
from tallyveil.compare.methods.rounding import RandomRounding, Rounding
from tallyveil.compare.methods.safetab import SafeTab
from tallyveil.compare.methods.sampling import Sampling
from tallyveil.compare.methods.suppression import Suppression
from tallyveil.compare.methods.swapping import Swapping
from tallyveil.compare.methods.topdown import TopDown
from tallyveil.declared import Name
from tallyveil.plans.from_toml.tables import Table
from tallyveil.schema.names import PlainName
from tallyveil.storage.addresses import InputPath

MOST_METHODS = 24
"""Largest number of methods: the dots of more could not be told apart in a figure."""

AnyMethod = Annotated[
    CellKey
    | Coarsening
    | ControlledRounding
    | Exact
    | PermutationSwapping
    | PublishedCounts
    | RandomRounding
    | ReleaseFolder
    | Rounding
    | SafeTab
    | Sampling
    | Suppression
    | Swapping
    | TopDown,
    Field(discriminator="kind"),
]
"""One of the methods, by its `kind`."""


class AttacksTable(Table):
    """[attacks]: what attackers want to know, and how many people they try."""

    sensitive: Name = Field(description="Attribute that attackers want to know. They know all others.")
    people: int = Field(
        default=4000,
        ge=200,
        le=200_000,
        description="People that an attack tries; half of them tune it, and the others judge it.",
    )


class AttackFile(Table):
    """The file of `tallyveil attack`: what was published, and what attackers want to know."""

    published: InputPath = Field(
        description="Folder of a finished release, or a table of published counts (Parquet or CSV)."
    )
    release: InputPath | None = Field(
        default=None,
        description="Release file whose geography and schema a table of counts has; a finished release has its own.",
    )
    key: Name = Field(description="Text from which all random numbers follow.")
    tables: list[Name] | None = Field(
        default=None, min_length=1, description="Queries. Default: the tables of the release."
    )
    entities: EntitiesTable | None = None
    attacks: AttacksTable
    method: AnyMethod | None = Field(
        default=None,
        description="What the office says that it did; without it a table is taken at face value.",
    )

    @property
    def inputs(self) -> tuple[Path, ...]:
        """Files and folders that the file names."""
        entities = () if self.entities is None else (self.entities.path,)
        release = () if self.release is None else (self.release,)
        return (self.published, *release, *entities, *(() if self.method is None else self.method.inputs))


class CompareFile(Table):
    """The whole file."""

    release: InputPath = Field(
        description="Release file, whose records, geography, schema and shares are those of the comparison."
    )
    later: InputPath | None = Field(
        default=None,
        description="Release file of another year with the same schema and geocodes, whose records are published by "
        "the same methods, so that changes can be compared.",
    )
    key: Name = Field(description="Text from which all random numbers follow.")
    note: Name | None = Field(
        default=None, description="What readers of the page must know of the records and the settings."
    )
    tables: list[Name] | None = Field(
        default=None, min_length=1, description="Queries. Default: the tables of the release file."
    )
    entities: EntitiesTable | None = None
    households: Name | None = Field(
        default=None,
        description="Column of the records that names the household, for swapping. Default: each person is one.",
    )
    contributors: Name | None = Field(
        default=None,
        description="Column of the records that names the contributor, for rules of suppression. Default: each record "
        "is one.",
    )
    questions: bool = Field(
        default=True,
        description="Whether the offices answer questions about areas that users choose. If not, attack (c) is left "
        "out.",
    )
    draws: int = Field(
        default=5,
        ge=1,
        le=50,
        description="Draws of every method that is random; numbers are means over them.",
    )
    attacks: AttacksTable
    methods: list[AnyMethod] = Field(min_length=1, max_length=MOST_METHODS)

    @property
    def inputs(self) -> tuple[Path, ...]:
        """Files and folders that the file names."""
        entities = () if self.entities is None else (self.entities.path,)
        later = () if self.later is None else (self.later,)
        return (self.release, *later, *entities, *(path for method in self.methods for path in method.inputs))

    @property
    def units(self) -> UnitColumns:
        """Columns of households and contributors."""
        return UnitColumns(self.households, self.contributors)

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names: list[PlainName] = [method.name for method in self.methods]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"methods are named twice: {', '.join(twice)}. Give each a name of its own")
        return self
