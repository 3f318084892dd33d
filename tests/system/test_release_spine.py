"""A release on an optimised spine: invariants, sums and tables of what people know hold in the written files."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.reserve_spine import entities_of

import tallyveil.storage.write as writing
from tallyveil.compare.attack_job import attack
from tallyveil.errors import BudgetError, ConfigError, GeographyError, StoreError
from tallyveil.files.geography import read_areas, read_geography
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.topdown.page.evaluation import write_evaluation_report
from tallyveil.products.topdown.page.release import write_report
from tallyveil.products.topdown.run.evaluate import evaluate_release
from tallyveil.products.topdown.run.inputs import read_hierarchies
from tallyveil.products.topdown.run.run import run_release

KEY = insecure_key("spine test")
GEOLEVELS = ("Region", "Region_Part", "Town_Group", "Town", "Cluster", "Block")
SPINE = """
[spine]
entities = "entities.parquet"
families = ["place", "reserve"]
[[spine.steps]]
kind = "branch"
family = "reserve"
geolevel = "Region"
name = "R"
parts = "Region_Part"
[[spine.steps]]
kind = "group_by_membership"
families = ["place", "reserve"]
geolevel = "Cluster"
children = "Block"
cutoff = 1
[[spine.steps]]
kind = "group_by_distance"
families = ["place", "reserve"]
geolevel = "Town_Group"
children = "Town"
"""
SHARES = """[strategy.geolevels]
Region = "1/8"
Region_Part = "1/8"
Town_Group = "1/8"
Town = "1/8"
Cluster = "1/4"
Block = "1/4"
"""


class Killed(BaseException):
    """Stands for the process ending at once."""


def write_entities(folder: Path) -> None:
    """Places and a reserve that cross towns."""
    entities_of(folder).reverse().write_parquet(folder / "entities.parquet")


@pytest.fixture
def spine_release(small_release):
    return with_spine(small_release)


def with_spine(small_release):
    """The release with entities and a spine of its own."""
    write_entities(small_release.parent)
    text = small_release.read_text()
    start, stop = text.index("[strategy.geolevels]"), text.index('[strategy.queries."*"]')
    text = text[:start] + SHARES + text[stop:] + 'entities = ["place"]\n' + SPINE
    small_release.write_text(text)
    return small_release


@pytest.fixture(scope="module")
def outcome_once(make_small_inputs, tmp_path_factory):
    """The finished release, for copies alone."""
    folder = tmp_path_factory.mktemp("spine")
    release = with_spine(make_small_inputs(folder / "inputs"))
    return run_release(load_plan(release), folder / "out", test_key=KEY)


@pytest.fixture
def outcome(outcome_once, tmp_path):
    return replace(outcome_once, path=Path(shutil.copytree(outcome_once.path, tmp_path / "out")))


def contents(out: Path) -> dict[str, bytes]:
    return {p.relative_to(out).as_posix(): p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file()}


def histogram(out: Path, geolevel: str) -> pl.DataFrame:
    return pl.read_parquet(out / "histogram" / f"{geolevel}.parquet").with_columns(
        pl.col("age", "home").cast(pl.String)
    )


def table(out: Path, area: str, query: str = "total") -> dict[str, int]:
    path = out / "tables" / f"geolevel={area}" / f"query={query}" / "*.parquet"
    frame = pl.read_parquet(path, hive_partitioning=True)
    assert set(frame["geolevel"]) == {area}
    return dict(zip(frame["geocode"], frame["count"], strict=True))


def totals(frame: pl.DataFrame, by: pl.Expr) -> dict[str, int]:
    return dict(frame.group_by(by.alias("code")).agg(pl.col("count").sum()).sort("code").rows())


def test_children_add_up_to_their_parent_in_every_cell(outcome):
    geography = pl.read_parquet(outcome.path / "geography.parquet")
    blocks = histogram(outcome.path, "Block").join(geography, left_on="geocode", right_on="Block")
    for geolevel in GEOLEVELS[:-1]:
        sums = blocks.group_by(pl.col(geolevel).alias("geocode"), "age", "home").agg(pl.col("count").sum())
        keys = ["geocode", "age", "home"]
        assert sums.sort(keys).rows() == histogram(outcome.path, geolevel).sort(keys).rows()


def test_invariants_and_bounds_hold_on_the_halves_together(outcome, spine_release):
    truth = totals(pl.read_parquet(spine_release.parent / "people.parquet"), pl.col("geocode").str.head(1))
    assert table(outcome.path, "Region") == truth
    parts = table(outcome.path, "Region_Part")
    assert {"P+R", "P-R", "Q"} == set(parts)
    assert parts["P+R"] + parts["P-R"] == truth["P"]
    bounds = pl.read_parquet(spine_release.parent / "barracks.parquet")
    people = histogram(outcome.path, "Block").group_by("geocode", "home").agg(pl.col("count").sum())
    assert people.join(bounds, on=["geocode", "home"], how="anti").is_empty()
    joined = bounds.join(people, on=["geocode", "home"], how="left").fill_null(0)
    assert (joined["count"] >= joined["lower"]).all()


def test_tables_are_of_areas_people_know(outcome, spine_release):
    """Towns were cut and are published whole; places are sums of blocks; the parts stay in the histograms."""
    blocks = histogram(outcome.path, "Block")
    assert table(outcome.path, "Town") == totals(blocks, pl.col("geocode").str.head(3))
    assert "P01+R" in set(histogram(outcome.path, "Town")["geocode"])
    entities = pl.read_parquet(spine_release.parent / "entities.parquet").drop_nulls("place")
    of_places = totals(blocks.join(entities, on="geocode"), pl.col("place"))
    assert table(outcome.path, "place") == of_places
    by_home = pl.read_parquet(outcome.path / "tables" / "geolevel=place" / "query=home" / "*.parquet")
    assert by_home.height == 2 * 2
    assert by_home["count"].sum() == sum(of_places.values())
    assert not (outcome.path / "tables" / "geolevel=reserve").exists()
    names = set(outcome.manifest.checks)
    assert "tables of place are sums of the published Block counts" in names
    assert "tables of Town are sums of the published Block counts" in names


@pytest.mark.nightly
def test_a_changed_entity_table_is_noticed(spine_release, tmp_path, monkeypatch):
    import tallyveil.postprocess.publish as running
    from tallyveil.files.checks import check_release

    def tampered(root, promises):
        path = root / "tables" / "geolevel=place" / "query=total" / "part-00000.parquet"
        frame = pl.read_parquet(path)
        frame.with_columns(pl.col("count") + 1).write_parquet(path)
        return check_release(root, promises)

    monkeypatch.setattr(running, "check_release", tampered)
    with pytest.raises(Exception, match="tables of place are sums"):
        run_release(load_plan(spine_release), tmp_path / "out", test_key=KEY)


def test_the_folder_holds_both_hierarchies(outcome, spine_release):
    known = read_hierarchies(load_plan(spine_release))
    spine = read_geography(outcome.path)
    assert spine.digest() == known.spine.digest()
    assert spine.geolevels == GEOLEVELS
    replaced, families = read_areas(outcome.path, spine)
    assert [one.digest() for one in replaced] == [one.digest() for one in known.replaced]
    assert [one.digest() for one in families] == [one.digest() for one in known.families]
    frame = pl.read_parquet(outcome.path / "geography.parquet")
    assert (frame["original.Town"] == frame["Block"].str.head(3)).all()


def test_manifest_and_report_say_how_the_spine_was_made(outcome):
    record = outcome.manifest.body["spine"]
    assert [step["kind"] for step in record["steps"]] == [
        "branch", "group_by_membership", "group_by_distance",
    ]  # fmt: skip
    assert record["replaced"] == ["Town"]
    assert [item["geolevel"] for item in record["made"]] == list(GEOLEVELS)
    assert record["distances"]["place"]["mean"] < record["distances"]["place"]["original_mean"]
    assert record["distances"]["reserve"]["mean"] < record["distances"]["reserve"]["original_mean"]
    assert "sum to exactly 1, for all 48" in outcome.manifest.privacy["paths"]
    assert outcome.manifest.body["plan"]["spine"]["from"] == ["Region", "Town", "Block"]
    page = write_report(outcome.path).read_text()
    assert "Branch R: every geounit from Region down" in page
    assert "The budget of each area" in page


@pytest.mark.nightly
def test_evaluation_speaks_of_the_same_areas(outcome, spine_release):
    evaluation = evaluate_release(outcome.path, spine_release.parent / "people.parquet")
    frame = evaluation.errors
    assert set(frame["geolevel"]) == {*GEOLEVELS, "place", "reserve"}
    towns = frame.filter(geolevel="Town", query="total", size_class="all").row(0, named=True)
    assert towns["n_geounits"] == 8  # whole towns, not their parts
    truth = pl.read_parquet(spine_release.parent / "people.parquet")
    entities = pl.read_parquet(spine_release.parent / "entities.parquet").drop_nulls("place")
    true = totals(truth.join(entities, on="geocode"), pl.col("place"))
    published = table(outcome.path, "place")
    error = np.mean([abs(published[code] - true[code]) for code in true])
    found = frame.filter(geolevel="place", query="total", size_class="all").row(0, named=True)
    assert found["mean_absolute_error"] == error
    assert "reserve" in write_evaluation_report(outcome.path, evaluation).read_text()


@pytest.mark.nightly
def test_attacks_succeed_on_a_release_with_an_epsilon_of_1000_on_the_same_spine(
    outcome, spine_release, tmp_path
):
    (tmp_path / "attack.toml").write_text(
        'published = "out"\nkey = "x"\n[attacks]\nsensitive = "age"\npeople = 200\n'
    )
    records = spine_release.parent / "people.parquet"
    attacked = attack(tmp_path / "attack.toml", tmp_path / "claims", records, lambda words: None)
    exact, nearly = attacked.power["records rebuilt"]
    assert exact == 1
    assert nearly > 0.8


@pytest.mark.nightly
@pytest.mark.parametrize("number", [9, 20, 45])
def test_killed_and_resumed_is_the_same_release(spine_release, outcome_once, tmp_path, killed_at, number):
    plan, out = load_plan(spine_release), tmp_path / "killed"
    assert killed_at(number, lambda: run_release(plan, out, test_key=KEY))
    assert contents(run_release(plan, out, test_key=KEY).path) == contents(outcome_once.path)


def test_changed_entities_cannot_resume(spine_release, tmp_path, monkeypatch):
    """Also of a family that no step and no geounit depends on: its tables would be of two kinds."""
    spine_release.write_text(
        spine_release.read_text().replace(
            'families = ["place", "reserve"]\ngeo', 'families = ["reserve"]\ngeo'
        )
    )
    plan, out, original = load_plan(spine_release), tmp_path / "out", writing.write_file

    def write_file(path, write):
        original(path, write)
        if path.name == "geography.parquet":
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(writing, "write_file", write_file)
        with pytest.raises(Killed):
            run_release(plan, out, test_key=KEY)
    path = spine_release.parent / "entities.parquet"
    pl.read_parquet(path).with_columns(pl.lit("ash").alias("place")).write_parquet(path)
    with pytest.raises(StoreError) as caught:
        run_release(plan, out, test_key=KEY)
    assert caught.value.code == "resume-changed"


@pytest.mark.nightly
def test_entities_without_steps_leave_the_spine_as_it_was(small_release, tmp_path):
    plain = run_release(load_plan(small_release), tmp_path / "plain", test_key=KEY)
    write_entities(small_release.parent)
    text = small_release.read_text() + 'entities = ["place", "reserve"]\n' + SPINE.split("[[", maxsplit=1)[0]
    small_release.write_text(text)
    plan = load_plan(small_release)
    assert plan.geolevels == ("Region", "Town", "Block")
    other = run_release(plan, tmp_path / "other", test_key=KEY)
    assert set(table(other.path, "place")) == {"elm", "oak"}
    assert other.manifest.body["spine"]["steps"] == []
    assert set(table(plain.path, "Town")) == set(table(other.path, "Town"))


@pytest.mark.parametrize(
    ("old", "new", "kind", "code"),
    [
        ('parts = "Region_Part"\n', "", ConfigError, "unknown-geolevel"),
        ('geolevels = ["Region"]\n\n', 'geolevels = ["Town"]\n\n', GeographyError, "not-on-spine"),
        ('geolevels = ["Region"]\n\n', 'geolevels = ["Cluster"]\n\n', ConfigError, "not-on-spine"),
        ('families = ["place", "reserve"]\n[[', 'families = ["place"]\n[[', ConfigError, "unknown-entity"),
        ('entities = ["place"]', 'entities = ["county"]', ConfigError, "unknown-entity"),
        (
            'families = ["place", "reserve"]\n[[',
            'families = ["place", "reserve", "Town"]\n[[',
            ConfigError,
            "name-twice",
        ),
        ('children = "Town"', 'children = "Toun"', GeographyError, "spine-step"),
        ("cutoff = 1", "cutoff = -1", ConfigError, "bad-key-or-value"),
        ('Town = "1/8"', 'Town = "1/4"', BudgetError, "budget"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(
    spine_release, tmp_path, old, new, kind, code
):
    text = spine_release.read_text()
    assert old in text
    spine_release.write_text(text.replace(old, new, 1))
    with pytest.raises(kind) as caught:
        run_release(load_plan(spine_release), tmp_path / "out", test_key=KEY)
    assert caught.value.code == code
    assert not (tmp_path / "out").exists()


def test_an_unknown_key_of_a_step_is_shown_with_those_known(spine_release):
    spine_release.write_text(spine_release.read_text().replace("cutoff = 1", "cutof = 1"))
    with pytest.raises(ConfigError, match="did you mean 'cutoff'") as caught:
        load_plan(spine_release)
    assert "group_by_membership" in str(caught.value)


def test_a_cut_geolevel_with_an_invariant_is_told_how_to_be_mended(spine_release):
    """The regions' parts are siblings; those of the towns lie in different parts of the regions."""
    text = (
        spine_release.read_text().replace('parts = "Region_Part"\n', "").replace('Region_Part = "1/8"\n', "")
    )
    text = text.replace('Region = "1/8"', 'Region = "1/4"')
    spine_release.write_text(text)
    assert read_hierarchies(load_plan(spine_release)).replaced_names == ("Region", "Town")
    spine_release.write_text(text.replace('geolevels = ["Region"]\n\n', 'geolevels = ["Town"]\n\n'))
    with pytest.raises(GeographyError, match="Geolevels kept whole: Block") as caught:
        read_hierarchies(load_plan(spine_release))
    assert caught.value.code == "not-on-spine"


@pytest.mark.nightly
def test_overlapping_entities_have_tables_and_part_blocks(spine_release, tmp_path):
    """A block may be in two service areas; both count it, and what shares both is a group."""
    blocks = pl.read_parquet(spine_release.parent / "geography.parquet")["geocode"].to_list()
    areas = [(b, "north") for b in blocks[:9]] + [(b, "south") for b in blocks[5:14]]
    pl.DataFrame(areas, schema=["geocode", "entity"], orient="row").write_parquet(
        spine_release.parent / "areas.parquet"
    )
    text = spine_release.read_text()
    text = text.replace(
        'families = ["place", "reserve"]\n[[',
        'families = ["place", "reserve"]\noverlapping = { area = "areas.parquet" }\n[[',
    )
    text = text.replace(
        'kind = "group_by_membership"\nfamilies = ["place", "reserve"]',
        'kind = "group_by_membership"\nfamilies = ["area"]',
    )
    spine_release.write_text(text.replace('entities = ["place"]', 'entities = ["place", "area"]'))
    out = run_release(load_plan(spine_release), tmp_path / "out", test_key=KEY).path
    counts = dict(histogram(out, "Block").group_by("geocode").agg(pl.col("count").sum()).rows())
    wanted = {name: sum(counts.get(b, 0) for b, area in areas if area == name) for name in ("north", "south")}
    assert table(out, "area") == wanted
    spine = read_geography(out)
    known = read_hierarchies(load_plan(spine_release))
    assert [one.digest() for one in read_areas(out, spine)[1]] == [one.digest() for one in known.families]
    of = {b: {area for code, area in areas if code == b} for b in blocks}
    for _, group in pl.read_parquet(out / "geography.parquet").group_by("Cluster"):
        assert len({frozenset(of[b]) for b in group["Block"]}) == 1
    truth = pl.read_parquet(spine_release.parent / "people.parquet")
    frame = evaluate_release(out, spine_release.parent / "people.parquet").errors
    found = frame.filter(geolevel="area", query="total", size_class="all").row(0, named=True)
    true = {
        n: truth.filter(pl.col("geocode").is_in([b for b, a in areas if a == n]))["count"].sum()
        for n in wanted
    }
    assert found["mean_absolute_error"] == np.mean([abs(wanted[n] - true[n]) for n in wanted])


def test_pairs_that_are_not_on_the_spine_are_refused(spine_release, tmp_path):
    pl.DataFrame({"geocode": ["P0000", "X9999"], "entity": ["a", "a"]}).write_parquet(
        spine_release.parent / "areas.parquet"
    )
    text = spine_release.read_text()
    spine_release.write_text(
        text.replace(
            'families = ["place", "reserve"]\n[[',
            'families = ["place", "reserve"]\noverlapping = { area = "areas.parquet" }\n[[',
        )
    )
    with pytest.raises(GeographyError) as caught:
        run_release(load_plan(spine_release), tmp_path / "out", test_key=KEY)
    assert caught.value.code == "entity-geocode"
