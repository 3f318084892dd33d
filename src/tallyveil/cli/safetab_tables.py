"""What `tallyveil safetab` prints: plans, summaries and errors as tables, in the Census layout and of any groups."""

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from tallyveil.accounting.numbers import at_most, bound_cell, claim_sentence, short_decimal
from tallyveil.cli.frame.summary import opened_summary
from tallyveil.cli.frame.tables import not_private_screen, plain_table
from tallyveil.cli.frame.terminal import Screen, headed

if TYPE_CHECKING:
    import polars as pl

    from tallyveil.files.manifest import Manifest


_ACCOUNTANTS = {"renyi": "Renyi", "zcdp": "zCDP", "zcdp_textbook": "textbook zCDP", "pure": "pure"}
"""Accountants beside the exact one, as a record names them, in words."""


def show_plan(record: dict[str, Any]) -> None:
    """Print the plan of a SafeTab run."""
    console = Screen()
    opened = "only the public geography was opened" if "groups" in record else "no data was opened"
    console.print(headed("SafeTab plan", f" ({opened}; one person's record is added or removed)"))
    console.print(privacy_table(record["privacy"], record["budget_unit"]))
    console.print(
        "A record that is changed leaves its groups and enters as many others: twice the budget.",
        soft_wrap=True,
    )
    console.print(_sets(record))
    show_details(console, record["details"], "persons", "what production publishes")


def show_summary(manifest: "Manifest", out: Path, already_finished: bool) -> None:
    """Print the summary of a run."""
    console = opened_summary(manifest, out, already_finished, "this finished run", "a new one")
    table = Table(title=f"SafeTab (run {manifest.run})", show_header=False)
    for run, privacy in manifest.privacy.items():
        table.add_row(f"privacy, {run}", guarantee_text(privacy, manifest.spent.unit))
    for run, sizes in manifest.body["sizes"].items():
        groups = sum(sizes["groups"].values())
        table.add_row(f"{run}", f"{groups:,} groups measured with {sizes['noisy_counts']:,} noisy counts")
        table.add_row("", f"{sizes['t1_rows']:,} rows of T1, {sizes['t2_rows']:,} of T2 published")
    print_summary(console, table, manifest, out)


def show_households(manifest: "Manifest", out: Path, already_finished: bool) -> None:
    """Print the summary of a SafeTab-H run."""
    console = opened_summary(manifest, out, already_finished, "this finished run")
    table = Table(title=f"SafeTab-H (run {manifest.run})", show_header=False)
    for run, sizes in manifest.body["sizes"].items():
        privacy = manifest.privacy[run]
        table.add_row(f"privacy, {run}", guarantee_text(privacy, manifest.spent.unit))
        table.add_row(run, f"{sizes['t3_rows']:,} rows of T3, {sizes['t4_rows']:,} of T4")
    print_summary(console, table, manifest, out)


def show_details(console: Screen, details: list[dict[str, Any]], units: str, count: str) -> None:
    """Print margins by detail, and say what they mean.

    Args:
        console: Where they are printed.
        details: Margins of every level and detail.
        units: What the records are, in the plural.
        count: What COUNT is, in words.
    """
    console.print(details_table(details))
    console.print(
        f"Margins in {units}: with probability 95 % or more the noise lies within them. COUNT is {count}.\n"
        "ESTIMATE uses all measurements of a group, and usually comes closer. Post-processing costs nothing.",
        soft_wrap=True,
    )


def print_summary(console: Screen, table: Table, manifest: "Manifest", out: Path) -> None:
    """Print the summary of a run, with the rows that every summary ends with."""
    table.add_row("checks passed", str(len(manifest.checks)))
    table.add_row("time and memory", f"{manifest.seconds:.1f} s, {manifest.peak_memory_mib:,} MiB at most")
    table.add_row("report", str(out / "report.html"))
    console.print(table)


def show_errors(errors: "pl.DataFrame") -> None:
    """Print the errors of T1 by size class, for each level set over all its geographies."""
    console = not_private_screen()
    table = plain_table(
        "level set", "true size", numbers=("groups", "published", "rms: COUNT", "ESTIMATE", "covered", "")
    )
    last = None
    for row in errors.filter(~errors["TOTAL_ONLY"]).iter_rows(named=True):
        if row["published"] is None:
            continue
        here = f"{row['REGION_TYPE']} {row['LEVEL']}"
        if last not in (None, here):
            table.add_section()
        table.add_row(
            here if here != last else "",
            row["SIZE"],
            f"{row['groups']:,}",
            f"{row['published']:,.0f}",
            f"{row['COUNT: root mean square']:,.2f}",
            f"{row['ESTIMATE: root mean square']:,.2f}",
            f"{row['COUNT: within margin']:.0%}",
            f"{row['ESTIMATE: within margin']:.0%}",
        )
        last = here
    console.print(table)
    console.print(
        "Root mean squared errors in persons, and the share of numbers within their margin. Below the state totals\n"
        "were published because they passed a bound: those errors are of a selection.",
        soft_wrap=True,
    )


def show_household_errors(errors: "pl.DataFrame") -> None:
    """Print the errors of T3 and T4 by size class, separately for measured cells and for sums."""
    console = not_private_screen()
    table = plain_table(
        "table", "level set", "true size", "", numbers=("numbers", "mean error", "rms", "covered", "")
    )
    last = None
    for row in errors.iter_rows(named=True):
        here = row["TABLE"], f"{row['REGION_TYPE']} {row['LEVEL']}"
        if last not in (None, here):
            table.add_section()
        table.add_row(
            *(here if here != last else ("", "")),
            row["SIZE"],
            row["ROW"],
            f"{row['rows']:,}",
            f"{row['COUNT: mean error']:,.2f}",
            f"{row['COUNT: root mean square']:,.2f}",
            f"{row['COUNT: within margin']:.0%}",
        )
        last = here
    console.print(table)
    console.print("Errors in households, and the share of numbers within their margin.", soft_wrap=True)


def guarantee_text(privacy: dict[str, Any], unit: str) -> str:
    """The guarantee of one run, in words."""
    claim = claim_sentence(bound_cell(privacy["epsilon"]["upper"]), _delta(privacy["delta"]))
    changed = bound_cell(privacy["changed"]["epsilon"]["upper"])
    return (
        f"{claim}, composed exactly; "
        f"{unit} = {_decimal(privacy['budget'])}; where a record is changed, epsilon <= {changed}; "
        f"{unit} = {_decimal(privacy['changed']['budget'])}"
    )


def _delta(text: str) -> str:
    return at_most(Fraction(text))


def privacy_table(privacy: list[dict[str, Any]], unit: str) -> Table:
    """The guarantee of each run: its cost, and epsilon by every accountant that has one."""
    table = plain_table("guarantee")
    for part in privacy:
        table.add_column(part["run"], justify="right", no_wrap=True)
    table.add_row(unit, *(_decimal(part["budget"]) for part in privacy))
    table.add_row("delta", *(_delta(part["delta"]) for part in privacy))
    table.add_row("epsilon, exact", *(bound_cell(part["epsilon"]["upper"]) for part in privacy))
    table.add_row(
        "the same, a record changed", *(bound_cell(part["changed"]["epsilon"]["upper"]) for part in privacy)
    )
    for key, accountant in _ACCOUNTANTS.items():
        if any(part[key] is not None for part in privacy):
            epsilons = ("" if part[key] is None else bound_cell(part[key]) for part in privacy)
            table.add_row(f"epsilon, {accountant}", *epsilons)
    return table


def _sets(record: dict[str, Any]) -> Table:
    table = plain_table("level set", numbers=("budget", "stability", "iterations", "kept above", "groups"))
    for run, content in record["plan"]["runs"].items():
        for level_set in content["sets"]:
            groups = (
                record.get("groups", {})
                .get(run, {})
                .get(f"{level_set['geography']} level {level_set['level']}")
            )
            table.add_row(
                f"{level_set['geography']} {level_set['level']}",
                _decimal(level_set["budget"]),
                str(level_set["stability"]),
                f"{level_set['iterations']:,}",
                "" if level_set["keep_above"] is None else f"{level_set['keep_above']:,}",
                "" if groups is None else f"{groups:,}",
            )
        table.add_section()
    return table


def details_table(details: list[dict[str, Any]]) -> Table:
    """Margins of error by amount of detail. Levels with the same margins share their rows."""
    table = plain_table("level sets", "detail", numbers=("from", "total ±", "ESTIMATE", "cell ±", "ESTIMATE"))
    together: dict[tuple[Any, ...], list[str]] = {}
    by_set: dict[str, list[tuple[Any, ...]]] = {}
    for detail_row in details:
        numbers = (
            detail_row["total"],
            detail_row["total_estimate"],
            detail_row["cell"],
            detail_row["cell_estimate"],
        )
        row = (detail_row["detail"], detail_row["from_count"], *numbers)
        by_set.setdefault(f"{detail_row.get('geography', '')} {detail_row['level']}".strip(), []).append(row)
    for name, rows in by_set.items():
        together.setdefault(tuple(rows), []).append(name)
    for rows_of_set, names in together.items():
        each = -(-len(names) // len(rows_of_set))  # names in each row, rounded up
        for number, (detail, first, *numbers) in enumerate(rows_of_set):
            shown = ("" if x is None else f"{x:,.4g}" for x in numbers)
            table.add_row(
                ", ".join(names[each * number : each * (number + 1)]),
                detail,
                "" if first is None else f"{first:,}",
                *shown,
            )
        table.add_section()
    return table


def _decimal(text: str) -> str:
    """An exact fraction, written as a decimal if that is exact and short."""
    return short_decimal(Fraction(text))


def show_group_plan(record: dict[str, Any]) -> None:
    """Print the plan of a file of population groups."""
    console = Screen()
    said = " (no records were opened; one record is added or removed)"
    console.print(headed(f"Plan of {record['plan']['name']}", said))
    console.print(privacy_table(record["privacy"], record["budget_unit"]))
    table = plain_table("level", numbers=("budget", "stability", "groups", "total only"))
    for level in record["plan"]["levels"]:
        numbers = (level["stability"], level["groups"], level["total_only_groups"])
        budget = short_decimal(Fraction(level["budget"]))
        table.add_row(level["name"], budget, *(f"{number:,}" for number in numbers))
    console.print(table)
    show_details(console, record["details"], "records", "what was measured")


def show_group_summary(manifest: "Manifest", out: Path, already_finished: bool) -> None:
    """Print the summary of a run."""
    console = opened_summary(manifest, out, already_finished, "this finished run", "a new one")
    table = Table(title=f"Groups of {manifest.body['name']} (run {manifest.run})", show_header=False)
    for privacy in manifest.privacy.values():
        table.add_row("privacy", guarantee_text(privacy, manifest.spent.unit))
    for name, sizes in manifest.body["sizes"].items():
        table.add_row(
            name,
            f"{sizes['groups']:,} groups, {sizes['noisy_counts']:,} noisy counts, {sizes['cells_rows']:,} cells",
        )
    print_summary(console, table, manifest, out)


def show_group_errors(errors: "pl.DataFrame") -> None:
    """Print the errors of the totals of groups with adaptive detail, by level and size class."""
    console = not_private_screen()
    table = plain_table()
    table.add_column("level", overflow="fold")
    table.add_column("true size", no_wrap=True)
    for heading in ("groups", "rms: COUNT", "ESTIMATE", "covered", ""):
        table.add_column(heading, justify="right", no_wrap=True)
    last = None
    for row in errors.filter(~errors["TOTAL_ONLY"]).iter_rows(named=True):
        if last not in (None, row["LEVEL"]):
            table.add_section()
        table.add_row(
            row["LEVEL"] if row["LEVEL"] != last else "",
            row["SIZE"],
            f"{row['groups']:,}",
            f"{row['COUNT: root mean square']:,.2f}",
            f"{row['ESTIMATE: root mean square']:,.2f}",
            f"{row['COUNT: within margin']:.0%}",
            f"{row['ESTIMATE: within margin']:.0%}",
        )
        last = row["LEVEL"]
    console.print(table)
    console.print(
        "Root mean squared errors in records, and the share of numbers within their margin.", soft_wrap=True
    )
