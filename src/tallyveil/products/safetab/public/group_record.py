"""The guarantee and the expected errors of a plan of population groups, as plain data, before any record is opened."""

from dataclasses import asdict
from typing import Any

from tallyveil.products.safetab.public.expected import detail_errors, size_errors
from tallyveil.products.safetab.public.group_plan import GroupPlan
from tallyveil.products.safetab.public.levels import NEIGHBOURS
from tallyveil.products.safetab.public.privacy import RunPrivacy, privacy_of_event


def privacy_of_groups(plan: GroupPlan) -> RunPrivacy:
    """The guarantee of a plan, between files that differ by one record."""
    return privacy_of_event(plan.name, plan.budget, plan.event(), plan.mechanism, plan.delta)


def level_errors(plan: GroupPlan) -> dict[str, list[dict[str, Any]]]:
    """Margins of every level and detail, and errors of groups of several sizes, without data."""
    return {
        name: [{"level": level.name} | asdict(error) for level in plan.levels for error in errors(level)]
        for name, errors in (("details", detail_errors), ("sizes", size_errors))
    }


def group_record(plan: GroupPlan) -> dict[str, Any]:
    """The guarantee, the plan and the expected errors, for the JSON files of a run."""
    mapping = plan.to_mapping()
    return {
        "neighbours": NEIGHBOURS.value,
        "budget_unit": plan.budget_unit,
        "privacy": [privacy_of_groups(plan).to_mapping()],
        "plan": {key: value for key, value in mapping.items() if key not in ("groupings", "schema")},
        **level_errors(plan),
    }
