"""A plan as plain data: its cost, its expected errors, the resources of a run, and advice.

The advice says how a plan could be improved at the same cost; `tallyveil plan` and the report show it.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final

from tallyveil.budget.allocation import Allocation
from tallyveil.budget.guarantees import query_parameters
from tallyveil.budget.presets import load_strategy_preset, strategy_preset_names
from tallyveil.budget.queries import Saving, find_saving
from tallyveil.budget.spine.presets import load_spine_preset
from tallyveil.budget.strategy import Strategy, expected_errors
from tallyveil.declared import mapping_of
from tallyveil.geography.optimise import Branch, CutByEntities, Step
from tallyveil.plans.groups import groups_of, tied_of
from tallyveil.plans.guarantee import guarantee_of
from tallyveil.plans.guess import guess_words, planned_guess
from tallyveil.plans.release import ReleasePlan, StatedPlan
from tallyveil.plans.resources import Resources
from tallyveil.plans.table_errors import table_errors
from tallyveil.printable import some_names
from tallyveil.schema.schema import Schema
from tallyveil.storage.json_files import toml_key, toml_lines, toml_table


def fixed_shares(plan: StatedPlan) -> dict[str, Any] | None:
    """Shares of a plan that are spent on answers which its invariants publish, and a better use of them.

    Args:
        plan: The plan of a release, before it is made or as its folder states it.
    Returns:
        Plain data; None if no share is spent in this way. `sentences` is the advice in words. `toml` holds the two
        tables of a release file that give these shares to other queries; it is None if no share can be moved.
    """
    strategy = plan.strategy_in_passes
    invariants = _on_whole_geounits(plan)
    saving = find_saving(strategy, plan.schema, invariants)
    if saving is None:
        return None
    better = saving.strategy
    return {
        "fixed": [
            {
                "geolevel": item.geolevel,
                "query": item.query,
                "share": str(item.share),
                "known_from": item.known_from,
            }
            for item in saving.fixed
        ],
        "freed": str(saving.share),
        "standard_deviation_factor": saving.deviation,
        "sentences": _sentences(saving, strategy.budget_unit),
        "better": None if better is None else _shares(better),
        "toml": None if better is None else strategy_tables(better, plan),
    }


def impossible_levels(schema: Schema) -> tuple[str, ...]:
    """A sentence for each attribute with levels that the structural zeros forbid whatever the other levels are."""
    sentences = []
    for attribute in schema.attributes:
        possible = set(schema.possible_answers(schema.query(attribute.name)).tolist())
        lost = [level for code, level in enumerate(attribute.levels) if code not in possible]
        if lost:
            sentences.append(
                f"the structural zeros allow no {schema.unit.one} to have the level(s) {some_names(lost)} of attribute "
                f"{attribute.name}: their counts are zero by definition. If that is not meant, correct them."
            )
    return tuple(sentences)


def spine_advice(plan: ReleasePlan) -> str | None:
    """The production spine that fits a production strategy, if the plan uses the geography as it is; otherwise None.

    The result is also None if constraints of the plan name geolevels whose geounits would not be sums of siblings on
    that spine.
    """
    if plan.spine is not None and (plan.spine.steps or plan.spine.regroup is not None):
        # Somebody who has made a spine of his own needs no advice on it.
        return None
    for name in strategy_preset_names():
        preset = load_strategy_preset(name)
        # Compared without the budget: the shares alone decide which spine fits.
        same = _divided(preset.strategy) == _divided(plan.strategy)
        if same and preset.spine is not None:
            spine = load_spine_preset(preset.spine)
            if _stated_geolevels(plan) & _changed_geolevels(spine.steps, plan.geolevels):
                return None
            return (
                f"The shares are those of strategy preset '{name}', and the geography is measured as given. Production "
                f'used these shares on another spine: [spine] preset = "{spine.name}", with a table of the entities '
                f"{', '.join(spine.families)}. On that spine these entities are sums of fewer measured geounits, and "
                "the published block groups are no longer measured themselves. "
                "`tallyveil plan --families` shows the standard deviations of both."
            )
    return None


def _divided(strategy: Strategy) -> list[tuple[object, ...]]:
    """How a strategy divides its budget, whatever the budget is."""
    return [(level, share, strategy.shares_of(level)) for level, share in strategy.geolevel_shares]


def _stated_geolevels(plan: ReleasePlan) -> set[str]:
    """Geolevels that constraints name; the finest geolevel is left out, because it is never divided or replaced."""
    named = {level for item in plan.invariants for level in item.geolevels}
    named |= {item.geolevel for item in plan.bounds} | {item.geolevel for item in plan.subspace}
    # The finest geolevel is never cut, so constraints on it always hold.
    return named - {plan.geolevels[-1]}


def _changed_geolevels(steps: Sequence[Step], geolevels: Sequence[str]) -> set[str]:
    """Geolevels whose geounits are not sums of siblings after the steps: replaced ones and those below a cut."""
    changed: set[str] = set()
    for step in steps:
        cut = isinstance(step, Branch | CutByEntities)
        place = geolevels.index(step.geolevel)
        # A cut divides everything below it; a replacement only its own geolevel.
        changed |= set(geolevels[place + 1 :] if cut else geolevels[place : place + 1])
    return changed


def _on_whole_geounits(plan: StatedPlan) -> list[tuple[str, list[str]]]:
    """The invariants of a plan, at geolevels whose geounits stay whole.

    An invariant of a geolevel that the steps of the spine may cut tells the answers of whole geounits above that
    geolevel only. Which geounits are cut is known when the geography is read; here every one of them may be.
    """
    may_be_cut = _cut_geolevels(plan)
    stated: list[tuple[str, list[str]]] = []
    for item in plan.invariants:
        names = list(item.geolevels)
        if may_be_cut.intersection(names):
            whole = [name for name in plan.geolevels if name not in may_be_cut]
            first = min(plan.geolevels.index(name) for name in may_be_cut if name in plan.geolevels)
            # The geolevel just above the first cut keeps whole geounits, whose answers are sums.
            above = [name for name in whole if plan.geolevels.index(name) < first]
            names = [name for name in names if name not in may_be_cut] + above[-1:]
        stated += [(item.query, names)] if names else []
    return stated


def _cut_geolevels(plan: StatedPlan) -> set[str]:
    """Geolevels of the geography that the steps of a plan's spine may cut or replace; the finest is never cut."""
    spine = {"from": [], "steps": []} if plan.spine is None else mapping_of(plan.spine)
    cut: set[str] = set()
    for step in spine["steps"]:
        names, place = spine["from"], 1
        if step["geolevel"] in names:
            place = names.index(step["geolevel"])
        if step["kind"] in ("branch", "cut_by_entities"):
            stays_whole = step.get("parts") is not None or step.get("keep") is True
            cut.update(names[place + stays_whole : -1])
        elif step["geolevel"] in names:
            cut.add(step["geolevel"])
    return cut


def _sentences(saving: Saving, unit: str) -> list[str]:
    where = "; ".join(f"{item.query} at {item.geolevel} (by {item.known_from})" for item in saving.fixed)
    share = sum(item.share for item in saving.fixed)
    said = [
        f"{100 * float(share):.3g} % of the strategy's {unit} measures answers that are published exactly anyway: "
        f"{where}."
    ]
    if saving.strategy is not None:
        fall = 100 * (1 - saving.deviation)
        freed = (
            "this share"
            if share == saving.share
            else f"{100 * float(saving.share):.3g} % of the strategy's {unit}"
        )
        said.append(
            f"If {freed} went to the other queries, in the proportions they have, their standard deviations would fall "
            f"by about {fall:.3g} %, at the same cost."
        )
    if saving.stuck:
        said.append(
            f"At {', '.join(saving.stuck)} nothing else is measured, and a geolevel has to measure something: give its "
            "share to a query that is not published exactly."
        )
    return said


def _shares(strategy: Strategy) -> dict[str, Any]:
    return {
        "geolevels": {level: str(share) for level, share in strategy.geolevel_shares},
        "queries": {
            level: {query: str(share) for query, share in strategy.shares_of(level)}
            for level in strategy.geolevels
        },
    }


def strategy_tables(strategy: Strategy, plan: StatedPlan) -> str:
    """The complete tables [strategy] and [estimation] of a release file, so that they can replace a preset.

    Args:
        strategy: The strategy.
        plan: The plan that it belongs to.
    """
    shares = _shares(strategy)
    budget: dict[str, str] = {strategy.budget_unit: str(strategy.total)}
    return "\n\n".join(
        [
            "# Put these tables in the place of your [strategy] and [estimation]. If your [strategy] gives the budget\n"
            "# of Gaussian noise as epsilon, keep that line instead of rho.\n"
            + toml_table("strategy", budget),
            toml_table("strategy.geolevels", shares["geolevels"]),
            *(
                toml_table(f"strategy.queries.{toml_key(level)}", shares_here)
                for level, shares_here in shares["queries"].items()
            ),
            *(_outer_tables(plan) if plan.outer else _estimation_tables(strategy, plan)),
        ]
    )


def _outer_tables(plan: StatedPlan) -> list[str]:
    """A table for each outer pass, which is all that [estimation] has."""
    return ["\n".join(["[[estimation.outer]]", *toml_lines(mapping_of(item))]) for item in plan.outer]


def _estimation_tables(strategy: Strategy, plan: StatedPlan) -> list[str]:
    estimation = {geolevel: mapping_of(steps) for geolevel, steps in plan.estimation}
    passes = {
        level: [left for names in estimation[level]["passes"] if (left := _measured(strategy, level, names))]
        for level in strategy.geolevels
    }
    # All but passes and rounding stages is the same at every geolevel of a release file.
    common = {"values": "own", **estimation[strategy.geolevels[0]]}
    settings = {key: value for key, value in common.items() if key not in ("passes", "rounding")}
    values = settings.pop("values")
    return [
        toml_table("estimation", {**settings, "values": values}),
        toml_table("estimation.passes", passes),
        toml_table(
            "estimation.rounding", {level: estimation[level]["rounding"] for level in strategy.geolevels}
        ),
    ]


def _measured(strategy: Strategy, geolevel: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if name in strategy.queries(geolevel)]


CONFIDENCE: Final = Fraction(95, 100)
"""Confidence of the margins of error that a plan states."""


def plan_record(
    loaded: ReleasePlan,
    resources: Resources | None = None,
    allocation: Allocation | None = None,
    warnings: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Cost and expected errors of a plan as plain data, as `tallyveil plan --json` prints them.

    Beside the expected error of every query stand the privacy parameters of its noise alone, before composition.

    Args:
        loaded: The plan.
        resources: Predicted resources of a run; None to leave them out.
        allocation: Share of the budget of each geounit, if the geography was read; None for the plan's own shares.
        warnings: What public inputs allow and seldom mean; None if only the schema is known.
    Raises:
        BudgetError, SolverError: no exact epsilon can be given.
    """
    guarantee = guarantee_of(loaded, allocation)
    right = planned_guess(loaded, guarantee, allocation)
    record: dict[str, Any] = {
        "name": loaded.name,
        "schema": {"name": loaded.schema.name, "cells": loaded.schema.size},
        "privacy": guarantee,
        "guess": {
            "right_at_most": float(right),
            "sentence": guess_words(right, loaded.neighbours, loaded.protected_unit),
        },
        **groups_record(loaded, allocation),
        "confidence": str(CONFIDENCE),
        "tables": [item.to_mapping() for item in table_errors(loaded, CONFIDENCE)],
        "expected": _expected(loaded),
        "values": {level: item.values for level, item in loaded.estimation},
        "values_in_words": values_in_words(loaded),
        **advice_record(loaded),
        "warnings": list(impossible_levels(loaded.schema) if warnings is None else warnings),
    }
    if resources is not None:
        record["resources"] = _needed(loaded, resources)
    return record


def groups_record(plan: StatedPlan, allocation: Allocation | None) -> dict[str, Any]:
    """What a plan guarantees of households, and of records that the invariants tie together, as plain data."""
    event = plan.event(None if allocation is None else allocation.event())
    # Before the geography is opened, nobody knows which geounits are bypassed.
    known = event if allocation is not None or not plan.may_bypass else None
    one_root = allocation is not None and allocation.spine.n_geounits(0) == 1
    return {
        "groups": groups_of(plan, known),
        "tied": tied_of(plan, known, one_root=one_root),
    }


def values_in_words(plan: StatedPlan) -> str:
    """What the families of a plan are fitted to, and whether a model allocates the finest counts, as a sentence."""
    finest = plan.geolevels[-1]
    model = (
        f"; {finest} counts follow from a model of how these resemble each other" if plan.allocates else ""
    )
    if plan.uses_tree:
        return (
            f"above {finest}, the counts of an area are made from all measurements in it and in the areas below it"
            f"{model}"
        )
    reason = ", because the sweep up the spine cannot use counts that are drawn on a lattice"
    why = reason if plan.subspace else ""
    return (
        f"the counts of an area are made from its measurements and the counts of the area above{why}{model}"
    )


def _expected(loaded: ReleasePlan) -> list[dict[str, Any]]:
    """The noise of every query at every geolevel, and the privacy parameters of this noise alone."""
    alone = query_parameters(loaded.strategy)
    return [
        {
            "geolevel": item.geolevel,
            "query": item.query,
            "answers": loaded.query(item.query).size,
            "share": str(item.share),
            "parameter": str(item.parameter),
            "variance": item.variance,
            "standard_deviation": item.standard_deviation,
            "margin": item.margin,
            **alone[item.geolevel, item.query].to_mapping(),
        }
        for item in expected_errors(loaded.strategy, CONFIDENCE)
    ]


def _needed(loaded: ReleasePlan, resources: Resources) -> dict[str, Any]:
    """Predicted memory and disk in bytes, and seconds."""
    return {
        "records": resources.sizes.people,
        "geounits": dict(zip(loaded.geolevels, resources.sizes.geounits, strict=True)),
        "memory_bytes": resources.memory,
        "disk_bytes": resources.disk,
        "seconds": round(resources.total_seconds, 1),
        "stages": {stage: round(seconds, 1) for stage, seconds in resources.seconds},
    }


def advice_record(loaded: ReleasePlan) -> dict[str, Any]:
    """The advice as plain data, under the keys that it has in `--json`."""
    return {"fixed_by_invariants": fixed_shares(loaded), "spine_advice": spine_advice(loaded)}
