"""Predictions: near what was measured, growing with what they are for, and made without data."""

import json
from dataclasses import replace
from fractions import Fraction

import pytest

from tallyveil.api.beginning import _filled
from tallyveil.errors import ConfigError
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.machine import machine_memory
from tallyveil.plans.resources import (
    MIB,
    SWEEP_BYTES,
    SWEPT_BYTES,
    UNDETERMINED,
    predict,
    sizes_of_blocks,
    sizes_of_spine,
    warn_small_machine,
)
from tallyveil.products.topdown.run.inputs import read_spine
from tallyveil.products.topdown.run.run import run_release
from tallyveil.runs.timings import Timings


@pytest.fixture
def redistricting(tmp_path):
    import polars as pl

    paths = {name: tmp_path / f"{name}.parquet" for name in ("records", "geography", "facilities")}
    pl.DataFrame({"state": ["97", "98"]}).write_parquet(paths["geography"])
    release = tmp_path / "release.toml"
    release.write_text(_filled("pl94-persons", "us", paths))
    return load_plan(release)


# Memory in MiB and seconds of whole runs: by benchmarks/predictions.py and, for the country, on two idle cores.
# The country keeps the measurements on the support, and has no microdata.
@pytest.mark.parametrize(
    ("blocks", "people", "kept", "memory", "seconds"),
    [
        (20, 500, "full", 388, 2.6),
        (421_545, 12_700_000, "full", 1_333, 54),
        (8_000_000, 330_000_000, "support", 4_813, 249),
    ],
)
def test_predictions_are_near_what_was_measured(redistricting, blocks, people, kept, memory, seconds):
    plan = replace(redistricting, microdata=kept == "full", measurements=kept)
    found = predict(plan, sizes_of_blocks(6, blocks, people))
    assert memory / 1.5 < found.memory / MIB < 1.5 * memory
    assert seconds / 1.5 < found.total_seconds < 1.5 * seconds


def test_more_people_more_blocks_and_microdata_need_more(redistricting):
    small, large, crowded = (
        predict(replace(redistricting, microdata=False), sizes_of_blocks(6, *size))
        for size in ((100_000, 4_000_000), (400_000, 16_000_000), (100_000, 16_000_000))
    )
    for more in (large, crowded):
        assert more.memory > small.memory
        assert more.disk > small.disk
        assert more.total_seconds > small.total_seconds
    with_microdata = predict(redistricting, small.sizes)
    assert with_microdata.disk > small.disk
    assert with_microdata.total_seconds > small.total_seconds


def test_cells_that_are_not_measured_take_longer(small_release, edit):
    sizes = sizes_of_blocks(3, 1_000)
    usual = dict(predict(load_plan(small_release), sizes).seconds)
    more = dict(predict(load_plan(edit('"age*home" = "1/2"', 'home = "1/2"')), sizes).seconds)
    slower = {stage for stage in usual if more[stage] > usual[stage]}
    assert slower == {"estimate Region", "estimate Town", "estimate Block"}


def in_passes(plan, n):
    """The plan with its queries in so many passes at every geolevel, all but the last of one query."""
    names = [(name, item, [query for own in item.passes for query in own]) for name, item in plan.estimation]
    split = [
        (name, item, (*((query,) for query in own[: n - 1]), tuple(own[n - 1 :])))
        for name, item, own in names
    ]
    return replace(plan, estimation=tuple((name, replace(item, passes=own)) for name, item, own in split))


def test_every_pass_over_cells_that_are_not_measured_takes_as_long_as_the_first(edit):
    plan = load_plan(edit('"age*home" = "1/2"', 'home = "1/2"'))
    one, two = (predict(in_passes(plan, n), sizes_of_blocks(3, 1_000)) for n in (1, 2))
    support = dict(two.seconds)["estimate Region"] - dict(one.seconds)["estimate Region"]
    # At the root, the support is all cells.
    assert support == pytest.approx(UNDETERMINED * one.sizes.geounits[0] * plan.schema.size)


@pytest.mark.parametrize(("passes", "seconds"), [(1, 2.65), (3, 7.83)])
def test_predictions_for_cells_that_are_not_measured_are_near_what_was_measured(passes, seconds):
    """684 cells, 1,204 geounits with 823,536 cells of supports: processor seconds of estimation on one core."""
    assert 0.8 < UNDETERMINED * 823_536 * passes / (seconds / 2) < 1.5


def test_intervals_are_foreseen(redistricting):
    """About Rhode Island with its five tables: 25,000 blocks took 6.0 s for 99 MiB of intervals, and 1.3 GiB in all."""
    plain, made = (
        predict(replace(redistricting, intervals=level), sizes_of_blocks(6, 25_181, 1_052_567))
        for level in (None, Fraction(19, 20))
    )
    assert "intervals" not in dict(plain.seconds)
    assert 4 < dict(made.seconds)["intervals"] < 9
    assert 0.9 < made.memory / MIB / 1_346 < 1.5
    assert 99 < (made.disk - plain.disk) / MIB < 150


def with_values(plan, values):
    """The plan with values of one kind above the finest geolevel."""
    *above, finest = plan.estimation
    return replace(plan, estimation=(*((name, replace(item, values=values)) for name, item in above), finest))


def test_a_country_with_values_of_the_tree_stays_under_eight_gibibytes(redistricting):
    """A sweep of 2 million blocks was measured; its rounded cells take four bytes each."""
    own = replace(redistricting, microdata=False)
    usual, tree = (
        predict(plan, sizes_of_blocks(6, 8_000_000, 330_000_000)) for plan in (own, with_values(own, "tree"))
    )
    answers = [sum(own.query(name).size for name in own.strategy.queries(level)) for level in own.geolevels]
    kept = [n * most for n, most in zip(usual.sizes.geounits, answers, strict=True)]
    # Answers are more than the 2,016 cells.
    assert tree.memory - usual.memory == SWEPT_BYTES * sum(kept[:-1]) + SWEEP_BYTES * max(answers)
    assert tree.memory < 8 << 30
    assert 60 < dict(tree.seconds)["values of the tree"] < 300


def test_stages_are_those_of_a_run(small_release, tmp_path):
    spine = read_spine(load_plan(small_release).geography)
    for values in ("own", "tree"):
        plan = with_values(load_plan(small_release), values)
        timings = tmp_path / f"{values}.jsonl"
        run_release(plan, tmp_path / values, test_key=bytes(32), observer=Timings(timings))
        ended = {json.loads(line)["stage"] for line in timings.read_text().splitlines()}
        names = {name for name, _ in predict(plan, sizes_of_spine(spine)).seconds}
        assert names - {"start"} == ended - {"compile kernels", "read geography", "compile constraints"}


def test_sizes_of_a_geography_are_its_own(small_release):
    spine = read_spine(load_plan(small_release).geography)
    assert sizes_of_spine(spine).geounits == (2, 8, 48)
    assert sizes_of_spine(spine).people == 48 * 40
    assert sizes_of_spine(spine, 7).people == 7


def test_sizes_of_blocks_are_shaped_like_the_census():
    sizes = sizes_of_blocks(6, 8_000_000, 330_000_000)
    assert sizes.geounits[0] == 1
    assert sizes.geounits[-1] == 8_000_000
    assert 200_000 < sizes.geounits[-2] < 300_000
    assert 60_000 < sizes.geounits[-3] < 90_000
    assert list(sizes.geounits) == sorted(sizes.geounits)
    assert sizes_of_blocks(1, 5).geounits == (5,)


@pytest.mark.parametrize("arguments", [(3, 0), (3, 5, -1)])
def test_impossible_sizes_are_refused(arguments):
    with pytest.raises(ConfigError, match="sizes to predict for"):
        sizes_of_blocks(*arguments)


def test_sizes_of_another_hierarchy_are_refused(small_release):
    with pytest.raises(ConfigError, match="sizes of 6 geolevels for a plan of 3"):
        predict(load_plan(small_release), sizes_of_blocks(6, 100))


def test_a_small_machine_is_warned_of(redistricting):
    resources = predict(redistricting, sizes_of_blocks(6, 8_000_000))
    assert warn_small_machine(resources, resources.memory) is None
    warning = warn_small_machine(resources, 2 << 30)
    assert warning is not None
    assert "this process may use 2.0 GiB" in warning


def test_the_least_limit_counts(tmp_path):
    container, unlimited = tmp_path / "container", tmp_path / "unlimited"
    container.write_text("1048576\n")
    unlimited.write_text("max\n")
    machine = machine_memory([])
    assert machine > 1 << 28
    assert machine_memory([unlimited, tmp_path / "absent"]) == machine
    assert machine_memory([container, unlimited]) == 1 << 20


def test_a_limit_on_addresses_counts(monkeypatch):
    monkeypatch.setattr("tallyveil.plans.machine.limited_memory", lambda: 1 << 21)
    assert machine_memory([]) == 1 << 21
    monkeypatch.setattr("tallyveil.plans.machine.limited_memory", lambda: 0)
    assert machine_memory([]) == 0
    monkeypatch.setattr("tallyveil.plans.machine.limited_memory", lambda: 1 << 60)
    assert 1 << 28 < machine_memory([]) < 1 << 60
