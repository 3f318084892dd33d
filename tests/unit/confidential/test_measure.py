"""Measuring: any split of the work gives the same noisy answers, and the noise is added to the truth."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from tests.histograms import histogram_from_triplets

from tallyveil.accounting.events import Neighbours
from tallyveil.budget.allocation import allocation_of
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.confidential import sealed_counts
from tallyveil.confidential.histogram import aggregate_all
from tallyveil.confidential.measure import Measurer, SealedMeasurer
from tallyveil.confidential.sealed_counts import SealedCounts, write_sealed_counts
from tallyveil.errors import BudgetError, StoreError
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.geography.bypass import BypassRule, bypass
from tallyveil.geography.spine import uniform_shares
from tallyveil.measurements.answers import answers_on_support, measure_one_by_one
from tallyveil.noise.key import insecure_key
from tallyveil.noise.source import NoiseSource
from tallyveil.schema.presets import load_preset

SCHEMA = load_preset("race-age")
SPINE = spine_from_prefixes([f"{a}{b:02d}" for a in "XY" for b in range(30)], ("Region", "Town"), (1, 3))


def strategy(mechanism=Mechanism.DISCRETE_GAUSSIAN):
    shares = (("total", Fraction(1, 4)), ("race_ethnicity", Fraction(1, 4)), ("detailed", Fraction(1, 2)))
    return Strategy(
        mechanism=mechanism,
        neighbours=Neighbours.BOUNDED,
        total=Fraction(1, 2),
        geolevel_shares=(("Region", Fraction(1, 3)), ("Town", Fraction(2, 3))),
        query_shares=(("Region", shares), ("Town", shares)),
    )


@pytest.fixture(params=list(Mechanism))
def measurer(request):
    rng = np.random.default_rng(5)
    entries = 300
    finest = histogram_from_triplets(
        "Town",
        SPINE.n_geounits(1),
        rng.integers(0, SPINE.n_geounits(1), entries),
        rng.integers(0, SCHEMA.size, entries),
        rng.integers(1, 40, entries),
    )
    noise = NoiseSource(insecure_key("measure"))
    allocation = allocation_of(strategy(request.param), SPINE)
    return Measurer(aggregate_all(finest, SPINE), SCHEMA, allocation, noise)


@pytest.mark.parametrize("query", ["total", "race_ethnicity", "detailed"])
def test_a_measurement_is_the_truth_plus_the_addressed_noise(measurer, query):
    group = SCHEMA.query(query)
    answers = np.arange(group.size)
    measured = measurer.measure("Town", query, 10, 20, answers)
    truth = measurer.histograms[1].answers(group, 10, 20)
    position = measurer.allocation.strategy.queries("Town").index(query)
    law = measurer.allocation.strategy.law("Town", query)
    noise = measurer.noise.dense(law, 1, position, np.arange(10, 20), group.size)
    assert np.array_equal(measured.values, truth + noise)
    assert np.any(noise != 0)
    assert np.all(measured.variances == law.variance_float())


def test_parts_and_supports_give_what_the_whole_gives(measurer):
    whole = measurer.measure("Town", "detailed", 0, 60, np.arange(16)).values
    for start, stop in ((0, 1), (3, 17), (59, 60)):
        for support in ([0], [1, 5, 6], [15], list(range(16))):
            part = measurer.measure("Town", "detailed", start, stop, np.array(support)).values
            assert np.array_equal(part, whole[start:stop][:, support])


def test_no_answers_asked_gives_no_columns(measurer):
    assert measurer.measure("Town", "detailed", 0, 3, np.array([], dtype=np.int64)).values.shape == (3, 0)


def test_values_cannot_be_changed_and_the_truth_is_not_shown(measurer):
    measured = measurer.measure("Region", "total", 0, 2, np.arange(1))
    with pytest.raises(ValueError, match="read-only"):
        measured.values[0, 0] = 0
    assert "redacted" in repr(measurer)


def bypassed(measurer):
    """The same, on a spine where region Y has one town, which has no share of its own."""
    spine = spine_from_prefixes([*(f"X{b:02d}" for b in range(30)), "Y00"], ("Region", "Town"), (1, 3))
    plan = measurer.allocation.strategy
    made, shares = bypass(spine, uniform_shares(spine, dict(plan.geolevel_shares)), BypassRule.SINGLE_CHILD)
    truth = measurer.histograms[1].rows(0, 31)
    histograms = aggregate_all(histogram_from_triplets("Town", 31, *truth), made.spine)
    return Measurer(histograms, SCHEMA, allocation_of(plan, made.spine, shares), measurer.noise)


def test_of_a_geounit_without_a_share_nothing_is_told(measurer):
    own = bypassed(measurer)
    measured = own.measure("Town", "detailed", 28, 31, np.arange(16))
    assert np.isfinite(measured.variances).tolist() == [True, True, False]
    assert not measured.values[2].any()
    assert own.histograms[1].answers(SCHEMA.query("detailed"), 30, 31).any()  # though it has people
    child_begin = np.array([30, 31])
    offsets, cells = np.array([0, 2]), np.array([1, 4])
    wanted = answers_on_support(
        "Town", [SCHEMA.query("detailed")], child_begin, offsets, cells, np.array([False])
    )
    with pytest.raises(BudgetError, match="no share of the budget"):
        own.measure_families(wanted)
    for first in (
        28,
        30,
    ):  # one answer alone is not told either, beside those of other geounits or without them
        one = answers_on_support(
            "Town",
            [SCHEMA.query("detailed")],
            np.array([first, 31]),
            np.array([0, 1]),
            cells[:1],
            np.zeros(1, bool),
        )
        with pytest.raises(BudgetError, match="no share of the budget"):
            own.measure_families(one)


@pytest.mark.parametrize(
    ("geolevel", "start", "stop"), [("Region", 0, 2), ("Region", 1, 2), ("Town", 27, 31)]
)
def test_every_geounit_gets_the_noise_of_its_own_share(measurer, geolevel, start, stop):
    own = bypassed(measurer)
    level = own.allocation.spine.level_index(geolevel)
    for number, query in enumerate(own.allocation.strategy.queries(geolevel)):
        group, laws = SCHEMA.query(query), own.allocation.laws(geolevel, query)
        for answers in (np.arange(group.size), np.arange(0, group.size, 3)):
            measured = own.measure(geolevel, query, start, stop, answers)
            assert measured.values.dtype == np.int64
            assert measured.values.shape == (stop - start, len(answers))
            for row, geounit in enumerate(range(start, stop)):
                law = laws.get(int(own.allocation.positions(geolevel)[geounit]))
                if law is None:
                    continue
                truth = own.histograms[level].answers(group, geounit, geounit + 1)[0]
                noise = own.noise.dense(law, level, number, np.array([geounit]), group.size)[0]
                assert np.array_equal(measured.values[row], (truth + noise)[answers])
                assert measured.variances[row] == law.variance_float()


@pytest.mark.parametrize("settled", [(False, False), (True, False), (False, True), (True, True)])
def test_families_get_what_each_geounit_gets_alone(measurer, settled):
    own = bypassed(measurer)
    queries = [SCHEMA.query(name) for name in ("total", "detailed")]
    wanted = answers_on_support(
        "Region",
        queries,
        np.array([0, 1, 2]),
        np.array([0, 3, 5]),
        np.array([0, 4, 7, 2, 4]),
        np.array(settled),
    )
    assert np.array_equal(own.measure_families(wanted), measure_one_by_one(own, wanted))
    below = answers_on_support(
        "Town", queries, np.array([0, 12, 29]), np.array([0, 2, 4]), np.array([1, 4, 0, 9]), np.array(settled)
    )
    assert np.array_equal(own.measure_families(below), measure_one_by_one(own, below))
    single = answers_on_support(
        "Town", queries, np.array([5, 6, 7]), np.array([0, 2, 4]), np.array([1, 4, 0, 9]), np.array(settled)
    )
    assert np.array_equal(own.measure_families(single), measure_one_by_one(own, single))
    assert own.allocation.laws("Region", "total").keys() == set(own.allocation.positions("Region").tolist())
    assert len(own.allocation.laws("Region", "total")) == 2


KEY, RUN = b"\x17" * 32, "0123456789abcdef"


@pytest.fixture
def sealed(measurer, tmp_path, monkeypatch):
    """The same measurements, from encrypted files of seven towns each."""
    monkeypatch.setattr(sealed_counts, "FINEST_GEOUNITS", 7)
    write_sealed_counts(tmp_path / "counts", RUN, measurer.histograms, KEY)
    counts = SealedCounts(tmp_path / "counts", RUN, KEY, SPINE)
    return SealedMeasurer(counts, SCHEMA, measurer.allocation, measurer.noise)


@pytest.mark.parametrize(
    ("geolevel", "start", "stop"), [("Region", 0, 2), ("Town", 0, 60), ("Town", 9, 23), ("Town", 59, 60)]
)
def test_sealed_counts_are_measured_as_open_ones(measurer, sealed, geolevel, start, stop):
    for query in ("total", "detailed"):
        answers = np.arange(SCHEMA.query(query).size)[::2]
        own = sealed.measure(geolevel, query, start, stop, answers)
        wanted = measurer.measure(geolevel, query, start, stop, answers)
        assert np.array_equal(own.values, wanted.values)
        assert np.array_equal(own.variances, wanted.variances)
        assert np.array_equal(own.answers, answers)
        assert (own.geolevel, own.query, own.first_geounit) == (geolevel, query, start)


def test_families_of_sealed_counts_are_measured_as_those_of_open_ones(measurer, sealed):
    queries = [SCHEMA.query(name) for name in ("total", "race_ethnicity", "detailed")]
    offsets, cells = np.array([0, 3, 5]), np.array([0, 4, 7, 2, 9])
    for geolevel, children in (("Region", [0, 1, 2]), ("Town", [12, 20, 31])):
        wanted = answers_on_support(geolevel, queries, np.array(children), offsets, cells, np.zeros(2, bool))
        assert np.array_equal(sealed.measure_families(wanted), measurer.measure_families(wanted))


def test_only_the_files_of_the_geounits_asked_for_are_read(measurer, sealed):
    for path in sealed.counts.folder.iterdir():
        if path.name not in ("counts-1-7", "counts-1-14"):
            path.unlink()
    found = sealed.measure("Town", "total", 7, 21, np.arange(1))
    assert np.array_equal(found.values, measurer.measure("Town", "total", 7, 21, np.arange(1)).values)
    with pytest.raises(StoreError, match="missing"):
        sealed.measure("Town", "total", 7, 22, np.arange(1))


def test_a_sealed_measurer_shows_neither_counts_nor_keys(sealed):
    assert repr(sealed).count("redacted") == 2
    assert "Town" in repr(sealed)
    assert repr(KEY) not in repr(sealed)


@pytest.mark.parametrize("sensitivities", [(("total", 2),), (("detailed", 1), ("total", 3))])
def test_a_strategy_for_records_that_count_otherwise_is_refused(measurer, sensitivities):
    """Each measurer looks for itself: with these variances the noise might be too small."""
    allocation = measurer.allocation
    wrong = replace(allocation, strategy=replace(allocation.strategy, sensitivities=sensitivities))
    with pytest.raises(BudgetError, match="moves"):
        Measurer(measurer.histograms, SCHEMA, wrong, measurer.noise)
