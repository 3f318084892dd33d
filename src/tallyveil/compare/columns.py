"""The columns of the director's table: what users lose by each method, and what attackers gain."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from tallyveil.compare.attacks.attack import Finding
from tallyveil.compare.attacks.hidden_counts import HiddenCounts
from tallyveil.compare.attacks.knows_others import KnowsOthers
from tallyveil.compare.attacks.linkage import Linkage
from tallyveil.compare.attacks.presence import Presence
from tallyveil.compare.attacks.questions import RepeatedQuestions
from tallyveil.compare.attacks.rare_attribute import RareAttribute
from tallyveil.compare.attacks.reconstruction import Reconstruction
from tallyveil.compare.inputs import Areas, SharedInput
from tallyveil.compare.losses import ERROR_OF_ALL, ERROR_OF_CHANGE, GAP, value_of
from tallyveil.compare.results import Comparison, MethodResult
from tallyveil.report.wording import name_title, percent, rounded

FEWEST_TRIED: Final = 50
"""People from which a share is compared between methods: an interval of 95 % is then 29 points wide or less. At half as
many it is up to 41 points wide. How many surprising guesses an attacker makes depends on the method."""

ABSENT: Final = "–"
"""Stands where a method has no number."""

OFTEN_GUESSED: Final = ("share of records rebuilt", "people confirmed")
"""Measures of which an attacker has much without any table. That is taken off in the director's table."""


@dataclass(frozen=True, slots=True)
class Column:
    """One measure of the director's table, in which less is better for somebody.

    Attributes:
        title: Heading.
        value: The number of a method; None where it has none.
        text: How a number is written.
        less: What a smaller number is called in a sentence.
        finding: Of the attack that the number is from; None for losses.
    """

    title: str
    value: Callable[[MethodResult], float | None]
    text: Callable[[float], str]
    less: str
    finding: Callable[[MethodResult], Finding | None] | None = None

    def written(self, result: MethodResult) -> str:
        """The number of a method as it is written."""
        value = self.value(result)
        return ABSENT if value is None else self.text(value)

    def ranked(self, result: MethodResult) -> float | None:
        """The number by which methods are compared, with 0 for a negative one.

        None where the method has no number or is shown unranked, and where too few people were tried.
        """
        value = self.value(result)
        item = None if self.finding is None else self.finding(result)
        if value is None or result.method.unranked or (item is not None and item.tried < FEWEST_TRIED):
            return None
        # An attacker who loses protects nobody more than one who gains nothing.
        return max(value, 0.0)

    def is_apart(self, first: MethodResult, second: MethodResult) -> bool:
        """Whether two methods differ by more than a tenth and, where attacks were tried on people, by more than chance.

        Chance explains a difference where the intervals of the two overlap. A missing end is the value itself.
        """
        here, there = self.ranked(first), self.ranked(second)
        if here is None or there is None or abs(here - there) <= 0.1 * max(abs(here), abs(there), 0.01):
            return False
        low, high = self._ends(first, here)
        other_low, other_high = self._ends(second, there)
        return high < other_low or other_high < low

    def _ends(self, result: MethodResult, value: float) -> tuple[float, float]:
        item = None if self.finding is None else self.finding(result)
        low, high = (None, None) if item is None else (item.low, item.high)
        return value if low is None else max(low, 0.0), value if high is None else max(high, 0.0)


def best_finding(result: MethodResult, attack: str, measure: str) -> Finding | None:
    """The finding of the better source, where there are several."""
    items = [
        item
        for item in result.findings
        if item.attack == attack and item.measure.startswith(measure) and item.value is not None
    ]
    return max(items, key=lambda item: item.value or 0.0, default=None)


def _above_guessing(result: MethodResult, attack: str, measure: str) -> Finding | None:
    """The same, less what somebody has without the tables."""
    item = best_finding(result, attack, measure)
    if item is None:
        return None
    prior = item.prior or 0.0
    value, low, high = (None if end is None else end - prior for end in (item.value, item.low, item.high))
    return replace(item, value=value, low=low, high=high)


def number_text(value: float) -> str:
    """A number of the table."""
    return rounded(value, 3).replace("-", "−")


def _difference_text(value: float) -> str:
    return percent(value).replace("-", "−")


def columns_of(comparison: Comparison) -> tuple[Column, ...]:
    """The measures of the director's table: losses first, then what the attackers gained."""
    shared = comparison.shared
    finest, middle = shared.finest.name, middle_areas(comparison.shared).name
    query = (shared.detailed or shared.queries[-1]).name
    total = next((query.name for query in shared.queries if query.size == 1), None)
    families = shared.areas[shared.n_geolevels :]
    parent = shared.areas[max(shared.n_geolevels - 2, 0)].name

    def loss(
        areas: str, measure: str, part: str = "all", of: str = query
    ) -> Callable[[MethodResult], float | None]:
        return lambda result: value_of(result.losses, areas, of, measure, part)

    def gain(finding: Callable[[MethodResult], Finding | None]) -> Callable[[MethodResult], float | None]:
        def value(result: MethodResult) -> float | None:
            item = finding(result)
            return None if item is None else item.value

        return value

    columns = [
        Column(
            f"error of a {name_title(finest)} cell",
            loss(finest, ERROR_OF_ALL),
            number_text,
            f"smaller errors of {name_title(finest)} cells",
        ),
        Column(
            f"error of a {name_title(middle)} cell",
            loss(middle, ERROR_OF_ALL),
            number_text,
            f"smaller errors of {name_title(middle)} cells",
        ),
        Column(
            f"{name_title(parent)} sums that disagree",
            loss(parent, "share of sums that disagree", f"sums of {finest}"),
            percent,
            "fewer sums that disagree",
        ),
        Column(
            f"mean difference of {name_title(parent)} sums",
            loss(parent, GAP, f"sums of {finest}"),
            number_text,
            "smaller differences of sums",
        ),
        Column(
            f"zero {name_title(finest)} cells filled",
            loss(finest, "share of zeros published above zero"),
            percent,
            "fewer zero cells filled",
        ),
        Column(
            f"{name_title(finest)} counts lost to zero",
            loss(finest, "share of counts above zero published as zero"),
            percent,
            "fewer counts lost to zero",
        ),
        Column(
            f"{name_title(finest)} counts hidden",
            loss(finest, "share of counts above zero hidden"),
            percent,
            "fewer counts hidden",
        ),
    ]
    if total is not None:
        columns += [
            Column(
                f"error of a {name_title(finest)} total",
                loss(finest, ERROR_OF_ALL, of=total),
                number_text,
                f"smaller errors of {name_title(finest)} totals",
            ),
            *(
                Column(
                    f"error of a {name_title(areas.name)} total, off the spine",
                    loss(areas.name, ERROR_OF_ALL, of=total),
                    number_text,
                    f"smaller errors of {name_title(areas.name)} totals",
                )
                for areas in families[:1]
            ),
            Column(
                f"empty {name_title(finest)} areas published with people",
                loss(finest, "share of zeros published above zero", of=total),
                percent,
                f"fewer empty {name_title(finest)} areas with people",
            ),
        ]
    if comparison.file.later is not None:
        columns.append(
            Column(
                f"error of a {name_title(middle)} change",
                loss(middle, ERROR_OF_CHANGE),
                number_text,
                f"smaller errors of {name_title(middle)} changes",
            )
        )
    by_attack: dict[str, list[tuple[str, str, Callable[[float], str], str]]] = {
        KnowsOthers.name: [
            ("(a) advantage", "advantage", number_text, "less advantage for who knows all others")
        ],
        RareAttribute.name: [
            ("(b) bits", "bits gained", number_text, "fewer bits on rare people"),
            ("(b) rare guessed", "rare people guessed", percent, "fewer rare people guessed"),
            (
                "(b) surprising guesses right",
                "surprising guesses right",
                percent,
                "fewer surprising guesses right",
            ),
        ],
        RepeatedQuestions.name: [
            (
                "(c) exact after 200, where questions are answered",
                "counts found exactly after 200",
                percent,
                "fewer counts found by questions",
            )
        ],
        Reconstruction.name: [
            (
                "(d) records read off or rebuilt",
                "share of records rebuilt",
                percent,
                "fewer records read off or rebuilt",
            )
        ],
        Linkage.name: [
            ("(e) rare confirmed", "rare people confirmed", percent, "fewer rare people confirmed"),
            ("(e) surprising names right", "surprising names right", percent, "fewer surprising names right"),
            ("(e) people confirmed", "people confirmed", percent, "fewer people confirmed"),
        ],
        HiddenCounts.name: [
            ("(f) hidden counts found", "hidden counts found exactly", percent, "fewer hidden counts found")
        ],
        Presence.name: [
            ("(g) advantage", "advantage", number_text, "less advantage about rare records"),
            ("(g) caught at 1 % false alarms", "caught at 1 %", percent, "fewer rare records caught"),
        ],
    }
    for attack in comparison.shown_attacks:
        for title, measure, text, less in by_attack.get(attack.name, []):
            finding = partial(best_finding, attack=attack.name, measure=measure)
            if measure not in OFTEN_GUESSED:
                columns.append(Column(title, gain(finding), text, less, finding))
                continue
            items = [item for result in comparison.results if (item := finding(result)) is not None]
            # The same for all methods.
            prior = max((item.prior or 0.0 for item in items), default=0.0)
            above = partial(_above_guessing, attack=attack.name, measure=measure)
            title_above = f"{title}, above the {percent(prior)} of guessing"
            columns.append(Column(title_above, gain(above), _difference_text, less, above))
    return tuple(columns)


def middle_areas(shared: SharedInput) -> Areas:
    """The geolevel two above the finest, as tracts are above blocks: small areas that users look at."""
    return shared.areas[max(shared.n_geolevels - 3, 0)]
