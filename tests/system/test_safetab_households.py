"""SafeTab-H end to end: detail from a published T1, tables T3 and T4, one spend, its inputs' rules."""

import json
import random
import sys
from collections import Counter

import numpy as np
import polars as pl
import pytest
from tests import toy_country as toy
from tests.pages import require_readable
from tests.samples import nightly

from tallyveil.accounting import rho_of
from tallyveil.cli.main import main
from tallyveil.errors import BudgetError, SchemaError, StoreError
from tallyveil.noise import NoiseSource, insecure_key
from tallyveil.products.safetab.confidential.measure import HouseholdMeasurer, read_households
from tallyveil.products.safetab.public.household_tables import listed_groups, read_group_totals
from tallyveil.products.safetab.public.households import read_household_plan
from tallyveil.products.safetab.public.regions import read_regions
from tallyveil.products.safetab.run import households as running
from tallyveil.products.safetab.run.households import run_households, tables_of_households

KEY = insecure_key("households")
HEADER = "TABBLKST|TABBLKCOU|TABTRACTCE|TABBLK|HHRACE|" + "|".join(f"QRACE{i}" for i in range(1, 9))
HEADER += "|QSPAN|HOUSEHOLD_TYPE|TEN"
T1_HEADER = "REGION_ID|REGION_TYPE|ITERATION_CODE|COUNT"


def config(**changes):
    values = {
        "max_race_codes": 3,
        "thresholds_h_t3": {f"({g}, {level})": [60, 200, 600] for g in toy.US + toy.PR for level in (1, 2)},
        "thresholds_h_t4": {f"({g}, {level})": [100] for g in toy.US + toy.PR for level in (1, 2)},
        "allow_negative_counts": True,
        "run_us": True,
        "run_pr": True,
        "reader": "csv",
        "state_filter_us": ["01", "11"],
        "privacy_defn": "zcdp",
    }
    for geography in toy.US + toy.PR:
        for level in (1, 2):
            for table in ("t3", "t4"):
                key = f"privacy_budget_h_{table}_level_{level}_{geography.lower().replace('-', '_')}"
                values[key] = 0.25
    return {key: value for key, value in (values | changes).items() if value is not None}


def write_inputs(folder, n, **changes):
    """Parameters, households, and a made-up T1 that lists most groups with counts on all sides of thresholds."""
    params = toy.write_params(folder / "p")
    (params / "config.json").write_text(json.dumps(config(**changes)))
    persons = toy.person_rows(n)
    data = toy.write_data(folder / "d", persons)
    (data / "person-records.txt").unlink()
    rng = random.Random(8)
    households = [
        (*row[3:7], row[7], *row[8:16], row[16], str(rng.randint(1, 5)), str(rng.randint(1, 4)))
        for row in persons
    ]
    toy.pipe(data / "household-records.txt", HEADER, households)
    groups = [g for g in sorted(toy.slow_tabulation([]).groups) if rng.random() < 0.8]
    counts = [rng.choice((-3, 59, 60, 99, 100, 199, 200, 599, 600, 5000)) for _ in groups]
    rows = [(*g, str(c)) for g, c in zip(groups, counts, strict=True)]
    toy.pipe(data / "pop-group-totals.txt", T1_HEADER, rows)
    return params, data, households, rows


@pytest.fixture
def inputs(tmp_path):
    return write_inputs(tmp_path, 1500)


def slow_tables(households, rows):
    """T3 and T4 as they would be without noise, cell by cell from their definitions."""
    types = {
        0: "12345", 1: "123", 2: "1", 3: "23", 4: "2", 5: "3", 6: "45", 7: "4", 8: "5",
    }  # fmt: skip
    tenures = {0: "1234", 1: "1", 2: "2", 3: "34"}
    shown3 = [(0,), (0, 1, 6), (0, 1, 2, 3, 6, 7, 8), (0, 1, 2, 3, 4, 5, 6, 7, 8)]
    shown4 = [(0,), (0, 1, 2, 3)]
    where = {row[:4]: toy.regions_of(row) for row in toy.block_rows()}
    inside: dict = {}
    for home in households:
        races = [race for race in home[5:13] if race != "Null"]
        for geography, region in where[home[:4]].items():
            nationwide = geography in ("USA", "STATE", "PR-STATE")
            for level in "12":
                for iteration in toy.iterations_of(races, home[13], level, nationwide):
                    inside.setdefault((region, geography, iteration), Counter())[home[14], home[15]] += 1
    found: dict = {"t3": {}, "t4": {}}
    for *group, text in rows:
        own = inside.get(tuple(group), Counter())
        count = int(text)
        for cell in shown3[sum(count >= t for t in (60, 200, 600))]:
            n = sum(v for (kind, _), v in own.items() if kind in types[cell])
            found["t3"][(*group, str(cell))] = n
        for cell in shown4[int(count >= 100)]:
            found["t4"][(*group, str(cell))] = sum(v for (_, ten), v in own.items() if ten in tenures[cell])
    return found


class NoNoise:
    def at(self, law, geolevel, query, geounits, answers):
        return np.zeros(len(answers), np.int64)


def test_without_noise_the_tables_are_those_of_a_slow_tabulation(inputs):
    params, data, households, rows = inputs
    plan = read_household_plan(params)
    regions = read_regions(data, plan.config)
    homes = read_households(data, plan, regions)
    totals = read_group_totals(data, None, plan)
    found: dict = {"t3": {}, "t4": {}}
    for run in plan.runs:
        own = regions[run.run]
        groups = {one.name: listed_groups(totals, run.run, one, own) for one in run.sets}
        frames = tables_of_households(
            plan, run, own, groups, HouseholdMeasurer(homes[run.run], own, NoNoise())
        )
        for name, frame in frames.items():
            assert set(frame["TABLE"]) == {"t3": {f"T0300{i}" for i in (1, 2, 3, 4)}}.get(
                name, {"T04001", "T04002"}
            )
            found[name] |= {row[:4]: row[4] for row in frame.rows()}
    assert found == slow_tables(households, rows)


def test_a_run_spends_once_and_its_errors_are_within_its_margins(inputs, tmp_path):
    params, data, households, rows = inputs
    run_households(params, data, tmp_path / "whole", test_key=KEY)
    truth = slow_tables(households, rows)
    hits, ratios = [], []
    for path in sorted((tmp_path / "whole").glob("t[34]-*.parquet")):
        for row in pl.read_parquet(path).rows():
            error = row[4] - truth[path.name[:2]][row[:4]]
            hits.append(abs(error) <= row[6])
            ratios.append(error**2 / row[5])
    assert len(hits) > 500
    assert 0.93 < np.mean(hits) < 0.99
    assert 0.8 < np.mean(ratios) < 1.25
    plan = read_household_plan(params)
    lines = [json.loads(line) for line in (tmp_path / "whole" / "ledger.jsonl").read_text().splitlines()]
    assert sum(line["kind"] == "spend" for line in lines) == 1
    assert rho_of(plan.event()) == max(run.budget for run in plan.runs) == 6
    assert {one.stability for run in plan.runs for one in run.sets} == {3, 4}

    assert run_households(params, data, tmp_path / "whole", test_key=KEY).already_finished


@pytest.mark.nightly
@pytest.mark.parametrize("place", ["write_household_tables", "check_household_tables", "require_passed"])
def test_a_killed_run_goes_on(inputs, tmp_path, monkeypatch, place):
    params, data, *_ = inputs
    whole = run_households(params, data, tmp_path / "whole", test_key=KEY)

    class Killed(BaseException):
        pass

    def kill(*_, **__):
        raise Killed

    out = tmp_path / "killed"
    with monkeypatch.context() as patch:
        patch.setattr(running, place, kill)
        with pytest.raises(Killed):
            run_households(params, data, out, test_key=KEY)
    again = run_households(params, data, out, test_key=KEY)
    assert again.manifest.files == whole.manifest.files
    lines = [json.loads(line) for line in (out / "ledger.jsonl").read_text().splitlines()]
    assert sum(line["kind"] == "spend" for line in lines) == 1
    assert not (out / "private").exists()


@pytest.mark.nightly
def test_margins_cover_where_negative_cells_are_raised(tmp_path):
    """T1 lists empty groups in the finest detail: sums of raised cells lie far above 0, and their margins say so."""
    params, data, *_ = write_inputs(tmp_path, 30, allow_negative_counts=False)
    path = data / "pop-group-totals.txt"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], *(line.rpartition("|")[0] + "|5000" for line in lines[1:])]) + "\n")
    plan = read_household_plan(params)
    regions = read_regions(data, plan.config)
    totals = read_group_totals(data, None, plan)
    inside: dict = {False: [], True: []}
    households = read_households(data, plan, regions)
    for run in plan.runs[:1]:
        own, homes = regions[run.run], households[run.run]
        groups = {one.name: listed_groups(totals, run.run, one, own) for one in run.sets}
        exact = tables_of_households(plan, run, own, groups, HouseholdMeasurer(homes, own, NoNoise()))
        for number in range(3):
            noisy = HouseholdMeasurer(homes, own, NoiseSource(insecure_key(f"raised {number}")))
            found = tables_of_households(plan, run, own, groups, noisy)
            for name, frame in found.items():
                errors = (frame["COUNT"] - exact[name]["COUNT"]).abs()
                plain = frame["VARIANCE"] == frame["VARIANCE"].min()
                for is_sum in (False, True):
                    inside[is_sum] += (errors <= frame["MARGIN"]).filter(plain != is_sum).to_list()
    for found in inside.values():
        assert len(found) > 1000
        assert np.mean(found) > 0.95 - 4 * (0.95 * 0.05 / len(found)) ** 0.5


def command(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["tallyveil", "safetab", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def test_the_command_takes_t1_from_a_run(inputs, tmp_path, monkeypatch, capsys):
    params, data, *_ = inputs
    (data / "pop-group-totals.txt").unlink()
    people = toy.write_data(tmp_path / "people", toy.person_rows(1500))
    from tallyveil.products.safetab.run.run import run_safetab

    first = run_safetab(toy.write_params(tmp_path / "q"), people, tmp_path / "first", test_key=KEY).path
    words = ("households", params, data, "--out", tmp_path / "out")
    assert command(monkeypatch, capsys, *words)[0] == StoreError.exit_code
    (first / "private").mkdir(mode=0o700)
    code, _, said = command(monkeypatch, capsys, *words, "--t1", first)
    assert code == StoreError.exit_code
    assert "release-unfinished" in said
    (first / "private").rmdir()
    code, said, _ = command(monkeypatch, capsys, *words, "--t1", first, "--json")
    assert code == 0
    record = json.loads(said)
    assert record["protected"] is True
    assert record["privacy"]["US"]["epsilon"]["upper"] > 0
    header = (tmp_path / "out" / "t3" / "T03004" / "us.csv").read_text().splitlines()[0]
    assert header == "REGION_ID|REGION_TYPE|ITERATION_CODE|T3_DATA_CELL|COUNT"
    asked = sum(len((first / "t1" / f"{run}.csv").read_text().splitlines()) - 1 for run in ("us", "pr"))
    tables = pl.concat(
        pl.read_csv(p, separator="|", infer_schema=False) for p in (tmp_path / "out" / "t3").rglob("*.csv")
    )
    assert tables.select("REGION_ID", "REGION_TYPE", "ITERATION_CODE").n_unique() == asked


def test_a_run_has_its_report_and_its_evaluation(inputs, tmp_path, monkeypatch, capsys):
    params, data, households, rows = inputs
    out = tmp_path / "out"
    assert command(monkeypatch, capsys, "households", params, data, "--out", out, "-q")[0] == 0
    page = (out / "report.html").read_text()
    assert "SafeTab-H" in page
    assert "A published count of people decided how much detail each group gets." in page
    require_readable(out / "report.html")
    assert "nobody had signed the list of the published files (manifest.json)." in page
    assert "NOT PRIVATE" not in page
    expected = json.loads((out / "expected.json").read_text())
    fine = next(one for one in expected if one["detail"] == "T03004")
    assert fine["from_count"] == 600
    assert fine["total_variance"] == pytest.approx(5 * fine["cell_variance"])
    monkeypatch.setattr(sys, "argv", ["tallyveil", "report", str(out)])
    with pytest.raises(SystemExit):
        main()
    assert (out / "report.html").read_text() == page

    words = ("evaluate", params, data, "--finished", out)
    code, _, said = command(monkeypatch, capsys, *words)
    assert code == 2
    assert "not-private" in said
    yes = "--i-understand-this-is-not-private"
    code, said, wrong = command(monkeypatch, capsys, *words, yes, "--runs", 4)
    assert code == 0, wrong
    assert "NOT PRIVATE" in said
    kinds = [json.loads(line)["kind"] for line in (out / "ledger.jsonl").read_text().splitlines()]
    assert kinds == ["declaration", "spend", "declassify", "declassify"]
    assert "NOT PRIVATE" in (out / "evaluation" / "report.html").read_text()
    assert "NOT PRIVATE: True counts were compared" in (out / "report.html").read_text()
    require_readable(out / "evaluation" / "report.html")
    truth = slow_tables(households, rows)
    for table in ("t3", "t4"):
        found = {}
        for run in ("us", "pr"):
            path = out / "evaluation" / f"truth-{table}-{run}.parquet"
            assert pl.read_parquet_metadata(path)["tallyveil.protected"] == "false"
            found |= {row[:4]: row[4] for row in pl.read_parquet(path).rows()}
        assert found == truth[table]
    errors = pl.read_parquet(out / "evaluation" / "errors-households.parquet")
    assert errors["rows"].sum() == 4 * sum(len(cells) for cells in truth.values())
    covered = (errors["rows"] * errors["COUNT: within margin"]).sum() / errors["rows"].sum()
    assert 0.94 < covered < 0.985
    cells = errors.filter(pl.col("ROW") == "cell")
    ratio = (cells["rows"] * cells["COUNT: root mean square"] ** 2).sum() / cells["rows"].sum()
    assert ratio == pytest.approx(fine["cell_variance"], rel=0.3)

    (data / "pop-group-totals.txt").write_text(
        (data / "pop-group-totals.txt").read_text().replace("|5000\n", "|5001\n", 1)
    )
    code, _, said = command(monkeypatch, capsys, *words, yes)
    assert code == StoreError.exit_code
    assert "another table T1" in said


BAD = [
    ("d/household-records.txt", "HOUSEHOLD_TYPE|TEN", "TEN|HOUSEHOLD_TYPE", 2, "safetab-columns"),
    ("d/household-records.txt", "|9950|", "|995|", SchemaError.exit_code, "safetab-person-values"),
    ("d/pop-group-totals.txt", "|USA|", "|EARTH|", SchemaError.exit_code, "safetab-values"),
    ("d/pop-group-totals.txt", "|COUNT\n", "|COUNT\n99|STATE|1101|7\n", SchemaError.exit_code, "safetab-group-totals"),
    ("d/pop-group-totals.txt", "|COUNT\n", "|COUNT\n01|STATE|1101|7\n01|STATE|1101|7\n", 3, "safetab-repeated"),
    ("d/pop-group-totals.txt", "|COUNT\n", "|COUNT\n01|STATE|1199|7\n", 3, "safetab-unknown-code"),
    ("d/pop-group-totals.txt", "REGION_ID|REGION_TYPE", "REGION_TYPE|REGION_ID", 2, "safetab-columns"),
    ("p/config.json", '"(USA, 1)": [100]', '"(USA, 1)": [100, 200]', 2, "safetab-config"),
    ("p/config.json", '"privacy_budget_h_t4_level_1_usa": 0.25', '"privacy_budget_h_t4_level_1_usa": -1', 2,
     "safetab-config"),
    ("p/config.json", '"run_pr": true', '"run_pr": true, "zero_suppression_chance": 0.5', 2, "safetab-config"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new", "exit_code", "error"), BAD)
def test_bad_inputs(inputs, tmp_path, monkeypatch, capsys, file, old, new, exit_code, error):
    path = tmp_path / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    code, _, said = command(monkeypatch, capsys, "households", *inputs[:2], "--out", tmp_path / "out")
    assert f"[{error}]" in said
    assert code == exit_code
    assert not (tmp_path / "out").exists()


def test_totals_of_the_other_run(inputs, tmp_path, monkeypatch, capsys):
    path = tmp_path / "d" / "pop-group-totals.txt"
    path.write_text("\n".join(line for line in path.read_text().splitlines() if "|PR-" not in line) + "\n")
    code, _, said = command(monkeypatch, capsys, "households", *inputs[:2], "--out", tmp_path / "out")
    assert code == SchemaError.exit_code
    assert "no population group of the PR run" in said


@pytest.mark.parametrize("allow_negative", [True, nightly(False)])
def test_without_noise_the_files_hold_the_truth_and_say_so(tmp_path, monkeypatch, capsys, allow_negative):
    params, data, households, rows = write_inputs(tmp_path, 400, allow_negative_counts=allow_negative)
    out = tmp_path / "out"
    flags = ("--no-noise", "--i-understand-this-is-not-private", "--json")
    code, said, warned = command(monkeypatch, capsys, "households", params, data, "--out", out, *flags)
    assert code == 0
    assert json.loads(said)["protected"] is False
    assert "NOT PRIVATE" in warned
    truth = slow_tables(households, rows)
    for table in ("t3", "t4"):
        paths = [out / f"{table}-{run}.parquet" for run in ("us", "pr")]
        frame = pl.concat(pl.read_parquet(path) for path in paths)
        assert {row[:4]: row[4] for row in frame.rows()} == truth[table]
        assert frame.select(pl.max_horizontal("VARIANCE", "MARGIN")).max().item() == 0
        assert all("NOT PRIVATE" in str(pl.read_parquet_metadata(path)) for path in paths)
        texts = [path.read_text().splitlines()[1:] for path in sorted((out / table).rglob("*.csv"))]
        lines = [line.split("|") for text in texts for line in text]
        assert {tuple(line[:4]): int(line[4]) for line in lines} == truth[table]
    kinds = [json.loads(line)["kind"] for line in (out / "ledger.jsonl").read_text().splitlines()]
    assert kinds == ["declaration", "declassify", "declassify"]
    monkeypatch.setattr(sys, "argv", ["tallyveil", "account", "total", str(out)])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == BudgetError.exit_code
    assert "epsilon is infinite" in capsys.readouterr().err
