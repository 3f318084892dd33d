"""Non-interference: nothing public depends on the records but the noisy measurements and the invariants.

Every job is done on two files of records that differ as much as they may, with the same noisy measurements
(`tests/non_interference.py`). All that others can see of them must be the same: names, rights and bytes of files, the
order in which they are written, what commands say, and exit codes.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests import outer_worlds
from tests import toy_country as toy
from tests.non_interference import NOW, SAID, WRITTEN, Command, World, differences
from tests.reserve_spine import ENTITIES, STEPS, entities_of, with_shares
from tests.samples import nightly
from tests.small_jobs import COUNTRY, GAUSSIAN, dhc, households, redistricting, stays, table
from tests.system import test_households as homes

from tallyveil.api.products import PRODUCTS
from tallyveil.files.finished import PROGRAMME
from tallyveil.files.manifest import ReleaseKind
from tallyveil.products.lattice.confidential import check_stated_totals
from tallyveil.products.lattice.run import run as lattice_run
from tallyveil.runs import observer, once, status
from tallyveil.runs.key_file import RunSecrets
from tallyveil.schema.presets import load_preset
from tallyveil.storage.write import write_text

SMALL = ("--workers", "1")


@dataclass(frozen=True)
class Case:
    """A job on two files of records.

    Attributes:
        inputs: Writes all inputs into a folder.
        others: Writes other records in the place of those, as different as the bounds and the invariants allow.
        commands: What is done; the first makes a release in `out`.
        kind: Of this release; None for a programme.
    """

    inputs: Callable[[Path], object]
    others: Callable[[Path], object]
    commands: tuple[Command, ...]
    kind: ReleaseKind | None = ReleaseKind.TOPDOWN

    def done_twice(self, world: World, **how: Any) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """What the job makes of the one records and of the others."""
        first = world.job([self.inputs], self.commands, **how, is_reference=True)
        return first, world.job([self.inputs, self.others], self.commands, **how)


def made(files: dict[str, bytes], name: str) -> Any:
    """A JSON file that a job made."""
    return json.loads(next(data for path, data in files.items() if path.split()[0] == name))


READ = (("report", "out"), ("status", "out"), ("account", "total", "out"), ("verify", "out"))
"""Commands that read a finished folder of any product."""
LAPLACE = (
    ("discrete_gaussian", "discrete_laplace"),
    ('rho = "2"', 'epsilon = "2"'),
    ('[[invariants]]\nquery = "total"\ngeolevels = ["Region"]\n', ""),
)


def small(*changes: tuple[str, str]) -> Callable[[Path], None]:
    """The small release, with changes to its file."""

    def act(folder: Path) -> None:
        text = (folder / "release.toml").read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (folder / "release.toml").write_text(text)

    return act


def crowded(folder: Path) -> None:
    """Nearly all people of a region are the same and in one block. The regions keep their people, facilities one each.

    The rows are in another order, several are of the same cell, and there are more or fewer of them.
    """
    people = pl.read_parquet(folder / "people.parquet")
    facilities = pl.read_parquet(folder / "barracks.parquet").filter(pl.col("home") == "barracks")["geocode"]
    rows: list[tuple[Any, ...]] = [(block, "old", "barracks", 1) for block in facilities]
    for region, block in (("Q", "Q0305"), ("P", "P0000")):
        left = people.filter(pl.col("geocode").str.starts_with(region))["count"].sum()
        left -= facilities.str.starts_with(region).sum()
        rows += [(block, "young", "house", part) for part in (1, left - 3, 2)]
    pl.DataFrame(rows, schema=people.schema, orient="row").write_parquet(
        folder / "people.parquet", compression="uncompressed"
    )


def nearly_empty(folder: Path) -> None:
    """One person in each facility, and nobody else: where the number of people is no invariant."""
    crowded(folder)
    people = pl.read_parquet(folder / "people.parquet")
    people.filter(pl.col("home") == "barracks").write_parquet(folder / "people.parquet")


def with_spine(folder: Path) -> None:
    """The small release on a spine that is made by steps, with areas off the spine."""
    path = folder / "release.toml"
    entities_of(folder).write_parquet(folder / "entities.parquet")
    path.write_text(with_shares(path.read_text()) + 'entities = ["place"]\n' + ENTITIES + STEPS)


def bypassed(folder: Path) -> None:
    """The small release with towns of one block, whose counts are not measured twice."""
    blocks = pl.read_parquet(folder / "geography.parquet")["geocode"].to_list()
    alone = [block for block in blocks if block[:3] in ("P01", "Q02") and block[3:] != "00"]
    for name in ("geography", "people", "barracks"):
        path = folder / f"{name}.parquet"
        pl.read_parquet(path).filter(~pl.col("geocode").is_in(alone)).write_parquet(path)
    path = folder / "release.toml"
    path.write_text(f"{path.read_text()}\n[spine]\nbypass = true\n")


def one_household(folder: Path) -> None:
    """All people in households are in one block and of one kind; those in facilities stay."""
    path = folder / COUNTRY / "records.parquet"
    people = pl.read_parquet(path)
    in_households = pl.col("hhgq") == "household"
    block, count = people.filter(in_households).select(pl.col("geocode").max(), pl.col("count").sum()).row(0)
    alike = pl.DataFrame(
        [(block, "household", "18_plus", "hispanic", "nhopi", count)], schema=people.schema, orient="row"
    )
    pl.concat([alike, people.filter(~in_households).reverse()]).write_parquet(path)


def all_occupied(folder: Path, table: str = "records") -> None:
    """No housing unit is vacant; every block keeps its units."""
    path = folder / COUNTRY / f"{table}.parquet"
    units = pl.read_parquet(path).group_by("geocode").agg(pl.col("count").sum())
    units.select("geocode", h1=pl.lit("occupied"), count="count").write_parquet(path)


def persons(folder: Path, definition: str = "zcdp") -> None:
    """SafeTab's parameters, with level 1 of two geographies, and people."""
    wanted = {(1, "USA"), (1, "STATE")}
    unused = {(level, geography) for level in (1, 2) for geography in toy.US} - wanted
    values = {f"privacy_budget_p_level_{level}_{geography.lower()}": 0 for level, geography in unused}
    toy.write_params(folder / "p", run_pr=False, privacy_defn=definition, **values)
    toy.write_data(folder / "d", toy.person_rows(300))


def other_persons(folder: Path) -> None:
    """A few people of one kind in one block."""
    toy.write_data(folder / "d", toy.person_rows(1, seed=8) * 4)


def other_households(folder: Path) -> None:
    """Three households like the first."""
    path = folder / "d" / "household-records.txt"
    header, first, *_ = path.read_text().splitlines()
    path.write_text("\n".join([header, *[first] * 3, ""]))


def gathered(folder: Path) -> None:
    """All people in houses are in one block, in the coarse records and in the detailed ones.

    Where a block has a prison and a college, their people are exchanged. All others stay.
    """
    people = pl.read_parquet(folder / "persons.parquet")
    in_houses = pl.col("relation").is_in(["head", "other"])
    exchanged = pl.col("relation").replace({"prison": "college", "college": "prison"})
    both = (pl.col("relation") == "prison").any().over("geocode")
    both &= (pl.col("relation") == "college").any().over("geocode")
    moved = people.with_columns(
        geocode=pl.when(in_houses).then(pl.lit("Q0202")).otherwise("geocode"),
        relation=pl.when(both & ~in_houses).then(exchanged).otherwise("relation"),
    )
    moved.reverse().write_parquet(folder / "persons.parquet")
    coarse = pl.read_parquet(folder / "coarse.parquet")
    in_house = pl.col("home") == "house"
    coarse.with_columns(geocode=pl.when(in_house).then(pl.lit("Q0202")).otherwise("geocode")).write_parquet(
        folder / "coarse.parquet"
    )


def two_releases(folder: Path) -> None:
    """A programme of a coarse release and of a detailed one with outer passes, which agrees with it.

    Measurements of the latter say how many people of a block are in a prison and in a college.
    """
    outer_worlds.write_kinds(folder)
    releases = "".join(f'[[releases]]\nname = "{n}"\nfile = "{n}.toml"\n' for n in ("coarse", "persons"))
    detailed = (folder / "persons.toml").read_text()
    (folder / "persons.toml").write_text(detailed.replace('path = "coarse"\n', ""))
    (folder / "programme.toml").write_text(f'[programme]\nname = "two"\n{releases}')


def other_homes(folder: Path) -> None:
    """All people in households are in one block, all housing units alike and occupied; facilities stay."""
    people = pl.read_parquet(folder / COUNTRY / "persons.parquet")
    at_home = pl.col("hhgq") == "household"
    block = people.filter(at_home)["geocode"].max()
    changes = {"geocode": block, "sex": "male", "hispanic": "hispanic", "cenrace": "nhopi"}
    people.with_columns(
        pl.when(at_home).then(pl.lit(value)).otherwise(name).alias(name) for name, value in changes.items()
    ).reverse().write_parquet(folder / COUNTRY / "persons.parquet")
    units = pl.read_parquet(folder / COUNTRY / "units.parquet")
    first = units.filter(pl.col("tenvacgq") == "rented").row(0, named=True)
    same = [name for name in units.columns if name not in ("geocode", "unit")]
    levels = load_preset("dhc-units").attributes[0].levels
    housing = pl.col("tenvacgq").is_in(levels[: levels.index("other_vacant") + 1])
    units.with_columns(
        pl.when(housing).then(pl.lit(first[name])).otherwise(name).alias(name) for name in same
    ).write_parquet(folder / COUNTRY / "units.parquet")
    all_occupied(folder, "h1")


def derived(folder: Path, seed: int = 7, n: int = 60) -> None:
    """A release of households that are derived from persons."""
    (folder / "release.toml").write_text(homes.FILE)
    pl.DataFrame({"geocode": homes.AREAS}).write_csv(folder / "areas.csv")
    homes.write_persons(folder, homes.drawn(np.random.default_rng(seed), n))


RUN: Command = ("run", "release.toml", "--out", "out", *SMALL)
SAFETAB: Command = ("safetab", "run", "p", "d", "--out", "out")
TABLES: Command = ("publish", "csv", "out", "--out", "csv")
FORMS: tuple[Command, ...] = tuple(
    ("publish", form, "out", "--out", form) for form in ("sdmx", "json-stat", "px", "xlsx")
)
SITE: Command = ("explore", "out", "--out", "site")
FULL = ("[outputs]\n", '[outputs]\nmeasurements = "full"\nintervals = "0.95"\n')
BOUNDS = """[[bounds]]
name = "barracks"
query = "home"
geolevel = "Block"
path = "barracks.parquet"
missing = "zero"
"""
DRAWN = (
    ("[[bounds]]", '[[subspace]]\nquery = "total"\ngeolevel = "Town"\nrho = "1/4"\n\n[[bounds]]'),
    ('"discrete_gaussian"\nrho = "2"', '"discrete_gaussian"\nrho = "9/4"'),
    ("[outputs]\n", '[outputs]\nmeasurements = "support"\n'),
)
SMALL_ONES = ("[outputs]\n", '[outputs]\nmeasurements = "small"\n')
ALLOCATED = ("[estimation.passes]", '[estimation]\nblocks = "allocation"\n[estimation.passes]')
NO_MICRODATA = ("[outputs]\n", "[outputs]\nmicrodata = false\n")
OF_COUNTRY: Command = ("run", f"{COUNTRY}/release.toml", "--out", "out", *SMALL)
PROGRAMME_RUN: Command = ("run", "programme.toml", "--out", "out", *SMALL)
BOOK: Command = ("book", "create", "book.jsonl", "--register", "all", "--allow", "rho <= 10")
GROUPS: Command = ("safetab", "run", "stays.toml", "stays.csv", "--out", "out")
HOUSEHOLDS: Command = ("safetab", "households", "p", "d", "--out", "out")
TABLE_RUN: Command = ("subspace", "release", "table.toml", "--out", "out")
MEASURE: Command = ("measure", "release.toml", "--out", "out", *SMALL)
ESTIMATE: Command = ("estimate", "out", "--out", "estimated", *SMALL)
PL94: Command = ("publish", "pl94", "out", "--out", "pl94", "--csv")
DHC_RUN: Command = ("run", f"{COUNTRY}/programme.toml", "--out", "out", *SMALL)
DHC: Command = ("publish", "dhc", "out/dhc-persons", "out/dhc-units", "--out", "dhc")
OTHER_STAYS, OTHER_TABLE = ("S,M,65,A2,A1",), (0, 99, 0, 0, 0, 45)


def with_people(*rows: tuple[Any, ...]) -> Callable[[Path], None]:
    """More rows, at the end of the small release's records."""

    def act(folder: Path) -> None:
        path = folder / "people.parquet"
        people = pl.read_parquet(path)
        pl.concat([people, pl.DataFrame(rows, schema=people.schema, orient="row")]).write_parquet(path)

    return act


def with_lines(name: str, *lines: str) -> Callable[[Path], None]:
    """More lines, behind the header of a text."""

    def act(folder: Path) -> None:
        header, *rest = (folder / name).read_text().splitlines()
        (folder / name).write_text("\n".join([header, *lines, *rest, ""]))

    return act


def both(*writers: Callable[[Path], object]) -> Callable[[Path], None]:
    """One after the other."""

    def act(folder: Path) -> None:
        for write in writers:
            write(folder)

    return act


PLAIN = {
    ReleaseKind.TOPDOWN: Case(small(), crowded, (RUN, TABLES, SITE, ("report", "out"), ("status", "out"))),
    ReleaseKind.MEASUREMENTS: Case(small(FULL), crowded, (MEASURE,), ReleaseKind.MEASUREMENTS),
    ReleaseKind.SAFETAB: Case(persons, other_persons, (SAFETAB,), ReleaseKind.SAFETAB),
    ReleaseKind.HOUSEHOLDS: Case(households, other_households, (HOUSEHOLDS,), ReleaseKind.HOUSEHOLDS),
    ReleaseKind.GROUPS: Case(stays, partial(stays, rows=OTHER_STAYS), (GROUPS,), ReleaseKind.GROUPS),
    ReleaseKind.SUBSPACE: Case(table, partial(table, counts=OTHER_TABLE), (TABLE_RUN,), ReleaseKind.SUBSPACE),
}
"""A small job of each product. A new product needs one."""
FREE = partial(table, law=GAUSSIAN)
SETTINGS = {
    "invariants, bounds, passes, intervals, tables in all forms, a site": Case(
        small(FULL), crowded, (RUN, TABLES, *FORMS, SITE, *READ)
    ),
    "a few people instead of many, Laplace noise": Case(small(*LAPLACE), nearly_empty, (RUN, *READ)),
    "billions of people instead of many": Case(
        small(*LAPLACE, NO_MICRODATA),
        both(nearly_empty, with_people(("Q0305", "young", "house", 2**31 + 5))),
        (RUN,),
    ),
    "a book": Case(small(), crowded, (BOOK, (*RUN, "--book", "book.jsonl"), ("book", "show", "book.jsonl"))),
    "a spine that is made, areas off the spine": Case(with_spine, crowded, (RUN, *READ)),
    "a bypassed spine": Case(bypassed, crowded, (RUN, *READ)),
    "counts on a lattice, measurements of the support": Case(small(*DRAWN), crowded, (RUN, *READ)),
    "small measurements": Case(small(SMALL_ONES), crowded, (RUN, *READ)),
    "blocks by a model": Case(small((BOUNDS, ""), ALLOCATED), crowded, (RUN,)),
    "measured, then estimated": Case(
        small(FULL), crowded, (MEASURE, ESTIMATE, ("verify", "out")), ReleaseKind.MEASUREMENTS
    ),
    "a programme of two releases that agree, outer passes": Case(
        two_releases, gathered, (PROGRAMME_RUN, *READ), None
    ),
    "redistricting data, published": Case(
        partial(redistricting, schema="pl94-persons"), one_household, (OF_COUNTRY, PL94, ("verify", "pl94"))
    ),
    "housing units": Case(partial(redistricting, schema="pl94-units"), all_occupied, (OF_COUNTRY,)),
    "a table that may have negative counts": Case(
        FREE, partial(FREE, counts=OTHER_TABLE), (TABLE_RUN, *READ), ReleaseKind.SUBSPACE
    ),
    "groups of any records, read": replace(PLAIN[ReleaseKind.GROUPS], commands=(GROUPS, *READ)),
    "SafeTab, read": replace(PLAIN[ReleaseKind.SAFETAB], commands=(SAFETAB, *READ)),
    "SafeTab under pure differential privacy": replace(
        PLAIN[ReleaseKind.SAFETAB], inputs=partial(persons, definition="puredp")
    ),
    "households that are derived from persons": Case(
        derived, partial(derived, seed=8, n=20), (RUN, ("verify", "out"))
    ),
    "the DHC, published": Case(dhc, other_homes, (DHC_RUN, DHC, *READ), None),
}
"""What plans and commands may ask for."""


@pytest.fixture
def world(make_small_inputs, tmp_path, monkeypatch) -> World:
    return World(tmp_path, make_small_inputs, monkeypatch)


def require_made(case: Case, files: dict[str, bytes]) -> None:
    """The job made what it is said to make: no two failures are compared. What verifies it finds nothing wrong."""
    for said in files[SAID].decode().split("\n$ "):
        assert said.strip().endswith("exit code 0"), said
    if case.kind is None:
        assert made(files, f"out/{PROGRAMME}")
    else:
        assert made(files, "out/manifest.json")["kind"] == case.kind


def made_by_first(files: dict[str, bytes]) -> str:
    """What the first command said."""
    return files[SAID].decode().split("\n$ ")[0].strip()


def test_every_product_has_a_case():
    assert PLAIN.keys() == PRODUCTS.keys()


@pytest.mark.parametrize("kind", PLAIN)
def test_products(kind, world):
    case = PLAIN[kind]
    first, second = case.done_twice(world)
    require_made(case, first)
    assert case.kind == kind
    assert differences(first, second) == []


@pytest.mark.nightly
@pytest.mark.parametrize("name", SETTINGS)
def test_settings(name, world):
    first, second = SETTINGS[name].done_twice(world)
    require_made(SETTINGS[name], first)
    assert differences(first, second) == []


def leak_into_manifest(patch: pytest.MonkeyPatch) -> None:
    """A number that follows from the records stands in the manifest, in a field that takes any text."""
    whole = once._manifest

    def leaking(run, job, body, checks):
        return whole(run, job, body, [*checks, f"check {job.binding[0]}"])

    patch.setattr(once, "_manifest", leaking)


@pytest.mark.parametrize("kind", [kind if kind is ReleaseKind.SUBSPACE else nightly(kind) for kind in PLAIN])
def test_a_number_in_the_manifest_is_found(kind, world, monkeypatch):
    leak_into_manifest(monkeypatch)
    case = replace(PLAIN[kind], commands=PLAIN[kind].commands[:1])
    first, second = case.done_twice(world)
    require_made(case, first)
    assert any(line.startswith("out/manifest.json ") for line in differences(first, second))


def leak_into_metadata(patch: pytest.MonkeyPatch) -> None:
    """A number that follows from the records stands in the metadata of tables."""
    tags = RunSecrets.file_tags
    patch.setattr(RunSecrets, "file_tags", lambda of: {**tags(of), "leak": str(of.binding[0])})


def leak_into_message(patch: pytest.MonkeyPatch) -> None:
    """A count is said while the table is read."""

    def leaking(table, constraints):
        sys.stderr.write(f"{table.counts.max()}\n")
        check_stated_totals(table, constraints)

    patch.setattr(lattice_run, "check_stated_totals", leaking)


def leak_into_order(patch: pytest.MonkeyPatch) -> None:
    """The records decide which of two files is written first."""
    sums = once._manifest

    def leaking(run, job, *rest):
        for name in sorted(["a", "b"], reverse=job.binding[0] % 2 == 1):
            write_text(run.path / name, "")
        return sums(run, job, *rest)

    patch.setattr(once, "_manifest", leaking)


@pytest.mark.parametrize(
    ("leak", "place"),
    [(leak_into_metadata, "out/table.parquet "), (leak_into_message, SAID), (leak_into_order, WRITTEN)],
)
def test_other_leaks_are_found(leak, place, world, monkeypatch):
    leak(monkeypatch)
    first, second = PLAIN[ReleaseKind.SUBSPACE].done_twice(world)
    assert any(line.startswith(place) for line in differences(first, second))


def done_in_parallel(world: World, *flags: str) -> None:
    """The same, but for the order of files, which the speed of workers decides."""
    case = Case(small(FULL), crowded, ((*RUN[:-1], "2", *flags),))
    first, second = (
        {name: data for name, data in files.items() if name != WRITTEN} for files in case.done_twice(world)
    )
    require_made(case, first)
    assert differences(first, second) == []


@pytest.mark.nightly
def test_on_two_threads(world):
    done_in_parallel(world)


@pytest.mark.nightly
@pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra cluster")
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no second address of their own")
def test_on_a_cluster(nodes, world, monkeypatch):
    for name, text in nodes.environment.items():
        monkeypatch.setenv(name, text)
    done_in_parallel(world, "--executor", f"ray={nodes.address}")


REFUSED = {
    "a level that is none": (
        small(),
        with_people(("P0000", "infant", "house", 1)),
        both(crowded, with_people(*[("Q0305", "ancient", "house", 70)] * 9)),
        RUN,
    ),
    "a block that is none": (
        small(),
        with_people(("P9999", "old", "house", 1)),
        both(crowded, with_people(("Q0305", "old", "house", 5), ("P000000", "old", "house", 5))),
        RUN,
    ),
    "no count": (
        small(),
        with_people(("P0000", "old", "house", -1)),
        both(crowded, with_people(("Q0305", "old", "house", None))),
        RUN,
    ),
    "bounds": (
        small(),
        with_people(("P0000", "old", "barracks", 1)),
        both(crowded, with_people(("Q0303", "old", "barracks", 900), ("Q0304", "old", "barracks", 8))),
        RUN,
    ),
    "a code of SafeTab": (
        persons,
        with_lines("d/person-records.txt", "7|1|True|01|001|000100|1000|01|1000" + "|Null" * 7 + "|7777"),
        both(
            other_persons,
            with_lines(
                "d/person-records.txt", *["9|1|True|01|001|000100|1001|01|2000" + "|Null" * 7 + "|8888"] * 3
            ),
        ),
        SAFETAB,
    ),
    "a code of SafeTab-H": (
        households,
        with_lines("d/household-records.txt", "01|001|000100|1000|01|1000" + "|Null" * 7 + "|9950|7|1"),
        both(
            other_households,
            with_lines(
                "d/household-records.txt", *["01|003|000100|1001|01|2000" + "|Null" * 7 + "|9950|8|1"] * 3
            ),
        ),
        HOUSEHOLDS,
    ),
    "a group that is none": (
        stays,
        with_lines("stays.csv", "X,F,0,A1,"),
        both(partial(stays, rows=OTHER_STAYS), with_lines("stays.csv", *["Y,M,65,B1,A1"] * 5)),
        GROUPS,
    ),
    "a cell that is none": (
        table,
        with_lines("table.csv", "z,u,1"),
        both(partial(table, counts=OTHER_TABLE), with_lines("table.csv", "q,w,700", "z,w,3")),
        TABLE_RUN,
    ),
    "a negative count": (
        table,
        partial(table, counts=(-1, 100, 0, 5, 40, 0)),
        partial(table, counts=(0, 99, 0, 900, -855, 0)),
        TABLE_RUN,
    ),
}
"""Records that break a rule, and others that break the same rule in another place and by another amount."""


@pytest.mark.parametrize("rule", REFUSED)
def test_refused_records(rule, world):
    inputs, wrong, otherwise_wrong, command = REFUSED[rule]
    first = world.job([inputs, wrong], [command], is_reference=True)
    second = world.job([inputs, otherwise_wrong], [command])
    assert "error [" in made_by_first(first)
    assert set(first) == {SAID, WRITTEN}
    assert differences(first, second) == []


@pytest.mark.nightly
@pytest.mark.parametrize("stop_at", [8, 2, 5, 11, 14, 17, 20, 21])
def test_an_interrupted_run(stop_at, world, monkeypatch):
    """What is there before the run goes on, what is said of it, and what it makes in the end."""
    monkeypatch.setattr(status, "_now", lambda: NOW)
    # The private folder, and so `status`, has seconds.
    monkeypatch.setattr(observer, "time", SimpleNamespace(perf_counter=lambda: 0.0))
    case = Case(small(), crowded, (RUN, ("status", "out"), ("status", "out", "--json")))
    first, second = case.done_twice(world, stop_at=stop_at)
    assert made_by_first(first).endswith("stopped")
    assert "out/ledger.jsonl 100644" in first
    assert differences(first, second) == []
    whole = replace(case, commands=(RUN, ("status", "out"), RUN, ("status", "out")))
    first, second = whole.done_twice(world, stop_at=stop_at)
    assert made(first, "out/manifest.json")["kind"] == case.kind
    assert differences(first, second) == []
