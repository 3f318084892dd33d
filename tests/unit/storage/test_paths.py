"""Names never leave their folder, and different names never share a file."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.errors import StoreError
from tallyveil.storage.paths import LONGEST_FILE_NAME, file_name, inside, refuse_long_paths

NAMES = st.text(max_size=300) | st.text(alphabet="ab*./\\%~ ", max_size=200)


@given(NAMES, NAMES)
def test_different_names_have_different_files(one: str, other: str) -> None:
    assert (file_name(one) == file_name(other)) == (one == other)


@given(NAMES)
def test_no_name_leads_out_of_its_folder(name: str) -> None:
    encoded = file_name(name)
    assert inside(Path("root"), encoded) == Path("root") / encoded
    assert len(encoded) <= LONGEST_FILE_NAME
    assert encoded.isascii()


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("County", "County"),
        ("Block_Group", "Block_Group"),
        ("votingage*hispanic", "votingage.hispanic"),
        ("a.b", "a%2Eb"),
        ("A B", "A B"),
        ("A-B", "A-B"),
        ("../../rec", "%2E%2E%2F%2E%2E%2Frec"),
        ("", "%"),
    ],
)
def test_ordinary_names_stay_readable(name: str, file: str) -> None:
    assert file_name(name) == file


@pytest.mark.parametrize("part", ["..", "", ".", "a/b", "/etc", "a\0"])
def test_a_part_that_is_no_name_is_refused(tmp_path: Path, part: str) -> None:
    with pytest.raises(StoreError) as caught:
        inside(tmp_path, part)
    assert caught.value.code == "path-outside"


def test_a_link_that_leads_out_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "tables").symlink_to(tmp_path)
    with pytest.raises(StoreError) as caught:
        inside(tmp_path / "out", "tables", "a.parquet")
    assert caught.value.code == "path-outside"


def test_a_path_too_long_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d" * 200] * 20)
    with pytest.raises(StoreError) as caught:
        refuse_long_paths(deep, ["tables/x.parquet"], ".partial")
    assert caught.value.code == "path-too-long"
    refuse_long_paths(tmp_path / "out", ["tables/x.parquet"], ".partial")
