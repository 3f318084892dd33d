"""The plan that a finished release states: nothing of it is used before all of it is what a run writes.

A plan is checked in three steps. It has the types of a plan. What is read from it, written again, is the same text. And
its parts fit each other as those of a release file must.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Final, get_args

from tallyveil.budget.fractions import parse_fraction
from tallyveil.budget.outer_pass import Prior
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import StoreError, TallyveilError
from tallyveil.plans.constraints import Agreement, Bounds, Invariant, Residents
from tallyveil.plans.estimating import EstimationPlan, GeolevelEstimation, strategy_of_plan
from tallyveil.plans.inputs import GeographyInput, RecordsInput
from tallyveil.plans.lifts import refuse_lifts
from tallyveil.plans.outer import measured_by_pass, outer_items, refuse_outer
from tallyveil.plans.release import ReleasePlan
from tallyveil.plans.subspace_query import drawn_items
from tallyveil.plans.terms import PrivacyTerms
from tallyveil.storage.json_files import TEXT_OR_NONE, Each, JsonObject, Perhaps, damaged, misfit
from tallyveil.universe.limits import LARGEST_COUNT, LARGEST_LEVEL
from tallyveil.universe.names import check_name
from tallyveil.universe.schema import Schema, schema_from_mapping

_MEND: Final = "Restore the folder from a copy."
_WORDS: Final = {
    "mechanism": ("discrete_gaussian", "discrete_laplace"),
    "measurements": ("full", "small", "support", "none"),
    "neighbours": ("bounded", "unbounded"),
}
_GROUPS: Final = Each([str])
_SHAPE: Final = {
    "format": int,
    "name": str,
    "schema": {
        "name": str,
        "attributes": [{"name": str, "levels": [str]}],
        "recodes": [{"name": str, "attribute": str, "groups": _GROUPS}],
        "structural_zeros": [{"name": str, "cells": _GROUPS}],
    },
    "records": {"geocode": str, "count": TEXT_OR_NONE, "columns": Each(str), "numbers": Perhaps([str])},
    "geolevels": [str],
    "mechanism": str,
    "neighbours": str,
    "budget_unit": str,
    "declared": str,
    "spent": str,
    "delta": str,
    "geolevel_shares": Each(str),
    "query_shares": Each(Each(str)),
    "invariants": [{"query": str, "geolevels": [str]}],
    "bounds": [{"name": str, "query": str, "geolevel": str, "missing_upper": (int, type(None))}],
    "estimation": Each(
        {"passes": [[str]], "slack": str, "rounding": [[str]], "rounding_target": str, "values": Perhaps(str)}
    ),
    "tables": [str],
    "measurements": str,
    "microdata": bool,
}
_SPINE: Final = {"from": [str], "geocode": str, "families": [str], "steps": [{"kind": str}]}
_SPINE_PERHAPS: Final = {
    "preset": str,
    "overlapping": [str],
    "regroup": dict,
    "bypassing": str,
    "most_children": int,
}
_PERHAPS: Final = {
    "subspace": [{"mechanism": str, "query": str, "geolevel": str, "budget": str}],
    "outer": [
        {
            "cells": str,
            "rounding": [str],
            "also": Perhaps([str]),
            "part": Perhaps(str),
            "total": Perhaps(str),
            "company": Perhaps(str),
            "residents": Perhaps(str),
            "at_most": Perhaps(str),
            "sizes": Perhaps(str),
            "prior": Perhaps(str),
        }
    ],
    "agreement": [{"name": str, "query": str, "theirs": str, "release": Perhaps(str)}],
    "residents": [
        {
            "name": str,
            "people": Each([str]),
            "adults": Perhaps(Each([str])),
            "households": Perhaps(str),
            "geolevel": Perhaps(str),
        }
    ],
    "intervals": str,
    "licence": str,
    "citation": str,
    "names": bool,
    "geometry": bool,
    "spine": _SPINE,
    "entities": [str],
}
"""Keys that a plan has only where there is something to say."""


@dataclass(frozen=True, slots=True)
class StatedPlan:
    """What a release's own plan says, as far as its folder can tell it.

    Attributes:
        estimating: How measurements become counts, and what is written of them.
        terms: What the release does to privacy.
        geolevels: Of the spine that was measured, root first.
    """

    estimating: EstimationPlan
    terms: PrivacyTerms
    geolevels: tuple[str, ...]

    def require_geolevels(self, path: Path, geolevels: Sequence[str]) -> None:
        """Refuse a plan whose geolevels are not those of the geography beside it; raises StoreError."""
        if self.geolevels != tuple(geolevels):
            raise damaged(path, "plan.geolevels", f"The geography has {', '.join(geolevels)}. {_MEND}")


def stated_plan(path: Path, plan: JsonObject) -> StatedPlan:
    """Read the plan of a finished release.

    Args:
        path: The file that states it, for messages.
        plan: The plan, a JSON object.
    Raises:
        StoreError: the plan is not one that a run writes.
    """
    require_shape(path, plan)
    try:
        read = _read(plan)
        place = _rewritten(plan, read) or _unfit(plan, read)
    except TallyveilError as error:
        raise StoreError(
            f"{path} is damaged: the plan in it is none that a run writes. {error} {_MEND}",
            code="release-damaged",
        ) from None
    if place is not None:
        raise damaged(path, f"plan.{place}", _MEND)
    terms = replace(read.terms, may_bypass="bypassing" in plan.get("spine", {}))
    estimating = replace(read.estimating, entities=tuple(plan.get("entities", ())))
    return StatedPlan(estimating, terms, tuple(plan["geolevels"]))


def require_shape(path: Path, plan: JsonObject) -> None:
    """Refuse a plan that lacks a key, has one too many, or has a value of another type; takes what `stated_plan` does.

    This is enough to show a plan, of which nothing is computed.
    """
    place = _misshapen(plan)
    if place is not None:
        raise damaged(path, f"plan.{place}", _MEND)


def _misshapen(plan: JsonObject) -> str | None:
    """The first place where a plan lacks a key, has one too many, or has a value of another type."""
    asked = _SHAPE | {key: shape for key, shape in _PERHAPS.items() if key in plan}
    place = misfit(plan, asked) or next((key for key in plan if key not in asked), None)
    if place is not None:
        return place
    schema, spine = plan["schema"], plan.get("spine", {})
    if ("spine" in plan) != ("entities" in plan):
        return "entities"
    if misfit(schema, {key: str for key in ("unit", "units") if key in schema}) is not None:
        return "schema.unit"
    extra = {key: _SPINE_PERHAPS.get(key, _NOTHING) for key in spine if key not in _SPINE}
    if misfit(spine, extra) is not None:
        return "spine"
    place = next((key for key, words in _WORDS.items() if plan[key] not in words), None)
    named = list(plan["geolevels"])
    by_level = (plan["geolevel_shares"], plan["query_shares"], plan["estimation"])
    if not named or any(list(one) != named for one in by_level):
        return "geolevels"
    return place


_NOTHING: Final = ()
"""No type: the shape of a key that must not be there."""


def _read(plan: JsonObject) -> ReleasePlan:
    """The plan, with no paths to its inputs and no steps of its spine; raises TallyveilError."""
    schema = schema_from_mapping(plan["schema"])
    records, geolevels = plan["records"], tuple(plan["geolevels"])
    intervals = plan.get("intervals")
    return ReleasePlan(
        name=check_name(plan["name"], "release"),
        schema=schema,
        records=RecordsInput(
            Path(),
            records["geocode"],
            records.get("count"),
            tuple(records["columns"].items()),
            tuple(records.get("numbers", ())),
        ),
        geography=GeographyInput(
            Path(),
            "",
            geolevels,
            None,
            None,
            names=Path() if "names" in plan else None,
            geometry=Path() if "geometry" in plan else None,
        ),
        # The estimator adds up in the order of the queries, so this order must be the one of the release plan.
        strategy=strategy_of_plan(plan, {level: tuple(plan["query_shares"][level]) for level in geolevels}),
        declared=parse_fraction(plan["declared"], "declared"),
        delta=parse_fraction(plan["delta"], "delta"),
        invariants=tuple(Invariant(item["query"], tuple(item["geolevels"])) for item in plan["invariants"]),
        bounds=tuple(
            Bounds(item["name"], item["query"], item["geolevel"], Path(), item.get("missing_upper"))
            for item in plan["bounds"]
        ),
        estimation=tuple((level, _estimation_of(item)) for level, item in plan["estimation"].items()),
        tables=tuple(plan["tables"]),
        measurements=plan["measurements"],
        microdata=plan["microdata"],
        subspace=drawn_items(plan),
        intervals=None if intervals is None else parse_fraction(intervals, "intervals"),
        licence=plan.get("licence"),
        citation=plan.get("citation"),
        outer=outer_items(plan),
        agreement=tuple(map(Agreement.from_mapping, plan.get("agreement", ()))),
        residents=tuple(map(Residents.from_mapping, plan.get("residents", ()))),
    )


def _estimation_of(item: JsonObject) -> GeolevelEstimation:
    return GeolevelEstimation(
        passes=tuple(tuple(names) for names in item["passes"]),
        slack=parse_fraction(item["slack"], "slack"),
        rounding=tuple(tuple(names) for names in item["rounding"]),
        target=item["rounding_target"],
        values=item.get("values", "own"),
    )


def _rewritten(plan: JsonObject, read: ReleasePlan) -> str | None:
    """The first key whose value a run would write in other words, such as 2/2 for 1."""
    again = read.to_mapping()
    own = {key: value for key, value in plan.items() if key not in ("spine", "entities")}
    return next((key for key in own if json.dumps(own[key]) != json.dumps(again.get(key))), None)


def _unfit(plan: JsonObject, read: ReleasePlan) -> str | None:
    """The first part of a plan that does not fit the others; raises TallyveilError for a query that cannot be."""
    return next((place for place, fits in _fits(read, plan) if not fits), None)


def _fits(read: ReleasePlan, plan: JsonObject) -> Iterator[tuple[str, bool]]:
    schema, geolevels = read.schema, plan["geolevels"]
    yield "records", tuple(name for name, _ in read.records.columns) == schema.attribute_names
    yield "delta", 0 < read.delta < 1
    yield "geolevel_shares", all(check_name(name, "geolevel") for name in geolevels)
    yield (
        "query_shares",
        _are_queries(schema, (one for _, own in read.strategy.query_shares for one, _ in own)),
    )
    yield "invariants", _are_partitions(schema, (item.query for item in read.invariants))
    yield (
        "invariants",
        all(item.geolevels and set(item.geolevels) <= set(geolevels) for item in read.invariants),
    )
    yield "bounds", _are_partitions(schema, (item.query for item in read.bounds))
    yield (
        "bounds",
        all(item.geolevel in geolevels and item.missing_upper in (0, None) for item in read.bounds),
    )
    drawn = [(item.query, item.geolevel) for item in read.subspace]
    yield "subspace", _are_partitions(schema, (query for query, _ in drawn)) and len(set(drawn)) == len(drawn)
    yield "subspace", all(level in geolevels for _, level in drawn)
    yield "subspace", all(item.budget > 0 for item in read.subspace)
    yield "tables", _are_queries(schema, read.tables) and len(set(read.tables)) == len(read.tables)
    entities = plan.get("entities", [])
    yield "entities", len(set(entities)) == len(entities)
    yield "outer", all(one.prior in get_args(Prior) for one in read.outer)
    yield "outer", _passes_fit(read)
    yield "agreement", _are_partitions(schema, (item.query for item in read.agreement))
    yield "agreement", all(check_name(item.name, "agreement") for item in read.agreement)
    yield "residents", all(check_name(item.name, "residents") for item in read.residents)
    yield "residents", all(item.geolevel in (None, *geolevels) for item in read.residents)
    for level, item in read.estimation:
        yield f"estimation.{level}", _can_be_done(item, read.strategy, schema, level)
        tree = level != geolevels[-1] and not read.subspace and not read.outer
        yield f"estimation.{level}.values", item.values in (("own", "tree") if tree else ("own",))
    yield "intervals", read.intervals is None or _has_intervals(read, read.intervals)


def _are_queries(schema: Schema, names: Iterator[str] | tuple[str, ...]) -> bool:
    """True; raises TallyveilError for a name that is no query of the schema."""
    return all(schema.query(name).size > 0 for name in names)


def _are_partitions(schema: Schema, names: Iterator[str] | tuple[str, ...]) -> bool:
    """Whether no query has groups that overlap; raises TallyveilError for a name that is no query of the schema."""
    return not any(schema.query(name).overlaps for name in names)


def _can_be_done(item: GeolevelEstimation, strategy: Strategy, schema: Schema, level: str) -> bool:
    """Whether the passes use every measured query once, and the rest is as a release file may say it."""
    flat = [name for names in item.passes for name in names]
    return (
        sorted(flat) == sorted(strategy.queries(level))
        and all(item.passes)
        and all(_are_partitions(schema, names) for names in item.passes[:-1])
        and bool(item.rounding)
        and all(_are_partitions(schema, stage) for stage in item.rounding)
        and 0 <= item.slack <= LARGEST_COUNT
        and item.target in ("fraction", "nearest")
    )


def _passes_fit(read: ReleasePlan) -> bool:
    """Whether the passes of each geolevel are those of the outer passes; raises TallyveilError for bad outer passes."""
    if not read.outer:
        return True
    refuse_outer(read.schema, read.outer)
    refuse_lifts(read.schema, read.outer, read.agreement, read.residents)
    return all(
        item.passes
        == tuple(
            own for own in measured_by_pass(read.schema, read.outer, read.strategy.queries(level)) if own
        )
        for level, item in read.estimation
    )


def _has_intervals(read: ReleasePlan, level: Fraction) -> bool:
    return (
        Fraction(1, 2) <= level <= Fraction(LARGEST_LEVEL)
        and read.strategy.mechanism is Mechanism.DISCRETE_GAUSSIAN
        and read.measurements in ("full", "small")
        and bool(read.tables)
    )
