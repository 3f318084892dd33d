import numpy as np

from tallyveil.products.dhc.made_up.households import (
    ADULT,
    MOST,
    NEIGHBOURHOODS,
    compositions,
    rare_composition,
    type_of,
)
from tallyveil.schema.household_types import household_types


def test_every_type_has_a_composition_of_its_own():
    assert [type_of(rare_composition(one)) for one in household_types()] == list(household_types())


def test_every_number_of_adults_and_minors_has_a_composition():
    group = compositions().group
    assert set(range(1, (MOST + 1) ** 2)) == set(group.tolist())
    adults = np.add.reduceat(compositions().band == ADULT, compositions().first[:-1])
    assert np.array_equal(group, adults * (MOST + 1) + compositions().size - adults)


def test_choices_are_of_the_group_and_follow_the_weights():
    known = compositions()
    uniform = (np.arange(20_000) + 0.5) / 20_000
    adults, minors = np.full(20_000, 2), np.full(20_000, 1)
    shares = []
    for kind in (0, len(NEIGHBOURHOODS) - 1):
        chosen = known.choose(np.full(20_000, kind), adults, minors, uniform)
        assert (known.group[chosen] == 2 * (MOST + 1) + 1).all()
        relatives = np.array([household_types()[code].relatives for code in known.household])
        shares.append(relatives[chosen].mean())
    assert shares[0] < shares[1]


def test_the_largest_number_stays_in_its_group():
    known = compositions()
    last = known.choose(np.array([0]), np.array([MOST]), np.array([MOST]), np.array([1 - 2.0**-53]))
    assert known.group[last] == (MOST + 1) ** 2 - 1
