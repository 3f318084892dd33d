"""Recipes of entities."""

import numpy as np
import pytest
from tests.samples import ten

from tallyveil.errors import GeographyError
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.geography.entities import off_spine_distances, recipe_of
from tallyveil.geography.tables import entities_from_pairs


@pytest.mark.parametrize("seed", ten(range(60)))
def test_recipes_sum_to_the_entity_and_are_as_long_as_the_distance(seed, random_spine, random_family):
    rng = np.random.default_rng([43, seed])
    spine = random_spine(rng, int(rng.integers(1, 60)), int(rng.integers(1, 6)))
    family = random_family(rng, spine, 5)
    found = off_spine_distances(spine, family)
    for entity, code in enumerate(family.codes):
        inside = np.zeros(family.n_finest, dtype=np.int64)
        inside[family.members_of(entity)] = 1
        for complement, distance in ((False, found.distance), (True, found.complement)):
            recipe = recipe_of(spine, family, code, complement=complement)
            assert len(recipe) == distance[entity]
            rebuilt = np.zeros(family.n_finest, dtype=np.int64)
            for sign, geolevel, geocode in recipe.lines(spine):
                level = spine.level_index(geolevel)
                geounit = spine.geocodes[level].tolist().index(geocode)
                rebuilt += sign * (spine.ancestors(level) == geounit)
            assert np.array_equal(rebuilt, 1 - inside if complement else inside)


def test_of_equally_short_ways_children_are_added_and_whole_geounits_taken():
    spine = spine_from_prefixes(["a1", "a2", "a3", "b1"], ("All", "Tract", "Block"), (0, 1, 2))
    family = entities_from_pairs(
        spine, "areas", ["a1", "a2", "b1", "a1", "a2", "a3"], ["two"] * 2 + ["only"] + ["tract"] * 3
    )
    assert recipe_of(spine, family, "two").lines(spine) == ((1, "Block", "a1"), (1, "Block", "a2"))
    assert recipe_of(spine, family, "only").lines(spine) == ((1, "Tract", "b"),)
    assert recipe_of(spine, family, "tract").lines(spine) == ((1, "Tract", "a"),)
    assert recipe_of(spine, family, "tract", complement=True).lines(spine) == ((1, "Tract", "b"),)


def test_a_subtracted_geounit_and_an_empty_complement():
    spine = spine_from_prefixes(
        [f"{t}{b}" for t in "abcd" for b in "12"], ("All", "Tract", "Block"), (0, 1, 2)
    )
    rest, whole = spine.geocodes[-1][:6], spine.geocodes[-1]
    family = entities_from_pairs(spine, "areas", [*rest, *whole], ["rest"] * 6 + ["whole"] * 8)
    assert recipe_of(spine, family, "rest").lines(spine) == ((1, "All", "All"), (-1, "Tract", "d"))
    assert len(recipe_of(spine, family, "whole", complement=True)) == 0
    with pytest.raises(GeographyError, match="no entity 'b'"):
        recipe_of(spine, family, "b")
