"""Plans, releases, measurements and estimates from Python are those of the command line."""

import copy
import json
import shutil
import tomllib
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest

import tallyveil
from tallyveil.api.measured import Measurements
from tallyveil.errors import ConfigError, GeographyError, SchemaError, StoreError

KEY = "face"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, make_small_inputs) -> Path:
    """The small inputs and a release of them."""
    place = tmp_path_factory.mktemp("face")
    file = make_small_inputs(place)
    names = [("Town", "P01", "Pawtucket city, RI"), ("Town", "P02", "Twin"), ("Town", "Q02", "Twin")]
    pl.DataFrame(names, ["geolevel", "geocode", "name"], orient="row").write_parquet(place / "names.parquet")
    geography = 'path = "geography.parquet"'
    file.write_text(file.read_text().replace(geography, f'{geography}\nnames = "names.parquet"'))
    tallyveil.run(place / "release.toml", place / "out", insecure_test_key=KEY).add_intervals()
    return place


@pytest.fixture
def release(folder) -> tallyveil.Release:
    return reopened(folder / "out")


def test_a_plan_states_what_the_command_states(folder, command):
    plan = tallyveil.plan(folder / "release.toml")
    said = json.loads(command("plan", str(folder / "release.toml"), "--json"))
    assert plan.to_mapping() == said
    assert plan.guarantee.to_mapping() == said["privacy"]
    assert plan.guarantee.epsilon.upper == said["privacy"]["epsilon"]
    expected = plan.expected()
    assert expected.columns == ["geolevel", "query", "answers", "variance", "standard_deviation", "margin"]
    assert expected["variance"].to_list() == [item["variance"] for item in said["expected"]]
    assert expected["answers"].to_list() == [item["answers"] for item in said["expected"]]
    assert plan.resources(1000).total_seconds > 0
    assert set(plan.standard_deviations()["area"]) == {"Region", "Town", "Block"}


def test_a_mapping_is_the_file(folder, monkeypatch):
    content = tomllib.loads((folder / "release.toml").read_text())
    plan = tallyveil.plan(folder / "release.toml")
    assert tallyveil.plan(content, folder=folder).content == plan.content
    assert tallyveil.plan(plan) is plan
    content["records"]["path"] = folder / "people.parquet"
    content["privacy"]["delta"] = Fraction(1, 1000)
    monkeypatch.chdir(folder)
    assert tallyveil.plan(content).guarantee.delta == Fraction(1, 1000)


def test_mistakes_in_a_mapping_are_named(folder):
    content = tomllib.loads((folder / "release.toml").read_text())
    content["privacy"]["delta"] = 1e-10
    content["outputs"]["table"] = ["total"]
    with pytest.raises(ConfigError, match="2 mistakes in the release mapping") as caught:
        tallyveil.plan(content, folder=folder)
    assert "privacy.delta" in str(caught.value)
    assert "did you mean 'tables'" in str(caught.value)
    content["outputs"]["tables"] = content
    with pytest.raises(ConfigError, match="a table or a list in it holds itself"):
        tallyveil.plan(content, folder=folder)
    with pytest.raises(ConfigError, match="leave folder out"):
        tallyveil.plan(folder / "release.toml", folder=folder)


def test_a_finished_release_is_not_made_again(folder, release):
    again = tallyveil.run(folder / "release.toml", folder / "out", insecure_test_key=KEY)
    assert again.already_finished
    assert again.manifest.run == release.manifest.run
    assert not again.protected
    assert again.guarantee.statement == release.guarantee.statement
    assert release.report() == folder / "out" / "report.html"


def test_tables_have_their_labels_as_columns(release):
    assert release.areas == ("Region", "Town", "Block")
    assert release.queries == ("total", "age", "home")
    table = release.table("Town", "age")
    assert table.columns == ["geocode", "age", "count", "estimate", "standard_error", "lower", "upper"]
    stored = pl.read_parquet(release.path / "tables" / "**" / "*.parquet", hive_partitioning=True)
    own = stored.filter(geolevel="Town", query="age")
    assert table.equals(own.select(table.columns))
    assert own["home"].is_null().all()
    assert release.table("Region", "total").columns[:2] == ["geocode", "count"]
    with pytest.raises(ConfigError, match="no table of 'race' for 'Town'"):
        release.table("Town", "race")


def test_noisy_answers_stand_beside_the_counts(release):
    noisy = release.measurements("Town", "age*home")
    assert noisy.columns == ["geocode", "age", "home", "value", "variance"]
    (part,) = (release.path / "measurements" / "Town" / "age.home").iterdir()
    stored = pl.read_parquet(part)
    assert noisy["value"].to_list() == stored["values"].explode(empty_as_null=False).to_list()
    assert release.measurements("Region", "total").columns == ["geocode", "value", "variance"]
    with pytest.raises(ConfigError, match=r"no measurements of 'race' at 'Town'.*Region: "):
        release.measurements("Town", "race")
    with pytest.raises(ConfigError, match="no measurements of 'total' at 'County'"):
        release.measurements("County", "total")


def test_noisy_answers_that_were_kept(folder, release, tmp_path):
    """With "support" they are some of all answers, and with "none" there are none to be had."""
    content = tomllib.loads((folder / "release.toml").read_text())
    content["outputs"]["measurements"] = "support"
    some = tallyveil.run(tallyveil.plan(content, folder=folder), tmp_path / "support", insecure_test_key=KEY)
    for geolevel in ("Region", "Block"):
        kept = some.measurements(geolevel, "age*home")
        every = release.measurements(geolevel, "age*home")
        assert kept.schema == every.schema
        assert kept.equals(every) == (geolevel == "Region")
        assert kept.height == kept.join(every, on=every.columns).height > 0
    content["outputs"]["measurements"] = "none"
    none = tallyveil.run(tallyveil.plan(content, folder=folder), tmp_path / "none", insecure_test_key=KEY)
    with pytest.raises(StoreError, match="keeps no noisy answers") as caught:
        none.measurements("Town", "total")
    assert caught.value.code == "measurements-missing"


def test_a_changed_table_is_refused(release):
    (part,) = (release.path / "tables" / "geolevel=Town" / "query=age").glob("*.parquet")
    content = part.read_bytes()
    frame = pl.read_parquet(part)
    frame.with_columns(pl.col("count") + 1).write_parquet(part)
    with pytest.raises(StoreError, match="not the file that the manifest"):
        release.table("Town", "age")
    part.write_bytes(content)
    assert len(release.table("Town", "age")) == len(frame)
    (part,) = (release.path / "measurements" / "Town" / "total").glob("*.parquet")
    content = part.read_bytes()
    pl.read_parquet(part).with_columns(pl.col("variance") + 1).write_parquet(part)
    with pytest.raises(StoreError, match="not the file that the manifest"):
        release.measurements("Town", "total")
    part.write_bytes(content)


def test_intervals_of_a_geounit(release):
    found = release.interval("age", "P01")
    assert found.columns == [
        "geolevel", "age", "count", "estimate", "standard_error", "lower", "upper"
    ]  # fmt: skip
    table = release.table("Town", "age").filter(geocode="P01")
    assert found["estimate"].to_list() == table["estimate"].to_list()
    assert found["count"].to_list() == table["count"].to_list()
    with pytest.raises(GeographyError, match="has the code or the name 'X'"):
        release.interval("age", "X")
    with pytest.raises(StoreError, match=r"add_intervals\(\)"):
        release.interval("age*home", "P01")


def test_a_district_is_the_sum_of_its_blocks(release):
    table = release.table("Block", "home")
    blocks = table["geocode"].unique(maintain_order=True)
    found = release.district(blocks[:6]).estimate(["home"])
    frame = found.to_frame()
    published = (
        table.filter(pl.col("geocode").is_in(blocks[:6].implode()))
        .group_by("home")
        .agg(pl.col("count").sum())
    )
    wanted = dict(published.select("home", "count").iter_rows())
    assert dict(zip(frame["answer"].str.strip_prefix("home="), frame["published"], strict=True)) == wanted
    assert frame["standard_error"].min() > 0
    less = release.difference(list(blocks[:6]), release.district(blocks[6:9]), queries=["home"])
    assert less.n_minus == 3
    with pytest.raises(GeographyError, match="geocodes are text"):
        release.district([1, 2])
    assert "6 finest geounits" in repr(release.district(blocks[:6]))


def test_counts_are_chosen_together(release, copied):
    town = release.area("P01")
    labels = {"age": "old", "home": "house"}
    asked = {"all": town.count("total"), "old": town.count("age*home", labels)}
    counts = release.quantities(asked, level=0.9)
    assert counts.level == 0.9
    assert counts.names == ("all", "old")
    table = release.table("Town", "total").filter(geocode="P01")
    assert counts.published[0] == table["count"][0]
    assert counts.sum("all").estimate == pytest.approx(table["estimate"][0], abs=1e-4)
    assert "'home': 'house'" in repr(asked["old"])
    assert "all" in repr(counts)
    assert "standard_error" in counts._repr_html_()
    assert len(release.area("P01", "Town").geocodes) == len(town.geocodes)
    for wrong in ({}, asked["all"], {"all": "total"}, {1: asked["all"]}):
        with pytest.raises(ConfigError, match="counts"):
            release.quantities(wrong)
    with pytest.raises(ConfigError, match="areas of one release"):
        copied.quantities(asked)
    with pytest.raises(SchemaError, match="no label 'ancient'"):
        release.quantities({"none": town.count("age", {"age": "ancient"})})


def test_classes_of_reliability(release):
    table = pl.DataFrame(
        {
            "estimate": [100.0, 100.0, 100.0, 0.0, -4.0, 0.0, None],
            "standard_error": [16.5, 33.3, 33.4, 2.0, 1.0, 0.0, 3.0],
        }
    )
    found = tallyveil.reliability(table)
    assert found.columns == [*table.columns, "coefficient_of_variation", "reliability"]
    assert found["coefficient_of_variation"].round(9).to_list() == [
        0.165,
        0.333,
        0.334,
        None,
        None,
        0.0,
        None,
    ]
    last = "unacceptable"
    assert found["reliability"].to_list() == ["acceptable", "marginal", last, last, last, "acceptable", None]
    two = tallyveil.reliability(release.table("Town", "age"), thresholds=[0.12], classes=["a", "b"])
    assert set(two["reliability"]) <= {"a", "b"}
    for options in (
        {"thresholds": []},
        {"thresholds": [0.3, 0.1]},
        {"thresholds": [0.0, 0.1]},
        {"thresholds": ["0.1", "0.2"]},
        {"classes": ["a"]},
    ):
        with pytest.raises(ConfigError, match="thresholds"):
            tallyveil.reliability(table, **options)
    for frame in (table.drop("estimate"), found):
        with pytest.raises(ConfigError, match="column"):
            tallyveil.reliability(frame)


def test_measuring_and_estimating_apart(folder, release, tmp_path):
    measured = tallyveil.measure(folder / "release.toml", tmp_path / "measured", insecure_test_key=KEY)
    assert isinstance(measured, Measurements)
    opened = tallyveil.open(tmp_path / "measured")
    assert isinstance(opened, Measurements)
    assert opened.measurements("Block", "grown").equals(release.measurements("Block", "grown"))
    made = tallyveil.estimate(measured, tmp_path / "release")
    assert made.table("Block", "home").equals(
        release.table("Block", "home").select("geocode", "home", "count")
    )
    other = {"rounding": {"*": [["total"], ["age*home"]]}}
    assert tallyveil.estimate(measured.path, tmp_path / "other", estimation=other).name == release.name
    with pytest.raises(ConfigError, match="1 mistake in the estimation mapping"):
        tallyveil.estimate(measured, tmp_path / "none", estimation={"round": {}})
    assert measured.guarantee.spent == release.guarantee.spent


def test_a_folder_says_what_it_lacks(folder, release, tmp_path):
    """And a release keeps Python's own words."""
    measured = tallyveil.measure(folder / "release.toml", tmp_path / "measured", insecure_test_key=KEY)
    with pytest.raises(
        AttributeError, match=r"`tallyveil measure` made, which has no 'table'.*tallyveil\.estimate"
    ):
        measured.table("Town", "home")  # type: ignore[attr-defined]
    assert not hasattr(measured, "interval")
    assert copy.copy(measured).path == measured.path
    with pytest.raises(AttributeError, match="object has no attribute 'tabel'"):
        release.tabel("Town", "home")


def test_the_kind_that_is_asked_for(folder, tmp_path):
    tallyveil.measure(folder / "release.toml", tmp_path / "measured", insecure_test_key=KEY)
    assert isinstance(tallyveil.open(folder / "out", kind="topdown"), tallyveil.Release)
    assert isinstance(tallyveil.open(tmp_path / "measured", kind="topdown-measurements"), Measurements)
    with pytest.raises(StoreError, match="holds only measurements"):
        tallyveil.open(tmp_path / "measured", kind="topdown")
    with pytest.raises(StoreError, match="holds a release of `tallyveil run`"):
        tallyveil.open(folder / "out", kind="safetab")
    with pytest.raises(ConfigError, match="kind is 'tables', wanted topdown, topdown-measurements"):
        tallyveil.open(folder / "out", kind="tables")  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match="kind"):
        tallyveil.open(folder / "out", kind=5)  # type: ignore[call-overload]


def test_notebooks_show_what_matters(folder, release):
    page = release._repr_html_()
    assert "NOT PRIVATE" in page
    assert release.guarantee.statement.replace("<", "&lt;") in page
    plan = tallyveil.plan(folder / "release.toml")
    assert "total at Region" in plan._repr_html_()
    assert plan.name in repr(plan)
    assert release.manifest.run in repr(release)
    assert "at most" in release.guarantee._repr_html_()
    assert "No record was opened, and nothing is spent." in plan._repr_html_()
    assert f"Counts of people by {' and '.join(plan.schema.attribute_names)}." in page
    assert "report() writes a page that explains them." in page
    blocks = release.table("Block", "home")["geocode"].unique().sort()
    district = release.district(blocks[:2]).estimate(["home"])
    shown = district._repr_html_()
    assert f"District: {district.n_finest:,} finest geounits" in shown
    assert shown.count("<tr>") == 1 + len(district.answers)


def test_epsilon_of_laplace_noise_is_stated_at_its_delta(folder):
    """It is smaller than the pure epsilon, which holds at delta = 0."""
    content = tomllib.loads((folder / "release.toml").read_text())
    total = content["strategy"].pop("rho")
    content["strategy"]["epsilon"] = total
    content["privacy"] = {
        "neighbours": "unbounded",
        "mechanism": "discrete_laplace",
        "epsilon": total,
        "delta": "1/100",
    }
    guarantee = tallyveil.plan(content, folder=folder).guarantee
    assert guarantee.delta == Fraction(1, 100)
    assert guarantee.epsilon.upper < guarantee.spent <= guarantee.pure_epsilon
    assert "epsilon at delta = 0" in guarantee._repr_html_()
    assert tallyveil.plan(folder / "release.toml").guarantee.pure_epsilon is None


def test_what_cannot_be_opened(tmp_path):
    with pytest.raises(StoreError):
        tallyveil.open(tmp_path)


@pytest.mark.parametrize(
    "geocodes", [[], "B1", None, 5, [None], ["B1", 5], [b"B1"], pl.Series([], dtype=pl.String)]
)
def test_a_district_is_a_list_of_geocodes(release, geocodes):
    with pytest.raises(GeographyError):
        release.district(geocodes)


def test_a_text_is_not_taken_for_a_list_of_names(release):
    blocks = release.table("Block", "total")["geocode"][:2]
    for queries in ("total", [5], 5):
        with pytest.raises(ConfigError, match="queries"):
            release.district(blocks).estimate(queries)
        with pytest.raises(ConfigError, match="queries"):
            release.add_intervals(queries)
    with pytest.raises(GeographyError, match="wanted a geocode as text"):
        release.interval("total", 5)


@pytest.fixture
def copied(folder, tmp_path) -> tallyveil.Release:
    """A copy of the release, to damage."""
    shutil.copytree(folder / "out", tmp_path / "copy")
    return reopened(tmp_path / "copy")


def reopened(folder: Path) -> tallyveil.Release:
    opened = tallyveil.open(folder)
    assert isinstance(opened, tallyveil.Release)
    return opened


def test_an_area_by_its_name(release):
    town = release.area("Pawtucket city, RI")
    assert town.geocodes.equals(release.area("P01").geocodes)
    assert release.interval("age", "Pawtucket city, RI").equals(release.interval("age", "P01"))
    assert len(release.interval("total", "Twin")) == 2
    with pytest.raises(
        GeographyError, match=r"2 areas have the name 'Twin': P02 in Town, Q02 in Town\. Give the code"
    ):
        release.area("Twin")
    with pytest.raises(GeographyError, match="Did you mean 'Pawtucket city, RI'"):
        release.area("Pawtucket City")
    with pytest.raises(GeographyError, match="wanted a geocode as text"):
        release.area(5)


@pytest.mark.nightly
def test_factors_of_a_query_in_any_order(folder, release, tmp_path):
    """Wherever a query is asked for by its name."""
    noisy = release.measurements("Town", "home*age")
    assert noisy.equals(release.measurements("Town", "age*home"))
    shutil.copytree(folder / "out", tmp_path / "out")
    copied = reopened(tmp_path / "out")
    copied.add_intervals(["home*age"])
    assert copied.interval(" home * age", "P01").equals(copied.interval("age*home", "P01"))
    answers = copied.area("P01").estimate(["home*age"]).to_frame()
    assert answers.equals(copied.area("P01").estimate(["age*home"]).to_frame())
    assert answers["estimate"].null_count() == 0
    labels = {"age": "old", "home": "house"}
    ordered, other = (copied.area("P01").count(query, labels) for query in ("age*home", "home*age"))
    assert copied.quantities({"": ordered}).to_frame().equals(copied.quantities({"": other}).to_frame())
    assert copied.explore(tmp_path / "site", queries=["home*age"]).tables == ("age*home",)


def test_what_no_area_can_be_is_refused_at_the_call(release):
    blocks = release.table("Block", "total")["geocode"]
    assert len(release.district(set(blocks[:3])).geocodes) == 3
    with pytest.raises(GeographyError, match=r"an area is a mapping.*one by one"):
        release.district({"north": list(blocks[:3])})
    with pytest.raises(GeographyError, match="nowhere"):
        release.district([*blocks[:3], "nowhere"])
    with pytest.raises(GeographyError, match="P0000"):
        release.district([*blocks[:3], "P0000"])
    with pytest.raises(SchemaError, match="income"):
        release.area("P01").count("income")
    with pytest.raises(SchemaError, match="no label 'ancient'"):
        release.area("P01").count("age", {"age": "ancient"})


def test_areas_of_two_releases_have_no_difference(release, copied):
    codes = release.table("Block", "total")["geocode"]
    with pytest.raises(ConfigError, match="areas of one release"):
        release.difference(release.district(codes[:2]), copied.district(codes[:2]))
    with pytest.raises(ConfigError, match="areas of one release"):
        release.difference(copied.district(codes[:2]), codes[2:4])
    with pytest.raises(
        ConfigError, match=r"an area is the release in .*/copy, wanted a geounit.*To compare two releases"
    ):
        release.difference(release.area("P01"), copied)
    with pytest.raises(ConfigError, match=r"an area is the release in .*/copy"):
        release.difference(copied)
    with pytest.raises(ConfigError, match="wanted two of this release"):
        release.difference(release.area("P01"))


def test_intervals_that_were_changed_are_not_shown(copied):
    town = copied.table("Town", "total")["geocode"][0]
    blocks = copied.table("Block", "total")["geocode"][:2]
    for path in (copied.path / "intervals").glob("*/query=total/part-*.parquet"):
        pl.read_parquet(path).with_columns(pl.col("estimate") + 1000).write_parquet(path)
    with pytest.raises(StoreError, match="is not the file that") as caught:
        copied.interval("total", town)
    assert caught.value.code == "release-damaged"
    with pytest.raises(StoreError, match="is not the file that"):
        copied.district(blocks).estimate(["total"])


def test_an_open_release_sees_what_happens_to_its_folder(copied):
    other = reopened(copied.path)
    other.add_intervals(["total"], level=0.9)
    assert copied.table("Town", "total").equals(other.table("Town", "total"))
    shutil.rmtree(copied.path)
    for read in (lambda: copied.table("Town", "total"), lambda: copied.interval("total", "x")):
        with pytest.raises(StoreError, match="no finished release"):
            read()


@pytest.mark.nightly
def test_a_release_with_its_measurements_is_estimated_again(release, tmp_path):
    assert tallyveil.estimate(release, tmp_path / "again").queries == release.queries


@pytest.mark.parametrize("workers", [0, -1, 1.5, "2", True, 10**12])
def test_a_number_of_threads_is_one_or_more(folder, release, tmp_path, workers):
    with pytest.raises(ConfigError, match="wanted 1 to 1,024 threads"):
        tallyveil.run(folder / "release.toml", tmp_path / "out", insecure_test_key=KEY, workers=workers)
    with pytest.raises(ConfigError, match="wanted 1 to 1,024 threads"):
        release.add_intervals(workers=workers)
    assert not (tmp_path / "out").exists()


def test_what_is_no_number_or_no_text_is_refused(folder, release, tmp_path):
    with pytest.raises(ConfigError, match=r"level is '0\.9', wanted a number"):
        release.add_intervals(level="0.9")
    for key, kind in ((b"secret", "of type bytes"), ("secret\udcff", "text with bytes")):
        with pytest.raises(ConfigError, match=f"text of a test key is {kind}") as caught:
            tallyveil.run(folder / "release.toml", tmp_path / "out", insecure_test_key=key)
        assert "secret" not in str(caught.value)


def test_an_area_to_subtract_may_be_a_list(release):
    blocks = release.table("Block", "total")["geocode"]
    first = release.district(blocks[:6])
    by_list = first.estimate(["home"], minus=list(blocks[6:9]))
    assert by_list.to_frame().equals(first.estimate(["home"], minus=release.district(blocks[6:9])).to_frame())


PATHS = [None, 5, b"x", [1], object(), "", "a\0b", "a\udcff", "long" * 100]


@pytest.mark.parametrize("path", PATHS)
def test_what_is_no_path_is_refused(folder, release, tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    calls = {
        "release": lambda: tallyveil.plan(path),
        "folder": lambda: tallyveil.open(path),
        "out": lambda: tallyveil.run(folder / "release.toml", path, insecure_test_key=KEY),
        "measurements": lambda: tallyveil.estimate(path, "again"),
    }
    if path is not None:
        calls["estimation"] = lambda: tallyveil.estimate(release, "again", estimation=path)
        calls["entities"] = lambda: release.add_intervals(entities=path)
    for name, call in calls.items():
        with pytest.raises((ConfigError, StoreError), match=f"^{name} is ") as caught:
            call()
        codes = {"a\udcff": "path-not-text", "long" * 100: "path-refused"}
        assert caught.value.code == (
            codes.get(path, "bad-argument") if isinstance(path, str) else "bad-argument"
        )
    with pytest.raises((ConfigError, StoreError)):
        tallyveil.measure(folder / "release.toml", path, insecure_test_key=KEY)
    assert not list(tmp_path.iterdir())


def test_a_table_is_the_files_that_the_manifest_lists(copied):
    """A file beside them is not read, and one that is missing is no smaller table."""
    table = copied.table("Town", "age")
    (part,) = (copied.path / "tables" / "geolevel=Town" / "query=age").glob("part-*.parquet")
    shutil.copy(part, part.with_name("part-00001.parquet"))
    assert copied.table("Town", "age").equals(table)
    part.unlink()
    with pytest.raises(StoreError, match="FileNotFoundError"):
        copied.table("Town", "age")
    for area, query in (("x" * 5000, "age"), ("Town", "x" * 5000), ("../tables", "age")):
        with pytest.raises(ConfigError, match="has no table of"):
            copied.table(area, query)


@pytest.mark.parametrize("name", [None, 5, ["total"], b"total"])
def test_what_is_no_name_is_refused(release, name):
    for read in (
        lambda: release.table(name, "total"),
        lambda: release.table("Town", name),
        lambda: release.measurements(name, "total"),
        lambda: release.measurements("Town", name),
        lambda: release.interval(name, "P01"),
    ):
        with pytest.raises(ConfigError, match="wanted a name as text"):
            read()


def test_what_is_no_truth_value_no_count_and_no_observer_is_refused(folder, release, tmp_path):
    area = release.district(release.table("Block", "total")["geocode"][:2])
    for flags in ({"simultaneous": "no"}, {"with_bounds": 0}):
        with pytest.raises(ConfigError, match="wanted True or False"):
            area.estimate(**flags)
    with pytest.raises(ConfigError, match="wanted True or False"):
        release.add_intervals(simultaneous="no")
    plan = tallyveil.plan(folder / "release.toml")
    for sizes in (("many",), (2.5,), (10, True)):
        with pytest.raises(ConfigError, match="wanted a whole number"):
            plan.resources(*sizes)
    for act in (tallyveil.run, tallyveil.measure):
        with pytest.raises(ConfigError, match="lacks a method of observers"):
            act(plan, tmp_path / "out", insecure_test_key=KEY, observer=print)
    with pytest.raises(ConfigError, match="lacks a method of observers"):
        tallyveil.estimate(release, tmp_path / "out", observer=print)
    assert not (tmp_path / "out").exists()


@pytest.mark.nightly
def test_the_current_folder_may_change(folder, release, tmp_path, monkeypatch):
    """Plans and releases that were opened with a relative path stay what they are, also where another one lies."""
    monkeypatch.chdir(folder)
    opened, planned = reopened(Path("out")), tallyveil.plan("release.toml")
    mapped = tallyveil.plan(tomllib.loads(Path("release.toml").read_text()))
    blocks = opened.table("Block", "total")["geocode"]
    area = opened.district(blocks[:2])
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder / "out", "out")
    (part,) = Path("out", "tables", "geolevel=Town", "query=age").glob("*.parquet")
    part.unlink()
    assert opened.table("Town", "age").equals(release.table("Town", "age"))
    assert opened.report() == folder / "out" / "report.html"
    assert release.difference(area, blocks[2:4], queries=["total"]).n_finest == 2
    assert planned.content == mapped.content == tallyveil.plan(folder / "release.toml").content
    made = tallyveil.run(planned, "made", insecure_test_key=KEY)
    assert made.table("Town", "age").equals(release.table("Town", "age").select("geocode", "age", "count"))


def test_a_current_folder_that_was_removed_is_told(folder, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(StoreError, match="current folder, which was removed"):
        tallyveil.plan("release.toml")
    with pytest.raises(StoreError, match="current folder, which was removed"):
        tallyveil.run(folder / "release.toml", "out", insecure_test_key=KEY)
    assert tallyveil.open(folder / "out").kind == "topdown"


def test_files_of_districts_are_read_as_the_command_reads_them(release, tmp_path):
    blocks = release.table("Block", "total")["geocode"].cast(str).unique().sort().to_list()
    plan, single = tmp_path / "plan.csv", tmp_path / "single.csv"
    plan.write_text("GEOID20,DISTRICT\n" + "".join(f"{code},{n % 2}\n" for n, code in enumerate(blocks[:6])))
    single.write_text("GEOID20\n" + "".join(f"{code}\n" for code in blocks[:6]))
    districts = release.districts(plan)
    assert (districts.column, list(districts.areas)) == ("DISTRICT", ["0", "1"])
    frame = districts.estimate(["total"])
    assert frame["district"].to_list() == ["0", "1", None]
    assert frame["finest_geounits"].to_list()[:2] == [3, 3]
    alone = districts.areas["1"].estimate(["total"]).to_frame()
    assert frame.row(1)[2:] == alone.row(0)
    listed = release.district(single).estimate(["total"]).to_frame()
    assert listed.equals(release.district(blocks[:6]).estimate(["total"]).to_frame())
    for call, path in ((release.district, plan), (release.districts, single)):
        with pytest.raises(ConfigError) as caught:
            call(path)
        assert caught.value.code == "district-plan"
