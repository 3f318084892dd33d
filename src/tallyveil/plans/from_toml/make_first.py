"""Check what a first release file is made of, write it, and plan it."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import polars as pl

from tallyveil.budget.strategy import expected_errors, parse_fraction
from tallyveil.errors import ConfigError
from tallyveil.plans.from_toml.first_file import FirstFile, relative_to, release_text, tables_of
from tallyveil.plans.from_toml.first_levels import FirstAttribute
from tallyveil.plans.from_toml.load import plan_from_mapping
from tallyveil.plans.inputs import GeographyInput
from tallyveil.storage.outputs import new_file
from tallyveil.storage.paths import is_same_file
from tallyveil.storage.read import (
    collect,
    require_counts,
    require_levels,
    require_numbers,
    require_text,
    scan_table,
)
from tallyveil.storage.write import write_text


@dataclass(frozen=True, slots=True)
class FirstFileWishes:
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


def make_first(asked: FirstFileWishes, read_geography: Callable[[GeographyInput], object]) -> None:
    """Write a release file. It is planned before it is written, so a file that is there can be used.

    Args:
        asked: What the file is made of.
        read_geography: Reads the geography as a run does. Its result is not used.
    Raises:
        ConfigError, SchemaError, BudgetError: something asked for is wrong, such as a column that is not there, or
            counts that are no whole numbers.
        GeographyError: the geocodes are no tree with these geolevels.
        StoreError: a table cannot be read, or `out` exists.
    Privacy: of the records, only the names and types of the columns are looked at.
    """
    refuse_records(asked.geography, asked.records, "--geography")
    with new_file(asked.out, [asked.records, asked.geography]):
        _look_at_columns(asked)
        text = release_text(_first_file(asked))
        plan = plan_from_mapping(tomllib.loads(text), asked.out.parent)
        expected_errors(plan.strategy)
        read_geography(plan.geography)
        write_text(asked.out, text)


def refuse_records(public: Path, records: Path, flag: str) -> None:
    """Refuse the confidential table where a public one is wanted.

    Args:
        public: The file that a flag names.
        records: The confidential table.
        flag: The flag.
    Raises:
        ConfigError: both are the same file, possibly through symbolic or hard links.
    """
    if not is_same_file(public, records):
        return
    raise ConfigError(
        f"{flag} names the records. Its file must be public, because what it says is published: a codebook and a "
        "geography also list what no record has. Name another file. If the values that occur in the records may "
        "become public, --levels-from-records takes the levels from them.",
        code="bad-flag",
    )


def _look_at_columns(asked: FirstFileWishes) -> None:
    """Check the names and types of the columns of the records."""
    path, names = asked.records, [attribute.name for attribute in asked.attributes]
    wanted = [asked.geocode, *names, *([asked.count] if asked.count else [])]
    records = scan_table(path, wanted, "records", confidential=True)
    require_text(records, asked.geocode, path, "records")
    require_levels(records, names, path, "records")
    require_numbers(
        records, [attribute.name for attribute in asked.attributes if attribute.is_number], path, "records"
    )
    if asked.count is not None:
        _refuse_weights(records.collect_schema()[asked.count], asked)
        require_counts(records, asked.count, path, "records")


def _first_file(asked: FirstFileWishes) -> FirstFile:
    """What the file will say."""
    folder = asked.out.parent
    return FirstFile(
        name=asked.name,
        records=relative_to(asked.records, folder),
        geocode=asked.geocode,
        count=asked.count,
        geography=relative_to(asked.geography, folder),
        geolevels=asked.geolevels,
        finest_length=_finest_length(asked),
        attributes=asked.attributes,
        unit=asked.unit,
        units=asked.units,
        neighbours=asked.neighbours,
        budget=_budget(asked),
        tables=tables_of(asked.attributes),
    )


def _finest_length(asked: FirstFileWishes) -> int:
    """Number of characters of the longest of the finest geocodes."""
    columns = [source for _, source in asked.geolevels if isinstance(source, str)]
    frame = scan_table(asked.geography, [asked.geocode, *columns], "geography")
    require_text(frame, asked.geocode, asked.geography, "geography")
    codes = collect(frame.select(pl.col(asked.geocode).cast(pl.String)), asked.geography, "geography")
    length = codes.to_series().str.len_chars().max()
    return length if isinstance(length, int) else 0


def _budget(asked: FirstFileWishes) -> tuple[str, Fraction]:
    unit, text = asked.budget
    value = parse_fraction(text, f"--{unit}")
    if value <= 0:
        raise ConfigError(f"--{unit} is {text}, wanted a number above 0, such as 1/2.", code="bad-flag")
    return unit, value


def _refuse_weights(kind: pl.DataType, asked: FirstFileWishes) -> None:
    if kind.is_float():
        raise ConfigError(
            f"column {asked.count!r} of the records file {asked.records} holds decimal numbers, such as survey "
            "weights. A weighted count has no fixed sensitivity, so it cannot be released. Leave --count out to "
            "count the records of the sample, or store the counts as whole numbers.",
            code="fractional-weights",
        )
