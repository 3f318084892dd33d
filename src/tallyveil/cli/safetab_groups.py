"""`tallyveil safetab plan` and `run` of a TOML file: population groups in records of any kind."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tallyveil.cli.terminal import say

if TYPE_CHECKING:
    from tallyveil.safetab.group_plan import GroupPlan

FILE_SUFFIX = ".toml"
"""Ending of a file of population groups. Everything else is a parameter folder of the Census layout."""


def plan_of_groups(path: Path, out: Path | None, *, as_json: bool) -> None:
    """Show the guarantee and the expected errors of a file of population groups."""
    from tallyveil.safetab.group_record import group_record
    from tallyveil.storage.outputs import own_folder
    from tallyveil.storage.write import write_json

    record = group_record(_plan(path))
    if out is not None:
        with own_folder(out, "safetab plan"):
            write_json(out / "safetab-plan.json", record)
    if as_json:
        say(json.dumps(record, indent=2))
    else:
        from tallyveil.cli.show.safetab_groups import show_group_plan

        show_group_plan(record)


def run_of_groups(
    path: Path, records: Path, out: Path, *, test_key: str | None, quiet: bool, as_json: bool
) -> None:
    """Tabulate the population groups of a file, and print a summary."""
    from tallyveil.cli.progress import observer_for
    from tallyveil.execution.safetab.groups import run_groups
    from tallyveil.noise.key import insecure_key

    key = insecure_key(test_key) if test_key is not None else None
    plan = _plan(path)
    with observer_for(quiet, as_json) as observer:
        outcome = run_groups(plan, records, out, test_key=key, observer=observer)
    if as_json:
        manifest = outcome.manifest
        said = {
            "run": manifest.run,
            "protected": manifest.protected,
            "warnings": list(manifest.warnings),
            "sizes": manifest.body["sizes"],
            "privacy": list(manifest.privacy.values()),
            "checks_passed": len(manifest.checks),
            "already_finished": outcome.already_finished,
            "out": str(out),
        }
        say(json.dumps(said))
    elif not quiet:
        from tallyveil.cli.show.safetab_groups import show_group_summary

        show_group_summary(outcome.manifest, out, outcome.already_finished)


def refuse_census_options(given: Mapping[str, bool]) -> None:
    """Refuse options that only the Census layout has.

    Args:
        given: Whether each option is given, by its name.
    Raises:
        ConfigError: one of them is.
    """
    from tallyveil.errors import ConfigError

    if named := [name for name, is_given in given.items() if is_given]:
        raise ConfigError(
            f"{', '.join(named)}: a file of population groups has no such option. Only a parameter folder of the "
            "Census layout has it. Leave it out. Nothing was read.",
            code="bad-flag",
        )


def _plan(path: Path) -> "GroupPlan":
    from tallyveil.cli.products import require_input
    from tallyveil.config.groups import load_group_plan
    from tallyveil.release.kinds import ReleaseKind

    require_input(path, ReleaseKind.GROUPS)
    return load_group_plan(path)
