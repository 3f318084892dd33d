"""What the precision of a total is the precision of."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from tests.oracles.spine_matrices import StrategyMatrix, strategy_shares

from tallyveil.accounting.events import Neighbours
from tallyveil.budget.presets import load_strategy_preset
from tallyveil.budget.spine.variance import (
    answer_precisions,
    answers_summed,
    precision_of,
    spine_variances,
    totals_summed,
)
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import BudgetError, GeographyError
from tallyveil.geography.spine import GeounitShares
from tallyveil.schema.attribute import Attribute, Recode
from tallyveil.schema.presets import load_preset
from tallyveil.schema.schema import Schema


def small_schema():
    return Schema(
        "small",
        (Attribute("sex", ("f", "m")), Attribute("age", ("a", "b", "c"))),
        recodes=(Recode("young", "age", (("yes", ("a",)), ("no", ("b", "c")))),),
    )


def strategy_of(spine, queries, mechanism=Mechanism.DISCRETE_GAUSSIAN):
    n = spine.n_levels
    shares = [(level + 1) * 2 / (n * (n + 1)) for level in range(n)]
    exact = [Fraction(share).limit_denominator(1000) for share in shares[:-1]]
    exact.append(1 - sum(exact))
    return Strategy(
        mechanism,
        Neighbours.BOUNDED,
        Fraction(3, 2),
        tuple(zip(spine.geolevels, exact, strict=True)),
        tuple(
            (name, tuple((q, Fraction(1, len(mine))) for q in mine))
            for name, mine in zip(spine.geolevels, queries, strict=True)
        ),
    )


def full_variance_of_totals(spine, strategy, schema):
    """Every answer of every geounit together, without any structure."""
    names = {q for level in strategy.geolevels for q in strategy.queries(level)}
    matrix = StrategyMatrix(
        spine, strategy, {q: schema.query(q) for q in names}, strategy_shares(spine, strategy)
    ).dense()
    covariance = np.linalg.inv(matrix.T @ matrix)
    n = spine.n_geounits(spine.finest)
    return [
        np.array(
            [
                (covariance.reshape(n, schema.size, n, schema.size)[a:b, :, a:b, :]).sum()
                for a, b in itertools.pairwise(offsets)
            ]
        )
        for offsets in (spine.finest_offsets(level) for level in range(spine.n_levels))
    ]


@pytest.mark.parametrize("seed", range(5))
def test_all_answers_together_do_no_better_where_answers_sum_alike(random_spine, seed):
    rng = np.random.default_rng([51, seed])
    spine, schema = random_spine(rng, 8, 3, one_root=True), small_schema()
    queries = [("total", "sex", "detailed"), ("age", "detailed"), ("total", "detailed")]
    strategy = strategy_of(
        spine, queries, [Mechanism.DISCRETE_GAUSSIAN, Mechanism.DISCRETE_LAPLACE][seed % 2]
    )
    found = spine_variances(spine, answer_precisions(spine, strategy, totals_summed(schema, strategy)))
    factor = 2 if strategy.mechanism is Mechanism.DISCRETE_LAPLACE else 1  # a Laplace variance is 2 scale^2
    for mine, full in zip(found.variance, full_variance_of_totals(spine, strategy, schema), strict=True):
        np.testing.assert_allclose(mine, factor * full, rtol=1e-9)


def test_unequal_groups_leave_a_little_to_gain(random_spine):
    rng = np.random.default_rng(52)
    spine, schema = random_spine(rng, 6, 3, one_root=True), small_schema()
    strategy = strategy_of(spine, [("young", "detailed")] * 3)
    found = spine_variances(spine, answer_precisions(spine, strategy, totals_summed(schema, strategy)))
    for mine, full in zip(found.variance, full_variance_of_totals(spine, strategy, schema), strict=True):
        assert np.all(mine >= full * (1 - 1e-9))
        assert np.all(mine <= full * 1.1)


def test_which_answers_sum_to_an_answer():
    schema = small_schema()
    total, age, young, sex = (schema.query(name) for name in ("total", "age", "young", "sex"))
    assert answers_summed(schema.query("detailed"), total) == 6
    assert answers_summed(age, young, 1) == 2
    assert answers_summed(young, age, 0) == 1  # the only level of its group
    assert answers_summed(young, age, 1) == 0
    assert answers_summed(sex, age, 1) == 0


def summed_cell_by_cell(schema, query, target, answer):
    """The same number from the answer of every cell."""
    cells = np.arange(schema.size)
    wanted = target.answers_of(cells) == answer
    found = []
    for layer in query.layers:
        measured = layer.answers_of(cells)
        used = np.unique(measured[wanted])
        if used[0] >= 0 and not np.isin(measured[~wanted], used).any():
            found.append(len(used))
    return min(found, default=0)


def test_answers_are_those_of_a_look_at_every_cell():
    schema = Schema(
        "small",
        (Attribute("sex", ("f", "m")), Attribute("age", ("a", "b", "c", "d"))),
        recodes=(
            Recode("young", "age", (("yes", ("a",)), ("no", ("b", "c", "d")))),
            Recode("some", "age", (("a", ("a",)), ("c", ("b", "c")))),
            Recode("up_to", "age", (("b", ("a", "b")), ("all", ("a", "b", "c", "d"))), overlapping=True),
        ),
    )
    ages = ("total", "age", "young", "some", "up_to")
    names = [*ages, *(f"sex*{age}" for age in ages[1:]), "sex"]
    found = []
    for fine, coarse in itertools.product(names, names):
        query, target = schema.query(fine), schema.query(coarse)
        if not target.overlaps:
            for answer in range(target.size):
                found.append(answers_summed(query, target, answer))
                assert found[-1] == summed_cell_by_cell(schema, query, target, answer), (fine, coarse, answer)
    assert {0, 1, 2, 3, 4} <= set(found)


def test_redistricting_total_of_a_tract():
    strategy = load_strategy_preset("redistricting-us").strategy
    summed = totals_summed(load_preset("pl94-persons"), strategy)
    assert summed["hispanic*cenrace"] == 126
    assert summed["detailed"] == 2016
    share = dict(strategy.geolevel_shares)["Tract"]
    exact = precision_of(strategy, "Tract", share, summed)
    rho = strategy.total * share
    parts = {"total": 1567, "cenrace": 8, "hispanic*cenrace": 1933, "votingage*cenrace": 20, "detailed": 482}
    parts |= {"votingage*hispanic*cenrace": 67, **dict.fromkeys(["hispanic", "votingage", "hhinstlevels"], 5)}
    parts |= {"hhgq": 5, "votingage*hispanic": 5}
    assert exact == sum(rho * Fraction(part, 4102) / summed[name] for name, part in parts.items())


def test_exact_geolevels_and_refusals(random_spine):
    rng = np.random.default_rng(53)
    spine = random_spine(rng, 6, 3, one_root=True)
    strategy = strategy_of(spine, [("total",)] * 3)
    found = answer_precisions(spine, strategy, {"total": 1}, exact=["L0"])
    assert np.isinf(found[0]).all()
    assert spine_variances(spine, found).variance[0].tolist() == [0]
    with pytest.raises(GeographyError, match="no geolevel"):
        answer_precisions(spine, strategy, {"total": 1}, exact=["Nation"])
    with pytest.raises(BudgetError, match="nothing is said"):
        answer_precisions(spine, strategy, {})
    uniform = strategy_shares(spine, strategy)
    fewer = GeounitShares(uniform.values, uniform.positions[:2])
    shorter = GeounitShares(uniform.values, (*uniform.positions[:2], uniform.positions[2][:-1]))
    for wrong in (fewer, shorter):
        with pytest.raises(BudgetError, match="shares do not fit the 6 geounits of geolevel L2"):
            answer_precisions(spine, strategy, {"total": 1}, shares=wrong)


@pytest.mark.parametrize("mechanism", list(Mechanism))
def test_a_geounits_own_share_determines_its_precision(random_spine, mechanism):
    """The precision of a geounit is that of its own laws; a geolevel that is not named has none."""
    spine = random_spine(np.random.default_rng(54), 6, 3, one_root=True)
    strategy = strategy_of(spine, [("total", "sex")] * 3, mechanism)
    values = (Fraction(0), Fraction(1, 5), Fraction(3, 10))
    positions = tuple((np.arange(spine.n_geounits(level)) % 3).astype(np.int32) for level in range(3))
    found = answer_precisions(
        spine, strategy, {"total": 1, "sex": 2}, shares=GeounitShares(values, positions)
    )
    for level, name in enumerate(spine.geolevels):
        for position, precision in zip(positions[level], found[level], strict=True):
            wanted = 0.0
            for query, n in (("total", 1), ("sex", 2)) if values[position] else ():
                law = strategy.law(name, query, values[position])
                wanted += 1 / (n * float(law.variance if hasattr(law, "variance") else 2 * law.scale**2))
            assert precision == pytest.approx(wanted)
    other = random_spine(np.random.default_rng(55), 6, 4, one_root=True)
    assert [one.any() for one in answer_precisions(other, strategy, {"total": 1, "sex": 2})] == [True] * 3 + [
        False
    ]
