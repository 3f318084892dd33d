"""Better shares for a plan: the variances of its geography as functions of the shares, and the choice among shares."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from tallyveil.arrays import Floats
from tallyveil.budget.optimal.aims import Aims, VarianceModel
from tallyveil.budget.optimal.choose import OptimalShares, choose_shares, present_shares
from tallyveil.budget.strategy import Mechanism
from tallyveil.errors import BudgetError, GeographyError, SchemaError
from tallyveil.estimation.intervals.by_share.covariances import (
    LeastSquares,
    TopDownEstimator,
    kinds_of,
    top_down_of,
    touched_by,
)
from tallyveil.estimation.intervals.by_share.live import live_variances
from tallyveil.estimation.intervals.by_share.measured import (
    Added,
    AskedVariance,
    ByShare,
    MeasuredQueries,
    Passes,
    VariancesByShare,
    measured_queries,
)
from tallyveil.estimation.intervals.by_share.passes import Fitted, PassVariances, pass_variances
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine
from tallyveil.plans.outer import measured_by_pass, sources_of_groups
from tallyveil.plans.release import ReleasePlan
from tallyveil.postprocess.families.lattice_measurements import drawn_queries
from tallyveil.postprocess.intervals.areas import entity_families, read_entity_table
from tallyveil.postprocess.intervals.model import exact_geolevels
from tallyveil.products.topdown.run.before_spend import inputs_of
from tallyveil.products.topdown.run.inputs import read_hierarchies
from tallyveil.schema.nested_queries import determines
from tallyveil.schema.schema import Schema
from tallyveil.storage.paths import is_same_file
from tallyveil.storage.read import read_table, require_levels, scan_table

FACTOR = 10.0
"""Factor on the precision of what is exact, or of what is unknown, to see whether a variance rests on it."""
MOVED = 2.0
"""A variance that changes by more than this factor rests on it."""

Exact = Mapping[str, Sequence[str]]
"""For each geolevel, the queries that are exact there."""


def optimal_shares(plan: ReleasePlan, aims: Aims) -> OptimalShares:
    """The shares that the aims ask for. Opens the public geography and entity tables; no records.

    Raises:
        BudgetError: the noise is Laplace, geounits are bypassed, an aim cannot be computed or a target not be reached.
        GeographyError, StoreError, ConfigError: the geography or the entities cannot be read, or an area is unknown.
        SchemaError: a query is unknown, or the covariances would have too large blocks.
        SolverError: the gap was not reached.
    """
    _refuse_plan(plan)
    _refuse_records(plan, aims)
    variances = variances_by_share(plan, aims)
    _refuse_extremes(variances, aims, present_shares(plan.strategy))
    # What drawn counts on lattices cost is spent apart; the division concerns the rest of the declared budget.
    most = plan.declared - (plan.spent - plan.strategy.total)
    return choose_shares(plan.strategy, aims, variances.at, plan.delta, most, held=held_queries(plan))


def held_queries(plan: ReleasePlan) -> tuple[str, ...]:
    """The measured queries that determine an answer which public bounds limit, such as the most detailed one.

    The models of the variances do not know the bounds, so that these queries keep a part of their shares.
    """
    measured = [group for group in map(plan.query, plan.strategy.every_query) if not group.overlaps]
    bounded = [plan.query(item.query) for item in plan.bounds]
    # Structural zeros decide what determines what: a query may determine another one only where cells are impossible.
    zeros = plan.schema.barred_levels()
    return tuple(
        group.name for group in measured if any(determines(group, query, zeros) for query in bounded)
    )


def public_inputs(plan: ReleasePlan, aims: Aims) -> tuple[Path, ...]:
    """The files of a plan that an output must not replace, and the tables of the aims."""
    return (*inputs_of(plan), *(path for path in (aims.entities, aims.live) if path is not None))


def variances_by_share(plan: ReleasePlan, aims: Aims) -> ByShare:
    """The variances of everything that aims and targets name, for any shares; raises as `optimal_shares` does."""
    hierarchies = read_hierarchies(plan)
    # After bypassing, geounits of a geolevel have different variances; the model below has one number for a geolevel.
    if hierarchies.shares is not None:
        raise BudgetError(
            "the spine bypasses geounits, so that geounits of a geolevel have different shares; shares by geolevel "
            "alone cannot be chosen for it. Set bypass = false under [spine], or keep the present shares.",
            code="bad-aim",
        )
    areas = areas_of(hierarchies, aims)
    for query in dict.fromkeys(query for _, query in aims.named):
        plan.query(query)
    stated = [(item.query, item.geolevels) for item in plan.invariants]
    exact: Exact
    spine, exact = exact_geolevels(stated, hierarchies)
    asked = tuple(AskedVariance(_place(areas[area], spine), query) for area, query in aims.named)
    families = [area for area in areas.values() if isinstance(area, EntityFamily)]
    if aims.model is VarianceModel.TOP_DOWN:
        # Top-down estimates of a geolevel take those above as given, so that all that is exact there counts.
        exact = _with_sums(exact, spine.geolevels)
        terms = _top_down_terms(hierarchies.spine, spine, exact, asked, families)
        added = [_by_itself(plan, aims, exact_sums, asked, estimator) for exact_sums, estimator in terms]
        return added[0] if len(added) == 1 else Added(added)
    queries = _queries(plan, spine.geolevels, exact, asked, None)
    kinds = kinds_of(spine)
    # Geounits whose subtrees have the same shape have the same variance: one of each kind is computed.
    touched = {family.name: touched_by(spine, kinds, family) for family in families}
    return VariancesByShare(queries, LeastSquares(kinds, touched), asked)


def _queries(
    plan: ReleasePlan,
    geolevels: Sequence[str],
    exact: Exact,
    asked: Sequence[AskedVariance],
    passes: Passes | None,
) -> MeasuredQueries:
    return measured_queries(
        plan.schema,
        plan.strategy,
        geolevels,
        exact=exact,
        drawn=drawn_queries(plan.schema, plan.strategy, plan.subspace),
        asked=[query for _, query in asked],
        passes=passes,
    )


def _top_down_terms(
    spine: Spine,
    with_wholes: Spine,
    exact: Exact,
    asked: Sequence[AskedVariance],
    families: Sequence[EntityFamily],
) -> list[tuple[Exact, TopDownEstimator]]:
    """What is exact, and the weights of geolevels, in the terms that the variances are sums of.

    There is one term for the geolevels that are measured, and one for each geolevel of sums of siblings, to which the
    siblings' measurements belong, given what is exact of their sums (`top_down_of`).
    """
    names = with_wholes.geolevels
    # `with_wholes` has geolevels of sums of siblings inserted, for invariants on geounits that the spine cut.
    sums = {level for level, name in enumerate(names) if name not in spine.geolevels}
    levels = {place for place, _ in asked if isinstance(place, int)}
    weights = top_down_of(with_wholes, levels, families, sums).weights
    measured = [level for level in range(with_wholes.n_levels) if level not in sums]
    terms = [(exact, TopDownEstimator({area: weight[measured] for area, weight in weights.items()}))]
    for level in sorted(sums):
        # The measured geolevel right below the sums: its geounits are the siblings that are added up.
        parts = next(place for place, finer in enumerate(measured) if finer > level)
        mask = np.arange(len(measured)) == parts
        estimator = TopDownEstimator({area: weight[level] * mask for area, weight in weights.items()})
        # The errors of the sums and of the siblings given their sums are independent: variances add (`Added`).
        terms.append(({**exact, spine.geolevels[parts]: exact[names[level]]}, estimator))
    return terms


def _by_itself(
    plan: ReleasePlan, aims: Aims, exact: Exact, asked: Sequence[AskedVariance], estimator: TopDownEstimator
) -> ByShare:
    """The variances of estimates from the root downwards."""
    passes = {name: item.passes for name, item in plan.estimation}
    if plan.outer:
        return _by_outer_passes(plan, aims, exact, asked, estimator)
    if aims.live is None:
        return VariancesByShare(_queries(plan, plan.geolevels, exact, asked, passes), estimator, asked)
    return live_variances(
        plan.schema,
        plan.strategy,
        plan.geolevels,
        sizes=read_live_sizes(aims.live, plan.schema, plan.geolevels),
        exact=exact,
        drawn=drawn_queries(plan.schema, plan.strategy, plan.subspace),
        passes=passes,
        asked=asked,
        estimator=estimator,
    )


def _by_outer_passes(
    plan: ReleasePlan, aims: Aims, exact: Exact, asked: Sequence[AskedVariance], estimator: TopDownEstimator
) -> PassVariances:
    """The variances of a plan with outer passes.

    Raises:
        BudgetError: live sizes are given, a pass is a lift pass, or as `pass_variances`.
        SchemaError: as `pass_variances`.
    """
    if aims.live is not None:
        raise BudgetError(
            "live is given, and the release has outer passes, whose model counts all categories. Leave out live.",
            code="bad-aim",
        )
    lifts = [outer.cells for outer in plan.outer if outer.part is not None]
    if lifts:
        raise BudgetError(
            f"the outer pass '{lifts[0]:.80}' is a lift pass. No model of its errors is known, so better shares "
            "cannot be found. Optimise the release file without this pass, and write the shares that are found into "
            "the file with the pass.",
            code="bad-aim",
        )
    strategy = plan.strategy
    queries = dict.fromkeys(query for level in strategy.geolevels for query in strategy.queries(level))
    measured = measured_by_pass(plan.schema, plan.outer, queries)
    cells = [plan.query(outer.cells) for outer in plan.outer]
    passes = [
        Fitted(query, frozenset(names), source)
        for query, names, source in zip(cells, measured, sources_of_groups(cells), strict=True)
    ]
    agreed = [item.query for item in plan.agreement]
    return pass_variances(
        plan.schema,
        strategy,
        plan.geolevels,
        passes=passes,
        exact={name: list(dict.fromkeys([*exact.get(name, ()), *agreed])) for name in plan.geolevels},
        asked=asked,
        estimator=estimator,
    )


def _refuse_plan(plan: ReleasePlan) -> None:
    if plan.strategy.mechanism is not Mechanism.DISCRETE_GAUSSIAN:
        raise BudgetError(
            "shares can be optimised for Gaussian noise only. Under Laplace noise a precision grows with the square of "
            "a share, so that the best shares are no convex problem, and no gap could be certified. Use a strategy "
            "whose budget is rho, or divide epsilon by hand.",
            code="bad-aim",
        )


def _refuse_records(plan: ReleasePlan, aims: Aims) -> None:
    """Refuse tables of the aims that are the confidential records."""
    for key, path in (("entities", aims.entities), ("live", aims.live)):
        if path is not None and is_same_file(path, plan.records.path):
            raise BudgetError(
                f"`{key}` in the aims is {path}, the file of the confidential records. Shares that are chosen from "
                "records would reveal something about them. Name a public table.",
                code="bad-aim",
            )


def areas_of(hierarchies: Hierarchies, aims: Aims) -> dict[str, str | EntityFamily]:
    """Every area that is named: the name of a geolevel, or a family.

    Raises:
        GeographyError: an area is unknown, or no entity of it has a geounit.
    """
    spine = hierarchies.spine
    known: dict[str, str | EntityFamily] = {
        spine.geolevels[level]: spine.geolevels[level] for level in hierarchies.known_levels
    }
    known |= {family.name: family for family in (*hierarchies.replaced, *hierarchies.families)}
    named = list(dict.fromkeys(area for area, _ in aims.named))
    if aims.entities is not None:
        more = [name for name in named if name not in known]
        if more:
            table = read_entity_table(aims.entities, more)
            known |= {family.name: family for family in entity_families(spine, table, more)}
    unknown = [name for name in named if name not in known]
    if unknown:
        shown = ", ".join(f"{name:.80}" for name in unknown[:6])
        raise GeographyError(
            f"aims or targets name {shown}, which is neither a geolevel nor a family of entities. Known are "
            f"{', '.join(known)}. Name one of these, or give a public table with such a column as `entities`.",
            code="unknown-entity",
        )
    areas = {name: known[name] for name in named}
    for name, family in areas.items():
        if isinstance(family, EntityFamily) and len(family.members) == 0:
            raise GeographyError(
                f"the family '{name}' has no entity with a finest geounit, so that it has no variances. Leave it out, "
                "or mend its column.",
                code="entity-table",
            )
    return areas


def _place(area: str | EntityFamily, spine: Spine) -> int | str:
    return area.name if isinstance(area, EntityFamily) else spine.level_index(area)


def _with_sums(exact: Exact, geolevels: Sequence[str]) -> Exact:
    """What is exact at a geolevel is exact at all coarser ones, as sums."""
    with_sums: dict[str, list[str]] = {}
    below: list[str] = []
    for name in reversed(geolevels):
        below = list(dict.fromkeys([*below, *exact.get(name, ())]))
        with_sums[name] = below
    return with_sums


def _refuse_extremes(variances: ByShare, aims: Aims, shares: Floats) -> None:
    """Refuse aims that no measurement determines, and aims that are published exactly.

    Raises:
        BudgetError: there is such an aim.
    """
    # The model has no infinities: "unknown" is a small precision, "exact" a large one. Each is moved by `FACTOR`, and a
    # variance that follows rests on it.
    plain = variances.at(shares).values
    fainter = variances.at(shares, unknown=1 / FACTOR).values
    surer = variances.at(shares, known=FACTOR).values
    for (area, query), value, unmeasured, exact in zip(aims.named, plain, fainter, surer, strict=True):
        if unmeasured > MOVED * value:
            at_level = " from the geolevel's own measurements" if aims.model is VarianceModel.TOP_DOWN else ""
            raise BudgetError(
                f"nothing that the strategy measures determines '{query}' at {area}{at_level}, so that its variance is "
                "infinite. Give a query that determines it a share, or leave out the aim.",
                code="bad-aim",
            )
        if exact < value / MOVED:
            raise BudgetError(
                f"'{query}' at {area} is published exactly, by an invariant or an agreement, so that it has no "
                "variance. Leave out the aim.",
                code="bad-aim",
            )


COLUMNS = ("geolevel", "query", "live")
WHAT = "live sizes"


def read_live_sizes(path: Path, schema: Schema, geolevels: Sequence[str]) -> dict[tuple[str, str], float]:
    """The number of live categories by geolevel and attribute or recode.

    Args:
        path: Public table with the columns of `COLUMNS`, one row for each geolevel and each attribute or recode.
        schema: The universe.
        geolevels: Geolevels of the spine.
    Raises:
        StoreError, ConfigError: the file or a column is missing or unreadable.
        SchemaError: a row names something unknown or what an earlier row names, or its number is out of range.
    """
    require_levels(scan_table(path, COLUMNS, WHAT), COLUMNS, path, WHAT)
    table = read_table(path, COLUMNS, WHAT).cast(pl.String)
    known = {item.name: item.size for item in schema.attributes} | {
        item.name: item.size for item in schema.recodes
    }
    sizes: dict[tuple[str, str], float] = {}
    for number, (geolevel, query, text) in enumerate(table.iter_rows(), start=1):
        where = f"row {number} of the table of live sizes {path}"
        # Checked row by row, with the row number: the table is short, and people write it by hand.
        for name, names, what in ((geolevel, geolevels, "geolevel"), (query, known, "attribute or recode")):
            if name not in names:
                raise _wrong(
                    f"{where} names the {what} {name!r:.80}; there are {', '.join(names)}. Correct it."
                )
        if (geolevel, query) in sizes:
            raise _wrong(f"{where} gives '{query}' at {geolevel} again. Give each once.")
        size = _number(text)
        if not 1 <= size <= known[query]:
            raise _wrong(
                f"{where} gives '{query}' at {geolevel} {text!r:.80} live categories; wanted a number from 1 to "
                f"{known[query]}, which is how many there are. Give the mean number of categories that are in use, "
                "over the geounits with any records."
            )
        sizes[geolevel, query] = size
    return sizes


def _number(text: str | None) -> float:
    try:
        return float(text or "nan")
    except ValueError:
        return math.nan


def _wrong(message: str) -> SchemaError:
    return SchemaError(message, code="bad-live-sizes")
