"""Inputs of a release, as data: its records, its geography, and the steps that make its spine."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from tallyveil.budget.caps import MOST_LOSS, Reference
from tallyveil.budget.fractions import LARGEST_WANTED, can_be_wanted
from tallyveil.budget.spine.regroup import Measure
from tallyveil.errors import BudgetError
from tallyveil.exact import in_short
from tallyveil.geography.bypass import BypassRule
from tallyveil.geography.fan_out import FanOutLimit
from tallyveil.geography.optimise import (
    Branch,
    CutByEntities,
    GroupByDistance,
    GroupByMembership,
    Step,
    families_of,
)


@dataclass(frozen=True, slots=True)
class RecordsInput:
    """The file of confidential records, and how to read it.

    Attributes:
        path: Parquet or CSV file with one row for each person, or one row for each count if `count` names a column.
        geocode: Column holding the geocode of the finest geolevel.
        count: Column of non-negative counts, or None for one row for each person.
        columns: Column of each attribute, by attribute name.
        numbers: Attributes whose columns hold whole numbers. Their levels are ranges (`tallyveil.schema.ranges`).
    """

    path: Path
    geocode: str
    count: str | None
    columns: tuple[tuple[str, str], ...]
    numbers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GeographyInput:
    """The public table of the finest geounits, and how the geolevels follow from it.

    Attributes:
        path: Parquet or CSV file with one row for every finest geounit, including empty ones.
        geocode: Column holding the finest geocode.
        geolevels: Names of the geolevels, root first.
        prefix_lengths: Length of the geocode's prefix at each geolevel, or None.
        parent_columns: Column holding the geocode at each geolevel except the finest, or None.
        names: Parquet or CSV file with names of geounits and entities, or None.
        geometry: File with polygons or points of the finest geounits, or None.
        geometry_geocode: Column of that file holding the finest geocode.
    """

    path: Path
    geocode: str
    geolevels: tuple[str, ...]
    prefix_lengths: tuple[int, ...] | None
    parent_columns: tuple[str, ...] | None
    names: Path | None = None
    geometry: Path | None = None
    geometry_geocode: str = "geocode"


@dataclass(frozen=True, slots=True)
class SpineInput:
    """Off-spine entities, and the steps that make the spine of the release from its geography.

    Attributes:
        entities: Parquet or CSV file with one row for each finest geounit.
        geocode: Column holding the finest geocode, in all tables of entities.
        families: Columns that name the entity of each finest geounit. Each column is a family.
        steps: Changes to the spine of the geography, in order. Without steps it stays as it is.
        preset: Name of the production spine that has these steps; None for other steps.
        overlapping: Families whose entities may overlap, each with its Parquet or CSV file: a row for each finest
            geounit of each entity.
        regroup: Groups of geounits that are then chosen by variance; None to keep all groups.
        bypassing: Rule by which geounits are bypassed, after all other changes; None to bypass nothing.
        most_children: Never bypass a geounit with more children; None for no limit.
    """

    entities: Path | None
    geocode: str
    families: tuple[str, ...]
    steps: tuple[Step, ...]
    preset: str | None = None
    overlapping: tuple[tuple[str, Path], ...] = ()
    regroup: "Regroup | None" = None
    bypassing: BypassRule | None = None
    most_children: int | None = None

    @property
    def changes(self) -> bool:
        """Whether the spine of the release differs from the spine of its geography, or has shares of its own."""
        return bool(self.steps) or self.regroup is not None or self.bypassing is not None

    def to_mapping(self) -> dict[str, Any]:
        """Plain data, without the path."""
        # Keys that are not used are left out, so that plans without them keep their digest.
        return {
            "geocode": self.geocode,
            "families": list(self.families),
            "steps": [{"kind": STEP_KINDS[type(step)], **asdict(step)} for step in self.steps],
            **({"preset": self.preset} if self.preset is not None else {}),
            **({"overlapping": [name for name, _ in self.overlapping]} if self.overlapping else {}),
            **({"regroup": self.regroup.to_mapping()} if self.regroup is not None else {}),
            **({"bypassing": self.bypassing.value} if self.bypassing is not None else {}),
            **({"most_children": self.most_children} if self.most_children is not None else {}),
        }


@dataclass(frozen=True, slots=True)
class Regroup:
    """Groups of a geolevel chosen by the resulting variances (`group_by_variance`), with limits for all other areas.

    Attributes:
        geolevel: Geolevel whose geounits are the groups.
        limit: Largest number of children of a group.
        aim: Weight of each family and geolevel whose variances are minimised. The name of `geolevel` means the geounits
            that it has in the geography.
        measure: What is minimised: the weighted sum of mean variances, or the greatest variance.
        most_loss: Fraction by which the mean standard deviation of any other family or geolevel may grow.
        reference: The spine from which that growth is measured.
        may_worsen: Families and geolevels that have no such limit, and that are not added to the aim automatically.
    """

    geolevel: str
    limit: FanOutLimit
    aim: tuple[tuple[str, Fraction], ...]
    measure: Measure
    most_loss: Fraction = MOST_LOSS
    reference: Reference = Reference.STEPS
    may_worsen: tuple[str, ...] = ()

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

    def to_mapping(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "geolevel": self.geolevel,
            "limit": asdict(self.limit),
            "aim": {name: str(weight) for name, weight in self.aim},
            "measure": self.measure.value,
            "most_loss": str(self.most_loss),
            "reference": self.reference.value,
            "may_worsen": list(self.may_worsen),
        }


STEP_KINDS: dict[type[Step], str] = {
    Branch: "branch",
    CutByEntities: "cut_by_entities",
    GroupByMembership: "group_by_membership",
    GroupByDistance: "group_by_distance",
}
"""Name of each kind of step in a release file and in a plan."""


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
