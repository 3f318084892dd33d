"""Levels that are ranges of whole numbers."""

from hypothesis import given
from hypothesis import strategies as st

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
