"""Off-spine distances against brute force, and the paper's statements."""

import itertools

import numpy as np
import pytest
from tests.samples import every, ten

from tallyveil.errors import GeographyError
from tallyveil.geography.build import spine_from_columns, spine_from_prefixes
from tallyveil.geography.entities import off_spine_distances
from tallyveil.geography.tables import entities_from_pairs


def shortest_sums(spine):
    """Least number of geounits whose signed sum is each set of finest geounits, by trying every combination."""
    n = spine.n_geounits(spine.finest)
    areas = []
    for level in range(spine.n_levels):
        areas += [(spine.ancestors(level) == g).astype(np.int8) for g in range(spine.n_geounits(level))]
    signs = np.array(list(itertools.product((-1, 0, 1), repeat=len(areas))), dtype=np.int8)
    sums = signs @ np.array(areas)
    is_set = ((sums == 0) | (sums == 1)).all(axis=1)
    which = sums[is_set].astype(np.int64) @ (1 << np.arange(n))
    least = np.full(1 << n, 99)
    np.minimum.at(least, which, np.abs(signs[is_set]).sum(axis=1))
    return least


def every_subset(spine):
    """All non-empty sets of finest geounits as one family of overlapping entities."""
    n = spine.n_geounits(spine.finest)
    pairs = [(row, f"{s:04d}") for s in range(1, 1 << n) for row in range(n) if s >> row & 1]
    codes = spine.geocodes[-1][np.array([row for row, _ in pairs])]
    return entities_from_pairs(spine, "sets", codes, [entity for _, entity in pairs])


@pytest.mark.parametrize("seed", ten(every(3, range(300))))
def test_every_set_on_a_random_tree_has_the_distance_brute_force_finds(seed, random_spine):
    rng = np.random.default_rng([41, seed])
    while True:
        spine = random_spine(rng, int(rng.integers(1, 8)), int(rng.integers(1, 5)))
        if sum(spine.n_geounits(level) for level in range(spine.n_levels)) <= 9:
            break
    least = shortest_sums(spine)
    found = off_spine_distances(spine, every_subset(spine))
    sets = np.array([int(code) for code in found.codes])
    assert found.distance.tolist() == least[sets].tolist()
    assert found.complement.tolist() == least[(1 << spine.n_geounits(spine.finest)) - 1 - sets].tolist()


@pytest.mark.parametrize("seed", ten(range(60)))
def test_entity_and_complement_are_symmetric(seed, random_spine, random_family):
    """A complement has the distance it has as an entity of its own; with one root they differ by one at most."""
    rng = np.random.default_rng([42, seed])
    spine = random_spine(rng, int(rng.integers(2, 60)), int(rng.integers(1, 6)), one_root=bool(seed % 2))
    family = random_family(rng, spine, 6)
    found = off_spine_distances(spine, family)
    n_roots = spine.n_geounits(0)
    assert np.all(np.abs(found.distance - found.complement) <= n_roots)
    for entity, code in enumerate(family.codes):
        rest = np.setdiff1d(np.arange(family.n_finest), family.members_of(entity))
        if len(rest):
            other = entities_from_pairs(spine, "rest", spine.geocodes[-1][rest], [code] * len(rest))
            swapped = off_spine_distances(spine, other)
            assert swapped.distance[0] == found.complement[entity]
            assert swapped.complement[0] == found.distance[entity]


def tract(n_groups: int, size: int):
    rows = [(g, b) for g in range(n_groups) for b in range(size)]
    return spine_from_columns(
        {
            "Tract": ["t"] * len(rows),
            "Group": [f"t{g:02d}" for g, _ in rows],
            "Block": [f"t{g:02d}{b:02d}" for g, b in rows],
        },
        ("Tract", "Group", "Block"),
    )


def test_a_geounit_has_distance_one_and_a_hole_costs_one_more():
    spine = tract(10, 10)
    blocks = spine.geocodes[-1]
    family = entities_from_pairs(
        spine,
        "areas",
        np.concatenate([blocks[:10], blocks[1:10], blocks[:90], blocks[:5], blocks]),
        ["group"] * 10 + ["group less one"] * 9 + ["all but a group"] * 90 + ["half"] * 5 + ["whole"] * 100,
    )
    found = off_spine_distances(spine, family)
    assert dict(zip(found.codes, found.distance.tolist(), strict=True)) == {
        "all but a group": 2,
        "group": 1,
        "group less one": 2,
        "half": 5,
        "whole": 1,
    }
    assert found.complement.tolist() == [1, 2, 3, 6, 0]


def test_summary_of_distances():
    spine = tract(4, 4)
    blocks = spine.geocodes[-1].tolist()
    entities = ["a"] + ["b"] * 2 + ["c"] * 4
    family = entities_from_pairs(spine, "some", [blocks[0], *blocks[1:3], *blocks[4:8]], entities)
    found = off_spine_distances(spine, family)
    assert found.distance.tolist() == [1, 2, 1]
    assert (found.mean, found.maximum) == (4 / 3, 2)
    assert [found.quantile(*q) for q in ((0, 1), (2, 3), (7, 10), (1, 1))] == [1, 1, 2, 2]
    with pytest.raises(GeographyError, match="5/4"):
        found.quantile(5, 4)


def test_no_entities_have_no_distances():
    spine = tract(2, 2)
    found = off_spine_distances(spine, entities_from_pairs(spine, "none", [], []))
    assert (found.mean, found.maximum, found.quantile(1, 2)) == (0.0, 0, 0)


def test_a_family_of_another_spine_is_refused():
    family = entities_from_pairs(tract(2, 2), "some", ["t0000"], ["a"])
    other = spine_from_prefixes(["1"], ("Block",), (1,))
    with pytest.raises(GeographyError, match="4 finest geounits; this one has 1") as caught:
        off_spine_distances(other, family)
    assert caught.value.code == "entity-table"
