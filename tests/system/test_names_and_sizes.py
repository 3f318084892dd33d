"""Hostile names, folders, counts and budgets: refused before the spend, or borne to the end."""

import re
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest

from tallyveil.errors import (
    BudgetError,
    ConfigError,
    SchemaError,
    SolverError,
    StoreError,
    TallyveilError,
)
from tallyveil.files.tables import table_folder
from tallyveil.measurements.names import measurement_folder
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.topdown.run import preparation
from tallyveil.products.topdown.run.before_spend import refuse_many_people
from tallyveil.products.topdown.run.inputs import read_hierarchies
from tallyveil.products.topdown.run.run import run_release
from tallyveil.storage import paths, write

KEY = b"k" * 32


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def release(path: Path, out: Path):
    return run_release(load_plan(path), out, test_key=KEY, workers=1)


@pytest.mark.parametrize(
    "bad", ["../../rec", "/tmp/x", "a\\\\b", "\\u001b]0;x", "\\u202Ex", "x\\n", "entities"]
)
@pytest.mark.parametrize("place", ["Region", "age", "people"])
def test_a_name_that_is_no_file_name_is_refused(edit, tmp_path, place, bad):
    if place == "people" and bad == "entities":
        pytest.skip("a schema may have this name")
    if place == "age" and bad == "entities":
        bad = "count"
    before = files_below(tmp_path)
    path = edit(f'"{place}"', f'"{bad}"')
    with pytest.raises((ConfigError, SchemaError)):
        release(path, tmp_path / "out")
    assert files_below(tmp_path) == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"Region"', '"2020"'),
        ('"Town"', '"NULL"'),
        ('"age"', '"estimate"'),
        ('"home"', '"GEOLEVEL"'),
        ('"Region"', f'"{"町" * 30}"'),
    ],
)
def test_names_that_readers_of_tables_would_mistake_are_refused(edit, tmp_path, old, new):
    before = files_below(tmp_path)
    path = edit(old, new)
    with pytest.raises(SchemaError) as refused:
        release(path, tmp_path / "out")
    assert refused.value.code == "bad-name"
    assert files_below(tmp_path) == before


def test_a_table_of_a_query_that_looks_like_a_number_is_refused(edit):
    recode = '[[schema.recodes]]\nname = "65"\nattribute = "age"\ngroups = { old = ["old"] }\n'
    load_plan(edit("[[schema.structural_zeros]]", recode + "[[schema.structural_zeros]]"))
    with pytest.raises(SchemaError, match="query name '65' looks like a number"):
        load_plan(edit('tables = ["total"', 'tables = ["65", "total"'))


@pytest.mark.parametrize(
    ("old", "new"),
    [('"home"', '"AGE"'), ('"Town"', '"REGION"'), ('name = "grown"', 'name = "Total"')],
)
def test_names_that_differ_in_case_alone_are_refused(edit, tmp_path, old, new):
    with pytest.raises(SchemaError, match=r"upper and lower case|reserved"):
        load_plan(edit(old, new))


def test_names_that_look_alike_have_files_of_their_own(edit, small_release, tmp_path):
    edit('name = "grown"', 'name = "age.home"')
    edit('grown = "1/4"\n', '"age.home" = "1/4"\n')
    edit('tables = ["total", "age", "home"]', 'tables = ["total", "age.home", "age*home"]')
    for old, new in (("Town", "A B"), ("Block", "A-B")):
        small_release.write_text(small_release.read_text().replace(f'"{old}"', f'"{new}"'))
        small_release.write_text(small_release.read_text().replace(f"{old} =", f'"{new}" ='))
    out = tmp_path / "out"
    release(small_release, out)
    for folder in (measurement_folder, table_folder):
        for level in ("Region", "A B", "A-B"):
            found = {}
            for query in ("age.home", "age*home"):
                found[query] = pl.read_parquet(folder(out, level, query) / "part-00000.parquet", glob=False)
            assert not found["age.home"].equals(found["age*home"])
    assert (out / "histogram" / "A-B.parquet").is_file()
    assert (out / "measurements" / "Region" / "age.home").is_dir()  # as ever for the query age*home


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["rel[1]", "[!x", "~", "%2E", "q?*{a}"])
def test_a_folder_with_a_strange_name_is_a_folder(small_release, tmp_path, name):
    assert not release(small_release, tmp_path / name).already_finished
    assert release(small_release, tmp_path / name).already_finished


def test_every_file_of_a_run_is_written_below_its_folder(small_release, tmp_path, monkeypatch):
    written: list[Path] = []
    real = write.write_file

    def noted(path, fill):
        written.append(path)
        real(path, fill)

    monkeypatch.setattr(write, "write_file", noted)
    out = tmp_path / "out"
    release(small_release, out)
    named = [path for path in written if path.parent not in (out, out / "private")]
    assert len(named) > 10
    for path in written:
        assert paths.inside(out, *path.relative_to(out).parts) == path


@pytest.mark.parametrize(
    "counts", [[2**63 - 1, 2**63 - 1], [2**32 + 1, 0], [2**31, 2**31 + 1], [2**40, 2**40]]
)
def test_counts_too_large_are_refused_without_their_size(small_release, tmp_path, counts):
    path = small_release.parent / "people.parquet"
    frame = pl.read_parquet(path)
    values = [*counts, *[0] * (frame.height - 2)]
    frame.with_columns(pl.Series("count", values, dtype=pl.Int64)).write_parquet(path)
    with pytest.raises(SchemaError) as caught:
        release(small_release, tmp_path / "out")
    assert caught.value.code == "counts-too-large"
    said = re.findall(r"\d{6,}", str(caught.value).replace(",", "").replace(str(path), ""))
    assert set(said) <= {str(2**32)}
    assert not (tmp_path / "out").exists()


def test_the_largest_counts_allowed_make_a_release(edit, small_release, tmp_path):
    edit("[outputs]", "[outputs]\nmicrodata = false")
    path = small_release.parent / "people.parquet"
    frame = pl.read_parquet(path)
    values = frame["count"].to_list()
    values[values.index(max(values))] += 2**32 - sum(values)
    frame.with_columns(pl.Series("count", values, dtype=pl.Int64)).write_parquet(path)
    assert release(small_release, tmp_path / "out").manifest.body["sizes"]["records"] == 2**32


def test_more_people_than_the_disk_holds_are_refused_without_their_number(small_release, tmp_path):
    plan = load_plan(small_release)
    spine = read_hierarchies(plan).spine
    refuse_many_people(plan, spine, tmp_path / "out", 10**6)
    with pytest.raises(StoreError) as caught:
        refuse_many_people(plan, spine, tmp_path / "out", 2**55)
    assert caught.value.code == "disk-full"
    assert not re.search(r"\d{3,}", str(caught.value).replace(str(tmp_path), ""))


@pytest.mark.parametrize("rho", ["1e4", "1e7", "1e30", "1e400", "1e-12"])
def test_noise_that_cannot_be_borne_is_refused_before_the_spend(small_release, tmp_path, rho):
    text = small_release.read_text().replace('rho = "2"', f'rho = "{rho}"')
    small_release.write_text(text)
    with pytest.raises(TallyveilError) as caught:
        release(small_release, tmp_path / "out")
    assert isinstance(caught.value, BudgetError | ConfigError)
    assert not (tmp_path / "out").exists()


def test_a_guarantee_that_cannot_be_computed_is_told_before_the_spend(small_release, tmp_path, monkeypatch):
    def refuse(*_):
        raise SolverError("no common lattice contains all losses")

    monkeypatch.setattr(preparation, "privacy_of", refuse)
    with pytest.raises(SolverError):
        release(small_release, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "coverage",
    [str(1 - Fraction(1, 10**20)), "1e400", "-1e400", "1e-400", "1" * 2000, str(1 - Fraction(1, 2**53))],
)
def test_a_coverage_that_no_float_holds_is_refused(edit, coverage):
    with pytest.raises(ConfigError) as caught:
        load_plan(edit("[outputs]", f'[outputs]\nintervals = "{coverage}"'))
    assert caught.value.code == "interval-level"


def test_an_input_in_the_folder_of_outputs_is_refused(edit, small_release, tmp_path):
    out = tmp_path / "out"
    (out / "private").mkdir(parents=True)
    moved = out / "private" / "people.parquet"
    (small_release.parent / "people.parquet").rename(moved)
    edit('path = "people.parquet"', f'path = "{moved}"')
    with pytest.raises(StoreError) as caught:
        release(small_release, out)
    assert caught.value.code == "input-in-output"
    assert files_below(out) == {"private", "private/people.parquet"}


@pytest.mark.parametrize("value", [-1, 2**32 + 1])
def test_bounds_out_of_range_are_refused(small_release, tmp_path, value):
    path = small_release.parent / "barracks.parquet"
    frame = pl.read_parquet(path).with_columns(pl.col("lower").cast(pl.Int64))
    frame.with_columns(pl.Series("lower", [value] * frame.height)).write_parquet(path)
    with pytest.raises(TallyveilError) as caught:
        release(small_release, tmp_path / "out")
    assert caught.value.code == "bounds-value"
    assert not (tmp_path / "out").exists()
