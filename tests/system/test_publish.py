"""The commands and the example of docs/publish.md run, and the tables agree with those of the releases."""

import contextlib
import hashlib
import io
import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from tallyveil.api.beginning import write_country
from tallyveil.errors import GeographyError, SchemaError, StoreError
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.topdown.pl94 import layouts as writing_of_tables
from tallyveil.products.topdown.pl94.publication import publish_pl94
from tallyveil.products.topdown.run.run import run_release
from tallyveil.storage import write as writing
from tallyveil.storage.write import Claim, file_digest, is_unfinished

GUIDE = (Path(__file__).parents[2] / "docs" / "publish.md").read_text()
KEY = insecure_key("publish")
LEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")
SPINE = """entities = ["place", "tribal_area", "service_area"]

[spine]
entities = "entities.parquet"
families = ["place", "tribal_area"]
overlapping = { service_area = "areas.parquet" }
[[spine.steps]]
kind = "branch"
family = "tribal_area"
geolevel = "State"
name = "AIAN"
[[spine.steps]]
kind = "group_by_membership"
families = ["place", "tribal_area"]
geolevel = "Block_Group"
children = "Block"
"""


def few_queries(text: str, levels: tuple[str, ...]) -> str:
    """A release file with few variances, whose exact epsilon is found quickly."""
    queries = 'h1 = "1"\n'
    if "pl94-persons" in text:
        queries = 'total = "1/2"\n"hhgq*votingage" = "1/4"\n"hispanic*cenrace" = "1/4"\n'
    shares = "".join(f'{level} = "1/{len(levels)}"\n' for level in levels)
    start, stop = text.index("rho = "), text.index("[[invariants]]")
    strategy = f'[strategy]\nrho = "2"\n[strategy.geolevels]\n{shares}[strategy.queries."*"]\n{queries}\n'
    return f'{text[:start]}rho = "2"\ndelta = "1e-10"\n\n{strategy}{text[stop:]}'


@pytest.mark.nightly
def test_guide(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)
    for line in block.splitlines():
        if line.startswith("tallyveil run"):
            release = Path(line.split()[2])
            release.write_text(few_queries(release.read_text(), LEVELS[1:]))
        command(*line.split()[1:], "--quiet")
    (example,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(example, "publish.md", "exec"), {})
    assert "P0010001" in said.getvalue()
    content = json.loads(Path("tables", "publication.json").read_text())
    require_files(Path("tables"), content)
    require_provenance(
        content, {"people": Path("releases", "persons"), "housing units": Path("releases", "units")}
    )
    require_exact_units()
    layouts = re.findall(r"^\| ([PH]\d) \| (.*?) \| (\d+) \|$", GUIDE, re.MULTILINE)
    labels = pl.read_csv("tables/labels.csv").group_by("table", "title", maintain_order=True).len()
    assert [(table, title, int(n)) for table, title, n in layouts] == labels.rows()
    readme = Path("tables", "README.txt").read_text()
    assert "Release of people: epsilon <=" in readme
    assert "Both releases together, when one person's record and one housing unit's record" in " ".join(
        readme.split()
    )


def require_files(folder: Path, content: dict) -> None:
    """The files are those that the list names, with their digests; each table is there as CSV, too."""
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert there == {"publication.json", *(file["path"] for file in content["files"])}
    for file in content["files"]:
        assert hashlib.sha256((folder / file["path"]).read_bytes()).hexdigest() == file["sha256"]
    for path in folder.rglob("*.parquet"):
        text = pl.read_csv(path.with_suffix(".csv"), infer_schema=False)
        assert text.equals(pl.read_parquet(path).cast(pl.String))


def require_provenance(content: dict, releases: dict[str, Path]) -> None:
    """The folder names both releases, their guarantees, and what they cost together."""
    assert [one["counts"] for one in content["releases"]] == list(releases)
    for one in content["releases"]:
        manifest = json.loads((releases[one["counts"]] / "manifest.json").read_text())
        assert one["manifest_sha256"] == file_digest(releases[one["counts"]] / "manifest.json")
        assert one["privacy"] == manifest["privacy"]
        assert one["protected"]
    together, alone = content["together"], [one["privacy"] for one in content["releases"]]
    exact = together["exact_epsilon"]
    assert max(one["exact"]["epsilon"]["upper"] for one in alone) < exact["lower"] <= exact["upper"]
    assert exact["upper"] < together["epsilon"] < sum(one["classical_epsilon"] for one in alone)
    assert content["warnings"] == together["not_covered"] == []


def require_exact_units() -> None:
    """The number of housing units of a block is exact."""
    true = pl.read_parquet("units/records.parquet").group_by("geocode").agg(pl.col("count").sum())
    made = pl.read_parquet("tables/geography/Block.parquet").select("geocode", count="HU100")
    assert made.filter(pl.col("count") > 0).equals(true.sort("geocode"))


@pytest.fixture(scope="module")
def country(tmp_path_factory):
    """Releases of one country: persons on a spine of their own, with entities; housing units without."""
    folder = tmp_path_factory.mktemp("country")
    for schema in ("pl94-persons", "pl94-units"):
        *_, release = write_country(folder / schema, blocks=240, states=3, seed=4, schema=schema)
        text = few_queries(release.read_text(), LEVELS)
        if schema == "pl94-persons":
            text = text.replace('geolevels = ["State"]', 'geolevels = ["US"]') + SPINE
            entities = pl.read_parquet(folder / schema / "entities.parquet")
            row = pl.int_range(pl.len())
            entities.with_columns(
                pl.when(row.is_between(20, 50)).then(pl.lit("T1")).otherwise(None).alias("tribal_area"),
            ).write_parquet(folder / schema / "entities.parquet")
            service_areas(entities["geocode"]).write_parquet(folder / schema / "areas.parquet")
        release.write_text(text)
        run_release(load_plan(release), folder / f"r-{schema}", test_key=KEY)
    content = publish_pl94(folder / "r-pl94-persons", folder / "r-pl94-units", folder / "tables").content
    return folder, content


def service_areas(blocks: pl.Series) -> pl.DataFrame:
    """Two areas that overlap."""
    east, west = blocks[10:90], blocks[60:130]
    names = pl.Series("entity", ["east"] * len(east) + ["west"] * len(west))
    return pl.DataFrame([pl.concat([east, west]), names])


def test_areas_may_overlap(country):
    folder, content = country
    assert content["areas"]["service_area"] == 2
    pairs = pl.read_parquet(folder / "pl94-persons" / "areas.parquet")
    for schema, table in {"pl94-persons": "P1", "pl94-units": "H1"}.items():
        records = pl.read_parquet(folder / f"r-{schema}" / "microdata" / "*.parquet")
        wanted = records.join(pairs, on="geocode").group_by("entity").len().sort("entity")["len"].to_list()
        made = pl.read_parquet(folder / "tables" / "tables" / "service_area" / f"{table}.parquet")
        assert made["geocode"].to_list() == ["east", "west"]
        assert made[made.columns[2]].to_list() == wanted
    rows = pl.read_parquet(folder / "tables" / "geography" / "service_area.parquet")
    assert rows["finest_geounits"].to_list() == [80, 70]
    assert "service_area" not in pl.read_parquet_schema(folder / "tables" / "geography" / "Block.parquet")


def blocks_of(folder: Path) -> pl.DataFrame:
    """Where every block lies, from the inputs."""
    geography = pl.read_parquet(folder / "pl94-persons" / "geography.parquet")
    entities = pl.read_parquet(folder / "pl94-persons" / "entities.parquet")
    return geography.join(entities.select("geocode", "place", "tribal_area"), on="geocode").with_columns(
        US=pl.lit("US"), Block="geocode"
    )


AREAS = {
    "US": "US",
    "State": "state",
    "County": "county",
    "Tract": "tract",
    "Block_Group": "block_group",
    "Block": "Block",
    "place": "place",
    "tribal_area": "tribal_area",
}
ADULT = pl.col("votingage").cast(pl.String) == "18_plus"
HISPANIC = pl.col("hispanic").cast(pl.String) == "hispanic"
RACES = pl.col("cenrace").cast(pl.String)
SEVERAL = RACES.str.contains("_")
QUARTERS = pl.col("hhgq").cast(pl.String)
WANTED = {
    "P0010001": pl.col("geocode").is_not_null(),
    "P0010009": SEVERAL,
    "P0010013": RACES == "white_asian",
    "P0020002": HISPANIC,
    "P0020005": ~HISPANIC & (RACES == "white"),
    "P0030001": ADULT,
    "P0030004": ADULT & (RACES == "black"),
    "P0040002": ADULT & HISPANIC,
    "P0040011": ADULT & ~HISPANIC & SEVERAL,
    "P0050001": QUARTERS != "household",
    "P0050007": QUARTERS.is_in(["college", "military", "other_noninstitutional"]),
}


@pytest.mark.parametrize("name", AREAS)
def test_numbers_of_every_kind_of_area_are_sums_over_the_microdata(country, name):
    folder, _ = country
    people = pl.read_parquet(folder / "r-pl94-persons" / "microdata" / "*.parquet")
    located = people.join(blocks_of(folder), on="geocode").drop_nulls(AREAS[name])
    wanted = located.group_by(geocode=AREAS[name]).agg(
        test.sum().cast(pl.Int64).alias(column) for column, test in WANTED.items()
    )
    made = pl.read_parquet(folder / "tables" / "geography" / f"{name}.parquet").select("geocode")
    for table in ("P1", "P2", "P3", "P4", "P5"):
        rows = pl.read_parquet(folder / "tables" / "tables" / name / f"{table}.parquet")
        assert rows["geolevel"].unique().to_list() == [name]
        made = made.join(rows.drop("geolevel"), on="geocode", how="full", coalesce=True, validate="1:1")
    empty = made.select("geocode").join(wanted, on="geocode", how="left").fill_null(0)
    assert made.select("geocode", *WANTED).sort("geocode").equals(empty.sort("geocode"))


@pytest.mark.parametrize("name", AREAS)
def test_housing_units_are_published_for_the_areas_of_the_persons(country, name):
    folder, _ = country
    units = pl.read_parquet(folder / "r-pl94-units" / "microdata" / "*.parquet")
    located = units.join(blocks_of(folder), on="geocode").drop_nulls(AREAS[name])
    h1 = pl.col("h1").cast(pl.String)
    wanted = located.group_by(geocode=AREAS[name]).agg(
        H0010001=pl.len().cast(pl.Int64),
        H0010002=(h1 == "occupied").sum().cast(pl.Int64),
        H0010003=(h1 == "vacant").sum().cast(pl.Int64),
    )
    made = pl.read_parquet(folder / "tables" / "tables" / name / "H1.parquet").drop("geolevel")
    full = made.select("geocode").join(wanted, on="geocode", how="left", maintain_order="left").fill_null(0)
    assert made.equals(full)


def test_geography_says_what_holds_an_area(country):
    folder, content = country
    blocks = blocks_of(folder)
    wanted = {name: blocks[column].drop_nulls().n_unique() for name, column in AREAS.items()}
    assert content["areas"] == wanted | {"service_area": 2}
    made = pl.read_parquet(folder / "tables" / "geography" / "Block.parquet")
    assert made.columns[:2] == ["geocode", "finest_geounits"]
    there = made.select("geocode", *(name for name in AREAS if name != "Block"))
    assert there.rename({name: AREAS[name] for name in there.columns[1:]}).equals(
        blocks.select("geocode", *(AREAS[name] for name in there.columns[1:])).sort("geocode")
    )
    places = pl.read_parquet(folder / "tables" / "geography" / "place.parquet")
    crossing = blocks.drop_nulls("place").group_by("place").agg(pl.col("county").n_unique())
    crossing = crossing.filter(pl.col("county") > 1)["place"]
    assert set(places.filter(pl.col("County").is_null())["geocode"]) == set(crossing)


def test_tables_of_a_test_key_say_that_they_protect_nobody(country):
    folder, content = country
    assert not content["protected"]
    assert [one.partition(": Made with")[0] for one in content["warnings"]] == [
        "release of people",
        "release of housing units",
    ]
    said = " ".join(f"NOT PRIVATE: {one}" for one in content["warnings"])
    assert content["together"] == {"statement": said}
    assert (folder / "tables" / "README.txt").read_text().startswith("NOT PRIVATE")
    tags = pl.read_parquet_metadata(folder / "tables" / "tables" / "US" / "P1.parquet")
    assert tags["tallyveil.protected"].startswith("false")


def test_releases_that_do_not_fit_are_refused(country, tmp_path):
    folder, _ = country
    persons, units = folder / "r-pl94-persons", folder / "r-pl94-units"
    with pytest.raises(SchemaError, match=r"no attribute cenrace \(for P1, P2, P3, P4\), hispanic") as raised:
        publish_pl94(units, None, tmp_path / "out")
    assert raised.value.code == "publish-attributes"
    assert "hhgq (for P5)" in str(raised.value)
    with pytest.raises(SchemaError, match="pl94-units"):
        publish_pl94(persons, persons, tmp_path / "out")
    with pytest.raises(StoreError, match="not empty"):
        publish_pl94(persons, units, folder / "tables")
    with pytest.raises(StoreError, match="inside the folder that output is written to"):
        publish_pl94(persons, units, folder)
    with pytest.raises(StoreError, match="must stay as it was published"):
        publish_pl94(persons, units, units / "tables-of-it")
    assert not (units / "tables-of-it").exists()
    *_, other = write_country(tmp_path / "other", blocks=120, seed=5, schema="pl94-units")
    other.write_text(few_queries(other.read_text(), LEVELS[1:]))
    run_release(load_plan(other), tmp_path / "elsewhere", test_key=KEY)
    with pytest.raises(GeographyError, match="Block geounits are in one of them only") as refused:
        publish_pl94(persons, tmp_path / "elsewhere", tmp_path / "out")
    assert refused.value.code == "publish-geography"
    assert not (tmp_path / "out").exists()


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


@pytest.mark.nightly
@pytest.mark.parametrize("at", [1, 30])
def test_a_killed_publication_is_finished_by_the_same_command(country, tmp_path, killed_at, at):
    """What the first left does not stay, though the second publishes fewer files; before that it is no publication."""
    folder, _ = country
    persons, units, out = folder / "r-pl94-persons", folder / "r-pl94-units", tmp_path / "out"
    modules = (writing, writing_of_tables)
    assert killed_at(at, lambda: publish_pl94(persons, units, out, csv=True), modules=modules)
    assert not (out / "publication.json").exists()
    assert is_unfinished(out)
    with Claim(out, "publish pl94"), pytest.raises(StoreError) as locked:
        publish_pl94(persons, units, out)
    assert locked.value.code == "folder-locked"
    publish_pl94(persons, units, out)
    assert files_of(out) == files_of(folder / "tables")


@pytest.mark.parametrize("name", ["geography.parquet", "histogram/Tract.parquet"])
def test_a_changed_file_of_a_release_is_refused(country, tmp_path, name):
    folder, _ = country
    copy = shutil.copytree(folder / "r-pl94-units", tmp_path / "copy")
    frame = pl.read_parquet(copy / name)
    frame.write_parquet(copy / name, metadata=pl.read_parquet_metadata(copy / name), compression="lz4")
    with pytest.raises(StoreError, match="is not the file that the manifest of the release lists") as raised:
        publish_pl94(folder / "r-pl94-persons", copy, tmp_path / "out")
    assert raised.value.code == "release-damaged"
    (copy / name).unlink()
    with pytest.raises(StoreError) as missing:
        publish_pl94(folder / "r-pl94-persons", copy, tmp_path / "out")
    assert missing.value.code == "release-unreadable"
