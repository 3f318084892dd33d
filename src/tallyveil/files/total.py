"""What several releases guarantee together: for each unit of record, and for records of all units at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tallyveil.accounting.events import Neighbours
from tallyveil.accounting.ledger.joint import JointLedgers
from tallyveil.accounting.ledger.joint_cost import joint_cost, least_epsilon
from tallyveil.accounting.numbers import claim_text, delta_text, exact_text
from tallyveil.schema.schema import Unit
from tallyveil.storage.json_files import JsonObject

_CHANGE: Final = {Neighbours.BOUNDED: "changes its value", Neighbours.UNBOUNDED: "is added or removed"}
_CHANGE_AT_ONCE: Final = {
    Neighbours.BOUNDED: "change their values at once",
    Neighbours.UNBOUNDED: "are added or removed at once",
}


@dataclass(frozen=True, slots=True)
class Costed:
    """A release whose cost is added up with the costs of others.

    Attributes:
        name: Its name among them.
        unit: What one record is.
        delta: Where it states its epsilon.
        not_exact: Why its losses are not known exactly yet; empty where they are.
    """

    name: str
    unit: Unit
    delta: Fraction
    not_exact: str = ""


def total_guarantee(
    releases: Sequence[Costed], joint_of: Callable[[Sequence[str]], JointLedgers]
) -> JsonObject:
    """What releases of the same people guarantee together.

    Releases of persons and of housing units protect different records. So the releases of each unit are added up by
    themselves (`by_unit`), and all of them for a record of each unit at once (`together`).

    Args:
        releases: At least one.
        joint_of: What the releases of these names do, or did.
    Raises:
        BudgetError: a release protects nobody.
    """
    # In the order in which units first occur: the sentence then follows the order of the releases.
    units = list(dict.fromkeys(release.unit for release in releases))
    by_unit = [_part([release for release in releases if release.unit == unit], joint_of) for unit in units]
    # With one unit both are the same, and the cost of composing is not paid twice.
    return {"by_unit": by_unit, "together": by_unit[0] if len(units) == 1 else _part(releases, joint_of)}


def at_once(units: Sequence[Unit], neighbours: Neighbours) -> str:
    """What changes between two neighbouring populations, where one record of each unit does."""
    records = [_record_of(unit) for unit in units]
    if len(records) == 1:
        return f"{records[0]} {_CHANGE[neighbours]}"
    return f"{', '.join(records[:-1])} and {records[-1]} {_CHANGE_AT_ONCE[neighbours]}"


def _record_of(unit: Unit) -> str:
    return f"one {unit.one}' record" if unit.one.endswith("s") else f"one {unit.one}'s record"


def _part(releases: Sequence[Costed], joint_of: Callable[[Sequence[str]], JointLedgers]) -> JsonObject:
    """The cost of some of the releases, with a sentence."""
    units = list(dict.fromkeys(release.unit for release in releases))
    names = [release.name for release in releases]
    joint = joint_of(names)
    unknown = next((release.not_exact for release in releases if release.not_exact), "")
    # At the largest delta: epsilon at a smaller one would be larger than some release states.
    cost = joint_cost(joint, max(release.delta for release in releases), not_exact=unknown)
    return {
        "units": [unit.many for unit in units],
        "releases": names,
        **cost,
        "statement": _statement(names, cost, at_once(units, joint.neighbours)),
    }


def _statement(names: Sequence[str], cost: JsonObject, change: str) -> str:
    which = f"release {names[0]}"
    if len(names) > 1:
        which = f"releases {', '.join(names[:-1])} and {names[-1]} together"
    epsilon, delta = claim_text(least_epsilon(cost)), delta_text(Fraction(cost["delta"]))
    return (
        f"{which}, when {change}: epsilon <= {epsilon} at delta = {delta}, {cost['neighbours']} neighbours; "
        f"rho = {exact_text(Fraction(cost['rho']))}"
    )
