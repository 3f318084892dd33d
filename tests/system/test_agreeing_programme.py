"""A programme whose files agree: homes for published people, then persons with heads, partners and others in them."""

import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.lift_worlds import write_programme
from tests.outer_worlds import blocks

import tallyveil
from tallyveil.errors import TallyveilError
from tallyveil.estimation.leaf_lift import alone_limits, occupied_limits
from tallyveil.files.manifest_files import read_manifest
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.estimate import estimate_release
from tallyveil.postprocess.measured import open_measurements
from tallyveil.products.dhc.public.from_toml import load_programme
from tallyveil.products.topdown.run.run import run_release

KEY = "agreeing"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with the inputs, and the finished programme `R`."""
    folder = tmp_path_factory.mktemp("agreeing")
    tallyveil.run_programme(write_programme(folder), folder / "R", workers=1, insecure_test_key=KEY)
    return folder


def counted(release: Path, **levels: list[str]) -> np.ndarray:
    """Published records of every block with some levels."""
    frame = pl.read_parquet(release / "histogram" / "Block.parquet")
    chosen = frame.filter(*(pl.col(name).cast(pl.String).is_in(own) for name, own in levels.items()))
    summed = chosen.group_by(pl.col("geocode").cast(pl.String)).agg(pl.col("count").sum())
    found = dict(summed.iter_rows())
    return np.array([found.get(code, 0) for code in blocks()])


def test_the_published_files_agree_in_every_block(made):
    coarse, homes, persons = (made / "R" / name for name in ("coarse", "homes", "persons"))
    people, adults = counted(coarse, home=["house"]), counted(coarse, home=["house"], grown=["adult"])
    occupied, units = counted(homes, status=["occupied"]), counted(homes)
    lower, upper = occupied_limits(people, adults, units)
    assert bool(((lower <= occupied) & (occupied <= upper)).all())
    assert np.array_equal(occupied > 0, people > 0)
    alone, heads = counted(persons, relation=["alone"]), counted(persons, relation=["head"])
    partners, others = counted(persons, relation=["partner"]), counted(persons, relation=["other"])
    assert np.array_equal(alone + heads, occupied)
    assert np.array_equal(alone + heads + partners + others, people)
    assert bool((partners <= heads).all())
    lower, upper = alone_limits(people, occupied)
    assert bool(((lower <= alone) & (alone <= upper)).all())
    true = pl.read_parquet(made / "homes.parquet")
    assert counted(homes).sum() == true["count"].sum()


def test_the_manifests_name_what_was_taken_over_and_checked(made):
    homes = read_manifest(made / "R" / "homes")
    (record,) = homes.body["residents"]
    assert record["people"] == {"home": ["house"]}
    assert record["run"] == read_manifest(made / "R" / "coarse").run
    assert "'lived_in' keeps its limits (residents coarse) in every Block" in homes.checks
    persons = read_manifest(made / "R" / "persons")
    assert "'partners' keeps its limits (at_most with_others) in every Block" in persons.checks
    assert homes.body["plan"]["outer"][0]["prior"] == "shares"


def test_the_folder_says_all_that_estimating_needs(made, tmp_path):
    again = estimate_release(open_measurements(made / "R" / "homes"), tmp_path / "again", workers=1)
    place = Path("histogram") / "Block.parquet"
    assert pl.read_parquet(again.path / place).equals(pl.read_parquet(made / "R" / "homes" / place))
    copy = tmp_path / "copy"
    shutil.copytree(made / "R" / "homes", copy)
    (copy / "residents" / "00.parquet").unlink()
    with pytest.raises(TallyveilError, match="residents"):
        open_measurements(copy)


def test_bounds_that_let_people_live_without_units_are_refused_before_any_spend(tmp_path):
    programme = write_programme(tmp_path)
    bounds = pl.read_parquet(tmp_path / "housing.parquet")
    bare = bounds.head(1).with_columns(geocode=pl.lit(blocks()[3]), home=pl.lit("house"))
    pl.concat([bounds, bare]).write_parquet(tmp_path / "housing.parquet")
    with pytest.raises(
        TallyveilError, match=f"1 Block geounits, such as '{blocks()[3]}', have no record"
    ) as caught:
        tallyveil.run_programme(programme, tmp_path / "R", workers=1, insecure_test_key=KEY)
    assert caught.value.code == "people-without-units"
    assert not (tmp_path / "R" / "coarse").exists()


def test_people_where_there_is_no_unit_are_refused_before_the_spend(made, tmp_path):
    path = made / "alone.toml"
    text = (made / "homes.toml").read_text().replace('name = "coarse"', 'name = "coarse"\npath = "R/coarse"')
    people = counted(made / "R" / "coarse", home=["house"])
    lost = blocks()[int(np.argmax(people))]
    homes = pl.read_parquet(made / "homes.parquet")
    homes.filter(pl.col("geocode") != lost).write_parquet(tmp_path / "homes.parquet")
    path.write_text(text.replace('"homes.parquet"', f'"{tmp_path / "homes.parquet"}"'))
    with pytest.raises(TallyveilError, match=f"Block '{lost}': residents coarse has people there") as caught:
        run_release(load_plan(path), tmp_path / "out", test_key=insecure_key(KEY), workers=1)
    assert caught.value.code == "people-without-units"
    assert not (tmp_path / "out" / "ledger.jsonl").exists()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('home = ["house"]', 'home = ["houses"]', "attribute 'home' has no level 'houses'"),
        ('grown = ["adult"]', 'grow = ["adult"]', "there is no attribute 'grow'"),
        ('"coarse"', '"persons"', "no earlier release 'persons'"),
    ],
)
def test_residents_that_an_earlier_release_does_not_have_are_refused(tmp_path, old, new, told):
    programme = write_programme(tmp_path)
    homes = tmp_path / "homes.toml"
    homes.write_text(homes.read_text().replace(old, new))
    with pytest.raises(TallyveilError, match=told):
        load_programme(programme)
