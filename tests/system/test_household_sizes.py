"""Households whose sizes add up to the people in them: every promise is held to the written files."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.outer_worlds import blocks
from tests.size_worlds import SIZES, write_sized_programme

import tallyveil
from tallyveil.errors import TallyveilError
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.estimate import estimate_release
from tallyveil.postprocess.measured import open_measurements
from tallyveil.products.topdown.run.run import run_release

KEY = insecure_key("sizes")
PATHS = {
    'name = "persons"\nquery': 'name = "persons"\npath = "R/persons"\nquery',
    'name = "homes"\nquery': 'name = "homes"\npath = "R/homes"\nquery',
    'name = "persons"\nhouseholds': 'name = "persons"\npath = "R/persons"\nhouseholds',
}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with the inputs, and the finished programme `R`."""
    folder = tmp_path_factory.mktemp("sizes")
    programme = write_sized_programme(folder)
    tallyveil.run_programme(programme, folder / "R", workers=1, insecure_test_key="sizes")
    return folder


def plan_of(made: Path, name: str, *changes: tuple[str, str]):
    """The plan of the households by themselves, with changes of the file."""
    text = (made / "households.toml").read_text()
    for old, new in (*PATHS.items(), *changes):
        assert old in text
        text = text.replace(old, new)
    path = made / f"{name}.toml"
    path.write_text(text)
    return load_plan(path)


def counted(release: Path, length: int, attribute: str) -> dict[str, np.ndarray]:
    """Published records of every area with each level; areas by the first characters of their blocks' geocodes."""
    codes = sorted({code[:length] for code in blocks()})
    frame = pl.read_parquet(release / "histogram" / "Block.parquet").select(
        area=pl.col("geocode").cast(pl.String).str.head(length),
        level=pl.col(attribute).cast(pl.String),
        n="count",
    )
    found: dict[str, np.ndarray] = {}
    for area, level, n in frame.group_by("area", "level").agg(pl.col("n").sum()).iter_rows():
        found.setdefault(level, np.zeros(len(codes), np.int64))[codes.index(area)] = n
    return found


def gaps(made: Path, release: Path, length: int) -> np.ndarray:
    """People of every area whom the sizes of its households do not account for, above zero; or lack, below zero."""
    homes, people = counted(release, length, "size"), counted(made / "R" / "persons", length, "relation")
    members = sum(people[one] for one in ("alone", "head", "partner", "other"))
    left = members - sum(homes[one] * size for size, one in enumerate(SIZES, start=1))
    return np.where(homes["four_plus"] > 0, np.minimum(left, 0), left)


def test_sizes_add_up_in_every_block(made):
    assert not gaps(made, made / "R" / "households", 5).any()
    homes = counted(made / "R" / "households", 5, "size")
    assert all(homes[one].any() for one in SIZES)
    heads = counted(made / "R" / "persons", 5, "relation")
    assert np.array_equal(heads["alone"], homes["alone"])
    assert np.array_equal(heads["head"], homes["two"] + homes["three"] + homes["four_plus"])
    vacant = counted(made / "R" / "homes", 5, "status")["vacant"]
    assert np.array_equal(homes["vacant"], vacant)


@pytest.mark.nightly
@pytest.mark.parametrize(("geolevel", "length"), [("Town", 3), ("Region", 1)])
def test_sizes_add_up_in_every_geounit_of_a_coarser_geolevel(made, tmp_path, geolevel, length):
    plan = plan_of(made, geolevel, ('geolevel = "Block"', f'geolevel = "{geolevel}"'))
    outcome = run_release(plan, tmp_path / "out", test_key=KEY, workers=1)
    assert not gaps(made, outcome.path, length).any()
    assert gaps(made, outcome.path, 5).any()
    assert f"'middle' keeps its limits (sizes persons) in every {geolevel}" in outcome.manifest.checks
    (record,) = outcome.manifest.body["residents"]
    assert (record["households"], record["geolevel"]) == ("sizes", geolevel)
    assert "adults" not in record


@pytest.mark.nightly
def test_counts_are_the_same_for_every_number_of_workers_and_from_the_folder(made, tmp_path):
    first = run_release(plan_of(made, "workers"), tmp_path / "1", test_key=KEY, workers=1)
    place = Path("histogram") / "Block.parquet"
    wanted = pl.read_parquet(first.path / place)
    for workers in (2, 3):
        again = run_release(plan_of(made, "workers"), tmp_path / str(workers), test_key=KEY, workers=workers)
        assert pl.read_parquet(again.path / place).equals(wanted)
    estimated = estimate_release(open_measurements(first.path), tmp_path / "estimated", workers=1)
    assert pl.read_parquet(estimated.path / place).equals(wanted)


def test_people_to_whom_no_sizes_add_up_are_refused_before_the_spend(made, tmp_path):
    plan = plan_of(made, "few", ('"head", "partner", "other"]', '"head"]'))
    with pytest.raises(TallyveilError, match="too few people for their households") as caught:
        run_release(plan, tmp_path / "out", test_key=KEY, workers=1)
    assert caught.value.code == "constraints-conflict"
    assert not (tmp_path / "out" / "ledger.jsonl").exists()
