"""The page of a programme: its releases, what all of them guarantee together, and checks between their files."""

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tallyveil.accounting.events import Neighbours
from tallyveil.accounting.ledger.joint_cost import least_epsilon
from tallyveil.accounting.numbers import claim_text
from tallyveil.files.finished import PROGRAMME, refuse_unfinished
from tallyveil.files.manifest import Manifest
from tallyveil.files.marks import mark_lines
from tallyveil.plans.guess import guess_of_pair, guess_words
from tallyveil.products.dhc.public.programme_file import ProgrammeRelease, restated_programme
from tallyveil.report.page import REPORT, SummaryPoint, write_release_page
from tallyveil.report.privacy import exact
from tallyveil.report.wording import grouped, power_of_ten
from tallyveil.schema.schema import Unit
from tallyveil.storage.json_files import JsonObject
from tallyveil.words.listing import listed


def write_programme_report(root: Path) -> Path:
    """Write `report.html`, one page about the finished releases of a programme.

    If a release has changed what it says of itself, such as after an evaluation, `programme.json` is written anew.

    Args:
        root: Folder of the programme.
    Raises:
        StoreError: the programme is not finished, a published file is damaged, or the page cannot be written.
    Privacy: reads published files only, so the page adds nothing to what they reveal.
    """
    refuse_unfinished(root)
    content, parts = restated_programme(root)
    values = _values(content, parts)
    return write_release_page(root, "programme.html.j2", values, module=__name__, signed=PROGRAMME)


def _values(content: JsonObject, parts: list[ProgrammeRelease]) -> dict[str, Any]:
    guarantee = content["guarantee"]
    totals = guarantee["by_unit"]
    # With one unit of records, the total of the unit is that of the programme.
    if len(totals) > 1:
        totals = [*totals, guarantee["together"]]
    return {
        "name": content["name"],
        "is_protected": content["protected"],
        "marks": mark_lines(content["warnings"]),
        "n_releases": len(parts),
        "points": _points(content, parts),
        "rows": [_row(part) for part in parts],
        "totals": [_total(total, {part.unit.many: part.unit for part in parts}) for total in totals],
        "statement": guarantee["together"]["statement"],
        "not_covered": guarantee["together"].get("not_covered", []),
        "between": content["between"],
        "digests": [(total["name"], total["run"], total["manifest_sha256"]) for total in content["releases"]],
        "version": content["tallyveil"],
    }


def _row(part: ProgrammeRelease) -> JsonObject:
    """A release in the table of all releases."""
    manifest = part.manifest
    return {
        "name": part.name,
        "link": f"{quote(part.name)}/{REPORT}",
        "counts": f"{grouped(_records(manifest))} {part.unit.many}",
        "reads": listed(list(part.reads)) if part.reads else "–",
        "spent": f"{manifest.spent.unit} {exact(manifest.spent.spent).text}",
        "epsilon": claim_text(manifest.privacy["exact"]["epsilon"]["upper"]),
        "delta": power_of_ten(Fraction(manifest.privacy["exact"]["delta"])),
        "checks": len(manifest.checks),
    }


def _records(manifest: Manifest) -> int:
    return int(manifest.body["sizes"]["records"])


def _total(part: JsonObject, units: Mapping[str, Unit]) -> JsonObject:
    """One line of the table of totals."""
    return {
        "records": listed([f"one {units[many].one}’s record" for many in part["units"]]),
        "releases": listed(part["releases"]),
        "rho": exact(Fraction(part["rho"])).text,
        "epsilon": claim_text(least_epsilon(part)),
        "delta": power_of_ten(Fraction(part["delta"])),
        "not_exact": part.get("not_exact", ""),
    }


def _points(content: JsonObject, parts: list[ProgrammeRelease]) -> tuple[SummaryPoint, ...]:
    units = {part.unit.many: part.unit for part in parts}
    return (
        SummaryPoint("What this is", _what(content, parts)),
        SummaryPoint("What may not be concluded", _not(list(units))),
        *(
            SummaryPoint(
                f"What it means for one {units[total['units'][0]].one}",
                _means(total, units[total["units"][0]]),
            )
            for total in content["guarantee"]["by_unit"]
        ),
    )


def _what(content: JsonObject, parts: list[ProgrammeRelease]) -> str:
    read = [part for part in parts if part.reads]
    number = f"{len(parts)} releases" if len(parts) > 1 else "One release"
    built = (
        f" {listed([part.name for part in read])} read{'s' if len(read) == 1 else ''} published counts of earlier ones."
        if read
        else ""
    )
    agree = (
        ""
        if all(agreement["agrees"] for agreement in content["between"])
        else " Not all checks between them agree."
    )
    return (
        f"{number} with noise of {'their' if len(parts) > 1 else 'its'} own, made in this order: "
        f"{listed([part.name for part in parts])}.{built}{agree} Each has a page of its own, which says how sure its "
        "counts are."
    )


def _not(units: list[str]) -> str:
    if len(units) == 1:
        return (
            "Counts of two releases have different noise, so that they need not be equal where the true counts are. Do "
            "not take a difference between two releases for a change."
        )
    return (
        f"Counts of {listed(units)} have different noise. In a small area they need not fit to each other unless the "
        "releases were made to agree."
    )


def _means(part: JsonObject, unit: Unit) -> str:
    """The guarantee of all releases of a unit in words, from their epsilon together."""
    right = guess_of_pair(least_epsilon(part), float(Fraction(part["delta"])))
    return guess_words(right, Neighbours.of(part["neighbours"]), unit)
