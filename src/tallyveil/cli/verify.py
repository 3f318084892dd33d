"""`tallyveil verify`: what somebody published is held to what follows from its ledger, plan and measurements."""

from pathlib import Path
from typing import Annotated, Final

import typer

from tallyveil.cli.frame.arguments import AsJson, Covariates, EarlierCensus, Quiet, give

WRONG: Final = 10
"""Exit code where a statement does not hold. Errors of other commands end with 1 to 9 (docs/errors.md)."""


def verify(
    path: Annotated[
        Path,
        typer.Argument(
            help="Folder of a release, of measurements, of a programme, of a publication, of a site or of draws; or "
            "the address of a copy of a release, such as s3://BUCKET/NAME.",
            metavar="PATH",
        ),
    ],
    whole: Annotated[
        bool,
        typer.Option(
            "--whole",
            help="Compute all intervals again, all counts from the measurements, and draws with all their sweeps.",
        ),
    ] = False,
    releases: Annotated[
        list[Path] | None,
        typer.Option(
            "--release",
            metavar="RUN",
            help="Folder of a release that a publication, a site or draws were made from; once for each, in the order "
            "in which they were given then.",
        ),
    ] = None,
    covariates: Covariates = None,
    earlier_census: EarlierCensus = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Derive again what a release says of itself, and say what that proves.

    Guarantee, invariants, marks, sizes and sums follow from ledger, plan and files; intervals from the measurements;
    the page from all of them. The exit code is 0 if nothing is wrong, and 10 if something is. Nothing is written or
    spent.
    """
    from tallyveil.api.verifying import verify as verified

    verdict = verified(
        path, whole=whole, releases=releases or [], covariates=covariates, earlier_census=earlier_census
    )
    give(verdict.to_mapping(), verdict.lines(), quiet=quiet, as_json=as_json)
    if not verdict.holds:
        raise typer.Exit(WRONG)
