"""The page of a comparison: pictures first, then a table that a director reads, then each method by itself.

Some methods are shown and not ranked (`Method.unranked`): they stand in tables, and hollow in pictures, but are neither
called the least of a column nor anybody's counterpart.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tallyveil.accounting.numbers import at_most
from tallyveil.compare.attacks.attack import Attack, Finding
from tallyveil.compare.columns import (
    ABSENT,
    FEWEST_TRIED,
    Column,
    best_finding,
    columns_of,
    middle_areas,
    number_text,
)
from tallyveil.compare.figures import Dot, risk_figure
from tallyveil.compare.inputs import Areas
from tallyveil.compare.losses import ERROR_OF_ALL, value_of
from tallyveil.compare.published import is_empty
from tallyveil.compare.results import Comparison, MethodResult
from tallyveil.files.evaluation import WARNING
from tallyveil.report.page import SummaryPoint, write_page
from tallyveil.report.svg import Picture
from tallyveil.report.wording import duration, name_title
from tallyveil.version import VERSION
from tallyveil.words.listing import listed

PAGE: Final = "comparison.html"

SIMILAR: Final = 0.25
"""Part of the larger loss by which two methods at a similar loss may differ. At twice it one may lose twice as much."""


def write_comparison_page(out: Path, comparison: Comparison) -> Path:
    """Write the page.

    Raises:
        StoreError: the file cannot be written.
    Privacy: none; the page says so at its top and its end.
    """
    columns = columns_of(comparison)
    return write_page(
        out / PAGE,
        "comparison.html.j2",
        {
            "name": comparison.plan.name,
            "unit": comparison.shared.schema.unit,
            "points": _points(comparison),
            "note": comparison.file.note,
            "least": [row for column in columns if (row := _least(column, columns[0], comparison.results))],
            "loss": columns[0].title,
            "unranked": [
                (number, result.method.unranked)
                for number, result in enumerate(comparison.results, start=1)
                if result.method.unranked
            ],
            "fewest_tried": FEWEST_TRIED,
            "figures": _figures(comparison),
            "names": [result.method.name for result in comparison.results],
            "director": _tables(comparison, columns),
            "methods": [
                _method(number, result, comparison, columns)
                for number, result in enumerate(comparison.results, start=1)
            ],
            "attacks": [_attack(attack, comparison) for attack in comparison.shown_attacks],
            "refused": list(comparison.refused.items()),
            "control": comparison.control,
            "key": comparison.file.key,
            "draws": comparison.file.draws,
            "questions": comparison.file.questions,
            "people": comparison.file.attacks.people,
            "sensitive": name_title(comparison.file.attacks.sensitive),
            "known": listed(
                [
                    name_title(comparison.shared.finest.name),
                    *(
                        name_title(name)
                        for name in comparison.shared.schema.attribute_names
                        if name != comparison.file.attacks.sensitive
                    ),
                ]
            ),
            "areas": [(name_title(areas.name), f"{areas.n_areas:,}") for areas in comparison.shared.areas],
            "tables": [query.name for query in comparison.shared.queries],
            "seconds": duration(comparison.seconds),
            "warning": WARNING,
            "version": VERSION,
        },
        module=__name__,
    )


def _points(comparison: Comparison) -> tuple[SummaryPoint, ...]:
    return (
        SummaryPoint(
            "What this page is",
            f"{len(comparison.results)} ways of publishing the same tables, with what users lose and what attackers "
            "gain by each: kinds of methods that offices use, each alone and with the settings of this comparison. It "
            "is for those who may see the records.",
        ),
        SummaryPoint(
            "How to read it",
            "Two methods are compared fairly at the same loss, or at the same risk, never by one number alone. Which "
            "attacker matters depends on what an office publishes and whom it fears.",
        ),
        SummaryPoint(
            "What not to conclude",
            "An attack that fails proves nothing: a better one may succeed. Only a bound speaks of all attackers, "
            "whatever they know. The people, the tables and the settings are these; others give other numbers. What is "
            "published next year, or by a second method beside the first, adds to what attackers know; of the numbers "
            "here only bounds add up. Where there is no bound, further tables can give more away; a bound holds for "
            "all tables that follow from one release. Offices combine methods, such as swapping, cell keys and rules "
            "on what may be shown at all; combinations and such rules are not tried.",
        ),
    )


def _least(
    column: Column, loss: Column, results: Sequence[MethodResult]
) -> tuple[str, str, str, str, str] | None:
    """Which ranked method has the least of a column, its loss, and how many are near; None where none has a number."""
    values = [(value, result) for result in results if (value := column.ranked(result)) is not None]
    if not values:
        return None
    least = min(value for value, _ in values)
    best = [result for value, result in values if value == least]
    who = best[0].method.name if len(best) == 1 else f"{len(best)} methods"
    losses = sorted(value for result in best if (value := loss.ranked(result)) is not None)
    lost = (
        " to ".join(dict.fromkeys(loss.text(value) for value in (losses[0], losses[-1])))
        if losses
        else ABSENT
    )
    near = sum(value > least and not column.is_apart(best[0], result) for value, result in values)
    return column.title, column.text(least), who, lost, f"{near}" if near else ABSENT


def _figures(comparison: Comparison) -> list[dict[str, Any]]:
    """For each attack, its risk against errors of the finest geounits and, beside it, of larger areas."""
    figures = []
    for attack in comparison.shown_attacks:
        picture = _figure(comparison, attack, comparison.shared.finest)
        if picture is not None:
            middle = middle_areas(comparison.shared)
            wide = None if middle is comparison.shared.finest else _figure(comparison, attack, middle)
            figures.append(
                {
                    "title": f"({attack.letter}) {attack.name}",
                    "picture": picture,
                    "who": " ".join([attack.who, *_such(attack, comparison)]),
                    "wide": wide,
                    "areas": name_title(middle.name),
                }
            )
    return figures


def _figure(comparison: Comparison, attack: Attack, areas: Areas) -> Picture | None:
    """The risk of an attack against the errors of some areas; None where no method has both."""
    shared = comparison.shared
    query = (shared.detailed or shared.queries[-1]).name
    dots, priors = [], []
    for number, result in enumerate(comparison.results, start=1):
        item = best_finding(result, attack.name, attack.headline)
        loss = value_of(result.losses, areas.name, query, ERROR_OF_ALL)
        if item is not None and item.value is not None and loss is not None:
            priors.append(item.prior or 0.0)
            low, high = (item.value if end is None else end for end in (item.low, item.high))
            method = result.method
            dots.append(
                Dot(
                    number,
                    method.name,
                    method.family,
                    loss,
                    item.value,
                    low,
                    high,
                    None if method.unranked else item.bound,
                    is_ranked=method.unranked is None and item.tried >= FEWEST_TRIED,
                )
            )
    if not dots:
        return None
    return risk_figure(
        f"risk-{attack.letter}-{shared.areas.index(areas)}",
        dots,
        loss=f"mean absolute error of a count of “{query}”, {name_title(areas.name)}",
        risk=attack.headline,
        most=comparison.power[attack.name][0],
        # The same for all methods.
        least=max(priors),
    )


def _tables(comparison: Comparison, columns: Sequence[Column]) -> list[dict[str, Any]]:
    """The director's table in two parts: what users lose, and what attackers gain."""
    results = comparison.results

    def bounds(result: MethodResult) -> list[str]:
        certificate = result.certificate
        both = (None, None) if certificate is None else (certificate.advantage, certificate.power)
        return [_bound_text(bound) for bound in both]

    losses = [column for column in columns if column.finding is None]
    gains = [column for column in columns if column.finding is not None]
    return [
        {
            "title": "What users lose",
            "headings": [*(column.title for column in losses), "time to publish"],
            "rows": [
                [*(column.written(result) for column in losses), duration(result.seconds)]
                for result in results
            ],
        },
        {
            "title": "What attackers gain",
            "headings": [
                *(column.title for column in gains),
                "bound on (a)",
                "bound on caught at 1 % false alarms (g)",
            ],
            "rows": [[*(column.written(result) for column in gains), *bounds(result)] for result in results],
        },
    ]


def _method(
    number: int, result: MethodResult, comparison: Comparison, columns: Sequence[Column]
) -> dict[str, Any]:
    method, certificate = result.method, result.certificate
    empty = certificate is not None and certificate.advantage is not None and certificate.is_empty
    kind = (type(method).__doc__ or "").replace("`", "").strip().split("\n\n")
    return {
        "number": number,
        "name": method.name,
        "what": " ".join(kind[0].split()),
        "settings": [f"{key} = {value}" for key, value in method.settings().items()],
        "literature": method.literature,
        "strength": method.strength
        + (" Here the bound is practically empty, and no strength." if empty else ""),
        "cannot": method.cannot,
        "guarantee": method.unbounded
        if certificate is None
        else certificate.epsilon + "." + (" This is practically empty." if certificate.is_empty else ""),
        "invariants": [] if certificate is None else list(certificate.invariants),
        "against": _against(result, comparison, columns),
        "notes": list(result.notes),
        "findings": [finding_texts(item) for item in result.findings],
        "draws": result.draws,
    }


def _bound_text(bound: float | None) -> str:
    if bound is None:
        return ABSENT
    return "practically empty" if is_empty(bound) else f"≤ {at_most(bound, places=3)}"


def _is_bounded(result: MethodResult) -> bool:
    """Whether a bound on the advantage of (a) is proved."""
    return result.certificate is not None and result.certificate.advantage is not None


def _against(result: MethodResult, comparison: Comparison, columns: Sequence[Column]) -> str:
    """Which of this method and its nearest counterpart, with a bound or without, is better in what, said both ways."""
    first = columns[0]
    here = first.ranked(result)
    if here is None:
        return ""
    bounded = _is_bounded(result)
    others = [
        (abs(there - here), other)
        for other in comparison.results
        if _is_bounded(other) != bounded
        and (there := first.ranked(other)) is not None
        and abs(there - here) <= SIMILAR * max(there, here)
    ]
    if not others:
        return (
            f"None: no method {'without' if bounded else 'with'} a bound on a changed record has a similar loss, "
            f"within a quarter of {first.text(here)} ({first.title})."
        )
    _, other = min(others, key=lambda pair: pair[0])
    better: list[str] = []
    worse: list[str] = []
    for column in columns[1:]:
        mine, theirs = column.ranked(result), column.ranked(other)
        if mine is None or theirs is None or not column.is_apart(result, other):
            continue
        (better if mine < theirs else worse).append(
            f"{column.less} ({column.text(mine)} against {column.text(theirs)})"
        )
    there = first.ranked(other) or 0.0
    return (
        f"Nearest by {first.title}: {other.method.name} ({first.text(here)} here, {first.text(there)} there). "
        f"Better here: {listed(better)}. Better there: {listed(worse)}."
    )


def _such(attack: Attack, comparison: Comparison) -> list[str]:
    """How many people the attack is about and how many judged it, in a sentence; none where it is about anybody."""
    number = comparison.at_risk.get(attack.name)
    if number is None:
        return []
    judged = max(
        (
            item.tried
            for result in comparison.results
            if (item := best_finding(result, attack.name, attack.headline)) is not None
        ),
        default=0,
    )
    return [
        f"{number:,} of {int(comparison.shared.counts.sum()):,} people are such; {judged:,} judged the attack."
    ]


def _attack(attack: Attack, comparison: Comparison) -> dict[str, Any]:
    exact, nearly = comparison.power[attack.name]
    return {
        "title": f"({attack.letter}) {attack.name}",
        "who": attack.who,
        "prior": attack.prior,
        "bounded": attack.bounded,
        "reading": attack.reading,
        "such": " ".join(_such(attack, comparison)),
        "headline": attack.headline,
        "exact": ABSENT if exact is None else number_text(exact),
        "nearly": ABSENT if nearly is None else number_text(nearly),
    }


def finding_texts(item: Finding) -> dict[str, str]:
    """A finding as pages and tables write it."""

    def text(value: float | None) -> str:
        return ABSENT if value is None else f"{value:.3f}".replace("-", "−")

    interval = "" if item.low is None or item.high is None else f"{text(item.low)} to {text(item.high)}"
    return {
        "attack": item.attack,
        "measure": item.measure,
        "value": text(item.value),
        "interval": interval,
        "tried": f"{item.tried:,}",
        "prior": text(item.prior),
        "bound": _bound_text(item.bound),
    }
