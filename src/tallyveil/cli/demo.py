"""`tallyveil demo`: make up a population and release it."""

from pathlib import Path
from typing import Annotated

import typer

from tallyveil.cli.frame.arguments import AsJson, Quiet
from tallyveil.cli.frame.summary import finish_release
from tallyveil.cli.frame.terminal import say


def demo(
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Folder for the population and its release.")
    ] = Path("demo-release"),
    blocks: Annotated[int, typer.Option("--blocks", min=1, help="Number of finest geounits.")] = 1000,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make up a country of about 1,000 blocks and release it, with the 2020 redistricting settings and intervals.

    Its places have names, and it is labelled in English, German and French. With the extra `maps` it has a map. The
    population, its release file and the book of its register are written to OUT/population, and the release to
    OUT/release.
    """
    from tallyveil.api.demo import write_demo
    from tallyveil.api.making import run
    from tallyveil.cli.frame.progress import observer_for

    release_file = out / "population" / "release.toml"
    if not release_file.exists():
        write_demo(release_file.parent, blocks)
    if not (quiet or as_json):
        say(f"A made-up population is in {release_file.parent}. What follows is the command")
        say(f"  tallyveil run {release_file} --out {out / 'release'}")
    with observer_for(quiet, as_json) as observer:
        release = run(release_file, out / "release", observer=observer)
    finish_release(release, out / "release", quiet, as_json)
