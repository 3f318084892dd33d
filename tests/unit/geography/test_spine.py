"""What a spine answers."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tallyveil.errors import GeographyError
from tallyveil.geography.build import spine_from_columns, spine_from_prefixes
from tallyveil.geography.spine import Spine

LEVELS = ("State", "Tract", "Block")


@pytest.fixture
def spine() -> Spine:
    return spine_from_prefixes(["4402", "4401", "0912", "0911", "4411"], LEVELS, (2, 3, 4))


def test_sizes_and_names(spine: Spine) -> None:
    assert [spine.n_geounits(level) for level in range(spine.n_levels)] == [2, 3, 5]
    assert spine.finest == 2
    assert spine.level_index("Tract") == 1
    assert repr(spine) == "Spine(State: 2, Tract: 3, Block: 5)"


def test_an_unknown_geolevel_is_refused_by_name(spine: Spine) -> None:
    with pytest.raises(GeographyError, match=r"no geolevel 'County'.*State, Tract, Block"):
        spine.level_index("County")


def test_parents_ancestors_and_finest_offsets(spine: Spine) -> None:
    assert spine.parents(1).tolist() == [0, 1, 1]
    assert spine.parents(2).tolist() == [0, 0, 1, 1, 2]
    assert spine.ancestors(0).tolist() == [0, 0, 1, 1, 1]
    assert spine.ancestors(2).tolist() == [0, 1, 2, 3, 4]
    assert spine.finest_offsets(0).tolist() == [0, 2, 5]
    assert spine.parents(2).dtype == spine.ancestors(0).dtype == np.int64


def test_roots_have_no_parents(spine: Spine) -> None:
    with pytest.raises(GeographyError, match="State are roots"):
        spine.parents(0)


@pytest.mark.parametrize("form", [list, np.array, pl.Series])
def test_locate_finds_in_the_order_asked(spine: Spine, form) -> None:
    found = spine.locate(2, form(["4411", "none", "0911", "4411", "091"]))
    assert found.tolist() == [4, -1, 0, 4, -1]
    assert found.dtype == np.int64


def test_locate_gives_minus_one_for_null_and_nothing_for_nothing(spine: Spine) -> None:
    assert spine.locate(0, pl.Series(["44", None])).tolist() == [1, -1]
    assert spine.locate(0, pl.Series([], dtype=pl.String)).tolist() == []


def test_locate_refuses_numbers(spine: Spine) -> None:
    with pytest.raises(GeographyError, match="must be a column of text"):
        spine.locate(0, np.array([44]))


def test_locate_where_geocodes_do_not_follow_the_order_of_paths() -> None:
    spine = spine_from_columns({"A": ["1", "2"], "B": ["z", "y"]}, ("A", "B"))
    assert spine.geocodes[1].tolist() == ["z", "y"]
    assert spine.locate(1, ["y", "z"]).tolist() == [1, 0]


def test_nothing_can_be_changed(spine: Spine) -> None:
    with pytest.raises(ValueError, match="read-only"):
        spine.child_offsets[0][0] = 1
    with pytest.raises(TypeError, match="item assignment"):
        spine.geocodes[0][0] = "x"  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        spine.geolevels = ()  # type: ignore[misc]


def test_the_digest_sees_names_geocodes_and_shape() -> None:
    table = {"A": ["1", "1", "2"], "B": ["x", "y", "z"]}
    digest = spine_from_columns(table, ("A", "B")).digest()
    assert len(digest) == 32
    assert digest == spine_from_columns(table, ("A", "B")).digest()
    assert digest != spine_from_columns({"A": table["A"], "C": table["B"]}, ("A", "C")).digest()
    assert digest != spine_from_columns(table | {"B": ["x", "y", "w"]}, ("A", "B")).digest()
    assert digest != spine_from_columns(table | {"A": ["1", "2", "2"]}, ("A", "B")).digest()


def test_the_digest_is_kept_from_version_to_version(spine: Spine) -> None:
    # Noise is bound to this digest: changing it would silently draw new noise for old releases.
    assert spine.digest().hex() == "06f0df65654945f10ae7fd94e9959fef709604520d17ec91de80ce581dca2884"


def test_the_digest_does_not_see_the_width_of_the_arrays(spine: Spine) -> None:
    texts: Any = tuple(np.asarray(codes, dtype="U40") for codes in spine.geocodes)
    wide = Spine(
        spine.geolevels,
        texts,
        spine.child_offsets,
    )
    assert wide.digest() == spine.digest()


@pytest.mark.parametrize("offsets", [[0, 1, 4], [1, 1, 3], [0, 3], [0, 3, 3], [0, 4, 3]])
def test_offsets_that_make_no_tree_are_refused(spine: Spine, offsets: list[int]) -> None:
    wrong = (np.array(offsets, dtype=np.int64), spine.child_offsets[1])
    with pytest.raises(GeographyError, match="child offsets of geolevel State"):
        Spine(spine.geolevels, spine.geocodes, wrong)


def test_arrays_must_be_one_a_geolevel(spine: Spine) -> None:
    with pytest.raises(GeographyError, match="wanted 2 and 1"):
        Spine(("A", "B"), spine.geocodes, spine.child_offsets)


def test_real_blocks_give_the_same_spine_by_prefix_and_by_column() -> None:
    path = Path(__file__).parents[4] / "shared" / "data" / "ri_2010_blocks.parquet"
    if not path.exists():
        pytest.skip("the public block table ../shared/data/ri_2010_blocks.parquet is not here")
    geocodes = pl.read_parquet(path)["geocode"]
    names = ("State", "County", "Tract", "Block_Group", "Block")
    lengths = (2, 5, 11, 12, 15)
    by_prefix = spine_from_prefixes(geocodes, names, lengths)
    cut = {name: geocodes.str.slice(0, length) for name, length in zip(names, lengths, strict=True)}
    assert by_prefix.digest() == spine_from_columns(cut, names).digest()
    assert [by_prefix.n_geounits(level) for level in range(5)] == [1, 5, 244, 815, 25_181]
