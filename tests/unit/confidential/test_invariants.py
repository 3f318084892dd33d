"""Invariants and bounds: exact over any division of the work, and a refusal says which bounds and no more."""

import numpy as np
import pytest
from tests.histograms import histogram_from_triplets

from tallyveil.confidential import histogram as invariants
from tallyveil.confidential.histogram import check_bounds, invariant_values, noisy_answers
from tallyveil.errors import ConstraintError
from tallyveil.schema.counts import NO_LIMIT, narrow_limits
from tallyveil.schema.presets import load_preset

SCHEMA = load_preset("race-age")
N = 40


@pytest.fixture
def histogram():
    rng = np.random.default_rng(11)
    geounits, cells = rng.integers(0, N, 300), rng.integers(0, SCHEMA.size, 300)
    return histogram_from_triplets("Town", N, geounits, cells, rng.integers(1, 50, 300))


@pytest.fixture(params=[1, 97, 1 << 22])
def any_pieces(request, monkeypatch):
    monkeypatch.setattr(invariants, "ENTRIES_AT_ONCE", request.param)


@pytest.mark.parametrize("entries", [1, 97, 1 << 22])
@pytest.mark.parametrize("query", ["total", "race_ethnicity", "detailed"])
def test_pieces_hold_every_geounit_once_and_few_answers_at_a_time(histogram, monkeypatch, entries, query):
    monkeypatch.setattr(invariants, "ENTRIES_AT_ONCE", entries)
    size = SCHEMA.query(query).size
    pieces = list(invariants._pieces(histogram, SCHEMA.query(query)))
    assert [place for start, stop in pieces for place in range(start, stop)] == list(range(N))
    for start, stop in pieces:
        held = max(stop - start, histogram.offsets[stop] - histogram.offsets[start])
        assert stop == start + 1 or held * size <= entries + size
    assert len(pieces) <= 2 * (N + len(histogram.cells)) * size // entries + 1


@pytest.mark.usefixtures("any_pieces")
@pytest.mark.parametrize("query", ["total", "race_ethnicity", "detailed"])
def test_values_are_the_true_answers(histogram, query):
    group = SCHEMA.query(query)
    values = invariant_values(histogram, group)
    assert np.array_equal(values, histogram.answers(group, 0, N))
    assert values.dtype == np.int64


@pytest.mark.usefixtures("any_pieces")
def test_bounds_hold_up_to_the_last_person(histogram):
    group = SCHEMA.query("race_ethnicity")
    truth = invariant_values(histogram, group)
    check_bounds(histogram, group, truth, truth, "facilities")
    rng = np.random.default_rng(1)
    for _ in range(30):
        place = rng.integers(N), rng.integers(group.size)
        for lower, upper in ((1, 0), (0, -1)):
            low, high = truth.copy(), truth.copy()
            low[place] += lower
            high[place] += upper
            with pytest.raises(ConstraintError) as caught:
                check_bounds(histogram, group, low, high, "facilities")
            assert caught.value.code == "bounds-broken"
            assert "facilities" in str(caught.value)
            assert not any(character.isdigit() for character in str(caught.value))


@pytest.mark.usefixtures("any_pieces")
def test_sums_over_groups_of_geounits(histogram):
    group = SCHEMA.query("race_ethnicity")
    each = histogram.answers(group, 0, N)
    groups = np.arange(N) % 3
    wanted = np.stack([each[groups == number].sum(axis=0) for number in range(3)])
    sums = invariant_values(histogram, group, groups)
    assert np.array_equal(sums, wanted)
    assert sums.dtype == np.int64
    check_bounds(histogram, group, wanted, wanted, "facilities", groups)
    for place in np.ndindex(wanted.shape):
        for lower, upper in ((1, 0), (0, -1)):
            low, high = wanted.copy(), wanted.copy()
            low[place] += lower
            high[place] += upper
            with pytest.raises(ConstraintError, match="facilities"):
                check_bounds(histogram, group, low, high, "facilities", groups)


def test_narrow_bounds_without_an_upper_end_hold(histogram):
    group = SCHEMA.query("total")
    truth = invariant_values(histogram, group)
    none = np.full_like(truth, NO_LIMIT)
    check_bounds(histogram, group, narrow_limits(truth), narrow_limits(none), "facilities")
    with pytest.raises(ConstraintError):
        check_bounds(histogram, group, narrow_limits(truth + 1), narrow_limits(none), "facilities")


def test_noise_on_the_lattice_is_added_to_the_truth_and_cannot_be_changed(histogram):
    group = SCHEMA.query("race_ethnicity")
    noise = np.random.default_rng(2).integers(-9, 9, (N, group.size))
    found = noisy_answers(histogram, group, noise)
    assert np.array_equal(found, invariant_values(histogram, group) + noise)
    with pytest.raises(ValueError, match="read-only"):
        found[0, 0] = 1
