"""From the measurement files of a run: streaming, laws, refusals."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import tallyveil.estimation.intervals.fit as fitting
from tallyveil.errors import ConstraintError, GeographyError, StoreError
from tallyveil.estimation.intervals.algebra import coefficients
from tallyveil.estimation.intervals.answers import (
    level_answers,
    level_variances,
    region_answers,
    region_variances,
)
from tallyveil.estimation.intervals.covariance import tree_covariance
from tallyveil.estimation.intervals.fit import KeptRows, StoredRows, fit_tree
from tallyveil.estimation.intervals.interval import contains, intervals_of
from tallyveil.estimation.intervals.joint import Asked, joint_covariance
from tallyveil.estimation.intervals.model import Zeros, model_of_strategy
from tallyveil.estimation.intervals.questions import questions_of, sums_of
from tallyveil.estimation.intervals.regions import region_of
from tallyveil.files.histograms import read_histogram
from tallyveil.measurements.store import StoredMeasurements
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.topdown.run.inputs import read_spine
from tallyveil.products.topdown.run.run import run_release


@pytest.fixture(scope="module")
def release(make_small_inputs, tmp_path_factory):
    """Plan, spine, model and folder of a finished run, which no test changes."""
    folder = tmp_path_factory.mktemp("run")
    small_release, out = make_small_inputs(folder / "inputs"), folder / "out"
    plan = load_plan(small_release)
    run_release(plan, out, test_key=bytes(32), workers=1)
    spine = read_spine(plan.geography)
    home = plan.query("home")
    facilities = pl.read_parquet(small_release.parent / "barracks.parquet")
    zero = np.ones((spine.n_geounits(2), 2), dtype=bool)
    answers = home.answers_from_labels({"home": facilities["home"].to_list()}, facilities.height)
    zero[spine.locate(2, facilities["geocode"]), answers] = False
    model = model_of_strategy(
        plan.schema,
        spine,
        plan.strategy,
        invariants={"Region": ["total"]},
        zeros=[Zeros(home, "Block", zero)],
    )
    return plan, spine, model, out


def totals(plan, spine, out):
    counts = read_histogram(out, "Region", plan.schema, spine)
    return {"Region": plan.query("total").apply(*counts.rows(0, 2), 2)}


def source_rows(source, geolevel, groups, start, stop):
    """Answers of all queries side by side, asked for one query at a time."""
    return np.hstack(
        [source.measure(geolevel, group.name, start, stop, np.arange(group.size)).values for group in groups]
    )


def test_files_give_the_rows_of_their_source(release):
    plan, spine, model, out = release
    stored, source = StoredRows(out, model), StoredMeasurements(out, spine)
    for level, name in enumerate(spine.geolevels):
        groups = [plan.query(query) for query in plan.strategy.queries(name)]
        n = spine.n_geounits(level)
        whole = stored.rows(level, groups, 0, n)
        assert whole.dtype == np.int16
        np.testing.assert_array_equal(whole, source_rows(source, name, groups, 0, n))
        np.testing.assert_array_equal(whole[1:n], stored.rows(level, groups, 1, n))
    kept = KeptRows(stored, largest_bytes=10)
    np.testing.assert_array_equal(kept.rows(2, groups, 3, 9), whole[3:9])
    assert KeptRows(stored).rows(2, groups, 3, 9).shape == (6, whole.shape[1])


def test_nothing_depends_on_chunks_or_threads(release, monkeypatch):
    plan, spine, model, out = release
    covariance = tree_covariance(model)
    questions = questions_of(model.algebra, [plan.query("total"), plan.query("age*home")])
    exact, rows = totals(plan, spine, out), StoredRows(out, model)
    region = region_of(spine, np.arange(0, 48, 3))
    found = {}
    for chunk, workers in ((2048, 1), (5, 1), (5, 3), (2048, 3)):
        monkeypatch.setattr(fitting, "FINEST_PER_CHUNK", chunk)
        fit = fit_tree(tree_covariance(model, workers=workers), rows, exact, workers=workers)
        answers = [level_answers(fit, level, questions, workers=workers) for level in range(3)]
        answers.append(region_answers(fit, [region], questions, workers=workers))
        found[chunk, workers] = answers
    for other in found.values():
        for one, two in zip(found[2048, 1], other, strict=True):
            np.testing.assert_allclose(one.estimates, two.estimates, rtol=1e-9, atol=1e-9)
            np.testing.assert_array_equal(one.variances, two.variances)
    np.testing.assert_array_equal(level_variances(covariance, 2, questions), found[2048, 1][2].variances)


def region_of_town(spine, town):
    return region_of(spine, range(*spine.finest_offsets(1)[town : town + 2].tolist()))


def test_estimates_add_up_and_whole_geounits_are_their_sum(release):
    plan, spine, model, out = release
    exact = totals(plan, spine, out)
    fit = fit_tree(tree_covariance(model), StoredRows(out, model), exact)
    questions = questions_of(model.algebra, [plan.query("total"), plan.query("age*home")])
    answers = [level_answers(fit, level, questions) for level in range(3)]
    for level in range(2):
        sums = np.add.reduceat(answers[level + 1].estimates, spine.child_offsets[level][:-1], axis=0)
        np.testing.assert_allclose(sums, answers[level].estimates, atol=1e-8)
    np.testing.assert_allclose(answers[0].estimates[:, :1], exact["Region"], atol=1e-9)
    assert answers[0].variances[:, 0].max() < 1e-9
    towns = [1, 2, 6]
    together = region_of_town(spine, 1) + region_of_town(spine, 2) + region_of_town(spine, 6)
    found = region_answers(fit, [together], questions)
    np.testing.assert_allclose(found.estimates[0], answers[1].estimates[towns].sum(axis=0), rtol=1e-12)
    regions = [region_of_town(spine, town) for town in towns]
    region, row = np.divmod(np.arange(3 * questions.n), questions.n)
    variances = region_variances(fit.covariance, regions, questions).ravel()
    joint = joint_covariance(fit.covariance, Asked(regions, region, questions.rows(), row), variances)
    shared = sum(np.split(sum(np.split(joint.matrix(), 3)), 3, axis=1))
    np.testing.assert_allclose(found.variances[0], np.diag(shared), rtol=1e-9, atol=1e-9)


def test_difference_of_two_regions(release):
    plan, spine, model, out = release
    fit = fit_tree(tree_covariance(model), StoredRows(out, model), totals(plan, spine, out))
    total = questions_of(model.algebra, plan.query("total"))
    labels = ["north" if i % 5 else "south" if i else None for i in range(48)]
    north, south = (
        region_of(spine, [i for i in range(48) if labels[i] == name]) for name in ("north", "south")
    )
    found = region_answers(fit, [north, south, north - south], total)
    assert found.estimates[2, 0] == pytest.approx(found.estimates[0, 0] - found.estimates[1, 0])
    asked = Asked([north, south], np.arange(2), total.rows(), np.zeros(2, np.int64))
    shared = joint_covariance(fit.covariance, asked, found.variances[:2, 0]).matrix()[0, 1]
    assert found.variances[2, 0] == pytest.approx(found.variances[0, 0] + found.variances[1, 0] - 2 * shared)
    # the sum of all cells is the same question as the query
    everybody = sums_of(model.algebra, coefficients(model.algebra, np.ones((1, plan.schema.size))))
    again = region_answers(fit, [north], everybody)
    assert again.estimates[0, 0] == pytest.approx(found.estimates[0, 0], rel=1e-9)
    assert again.variances[0, 0] == pytest.approx(found.variances[0, 0], rel=1e-9)


def test_intervals_beside_published_counts(release):
    plan, spine, model, out = release
    fit = fit_tree(tree_covariance(model), StoredRows(out, model), totals(plan, spine, out))
    ages = plan.query("age")
    answers = level_answers(fit, 2, questions_of(model.algebra, ages))
    counts = read_histogram(out, "Block", plan.schema, spine)
    published = ages.apply(*counts.rows(0, 48), 48)
    inside = contains(intervals_of(model, answers), published)
    assert inside.mean() > 0.8


def test_refusals(release):
    plan, spine, model, out = release
    covariance, rows = tree_covariance(model), StoredRows(out, model)
    with pytest.raises(ConstraintError, match="invariants of Region") as refused:
        fit_tree(covariance, rows)
    assert refused.value.code == "invariants-missing"
    with pytest.raises(GeographyError, match="outside 0 to 47"):
        region_of(spine, [3, 3])
    with pytest.raises(StoreError, match="no measurements"):
        rows.rows(2, [plan.query("home")], 0, 4)


def test_measurements_on_the_support_are_refused(edit, tmp_path):
    plan = load_plan(edit("[outputs]", '[outputs]\nmeasurements = "support"'))
    run_release(plan, tmp_path / "out", test_key=bytes(32), workers=1)
    model = model_of_strategy(plan.schema, read_spine(plan.geography), plan.strategy)
    rows = StoredRows(tmp_path / "out", model)
    with pytest.raises(StoreError, match="on the support") as refused:
        rows.rows(2, [plan.query("total")], 0, 4)
    assert refused.value.code == "measurements-missing"


def test_another_strategy_is_refused(release):
    plan, spine, _, out = release
    other = replace(plan.strategy, total=plan.strategy.total * 2)
    rows = StoredRows(out, model_of_strategy(plan.schema, spine, other))
    with pytest.raises(StoreError, match="another variance") as refused:
        rows.rows(2, [plan.query("total")], 0, 4)
    assert refused.value.code == "measurements-mismatch"


def test_invariants_that_contradict_zeros_are_refused(release):
    plan, spine, _, out = release
    empty = Zeros(plan.query("total"), "Region", np.array([[True], [False]]))
    model = model_of_strategy(
        plan.schema, spine, plan.strategy, invariants={"Region": ["total"]}, zeros=[empty]
    )
    with pytest.raises(ConstraintError, match="Region 'P'") as refused:
        fit_tree(tree_covariance(model), StoredRows(out, model), totals(plan, spine, out))
    assert refused.value.code == "constraints-conflict"
