"""Groups searched container by container: what a search says it gains is what all variances of the spine gain."""

import numpy as np
import pytest
from tests.samples import few

from tallyveil.budget.spine.regroup import (
    _classes,
    _regrouped,
    _RegroupingState,
    fixed_terms,
    search_containers,
)
from tallyveil.budget.spine.variance import entity_variances, spine_variances
from tallyveil.errors import BudgetError, GeographyError
from tallyveil.geography.build import Reshaped, spine_from_columns
from tallyveil.geography.steps import FanOutLimit
from tallyveil.geography.tables import entities_from_pairs

LIMIT = FanOutLimit(cutoff=3)


def precisions_by_level(rng, spine, known=False):
    found = [float(np.exp(rng.normal(0, 1))) for _ in range(spine.n_levels)]
    found[-1] = 0.05
    if known:
        found[0] = np.inf
    return found


def variances_of(spine, precisions):
    return spine_variances(spine, [np.full(spine.n_geounits(n), one) for n, one in enumerate(precisions)])


def weighted_sum(found, rows, families, weights):
    """The sum of all variances with their weights; the finest geounits stand in the order `rows`."""
    names = found.spine.geolevels
    total = sum(
        float(weights[family.name] @ entity_variances(found, family.reordered(rows))) for family in families
    )
    for level, name in enumerate(names[:-1]):
        if name in weights:
            total += float(weights[name] @ found.variance[level])
    return total + float(weights[names[-1]][rows] @ found.variance[-1])


def problem(random_spine, random_family, seed, n_levels, level):
    """A spine, families, and a weight for every variance but those of the geolevel of the groups."""
    rng = np.random.default_rng([37, seed])
    spine = random_spine(rng, int(rng.integers(20, 50)), n_levels, one_root=bool(seed % 2))
    families = [random_family(rng, spine, 5, "f"), random_family(rng, spine, 4, "g")]
    weights = {family.name: rng.random(family.n_entities) for family in families}
    # Geounits below the groups get another order, which only that of the finest ones is known for.
    for other in (*range(level), spine.finest):
        weights[spine.geolevels[other]] = 0.1 * rng.random(spine.n_geounits(other))
    precisions = precisions_by_level(rng, spine, known=seed % 3 == 0)
    return spine, families, weights, precisions


@pytest.mark.parametrize(("n_levels", "level"), [(4, 2), (4, 1), (5, 2)])
@pytest.mark.parametrize("seed", few(2, range(8)))
def test_a_gain_is_what_the_whole_weighted_sum_falls_by(random_spine, random_family, seed, n_levels, level):
    """The groups of one container are changed, and all variances are computed again."""
    spine, families, weights, precisions = problem(random_spine, random_family, seed, n_levels, level)
    found = variances_of(spine, precisions)
    everything = np.arange(spine.n_geounits(spine.finest))
    groups, gains = search_containers(found, families, weights, level, LIMIT, precisions[level])
    before = weighted_sum(found, everything, families, weights)
    assert gains.min() >= 0
    container = spine.parents(level)[spine.parents(level + 1)]
    present = spine.parents(level + 1) - spine.child_offsets[level - 1][container]
    for u, gain in enumerate(gains):
        inside = container == u
        if gain == 0:
            same = groups[inside][:, None] == groups[inside]
            assert np.array_equal(same, present[inside][:, None] == present[inside])
            continue
        made = _regrouped(
            _RegroupingState(Reshaped(spine, everything), found, {}),
            level,
            groups,
            np.arange(len(gains)) == u,
        )
        after = weighted_sum(variances_of(made.spine, precisions), made.rows, families, weights)
        assert gain == pytest.approx(before - after, rel=1e-5, abs=1e-7 * before)
        sizes = np.bincount(groups[inside])
        most = max(LIMIT.limit(int(inside.sum())), np.bincount(present[inside]).max())
        assert sizes.max() <= most


def one_container(seed):
    """24 blocks of five kinds, six groups of four; every kind lies in some of four entities."""
    rng = np.random.default_rng(seed)
    codes = [f"b{number:02d}" for number in range(24)]
    groups = [f"g{number // 4}" for number in range(24)]
    spine = spine_from_columns({"A": ["a"] * 24, "B": groups, "C": codes}, ("A", "B", "C"))
    kind, lies_in = rng.integers(0, 5, 24), rng.random((5, 4)) < 0.5
    pairs = [
        (code, f"e{one}")
        for code, own in zip(codes, kind, strict=True)
        for one in np.flatnonzero(lies_in[own])
    ]
    return spine, entities_from_pairs(
        spine, "f", [code for code, _ in pairs], [entity for _, entity in pairs]
    )


def test_starting_from_classes_as_well_finds_no_less_and_sometimes_more():
    more = 0
    for seed in range(10):
        spine, family = one_container(seed)
        found = variances_of(spine, [1.0, 1.0, 1.0])
        searched = (found, [family], {"f": np.ones(family.n_entities)}, 1, LIMIT, 1.0)
        _, (both,) = search_containers(*searched)
        _, (plain,) = search_containers(*searched, from_classes=False)
        assert both >= plain * (1 - 1e-9)
        more += both > plain * (1 + 1e-6)
    assert more > 0


def test_without_entities_the_geounits_alone_are_weighed(random_spine):
    spine = random_spine(np.random.default_rng(38), 30, 4, one_root=True)
    precisions = [1.0, 1.0, 1.0, 0.05]
    found = variances_of(spine, precisions)
    weights = {"L1": np.ones(spine.n_geounits(1)), "L3": np.zeros(30)}
    groups, gains = search_containers(found, [], weights, 2, FanOutLimit(cutoff=30), 1.0)
    made = _regrouped(_RegroupingState(Reshaped(spine, np.arange(30)), found, {}), 2, groups, gains > 0)
    after = weighted_sum(variances_of(made.spine, precisions), made.rows, [], weights)
    before = weighted_sum(found, np.arange(30), [], weights)
    assert gains.sum() > 0
    assert after < before


@pytest.mark.parametrize(
    ("alike", "limit", "groups"),
    [
        ([0, 0, 0, 1, 1], 2, [[0, 1], [2], [3, 4]]),  # the worked case in the head of the module
        ([1, 0, 1, 0, 1], 3, [[0, 2, 4], [1, 3]]),
        ([0] * 7, 3, [[0, 1, 2], [3, 4], [5, 6]]),
        ([2, 0, 1], 5, [[0], [1], [2]]),
    ],
)
def test_classes_are_divided_into_as_few_nearly_equal_parts_as_possible(alike, limit, groups):
    found = _classes(np.array(alike), limit)
    assert sorted(np.flatnonzero(found == one).tolist() for one in range(found.max() + 1)) == groups


def test_what_cannot_be_searched_is_refused(random_spine, random_family):
    rng = np.random.default_rng(39)
    spine = random_spine(rng, 20, 3, one_root=True)
    family = random_family(rng, spine, 3, "f")
    weights = {"f": np.ones(3)}
    with pytest.raises(BudgetError, match="Measure the finest geolevel"):
        fixed_terms(variances_of(spine, [1.0, 1.0, 0.0]), [family], weights, 1)
    with pytest.raises(GeographyError, match="this is the root"):
        fixed_terms(variances_of(spine, [1.0, 1.0, 1.0]), [family], weights, 0)
