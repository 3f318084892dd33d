"""What the production order of least squares is for: better totals above the blocks, from the same measurements."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tallyveil.api.beginning import write_country
from tallyveil.budget.strategy import Strategy
from tallyveil.confidential.histogram import ConfidentialHistogram
from tallyveil.files.histograms import read_histogram
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.guarantee import check_paths, guarantee_of
from tallyveil.plans.release import ReleasePlan
from tallyveil.products.topdown.run import preparation, run
from tallyveil.products.topdown.run.inputs import read_histograms, read_spine
from tallyveil.schema.counts import PublicCounts

pytestmark = pytest.mark.soak

KEYS = 12


@pytest.fixture
def plan(tmp_path: Path) -> ReleasePlan:
    """Nine tracts and 34 block groups with the national variances; what happens below cannot reach them."""
    write_country(tmp_path, blocks=1000, schema="pl94-persons", seed=1)
    release = tmp_path / "release.toml"
    text = release.read_text()
    assert "redistricting-state-rooted" in text
    release.write_text(text.replace("redistricting-state-rooted", "redistricting-us-from-state"))
    whole = load_plan(release)
    (bounds,) = whole.bounds
    for path in (whole.records.path, whole.geography.path, bounds.path):
        pl.read_parquet(path).with_columns(pl.col("geocode").str.head(12)).write_parquet(path)
    pl.read_parquet(whole.geography.path, columns=["geocode"]).unique().write_parquet(whole.geography.path)
    facilities = pl.read_parquet(bounds.path).group_by("geocode", "hhgq")
    facilities.agg(pl.col("lower").sum(), pl.col("upper").first()).write_parquet(bounds.path)
    strategy = without_finest(whole.strategy)
    return replace(
        whole,
        geolevels=strategy.geolevels,
        spent=strategy.total,
        geolevel_shares=strategy.geolevel_shares,
        query_shares=strategy.query_shares,
        geography=replace(
            whole.geography, geolevels=whole.geography.geolevels[:-1], prefix_lengths=(2, 5, 11, 12)
        ),
        bounds=(replace(bounds, geolevel="Block_Group"),),
        # towards the estimates themselves: rounding to nearest adds noise of its own
        estimation=tuple((name, replace(item, target="fraction")) for name, item in whole.estimation[:-1]),
    )


def without_finest(strategy: Strategy) -> Strategy:
    """The strategy of the geolevels above the finest, with the variances they have."""
    kept = 1 - strategy.geolevel_shares[-1][1]
    return replace(
        strategy,
        total=strategy.total * kept,
        geolevel_shares=tuple((name, share / kept) for name, share in strategy.geolevel_shares[:-1]),
        query_shares=strategy.query_shares[:-1],
    )


def in_one_pass(plan: ReleasePlan) -> ReleasePlan:
    """The same measurements and the same rounding, with one least-squares pass over all queries."""
    return replace(
        plan,
        estimation=tuple(
            (name, replace(item, passes=(plan.strategy.queries(name),))) for name, item in plan.estimation
        ),
    )


def totals(counts: ConfidentialHistogram | PublicCounts) -> np.ndarray:
    geounits = np.repeat(np.arange(counts.n_geounits), np.diff(counts.offsets))
    return np.bincount(geounits, weights=counts.counts, minlength=counts.n_geounits)


def test_totals_first_makes_better_totals_than_one_pass(plan, tmp_path, monkeypatch):
    # The noise is bound to the plan; these two differ in nothing that is measured, and are to share it. What they
    # guarantee is the same too, and takes longer to compute than they do.
    shared, guarantee = plan.measuring_digest(), guarantee_of(plan)
    monkeypatch.setattr(ReleasePlan, "measuring_digest", lambda *_: shared)
    monkeypatch.setattr(
        preparation, "privacy_of", lambda _, allocation: {**guarantee, "paths": check_paths(allocation)}
    )
    spine = read_spine(plan.geography)
    truth = read_histograms(plan, spine)

    def errors(one: ReleasePlan, name: str) -> np.ndarray:
        """Sum of |error of the total| over the geounits of each geolevel, by key."""
        found = []
        for key in range(KEYS):
            out = tmp_path / f"{name} {key}"
            run.run_release(one, out, test_key=insecure_key(f"totals first {key}"))
            counts = [read_histogram(out, level, plan.schema, spine) for level in spine.geolevels]
            pairs = zip(counts, truth, strict=True)
            found.append([np.abs(totals(estimate) - totals(true)).sum() for estimate, true in pairs])
        return np.array(found)

    production, one_pass = errors(plan, "production"), errors(in_one_pass(plan), "one pass")
    assert (production[:, 0] == 0).all()
    assert (one_pass[:, 0] == 0).all()
    gain = (one_pass - production).sum(axis=1)
    assert gain.mean() > 2 * gain.std(ddof=1) / np.sqrt(KEYS)
