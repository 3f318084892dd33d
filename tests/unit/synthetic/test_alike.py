"""Made-up records for any schema, geography and bounds: they keep every bound, and are like people."""

import re

import numpy as np
import pytest

from tallyveil.errors import ConstraintError
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.schema.attribute import Attribute
from tallyveil.schema.schema import Schema
from tallyveil.synthetic.alike import Limits, records_alike

NO_LIMIT = 1 << 40
SCHEMA = Schema(
    "people",
    (
        Attribute("kind", ("home", "barracks", "prison")),
        Attribute("age", tuple(str(age) for age in range(12))),
    ),
)
BLOCKS = [f"{town}{block:02d}" for town in range(8) for block in range(25)]
SPINE = spine_from_prefixes(BLOCKS, ("Town", "Block"), (1, 3))


def made_up(limits=(), records=8000, seed=1):
    return records_alike(SCHEMA, SPINE, limits, records, np.random.default_rng(seed))


def bounds(query, row, lower, upper):
    return Limits("facilities", SCHEMA.query(query), np.asarray(row), np.asarray(lower), np.asarray(upper))


def test_the_same_seed_makes_the_same_records():
    for one, other in zip(made_up(), made_up(), strict=True):
        assert one.tolist() == other.tolist()
    assert made_up()[1].tolist() != made_up(seed=2)[1].tolist()


def test_geounits_differ_in_size_and_levels_in_frequency():
    geounits, cells = made_up()
    assert len(geounits) == 8000
    sizes = np.bincount(geounits, minlength=len(BLOCKS))
    assert 0.2 < np.mean(sizes == 0) < 0.6
    assert sizes.max() > 4 * sizes.mean()
    ages = np.bincount(cells % 12, minlength=12)
    assert ages[:4].sum() > 3 * ages[8:].sum()


def test_every_bound_of_every_geounit_is_kept():
    n = len(BLOCKS)
    upper = np.zeros((n, 3), np.int64)
    upper[:, 0] = NO_LIMIT
    upper[::5, 1] = 30
    upper[::7] = 0  # nobody can live there
    lower = np.zeros((n, 3), np.int64)
    lower[5, 1] = 9
    kinds = bounds("kind", np.arange(n), lower, upper)
    # Of a whole Town, and of one age: nobody of age 3 in the second Town, exactly 40 in the third.
    most, least = np.full((8, 12), NO_LIMIT), np.zeros((8, 12), np.int64)
    most[1, 3], most[2, 3], least[2, 3] = 0, 40, 40
    ages = bounds("age", SPINE.ancestors(0), least, most)
    geounits, cells = made_up((kinds, ages))
    for item in (kinds, ages):
        counts = item.counts(geounits, cells)
        assert (counts >= item.lower).all()
        assert (counts <= item.upper).all()
    assert kinds.counts(geounits, cells)[::5, 1].sum() > 9


@pytest.mark.parametrize(
    ("lower", "upper", "said"),
    [
        (0, 0, "leave no geounit in which there can be a record"),
        (5, (NO_LIMIT, 0, 0), "ask for records where bounds or structural zeros forbid all"),
    ],
)
def test_bounds_that_forbid_everything_are_refused(lower, upper, said):
    shape = (len(BLOCKS), 3)
    limits = bounds(
        "kind", np.arange(len(BLOCKS)), np.full(shape, lower), np.broadcast_to(np.asarray(upper), shape)
    )
    with pytest.raises(ConstraintError, match=re.escape(said)) as error:
        made_up((limits,))
    assert error.value.code == "trial-records"


def test_bounds_that_contradict_each_other_are_refused():
    n = len(BLOCKS)
    ten = bounds("total", np.arange(n), np.full((n, 1), 10), np.full((n, 1), 10))
    nine = bounds("kind", np.arange(n), np.zeros((n, 3), int), np.full((n, 3), 3))
    with pytest.raises(ConstraintError, match="satisfy all bounds") as error:
        made_up((ten, nine))
    assert error.value.code == "trial-records"
