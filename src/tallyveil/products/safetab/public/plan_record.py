"""What a SafeTab plan guarantees and promises, as plain data, before any record is opened."""

from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from tallyveil.products.safetab.public.expected import expected_errors
from tallyveil.products.safetab.public.levels import NEIGHBOURS
from tallyveil.products.safetab.public.plan import SafetabPlan
from tallyveil.products.safetab.public.privacy import privacy_of
from tallyveil.products.safetab.public.regions import read_regions

_LISTS: Final = ("codes", "mapping", "iterations")


def plan_record(read: SafetabPlan, delta: Fraction, data: Path | None) -> dict[str, Any]:
    """What a plan guarantees and promises, as plain data; groups are counted where there is a geography."""
    record: dict[str, Any] = {
        "neighbours": NEIGHBOURS.value,
        "budget_unit": read.budget_unit,
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
