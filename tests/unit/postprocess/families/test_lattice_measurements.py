"""Counts drawn on a lattice count as measurements: against dense least squares with the covariance of their noise."""

import numpy as np
import polars as pl
import pytest

from tallyveil.errors import ConfigError, StoreError
from tallyveil.estimation.intervals.answers import level_answers, level_variances
from tallyveil.estimation.intervals.covariance import tree_covariance
from tallyveil.estimation.intervals.fit import fit_tree
from tallyveil.estimation.intervals.questions import questions_of
from tallyveil.measurements.store import StoredMeasurements
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.intervals.job import make_intervals
from tallyveil.postprocess.intervals.model import (
    measured_rows,
    open_release,
    plan_model,
    published_invariants,
    release_model,
)
from tallyveil.products.topdown.run.run import run_release
from tallyveil.storage.read import parquet_metadata

TOTALS = '[[subspace]]\nquery = "total"\ngeolevel = "Town"\nrho = "1/4"\n\n[[bounds]]'
VARIANCE = 4.0  # 1 / rho
MEASUREMENTS = "measurements/Town/integer-subspace.total.parquet"


@pytest.fixture
def release_file(edit):
    edit("[[bounds]]", TOTALS)
    return edit('mechanism = "discrete_gaussian"\nrho = "2"', 'mechanism = "discrete_gaussian"\nrho = "9/4"')


@pytest.fixture
def run(release_file, tmp_path):
    run_release(load_plan(release_file), tmp_path / "out", test_key=bytes(32), workers=1)
    return tmp_path / "out"


def dense_totals(release, model):
    """Estimates and variances of the Blocks' totals; in each Region all Towns but one enter, with their covariance."""
    spine, n_cells = release.spine, release.schema.size
    n = spine.n_geounits(2)
    normal, right = np.zeros((n * n_cells,) * 2), np.zeros(n * n_cells)
    source = StoredMeasurements(release.root, spine)
    for level, name in enumerate(spine.geolevels):
        member = (spine.ancestors(level)[None] == np.arange(spine.n_geounits(level))[:, None]).astype(float)
        for query in release.strategy.queries(name):
            group = release.schema.query(query)
            answers = np.zeros((group.size, n_cells))
            number = group.answers_of(np.arange(n_cells))
            answers[number[number >= 0], np.flatnonzero(number >= 0)] = 1
            rows = np.kron(member, answers)
            noisy = source.measure(name, query, 0, len(member), np.arange(group.size)).values.ravel()
            precision = 1 / release.strategy.law(name, query).variance_float()
            normal += precision * rows.T @ rows
            right += precision * rows.T @ noisy
    counts = pl.read_parquet(release.root / MEASUREMENTS).sort("geocode")["count"].to_numpy()
    towns, regions = spine.ancestors(1), spine.parents(1)
    for region in range(2):
        own = np.flatnonzero(regions == region)
        k = len(own)
        inverse = np.linalg.inv(VARIANCE * (np.eye(k) - 1 / k)[:-1, :-1])
        rows = np.array([np.kron((towns == town).astype(float), np.ones(n_cells)) for town in own[:-1]])
        normal += rows.T @ inverse @ rows
        right += rows.T @ inverse @ counts[own[:-1]]
    zero = model.zero_patterns[model.zero_pattern].reshape(-1)
    exact = [
        np.eye(n * n_cells)[zero],
        np.kron(regions[towns][None] == np.arange(2)[:, None], np.ones(n_cells)),
    ]
    values = np.concatenate([np.zeros(int(zero.sum())), published_invariants(release, model)["Region"][:, 0]])
    stated = np.concatenate(exact)
    free = np.linalg.svd(stated)[2][len(stated) :].T
    fixed = np.linalg.lstsq(stated, values, rcond=None)[0]
    covariance = free @ np.linalg.inv(free.T @ normal @ free) @ free.T
    cells = fixed + covariance @ (right - normal @ fixed)
    total = np.kron(np.eye(n), np.ones(n_cells))
    return total @ cells, np.diag(total @ covariance @ total.T)


def test_equals_dense_least_squares(run):
    release = open_release(run)
    model = release_model(release)
    covariance = tree_covariance(model)
    fit = fit_tree(covariance, measured_rows(release, model), published_invariants(release, model))
    found = level_answers(fit, 2, questions_of(model.algebra, release.schema.query("total")))
    estimates, variances = dense_totals(release, model)
    np.testing.assert_allclose(found.estimates[:, 0], estimates, rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(found.variances[:, 0], variances, rtol=1e-9, atol=1e-9)


def test_intervals_use_what_was_drawn(run, release_file):
    make_intervals(run, workers=1)
    towns = pl.read_parquet(run / "intervals/geolevel=Town/query=total/*.parquet")
    assert (towns["standard_error"] < np.sqrt(VARIANCE)).all()
    plan, release = load_plan(release_file), open_release(run)
    planned = tree_covariance(plan_model(plan, release.hierarchies))
    total = questions_of(planned.algebra, plan.query("total"))
    np.testing.assert_allclose(
        np.sqrt(level_variances(planned, 1, total))[:, 0], towns["standard_error"], atol=1e-6
    )


def test_refusals(run, edit):
    path = run / MEASUREMENTS
    frame, tags = pl.read_parquet(path), parquet_metadata(path)
    frame[1:].write_parquet(path, metadata={"tallyveil.run": tags["tallyveil.run"]})
    with pytest.raises(StoreError) as refused:
        make_intervals(run, workers=1)
    assert refused.value.code == "release-damaged"
    path.unlink()
    with pytest.raises(StoreError) as refused:
        make_intervals(run, workers=1)
    assert refused.value.code == "measurements-missing"


def test_lattice_laplace_noise_has_no_variances(edit):
    edit("[[bounds]]", TOTALS.replace('rho = "1/4"', 'epsilon = "1"'))
    edit('mechanism = "discrete_gaussian"\nrho = "2"', 'mechanism = "discrete_laplace"\nepsilon = "20"')
    plan = load_plan(edit('[strategy]\nrho = "2"', '[strategy]\nepsilon = "19"'))
    from tallyveil.products.topdown.run.inputs import read_hierarchies

    with pytest.raises(ConfigError) as refused:
        plan_model(plan, read_hierarchies(plan))
    assert refused.value.code == "interval-noise"
