"""Whether the parts of a plan fit each other: one set of rules for release files and finished releases.

Nothing of the plan that a finished release states is used before all of it is what a run writes. It is
checked in three steps. It is what its declaration writes. What is read from it, written again, is the same
text. And its parts fit each other as those of a release file must.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final

from tallyveil.accounting.events import Neighbours
from tallyveil.budget.strategy import Mechanism
from tallyveil.declared import MisfitError, read_written
from tallyveil.errors import ConfigError, StoreError, TallyveilError
from tallyveil.plans.estimating import GeolevelEstimation
from tallyveil.plans.lifts import refuse_lifts
from tallyveil.plans.outer import measured_by_pass, refuse_outer
from tallyveil.plans.release import StatedPlan
from tallyveil.schema.attribute import ranges_of
from tallyveil.schema.counts import LARGEST_COUNT, LARGEST_LEVEL
from tallyveil.schema.labels import require_labels_fit
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import PERSON, Schema
from tallyveil.storage.json_files import JsonObject, damaged


def refuse_unfit(plan: StatedPlan) -> None:
    """Refuse a plan whose parts do not fit each other.

    Raises:
        ConfigError, SchemaError: a query is unknown, groups of a query overlap where they must not, a geolevel is not
            on the spine, or a setting cannot be combined with others.
    """
    schema = plan.schema
    # In the order of a plan, so that the first error is that of the first key.
    _require(
        "records", tuple(name for name, _ in plan.records.columns) == schema.attribute_names, "attributes"
    )
    _refuse_households(plan)
    _require("delta", 0 < plan.delta < 1, "a number between 0 and 1")
    _require("entities", (plan.spine is None) == (plan.entities is None), "given together with the spine")
    _require_once("entities", plan.entity_families)
    _require("estimation", tuple(name for name, _ in plan.estimation) == plan.geolevels, "the geolevels")
    _require("geolevel_shares", plan.strategy.geolevels == plan.geolevels, "the geolevels")
    for geolevel in plan.geolevels:
        for query in plan.strategy.queries(geolevel):
            known_query(schema, query, f"strategy.queries.{geolevel}")
    for invariant in plan.invariants:
        partition_query(schema, invariant.query, "invariants")
        _require_geolevels(plan, "invariants", invariant.geolevels)
    for bounds in plan.bounds:
        partition_query(schema, bounds.query, f"bounds '{bounds.name}'")
        _require_geolevels(plan, f"bounds '{bounds.name}'", [bounds.geolevel])
    # Before the tables, because a count on a lattice is fixed for everything that follows.
    _refuse_drawn(plan)
    for query in plan.tables:
        known_query(schema, query, "outputs.tables")
    _require_once("outputs.tables", plan.tables)
    for agreement in plan.agreement:
        partition_query(schema, agreement.query, f"agreement '{agreement.name}'")
    for residents in plan.residents:
        named = () if residents.geolevel is None else (residents.geolevel,)
        _require_geolevels(plan, f"residents '{residents.name}'", named)
    _refuse_passes(plan)
    for geolevel, steps in plan.estimation:
        refuse_steps(plan, geolevel, steps)
    refuse_allocation(plan)
    if plan.intervals is not None:
        _refuse_intervals(plan, plan.intervals)
    _refuse_labels(plan)


def known_query(schema: Schema, name: str, where: str) -> QueryGroup:
    """The query of that name; the error of an unknown one says where it is named."""
    try:
        return schema.query(name)
    except TallyveilError as error:
        # The same type and code, so that callers tell errors apart as before.
        raise type(error)(f"{where}: {error}", code=error.code) from None


def partition_query(schema: Schema, name: str, where: str) -> QueryGroup:
    """The query of that name, whose groups must not overlap.

    Raises:
        ConfigError: groups overlap.
        SchemaError: the schema has no such query.
    """
    query = known_query(schema, name, where)
    if query.overlaps:
        raise ConfigError(
            f"{where}: groups of the query '{name}' overlap, so that a record counts in several of its answers. Such "
            "a query may be measured and published. It may not be rounded, bounded, kept exact or drawn on a lattice. "
            "Name a query whose groups do not overlap.",
            code="overlapping-query",
        )
    return query


def _require(where: str, fits: bool, wanted: str) -> None:
    if not fits:
        raise ConfigError(f"{where} of the plan do not fit the rest of it: wanted {wanted}.")


def _require_once(where: str, names: Sequence[str]) -> None:
    _require(where, len(set(names)) == len(names), "each name once")


def _require_geolevels(plan: StatedPlan, where: str, named: Iterable[str]) -> None:
    unknown = [name for name in named if name not in plan.geolevels]
    if unknown:
        raise ConfigError(
            f"{where} names {', '.join(unknown)}, which is no geolevel of the spine. The geolevels are: "
            f"{', '.join(plan.geolevels)}.",
            code="unknown-geolevel",
        )


def _refuse_households(plan: StatedPlan) -> None:
    """Refuse households that do not follow from any records of persons, and what is not proved for them."""
    records, household = plan.records, plan.records.household
    if household is None:
        return
    where = "records.household"
    # A change of a person is accounted for by section 5 of the proofs, which knows no constraints and no other noise.
    beside = {
        "count": records.count is not None,
        "columns": any(name != column for name, column in records.columns),
        "numbers": bool(records.numbers),
        "missing": bool(records.missing),
        'neighbours = "unbounded"': plan.neighbours is not Neighbours.BOUNDED,
        'mechanism = "discrete_laplace"': plan.mechanism is not Mechanism.DISCRETE_GAUSSIAN,
        "[[invariants]]": bool(plan.invariants),
        "[[bounds]]": bool(plan.bounds),
        "[[agreement]]": bool(plan.agreement),
        "[[residents]]": bool(plan.residents),
        "[[subspace]]": bool(plan.subspace),
        "[spine]": plan.spine is not None,
        "structural zeros": bool(plan.schema.structural_zeros),
        'unit = "person"': plan.schema.unit == PERSON,
    }
    if refused := [name for name, is_there in beside.items() if is_there]:
        raise ConfigError(
            f"[records.household] cannot be combined with {', '.join(refused)}. Households that are derived from "
            "persons are counted one a household, under bounded neighbours, with Gaussian noise and without exact "
            "counts; name their unit in [schema]. Or derive their file before, and release it by itself.",
            code="households",
        )
    names = [name for name, _ in (*household.number, *household.value)]
    _require(where, sorted(names) == sorted(plan.schema.attribute_names), "one rule for each attribute")
    _require(where, records.geocode not in names, "a geocode column that has not the name of an attribute")
    for name, members in household.number:
        # Every number that can be must have a level: a refusal would tell of a household that is larger than foreseen.
        least: int | None = 1 if members.column is None else 0
        for level in sorted(ranges_of(plan.schema.attribute(name).levels, name), key=lambda item: item.low):
            _require(f"{where}.number.{name}", least is not None and level.low <= least, _EVERY_NUMBER)
            least = None if level.high is None else max(least or 0, level.high + 1)
        _require(f"{where}.number.{name}", least is None, _EVERY_NUMBER)
    for name, member in household.value:
        levels = plan.schema.attribute(name).levels
        _require(f"{where}.value.{name}.otherwise", member.otherwise in levels, "a level of the attribute")


_EVERY_NUMBER: Final = "ranges that hold every number of members, such as 1, 2 and 3+"


def _refuse_drawn(plan: StatedPlan) -> None:
    """Refuse counts on a lattice that cannot be drawn, or that are drawn twice."""
    for item in plan.subspace:
        where = f"subspace '{item.query}'"
        partition_query(plan.schema, item.query, where)
        _require_geolevels(plan, where, [item.geolevel])
        _require(where, item.budget > 0, "a budget above 0")
    # Drawn twice, a count would cost twice and be fixed at two numbers.
    _require_once("subspace", [f"{item.query} at {item.geolevel}" for item in plan.subspace])
    refuse_drawn_counts(plan)


def refuse_drawn_counts(plan: StatedPlan) -> None:
    """Refuse the values of the tree beside counts that are drawn on a lattice; raises ConfigError."""
    # The sweep takes noise of different geounits as independent, which noise on a lattice is not.
    if plan.subspace and plan.uses_tree:
        raise ConfigError(
            '[estimation] values is "tree", and the release has [[subspace]] queries. Counts drawn on a lattice have '
            "noise that depends on the invariants, which the sweep up the spine does not take into account. Write "
            'values = "own", or measure these queries with [strategy] instead.',
            code="tree-values",
        )


MOST_ALLOCATED: Final = 64
"""Largest number of cells of a schema whose finest counts may be allocated. The work for a block grows with cells times
classes of blocks, which grow with cells. Half as many would refuse eight races by sex and two ages."""


def refuse_allocation(plan: StatedPlan) -> None:
    """Refuse to estimate the finest geolevel by a model that does not fit the plan; raises ConfigError."""
    if not plan.allocates:
        return
    finest = plan.geolevels[-1]
    limited = [f"bounds '{item.name}'" for item in plan.bounds if item.geolevel == finest]
    limited += [
        f"the invariant '{item.query}' at {finest}" for item in plan.invariants if finest in item.geolevels
    ]
    limited += [f"agreement '{item.name}'" for item in plan.agreement]
    reasons = (
        (
            bool(limited),
            f"the release has {', '.join(limited)}. With public limits on {finest} the model gains little where "
            "people live, and empties more geounits that have people",
        ),
        (len(plan.geolevels) < 3, "fewer than three geolevels do not say how geounits resemble each other"),
        (
            plan.schema.size > MOST_ALLOCATED,
            f"the schema has {plan.schema.size:,} cells, more than {MOST_ALLOCATED}",
        ),
        (
            plan.cells_at_finest is None,
            f"no query that tells all cells apart, such as 'detailed', is measured at {finest}",
        ),
        (
            plan.may_bypass,
            "the spine bypasses geounits, so that those of one parent may differ in their noise",
        ),
        (bool(plan.outer), "the release has outer passes"),
        (bool(plan.subspace), "the release has counts drawn on a lattice"),
    )
    for is_so, why in reasons:
        if is_so:
            raise ConfigError(
                f'[estimation] blocks is "allocation", and {why}. Write blocks = "families", or leave it out.',
                code="allocation-unsuited",
            )


def _refuse_passes(plan: StatedPlan) -> None:
    """Refuse outer passes that cannot be made, or passes of a geolevel that are not those of the outer passes."""
    if not plan.outer:
        return
    refuse_outer(plan.schema, plan.outer)
    refuse_lifts(plan.schema, plan.outer, plan.agreement, plan.residents)
    for geolevel, steps in plan.estimation:
        by_pass = measured_by_pass(plan.schema, plan.outer, plan.strategy.queries(geolevel))
        # A pass without queries at this geolevel is left out of the list.
        _require(f"estimation.{geolevel}", steps.passes == tuple(filter(None, by_pass)), "the outer passes")
        _require(f"estimation.{geolevel}.values", steps.values == "own", '"own", because of the outer passes')


def refuse_steps(plan: StatedPlan, geolevel: str, steps: GeolevelEstimation) -> None:
    """Refuse passes that do not use every measured query once, or with overlapping groups before the last pass."""
    where = f"estimation.{geolevel}"
    named = [query for queries in steps.passes for query in queries]
    _require(
        where,
        # Sorted names: each exactly once, whatever its pass.
        sorted(named) == sorted(plan.strategy.queries(geolevel)),
        "every measured query once, in passes",
    )
    _require(where, all(steps.passes), "no empty pass")
    # A later pass keeps the answers of earlier ones. The kept answers of overlapping groups are many equations on few
    # cells. Least squares then needs its slow methods for more families (for 11 of 100 families of made-up blocks with
    # `hispanic*racecomb`, for 1 of 100 with `hispanic*cenrace`). A family that no method certifies would stop a run
    # after its spend.
    for query in (query for queries in steps.passes[:-1] for query in queries):
        if plan.query(query).overlaps:
            raise ConfigError(
                f"[estimation.passes] at {geolevel}: groups of the query '{query}' overlap, and it is not in the last "
                "pass. Move it to the last pass.",
                code="overlapping-query",
            )
    for query in (query for queries in steps.rounding for query in queries):
        partition_query(plan.schema, query, f"estimation.rounding.{geolevel}")
    _require(where, 0 <= steps.slack <= LARGEST_COUNT, f"a slack from 0 to {LARGEST_COUNT:,} records")
    is_finest = geolevel == plan.strategy.geolevels[-1]
    _require(f"{where}.method", steps.method == "families" or is_finest, '"families"')
    _require(f"{where}.values", steps.values == "own" or not is_finest, '"own"')


def _refuse_intervals(plan: StatedPlan, level: Fraction) -> None:
    """Refuse intervals that this release cannot have."""
    # Exact fractions: 0.95 as a float is not 19/20.
    if not Fraction(1, 2) <= level <= Fraction(LARGEST_LEVEL):
        raise ConfigError(
            f"[outputs] intervals is {level!s:.80}; wanted a coverage of at least 1/2 and at most {LARGEST_LEVEL!r}, "
            'such as "0.95".',
            code="interval-level",
        )
    if plan.mechanism is not Mechanism.DISCRETE_GAUSSIAN:
        raise ConfigError(
            f"[outputs] intervals needs discrete Gaussian noise; [privacy] mechanism is {plan.mechanism.value}. "
            "The sum of a few draws of such noise has heavier tails than a normal law, so that intervals would "
            "cover too seldom. Leave intervals out, or measure with rho; `tallyveil intervals` adds estimates and "
            "standard errors to a finished release with any noise.",
            code="interval-noise",
        )
    if plan.measurements not in ("full", "small") or not plan.tables:
        lacking = (
            "tables" if not plan.tables else f'measurements = "full" or "small", not "{plan.measurements}"'
        )
        raise ConfigError(
            f"[outputs] intervals needs {lacking}: intervals are written beside published tables and are computed "
            "from all noisy answers, or from those of small queries. Add it, or leave intervals out.",
            code="interval-tables",
        )


def _refuse_labels(plan: StatedPlan) -> None:
    """Refuse labels of what the release does not have."""
    schema = plan.schema
    areas = () if plan.spine is None else (*plan.spine.original, *plan.spine.families)
    levels = {
        **{item.name: item.levels for item in schema.attributes},
        **{item.name: item.labels for item in schema.recodes},
    }
    require_labels_fit(
        plan.labels,
        {
            ("attributes",): schema.factor_names,
            ("geolevels",): dict.fromkeys((*plan.geolevels, *areas)),
            ("tables",): plan.tables,
            # The table of levels itself has no labels; its keys are the attributes.
            ("levels",): schema.factor_names,
            **{("levels", name): listed for name, listed in levels.items()},
        },
    )


_MEND = "Restore the folder from a copy."


def stated_plan(path: Path, plan: JsonObject) -> StatedPlan:
    """Read the plan of a finished release.

    Args:
        path: The file that states it, for messages.
        plan: The plan, a JSON object.
    Raises:
        StoreError: the plan is not one that a run writes.
    """
    try:
        # Read, and compared with what the declaration would write: a plan with a key too many is none of a run.
        read = read_written(StatedPlan, plan)
        # Then the same rules as for a release file, so that no plan of a folder can do what a file cannot.
        refuse_unfit(read)
    except MisfitError as error:
        raise damaged(path, f"plan.{error.place}", _MEND) from None
    except TallyveilError as error:
        raise StoreError(
            f"{path} is damaged: the plan in it is none that a run writes. {error} {_MEND}",
            code="release-damaged",
        ) from None
    return read
