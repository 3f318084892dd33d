"""Building a spine: what comes out, and what is refused."""

import numpy as np
import polars as pl
import pytest

from tallyveil.errors import GeographyError
from tallyveil.geography.build import spine_from_columns, spine_from_prefixes

BLOCKS = ["4402", "4401", "0912", "0911", "4411"]
LEVELS = ("State", "Tract", "Block")


def columns(**changed: object) -> dict[str, object]:
    table: dict[str, object] = {
        "State": ["north", "north", "s", "s"],
        "Tract": ["n1", "n22", "s1", "s1"],
        "Block": ["a", "bb", "ccc", "d"],
    }
    return table | changed


def test_prefixes_give_the_tree_in_sorted_order() -> None:
    spine = spine_from_prefixes(BLOCKS, LEVELS, (2, 3, 4))
    assert spine.geolevels == LEVELS
    assert [codes.tolist() for codes in spine.geocodes] == [
        ["09", "44"],
        ["091", "440", "441"],
        ["0911", "0912", "4401", "4402", "4411"],
    ]
    assert [offsets.tolist() for offsets in spine.child_offsets] == [[0, 1, 3], [0, 2, 4, 5]]


def test_a_root_of_length_zero_is_named_after_its_geolevel() -> None:
    spine = spine_from_prefixes(BLOCKS, ("US", "State", "Block"), (0, 2, 4))
    assert spine.geocodes[0].tolist() == ["US"]
    assert spine.child_offsets[0].tolist() == [0, 2]


def test_columns_allow_geocodes_of_any_length() -> None:
    spine = spine_from_columns(columns(), LEVELS)
    assert [codes.tolist() for codes in spine.geocodes] == [
        ["north", "s"],
        ["n1", "n22", "s1"],
        ["a", "bb", "ccc", "d"],
    ]
    assert [offsets.tolist() for offsets in spine.child_offsets] == [[0, 2, 3], [0, 1, 2, 4]]


def test_the_same_geocode_may_serve_at_two_geolevels_and_under_different_letters() -> None:
    spine = spine_from_columns({"Region": ["x", "é"], "Place": ["x", "é"]}, ("Region", "Place"))
    assert spine.geocodes[1].tolist() == ["x", "é"]
    assert spine.child_offsets[0].tolist() == [0, 1, 2]


def test_a_child_that_keeps_its_neighbours_geocode_column_value_starts_with_its_parent() -> None:
    # Under two parents the same tract code stands in adjacent rows; it must not be taken for one geounit.
    with pytest.raises(GeographyError, match="more than one parent"):
        spine_from_columns({"State": ["a", "b"], "Tract": ["1", "1"], "Block": ["p", "q"]}, LEVELS)


@pytest.mark.parametrize(
    "form",
    [
        list,
        tuple,
        np.array,
        pl.Series,
        lambda values: np.array(values, dtype=object),
        lambda values: pl.Series(values, dtype=pl.Categorical),
    ],
)
def test_every_kind_of_column_gives_the_same_spine(form) -> None:
    wanted = spine_from_prefixes(BLOCKS, LEVELS, (2, 3, 4))
    assert spine_from_prefixes(form(BLOCKS), LEVELS, (2, 3, 4)).digest() == wanted.digest()


def test_one_geolevel_is_a_forest_of_roots() -> None:
    spine = spine_from_prefixes(["b", "a"], ("Site",), (1,))
    assert spine.child_offsets == ()
    assert spine.ancestors(0).tolist() == [0, 1]


PREFIX_ERRORS = {
    "no rows": (([], LEVELS, (2, 3, 4)), ["no rows", "Block", "at least one"]),
    "duplicates": ((["4401", "4401", "4402"], LEVELS, (2, 3, 4)), ["1 rows", "'4401'", "exactly one row"]),
    "null": ((["4401", None], LEVELS, (2, 3, 4)), ["row 1", "orphan", "Fill in"]),
    "empty": ((["", "4401"], LEVELS, (2, 3, 4)), ["row 0", "orphan", "Fill in"]),
    "too short": (
        (["4401", "441"], LEVELS, (2, 3, 4)),
        ["'441'", "4 characters", "prefix is longer", "zeros"],
    ),
    "too long": (
        (["4401", "44011"], LEVELS, (2, 3, 4)),
        ["'44011'", "would be dropped", "column of its own"],
    ),
    "lengths do not rise": (
        (BLOCKS, LEVELS, (2, 2, 4)),
        ["State, Tract, Block do not rise", "must rise", "Leave out"],
    ),
    "negative": ((BLOCKS, LEVELS, (-1, 2, 4)), ["must rise", "0 or more"]),
    "too few lengths": ((BLOCKS, LEVELS, (2, 4)), ["3 geolevels", "2 prefix lengths", "Give one length"]),
    "repeated name": ((BLOCKS, ("A", "B", "A"), (2, 3, 4)), ["A is named more than once", "own name"]),
    "no geolevels": ((BLOCKS, (), ()), ["at least one name", "root first"]),
    "empty name": ((BLOCKS, ("A", "", "B"), (2, 3, 4)), ["none of them empty"]),
    "integers": ((np.array([4401, 4402]), LEVELS, (2, 3, 4)), ["int64", "leading zeros", "as text"]),
    "integer series": ((pl.Series([4401]), LEVELS, (2, 3, 4)), ["Int64", "leading zeros"]),
    "one integer": ((["4401", 4402], LEVELS, (2, 3, 4)), ["type int", "as text"]),
    "one str": (("4401", LEVELS, (2, 3, 4)), ["one str"]),
    "NUL": ((["44\x001"], LEVELS, (2, 3, 4)), ["NUL", "Remove"]),
}


@pytest.mark.parametrize("case", PREFIX_ERRORS)
def test_prefix_form_refuses_and_says_how_to_mend(case: str) -> None:
    arguments, words = PREFIX_ERRORS[case]
    with pytest.raises(GeographyError) as caught:
        spine_from_prefixes(*arguments)
    for word in words:
        assert word in str(caught.value)


COLUMN_ERRORS = {
    "two parents": (
        {"State": ["north", "s", "s", "s"], "Tract": ["t", "t", "s1", "s1"]},
        ["'t'", "'north'", "'s'"],
    ),
    "finest under two": ({"Block": ["a", "a", "c", "d"]}, ["of Block", "'a'", "'n1'", "'n22'", "one parent"]),
    "duplicate finest": ({"Block": ["a", "b", "c", "c"]}, ["repeat", "Block 'c'", "exactly one row"]),
    "null parent": ({"Tract": ["n1", None, "s1", "s1"]}, ["geolevel Tract", "row 1", "orphan"]),
    "empty parent": ({"State": ["north", "north", "s", ""]}, ["geolevel State", "row 3", "orphan"]),
    "lengths differ": ({"State": ["north", "north", "s"]}, ["State has 3", "Block has 4", "one row"]),
    "no rows": ({"State": [], "Tract": [], "Block": []}, ["no rows", "at least one"]),
}


@pytest.mark.parametrize("case", COLUMN_ERRORS)
def test_column_form_refuses_and_says_how_to_mend(case: str) -> None:
    changed, words = COLUMN_ERRORS[case]
    with pytest.raises(GeographyError) as caught:
        spine_from_columns(columns(**changed), LEVELS)
    for word in words:
        assert word in str(caught.value)


def test_a_state_sized_table_is_built_whatever_the_order_of_its_rows() -> None:
    # Shape of a large state: 67 counties, 4,000 tracts, 14,000 block groups, 400,000 blocks, rows shuffled.
    rng = np.random.default_rng(20100401)
    block = np.arange(400_000)
    tract = block // 100
    text = pl.DataFrame({"c": tract // 60, "t": tract, "g": block // 30 % 4, "b": block % 1000}).select(
        pl.format(
            "42{}{}{}{}",
            pl.col("c").cast(pl.String).str.zfill(3),
            pl.col("t").cast(pl.String).str.zfill(6),
            pl.col("g"),
            pl.col("b").cast(pl.String).str.zfill(3),
        ).alias("geocode")
    )["geocode"]
    shuffled = text[rng.permutation(len(text))]
    names = ("US", "State", "County", "Tract", "Block_Group", "Block")
    spine = spine_from_prefixes(shuffled, names, (0, 2, 5, 11, 12, 15))
    assert spine.n_geounits(spine.finest) == 400_000
    assert spine.n_geounits(3) == 4_000


def test_a_geocode_of_any_length_leaves_the_message_short() -> None:
    with pytest.raises(GeographyError, match=r"x{77}\.\.\.'") as caught:
        spine_from_prefixes([*BLOCKS, "x" * 1000], LEVELS, (2, 3, 4))
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("geocode", ["x" * 1001, "é" * 100_000])
def test_a_geocode_has_at_most_1000_characters(geocode: str) -> None:
    """All geocodes of a geolevel take as much memory as the longest one."""
    spine_from_columns({"Region": ["r"], "Place": ["é" * 1000]}, ("Region", "Place"))
    with pytest.raises(GeographyError, match="more than 1,000 characters") as caught:
        spine_from_columns({"Region": ["r", "r"], "Place": [geocode, geocode]}, ("Region", "Place"))
    assert len(str(caught.value)) < 1000
