"""`tallyveil synth` writes a population with a release file that fits it."""

import re
from pathlib import Path

import polars as pl
import pytest
from tests.samples import nightly

from tallyveil.api.beginning import write_country
from tallyveil.budget.spine.presets import load_spine_preset, spine_preset_names
from tallyveil.errors import ConfigError, GeographyError, TallyveilError
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.dhc.public.from_toml import load_programme
from tallyveil.products.topdown.run.inputs import read_hierarchies, read_histograms, read_spine


def test_persons_and_units_share_every_public_file(tmp_path):
    for schema in ("pl94-persons", "pl94-units"):
        write_country(tmp_path / schema, blocks=600, states=3, schema=schema, seed=9)
    for name in ("geography", "entities", "facilities"):
        persons, units = (
            pl.read_parquet(tmp_path / schema / f"{name}.parquet")
            for schema in ("pl94-persons", "pl94-units")
        )
        assert units.equals(persons)


@pytest.mark.parametrize(("states", "root"), [(1, "State"), (3, "US")])
def test_the_release_file_of_units_publishes_their_totals_exactly(tmp_path, states, root):
    *_, release = write_country(tmp_path, blocks=600, states=states, schema="pl94-units")
    plan = load_plan(release)
    assert plan.geography.geolevels[0] == root
    assert plan.schema.unit.many == "housing units"
    assert plan.declared == plan.strategy.total
    assert [(item.query, item.geolevels) for item in plan.invariants] == [("total", ("Block",))]
    records = pl.read_parquet(tmp_path / "records.parquet")
    histograms = read_histograms(plan, read_spine(plan.geography))
    assert histograms[-1].counts.sum() == records["count"].sum()


@pytest.mark.parametrize("preset", [name for name in spine_preset_names() if "redistricting" in name])
def test_the_entity_table_fits_the_spines_of_the_redistricting_data(tmp_path, preset):
    schema = "pl94-units" if "units" in preset else "pl94-persons"
    *_, release = write_country(tmp_path, blocks=900, states=3 if preset.endswith("us") else 1, schema=schema)
    parts = 'parts = "State_Part"\n' if preset == "redistricting-persons-us" else ""
    made = load_spine_preset(preset).result
    made = (*made[:2], "State_Part", *made[2:]) if parts else made
    shares = "".join(f'{level} = "1/{len(made)}"\n' for level in made)
    text = release.read_text()
    start, stop = text.index("[strategy]"), text.index("[[invariants]]")
    strategy = (
        f'[strategy]\nrho = "1/20"\n[strategy.geolevels]\n{shares}[strategy.queries."*"]\ndetailed = "1"\n\n'
    )
    spine = f'\n[spine]\nentities = "entities.parquet"\npreset = "{preset}"\n{parts}'
    release.write_text(text[:start] + strategy + text[stop:] + spine)
    hierarchies = read_hierarchies(load_plan(release))
    assert hierarchies.spine.geolevels == made


@pytest.mark.parametrize(
    ("schema", "states", "root"),
    [
        ("pl94-persons", 1, "State"),
        ("pl94-persons", 3, "US"),
        ("race-age", 3, "State"),
    ],
)
def test_several_states_have_the_us_above_them_where_a_preset_does(tmp_path, schema, states, root):
    *_, release = write_country(tmp_path, blocks=3_000, people=100_000, states=states, schema=schema)
    plan = load_plan(release)
    assert plan.geography.geolevels[0] == root
    spine = read_spine(plan.geography)
    histograms = read_histograms(plan, spine)
    assert histograms[0].counts.sum() == 100_000
    assert spine.n_geounits(spine.level_index("State")) == states
    assert pl.read_parquet(tmp_path / "geography.parquet")["state"].n_unique() == states


@pytest.mark.nightly
@pytest.mark.parametrize(("states", "root"), [(1, "State"), (3, "US")])
def test_the_programme_of_the_dhc_can_be_planned(tmp_path, states, root):
    *_, programme = write_country(tmp_path, blocks=300, states=states, schema="dhc")
    plan = load_programme(programme, tmp_path / "out")
    assert [one.name for one in plan.releases] == ["redistricting", "h1", "dhc-persons", "dhc-units"]
    assert [one.reads for one in plan.releases] == [(), (), ("redistricting",), ("h1",)]
    for one in plan.releases:
        assert one.plan.geography.geolevels[0] == root
        assert one.plan.declared == one.plan.strategy.total
        spine = read_hierarchies(one.plan).spine
        assert spine.geolevels == tuple(level for level, _ in one.plan.strategy.geolevel_shares)


def test_a_programme_whose_files_agree_can_be_planned(tmp_path):
    *_, programme = write_country(tmp_path / "new", blocks=60, schema="dhc", agree=True)
    plan = load_programme(programme, tmp_path / "out")
    reads = [(), ("redistricting",), ("redistricting", "h1"), ("dhc-persons", "h1")]
    assert [one.reads for one in plan.releases] == reads
    lifts = [[pass_.part for pass_ in one.plan.outer if pass_.part] for one in plan.releases]
    assert lifts == [[], ["occupied"], ["householders", "living_alone", "partners"], ["coupled"]]
    with pytest.raises(ConfigError, match="--agree needs --schema dhc"):
        write_country(tmp_path / "other", blocks=60, agree=True, schema="pl94-persons")
    with pytest.raises(ConfigError, match="--sizes tract needs one state"):
        write_country(tmp_path / "other", blocks=60, agree=True, schema="dhc", states=3, sizes="tract")
    for flags in ({"agree": True, "sizes": "county"}, {"sizes": "block"}):
        with pytest.raises(ConfigError, match="wanted one of none, tract, block"):
            write_country(tmp_path / "other", blocks=60, schema="dhc", **flags)
    assert not (tmp_path / "other").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("sizes", ["none", "block"])
def test_files_of_several_states_agree_with_the_spine_and_the_budgets_of_production(tmp_path, sizes):
    flags = {"blocks": 300, "states": 2, "schema": "dhc", "agree": True, "sizes": sizes}
    *_, programme = write_country(tmp_path / "new", **flags)
    plan = load_programme(programme, tmp_path / "out")
    alone = load_programme(
        write_country(tmp_path / "alone", **(flags | {"states": 1}))[-1], tmp_path / "other"
    )
    assert [release.reads for release in plan.releases] == [release.reads for release in alone.releases]
    for release, other in zip(plan.releases, alone.releases, strict=True):
        assert release.plan.geography.geolevels[0] == "US"
        assert release.plan.outer == other.plan.outer
        assert release.plan.declared == release.plan.strategy.total
        spine = read_hierarchies(release.plan).spine
        assert spine.geolevels == tuple(level for level, _ in release.plan.strategy.geolevel_shares)
    # persons and units spend the same as in one state; production's US is spent, too
    assert [release.plan.declared for release in plan.releases[2:]] == [
        release.plan.declared for release in alone.releases[2:]
    ]


@pytest.mark.nightly
@pytest.mark.parametrize(("sizes", "geolevel"), [("tract", "Tract"), ("block", "Block")])
def test_a_programme_whose_sizes_add_up_can_be_planned(tmp_path, sizes, geolevel):
    *_, programme = write_country(tmp_path / "new", blocks=60, schema="dhc", agree=True, sizes=sizes)
    persons, units = (one.plan for one in load_programme(programme, tmp_path / "out").releases[-2:])
    assert [one.prior for one in persons.outer] == ["shares", "company", "shares", None, None]
    assert [(one.name, one.geolevel) for one in units.residents] == [("dhc-persons", geolevel)]
    assert [one.part for one in units.outer if one.sizes] == [
        "size_7_plus",
        "size_6",
        "size_5",
        "size_4",
        "size_3",
    ]


@pytest.mark.parametrize("states", [nightly(["44", "44"]), ["44", "25"]])
def test_sizes_add_up_in_tracts_for_published_counts_of_one_state(tmp_path, states):
    codes = [f"{state}001030100100{number}" for number, state in enumerate(states)]
    counts = {"voting_age": ["18_plus"] * 2, "race_ethnicity": ["two"] * 2, "count": [3, 4]}
    pl.DataFrame({"geocode": codes, **counts}).write_parquet(tmp_path / "counts.parquet")
    like = {
        "blocks": None,
        "schema": "dhc",
        "agree": True,
        "sizes": "tract",
        "like": tmp_path / "counts.parquet",
    }
    if len(set(states)) > 1:
        with pytest.raises(ConfigError, match="--sizes tract needs one state"):
            write_country(tmp_path / "new", **like)
        assert not (tmp_path / "new").exists()
    else:
        *_, programme = write_country(tmp_path / "new", **like)
        assert len(load_programme(programme, tmp_path / "out").releases) == 4


@pytest.mark.parametrize(
    ("schema", "hint"), [("dhc-units", "Use --schema dhc,"), ("pl94-person", "Did you mean 'pl94-persons'")]
)
def test_unknown_schemas_are_refused_before_anything_is_written(tmp_path, schema, hint):
    with pytest.raises(ConfigError, match=hint):
        write_country(tmp_path / "new", blocks=3, schema=schema)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "<b>", "\u202ex", "x" * 200, ".toml", "-"])
def test_a_folder_of_any_name_has_release_files_that_can_be_read(tmp_path, name):
    *_, release = write_country(tmp_path / name, blocks=2, schema="race-age")
    assert load_plan(release).name


@pytest.mark.parametrize(
    "geocodes",
    [["440010301001000", "44001"], ["44001030100", "44001030100"], [440010301001000, 440010301001001]],
)
@pytest.mark.parametrize("which", ["--like", "--like-geography"])
def test_geocodes_that_are_not_those_of_blocks_are_refused(tmp_path, geocodes, which):
    counts = {"voting_age": ["18_plus"] * 2, "race_ethnicity": ["two"] * 2, "count": [3, 4]}
    levels = {name: ["4", "4"] for name in ("state", "county", "tract", "block_group")}
    good = ["440010301001000", "440010301001001"]
    for_counts, for_blocks = (geocodes, good) if which == "--like" else (good, geocodes)
    pl.DataFrame({"geocode": for_counts, **counts}).write_parquet(tmp_path / "counts.parquet")
    pl.DataFrame({"geocode": for_blocks, **levels}).write_parquet(tmp_path / "blocks.parquet")
    with pytest.raises(TallyveilError, match=r"do not have 15 characters|holds Int64, wanted text") as caught:
        write_country(
            tmp_path / "new",
            blocks=None,
            schema="dhc",
            like=tmp_path / "counts.parquet",
            like_geography=tmp_path / "blocks.parquet",
        )
    assert isinstance(caught.value, ConfigError if isinstance(geocodes[0], int) else GeographyError)
    assert not (tmp_path / "new").exists()


@pytest.mark.nightly
def test_the_records_of_the_dhc_fit_their_releases(tmp_path):
    *_, programme = write_country(tmp_path, blocks=200, schema="dhc", seed=2)
    files = {"redistricting": "persons", "h1": None, "dhc-persons": "persons", "dhc-units": "units"}
    for one in load_programme(programme, tmp_path / "out").releases:
        histograms = read_histograms(one.plan, read_spine(one.plan.geography))
        records = files[one.name]
        n = (
            pl.read_parquet(tmp_path / "h1.parquet")["count"].sum()
            if records is None
            else pl.read_parquet(tmp_path / f"{records}.parquet").height
        )
        assert histograms[-1].counts.sum() == n


def test_the_example_of_the_dhc_is_what_is_written(tmp_path):
    written = write_country(tmp_path / "rhode-island", blocks=40, schema="dhc")
    example = Path(__file__).parents[3] / "examples" / "dhc"
    files = [path for path in written if path.suffix == ".toml"]
    assert {path.name for path in files} == {path.name for path in example.glob("*.toml")}
    for path in files:
        text = re.sub(r'"(\w+\.parquet)"', r'"../../releases/rhode-island-people/\1"', path.read_text())
        assert (example / path.name).read_text() == text
