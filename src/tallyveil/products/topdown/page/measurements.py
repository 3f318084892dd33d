"""The page of noisy measurements alone, drawn here or imported: what they are, what they cost, and whether they fit.

It is made only from published files, and says what `tallyveil measurements check` says.
"""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tallyveil.accounting.numbers import at_most, claim_text
from tallyveil.budget.strategy import Mechanism
from tallyveil.files.marks import marks_of
from tallyveil.plans.guarantee import with_guarantee
from tallyveil.postprocess.intervals.check import Check, check_of
from tallyveil.postprocess.intervals.constraint_distances import ConstraintDistance
from tallyveil.postprocess.intervals.residuals import QueryResiduals
from tallyveil.postprocess.measured import Measured, open_measurements
from tallyveil.report.page import NumberTile, SummaryPoint, write_release_page
from tallyveil.report.privacy import exact
from tallyveil.report.release_files import Matrix, Titles, schema_titles
from tallyveil.report.wording import grouped, power_of_ten, rounded
from tallyveil.storage.system import usable_cores
from tallyveil.version import VERSION
from tallyveil.words.listing import listed

AS_STATED, NOT_AS_STATED = "as\N{NO-BREAK SPACE}stated", "NOT\N{NO-BREAK SPACE}AS\N{NO-BREAK SPACE}STATED"
"""Verdicts of rows, which no line break divides."""

_NAMED = 12
"""Places that are not as stated and named above the tables, which have all. It only bounds the length of the page."""


@dataclass(frozen=True, slots=True)
class _Contents:
    """What was measured at one geolevel.

    Attributes:
        geolevel: Its name.
        geounits, measured: Number of geounits, and of those that were measured.
        answers: For each query, its number of answers in one geounit.
    """

    geolevel: str
    geounits: int
    measured: int
    answers: dict[str, int]

    @property
    def noisy_answers(self) -> int:
        """Number of noisy answers."""
        return self.measured * sum(self.answers.values())


def write_measurements_report(root: Path) -> Path:
    """Write the page of a folder of `tallyveil measure` or `tallyveil measurements import`.

    Args:
        root: The folder.
    Returns:
        The page.
    Raises:
        StoreError: a file is missing or damaged, or the page cannot be written.
        SchemaError, ConstraintError: as `check_of`.
    Privacy: computed from noisy measurements and public files; spends nothing.
    """
    measured = open_measurements(root)
    # The limits of the sums are known for this noise alone.
    is_checked = measured.plan.strategy.mechanism is Mechanism.DISCRETE_GAUSSIAN
    check = check_of(measured, usable_cores()) if is_checked else None
    return write_release_page(root, "measurements.html.j2", _values(measured, check), module=__name__)


def _values(measured: Measured, check: Check | None) -> dict[str, Any]:
    manifest = with_guarantee(measured.root, measured.manifest)
    titles, contents = schema_titles(measured.plan.schema), _contents(measured)
    imported = manifest.body.get("imported")
    epsilon, delta = _epsilon(manifest.privacy)
    sources = {} if imported is None else {"files": imported["source_sha256"], **imported["beside_sha256"]}
    if imported is not None and "description_sha256" in imported:
        sources["description"] = imported["description_sha256"]
    return {
        "name": manifest.body["name"],
        "imported": imported,
        "marks": marks_of(manifest).lines(),
        "is_protected": manifest.protected,
        "unit": titles.unit,
        "tiles": _tiles(contents, check, epsilon, delta),
        "points": _points(contents, titles, check, manifest.privacy, imported),
        "geolevels": [
            (titles.geolevel(item.geolevel), item, grouped(item.noisy_answers)) for item in contents
        ],
        "answers": _matrix(contents, titles),
        "left_out": [] if imported is None else imported.get("left_out", []),
        "symbol": "ρ" if manifest.spent.unit == "rho" else "ε",
        "spent": exact(manifest.spent.spent),
        "epsilon": epsilon,
        "delta": delta,
        "neighbours": f"{manifest.privacy['neighbours']} neighbours: {manifest.privacy['neighbours_in_words']}",
        "costs": [
            (
                titles.geolevel(level["geolevel"]),
                at_most(Fraction(level["spent"]), 4),
                claim_text(level["epsilon"]["upper"], 4),
            )
            for level in manifest.privacy["exact"]["geolevels"]
        ],
        "exactly": manifest.privacy["invariants"],
        "check": check,
        "as_stated": AS_STATED,
        "wrong": [] if check is None else [str(item) for item in _by_excess(check)[:_NAMED]],
        "sums": [] if check is None else [_sum_texts(item, titles) for item in check.residuals],
        "constraints": []
        if check is None
        else [_constraint_texts(item, titles) for item in check.constraints],
        "sources": list(sources.items()),
        "run": measured.earlier.run,
        "version": VERSION,
    }


def _contents(measured: Measured) -> list[_Contents]:
    plan, hierarchies = measured.plan, measured.hierarchies
    contents = []
    for number, geolevel in enumerate(hierarchies.spine.geolevels):
        queries = plan.strategy.queries(geolevel) if geolevel in plan.strategy.geolevels else ()
        n = hierarchies.spine.n_geounits(number)
        n_measured = n if hierarchies.shares is None else int(hierarchies.shares.measured(number).sum())
        answers = {query: plan.schema.query(query).size for query in queries}
        contents.append(_Contents(geolevel, n, n_measured if answers else 0, answers))
    return contents


def _matrix(contents: list[_Contents], titles: Titles) -> Matrix:
    """The number of answers of every query in one geounit, by geolevel."""
    queries = dict.fromkeys(query for item in contents for query in item.answers)
    rows = (
        (
            titles.query(query),
            tuple(grouped(item.answers[query]) if query in item.answers else None for item in contents),
        )
        for query in queries
    )
    return Matrix(tuple(titles.geolevel(item.geolevel) for item in contents), tuple(rows))


def _epsilon(privacy: dict[str, Any]) -> tuple[str, str]:
    """The epsilon that the manifest states, and its delta."""
    stated = privacy["exact"]
    return claim_text(stated["epsilon"]["upper"]), power_of_ten(Fraction(stated["delta"]))


def _tiles(contents: list[_Contents], check: Check | None, epsilon: str, delta: str) -> list[NumberTile]:
    tiles = [
        NumberTile(
            "Noisy answers",
            grouped(sum(item.noisy_answers for item in contents)),
            f"in {grouped(sum(item.measured for item in contents))} geounits",
        ),
        NumberTile("Differential privacy", f"ε ≤ {epsilon}", Markup("at δ = {}").format(delta)),
    ]
    if check is not None:
        every = (*check.residuals, *check.constraints)
        tiles.append(
            NumberTile(
                "As stated",
                f"{grouped(len(every) - len(check.wrong))} of {grouped(len(every))}",
                "sums and constraints",
            )
        )
    return tiles


def _points(
    contents: list[_Contents],
    titles: Titles,
    check: Check | None,
    privacy: dict[str, Any],
    imported: dict[str, Any] | None,
) -> tuple[SummaryPoint, ...]:
    levels = [titles.geolevel(item.geolevel) for item in contents if item.answers]
    queries = {query for item in contents for query in item.answers}
    origin = (
        f"Noisy counts that others published, read as {imported['product']} (layout {imported['layout']})."
        if imported is not None
        else "Noisy counts that tallyveil measure drew."
    )
    left_out = [] if imported is None else imported.get("left_out", [])
    lacking = f" The files lack {listed(left_out)}; this is unmeasured." if left_out else ""
    return (
        SummaryPoint(
            "What this is",
            f"{origin} There are no estimates on this page: it says what was measured, and whether it fits together.",
        ),
        SummaryPoint(
            "What was measured",
            f"{len(queries)} queries about {titles.unit.many} at {listed(levels)}.{lacking}",
        ),
        SummaryPoint("Whether it is as stated", verdict(check)),
        SummaryPoint("What it says of privacy", f"{privacy['statement']}."),
    )


def verdict(check: Check | None) -> str:
    """What a check says, in sentences."""
    if check is None:
        return "Not checked: the limits of chance are known here for Gaussian noise alone, and this noise is not."
    unchecked = f" Not checked: {listed(list(check.unchecked))}." if check.unchecked else ""
    if not check.wrong:
        return (
            "Yes, as far as can be seen. Noisy answers lie around their joint estimate, exact counts and bounds as the "
            f"stated variances say. A mistake that is small beside the noise cannot be seen.{unchecked}"
        )
    n = len(check.residuals) + len(check.constraints)
    return (
        f"No. {grouped(len(check.wrong))} of {grouped(n)} sums and constraints are beyond the limits of chance, "
        f"farthest of all {_place(_by_excess(check)[0])}. Something is not as stated: geocodes, the order or meaning "
        f"of cells, exact counts, bounds or variances. Do not use the numbers before you know what.{unchecked}"
    )


def _by_excess(check: Check) -> list[QueryResiduals | ConstraintDistance]:
    """What is beyond the limits of chance, farthest first."""

    def excess(item: QueryResiduals | ConstraintDistance) -> float:
        if isinstance(item, ConstraintDistance):
            # Squared, as residuals are.
            return (item.distance / item.highest) ** 2
        worst = max(part.ratio / part.highest for part in (item.cell, item.geounit))
        return max(item.ratio / item.highest, worst)

    return sorted(check.wrong, key=excess, reverse=True)


def _place(item: QueryResiduals | ConstraintDistance) -> str:
    what = item.query if isinstance(item, QueryResiduals) else f"the constraint {item.constraint}"
    return f"{what} at {item.geolevel}"


def _unbroken_geolevel(name: str, titles: Titles) -> str:
    return titles.geolevel(name).replace(" ", "\N{NO-BREAK SPACE}")


def _sum_texts(item: QueryResiduals, titles: Titles) -> tuple[str, ...]:
    query = titles.query(item.query)
    return (
        _unbroken_geolevel(item.geolevel, titles),
        query if item.part is None else f"{query} ({item.part})",
        rounded(item.degrees),
        rounded(item.ratio),
        f"{rounded(item.lowest)} to {rounded(item.highest)}",
        f"{rounded(item.cell.ratio)} ({rounded(item.cell.highest)})",
        f"{rounded(item.geounit.ratio)} ({rounded(item.geounit.highest)})",
        AS_STATED if item.is_as_stated else NOT_AS_STATED,
    )


def _constraint_texts(item: ConstraintDistance, titles: Titles) -> tuple[str, ...]:
    return (
        _unbroken_geolevel(item.geolevel, titles),
        item.constraint,
        "exact counts" if item.is_exact else "bounds",
        titles.query(item.query),
        grouped(item.n_sums),
        f"{rounded(item.distance)} ({rounded(item.highest)})",
        AS_STATED if item.is_as_stated else NOT_AS_STATED,
    )
