"""Errors of SafeTab's tables over 100 runs on one small country: coverage, bias, mean squared error, suppression."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from tests import toy_country as toy

from tallyveil.noise import NoiseSource, insecure_key
from tallyveil.products.safetab.public.regions import tabulate_all
from tallyveil.products.safetab.public.tables import SetTables
from tallyveil.products.safetab.run.run import measurer_of, read_safetab_inputs

pytestmark = pytest.mark.nightly

RUNS = 100


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Rows of T1 of every US run, with the truth; and the number of empty sub-state groups."""
    folder = tmp_path_factory.mktemp("safetab")
    persons = toy.person_rows(3000)
    params = toy.write_params(folder / "p", run_pr=False, zero_suppression_chance=0.9)
    inputs = read_safetab_inputs(params, toy.write_data(folder / "d", persons))
    truth = toy.slow_tabulation(persons, toy.US)
    (run,) = inputs.plan.runs
    regions = inputs.regions["US"]
    tabulation = tabulate_all(run.sets, regions)
    rows = []
    for seed in range(RUNS):
        measurer = measurer_of(inputs, "US", NoiseSource(insecure_key(f"errors {seed}")))
        for one in run.sets:  # as `tables_of` does, but for T2
            tables = SetTables(one, regions, inputs.plan.config)
            for part in measurer.measure(one, tabulation.measured[one.geography, one.level]):
                tables.add(part)
            rows += [(truth.t1[row[:3]], *row) for row in tables.t1().rows()]
    return run, truth, rows


(
    TRUE,
    REGION,
    KIND,
    CODE,
    COUNT,
    VARIANCE,
    MARGIN,
    ESTIMATE,
    ESTIMATE_VARIANCE,
    ESTIMATE_MARGIN,
    METHOD,
    DETAIL,
) = range(12)


def kept(rows):
    """Rows that no suppression selected."""
    return [row for row in rows if row[KIND] in ("USA", "STATE") or row[DETAIL].startswith("sex")]


def test_margins_cover_95_percent(runs):
    rows = kept(runs[2])
    for value, margin in ((COUNT, MARGIN), (ESTIMATE, ESTIMATE_MARGIN)):
        inside = np.array([abs(row[value] - row[TRUE]) <= row[margin] for row in rows])
        spread = (0.95 * 0.05 / len(rows)) ** 0.5
        assert inside.mean() > 0.95 - 4 * spread
        by_detail = defaultdict(list)
        for row, hit in zip(rows, inside, strict=True):
            by_detail[row[DETAIL], row[MARGIN] if value == COUNT else row[METHOD]].append(hit)
        for hits in by_detail.values():
            assert np.mean(hits) > 0.95 - 5 * (0.95 * 0.05 / len(hits)) ** 0.5


def test_counts_and_estimates_have_no_bias_given_the_detail_and_at_most_their_stated_variances(runs):
    """By detail, which stage 1 chose; not by method, which depends on the estimate itself."""
    by_detail = defaultdict(list)
    for row in kept(runs[2]):
        by_detail[row[DETAIL]].append(row)
    assert len(by_detail) == 5
    assert {row[METHOD] for row in runs[2]} == {"measured", "combined", "corrected"}
    for rows in by_detail.values():
        errors = np.array([[row[COUNT] - row[TRUE], row[ESTIMATE] - row[TRUE]] for row in rows])
        variances = np.array([[row[VARIANCE], row[ESTIMATE_VARIANCE]] for row in rows])
        assert (np.abs(errors.sum(axis=0)) < 4.5 * variances.sum(axis=0) ** 0.5).all()
        ratio = (errors**2 / variances).mean(axis=0)
        allowed = 6 / len(rows) ** 0.5
        assert abs(ratio[0] - 1) < allowed
        assert ratio[1] < 1 + allowed


def test_totals_of_23_ages_are_at_least_five_times_better(runs):
    rows = [row for row in runs[2] if row[DETAIL] == "sex by 23 ages" and row[METHOD] == "combined"]
    assert len(rows) > 1000
    errors = np.array([[row[COUNT] - row[TRUE], row[ESTIMATE] - row[TRUE]] for row in rows])
    production, better = (errors**2).mean(axis=0)
    assert production / better > 5


def test_empty_groups_are_published_as_often_as_the_noise_says(runs):
    run, truth, rows = runs
    published = Counter(
        (row[KIND], row[CODE][0]) for row in rows if row[TRUE] == 0 and row[KIND] not in ("USA", "STATE")
    )
    for one in run.sets:
        if one.keep_above is None:
            continue
        codes = set(one.view.codes)
        empty = sum(g[1] == one.geography and g[2] in codes and not truth.t1[g] for g in truth.groups)
        chance = 1 - float(one.stage_2.cdf(one.keep_above).mid())
        assert chance <= 0.1
        wanted = RUNS * empty * chance
        found = published[one.geography, str(one.level)]
        assert abs(found - wanted) <= 4.5 * (wanted * (1 - chance)) ** 0.5 + 1e-9
