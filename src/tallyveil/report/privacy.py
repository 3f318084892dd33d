"""The privacy guarantee of a release, in words and numbers for the page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from tallyveil.accounting.events import (
    AdaptiveEvent,
    Neighbours,
    NonPrivateEvent,
    PrivacyEvent,
    Release,
    SequentialEvent,
    WorstEvent,
    parts_of,
)
from tallyveil.accounting.guarantee import BETA, MU, parameter_texts
from tallyveil.accounting.numbers import at_least, at_most, claim_text
from tallyveil.accounting.renyi import zcdp_to_epsilon
from tallyveil.budget.allocation import allocation_of
from tallyveil.budget.strategy import Mechanism
from tallyveil.files.geography import GEOGRAPHY, read_geography, read_shares
from tallyveil.files.manifest_files import require_unchanged
from tallyveil.plans.groups import groups_of, tied_of
from tallyveil.plans.guess import guess_text
from tallyveil.plans.secrets import SecretGuarantee, guarantees_of, secrets_of
from tallyveil.report.page import NumberTile
from tallyveil.report.release_files import ReleaseFiles, Titles
from tallyveil.report.wording import name_title, power_of_ten
from tallyveil.schema.schema import Unit
from tallyveil.words.language import ENGLISH, Figure, Language, phrase


@dataclass(frozen=True, slots=True)
class ParameterTable:
    """Privacy parameters of some measurements, each rounded in the safe direction.

    Attributes:
        symbols: Those of β and μ that at least one row has, in this order.
        rows: Texts: what was measured, what it cost, epsilon at three deltas, the symbols, the accountant.
    """

    symbols: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def parameter_table(rows: Sequence[Mapping[str, Any]], name: str) -> ParameterTable:
    """The table of privacy parameters.

    Args:
        rows: Of `tallyveil.budget.guarantees`.
        name: The column that names the measurements.
    """
    stated = {"β": BETA, "μ": MU}
    # β and μ exist only where the exact accountant gave them; a column of dashes is left out.
    columns_there = {
        symbol: column
        for symbol, column in stated.items()
        if any(row.get(column) is not None for row in rows)
    }
    return ParameterTable(
        tuple(columns_there), tuple(_texts(row, name, tuple(columns_there.values())) for row in rows)
    )


def _texts(row: Mapping[str, Any], name: str, columns: Sequence[str]) -> tuple[str, ...]:
    numbers = (Figure("–" if text is None else text) for text in parameter_texts(row, columns))
    # Costs rounded up to five digits, as every claim.
    return (name_title(row[name]), Figure(at_most(Fraction(row["spent"]), 5)), *numbers, row["accountant"])


def guess_tile(
    right: Fraction, unit: Unit, *, is_protected: bool, language: Language = ENGLISH
) -> NumberTile:
    """The bound as a number that stands out; everything can be known if the key of the noise is not secret."""
    name = language.say("Best guess about one {unit}", unit=unit.one)
    # With a known key the noise can be subtracted.
    if not is_protected:
        return NumberTile(name, "100 %", language.say("right, since the key of the noise is not secret"))
    return NumberTile(name, guess_text(right), language.say("right at most; 50 % without the release"))


_SHOWN: Final = 0.001
"""Unit of the last digit of an epsilon."""

OTHER_DELTAS: Final = (
    Fraction(1, 10**5),
    Fraction(1, 10**6),
    Fraction(1, 10**8),
    Fraction(1, 10**10),
    Fraction(1, 10**15),
)
"""Deltas at which epsilon is shown beside the declared one: around the values that guarantees of censuses and
surveys are stated at."""

NEIGHBOURS = {
    Neighbours.BOUNDED: (
        phrase("bounded"),
        phrase(
            "Two populations are neighbours when one {unit}’s record differs in its place or characteristics, while "
            "the number of records stays the same."
        ),
    ),
    Neighbours.UNBOUNDED: (
        phrase("unbounded"),
        phrase(
            "Two populations are neighbours when one of them has one {unit}’s record more than the other."
        ),
    ),
}
MECHANISMS = {
    Mechanism.DISCRETE_GAUSSIAN: (
        phrase("discrete Gaussian"),
        phrase("Whole-number noise from the discrete Gaussian law was added to every measured count."),
    ),
    Mechanism.DISCRETE_LAPLACE: (
        phrase("discrete Laplace"),
        phrase(
            "Whole-number noise from the discrete Laplace (two-sided geometric) law was added to every measured count."
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class ExactNumber:
    """An exact number: rounded for reading, and in full if rounding changed it.

    Attributes:
        text: Decimal digits.
        fraction: The exact fraction, or "" if `text` is exact.
    """

    text: str
    fraction: str


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """One line of the ledger.

    Attributes:
        sequence: Number of the line.
        kind: "spend" or "declassify".
        description: In words.
        reason: The reason for an act that no budget pays for; otherwise "".
        measurements: Number of noisy query releases in the line's event.
        cost: ExactNumber cost, or None if no budget pays for it.
    """

    sequence: int
    kind: str
    description: str
    reason: str
    measurements: int
    cost: ExactNumber | None


@dataclass(frozen=True, slots=True)
class PrivacyStatement:
    """The content of the page's privacy section.

    Attributes:
        neighbours: Name of the neighbour relation, and its meaning.
        mechanism: Name of the noise distribution, and how it was used.
        unit: "rho" or "epsilon".
        symbol: The unit's Greek letter.
        declared, spent: ExactNumber budgets.
        spent_share: Spent budget divided by declared budget.
        delta: Delta at which epsilon is stated, as text; None for pure differential privacy.
        epsilon: The epsilon that follows from the budget alone, rounded up: by zCDP, or the pure epsilon.
        exact_epsilon: The upper bound of the exact accountant on epsilon, rounded up, and its delta, as text.
        how_exact: Whether this bound is the least one, and why not if a smaller epsilon may hold; in sentences.
        geolevels: For each geolevel alone: title, budget, exact epsilon, epsilon by the classical accountant.
        pairs: Other pairs (delta, epsilon) that hold at the same time, as text; empty for pure differential privacy.
        invariants: What is published exactly: query and geolevels, as text.
        bounds: Public tables of bounds: name, query and geolevel, as text.
        groups: For each size of a group, such as a household: the number of its members, and their epsilon.
        tied: How many records the invariants and bounds tie together, in a sentence; "" if none.
        secrets: For each secret of a record: title, cost and epsilon.
        lines: The lines of the ledger.
        declassified: Whether the ledger records an act that no budget pays for, such as reading the true counts.
    """

    neighbours: tuple[str, str]
    mechanism: tuple[str, str]
    unit: str
    symbol: str
    declared: ExactNumber
    spent: ExactNumber
    spent_share: float
    delta: str | None
    epsilon: str
    exact_epsilon: tuple[str, str]
    how_exact: str
    geolevels: tuple[tuple[str, str, str, str], ...]
    pairs: tuple[tuple[str, str], ...]
    invariants: tuple[tuple[str, str], ...]
    bounds: tuple[tuple[str, str, str], ...]
    groups: tuple[tuple[int, str], ...]
    tied: str
    secrets: tuple[tuple[str, str, str], ...]
    lines: tuple[LedgerLine, ...]
    declassified: bool


SecretCost = tuple[SecretGuarantee, Figure, Figure]
"""A secret of a record, its cost and its epsilon."""


def privacy_statement(files: ReleaseFiles, secrets: Sequence[SecretCost]) -> PrivacyStatement:
    """State the guarantee that follows from the plan, the manifest and the ledger of a release.

    Args:
        files: The release.
        secrets: What its secrets cost (`secret_costs`).
    """
    titles, gaussian = files.titles, files.declaration.budget_unit == "rho"
    delta = files.plan.delta
    at_once = files.manifest.privacy["exact"]
    name, meaning = NEIGHBOURS[files.declaration.neighbours]
    law, used = MECHANISMS[files.strategy.mechanism]
    event = SequentialEvent(tuple(entry.event for entry in files.entries if entry.cost is not None))
    tied = tied_of(files.plan, event, one_root=_has_one_root(files), language=titles.language)
    return PrivacyStatement(
        neighbours=(titles.say(name), titles.say(meaning, unit=files.unit.one)),
        mechanism=(titles.say(law), titles.say(used)),
        unit=files.declaration.budget_unit,
        symbol="ρ" if gaussian else "ε",
        declared=exact(files.declaration.total),
        spent=exact(files.spent),
        spent_share=float(files.spent / files.declaration.total),
        delta=power_of_ten(delta) if gaussian else None,
        epsilon=_epsilon(files.spent, delta) if gaussian else Figure(claim_text(files.spent)),
        exact_epsilon=(
            Figure(claim_text(at_once["epsilon"]["upper"])),
            power_of_ten(Fraction(at_once["delta"])),
        ),
        how_exact=_how_exact(titles, at_once, drawn=bool(files.plan.subspace)),
        geolevels=tuple(
            (
                titles.geolevel(level["geolevel"]),
                Figure(at_most(Fraction(level["spent"]), 4)),
                Figure(claim_text(level["epsilon"]["upper"], 4)),
                Figure(claim_text(level["classical_epsilon"])),
            )
            for level in at_once["geolevels"]
        ),
        pairs=tuple(
            (power_of_ten(other), _epsilon(files.spent, other)) for other in OTHER_DELTAS if other != delta
        )
        if gaussian
        else (),
        invariants=tuple(
            (titles.query(item.query), titles.listed(list(map(titles.geolevel, item.geolevels))))
            for item in files.plan.invariants
        ),
        bounds=tuple(
            (item.name, titles.query(item.query), titles.geolevel(item.geolevel))
            for item in files.plan.bounds
        ),
        groups=tuple(
            (item["size"], Figure(claim_text(item["epsilon"]))) for item in groups_of(files.plan, event)
        ),
        tied="" if tied is None else tied["sentence"],
        secrets=tuple((_secret_title(files, item), cost, epsilon) for item, cost, epsilon in secrets),
        lines=tuple(
            LedgerLine(
                entry.sequence,
                entry.kind,
                entry.description,
                entry.event.reason if isinstance(entry.event, NonPrivateEvent) else "",
                # From the event, so that the page counts what the ledger says was done.
                _n_measurements(entry.event),
                None if entry.cost is None else exact(entry.cost),
            )
            for entry in files.entries
        ),
        declassified=any(entry.kind == "declassify" for entry in files.entries),
    )


def secret_costs(files: ReleaseFiles) -> tuple[SecretCost, ...]:
    """What each secret of a record costs, whatever it is called."""
    plan, allocation = files.plan, None
    if plan.may_bypass:
        require_unchanged(files.root, files.manifest, files.root / GEOGRAPHY)
        spine = read_geography(files.root)
        allocation = allocation_of(plan.strategy, spine, read_shares(files.root, spine))
    return tuple(
        (item, Figure(at_most(item.cost(plan), 4)), Figure(claim_text(item.proved(plan.delta).bounds.upper)))
        # Places below different roots may be on hundreds of pairs of paths, which a page does not wait for.
        for secret in secrets_of(plan, one_root=_has_one_root(files) or plan.may_bypass)
        for item in guarantees_of(plan, secret, allocation)
    )


def _has_one_root(files: ReleaseFiles) -> bool:
    return bool(files.manifest.body["sizes"]["geolevels"][files.geolevels[0]]["geounits"] == 1)


def _secret_title(files: ReleaseFiles, item: SecretGuarantee) -> str:
    titles, secret = files.titles, item.secret
    if secret.is_place:
        title = (
            titles.say("place")
            if secret.within is None
            else titles.say("place, within one {geolevel}", geolevel=titles.geolevel(secret.within))
        )
    elif len(secret.changes) > 1:
        title = titles.say("everything but the place")
    else:
        ((attribute, recode),) = secret.changes.items()
        title = titles.factor(attribute)
        if recode is not None:
            title = titles.say(
                "{attribute}, within one group of {recode}", attribute=title, recode=titles.factor(recode)
            )
    return (
        titles.say("{secret}; two {units} exchange it", secret=title, units=files.unit.many)
        if item.exchanged
        else title
    )


def exact(value: Fraction) -> ExactNumber:
    """An exact number for reading. A fraction that needs more than four digits is rounded up."""
    # Whole numbers are shown in full.
    text = at_most(value, 4) if value.denominator > 1 else str(value.numerator)
    return ExactNumber(Figure(text), "" if Fraction(text) == value else str(value))


def _epsilon(rho: Fraction, delta: Fraction) -> Figure:
    return Figure(claim_text(zcdp_to_epsilon(rho, delta)))


def _how_exact(titles: Titles, stated: dict[str, Any], *, drawn: bool) -> str:
    """Whether the upper bound is the least one, in sentences.

    Args:
        titles: Of the page.
        stated: The entry `exact` of the manifest's privacy.
        drawn: Whether counts were drawn on the lattice of the invariants.
    """
    lower, upper = stated["epsilon"]["lower"], stated["epsilon"]["upper"]
    # The two bounds are the same to the digits that are shown.
    if upper - lower <= _SHOWN:
        return titles.say(
            "It was computed from the exact laws of all noise together. No smaller ε holds at this δ, except in the "
            "last digit."
        )
    by = titles.say(
        "the Rényi divergences of everything that was done"
        if "renyi" in stated["engines"]
        else "the whole budget"
    )
    why = titles.say(
        "because Gaussian noise on the lattice of the invariants has no single law of its privacy loss"
        if drawn
        else "because this run did not compose everything that was done"
    )
    text = titles.say("It follows from {source}, {reason}. A smaller ε may hold.", source=by, reason=why)
    known = Figure(at_least(lower, places=3))
    # Without any composed part the lower bound is 0 and says nothing.
    if not Fraction(known):
        return text
    return f"{text} {titles.say('The part that was composed exactly has ε ≥ {epsilon}.', epsilon=known)}"


def _n_measurements(event: PrivacyEvent) -> int:
    """Number of noisy query releases in an event of a release's ledger, which has one event for each of them.

    Only one of several alternative branches is made, so the branch with the most releases counts.
    """
    if isinstance(event, Release):
        return 1
    counts = [_n_measurements(part) for part in parts_of(event)]
    # An alternative that was not made is not counted.
    return max(counts) if isinstance(event, AdaptiveEvent | WorstEvent) else sum(counts)
