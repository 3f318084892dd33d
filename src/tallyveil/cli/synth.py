"""`tallyveil synth`: make up a population of any size, with a release file that is ready to run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.cli.frame.arguments import SCHEMA, AsJson, Quiet, Seed, give_files

if TYPE_CHECKING:
    pass

DEFAULT_SCHEMA = "pl94-persons"


def synth(
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder to write to.")],
    blocks: Annotated[
        int | None,
        typer.Option("--blocks", min=1, help="Number of finest geounits. Not with --like."),
    ] = None,
    people: Annotated[
        int | None,
        typer.Option("--people", min=0, help="Number of people. Default: about 40 for each block."),
    ] = None,
    states: Annotated[
        int | None,
        typer.Option(
            "--states",
            min=1,
            max=51,
            help="Number of states; fewer if there are fewer counties. Default: one for every 400,000 blocks. A "
            "geolevel US is above several states.",
        ),
    ] = None,
    schema: Annotated[
        str,
        typer.Option(
            "--schema",
            help=f"{SCHEMA} Also pl94-units (the housing units of the same people: keep all other flags), race-age, "
            "and dhc (households with people in them, and a programme of four releases).",
        ),
    ] = DEFAULT_SCHEMA,
    like: Annotated[
        Path | None,
        typer.Option(
            "--like",
            help="Keep the counts of this table: geocode, voting_age, race_ethnicity, count (Parquet or CSV).",
        ),
    ] = None,
    like_geography: Annotated[
        Path | None,
        typer.Option(
            "--like-geography",
            help="Table of all blocks of --like, including empty ones: geocode, state, county, tract, block_group. "
            "Default: the table *_blocks beside *_counts if there is one, else only the blocks of --like.",
        ),
    ] = None,
    agree: Annotated[
        bool,
        typer.Option(
            "--agree",
            help="With --schema dhc: a programme whose files of persons and of units agree.",
        ),
    ] = False,
    sizes: Annotated[
        str,
        typer.Option(
            "--sizes",
            help="With --agree: household sizes add up to the people in households of every tract or block (none, "
            "tract, block); tract with one state only.",
        ),
    ] = "none",
    safetab: Annotated[
        Path | None,
        typer.Option(
            "--safetab",
            metavar="PARAMS",
            help="Instead, make SafeTab's person-records and GRF-C for the codes and states of this parameter folder.",
        ),
    ] = None,
    geometry: Annotated[
        bool,
        typer.Option(
            "--geometry",
            help="Make up a polygon for every block, too, and name them in the release files. To run these needs the "
            "extra `maps`.",
        ),
    ] = False,
    seed: Seed = 1,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make up a population: records, geography, off-spine entities, facility bounds and a release file.

    With `--schema dhc`, the people live in households and facilities: `persons.parquet` and `units.parquet` agree.

    No person in it is real, so it needs no protection. Use it for trials, tests and benchmarks.
    """
    from tallyveil.api.beginning import NO_SIZE, write_country, write_safetab_country
    from tallyveil.errors import ConfigError

    if safetab is not None:
        foreign = (states, like, like_geography) != (None, None, None) or agree or geometry
        if foreign or schema != DEFAULT_SCHEMA or sizes != "none":
            raise ConfigError(NO_SIZE, code="bad-flag")
        paths = write_safetab_country(out, safetab, blocks=blocks, people=people, seed=seed)
    else:
        paths = write_country(
            out,
            blocks=blocks,
            people=people,
            states=states,
            schema=schema,
            like=like,
            like_geography=like_geography,
            seed=seed,
            agree=agree,
            sizes=sizes,
            geometry=geometry,
        )
    give_files(paths, quiet=quiet, as_json=as_json)
