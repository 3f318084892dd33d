"""Programmes on the command line: what `tallyveil plan` and `tallyveil run` do with the file of a programme."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tallyveil.cli.frame.terminal import say
from tallyveil.cli.plans.sizes import Sizes, opened, predicted
from tallyveil.cli.show.plan_advice import show_warnings
from tallyveil.cli.show.programme import finish_programme, programme_record, show_programme

if TYPE_CHECKING:
    from tallyveil.runs.executors import Where


def make_programme(
    programme: Path,
    out: Path,
    quiet: bool,
    as_json: bool,
    insecure_test_key: str | None = None,
    workers: int | None = None,
    cluster: "Where" = None,
) -> None:
    """Make all releases of a programme and show the progress, write the pages, and print the summary."""
    from tallyveil.api.programme import run_programme
    from tallyveil.cli.frame.progress import observer_for

    with observer_for(quiet, as_json) as observer:
        made = run_programme(
            programme,
            out,
            insecure_test_key=insecure_test_key,
            observer=observer,
            workers=workers,
            cluster=cluster,
        )
    finish_programme(made, out, quiet, as_json)


def plan_programme(path: Path, sizes: Sizes, *, quiet: bool, as_json: bool, others: bool) -> None:
    """Show what all releases of a programme will cost, each and together.

    Args:
        path: The file of the programme.
        sizes: What resources are predicted for.
        quiet, as_json: As for every command.
        others: Whether a flag was given that only a single release can have.
    Raises:
        ConfigError: such a flag was given.
    """
    from tallyveil.api.programme import plan_programme as make
    from tallyveil.errors import ConfigError
    from tallyveil.plans.guarantee import guarantee_of
    from tallyveil.plans.record import plan_record
    from tallyveil.products.dhc.public.plan import planned_total

    if others:
        raise ConfigError(
            f"{path} is the file of a programme, and --families and --optimise are about one release. Give them with "
            "a release file of the programme.",
            code="bad-flag",
        )
    plan = make(path).content
    read = [opened(one.plan, geography=sizes.geography) for one in plan.releases]
    found = [allocation for allocation, _, _ in read]
    events = [
        one.plan.event(allocation.event())
        for one, allocation in zip(plan.releases, found, strict=True)
        if allocation is not None
    ]
    needed = [
        resources
        for one, allocation in zip(plan.releases, found, strict=True)
        if (resources := predicted(one.plan, sizes, allocation)) is not None
    ]
    guarantee = planned_total(plan, events or None)
    if as_json:
        plans = [plan_record(one.plan, None, at) for one, at in zip(plan.releases, found, strict=True)]
        say(json.dumps(programme_record(plan, guarantee, needed, plans), indent=2))
    elif not quiet:
        privacies = [guarantee_of(one.plan.terms, at) for one, at in zip(plan.releases, found, strict=True)]
        show_programme(plan, guarantee, needed, privacies)
        show_warnings(list(dict.fromkeys(sentence for _, _, warnings in read for sentence in warnings)))
