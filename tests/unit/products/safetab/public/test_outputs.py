"""The written tables: layout, and checks that fail where a promise is broken."""

import shutil

import polars as pl
import pytest
from tests import toy_country as toy

from tallyveil.errors import SolverError, StoreError
from tallyveil.noise import insecure_key
from tallyveil.products.safetab.public.plan import read_plan
from tallyveil.products.safetab.public.tables import check_outputs, require_passed
from tallyveil.products.safetab.run.run import run_safetab


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run, which no test may change."""
    folder = tmp_path_factory.mktemp("finished")
    params = toy.write_params(folder / "params")
    data = toy.write_data(folder / "data", toy.person_rows(3000))
    return run_safetab(params, data, folder / "out", test_key=insecure_key("outputs")).path


@pytest.fixture
def out(tmp_path, finished):
    """A copy of the finished run."""
    return shutil.copytree(finished, tmp_path / "out")


def test_the_layout(out):
    for name, columns in (
        ("t1", "REGION_ID|REGION_TYPE|ITERATION_CODE|COUNT"),
        ("t2", "REGION_ID|REGION_TYPE|ITERATION_CODE|AGESTART|AGEEND|SEX|COUNT"),
    ):
        assert (out / name / "headers.csv").read_text() == columns
        for run in ("us", "pr"):
            text = (out / name / f"{run}.csv").read_text()
            assert text.startswith(columns + "\n")
            frame = pl.read_parquet(out / f"{name}-{run}.parquet")
            assert "|".join(frame.columns).startswith(columns)
            assert frame.height == text.count("\n") - 1
            assert frame["MARGIN"].min() > 0
            assert (frame["ESTIMATE_VARIANCE"] <= frame["VARIANCE"] * (1 + 1e-12)).all()
            assert frame["COUNT"].to_list() == [int(line.split("|")[-1]) for line in text.split("\n")[1:-1]]


def test_t2_has_10_20_or_48_rows_a_group(out):
    frame = pl.read_parquet(out / "t2-us.parquet")
    sizes = frame.group_by("REGION_ID", "REGION_TYPE", "ITERATION_CODE").len()["len"]
    assert set(sizes) <= {10, 20, 48}
    assert len(set(sizes)) == 3


def test_estimates_of_t2_add_up_to_those_of_t1(out):
    keys = ["REGION_ID", "REGION_TYPE", "ITERATION_CODE"]
    t1, t2 = (pl.read_parquet(out / f"{name}-us.parquet") for name in ("t1", "t2"))
    for rows in (t2.filter(pl.col("AGESTART") == "*"), t2.filter(pl.col("AGESTART") != "*")):
        sums = rows.group_by(keys).agg(
            pl.col("ESTIMATE").sum().alias("SUM"), pl.col("COUNT").sum().alias("N")
        )
        both = sums.join(t1, on=keys, how="left")
        assert (both["SUM"] == both["ESTIMATE"]).all()
        assert (both["N"] == both["COUNT"]).all()


def test_what_was_written_passes(out, params):
    checks = check_outputs(out, read_plan(params))
    assert len(checks) == 2 * (2 * 8 + 5)
    require_passed(checks)


BREAKS = [
    ("t1", "|STATE|", "|COUNTRY|", "region types"),
    ("t1", "\n01|STATE", "\n1|STATE", "right length"),
    ("t1", "\n01|STATE", "\n02|STATE", "in the states"),
    ("t1", "|1101|", "|9999|", "known iterations"),
    ("t2", "|*|*|1|", "|*|*|3|", "sexes"),
    ("t2", "|0|17|1|", "|0|16|1|", "age groups"),
]


@pytest.mark.parametrize(("name", "old", "new", "promise"), BREAKS)
def test_a_broken_promise_is_found(out, params, name, old, new, promise):
    path = out / name / "us.csv"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    failed = [check for check in check_outputs(out, read_plan(params)) if not check.passed]
    assert any(promise in check.name for check in failed)
    with pytest.raises(SolverError, match=promise) as raised:
        require_passed(tuple(failed))
    assert raised.value.code == "safetab-output"


@pytest.mark.parametrize("name", ["t1", "t2"])
def test_rows_added_doubled_or_changed_are_found(out, params, name):
    path = out / name / "us.csv"
    lines = path.read_text().strip().split("\n")
    plan = read_plan(params)
    path.write_text("\n".join([*lines, lines[-1], ""]))
    assert any("once" in c.name and not c.passed for c in check_outputs(out, plan))
    head, count = lines[-1].rsplit("|", 1)
    path.write_text("\n".join([*lines[:-1], f"{head}|{count}.5", ""]))
    assert any("whole counts" in c.name and not c.passed for c in check_outputs(out, plan))
    place = next(i for i, line in enumerate(lines) if name == "t1" or "|*|*|" in line)
    if name == "t2":
        head, count = lines[place].rsplit("|", 1)
        path.write_text("\n".join([*lines[:place], f"{head}|{int(count) + 1}", *lines[place + 1 :], ""]))
        assert any("sums" in c.name and not c.passed for c in check_outputs(out, plan))


def test_negative_counts_where_they_are_not_allowed(out, tmp_path):
    plan = read_plan(toy.write_params(tmp_path / "q", allow_negative_counts=False))
    path = out / "t1" / "us.csv"
    path.write_text(path.read_text() + "01|STATE|2999|-4\n")
    failed = {check.name for check in check_outputs(out, plan) if not check.passed}
    assert "US t1: counts of the sign allowed" in failed


def test_a_missing_or_foreign_table(out, params):
    plan = read_plan(params)
    path = out / "t1" / "us.csv"
    path.write_text("A|B\n1|2\n")
    with pytest.raises(StoreError, match="columns"):
        check_outputs(out, plan)
    path.unlink()
    with pytest.raises(StoreError, match="cannot be read"):
        check_outputs(out, plan)
