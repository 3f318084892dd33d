"""The implicit matrices against dense ones, and the exact condition of Theorems 1 and 3."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from tests.oracles.spine_matrices import SpineMatrix, StrategyMatrix, strategy_shares
from tests.samples import ten

from tallyveil.accounting.events import Neighbours
from tallyveil.budget.allocation import require_affordable
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import BudgetError
from tallyveil.geography.build import spine_from_columns
from tallyveil.geography.bypass import BypassRule, bypass
from tallyveil.geography.spine import GeounitShares, uniform_shares
from tallyveil.schema.attribute import Attribute, Recode
from tallyveil.schema.schema import Schema

SCHEMA = Schema("small", (Attribute("sex", ("f", "m")), Attribute("age", ("a", "b", "c"))))


def strategy_of(spine, mechanism):
    n = spine.n_levels
    shares = tuple((name, Fraction(1, n)) for name in spine.geolevels)
    queries = (("total", Fraction(1, 6)), ("sex", Fraction(1, 3)), ("detailed", Fraction(1, 2)))
    return Strategy(
        mechanism, Neighbours.BOUNDED, Fraction(5, 4), shares, tuple((name, queries) for name, _ in shares)
    )


def ancestors(spine):
    return np.concatenate(
        [
            (spine.ancestors(level)[None, :] == np.arange(spine.n_geounits(level))[:, None]).astype(int)
            for level in range(spine.n_levels)
        ]
    )


@pytest.mark.parametrize("seed", range(10))
def test_products_are_those_of_the_matrices(random_spine, seed):
    rng = np.random.default_rng([61, seed])
    spine = random_spine(rng, 7, 3)
    matrix = SpineMatrix(spine)
    dense = ancestors(spine)
    assert matrix.shape == dense.shape
    assert np.array_equal(matrix.dense(), dense)
    x, y = rng.integers(0, 9, (7, 2)), rng.integers(0, 9, (dense.shape[0], 2))
    assert np.array_equal(matrix.apply(x), dense @ x)
    assert np.array_equal(matrix.adjoint(y), dense.T @ y)

    strategy = strategy_of(spine, list(Mechanism)[seed % 2])
    shares = bypass(spine, strategy_shares(spine, strategy), BypassRule.SINGLE_CHILD)
    made, shares = shares[0].spine, shares[1]
    full = StrategyMatrix(made, strategy, {q: SCHEMA.query(q) for q in ("total", "sex", "detailed")}, shares)
    s = full.dense()
    blocks = []
    for level, query in full.measured():
        rows = ancestors(made)[SpineMatrix(made).rows(level)]
        w = SCHEMA.query(query).apply_dense(np.eye(6)).T
        blocks.append(full.scales(level, query).repeat(len(w))[:, None] * np.kron(rows, w))
    np.testing.assert_allclose(s, np.concatenate(blocks))
    x, y = rng.random((7, 6)), rng.random(s.shape[0])
    np.testing.assert_allclose(full.apply(x), s @ x.ravel())
    np.testing.assert_allclose(full.adjoint(y).ravel(), s.T @ y)
    # Theorem 3: what any column costs is the sum of shares along its path, and at most the total.
    moved, power = (
        strategy.neighbours.answers_moved,
        2 if strategy.mechanism is Mechanism.DISCRETE_GAUSSIAN else 1,
    )
    spent = (np.abs(s) ** power).sum(axis=0) * moved / power
    np.testing.assert_allclose(spent, float(strategy.total))
    assert require_affordable(made, shares, strategy) == 1


@pytest.mark.parametrize("seed", ten(range(50)))
def test_the_greatest_sum_of_a_path_is_exact(random_spine, seed):
    rng = np.random.default_rng([62, seed])
    spine = random_spine(rng, int(rng.integers(1, 20)), int(rng.integers(1, 5)))
    values = tuple(Fraction(k, 7919) for k in (0, 3, 5, 2_000, 2_001, 3_000))
    positions = tuple(
        rng.integers(0, 6, spine.n_geounits(level)).astype(np.int32) for level in range(spine.n_levels)
    )
    shares = GeounitShares(values, positions)
    exact = np.array([values[p] for one in positions for p in one.tolist()], dtype=object)
    sums = [sum(exact[column.astype(bool)]) for column in ancestors(spine).T]
    if max(sums) > 1:
        with pytest.raises(BudgetError, match="more than 1, on the path") as caught:
            require_affordable(spine, shares)
        assert caught.value.code == "overspent-path"
        finest = sums.index(max(sums))
        path = [
            f"{name} '{spine.geocodes[level][spine.ancestors(level)[finest]]}'"
            f" ({shares.share(level, int(spine.ancestors(level)[finest]))})"
            for level, name in enumerate(spine.geolevels)
        ]
        assert f"on the path {' > '.join(path)}." in str(caught.value)
    else:
        assert require_affordable(spine, shares) == max(sums)


def test_overspending_names_the_path():
    spine = spine_from_columns(
        {"A": ["a"] * 3, "B": ["b0", "b0", "b1"], "C": ["c0", "c1", "c2"]}, ("A", "B", "C")
    )
    third = uniform_shares(spine, dict.fromkeys("ABC", Fraction(1, 3)))
    assert require_affordable(spine, third) == 1
    more = GeounitShares(
        (Fraction(1, 3), Fraction(1, 2)),
        (third.positions[0], np.array([0, 1], dtype=np.int32), third.positions[2]),
    )
    with pytest.raises(BudgetError, match=r"7/6.*A 'a' \(1/3\) > B 'b1' \(1/2\) > C 'c2' \(1/3\)"):
        require_affordable(spine, more)


def test_unmeasured_geolevels_and_wrong_sizes_are_refused(random_spine):
    rng = np.random.default_rng(63)
    spine = random_spine(rng, 9, 3)
    strategy = strategy_of(spine, Mechanism.DISCRETE_GAUSSIAN)
    shares = strategy_shares(spine, strategy)
    names = ("L0", "L1")
    less = replace(
        strategy,
        geolevel_shares=tuple((name, Fraction(1, 2)) for name in names),
        query_shares=tuple((name, dict(strategy.query_shares)[name]) for name in names),
    )
    with pytest.raises(BudgetError, match="measures nothing there"):
        require_affordable(spine, shares, less)
    with pytest.raises(BudgetError, match="do not fit"):
        require_affordable(random_spine(rng, 12, 3), shares)


@pytest.mark.parametrize("mechanism", list(Mechanism))
def test_a_query_whose_groups_overlap_is_measured_with_more_noise(random_spine, mechanism):
    """A factor on rows is 1 over the size of the noise: of the law of each geounit's own share."""
    ages = Recode(
        "up_to", "age", (("a", ("a",)), ("b", ("a", "b")), ("c", ("a", "b", "c"))), overlapping=True
    )
    schema = Schema("small", SCHEMA.attributes, (ages,))
    spine = random_spine(np.random.default_rng(64), 5, 2, one_root=True)
    queries = (("total", Fraction(1, 4)), ("up_to", Fraction(3, 4)))
    strategy = Strategy(
        mechanism,
        Neighbours.BOUNDED,
        Fraction(5, 4),
        tuple((name, Fraction(1, 2)) for name in spine.geolevels),
        tuple((name, queries) for name in spine.geolevels),
        (("up_to", 3),),
    )
    shares = strategy_shares(spine, strategy)
    groups = {name: schema.query(name) for name, _ in queries}
    for query, _ in queries:
        law = strategy.law("L0", query)
        size = float(law.variance) ** 0.5 if mechanism is Mechanism.DISCRETE_GAUSSIAN else float(law.scale)
        found = StrategyMatrix(spine, strategy, groups, shares).scales(0, query)
        assert found == pytest.approx([1 / size])
