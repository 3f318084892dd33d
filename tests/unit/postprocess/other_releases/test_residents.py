"""Residents: which records they are, and files that were changed or lost."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tallyveil.declared import mapping_of, read_written
from tallyveil.errors import SchemaError, StoreError
from tallyveil.geography.build import spine_from_columns
from tallyveil.plans.constraints import Residents
from tallyveil.postprocess.other_releases import (
    ResidentCounts,
    read_resident_counts,
    resident_levels,
    residents_path,
    write_residents,
)
from tallyveil.schema.presets import load_preset

SPINE = spine_from_columns({"Region": list("RRRR"), "Block": list("1234")}, ["Region", "Block"])
COUNTS = ResidentCounts("people", np.array([5, 0, 2, 0]), np.array([3, 0, 0, 0]))
ITEM = {"name": "people", "people": {"hhgq": ["household"]}, "adults": {"votingage": ["18_plus"]}}


def test_counts_are_read_back_as_they_were_written(tmp_path):
    write_residents(tmp_path, 0, COUNTS, SPINE, {})
    found = read_resident_counts(tmp_path, 0, ITEM, SPINE)
    assert found.digest() == COUNTS.digest()
    assert pl.read_parquet(residents_path(tmp_path, 0)).rows() == [("1", 5, 3), ("3", 2, 0)]
    assert ResidentCounts("people", COUNTS.people, COUNTS.people).digest() != COUNTS.digest()


@pytest.mark.parametrize(
    "frame",
    [
        {"geocode": ["1", "1"], "people": [5, 2], "adults": [3, 0]},
        {"geocode": ["9"], "people": [5], "adults": [3]},
        {"geocode": ["1"], "people": [None], "adults": [3]},
        {"geocode": ["1"], "people": [2.5], "adults": [3]},
    ],
)
def test_changed_files_are_refused(tmp_path: Path, frame):
    write_residents(tmp_path, 0, COUNTS, SPINE, {})
    pl.DataFrame(frame, schema_overrides={"adults": pl.Int64}).write_parquet(residents_path(tmp_path, 0))
    with pytest.raises(StoreError, match="It was changed after it was written") as caught:
        read_resident_counts(tmp_path, 0, ITEM, SPINE)
    assert caught.value.code == "release-damaged"


def test_a_lost_file_is_told(tmp_path):
    with pytest.raises(StoreError, match=r"00\.parquet does not exist"):
        read_resident_counts(tmp_path, 0, ITEM, SPINE)


def test_levels_are_those_of_the_other_schema():
    schema, item = load_preset("pl94-persons"), read_written(Residents, ITEM)
    people, adults = resident_levels(item, schema)
    assert [int(allowed.sum()) for allowed in people] == [1, 2, 2, 63]
    assert [int(allowed.sum()) for allowed in adults] == [8, 1, 2, 63]
    assert mapping_of(item) == ITEM
    with pytest.raises(SchemaError, match=r"\[\[residents\]\] 'people' people: there is no attribute 'hhgq'"):
        resident_levels(item, load_preset("pl94-units"))
    wrong = read_written(Residents, {**ITEM, "adults": {"votingage": ["adult"]}})
    with pytest.raises(SchemaError, match="'people' adults: attribute 'votingage' has no level 'adult'"):
        resident_levels(wrong, schema)
