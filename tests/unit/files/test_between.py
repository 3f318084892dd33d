"""Checks between small published files, whose geounits are in different orders."""

from types import SimpleNamespace

import numpy as np
import pytest

from tallyveil.declared import validated
from tallyveil.files import between
from tallyveil.files.geography import write_geography
from tallyveil.files.histograms import write_histogram
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.build import spine_from_columns
from tallyveil.products.dhc.public.programme_file import CheckBetween
from tallyveil.schema.counts import PublicCounts, compress_rows
from tallyveil.schema.presets import load_preset


@pytest.fixture
def write(tmp_path):
    """Writes the geography and the finest counts of a release; records name their block first."""

    def written(name, preset, records, order=("a", "b")):
        schema = load_preset(preset)
        # The parents are not in the order of the blocks, as the geounits of an optimised spine need not be.
        parents = [f"{number}" for number in range(len(order))]
        spine = spine_from_columns(
            {"All": ["0"] * len(order), "Part": parents, "Block": order}, ["All", "Part", "Block"]
        )
        rows = np.array([spine.geocodes[2].text.to_list().index(one[0]) for one in records], np.int64)
        cells = schema.encode(
            [[a.code(level) for a, level in zip(schema.attributes, one[1:], strict=True)] for one in records]
        )
        counts = PublicCounts("Block", *compress_rows(len(order), rows, cells, np.ones(len(rows), np.int64)))
        write_geography(tmp_path / name, Hierarchies(spine, spine), {})
        write_histogram(tmp_path / name, counts, schema, spine, {})
        body = {"plan": {"schema": schema.to_mapping(), "geolevels": ["All", "Part", "Block"]}}
        return name, SimpleNamespace(body=body, digests={}, run=f"run of {name}")

    return written


ALONE = ("a", "householder_living_alone", "female", "70", "not_hispanic", "white")
HOME = ("owned_clear", "female", "65_74", "not_hispanic", "white", "65_74", "no_partner size_1")


def test_files_are_compared_geounit_by_geounit(write, tmp_path):
    releases = [
        write("people", "dhc-persons", [ALONE]),
        write("homes", "dhc-units", [("a", *HOME)], ("b", "a")),
        write("h1", "pl94-units", [("b", "occupied")]),
    ]
    found = between.checks_between(tmp_path, releases)
    validated(list[CheckBetween], found)
    assert [(one["check"], one["agrees"]) for one in found] == [
        ("same finest geounits", True),
        ("h1 and homes", False),
        ("people and h1", False),
        ("people and homes", True),
    ]
    assert found[3]["statement"] == (
        "No contradiction in any of 2 Block geounits. Compared: people without a unit, units without people, "
        "householders, kinds of householders, living alone, households with others, partners."
    )
    assert found[2]["statement"] == (
        "Of 2 Block geounits, some contradict each other: people without a unit in 1, units without people in 1, "
        "householders in 2."
    )
    assert {one["kind"]: (one["geounits"], one["records"]) for one in found[1]["kinds"]} == {
        "occupied units": (2, 2),
        "vacant units": (0, 0),
    }


def test_what_is_never_made_to_agree_is_told(write, tmp_path):
    older = ("a", *HOME[:5], "75_plus", "no_partner size_2 relatives")
    persons = [("a", "householder_with_others", *ALONE[2:]), ("a", "sibling", *ALONE[2:])]
    releases = [write("people", "dhc-persons", persons), write("homes", "dhc-units", [older])]
    found = between.checks_between(tmp_path, releases)[1]
    assert found["agrees"]
    assert found["statement"].endswith("partners. Not made to agree: older people in 1.")


def test_other_schemas_and_other_geounits_are_not_compared(write, tmp_path):
    persons = write("people", "dhc-persons", [ALONE])
    other = write("other", "race-age", [("a", "18_plus", "white")])
    assert len(between.checks_between(tmp_path, [persons, other])) == 1
    elsewhere = write("homes", "dhc-units", [("c", *HOME)], ("a", "c"))
    (found,) = between.checks_between(tmp_path, [persons, elsewhere])
    assert not found["agrees"]
    assert between.checks_between(tmp_path, [persons]) == []
