"""`tallyveil draws`: complete tables drawn from what a release's measurements and a model of its blocks say
together."""

from typing import Annotated

import typer

from tallyveil.cli.frame.arguments import (
    AsJson,
    Covariates,
    EarlierCensus,
    FilesOut,
    FinishedRelease,
    Quiet,
    Seed,
    Workers,
    give,
)


def draws(
    release: FinishedRelease,
    *,
    out: FilesOut,
    number: Annotated[int, typer.Option("--number", min=1, help="Number of draws, at most 128.")] = 100,
    seed: Seed = 1,
    experimental_blocks: Annotated[
        bool,
        typer.Option(
            "--experimental-blocks",
            help="Write counts of the finest geolevel instead of the one above. Intervals of single blocks from draws "
            "are too narrow for rare groups.",
        ),
    ] = False,
    covariates: Covariates = None,
    earlier_census: EarlierCensus = None,
    sweeps: Annotated[
        int | None,
        typer.Option(
            "--sweeps",
            min=576,
            help="Sweeps after which chains that disagree are given up. They are compared after 576 for the first "
            "time. Default: 16,384.",
        ),
    ] = None,
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Draw complete tables of RUN, for statistics that need more than published counts and intervals.

    Every draw is a whole table that agrees with the invariants and public bounds of RUN. Draws follow from its noisy
    measurements and from a model of how blocks resemble each other; a statistic computed from each draw shows what
    noise does to it. Nothing is written unless four chains agree.

    Reads nothing confidential, and costs no budget. The page "draws" of the documentation says what draws are, and are
    not.
    """
    from tallyveil.api.draws import make_draws
    from tallyveil.cli.frame.progress import observer_for

    with observer_for(quiet, as_json) as observer:
        draws = make_draws(
            release,
            out,
            number=number,
            seed=seed,
            experimental_blocks=experimental_blocks,
            covariates=covariates,
            earlier_census=earlier_census,
            sweeps=sweeps,
            workers=workers,
            observer=observer,
        )
    agreed = draws.description["convergence"]
    lines = [
        *repr(draws).splitlines(),
        f"{draws.description['chains']} chains of {agreed['sweeps']:,} sweeps agree: R-hat of coarse counts "
        f"at most {agreed['reduction']:.3f}, their effective sample size at least {agreed['effective']:.0f}",
        str(out),
    ]
    give({"out": str(out), **draws.description}, lines, quiet=quiet, as_json=as_json)
