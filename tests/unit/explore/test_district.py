"""What a site holds of the covariances of a release or plan, and that the page makes the same of it as Python."""

import json
import runpy
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.outer_worlds import write_persons
from tests.unit.explore.nodes import node_needed
from tests.unit.explore.numerics.compared import (
    page_variances,
    python_variances,
    random_districts,
    require_equal,
)
from tests.unit.explore.numerics.in_node import ask_node

import tallyveil.explore.district as module
from tallyveil.errors import StoreError
from tallyveil.explore.district import (
    DISTRICT_FILE,
    NUMBERS_FILE,
    inner_bytes,
    write_district,
    write_planned_district,
)
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.derived.district import district_answers
from tallyveil.postprocess.intervals.fits import IntervalFit, fits_of, planned_fits, table_model
from tallyveil.postprocess.intervals.job import make_intervals
from tallyveil.postprocess.intervals.model import open_release, plan_measured
from tallyveil.products.topdown.run.inputs import read_hierarchies
from tallyveil.products.topdown.run.run import run_release

EXAMPLES = Path(__file__).parents[3] / "examples" / "rhode_island"
TABLES = ("total", "age*home", "home")


@pytest.fixture(scope="module")
def root(make_small_inputs, tmp_path_factory):
    """A release with zeros, an invariant and intervals."""
    folder = tmp_path_factory.mktemp("district")
    run_release(
        load_plan(make_small_inputs(folder / "inputs")), folder / "out", test_key=bytes(32), workers=1
    )
    make_intervals(folder / "out", tables=TABLES, workers=1)
    return folder / "out"


@pytest.fixture
def release(root):
    return open_release(root)


@pytest.fixture
def groups(release):
    return tuple(release.schema.query(name) for name in TABLES)


def content(site):
    return json.loads((site / DISTRICT_FILE).read_text())


@node_needed
def test_standard_errors_and_intervals_are_those_of_the_command(root, release, groups, tmp_path):
    spine = release.spine
    rows = np.arange(spine.n_geounits(spine.finest))
    assert write_district(tmp_path, root, groups, rows) is None
    districts = random_districts(spine, 10, seed=1)
    found = page_variances(tmp_path, districts)
    fits = fits_of(release, groups, with_bounds=True)
    require_equal(found, python_variances(fits, spine, rows, districts))
    codes = pl.Series(spine.geocodes[-1].text)
    for (plus, minus), variances in zip(districts, found, strict=True):
        given = district_answers(
            root,
            codes.gather(plus),
            minus=None if minus is None else codes.gather(minus),
            tables=TABLES,
            simultaneous=True,
            workers=1,
        )
        errors = [line.standard_error for line in given.answers]
        np.testing.assert_allclose(np.sqrt(variances), errors, atol=2e-6)
        asked = {
            "level": 0.95,
            "together": len(errors),
            "gaussian": True,
            "difference": minus is not None,
        }
        estimates = [str(line.estimate) for line in given.answers]
        intervals = ask_node(
            "district", estimates=estimates, variances=[str(one) for one in variances], asked=asked
        )
        assert intervals == [[line.lower, line.upper] for line in given.answers]


@pytest.mark.nightly
@node_needed
def test_intervals_that_left_bounds_out_have_districts_without_them(root, release, groups, tmp_path):
    rows = np.arange(release.spine.n_geounits(release.spine.finest))
    districts = random_districts(release.spine, 5, seed=2)
    fits = [fits_of(release, groups, with_bounds=with_bounds) for with_bounds in (False, True)]
    without, with_bounds = (python_variances(fit, release.spine, rows, districts) for fit in fits)
    assert not np.allclose(without, with_bounds)
    try:
        make_intervals(root, tables=TABLES, with_bounds=False, workers=1)
        assert write_district(tmp_path, root, groups, rows) is None
    finally:
        make_intervals(root, tables=TABLES, workers=1)
    require_equal(page_variances(tmp_path, districts), without)


def test_the_description_has_no_measurement_and_the_same_bytes_again(root, release, groups, tmp_path):
    rows = np.arange(release.spine.n_geounits(release.spine.finest))
    for site in (tmp_path / "one", tmp_path / "other"):
        assert write_district(site, root, groups, rows) is None
    for name in (DISTRICT_FILE, NUMBERS_FILE):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    made = content(tmp_path / "one")
    assert made["gaussian"]
    assert made["order"] is None
    assert [table["name"] for table in made["tables"]] == list(TABLES)
    assert [level["name"] for level in made["fits"][0]["levels"]] == ["", "Region", "Town", "Block"]
    assert (tmp_path / "one" / NUMBERS_FILE).stat().st_size < 20_000


def test_what_is_too_large_for_a_browser_is_left_out_with_the_reason(
    root, release, groups, tmp_path, monkeypatch
):
    rows = np.arange(release.spine.n_geounits(release.spine.finest))
    with monkeypatch.context() as patch:
        patch.setattr(module, "LARGEST_MEMORY", 1_000)
        assert "of memory in a browser" in write_district(tmp_path, root, groups, rows)
    with monkeypatch.context() as patch:
        patch.setattr(module, "LARGEST_FILE", 1_000)
        assert "its arrays would take" in write_district(tmp_path, root, groups, rows)
    assert not (tmp_path / "data").exists()


def test_a_release_without_its_bounds_says_so_and_one_with_changed_bounds_is_refused(
    make_small_inputs, tmp_path
):
    plan = load_plan(make_small_inputs(tmp_path / "inputs"))
    root = run_release(plan, tmp_path / "out", test_key=bytes(32), workers=1).path
    rows, groups = np.arange(48), (plan.query("total"),)
    bounds = root / "bounds" / "00.parquet"
    held = bounds.read_bytes()
    bounds.write_bytes(held[:-1] + b"?")
    with pytest.raises(StoreError):
        write_district(tmp_path / "site", root, groups, rows)
    bounds.unlink()
    why = write_district(tmp_path / "site", root, groups, rows)
    assert "does not hold its public bounds" in why
    assert str(tmp_path) not in why


@node_needed
def test_laplace_noise_has_standard_errors(edit, tmp_path):
    path = edit('mechanism = "discrete_gaussian"\nrho = "2"', 'mechanism = "discrete_laplace"\nepsilon = "2"')
    path.write_text(path.read_text().replace('[strategy]\nrho = "2"', '[strategy]\nepsilon = "2"'))
    plan = load_plan(path)
    require_planned(plan, tmp_path / "site")
    assert not content(tmp_path / "site")["gaussian"]


def require_planned(plan, site, n_districts=10, queries=None):
    """A plan's districts, with the finest geounits in the order of the geography that people know."""
    hierarchies = read_hierarchies(plan)
    spine, known = hierarchies.spine, hierarchies.original
    groups = [plan.query(name) for name in queries or plan.tables]
    rows = spine.locate(spine.finest, known.geocodes[known.finest].text)
    assert write_planned_district(site, plan, hierarchies, groups, rows) is None
    districts = random_districts(known, n_districts, seed=3)
    fits = planned_fits(plan, hierarchies, groups)
    require_equal(page_variances(site, districts), python_variances(fits, spine, rows, districts))
    return rows


@node_needed
def test_a_spine_of_its_own_is_asked_by_the_geography_that_people_know(small_release, tmp_path):
    blocks = pl.read_parquet(small_release.parent / "geography.parquet")["geocode"].to_list()
    places = ["elm" if 4 <= k < 15 else "oak" if k % 6 == 1 else None for k in range(len(blocks))]
    frame = pl.DataFrame(
        {"geocode": blocks, "place": places}, schema={"geocode": pl.String, "place": pl.String}
    )
    frame.write_parquet(small_release.parent / "entities.parquet")
    steps = """
[spine]
entities = "entities.parquet"
families = ["place"]
bypass = true
[[spine.steps]]
kind = "group_by_membership"
families = ["place"]
geolevel = "Cluster"
children = "Block"
cutoff = 1
"""
    text = small_release.read_text().replace('Block = "1/2"', 'Cluster = "1/4"\nBlock = "1/4"')
    small_release.write_text(text + steps)
    site = tmp_path / "site"
    rows = require_planned(load_plan(small_release), site)
    assert not np.array_equal(rows, np.arange(len(rows)))
    made = content(site)
    assert made["order"] is not None
    assert any(level["precision_of"] is not None for level in made["fits"][0]["levels"])


@node_needed
def test_the_page_knows_the_exact_total_of_a_region_in_two_parts(small_release, tmp_path):
    blocks = pl.read_parquet(small_release.parent / "geography.parquet")["geocode"]
    inside = pl.when(pl.col("geocode").is_in(["Q0002", "Q0301"])).then(pl.lit("r")).alias("reserve")
    frame = blocks.to_frame().with_columns(inside)
    frame.write_parquet(small_release.parent / "entities.parquet")
    branch = """
[spine]
entities = "entities.parquet"
families = ["reserve"]
[[spine.steps]]
kind = "branch"
family = "reserve"
geolevel = "Region"
name = "R"
"""
    small_release.write_text(small_release.read_text() + branch)
    require_planned(load_plan(small_release), tmp_path, queries=["total"])
    region = np.flatnonzero(blocks.sort().str.starts_with("Q"))
    whole, part = page_variances(tmp_path, [(region, None), (region[:5], None)])
    assert whole.tolist() == [0]
    assert part[0] > 1


@node_needed
def test_tables_with_a_model_each_have_descriptions_of_their_own(tmp_path, monkeypatch):
    coarse, detailed = write_persons(tmp_path)
    run_release(load_plan(coarse), tmp_path / "coarse", test_key=bytes(32), workers=1)
    text = detailed.read_text()
    assert 'measurements = "none"' in text
    detailed.write_text(text.replace('measurements = "none"', 'measurements = "small"'))
    plan = load_plan(detailed)
    hierarchies = read_hierarchies(plan)
    rows = np.arange(hierarchies.spine.n_geounits(hierarchies.spine.finest))
    groups = [plan.query(name) for name in plan.tables]
    assert write_planned_district(tmp_path / "site", plan, hierarchies, groups, rows) is None
    tables = content(tmp_path / "site")["tables"]
    assert len({table["fit"] for table in tables}) == len(groups) > 1
    measured = plan_measured(plan, hierarchies)
    fits = []
    for group in groups:
        merged = table_model(measured, group)
        fits.append(IntervalFit((group,), merged.tree, measured, merged))
    districts = random_districts(hierarchies.spine, 6, seed=4)
    wanted = python_variances(fits, hierarchies.spine, rows, districts)
    require_equal(page_variances(tmp_path / "site", districts), wanted)
    # the limit is for all models together
    monkeypatch.setattr(module, "LARGEST_MEMORY", inner_bytes(fits[0]))
    assert write_planned_district(tmp_path / "less", plan, hierarchies, groups, rows) is None
    less = content(tmp_path / "less")["tables"]
    assert less[0]["fit"] == 0
    assert "of memory in a browser" in less[1]["why"]


@node_needed
def test_fifty_districts_of_rhode_island(shared_data, tmp_path):
    """Real blocks, with public housing units, so that empty blocks are known to be empty."""
    runpy.run_path(str(EXAMPLES / "housing_units.py"))["main"](shared_data, tmp_path / "bounds")
    text = (EXAMPLES / "bounded.toml").read_text()
    text = text.replace("../../../shared/data", shared_data.as_posix())
    path = tmp_path / "bounded.toml"
    path.write_text(text.replace("../../releases/rhode-island-bounds", (tmp_path / "bounds").as_posix()))
    require_planned(load_plan(path), tmp_path / "site", 50)
    assert (tmp_path / "site" / NUMBERS_FILE).stat().st_size < 1_000_000
