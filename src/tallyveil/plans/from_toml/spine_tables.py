"""The tables of [spine] in a release file, as typed models."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tallyveil.budget.caps import MOST_LOSS
from tallyveil.declared import Exact, Name
from tallyveil.geography.optimise import Branch, CutByEntities
from tallyveil.geography.steps import PRODUCTION_LIMIT
from tallyveil.plans.from_toml.tables import Table
from tallyveil.schema.names import PlainName
from tallyveil.storage.addresses import InputPath


class FanOutTable(Table):
    """The largest number of children of a group."""

    cutoff: int = Field(
        default=PRODUCTION_LIMIT.cutoff,
        ge=0,
        description="Where n siblings are grouped, a group has at most int(sqrt(n) + cutoff) children.",
    )
    at_most: int | None = Field(
        default=None, ge=1, description="An additional limit that does not depend on n."
    )


class GroupByMembershipTable(FanOutTable):
    """[[spine.steps]] kind = "group_by_membership": group siblings in the same entities (optimised block groups)."""

    kind: Literal["group_by_membership"] = Field(description="Kind of the step.")
    families: list[Name] = Field(min_length=1, description="Families whose entities the groups follow.")
    geolevel: PlainName = Field(
        description="Geolevel of the groups: the one above the children, or a new one."
    )
    children: Name = Field(description="Geolevel whose geounits are grouped.")


class GroupByDistanceTable(FanOutTable):
    """[[spine.steps]] kind = "group_by_distance": group siblings without raising entity distances (tract groups)."""

    kind: Literal["group_by_distance"] = Field(description="Kind of the step.")
    families: list[Name] = Field(min_length=1, description="Families whose entities the groups follow.")
    geolevel: PlainName = Field(
        description="Geolevel of the groups: the one above the children, or a new one."
    )
    children: Name = Field(description="Geolevel whose geounits are grouped; not the finest.")
    remainders: bool = Field(
        default=True, description="Count the area outside all entities of a family as one more."
    )
    gains_first: bool = Field(
        default=False,
        description="Make merges that reduce distances before merges that leave distances equal.",
    )
    measure: Literal["sorted", "sum"] = Field(
        default="sorted",
        description="What to reduce: the distances sorted from the largest down, as the paper, or the sum of them all.",
    )

    @model_validator(mode="after")
    def _order_of_merges(self) -> Self:
        if self.gains_first and self.measure == "sum":
            raise ValueError('gains_first is about the order of merges, of which measure = "sum" has none')
        return self


class RegroupTable(FanOutTable):
    """[spine.regroup]: choose groups that reduce the variances in the aim, and limit how much others may grow."""

    geolevel: Name = Field(description="Geolevel of the groups. It is neither the finest nor the root.")
    aim: dict[Name, Exact] = Field(
        min_length=1,
        description="Weight of each family or geolevel whose variances are to be reduced. The name of the grouped "
        "geolevel means its geounits in the geography as given.",
    )
    measure: Literal["sum", "maximum"] = Field(
        default="sum",
        description="What to reduce: the weighted sum of mean variances, or the largest weighted variance.",
    )
    most_loss: Exact = Field(
        default=MOST_LOSS,
        description="Fraction by which a mean standard deviation outside the aim may grow. This limit applies to every "
        "family of the entity table and every geolevel of the geography.",
    )
    reference: Literal["steps", "geography"] = Field(
        default="steps",
        description="The growth is relative to the spine that the steps make (steps) or to the geography as given.",
    )
    may_worsen: list[Name] = Field(
        default_factory=list,
        description="Families and geolevels to which the limit does not apply. A family that a step is made for is in "
        "the aim with weight 1, unless it is named here.",
    )

    @model_validator(mode="after")
    def _aimed_or_not(self) -> Self:
        if self.most_loss < 0:
            raise ValueError(f'most_loss is {self.most_loss}; wanted 0 or more, such as "1/20"')
        both = [name for name in self.may_worsen if name in self.aim]
        if both:
            raise ValueError(f"aim and may_worsen both name {', '.join(both)}: name each in only one of them")
        return self


StepTable = Annotated[
    Branch | CutByEntities | GroupByMembershipTable | GroupByDistanceTable,
    Field(discriminator="kind"),
]


class SpineTable(Table):
    """[spine]: off-spine entities, and the steps that make the spine from the geography."""

    entities: InputPath | None = Field(
        default=None, description="Parquet or CSV file with one row for each finest geounit."
    )
    geocode: Name = Field(default="geocode", description="Column of the finest geocode (text).")
    families: list[PlainName] = Field(
        default_factory=list,
        description="Columns that name the entity of each finest geounit (null: no entity). The columns that a preset "
        "uses need not be named.",
    )
    overlapping: dict[PlainName, InputPath] = Field(
        default_factory=dict,
        description="Families whose entities may overlap, each with its Parquet or CSV file. The file has one row for "
        "each finest geounit of each entity. Its columns are the geocode column and `entity`.",
    )
    preset: Name | None = Field(
        default=None,
        description='A production spine, such as "redistricting-persons-us", whose steps are used instead of steps.',
    )
    parts: PlainName | None = Field(
        default=None,
        description="With a preset that branches: name of a new geolevel for the parts. The cut geolevel then stays "
        "whole above them. This is needed if an invariant or bounds are stated for the cut geolevel.",
    )
    steps: list[StepTable] = Field(default_factory=list, description="The steps, in order.")
    regroup: RegroupTable | None = Field(
        default=None, description="After the steps, choose groups by their variances."
    )
    bypass: bool | Literal["every_query"] | None = Field(
        default=None,
        description="As the last step, give a geounit's budget to its children, by the rule of the mechanism: from "
        "geounits with a single child for Gaussian noise, by Theorem 2 of Cumings-Menon et al. 2023 for Laplace noise. "
        "The theorem supposes the same query shares at every geolevel. `every_query` bypasses, for both kinds of "
        "noise, only where no query of any geounit gets a greater variance, whatever the query shares. Default: as the "
        "preset says; without a preset, false.",
    )
    most_children: int | None = Field(
        default=None,
        ge=1,
        description="With bypassing: never bypass a geounit with more children. Production had 150 for Laplace noise. "
        "Default: no limit.",
    )

    @model_validator(mode="after")
    def _preset_or_steps(self) -> Self:
        if self.preset is not None and self.steps:
            raise ValueError("give either preset or steps, and not both")
        if self.parts is not None and self.preset is None:
            raise ValueError(
                "parts is given together with a preset; a step of kind branch has its own key parts"
            )
        if (self.entities is None) != (self.preset is None and not self.families):
            raise ValueError(
                "give the entity table in entities, and the families (a preset has families of its own); only "
                "bypass needs neither"
            )
        if self.entities is None and not self.overlapping and not self.bypass:
            raise ValueError(
                "the table has no effect: give entities and families, a preset, or bypass = true"
            )
        return self
