"""Variances of estimates in outer passes, against dense matrices over the cells of every pass."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.linalg import null_space
from tests.outer_worlds import write_persons, write_units

from tallyveil.accounting.events import Neighbours
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import BudgetError
from tallyveil.estimation.intervals.by_share.covariances import top_down_of
from tallyveil.estimation.intervals.by_share.measured import AskedVariance
from tallyveil.estimation.intervals.by_share.passes import Fitted, pass_variances
from tallyveil.geography.build import spine_from_columns
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.outer import measured_by_pass, sources_of_groups
from tallyveil.schema.attribute import Attribute, Recode
from tallyveil.schema.nested_queries import common_groups, determines, representative_cells
from tallyveil.schema.schema import Schema

WORLDS = {
    "units": (
        write_units,
        ["occupancy", "quarters"],
        ["tenure", "ten2*sex", "sex", "persons", "sex*persons", "ten2*persons", "ten2*sex*persons"],
    ),
    "persons": (
        write_persons,
        ["home*grown"],
        ["sex", "age*sex", "relation", "ages", "detailed", "home*grown*sex"],
    ),
}


@pytest.fixture(scope="module", params=list(WORLDS))
def world(request, tmp_path_factory):
    """A plan with outer passes, what is exact in it, what is asked, and a spine of one geolevel."""
    write, exact, queries = WORLDS[request.param]
    plan = load_plan(write(tmp_path_factory.mktemp(request.param))[1])
    return plan, exact, queries


def matrix(group, cells):
    """A query as a matrix over the cells of a pass that determines it."""
    answers = group.answers_of(representative_cells(cells, np.arange(cells.size)))
    return (np.arange(group.size)[:, None] == answers[None, :]).astype(float)


def passes_of(plan):
    queries = plan.strategy.queries(plan.geolevels[0])
    measured = measured_by_pass(plan.schema, plan.outer, queries)
    cells = [plan.query(one.cells) for one in plan.outer]
    return [
        Fitted(own, frozenset(names), source)
        for own, names, source in zip(cells, measured, sources_of_groups(cells), strict=True)
    ]


def dense_variance(plan, passes, exact, precision, query):
    """The mean variance of one geounit's answers from its own measurements."""
    group, zeros = plan.query(query), plan.schema.barred_levels()
    k = next(k for k, one in enumerate(passes) if determines(one.cells, group, zeros))
    rows, total = matrix(group, passes[k].cells), 0.0
    while True:
        cells, above = passes[k].cells, passes[passes[k].source].cells
        fixed = [common_groups(cells, above)] if k else [plan.query(name) for name in exact]
        known = np.concatenate([np.zeros((1, cells.size)), *(matrix(one, cells) for one in fixed)])
        free = null_space(known)
        own = sum(
            precision[name] * matrix(plan.query(name), cells).T @ matrix(plan.query(name), cells)
            for name in passes[k].measured
        )
        left = free.T @ rows.T
        total += float(np.trace(left.T @ np.linalg.solve(free.T @ own @ free, left)))
        if k == 0:
            return total / group.size
        inside = matrix(fixed[0], cells)
        rows = rows @ (inside / inside.sum(axis=1)[:, None]).T @ matrix(fixed[0], above)
        k = passes[k].source


def variances_of(plan, exact, queries):
    spine = spine_from_columns(
        {name: np.array(["P" * (place + 1)]) for place, name in enumerate(plan.geolevels)}, plan.geolevels
    )
    return pass_variances(
        plan.schema,
        plan.strategy,
        plan.geolevels,
        passes=passes_of(plan),
        exact=dict.fromkeys(plan.geolevels, exact),
        asked=[AskedVariance(0, query) for query in queries],
        estimator=top_down_of(spine, [0], []),
    )


def shares_like(plan, seed):
    shares = np.random.default_rng(seed).uniform(
        0.5, 2.0, sum(map(len, map(plan.strategy.queries, plan.geolevels)))
    )
    return shares / shares.sum()


def test_variances_are_those_of_dense_matrices(world):
    plan, exact, queries = world
    shares, root = shares_like(plan, 1), plan.geolevels[0]
    found = variances_of(plan, exact, queries).at(shares).values
    unit = {
        query: 2.0 * float(plan.strategy.total) / plan.strategy.answers_moved(query)
        for query in plan.strategy.queries(root)
    }
    precision = {
        query: unit[query] * share for query, share in zip(plan.strategy.queries(root), shares, strict=False)
    }
    wanted = [dense_variance(plan, passes_of(plan), exact, precision, query) for query in queries]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)  # every direction has a least precision


def test_derivatives_are_those_of_differences(world):
    plan, exact, queries = world
    variances, shares = variances_of(plan, exact, queries), shares_like(plan, 2)
    found = variances.at(shares)
    for place in range(len(plan.strategy.queries(plan.geolevels[0]))):
        step = np.zeros(len(shares))
        step[place] = 1e-6 * shares[place]
        slope = (variances.at(shares + step).values - variances.at(shares - step).values) / (2 * step[place])
        np.testing.assert_allclose(
            found.slopes[:, place], slope, rtol=1e-5, atol=1e-6 * np.abs(found.slopes).max()
        )


SMALL = Schema(
    "one",
    (Attribute("age", ("0", "1", "2")), Attribute("sex", ("male", "female"))),
    (Recode("old", "age", (("no", ("0", "1")), ("yes", ("2",)))),),
)


def variance_of_age(*passes):
    """The variance of ages, each pass given by its cells, which are measured with variance 1, and its source."""
    names = ("old", "sex", "age")
    strategy = Strategy(
        Mechanism.DISCRETE_GAUSSIAN,
        Neighbours.BOUNDED,
        Fraction(3),
        (("L0", Fraction(1)),),
        (("L0", tuple((name, Fraction(1, 3)) for name in names)),),
    )
    spine = spine_from_columns({"L0": np.array(["a"])}, ["L0"])
    found = pass_variances(
        SMALL,
        strategy,
        spine.geolevels,
        passes=[Fitted(SMALL.query(cells), frozenset([cells]), source) for cells, source in passes],
        exact={},
        asked=[AskedVariance(0, "age")],
        estimator=top_down_of(spine, [0], []),
    )
    return found.at(np.full(3, 1 / 3)).values[0]


def test_the_error_of_an_earlier_pass_is_spread_over_its_cells():
    # The worked case of the module: variance 1 of a group of two cells, and 1 of each cell.
    assert variance_of_age(("old", 0), ("age", 0)) == pytest.approx((0.5 + 0.25 + 0.5 + 0.25 + 1.0) / 3)


def test_a_pass_that_stands_beside_others_does_not_change_their_errors():
    beside = variance_of_age(("old", 0), ("sex", 0), ("age", 0))
    assert beside == pytest.approx(variance_of_age(("old", 0), ("age", 0)))
    assert beside != pytest.approx(variance_of_age(("old", 0), ("sex", 0), ("age", 1)))


def test_a_query_that_no_pass_determines_is_refused(tmp_path):
    plan = load_plan(write_units(tmp_path)[1])
    with pytest.raises(BudgetError, match="no outer pass determines"):
        variances_of(plan, ["occupancy", "quarters"], ["detailed"])
