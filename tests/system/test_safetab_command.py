"""`tallyveil safetab` end to end: plan, validate, run, evaluate; interruption; bad inputs of every rule."""

import json
import random
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from tests import toy_country as toy
from tests.pages import require_readable
from tests.samples import every

import tallyveil.products.safetab.public.files as formats
import tallyveil.storage.write as writing
from tallyveil.cli.main import main
from tallyveil.errors import ConfigError, GeographyError, SchemaError, StoreError

KEY = "safetab command"


@pytest.fixture
def inputs(tmp_path):
    # One run is enough here, and its many total-only cases take the accountant a while.
    params = toy.write_params(tmp_path / "p", run_pr=False)
    return params, toy.write_data(tmp_path / "d", toy.person_rows(900))


@pytest.fixture(scope="module")
def inputs_of_one_level(tmp_path_factory):
    """Inputs whose accounting takes a third of the time, for runs in processes of their own."""
    folder = tmp_path_factory.mktemp("one-level")
    level_2 = {f"privacy_budget_p_level_2_{geography.lower()}": 0 for geography in toy.US}
    params = toy.write_params(folder / "p", run_pr=False, **level_2)
    return params, toy.write_data(folder / "d", toy.person_rows(900))


@pytest.fixture(scope="module")
def undisturbed(inputs_of_one_level, tmp_path_factory):
    """What a run that nothing stops publishes."""
    from tallyveil.noise import insecure_key
    from tallyveil.products.safetab.run.run import run_safetab

    params, data = inputs_of_one_level
    out = tmp_path_factory.mktemp("undisturbed") / "whole"
    return contents(run_safetab(params, data, out, test_key=insecure_key(KEY)).path)


@pytest.fixture
def command(monkeypatch, capsys):
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tallyveil", "safetab", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return code, said.out, said.err

    return run


def contents(out: Path) -> dict[str, bytes]:
    """Every published file."""
    return {p.relative_to(out).as_posix(): p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file()}


def kinds(out: Path) -> list[str]:
    return [json.loads(line)["kind"] for line in (out / "ledger.jsonl").read_text().splitlines()]


def test_plan_opens_no_record(command, inputs, tmp_path):
    params, data = inputs
    (data / "person-records.txt").unlink()
    code, said, wrong = command("plan", params, data, "--json", "--out", tmp_path / "plan")
    assert code == 0, wrong
    record = json.loads(said)
    (one,) = record["privacy"]
    assert one["epsilon"]["upper"] < one["zcdp"] < one["zcdp_textbook"]
    assert one["pure"] is None
    assert record["groups"]["US"]["COUNTY level 1"] == 3 * 5
    assert record["stage_1_counts_and_totals"] == 2 * sum(record["groups"]["US"].values())
    fine = next(d for d in record["details"] if d["geography"] == "TRACT" and d["detail"] == "sex by 23 ages")
    assert fine["total_estimate"] < fine["total"] / 2
    assert fine["from_count"] == 600
    empty = next(s for s in record["sizes"] if (s["geography"], s["level"], s["size"]) == ("COUNTY", 2, 0))
    assert empty["published"] == pytest.approx(1e-4, rel=0.6)
    assert json.loads((tmp_path / "plan" / "safetab-plan.json").read_text()) == record
    code, said, _ = command("plan", params)
    assert code == 0
    assert "no data was opened" in said


def test_a_run_from_beginning_to_evaluation(command, inputs, tmp_path):
    params, data = inputs
    out = tmp_path / "out"
    assert command("validate", params, data)[0] == 0
    code, said, _ = command("run", params, data, "--out", out, "--json")
    assert code == 0
    summary = json.loads(said)
    assert summary["protected"] is True
    assert summary["sizes"]["US"]["t1_rows"] > 50
    page = (out / "report.html").read_text()
    assert "NOT PRIVATE" not in page
    assert "How sure each count is" in page
    assert "A first noisy total of the group decided how much detail each group gets." in page
    require_readable(out / "report.html")
    assert summary["privacy"] == list(json.loads((out / "manifest.json").read_text())["privacy"].values())
    assert "already holds" in command("run", params, data, "--out", out)[1]
    code, said, _ = command("validate", params, data, "--finished", out)
    assert code == 0
    assert "pass all" in said
    assert kinds(out) == ["declaration", "spend"]

    code, _, said = command("evaluate", params, data, "--finished", out)
    assert code == ConfigError.exit_code
    assert "not-private" in said
    assert kinds(out) == ["declaration", "spend"]
    yes = "--i-understand-this-is-not-private"
    code, said, _ = command("evaluate", params, data, "--finished", out, yes, "--runs", 2)
    assert code == 0
    assert "NOT PRIVATE" in said
    assert "epsilon at 1e-11" in said
    stated = json.loads((out / "evaluation" / "errors.json").read_text())["privacy-of-the-measurements"]
    assert stated[-1]["level"] == "US, all level sets"
    assert stated[-1]["epsilon_at_1e-10"] == pytest.approx(38.7488, abs=1e-3)
    assert kinds(out) == ["declaration", "spend", "declassify"]
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["protected"] is True
    assert "NOT PRIVATE" in manifest["warnings"][0]
    assert manifest["declassified"][0]["line"] == 2
    assert "NOT PRIVATE" in (out / "evaluation" / "report.html").read_text()
    require_readable(out / "evaluation" / "report.html")
    for path in (out / "evaluation").glob("*.parquet"):
        assert pl.read_parquet_metadata(path)["tallyveil.protected"] == "false"


@pytest.mark.nightly
def test_the_evaluation_is_against_the_truth(command, inputs, tmp_path):
    """True counts are those of a slow tabulation; errors are small, and margins cover them."""
    params, data = inputs
    out = tmp_path / "out"
    assert command("run", params, data, "--out", out, "-q", "--insecure-test-key", KEY)[0] == 0
    assert kinds(out) == ["declaration", "declassify", "spend"]
    flags = ("--i-understand-this-is-not-private", "--runs", 5, "-q")
    assert command("evaluate", params, data, "--finished", out, *flags)[0] == 0
    truth = toy.slow_tabulation(toy.person_rows(900), toy.US).t1
    counted = {row[:3]: row[3] for row in pl.read_parquet(out / "evaluation" / "truth-t1-us.parquet").rows()}
    assert counted == {group: count for group, count in truth.items() if count}
    errors = pl.read_parquet(out / "evaluation" / "errors-t1.parquet")
    groups = len(toy.slow_tabulation([], toy.US).groups)
    assert errors["groups"].sum() == groups
    national = errors.filter(pl.col("REGION_TYPE") == "USA", pl.col("published").is_not_null())
    assert (national["published"] == national["groups"]).all()
    assert (national["COUNT: root mean square"] < 15).all()
    assert (national["share: total"].drop_nulls() <= 1).all()
    cells = pl.read_parquet(out / "evaluation" / "errors-t2.parquet")
    weighted = (cells["rows"] * cells["COUNT: within margin"]).sum() / cells["rows"].sum()
    assert 0.93 < weighted < 0.99


@pytest.mark.nightly
def test_an_evaluation_needs_the_parameters_of_the_run(command, inputs, tmp_path):
    params, data = inputs
    yes = "--i-understand-this-is-not-private"
    (tmp_path / "empty").mkdir()
    code, _, said = command("evaluate", params, data, "--finished", tmp_path / "empty", yes)
    assert code == StoreError.exit_code
    assert "no-release" in said
    assert command("run", params, data, "--out", tmp_path / "out", "-q")[0] == 0
    other = toy.write_params(tmp_path / "q", run_pr=False, zero_suppression_chance=0.5)
    code, _, said = command("evaluate", other, data, "--finished", tmp_path / "out", yes)
    assert code == StoreError.exit_code
    assert "other parameters" in said
    assert kinds(tmp_path / "out") == ["declaration", "spend"]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("before", "first"),
    [(True, 1), (True, 2), (False, 2), (False, 1)],
)
def test_killed_at_every_write(inputs: tuple[Path, Path], tmp_path, killed_at, before, first):
    """At each second write."""
    from tallyveil.noise import insecure_key
    from tallyveil.products.safetab.run.run import run_safetab

    key = insecure_key(KEY)
    expected = contents(run_safetab(*inputs, tmp_path / "whole", test_key=key).path)
    number, killed, modules = (
        first - 2,
        True,
        (writing, sys.modules["tallyveil.products.safetab.public.tables"]),
    )
    while killed:
        number += 2
        out = tmp_path / f"killed-{number}"
        killed = killed_at(
            number,
            lambda out=out: run_safetab(*inputs, out, test_key=key),
            before=before,
            modules=modules,
        )
        run_safetab(*inputs, out, test_key=key)
        assert contents(out) == expected
        assert kinds(out).count("spend") == 1
    assert number >= 8


def arguments(inputs, out: Path) -> list[str]:
    return ["safetab", "run", *map(str, inputs), "--out", str(out), "-q", "--insecure-test-key", KEY]


POINTS = [
    ("tallyveil.accounting.ledger.file Ledger spend", 1),
    (
        "tallyveil.products.safetab.run.run write_json",
        1,
    ),  # the ledger has the spend, the plan is not written yet
    (
        "tallyveil.products.safetab.confidential.measure choose_detail",
        5,
    ),  # stage 1 of a level set measured, stage 2 not
    ("tallyveil.products.safetab.run.run write_tables", 1),
    ("tallyveil.products.safetab.public.tables write_parquet", 2),  # some tables written
    ("tallyveil.runs.folder RunFolder seal", 1),
    ("tallyveil.runs.folder RunFolder publish", 1),  # the manifest is sealed, the key still there
    ("tallyveil.runs.folder RunFolder remove_private", 1),  # the release is finished, the key gone
    ("tallyveil.api.safetab with_page", 1),  # finished but for the page
]


@pytest.mark.parametrize(("where", "number"), every(len(POINTS), POINTS))
def test_killed_by_the_system_at_chosen_points(
    inputs_of_one_level: tuple[Path, Path], undisturbed, tmp_path, fork_server, where, number
):
    """SIGKILL: no handler runs and no file is closed. The same command finishes the run, for one spend."""
    from tallyveil.noise import insecure_key
    from tallyveil.products.safetab.run.run import run_safetab

    inputs = inputs_of_one_level
    out, key = tmp_path / "killed", insecure_key(KEY)
    ended = fork_server.run(arguments(inputs, out), tmp_path, 120, kill_at=(where, number))
    assert ended["code"] == -signal.SIGKILL, ended["err"]
    run_safetab(*inputs, out, test_key=key)
    assert contents(out) == undisturbed
    assert kinds(out).count("spend") == 1
    assert not (out / "private").exists()


@pytest.mark.soak
def test_killed_by_the_system_at_any_moment(inputs_of_one_level, undisturbed, tmp_path, fork_server):
    """SIGKILL at moments nobody chose; the same command finishes it. The last run has an interpreter of its own."""
    inputs = inputs_of_one_level
    whole = fork_server.run(arguments(inputs, tmp_path / "whole"), tmp_path, 120)
    assert whole["code"] == 0, whole["err"]
    assert contents(tmp_path / "whole") == undisturbed
    moments = random.Random(6)
    start = "from tallyveil.cli.main import main; main()"
    for number in range(2):
        out = tmp_path / f"killed-{number}"
        moment = whole["seconds"] * moments.uniform(0.2, 0.9)
        fork_server.run(arguments(inputs, out), tmp_path, moment)
        if number:
            subprocess.run([sys.executable, "-c", start, *arguments(inputs, out)], check=True)
        else:
            assert fork_server.run(arguments(inputs, out), tmp_path, 120)["code"] == 0
        assert contents(out) == undisturbed
        assert kinds(out).count("spend") == 1
        assert not (out / "private").exists()


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


RACES = "p/race-characteristic-iterations.txt"
CODES = "p/race-and-ethnicity-codes.txt"
PAIRS = "p/race-and-ethnicity-code-to-iteration.txt"
ETHNICITIES = "p/ethnicity-characteristic-iterations.txt"
PEOPLE, BLOCKS, CONFIG = "d/person-records.txt", "d/GRF-C.txt", "p/config.json"
RULES = [
    (CONFIG, '"max_race_codes": 3', '"max_race_codes": 9', ConfigError, "safetab-config"),
    (CONFIG, '"max_race_codes": 3', '"max_race_codes": 1', SchemaError, "safetab-extra-codes"),
    (CONFIG, "county\": 0.159", "county\": -0.159", ConfigError, "safetab-config"),
    (CONFIG, "county\": 0.159", "county\": \"a\"", ConfigError, "safetab-config"),
    (CONFIG, "county\": 0.159", "county\": Infinity", ConfigError, "safetab-infinite"),
    (CONFIG, "[60, 200, 600]", "[60, 200, 600, 700]", ConfigError, "safetab-config"),
    (CONFIG, "[60, 200, 600]", "[60, 20, 600]", ConfigError, "safetab-config"),
    (CONFIG, "0.9999", "\"x\"", ConfigError, "safetab-config"),
    (CONFIG, "{", "", ConfigError, "safetab-config"),
    (CONFIG, '["01", "11"]', '["01", "12"]', GeographyError, "safetab-no-blocks"),
    (CODES, "2000|Beta", "0200|Beta", SchemaError, "safetab-values"),
    (CODES, "2000|Beta", "1000|Beta", SchemaError, "safetab-repeated"),
    (CODES, "3000|Gamma\n", "", SchemaError, "safetab-unknown-code"),
    (RACES, "LEVEL|ALONE", "ALONE|LEVEL", ConfigError, "safetab-columns"),
    (RACES, "1301|Gamma alone|1|True|True|False", "1301|Gamma alone|1|True|True|True", SchemaError,
     "safetab-flags"),
    (ETHNICITIES, "2901|Eth one", "2101|Eth one", SchemaError, "safetab-overlap"),
    (PAIRS, "2101|1010", "2101|1010\n2201|1010", SchemaError, "safetab-several-iterations"),
    (PAIRS, "2101|1010", "2101|1099", SchemaError, "safetab-unknown-code"),
    (BLOCKS, "01|001|000100|1001|", "01|001|000100|1000|", SchemaError, "safetab-repeated"),
    (BLOCKS, "TABBLKST|TABBLKCOU", "TABBLKCOU|TABBLKST", ConfigError, "safetab-columns"),
    (PEOPLE, "QAGE|QSEX", "QSEX|QAGE", ConfigError, "safetab-columns"),
    (PEOPLE, "|True|", "|Maybe|", SchemaError, "safetab-person-values"),
    (PEOPLE, "|Null|Null|Null|Null|Null|", "|Null|Null|Null|Null|1000|", SchemaError, "safetab-null-order"),
    (PEOPLE, "|01|001|000100|1000|01|1000|", "|01|001|000100|1000|01|1234|", SchemaError, "safetab-person-code"),
    (PEOPLE, "|01|001|000100|1000|", "|01|001|000100|2999|", GeographyError, "safetab-person-block"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new", "error", "code"), RULES)
def test_bad_input_of_every_rule(command, inputs, tmp_path, file, old, new, error, code):
    edit(tmp_path / file, old, new)
    for name in ("validate", "run"):
        flags = ("--out", tmp_path / "out") if name == "run" else ()
        exit_code, out, said = command(name, *inputs, *flags)
        assert exit_code == error.exit_code
        assert f"[{code}]" in said
        assert not out
        assert not (tmp_path / "out").exists()
    if file == PEOPLE:
        assert "1234" not in said
        assert "2999" not in said


FORMATS = [
    (PEOPLE, formats.PERSONS),
    (BLOCKS, formats.GEOGRAPHY),
    (CODES, formats.CODES),
    (RACES, formats.RACE_ITERATIONS),
    (ETHNICITIES, formats.ETHNICITY_ITERATIONS),
    (PAIRS, formats.CODE_TO_ITERATION),
]
NO_VALUE = "x7y"  # of any column but names
COLUMNS = [
    (file, form, rule)
    for file, form in FORMATS
    for rule in form.rules
    if not re.search(rule.pattern, NO_VALUE)
]


@pytest.mark.parametrize(
    ("file", "form", "rule"), COLUMNS, ids=lambda x: getattr(x, "name", getattr(x, "stem", ""))
)
def test_every_column_of_every_file_has_its_rule(command, inputs, tmp_path, file, form, rule):
    """A value that no column allows: named with file, column and rule; counted and shown for public files only."""
    path = tmp_path / file
    lines = path.read_text().splitlines()
    place = form.columns.index(rule.name)
    for number in (2, 4):
        lines[number] = "|".join(
            [*lines[number].split("|")[:place], NO_VALUE, *lines[number].split("|")[place + 1 :]]
        )
    path.write_text("\n".join([*lines, ""]))
    exit_code, _, said = command("validate", *inputs)
    assert exit_code == SchemaError.exit_code
    told = " ".join(said.split())
    assert path.name in told
    assert f"column {rule.name} has" in told
    assert rule.wanted in told
    if file == PEOPLE:
        assert "[safetab-person-values]" in said
        assert NO_VALUE not in said
        assert " 2 " not in told.split("column")[1].split("values")[0]
    else:
        assert "[safetab-values]" in said
        assert f"'{NO_VALUE}'" in said
        assert "2 row(s)" in told


@pytest.mark.parametrize(("file", "form"), FORMATS, ids=lambda x: getattr(x, "stem", ""))
def test_every_header_is_checked(command, inputs, tmp_path, file, form):
    path = tmp_path / file
    text = path.read_text()
    first, second = form.columns[:2]
    changes = {
        "missing": text.replace(first, "OTHER", 1),
        "out of order": text.replace(f"{first}|{second}", f"{second}|{first}", 1),
        "unexpected": "\n".join(f"{line}|more" for line in text.splitlines()) + "\n",
    }
    for words, changed in changes.items():
        path.write_text(changed)
        exit_code, _, said = command("validate", *inputs)
        if words == "unexpected" and form.extra:  # the geography alone may have further columns
            assert exit_code == 0
            continue
        assert exit_code == ConfigError.exit_code
        assert "[safetab-columns]" in said
        assert words in said


def test_every_key_of_the_config_is_needed_and_typed(command, inputs, tmp_path):
    path = tmp_path / CONFIG
    values = json.loads(path.read_text())
    for key in values:
        if "_pr_" in key:  # of the run that is switched off
            continue
        for changed in ({k: v for k, v in values.items() if k != key}, values | {key: [[]]}):
            path.write_text(json.dumps(changed))
            exit_code, _, said = command("validate", *inputs)
            if key == "zero_suppression_chance" and key not in changed:
                assert exit_code == 0
                continue
            assert exit_code == ConfigError.exit_code
            assert "[safetab-config]" in said
            assert key in said


@pytest.mark.parametrize("file", [CONFIG, RACES, CODES, PAIRS, ETHNICITIES, BLOCKS, PEOPLE])
def test_absent_empty_and_damaged_files(command, inputs, tmp_path, file):
    path = tmp_path / file
    text = path.read_bytes()
    first = text.split(b"\n")[0] + b"\n" if file != CONFIG else text[:100]
    for content in (None, b"", first, b"\xff\xfe" + text):
        path.unlink() if content is None else path.write_bytes(content)
        exit_code, _, said = command("validate", *inputs)
        assert exit_code in (2, 3, 8)
        assert "error [" in said


def test_a_tampered_table_is_found(command, inputs, tmp_path):
    out = tmp_path / "out"
    assert command("run", *inputs, "--out", out, "-q")[0] == 0
    path = out / "t1" / "us.csv"
    path.write_text(path.read_text().replace("|USA|", "|EARTH|", 1))
    code, _, said = command("validate", *inputs, "--finished", out)
    assert code == 7
    assert "safetab-output" in said


def test_consistent_tables_of_a_finished_run(command, inputs, tmp_path):
    params, data = inputs
    run, out = tmp_path / "run", tmp_path / "consistent"
    code, _, said = command("consistent", params, data, "--finished", params, "--out", out)
    assert code == StoreError.exit_code
    assert "no-release" in said
    assert command("run", params, data, "--out", run, "-q")[0] == 0
    before = contents(run)
    code, _, said = command("consistent", params, data, "--finished", run, "--out", run)
    assert code == StoreError.exit_code
    assert "input-in-output" in said
    code, _, said = command("consistent", params, data, "--finished", run, "--out", run / "consistent")
    assert (code, "input-in-output" in said) == (StoreError.exit_code, True)
    published = tmp_path / "published.txt"
    published.write_text("REGION_ID|REGION_TYPE|ITERATION_CODE|COUNT\n1|USA|1102|1234\n")
    code, said, _ = command(
        "consistent",
        params,
        data,
        "--finished",
        run,
        "--out",
        out,
        "--whole-numbers",
        "--published",
        published,
    )
    assert code == 0
    assert "and the consistent numbers none" in said
    for name in ("t1-us", "t2-us"):
        assert str(out / f"{name}.parquet") in said
        frame = pl.read_parquet(out / f"{name}.parquet")
        assert frame.height == pl.read_parquet(run / f"{name}.parquet").height
        tags = pl.read_parquet_metadata(out / f"{name}.parquet")
        assert (tags["tallyveil.protected"], tags["tallyveil.consistent"]) == ("true", "whole")
    t1 = pl.read_parquet(out / "t1-us.parquet")
    sums = t1.group_by("ITERATION_CODE", "REGION_TYPE").agg(pl.col("CONSISTENT").sum())
    wide = sums.pivot(on="REGION_TYPE", index="ITERATION_CODE", values="CONSISTENT").drop_nulls(
        ["USA", "STATE"]
    )
    assert wide["USA"].equals(wide["STATE"], null_equal=False)
    assert wide.filter(ITERATION_CODE="1102")["USA"].to_list() == [1234]
    # A table of another run, written there before, would be taken for one of this run.
    (out / "t1-pr.parquet").write_bytes(b"of another run")
    assert command("consistent", params, data, "--finished", run, "--out", out)[0] == 0
    assert not (out / "t1-pr.parquet").exists()
    # Refused before a table is written.
    published.write_text("REGION_ID|REGION_TYPE|ITERATION_CODE|COUNT\n1|USA|1201|10\n1|USA|1202|9\n")
    fresh = tmp_path / "fresh"
    code, _, said = command(
        *("consistent", params, data, "--finished", run, "--out", fresh, "--published", published)
    )
    assert "safetab-published-contradiction" in said
    assert not list(fresh.glob("*.parquet"))
    other = tmp_path / "other"
    shutil.copytree(params, other)
    values = json.loads((other / "config.json").read_text())
    values["privacy_budget_p_level_1_usa"] = 3
    (other / "config.json").write_text(json.dumps(values))
    code, _, said = command("consistent", other, data, "--finished", run, "--out", tmp_path / "third")
    assert code == StoreError.exit_code
    assert "no-release" in said
    assert contents(run) == before


def test_the_long_form_of_a_list_with_ranges(command, inputs, tmp_path):
    short, out = tmp_path / "short.txt", tmp_path / "long.txt"
    short.write_text("ITERATION_CODE|RACE_ETH_CODE\n1101|1000:1999\n1201|2000, 2010\n")
    codes = inputs[0] / "race-and-ethnicity-codes.txt"
    code, said, _ = command("long-form", short, codes, "--out", out)
    assert code == 0
    assert "5 rows" in said
    assert out.read_text().splitlines()[1:] == [
        "1101|1000",
        "1101|1010",
        "1101|1020",
        "1201|2000",
        "1201|2010",
    ]
    short.write_text("ITERATION_CODE|RACE_ETH_CODE\n1101|1000-1999\n")
    code, _, said = command("long-form", short, codes, "--out", tmp_path / "other.txt")
    assert code == SchemaError.exit_code
    assert "safetab-short-form" in said


@pytest.mark.parametrize("delta", ["0", "1", "small"])
def test_a_delta_that_is_none(command, inputs, delta):
    code, _, said = command("plan", inputs[0], "--delta", delta)
    assert code == 2
    assert ("no exact number" if delta == "small" else "bad-flag") in said
