"""What is said of a release's spine: how it was made, and how far areas are from it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tallyveil.declared import mapping_of
from tallyveil.geography.areas import AreaChange, Deviation, Hierarchies
from tallyveil.geography.distance import off_spine_distances
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine
from tallyveil.plans.release import ReleasePlan
from tallyveil.products.topdown.run.spine_changes import warnings_of


def spine_record(plan: ReleasePlan, hierarchies: Hierarchies) -> dict[str, Any] | None:
    """How the spine was made and what that changed, as plain data; None for a geography used as it is.

    Returns:
        `steps`; geounits and children of `original` and `made` by geolevel; `replaced`, the geolevels of the
        original that the spine does not have as they were; off-spine `distances` of every entity family and replaced
        geolevel on both; `deviations`, the standard deviations of totals of every kind of area, also of families that
        the plan does not name; `warnings` of those that the spine makes less exact; `preset`, `regroup` and
        `bypassing` where the plan has them, the last with geounits measured and not measured, and their shares, by
        geolevel.
    Privacy: computed from public geography only.
    """
    if plan.spine is None:
        return None
    asked = mapping_of(plan.spine)
    areas = (*hierarchies.families, *hierarchies.replaced)
    return {
        **{key: value for key, value in asked.items() if key in ("steps", "preset", "regroup")},
        "original": _levels(hierarchies.original),
        "made": _levels(hierarchies.spine),
        "replaced": list(hierarchies.replaced_names),
        "distances": {area.name: _distances(hierarchies, area) for area in areas},
        "deviations": change_records(hierarchies.changes),
        "warnings": list(warnings_of(hierarchies.changes)),
        **({"bypassing": _bypassed(asked["bypassing"], hierarchies)} if "bypassing" in asked else {}),
    }


def change_records(changes: Sequence[AreaChange]) -> list[dict[str, Any]]:
    """What a spine changes for every kind of area, as plain data; a deviation that nothing tells is null."""
    return [
        {
            "name": change.name,
            "kind": change.kind,
            "areas": change.areas,
            "aimed": change.aimed,
            "unmet": change.unmet,
            "given": _rounded(change.given),
            "steps": _rounded(change.steps),
            "made": _rounded(change.made),
        }
        for change in changes
    ]


def changes_record(changes: Sequence[AreaChange]) -> dict[str, Any]:
    """The same under `spine`, with its warnings; nothing where no step changes the spine."""
    if not changes:
        return {}
    return {"spine": {"deviations": change_records(changes), "warnings": list(warnings_of(changes))}}


def _rounded(deviation: Deviation) -> dict[str, float | None]:
    return {name: round(value, 4) if value < np.inf else None for name, value in deviation._asdict().items()}


def _bypassed(rule: str, hierarchies: Hierarchies) -> dict[str, Any]:
    """Which geounits are measured, and with which share."""
    spine, shares = hierarchies.spine, hierarchies.shares
    if shares is None:
        return {"rule": rule, "geolevels": []}
    measured = [int(shares.measured(level).sum()) for level in range(spine.n_levels)]
    return {
        "rule": rule,
        "geolevels": [
            {
                "geolevel": name,
                "measured": measured[level],
                "not_measured": spine.n_geounits(level) - measured[level],
                "shares": {str(share): count for share, count in shares.tally(level).items()},
            }
            for level, name in enumerate(spine.geolevels)
        ],
    }


def _levels(spine: Spine) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for level, name in enumerate(spine.geolevels):
        record: dict[str, Any] = {"geolevel": name, "geounits": spine.n_geounits(level)}
        if level < spine.finest:
            children = np.diff(spine.child_offsets[level])
            record |= {
                "children_mean": round(float(children.mean()), 2),
                "children_most": int(children.max()),
                "single_children": int((children == 1).sum()),
            }
        found.append(record)
    return found


def _distances(hierarchies: Hierarchies, area: EntityFamily) -> dict[str, Any]:
    made = off_spine_distances(hierarchies.spine, area)
    record: dict[str, Any] = {"entities": area.n_entities}
    if hierarchies.original is not hierarchies.spine:
        rows = hierarchies.spine.locate(
            hierarchies.spine.finest, hierarchies.original.geocodes[hierarchies.original.finest].text
        )
        before = off_spine_distances(hierarchies.original, area.reordered(rows))
        record |= {"original_mean": round(before.mean, 2), "original_most": before.maximum}
    return record | {"mean": round(made.mean, 2), "most": made.maximum}
