"""SafeTab from Python: plan, check, tabulate and evaluate detailed population groups.

`params` is a folder of `config.json` and the four code files in the Census layout, or a TOML file of population groups
in any records. Options that only the Census layout has are refused for a file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field

from tallyveil.api.arguments import AnyPath, Flag, Progress, Text, Wanted, book_of, checked, key_of
from tallyveil.api.opened import Opened, with_page
from tallyveil.api.products import (
    EVALUATE_GROUPS,
    EVALUATE_SAFETAB,
    require_evaluation,
    require_input,
    require_understood,
    write_page,
)
from tallyveil.errors import ConfigError
from tallyveil.files.manifest import ReleaseKind

if TYPE_CHECKING:
    import polars as pl

    from tallyveil.products.safetab.public.group_plan import GroupPlan

FILE_SUFFIX: Final = ".toml"
"""Ending of a file of population groups. Everything else is a parameter folder of the Census layout."""
USUAL_DELTA: Final = "1e-10"
"""Delta at which epsilon is stated if no other is asked for: that of the published tables of 2020."""

Runs = Annotated[int, Field(strict=True, ge=1), Wanted("a number of runs, 1 or more")]
ExactNumber = str | int | Fraction
"""An exact number: text such as "1e-10", or a fraction."""


@dataclass(frozen=True, slots=True)
class SafetabErrors:
    """Errors of a finished run. NOT PRIVATE: they follow from the true counts.

    Attributes:
        tables: Tables of errors by their names; the first one is by size of the group.
        page: The page with all of them.
    """

    tables: "Mapping[str, pl.DataFrame]"
    page: Path


def is_group_file(params: Path) -> bool:
    """Whether parameters are a file of population groups."""
    return params.suffix == FILE_SUFFIX


@checked
def plan_safetab(
    params: AnyPath,
    data: AnyPath | None = None,
    *,
    delta: ExactNumber | None = None,
    out: AnyPath | None = None,
) -> dict[str, Any]:
    """The privacy guarantee and the expected errors of a run, before any record is opened.

    Args:
        params: The parameters.
        data: Folder of GRF-C, to count groups. Only in the Census layout.
        delta: Delta at which epsilon is stated; None for 1e-10. Only in the Census layout: a file states its own.
        out: Folder in which the plan is written, as `safetab-plan.json`; None to write nothing.
    Returns:
        The plan as plain data.
    Raises:
        ConfigError, SchemaError, BudgetError, StoreError: the parameters are wrong, or `out` is taken.
    """
    from tallyveil.storage.outputs import own_folder
    from tallyveil.storage.write import write_json

    # A file or a folder: the two forms of parameters are told apart before either is read.
    if is_group_file(Path(params)):
        from tallyveil.products.safetab.public.plan_record import group_record

        refuse_census_options({"DATA": data is not None, "--delta": delta is not None})
        record = group_record(_group_plan(Path(params)))
    else:
        from tallyveil.products.safetab.public.plan import read_plan
        from tallyveil.products.safetab.public.plan_record import plan_record

        plan = read_plan(Path(params))
        record = plan_record(
            plan, _delta(USUAL_DELTA if delta is None else delta), None if data is None else Path(data)
        )
    # Made first and written then: a wrong parameter leaves no folder behind.
    if out is not None:
        with own_folder(Path(out), "safetab plan"):
            write_json(Path(out) / "safetab-plan.json", record)
    return record


@checked
def validate_safetab(params: AnyPath, data: AnyPath, *, finished: AnyPath | None = None) -> dict[str, Any]:
    """Check all inputs, in three phases. Nothing is written or spent.

    Args:
        params: The parameters.
        data: Folder of person-records and GRF-C; with a file of groups, the file of the records.
        finished: Folder of a finished run, whose tables are checked as well.
    Returns:
        What was read, and the number of checks that the tables have passed, as plain data.
    Raises:
        TallyveilError: an input is wrong, or a table does not pass.
    """
    from tallyveil.products.safetab.public.tables import check_outputs, require_passed

    run, checks = None if finished is None else Path(finished), None
    record: dict[str, Any]
    if is_group_file(Path(params)):
        from tallyveil.products.safetab.confidential.group_records import read_group_records
        from tallyveil.products.safetab.public.tables import check_group_tables
        from tallyveil.products.safetab.run.evaluate import require_groups_release

        plan = _group_plan(Path(params))
        # The run is checked before the records: a wrong folder should not cost reading them.
        if run is not None:
            require_groups_release(plan, run)
        read_group_records(Path(data), plan)
        record = {"valid": True, "levels": {level.name: level.groups for level in plan.levels}}
        checks = None if run is None else check_group_tables(run, plan)
    else:
        from tallyveil.files.manifest_files import read_manifest
        from tallyveil.products.safetab.run.run import read_safetab_inputs

        if run is not None:
            read_manifest(run, ReleaseKind.SAFETAB)
        inputs = read_safetab_inputs(Path(params), Path(data))
        record = {
            "valid": True,
            "runs": [part.run for part in inputs.plan.runs],
            "codes": len(inputs.plan.files.codes),
            "iterations": len(inputs.plan.files.iterations),
            "blocks": {part: len(regions.blocks) for part, regions in inputs.regions.items()},
        }
        checks = None if run is None else check_outputs(run, inputs.plan)
    if checks is not None:
        require_passed(checks)
        record["output_checks_passed"] = len(checks)
    return record


@checked
def run_safetab(
    params: AnyPath,
    data: AnyPath,
    out: AnyPath,
    *,
    coterminous_apart: Flag = False,
    insecure_test_key: str | None = None,
    book: AnyPath | None = None,
    observer: Progress | None = None,
) -> Opened:
    """Tabulate population groups, with margins of error, or resume an interrupted run.

    Args:
        params: The parameters.
        data: Folder of person-records and GRF-C; with a file of groups, the file of the records.
        out: Folder of the tables. It does not exist, is empty, or holds an unfinished run of the same inputs.
        coterminous_apart: Whether regions that have the same blocks are measured separately, as production did. Only
            in the Census layout.
        insecure_test_key: Any text, for tests. The noise then follows from it, and the tables protect nobody.
        book: The book of the register, as for `run`.
        observer: Is told of progress.
    Returns:
        The finished run. Its page is written.
    Raises:
        TallyveilError: an input is wrong, or the folder cannot be used. Nothing is spent then.
    Privacy: spends the budget of the parameters once, however often the run is interrupted and resumed.
    """
    # The key before everything: a wrong one must not leave a folder that looks begun.
    key, folder = key_of(insecure_test_key), Path(out)
    if is_group_file(Path(params)):
        from tallyveil.products.safetab.run.groups import run_groups

        refuse_census_options({"--coterminous-apart": coterminous_apart})
        plan = _group_plan(Path(params))
        outcome = run_groups(plan, Path(data), folder, test_key=key, observer=observer, book=book_of(book))
    else:
        from tallyveil.products.safetab.run import run

        outcome = run.run_safetab(
            Path(params), Path(data), folder,
            coterminous_once=not coterminous_apart, test_key=key, observer=observer, book=book_of(book),
        )  # fmt: skip
    return with_page(Opened(folder, outcome.manifest, already_finished=outcome.already_finished))


@checked
def run_safetab_households(
    params: AnyPath,
    data: AnyPath,
    out: AnyPath,
    *,
    published: AnyPath | None = None,
    insecure_test_key: str | None = None,
    book: AnyPath | None = None,
    observer: Progress | None = None,
) -> Opened:
    """Tabulate groups of households (SafeTab-H) in T3 and T4; a published table T1 chooses their detail.

    Args:
        params: Folder of the parameters, in the Census layout.
        data: Folder of household-records, GRF-C and pop-group-totals (a table T1).
        out: Folder of the tables, as for `run_safetab`.
        published: Folder of the run that made T1, in the place of pop-group-totals.
        insecure_test_key, book, observer: As for `run_safetab`.
    Raises, Returns, Privacy: as `run_safetab`.
    """
    from tallyveil.products.safetab.run.households import run_households

    outcome = run_households(
        Path(params),
        Path(data),
        Path(out),
        published=None if published is None else Path(published),
        test_key=key_of(insecure_test_key),
        observer=observer,
        book=book_of(book),
    )
    return with_page(Opened(Path(out), outcome.manifest, already_finished=outcome.already_finished))


@checked
def tabulate_safetab_exactly(
    params: AnyPath,
    data: AnyPath,
    out: AnyPath,
    *,
    households: Flag = False,
    published: AnyPath | None = None,
    i_understand_this_is_not_private: Flag = False,
) -> dict[str, Any]:
    """Tabulate the true counts, to verify an implementation. The tables are NOT PRIVATE.

    Args:
        params, data, published: As for `run_safetab`, or for `run_safetab_households`. Only the Census layout.
        out: Folder of the tables.
        households: Whether the groups are of households.
        i_understand_this_is_not_private: Required.
    Returns:
        The manifest of the tables.
    Raises:
        ConfigError: it is not said that this is understood. Nothing was read then.
    Privacy: none. Everyone who sees the tables learns about single people.
    """
    from tallyveil.products.safetab.run.exact import tabulate_exactly, tabulate_households_exactly

    # Before any file is opened, so that nobody sees a true count by a slip of the flags.
    require_understood(
        i_understand_this_is_not_private,
        "tables without noise are the true counts: everyone who sees them learns about single people. If you want such "
        "tables, give both --no-noise and --i-understand-this-is-not-private; otherwise give neither.",
    )
    if not households:
        return tabulate_exactly(Path(params), Path(data), Path(out))
    table = None if published is None else Path(published)
    return tabulate_households_exactly(Path(params), Path(data), Path(out), published=table)


@checked
def evaluate_safetab(
    params: AnyPath,
    data: AnyPath,
    finished: AnyPath,
    *,
    runs: Runs = 1,
    published: AnyPath | None = None,
    i_understand_this_is_not_private: Flag = False,
) -> SafetabErrors:
    """Compare the tables of a finished run with the true counts. The results are NOT PRIVATE.

    Args:
        params, data: As the run had them.
        finished: Folder of the run. Its folder `evaluation` gets the errors, and its ledger an entry.
        runs: Number of runs that errors are computed from: the finished run and simulated runs like it.
        published: Folder of the run that made T1, for tables of households.
        i_understand_this_is_not_private: Required.
    Raises:
        ConfigError: it is not said that this is understood. Nothing was read then.
        TallyveilError: an input or the run is not what it was.
    Privacy: none. The ledger of the run says that true counts were looked at.
    """
    require_understood(
        i_understand_this_is_not_private,
        "the errors of a run reveal its true counts: everyone who sees them can learn about single people. If that is "
        "acceptable here, add --i-understand-this-is-not-private.",
    )
    run, records, repeats = Path(finished), Path(data), runs - 1
    is_file = is_group_file(Path(params))
    if is_file:
        refuse_census_options({"--t1": published is not None})
    # Whether the run can be evaluated at all is known before true counts are read.
    kind = require_evaluation(run, EVALUATE_GROUPS if is_file else EVALUATE_SAFETAB)
    write_page(run)  # a run whose page cannot be made is refused before its ledger gets an entry
    if is_file:
        from tallyveil.products.safetab.page.groups import write_groups_evaluation
        from tallyveil.products.safetab.run.evaluate import evaluate_groups

        errors = evaluate_groups(_group_plan(Path(params)), records, run, repeats=repeats)
        page = write_groups_evaluation(run, errors)
    elif kind is ReleaseKind.HOUSEHOLDS:
        from tallyveil.products.safetab.page.persons import write_households_evaluation
        from tallyveil.products.safetab.run.evaluate import evaluate_households

        table = None if published is None else Path(published)
        errors = evaluate_households(Path(params), records, run, published=table, repeats=repeats)
        page = write_households_evaluation(run, errors)
    else:
        from tallyveil.products.safetab.page.persons import write_safetab_evaluation
        from tallyveil.products.safetab.run import evaluate

        errors = evaluate.evaluate_safetab(Path(params), records, run, repeats=repeats)
        page = write_safetab_evaluation(run, errors)
    write_page(run)  # it has another mark now
    return SafetabErrors(errors, page)


@checked
def calibrate_safetab(
    params: AnyPath,
    out: AnyPath,
    *,
    margins: Text | None = None,
    total_margins: Text | None = None,
    epsilon: ExactNumber | None = None,
    relative_margin: ExactNumber | None = None,
    sizes: AnyPath | None = None,
    formula: Literal["exact", "printed"] = "exact",
    delta: ExactNumber = USUAL_DELTA,
) -> dict[str, Any]:
    """Write a parameter folder with other budgets, share of stage 1 and thresholds. No data is opened.

    Args:
        params: Folder of the parameters, in the Census layout. All that is not calibrated is kept.
        out: Folder of the new parameters.
        margins: 95 % margins of a cell by level set, such as "USA 2 = 6, COUNTY 1 = 50". Level sets without any margin
            get no budget.
        total_margins: 95 % margins of the estimate of a group's total, likewise. The share of stage 1 is then the one
            at which all margins cost the least.
        epsilon: Scale all budgets, after margins, to at most this epsilon of each run.
        relative_margin: Choose thresholds so that a group gets a table where the 95 % margin of its mean cell is at
            most this share of the cell.
        sizes: File of totals of an earlier, public table in the layout of T1: how large the groups are expected to be.
        formula: "exact" for the least budget with 95 % coverage, "printed" for the formulas of the paper, corrected.
        delta: Delta at which epsilon is stated.
    Returns:
        The plan of the new parameters as plain data; with sizes also "expected_groups".
    Raises:
        ConfigError: the parameters are a file, nothing is to be calibrated, or an argument has another form.
        SchemaError: the file of sizes has an error.
        StoreError: a folder cannot be read or written.
    """
    from tallyveil.budget.strategy import parse_fraction
    from tallyveil.products.safetab.public.calibration import (
        parse_margins,
        plan_for_epsilon,
        plan_for_margins,
        write_parameters,
    )
    from tallyveil.products.safetab.public.plan import read_plan
    from tallyveil.products.safetab.public.plan_record import plan_record
    from tallyveil.products.safetab.public.thresholds import expected_groups, read_sizes, with_thresholds
    from tallyveil.storage.outputs import own_folder, refuse_inputs

    source, folder = Path(params), Path(out)
    if is_group_file(source):
        raise ConfigError(
            f"{source} is a file of population groups, and only parameter folders of the Census layout are "
            "calibrated. Change the budgets in the file, and look at them with `tallyveil safetab plan`.",
            code="bad-flag",
        )
    if margins is None and total_margins is None and epsilon is None and relative_margin is None:
        raise ConfigError(
            "nothing is to be calibrated. Give --margins, --total-margins, --epsilon or --relative-margin.",
            code="bad-flag",
        )
    # Exact fractions from the text: a float could round a delta upwards.
    at = parse_fraction(delta, "--delta")
    share = None if relative_margin is None else parse_fraction(relative_margin, "--relative-margin")
    plan = read_plan(source)
    if margins is not None or total_margins is not None:
        of_cells, of_totals = (
            {} if text is None else parse_margins(text, flag)
            for text, flag in ((margins, "--margins"), (total_margins, "--total-margins"))
        )
        plan = plan_for_margins(plan, of_cells, formula, of_totals)
    if epsilon is not None:
        plan = plan_for_epsilon(plan, parse_fraction(epsilon, "--epsilon"), at)
    public = {} if sizes is None else read_sizes(Path(sizes), plan)
    if share is not None:
        # Last, because the thresholds follow from the margins of the budgets.
        plan = with_thresholds(plan, share, public)
    record = plan_record(plan, at, None)
    if sizes is not None:
        record["expected_groups"] = expected_groups(plan, public, share)
    # After the new plan is known: nothing is written for margins that cannot be met.
    refuse_inputs(folder, [source, *([] if sizes is None else [Path(sizes)])])
    with own_folder(folder, "safetab calibrate"):
        write_parameters(source, folder, plan)
    return record


@checked
def make_safetab_consistent(
    params: AnyPath,
    data: AnyPath,
    finished: AnyPath,
    out: AnyPath,
    *,
    whole_numbers: Flag = False,
    published: AnyPath | None = None,
) -> dict[str, Any]:
    """Write T1 and T2 with numbers that agree with each other. This is post-processing and costs nothing.

    The nation is the sum of its states, a group is at most a group that contains it, and tables add up to their totals.

    Args:
        params: Folder of the parameters.
        data: Folder of GRF-C. Records are not opened.
        finished: Folder of the run.
        out: Folder of the consistent tables.
        whole_numbers: Whether the numbers are whole and 0 or more. Others may break a rule by a millionth of a person.
        published: File of totals that are published elsewhere, in the layout of T1, which the numbers agree with.
    Returns:
        Paths of the "files"; and in "runs" the number of "rules" of each run, and how many were "broken_before".
    Raises:
        ConfigError: totals that are published elsewhere contradict each other.
        TallyveilError: an input is not what it should be.
    """
    from tallyveil.products.safetab.public.consistent import write_consistent
    from tallyveil.storage.outputs import refuse_inputs, refuse_output_inside

    folder, known = Path(out), None if published is None else Path(published)
    # Inputs in the folder would be replaced by outputs.
    refuse_inputs(folder, [Path(params), Path(data), Path(finished), *([] if known is None else [known])])
    refuse_output_inside(folder, Path(finished))
    return write_consistent(
        Path(params), Path(data), Path(finished), folder, whole=whole_numbers, published=known
    )


@checked
def write_safetab_long_form(short: AnyPath, codes: AnyPath, out: AnyPath) -> int:
    """Write race-and-ethnicity-code-to-iteration in long form, with one row for each code.

    Args:
        short: File of iteration codes with ranges of race codes.
        codes: The file race-and-ethnicity-codes.txt.
        out: File to write.
    Returns:
        Number of rows.
    """
    from tallyveil.products.safetab.public.files import convert_short_form
    from tallyveil.storage.outputs import claim_file

    claim_file(Path(out), [Path(short), Path(codes)])
    return convert_short_form(Path(short), Path(codes), Path(out))


@checked
def write_safetab_general_form(params: AnyPath, data: AnyPath, out: AnyPath) -> list[Path]:
    """Write the Census layout as TOML files of population groups, one for each run, with the tables of their maps.

    Args:
        params: Folder of the parameters.
        data: Folder of GRF-C. Records are not opened.
        out: Folder of the files.
    Returns:
        Paths of the files.
    """
    from tallyveil.products.safetab.public.general_form import write_general_form
    from tallyveil.products.safetab.public.plan import read_plan
    from tallyveil.products.safetab.public.regions import read_regions
    from tallyveil.storage.outputs import own_folder, refuse_inputs

    folder = Path(out)
    refuse_inputs(folder, [Path(params), Path(data)])
    plan = read_plan(Path(params))
    regions = read_regions(Path(data), plan.config)
    with own_folder(folder, "safetab general-form"):
        return list(write_general_form(plan, regions, folder))


def refuse_census_options(options: Mapping[str, bool]) -> None:
    """Refuse options that only the Census layout has.

    Args:
        options: Whether each option is given, by its name on the command line.
    Raises:
        ConfigError: one of them is.
    """
    if named := [name for name, is_there in options.items() if is_there]:
        raise ConfigError(
            f"{', '.join(named)}: a file of population groups has no such option. Only a parameter folder of the "
            "Census layout has it. Leave it out. Nothing was read.",
            code="bad-flag",
        )


def _group_plan(path: Path) -> "GroupPlan":
    from tallyveil.products.safetab.public.from_toml import load_group_plan

    require_input(path, ReleaseKind.GROUPS)
    return load_group_plan(path)


def _delta(number: ExactNumber) -> Fraction:
    from tallyveil.budget.strategy import parse_fraction

    delta = parse_fraction(number, "--delta")
    # At 0 no finite epsilon holds for Gaussian noise, and at 1 every mechanism passes.
    if not 0 < delta < 1:
        raise ConfigError(f"--delta is {number}, wanted a number between 0 and 1.", code="bad-flag")
    return delta
