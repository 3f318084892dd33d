"""`tallyveil explore`: a finished release as a static site, for the browser."""

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

from tallyveil.cli.frame.arguments import AsJson, FinishedRelease, Quiet, give, names_if_any
from tallyveil.cli.frame.terminal import say

SECONDS_BETWEEN_LOOKS = 0.5
"""Windows does not end a longer wait when Ctrl-C is pressed."""

OpenIt = Annotated[
    bool,
    typer.Option(
        "--open",
        help="Serve the site to the browser of this machine, and open it. Ctrl-C ends it. The page of tables answers "
        "questions then.",
    ),
]


def explore(
    release: FinishedRelease,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FOLDER",
            help="Folder of the site: new, empty, or with an earlier site, which is replaced. Default: RUN-explorer, "
            "beside RUN.",
        ),
    ] = None,
    tables: Annotated[
        str | None,
        typer.Option(
            "--tables",
            metavar="QUERY,...",
            help="Queries. Default: the queries of the release's tables and of its intervals.",
        ),
    ] = None,
    compared: Annotated[
        Path | None,
        typer.Option(
            "--with",
            metavar="RUN",
            help="Folder of a second finished release of the same areas. Its counts are shown beside those of the "
            "first.",
        ),
    ] = None,
    open_it: OpenIt = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make a site of a finished release, to look at in the browser: areas, tables, intervals.

    Reads published files alone, and costs no budget. The site is a folder of static files that any web server can
    serve. Nothing in it is loaded from elsewhere.
    """
    from tallyveil.explore.site import make_site
    from tallyveil.storage.paths import real

    here = real(release)
    folder = here.with_name(f"{here.name}-explorer") if out is None else out
    site = make_site(release, folder, tables=names_if_any(tables, "--tables"), compared=compared)
    lines = [
        *site.marks.lines(),
        f"{site.path} holds the site: {site.files:,} files, {site.size / 1e6:,.1f} MB, with tables of "
        f"{', '.join(site.tables)}.",
        *site.left_out,
    ]
    give_site(site, lines, Shown(quiet=quiet, as_json=as_json, opened=open_it), answering=release)


@dataclass(frozen=True, slots=True)
class Shown:
    """How a site is shown once it is made.

    Attributes:
        quiet: Whether nothing is printed.
        as_json: Whether the result is printed as JSON.
        opened: Whether the site is served and opened in the browser.
    """

    quiet: bool
    as_json: bool
    opened: bool


class MadeSite(Protocol):
    """What a command has made: a folder that a browser can show."""

    @property
    def path(self) -> Path:
        """Its folder."""

    def to_mapping(self) -> dict[str, Any]:
        """Plain data."""


def give_site(site: MadeSite, lines: Sequence[str], shown: Shown, *, answering: Path | None = None) -> None:
    """Print what was made, and open it or say how to look at it.

    Args:
        site: The site.
        lines: What to tell readers of it.
        shown: How it is shown.
        answering: Folder of the release whose questions are answered while the site is open; None for a site that is
            only files.
    """
    how = (
        "To look at it: give --open, or use a web server, such as `python -m http.server --directory "
        f"'{site.path}'`. A browser does not load it from the disk."
    )
    sentences = lines if shown.opened else [*lines, how]
    give(site.to_mapping(), sentences, quiet=shown.quiet, as_json=shown.as_json)
    if shown.opened:
        from tallyveil.explore.asking import served_answers
        from tallyveil.explore.serving import served

        serving = served(site.path) if answering is None else served_answers(site.path, answering)
        open_until_interrupted(serving, aside=shown.quiet or shown.as_json)


def open_until_interrupted(
    serving: AbstractContextManager[str], *, aside: bool, with_browser: bool = True
) -> None:
    """Serve a page and open it in the browser, until Ctrl-C.

    Args:
        serving: Serves it, and gives its address.
        aside: Whether its address is printed on standard error, because standard output is for something else.
        with_browser: Whether the browser is opened.
    """
    import webbrowser

    with serving as address, _interruptions() as interrupted:
        say(f"Open {address} in a browser of this machine. Ctrl-C ends it.", err=aside)
        if with_browser:
            webbrowser.open(address)
        while not interrupted.wait(SECONDS_BETWEEN_LOOKS):
            pass


@contextmanager
def _interruptions() -> Iterator[threading.Event]:
    """Take Ctrl-C as the end of the work, and not as an interruption of it: an event that it sets."""
    interrupted = threading.Event()
    descriptor = signal.set_wakeup_fd(-1)
    earlier = signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, earlier)
        signal.set_wakeup_fd(descriptor)
