"""Measurements in the layout of 2020: exported and imported, they give the numbers of the run that drew them."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tallyveil.api.beginning import write_country
from tallyveil.cli.measurements import import_files
from tallyveil.errors import ConfigError, StoreError, TallyveilError
from tallyveil.files.manifest_files import read_manifest
from tallyveil.measurements.layouts.layout import Layout
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.descriptions import descriptions_named
from tallyveil.plans.from_toml.load import load_estimation, load_plan
from tallyveil.postprocess.estimate import estimate_release
from tallyveil.postprocess.exchange.exported import export_measurements
from tallyveil.postprocess.exchange.imported import import_measurements, open_published
from tallyveil.postprocess.intervals.job import make_intervals
from tallyveil.postprocess.measured import Measured, open_measurements
from tallyveil.products.topdown.run.run import measure_release

PROJECT = Path(__file__).parents[2]
GUIDE, OUTPUTS = (
    (PROJECT / "docs" / name).read_text() for name in ("published-measurements.md", "outputs.md")
)
PRODUCTS = descriptions_named("census-2020")
TREE = """
[estimation]
values = "tree"
slack = "1/10"
rounding_target = "nearest"
[estimation.passes]
"*" = [["total"], ["*"]]
State = [["*"]]
Block = [["*"]]
[estimation.rounding]
"*" = [["total"], ["hhgq", "detailed"]]
"""


def imported(source: Path, out: Path, totals: Path | None = None, entities: Path | None = None) -> Path:
    return import_measurements(open_published(source, PRODUCTS, totals, entities), out).path


def tables_of(root: Path, *, spine: bool = False) -> dict[str, pl.DataFrame]:
    """All tables of a folder; without the geocodes of the spine if the spine has other geocodes."""
    return {
        path.relative_to(root).as_posix(): pl.read_parquet(path).drop(
            "geocode" if spine else [], strict=False
        )
        for path in sorted(root.rglob("*.parquet"))
        if path.is_file()
    }


def assert_same(one: dict[str, pl.DataFrame], other: dict[str, pl.DataFrame]) -> None:
    assert one.keys() == other.keys()
    assert [name for name, table in one.items() if not table.equals(other[name])] == []


@pytest.mark.nightly
@pytest.mark.long
def test_the_guide_and_the_numbers_of_the_run(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    Path("tree.toml").write_text(TREE)
    commands = "".join(re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL))
    for line in commands.splitlines():
        estimation = ["--estimation", "tree.toml"] if " estimate " in line else []
        command(*line.replace("--blocks 60", "--blocks 12").split()[1:], *estimation, "--quiet")
    measured = open_measurements(Path("measured"))
    estimate_release(measured, Path("whole"), load_estimation(Path("tree.toml"), measured.plan))
    make_intervals(Path("whole"))
    assert_same(tables_of(Path("whole")), tables_of(Path("release")))
    assert len(list(Path("release", "intervals").rglob("*.parquet"))) == 25
    assert {path.stem for path in Path("tables/tables/Tract").iterdir()} == {"P1", "P2", "P3", "P4", "P5"}
    assert_same_rows_beside_the_counts()
    page = Path("release", "report.html").read_text()
    assert "Their noise was not drawn here" in page
    assert "block cipher’s keystream" not in page
    body = read_manifest(Path("release")).body
    assert body["imported"] == read_manifest(Path("imported")).body["imported"]
    assert body["imported"]["rho_of_variances"] == "2.556226"


def assert_same_rows_beside_the_counts() -> None:
    """The examples of the two pages join counts with the same noisy answers."""
    examples = re.findall(r"```python\n(.*?)```", GUIDE + OUTPUTS, re.DOTALL)
    tidy, rows = [example for example in examples if "noisy = " in example and ".join(" in example]
    names: dict[str, Any] = {}
    exec(compile(tidy, "published-measurements.md", "exec"), names)
    assert names["both"].height == names["both"].unique(names["keys"]).height
    wanted = ["geocode", "hispanic", "cenrace", "count", "value", "variance"]
    joined = names["both"].filter(geolevel="Tract", query="hispanic*cenrace").select(wanted)
    exec(compile(rows, "outputs.md", "exec"), names)
    both = names["both"].select(wanted)
    assert both.height == names["noisy"].height
    assert joined.height > 0
    assert joined.sort(wanted).equals(both.sort(wanted))  # tables with intervals have all rows


@pytest.fixture(scope="module")
def units(tmp_path_factory) -> Path:
    """Folder of measured housing units of two States, beside `published`, their export."""
    root = tmp_path_factory.mktemp("units")
    write_country(root / "country", blocks=200, states=2, schema="pl94-units")
    plan = load_plan(root / "country" / "release.toml")
    measured = measure_release(plan, root / "measured", test_key=insecure_key("units")).path
    export_measurements(open_measurements(measured), root / "published", Layout.CENSUS_2020)
    return root


@pytest.fixture
def published(units, tmp_path) -> Path:
    """A copy of the export, to be changed."""
    return Path(shutil.copytree(units / "published", tmp_path / "published"))


def assert_same_measurements(one: Measured, other: Measured) -> None:
    assert [table.digest() for table in one.constraints] == [table.digest() for table in other.constraints]
    assert one.spend.event == other.spend.event
    spine = one.hierarchies.spine
    for level, name in enumerate(spine.geolevels):
        for query in one.plan.strategy.queries(name):
            asked = (name, query, 0, spine.n_geounits(level), [0, one.plan.query(query).size - 1])
            first, second = one.source.measure(*asked), other.source.measure(*asked)
            assert (first.values == second.values).all()
            assert (first.variances == second.variances).all()


def test_units_come_back_unprotected_where_their_key_was_a_test_key(units, tmp_path):
    out = imported(units / "published", tmp_path / "imported")
    assert_same(tables_of(units / "measured"), tables_of(out))
    assert_same_measurements(open_measurements(units / "measured"), open_measurements(out))
    manifest = read_manifest(out)
    assert not manifest.protected
    assert manifest.warnings == read_manifest(units / "measured").warnings
    assert manifest.body["imported"]["product"] == "redistricting-data-units-us"


@pytest.mark.soak
def test_production_spine_with_bypassing_comes_back(tmp_path):
    country = tmp_path / "country"
    write_country(country, blocks=200, states=2, schema="pl94-persons")
    text = (PROJECT / "examples" / "redistricting" / "national_spine.toml").read_text()
    (tmp_path / "release.toml").write_text(text.replace("../../releases/redistricting-data/", "country/"))
    path = measure_release(load_plan(tmp_path / "release.toml"), tmp_path / "measured").path
    measured = open_measurements(path)
    assert measured.hierarchies.shares is not None
    export_measurements(measured, tmp_path / "published", Layout.CENSUS_2020)
    totals = tmp_path / "published" / "state_totals.csv"
    with pytest.raises(TallyveilError, match="--totals FILE") as caught:
        imported(tmp_path / "published", tmp_path / "imported")
    assert caught.value.code == "layout-totals"
    out = imported(tmp_path / "published", tmp_path / "imported", totals, country / "entities.parquet")
    again = open_measurements(out)
    assert_same_measurements(measured, again)
    assert again.hierarchies.replaced_names == measured.hierarchies.replaced_names
    for name in ("State", "Block_Group"):
        assert {one.name: one.digest() for one in measured.hierarchies.replaced}[name] == {
            one.name: one.digest() for one in again.hierarchies.replaced
        }[name]
    assert "place" in [family.name for family in again.hierarchies.families]
    assert read_manifest(out).protected
    assert read_manifest(out).body["imported"]["rho_of_variances"] == "2.556226"
    parts_of_a_state(tmp_path / "published", again, "99")
    one = imported(tmp_path / "published", tmp_path / "one", totals)
    assert open_measurements(one).hierarchies.spine.n_geounits(0) == 2  # the State in two parts, both roots
    assert read_manifest(one).body["imported"]["product"] == "redistricting-data-persons-one-state"
    assert read_manifest(one).body["imported"]["rho_of_variances"] == "2.491369"
    exact = pl.read_parquet(one / "invariants" / "00.parquet")
    assert exact["geocode"].to_list() == ["99"]


def parts_of_a_state(published: Path, imported: Measured, state: str) -> None:
    """Leave only the geounits of one State in the files, and no US."""
    blocks = pl.read_parquet(imported.root / "geography.parquet").filter(pl.col("original.State") == state)
    parts = blocks["State"].unique().to_list()
    shutil.rmtree(published / "US.parquet")
    for path in [path for path in published.rglob("*.parquet") if path.is_file()]:
        kept = pl.read_parquet(path).filter(pl.col("geocode").str.slice(0, len(parts[0])).is_in(parts))
        kept.write_parquet(path)


@pytest.mark.nightly
def test_rows_in_any_order_other_types_and_further_files(units, published, tmp_path):
    """Spark divides and orders rows as it likes, writes small integers, and leaves files of its own."""
    for path in [path for path in published.rglob("*.parquet") if path.is_file()]:
        frame = pl.read_parquet(path).with_columns(pl.col("value").cast(pl.List(pl.Int32)))
        frame = frame.with_columns(pl.col("^variance$").cast(pl.Float32))
        frame = frame.sample(fraction=1, shuffle=True, seed=3).with_columns(more=pl.lit("x"))
        half = frame.height // 2
        frame[half:].write_parquet(path.with_name("z.parquet"))
        frame[:half].write_parquet(path)
        path.with_name("_SUCCESS").touch()
        path.with_name(".part.crc").touch()
    out = imported(published, tmp_path / "imported")
    assert_same_measurements(open_measurements(units / "measured"), open_measurements(out))
    assert read_manifest(out).protected  # nothing in these files speaks of a test key


def changed(name: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> Callable[[Path], None]:
    def act(root: Path) -> None:
        path = sorted((root / name).rglob("*.parquet"))[0]
        change(pl.read_parquet(path)).write_parquet(path)

    return act


def first_row(**columns: object) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Put other values into the first row of a table."""

    def act(frame: pl.DataFrame) -> pl.DataFrame:
        rows = frame.to_dicts()
        rows[0] |= columns
        return pl.DataFrame(rows, schema=frame.schema | {"value": pl.List(pl.Int64)})

    return act


BLOCKS, TRACTS, BOUNDS = "Block.parquet/DPQuery", "Tract.parquet/DPQuery", "Block.parquet/Constraint"


def one_folder_higher(root: Path) -> None:
    root.rename(root.parent / "other")
    root.mkdir()
    (root.parent / "other").rename(root / "US_Unit_PL_PROD")


def cut_short(root: Path) -> None:
    next(path for path in (root / BLOCKS).rglob("*.parquet") if path.is_file()).write_bytes(b"PAR1")


def file_twice(root: Path) -> None:
    path = next((root / BLOCKS).rglob("part-*.parquet"))
    shutil.copy(path, path.with_name("copy.parquet"))


def without_a_state(root: Path) -> None:
    for folder in list(root.rglob("State=98")):
        shutil.rmtree(folder)
    for table in ("DPQuery", "Constraint"):
        for path in (root / "State.parquet" / table).iterdir():
            pl.read_parquet(path).filter(pl.col("geocode") != "98").write_parquet(path)


def recast(column: str, kind: pl.DataType) -> Callable[[Path], None]:
    return changed(BLOCKS, lambda frame: frame.with_columns(pl.col(column).cast(kind)))


def linked(place: str) -> Callable[[Path], None]:
    """Put a link in the place of a folder: what it leads to would not be read."""

    def act(root: Path) -> None:
        folder = next((root / BLOCKS).iterdir())
        folder.rename(root / "kept")
        folder.symlink_to(root / place)

    return act


HARMS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "no folder": ("layout-files", shutil.rmtree),
    "one folder too high": ("layout-files", one_folder_higher),
    "a foreign geolevel": ("layout-files", lambda root: (root / "Prim.parquet").mkdir()),
    "no constraints": ("layout-files", lambda root: shutil.rmtree(root / "Tract.parquet" / "Constraint")),
    "no Parquet": ("layout-files", lambda root: (root / BLOCKS / "notes.txt").write_text("x")),
    "a link that leads nowhere": ("layout-files", linked("nowhere")),
    "a link to a folder": ("layout-files", linked("kept")),
    "cut short": ("layout-files", cut_short),
    "no variance": ("layout-files", changed(BLOCKS, lambda frame: frame.drop("variance"))),
    "codes as numbers": ("layout-files", recast("geocode", pl.Int64())),
    "fractions": ("layout-files", recast("value", pl.List(pl.Float64))),
    "no tracts": ("layout-settings", lambda root: shutil.rmtree(root / "Tract.parquet")),
    "no blocks": ("layout-geounits", lambda root: shutil.rmtree(root / "Block.parquet")),
    "an unknown query": ("layout-settings", changed(TRACTS, first_row(query_name="sex_dpq"))),
    "another variance": ("layout-settings", changed(TRACTS, first_row(variance=7.25))),
    "no variance at one place": ("layout-settings", changed(TRACTS, first_row(variance=None))),
    "an infinite variance": ("layout-settings", changed(TRACTS, first_row(variance=float("inf")))),
    "a variance that is no number": ("layout-settings", changed(TRACTS, first_row(variance=float("nan")))),
    "an unknown geounit": ("layout-geounits", changed(TRACTS, first_row(geocode="98/01010900"))),
    "a long geocode": ("layout-geounits", changed(TRACTS, first_row(geocode="../../etc/passwd"))),
    "no geocode": ("layout-geounits", changed(TRACTS, first_row(geocode=None))),
    "another block": ("layout-geounits", changed(BLOCKS, first_row(geocode="980010101001100x"))),
    "a block missing": ("layout-geounits", changed(BLOCKS, lambda frame: frame[1:])),
    "a state missing": ("layout-totals", without_a_state),
    "an answer too many": ("layout-rows", changed(BLOCKS, first_row(value=[1, 2, 3]))),
    "no answers": ("layout-rows", changed(BLOCKS, first_row(value=None))),
    "a missing answer": ("layout-rows", changed(BLOCKS, first_row(value=[1, None]))),
    "a huge answer": ("layout-rows", changed(BLOCKS, first_row(value=[2**60, 1]))),
    "a row twice": ("layout-rows", changed(BLOCKS, lambda frame: pl.concat([frame, frame[:1]]))),
    "a file twice": ("layout-rows", file_twice),
    "an unknown constraint": ("layout-rows", changed(BOUNDS, first_row(query_name="pl94_con"))),
    "another sign": ("layout-rows", changed(BOUNDS, first_row(sign=">="))),
    "a negative total": ("layout-rows", changed(BOUNDS, first_row(value=[-1]))),
    "another total": ("layout-totals", changed(BOUNDS, first_row(value=[10**6]))),
    "a huge total": ("layout-rows", changed(BOUNDS, first_row(value=[2**62]))),
}


@pytest.mark.parametrize("harm", HARMS)
def test_what_is_wrong_with_the_files_is_named(published, tmp_path, harm):
    code, act = HARMS[harm]
    act(published)
    with pytest.raises(TallyveilError) as caught:
        imported(published, tmp_path / "imported")
    assert caught.value.code == code, str(caught.value)
    assert not (tmp_path / "imported" / "manifest.json").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("number", [3, 6, 9])
def test_killed_at_any_write_the_import_goes_on(units, tmp_path, killed_at, number):
    whole = read_manifest(imported(units / "published", tmp_path / "whole"))
    out = tmp_path / "killed"
    assert killed_at(number, lambda: imported(units / "published", out))
    assert read_manifest(imported(units / "published", out)).digests == whole.digests


def test_an_import_keeps_to_its_folder(units, published, tmp_path):
    out = imported(units / "published", tmp_path / "imported")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert imported(units / "published", out) == out  # done already
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    changed(BLOCKS, first_row(value=[5, 5]))(published)
    with pytest.raises(StoreError, match="other files"):
        imported(published, out)
    for inside in (published, published / "in", tmp_path):
        with pytest.raises(StoreError) as caught:
            imported(published, inside)
        assert caught.value.code in ("input-in-output", "folder-taken")


def test_files_that_are_exchanged_meanwhile_are_not_imported(published, tmp_path):
    """The manifest names the digest of what was opened."""
    opened = open_published(published, PRODUCTS, None, None)
    changed(BLOCKS, first_row(value=[5, 5]))(published)
    with pytest.raises(StoreError, match="was changed while it was read"):
        import_measurements(opened, tmp_path / "imported")
    assert not (tmp_path / "imported" / "manifest.json").exists()


@pytest.mark.nightly
def test_two_processes_cannot_share_a_folder(units, tmp_path, killed_at):
    from tallyveil.runs.folder import RunFolder

    out = tmp_path / "imported"
    assert killed_at(6, lambda: imported(units / "published", out))
    with RunFolder(out), pytest.raises(StoreError, match="another process"):
        imported(units / "published", out)
    assert imported(units / "published", out) == out


def test_an_interrupted_export_starts_again(units, tmp_path, killed_at):
    measured, out = open_measurements(units / "measured"), tmp_path / "published"
    assert killed_at(7, lambda: export_measurements(measured, out, Layout.CENSUS_2020))
    with pytest.raises(StoreError, match="`tallyveil measurements export`") as caught:
        imported(out, tmp_path / "imported")
    assert caught.value.code == "folder-unfinished"
    export_measurements(measured, out, Layout.CENSUS_2020)
    assert_same(tables_of(units / "published"), tables_of(out))
    with pytest.raises(StoreError, match="not empty"):
        export_measurements(measured, out, Layout.CENSUS_2020)
    with pytest.raises(StoreError, match="lies in"):
        export_measurements(measured, units / "measured" / "x", Layout.TIDY)


def test_tidy_rows_say_what_they_count(units, tmp_path):
    measured = open_measurements(units / "measured")
    export_measurements(measured, tmp_path / "tidy", Layout.TIDY)
    assert {path.name for path in (tmp_path / "tidy").iterdir()} == {
        "measurements",
        "constraints",
        "geography.parquet",
        "description.json",
        "README.txt",
    }
    (path,) = (tmp_path / "tidy" / "measurements" / "geolevel=State" / "query=detailed").iterdir()
    tidy = pl.read_parquet(path, hive_partitioning=False)
    assert tidy.columns == ["geocode", "h1", "value", "variance"]
    assert tidy["h1"].to_list() == ["vacant", "occupied"] * 2  # two States
    own = pl.read_parquet(units / "measured" / "measurements" / "State" / "detailed" / "part-00000.parquet")
    assert tidy["value"].to_list() == own["values"].explode(empty_as_null=False).to_list()
    assert tidy["geocode"].to_list() == own["geocode"].repeat_by(2).explode(empty_as_null=False).to_list()
    tags = pl.read_parquet_metadata(path)
    assert tags["tallyveil.protected"].startswith("false")


def test_measurements_that_do_not_fit_the_layout(small_release, tmp_path):
    path = measure_release(load_plan(small_release), tmp_path / "m", test_key=insecure_key("x")).path
    measured = open_measurements(path)
    with pytest.raises(TallyveilError, match='Write the layout "tidy"') as caught:
        export_measurements(measured, tmp_path / "published", Layout.CENSUS_2020)
    assert caught.value.code == "layout-unsuited"
    assert not (tmp_path / "published").exists()
    export_measurements(measured, tmp_path / "tidy", Layout.TIDY)
    every = pl.read_parquet(tmp_path / "tidy" / "measurements", hive_partitioning=True)
    tidy = every.filter(geolevel="Town", query="grown")
    assert set(tidy["age"]) == {"young", "grown"}
    assert tidy["home"].null_count() == tidy.height
    assert every.height == sum(
        pl.read_parquet(part)["values"].list.len().sum() for part in path.rglob("part-*.parquet")
    )


def test_the_commands_speak_of_what_they_did(units, tmp_path, command):
    out = tmp_path / "imported"
    asked = ("measurements", "import", units / "published", "--layout", "census-2020", "--out", out)
    said = json.loads(command(*asked, "--json"))
    assert said["imported"]["layout"] == "census-2020"
    assert not said["protected"]
    assert "Their noise was not drawn here" in re.sub(r"[\s│]+", " ", command(*asked))
    told = command("measurements", "export", out, "--layout", "tidy", "--out", tmp_path / "tidy")
    assert "in the layout tidy" in told
    again = json.loads(
        command(
            "measurements",
            "import",
            tmp_path / "tidy",
            "--layout",
            "tidy",
            "--out",
            tmp_path / "again",
            "--json",
        )
    )
    assert "computed from the variances" in again["imported"]["statement"]
    with pytest.raises(ConfigError, match="give either --as DESCRIPTION"):
        import_files(tmp_path / "tidy", out=tmp_path / "once-more")
