"""Optimised block groups."""

import math

import numpy as np
import pytest
from tests.samples import every, ten

from tallyveil.errors import GeographyError
from tallyveil.geography.build import spine_from_columns, spine_from_prefixes
from tallyveil.geography.steps import FanOutLimit, group_by_membership
from tallyveil.geography.tables import entities_from_pairs


def tracts(*sizes: int):
    codes = [f"{t}{b:03d}" for t, size in enumerate(sizes) for b in range(size)]
    return spine_from_prefixes(codes, ("Tract", "Block"), (1, 4))


def grouped(spine, families, cutoff=12, at_most=None, geolevel="Group", children="Block"):
    limit = FanOutLimit(cutoff, at_most)
    return group_by_membership(spine, families, geolevel=geolevel, children=children, limit=limit)


def test_the_papers_example_of_a_hundred_blocks():
    """The least possible largest fan-out is 10: ten groups of ten."""
    made = grouped(tracts(100), [], cutoff=0).spine
    assert np.diff(made.child_offsets[0]).tolist() == [10]
    assert np.diff(made.child_offsets[1]).tolist() == [10] * 10
    assert [made.geocodes[1][at] for at in (0, 9)] == ["0.01", "0.10"]
    with_cutoff = grouped(tracts(100), [], cutoff=12).spine
    assert np.diff(with_cutoff.child_offsets[1]).tolist() == [20] * 5


def test_blocks_in_different_entities_are_parted():
    spine = tracts(6, 2)
    place = entities_from_pairs(spine, "place", ["0001", "0002", "0005", "1000"], ["p", "p", "q", "q"])
    school = entities_from_pairs(spine, "school", ["0002", "0003"], ["s", "s"])
    made = grouped(spine, [place, school])
    groups = [
        made.spine.geocodes[2][made.spine.ancestors(1) == g].tolist() for g in range(made.spine.n_geounits(1))
    ]
    assert groups == [["0000", "0004"], ["0001"], ["0002"], ["0003"], ["0005"], ["1000"], ["1001"]]
    assert made.spine.geocodes[1].tolist() == ["0.1", "0.2", "0.3", "0.4", "0.5", "1.1", "1.2"]


@pytest.mark.parametrize("seed", ten(every(3, range(300))))
def test_groups_are_alike_within_the_limit_and_as_few_as_can_be(seed, random_spine, random_family):
    rng = np.random.default_rng([52, seed])
    spine = random_spine(rng, int(rng.integers(1, 60)), int(rng.integers(2, 5)))
    families = [
        random_family(rng, spine, int(rng.integers(1, 4)), name) for name in "xyz"[: rng.integers(0, 4)]
    ]
    limit = FanOutLimit(int(rng.integers(0, 4)), None if seed % 3 else int(rng.integers(1, 4)))
    name = spine.geolevels[-2] if spine.n_levels > 2 and seed % 2 else "new"
    made = group_by_membership(spine, families, geolevel=name, children=spine.geolevels[-1], limit=limit)
    signs = [
        tuple(row in f.members_of(e) for f in families for e in range(f.n_entities)) for row in made.rows
    ]
    level = made.spine.level_index(name)
    container, group = made.spine.ancestors(level - 1), made.spine.ancestors(level)
    assert made.spine.n_levels == spine.n_levels + (name == "new")
    for c in range(made.spine.n_geounits(level - 1)):
        inside = np.flatnonzero(container == c)
        most = math.floor(math.sqrt(len(inside)) + limit.cutoff)
        most = min(most, limit.at_most or most)
        by_sign = {}
        for i in inside:
            by_sign.setdefault(signs[i], []).append(group[i])
        for members in by_sign.values():
            sizes = np.unique(members, return_counts=True)[1]
            assert sizes.max() <= most
            assert len(sizes) == -(-len(members) // most)
            assert sizes.max() - sizes.min() <= 1
        distinct: list[int] = [len(set(m)) for m in by_sign.values()]
        assert sum(distinct) == len(set(group[inside]))


def test_order_of_families_does_not_matter(random_spine, random_family):
    rng = np.random.default_rng(53)
    spine = random_spine(rng, 50, 3)
    families = [random_family(rng, spine, 3, name) for name in "xyz"]
    made = grouped(spine, families, 1, children="L2")
    assert grouped(spine, families[::-1], 1, children="L2").spine.digest() == made.spine.digest()


def test_coarser_children_are_told_apart_by_what_cuts_them():
    """Tracts wholly in an entity, cut by it, and outside are three kinds."""
    codes = [f"c{t}{b}" for t in range(6) for b in range(2)]
    spine = spine_from_prefixes(codes, ("County", "Tract", "Block"), (1, 2, 3))
    area = entities_from_pairs(spine, "area", ["c00", "c01", "c20", "c30", "c31"], ["a"] * 5)
    made = grouped(spine, [area], geolevel="Tract_Group", children="Tract").spine
    found = [made.geocodes[2][made.parents(2) == g].tolist() for g in range(made.n_geounits(1))]
    assert found == [["c0", "c3"], ["c1", "c4", "c5"], ["c2"]]


def test_groups_that_have_nothing_to_lie_in_are_refused():
    spine = tracts(3)
    with pytest.raises(GeographyError, match="no geolevel above to lie in"):
        grouped(spine, [], children="Tract")
    with pytest.raises(GeographyError, match="no geolevel above to lie in"):
        grouped(spine, [], geolevel="Tract")
    deeper = spine_from_columns(
        {"State": ["s"], "County": ["c"], "Tract": ["t"], "Block": ["b"]},
        ("State", "County", "Tract", "Block"),
    )
    with pytest.raises(GeographyError, match="has elsewhere") as caught:
        grouped(deeper, [], geolevel="County")
    assert caught.value.code == "spine-step"
