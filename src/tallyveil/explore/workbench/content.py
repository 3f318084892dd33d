"""What the workbench is told of a plan: its budget, its shares, its queries, and what is not offered and why."""

from pathlib import Path

from tallyveil.errors import ConfigError
from tallyveil.explore.workbench.template import release_template
from tallyveil.plans.release import ReleasePlan
from tallyveil.storage.json_files import JsonObject


def require_offered(path: Path, plan: ReleasePlan) -> None:
    """Refuse a release whose budget is not divided by geolevel and query alone.

    Raises:
        ConfigError: counts of the release are drawn on the lattice of its invariants.
    """
    if plan.subspace:
        drawn = ", ".join(f"{item.query} at {item.geolevel}" for item in plan.subspace)
        raise ConfigError(
            f"{path} draws counts on the lattice of its invariants ({drawn}). Their budget is no share of the "
            "strategy, and the workbench has no slider for it. `tallyveil plan` shows this release; for a workbench, "
            "remove [[subspace]].",
            code="workbench-file",
        )


def plan_content(path: Path, plan: ReleasePlan) -> JsonObject:
    """The plan as the page reads it (`app/workbench/state.js`, `GivenPlan`)."""
    strategy, sensitivities = plan.strategy, dict(plan.strategy.sensitivities)
    return {
        "name": plan.name,
        "unit": {"one": plan.schema.unit.one, "many": plan.schema.unit.many},
        "neighbours": strategy.neighbours.value,
        "mechanism": strategy.mechanism.value,
        "delta": str(plan.delta),
        "declared": str(plan.declared),
        "total": str(strategy.total),
        "bypasses": plan.terms.may_bypass,
        "invariants": [f"{item.query} at {', '.join(item.geolevels)}" for item in plan.invariants],
        "geolevels": [
            {
                "name": level,
                "share": str(share),
                "queries": [
                    {
                        "name": query,
                        "share": str(part),
                        "answers": plan.query(query).size,
                        "sensitivity": sensitivities.get(query, 1),
                    }
                    for query, part in dict(strategy.query_shares)[level]
                ],
            }
            for level, share in strategy.geolevel_shares
        ],
        "template": release_template(path, plan),
    }
