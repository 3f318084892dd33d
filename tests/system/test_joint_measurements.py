"""Measurements of two products about the same people: their joint estimate is that of dense least squares over both."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.samples import nightly

import tallyveil
from tallyveil.api.measured import Measurements
from tallyveil.postprocess.estimate import estimate_release
from tallyveil.postprocess.measured import open_measurements

COUNTIES = ("A1", "A2")
SEXES = (np.repeat([0, 1], 3), np.repeat([1, 0], 3))
"""Female, then male, in the cells of the first product."""
AGES = ("0_17", "18_64", "65_plus")
FIRST = """
[release]
name = "detailed"
[records]
path = "people.parquet"
geocode = "geocode"
[geography]
path = "geography.parquet"
geocode = "geocode"
geolevels = ["State", "County"]
prefix_lengths = [1, 2]
[schema]
name = "detailed"
[[schema.attributes]]
name = "sex"
levels = ["male", "female"]
[[schema.attributes]]
name = "age"
levels = ["0_17", "18_64", "65_plus"]
[[schema.recodes]]
name = "adult"
attribute = "age"
groups = { minor = ["0_17"], adult = ["18_64", "65_plus"] }
[privacy]
neighbours = "bounded"
mechanism = "discrete_gaussian"
rho = "2"
delta = "1e-10"
[strategy]
rho = "2"
[strategy.geolevels]
State = "1/4"
County = "3/4"
[strategy.queries."*"]
age = "1/3"
"sex*age" = "2/3"
[[invariants]]
query = "total"
geolevels = ["State"]
[outputs]
tables = ["total", "sex*age"]
"""
SECOND = (
    FIRST.partition("[schema]")[0].replace('"detailed"', '"plain"')
    + """
[schema]
name = "plain"
[[schema.attributes]]
name = "voting"
levels = ["adult", "minor"]
[[schema.attributes]]
name = "gender"
levels = ["female", "male"]
[privacy]
neighbours = "bounded"
mechanism = "discrete_gaussian"
rho = "1"
delta = "1e-10"
[strategy]
rho = "1"
[strategy.geolevels]
State = "1/2"
County = "1/2"
[strategy.queries."*"]
total = "1/5"
voting = "1/5"
"voting*gender" = "3/5"
[[invariants]]
query = "total"
geolevels = ["State"]
[[invariants]]
query = "voting"
geolevels = ["State"]
[outputs]
tables = ["total"]
"""
)


def people(rng: np.random.Generator) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "geocode": rng.choice(COUNTIES, 400),
            "sex": rng.choice(["male", "female"], 400, p=[0.45, 0.55]),
            "age": rng.choice(AGES, 400, p=[0.3, 0.5, 0.2]),
        }
    ).with_columns(
        voting=pl.when(pl.col("age") == "0_17").then(pl.lit("minor")).otherwise(pl.lit("adult")),
        gender=pl.col("sex"),
    )


def measured(folder: Path, name: str, text: str) -> Measurements:
    (folder / f"{name}.toml").write_text(text)
    return tallyveil.measure(folder / f"{name}.toml", folder / name, workers=1, insecure_test_key=name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("joint")
    people(np.random.default_rng(3)).write_parquet(folder / "people.parquet")
    pl.DataFrame({"geocode": COUNTIES}).write_parquet(folder / "geography.parquet")
    for name, text in (("first", FIRST), ("second", SECOND)):
        measured(folder, name, text)
    return folder


def rows_of(
    queries: Mapping[str, np.ndarray], made: Measurements
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every noisy answer as a row over the cells of both counties, its value, and its standard deviation."""
    matrix, values, deviations = [], [], []
    for geolevel, where in (("State", [(1, 1)]), ("County", [(1, 0), (0, 1)])):
        for query, counted in queries.items():
            frame = made.measurements(geolevel, query)
            matrix += [np.kron(counties, row) for counties in where for row in counted]
            values += frame["value"].to_list()
            deviations += frame["variance"].sqrt().to_list()
    return np.array(matrix, dtype=float), np.array(values), np.array(deviations)


def test_the_joint_estimate_is_least_squares_over_both(folder, command):
    command(
        *("measurements", "export", folder / "first", "--layout", "tidy", "--out", folder / "tidy"),
        *("--jointly-with", folder / "second"),
    )
    command("measurements", "import", folder / "tidy", "--layout", "tidy", "--out", folder / "joint")
    made = tallyveil.open(folder / "joint")
    assert isinstance(made, Measurements)
    # What both spent: the sum, along any path of the tree.
    assert float(open_measurements(made.path).plan.spent) == pytest.approx(3, rel=1e-12)
    # Cells: male of three ages, then female; the second product numbers adults before minors, women before men.
    cells = np.eye(6)
    ages = np.tile(np.eye(3), 2)
    adults = [ages[1] + ages[2], ages[0]]
    sexes = [np.repeat([0, 1], 3), np.repeat([1, 0], 3)]
    first = rows_of({"age": ages, "sex*age": cells}, tallyveil.open(folder / "first"))
    second = rows_of(
        {
            "total": np.ones((1, 6)),
            "voting": np.array(adults),
            "voting*gender": np.array([adult * sex for adult in adults for sex in sexes]),
        },
        tallyveil.open(folder / "second"),
    )
    matrix, values, deviations = (np.concatenate(parts) for parts in zip(first, second, strict=True))
    # What is exact at the State, by both or by the second alone: rows whose deviation is next to nothing.
    adults_there = (pl.read_parquet(folder / "people.parquet")["voting"] == "adult").sum()
    matrix = np.vstack([matrix, np.ones(12), np.tile(adults[0], 2)])
    values, deviations = np.append(values, [400, adults_there]), np.append(deviations, [1e-5, 1e-5])
    weighted = matrix / deviations[:, None]
    wanted = np.linalg.lstsq(weighted, values / deviations, rcond=None)[0]
    covariance = np.linalg.inv(weighted.T @ weighted)
    answer = made.ask("sex by age by County").to_frame()
    assert answer["estimate"].to_numpy() == pytest.approx(wanted, abs=1e-4)
    assert answer["standard_error"].to_numpy() == pytest.approx(np.sqrt(np.diag(covariance)), rel=1e-4)
    alone = tallyveil.open(folder / "first").ask("sex by age by County").to_frame()
    assert (answer["standard_error"] < alone["standard_error"]).all()
    # More men than women in a county, answered by both products together.
    contrast = np.concatenate([np.repeat([1, -1], 3), np.zeros(6)])
    above = made.ask("total where sex = male in A1 as share of total", threshold=0.5).to_frame()
    assert above["estimate"].item() == pytest.approx(wanted[:3].sum() / wanted[:6].sum(), abs=1e-4)
    county = made.area("A1")
    counts = made.quantities({sex: county.count("sex", {"sex": sex}) for sex in ("male", "female")})
    z = contrast @ wanted / np.sqrt(contrast @ covariance @ contrast)
    from scipy.stats import norm

    assert counts.probability_greater("male", "female") == pytest.approx(norm.cdf(z), abs=1e-3)
    assert all(item.is_as_stated for item in made.residuals())
    release = estimate_release(open_measurements(made.path), folder / "release", workers=1).path
    assert pl.read_parquet(release / "tables/geolevel=State/query=total/*.parquet")["count"].to_list() == [
        400
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            ('levels = ["adult", "minor"]', 'levels = ["voter", "minor"]'),
            "the attribute 'voting' with the levels voter, minor",
        ),
        (('geolevels = ["State", "County"]', 'geolevels = ["Land", "County"]'), "differ at State and Land"),
        (("people.parquet", "fewer.parquet"), "exact totals differ"),
    ],
)
def test_what_does_not_fit_is_named(folder, command, tmp_path, change, words):
    text = SECOND.replace(*change).replace("State", "Land" if "Land" in change[1] else "State")
    frame = pl.read_parquet(folder / "people.parquet")
    replaced = pl.col("voting").replace("adult", "voter") if "voter" in change[1] else pl.col("voting")
    for name, rows in (("people", frame), ("fewer", frame.head(300))):
        rows.with_columns(replaced).write_parquet(tmp_path / f"{name}.parquet")
    (tmp_path / "geography.parquet").write_bytes((folder / "geography.parquet").read_bytes())
    other = measured(tmp_path, "other", text)
    arguments = ("--layout", "tidy", "--out", tmp_path / "tidy", "--jointly-with", other.path)
    said = command("measurements", "export", folder / "first", *arguments, code=3)
    assert "joint-measurements" in said
    assert words in " ".join(said.split())
    assert not (tmp_path / "tidy").exists()


def refused(command, tmp_path, first, second) -> str:
    """What is said of two folders that are not joined."""
    arguments = ("--layout", "tidy", "--out", tmp_path / "refused", "--jointly-with", second)
    said = command("measurements", "export", first, *arguments, code=3)
    assert "joint-measurements" in said
    assert not (tmp_path / "refused").exists()
    return " ".join(said.split())


def test_exact_totals_of_different_geolevels_are_compared(folder, command, tmp_path):
    pl.read_parquet(folder / "people.parquet").head(300).write_parquet(tmp_path / "people.parquet")
    (tmp_path / "geography.parquet").write_bytes((folder / "geography.parquet").read_bytes())
    at_counties = ('query = "total"\ngeolevels = ["State"]', 'query = "total"\ngeolevels = ["County"]')
    other = measured(tmp_path, "other", SECOND.replace(*at_counties))
    assert "exact totals differ" in refused(command, tmp_path, folder / "first", other.path)


def test_noise_is_not_counted_twice(folder, command, tmp_path):
    """Neither a folder with itself, nor with its own export, nor with what it was joined with."""
    assert "counted twice" in refused(command, tmp_path, folder / "first", folder / "first")
    tallyveil.export_measurements(
        folder / "first", tmp_path / "tidy", layout="tidy", jointly_with=folder / "second"
    )
    joint = tallyveil.import_measurements(tmp_path / "tidy", tmp_path / "joint", layout="tidy")
    assert "counted twice" in refused(command, tmp_path, joint.path, folder / "second")
    # Names of runs outlast a second export.
    tallyveil.export_measurements(joint.path, tmp_path / "again-tidy", layout="tidy")
    again = tallyveil.import_measurements(tmp_path / "again-tidy", tmp_path / "again", layout="tidy")
    assert "counted twice" in refused(command, tmp_path, again.path, folder / "first")


YES_NO = """
[[schema.attributes]]
name = "{}"
levels = ["yes", "no"]
"""


@pytest.mark.nightly
def test_of_attributes_with_the_same_levels_the_name_decides(folder, command, tmp_path):
    rng = np.random.default_rng(4)
    pl.DataFrame(
        {"geocode": rng.choice(COUNTIES, 50)}
        | {name: rng.choice(["yes", "no"], 50) for name in ("student", "worker", "citizen")}
    ).write_parquet(tmp_path / "people.parquet")
    (tmp_path / "geography.parquet").write_bytes((folder / "geography.parquet").read_bytes())
    head, tail = FIRST.partition("[[schema.attributes]]")[0], FIRST[FIRST.index("[privacy]") :]
    for name, attributes in (
        ("first", ("student", "worker")),
        ("worker", ("worker",)),
        ("citizen", ("citizen",)),
    ):
        text = head + "".join(map(YES_NO.format, attributes)) + tail
        measured(
            tmp_path,
            name,
            text.replace('age = "1/3"', f'{attributes[-1]} = "1/3"')
            .replace('"sex*age" = "2/3"', 'total = "2/3"')
            .replace(', "sex*age"]', "]"),
        )
    first = tmp_path / "first"
    tallyveil.export_measurements(first, tmp_path / "tidy", layout="tidy", jointly_with=tmp_path / "worker")
    made = tallyveil.import_measurements(tmp_path / "tidy", tmp_path / "joint", layout="tidy")
    recodes = {recode.name: recode.attribute for recode in open_measurements(made.path).plan.schema.recodes}
    assert recodes["worker_2"] == "worker"
    assert "several different attributes" in refused(command, tmp_path, first, tmp_path / "citizen")


TOWNS = ("A11", "A12", "A13", "A21")
"""The last one is alone in its county, which gets its share of the budget."""
BYPASSING = {
    'geolevels = ["State", "County"]\nprefix_lengths = [1, 2]': (
        'geolevels = ["State", "County", "Town"]\nprefix_lengths = [1, 2, 3]'
    ),
    'State = "1/4"\nCounty = "3/4"': 'State = "1/4"\nCounty = "1/2"\nTown = "1/4"',
    'State = "1/2"\nCounty = "1/2"': 'State = "1/2"\nCounty = "1/8"\nTown = "3/8"',
    "[schema]": "[spine]\nbypass = true\n[schema]",
}
CELLS = {
    "sex*age": np.eye(6),
    "age": np.tile(np.eye(3), 2),
    "total": np.ones((1, 6)),
    "voting": np.array([[0, 1, 1] * 2, [1, 0, 0] * 2]),
    "voting*gender": np.array([row * sex for row in ([0, 1, 1] * 2, [1, 0, 0] * 2) for sex in SEXES]),
}
"""What each query of both products counts: cells are male of three ages, then female."""


@pytest.fixture(scope="module")
def bypassed(tmp_path_factory) -> Path:
    """Two products whose budgets were moved by other multiples, and the second as published without its towns."""
    folder = tmp_path_factory.mktemp("bypassed")
    rng = np.random.default_rng(5)
    people(rng).with_columns(geocode=rng.choice(TOWNS, 400)).write_parquet(folder / "people.parquet")
    pl.DataFrame({"geocode": TOWNS}).write_parquet(folder / "geography.parquet")
    for name, plain in (("first", FIRST), ("second", SECOND)):
        text = plain
        for old, new in BYPASSING.items():
            text = text.replace(old, new)
        made = measured(folder, name, text)
        assert open_measurements(made.path).hierarchies.shares is not None
    tallyveil.export_measurements(folder / "second", folder / "coarse-tidy", layout="tidy")
    shutil.rmtree(folder / "coarse-tidy" / "measurements" / "geolevel=Town")
    coarse = tallyveil.import_measurements(folder / "coarse-tidy", folder / "coarse", layout="tidy")
    assert open_measurements(coarse.path).hierarchies.spine.geolevels == ("State", "County")
    return folder


def dense(folders: list[Path]) -> tuple[np.ndarray, np.ndarray]:
    """Least squares over every noisy answer and the exact counts of the State, by cells of towns; and covariances."""
    matrix, values, deviations = [], [], []
    for folder in folders:
        opened = open_measurements(folder)
        for geolevel in opened.hierarchies.spine.geolevels:
            for query in opened.plan.strategy.queries(geolevel):
                frame = tallyveil.open(folder).measurements(geolevel, query)
                codes = frame["geocode"].unique(maintain_order=True)
                inside = [[float(town.startswith(code)) for town in TOWNS] for code in codes]
                matrix += [np.kron(towns, row) for towns in inside for row in CELLS[query]]
                values += frame["value"].to_list()
                deviations += frame["variance"].sqrt().to_list()
    adults = (pl.read_parquet(folders[0].parent / "people.parquet")["voting"] == "adult").sum()
    matrix += [np.ones(24), np.tile(CELLS["voting"][0], 4)]
    weighted = np.array(matrix) / np.array([*deviations, 1e-5, 1e-5])[:, None]
    wanted = np.linalg.lstsq(
        weighted, np.array([*values, 400, adults]) / [*deviations, 1e-5, 1e-5], rcond=None
    )
    return wanted[0], np.linalg.inv(weighted.T @ weighted)


@pytest.mark.parametrize("second", [nightly("second"), "coarse"])
def test_products_with_bypassed_geounits_are_joined(bypassed, tmp_path, second):
    """Each geolevel of the second product stands by itself, since its variances are other multiples of the usual."""
    first = bypassed / "first"
    tallyveil.export_measurements(first, tmp_path / "tidy", layout="tidy", jointly_with=bypassed / second)
    made = tallyveil.import_measurements(tmp_path / "tidy", tmp_path / "joint", layout="tidy")
    levels = open_measurements(made.path).hierarchies.spine.geolevels
    towns = ("Town_2", "Town") if second == "second" else ("Town",)
    assert levels == ("State_2", "State", "County_2", "County", *towns)
    # Along any path both have spent all of theirs.
    assert float(open_measurements(made.path).plan.spent) == pytest.approx(3, rel=1e-9)
    estimates, covariance = dense([first, bypassed / second])
    answer = made.ask("sex by age by Town").to_frame()
    assert answer["estimate"].to_numpy() == pytest.approx(estimates, abs=1e-3)
    assert answer["standard_error"].to_numpy() == pytest.approx(np.sqrt(np.diag(covariance)), rel=1e-3)
    men = np.kron(np.array([[1, 1, 1, 0], [0, 0, 0, 1]]), np.array([1, 1, 1, 0, 0, 0]))
    for geolevel in ("County", "County_2"):
        answer = made.ask(f"total by {geolevel} where sex = male").to_frame()
        assert answer["estimate"].to_numpy() == pytest.approx(men @ estimates, abs=1e-3)
        deviations = np.sqrt(np.diag(men @ covariance @ men.T))
        assert answer["standard_error"].to_numpy() == pytest.approx(deviations, rel=1e-3)
    assert all(item.is_as_stated for item in made.residuals())
    if second == "second":
        release = tallyveil.estimate(made.path, tmp_path / "release", workers=1)
        assert release.table("State", "total")["count"].to_list() == [400]
        assert release.verify().holds


def test_two_years_without_exact_totals_are_told_apart_by_the_check(folder, command, tmp_path):
    """No file says whose counts they are: other people are joined, and their counts do not fit together."""
    free = SECOND.replace(SECOND[SECOND.index("[[invariants]]") : SECOND.index("[outputs]")], "")
    pl.read_parquet(folder / "people.parquet").head(200).write_parquet(tmp_path / "people.parquet")
    (tmp_path / "geography.parquet").write_bytes((folder / "geography.parquet").read_bytes())
    other = measured(tmp_path, "earlier", free)
    tallyveil.export_measurements(folder / "first", tmp_path / "tidy", layout="tidy", jointly_with=other.path)
    joint = tallyveil.import_measurements(tmp_path / "tidy", tmp_path / "joint", layout="tidy")
    assert not all(item.is_as_stated for item in joint.residuals())
    command("measurements", "check", joint.path, code=10)
