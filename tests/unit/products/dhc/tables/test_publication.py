"""`publish_dhc` on finished releases that are made by hand."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.unit.files.test_manifest import DECLARATION, EVENT, manifest_of, put

from tallyveil.accounting.ledger.file import Ledger
from tallyveil.errors import ConfigError, GeographyError, SchemaError
from tallyveil.files.geography import GEOGRAPHY, write_geography
from tallyveil.files.histograms import histogram_path, write_histogram
from tallyveil.files.manifest import ReleaseKind
from tallyveil.geography.areas import plain_hierarchies
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.products.dhc.tables.definitions import table_names
from tallyveil.products.dhc.tables.publication import publish_dhc
from tallyveil.schema.counts import PublicCounts, compress_rows
from tallyveil.schema.presets import load_preset
from tallyveil.schema.schema import Schema
from tallyveil.storage.json_files import digest_of
from tallyveil.storage.write import file_digest

BLOCKS = ["440010301001000", "440010301001001", "440030302002003"]
LEVELS = ("County", "Block")
PEOPLE = [(0, (1, 0, 40, 0, 0), 2), (0, (2, 1, 38, 1, 5), 1), (2, (33, 0, 20, 0, 61), 3)]
HOMES = [(0, (0, 0, 3, 1, 1, 0, 66), 2), (0, (7, 2, 9, 2, 7, 4, 522), 1), (2, (33, 2, 9, 2, 7, 4, 522), 1)]


def make_release(root: Path, schema: Schema, records: list, blocks: list[str] = BLOCKS) -> Path:
    """A finished release of counties and blocks with some records: (block, level codes, count)."""
    spine = spine_from_prefixes(blocks, LEVELS, (5, 15))
    root.mkdir()
    write_geography(root, plain_hierarchies(spine), {"run": root.name})
    codes = schema.encode(np.array([codes for _, codes, _ in records]))
    block, count = (np.array(values) for values in zip(*[(b, c) for b, _, c in records], strict=True))
    county = np.array([sorted({one[:5] for one in blocks}).index(blocks[b][:5]) for b in block])
    for geolevel, rows, size in (
        ("County", county, len({one[:5] for one in blocks})),
        ("Block", block, len(blocks)),
    ):
        counts = PublicCounts(geolevel, *compress_rows(size, rows, codes, count))
        write_histogram(root, counts, schema, spine, {"run": root.name})
    _finish(root, schema)
    return root


def _finish(root: Path, schema: Schema) -> None:
    """Add the ledger and the manifest of a finished run."""
    with Ledger(root / "ledger.jsonl", DECLARATION, root.name) as ledger:
        ledger.spend(EVENT, "a release", "a release")
    manifest = manifest_of(ReleaseKind.TOPDOWN, root)
    plan = {"schema": schema.to_mapping(), "delta": "1/10000000000"}
    files = [root / GEOGRAPHY, *(histogram_path(root, level) for level in LEVELS)]
    manifest["files"] = [
        {"path": path.relative_to(root).as_posix(), "bytes": path.stat().st_size, "sha256": file_digest(path)}
        for path in files
    ]
    manifest["run"], manifest["plan_digest"] = root.name, digest_of(plan).hex()
    manifest["privacy"]["delta"] = manifest["privacy"]["exact"]["delta"] = plan["delta"]
    manifest["body"] |= {"name": root.name, "plan": plan}
    put(root, manifest)


@pytest.fixture(scope="module")
def persons(tmp_path_factory) -> Path:
    return make_release(tmp_path_factory.mktemp("a") / "persons", load_preset("dhc-persons"), PEOPLE)


@pytest.fixture(scope="module")
def units(tmp_path_factory) -> Path:
    return make_release(tmp_path_factory.mktemp("b") / "units", load_preset("dhc-units"), HOMES)


def test_tables_and_microdata_of_both_releases(tmp_path, persons, units):
    out = tmp_path / "out"
    made = publish_dhc([units, persons], out, tables=["P12", "H4", "P16"], microdata=True, csv=True)
    content = json.loads((out / "publication.json").read_text())
    assert content == made.content
    assert (content["tables"], content["microdata"]) == (["P12", "H4", "P16"], ["persons", "units"])
    assert content["areas"] == {"County": 2, "Block": 3}
    there = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert there == {"publication.json", *(file["path"] for file in content["files"])}
    assert {"microdata/persons.txt", "tables/Block/H4.csv", "geography/County.parquet"} < there
    p12 = pl.read_parquet(out / "tables" / "County" / "P12.parquet")
    assert p12["geocode"].to_list() == ["44001", "44003"]
    assert p12["P12_0001"].to_list() == [3, 3]
    h4 = pl.read_parquet(out / "tables" / "Block" / "H4.parquet")
    assert h4["H4_0001"].to_list() == h4["H4_0002"].to_list() == [2, 0, 0]
    geography = pl.read_parquet(out / "geography" / "Block.parquet")
    assert geography.select("POP100", "HU100").rows() == [(3, 3), (0, 0), (3, 0)]
    text = (out / "README.txt").read_text()
    assert "Tables P12, H4, P16 of the Demographic and Housing Characteristics" in text
    assert content["together"]["rho"] == "2"


@pytest.mark.nightly
def test_one_release_has_all_its_tables_unless_some_are_named(tmp_path, units):
    content = publish_dhc([units], tmp_path / "all").content
    assert content["tables"] == list(table_names("units"))
    assert {"P15", "P16", "P16A", "P16I", "H12G"} < set(content["tables"])
    blocks = tmp_path / "all" / "tables" / "Block"
    totals = {name: pl.read_parquet(blocks / f"{name}.parquet")[f"{name}_0001"] for name in content["tables"]}
    by_race = [totals[f"P16{letter}"] for letter in "ABCDEFG"]
    assert pl.DataFrame(by_race).sum_horizontal().to_list() == totals["P16"].to_list()
    assert content["microdata"] == []
    assert "microdata hold exactly the records of the release" not in content["checks"]
    none = publish_dhc([units], tmp_path / "none", tables=[], microdata=True)
    assert none.content["tables"] == []


def test_what_is_refused(tmp_path, persons, units):
    with pytest.raises(ConfigError, match="tables P12 count persons, and no release of persons is named"):
        publish_dhc([units], tmp_path / "a", tables=["P12", "H4"])
    with pytest.raises(ConfigError, match="are both of persons"):
        publish_dhc([persons, persons], tmp_path / "b")
    with pytest.raises(ConfigError, match="no table is named"):
        publish_dhc([units], tmp_path / "nothing", tables=[])
    with pytest.raises(SchemaError, match="no table 'H99'"):
        publish_dhc([units], tmp_path / "c", tables=["H99"])
    other = make_release(tmp_path / "race", load_preset("race-age"), [(0, (1, 2), 3)])
    with pytest.raises(SchemaError, match="schema presets dhc-persons and dhc-units"):
        publish_dhc([other], tmp_path / "d")
    away = make_release(tmp_path / "away", load_preset("dhc-units"), [(0, HOMES[0][1], 1)], BLOCKS[:2])
    with pytest.raises(GeographyError, match="different geographies"):
        publish_dhc([persons, away], tmp_path / "e")
    assert not any((tmp_path / name).exists() for name in "abcde")


def test_the_command(tmp_path, persons, units, command):
    said = command("publish", "dhc", persons, units, "--named", "P1, H3", "--out", tmp_path / "out")
    assert "tables: P1, H3" in said
    assert "areas: 2 County, 3 Block" in said
    said = command("publish", "dhc", units, "--named", "H3", "--microdata", "--out", tmp_path / "m", "--json")
    assert json.loads(said)["microdata"] == ["units"]
