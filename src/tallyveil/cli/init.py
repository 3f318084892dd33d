"""`tallyveil init`: write a first release file for a table of records."""

import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.cli.arguments import Quiet, require_utf8, split_names
from tallyveil.cli.terminal import say

if TYPE_CHECKING:
    from tallyveil.config.first_levels import FirstAttribute

EXAMPLE = ("persons.csv", "areas.csv", "codebook.csv", "README.txt")


def init(
    records: Annotated[
        Path | None,
        typer.Argument(help="Confidential table of records (Parquet or CSV).", metavar="RECORDS"),
    ] = None,
    *,
    out: Annotated[Path, typer.Option("--out", help="The release file to write.")] = Path("release.toml"),
    geography: Annotated[
        Path | None,
        typer.Option(
            "--geography", metavar="FILE", help="Public table of all finest geounits, also the empty ones."
        ),
    ] = None,
    geocode: Annotated[
        str | None,
        typer.Option("--geocode", metavar="COLUMN", help="Column of the finest geocode, in both tables."),
    ] = None,
    geolevels: Annotated[
        str | None,
        typer.Option(
            "--geolevels",
            metavar="NAME=...,NAME",
            help="Geolevels from the root down. Each but the finest has the length of its prefix of the geocode "
            "(Region=1,Town=3,Block), or its column of the geography (Region=region,Town=town,Block).",
        ),
    ] = None,
    codebook: Annotated[
        Path | None,
        typer.Option(
            "--codebook", metavar="FILE", help="Public table of all levels, with columns attribute and level."
        ),
    ] = None,
    sample: Annotated[
        Path | None,
        typer.Option(
            "--sample",
            metavar="FILE",
            help="Table with the columns of RECORDS that is not confidential and has every level, such as test data.",
        ),
    ] = None,
    levels_from_records: Annotated[
        bool,
        typer.Option(
            "--levels-from-records",
            help="Take the levels from RECORDS. Which values occur there becomes public.",
        ),
    ] = False,
    attributes: Annotated[
        str | None,
        typer.Option(
            "--attributes",
            metavar="COLUMN,...",
            help="Attributes to release. Default: all of the codebook, or all other columns of the sample.",
        ),
    ] = None,
    numbers: Annotated[
        str | None,
        typer.Option(
            "--numbers",
            metavar="COLUMN,...",
            help="Attributes of the codebook whose columns hold whole numbers. Their levels are ranges.",
        ),
    ] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--ranges", metavar="COLUMN=RANGES", help="Ranges of a column of numbers: age=0-17,18-64,65+."
        ),
    ] = None,
    bands: Annotated[
        list[str] | None,
        typer.Option(
            "--bands",
            metavar="COLUMN=START:WIDTH:LAST",
            help="Equal ranges of a column of numbers: age=0:5:85 has 18 bands from 0-4 to 85+.",
        ),
    ] = None,
    count: Annotated[
        str | None,
        typer.Option("--count", metavar="COLUMN", help="Column of counts. Default: each row is one record."),
    ] = None,
    rho: Annotated[
        str | None, typer.Option("--rho", help="Budget with discrete Gaussian noise, such as 1/2.")
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option("--epsilon", help="Budget with discrete Laplace noise, such as 2.")
    ] = None,
    neighbours: Annotated[
        str,
        typer.Option(
            "--neighbours", help="bounded: a record changes its value; unbounded: one is added or removed."
        ),
    ] = "bounded",
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the release. Default: the name of RECORDS.")
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option("--unit", help="What a record stands for, such as household. Default: person."),
    ] = None,
    units: Annotated[
        str | None, typer.Option("--units", help="Plural of --unit. Default: --unit with an s.")
    ] = None,
    example: Annotated[
        Path | None,
        typer.Option(
            "--example",
            metavar="DIR",
            help="Write made-up records, areas and a codebook to DIR, to try this.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write a first release file, which plans and runs as it is.

    The levels of attributes come from a codebook, a sample or flags. They never come from the records, unless
    --levels-from-records says so. Of the records, only the names of the columns are looked at. On a terminal, the
    command asks for what is missing.
    """
    from tallyveil.config.first_file import geolevels_of
    from tallyveil.errors import ConfigError

    if example is not None:
        _write_example(example, quiet)
        return
    if records is None:
        raise ConfigError(
            "name the table of records, or ask for made-up ones with --example DIR.", code="bad-flag"
        )
    if sum([codebook is not None, sample is not None, levels_from_records]) > 1:
        raise ConfigError(
            "--codebook, --sample and --levels-from-records exclude each other: the levels come from one place.",
            code="bad-flag",
        )
    place = Path(
        _asked(
            None if geography is None else str(geography),
            "--geography",
            "Public table of all finest geounits",
        )
    )
    code = _asked(geocode, "--geocode", "Column of the finest geocode")
    levels = geolevels_of(_asked(geolevels, "--geolevels", "Geolevels, such as Region=1,Town=3,Block"))
    budget = _budget(rho, epsilon)
    given = _ranges(ranges or [], bands or [])
    wanted = split_names(attributes) if attributes else None
    found = _attributes(
        records,
        codebook,
        sample,
        from_records=levels_from_records,
        wanted=wanted,
        given=given,
        besides=(code, count),
        numbers=split_names(numbers) if numbers else [],
    )
    from tallyveil.config.make_first import Asked, make_first
    from tallyveil.execution.topdown.inputs import read_spine

    asked = Asked(
        records, place, code, count, levels, found, name or records.stem, unit, units, neighbours, budget, out
    )
    make_first(asked, read_spine)
    if not quiet:
        say(f"{out} is written. It measures {len(found)} attributes: {', '.join(one.name for one in found)}.")
        if levels_from_records:
            say(
                "Its levels were taken from the records: which values occur there is public once the file is."
            )
        say(f"Next: tallyveil plan {out}")


def _asked(value: str | None, flag: str, question: str) -> str:
    """The value of a flag; on a terminal, the answer to a question if the flag is not given."""
    from tallyveil.errors import ConfigError

    if value is not None:
        return value
    if not sys.stdin.isatty():
        raise ConfigError(f"give {flag}. {question}.", code="bad-flag")
    return require_utf8(str(typer.prompt(f"{question} ({flag})", err=True)))


def _budget(rho: str | None, epsilon: str | None) -> tuple[str, str]:
    from tallyveil.errors import ConfigError

    if rho is not None and epsilon is not None:
        raise ConfigError(
            "give --rho for discrete Gaussian noise, or --epsilon for discrete Laplace noise, not both.",
            code="bad-flag",
        )
    if epsilon is not None:
        return "epsilon", epsilon
    return "rho", _asked(rho, "--rho", "Budget, such as 1/2 (policy decides it)")


def _ranges(ranges: list[str], bands: list[str]) -> dict[str, str]:
    """The ranges of each column that flags give."""
    from tallyveil.config.first_levels import bands as ranges_of_bands
    from tallyveil.errors import ConfigError

    found: dict[str, str] = {}
    for flag, texts in (("--ranges", ranges), ("--bands", bands)):
        for text in texts:
            column, equals, value = text.partition("=")
            if not (column and equals and value) or column in found:
                raise ConfigError(
                    f"{flag} has {text!r}, wanted COLUMN=..., with each column once.", code="bad-flag"
                )
            found[column] = value if flag == "--ranges" else ranges_of_bands(value)
    return found


def _attributes(
    records: Path,
    codebook: Path | None,
    sample: Path | None,
    *,
    from_records: bool,
    wanted: list[str] | None,
    given: dict[str, str],
    besides: tuple[str | None, ...],
    numbers: list[str],
) -> "tuple[FirstAttribute, ...]":
    """The attributes of the release, in the order in which their names are given."""
    from tallyveil.config.first_levels import columns_besides, numbered, read_codebook, read_levels
    from tallyveil.config.make_first import refuse_records
    from tallyveil.errors import ConfigError

    for flag, file in (("--codebook", codebook), ("--sample", sample)):
        if file is not None:
            refuse_records(file, records, flag)

    if numbers and codebook is None:
        raise ConfigError(
            "--numbers names attributes of a codebook, which is not given. Give --codebook FILE, or the ranges of each "
            "column of numbers with --ranges or --bands, which need no --numbers.",
            code="bad-flag",
        )
    own = {one.name: one for one in numbered(given)}
    if codebook is not None:
        own = {one.name: one for one in read_codebook(codebook, numbers)} | own
        names = wanted or list(own)
    elif sample is not None or from_records:
        if from_records and wanted is None:
            raise ConfigError("--levels-from-records needs --attributes COLUMN,...", code="bad-flag")
        path, what = (records, "records") if sample is None else (sample, "sample")
        names = wanted or list(columns_besides(path, besides, what))
        rest = [one for one in names if one not in own]
        read = read_levels(path, rest, what, confidential=from_records)
        own |= {one.name: one for one in read}
    else:
        names = wanted or list(own)
    if lacking := [one for one in names if one not in own] or ([] if names else ["every attribute"]):
        raise ConfigError(
            f"nothing says which levels {', '.join(lacking)} has. Give --codebook FILE, --sample FILE, --ranges or "
            "--bands. Levels are not guessed from confidential records.",
            code="bad-flag",
        )
    return tuple(own[one] for one in names)


def _write_example(folder: Path, quiet: bool) -> None:
    from tallyveil.storage.outputs import new_folder
    from tallyveil.storage.write import write_text

    source = resources.files("tallyveil") / "tutorial"
    with new_folder(folder, "init", "a made-up example", EXAMPLE):
        for name in EXAMPLE:
            write_text(folder / name, (source / name).read_text(encoding="utf-8"))
    if not quiet:
        say(f"Made-up records, areas and a codebook are in {folder}. Nobody in them is real. To go on:")
        say(
            f"tallyveil init {folder}/persons.csv --geography {folder}/areas.csv --geocode area "
            f"--geolevels Region=1,Town=2,Area --codebook {folder}/codebook.csv --numbers age --rho 1/2 "
            f"--out {folder}/release.toml"
        )
