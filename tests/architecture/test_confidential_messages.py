"""No message of the confidential side holds anything of the file that it is about.

Every reader of confidential files is given files with a canary in one place after another: in the header, in the
place of a missing header, in each field of a row, in the names inside a Parquet type. Whatever is wrong with the file,
the canary must not be said: not by the error, not by its causes, not by a log, not by a compiled library that writes to
the process's error output on its own.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests import toy_country as toy
from tests.samples import nightly

from tallyveil.budget.strategy import Mechanism
from tallyveil.cli.main import main
from tallyveil.confidential.records import read_records
from tallyveil.errors import TallyveilError
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.products.lattice.confidential import read_confidential_table
from tallyveil.products.safetab.confidential.group_records import read_group_records
from tallyveil.products.safetab.confidential.records import read_coded_records
from tallyveil.products.safetab.public.files import PERSONS
from tallyveil.products.safetab.public.group_plan import GroupPlan, LevelNoise, ladder_of, mapped_level
from tallyveil.products.safetab.public.groupings import grouping_from_rows, list_groups
from tallyveil.products.safetab.public.households import HOUSEHOLDS
from tallyveil.products.safetab.public.levels import level_laws
from tallyveil.products.safetab.public.plan import read_plan
from tallyveil.products.safetab.public.regions import read_regions
from tallyveil.schema.attribute import Attribute
from tallyveil.schema.schema import Schema

CANARY = "99173310"
"""Digits, so that it fits wherever a number or a word may stand."""

SCHEMA = Schema(
    "people", (Attribute("age", ("young", "old")), Attribute("home", ("house", "hall")))
)  # fmt: skip
SPINE = spine_from_prefixes(["A1", "A2", "B1"], ("Region", "Town"), (1, 2))


@dataclass(frozen=True)
class Reader:
    """One reader of the confidential side.

    Attributes:
        name: Name of the file, without its ending.
        separator: Of its text.
        text: Ending of its text.
        columns: Its header.
        rows: Rows that it takes.
        read: The reader, of the file's path.
    """

    name: str
    separator: str
    text: str
    columns: list[str]
    rows: list[list[str]]
    read: Callable[[Path], Any]


def groups_of(path: Path) -> GroupPlan:
    """A plan of one level, by the values of two columns."""
    groups = [("young", "Y"), ("old", "O"), ("house", "Y"), ("7", None), ("3", "O")]
    own = grouping_from_rows("place", ["age", "home", "n"], "any", groups)
    listed, ladder = list_groups("places", [own], False), ladder_of(SCHEMA, ("age",))
    gaussian, one = Mechanism.DISCRETE_GAUSSIAN, Fraction(1)
    laws = level_laws(gaussian, one, 1, Fraction(1, 10), path.name)
    numbers = {"budget": one, "thresholds": (1,), "stability": 1}
    level = mapped_level("places", 0, LevelNoise(0, 0), listed, ladder, laws, **numbers)
    columns = (("age", "age"), ("home", "home"))
    return GroupPlan(
        name="groups",
        mechanism=gaussian,
        declared=one,
        spent=one,
        delta=Fraction(1, 100),
        stage_1_fraction=Fraction(1, 10),
        schema=SCHEMA,
        columns=columns,
        groupings=(own,),
        levels=(level,),
    )


@pytest.fixture(scope="module")
def readers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    plan = read_plan(toy.write_params(folder / "p"))
    persons = [list(row) for row in toy.person_rows(6)]
    regions = read_regions(toy.write_data(folder / "d", [tuple(row) for row in persons]), plan.config)
    households = [[*row[3:8], *row[8:16], row[16], "1", "2"] for row in persons]
    levels = {"age": "age", "home": "home"}

    def records(path: Path) -> Any:
        return read_records(path, geocode="code", count="n", columns=levels, schema=SCHEMA, spine=SPINE)

    def coded(form: Any) -> Callable[[Path], Any]:
        return lambda path: read_coded_records(
            path.parent, form, lambda _: {}, plan.config, plan.files, regions
        )

    table = [["A1", "young", "house", "7"], ["B1", "old", "hall", "3"]]
    return {
        "records": Reader("people", ",", ".csv", ["code", "age", "home", "n"], table, records),
        "table": Reader(
            "table",
            ",",
            ".csv",
            ["age", "home", "n"],
            [row[1:] for row in table],
            lambda path: read_confidential_table(path, count="n", columns=levels, schema=SCHEMA),
        ),
        "groups": Reader(
            "groups",
            ",",
            ".csv",
            ["age", "home", "n"],
            [row[1:] for row in table],
            lambda path: read_group_records(path, groups_of(path)),
        ),
        "persons": Reader(PERSONS.stem, "|", ".txt", PERSONS.columns, persons, coded(PERSONS)),
        "households": Reader(HOUSEHOLDS.stem, "|", ".txt", HOUSEHOLDS.columns, households, coded(HOUSEHOLDS)),
    }


def hostile_texts(reader: Reader) -> Iterator[tuple[str, bytes]]:
    """Texts with a canary in one place each."""
    header, rows = reader.columns, reader.rows

    def joined(lines: list[list[str]], end: str = "\n", separator: str = reader.separator) -> bytes:
        return "".join(separator.join(line) + end for line in lines).encode()

    for column in range(len(header)):
        marked = [CANARY if place == column else value for place, value in enumerate(rows[0])]
        yield f"no header, {column}", joined([marked, *rows])
        yield f"row, {column}", joined([header, marked, *rows])
        yield f"last row, {column}", joined([header, *rows, marked])
        yield f"CR, {column}", joined([header, marked, *rows], end="\r")
        yield f"no header and CR, {column}", joined([marked, *rows], end="\r")
        other = [CANARY if place == column else name for place, name in enumerate(header)]
        yield f"header, {column}", joined([other, *rows])
        yield f"header twice, {column}", joined([[*header, header[column]], [*marked, CANARY]])
        yield f"quoted, {column}", joined([header, [f'"{value}"' for value in marked]])
        yield f"open quote, {column}", joined([header, [f'"{value}' for value in marked]])
        yield f"BOM and no header, {column}", b"\xef\xbb\xbf" + joined([marked, *rows])
        yield f"no UTF-8, {column}", joined([header]) + joined([marked]).replace(b"9917", b"\xff9917")
    marked = [CANARY, *rows[0][1:]]
    yield "further column", joined([[*header, CANARY], [*rows[0], "1"]])
    yield "further field", joined([header, [*rows[0], CANARY], *rows])
    yield "fewer fields", joined([header, [CANARY], *rows])
    for separator in ";\t ":
        yield f"separator {separator!r}", joined([header, marked, *rows], separator=separator)
        yield f"separator {separator!r}, no header", joined([marked, *rows], separator=separator)
    yield "one line", CANARY.encode()
    yield "one line without an end", (CANARY * 1000).encode()
    yield "zeros", joined([header, marked]).replace(b"\n", b"\0\n")
    yield "empty lines first", b"\n\n" + joined([marked, *rows])


def hostile_columns() -> Iterator[tuple[str, pl.Series]]:
    """Columns of two values, of all kinds, with a canary in their values or in their type."""
    yield "list", pl.Series([[CANARY], [CANARY]])
    yield "structure", pl.Series([{CANARY: 1}, {CANARY: 2}])
    yield "bytes", pl.Series([b"\xff" + CANARY.encode(), b"x"])
    yield "date", pl.Series([date(9917, 3, 31), date(2020, 1, 1)])
    yield "time", pl.Series([time(1, 2), time(3, 4)])
    yield "moment", pl.Series([int(CANARY), 5]).cast(pl.Datetime("us"))
    yield "duration", pl.Series([int(CANARY), 5]).cast(pl.Duration("us"))
    yield "words", pl.Series([CANARY, "x"])
    yield "category", pl.Series([CANARY, "x"]).cast(pl.Categorical)
    yield "enum", pl.Series([CANARY, "x"], dtype=pl.Enum([CANARY, "x"]))
    yield "numbers", pl.Series([int(CANARY), -1])
    yield "fractions", pl.Series([float(CANARY) + 0.5, float("nan")])
    yield "decimals", pl.Series([Decimal(CANARY) / 100, Decimal("0.01")])
    yield "large", pl.Series([2**63 + int(CANARY), 1], dtype=pl.UInt64)
    yield "flags", pl.Series([True, False])
    yield "nulls", pl.Series([None, None], dtype=pl.Null)


def said_by(reader: Reader, path: Path, capfd: Any, caplog: Any) -> str:
    """Everything that is said while a file is read; it may be taken, or refused on purpose, and nothing else."""
    caplog.clear()
    heard = ""
    try:
        reader.read(path)
    except TallyveilError as error:
        told: BaseException | None = error
        while told is not None:
            heard += f"{told} {told!r} {getattr(told, '__notes__', '')}"
            told = told.__cause__ or (None if told.__suppress_context__ else told.__context__)
    streams = capfd.readouterr()
    return heard + streams.out + streams.err + caplog.text


KINDS = ["records", "table", "groups", "persons", nightly("households")]
"""Households have the reader of persons."""


@pytest.mark.parametrize("kind", KINDS)
def test_text(readers, kind, tmp_path, capfd, caplog):
    caplog.set_level(logging.DEBUG)
    reader = readers[kind]
    path = tmp_path / (reader.name + reader.text)
    for place, content in hostile_texts(reader):
        path.write_bytes(content)
        assert CANARY not in said_by(reader, path, capfd, caplog), place


@pytest.mark.parametrize("kind", KINDS)
def test_parquet(readers, kind, tmp_path, capfd, caplog):
    caplog.set_level(logging.DEBUG)
    reader = readers[kind]
    path = tmp_path / f"{reader.name}.parquet"
    sound = {name: [row[place] for row in reader.rows[:2]] for place, name in enumerate(reader.columns)}
    for name in reader.columns:
        for shape, column in hostile_columns():
            pl.DataFrame(sound | {name: column}).write_parquet(path)
            assert CANARY not in said_by(reader, path, capfd, caplog), (name, shape)
        renamed = {CANARY if other == name else other: values for other, values in sound.items()}
        pl.DataFrame(renamed).write_parquet(path)
        assert CANARY not in said_by(reader, path, capfd, caplog), (name, "renamed")
    pl.DataFrame(sound | {CANARY: [1, 2]}).write_parquet(path)
    assert CANARY not in said_by(reader, path, capfd, caplog), "further column"
    path.write_bytes(CANARY.encode())
    assert CANARY not in said_by(reader, path, capfd, caplog), "no Parquet"


@pytest.mark.parametrize("ending", ["\n", "\r"])
def test_a_record_file_without_a_header_keeps_its_first_person(
    small_release, tmp_path, monkeypatch, capfd, ending
):
    people = small_release.parent / "people.csv"
    rows = [f"A11{place},young,house,{CANARY}" for place in range(3)]
    people.write_text(ending.join([*rows, ""]))
    small_release.write_text(small_release.read_text().replace("people.parquet", "people.csv"))
    monkeypatch.setattr(
        sys, "argv", ["tallyveil", "run", str(small_release), "--out", str(tmp_path / "out"), "--quiet"]
    )
    with pytest.raises(SystemExit) as ended:
        main()
    said = capfd.readouterr()
    assert ended.value.code == 2
    assert "column-missing" in said.err
    assert CANARY not in said.out + said.err
    assert not (tmp_path / "out").exists()
