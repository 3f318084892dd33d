"""Inputs of a release, as data: its records, its geography, and the steps that make its spine."""

from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from tallyveil.budget.caps import MOST_LOSS, Reference
from tallyveil.budget.spine.regroup import Measure
from tallyveil.geography.bypass import BypassRule
from tallyveil.geography.fan_out import FanOutLimit
from tallyveil.geography.optimise import (
    Branch,
    CutByEntities,
    GroupByDistance,
    GroupByMembership,
    Step,
)


@dataclass(frozen=True, slots=True)
class RecordsInput:
    """Where the confidential records are and how to read them.

    Attributes:
        path: Parquet or CSV file, one row a person, or one row a count where `count` names a column.
        geocode: Column holding the geocode of the finest geolevel.
        count: Column holding non-negative counts, or None for one row a person.
        columns: Column of each attribute, by attribute name.
    """

    path: Path
    geocode: str
    count: str | None
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class GeographyInput:
    """The public table of the finest geounits, and how geolevels are read off it.

    Attributes:
        path: Parquet or CSV file, one row for every finest geounit, also the empty ones.
        geocode: Column holding the finest geocode.
        geolevels: Names, root first.
        prefix_lengths: Length of the geocode's prefix at each geolevel, or None.
        parent_columns: Column holding the geocode at each geolevel but the finest, or None.
    """

    path: Path
    geocode: str
    geolevels: tuple[str, ...]
    prefix_lengths: tuple[int, ...] | None
    parent_columns: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class SpineInput:
    """Off-spine entities, and the steps that make the spine of the release from its geography.

    Attributes:
        entities: Parquet or CSV file, one row a finest geounit.
        geocode: Column holding the finest geocode, in all tables of entities.
        families: Columns that name the entity of each finest geounit; each is a family.
        steps: What is done to the geography's spine, in order; none leaves it as it is.
        preset: Name of the production spine whose steps these are; None for steps of one's own.
        overlapping: Families whose entities may overlap, each with its Parquet or CSV file: a row for each finest
            geounit of each entity.
        regroup: Whose groups are then chosen by variance; None to leave all groups as they are.
        bypassing: Rule by which geounits are bypassed, last; None to bypass nothing.
    """

    entities: Path | None
    geocode: str
    families: tuple[str, ...]
    steps: tuple[Step, ...]
    preset: str | None = None
    overlapping: tuple[tuple[str, Path], ...] = ()
    regroup: "Regroup | None" = None
    bypassing: BypassRule | None = None

    @property
    def changes(self) -> bool:
        """Whether the spine of the release is another than that of its geography, or has shares of its own."""
        return bool(self.steps) or self.regroup is not None or self.bypassing is not None

    def to_mapping(self) -> dict[str, Any]:
        """Plain data, without the path."""
        # What is not asked for is left out, so that other plans keep their digest.
        return {
            "geocode": self.geocode,
            "families": list(self.families),
            "steps": [{"kind": STEP_KINDS[type(step)], **asdict(step)} for step in self.steps],
            **({"preset": self.preset} if self.preset is not None else {}),
            **({"overlapping": [name for name, _ in self.overlapping]} if self.overlapping else {}),
            **({"regroup": self.regroup.to_mapping()} if self.regroup is not None else {}),
            **({"bypassing": self.bypassing.value} if self.bypassing is not None else {}),
        }


@dataclass(frozen=True, slots=True)
class Regroup:
    """Groups of a geolevel chosen by the variances they lead to (`group_by_variance`), within limits for all else.

    Attributes:
        geolevel: Whose geounits are the groups.
        limit: Most children of a group.
        aim: Weight of each family and geolevel that the variances are of; the geolevel itself stands for the
            geounits it has in the geography.
        measure: Weighted sum of mean variances, or the greatest.
        most_loss: Part by which the mean standard deviation of any other family or geolevel may grow.
        reference: What that growth is counted from.
        may_worsen: Families and geolevels that have no such limit, and that do not join the aim by themselves.
    """

    geolevel: str
    limit: FanOutLimit
    aim: tuple[tuple[str, Fraction], ...]
    measure: Measure
    most_loss: Fraction = MOST_LOSS
    reference: Reference = Reference.STEPS
    may_worsen: tuple[str, ...] = ()

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
"""What a step is called in a release file and in a plan."""
