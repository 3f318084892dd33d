"""`tallyveil study`: recompute the tables and figures of a paper and compare them with its printed numbers."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli.frame.arguments import AsJson, PlotFormat, Plots, Quiet
from tallyveil.cli.frame.screen import Screen, headed
from tallyveil.cli.frame.tables import plain_table
from tallyveil.cli.frame.terminal import say, say_json

if TYPE_CHECKING:
    from tallyveil_studies.exhibit import Exhibit, Findings, StudyInputs


STUDIES = "tallyveil_studies"
"""The package of the studies: the only place where this command finds them."""


class Study(StrEnum):
    """Papers whose tables and figures can be recomputed."""

    FDP_CENSUS = "fdp-census"
    SAFETAB = "safetab"
    INTEGER_SUBSPACE = "integer-subspace"
    GEOGRAPHIC_SPINES = "geographic-spines"


def study(
    name: Annotated[
        Study | None,
        typer.Argument(
            help="The paper: fdp-census, safetab, integer-subspace or geographic-spines. Leave it out together with "
            "--all to recompute every paper, each in a folder of its own under --out.",
            metavar="PAPER",
        ),
    ] = None,
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder for tables (CSV) and plots.")],
    figure: Annotated[
        list[int] | None, typer.Option("--figure", metavar="N", help="Recompute Figure N; may be repeated.")
    ] = None,
    table: Annotated[
        list[int] | None, typer.Option("--table", metavar="N", help="Recompute Table N; may be repeated.")
    ] = None,
    beyond: Annotated[
        list[str] | None,
        typer.Option(
            "--beyond",
            metavar="NAME",
            help="Recompute what is not a numbered figure or table of the paper. For fdp-census: closed-forms, knots, "
            "every-delta, redistricting, dhc-persons, dhc-units, products, queries, replacement, topdown. For safetab: "
            "margins, stability. For integer-subspace: illinois, iterations, scale-reduction, unbiasedness, "
            "projection, polytopes, topdown-bias. For geographic-spines: variances, fan-out, theorem-2, remark-1, "
            "remark-2, alternative, alternative-rhode-island, rhode-island-distances, rhode-island-errors, groups, "
            "rhode-island-groups, tract-groups, rhode-island-tract-groups. May be repeated.",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Recompute everything.")] = False,
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder of public counts, for the figures that need them.")
    ] = None,
    user_data: Annotated[
        Path | None,
        typer.Option(
            "--own",
            metavar="FILE.TOML",
            help="TOML file that describes public counts and regressions of your own, for Figures 6, 8 and 9 of "
            "fdp-census (docs/studies.md).",
        ),
    ] = None,
    plots: Plots = PlotFormat.SVG,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Recompute a paper's tables and figures, and write the paper's numbers beside ours.

    For all papers but fdp-census, everything is recomputed unless you choose figures or tables.
    """
    from contextlib import ExitStack

    from tallyveil.storage.outputs import own_folder

    wanted = [f"figure-{n}" for n in figure or []] + [f"table-{n}" for n in table or []] + (beyond or [])
    # Everything in the other papers is quick to recompute, so no choice is required there.
    everything = everything or (name not in (Study.FDP_CENSUS, None) and not wanted)
    if name is None and (wanted or not everything):
        from tallyveil.errors import ConfigError

        raise ConfigError(
            f"study: no paper was named. Name one of {', '.join(Study)}, or recompute all of them with --all and "
            "without --figure, --table and --beyond.",
            code="bad-flag",
        )
    # A folder for each paper, so that their files do not meet.
    folders = {paper: out / paper.value for paper in Study} if name is None else {name: out}
    chosen = {paper: _chosen(paper, wanted, everything) for paper in folders}
    inputs = _inputs(
        data, user_data, [exhibit for exhibits in chosen.values() for exhibit in exhibits], everything
    )
    with ExitStack() as stack:
        # All folders are held before the first paper, so that a taken one is refused at once.
        for paper, folder in folders.items():
            stack.enter_context(own_folder(folder, f"study {paper.value}"))
        records = []
        for paper, folder in folders.items():
            if name is None and not (quiet or as_json):
                _show_paper(paper)
            silent = quiet or as_json
            exhibits = _recompute(chosen[paper], folder, inputs, plots, skip=everything, quiet=silent)
            records.append({"paper": paper.value, "out": str(folder), "exhibits": exhibits})
    if as_json:
        say_json(records)


def _inputs(
    data: Path | None, user_data: Path | None, chosen: "list[Exhibit]", everything: bool
) -> "StudyInputs":
    """The data of the exhibits. A user's own are read and checked here, before anything is recomputed."""
    from tallyveil.api.making import run

    inputs: type[StudyInputs] = _studies("exhibit").StudyInputs
    if user_data is None:
        return inputs(data, make_release=run)
    shown = [exhibit for exhibit in chosen if exhibit.own_table]
    if not shown:
        from tallyveil.errors import ConfigError

        raise ConfigError(
            f"study: --own {user_data} was given, but nothing that was asked for shows data of your own. Ask for "
            "Figure 6, 8 or 9 of fdp-census, or leave --own out.",
            code="bad-flag",
        )
    from tallyveil.plans.from_toml.load import parse_file
    from tallyveil.plans.from_toml.study_files import StudyFile

    counts = _studies("fdp_census.own_files").read_own_data(user_data, parse_file(user_data, StudyFile))
    # With everything asked for, exhibits that lack data are skipped; one asked for by name must have them.
    for exhibit in shown if not everything else ():
        counts.require(exhibit.own_table, exhibit.title)
    return inputs(data, counts, make_release=run)


def _recompute(
    chosen: "list[Exhibit]",
    out: Path,
    inputs: "StudyInputs",
    plots: PlotFormat,
    *,
    skip: bool,
    quiet: bool,
) -> list[dict[str, Any]]:
    """Recompute exhibits of one paper; `skip` those whose public data are missing. Returns a record of each."""
    writing = _studies("write")
    missing_data = _studies("exhibit").MissingDataError
    results: list[tuple[Exhibit, Findings]] = []
    records = []
    for exhibit in chosen:
        try:
            findings = exhibit.recompute(inputs)
        except missing_data as missing:
            # What was asked for by name must not be left out silently.
            if not skip:
                raise
            say(f"skipped: {missing}", err=True)
            continue
        results.append((exhibit, findings))
        written = writing.write_findings(out, exhibit, findings, plots.value)
        records.append(_record(exhibit, findings, written))
        if not quiet:
            _show(exhibit, findings, written)
    if any(findings.comparisons for _, findings in results):
        path = writing.write_comparisons(out, results)
        if not quiet:
            say(f"Printed numbers beside ours: {path}")
    return records


def _record(exhibit: "Exhibit", findings: "Findings", written: tuple[Path, ...]) -> dict[str, Any]:
    """What was recomputed, for programs."""
    from tallyveil.accounting.numbers import at_most

    return {
        "exhibit": exhibit.name,
        "comparisons": [
            {
                "quantity": comparison.quantity,
                "paper": comparison.printed.text,
                "ours_rounded_up": at_most(comparison.ours, 7),
                "verdict": comparison.verdict.value,
            }
            for comparison in findings.comparisons
        ],
        "notes": list(findings.notes),
        "files": [str(path) for path in written],
    }


def _chosen(name: Study, wanted: list[str], everything: bool) -> "list[Exhibit]":
    from tallyveil.errors import ConfigError

    catalogue = _catalogue(name)
    known = {exhibit.name: exhibit for exhibit in catalogue}
    unknown = [word for word in wanted if word not in known]
    if unknown or not (wanted or everything):
        got = f"{', '.join(unknown)} cannot be recomputed" if unknown else "nothing was asked for"
        raise ConfigError(
            f"study {name}: {got}; there are {', '.join(known)}. "
            "Ask with --figure N, --table N, --beyond NAME, or --all.",
            code="bad-flag",
        )
    # Each once, in the order in which they were named.
    return list(catalogue) if everything else [known[word] for word in dict.fromkeys(wanted)]


def _catalogue(name: Study) -> "tuple[Exhibit, ...]":
    """The exhibits of a paper. A paper's folder under `studies` has its name, with underscores."""
    exhibits: tuple[Exhibit, ...] = _studies(f"{name.value.replace('-', '_')}.catalogue").EXHIBITS
    return exhibits


# By name at run time: the library must not import its studies.
def _studies(module: str) -> Any:
    """A module of the package of studies, which need not be installed beside the library.

    Raises:
        ConfigError: it is not installed.
    """
    from importlib import import_module

    from tallyveil.errors import ConfigError

    try:
        return import_module(f"{STUDIES}.{module}")
    except ModuleNotFoundError as error:
        if error.name != STUDIES:  # something that the studies need is missing, and not the studies
            raise
    raise ConfigError(
        f"study: the package {STUDIES} is not installed here; wanted it beside the library, since the papers are "
        "recomputed there. Install Tallyveil from its source or from a wheel that has the studies.",
        code="studies-missing",
    )


def _show_paper(paper: Study) -> None:
    """Name the paper above its exhibits, since each paper has a Table 1."""
    Screen().print(headed(f"\n==== {paper.value} ===="))


def _show(exhibit: "Exhibit", findings: "Findings", written: tuple[Path, ...]) -> None:
    console = Screen()
    console.print(headed(f"\n{exhibit.heading(findings)}"))
    if findings.comparisons:
        console.print(_table(findings))
    for note in findings.notes:
        console.print(f"· {note}")
    for path in written:
        console.print(f"  {path}", style="dim", soft_wrap=True)


def _table(findings: "Findings") -> Any:
    from tallyveil.accounting.numbers import at_most

    table = plain_table(
        texts=(
            "quantity",
            "verdict",
        ),
        numbers=(
            "paper",
            "ours, rounded up",
        ),
    )
    for comparison in findings.comparisons:
        table.add_row(
            comparison.quantity,
            comparison.printed.text,
            at_most(comparison.ours, 7),
            comparison.verdict.value,
        )
    return table
