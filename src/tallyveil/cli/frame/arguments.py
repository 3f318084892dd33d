"""Arguments and flags that several commands share, what a group of commands is, and how commands print what they made.

One grammar holds for all commands: a flag of one name has one type, one metavar and one meaning. Its help begins with
the same sentence everywhere, and a command may add what it does with it. A test holds this.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from tallyveil.cli.frame.terminal import say, say_json
from tallyveil.errors import ConfigError, StoreError
from tallyveil.printable import has_bytes

if TYPE_CHECKING:
    from tallyveil.runs.executors import Where


DELTA = "Delta, an exact number such as 1e-10."
ENTITIES = (
    "Public table of off-spine entities: a column geocode, and one column for each family (Parquet or CSV)."
)
EPSILON = "Epsilon, an exact number such as 0.5."
FAMILIES = "Families of entities."
GEOGRAPHY = "Public table of all finest geounits, also the empty ones."
GEOLEVELS = "Geolevels from the root down, separated by commas."
NEIGHBOURS = "bounded: a record changes its value. unbounded: one is added or removed."
RHO = "Rho, an exact number such as 1/2."
SCHEMA = "Schema preset, such as pl94-persons."
STRATEGY = "Strategy preset, or release file, with the queries and the shares of the budget."


class PlotFormat(StrEnum):
    """File formats of plots."""

    SVG = "svg"
    PNG = "png"


ReleaseFilePath = Annotated[Path, typer.Argument(help="The release file (TOML).", metavar="RELEASE.TOML")]
FinishedRelease = Annotated[Path, typer.Argument(help="Folder of a finished release.", metavar="RUN")]
Out = Annotated[
    Path,
    typer.Option(
        "--out", metavar="FOLDER", help="Folder of the release: new, empty, or with an unfinished run."
    ),
]
FilesOut = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder of the files; new or empty.")]
Seed = Annotated[
    int,
    typer.Option(
        "--seed", min=0, help="The same seed gives the same result, and another one another result."
    ),
]
MeasurementsFolder = Annotated[
    Path,
    typer.Argument(
        help="Folder of `tallyveil measure`, or of a finished release with all measurements.",
        metavar="MEASUREMENTS",
    ),
]
LabelLanguage = Annotated[
    str | None,
    typer.Option("--language", metavar="TAG", help="Language of the labels of RUN, such as de."),
]
Csv = Annotated[bool, typer.Option("--csv", help="Write every table as CSV, too.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing but errors.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON. Progress is logged as JSON lines.")
]
NotPrivate = Annotated[
    bool,
    typer.Option("--i-understand-this-is-not-private", help="Required where the results reveal true counts."),
]
Plots = Annotated[PlotFormat, typer.Option("--plots", help="Format of plots.")]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        help="Number of threads, or of worker processes of a cluster. Default: one for each core, or for each "
        "processor of the cluster. The release does not depend on it.",
    ),
]
Executor = Annotated[
    str | None,
    typer.Option(
        "--executor",
        metavar="threads|ray[=HOST:PORT]",
        help="Where the work is done: threads of this machine, or worker processes of a Ray cluster, with the address "
        "of its head. Default: what the release file says, else threads. The release does not depend on it.",
    ),
]
Book = Annotated[
    Path | None,
    typer.Option(
        "--book",
        metavar="FILE",
        help="The book of the register, into which the spend is entered first; the run is refused where too little is "
        "left. Default: what the release file or the environment variable TALLYVEIL_BOOK names.",
    ),
]
District = Annotated[
    Path | None,
    typer.Option(
        "--district",
        metavar="FILE",
        help="Count one district, which consists of the finest geounits in FILE; or all districts, if a column of FILE "
        "says the district of each finest geounit, as in block assignment files. Nothing is written into the release.",
    ),
]
DistrictColumn = Annotated[
    str | None,
    typer.Option(
        "--district-column",
        metavar="NAME",
        help="With --district: the column that names the district of each finest geounit. Default: the only column "
        "whose values differ.",
    ),
]
Covariates = Annotated[
    Path | None,
    typer.Option(
        "--covariates",
        metavar="FILE",
        help="Table with a column geocode and one or two columns of public numbers of every finest geounit, such "
        "as housing units (Parquet or CSV). The model of draws learns from them how many people live there.",
    ),
]
EarlierCensus = Annotated[
    Path | None,
    typer.Option(
        "--earlier-census",
        metavar="FILE",
        help="Table of counts of an earlier census: geocode, one or more attributes, and count (Parquet or CSV), "
        "for geounits of any geolevel below the root. The model of draws learns from it who lives there.",
    ),
]
Level = Annotated[float, typer.Option("--level", help="Coverage of each interval.")]
TimingsFile = Annotated[
    Path | None,
    typer.Option(
        "--timings",
        metavar="FILE",
        help="Append the seconds and memory of each stage, and the machines of a cluster, to this file as JSON lines. "
        "It must lie outside the release, which holds nothing of the kind.",
    ),
]
InsecureTestKey = Annotated[
    str | None,
    typer.Option(
        "--insecure-test-key",
        metavar="TEXT",
        help="Derive all noise from this text, for tests. The release then protects nobody, and its files say so.",
    ),
]


def cluster_of(executor: str | None) -> "Where":
    """Where the work is done, as `--executor` says; None where it is not given.

    Raises:
        ConfigError: it is neither threads, nor ray, nor ray with an address.
    """
    if executor is None:
        return None
    from tallyveil.runs.executor import WANTED_ADDRESS, ClusterSettings, is_address
    from tallyveil.runs.executors import WORDS

    for word in WORDS:
        if executor == word:
            return word
    name, _, address = executor.partition("=")
    if name != "ray" or not is_address(address):
        raise ConfigError(
            f"--executor is {executor!a:.80}, wanted threads, ray, or ray= with {WANTED_ADDRESS}.",
            code="bad-flag",
        )
    return ClusterSettings(address)


def require_utf8(text: str) -> str:
    """A text that somebody typed, unchanged: an argument, an answer, or the working folder.

    Raises:
        StoreError: it has bytes that are no UTF-8, which readers of Parquet and JSON cannot take.
    """
    if has_bytes(text):
        raise StoreError(
            f"got '{text}', which has bytes that are no UTF-8 text; wanted paths and values in UTF-8. Rename the file "
            "or the folder.",
            code="path-not-text",
        )
    return text


def typed(text: str) -> str:
    """What somebody typed as an argument, with the path in place of a `file://` address.

    Raises:
        StoreError: it has bytes that are no UTF-8.
        ConfigError: it is an address that cannot be used.
    """
    require_utf8(text)
    flag, sign, value = text.partition("=") if text.startswith("--") else ("", "", text)
    if value.lower().startswith(("s3://", "file://")):
        from tallyveil.storage.addresses import addressed

        path = addressed(value)
        value = str(path) if value.lower().startswith("file://") else value
    return flag + sign + value


def give(record: Mapping[str, Any], lines: Iterable[str], *, quiet: bool, as_json: bool) -> None:
    """Print what a command has made.

    Args:
        record: The result, for programs.
        lines: The same for readers.
        quiet: Whether nothing is printed.
        as_json: Whether the result is printed as JSON, also if `quiet` is given.
    """
    if as_json:
        say_json(record)
    elif not quiet:
        for line in lines:
            say(line)


def give_files(paths: Sequence[Path], *, quiet: bool, as_json: bool) -> None:
    """Print the paths of the files that a command has written; `quiet` and `as_json` as for `give`."""
    names = [str(path) for path in paths]
    give({"files": names}, names, quiet=quiet, as_json=as_json)


def names_of(text: str, flag: str) -> list[str]:
    """The names in the value of a flag, which are separated by commas.

    Raises:
        ConfigError: there is none. Leaving the flag out means something else in most commands.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ConfigError(
            f"{flag} is '{text:.80}', which holds no name. Give one name or several, separated by commas, or leave the "
            "flag out.",
            code="bad-flag",
        )
    return names


def names_if_any(text: str | None, flag: str) -> list[str] | None:
    """The same of a flag that may be left out; None where it was. Raises ConfigError."""
    return None if text is None else names_of(text, flag)


class WholeHelp(typer.core.TyperGroup):
    """A group of commands whose list does not shorten the help of a command."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each command with the first paragraph of its help."""
        with formatter.section("Commands"):
            formatter.write_dl(self.summaries(ctx))

    def summaries(self, ctx: Any) -> list[tuple[str, str]]:
        """Each command with the first paragraph of its help."""
        commands = [self.get_command(ctx, name) for name in self.list_commands(ctx)]
        return [
            (str(command.name), " ".join(str(command.help).partition("\n\n")[0].split()))
            for command in commands
            if command
        ]


def group_of_commands(name: str, help_text: str) -> typer.Typer:
    """A group of commands, which are registered with it one after another."""
    return typer.Typer(
        name=name,
        cls=WholeHelp,
        help=help_text,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
    )
