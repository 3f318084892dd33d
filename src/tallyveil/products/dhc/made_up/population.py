"""Made-up people and housing units of one state, some blocks at a time."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from tallyveil.arrays import Floats, Integers
from tallyveil.products.dhc.made_up.addressed import For, uniforms
from tallyveil.products.dhc.made_up.assemble import (
    BlockRange,
    HouseholdResidents,
    MadeUpHouseholds,
    make_households,
)
from tallyveil.products.dhc.made_up.compositions import ADULT, NEIGHBOURHOODS, compositions
from tallyveil.products.dhc.made_up.facilities import (
    Facilities,
    GroupQuartersPeople,
    Inmates,
    make_facilities,
    make_inmates,
)
from tallyveil.products.dhc.made_up.people import MadeUpPeople, make_people
from tallyveil.products.dhc.made_up.segments import rank_within
from tallyveil.products.dhc.made_up.units import (
    FIRST_FACILITY,
    MadeUpUnits,
    occupied_units,
    vacant_units,
    without_household,
)
from tallyveil.synthetic.people import ADULT as OF_AGE
from tallyveil.synthetic.people import HOUSEHOLD, N_TYPES
from tallyveil.synthetic.population import SettledState

BLOCKS_AT_ONCE: Final = 8_192
"""Number of blocks that are made together. It limits memory and does not change what is made."""
_OWNERS_SPREAD, _HOLIDAY_SHARE = 3.0, 0.06
"""How far tracts differ in the log odds of owning, from end to end; share of the tracts with many holiday homes."""
_FIRST_GROUP_QUARTERS: Final = 18
"""Level of relgq of the first type of group quarters; those of tenvacgq begin at `FIRST_FACILITY` in the same order."""


class Persons(NamedTuple):
    """People, as positions of levels of preset dhc-persons; sorted by block and unit; the arrays have shape (n,).

    Attributes:
        block: Block of each person, a row of the state's geography.
        unit: Number of the person's housing unit or facility in the block, from 1.
        relgq, sex, age, hispanic, cenrace: Levels.
        hhgq, votingage: Levels of preset pl94-persons.
    """

    block: Integers
    unit: Integers
    relgq: Integers
    sex: Integers
    age: Integers
    hispanic: Integers
    cenrace: Integers
    hhgq: Integers
    votingage: Integers


class MadeUpBlocks(NamedTuple):
    """Some blocks of a state.

    Attributes:
        persons: Their people.
        units: Their housing units and facilities, sorted by block.
        number: Number of each unit in its block, from 1: occupied units, then vacant ones, then facilities.
    """

    persons: Persons
    units: MadeUpUnits
    number: Integers


class _Tracts(NamedTuple):
    """What is drawn for tracts, by block, for `BlockRange`, `make_people`, `occupied_units` and `vacant_units`."""

    neighbourhood: Integers
    tilt: Integers
    owners: Floats
    holiday: Integers

    def rows(self, span: slice) -> "_Tracts":
        return _Tracts(self.neighbourhood[span], self.tilt[span], self.owners[span], self.holiday[span])


def make_parts(
    settled: SettledState, seed: int, first: int, blocks_at_once: int = BLOCKS_AT_ONCE
) -> Iterator[MadeUpBlocks]:
    """Put the people of a state into households and facilities, and make up everything else about them.

    Args:
        settled: The state.
        seed: Seed of the population.
        first: Number of the state's first block in the country. All random numbers are addressed by block.
        blocks_at_once: Number of blocks that are made together. It does not change what is made.
    Yields:
        The blocks in order. A household's people are next to each other, the householder first.
    """
    tracts = _tracts(settled, seed, first)
    # By block, then by class of group quarters: households first, as code 0.
    order = np.lexsort((settled.codes[:, 0], settled.block))
    sorted_blocks = settled.block[order]
    n_blocks = settled.geography.height
    for start in range(0, n_blocks, blocks_at_once):
        stop = min(start + blocks_at_once, n_blocks)
        low, high = np.searchsorted(sorted_blocks, [start, stop])
        yield _part(
            settled,
            order[low:high],
            (start, stop),
            tracts.rows(slice(start, stop)),
            seed,
            first,
        )


def _tracts(settled: SettledState, seed: int, first: int) -> _Tracts:
    tract = settled.geography["tract"].rle_id().to_numpy().astype(np.int64)
    # A tract is addressed by its first block, so that its numbers do not depend on where the cuts are.
    address = np.flatnonzero(np.diff(tract, prepend=-1))[tract] + first
    numbers = [uniforms(seed, For.NEIGHBOURHOOD, address, np.full(len(address), item)) for item in range(4)]
    return _Tracts(
        (numbers[0] * len(NEIGHBOURHOODS)).astype(np.int64),
        (numbers[1] * 3).astype(np.int64) - 1,
        _OWNERS_SPREAD * (numbers[2] - 0.5),
        (numbers[3] < _HOLIDAY_SHARE).astype(np.int64),
    )


def _part(
    settled: SettledState, rows: Integers, span: tuple[int, int], tracts: _Tracts, seed: int, first: int
) -> MadeUpBlocks:
    """The blocks from `span[0]` to `span[1] - 1`, whose groups of people are `rows`, sorted by block and hhgq."""
    known, start = compositions(), span[0]
    blocks = BlockRange(seed, first + start, tracts.neighbourhood)
    # From groups of like people to single people.
    rows = np.repeat(rows, settled.counts[rows])
    block, codes = settled.block[rows] - start, settled.codes[rows]
    home = codes[:, 0] == HOUSEHOLD
    grown = codes[:, 1] == OF_AGE
    residents = HouseholdResidents(block[home], grown[home], codes[home, 2], codes[home, 3])
    households = make_households(residents, blocks, known)
    people = make_people(households, blocks, tracts.tilt, known)
    occupied = occupied_units(households, people, blocks, tracts.owners, known)
    vacant = vacant_units(occupied, settled.dwellings.housing[slice(*span)], blocks, tracts.holiday)
    away = ~home
    inmates = Inmates(block[away], codes[away, 0], grown[away], codes[away, 2], codes[away, 3])
    facilities, residing = _in_facilities(settled, span, inmates, blocks)
    types = FIRST_FACILITY + facilities.relgq - _FIRST_GROUP_QUARTERS
    parts = (occupied, vacant, without_household(facilities.block, types))
    units, number = _in_order(parts)
    # `number` is in the order of `parts`; facilities begin after both kinds of housing units.
    offset = len(occupied.block) + len(vacant.block)
    persons = _joined(
        _in_households(households, people, number),
        _in_group_quarters(residing, inmates, facilities, number[offset + residing.facility]),
    )
    sorted_number = rank_within(units.block) + 1
    return MadeUpBlocks(
        persons._replace(block=persons.block + start),
        units._replace(block=units.block + start),
        sorted_number,
    )


def _in_facilities(
    settled: SettledState, span: tuple[int, int], inmates: Inmates, blocks: BlockRange
) -> tuple[Facilities, GroupQuartersPeople]:
    """The facilities of some blocks, and the people in them."""
    dwellings = settled.dwellings
    here = (dwellings.block >= span[0]) & (dwellings.block < span[1]) & (dwellings.facilities > 0)
    # Block and class as one number, so that a search finds the facilities of a person.
    pair = (dwellings.block[here] - span[0]) * N_TYPES + dwellings.hhgq[here]
    order = np.argsort(pair)
    pair, number = pair[order], dwellings.facilities[here][order]
    facilities = make_facilities(pair // N_TYPES, pair % N_TYPES, number, blocks)
    place = np.searchsorted(pair, inmates.block * N_TYPES + inmates.hhgq)
    first = np.cumsum(number) - number
    return facilities, make_inmates(inmates, first[place], number[place], facilities, blocks)


def _in_order(parts: tuple[MadeUpUnits, ...]) -> tuple[MadeUpUnits, Integers]:
    """Units sorted by block, and the number in its block of every unit in the order of the parts."""
    units = MadeUpUnits(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    order = np.argsort(units.block, kind="stable")
    units = MadeUpUnits(*(column[order] for column in units))
    number = np.empty(len(order), dtype=np.int64)
    number[order] = rank_within(units.block) + 1
    return units, number


def _in_households(households: MadeUpHouseholds, people: MadeUpPeople, number: Integers) -> Persons:
    of = households.household
    return Persons(
        block=households.block[of],
        unit=number[of],
        relgq=households.relation,
        sex=people.sex,
        age=people.age,
        hispanic=households.hispanic,
        cenrace=households.cenrace,
        hhgq=np.full(len(of), HOUSEHOLD),
        votingage=(households.band == ADULT).astype(np.int64),
    )


def _in_group_quarters(
    residing: GroupQuartersPeople, inmates: Inmates, facilities: Facilities, unit: Integers
) -> Persons:
    return Persons(
        block=residing.block,
        unit=unit,
        relgq=facilities.relgq[residing.facility],
        sex=residing.sex,
        age=residing.age,
        hispanic=residing.hispanic,
        cenrace=residing.cenrace,
        hhgq=inmates.hhgq,
        votingage=inmates.adult.astype(np.int64),
    )


def _joined(*parts: Persons) -> Persons:
    """People sorted by block and unit."""
    persons = Persons(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    order = np.lexsort((persons.unit, persons.block))
    return Persons(*(column[order] for column in persons))
