"""Constraints on sums of siblings: what is stated for geounits that the spine cuts holds for their parts together."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from tests.samples import nightly

import tallyveil
import tallyveil.postprocess.publish as running
from tallyveil.budget.optimal.aims import Aim, Aims, VarianceModel
from tallyveil.budget.optimal.choose import present_shares
from tallyveil.errors import BudgetError, ConstraintError, GeographyError, SolverError
from tallyveil.files.checks import check_release
from tallyveil.geography.areas import stated_geounits
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.derived.district import district_answers
from tallyveil.postprocess.estimate import estimate_release
from tallyveil.postprocess.intervals.expected_deviations import expected_deviations
from tallyveil.postprocess.intervals.job import make_intervals
from tallyveil.postprocess.intervals.model import open_release
from tallyveil.postprocess.measured import open_measurements
from tallyveil.products.topdown.run.inputs import read_hierarchies, read_histograms
from tallyveil.products.topdown.run.optimal_shares import optimal_shares, variances_by_share
from tallyveil.products.topdown.run.preparation import compile_constraints
from tallyveil.products.topdown.run.public import read_public
from tallyveil.products.topdown.run.run import measure_release, run_release

pytestmark = pytest.mark.long

KEY = insecure_key("sums test")
BRANCH = """
[spine]
entities = "entities.parquet"
families = ["reserve"]
[[spine.steps]]
kind = "branch"
family = "reserve"
geolevel = "Region"
name = "R"
"""
REGIONS = """
[[bounds]]
name = "region"
query = "home"
geolevel = "Region"
path = "regions.parquet"
missing = "unbounded"
"""


def write_reserve(folder) -> pl.DataFrame:
    """A reserve in both regions; region Q has blocks of it and others in the same town, P a whole town of it."""
    blocks = pl.read_parquet(folder / "geography.parquet")["geocode"].to_list()
    inside = [b for b in blocks if b[:3] == "P01" or b in ("Q0002", "Q0003", "Q0301")]
    frame = pl.DataFrame({"geocode": blocks, "reserve": ["r" if b in inside else None for b in blocks]})
    frame.write_parquet(folder / "entities.parquet")
    return frame


def write_regions(folder, slack: int = 3) -> None:
    people = pl.read_parquet(folder / "people.parquet")
    sums = people.group_by(pl.col("geocode").str.head(1), "home").agg(pl.col("count").sum())
    sums.select(
        "geocode", "home", lower=pl.col("count") - slack, upper=pl.col("count") + slack
    ).write_parquet(folder / "regions.parquet")


@pytest.fixture(params=[nightly("roots"), "children"])
def release(small_release, request):
    """The regions are cut; they are roots, or children of one nation."""
    folder = small_release.parent
    write_reserve(folder)
    write_regions(folder)
    text = small_release.read_text().replace("[outputs]\n", REGIONS + '\n[outputs]\nmeasurements = "full"\n')
    if request.param == "children":
        text = text.replace('["Region", "Town", "Block"]', '["Nation", "Region", "Town", "Block"]')
        text = text.replace("prefix_lengths = [1, 3, 5]", "prefix_lengths = [0, 1, 3, 5]")
        text = text.replace("[strategy.geolevels]\n", '[strategy.geolevels]\nNation = "1/8"\n', 1)
        text = text.replace('Region = "1/4"', 'Region = "1/8"')
    small_release.write_text(text + BRANCH)
    return small_release


def test_regions_whose_parts_lie_between_each_other_are_refused_before_records_are_opened(small_release):
    """The parts of P are `P+R` and `P-R`. Those of `P,` lie between them."""
    folder = small_release.parent
    write_reserve(folder)
    (folder / "people.parquet").unlink()
    region = pl.col("geocode").str.head(1).replace_strict({"P": "P", "Q": "P,"})
    blocks = pl.read_parquet(folder / "geography.parquet").with_columns(
        region=region, town=pl.col("geocode").str.head(3)
    )
    blocks.write_parquet(folder / "geography.parquet")
    text = small_release.read_text().replace(
        "prefix_lengths = [1, 3, 5]", 'parent_columns = ["region", "town"]'
    )
    small_release.write_text(text + BRANCH)
    with pytest.raises(GeographyError, match="between the parts of 'P'") as caught:
        read_hierarchies(load_plan(small_release))
    assert caught.value.code == "not-on-spine"


def region_sums(root, columns=()) -> dict:
    blocks = pl.read_parquet(root / "histogram" / "Block.parquet").with_columns(
        pl.col("home").cast(pl.String)
    )
    keys = [pl.col("geocode").str.head(1), *columns]
    return {row[:-1]: row[-1] for row in blocks.group_by(*keys).agg(pl.col("count").sum()).iter_rows()}


def true_sums(folder, columns=()) -> dict:
    people = pl.read_parquet(folder / "people.parquet")
    keys = [pl.col("geocode").str.head(1), *columns]
    return {row[:-1]: row[-1] for row in people.group_by(*keys).agg(pl.col("count").sum()).iter_rows()}


def test_a_region_in_two_parts_keeps_its_total_and_its_bounds(release, tmp_path):
    plan = load_plan(release)
    out = run_release(plan, tmp_path / "out", test_key=KEY)
    parts = set(pl.read_parquet(out.path / "histogram" / "Region.parquet")["geocode"])
    assert parts == {"P+R", "P-R", "Q+R", "Q-R"}
    assert region_sums(out.path) == true_sums(release.parent)
    truth = true_sums(release.parent, ["home"])
    for key, persons in region_sums(out.path, ["home"]).items():
        assert abs(persons - truth[key]) <= 3
    table = pl.read_parquet(out.path / "tables" / "geolevel=Region" / "query=total" / "*.parquet")
    assert dict(table.select("geocode", "count").iter_rows()) == {
        k[0]: v for k, v in true_sums(release.parent).items()
    }
    kept = [name for name in out.manifest.checks if "makes one Region" in name]
    assert len(kept) == 2
    above = "at Nation and every" if "Nation" in plan.geolevels else "at every"
    assert all(f"holds {above} sum of Region geounits" in name for name in kept)
    written = pl.read_parquet(out.path / "invariants" / "00.parquet")
    assert written["geocode"].to_list() == ["P", "Q"]


@pytest.mark.nightly
def test_measured_and_estimated_apart_they_are_the_same_counts(release, tmp_path):
    plan = load_plan(release)
    whole = run_release(plan, tmp_path / "whole", test_key=KEY).path
    measure_release(plan, tmp_path / "measured", test_key=KEY)
    apart = estimate_release(open_measurements(tmp_path / "measured"), tmp_path / "apart").path
    for path in sorted(whole.glob("histogram/*.parquet")):
        assert pl.read_parquet(path).equals(pl.read_parquet(apart / "histogram" / path.name))


@pytest.mark.nightly
@pytest.mark.parametrize("release", ["children"], indirect=True)
def test_neither_workers_nor_interruptions_change_the_counts(release, tmp_path, killed_at):
    plan = load_plan(release)
    whole = run_release(plan, tmp_path / "whole", test_key=KEY, workers=1).path
    out = tmp_path / "killed"
    assert killed_at(24, lambda: run_release(plan, out, test_key=KEY, workers=2))
    run_release(plan, out, test_key=KEY, workers=2)
    for path in sorted(whole.glob("histogram/*.parquet")):
        assert path.read_bytes() == (out / "histogram" / path.name).read_bytes()


@pytest.mark.nightly
def test_the_check_reads_the_sums_from_the_files(release, tmp_path, monkeypatch):
    def with_other_totals(root, promises):
        first, *others = promises.bounded
        lower = (*first.lower[:-1], np.array([[1], [1]]))
        other = [first._replace(lower=lower, upper=lower), *others]
        return check_release(root, replace(promises, bounded=other))

    monkeypatch.setattr(running, "check_release", with_other_totals)
    with pytest.raises(SolverError, match="every sum of Region geounits that makes one Region"):
        run_release(load_plan(release), tmp_path / "out", test_key=KEY)


def test_records_that_break_bounds_on_a_sum_stop_the_run(release, tmp_path):
    write_regions(release.parent, slack=-1)
    frame = pl.read_parquet(release.parent / "regions.parquet")
    frame.with_columns(lower=pl.lit(0)).write_parquet(release.parent / "regions.parquet")
    with pytest.raises(ConstraintError) as caught:
        run_release(load_plan(release), tmp_path / "out", test_key=KEY)
    assert caught.value.code in {"bounds-broken", "constraints-conflict"}
    assert not (tmp_path / "out").exists()


def test_bounds_on_sums_and_on_children_that_contradict_each_other_stop_the_run(release, tmp_path):
    """A block's facility asks for more people than the region's sum allows."""
    path = release.parent / "barracks.parquet"
    first = pl.col("home").cum_count().over("home") == 1
    frame = pl.read_parquet(path)
    frame.with_columns(
        lower=pl.when(first & (pl.col("home") == "barracks")).then(9_999).otherwise(pl.col("lower"))
    ).write_parquet(path)
    with pytest.raises(ConstraintError, match="contradict each other") as caught:
        run_release(load_plan(release), tmp_path / "out", test_key=KEY)
    assert caught.value.code == "constraints-conflict"
    assert not (tmp_path / "out").exists()


def test_towns_whose_parts_are_no_siblings_are_refused(release, tmp_path):
    """A town's parts lie in two parts of its region."""
    release.write_text(release.read_text().replace('geolevels = ["Region"]\n', 'geolevels = ["Town"]\n', 1))
    with pytest.raises(GeographyError, match="not all children of one geounit") as caught:
        run_release(load_plan(release), tmp_path / "out", test_key=KEY)
    assert caught.value.code == "not-on-spine"
    assert not (tmp_path / "out").exists()


def test_counts_drawn_on_a_lattice_keep_only_invariants_of_whole_geounits(release, tmp_path):
    draw = '[[subspace]]\nquery = "home"\ngeolevel = "Block"\nrho = "1/2"\n'
    text = release.read_text().replace('[strategy]\nrho = "2"', '[strategy]\nrho = "3/2"')
    release.write_text(text.replace("[[invariants]]", f"{draw}[[invariants]]", 1))
    with pytest.raises(GeographyError, match="integer-subspace") as caught:
        run_release(load_plan(release), tmp_path / "out", test_key=KEY)
    assert caught.value.code == "not-on-spine"


@pytest.fixture
def with_intervals(release, tmp_path):
    out = run_release(load_plan(release), tmp_path / "out", test_key=KEY).path
    make_intervals(out)
    return out


@pytest.mark.nightly
def test_an_exact_total_of_a_region_in_two_parts_lies_in_its_interval(release, with_intervals):
    for name in ("intervals", "tables"):
        table = pl.read_parquet(with_intervals / name / "geolevel=Region" / "query=total" / "*.parquet")
        assert dict(table.select("geocode", "count").iter_rows()) == {
            key[0]: value for key, value in true_sums(release.parent).items()
        }
        exact = table.select("estimate", "lower", "upper").cast(pl.Int64)  # whole, or this raises
        assert all(exact[column].equals(table["count"].alias(column)) for column in exact.columns)
        assert table["standard_error"].to_list() == [0, 0]
    blocks = pl.read_parquet(with_intervals / "intervals/geolevel=Block/query=total/*.parquet")
    assert blocks["standard_error"].max() > 1


@pytest.mark.nightly
def test_an_exact_sum_is_known_wherever_its_counts_are_asked_for(release, with_intervals):
    """A district that is a whole region, quantities, and standard deviations before any data is opened."""
    finished = open_release(with_intervals)
    blocks = finished.spine.geocodes[-1].text
    region = blocks.filter(blocks.str.starts_with("Q"))
    (answer,) = district_answers(with_intervals, region, tables=["total"]).answers
    truth = true_sums(release.parent)[("Q",)]
    assert (answer.published, answer.estimate, answer.standard_error) == (truth, truth, 0)
    assert (answer.lower, answer.upper) == (truth, truth)
    opened = tallyveil.open(with_intervals)
    assert isinstance(opened, tallyveil.Release)
    reserve = pl.Series(["Q0002", "Q0003", "Q0301"])
    outside = region.filter(~region.is_in(reserve.to_list()))
    names = {"inside": reserve, "outside": outside, "all": region}
    counts = opened.quantities({name: opened.district(own).count("total") for name, own in names.items()})
    assert counts.sum("all").standard_error == 0
    assert counts.sum("inside").standard_error > 1
    inside, both, outside = counts.covariance[0, 0], counts.covariance[0, 1], counts.covariance[1, 1]
    assert inside == pytest.approx(-both) == pytest.approx(outside)


@pytest.mark.nightly
def test_a_plan_promises_the_standard_errors_that_the_release_has(release, with_intervals):
    plan = load_plan(release)
    hierarchies = read_hierarchies(plan)
    exact = {change.name for change in hierarchies.changes if change.made.greatest == 0}
    assert exact == {"Region", *(["Nation"] if "Nation" in plan.geolevels else [])}
    for item in expected_deviations(plan, hierarchies, (), queries=["total"]):
        path = with_intervals / "intervals" / f"geolevel={item.area}" / "query=total" / "*.parquet"
        assert pl.read_parquet(path)["standard_error"].to_list() == pytest.approx(
            item.deviations.ravel().tolist(), abs=1e-6
        )


def plain_plan(release):
    """The plan without zeros, which the variances by share do not use, and with one pass."""
    text = release.read_text().replace('[["total"], ["*"]]', '[["*"]]')
    start = text.index("[[schema.structural_zeros]]")
    release.write_text(text[:start] + text[text.index("[privacy]") :])
    return replace(load_plan(release), bounds=())


@pytest.mark.parametrize("query", ["home", "age*home"])
def test_better_shares_are_chosen_with_the_same_deviations(release, query):
    plan = plain_plan(release)
    hierarchies = read_hierarchies(plan)
    wanted = {
        item.area: item.deviations for item in expected_deviations(plan, hierarchies, (), queries=[query])
    }
    aims = Aims(VarianceModel.LEAST_SQUARES, aims=tuple(Aim(area, query) for area in wanted))
    found = variances_by_share(plan, aims).at(present_shares(plan.strategy)).values
    means = [float((deviations**2).mean()) for deviations in wanted.values()]
    assert found.tolist() == pytest.approx(means, rel=1e-5)


def fitted_from_the_root(plan, hierarchies):
    """Factors of all noise in the cells of every finest geounit, if families are fitted one after the other."""
    spine, schema, strategy = hierarchies.spine, plan.schema, plan.strategy
    sizes = [spine.n_geounits(level) * schema.size for level in range(spine.n_levels)]
    total = np.ones((1, schema.size))
    parts = stated_geounits(hierarchies, "Region", "the invariant")
    above = np.zeros((schema.size, sum(sizes)))
    for level, geolevel in enumerate(spine.geolevels):
        information = np.zeros((schema.size, schema.size))
        for query in strategy.queries(geolevel):
            group = schema.query(query)
            rows = np.equal.outer(np.arange(group.size), group.answers_of(np.arange(schema.size))) * 1.0
            information += (
                rows.T @ rows * float(2 * strategy.share(geolevel, query)) / strategy.answers_moved(query)
            )
        own = np.linalg.inv(information)
        n, begin = spine.n_geounits(level), sum(sizes[:level])
        noise = np.zeros((n * schema.size, sum(sizes)))
        noise[:, begin : begin + sizes[level]] = np.kron(np.eye(n), np.linalg.cholesky(own))
        parents = spine.parents(level) if level else np.zeros(n, np.int64)
        whole = np.eye(parents.max() + 1)[parents].T if level else np.zeros((0, n))
        known, right = np.kron(whole, np.eye(schema.size)), above if level else np.zeros((0, sum(sizes)))
        if level == parts.level:
            known = np.concatenate([known, np.kron(np.eye(2)[parts.groups].T, total)])
        elif level < parts.level:
            known = np.concatenate([known, np.kron(np.ones((1, n)), total)])
        right = np.concatenate([right, np.zeros((len(known) - len(right), sum(sizes)))])
        spread = np.kron(np.eye(n), own)
        gain = spread @ known.T @ np.linalg.pinv(known @ spread @ known.T)
        above = noise + gain @ (right - known @ noise)
    return above


@pytest.mark.parametrize("query", ["total", "home", "age*home"])
def test_shares_of_estimates_from_the_root_downwards_know_the_sums(release, query):
    """Against dense matrices, with the exact sums as constraints of the family that has the parts."""
    plan = plain_plan(release)
    hierarchies = read_hierarchies(plan)
    spine, group = hierarchies.spine, plan.query(query)
    finest = fitted_from_the_root(plan, hierarchies)
    answers = np.equal.outer(np.arange(group.size), group.answers_of(np.arange(plan.schema.size))) * 1.0
    aims = Aims(VarianceModel.TOP_DOWN, aims=tuple(Aim(area, query) for area in ("Town", "Region", "Block")))
    found = variances_by_share(plan, aims).at(present_shares(plan.strategy)).values
    towns, regions = hierarchies.replaced[::-1]
    assert (towns.name, regions.name) == ("Town", "Region")
    for value, area in zip(found, (towns, regions, None), strict=True):
        members = np.eye(spine.n_geounits(spine.finest))
        if area is not None:
            members = np.array([members[area.members_of(one)].sum(axis=0) for one in range(area.n_entities)])
        errors = np.kron(members, answers) @ finest
        assert value == pytest.approx((errors**2).sum(axis=1).mean(), rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("model", VarianceModel)
def test_an_aim_for_an_exact_sum_is_refused(release, model):
    with pytest.raises(BudgetError, match="'total' at Region is published exactly"):
        optimal_shares(load_plan(release), Aims(model, aims=(Aim("Region", "total"),)))


@pytest.mark.parametrize("release", ["roots"], indirect=True)
def test_the_total_of_one_region_in_two_parts_is_exact(release, tmp_path):
    """Both roots of the spine are parts of one region, whose total is an invariant."""
    for name in ("people", "geography", "entities", "regions", "barracks"):
        path = release.parent / f"{name}.parquet"
        pl.read_parquet(path).filter(pl.col("geocode").str.starts_with("P")).write_parquet(path)
    plan = load_plan(release)
    out = run_release(plan, tmp_path / "out", test_key=KEY).path
    assert open_release(out).spine.n_geounits(0) == 2
    make_intervals(out)
    blocks = pl.read_parquet(out / "intervals/geolevel=Block/query=total/*.parquet")
    (region,) = pl.read_parquet(out / "intervals/geolevel=Region/query=total/*.parquet").to_dicts()
    assert region["geocode"] == "P"
    assert region["standard_error"] == 0
    assert region["estimate"] == region["lower"] == region["upper"] == region["count"]
    assert blocks["estimate"].sum() == pytest.approx(region["count"], abs=1e-3)
    assert blocks["standard_error"].max() > 1
    opened = tallyveil.open(out)
    assert isinstance(opened, tallyveil.Release)
    places = {"region": opened.area("P"), "reserve": opened.area("r", "reserve")}
    counts = opened.quantities({name: area.count("total") for name, area in places.items()})
    assert counts.published[0] == region["count"]
    share = counts.share("reserve", "region")
    error = counts.sum("reserve").standard_error / region["count"]  # the whole is exact
    assert share.standard_error == pytest.approx(error)
    assert share.lower < share.published < share.upper


@pytest.mark.nightly
@pytest.mark.parametrize("shape", ["none inside", "one block inside", "whole regions"])
def test_regions_of_one_part_and_parts_without_people(release, tmp_path, shape):
    folder = release.parent
    frame = pl.read_parquet(folder / "entities.parquet")
    people = set(pl.read_parquet(folder / "people.parquet")["geocode"])
    empty = next(b for b in frame["geocode"] if b not in people)
    inside = {
        "none inside": [],
        "one block inside": [empty],
        "whole regions": [b for b in frame["geocode"] if b[0] == "P"],
    }[shape]
    text = pl.when(pl.col("geocode").is_in(inside)).then(pl.lit("r"))
    frame.with_columns(reserve=text).write_parquet(folder / "entities.parquet")
    out = run_release(load_plan(release), tmp_path / "out", test_key=KEY).path
    assert region_sums(out) == true_sums(folder)
    geocodes = set(pl.read_parquet(out / "geography.parquet")["Region"])
    assert geocodes == (
        {f"{empty[0]}+R", f"{empty[0]}-R", "P", "Q"} - {empty[0]} if shape[0] == "o" else {"P", "Q"}
    )


def test_bypassed_roots_keep_the_invariants_of_what_they_replace(small_release, tmp_path):
    """Laplace noise: the regions give their budget to their towns, which become the roots of the spine."""
    text = small_release.read_text()
    text = text.replace("discrete_gaussian", "discrete_laplace").replace('rho = "2"', 'epsilon = "2"')
    text = text.replace('Region = "1/4"', 'Region = "1/16"').replace('Town = "1/4"', 'Town = "7/16"')
    small_release.write_text(text + "\n[spine]\nbypass = true\n")
    plan = load_plan(small_release)
    made = read_hierarchies(plan)
    assert made.spine.n_geounits(0) == 8
    stated = stated_geounits(made, "Region", "the invariant")
    assert stated.level == 0
    assert stated.groups is not None
    assert stated.groups.tolist() == [0] * 4 + [1] * 4
    out = run_release(plan, tmp_path / "out", test_key=KEY)
    assert region_sums(out.path) == true_sums(small_release.parent)
    solver = out.manifest.body["solver"]["Region"]
    assert solver["families"] == 2


@pytest.mark.parametrize("release", ["children"], indirect=True)
def test_the_two_halves_of_the_truth_are_never_written(release, tmp_path):
    """The invariant has the sum of a region's parts alone, in memory and in the files."""
    plan = load_plan(release)
    made = read_hierarchies(plan)
    histograms = read_histograms(plan, made.spine)
    invariant = compile_constraints(plan, made, histograms, read_public(plan).bounds)[0]
    assert invariant.lower[-1].shape == (2, 1)
    out = run_release(plan, tmp_path / "out", test_key=KEY).path
    assert pl.read_parquet(out / "invariants" / "00.parquet").height == 2
    assert "P+R" not in json.dumps(json.loads((out / "plan.json").read_text()))
