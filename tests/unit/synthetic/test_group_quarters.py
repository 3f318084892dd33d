import numpy as np

from tallyveil.schema.presets import load_preset
from tallyveil.synthetic.country import make_geography
from tallyveil.synthetic.people import (
    ADULT,
    HOUSEHOLD,
    JUVENILE,
    LARGE_BLOCK,
    N_TYPES,
    RESIDENTS,
    UNDER_18,
    make_people,
    make_totals,
    settle,
)


def test_codes_are_those_of_the_preset() -> None:
    hhgq = load_preset("pl94-persons").attribute("hhgq")
    assert hhgq.size == N_TYPES
    assert hhgq.code("household") == HOUSEHOLD
    assert hhgq.code("juvenile") == JUVENILE
    assert RESIDENTS[hhgq.code("nursing"), UNDER_18] == 0


def test_everyone_lives_somewhere_once() -> None:
    generator = np.random.Generator(np.random.PCG64(2))
    geography = make_geography(8_000, generator)
    people = make_people(geography, make_totals(geography, generator), generator)
    before = people.copy()
    dwellings = settle(people, generator)
    assert np.array_equal(people, before)
    total = dwellings.households.copy()
    np.add.at(total, dwellings.block, dwellings.residents)
    assert np.array_equal(total, people)
    assert dwellings.households.min() >= 0
    assert dwellings.residents.min() >= 0
    # One entry per block and type, never a household.
    assert dwellings.hhgq.min() >= 1
    assert dwellings.hhgq.max() < N_TYPES
    pairs = dwellings.block * N_TYPES + dwellings.hhgq
    assert len(np.unique(pairs)) == len(pairs)
    numbers = dwellings.residents.sum(axis=(1, 2))
    assert (dwellings.facilities <= numbers).all()
    assert ((dwellings.facilities > 0) == (numbers > 0)).all()
    assert 0.003 < numbers.sum() / people.sum() < 0.08
    # Households live in housing units; some housing is vacant.
    occupied = dwellings.households.any(axis=(1, 2))
    assert (dwellings.housing | ~occupied).all()
    assert (dwellings.housing & ~occupied).any()


def test_block_of_adults_holds_a_large_facility() -> None:
    people = np.zeros((200, 2, 8), dtype=np.int64)
    people[:, ADULT, 1] = 10 * LARGE_BLOCK
    dwellings = settle(people, np.random.Generator(np.random.PCG64(1)))
    residents = np.zeros(200, dtype=np.int64)
    np.add.at(residents, dwellings.block, dwellings.residents.sum(axis=(1, 2)))
    assert (residents > 8 * LARGE_BLOCK).all()
    assert (residents == 10 * LARGE_BLOCK).any()
    assert not dwellings.housing[residents == 10 * LARGE_BLOCK].all()
