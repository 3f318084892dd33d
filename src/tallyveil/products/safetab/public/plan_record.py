"""What a plan guarantees and promises, as plain data, before any record is opened: Census layout, and any records."""

from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from tallyveil.products.safetab.public.expected import detail_errors, expected_errors, size_errors
from tallyveil.products.safetab.public.group_plan import GroupPlan
from tallyveil.products.safetab.public.levels import NEIGHBOURS
from tallyveil.products.safetab.public.plan import SafetabPlan
from tallyveil.products.safetab.public.privacy import RunPrivacy, privacy_of, privacy_of_event
from tallyveil.products.safetab.public.regions import read_regions

_LISTS: Final = ("codes", "mapping", "iterations")


def plan_record(read: SafetabPlan, delta: Fraction, data: Path | None) -> dict[str, Any]:
    """What a plan guarantees and promises, as plain data; groups are counted where there is a geography."""
    record: dict[str, Any] = {
        "neighbours": NEIGHBOURS.value,
        "budget_unit": read.config.mechanism.budget_unit,
        "privacy": [row.to_mapping() for row in privacy_of(read, delta)],
        # Thousands of codes would hide what a reader looks for; their numbers stand below.
        "plan": {key: value for key, value in read.to_mapping().items() if key not in _LISTS},
        "codes": len(read.files.codes),
        "iterations": len(read.files.iterations),
        **expected_errors(read),
    }
    if data is not None:
        regions = read_regions(data, read.config)
        record["groups"] = {
            run.run: {
                row.name: len(regions[run.run].ids[row.geography]) * len(row.view.iterations)
                for row in run.sets
            }
            for run in read.runs
        }
        record["stage_1_counts_and_totals"] = 2 * sum(
            sum(sets.values()) for sets in record["groups"].values()
        )
    return record


def privacy_of_groups(plan: GroupPlan) -> RunPrivacy:
    """The guarantee of a plan, between files that differ by one record."""
    return privacy_of_event(plan.name, plan.spent, plan.event(), plan.mechanism, plan.delta)


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
