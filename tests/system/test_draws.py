"""`tallyveil draws`: whole tables that agree with everything public, for any number of threads, if chains agree."""

import json

import numpy as np
import polars as pl
import pytest

import tallyveil
from tallyveil.errors import TallyveilError


@pytest.fixture(scope="module")
def release(make_small_inputs, tmp_path_factory):
    """A finished release of 48 blocks."""
    folder = tmp_path_factory.mktemp("draws")
    return tallyveil.run(
        make_small_inputs(folder / "inputs"), folder / "release", insecure_test_key="draws"
    ).path


@pytest.fixture(scope="module")
def made(release, tmp_path_factory):
    """Draws of its blocks."""
    out = tmp_path_factory.mktemp("made") / "draws"
    return tallyveil.make_draws(release, out, number=100, experimental_blocks=True, workers=2)


def test_every_draw_agrees_with_invariants_and_bounds(release, made):
    opened = tallyveil.open(release)
    exact = opened.table("Region", "total")["count"].to_list()
    regions = made.values("Region", "total")["draws"].to_numpy()
    assert regions.shape == (2, 100)
    assert all((regions[:, i] == exact).all() for i in range(100))
    blocks = made.values("Block", "home")
    bounds = pl.read_parquet(release.parent / "inputs" / "barracks.parquet")
    open_places = bounds.select("geocode", "home", "lower")
    with_limits = blocks.join(open_places, on=["geocode", "home"], how="left")
    draws = with_limits["draws"].to_numpy()
    assert (draws[with_limits["lower"].is_null().to_numpy()] == 0).all()
    assert (draws >= with_limits["lower"].fill_null(0).to_numpy()[:, None]).all()
    # No young person lives in barracks: a structural zero of the schema.
    cells = made.values("Block", "age*home").filter(
        (pl.col("age") == "young") & (pl.col("home") == "barracks")
    )
    assert (cells["draws"].to_numpy() == 0).all()


def test_tables_say_what_draws_say(made):
    values, table = made.values("Town", "age"), made.table("Town", "age", level=0.9)
    draws = values["draws"].to_numpy()
    assert table["mean"].to_numpy() == pytest.approx(draws.mean(axis=1))
    assert table["standard_deviation"].to_numpy() == pytest.approx(draws.std(axis=1, ddof=1))
    inside = (draws >= table["lower"].to_numpy()[:, None]) & (draws <= table["upper"].to_numpy()[:, None])
    assert (inside.mean(axis=1) >= 0.9).all()
    # Sums of blocks are those of towns, draw by draw.
    blocks = (
        made.values("Block", "age")["draws"].to_numpy().reshape(8, 6, 3, 100).sum(axis=1).reshape(24, 100)
    )
    assert (blocks == draws).all()
    assert "too narrow" in repr(made)
    assert made.description["convergence"]["reduction"] <= 1.01


def test_draws_are_near_the_measurements_and_differ(release, made):
    opened = tallyveil.open(release)
    published = opened.table("Town", "age")["count"].to_numpy()
    table = made.table("Town", "age")
    errors = table["mean"].to_numpy() - published
    assert np.abs(errors).mean() < 3 * table["standard_deviation"].to_numpy().mean()
    assert (table["standard_deviation"].to_numpy() > 0).mean() > 0.9


def test_threads_do_not_matter_and_seeds_do(release, made, tmp_path):
    again = tallyveil.make_draws(release, tmp_path / "a", number=100, experimental_blocks=True, workers=1)
    other = tallyveil.make_draws(release, tmp_path / "b", number=3, seed=2)
    assert again.values("Block", "total").equals(made.values("Block", "total"))
    assert other.description["geolevel"] == "Town"
    assert not other.values("Town", "age").equals(made.values("Town", "age"))
    with pytest.raises(TallyveilError, match="no draws of 'Block'"):
        other.values("Block", "age")
    with pytest.raises(TallyveilError, match="needs 40 draws"):
        other.table("Town", "age")


def test_the_command(release, tmp_path, command):
    said = json.loads(command("draws", release, "--out", tmp_path / "d", "--number", "2", "--json"))
    assert said["number"] == 2
    assert said["geolevel"] == "Town"
    assert "too narrow" in (tmp_path / "d" / "README.txt").read_text()
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == [
        "README.txt",
        "draw-001",
        "draw-002",
        "draws.json",
    ]
    command("draws", release, "--out", tmp_path / "e", "--number", "105", code=2)
    command("draws", release, "--out", tmp_path / "d", code=2)


def test_chains_that_disagree_publish_nothing(release, tmp_path, monkeypatch):
    # Chains as far apart as no sweep can bring together: half of them are held where they began.
    from tallyveil.estimation.posterior.chain import Chain

    run = Chain.run
    monkeypatch.setattr(
        Chain, "run", lambda chain, sweeps, **how: 0 if chain.number == 1 else run(chain, sweeps, **how)
    )
    with pytest.raises(TallyveilError, match="Nothing was written") as raised:
        tallyveil.make_draws(release, tmp_path / "d", number=2, sweeps=500)
    assert raised.value.code == "draws-not-converged"
    assert not (tmp_path / "d" / "draws.json").exists()


def test_draws_of_another_release_are_refused(release, made, make_small_inputs, tmp_path):
    other = tallyveil.run(
        make_small_inputs(tmp_path / "in"), tmp_path / "other", insecure_test_key="other"
    ).path
    with pytest.raises(TallyveilError, match="another release"):
        tallyveil.open_draws(made.path, other)


def test_imputations_are_combined():
    got = tallyveil.combined([1.0, 2.0, 3.0], [0.5, 0.5, 0.5])
    assert got["estimate"] == 2.0
    assert got["standard_error"] ** 2 == pytest.approx(0.5 + 4 / 3)
    assert got["degrees_of_freedom"] == pytest.approx(2 / ((4 / 3) / (0.5 + 4 / 3)) ** 2)
    with pytest.raises(TallyveilError):
        tallyveil.combined([1.0], [1.0])
