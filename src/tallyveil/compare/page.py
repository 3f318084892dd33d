"""The page of a comparison: pictures first, then a table that a director reads, then each method by itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from tallyveil.accounting.numbers import at_most
from tallyveil.compare.attacks.attack import Attack, Finding
from tallyveil.compare.figures import Dot, risk_figure
from tallyveil.compare.inputs import Areas
from tallyveil.compare.losses import ERROR_OF_ALL, ERROR_OF_CHANGE, GAP, value_of
from tallyveil.compare.results import Comparison, MethodResult
from tallyveil.files.evaluation import WARNING
from tallyveil.report.page import SummaryPoint, write_page
from tallyveil.report.svg import Picture
from tallyveil.report.wording import duration, name_title, percent, rounded
from tallyveil.version import VERSION
from tallyveil.words.listing import listed

PAGE: Final = "comparison.html"
ABSENT: Final = "–"


@dataclass(frozen=True, slots=True)
class _Column:
    """One measure of the director's table, in which less is better for somebody.

    Attributes:
        title: Heading.
        value: The number of a method; None where it has none.
        text: How it is written.
        less: What a smaller number is called in a sentence.
        finding: Of the attack that the number is from; None for losses.
    """

    title: str
    value: Callable[[MethodResult], float | None]
    text: Callable[[float], str]
    less: str
    finding: Callable[[MethodResult], Finding | None] | None = None

    def is_apart(self, first: MethodResult, second: MethodResult) -> bool:
        """Whether two methods differ by more than a tenth and, where attacks were tried on people, by more than chance.

        Chance explains a difference where the intervals of the two overlap. A missing end is the value itself.
        """
        here, there = self.value(first), self.value(second)
        if here is None or there is None or abs(here - there) <= 0.1 * max(abs(here), abs(there), 0.01):
            return False
        low, high = self._ends(first, here)
        other_low, other_high = self._ends(second, there)
        return high < other_low or other_high < low

    def _ends(self, result: MethodResult, value: float) -> tuple[float, float]:
        item = None if self.finding is None else self.finding(result)
        low, high = (None, None) if item is None else (item.low, item.high)
        return value if low is None else low, value if high is None else high


def _finding(result: MethodResult, attack: str, measure: str) -> Finding | None:
    """The finding of the better source, where there are several."""
    items = [
        item
        for item in result.findings
        if item.attack == attack and item.measure.startswith(measure) and item.value is not None
    ]
    return max(items, key=lambda item: item.value or 0.0, default=None)


def _number(value: float) -> str:
    return rounded(value, 3).replace("-", "−")


def columns_of(comparison: Comparison) -> tuple[_Column, ...]:
    """The measures of the director's table: losses first, then what the attackers gained."""
    shared = comparison.shared
    finest, middle = shared.finest.name, _middle(comparison).name
    query = (shared.detailed or shared.queries[-1]).name
    parent = shared.areas[max(shared.n_geolevels - 2, 0)].name

    def loss(areas: str, measure: str, part: str = "all") -> Callable[[MethodResult], float | None]:
        return lambda result: value_of(result.losses, areas, query, measure, part)

    def gain(finding: Callable[[MethodResult], Finding | None]) -> Callable[[MethodResult], float | None]:
        def value(result: MethodResult) -> float | None:
            item = finding(result)
            return None if item is None else item.value

        return value

    columns = [
        _Column(
            f"error of a {name_title(finest)} cell",
            loss(finest, ERROR_OF_ALL),
            _number,
            f"smaller errors of {name_title(finest)} cells",
        ),
        _Column(
            f"error of a {name_title(middle)} cell",
            loss(middle, ERROR_OF_ALL),
            _number,
            f"smaller errors of {name_title(middle)} cells",
        ),
        _Column(
            f"{name_title(parent)} sums that disagree",
            loss(parent, "share of sums that disagree", f"sums of {finest}"),
            percent,
            "fewer sums that disagree",
        ),
        _Column(
            f"mean difference of {name_title(parent)} sums",
            loss(parent, GAP, f"sums of {finest}"),
            _number,
            "smaller differences of sums",
        ),
        _Column(
            f"{name_title(finest)} zeros filled",
            loss(finest, "share of zeros published above zero"),
            percent,
            "fewer zeros filled",
        ),
        _Column(
            f"{name_title(finest)} counts lost to zero",
            loss(finest, "share of counts above zero published as zero"),
            percent,
            "fewer counts lost to zero",
        ),
        _Column(
            f"{name_title(finest)} counts hidden",
            loss(finest, "share of counts above zero hidden"),
            percent,
            "fewer counts hidden",
        ),
    ]
    if comparison.file.later is not None:
        columns.append(
            _Column(
                f"error of a {name_title(middle)} change",
                loss(middle, ERROR_OF_CHANGE),
                _number,
                f"smaller errors of {name_title(middle)} changes",
            )
        )
    by_attack: dict[str, list[tuple[str, str, Callable[[float], str], str]]] = {
        "knows everybody else": [
            ("(a) advantage", "advantage", _number, "less advantage for who knows all others")
        ],
        "attribute of the rare": [
            ("(b) bits", "bits gained", _number, "fewer bits on rare people"),
            ("(b) rare guessed", "rare people guessed", percent, "fewer rare people guessed"),
            (
                "(b) surprising guesses right",
                "surprising guesses right",
                percent,
                "fewer surprising guesses right",
            ),
        ],
        "repeated questions": [
            (
                "(c) exact after 200, where questions are answered",
                "counts found exactly after 200",
                percent,
                "fewer counts found by questions",
            )
        ],
    }
    for attack in comparison.shown_attacks:
        for title, measure, text, less in by_attack.get(attack.name, []):
            finding = partial(_finding, attack=attack.name, measure=measure)
            columns.append(_Column(title, gain(finding), text, less, finding))
    return tuple(columns)


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
            "least": [row for column in columns if (row := _least(column, comparison.results))],
            "figures": _figures(comparison),
            "headings": [column.title for column in columns],
            "rows": _rows(comparison, columns),
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
            "gain by each. It is for those who may see the records.",
        ),
        SummaryPoint(
            "How to read it",
            "Two methods are compared fairly at the same loss, or at the same risk, never by one number alone. Which "
            "attacker matters depends on what an office publishes and whom it fears.",
        ),
        SummaryPoint(
            "What not to conclude",
            "An attack that fails proves nothing: a better one may succeed. Only a bound speaks of all attackers, and "
            "it speaks of the worst case, which may never happen. The people, the tables and the settings are these; "
            "others give other numbers. What is published next year, or by a second method beside the first, adds to "
            "what attackers know; of the numbers here only bounds add up. Where there is no bound, further "
            "tables can give more away; a bound holds for all tables that follow from one release. Offices combine "
            "methods, such as swapping and cell keys; combinations are not tried.",
        ),
    )


def _least(column: _Column, results: Sequence[MethodResult]) -> tuple[str, str, str, str] | None:
    """Which method has the least of a column, and how many are near it, in words; None where none has a number."""
    values = [(value, result) for result in results if (value := column.value(result)) is not None]
    if not values:
        return None
    least = min(value for value, _ in values)
    best = [result for value, result in values if value == least]
    who = best[0].method.name if len(best) == 1 else f"{len(best)} methods"
    near = sum(value > least and not column.is_apart(best[0], result) for value, result in values)
    return column.title, column.text(least), who, f"{near}" if near else ABSENT


def _figures(comparison: Comparison) -> list[dict[str, Any]]:
    """For each attack, its risk against errors of the finest geounits and, beside it, of larger areas."""
    figures = []
    for attack in comparison.shown_attacks:
        picture = _figure(comparison, attack, comparison.shared.finest)
        if picture is not None:
            middle = _middle(comparison)
            wide = None if middle is comparison.shared.finest else _figure(comparison, attack, middle)
            figures.append(
                {
                    "title": f"({attack.letter}) {attack.name}",
                    "picture": picture,
                    "who": attack.who,
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
        item = _finding(result, attack.name, attack.headline)
        loss = value_of(result.losses, areas.name, query, ERROR_OF_ALL)
        if item is not None and item.value is not None and loss is not None:
            priors.append(item.prior or 0.0)
            low, high = (item.value if end is None else end for end in (item.low, item.high))
            dots.append(
                Dot(number, result.method.name, result.method.family, loss, item.value, low, high, item.bound)
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


def _middle(comparison: Comparison) -> Areas:
    """The geolevel two above the finest, as tracts are above blocks: small areas that users look at."""
    return comparison.shared.areas[max(comparison.shared.n_geolevels - 3, 0)]


def _rows(comparison: Comparison, columns: Sequence[_Column]) -> list[dict[str, Any]]:
    rows = []
    for number, result in enumerate(comparison.results, start=1):
        texts = [
            ABSENT if (value := column.value(result)) is None else column.text(value) for column in columns
        ]
        bound = _bound(result)
        rows.append(
            {
                "number": number,
                "name": result.method.name,
                "texts": texts,
                "bound": ABSENT if bound is None else f"≤ {at_most(bound, places=3)}",
                "seconds": duration(result.seconds),
            }
        )
    return rows


def _method(
    number: int, result: MethodResult, comparison: Comparison, columns: Sequence[_Column]
) -> dict[str, Any]:
    method, certificate = result.method, result.certificate
    kind = (type(method).__doc__ or "").replace("`", "").strip().split("\n\n")
    return {
        "number": number,
        "name": method.name,
        "what": " ".join(kind[0].split()),
        "settings": [f"{key} = {value}" for key, value in method.settings().items()],
        "literature": method.literature,
        "strength": method.strength,
        "cannot": method.cannot,
        "guarantee": "No bound is known." if certificate is None else certificate.epsilon + ".",
        "invariants": [] if certificate is None else list(certificate.invariants),
        "against": _against(result, comparison, columns),
        "notes": list(result.notes),
        "findings": [finding_texts(item) for item in result.findings],
        "draws": result.draws,
    }


def _bound(result: MethodResult) -> float | None:
    """The bound on the advantage of (a); None where none is proved."""
    return None if result.certificate is None else result.certificate.advantage


def _against(result: MethodResult, comparison: Comparison, columns: Sequence[_Column]) -> str:
    """Which of this method and its nearest counterpart of another family is better in what, said both ways."""
    first = columns[0]
    here = first.value(result)
    bounded = _bound(result) is not None
    others = [
        (abs(there - here), other)
        for other in comparison.results
        if (_bound(other) is not None) != bounded
        and here is not None
        and (there := first.value(other)) is not None
    ]
    if not others or here is None:
        return ""
    _, other = min(others, key=lambda pair: pair[0])
    better: list[str] = []
    worse: list[str] = []
    for column in columns[1:]:
        mine, theirs = column.value(result), column.value(other)
        if mine is None or theirs is None or not column.is_apart(result, other):
            continue
        (better if mine < theirs else worse).append(
            f"{column.less} ({column.text(mine)} against {column.text(theirs)})"
        )
    there = first.value(other) or 0.0
    return (
        f"Nearest by {first.title}: {other.method.name} ({first.text(here)} here, {first.text(there)} there). "
        f"Better here: {listed(better)}. Better there: {listed(worse)}."
    )


def _attack(attack: Attack, comparison: Comparison) -> dict[str, Any]:
    exact, nearly = comparison.power[attack.name]
    return {
        "title": f"({attack.letter}) {attack.name}",
        "who": attack.who,
        "prior": attack.prior,
        "bounded": attack.bounded,
        "headline": attack.headline,
        "exact": ABSENT if exact is None else _number(exact),
        "nearly": ABSENT if nearly is None else _number(nearly),
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
        "bound": ABSENT if item.bound is None else f"≤ {at_most(item.bound, places=3)}",
    }
