"""Sums over the hierarchy, and digests: two histograms have one digest only if they are equal."""

from collections import Counter

import numpy as np
import pytest
from tests.histograms import histogram_from_triplets

from tallyveil.confidential import histogram as module
from tallyveil.confidential.histogram import ConfidentialHistogram, aggregate, aggregate_all
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.schema.presets import load_preset

SCHEMA = load_preset("race-age")
CODES = [f"{region}{town}" for region in "XYZ" for town in range(4)]
SPINE = spine_from_prefixes(CODES, ("Country", "Region", "Town"), (0, 1, 2))


@pytest.fixture
def towns():
    """Triplets of 40 records or more, of which some share a town and a cell."""
    random = np.random.default_rng(3)
    return [random.integers(0, high, 40) for high in (len(CODES), SCHEMA.size, 9)]


@pytest.mark.parametrize("at_once", [1, 1 << 21])
def test_every_geolevel_has_the_sums_of_its_children(towns, monkeypatch, at_once):
    monkeypatch.setattr("tallyveil.schema.counts.ENTRIES_AT_ONCE", at_once)
    levels = aggregate_all(histogram_from_triplets("Town", len(CODES), *towns), SPINE)
    assert [level.geolevel for level in levels] == ["Country", "Region", "Town"]
    for level, apart in zip(levels, (12, 4, 1), strict=True):
        wanted = Counter()
        for town, cell, count in zip(*(column.tolist() for column in towns), strict=True):
            wanted[town // apart, cell] += count
        assert level.n_geounits == 12 // apart
        assert level.total == wanted.total()
        rows, cells, counts = (column.tolist() for column in level.rows(0, level.n_geounits))
        found = dict(zip(zip(rows, cells, strict=True), counts, strict=True))
        assert found == {place: count for place, count in wanted.items() if count}
        assert list(found) == sorted(found)


def test_a_histogram_without_records_has_sums_without_records():
    none = np.zeros(0, np.int64)
    for level in aggregate_all(histogram_from_triplets("Town", len(CODES), none, none, none), SPINE):
        assert level.total == 0
        assert level.answers(SCHEMA.query("total"), 0, level.n_geounits).tolist() == [[0]] * level.n_geounits


def test_one_geolevel_alone_is_summed_to_the_next(towns):
    _, region, town = aggregate_all(histogram_from_triplets("Town", len(CODES), *towns), SPINE)
    assert aggregate(town, SPINE, SCHEMA.size).digest() == region.digest()


def test_answers_are_those_of_the_geounits_asked_for(towns):
    town = histogram_from_triplets("Town", len(CODES), *towns)
    cells = np.zeros((len(CODES), SCHEMA.size), np.int64)
    np.add.at(cells, tuple(towns[:2]), towns[2])
    assert town.answers(SCHEMA.query("detailed"), 3, 9).tolist() == cells[3:9].tolist()
    assert (
        town.answers(SCHEMA.query("total"), 3, 9).tolist() == cells[3:9].sum(axis=1, keepdims=True).tolist()
    )


def made(geolevel="Town", offsets=(0, 1, 2), cells=(5, 7), counts=(1, 1)):
    return ConfidentialHistogram(
        geolevel, np.array(offsets), np.array(cells, np.int64), np.array(counts, np.int64)
    )


def test_histograms_that_differ_have_digests_that_differ():
    """Also where all numbers one after the other are the same, so that only lengths tell arrays apart."""
    others = [
        made("Block"),
        made(offsets=(0, 2, 2)),
        made(offsets=(0, 0, 2)),
        made(cells=(5, 8)),
        made(cells=(7, 5)),
        made(counts=(1, 2)),
        made(counts=(2**40, 1)),
        made(offsets=(0, 1), cells=(2, 5), counts=(7, 1, 1)),
        made(cells=(5,), counts=(7, 1, 1)),
        made(cells=(5, 7, 1), counts=(1,)),
    ]
    digests = {one.digest() for one in (made(), *others)}
    assert len(digests) == 1 + len(others)
    assert made().digest() in digests


def test_a_digest_does_not_depend_on_how_much_is_read_at_once(towns, monkeypatch):
    town = histogram_from_triplets("Town", len(CODES), *towns)
    digest = town.digest()
    for at_once in (1, 7, 40):
        monkeypatch.setattr(module, "ENTRIES_AT_ONCE", at_once)
        assert town.digest() == digest


def test_the_digest_of_a_histogram_is_pinned():
    """A later version goes on with a run that this one began only if it finds the same digest."""
    assert made().digest().hex() == "4018bac0103aaec890052e3edf6540d807d51ccda0b0c2a191ae0fb25947e35d"
