"""Check what a first release file is made of, write it, and plan it."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tallyveil.budget.fractions import parse_fraction
from tallyveil.config.first_file import FirstFile, relative_to, release_text, tables_of
from tallyveil.config.first_levels import FirstAttribute
from tallyveil.config.load import plan_from_mapping
from tallyveil.errors import ConfigError
from tallyveil.storage.outputs import claim_file
from tallyveil.storage.read import read_table, scan_table
from tallyveil.storage.write import write_text


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody asks for, with paths as they see them.

    Attributes:
        records, geography: Paths of the tables.
        geocode, count: Columns.
        geolevels: As in `FirstFile`.
        attributes: The attributes.
        name, unit, units, neighbours: As in `FirstFile`.
        budget: Unit and value, as text.
        out: The file to write.
    """

    records: Path
    geography: Path
    geocode: str
    count: str | None
    geolevels: tuple[tuple[str, int | str | None], ...]
    attributes: tuple[FirstAttribute, ...]
    name: str
    unit: str | None
    units: str | None
    neighbours: str
    budget: tuple[str, str]
    out: Path


def make_first(asked: Asked) -> None:
    """Write a release file. It is planned before it is written, so a file that is there can be used.

    Raises:
        ConfigError, SchemaError, BudgetError: something asked for is wrong, such as a column that is not there, or
            counts that are no whole numbers.
        StoreError: a table cannot be read, or `out` exists.
    Privacy: of the records, only the names and types of the columns are looked at.
    """
    claim_file(asked.out, [asked.records, asked.geography])
    wanted = [asked.geocode, *(one.name for one in asked.attributes), *([asked.count] if asked.count else [])]
    records = scan_table(asked.records, wanted, "records", confidential=True)
    if asked.count is not None:
        _refuse_weights(records.collect_schema()[asked.count], asked)
    columns = [source for _, source in asked.geolevels if isinstance(source, str)]
    codes = read_table(asked.geography, [asked.geocode, *columns], "geography")[asked.geocode].cast(pl.String)
    length = codes.str.len_chars().max()
    folder = asked.out.parent
    unit, value = asked.budget
    text = release_text(
        FirstFile(
            name=asked.name,
            records=relative_to(asked.records, folder),
            geocode=asked.geocode,
            count=asked.count,
            geography=relative_to(asked.geography, folder),
            geolevels=asked.geolevels,
            finest_length=length if isinstance(length, int) else 0,
            attributes=asked.attributes,
            unit=asked.unit,
            units=asked.units,
            neighbours=asked.neighbours,
            budget=(unit, parse_fraction(value, f"--{unit}")),
            tables=tables_of(asked.attributes),
        )
    )
    plan_from_mapping(tomllib.loads(text), folder)
    write_text(asked.out, text)


def _refuse_weights(kind: pl.DataType, asked: Asked) -> None:
    if kind.is_float():
        raise ConfigError(
            f"column {asked.count!r} of the records file {asked.records} holds decimal numbers, such as survey "
            "weights. A weighted count has no fixed sensitivity, so it cannot be released. Leave --count out to "
            "count the records of the sample, or store the counts as whole numbers.",
            code="fractional-weights",
        )
