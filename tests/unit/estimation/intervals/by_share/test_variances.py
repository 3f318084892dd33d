"""Variances as functions of shares: against the covariances of a whole spine, closed forms and differences."""

from fractions import Fraction
from itertools import chain, combinations
from math import prod

import numpy as np
import pytest

from tallyveil.accounting.events import Neighbours
from tallyveil.budget.optimal.solve import ShareProgram, solve
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.estimation.intervals.answers import level_variances, region_variances
from tallyveil.estimation.intervals.by_share.covariances import (
    LeastSquares,
    kinds_of,
    top_down_of,
    touched_by,
)
from tallyveil.estimation.intervals.by_share.measured import AskedVariance, VariancesByShare, measured_queries
from tallyveil.estimation.intervals.covariance import tree_covariance
from tallyveil.estimation.intervals.model import model_of_strategy
from tallyveil.estimation.intervals.questions import questions_of
from tallyveil.estimation.intervals.regions import region_of
from tallyveil.geography.build import spine_from_columns
from tallyveil.schema.attribute import Attribute, Recode
from tallyveil.schema.schema import Schema

SEX = Attribute("sex", ("f", "m"))
AGE = Attribute("age", ("0", "1", "2", "3", "4"))
SCHEMA = Schema(
    "people", (SEX, AGE), (Recode("adult", "age", (("no", ("0",)), ("yes", ("1", "2", "3", "4")))),)
)
QUERIES = ("total", "sex", "adult", "age*sex")


def strategy_of(geolevels, queries, seed=0, total=Fraction(2)):
    """Random shares in hundredths."""
    rng = np.random.default_rng(seed)

    def shares(names):
        parts = [int(one) for one in rng.integers(1, 100, len(names))]
        return tuple((name, Fraction(part, sum(parts))) for name, part in zip(names, parts, strict=True))

    levels = shares(geolevels)
    return Strategy(
        Mechanism.DISCRETE_GAUSSIAN,
        Neighbours.BOUNDED,
        total,
        levels,
        tuple((name, shares(queries)) for name in geolevels),
    )


def shares_of(strategy):
    return np.array(
        [
            float(strategy.share(level, query) / strategy.total)
            for level in strategy.geolevels
            for query in strategy.queries(level)
        ]
    )


def by_share(schema, strategy, spine, asked, families=(), exact=None, passes=None):
    queries = measured_queries(
        schema,
        strategy,
        spine.geolevels,
        exact=exact or {},
        drawn={},
        asked=[query for _, query in asked],
        passes=passes,
    )
    if passes is not None:
        levels = [place for place, _ in asked if isinstance(place, int)]
        return VariancesByShare(queries, top_down_of(spine, levels, families), asked)
    kinds = kinds_of(spine)
    touched = {family.name: touched_by(spine, kinds, family) for family in families}
    return VariancesByShare(queries, LeastSquares(kinds, touched), asked)


@pytest.mark.parametrize("exact", [{}, {"L0": ["total"]}])
@pytest.mark.parametrize(("seed", "n_levels"), [(0, 1), (1, 2), (2, 3), (3, 4), (4, 4)])
def test_least_squares_are_those_of_the_whole_spine(random_spine, random_family, seed, n_levels, exact):
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, 20, n_levels, one_root=seed % 2 == 0)
    family = random_family(rng, spine, 5, "any")
    strategy = strategy_of(spine.geolevels, QUERIES, seed, total=Fraction(1, 50))
    asked = [
        AskedVariance(area, query)
        for area in (*range(n_levels), "any")
        for query in ("sex", "age", "adult*sex")
    ]
    found = by_share(SCHEMA, strategy, spine, asked, [family], exact).at(shares_of(strategy)).values
    covariance = tree_covariance(model_of_strategy(SCHEMA, spine, strategy, invariants=exact))
    for (area, query), value in zip(asked, found, strict=True):
        questions = questions_of(covariance.algebra, SCHEMA.query(query))
        if isinstance(area, int):
            wanted = level_variances(covariance, area, questions)
        else:
            regions = [region_of(spine, family.members_of(entity)) for entity in range(family.n_entities)]
            wanted = region_variances(covariance, regions, questions)
        assert value == pytest.approx(wanted.mean(), rel=1e-5), (area, query)


def test_classes_one_by_one_give_the_same(monkeypatch, random_spine, random_family):
    rng = np.random.default_rng(2)
    spine = random_spine(rng, 20, 3, one_root=True)
    family = random_family(rng, spine, 4, "any")
    strategy = strategy_of(spine.geolevels, QUERIES)
    asked = [AskedVariance(area, query) for area in (0, 2, "any") for query in ("total", "age*sex")]
    variances, shares = by_share(SCHEMA, strategy, spine, asked, [family]), shares_of(strategy)
    at_once = variances.at(shares)
    monkeypatch.setattr("tallyveil.estimation.intervals.by_share.measured.AT_ONCE", 1)
    one_by_one = variances.at(shares)
    assert one_by_one.values == pytest.approx(at_once.values, rel=1e-12)
    assert one_by_one.slopes == pytest.approx(at_once.slopes, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("passes", [None, [["total"], ["sex", "adult", "age*sex"]]])
def test_derivatives_are_those_of_differences(random_spine, random_family, passes):
    rng = np.random.default_rng(7)
    spine = random_spine(rng, 20, 3, one_root=True)
    family = random_family(rng, spine, 4, "any")
    strategy = strategy_of(spine.geolevels, QUERIES)
    asked = [AskedVariance(area, query) for area in (0, 1, 2, "any") for query in ("total", "age*sex")]
    in_passes = None if passes is None else dict.fromkeys(spine.geolevels, passes)
    variances = by_share(SCHEMA, strategy, spine, asked, [family], passes=in_passes)
    shares = shares_of(strategy)
    slopes = variances.at(shares).slopes
    for place in range(len(shares)):
        step = np.zeros(len(shares))
        step[place] = 1e-5 * shares[place]
        difference = (variances.at(shares + step).values - variances.at(shares - step).values) / 2
        assert difference == pytest.approx(slopes[:, place] * step[place], rel=1e-4, abs=1e-12)


def test_top_down_uses_the_geounit_and_its_ancestors_alone(random_spine, random_family):
    """For one cell, the estimates of the head of the module, written as a matrix on all measurements."""
    rng = np.random.default_rng(3)
    spine = random_spine(rng, 15, 4, one_root=True)
    family = random_family(rng, spine, 4, "any")
    schema = Schema("one", (Attribute("all", ("x", "y")),), ())
    strategy = strategy_of(spine.geolevels, ("total",), 3)
    asked = [*(AskedVariance(level, "total") for level in range(4)), AskedVariance("any", "total")]
    passes = {name: [["total"]] for name in spine.geolevels}
    found = by_share(schema, strategy, spine, asked, [family], passes=passes).at(shares_of(strategy)).values

    sizes = [spine.n_geounits(level) for level in range(4)]
    begin = np.cumsum([0, *sizes])
    variance = np.concatenate(
        [
            np.full(n, 1 / float(strategy.share(name, "total")))
            for name, n in zip(spine.geolevels, sizes, strict=True)
        ]
    )
    estimates = [np.eye(sizes[0], begin[-1])]
    for level in range(1, 4):
        own = np.eye(begin[-1])[begin[level] : begin[level + 1]]
        parents = spine.parents(level)
        made = own.copy()
        for parent in range(sizes[level - 1]):
            children = parents == parent
            made[children] += (estimates[-1][parent] - own[children].sum(axis=0)) / children.sum()
        estimates.append(made)
    for level in range(4):
        assert found[level] == pytest.approx(((estimates[level] ** 2) @ variance).mean(), rel=1e-6)
    regions = np.array([estimates[3][family.members_of(e)].sum(axis=0) for e in range(family.n_entities)])
    assert found[4] == pytest.approx(((regions**2) @ variance).mean(), rel=1e-6)


def test_a_total_that_is_fitted_first_ignores_later_queries(random_spine):
    spine = random_spine(np.random.default_rng(0), 6, 1)
    strategy = strategy_of(spine.geolevels, ("total", "age*sex"))
    passes = {"L0": [["total"], ["age*sex"]]}
    asked = [AskedVariance(0, "total"), AskedVariance(0, "age*sex")]
    found = by_share(SCHEMA, strategy, spine, asked, passes=passes).at(shares_of(strategy)).values
    total, detailed = (1 / float(strategy.share("L0", query)) for query in ("total", "age*sex"))
    # The cells keep their own noise but for its mean, and get a tenth of the error of the total.
    assert found == pytest.approx([total, detailed * 0.9 + total / 100], rel=1e-6)


def marginals(n_attributes, upto=None):
    sets = chain.from_iterable(combinations(range(n_attributes), k) for k in range(n_attributes + 1))
    return [one for one in sets if upto is None or len(one) <= upto]


@pytest.mark.parametrize(
    ("sizes", "workload"),
    [
        ((2, 8), [(), (1,), (0, 1)]),
        ((2, 8), [(), (0,), (1,), (0, 1)]),
        ((4, 2, 3), marginals(3)),
    ],
)
def test_marginals_reach_the_residual_optimum(sizes, workload):
    """Without a tree, independent marginals are as good as the best residual mechanism: its closed form."""
    attributes = tuple(Attribute(f"a{i}", tuple(map(str, range(n)))) for i, n in enumerate(sizes))
    schema = Schema("cube", attributes, ())
    names = {one: "*".join(f"a{i}" for i in one) or "total" for one in marginals(len(sizes))}
    spine = spine_from_columns({"All": ["0"]}, ["All"])
    strategy = strategy_of(("All",), tuple(names[one] for one in workload), total=Fraction(3, 2))
    asked = [AskedVariance(0, names[one]) for one in workload]
    variances = by_share(schema, strategy, spine, asked)
    n = len(workload)
    program = ShareProgram(np.ones(n), False, np.full(n, np.inf), np.full(n, 1e-9))
    found = solve(program, variances.at, np.full(n, 1 / n), gap=2e-7)

    # The residual of a set T has m_T dimensions and eigenvalue l_T, and costs l_T m_T / cells.
    cells, best = prod(sizes), 0.0
    for residual in marginals(len(sizes)):
        m = prod(sizes[i] - 1 for i in residual)
        weight = sum(
            m * cells / prod(sizes[i] for i in one) ** 2 for one in workload if set(residual) <= set(one)
        )
        best += np.sqrt(weight * m / cells)
    assert found.objective == pytest.approx(best**2 / 1.5, rel=1e-6)
