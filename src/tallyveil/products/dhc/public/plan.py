"""The plan of a programme: releases of the same people that run in order, and what they will cost together."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tallyveil.accounting.events import Neighbours, PrivacyEvent, SequentialEvent
from tallyveil.accounting.ledger.joint import JointLedgers
from tallyveil.errors import BudgetError
from tallyveil.files.total import Costed, total_guarantee
from tallyveil.plans.constraints import Agreement, Residents
from tallyveil.plans.release import ReleasePlan
from tallyveil.storage.json_files import JsonObject, digest_of

PROGRAMME_PLAN_FORMAT: Final = 1
"""Part of the digest of a programme. Another number would make every programme that was begun another one."""
_BYPASSES: Final = (
    "release '{}' may bypass geounits, and which ones is known once the geography is opened; the exact epsilon follows "
    "from it (plan --read-geography, run)"
)


@dataclass(frozen=True, slots=True)
class PlannedRelease:
    """One release of a programme.

    Attributes:
        name: Its name in the programme, and of its folder.
        file: Its release file.
        plan: Its plan.
        alone: The same plan without its agreements with releases of the programme, and without residents of these.
        reads: Names of earlier releases of the programme whose published files it reads.
    """

    name: str
    file: Path
    plan: ReleasePlan
    alone: ReleasePlan
    reads: tuple[str, ...] = ()

    @property
    def awaited_agreement(self) -> tuple[Agreement, ...]:
        """Its agreements with earlier releases of the programme."""
        return tuple(item for item in self.plan.agreement if item not in self.alone.agreement)

    @property
    def awaited_residents(self) -> tuple[Residents, ...]:
        """Its residents who are people of earlier releases of the programme."""
        return tuple(item for item in self.plan.residents if item not in self.alone.residents)

    def costed(self, *, is_read: bool) -> Costed:
        """What is needed to add its cost to others; `is_read` says whether its geography was opened."""
        unknown = "" if is_read or not self.plan.may_bypass else _BYPASSES.format(self.name)
        return Costed(self.name, self.plan.schema.unit, self.plan.delta, unknown)


@dataclass(frozen=True, slots=True)
class ProgrammePlan:
    """The plan of a programme.

    Attributes:
        name: Name of the programme in messages and in its report.
        file: The file that describes it.
        releases: Its releases, in the order in which they run.
    """

    name: str
    file: Path
    releases: tuple[PlannedRelease, ...]

    def __post_init__(self) -> None:
        relations = {release.plan.strategy.neighbours: release.name for release in self.releases}
        if len(relations) > 1:
            stated = ", ".join(f"'{name}' under {relation.value}" for relation, name in relations.items())
            raise BudgetError(
                f"the releases of programme '{self.name}' are stated under different neighbours ({stated}), so that "
                "their costs do not add up to one guarantee. Give all of them the same [privacy] neighbours."
            )

    @property
    def neighbours(self) -> Neighbours:
        """The relation that all releases are stated under."""
        return self.releases[0].plan.strategy.neighbours

    def to_mapping(self) -> dict[str, Any]:
        """Plain data. It contains no path, so that a programme is the same wherever its files are."""
        return {
            "format": PROGRAMME_PLAN_FORMAT,
            "name": self.name,
            "releases": [
                {"name": release.name, "plan": release.plan.digest().hex(), "reads": list(release.reads)}
                for release in self.releases
            ],
        }

    def digest(self) -> bytes:
        """SHA-256 of the canonical JSON, in which the digests of all plans are."""
        return digest_of(self.to_mapping())


def planned_total(plan: ProgrammePlan, events: Sequence[PrivacyEvent] | None = None) -> JsonObject:
    """What all releases of a programme will guarantee together, before any of them spends.

    Args:
        plan: The programme.
        events: What each release does on its spine; None before the geography is opened. Then the effect of bypassing
            is unknown, so rho alone bounds epsilon where a release may bypass geounits, and the total says so.
    Raises:
        BudgetError, SolverError: no guarantee can be given.
    """
    done_events = events or [release.plan.event() for release in plan.releases]
    # Events compose in any order; names pick those of one unit of records for its total.
    by_name = {release.name: event for release, event in zip(plan.releases, done_events, strict=True)}

    def joint_of(names: Sequence[str]) -> JointLedgers:
        event = SequentialEvent(tuple(by_name[name] for name in names))
        return JointLedgers((), plan.neighbours, event, (), ())

    costed = [release.costed(is_read=events is not None) for release in plan.releases]
    return total_guarantee(costed, joint_of)
