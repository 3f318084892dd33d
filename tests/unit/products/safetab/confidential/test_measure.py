"""Population groups: counts by definition without noise, and the addressed noise on top of them with it."""

import numpy as np
import pytest

from tallyveil.noise.key import insecure_key
from tallyveil.noise.source import NoiseSource
from tallyveil.products.safetab.confidential import measure as safetab_measure
from tallyveil.products.safetab.confidential.measure import GroupMeasurer, PersonCounts
from tallyveil.products.safetab.public.addresses import (
    CELLS_APART,
    FIRST_TABLE,
    GEOLEVELS,
    STAGE_1,
    TOTAL,
    TOTAL_ONLY,
    query_number,
)
from tallyveil.products.safetab.public.ages import DETAILS, FINEST_CELLS, STARTS_23


def sets_of(safetab):
    return [(run.run, one) for run in safetab.plan.runs for one in run.sets]


def measurer(safetab, run, noise):
    return GroupMeasurer(PersonCounts(safetab.people[run], safetab.regions[run]), noise)


def everywhere(safetab, run, one):
    return np.arange(len(safetab.regions[run].ids[one.geography]), dtype=np.int64)


def test_without_noise_every_total_is_the_count(safetab, silent):
    for run, one in sets_of(safetab):
        names = safetab.regions[run].names(one.geography)
        (part,) = measurer(safetab, run, silent).measure(one, everywhere(safetab, run, one))
        totals = np.concatenate([part.stage_1, part.total_only], axis=1)
        for row, region in enumerate(names):
            for place, iteration in enumerate(one.view.codes):
                assert totals[row, place] == safetab.truth.t1[region, one.geography, iteration]
        chosen = np.searchsorted(one.thresholds, part.stage_1, side="right")
        assert np.array_equal(part.detail, chosen)
        assert np.array_equal(part.totals, np.where(part.detail == 0, part.stage_1, 0))
        above = part.totals > (-np.inf if one.keep_above is None else one.keep_above)
        assert np.array_equal(part.listed, np.flatnonzero((part.detail == 0) & above))


def test_without_noise_every_table_is_the_table(safetab, silent):
    seen = set()
    for run, one in sets_of(safetab):
        names = safetab.regions[run].names(one.geography)
        (part,) = measurer(safetab, run, silent).measure(one, everywhere(safetab, run, one))
        for number, table in enumerate(part.tables, start=1):
            assert np.array_equal(np.flatnonzero(part.detail == number), table.places)
            for place, cells in zip(table.places, table.values, strict=True):
                row, iteration = divmod(int(place), one.view.n_adaptive)
                group = names[row], one.geography, one.view.codes[iteration]
                assert np.array_equal(cells, true_table(safetab, group, number))
                seen.add(number)
    assert seen == {1, 2, 3}


def true_table(safetab, group, number):
    """Sex by age of a group in one detail, counted one by one."""
    finest = np.zeros((1, 46), np.int64)
    for (sex, age), n in safetab.truth.people.get(group, {}).items():
        finest[0, 23 * (int(sex) - 1) + int(np.searchsorted(STARTS_23, age, side="right")) - 1] += n
    return DETAILS[number - 1].collapse(finest)[0]


@pytest.mark.parametrize("at_once", [1, 50, 1 << 18])
def test_every_cell_of_a_table_gets_the_noise_of_its_address(safetab, watched, monkeypatch, at_once):
    """Whichever regions are asked for, and however many at once."""
    monkeypatch.setattr(safetab_measure, "GROUPS_AT_ONCE", at_once)
    monkeypatch.setattr(safetab_measure, "ANSWERS_AT_ONCE", at_once)
    source, seen = NoiseSource(insecure_key("tables")), set()
    asked, sizes = watched(source)
    for run, one in sets_of(safetab):
        names, geolevel = safetab.regions[run].names(one.geography), GEOLEVELS[one.geography]
        for part in measurer(safetab, run, asked).measure(one, everywhere(safetab, run, one)[::2]):
            for number, table in enumerate(part.tables, start=1):
                query = query_number(one.level, FIRST_TABLE + number - 1)
                for place, cells in zip(table.places, table.values, strict=True):
                    row, iteration = divmod(int(place), one.view.n_adaptive)
                    region = part.rows[row]
                    answers = CELLS_APART * iteration + np.arange(len(cells))
                    noise = source.at(one.stage_2, geolevel, query, np.full(len(cells), region), answers)
                    group = names[int(region)], one.geography, one.view.codes[iteration]
                    assert np.array_equal(cells, true_table(safetab, group, number) + noise)
                    seen.add(number)
    assert seen == {1, 2, 3}
    assert max(sizes) <= max(at_once, FINEST_CELLS)  # one table, at least


@pytest.mark.parametrize("at_once", [1, 7, 1 << 18])
def test_noise_is_added_at_the_documented_addresses_in_parts_of_any_size(
    safetab, silent, monkeypatch, at_once
):
    monkeypatch.setattr(safetab_measure, "GROUPS_AT_ONCE", at_once)
    monkeypatch.setattr(safetab_measure, "ANSWERS_AT_ONCE", at_once)
    source = NoiseSource(insecure_key("groups"))
    run, one = next(pair for pair in sets_of(safetab) if pair[1].geography == "TRACT")
    wanted = everywhere(safetab, run, one)
    parts = list(measurer(safetab, run, source).measure(one, wanted))
    exact = list(measurer(safetab, run, silent).measure(one, wanted))
    geolevel, n = GEOLEVELS[one.geography], one.view.n_adaptive
    assert np.array_equal(np.concatenate([part.rows for part in parts]), wanted)
    stage_1, true_1 = (np.concatenate([part.stage_1 for part in those]) for those in (parts, exact))
    noise = source.dense(one.stage_1, geolevel, query_number(one.level, STAGE_1), wanted, n)
    assert np.array_equal(stage_1, true_1 + noise)
    only, true_only = (np.concatenate([part.total_only for part in those]) for those in (parts, exact))
    if only.size:
        query = query_number(one.level, TOTAL_ONLY)
        noise = source.dense(one.total_only, geolevel, query, wanted, only.shape[1])
        assert np.array_equal(only, true_only + noise)
    totals, detail = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("totals", "detail")
    )
    noise = source.dense(one.stage_2, geolevel, query_number(one.level, TOTAL), wanted, n)
    assert np.array_equal(totals, np.where(detail == 0, true_1 + noise, 0))


def test_a_second_measurement_is_the_first(safetab):
    run, one = sets_of(safetab)[0]
    asked = measurer(safetab, run, NoiseSource(insecure_key("again")))
    wanted = everywhere(safetab, run, one)
    (first,), (second,) = asked.measure(one, wanted), asked.measure(one, wanted)
    assert np.array_equal(first.stage_1, second.stage_1)
    for one_table, other in zip(first.tables, second.tables, strict=True):
        assert np.array_equal(one_table.values, other.values)


class Typed:
    """Counts that look at the types of what they are given."""

    def __init__(self, counts):
        self.counts = counts

    def of(self, one):
        return Typed(self.counts.of(one))

    def totals(self, rows):
        assert rows.dtype == np.int64
        return self.counts.totals(rows)

    def tables(self, rows, slots, n):
        assert (rows.dtype, slots.dtype) == (np.int64, np.int32)
        return self.counts.tables(rows, slots, n)


def test_whole_numbers_are_asked_for_and_told(safetab, silent):
    for run, one in sets_of(safetab):
        counts = PersonCounts(safetab.people[run], safetab.regions[run])
        (part,) = GroupMeasurer(Typed(counts), silent).measure(one, everywhere(safetab, run, one))
        assert {a.dtype for a in (part.stage_1, part.totals, part.total_only, part.listed)} == {
            np.dtype(np.int64)
        }
        assert part.detail.dtype == np.int8
        assert all(table.places.dtype == table.values.dtype == np.int64 for table in part.tables)


def test_what_is_confidential_is_not_shown(safetab, silent):
    shown = repr(measurer(safetab, "US", silent))
    assert shown.count("redacted") == 2
    assert str(len(safetab.people["US"].races)) not in shown
