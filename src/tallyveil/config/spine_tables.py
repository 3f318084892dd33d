"""The tables of [spine] in a release file."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tallyveil.budget.caps import MOST_LOSS
from tallyveil.config.tables import Exact, Name, PlainName, Table
from tallyveil.geography.fan_out import PRODUCTION_LIMIT


class FanOutTable(Table):
    """Most children of a group."""

    cutoff: int = Field(
        default=PRODUCTION_LIMIT.cutoff,
        ge=0,
        description="A group has at most int(sqrt(n) + cutoff) children, of n siblings that are grouped.",
    )
    at_most: int | None = Field(default=None, ge=1, description="A limit that holds whatever n is.")


class BranchTable(Table):
    """[[spine.steps]] kind = "branch": cut geounits by an area, such as all tribal areas."""

    kind: Literal["branch"]
    family: Name = Field(description="Family of the entities that make the area.")
    geolevel: Name = Field(description="First geolevel to be cut.")
    name: PlainName = Field(description="Name of the branch, written into geocodes.")
    entities: list[Name] | None = Field(default=None, description="The entities; without them, all.")
    parts: PlainName | None = Field(
        default=None,
        description="New geolevel for the parts of the geolevel, which then stays whole above them, as it must "
        "where an invariant or bounds are stated for it.",
    )


class CutByEntitiesTable(Table):
    """[[spine.steps]] kind = "cut_by_entities": prims, tract subsets."""

    kind: Literal["cut_by_entities"]
    families: list[Name] = Field(min_length=1, description="Families whose entities cut.")
    geolevel: Name = Field(description="First geolevel to be cut.")
    name: PlainName = Field(description="Name of the geolevel of parts.")
    keep: bool = Field(
        default=True, description="Keep the geolevel whole above its parts; otherwise they take its place."
    )


class GroupByMembershipTable(FanOutTable):
    """[[spine.steps]] kind = "group_by_membership": optimised block groups."""

    kind: Literal["group_by_membership"]
    families: list[Name] = Field(min_length=1)
    geolevel: PlainName = Field(
        description="Geolevel of the groups: the one above the children, or a new one."
    )
    children: Name = Field(description="Geolevel whose geounits are grouped.")


class GroupByDistanceTable(FanOutTable):
    """[[spine.steps]] kind = "group_by_distance": tract groups."""

    kind: Literal["group_by_distance"]
    families: list[Name] = Field(min_length=1)
    geolevel: PlainName = Field(
        description="Geolevel of the groups: the one above the children, or a new one."
    )
    children: Name = Field(description="Geolevel whose geounits are grouped; not the finest.")
    remainders: bool = Field(default=True, description="Count what is in no entity of a family as one more.")
    gains_first: bool = Field(
        default=False, description="Merge what gains before what leaves distances equal."
    )


class RegroupTable(FanOutTable):
    """[spine.regroup]: groups chosen by the variances they lead to, within limits for what is not in the aim."""

    geolevel: Name = Field(description="Geolevel of the groups; neither the finest nor the root.")
    aim: dict[Name, Exact] = Field(
        min_length=1,
        description="Weight of each family or geolevel whose variances are to fall; the geolevel of the groups stands "
        "for the geounits it has in the geography.",
    )
    measure: Literal["sum", "maximum"] = Field(
        default="sum", description="Weighted sum of mean variances, or the greatest single one."
    )
    most_loss: Exact = Field(
        default=MOST_LOSS,
        description="Part by which the mean standard deviation of any family of the entity table, or geolevel of the "
        "geography, that is not in the aim may grow.",
    )
    reference: Literal["steps", "geography"] = Field(
        default="steps",
        description="What that growth is counted from: the spine that the steps make, or the geography as given.",
    )
    may_worsen: list[Name] = Field(
        default_factory=list,
        description="Families and geolevels without that limit. A family that a step is made for joins the aim with "
        "weight 1 unless it is named here.",
    )

    @model_validator(mode="after")
    def _aimed_or_not(self) -> Self:
        if self.most_loss < 0:
            raise ValueError(f'most_loss is {self.most_loss}; wanted 0 or more, such as "1/20"')
        both = [name for name in self.may_worsen if name in self.aim]
        if both:
            raise ValueError(f"aim and may_worsen both name {', '.join(both)}: name each in one of them")
        return self


StepTable = Annotated[
    BranchTable | CutByEntitiesTable | GroupByMembershipTable | GroupByDistanceTable,
    Field(discriminator="kind"),
]


class SpineTable(Table):
    """[spine]: off-spine entities, and how the spine is made from the geography."""

    entities: Name | None = Field(
        default=None, description="Parquet or CSV file with one row a finest geounit."
    )
    geocode: Name = Field(default="geocode", description="Column of the finest geocode (text).")
    families: list[PlainName] = Field(
        default_factory=list,
        description="Columns naming the entity of each finest geounit (null: in none); a preset's need not be named.",
    )
    overlapping: dict[PlainName, Name] = Field(
        default_factory=dict,
        description="Families whose entities may overlap, each with its Parquet or CSV file: a row for each finest "
        "geounit of each entity, with the columns of geocode and `entity`.",
    )
    preset: Name | None = Field(
        default=None,
        description='Steps of a production spine, such as "redistricting-persons-us"; instead of steps.',
    )
    parts: PlainName | None = Field(
        default=None,
        description="With a preset that branches: new geolevel for the parts of the geolevel it cuts, which then stays "
        "whole above them, as it must where an invariant or bounds are stated for it.",
    )
    steps: list[StepTable] = Field(default_factory=list, description="What is done, in order.")
    regroup: RegroupTable | None = Field(
        default=None, description="Groups chosen by variance, after the steps."
    )
    bypass: bool | None = Field(
        default=None,
        description="Last: measure a geounit and its children once where that makes no estimate worse. Without it, "
        "as the preset says, or not.",
    )

    @model_validator(mode="after")
    def _preset_or_steps(self) -> Self:
        if self.preset is not None and self.steps:
            raise ValueError("give either preset or steps, and not both")
        if self.parts is not None and self.preset is None:
            raise ValueError("parts goes with a preset; a step of kind branch has parts of its own")
        if (self.entities is None) != (self.preset is None and not self.families):
            raise ValueError(
                "give the entity table in entities, with families (a preset brings its own); only bypass needs neither"
            )
        if self.entities is None and not self.overlapping and not self.bypass:
            raise ValueError("does nothing: give entities and families, a preset, or bypass = true")
        return self
