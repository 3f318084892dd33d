"""The rules against a slow oracle: one block at a time, in the words of the paper."""

from itertools import pairwise

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil.geography.census.codes import (
    CLASSES,
    STATES,
    STRONG_MCD_STATES,
    class_of,
    entities_of,
    uses_subdivisions,
)

CODES = {
    "COUSUBFP": ["00000", "05140", "22960", "99999", None],
    "PLACEFP": ["10000", "21200", "99999", None],
    "AIANNHCE": ["2415", "4801", "5010", "8100", "9200", "9600", "9999", None],
}
BLOCKS = st.lists(
    st.tuples(
        st.sampled_from(["44", "10", "40", "72"]), *(st.sampled_from(codes) for codes in CODES.values())
    ),
    min_size=1,
    max_size=12,
)


def of_block(state, subdivision, place, tribal):
    """Tribal area, county subdivision and place of one block."""
    in_spine = tribal not in (None, "9999") and not 8000 <= int(tribal) <= 8999 and int(tribal) < 9500
    area = tribal if in_spine else None
    if state == "44" and area is None:
        return area, None if subdivision in (None, "00000", "99999") else f"{state}001{subdivision}", None
    return area, None, None if place in (None, "99999") else f"{state}{place}"


@given(BLOCKS)
@settings(max_examples=60)
def test_rules_are_those_of_one_block_at_a_time(blocks):
    table = pl.DataFrame(
        {
            "geocode": [f"{state}001{number:010d}" for number, (state, *_) in enumerate(blocks)],
            **{name: [block[place] for block in blocks] for place, name in enumerate(CODES, start=1)},
        },
        schema=dict.fromkeys(("geocode", *CODES), pl.String),
    )
    found = entities_of(table).select("tribal_area", "county_subdivision", "place").rows()
    assert found == [of_block(*block) for block in blocks]


def test_twelve_states_use_minor_civil_divisions():
    names = {STATES[state].name for state in STRONG_MCD_STATES}
    assert names == {
        "Connecticut", "Maine", "Massachusetts", "Michigan", "Minnesota", "New Hampshire", "New Jersey", "New York",
        "Pennsylvania", "Rhode Island", "Vermont", "Wisconsin",
    }  # fmt: skip
    assert uses_subdivisions("44")
    assert not uses_subdivisions("40")
    assert len(STATES) == 52


def test_classes_of_tribal_areas_do_not_overlap_and_seven_are_in_the_spine():
    ends = [(one.first, one.last) for one in CLASSES]
    assert all(first <= last for first, last in ends)
    assert all(before[1] < after[0] for before, after in pairwise(ends))
    assert sum(one.in_spine for one in CLASSES) == 7
    assert [class_of(code) is None for code in ("0000", "4990", "4999", "9999")] == [True] * 4
    assert class_of("4989").name == "joint-use area of reservations"
