"""Noisy answers that are not what they are said to be are found by their residuals against the joint estimate."""

import html
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from tests.conftest import SMALL_RELEASE, write_small_inputs
from tests.forgery.forger import changed_frame, reseal
from tests.pages import require_readable
from tests.samples import few, nightly

import tallyveil
from tallyveil.accounting.numbers import claim_text
from tallyveil.api.measured import check_in
from tallyveil.errors import ConfigError, StoreError
from tallyveil.plans import release
from tallyveil.postprocess.intervals import fits
from tallyveil.postprocess.intervals import residuals as residuals_module
from tallyveil.report.wording import rounded


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("measured")
    release = write_small_inputs(folder / "inputs", SMALL_RELEASE)
    return tallyveil.measure(release, folder / "measured", workers=1, insecure_test_key="residuals").path


def test_measurements_are_as_stated(measured, command):
    residuals = tallyveil.open(measured).residuals()
    assert all(item.is_as_stated for item in residuals)
    said = json.loads(command("measurements", "check", measured, "--json"))
    assert said["as_stated"] is True
    assert [item["ratio"] for item in said["residuals"]] == [item.ratio for item in residuals]


def test_degrees_of_freedom_are_answers_less_unknown_counts(measured):
    answers = sum(
        int(pl.read_parquet(path)["values"].list.len().sum())
        for path in measured.glob("measurements/*/*/*.parquet")
    )
    # Three ages live in houses and two in barracks, in blocks where the bounds allow it.
    allowed = pl.read_parquet(measured.parent / "inputs" / "barracks.parquet").filter(
        pl.col("upper").fill_null(1) > 0
    )
    cells = allowed["home"].replace_strict({"house": 3, "barracks": 2}).sum()
    # The totals of two regions are exact.
    degrees = sum(item.degrees for item in tallyveil.open(measured).residuals())
    assert degrees == pytest.approx(answers - (cells - 2), abs=1e-6)


def reversed_cells(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col("values").list.reverse())


def reversed_geounits(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col("values").reverse())


def two_geounits_swapped(frame: pl.DataFrame) -> pl.DataFrame:
    """The largest and the smallest."""
    sizes = frame["values"].list.sum()
    order = list(range(frame.height))
    large, small = sizes.arg_max(), sizes.arg_min()
    order[large], order[small] = order[small], order[large]
    return frame.with_columns(frame["values"].gather(order))


def opposite_sign(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col("values").list.eval(-pl.element()))


def less_exact(frame: pl.DataFrame) -> pl.DataFrame:
    """Noise of far more than the variance that is stated, and of mean 0."""
    moved = [
        [value + (12 if (row + place) % 2 else -12) for place, value in enumerate(values)]
        for row, values in enumerate(frame["values"].to_list())
    ]
    return frame.with_columns(pl.Series("values", moved, dtype=frame.schema["values"]))


def one_answer_wrong(frame: pl.DataFrame) -> pl.DataFrame:
    values = frame["values"].to_list()
    values[3][0] += 100
    return frame.with_columns(pl.Series("values", values, dtype=frame.schema["values"]))


MISTAKES = [
    (change, place)
    for place in ("Town/age.home", "Block/age.home", "Block/grown", "Town/total")
    for change in (
        reversed_cells,
        reversed_geounits,
        two_geounits_swapped,
        opposite_sign,
        less_exact,
        one_answer_wrong,
    )
    # A total has one cell, whose order cannot be wrong.
    if (change, place) != (reversed_cells, "Town/total")
]


@pytest.mark.parametrize(
    ("change", "place"),
    [case if case[1] == "Town/age.home" else nightly(*case) for case in MISTAKES],
)
def test_a_mistake_is_found_where_it_was_made(measured, tmp_path, change: Callable, place: str):
    wrong = tmp_path / "wrong"
    shutil.copytree(measured, wrong)
    changed_frame(wrong / "measurements" / place / "part-00000.parquet", change)
    reseal(wrong)
    residuals = tallyveil.open(wrong).residuals(workers=1)
    at = [(item.geolevel, item.query.replace("*", ".")) for item in residuals if not item.is_as_stated]
    assert tuple(place.split("/")) in at


@pytest.mark.nightly
def test_a_model_for_each_table_says_the_same(measured, monkeypatch):
    """Its models have all cells of this small schema, so that nothing is merged."""
    whole = tallyveil.open(measured).residuals(workers=1)
    monkeypatch.setattr(release, "LARGEST_SCHEMA", 1)
    apart = tallyveil.open(measured).residuals(workers=1)
    places = [(item.geolevel, item.query) for item in whole]
    assert list(dict.fromkeys((item.geolevel, item.query) for item in apart)) == places
    assert {item.part for item in apart} == {None, "structural zeros"}
    for other in whole:
        parts = [item for item in apart if (item.geolevel, item.query) == (other.geolevel, other.query)]
        assert sum(item.degrees for item in parts) == pytest.approx(other.degrees, abs=1e-6)
        squares = sum(item.ratio * item.degrees for item in parts)
        assert squares == pytest.approx(other.ratio * other.degrees, abs=1e-5)
        assert other.cell.place in [item.cell.place for item in parts]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (None, ""),
        *few(
            2,
            (
                nightly(*case) if case[1] == "Block/age.home" else case
                for case in MISTAKES
                if case[1].endswith("age.home")
            ),
        ),
    ],
)
def test_queries_of_many_answers_are_checked_by_attribute(measured, tmp_path, monkeypatch, change, place):
    monkeypatch.setattr(release, "LARGEST_SCHEMA", 1)
    monkeypatch.setattr(residuals_module, "MOST_CHECKED", 2)
    wrong = tmp_path / "wrong"
    shutil.copytree(measured, wrong)
    if change is not None:
        changed_frame(wrong / "measurements" / place / "part-00000.parquet", change)
        reseal(wrong)
    residuals = tallyveil.open(wrong).residuals(workers=1)
    by_attribute = {(item.query, item.part) for item in residuals}
    assert {("age*home", "summed to age"), ("age*home", "summed to home"), ("total", None)} <= by_attribute
    assert ("age*home", None) not in by_attribute
    at = [(item.geolevel, item.query.replace("*", ".")) for item in residuals if not item.is_as_stated]
    assert tuple(place.split("/")) in at if change is not None else not at


def test_what_does_not_fit_into_memory_is_said(measured, monkeypatch, command):
    """What needs no other measurement is checked all the same."""
    monkeypatch.setattr(release, "LARGEST_SCHEMA", 1)
    monkeypatch.setattr(fits, "MOST_SETS", 4)
    said = json.loads(command("measurements", "check", measured, "--json"))
    assert "age*home at Town" in said["unchecked"]
    assert {(item["query"], item["part"]) for item in said["residuals"]} == {("age*home", "structural zeros")}
    assert said["as_stated"] is True
    # Of a query that is checked by its attributes, those that were not are named.
    monkeypatch.setattr(residuals_module, "MOST_CHECKED", 2)
    unchecked = json.loads(command("measurements", "check", measured, "--json"))["unchecked"]
    assert {"age*home summed to age", "age*home summed to home"} <= set(unchecked)


def test_the_command_names_the_query_and_has_its_own_exit_code(measured, tmp_path, command):
    wrong = tmp_path / "wrong"
    shutil.copytree(measured, wrong)
    changed_frame(wrong / "measurements" / "Town" / "age.home" / "part-00000.parquet", reversed_cells)
    reseal(wrong)
    command("measurements", "check", wrong, code=10)
    said = [str(item) for item in tallyveil.open(wrong).residuals() if not item.is_as_stated]
    assert any(line.startswith("age*home at Town: the squared residuals are ") for line in said)


def test_what_cannot_be_checked_is_refused(measured, tmp_path):
    text = SMALL_RELEASE.replace("discrete_gaussian", "discrete_laplace").replace(
        'rho = "2"', 'epsilon = "2"'
    )
    text = text.replace('neighbours = "bounded"', 'neighbours = "unbounded"')
    text = text.replace('[[invariants]]\nquery = "total"\ngeolevels = ["Region"]\n', "")
    laplace = write_small_inputs(tmp_path / "inputs", text)
    folder = tallyveil.measure(laplace, tmp_path / "laplace", workers=1, insecure_test_key="x").path
    with pytest.raises(ConfigError, match="Laplace"):
        tallyveil.open(folder).residuals()
    with pytest.raises(StoreError):
        tallyveil.open(tmp_path).residuals()


def bounded_sums(measured: Path) -> dict[tuple[str, str], tuple[float, float, float, float]]:
    """For each block and kind of home, the sum of its noisy answers, its variance, and its bounds; one by one."""
    stated = pl.read_parquet(measured.parent / "inputs" / "barracks.parquet")
    bounds = {(code, home): (lower, upper) for code, home, lower, upper in stated.iter_rows()}
    # Nobody young lives in barracks, so that this answer is in no sum.
    answers = {"house": (0, 2, 4), "barracks": (3, 5)}
    sums = {}
    for code, values, variance in pl.read_parquet(
        measured / "measurements" / "Block" / "age.home" / "part-00000.parquet"
    ).iter_rows():
        for home, places in answers.items():
            lower, upper = bounds.get((code, home), (0, 0))
            noisy = sum(values[place] for place in places)
            sums[code, home] = noisy, variance * len(places), lower, float("inf") if upper is None else upper
    return sums


def test_constraints_are_held_to_sums_of_noisy_answers(measured, command):
    said = json.loads(command("measurements", "check", measured, "--json"))["constraints"]
    assert [(item["constraint"], item["geolevel"], item["is_exact"]) for item in said] == [
        ("invariant total", "Region", True),
        ("barracks", "Region", False),
        ("barracks", "Town", False),
        ("barracks", "Block", False),
    ]
    sums = {
        place: max(lower - noisy, noisy - upper, 0) / variance**0.5
        for place, (noisy, variance, lower, upper) in bounded_sums(measured).items()
        if lower > 0 or upper < float("inf")
    }
    code, home = max(sums, key=lambda place: sums[place])
    assert said[-1]["n_sums"] == len(sums)
    assert said[-1]["distance"] == pytest.approx(sums[code, home])
    assert said[-1]["place"] == f"geounit {code}, home={home}"


def too_few_allowed(frame: pl.DataFrame) -> pl.DataFrame:
    """As where the sign of a lower bound is read as that of an upper one."""
    return frame.with_columns(upper=pl.col("lower"))


def other_geounits(frame: pl.DataFrame) -> pl.DataFrame:
    codes = frame["geocode"].unique().sort()
    return frame.with_columns(pl.col("geocode").replace_strict(codes, codes.reverse()))


@pytest.mark.parametrize("change", [too_few_allowed, other_geounits])
def test_bounds_that_do_not_fit_are_found(measured, tmp_path, command, change):
    wrong = tmp_path / "wrong"
    shutil.copytree(measured, wrong)
    changed_frame(wrong / "bounds" / "00.parquet", change)
    reseal(wrong)
    command("measurements", "check", wrong, code=10)
    constraints = check_in(wrong, 1).constraints
    assert [item.is_as_stated for item in constraints if item.geolevel == "Block"] == [False]


def visible(page: Path) -> str:
    body = re.sub(r"<style.*?</style>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", body)))


@pytest.mark.nightly
def test_the_page_says_what_the_check_says(measured, tmp_path, command):
    said = json.loads(command("measurements", "check", measured, "--json"))
    copy = tmp_path / "measured"
    shutil.copytree(measured, copy)
    assert json.loads(command("report", copy, "--json"))["page"] == str(copy / "report.html")
    require_readable(copy / "report.html")
    text = visible(copy / "report.html")
    for item in said["residuals"]:
        query = {"total": "all people", "age*home": "age × home"}.get(item["query"], item["query"])
        degrees, ratio = rounded(item["degrees"]), rounded(item["ratio"])
        limits = f"{rounded(item['lowest'])} to {rounded(item['highest'])}"
        assert f"{item['geolevel']} {query} {degrees} {ratio} {limits} " in text
    for item in said["constraints"]:
        assert f" {item['n_sums']} {rounded(item['distance'])} ({rounded(item['highest'])}) as stated" in text
    assert text.count(" as stated ") >= len(said["residuals"]) + len(said["constraints"])
    assert "NOT AS STATED" not in text
    upper = tallyveil.open(measured).privacy["exact"]["epsilon"]["upper"]
    assert text.count(f"ε ≤ {claim_text(upper)} ") == 2
    # 2 regions, 8 towns and 48 blocks with 1 + 2 + 6 answers each.
    assert "Noisy answers 522 in 58 geounits" in text
    verdict = tallyveil.verify(copy)
    assert not verdict.wrong
    assert any("page is drawn from these files" in claim for claim in verdict.proved)


def test_a_mistake_shows_on_the_page(measured, tmp_path):
    wrong = tmp_path / "wrong"
    shutil.copytree(measured, wrong)
    changed_frame(wrong / "measurements" / "Town" / "age.home" / "part-00000.parquet", reversed_cells)
    reseal(wrong)
    text = visible(tallyveil.open(wrong).report())
    assert "farthest of all age*home at Town" in text
    found = [str(item) for item in tallyveil.open(wrong).residuals() if not item.is_as_stated]
    assert text.count("NOT AS STATED") >= len(found)
    assert all(item in text for item in found)


def test_the_page_of_an_import_says_what_was_not_in_the_files(measured, tmp_path, command):
    tidy, imported = tmp_path / "tidy", tmp_path / "imported"
    command("measurements", "export", measured, "--layout", "tidy", "--out", tidy)
    shutil.rmtree(tidy / "measurements" / "geolevel=Town" / "query=grown")
    # The passes of the description name this query, which is not there.
    command("measurements", "import", tidy, "--layout", "tidy", "--part", "--out", imported)
    opened = tallyveil.open(imported)
    text = visible(opened.report())
    entry = opened.manifest.body["imported"]
    assert entry["left_out"]
    for said in (
        entry["product"],
        entry["rho_of_variances"],
        entry["statement"],
        entry["source_sha256"],
        *entry["left_out"],
    ):
        assert said in text
    assert "grown 2 not measured 2" in text


def test_measurements_that_cannot_be_checked_have_a_page(tmp_path):
    text = SMALL_RELEASE.replace("discrete_gaussian", "discrete_laplace").replace(
        'rho = "2"', 'epsilon = "2"'
    )
    text = text.replace('neighbours = "bounded"', 'neighbours = "unbounded"')
    text = text.replace('[[invariants]]\nquery = "total"\ngeolevels = ["Region"]\n', "")
    laplace = write_small_inputs(tmp_path / "inputs", text)
    page = tallyveil.measure(laplace, tmp_path / "laplace", workers=1, insecure_test_key="x").report()
    assert "Nothing was checked." in visible(page)
