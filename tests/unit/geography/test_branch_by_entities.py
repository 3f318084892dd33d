"""Geounits cut by many entities at once."""

import numpy as np
import pytest
from tests.samples import ten

from tallyveil.errors import GeographyError
from tallyveil.geography.build import spine_from_columns
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.optimise import CutByEntities, optimise_spine
from tallyveil.geography.steps import cut_by_entities


@pytest.mark.parametrize("seed", ten(range(40)))
def test_parts_are_the_classes_of_every_geounit(random_spine, random_family, seed):
    rng = np.random.default_rng([81, seed])
    spine = random_spine(rng, int(rng.integers(2, 30)), 4)
    families = [random_family(rng, spine, 3, "f"), random_family(rng, spine, 2, "g")]
    top, keep = int(rng.integers(0, 3)), bool(seed % 2)
    made = cut_by_entities(spine, families, geolevel=f"L{top}", name="Part", keep=keep)
    inside = np.stack([family.inside([code]) for family in families for code in family.codes])
    names = list(spine.geolevels)
    names[top : top + 1] = [f"L{top}", "Part"] if keep else ["Part"]
    assert made.spine.geolevels == tuple(names)
    for name in names[names.index("Part") : -1]:
        old = spine.ancestors(top if name == "Part" else spine.level_index(name))[made.rows]
        new = made.spine.ancestors(made.spine.level_index(name))
        classes = [(o, *column) for o, column in zip(old, inside[:, made.rows].T.tolist(), strict=True)]
        assert (
            len(set(classes)) == len(set(new.tolist())) == len(set(zip(classes, new.tolist(), strict=True)))
        )


def test_geocodes_say_what_a_part_is():
    columns = {"S": ["44"] * 4, "C": ["44a", "44a", "44a", "44b"], "B": ["b0", "b1", "b2", "b3"]}
    spine = spine_from_columns(columns, ("S", "C", "B"))
    family = EntityFamily("place", ("X", "Y"), np.array([0, 1, 2]), np.array([0, 1]), 4)
    step = CutByEntities(("place",), "C", "Prim")
    made = optimise_spine(spine, [family], [step])
    assert made.spine.geocodes[2].tolist() == ["44a+", "44a+X", "44a+Y", "44b"]
    assert made.spine.geocodes[1].tolist() == ["44a", "44b"]
    assert made.origins[1].tolist() == [0, 1]


def test_steps_that_do_not_fit(random_spine, random_family):
    rng = np.random.default_rng(82)
    spine = random_spine(rng, 9, 3)
    family = random_family(rng, spine, 2)

    def call(geolevel="L1", name="Part", families=(family,), keep=True):
        return cut_by_entities(spine, families, geolevel=geolevel, name=name, keep=keep)

    for wrong in ({"geolevel": "L2"}, {"name": ""}, {"name": "L0"}, {"name": "L1"}, {"families": ()}):
        with pytest.raises(GeographyError) as caught:
            call(**wrong)
        assert caught.value.code == "spine-step"
    assert call(name="L1", keep=False).spine.geolevels == spine.geolevels
    with pytest.raises(GeographyError, match="read on a spine"):
        call(families=(random_family(rng, random_spine(rng, 4, 3), 1),))
