"""The explorer of a release: everything in its site is read back and held to the release's own tables."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.reserve_spine import ENTITIES, STEPS, entities_of, with_shares
from tests.samples import nightly
from typer.testing import CliRunner

import tallyveil
from tallyveil.cli.main import app, main
from tallyveil.errors import ConfigError, StoreError
from tallyveil.explore.site import make_site
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.topdown.run.run import measure_release, run_release

HOSTILE = "</script><img src=x onerror=alert(1)>\u202e" + "x" * 300
NAMES = {
    "geolevel": ["Region", "Town", "place"],
    "geocode": ["P", "P01", "elm"],
    "name": ["Ö", HOSTILE, "Elm"],
}
BESIDE = {"e": "estimate", "s": "standard_error", "l": "lower", "u": "upper"}


def write_entities(folder: Path) -> None:
    entities_of(folder).write_parquet(folder / "entities.parquet")
    pl.DataFrame(NAMES).write_csv(folder / "names.csv")


def release_of(path: Path, out: Path, form: str, key: bytes = bytes(32)) -> Path:
    """A finished release: `plain`, with `entities`, names and intervals, or on a `spine` of its own."""
    write_entities(path.parent)
    text = path.read_text()
    if form != "plain":
        text = text.replace("[geography]\n", '[geography]\nnames = "names.csv"\n')
        text = text.replace(
            '"age", "home"]', '"age", "home", "detailed"]\nintervals = "0.9"\nentities = ["place"]'
        )
        text += ENTITIES + (STEPS if form == "spine" else "")
    path.write_text(with_shares(text) if form == "spine" else text)
    run_release(load_plan(path), out, test_key=key, workers=1)
    return out


@pytest.fixture(scope="module")
def releases(make_small_inputs, tmp_path_factory):
    """A finished release of each form but that with a spine of its own. A test that changes one changes a copy."""
    folder = tmp_path_factory.mktemp("releases")
    return {
        form: release_of(make_small_inputs(folder / f"inputs-{form}"), folder / form, form)
        for form in ("plain", "entities")
    }


@pytest.fixture(scope="module", params=["plain", "entities", nightly("spine")])
def made(request, releases, make_small_inputs, tmp_path_factory):
    """A release and its site."""
    folder, form = tmp_path_factory.mktemp(request.param), request.param
    root = (
        releases[form]
        if form in releases
        else release_of(make_small_inputs(folder / "inputs"), folder / "out", form)
    )
    make_site(root, folder / "site")
    return root, folder / "site"


def opened(root: Path) -> tallyveil.Release:
    found = tallyveil.open(root)
    assert isinstance(found, tallyveil.Release)
    return found


def content(site):
    return json.loads((site / "data" / "site.json").read_text(encoding="utf-8"))


def chunks(site, kind, name):
    """All chunks of a list or a table, in order."""
    n = -(-kind["n"] // kind["chunk"])
    files = [site / "data" / "areas" / str(kind["number"]) / f"{name}-{c}.parquet" for c in range(n)]
    return pl.concat(pl.read_parquet(file) for file in files)


def test_every_number_is_that_of_the_release(made):
    root, site = made
    release, described = opened(root), content(site)
    shown = set()
    for table in described["tables"]:
        for number in table["kinds"]:
            kind = described["kinds"][number]
            codes = chunks(site, kind, "list")["geocode"]
            own = chunks(site, kind, f"table-{table['number']}")
            known = own_table(release, root, kind["name"], table)
            assert known.height == kind["n"] * len(table["answers"])
            for row, code in enumerate(codes):
                for answer in range(len(table["answers"])):
                    wanted = known.row(by_predicate=_is(code, table, answer), named=True)
                    assert own[f"p{answer}"][row] == wanted["count"]
                    for letter, name in BESIDE.items():
                        assert (f"{letter}{answer}" in own.columns) == table["intervals"]
                        if table["intervals"]:
                            assert own[f"{letter}{answer}"][row] == wanted[name]
            shown.add((kind["name"], table["name"]))
    tables = {(area, query) for area in release.areas for query in release.queries}
    assert shown == tables


def own_table(release, root, area, table):
    """The release's own table, from its folder of intervals where it has one: it includes zeros."""
    if not table["intervals"]:
        return release.table(area, table["name"])
    folder = root / "intervals" / f"geolevel={area}" / f"query={table['name']}"
    return pl.read_parquet(folder / "*.parquet")


def _is(code, table, answer):
    chosen = pl.col("geocode") == code
    for factor, label in zip(
        table["factors"], (table["attributes"] or [[]] * (answer + 1))[answer], strict=True
    ):
        attribute = {"grown": "age"}.get(factor["name"], factor["name"])
        chosen &= pl.col(attribute) == label
    return chosen


def test_the_tree_is_that_of_the_geography(made):
    _, site = made
    described = content(site)
    levels = [kind for kind in described["kinds"] if kind["type"] == "geolevel"]
    assert [kind["name"] for kind in levels] == ["Region", "Town", "Block"]
    assert [kind["parent"] for kind in levels] == [None, 0, 1]
    lists = [chunks(site, kind, "list") for kind in levels]
    finest = lists[described["finest"]]["geocode"]
    for kind, own in zip(levels, lists, strict=True):
        length = [1, 3, 5][kind["number"]]
        for row, entry in enumerate(own.iter_rows(named=True)):
            inside = finest.slice(entry["first_finest"], entry["n_finest"])
            assert inside.to_list() == [code for code in finest if code[:length] == entry["geocode"]]
            if kind["parent"] is not None:
                assert (
                    lists[kind["parent"]]["geocode"][entry["parent"]]
                    == entry["geocode"][: [1, 3][kind["parent"]]]
                )
            if kind["number"] < described["finest"]:
                children = lists[kind["number"] + 1].slice(entry["first_child"], entry["n_children"])
                assert set(children["parent"]) == {row}
        assert own["west"].null_count() == own.height


def test_members_of_entities(made):
    root, site = made
    described = content(site)
    finest = chunks(site, described["kinds"][described["finest"]], "list")
    families = [kind for kind in described["kinds"] if kind["type"] == "family"]
    stored = pl.read_parquet(root / "geography.parquet")
    for kind in families:
        own, members = chunks(site, kind, "list")["geocode"], chunks(site, kind, "members")
        column = f"entity.{kind['name']}" if f"entity.{kind['name']}" in stored.columns else kind["name"]
        wanted = dict(stored.select("Block", column).drop_nulls().rows())
        found = {finest["geocode"][one]: own[entity] for entity, one in members.rows()}
        assert found == wanted
        assert members.rows() == sorted(members.rows())
        inside = finest[f"in_{kind['number']}"]
        assert {
            code: own[row] for code, row in zip(finest["geocode"], inside, strict=True) if row is not None
        } == wanted


def test_names(made):
    root, site = made
    described = content(site)
    names = site / "data" / "names.parquet"
    assert names.is_file() == (root / "names.parquet").is_file()
    assert any(kind["named"] for kind in described["kinds"]) == names.is_file()
    if names.is_file():
        found = pl.read_parquet(names)
        for kind, row, code, name in found.rows():
            own = chunks(site, described["kinds"][kind], "list")
            assert (own["geocode"][row], own["name"][row]) == (code, name)
        assert sorted(found["name"]) == sorted(pl.read_parquet(root / "names.parquet")["name"])


def test_classes_hold_every_value(made):
    _, site = made
    described = content(site)
    for table in described["tables"]:
        for number in table["kinds"]:
            own = chunks(site, described["kinds"][number], f"table-{table['number']}")
            file = site / "data" / "areas" / str(number) / f"classes-{table['number']}.json"
            for answer, entry in enumerate(json.loads(file.read_text())["measures"]["published"]):
                values = own[f"p{answer}"]
                assert (entry["least"], entry["most"]) == (values.min(), values.max())
                assert entry["limits"] == sorted(set(entry["limits"]))
                assert len(entry["limits"]) <= 6


def test_what_is_missing_is_said(made):
    root, site = made
    described = content(site)
    assert (described["intervals"] is None) == (not (root / "intervals").exists())
    assert (described["intervals"] is None) == (described["no_intervals"] is not None)
    assert described["map"] is None
    assert "no geometry" in described["no_map"]
    assert (described["district"] is None) == (described["no_district"] is not None)
    assert described["compared"] is None
    assert "test key" in described["warnings"][0]


def test_file_names_hold_no_name(made):
    _, site = made
    for path in (site / "data").rglob("*"):
        assert set(path.stem) <= set("abcdefghijklmnopqrstuvwxyz0123456789-"), path


def test_the_same_release_has_the_same_bytes(made, tmp_path):
    root, site = made
    make_site(root, tmp_path / "again")
    files = {path.relative_to(site) for path in site.rglob("*") if path.is_file()}
    assert files == {
        path.relative_to(tmp_path / "again") for path in (tmp_path / "again").rglob("*") if path.is_file()
    }
    assert [
        name for name in files if (site / name).read_bytes() != (tmp_path / "again" / name).read_bytes()
    ] == []


def test_a_release_is_left_as_it_is(made, tmp_path):
    root, _ = made
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    opened(root).explore(tmp_path / "site", queries=["total"])
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
    assert [table["name"] for table in content(tmp_path / "site")["tables"]] == ["total"]


def test_a_second_release(releases, make_small_inputs, tmp_path):
    first = releases["entities"]
    second = release_of(make_small_inputs(tmp_path / "b"), tmp_path / "second", "entities", bytes([1] * 32))
    made = opened(first).explore(tmp_path / "site", compared_with=opened(second))
    opened(second).explore(tmp_path / "other")
    described = content(made.path)
    assert described["compared"]["tables"] == [True] * 4
    differs = 0
    for table in described["tables"]:
        for kind in table["kinds"]:
            name = f"areas/{kind}/table-{table['number']}-0.parquet"
            other = pl.read_parquet(made.path / "data" / "other" / name)
            assert other.equals(pl.read_parquet(tmp_path / "other" / "data" / name))
            differs += not other.equals(pl.read_parquet(made.path / "data" / name))
    assert differs > 0


def test_several_areas_have_a_plural(made):
    _, site = made
    many = {kind["name"]: kind["many"] for kind in content(site)["kinds"]}
    assert many["Town"] == "towns"
    assert set(many) == {kind["name"] for kind in content(site)["kinds"]}


@pytest.mark.nightly
def test_a_second_release_with_another_root(releases, make_small_inputs, tmp_path):
    """The geolevels that both have are compared, in either direction."""
    path = make_small_inputs(tmp_path / "b")
    text = path.read_text().replace(
        'geolevels = ["Region", "Town", "Block"]', 'geolevels = ["Nation", "Region", "Town", "Block"]'
    )
    text = text.replace("prefix_lengths = [1, 3, 5]", "prefix_lengths = [0, 1, 3, 5]")
    text = text.replace('Region = "1/4"', 'Nation = "1/8"\nRegion = "1/8"')
    path.write_text(text.replace('geolevels = ["Region"]', 'geolevels = ["Nation"]'))
    rooted = release_of(path, tmp_path / "rooted", "plain")
    for first, second, kinds in (
        (releases["entities"], rooted, [0, 1, 2]),
        (rooted, releases["entities"], [1, 2, 3]),
    ):
        site = make_site(first, tmp_path / f"site-{kinds[0]}", tables=["total", "age"], compared=second).path
        described = content(site)
        assert described["compared"]["kinds"] == kinds
        for kind in kinds:
            other = pl.read_parquet(site / f"data/other/areas/{kind}/table-1-0.parquet")
            name = described["kinds"][kind]["name"]
            counts = (
                opened(second)
                .table(name, "age")
                .pivot("age", index="geocode", values="count")
                .drop("geocode")
            )
            assert other.select("^p.*$").rows() == counts.rows()
        assert len(list((site / "data/other/areas").iterdir())) == len(kinds)


def test_a_release_of_other_areas_is_refused(releases, make_small_inputs, tmp_path):
    first, second = releases["entities"], releases["plain"]
    path = make_small_inputs(tmp_path / "b")
    codes = pl.col("geocode").str.replace("P00", "P09")
    for file in ("people", "geography", "barracks"):
        pl.read_parquet(path.with_name(f"{file}.parquet")).with_columns(codes).write_parquet(
            path.with_name(f"{file}.parquet")
        )
    moved = release_of(path, tmp_path / "moved", "plain")
    with pytest.raises(ConfigError, match=r"cannot be compared.*its areas of Town are others") as caught:
        make_site(first, tmp_path / "site", tables=["total"], compared=moved)
    assert caught.value.code == "not-comparable"
    with pytest.raises(ConfigError, match="no table of detailed"):
        make_site(first, tmp_path / "site", compared=second)
    assert not (tmp_path / "site").exists()


def test_a_changed_file_is_refused(releases, tmp_path):
    root = releases["entities"]
    for place in (
        "geography.parquet",
        "names.parquet",
        "intervals/geolevel=Town/query=age/part-00000.parquet",
    ):
        copy = tmp_path / place.replace("/", "-")
        shutil.copytree(root, copy)
        pl.read_parquet(copy / place).write_parquet(
            copy / place, metadata={"tallyveil.run": opened(root).manifest.run}
        )
        with pytest.raises(StoreError):
            make_site(copy, tmp_path / "site")
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize("kind", ["tables", "intervals"])
def test_a_missing_file_is_refused(releases, tmp_path, kind):
    form = "plain" if kind == "tables" else "entities"
    root = shutil.copytree(releases[form], tmp_path / "release")
    shutil.rmtree(root / kind / "geolevel=Town" / "query=age")
    with pytest.raises(StoreError):
        make_site(root, tmp_path / "site")
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize("damage", ["missing", "pipe"])
def test_a_damaged_list_of_names_is_refused(releases, tmp_path, damage):
    """A site without names would say that the release has none."""
    root = shutil.copytree(releases["entities"], tmp_path / "release")
    (root / "names.parquet").unlink()
    if damage == "pipe":
        if not hasattr(os, "mkfifo"):
            pytest.skip("this system has no named pipes")
        os.mkfifo(root / "names.parquet")
    with pytest.raises(StoreError, match=r"names\.parquet cannot be read") as caught:
        make_site(root, tmp_path / "site")
    assert caught.value.code == "release-unreadable"
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize("place", [".", "private", "tables/site"])
def test_no_site_is_written_into_a_release(releases, tmp_path, place):
    """A folder `private`, for example, would make the release look unfinished."""
    root = shutil.copytree(releases["plain"], tmp_path / "release")
    before = sorted(root.rglob("*"))
    with pytest.raises(StoreError) as caught:
        make_site(root, root / place)
    assert caught.value.code == "input-in-output"
    assert sorted(root.rglob("*")) == before


def test_measurements_without_intervals_have_no_explorer(small_release, tmp_path):
    measure_release(load_plan(small_release), tmp_path / "measured", test_key=bytes(32))
    with pytest.raises(StoreError, match="tallyveil estimate") as caught:
        make_site(tmp_path / "measured", tmp_path / "site")
    assert caught.value.code == "intervals-missing"


def test_the_command(releases, tmp_path, capsys, monkeypatch):
    shutil.copytree(releases["plain"], tmp_path / "release")
    monkeypatch.setattr(
        "sys.argv", ["tallyveil", "explore", str(tmp_path / "release"), "--tables", "age", "--json"]
    )
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    said = json.loads(capsys.readouterr().out)
    assert said["site"] == str(tmp_path / "release-explorer")
    assert said["tables"] == ["age"]
    files = [path for path in (tmp_path / "release-explorer").rglob("*") if path.is_file()]
    assert (said["files"], said["bytes"]) == (len(files), sum(path.stat().st_size for path in files))


def test_a_table_without_areas_has_no_explorer(tmp_path):
    file = Path(__file__).parents[2] / "examples" / "subspace" / "table.toml"
    out = tmp_path / "out"
    assert CliRunner().invoke(app, ["subspace", "release", str(file), "--out", str(out), "-q"]).exit_code == 0
    with pytest.raises(StoreError, match="tallyveil report") as caught:
        make_site(out, tmp_path / "site")
    assert caught.value.code == "no-explorer"


@pytest.mark.parametrize("has_spine", [False, nightly(True)])
def test_a_map(small_release, tmp_path, has_spine):
    """Points of the finest geounits become boxes of every area, and tiles of every kind."""
    pytest.importorskip("shapely", reason="needs the extra maps")
    write_entities(small_release.parent)
    blocks = pl.read_parquet(small_release.parent / "geography.parquet")["geocode"].to_list()
    places = {code: (10 + (k % 8) / 10, 50 + (k // 8) / 10) for k, code in enumerate(blocks)}
    shapes = [
        {
            "type": "Feature",
            "properties": {"geocode": code},
            "geometry": {"type": "Point", "coordinates": place},
        }
        for code, place in places.items()
    ]
    points = json.dumps({"type": "FeatureCollection", "features": shapes})
    (small_release.parent / "points.geojson").write_text(points)
    text = small_release.read_text().replace("[geography]\n", '[geography]\ngeometry = "points.geojson"\n')
    if has_spine:
        text = with_shares(text) + 'entities = ["place"]\n' + ENTITIES + STEPS
    small_release.write_text(text)
    root, site = tmp_path / "release", tmp_path / "site"
    run_release(load_plan(small_release), root, test_key=bytes(32), workers=1)
    make_site(root, site)
    described = content(site)
    assert described["no_map"] is None
    assert described["map"]["made_from"] == "points"
    assert {entry["kind"] for entry in described["map"]["tiles"]} == set(range(len(described["kinds"])))
    finest = chunks(site, described["kinds"][2], "list")["geocode"]
    for kind in described["kinds"]:
        own = chunks(site, kind, "list")
        for row, entry in enumerate(own.iter_rows(named=True)):
            if kind["type"] == "geolevel":
                inside = finest.slice(entry["first_finest"], entry["n_finest"])
            else:
                members = chunks(site, kind, "members").filter(entity=row)["finest"]
                inside = finest.gather(members)
            for code in inside:
                assert entry["west"] <= places[code][0] <= entry["east"]
                assert entry["south"] <= places[code][1] <= entry["north"]
        assert list((site / "data" / "tiles" / str(kind["number"])).rglob("*.pbf"))


GUIDE = (Path(__file__).parents[2] / "docs" / "explore.md").read_text()


def test_the_page_names_every_option():
    said = CliRunner().invoke(app, ["explore", "--help"]).output
    options = {
        option for option in re.findall(r"--[a-z-]+", said) if option not in ("--quiet", "--json", "--help")
    }
    assert options == set(re.findall(r"^\| `(--[a-z-]+)", GUIDE, re.MULTILINE))


def test_the_example_of_the_page(releases, tmp_path, monkeypatch):
    shutil.copytree(releases["plain"], tmp_path / "demo" / "release")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    (example,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    exec(example, names)
    assert names["made"].path == tmp_path / "site"
