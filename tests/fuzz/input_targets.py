"""Readers of what users write: release files and all others in TOML, records, bounds and tables."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import base_inputs as base
import polars as pl
import product_inputs as products
from loading import module_of
from targets import Builder, Target, at

from tallyveil.plans.from_toml.aims import load_aims
from tallyveil.plans.from_toml.load import load_estimation, load_plan
from tallyveil.postprocess.constraint_files import TakenOver
from tallyveil.products.dhc.public.from_toml import load_programme
from tallyveil.products.lattice.confidential import read_confidential_table
from tallyveil.products.lattice.public.from_toml import load_subspace_plan
from tallyveil.products.safetab.confidential.group_records import read_group_records
from tallyveil.products.safetab.public.from_toml import load_group_plan
from tallyveil.products.topdown.run.inputs import read_histograms
from tallyveil.products.topdown.run.preparation import Inputs, prepare, read_inputs
from tallyveil.products.topdown.run.public import read_public
from tallyveil.runs.observer import SilentObserver, Stopwatch

TESTS = Path(__file__).parents[1]
AIMS = """
model = "topdown"
[[aim]]
areas = ["Block"]
queries = ["total", "a"]
weight = "1/2"
[[target]]
area = "County"
query = "total"
within = "5"
"""
ESTIMATION = """
[estimation]
values = "own"
rounding_target = "nearest"
[estimation.passes]
"*" = [["total"], ["*"]]
[estimation.rounding]
"*" = [["total"], ["some", "detailed"]]
"""
SPINE = """
[spine]
entities = "entities.csv"
families = ["place"]
bypass = true
[[spine.steps]]
kind = "branch"
family = "place"
geolevel = "State"
name = "AIAN"
parts = "Part"
[spine.regroup]
geolevel = "County"
cutoff = 3
[spine.regroup.aim]
place = "1"
"""
PLACES = "geocode,place\n" + "".join(f"{block},{'Elm' if block < '1201' else ''}\n" for block in base.BLOCKS)
OUTER = """
[[estimation.outer]]
cells = "a"
rounding = ["total"]
[[estimation.outer]]
cells = "detailed"
"""


def _folder(root: Path, files: Mapping[str, bytes | None]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.mkdir(exist_ok=True)
        else:
            path.write_bytes(content)
    return root


def _release(root: Path) -> Target:
    """Release files; one that is accepted has the same digest when it is read again."""
    path = _folder(root, base.release().files) / "release.toml"
    return Target(base.RELEASE.encode(), at(path, lambda: load_plan(path).digest()), "toml")


def _with_spine() -> str:
    text = base.RELEASE.replace("[schema]", SPINE + "[schema]", 1)
    return text.replace('State = "1/3"', 'State = "1/6"\nPart = "1/6"')


def _spine_release(root: Path) -> Target:
    """Release files with a spine, and the geography and entities that they name."""
    path = _folder(root, base.release().files) / "release.toml"
    (root / "entities.csv").write_text(PLACES)
    return Target(_with_spine().encode(), at(path, lambda: prepared(path)), "toml")


def _outer_release(root: Path) -> Target:
    """Release files with outer passes."""
    path = _folder(root, base.release().files) / "release.toml"
    text = base.RELEASE
    start, stop = text.index("[estimation.passes]"), text.index("[[invariants]]")
    text = text[:start] + OUTER + text[stop:]
    start, stop = text.index("[[bounds]]"), text.index("[outputs]")
    text = text[:start] + text[stop:]
    return Target(text.encode(), at(path, lambda: load_plan(path).digest()), "toml")


def _estimation(root: Path) -> Target:
    """The table `[estimation]` in a file of its own."""
    plan = load_plan(_folder(root, base.release().files) / "release.toml")
    path = root / "estimation.toml"
    return Target(ESTIMATION.encode(), at(path, lambda: load_estimation(path, plan)), "toml")


def _programme(root: Path) -> Target:
    """Programme files."""
    _folder(root, base.release().files)
    text = '[programme]\nname = "two"\n[[releases]]\nname = "one"\nfile = "release.toml"\n'
    text += '[[releases]]\nname = "more"\nfile = "release.toml"\n'
    path = root / "programme.toml"
    return Target(text.encode(), at(path, lambda: load_programme(path, root / "out").digest()), "toml")


def _subspace_plan(root: Path) -> Target:
    """Table files of `subspace`."""
    path = _folder(root, base.subspace().files) / "table.toml"
    return Target(base.SUBSPACE.encode(), at(path, lambda: load_subspace_plan(path).digest()), "toml")


def _group_plan(root: Path) -> Target:
    """Files of population groups."""
    path = _folder(root, products.groups().files) / "stays.toml"
    return Target(products.STAYS.encode(), at(path, lambda: load_group_plan(path).digest()), "toml")


def _aims(root: Path) -> Target:
    """Aims of `plan --optimise`."""
    root.mkdir()
    path = root / "aims.toml"
    return Target(AIMS.encode(), at(path, lambda: load_aims(path)), "toml")


def prepared(path: Path) -> object:
    """Read a release file and everything that it names, as a run does before it spends; the digest of the records."""
    plan, watch = load_plan(path), Stopwatch(SilentObserver())
    inputs = read_inputs(plan, SilentObserver(), watch, protected=True)
    prepare(plan, inputs, watch)
    return inputs.records_digest


def table_target(path: Path, table: Path, valid: bytes, form: str, *, confidential: bool = False) -> Target:
    """A table that a valid release file names, read as a run reads it; equal tables give equal digests of the records.

    The release file stays the same, and with it the guarantee. A run computes it before it spends. That takes most of
    the time of a small release, and tells nothing about its tables.
    """
    table.write_bytes(valid)
    plan, watch = load_plan(path), Stopwatch(SilentObserver())

    def read() -> object:
        public = read_public(plan)
        histograms = read_histograms(plan, public.hierarchies.spine, ())
        inputs = Inputs(public, {}, TakenOver(), {}, histograms, histograms[-1].digest())
        prepare(plan, inputs, watch)
        return inputs.records_digest

    return Target(valid, at(table, read), form, confidential)


def _input(root: Path, name: str, columns: dict[str, list[Any]], *, confidential: bool = False) -> Target:
    """One table of a release; the release file names it by its ending."""
    path = _folder(root, base.release().files) / "release.toml"
    stem, _, form = name.partition(".")
    path.write_text(base.RELEASE.replace(f'"{stem}.csv"', f'"{name}"'))
    made = {"csv": base.csv_of(columns), "parquet": base.parquet_of(pl.DataFrame(columns))}
    return table_target(path, root / name, made[form], form, confidential=confidential)


def _numbers(root: Path) -> Target:
    """Records whose ages are numbers, one row a record."""
    path = _small_release(root)
    text = path.read_text().replace('"young", "middle", "old"', '"0-17", "18-64", "65+"')
    text = text.replace('["young"]', '["0-17"]').replace('["middle", "old"]', '["18-64", "65+"]')
    text = text.replace('count = "count"', 'numbers = ["age"]').replace("people.parquet", "people.csv")
    path.write_text(text)
    rows = {"geocode": ["P0000"] * 4 + ["Q0305"], "age": [0, 17, 30, 99, 65], "home": ["house"] * 5}
    return table_target(path, root / "people.csv", base.csv_of(rows), "csv", confidential=True)


def _small_release(root: Path) -> Path:
    """A small release without invariants and bounds."""
    path = module_of(TESTS / "conftest.py").write_small_inputs(root)
    text = path.read_text()
    start, stop = text.index("[[invariants]]"), text.index("[outputs]")
    path.write_text(text[:start] + text[stop:])
    return path


def _entities(root: Path) -> Target:
    """Entities of a spine."""
    path = _folder(root, base.release().files) / "release.toml"
    path.write_text(_with_spine())
    return table_target(path, root / "entities.csv", PLACES.encode(), "csv")


def _names(root: Path) -> Target:
    """Names of geounits."""
    path = _small_release(root)
    path.write_text(path.read_text().replace("[geography]", '[geography]\nnames = "names.csv"'))
    rows = {"geolevel": ["Region", "Block"], "geocode": ["P", "P0000"], "name": ["The P", "First"]}
    return table_target(path, root / "names.csv", base.csv_of(rows), "csv")


def _subspace_table(root: Path) -> Target:
    """Confidential tables of `subspace`."""
    plan = load_subspace_plan(_folder(root, base.subspace().files) / "table.toml")
    columns, count = dict(plan.table.columns), plan.table.count

    def read() -> object:
        return read_confidential_table(
            plan.table.path, count=count, columns=columns, schema=plan.schema
        ).digest()

    return Target(base.csv_of(base.TABLE), at(root / "t.csv", read), "csv", confidential=True)


def _group_records(root: Path) -> Target:
    """Records of any kind."""
    plan = load_group_plan(_folder(root, products.groups().files) / "stays.toml")
    path = root / "rec.csv"
    rows = base.csv_of(products.RECORDS)
    return Target(rows, at(path, lambda: read_group_records(path, plan).digest()), "csv", confidential=True)


INPUT_TARGETS: dict[str, Builder] = {
    "release-file": _release,
    "release-file-spine": _spine_release,
    "release-file-outer": _outer_release,
    "estimation-file": _estimation,
    "programme-file": _programme,
    "subspace-file": _subspace_plan,
    "groups-file": _group_plan,
    "aims-file": _aims,
    "records-csv": lambda root: _input(root, "rec.csv", base.RECORDS, confidential=True),
    "records-parquet": lambda root: _input(root, "rec.parquet", base.RECORDS, confidential=True),
    "records-numbers": _numbers,
    "geography-csv": lambda root: _input(root, "geo.csv", {"geocode": list(base.BLOCKS)}),
    "geography-parquet": lambda root: _input(root, "geo.parquet", {"geocode": list(base.BLOCKS)}),
    "bounds-csv": lambda root: _input(root, "caps.csv", base.CAPS),
    "bounds-parquet": lambda root: _input(root, "caps.parquet", base.CAPS),
    "entities-csv": _entities,
    "names-csv": _names,
    "subspace-table": _subspace_table,
    "group-records": _group_records,
}
