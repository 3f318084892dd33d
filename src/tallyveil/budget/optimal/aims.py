"""What a user wants of the shares of a budget: small variances of some answers, or accuracy that must be reached."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path

from tallyveil.budget.strategy import can_be_wanted
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given, in_short

MOST_AIMS = 1000
"""Largest number of aims and targets. The work and the memory of a step grow with its square."""

FLOOR = Fraction(1, 2)
"""Least part of its present share that a query keeps which determines what public bounds limit.

Such bounds say where there can be nobody of a kind, such as people in barracks. No model of the variances knows this.
If these queries get next to nothing, the errors of a geounit's kinds all go to its few children where they are
possible, and released counts become up to three times worse than before. Measured on made-up States with facilities
(`benchmarks/optimal_floor.py`): with a tenth and a quarter, a table of block groups still became 1.05 and 1.03 times
as bad as before, and with a half it did not. With all of the present share, the gains are smaller."""
MOST_KEPT = Fraction(9, 10)
"""Largest part of the budget that may be tied to queries, so that something is left to divide."""


class VarianceModel(StrEnum):
    """How estimates are made, whose variances are minimised."""

    TOP_DOWN = "topdown"
    LEAST_SQUARES = "least_squares"


class Goal(StrEnum):
    """What is made as small as possible."""

    SUM = "sum"
    MAXIMUM = "maximum"
    RHO = "rho"


@dataclass(frozen=True, slots=True)
class Named:
    """The answers that an aim or a target is about: those of a query, over the geounits of a geolevel or over entities.

    Attributes:
        area: A geolevel, or a family of entities.
        query: The query.
    """

    area: str
    query: str

    @property
    def place(self) -> tuple[str, str]:
        """Area and query."""
        return self.area, self.query

    @property
    def text(self) -> str:
        """The answers in words."""
        return f"'{self.query}' at {self.area}"


@dataclass(frozen=True, slots=True)
class Aim(Named):
    """A mean variance that should be small.

    Attributes:
        weight: Factor of the variance, above 0.
    """

    weight: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True)
class Target(Named):
    """The largest standard deviation that answers may have: the root of their mean variance.

    Attributes:
        standard_deviation: In records, above 0.
    """

    standard_deviation: Fraction


@dataclass(frozen=True, slots=True)
class Aims:
    """Everything that the shares are chosen by.

    Attributes:
        model: How estimates are made.
        goal: What is made as small as possible.
        relative: Whether variances are divided by those that the present shares give.
        spare: Whether no aim may become worse than with the present shares.
        aims: Variances that should be small.
        targets: Accuracy that must be reached.
        keep: Least part of the budget for a geolevel and a query.
        floor: Least part of its present share that a query keeps which determines what public bounds limit.
        entities: Public table of further families of entities; None for those of the release file alone.
        live: Public table of the number of live categories by geolevel; None to count all categories.

    Raises:
        BudgetError: nothing is aimed at, something is named twice, a number is out of range, or live sizes are given
            for a model that has no use for them.
    """

    model: VarianceModel
    goal: Goal = Goal.SUM
    relative: bool = True
    spare: bool = True
    aims: tuple[Aim, ...] = ()
    targets: tuple[Target, ...] = ()
    keep: tuple[tuple[str, str, Fraction], ...] = ()
    floor: Fraction = FLOOR
    entities: Path | None = None
    live: Path | None = None

    def __post_init__(self) -> None:
        if self.goal is Goal.RHO and not self.targets:
            raise BudgetError(
                'minimise is "rho", and no accuracy is asked for. Give at least one [[target]], or minimise "sum" or '
                '"maximum".',
                code="bad-aim",
            )
        if self.goal is not Goal.RHO and not self.aims:
            raise BudgetError(
                f'minimise is "{self.goal.value}", and there is no [[aim]] whose variances could be minimised. Give at '
                'least one, or minimise "rho", which asks for [[target]] alone.',
                code="bad-aim",
            )
        if self.live is not None and self.model is not VarianceModel.TOP_DOWN:
            raise BudgetError(
                f'live is given, and model is "{self.model.value}". Live sizes describe estimates that are kept from '
                'being negative. Least-squares estimates may be negative. Leave out live, or set model = "topdown".',
                code="bad-aim",
            )
        _refuse_repeated("[[aim]]", self.aims)
        _refuse_repeated("[[target]]", self.targets)
        if len(self.named) > MOST_AIMS:
            raise too_many(len(self.named))
        for aim in self.aims:
            if not can_be_wanted(aim.weight):
                raise BudgetError(
                    f"the aim {aim.text} has weight {as_given(aim.weight)}; wanted a number above 0, from 1e-9 to 1e9. "
                    "Leave out an aim that does not count.",
                    code="bad-aim",
                )
        for target in self.targets:
            if not can_be_wanted(target.standard_deviation):
                raise BudgetError(
                    f"the target {target.text} is {as_given(target.standard_deviation)}; wanted a number above 0, from "
                    "1e-9 to 1e9. A count without error is an invariant, not a target.",
                    code="bad-aim",
                )
        self._check_keep()

    def _check_keep(self) -> None:
        for geolevel, query, share in self.keep:
            if not 0 < share < 1:
                raise BudgetError(
                    f"[keep] gives '{query}' at {geolevel} at least {as_given(share)} of the budget; wanted a number "
                    "between 0 and 1, both excluded.",
                    code="bad-aim",
                )
        together = sum((share for _, _, share in self.keep), Fraction(0))
        if together > MOST_KEPT:
            raise BudgetError(
                f"[keep] takes {in_short(together)} of the budget; wanted at most {MOST_KEPT}, so that something is "
                "left to divide. Keep less.",
                code="bad-aim",
            )
        if not 0 <= self.floor <= MOST_KEPT:
            raise BudgetError(
                f"floor is {as_given(self.floor)}; wanted a number from 0 to {MOST_KEPT}: the part of its present "
                "share that a query keeps which determines what public bounds limit.",
                code="bad-aim",
            )

    @property
    def named(self) -> tuple[tuple[str, str], ...]:
        """Area and query of every aim, then of every target that is not also an aim."""
        return tuple(dict.fromkeys(entry.place for entry in (*self.aims, *self.targets)))


def too_many(number: int) -> BudgetError:
    """The error for more aims and targets than `MOST_AIMS`."""
    return BudgetError(
        f"there are {number:,} aims and targets; wanted at most {MOST_AIMS:,}. Every area of an [[aim]] is combined "
        "with every query of it. Name fewer.",
        code="bad-aim",
    )


def _refuse_repeated(where: str, named: Sequence[Named]) -> None:
    times = Counter(entry.place for entry in named)
    repeated = [entry for entry in named if times[entry.place] > 1]
    if repeated:
        first = min(repeated, key=lambda entry: entry.place)
        raise BudgetError(
            f"{where} names {first.text} more than once. Name it once, with the weight or the accuracy that you "
            "want.",
            code="bad-aim",
        )
