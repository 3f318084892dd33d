"""What a finished folder is held to, read again file by file, mostly without code of the library.

`folder_faults` holds for every product: files and digests, the ledger, no key left. `world_faults` holds for a release
of the main product whose true counts are known: sums, constraints, tables, microdata and intervals.
"""

import hashlib
import json
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
from random_worlds import World, true_counts

from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.files.histograms import histogram_name

UNLISTED = {"manifest.json", "report.html", "ledger.jsonl", "datapackage.json", "_manifest.json"}
"""Files that a manifest does not list: itself, what is named apart, and what is written after it."""
BESIDES = ("intervals/", "diagnostics/")
"""Folders with a manifest of their own, or with what follows from no record."""
ORIGINAL = "original."
Counts = Counter[tuple[str, ...]]


def folder_faults(out: Path) -> list[str]:
    """What is wrong with a finished folder of any product."""
    faults = [f"left behind: {path.relative_to(out)}" for path in out.rglob("*") if _is_left(path)]
    manifests = sorted(path for path in out.rglob("manifest.json") if path.is_file())
    if not manifests:
        return [*faults, "there is no manifest"]
    for path in manifests:
        faults += _manifest_faults(path.parent)
        faults += _ledger_faults(path.parent / "ledger.jsonl")
    faults += _package_faults(out)
    for path in sorted(out.rglob("*.parquet")):
        try:
            pl.read_parquet(path, hive_partitioning=False)
        except (OSError, pl.exceptions.PolarsError) as error:
            faults.append(f"{path.relative_to(out)} cannot be read: {type(error).__name__}")
    return faults


def published_counts(root: Path, wanted: Sequence[int]) -> list[int]:
    """Those of some counts that a finished folder publishes, or that a column of one of its files adds up to.

    Noise is 0 by chance now and then. So a published count can be the true one, and a command may say it.
    """
    found = set[int]()
    for path in root.rglob("*.parquet"):
        numbers = pl.read_parquet(path, hive_partitioning=False).select(pl.col(pl.Int64, pl.Int32, pl.UInt32))
        found.update(
            count for count in wanted for column in numbers if count in column or column.sum() == count
        )
    return sorted(found)


def _is_left(path: Path) -> bool:
    return path.name in ("private", "lock") or path.suffix == ".partial" or path.name.endswith("~")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _manifest_faults(root: Path) -> Iterator[str]:
    manifest = json.loads((root / "manifest.json").read_text())
    listed = {one["path"]: one for one in manifest["files"]}
    for name, one in listed.items():
        path = root / name
        if not path.is_file():
            yield f"{name} is listed and missing"
        elif (path.stat().st_size, _digest(path)) != (one["bytes"], one["sha256"]):
            yield f"{name} is not what the manifest says"
    inside = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    for name in sorted(inside - listed.keys()):
        if Path(name).name not in UNLISTED and not name.startswith(BESIDES):
            yield f"{name} is not listed"
    lines = (root / "ledger.jsonl").read_bytes().splitlines(keepends=True)[: manifest["ledger"]["lines"]]
    if hashlib.sha256(b"".join(lines)).hexdigest() != manifest["ledger"]["sha256"]:
        yield "the ledger is not what the manifest says"


def _package_faults(root: Path) -> Iterator[str]:
    path = root / "datapackage.json"
    if path.is_file():
        for one in json.loads(path.read_text())["resources"]:
            names = one["path"] if isinstance(one["path"], list) else [one["path"]]
            if len(names) == 1 and one.get("hash") not in (None, f"sha256:{_digest(root / names[0])}"):
                yield f"{names[0]} is not what datapackage.json says"


def _ledger_faults(path: Path) -> Iterator[str]:
    declared, entries = read_ledger(path)
    tokens = Counter(entry.token for entry in entries)
    yield from (f"{number} lines of token {token!r}" for token, number in tokens.items() if number > 1)
    spent = sum((entry.cost for entry in entries if entry.cost is not None), Fraction(0))
    if spent > declared.total:
        yield f"the ledger has spent {spent} of {declared.total}"


def world_faults(out: Path, world: World, text: bytes) -> tuple[list[str], Counter[str]]:
    """What is wrong with the counts of a release, and how often its intervals hold the true count.

    Args:
        out: The finished folder.
        world: What the release is of.
        text: Its release file.
    """
    release = tomllib.loads(text.decode())
    where = _places(out, world)
    finest = _histogram(out, world, world.tree[-1])
    faults = _count_faults(out, world, finest, where)
    faults += _constraint_faults(world, release, finest)
    covered, level = Counter[str](), release["outputs"].get("intervals", "")
    for path in sorted((out / "tables").rglob("*.parquet")):
        faults += _table_faults(path, world, finest, where, covered, level)
    records = sorted((out / "microdata").glob("*.parquet"))
    if records:
        rows = pl.concat([pl.read_parquet(path).cast(pl.String) for path in records])
        if Counter(map(tuple, rows.rows())) != +finest:
            faults.append("the microdata are not the histogram of the finest geolevel")
    return faults, covered


def _places(out: Path, world: World) -> dict[str, dict[str, str]]:
    """Geocode of the area that each block lies in, by the geolevel that tables are of."""
    table = pl.read_parquet(out / "geography.parquet")
    blocks = table[world.tree[-1]].to_list()
    if sorted(blocks) != sorted(world.blocks):
        return {}
    # Where the steps of a spine or a bypass have changed a geolevel, the tables are of the geography as given.
    return {
        name.removeprefix(ORIGINAL): dict(zip(blocks, table[name].to_list(), strict=True))
        for name in sorted(table.columns, key=lambda name: name.startswith(ORIGINAL))
    }


def _histogram(out: Path, world: World, geolevel: str) -> Counts:
    frame = pl.read_parquet(out / "histogram" / histogram_name(geolevel))
    names = ["geocode", *(one.name for one in world.attributes)]
    keys = frame.select(pl.col(names).cast(pl.String)).rows()
    return Counter(dict(zip(keys, frame["count"].to_list(), strict=True)))


def _count_faults(out: Path, world: World, finest: Counts, where: dict[str, dict[str, str]]) -> list[str]:
    if not where:
        return ["geography.parquet does not have the blocks of the geography"]
    faults = ["a count is negative"] if any(count < 0 for count in finest.values()) else []
    names = [one.name for one in world.attributes]
    for zero in world.zeros.values():
        if any(
            count and all(key[1 + names.index(name)] in some for name, some in zero.items())
            for key, count in finest.items()
        ):
            faults.append("a structural zero is above zero")
    tree = pl.read_parquet(out / "geography.parquet")
    for geolevel in world.tree[:-1]:
        above = dict(zip(tree[world.tree[-1]].to_list(), tree[geolevel].to_list(), strict=True))
        sums: Counts = Counter()
        for key, count in finest.items():
            sums[(above[key[0]], *key[1:])] += count
        if +sums != +_histogram(out, world, geolevel):
            faults.append(f"the counts of {geolevel} are not the sums of the finest ones")
    return faults


def _answers(world: World, query: str, finest: Counts, place: dict[str, str]) -> Counts:
    """Answers of a query in the published counts, by geocode and labels."""
    found: Counts = Counter()
    for key, count in finest.items():
        labels = world.answer(query, key)
        if labels is not None:
            found[(place[key[0]], *labels)] += count
    return found


def _constraint_faults(world: World, release: dict[str, Any], finest: Counts) -> Iterator[str]:
    for one in release.get("invariants", ()):
        for geolevel in one["geolevels"]:
            level = world.geolevels.index(geolevel)
            place = {block: world.prefix(level, block) for block in world.blocks}
            if +_answers(world, one["query"], finest, place) != +true_counts(world, one["query"], level):
                yield f"the invariant {one['query']} does not hold at {geolevel}"
    for one in release.get("bounds", ()):
        level = world.geolevels.index(one["geolevel"])
        place = {block: world.prefix(level, block) for block in world.blocks}
        found = _answers(world, one["query"], finest, place)
        for *key, lower, upper in world.bounds.get(one["query"], ()):
            if not lower <= found[tuple(key)] <= upper:
                yield f"the bounds {one['query']} do not hold at {one['geolevel']}"


def _table_faults(
    path: Path,
    world: World,
    finest: Counts,
    where: dict[str, dict[str, str]],
    covered: Counter[str],
    level: str,
) -> Iterator[str]:
    tags = pl.read_parquet_metadata(path)
    geolevel, query = tags["tallyveil.geolevel"], tags["tallyveil.query"]
    if geolevel not in where or any(one.overlapping and one.name in query for one in world.recodes):
        return
    frame = pl.read_parquet(path, hive_partitioning=False)
    names = [one.name for one in world.attributes if one.name in frame.columns]
    keys = [
        tuple(value for value in row if value is not None)
        for row in frame.select(pl.col(["geocode", *names]).cast(pl.String)).rows()
    ]
    found = Counter(dict(zip(keys, frame["count"].to_list(), strict=True)))
    if len(found) != len(keys) or +found != +_answers(world, query, finest, where[geolevel]):
        yield f"the table {query} of {geolevel} is not what its histogram adds up to"
    if "lower" not in frame.columns:
        return
    # Rows that are chosen by their noise cover less often, so a table with intervals has all.
    if tags["tallyveil.zeros"] != "included" and frame["estimate"].null_count() < frame.height:
        yield f"the table {query} of {geolevel} has estimates and leaves out counts of zero"
        return
    true = _answers(world, query, world.counts, where[geolevel])
    for key, lower, upper in zip(keys, frame["lower"], frame["upper"], strict=True):
        if lower is None or upper is None:
            continue
        if lower > upper:
            yield f"an interval of {query} of {geolevel} is upside down"
        covered[f"intervals of coverage {level}"] += 1
        covered[f"intervals of coverage {level} that hold the true count"] += lower <= true[key] <= upper
