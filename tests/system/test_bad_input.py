"""Every mistake a new user makes gives one screen that says how to mend it, and leaves nothing behind."""

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tallyveil.cli.main import main
from tallyveil.errors import (
    BudgetError,
    ConfigError,
    ConstraintError,
    GeographyError,
    SchemaError,
    StoreError,
)

CANARY = "canary-9917"


@pytest.fixture
def attempt(monkeypatch, capsys, tmp_path):
    """Run the command; returns its exit code and what it said, after checking that nothing was left behind."""

    def run(release: Path, out: Path | None = None, *flags: str) -> tuple[int, str]:
        folder = out or tmp_path / "out"
        monkeypatch.setattr(sys, "argv", ["tallyveil", "run", str(release), "--out", str(folder), *flags])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        if out is None:
            assert not folder.exists()
        assert CANARY not in said.out + said.err
        assert len(said.err.splitlines()) < 30
        assert "Traceback" not in said.err
        return int(ended.value.code or 0), said.err

    return run


def change_records(release: Path, **columns: object) -> None:
    path = release.parent / "people.parquet"
    frame = pl.read_parquet(path)
    for name, value in columns.items():
        series = frame[name].to_list()
        series[4] = value
        frame = frame.with_columns(pl.Series(name, series))
    frame.write_parquet(path)


@pytest.mark.parametrize(
    ("old", "new", "error", "said"),
    [
        ('neighbours = "bounded"', 'neighbors = "bounded"', ConfigError, "did you mean 'neighbours'"),
        ('neighbours = "bounded"', "", ConfigError, "privacy.neighbours: is required"),
        ('neighbours = "bounded"', 'neighbours = "both"', ConfigError, "'bounded' or 'unbounded'"),
        ('Block = "1/2"', 'Block = "2050/4099"', BudgetError, "1/8198"),
        ('Block = "1/2"', "Block = 0.5", ConfigError, "strategy.geolevels.Block"),
        ('Block = "1/2"', 'Blok = "1/2"', ConfigError, "Blok"),
        ('grown = "1/4"', 'groan = "1/4"', SchemaError, "Did you mean 'grown'"),
        ('[strategy]\nrho = "2"', '[strategy]\nrho = "3"', BudgetError, "more than the declared budget"),
        ('query = "home"', 'query = "homes"', SchemaError, "homes"),
        ('prefix_lengths = [1, 3, 5]', "prefix_lengths = [1, 3]", ConfigError, "prefix_lengths has 2 entries"),
        ('prefix_lengths = [1, 3, 5]', "prefix_lengths = [1, 3, 9]", GeographyError, "9"),
        ('path = "people.parquet"', 'path = "peple.parquet"', StoreError, "does not exist"),
        ('count = "count"', 'count = "counts"', ConfigError, "lacks the wanted column(s):\n  'counts'"),
        ('geolevels = ["Region"]\n\n[[bounds]]', 'geolevels = ["Regoin"]\n\n[[bounds]]', ConfigError, "Regoin"),
        ('[["total"], ["*"]]', '[["total"], ["grown"]]', ConfigError, "left out: age*home"),
        ('grown = "1/4"', '"home*age" = "1/4"', ConfigError, "are the same query"),
        ("[release]", "[release", ConfigError, "not valid TOML"),
        ("[release]", "deep = " + "[" * 5000 + "\n[release]", ConfigError, "nested too deeply"),
        ("[release]", "long = " + "9" * 5000 + "\n[release]", ConfigError, "not valid TOML"),
        ("[release]", "x" + ".x" * 3000 + " = 1\n[release]", ConfigError, "unknown key"),
        ('[strategy]\nrho = "2"', '[strategy]\nrho = "1e99999999"', ConfigError, "no exact number"),
        ("prefix_lengths = [1, 3, 5]", "prefix_lengths = [1, 3, 99999999999999999999999999]", ConfigError,
         "less than or equal to 1000"),
    ],
)  # fmt: skip
def test_mistakes_in_the_release_file(attempt, edit, old, new, error, said):
    code, text = attempt(edit(old, new))
    assert code == error.exit_code
    assert said in text


def test_a_schema_that_no_machine_holds_is_refused_with_its_memory(attempt, edit):
    levels = ", ".join(f'"l{number}"' for number in range(30))
    more = "".join(f'[[schema.attributes]]\nname = "more{n}"\nlevels = [{levels}]\n' for n in range(6))
    code, text = attempt(edit("[[schema.recodes]]", f"{more}[[schema.recodes]]"))
    assert code == SchemaError.exit_code
    assert "4,374,000,000 cells" in text
    assert "GiB" in text


@pytest.mark.parametrize(
    ("header", "said"),
    [("geocode,age,age,home,count", "more than once"), ("geocode;age;home;count", "lacks")],
)
def test_headers_that_do_not_say_which_column_is_meant(attempt, edit, header, said):
    release = edit("people.parquet", "people.csv")
    (release.parent / "people.csv").write_text(f"{header}\nA1101,young,young,house,{CANARY}\n")
    code, text = attempt(release)
    assert code == ConfigError.exit_code
    assert said in text


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('path = "geography.parquet"', 'path = "PUBLIC"', "[geography] path"),
        ("[geography]\n", '[geography]\nnames = "PUBLIC"\n', "[geography] names"),
        ('path = "barracks.parquet"', 'path = "PUBLIC"', "[[bounds]] 'barracks'"),
        (
            "[outputs]\n",
            '[spine]\nentities = "PUBLIC"\nfamilies = ["home"]\n[outputs]\n',
            "[spine] entities",
        ),
        (
            "[outputs]\n",
            '[spine]\noverlapping = { ward = "PUBLIC" }\n[outputs]\n',
            "[spine.overlapping] ward",
        ),
    ],
)
def test_the_records_are_no_public_table(attempt, edit, small_release, old, new, place):
    """Its messages would quote records: "such as Block 'P0001'"."""
    people = small_release.parent / "people.parquet"
    people.with_name("hard.parquet").hardlink_to(people)
    people.with_name("soft.parquet").symlink_to(people)
    whole = small_release.read_text()
    for name in ("people.parquet", "hard.parquet", "soft.parquet"):
        code, text = attempt(edit(old, new.replace("PUBLIC", name)))
        assert code == ConfigError.exit_code
        assert "records-not-public" in text
        assert place in " ".join(text.split())
        small_release.write_text(whole)


def test_dates_are_no_counts(attempt, small_release):
    path = small_release.parent / "people.parquet"
    frame = pl.read_parquet(path)
    frame.with_columns(pl.col("count").cast(pl.Int32).cast(pl.Date)).write_parquet(path)
    code, text = attempt(small_release)
    assert code == SchemaError.exit_code
    assert "holds Date, wanted whole numbers" in text


def test_all_mistakes_of_a_file_are_shown_at_once(attempt, edit):
    edit('neighbours = "bounded"', 'neighbors = "bounded"')
    edit('Block = "1/2"', "Block = 0.5")
    _, text = attempt(edit('count = "count"', 'cuont = "count"'))
    for place in (
        "privacy.neighbors",
        "strategy.geolevels.Block",
        "records.cuont",
        "3 mistakes",
        "4 mistakes",
    ):
        assert (place in text) or place.endswith("mistakes")
    assert "4 mistakes" in text  # the missing key and the unknown one are two


def test_shares_that_miss_one_by_a_hair_say_by_how_much(attempt, edit):
    edit('Region = "1/4"', 'Region = "1024/4099"')
    edit('Town = "1/4"', 'Town = "1024/4099"')
    code, text = attempt(edit('Block = "1/2"', 'Block = "2050/4099"'))
    assert code == BudgetError.exit_code
    assert "1/4099" in text


@pytest.mark.parametrize(
    ("columns", "error", "said"),
    [
        ({"count": -991}, SchemaError, "negative"),
        ({"count": None}, SchemaError, "missing"),
        ({"age": CANARY}, SchemaError, "not levels of attribute 'age'"),
        ({"geocode": CANARY}, GeographyError, "no Block of the geography table"),
        ({"geocode": None}, GeographyError, "missing"),
    ],
)
def test_bad_records(attempt, small_release, columns, error, said):
    change_records(small_release, **columns)
    code, text = attempt(small_release)
    assert code == error.exit_code
    assert said in text
    assert "991" not in text


def test_a_block_missing_from_the_geography(attempt, small_release):
    path = small_release.parent / "geography.parquet"
    pl.read_parquet(path).filter(pl.col("geocode") != "P0000").write_parquet(path)
    code, text = attempt(small_release)
    assert code in (GeographyError.exit_code, ConstraintError.exit_code)
    assert "geography table" in text


def test_bounds_the_records_break(attempt, small_release):
    path = small_release.parent / "barracks.parquet"
    pl.read_parquet(path).with_columns(lower=pl.lit(9000)).write_parquet(path)
    code, text = attempt(small_release)
    assert code == ConstraintError.exit_code
    assert "barracks" in text


def test_constraints_that_contradict_each_other_name_the_geounit(attempt, small_release):
    extra = (
        '[[bounds]]\nname = "caps"\nquery = "home"\ngeolevel = "Town"\n'
        'path = "caps.parquet"\nmissing = "unbounded"\n\n'
    )
    small_release.write_text(small_release.read_text().replace("[outputs]", extra + "[outputs]"))
    caps = pl.DataFrame({"geocode": ["P00"], "home": ["barracks"], "lower": [0], "upper": [0]})
    caps.write_parquet(small_release.parent / "caps.parquet")
    code, text = attempt(small_release)
    assert code == ConstraintError.exit_code
    for name in ("Town 'P00'", "barracks", "caps"):
        assert name in text


def test_a_folder_with_other_things_in_it(attempt, small_release, tmp_path):
    out = tmp_path / "mine"
    out.mkdir()
    (out / "thesis.txt").write_text("keep me")
    code, text = attempt(small_release, out)
    assert code == StoreError.exit_code
    assert "do not belong to a Tallyveil run" in text
    assert [p.name for p in out.iterdir()] == ["thesis.txt"]


def test_a_folder_that_lost_its_ledger_and_manifest(attempt, small_release, tmp_path):
    """Its user must not draw the noise again without knowing that this is a new spend."""
    out = tmp_path / "out"
    assert attempt(small_release, out)[0] == 0
    for name in ("ledger.jsonl", "manifest.json"):
        (out / name).unlink()
    code, text = attempt(small_release, out)
    assert code == StoreError.exit_code
    words = " ".join(text.split())
    assert "restore them from a copy" in words
    assert "another folder, which is a new spend" in words
    assert not (out / "ledger.jsonl").exists()


def test_a_folder_with_another_release(attempt, edit, small_release, tmp_path, monkeypatch, capsys):
    from tallyveil.plans.from_toml.load import load_plan
    from tallyveil.products.topdown.run.run import run_release

    out = tmp_path / "done"
    run_release(load_plan(small_release), out)
    before = {p: p.stat().st_mtime_ns for p in out.rglob("*")}
    code, text = attempt(edit('name = "small"', 'name = "other"'), out)
    assert code == StoreError.exit_code
    assert "finished release of another plan" in text
    assert {p: p.stat().st_mtime_ns for p in out.rglob("*")} == before


def test_a_file_in_place_of_a_folder(attempt, small_release, tmp_path):
    out = tmp_path / "file"
    out.write_text("keep me")
    code, _ = attempt(small_release, out)
    assert code == StoreError.exit_code
    assert out.read_text() == "keep me"


@pytest.fixture
def small_disk(tmp_path):
    """A file system of a few MiB, where the machine lets us mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(size: str) -> Path:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)],
            capture_output=True,
            check=False,
        )
        if done.returncode:
            pytest.skip("cannot mount a small disk here")
        return folder

    yield mount
    subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)


def test_a_read_only_folder(attempt, small_release, small_disk):
    disk = small_disk("64m")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    code, text = attempt(small_release, disk / "out")
    assert code == StoreError.exit_code
    assert "cannot be written to" in text
    assert list(disk.iterdir()) == []


def test_a_disk_too_small_is_refused_before_anything_is_spent(attempt, small_release, small_disk):
    disk = small_disk("1m")
    code, text = attempt(small_release, disk / "out")
    assert code == StoreError.exit_code
    assert "Nothing was spent" in text
    assert list(disk.iterdir()) == []


def test_a_disk_that_fills_up_keeps_what_was_done(small_release, small_disk, monkeypatch):
    """No guess of the size is perfect: when the disk fills up under way, the run can go on after it is freed."""
    import tallyveil.products.topdown.run.run as running
    from tallyveil.plans.from_toml.load import load_plan

    monkeypatch.setattr(running, "refuse_many_people", lambda *_: None)
    disk = small_disk("128k")
    ballast = disk / "ballast"
    ballast.write_bytes(b"x" * 60_000)
    plan = load_plan(small_release)
    with pytest.raises(StoreError) as caught:
        running.run_release(plan, disk / "out")
    assert caught.value.code == "disk-full"
    assert not list(disk.rglob("*.partial"))
    subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
    running.run_release(plan, disk / "out")
    lines = [json.loads(line) for line in (disk / "out" / "ledger.jsonl").read_text().splitlines()]
    assert sum(line["kind"] == "spend" for line in lines) == 1
