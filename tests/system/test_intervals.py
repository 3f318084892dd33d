"""`tallyveil intervals` on a small release: what it writes, repeats, refuses and leaves behind when interrupted."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.special import ndtri
from tests.pages import require_readable, text_of
from tests.samples import nightly

from tallyveil.errors import ConfigError, GeographyError, StoreError
from tallyveil.estimation.intervals.answers import level_variances, region_variances
from tallyveil.estimation.intervals.covariance import tree_covariance
from tallyveil.estimation.intervals.joint import Asked, joint_covariance
from tallyveil.estimation.intervals.questions import questions_of
from tallyveil.estimation.intervals.regions import region_of
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.derived.district import district_answers
from tallyveil.postprocess.intervals.job import make_intervals
from tallyveil.postprocess.intervals.model import open_release, plan_model, release_model
from tallyveil.products.topdown.page.release import write_report
from tallyveil.products.topdown.run.run import run_release

COLUMNS = ["geocode", "age", "home", "count", "estimate", "standard_error", "lower", "upper"]


@pytest.fixture
def run(small_run):
    """Folder of a finished release."""
    return small_run


def contents(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def write_entities(run: Path, path: Path) -> pl.DataFrame:
    """A table of entities: wards that cross towns, and the regions, which are geounits."""
    codes = pl.read_parquet(run / "geography.parquet")["Block"]
    wards = [None if i % 5 == 4 else f"ward {i % 3}" for i in range(len(codes))]
    frame = pl.DataFrame({"geocode": codes, "ward": wards, "regions": codes.str.head(1), "area": 1.5})
    frame.write_parquet(path)
    return frame


def test_every_published_count_gets_an_interval(run, command, tmp_path):
    entities = write_entities(run, tmp_path / "entities.parquet")
    said = command("intervals", run, "--entities", tmp_path / "entities.parquet")
    assert "published outside" in said
    assert "privacy noise only" in said
    for level, query, rows in (("Region", "age", 6), ("Town", "total", 8), ("Block", "home", 96)):
        path = run / "intervals" / f"geolevel={level}" / f"query={query}" / "part-00000.parquet"
        frame = pl.read_parquet(path)
        assert frame.columns == COLUMNS
        assert frame.height == rows
        published = pl.read_parquet(run / "tables" / f"geolevel={level}" / f"query={query}" / "*.parquet")
        assert frame["count"].to_list() == published["count"].to_list()
        assert frame["geocode"].to_list() == published["geocode"].to_list()
        assert (frame["lower"] <= frame["upper"]).all()
        assert (frame["lower"] >= 0).all()
        tags = pl.read_parquet_metadata(path)
        assert "errors of the count itself" in tags["tallyveil.covers"]
        assert tags["tallyveil.level"] == "0.95"
    # the invariant is exact; entities that are geounits are those geounits; estimates add up
    exact = pl.read_parquet(run / "intervals/geolevel=Region/query=total/*.parquet")
    assert exact["standard_error"].to_list() == [0.0, 0.0]
    assert exact["lower"].to_list() == exact["upper"].to_list() == exact["count"].to_list()
    ages = pl.read_parquet(run / "intervals/geolevel=Region/query=age/*.parquet").drop("geocode")
    same = pl.read_parquet(run / "intervals/geolevel=regions/query=age/*.parquet").drop("geocode")
    assert ages.equals(same)
    blocks = pl.read_parquet(run / "intervals/geolevel=Block/query=age/*.parquet").join(
        entities, on="geocode"
    )
    wards = pl.read_parquet(run / "intervals/geolevel=ward/query=age/*.parquet")
    for ward in ("ward 0", "ward 1", "ward 2"):
        for what in ("count", "estimate"):
            summed = blocks.filter(ward=ward).group_by("age", maintain_order=True).agg(pl.col(what).sum())
            np.testing.assert_allclose(summed[what], wards.filter(geocode=ward)[what], atol=1e-4)
    manifest = json.loads((run / "intervals/_manifest.json").read_text())
    assert manifest["bounds_used"] == ["barracks"]
    assert {item["area"] for item in manifest["compared"]} == {"Region", "Town", "Block", "ward", "regions"}
    assert all((run / item["path"]).stat().st_size == item["bytes"] for item in manifest["files"])
    assert "privacy noise" in (run / "intervals/_README.txt").read_text()
    page = run / "report.html"
    assert require_readable(page).values("id", "section")[:2] == ["short", "uncertainty"]
    told = _told_of_blocks(run)
    assert told in text_of(page)


def _told_of_blocks(run: Path) -> str:
    """What the page must say of typical blocks, from the files of the intervals."""
    parts = pl.read_parquet(run / "intervals" / "geolevel=Block" / "query=total" / "*.parquet")
    rows = parts.filter(pl.col("standard_error") >= 1e-6).select("count", "lower", "upper").rows()
    farthest = sorted(max(upper - count, count - lower) for count, lower, upper in rows)
    counts = sorted(count for count, _, _ in rows)
    middle = (len(rows) - 1) // 2
    return (
        f"With 95 % confidence, the number of people before noise is within {farthest[middle]} of the published one "
        f"for a typical Block (about {counts[middle]})"
    )


@pytest.mark.nightly
def test_the_same_release_gives_the_same_bytes(run):
    make_intervals(run, workers=1)
    first = contents(run / "intervals")
    write_report(run)
    page = (run / "report.html").read_bytes()
    make_intervals(run, workers=3)
    assert contents(run / "intervals") == first
    write_report(run)
    assert (run / "report.html").read_bytes() == page


@pytest.mark.parametrize("at", [nightly(1), nightly(4), 11])
def test_interrupted_intervals_leave_the_earlier_ones(run, killed_at, at):
    make_intervals(run, tables=["total"], workers=1)
    before = contents(run / "intervals")
    assert killed_at(at, lambda: make_intervals(run, workers=1), before=True)
    assert contents(run / "intervals") == before
    make_intervals(run, workers=1)
    assert (run / "intervals/geolevel=Block/query=age/part-00000.parquet").exists()
    assert not (run / "intervals.partial").exists()


def test_a_query_that_was_not_measured_and_another_level(run):
    narrow = make_intervals(run, tables=["home"], level=0.5, workers=1).manifest
    assert narrow["level"] == 0.5
    low = pl.read_parquet(run / "intervals/geolevel=Town/query=home/*.parquet")
    make_intervals(run, tables=["home"], level=0.99, workers=1)
    high = pl.read_parquet(run / "intervals/geolevel=Town/query=home/*.parquet")
    assert ((high["upper"] - high["lower"]) >= (low["upper"] - low["lower"])).all()
    assert high["estimate"].equals(low["estimate"])
    assert not (run / "intervals/geolevel=Town/query=total").exists()


def test_all_intervals_of_a_table_at_once(run, command, tmp_path):
    make_intervals(run, tables=["age"], workers=1)
    single = pl.read_parquet(run / "intervals/geolevel=Block/query=age/*.parquet")
    said = command("intervals", run, "--tables", "age", "--simultaneous")
    assert "all intervals of a table contain their counts" in said
    joint = pl.read_parquet(run / "intervals/geolevel=Block/query=age/*.parquet")
    assert joint.select("count", "estimate").equals(single.select("count", "estimate"))
    assert (joint["lower"] <= single["lower"]).all()
    quantile = ndtri(1 - 0.025 / joint.height)
    large = joint.filter(
        (pl.col("estimate") > 2 * quantile * pl.col("standard_error")) & (pl.col("standard_error") > 0)
    )
    assert large.height > 20
    ends = large["estimate"] + quantile * large["standard_error"]
    assert large["upper"].to_list() == ends.floor().cast(pl.Int64).to_list()
    assert json.loads((run / "intervals/_manifest.json").read_text())["simultaneous"]
    assert "all intervals of a table contain their counts" in (run / "report.html").read_text()
    codes = pl.read_parquet(run / "geography.parquet").select(geocode="Block")[:9]
    codes.write_csv(tmp_path / "district.csv")
    asked = ("intervals", run, "--tables", "age", "--district", tmp_path / "district.csv", "--json")
    one, three = (json.loads(command(*asked, *more)) for more in ((), ("--simultaneous",)))
    assert "all 3 intervals" in three["covers"]
    pairs = list(zip(one["answers"], three["answers"], strict=True))
    assert all(b["lower"] <= a["lower"] and b["upper"] >= a["upper"] for a, b in pairs)
    assert any(b["upper"] > a["upper"] for a, b in pairs)


def test_public_bounds_make_intervals_shorter(run):
    make_intervals(run, tables=["home"], workers=1)
    with_bounds = pl.read_parquet(run / "intervals/geolevel=Block/query=home/*.parquet")["standard_error"]
    manifest = make_intervals(run, tables=["home"], with_bounds=False, workers=1).manifest
    without = pl.read_parquet(run / "intervals/geolevel=Block/query=home/*.parquet")["standard_error"]
    assert manifest["bounds_left_out"] == ["barracks"]
    assert (without >= with_bounds).all()
    assert (without > with_bounds).sum() > 40
    write_report(run)
    assert "These public bounds were not used: barracks" in (run / "report.html").read_text()
    (run / "bounds/00.parquet").unlink()
    with pytest.raises(StoreError, match="--without-bounds") as refused:
        make_intervals(run, workers=1)
    assert refused.value.code == "bounds-missing"


def test_a_plan_and_its_release_have_one_model(run, small_release):
    release, plan = open_release(run), load_plan(small_release)
    planned, made = plan_model(plan, release.hierarchies), release_model(release)
    questions = questions_of(made.algebra, plan.query("age*home"))
    both = [level_variances(tree_covariance(model), 2, questions) for model in (planned, made)]
    np.testing.assert_array_equal(*both)


def test_a_district_needs_no_measurements(run, command, tmp_path):
    codes = pl.read_parquet(run / "geography.parquet")["Block"]
    district = tmp_path / "district.csv"
    pl.DataFrame({"geocode": codes[1::4]}).write_csv(district)
    make_intervals(run, workers=1)
    for path in sorted((run / "measurements").rglob("*.parquet")):
        path.unlink()
    record = json.loads(command("intervals", run, "--district", district, "--json"))
    assert record["finest_geounits"] == 12
    line = next(one for one in record["answers"] if one["query"] == "total")
    blocks = pl.read_parquet(run / "intervals/geolevel=Block/query=total/*.parquet").filter(
        pl.col("geocode").is_in(codes[1::4].implode())
    )
    assert line["published"] == blocks["count"].sum()
    assert line["estimate"] == pytest.approx(blocks["estimate"].sum(), abs=1e-5)
    assert line["lower"] <= line["estimate"] <= line["upper"]
    # neighbours share noise: the standard error is not that of independent blocks
    assert line["standard_error"] != pytest.approx(np.sqrt((blocks["standard_error"] ** 2).sum()), rel=1e-3)
    assert "District of 12" in command("intervals", run, "--district", district, "--tables", "age")
    # a whole town is the town
    town = district_answers(run, codes.filter(codes.str.head(3) == "P01"), tables=["age"])
    own = pl.read_parquet(run / "intervals/geolevel=Town/query=age/*.parquet").filter(geocode="P01")
    assert [one.standard_error for one in town.answers] == pytest.approx(own["standard_error"].to_list())
    assert [one.lower for one in town.answers] == own["lower"].to_list()
    # without intervals/ there are standard errors alone
    for path in sorted((run / "intervals").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (run / "intervals").rmdir()
    alone = district_answers(run, codes[1::4], tables=["total"])
    assert alone.answers[0].estimate is None
    assert alone.answers[0].standard_error == pytest.approx(line["standard_error"])
    # and of the release, three small things are enough for those
    for name in ("manifest.json", "geography.parquet", "bounds/00.parquet"):
        (tmp_path / "store" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "store" / name).write_bytes((run / name).read_bytes())
    store = district_answers(tmp_path / "store", codes[1::4], tables=["total"])
    assert store.answers[0].standard_error == alone.answers[0].standard_error
    assert store.answers[0].published is None
    pl.DataFrame({"geocode": codes[1::4]}).write_csv(district)
    said = command("intervals", tmp_path / "store", "--district", district)
    assert "–" in said
    assert "No estimate in total, age, home: they are sums of those in RUN/intervals" in said
    assert "No published counts: " in said
    assert (
        json.loads(command("intervals", tmp_path / "store", "--district", district, "--json"))["covers"]
        is None
    )


def test_a_plan_given_as_a_district_shows_every_district_and_the_blocks_in_none(run, command, tmp_path):
    codes = open_release(run).spine.geocodes[-1].text
    path = tmp_path / "plan.txt"
    rows = [f"{code}|{'' if n % 5 == 0 else n % 2 + 1}" for n, code in enumerate(codes.to_list())]
    path.write_text("\n".join(["BLOCKID|DISTRICT", *rows[1:], ""]))  # the first block is left out
    record = json.loads(command("intervals", run, "--district", path, "--tables", "total", "--json"))
    assert record["column"] == "DISTRICT"
    sizes = {item["district"]: item["finest_geounits"] for item in record["districts"]}
    assert sizes == {"1": 19, "2": 19, None: 10}
    published = sum(item["answers"][0]["published"] for item in record["districts"])
    everywhere = district_answers(run, codes, tables=["total"]).answers[0].published
    assert published == everywhere
    said = command("intervals", run, "--district", path, "--tables", "total")
    assert "Districts by column DISTRICT: 2" in said
    assert "(none): 10 finest geounits are in no district" in said
    assert "district-plan" in command("intervals", run, "--district", path, "--minus", path, code=2)
    assert "bad-flag" in command("intervals", run, "--district-column", "DISTRICT", code=2)


@pytest.mark.nightly
def test_a_district_says_which_table_is_missing_and_counts_the_intervals_it_gives(run, command, tmp_path):
    """One table of three: the others were shown as dashes, and all of them were in the simultaneous claim."""
    codes = pl.read_parquet(run / "geography.parquet")["Block"]
    pl.DataFrame({"geocode": codes[1::4]}).write_csv(tmp_path / "district.csv")
    make_intervals(run, tables=["age"], workers=1)
    asked = ("intervals", run, "--district", tmp_path / "district.csv", "--simultaneous")
    record = json.loads(command(*asked, "--json"))
    given = [line for line in record["answers"] if line["lower"] is not None]
    assert {line["query"] for line in given} == {"age"}
    assert f"all {len(given)} intervals contain" in record["covers"]
    lacking = {line["query"]: line["lacking"] for line in record["answers"]}
    assert lacking["age"] is None
    assert "no table of 'home'" in lacking["home"]
    assert "No estimate in total: RUN/intervals has no table of 'total'" in command(*asked)
    # the intervals are as wide as those of the one table alone
    alone = district_answers(run, codes[1::4], tables=["age"], simultaneous=True)
    assert [line["lower"] for line in given] == [line.lower for line in alone.answers]
    assert json.loads(command(*asked, "--tables", "total", "--json"))["covers"] is None


def test_a_difference_of_districts_has_its_own_interval(run, command, tmp_path):
    codes = pl.read_parquet(run / "geography.parquet").select(geocode="Block")
    codes[:20].write_csv(tmp_path / "one.csv")
    codes[15:40].write_csv(tmp_path / "other.csv")
    make_intervals(run, workers=1)
    asked = ("intervals", run, "--district", tmp_path / "one.csv", "--minus", tmp_path / "other.csv")
    record = json.loads(command(*asked, "--json"))
    assert (record["finest_geounits"], record["minus"]) == (20, 25)
    one, other = (district_answers(run, part) for part in (codes["geocode"][:20], codes["geocode"][15:40]))
    release = open_release(run)
    covariance = tree_covariance(release_model(release))
    ages = questions_of(covariance.algebra, release.schema.query("age"))
    spine = release.spine
    regions = region_of(spine, np.arange(20)), region_of(spine, np.arange(15, 40))
    region, row = np.divmod(np.arange(2 * ages.n), ages.n)
    variances = region_variances(covariance, regions, ages).ravel()
    joint = joint_covariance(covariance, Asked(regions, region, ages.rows(), row), variances)
    shared = np.diag(joint.matrix()[: ages.n, ages.n :])
    for line, a, b in zip(record["answers"], one.answers, other.answers, strict=True):
        assert line["published"] == a.published - b.published
        assert line["estimate"] == pytest.approx(a.estimate - b.estimate, abs=1e-5)
        if line["query"] == "age":
            both = a.standard_error**2 + b.standard_error**2
            number = ["age=young", "age=middle", "age=old"].index(line["answer"])
            assert line["standard_error"] ** 2 == pytest.approx(both - 2 * shared[number], abs=1e-4)
        reach = 1.959964 * line["standard_error"]
        assert line["lower"] == np.ceil(line["estimate"] - reach)
        assert line["upper"] == np.floor(line["estimate"] + reach)
    assert min(line["lower"] for line in record["answers"]) < 0
    assert "District of 20 finest geounits less one of 25" in command(*asked)


def test_refusals(run, tmp_path):
    entities = write_entities(run, tmp_path / "entities.parquet")
    with pytest.raises(ConfigError, match="level") as refused:
        make_intervals(run, level=1.0)
    assert refused.value.code == "interval-level"
    with pytest.raises(ConfigError, match="list of queries is empty") as refused:
        make_intervals(run, tables=[])
    assert refused.value.code == "interval-tables"
    with pytest.raises(ConfigError, match="list of queries is empty"):
        district_answers(run, pl.read_parquet(run / "geography.parquet")["Block"][:1], tables=[])
    with pytest.raises(GeographyError, match="folder"):
        make_intervals(run, entities=entities.rename({"ward": "../ward"}))
    with pytest.raises(GeographyError) as refused:
        district_answers(run, pl.Series(["nowhere"]))
    assert refused.value.code == "entity-geocode"
    with pytest.raises(StoreError) as refused:
        make_intervals(tmp_path)
    assert refused.value.code == "no-release"
    assert not (run / "intervals").exists()
    assert not (run / "intervals.partial").exists()


@pytest.mark.parametrize("kept", [nightly("none"), "support"])
def test_partial_measurements_are_refused_with_the_way_out(edit, tmp_path, kept):
    plan = load_plan(edit("[outputs]", f'[outputs]\nmeasurements = "{kept}"'))
    run_release(plan, tmp_path / "out", test_key=bytes(32), workers=1)
    with pytest.raises(StoreError, match='measurements = "full"') as refused:
        make_intervals(tmp_path / "out")
    assert refused.value.code == "measurements-missing"
    codes = pl.read_parquet(tmp_path / "out/geography.parquet")["Block"]
    assert district_answers(tmp_path / "out", codes[:9]).answers[0].standard_error > 0


def test_a_changed_bounds_file_is_refused(run):
    path = run / "bounds/00.parquet"
    frame = pl.read_parquet(path)
    frame.with_columns(geocode=pl.lit("elsewhere")).write_parquet(path)
    with pytest.raises(StoreError) as refused:
        make_intervals(run)
    assert refused.value.code == "release-damaged"
