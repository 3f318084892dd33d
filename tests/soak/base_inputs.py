"""Valid small inputs of every command, as files in memory. Mutations start from these."""

import io
import json
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
from loading import module_of

from tallyveil.synthetic.country import make_entities, make_geography

BLOCKS = ("1101", "1102", "1103", "1201", "1202")
RELEASE = """
[release]
name = "tiny"
[records]
path = "rec.csv"
geocode = "geocode"
count = "count"
[geography]
path = "geo.csv"
geocode = "geocode"
geolevels = ["State", "County", "Block"]
prefix_lengths = [1, 2, 4]
[schema]
name = "own"
[[schema.attributes]]
name = "a"
levels = ["a0", "a1", "a2"]
[[schema.attributes]]
name = "b"
levels = ["b0", "b1"]
[[schema.recodes]]
name = "some"
attribute = "a"
groups = { first = ["a0"], rest = ["a1", "a2"] }
[[schema.structural_zeros]]
name = "no a2 in b1"
cells = { a = ["a2"], b = ["b1"] }
[privacy]
neighbours = "bounded"
mechanism = "discrete_gaussian"
rho = "1/500000"
[strategy]
rho = "1/500000"
[strategy.geolevels]
State = "1/3"
County = "1/3"
Block = "1/3"
[strategy.queries."*"]
total = "1/4"
some = "1/4"
detailed = "1/2"
[estimation.passes]
"*" = [["total"], ["*"]]
[estimation.rounding]
"*" = [["total"], ["some", "detailed"]]
[[invariants]]
query = "total"
geolevels = ["State"]
[[bounds]]
name = "caps"
query = "b"
geolevel = "Block"
path = "caps.csv"
missing = "unbounded"
[outputs]
tables = ["total", "a", "detailed"]
measurements = "full"
"""
RECORDS: dict[str, list[Any]] = {
    "geocode": ["1101", "1101", "1102", "1103", "1201", "1202"],
    "a": ["a0", "a1", "a2", "a0", "a1", "a0"],
    "b": ["b0", "b1", "b0", "b1", "b0", "b1"],
    "count": [75_431, 3, 83_377, 2, 98_731, 1],
}
"""Three counts that nothing public can produce: they must stand out nowhere."""
CAPS: dict[str, list[Any]] = {
    "geocode": ["1101", "1103"],
    "b": ["b1", "b0"],
    "lower": [0, 0],
    "upper": [500, 600],
}
SUBSPACE = """
[release]
name = "table"
[table]
path = "t.csv"
count = "n"
[[attributes]]
name = "county"
levels = ["A", "B", "C"]
[[attributes]]
name = "education"
levels = ["low", "mid", "high"]
[[constraints]]
name = "county totals"
margin = ["county"]
[privacy]
epsilon = "1"
[mechanism]
law = "laplace"
norm = "l1"
epsilon = "0.01"
distance = "4"
"""
TABLE: dict[str, list[Any]] = {
    "county": ["A", "A", "B", "B", "C"],
    "education": ["low", "high", "low", "mid", "low"],
    "n": [75_431, 5, 3, 83_377, 2],
}
"""The sums of counties are published as they are, and so no county has one of the large counts alone."""


@dataclass(frozen=True)
class Folder:
    """Valid inputs of some commands.

    Attributes:
        files: Content by path.
        documents: Paths whose content is TOML or JSON, as the tree it holds.
        tables: Columns by path of a CSV or Parquet file; the configuration names the file.
        confidential: Tables and texts that hold records.
        commands: Arguments that are valid with these files.
        writable: Paths that the commands may write to though no flag names them.
    """

    files: dict[str, bytes | None]
    commands: tuple[tuple[str, ...], ...]
    documents: tuple[str, ...] = ()
    tables: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    confidential: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()


def tree_of(name: str, content: bytes) -> Any:
    """The tree that a TOML or JSON file holds."""
    text = content.decode("utf-8")
    return tomllib.loads(text) if name.endswith(".toml") else json.loads(text)


def csv_of(columns: dict[str, list[Any]]) -> bytes:
    """A table as CSV."""
    lines = [",".join(columns)]
    lines += [
        ",".join("" if v is None else str(v) for v in row) for row in zip(*columns.values(), strict=True)
    ]
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")


def parquet_of(frame: pl.DataFrame) -> bytes:
    """A table as Parquet."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


RUN = ("--workers", "1", "--insecure-test-key", "k")


@cache
def release() -> Folder:
    """A release file with its tables."""
    tables = {"rec.csv": RECORDS, "geo.csv": {"geocode": list(BLOCKS)}, "caps.csv": CAPS}
    files: dict[str, bytes | None] = {name: csv_of(columns) for name, columns in tables.items()}
    return Folder(
        files | {"release.toml": RELEASE.encode()},
        (
            ("run", "release.toml", "--out", "out", *RUN),
            ("run", "release.toml", "--out", "out", "--json", *RUN),
            ("plan", "release.toml"),
            ("account", "epsilon", "--plan", "release.toml", "--delta", "1e-10"),
            ("account", "savings", "release.toml"),
        ),
        documents=("release.toml",),
        tables=tables,
        confidential=("rec.csv",),
    )


@cache
def subspace() -> Folder:
    """A table with invariants."""
    return Folder(
        {"table.toml": SUBSPACE.encode(), "t.csv": csv_of(TABLE)},
        (
            ("subspace", "release", "table.toml", "--out", "out", "--insecure-test-key", "k"),
            ("subspace", "diagnose", "table.toml", "--draws", "50"),
            ("subspace", "diagnose", "table.toml", "--draws", "50", "--out", "out"),
        ),
        documents=("table.toml",),
        tables={"t.csv": TABLE},
        confidential=("t.csv",),
    )


def _toy() -> ModuleType:
    return module_of(Path(__file__).parents[1] / "toy_country.py")


def _files_in(folder: Path, prefix: str) -> dict[str, bytes | None]:
    return {
        f"{prefix}/{path.relative_to(folder).as_posix()}": None if path.is_dir() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
    }


@cache
def safetab(scratch: Path) -> Folder:
    """SafeTab's parameters and data: one state with few levels, 300 persons."""
    toy = _toy()
    params = toy.write_params(scratch / "p", **toy.config_values(run_pr=False))
    data = toy.write_data(scratch / "d", toy.person_rows(300))
    return Folder(
        _files_in(params, "p") | _files_in(data, "d"),
        (
            ("safetab", "run", "p", "d", "--out", "out", "--insecure-test-key", "k"),
            ("safetab", "validate", "p", "d"),
            ("safetab", "validate", "p", "d", "--json"),
            ("safetab", "plan", "p", "d"),
            ("safetab", "long-form", "p/race-and-ethnicity-code-to-iteration.txt",
             "p/race-and-ethnicity-codes.txt", "--out", "long.txt"),
        ),
        documents=("p/config.json",),
        confidential=("d/person-records.txt",),
    )  # fmt: skip


@cache
def households(scratch: Path) -> Folder:
    """SafeTab-H's parameters and data: 300 households, and the T1 of their groups."""
    toy = _toy()
    system = module_of(Path(__file__).parents[1] / "system" / "test_safetab_households.py")
    params = toy.write_params(scratch / "hp")
    (params / "config.json").write_text(json.dumps(system.config(run_pr=False)))
    persons = toy.person_rows(300)
    data = toy.write_data(scratch / "hd", persons)
    (data / "person-records.txt").unlink()
    homes = [(*row[3:7], row[7], *row[8:16], row[16], "1", "2") for row in persons]
    toy.pipe(data / "household-records.txt", system.HEADER, homes)
    groups = sorted(toy.slow_tabulation(persons, toy.US).groups)
    rows = [(*group, str(5000 if place % 3 else 80)) for place, group in enumerate(groups)]
    toy.pipe(data / "pop-group-totals.txt", system.T1_HEADER, rows)
    return Folder(
        _files_in(params, "p") | _files_in(data, "d"),
        (("safetab", "households", "p", "d", "--out", "out", "--insecure-test-key", "k"),),
        documents=("p/config.json",),
        confidential=("d/household-records.txt",),
    )


@cache
def spine(scratch: Path) -> Folder:
    """A geography of 60 blocks, its entities, and a spine of it."""
    import numpy as np

    from tallyveil.geography.tables import write_spine
    from tallyveil.products.topdown.run.spine_design import read_geography

    geography = make_geography(60, np.random.default_rng(3))
    entities = pl.concat(make_entities(geography, 3)).with_columns(
        group_quarters=pl.when(pl.int_range(60) % 20 == 0).then(pl.lit("college"))
    )
    (scratch / "spine").mkdir(parents=True, exist_ok=True)
    geography.write_parquet(scratch / "spine" / "geo.parquet")
    levels = ("US", "State", "County", "Tract", "Block_Group", "Block")
    write_spine(
        scratch / "spine" / "one.parquet", read_geography(scratch / "spine" / "geo.parquet", levels, ()), None
    )
    build = ("spine", "build", "--geography", "geo.csv", "--out", "made.parquet")
    chosen = ("--preset", "redistricting-persons-us", "--strategy", "redistricting-us")
    text = {name: column.to_list() for name, column in geography.to_dict().items()}
    named = {name: column.to_list() for name, column in entities.to_dict().items()}
    return Folder(
        {
            "geo.csv": csv_of(text),
            "ent.csv": csv_of(named),
            "one.parquet": (scratch / "spine" / "one.parquet").read_bytes(),
        },
        (
            build,
            (*build, "--entities", "ent.csv", *chosen),
            ("spine", "distance", "one.parquet", "--entities", "ent.csv"),
            ("spine", "compare", "one.parquet", "one.parquet", "--strategy", "redistricting-us"),
            ("spine", "fit", "one.parquet", "--strategy", "redistricting-us", "--target", "County=5"),
            ("spine", "show", "one.parquet", "--out", "page.html"),
        ),
        tables={"geo.csv": text, "ent.csv": named},
    )


@cache
def finished(scratch: Path) -> Folder:
    """A finished release with its inputs, for the commands that read one."""
    from tallyveil.noise.key import insecure_key
    from tallyveil.plans.from_toml.load import load_plan
    from tallyveil.products.topdown.page.release import write_report
    from tallyveil.products.topdown.run.run import run_release

    _write(scratch / "finished", release())
    run_release(
        load_plan(scratch / "finished" / "release.toml"),
        scratch / "finished" / "out",
        test_key=insecure_key("k"),
        workers=1,
    )
    write_report(scratch / "finished" / "out")
    return Folder(
        _files_in(scratch / "finished", "."),
        (
            ("report", "out"),
            ("intervals", "out", "--workers", "1"),
            ("intervals", "out", "--workers", "1", "--district", "geo.csv"),
            ("account", "total", "out"),
            ("account", "total", "."),
            ("evaluate", "out", "--truth", "rec.csv", "--i-understand-this-is-not-private"),
            ("run", "release.toml", "--out", "out", *RUN),
        ),
        writable=("out",),
    )


@cache
def interrupted(scratch: Path, writes: int) -> Folder:
    """A release whose process was killed before its n-th file was written, with its inputs."""
    found = _before_every_write(scratch / "interrupted")
    commands = (("run", "release.toml", "--out", "out", *RUN), ("report", "out"), ("account", "total", "out"))
    return Folder(found[min(writes, len(found)) - 1], commands, writable=("out",))


@cache
def _before_every_write(folder: Path) -> list[dict[str, bytes | None]]:
    """The files of one run as they were before each of its writes, and at its end."""
    import tallyveil.storage.write as writing
    from tallyveil.noise.key import insecure_key
    from tallyveil.plans.from_toml.load import load_plan
    from tallyveil.products.topdown.run.run import run_release

    _write(folder, release())
    original, found = writing.write_file, []

    def write_file(path: Path, write: Any) -> None:
        found.append(_files_in(folder, "."))
        original(path, write)

    writing.write_file = write_file
    try:
        run_release(load_plan(folder / "release.toml"), folder / "out", test_key=insecure_key("k"), workers=1)
    finally:
        writing.write_file = original
    return [*found, _files_in(folder, ".")]


def _write(folder: Path, inputs: Folder) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in inputs.files.items():
        assert content is not None
        (folder / name).write_bytes(content)
