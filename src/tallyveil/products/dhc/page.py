"""The page of a programme: its releases, what all of them guarantee together, and checks between their files."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tallyveil.accounting.events import Neighbours
from tallyveil.accounting.ledger.joint_cost import least_epsilon
from tallyveil.accounting.numbers import claim_text
from tallyveil.files.finished import PLAN, PROGRAMME, refuse_unfinished
from tallyveil.files.manifest import Manifest
from tallyveil.files.marks import mark_lines
from tallyveil.plans.fitting import stated_plan
from tallyveil.plans.guess import guess_of_pair, guess_words
from tallyveil.products.dhc.public.programme_file import ProgrammeRelease, restated_programme
from tallyveil.report.page import (
    REPORT,
    Edition,
    SummaryPoint,
    signed_values,
    write_editions,
    write_release_page,
)
from tallyveil.report.privacy import exact
from tallyveil.report.release_files import schema_titles
from tallyveil.report.wording import grouped, power_of_ten
from tallyveil.schema.schema import Unit
from tallyveil.storage.json_files import JsonObject
from tallyveil.words.language import ENGLISH, Figure, Language, language_of
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
    plans = [stated_plan(root / part.name / PLAN, part.manifest.body["plan"]) for part in parts]
    # A page has the languages that all its releases have, in the order of the first.
    languages = [tag for tag in plans[0].languages if all(tag in plan.languages for plan in plans)]
    if not languages:
        called = _Called(ENGLISH, {part.unit.many: part.unit for part in parts})
        values = _values(content, parts, called)
        return write_release_page(root, "programme.html.j2", values, module=__name__, signed=PROGRAMME)
    editions = []
    for tag in languages:
        language = language_of(tag)
        titles = [schema_titles(plan.schema, plan.labels_in(tag), language) for plan in plans]
        units = {part.unit.many: title.unit for part, title in zip(parts, titles, strict=True)}
        values = _values(content, parts, _Called(language, units))
        editions.append(Edition(tag, language, signed_values(root, PROGRAMME, values, language)))
    return write_editions(root / REPORT, "programme.html.j2", editions, module=__name__)


@dataclass(frozen=True, slots=True)
class _Called:
    """How a page calls what its programme has.

    Attributes:
        language: Of its sentences.
        units: What one record of a release is, by the plural that the release itself uses.
    """

    language: Language
    units: Mapping[str, Unit]

    def figure(self, number: str) -> str:
        """A number as the language writes it, for texts that have more than the number."""
        return str(self.language.figure(number))


def _values(content: JsonObject, parts: list[ProgrammeRelease], called: _Called) -> dict[str, Any]:
    guarantee = content["guarantee"]
    totals = guarantee["by_unit"]
    # With one unit of records, the total of the unit is that of the programme.
    if len(totals) > 1:
        totals = [*totals, guarantee["together"]]
    return {
        "name": content["name"],
        "is_protected": content["protected"],
        "marks": mark_lines(content["warnings"], called.language),
        "points": _points(content, parts, called),
        "rows": [_row(part, called) for part in parts],
        "totals": [_total(total, called) for total in totals],
        "statement": guarantee["together"]["statement"],
        "not_covered": guarantee["together"].get("not_covered", []),
        "between": content["between"],
        "digests": [(total["name"], total["run"], total["manifest_sha256"]) for total in content["releases"]],
        "version": content["tallyveil"],
    }


def _row(part: ProgrammeRelease, called: _Called) -> JsonObject:
    """A release in the table of all releases."""
    manifest = part.manifest
    return {
        "name": part.name,
        "link": f"{quote(part.name)}/{REPORT}",
        "counts": f"{called.figure(grouped(_records(manifest)))} {called.units[part.unit.many].many}",
        "reads": listed(list(part.reads), called.language) if part.reads else "–",
        "spent": f"{manifest.spent.unit} {called.figure(exact(manifest.spent.spent).text)}",
        "epsilon": Figure(claim_text(manifest.privacy["exact"]["epsilon"]["upper"])),
        "delta": power_of_ten(Fraction(manifest.privacy["exact"]["delta"])),
        "checks": len(manifest.checks),
    }


def _records(manifest: Manifest) -> int:
    return int(manifest.body["sizes"]["records"])


def _total(part: JsonObject, called: _Called) -> JsonObject:
    """One line of the table of totals."""
    say = called.language.say
    records = [say("one {unit}’s record", unit=called.units[many].one) for many in part["units"]]
    return {
        "records": listed(records, called.language),
        "releases": listed(part["releases"], called.language),
        "rho": exact(Fraction(part["rho"])).text,
        "epsilon": Figure(claim_text(least_epsilon(part))),
        "delta": power_of_ten(Fraction(part["delta"])),
        "not_exact": part.get("not_exact", ""),
    }


def _points(content: JsonObject, parts: list[ProgrammeRelease], called: _Called) -> tuple[SummaryPoint, ...]:
    say = called.language.say
    return (
        SummaryPoint(say("What this is"), _what(content, parts, called.language)),
        SummaryPoint(say("What may not be concluded"), _not(called)),
        *(
            SummaryPoint(
                say("What it means for one {unit}", unit=called.units[total["units"][0]].one),
                _means(total, called.units[total["units"][0]], called.language),
            )
            for total in content["guarantee"]["by_unit"]
        ),
    )


def _what(content: JsonObject, parts: list[ProgrammeRelease], language: Language) -> str:
    say = language.say
    read = listed([part.name for part in parts if part.reads], language)
    sentences = [
        language.counted(
            len(parts),
            "One release with noise of its own: {releases}.",
            "{number} releases with noise of their own, made in this order: {releases}.",
            releases=listed([part.name for part in parts], language),
        )
    ]
    if any(part.reads for part in parts):
        sentences.append(say("Published counts of earlier releases are read by: {releases}.", releases=read))
    if not all(agreement["agrees"] for agreement in content["between"]):
        sentences.append(say("Not all checks between them agree."))
    sentences.append(say("Each has a page of its own, which says how sure its counts are."))
    return " ".join(sentences)


def _not(called: _Called) -> str:
    say, units = called.language.say, [unit.many for unit in called.units.values()]
    if len(units) == 1:
        return say(
            "Counts of two releases have different noise, so that they need not be equal where the true counts are. Do "
            "not take a difference between two releases for a change."
        )
    return say(
        "Counts of {units} have different noise. In a small area they need not fit to each other unless the releases "
        "were made to agree.",
        units=listed(units, called.language),
    )


def _means(part: JsonObject, unit: Unit, language: Language) -> str:
    """The guarantee of all releases of a unit in words, from their epsilon together."""
    right = guess_of_pair(least_epsilon(part), float(Fraction(part["delta"])))
    return guess_words(right, Neighbours.of(part["neighbours"]), unit, language)
