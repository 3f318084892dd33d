"""Production spines, cuts and groups by variance in whole releases of a made-up state."""

import itertools
import json

import polars as pl
import pytest
from tests.samples import every
from typer.testing import CliRunner

import tallyveil.products.topdown.run.spine_making as making
from tallyveil.api.beginning import write_country
from tallyveil.budget.spine.presets import load_spine_preset, spine_preset_names
from tallyveil.budget.spine.variance import entity_variances, measured_variances, totals_summed
from tallyveil.cli.main import app
from tallyveil.errors import BudgetError
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.topdown.page.release import write_report
from tallyveil.products.topdown.run.inputs import read_hierarchies
from tallyveil.products.topdown.run.run import run_release
from tallyveil.products.topdown.run.spine_making import is_worse
from tallyveil.runs.observer import SilentObserver

KEY = insecure_key("presets")
SHORT = (("State", 2), ("County", 5), ("Tract", 11), ("Block_Group", 12))
OWN_STEPS = """families = ["place", "county_subdivision"]
[[spine.steps]]
kind = "group_by_membership"
families = ["place", "county_subdivision"]
geolevel = "Block_Group"
children = "Block"
cutoff = 2
"""
AIM = ("place", "county_subdivision", "Tract", "Block_Group")
WEIGHTS = "".join(f'{name} = "1"\n' for name in AIM)
REGROUP = f'[spine.regroup]\ngeolevel = "Block_Group"\ncutoff = 60\n[spine.regroup.aim]\n{WEIGHTS}'


@pytest.fixture(scope="module")
def country(tmp_path_factory):
    """People, geography and an entity table that has the columns of every preset."""
    folder = tmp_path_factory.mktemp("country")
    write_country(folder, blocks=400, schema="race-age", seed=8)
    entities = pl.read_parquet(folder / "entities.parquet")
    row = pl.int_range(pl.len())
    entities.with_columns(
        pl.coalesce("place", "county_subdivision").alias("prim"),
        pl.when(row % 37 == 5).then(pl.lit("college")).otherwise(None).alias("group_quarters"),
        pl.col("geocode").str.head(12).alias("block_group"),
        pl.when(row.is_between(90, 170)).then(pl.lit("T1")).otherwise(None).alias("tribal_area"),
    ).write_parquet(folder / "entities.parquet")
    return folder


def write_release(country, made, spine, name, *, rooted, invariant):
    """The made-up state's release file on other geolevels, all with the same share and queries."""
    text = (country / "release.toml").read_text()
    names = [level for level, _ in SHORT] + ["Block"]
    lengths = [n for _, n in SHORT] + [len(pl.read_parquet(country / "geography.parquet")["geocode"][0])]
    if rooted == "us":
        names, lengths = ["US", *names], [0, *lengths]
    start, stop = text.index("geolevels = "), text.index("[schema]")
    text = f"{text[:start]}geolevels = {json.dumps(names)}\nprefix_lengths = {lengths}\n\n{text[stop:]}"
    text = text[: text.index("[strategy]")].replace('geolevels = ["State"]', f'geolevels = ["{invariant}"]')
    shares = "".join(f'{level} = "1/{len(made)}"\n' for level in made)
    text += f'[strategy]\nrho = "2"\n[strategy.geolevels]\n{shares}[strategy.queries."*"]\n'
    text += 'total = "1/2"\nrace_ethnicity = "1/4"\ndetailed = "1/4"\n'
    text += f'[outputs]\ntables = ["total"]\nentities = ["place"]\n[spine]\nentities = "entities.parquet"\n{spine}'
    path = country / f"{name}.toml"
    path.write_text(text)
    return path


@pytest.mark.nightly
@pytest.mark.parametrize("name", every(6, spine_preset_names()))
def test_production_spines_run(country, tmp_path, name):
    preset = load_spine_preset(name)
    rooted = "us" if name.endswith("-us") else "state-rooted"
    made, spine = preset.result, f'preset = "{name}"\n'
    spine += "" if "place" in preset.families else 'families = ["place"]\n'
    invariant = "State"
    if rooted == "us":  # a state that is cut cannot keep its invariant; its parts stand below it
        spine += 'parts = "State_Part"\n'
        made = (*made[:2], "State_Part", *made[2:])
    path = write_release(country, made, spine, name, rooted=rooted, invariant=invariant)
    outcome = run_release(load_plan(path), tmp_path / "out", test_key=KEY)
    truth = pl.read_parquet(country / "records.parquet")["count"].sum()
    states = pl.read_parquet(outcome.path / "tables" / "geolevel=State" / "query=total" / "*.parquet")
    assert states["count"].sum() == truth
    record = outcome.manifest.body["spine"]
    assert record["preset"] == name
    assert [level["geolevel"] for level in record["made"]] == list(made)
    assert record["bypassing"]["rule"] == "single_child"
    assert sum(level["not_measured"] for level in record["bypassing"]["geolevels"]) > 0
    assert f"the production spine {name}" in write_report(outcome.path).read_text()
    assert (outcome.path / "tables" / "geolevel=place").is_dir()


@pytest.mark.nightly
def test_groups_by_variance_are_never_worse_and_run(country, tmp_path):
    made = ("State", "County", "Tract", "Block_Group", "Block")
    files = {
        name: write_release(country, made, text, name, rooted="state-rooted", invariant="State")
        for name, text in (("groups", OWN_STEPS), ("regrouped", OWN_STEPS + REGROUP))
    }
    found = {}
    for name, path in files.items():
        plan = load_plan(path)
        known = read_hierarchies(plan)
        variances = measured_variances(
            known.spine, plan.strategy, totals_summed(plan.schema, plan.strategy), exact=("State",)
        )
        areas = {family.name: family for family in (*known.families, *known.replaced)}
        found[name] = {
            "Tract": variances.variance[2].mean(),
            **{area: entity_variances(variances, areas[area]).mean() for area in AIM if area != "Tract"},
        }
    assert all(found["regrouped"][name] <= found["groups"][name] * (1 + 1e-9) for name in AIM)
    assert sum(found["regrouped"][name] / found["groups"][name] for name in AIM) < len(AIM) - 0.05
    outcome = run_release(load_plan(files["regrouped"]), tmp_path / "out", test_key=KEY)
    assert outcome.manifest.body["spine"]["regroup"]["geolevel"] == "Block_Group"
    page = write_report(outcome.path).read_text()
    assert "groups chosen anew so that the sum of mean variances" in page
    geography = pl.read_parquet(outcome.path / "geography.parquet")
    sizes = geography.group_by("Tract", "Block_Group").len()["len"]
    assert sizes.max() <= 20 + 60


class Warned(SilentObserver):
    """Keeps what a run warns of."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def warned(self, message: str) -> None:
        self.said.append(message)


@pytest.mark.nightly
def test_a_family_that_the_release_does_not_name_is_seen(country, tmp_path):
    """Block groups by place alone: districts and published block groups get less exact, and everything says so."""
    made = ("State", "County", "Tract", "Block_Group", "Block")
    alone = OWN_STEPS.replace(', "county_subdivision"', "")
    free = (
        'may_worsen = ["county_subdivision", "school_district", "Block_Group", "County"]\n[spine.regroup.aim]'
    )
    losing = alone + REGROUP.replace("[spine.regroup.aim]", free)
    losing = losing[: losing.index("[spine.regroup.aim]")] + '[spine.regroup.aim]\nplace = "1"\n'
    path = write_release(country, made, losing, "losing", rooted="state-rooted", invariant="State")
    changes = {one.name: one for one in read_hierarchies(load_plan(path)).changes}
    assert {"place", "county_subdivision", "school_district", "Tract", "Block_Group", "Block"} <= set(changes)
    lost = {name for name, one in changes.items() if is_worse(one.given.mean, one.made.mean)}
    assert "Block_Group" in lost
    watched = Warned()
    outcome = run_release(load_plan(path), tmp_path / "out", test_key=KEY, observer=watched)
    record, page = outcome.manifest.body["spine"], write_report(outcome.path).read_text()
    for name in lost:
        said = [
            sentence
            for sentence in record["warnings"]
            if sentence.startswith(f"{name}: totals are less exact")
        ]
        assert len(said) == 1
        assert said[0] in watched.said
        assert said[0].replace("_", " ") in page
    assert {item["name"]: item["aimed"] for item in record["deviations"]} == {
        name: name == "place" for name in changes
    }
    planned = CliRunner().invoke(app, ["plan", str(path), "--read-geography"])
    assert "school_district" in planned.stdout
    assert "warning: Block_Group: totals are less exact" in planned.stderr
    planned = CliRunner().invoke(app, ["plan", str(path), "--read-geography", "--json"])
    assert json.loads(planned.stdout)["spine"]["warnings"] == record["warnings"]


def test_groups_by_variance_need_a_total(country, monkeypatch):
    made = ("State", "County", "Tract", "Block_Group", "Block")
    path = write_release(country, made, OWN_STEPS + REGROUP, "none", rooted="state-rooted", invariant="State")

    def nothing(schema, strategy):
        return dict.fromkeys(strategy.queries("Tract"), 0)

    monkeypatch.setattr(making, "totals_summed", nothing)
    with pytest.raises(BudgetError, match="no measured query tells a total"):
        read_hierarchies(load_plan(path))


def test_cuts_keep_the_entities_as_geounits(country, tmp_path):
    made = ("State", "County", "Prim", "Tract", "Block_Group", "Block")
    steps = 'families = ["place", "prim"]\n[[spine.steps]]\nkind = "cut_by_entities"\nfamilies = ["prim"]\n'
    steps += 'geolevel = "County"\nname = "Prim"\n'
    path = write_release(country, made, steps, "cut", rooted="state-rooted", invariant="State")
    outcome = run_release(load_plan(path), tmp_path / "out", test_key=KEY)
    known = read_hierarchies(load_plan(path))
    prims = known.spine.level_index("Prim")
    of_prim = {}
    for family in known.families:
        if family.name == "prim":
            for number, code in enumerate(family.codes):
                of_prim |= dict.fromkeys(family.members_of(number).tolist(), code)
    for start, stop in itertools.pairwise(known.spine.finest_offsets(prims).tolist()):
        assert len({of_prim.get(block) for block in range(start, stop)}) == 1
    assert (
        "the parts are a geolevel below County, which stays whole" in write_report(outcome.path).read_text()
    )


@pytest.mark.nightly
def test_groups_by_variance_below_a_state_whose_total_is_published(country):
    """The State is no root here: its exact total stands as a measurement far more exact than all others."""
    made = ("US", "State", "County", "Tract", "Block_Group", "Block")
    path = write_release(country, made, OWN_STEPS + REGROUP, "us", rooted="us", invariant="State")
    other = write_release(
        country, made[1:], OWN_STEPS + REGROUP, "st", rooted="state-rooted", invariant="State"
    )
    one, two = (read_hierarchies(load_plan(file)).spine for file in (path, other))
    # One state: the trees below it are grouped alike, as the shares below it are.
    assert one.n_geounits(4) == pytest.approx(two.n_geounits(3), rel=0.05)
    assert one.n_geounits(4) < read_hierarchies(load_plan(path)).original.n_geounits(4) * 4
