"""Tract groups against a literal transcription of Algorithm 2."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from tests.samples import every, ten

from tallyveil.errors import GeographyError
from tallyveil.geography.build import spine_from_columns
from tallyveil.geography.entities import off_spine_distances
from tallyveil.geography.steps import FanOutLimit, group_by_distance
from tallyveil.geography.tables import entities_from_pairs


def oseds_reduced(tree, entities):
    """Algorithm 1 with h = Sort_Descending; a tree is a list of subtrees, a finest geounit its geocode."""

    def near_and_far(geounit, entity):
        if isinstance(geounit, str):
            return int(geounit in entity), int(geounit not in entity)
        pairs = [near_and_far(child, entity) for child in geounit]
        x, y = sum(near for near, _ in pairs), sum(far for _, far in pairs)
        return min(x, y + 1), min(y, x + 1)

    return sorted((near_and_far(tree, entity)[0] for entity in entities), reverse=True)


def redefine_tract_groups(counties, entities, fanout_cutoff, at_most):
    """Algorithm 2 as printed, from "Initialize tract groups" on.

    `counties` are lists of tracts. The loop over pairs u, v runs over the groups there were when it began; a pair
    of which one is gone is passed over, and a merged group stands for its first.
    """
    g = [[[tract] for tract in county] for county in counties]
    current = oseds_reduced(g, entities)
    while True:
        g_changed = False
        for county, tracts in zip(g, counties, strict=True):
            most = len(tracts) ** 0.5 + fanout_cutoff
            for u, v in combinations(list(county), 2):
                here = [id(group) for group in county]
                if id(u) not in here or id(v) not in here:
                    continue
                if len(u) + len(v) > (most if at_most is None else min(most, at_most)):
                    continue
                combined = [u + v if group is u else group for group in county if group is not v]
                test = oseds_reduced([combined if one is county else one for one in g], entities)
                if test <= current:
                    u.extend(v)
                    county[:] = [group for group in county if group is not v]
                    current = test
                    g_changed = True
        if not g_changed:
            return g, current


def leaves(tree):
    return [tree] if isinstance(tree, str) else [leaf for below in tree for leaf in leaves(below)]


@pytest.mark.parametrize("seed", ten(every(3, range(300))))
def test_same_groups_as_the_literal_algorithm(seed, random_family):
    rng = np.random.default_rng([61, seed])
    rows, counties = [], []
    for c in range(int(rng.integers(1, 4))):
        county = []
        for t in range(int(rng.integers(1, 8))):
            blocks = [f"{c}{t}{b}" for b in range(int(rng.integers(1, 5)))]
            rows += [(f"{c}", f"{c}{t}", block) for block in blocks]
            county.append([[block] for block in blocks] if seed % 2 else blocks)
        counties.append(county)
    columns: dict[str, Any] = dict(zip(("County", "Tract", "Block"), zip(*rows, strict=True), strict=True))
    columns["US"] = ["US"] * len(rows)
    levels = ["US", "County", "Tract", "Block"]
    if seed % 2:
        columns["Group"], levels = (
            [f"{block}g" for block in columns["Block"]],
            [*levels[:3], "Group", "Block"],
        )
    spine = spine_from_columns(columns, levels)
    families = [random_family(rng, spine, int(rng.integers(1, 5)), name) for name in "xy"[: 1 + seed % 2]]
    sets = [set(spine.geocodes[-1][f.members_of(e)].tolist()) for f in families for e in range(f.n_entities)]
    limit = FanOutLimit(int(rng.integers(0, 5)), None if seed % 5 else 2)
    groups, distances = redefine_tract_groups(counties, sets, limit.cutoff, limit.at_most)

    made = group_by_distance(spine, families, geolevel="Tract_Group", children="Tract", limit=limit)
    level, codes = made.spine.level_index("Tract_Group"), made.spine.geocodes[-1]
    found = {
        frozenset(codes[made.spine.ancestors(level) == g].tolist())
        for g in range(made.spine.n_geounits(level))
    }
    assert found == {frozenset(leaves(group)) for county in groups for group in county}
    moved = [off_spine_distances(made.spine, f.reordered(made.rows)).distance for f in families]
    assert sorted(np.concatenate(moved).tolist(), reverse=True) == distances


def county(n_tracts):
    rows = [("c", f"t{t:02d}", f"t{t:02d}b{b}") for t in range(n_tracts) for b in range(2)]
    columns: dict[str, Any] = dict(zip(("County", "Tract", "Block"), zip(*rows, strict=True), strict=True))
    return spine_from_columns(columns, ("County", "Tract", "Block"))


def test_merging_gains_first_makes_a_group_of_an_entity_where_the_papers_order_cannot():
    """The paper at once merges the first tracts it meets, which costs nothing and fills the group."""
    spine = county(9)
    blocks = [f"t{t:02d}b{b}" for t in (1, 4, 7) for b in range(2)]
    entity = entities_from_pairs(spine, "place", blocks, ["p"] * 6)
    assert off_spine_distances(spine, entity).maximum == 3
    for gains_first, distance in ((False, 3), (True, 1)):
        made = group_by_distance(
            spine,
            [entity],
            geolevel="Tract_Group",
            children="Tract",
            limit=FanOutLimit(0),
            gains_first=gains_first,
        )
        assert off_spine_distances(made.spine, entity.reordered(made.rows)).maximum == distance
        assert np.diff(made.spine.child_offsets[1]).tolist() == [3, 3, 3]
        assert made.spine.geocodes[1].tolist() == ["c.1", "c.2", "c.3"]


def test_a_geolevel_of_that_name_is_replaced():
    spine = county(9)
    entity = entities_from_pairs(spine, "place", ["t01b0", "t01b1", "t08b0"], ["p"] * 3)

    def again(one, family, cutoff):
        return group_by_distance(
            one, [family], geolevel="Tract_Group", children="Tract", limit=FanOutLimit(cutoff)
        )

    first = again(spine, entity, 0)
    second = again(first.spine, entity.reordered(first.rows), 2)
    assert second.spine.digest() == again(spine, entity, 2).spine.digest()
    assert np.array_equal(first.spine.geocodes[-1][second.rows], second.spine.geocodes[-1])


def test_what_does_not_fit_is_refused():
    spine = county(2)
    entity = entities_from_pairs(spine, "place", ["t00b0"], ["p"])
    with pytest.raises(GeographyError, match="there are none"):
        group_by_distance(spine, [], geolevel="G", children="Tract", limit=FanOutLimit())
    with pytest.raises(GeographyError, match="no geolevel above"):
        group_by_distance(spine, [entity], geolevel="G", children="County", limit=FanOutLimit())
