"""Levels that are ranges of whole numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.errors import SchemaError
from tallyveil.schema.attribute import bins_of, ranges_of


def level_of(number: int, levels: list[str]) -> int | None:
    """The slow way: the first level whose text contains the number."""
    for code, name in enumerate(levels):
        low, dash, high = name.rstrip("+").partition("-")
        end = float("inf") if name.endswith("+") else int(high) if dash else int(low)
        if int(low) <= number <= end:
            return code
    return None


@given(
    cuts=st.lists(st.integers(0, 60), min_size=2, max_size=9, unique=True).map(sorted),
    keep=st.lists(st.booleans(), min_size=8, max_size=8),
    is_open=st.booleans(),
    turned=st.booleans(),
)
def test_every_number_has_its_level(cuts, keep, is_open, turned):
    levels = [f"{a}-{b - 1}" for a, b, kept in zip(cuts, cuts[1:], keep, strict=False) if kept]
    levels += [f"{cuts[-1]}+" if is_open else f"{cuts[-1]}"]
    levels = levels[::-1] if turned else levels
    begins, codes = bins_of(ranges_of(levels, "age"))
    assert begins == sorted(set(begins))
    for number in range(70):
        place = sum(begin <= number for begin in begins)
        assert codes[place] == level_of(number, levels)


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        (["0-17", "17+"], "share a number"),
        (["0+", "18+"], "share a number"),
        (["5", "5"], "share a number"),
        (["young"], "'young' of attribute 'age' is no range"),
        (["-5"], "is no range"),
        (["1-2-3"], "is no range"),
        (["9-8"], "ends before it begins"),
        (["0-9999999999"], "above 1,000,000,000"),
    ],
)
def test_what_is_no_range(levels, said):
    with pytest.raises(SchemaError, match=said):
        ranges_of(levels, "age")
