"""Bypassing against a literal transcription of Algorithm 3, and the theorems it rests on."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from tests.samples import every, few, ten

from tallyveil.budget.presets import load_strategy_preset
from tallyveil.budget.spine.presets import query_shares
from tallyveil.budget.strategy import Mechanism
from tallyveil.errors import BudgetError, GeographyError
from tallyveil.geography.build import spine_from_columns, spine_from_prefixes
from tallyveil.geography.bypass import BypassRule, QueryShares, bypass
from tallyveil.geography.spine import GeounitShares, path_total, uniform_shares


class Geounit:
    """A tree of objects, for the transcription."""

    def __init__(self, share, children, leaf=None):
        self.share, self.children, self.leaf = share, children, leaf

    def leaves(self):
        return {self.leaf} if self.leaf else set().union(*(child.leaves() for child in self.children))


def as_tree(spine, shares):
    """A geounit over the roots, which the algorithm does not visit."""
    below = [
        Geounit(shares.share(spine.finest, g), [], str(code)) for g, code in enumerate(spine.geocodes[-1])
    ]
    for level in range(spine.finest - 1, -1, -1):
        offsets = spine.child_offsets[level]
        below = [
            Geounit(shares.share(level, g), below[offsets[g] : offsets[g + 1]])
            for g in range(spine.n_geounits(level))
        ]
    return Geounit(None, below)


def geounits_in_geolevel(top, level):
    found = top.children
    for _ in range(level):
        found = [child for geounit in found for child in geounit.children]
    return found


def bypass_parent_geounit(holder, parent):
    """As section 5 defines it: c geounits at the parent's geolevel, each over one child whose share is zero."""
    place = holder.children.index(parent)
    new = [Geounit(parent.share + child.share, [child]) for child in parent.children]
    for child in parent.children:
        child.share = Fraction(0)
    holder.children[place : place + 1] = new


def move_spine_to_pareto_frontier(top, n_levels, pure_dp):
    """Algorithm 3 as printed."""
    for level in range(n_levels - 2, -1, -1):
        holders = [top] if level == 0 else geounits_in_geolevel(top, level - 1)
        for holder in holders:
            for parent in list(holder.children):
                share_child = min(child.share for child in parent.children)
                share_parent = parent.share
                c = len(parent.children)
                if (pure_dp and share_child >= Fraction(c - 1) * share_parent / 2) or c == 1:
                    bypass_parent_geounit(holder, parent)


def random_shares(rng, spine):
    """Shares by geolevel with sum 1."""
    parts = [Fraction(int(k)) for k in rng.integers(1, 6, spine.n_levels)]
    return uniform_shares(spine, {n: p / sum(parts) for n, p in zip(spine.geolevels, parts, strict=True)})


def contents(spine, shares):
    """(level, finest geounits, share) of every geounit."""
    codes = spine.geocodes[-1]
    return sorted(
        (level, sorted(codes[spine.ancestors(level) == g].tolist()), shares.share(level, g))
        for level in range(spine.n_levels)
        for g in range(spine.n_geounits(level))
    )


@pytest.mark.parametrize("rule", [BypassRule.PURE_DP, BypassRule.SINGLE_CHILD])
@pytest.mark.parametrize("seed", few(4, every(3, range(300))))
def test_same_spine_and_shares_as_the_literal_algorithm(seed, rule, random_spine):
    rng = np.random.default_rng([71, seed])
    spine = random_spine(rng, int(rng.integers(1, 25)), int(rng.integers(1, 6)))
    shares = random_shares(rng, spine)
    top = as_tree(spine, shares)
    move_spine_to_pareto_frontier(top, spine.n_levels, rule is BypassRule.PURE_DP)
    made, ordered = bypass(spine, shares, rule)
    literal = sorted(
        (level, sorted(geounit.leaves()), geounit.share)
        for level in range(spine.n_levels)
        for geounit in geounits_in_geolevel(top, level)
    )
    assert contents(made.spine, ordered) == literal
    assert np.array_equal(made.spine.geocodes[-1], spine.geocodes[-1][made.rows])
    for leaf in range(made.spine.n_geounits(made.spine.finest)):
        path = [ordered.share(k, int(made.spine.ancestors(k)[leaf])) for k in range(spine.n_levels)]
        assert sum(path) == 1

    # "After only one pass no remaining geounits can be bypassed."
    again, same = bypass(made.spine, ordered, rule)
    assert again.spine.digest() == made.spine.digest()
    assert contents(again.spine, same) == contents(made.spine, ordered)


@pytest.mark.parametrize("seed", ten(range(30)))
def test_a_single_child_leaves_the_spine_as_it_was(seed, random_spine):
    """Under zCDP only shares move: the geounit that takes its only child's place keeps its geocode."""
    rng = np.random.default_rng([72, seed])
    spine = random_spine(rng, 12, 4)
    made, shares = bypass(spine, random_shares(rng, spine), BypassRule.SINGLE_CHILD)
    assert made.spine.digest() == spine.digest()
    for level in range(spine.finest):
        only = np.diff(spine.child_offsets[level]) == 1
        assert not shares.measured(level + 1)[spine.child_offsets[level][:-1][only]].any()


def two_levels(c):
    return spine_from_prefixes([f"a{child}" for child in range(c)], ("Tract", "Block"), (1, 2))


@pytest.mark.parametrize("c", range(2, 8))
def test_pure_dp_at_its_boundary(c):
    """share of a child >= (c - 1) * share of the parent / 2, exactly."""
    parent = Fraction(2, c + 1)
    edge = {"Tract": parent, "Block": 1 - parent}
    assert edge["Block"] == Fraction(c - 1) * parent / 2
    hair = Fraction(1, 10**30)
    below = {"Tract": parent + hair, "Block": 1 - parent - hair}
    made, _ = bypass(two_levels(c), uniform_shares(two_levels(c), edge), BypassRule.PURE_DP)
    assert made.spine.n_geounits(0) == c
    assert made.spine.geocodes[0].tolist() == [f"a{child}" for child in range(c)]
    kept, shares = bypass(two_levels(c), uniform_shares(two_levels(c), below), BypassRule.PURE_DP)
    assert kept.spine.n_geounits(0) == 1
    assert shares.measured(0).all()
    limited, _ = bypass(
        two_levels(c), uniform_shares(two_levels(c), edge), BypassRule.PURE_DP, most_children=c - 1
    )
    assert limited.spine.n_geounits(0) == 1


def test_the_least_share_of_the_children_decides():
    spine = two_levels(2)
    values = (Fraction(1, 8), Fraction(1, 2), Fraction(3, 4))
    even = GeounitShares(values, (np.array([1], np.int32), np.array([1, 1], np.int32)))
    assert bypass(spine, even, BypassRule.PURE_DP)[0].spine.n_geounits(0) == 2
    uneven = GeounitShares(values, (np.array([1], np.int32), np.array([0, 2], np.int32)))
    with pytest.raises(BudgetError, match="path"):
        bypass(spine, uneven, BypassRule.PURE_DP)


def test_geocodes_used_at_two_geolevels_get_the_parents_in_front():
    columns = {
        "State": ["s", "s", "t", "t", "t", "t", "t"],
        "Tract": ["1", "1", *"23456"],
        "Block": [*"2345678"],
    }
    spine = spine_from_columns(columns, ("State", "Tract", "Block"))
    shares = dict(zip(spine.geolevels, map(Fraction, ("1/4", "1/4", "1/2")), strict=True))
    made, _ = bypass(spine, uniform_shares(spine, shares), BypassRule.PURE_DP)
    # Tract 1 gives way to its blocks 2 and 3, whose geocodes two tracts have; then the states to their tracts.
    assert made.spine.geocodes[1].tolist() == ["1/2", "1/3", "2", "3", "4", "5", "6"]
    assert made.spine.geocodes[0].tolist() == made.spine.geocodes[1].tolist()


def test_what_does_not_fit_is_refused():
    spine = two_levels(2)
    shares = uniform_shares(spine, {"Tract": Fraction(1, 2), "Block": Fraction(1, 2)})
    with pytest.raises(BudgetError, match="do not fit the spine"):
        bypass(two_levels(3), shares, BypassRule.PURE_DP)
    with pytest.raises(GeographyError, match="1 or more") as caught:
        bypass(spine, shares, BypassRule.PURE_DP, most_children=0)
    assert caught.value.code == "fan-out-limit"


# The theorems: variances of all queries of all geounits by weighted least squares, before and after the budget of
# one geounit is given to its children.

QUERIES = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])  # total and detailed query of two cells
QUERY_SHARES = np.array([0.3, 0.7, 0.7])


def indicator(spine):
    rows = [
        spine.ancestors(level) == g for level in range(spine.n_levels) for g in range(spine.n_geounits(level))
    ]
    return np.array(rows, dtype=float)


def variances(spine, gamma, power):
    """Diagonal of Var(V x); power 1 for Laplace noise (scale 1 / share), 1/2 for Gaussian noise."""
    weight = np.kron(gamma**power, QUERY_SHARES**power)
    areas = np.kron(indicator(spine), QUERIES)
    strategy = weight[:, None] * areas
    inverse = np.linalg.inv(strategy.T @ strategy)
    return np.einsum("ij,jk,ik->i", areas, inverse, areas), inverse


def theorem_case(seed, random_spine, least_children):
    """A spine, the position of a geounit with enough children, of its children, and random shares."""
    rng = np.random.default_rng([73, seed])
    while True:
        spine = random_spine(rng, int(rng.integers(2, 13)), int(rng.integers(2, 5)))
        level = int(rng.integers(0, spine.finest))
        counts = np.diff(spine.child_offsets[level])
        if counts.max() >= least_children:
            break
    g = int(rng.choice(np.flatnonzero(counts >= least_children)))
    base = np.concatenate([[0], np.cumsum([spine.n_geounits(k) for k in range(spine.n_levels)])])
    children = base[level + 1] + np.arange(spine.child_offsets[level][g], spine.child_offsets[level][g + 1])
    return rng, spine, base[level] + g, children, rng.uniform(0.2, 1.0, base[-1]), level


def given_to_children(gamma, parent, children):
    after = gamma.copy()
    after[children] += gamma[parent]
    after[parent] = 0.0
    return after


@pytest.mark.parametrize("seed", ten(range(60)))
def test_theorem_2_on_its_side_no_variance_rises(seed, random_spine):
    rng, spine, parent, children, gamma, _ = theorem_case(seed, random_spine, 1)
    edge = (len(children) - 1) * gamma[parent] / 2
    gamma[children] = edge * rng.choice([1.0, 1.2, 3.0]) or 0.5
    before, _ = variances(spine, gamma, 1)
    after, _ = variances(spine, given_to_children(gamma, parent, children), 1)
    assert np.all(after <= before * (1 + 1e-9))


@pytest.mark.parametrize("seed", ten(range(60)))
def test_theorem_2_on_the_other_side_some_variance_rises(seed, random_spine):
    rng, spine, parent, children, gamma, level = theorem_case(seed, random_spine, 2)
    gamma[children] = (len(children) - 1) * gamma[parent] / 2 * rng.choice([0.1, 0.5, 0.9])
    before, covariance_before = variances(spine, gamma, 1)
    after, covariance_after = variances(spine, given_to_children(gamma, parent, children), 1)
    # Some query has a greater variance...
    assert np.linalg.eigvalsh(covariance_after - covariance_before).max() > 1e-9
    if level == spine.finest - 1:  # ... and where the children have nothing below, it is the parent's own.
        rows = slice(parent * len(QUERIES), (parent + 1) * len(QUERIES))
        assert np.all(after[rows] > before[rows] * (1 + 1e-9))


@pytest.mark.parametrize("seed", ten(range(60)))
def test_under_zcdp_more_children_raise_some_variance_and_one_child_none(seed, random_spine):
    _, spine, parent, children, gamma, _ = theorem_case(seed, random_spine, 1)
    before, _ = variances(spine, gamma, 0.5)
    after, _ = variances(spine, given_to_children(gamma, parent, children), 0.5)
    if len(children) == 1:
        assert np.allclose(after, before, rtol=1e-9)
    else:
        assert np.any(after > before * (1 + 1e-6))


def test_bypassed_paths_keep_their_sum_in_fractions(random_spine):
    rng = np.random.default_rng(74)
    spine = random_spine(rng, 200, 5)
    parts = {
        name: Fraction(1, prime) for name, prime in zip(spine.geolevels, (3, 7, 11, 13, 17), strict=True)
    }
    total = sum(parts.values())
    shares = uniform_shares(spine, {name: part / total for name, part in parts.items()})
    made, ordered = bypass(spine, shares, BypassRule.PURE_DP)
    assert path_total(made.spine, ordered) == 1
    assert made.spine.digest() != spine.digest()


# The rule for unequal queries: information of all measurements on the cells of all finest geounits, by matrices.

ATTRIBUTES = {"hhgq": 3, "votingage": 2, "hispanic": 2, "cenrace": 2}  # the redistricting queries on 24 cells
RECODE = np.array(
    [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
)  # two levels of unequal size in the place of hhinstlevels


def query_matrix(name):
    named = [*ATTRIBUTES] if name == "detailed" else name.split("*")
    parts = []
    for attribute, size in ATTRIBUTES.items():
        if attribute == "hhgq" and "hhinstlevels" in named:
            parts.append(RECODE)
        else:
            parts.append(np.eye(size) if attribute in named else np.ones((1, size)))
    matrix = parts[0]
    for part in parts[1:]:
        matrix = np.kron(matrix, part)
    return matrix


def information(spine, shares, queries, order):
    """What all measurements tell of the cells of all finest geounits, which `order` puts in their first order."""
    cells = query_matrix("detailed").shape[1]
    n = spine.n_geounits(spine.finest)
    total = np.zeros((n * cells, n * cells))
    for level in range(spine.n_levels):
        for g in range(spine.n_geounits(level)):
            inside = (spine.ancestors(level) == g)[order].astype(float)
            of_cells = np.zeros((cells, cells))
            for name in queries.by_geolevel[level]:
                matrix = query_matrix(name)
                of_cells += float(queries.precision(level, name, shares.share(level, g))) * matrix.T @ matrix
            total += np.kron(np.outer(inside, inside), of_cells)
    return total


def worst_ratio(spine, shares, queries, rule):
    """The greatest ratio of a variance after bypassing to that before: of measured queries, and of any query."""
    made, moved = bypass(spine, shares, rule, queries=queries)
    before = information(spine, shares, queries, np.arange(len(made.rows)))
    after = information(made.spine, moved, queries, np.argsort(made.rows))
    names = sorted({name for level in queries.by_geolevel for name in level})
    measured = np.concatenate([np.kron(indicator(spine), query_matrix(name)) for name in names])
    old, new = (
        np.einsum("ij,ji->i", measured, np.linalg.solve(item, measured.T)) for item in (before, after)
    )
    factor = np.linalg.cholesky(after)
    any_query = np.linalg.eigvalsh(np.linalg.solve(factor, np.linalg.solve(factor, before).T)).max()
    return (new / old).max(), any_query, sum(int((~moved.measured(k)).sum()) for k in range(spine.n_levels))


def production(mechanism, geolevels):
    strategy = replace(load_strategy_preset("redistricting-us").strategy, mechanism=mechanism)
    return query_shares(strategy, geolevels), dict(strategy.geolevel_shares)


SMALL = (
    ["00000", "00001", "00010", "00100", "00101", "00102", "01000", "10000", "11000", "11001"],
    (1, 2, 3, 4, 5),
)


@pytest.mark.parametrize("mechanism", list(Mechanism))
def test_no_query_is_worse_under_the_queries_of_production(mechanism):
    """Queries that differ by geolevel: the other rules make some query worse, and EVERY_QUERY makes none."""
    names = ("State", "County", "Tract", "Block_Group", "Block")
    spine = spine_from_prefixes(SMALL[0], names, SMALL[1])
    queries, by_geolevel = production(mechanism, names)
    whole = sum(by_geolevel[name] for name in names)
    shares = uniform_shares(spine, {name: by_geolevel[name] / whole for name in names})
    present = BypassRule.PURE_DP if queries.squared else BypassRule.SINGLE_CHILD
    measured, _, _ = worst_ratio(spine, shares, queries, present)
    assert measured > 1.5
    measured, any_query, bypassed = worst_ratio(spine, shares, queries, BypassRule.EVERY_QUERY)
    assert max(measured, any_query) < 1 + 1e-7
    # Under Laplace noise one measurement of two shares is more precise than two; under Gaussian noise it is not.
    assert (bypassed > 0) == queries.squared


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("seed", few(4, every(3, range(60))))
def test_every_query_is_spared_whatever_the_shares(seed, squared, random_spine):
    rng = np.random.default_rng([75, seed])
    spine = random_spine(rng, int(rng.integers(2, 7)), int(rng.integers(2, 5)))
    shares = random_shares(rng, spine)
    kinds = [{"votingage": Fraction(1, 3), "detailed": Fraction(2, 3)}, {"detailed": Fraction(1)}]
    kinds += [{"votingage": Fraction(2, 5), "detailed": Fraction(3, 5)}]
    queries = QueryShares(tuple(kinds[int(k)] for k in rng.integers(0, 3, spine.n_levels)), squared)
    measured, any_query, _ = worst_ratio(spine, shares, queries, BypassRule.EVERY_QUERY)
    assert max(measured, any_query) < 1 + 1e-9


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("seed", few(4, range(60)))
def test_where_geolevels_measure_alike_the_rule_is_the_papers(seed, squared, random_spine):
    rng = np.random.default_rng([76, seed])
    spine = random_spine(rng, 20, 4)
    shares = random_shares(rng, spine)
    queries = QueryShares(({"total": Fraction(1, 4), "detailed": Fraction(3, 4)},) * spine.n_levels, squared)
    rule = BypassRule.PURE_DP if squared else BypassRule.SINGLE_CHILD
    made, moved = bypass(spine, shares, BypassRule.EVERY_QUERY, queries=queries)
    paper, papers = bypass(spine, shares, rule)
    given = lambda m, s: sum(int((~s.measured(k)).sum()) for k in range(m.spine.n_levels))  # noqa: E731
    if squared:  # children of unequal shares are judged together, so that no fewer parents give way
        assert given(made, moved) >= given(paper, papers)
    else:
        assert contents(made.spine, moved) == contents(paper.spine, papers)


def test_children_of_unequal_shares_are_judged_together():
    """Share 10 over 4 and 8: Theorem 2 asks for 5 of each, but 10 / (10 + 2 * 4) + 10 / (10 + 2 * 8) is below 1."""
    spine = spine_from_prefixes([f"a{k:02}" for k in range(20)], ("State", "Tract", "Block"), (1, 2, 3))
    values = tuple(Fraction(k, 20) for k in (2, 4, 6, 8, 10))
    blocks = np.array([2] * 10 + [0] * 10, np.int32)  # so many that their tracts keep their shares
    shares = GeounitShares(values, (np.array([4], np.int32), np.array([1, 3], np.int32), blocks))
    queries = QueryShares(({"detailed": Fraction(1)},) * 3, True)
    assert bypass(spine, shares, BypassRule.PURE_DP)[0].spine.n_geounits(0) == 1
    made, moved = bypass(spine, shares, BypassRule.EVERY_QUERY, queries=queries)
    assert made.spine.n_geounits(0) == 2
    assert path_total(made.spine, moved) == 1
    measured, any_query, _ = worst_ratio(spine, shares, queries, BypassRule.EVERY_QUERY)
    assert max(measured, any_query) < 1 + 1e-9


def test_the_rule_needs_its_queries():
    spine = two_levels(2)
    shares = uniform_shares(spine, {"Tract": Fraction(1, 2), "Block": Fraction(1, 2)})
    with pytest.raises(GeographyError, match="compares the queries") as caught:
        bypass(spine, shares, BypassRule.EVERY_QUERY)
    assert caught.value.code == "spine-step"
