"""A branch for a set of entities."""

import numpy as np
import pytest
from tests.samples import ten

from tallyveil.errors import GeographyError
from tallyveil.geography.build import spine_from_columns, spine_from_prefixes
from tallyveil.geography.steps import branch_spine

SPINE = spine_from_prefixes(["a11", "a12", "a21", "b11", "b12"], ("State", "Tract", "Block"), (1, 2, 3))


def test_cut_geounits_give_two_and_the_others_keep_their_geocodes():
    inside = np.array([False, True, False, False, False])  # a12
    made = branch_spine(SPINE, inside, "State", "AIAN")
    assert [codes.tolist() for codes in made.spine.geocodes] == [
        ["a+AIAN", "a-AIAN", "b"],
        ["a1+AIAN", "a1-AIAN", "a2", "b1"],
        ["a12", "a11", "a21", "b11", "b12"],
    ]
    assert [offsets.tolist() for offsets in made.spine.child_offsets] == [[0, 1, 3, 4], [0, 1, 2, 3, 5]]
    assert made.rows.tolist() == [1, 0, 2, 3, 4]


def test_geolevels_above_stay_whole():
    inside = np.array([False, True, False, False, False])
    made = branch_spine(SPINE, inside, "Tract", "x")
    assert made.spine.geocodes[0].tolist() == ["a", "b"]
    assert made.spine.geocodes[1].tolist() == ["a1+x", "a1-x", "a2", "b1"]


@pytest.mark.parametrize("seed", ten(range(60)))
def test_every_part_is_a_geounit_met_with_a_side(seed, random_spine):
    rng = np.random.default_rng([51, seed])
    spine = random_spine(rng, int(rng.integers(2, 40)), int(rng.integers(2, 5)))
    inside = rng.random(spine.n_geounits(spine.finest)) < rng.random()
    inside[0] = False
    top = int(rng.integers(0, spine.finest))
    made = branch_spine(spine, inside, spine.geolevels[top], "x")
    assert np.array_equal(made.spine.geocodes[-1], spine.geocodes[-1][made.rows])
    assert sorted(made.rows) == list(range(len(inside)))
    for level in range(spine.finest):
        before = spine.ancestors(level)[made.rows]
        sides = inside[made.rows] if level >= top else np.zeros(len(inside), dtype=bool)
        after = made.spine.ancestors(level)
        pairs = set(zip(before.tolist(), sides.tolist(), strict=True))
        assert len(set(after.tolist())) == len(pairs)
        assert len(set(zip(before.tolist(), sides.tolist(), after.tolist(), strict=True))) == len(pairs)


def test_an_area_without_blocks_cuts_nothing():
    made = branch_spine(SPINE, np.zeros(5, dtype=bool), "State", "AIAN")
    assert made.spine.digest() == SPINE.digest()


@pytest.mark.parametrize(
    ("inside", "geolevel", "name", "words"),
    [
        (np.zeros(5, bool), "Block", "x", "finest geolevel"),
        (np.zeros(5, bool), "State", "", "has no name"),
        (np.zeros(4, bool), "State", "x", "wanted 5 booleans"),
        (np.zeros(5, int), "State", "x", "wanted 5 booleans"),
        (np.ones(5, bool), "State", "x", "no geounit would be divided"),
    ],
)
def test_what_does_not_fit_is_refused(inside, geolevel, name, words):
    with pytest.raises(GeographyError, match=words) as caught:
        branch_spine(SPINE, inside, geolevel, name)
    assert caught.value.code == "spine-step"


def test_an_unknown_geolevel_and_a_taken_geocode_are_refused():
    with pytest.raises(GeographyError, match="no geolevel 'County'"):
        branch_spine(SPINE, np.zeros(5, bool), "County", "x")
    taken = spine_from_columns({"State": ["a", "a", "a+x"], "Block": ["1", "2", "3"]}, ("State", "Block"))
    with pytest.raises(GeographyError, match=r"'a\+x'") as caught:
        branch_spine(taken, np.array([True, False, False]), "State", "x")
    assert caught.value.code == "geocode-clash"
