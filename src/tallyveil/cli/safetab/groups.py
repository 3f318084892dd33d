"""`tallyveil safetab plan`, `validate`, `run` and `evaluate` of a TOML file: population groups in any records."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyveil.cli.frame.terminal import say
from tallyveil.cli.safetab.said import give_errors, give_plan, give_validation, run_summary

if TYPE_CHECKING:
    from tallyveil.products.safetab.public.group_plan import GroupPlan

FILE_SUFFIX = ".toml"
"""Ending of a file of population groups. Everything else is a parameter folder of the Census layout."""


def plan_of_groups(path: Path, out: Path | None, *, quiet: bool, as_json: bool) -> None:
    """Show the guarantee and the expected errors of a file of population groups."""
    from tallyveil.cli.show.safetab_groups import show_group_plan
    from tallyveil.products.safetab.public.group_record import group_record

    give_plan(group_record(_plan(path)), out, show_group_plan, quiet=quiet, as_json=as_json)


def validate_of_groups(
    path: Path, records: Path, finished: Path | None, *, quiet: bool, as_json: bool
) -> None:
    """Check a file of population groups and its records, and the tables of a run if there is one."""
    from tallyveil.products.safetab.confidential.group_records import read_group_records
    from tallyveil.products.safetab.public.group_tables import check_group_tables
    from tallyveil.products.safetab.public.outputs import require_passed
    from tallyveil.products.safetab.run.evaluate_groups import require_groups_release

    plan = _plan(path)
    if finished is not None:
        require_groups_release(plan, finished)
    read_group_records(records, plan)
    said: dict[str, Any] = {"valid": True, "levels": {one.name: one.groups.n_groups for one in plan.levels}}
    if finished is not None:
        checks = check_group_tables(finished, plan)
        require_passed(checks)
        said["output_checks_passed"] = len(checks)
    text = "The file and the records are valid. Nothing was written or spent."
    give_validation(said, finished, text, quiet=quiet, as_json=as_json)


def run_of_groups(
    path: Path, records: Path, out: Path, *, test_key: str | None, quiet: bool, as_json: bool
) -> None:
    """Tabulate the population groups of a file, and print a summary."""
    from tallyveil.api.products import write_page
    from tallyveil.cli.frame.progress import observer_for
    from tallyveil.noise.key import insecure_key
    from tallyveil.products.safetab.run.groups import run_groups

    key = insecure_key(test_key) if test_key is not None else None
    plan = _plan(path)
    with observer_for(quiet, as_json) as observer:
        outcome = run_groups(plan, records, out, test_key=key, observer=observer)
    if not (out / "report.html").exists():
        write_page(out)
    if as_json:
        said = run_summary(outcome.manifest, out, outcome.already_finished)
        say(json.dumps({**said, "privacy": list(outcome.manifest.privacy.values())}))
    elif not quiet:
        from tallyveil.cli.show.safetab_groups import show_group_summary

        show_group_summary(outcome.manifest, out, outcome.already_finished)


def evaluate_of_groups(
    path: Path, records: Path, finished: Path, *, repeats: int, quiet: bool, as_json: bool
) -> None:
    """Compare the tables of a run with the true counts. The caller has asked whether this is understood."""
    from tallyveil.api.products import EVALUATE_GROUPS, require_evaluation, write_page
    from tallyveil.cli.show.safetab_groups import show_group_errors
    from tallyveil.products.safetab.page.groups import write_groups_evaluation
    from tallyveil.products.safetab.run.evaluate_groups import evaluate_groups

    require_evaluation(finished, EVALUATE_GROUPS)
    write_page(finished)  # a run whose page cannot be made is refused before its ledger gets an entry
    errors = evaluate_groups(_plan(path), records, finished, repeats=repeats)
    page = write_groups_evaluation(finished, errors)
    write_page(finished)  # it has another mark now
    give_errors(errors, page, show_group_errors, quiet=quiet, as_json=as_json)


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
    from tallyveil.api.products import require_input
    from tallyveil.files.kinds import ReleaseKind
    from tallyveil.products.safetab.public.from_toml import load_group_plan

    require_input(path, ReleaseKind.GROUPS)
    return load_group_plan(path)
