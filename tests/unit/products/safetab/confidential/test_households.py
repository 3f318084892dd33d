"""Groups of households: counts by definition without noise, and addressed noise on every cell with it."""

import numpy as np
import pytest

from tallyveil.noise.key import insecure_key
from tallyveil.noise.source import NoiseSource
from tallyveil.products.safetab.confidential import measure as safetab_households
from tallyveil.products.safetab.confidential.measure import HouseholdMeasurer
from tallyveil.products.safetab.public.addresses import CELLS_APART, GEOLEVELS, HOUSEHOLDS, query_number
from tallyveil.products.safetab.public.household_tables import ListedGroups


def sets_of(safetab_h):
    return [(run.run, one) for run in safetab_h.plan.runs for one in run.sets]


def measurer(safetab_h, run, noise):
    return HouseholdMeasurer(safetab_h.homes[run], safetab_h.regions[run], noise)


@pytest.mark.parametrize("at_once", [500, 1 << 18])
def test_without_noise_every_cell_is_the_count(safetab_h, every_group, silent, monkeypatch, at_once):
    monkeypatch.setattr(safetab_households, "GROUPS_AT_ONCE", at_once)
    counted = 0
    for run, one in sets_of(safetab_h):
        regions = safetab_h.regions[run]
        groups, names = every_group(one, regions), regions.names(one.geography)
        found = measurer(safetab_h, run, silent).measure(one, groups)
        assert len(found) == len(one.layout.details)
        for number, values in enumerate(found):
            own = np.flatnonzero(groups.detail == number)
            assert values.shape == (len(own), one.layout.details[number].n_cells)
            assert values.dtype == np.int64
            for place, cells in zip(own, values, strict=True):
                code = one.view.codes[groups.iterations[place]]
                homes = safetab_h.truth.get((names[int(groups.regions[place])], one.geography, code), {})
                assert cells.tolist() == counted_cells(one.layout, number, homes)
                counted += int(cells.sum() > 0)
    assert counted > 500


def counted_cells(table, number, homes):
    """The cells of one detail, from the numbers of households by type and tenure."""
    detail = table.details[number]
    cells = [0] * detail.n_cells
    for kind_and_tenure, n in homes.items():
        value = int(kind_and_tenure[("HOUSEHOLD_TYPE", "TEN").index(table.record)])
        cells[detail.cell_of[table.finest_of[value - 1]]] += n
    return cells


@pytest.mark.parametrize("at_once", [1, 500, 1 << 18])
def test_a_group_has_the_same_cells_whichever_others_are_listed(safetab_h, every_group, monkeypatch, at_once):
    monkeypatch.setattr(safetab_households, "GROUPS_AT_ONCE", at_once)
    source, random = NoiseSource(insecure_key("some homes")), np.random.default_rng(3)
    for run, one in sets_of(safetab_h)[:4]:
        every = every_group(one, safetab_h.regions[run])
        kept = np.flatnonzero(random.random(len(every.regions)) < 0.2)
        some = ListedGroups(every.regions[kept], every.iterations[kept], every.detail[kept])
        whole = measurer(safetab_h, run, source).measure(one, every)
        found = measurer(safetab_h, run, source).measure(one, some)
        for number, values in enumerate(found):
            of_detail = np.flatnonzero(every.detail == number)
            assert np.array_equal(values, whole[number][np.isin(of_detail, kept)])


@pytest.mark.parametrize("at_once", [1, 50, 1 << 20])
def test_every_cell_gets_the_noise_of_its_address(
    safetab_h, every_group, silent, watched, monkeypatch, at_once
):
    monkeypatch.setattr(safetab_households, "ANSWERS_AT_ONCE", at_once)
    source = NoiseSource(insecure_key("homes"))
    asked, sizes = watched(source)
    for run, one in sets_of(safetab_h)[:4]:
        groups = every_group(one, safetab_h.regions[run])
        noisy = measurer(safetab_h, run, asked).measure(one, groups)
        exact = measurer(safetab_h, run, silent).measure(one, groups)
        for number, (values, truth) in enumerate(zip(noisy, exact, strict=True)):
            own, n = np.flatnonzero(groups.detail == number), one.layout.details[number].n_cells
            geounits = np.repeat(groups.regions[own], n)
            answers = (groups.iterations[own, None] * CELLS_APART + np.arange(n)).reshape(-1)
            query = query_number(one.level, HOUSEHOLDS[one.table] + number)
            noise = source.at(one.law, GEOLEVELS[one.geography], query, geounits, answers)
            assert np.array_equal(values, truth + noise.reshape(-1, n))
    assert max(sizes) <= max(at_once, 5)  # one table, at least


def test_what_is_confidential_is_not_shown(safetab_h, silent):
    assert repr(measurer(safetab_h, "US", silent)).count("redacted") == 2
