"""`tallyveil init`: write a first release file for a table of records."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from tallyveil.cli.frame.arguments import (
    EPSILON,
    GEOGRAPHY,
    GEOLEVELS,
    NEIGHBOURS,
    RHO,
    AsJson,
    Quiet,
    give,
    give_files,
    names_if_any,
    require_utf8,
)
from tallyveil.cli.frame.terminal import say


def init(
    records: Annotated[
        Path | None,
        typer.Argument(help="Confidential table of records (Parquet or CSV).", metavar="RECORDS"),
    ] = None,
    *,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="File to write: the release file.")
    ] = Path("release.toml"),
    geography: Annotated[
        Path | None,
        typer.Option("--geography", metavar="FILE", help=GEOGRAPHY),
    ] = None,
    geocode: Annotated[
        str | None,
        typer.Option("--geocode", metavar="COLUMN", help="Column of the finest geocode, in both tables."),
    ] = None,
    geolevels: Annotated[
        str | None,
        typer.Option(
            "--geolevels",
            metavar="NAME,...",
            help=f"{GEOLEVELS} Each but the finest has the length of its prefix of the geocode "
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
        str | None, typer.Option("--rho", help=f"{RHO} The budget, with discrete Gaussian noise.")
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option("--epsilon", help=f"{EPSILON} The budget, with discrete Laplace noise.")
    ] = None,
    neighbours: Annotated[
        str,
        typer.Option("--neighbours", help=NEIGHBOURS),
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
    as_json: AsJson = False,
) -> None:
    """Write a first release file, which plans and runs as it is.

    The levels of attributes come from a codebook, a sample or flags. They never come from the records, unless
    --levels-from-records says so. Of the records, only the names of the columns are looked at. On a terminal, the
    command asks for what is missing; without any argument it asks the steps of `tallyveil desk`.
    """
    from tallyveil.api.beginning import write_release_file
    from tallyveil.errors import ConfigError

    wanted = names_if_any(attributes, "--attributes")
    with_numbers = names_if_any(numbers, "--numbers")
    if example is not None:
        _write_example(example, quiet=quiet, as_json=as_json)
        return
    if records is None:
        # Without any flag, somebody at a terminal is asked the steps of the desk.
        if sys.stdin.isatty() and len(sys.argv) == len(("tallyveil", "init")):
            from tallyveil.cli.questions import ask_steps, spoken_language
            from tallyveil.desk.draft import Draft

            with Draft.held(Path()) as draft:
                draft.language = spoken_language(os.environ)
                ask_steps(draft)
            return
        raise ConfigError(
            "name the table of records, or ask for made-up ones with --example DIR.", code="bad-flag"
        )
    # Levels from two sources could contradict each other.
    _refuse_several_sources(codebook, sample, levels_from_records)
    place = _answer(
        None if geography is None else str(geography),
        "--geography",
        "Public table of all finest geounits",
    )
    code = _answer(geocode, "--geocode", "Column of the finest geocode")
    levels = _answer(geolevels, "--geolevels", "Geolevels, such as Region=1,Town=3,Block")
    # Both would state a budget, for different laws of noise.
    if rho is not None and epsilon is not None:
        raise ConfigError(
            "give --rho for discrete Gaussian noise, or --epsilon for discrete Laplace noise, not both.",
            code="bad-flag",
        )
    if epsilon is None:
        rho = _answer(rho, "--rho", "Budget, such as 1/2 (policy decides it)")
    names = write_release_file(
        records,
        out,
        geography=place,
        geocode=code,
        geolevels=levels,
        codebook=codebook,
        sample=sample,
        levels_from_records=levels_from_records,
        attributes=wanted,
        numbers=with_numbers,
        ranges=ranges,
        bands=bands,
        count=count,
        rho=rho,
        epsilon=epsilon,
        neighbours=neighbours,
        name=name,
        unit=unit,
        units=units,
    )
    record = {"release_file": str(out), "attributes": names, "levels_from_records": levels_from_records}
    from_records = (
        "Its levels were taken from the records: which values occur there is public once the file is."
    )
    lines = [
        f"{out} is written. It measures {len(names)} attributes: {', '.join(names)}.",
        *([from_records] if levels_from_records else []),
        f"Next: tallyveil plan {out}",
    ]
    give(record, lines, quiet=quiet, as_json=as_json)


def _refuse_several_sources(codebook: Path | None, sample: Path | None, from_records: bool) -> None:
    from tallyveil.errors import ConfigError

    if sum([codebook is not None, sample is not None, from_records]) > 1:
        raise ConfigError(
            "--codebook, --sample and --levels-from-records exclude each other: the levels come from one place.",
            code="bad-flag",
        )


def _answer(value: str | None, flag: str, question: str) -> str:
    """The value of a flag; on a terminal, the answer to a question if the flag is not given."""
    from tallyveil.errors import ConfigError

    if value is not None:
        return value
    # Nobody can answer where no terminal is, and a script would hang.
    if not sys.stdin.isatty():
        raise ConfigError(f"give {flag}. {question}.", code="bad-flag")
    # The question on standard error, because standard output is for the result.
    return require_utf8(str(typer.prompt(f"{question} ({flag})", err=True)))


def _write_example(folder: Path, *, quiet: bool, as_json: bool) -> None:
    from tallyveil.api.beginning import write_example

    paths = write_example(folder)
    if as_json:
        give_files(paths, quiet=quiet, as_json=True)
    elif not quiet:
        say(f"Made-up records, areas and a codebook are in {folder}. Nobody in them is real. To go on:")
        say(
            f"tallyveil init {folder}/persons.csv --geography {folder}/areas.csv --geocode area "
            f"--geolevels Region=1,Town=2,Area --codebook {folder}/codebook.csv --numbers age --rho 1/2 "
            f"--out {folder}/release.toml"
        )
