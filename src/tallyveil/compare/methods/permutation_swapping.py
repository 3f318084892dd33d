"""Permutation swapping: chosen households of a stratum exchange their places at random, with a proved guarantee.

*Algorithm.* In each stratum of n households, each household is chosen with probability p, independently of all others.
If exactly one is chosen, the stratum is drawn again. The chosen ones, m of them, exchange their places by a uniform
permutation that leaves none at its place (a derangement).

*Guarantee.* Take two data sets that differ in that two households of one stratum have each other's places. With the
odds o = p / (1 - p), no outcome is more than R times as likely under one of them as under the other, where

    R = max(o^2, (n - 1) (n + 1/2) / o^2)

and n is the size of the largest stratum. So epsilon = log R, with delta = 0.

*Proof.* Let D_m be the number of derangements of m things. A permutation that moves m households has the probability
P_m = c p^m (1 - p)^(n - m) / D_m for m = 0, 2, 3, ..., n; c makes up for the draws with m = 1. Let t exchange the two
households. What permutation s publishes of one data set, s t publishes of the other. So no outcome has a larger ratio
than max P_m / P_k, where s moves m and s t moves k households. These differ by at most two, because t moves two. Now
P_m / P_k = o^(m - k) D_k / D_m.

- k = m + 2: D_(m+2) / D_m is 1 for m = 0. Else D_(m+2) = (m + 1)(D_(m+1) + D_m), and D_(m+1) / D_m = m + 1 +
  (-1)^(m+1) / D_m <= m + 3/2, so that it is at most (m + 1)(m + 5/2) <= (n - 1)(n + 1/2).
- k = m + 1, with n >= 3: at most (m + 3/2) / o <= (n + 1/2) / o. Where o <= n - 1 this is at most the second number of
  R, and elsewhere below the first.
- k = m: 1, which is below the larger of o^2 and 1 / o^2.
- k < m: o^(m - k) D_k / D_m <= max(1, o^2), because no D_k with k = 0, 2, 3, ... is larger than a later one.

What is published of the households afterwards, such as tables, cannot add to it. R is at most ((n + 1) / o)^2 where
p <= 1/2.

*What it is about.* Only the places of households in a stratum are protected. All that a stratum has, and how many of
its households live in each geounit, is published exactly. A record that changes its value changes these, so that
nothing follows for attackers who look for a value.

*Worked case.* Two households at two places, p = 1/2: both stay or both move, each with probability 1/2 after the draws
with one chosen. The outcome tells nothing: the true ratio is 1, and R = 5/2 is above it.

Source: Bailie, Gong and Meng 2025 (arXiv 2501.08449) for the algorithm and for the idea of a guarantee beside
invariants. The proof here is our own.
"""

from fractions import Fraction
from typing import ClassVar, Final, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from tallyveil.accounting.numbers import at_most, round_up
from tallyveil.arrays import Bools, Integers
from tallyveil.compare.inputs import PublicInput
from tallyveil.compare.methods.households import (
    EACH_A_HOUSEHOLD,
    households_of,
    what_stays,
)
from tallyveil.compare.methods.method import CERTAIN, Method, Office
from tallyveil.compare.published import (
    Certificate,
    Published,
    PublishedTable,
    SummedQuestions,
    observed_law,
)
from tallyveil.declared import Exact, Name
from tallyveil.noise.balls import rational

MOST_PARTS: Final = 10**15
"""Largest denominator of a rate: whole numbers up to it are drawn exactly, and nobody needs a rate with more digits."""


class PermutationSwapping(Method):
    """Permutation swapping: households are chosen with equal chances, and exchange their places at random.

    Those of one stratum exchange places: households of the same size and the same attributes of `match` that live in
    the same area of `within`. Without a column of households each person is a household.
    """

    family: ClassVar[str] = "swapping"
    literature: ClassVar[str] = "Bailie, Gong and Meng 2025 (arXiv 2501.08449, 2504.15246)"
    cannot: ClassVar[str] = (
        "It protects where households of a stratum live, and not what they are: all that stays exact is published of "
        "them. Its bound says little where strata are large or few households are chosen."
    )
    strength: ClassVar[str] = (
        "Its rate can be public, tables add up, and every published record is one that exists."
    )
    unbounded: ClassVar[str] = CERTAIN

    kind: Literal["permutation_swapping"] = "permutation_swapping"
    rate: Exact = Field(gt=0, lt=1, description="Probability of each household to be chosen.")
    within: Name = Field(description="Geolevel whose areas households do not leave.")
    match: list[Name] = Field(default_factory=list, description="Attributes that a stratum has in common.")

    @model_validator(mode="after")
    def _rate_can_be_drawn(self) -> Self:
        if self.rate.denominator > MOST_PARTS:
            raise ValueError("the rate has more than 15 digits after the point: shorten it")
        return self

    def require_fit(self, public: PublicInput) -> None:
        """Refuse a geolevel (ConfigError) or an attribute (SchemaError) that is not there."""
        self.require_geolevel(public, self.within)
        for name in self.match:
            public.plan.schema.attribute(name)

    def publish(self, office: Office) -> Published:
        """As in `Method`."""
        shared = office.shared
        within = shared.areas_named(self.within)
        households = households_of(shared, within, self.match)
        generator = office.draws.generator(self.kind, self.name)
        homes, largest = households.homes.copy(), 0
        for stratum in households.groups(np.argsort(households.strata, kind="stable")):
            homes[stratum] = households.homes[stratum[permutation(stratum.size, self.rate, generator)]]
            largest = max(largest, stratum.size)
        counts, moved = households.counts_at(homes)
        tables = {name: PublishedTable(values) for name, values in shared.tables_of(counts).items()}
        return Published(
            tables,
            observed_law(shared, tables),
            SummedQuestions(counts),
            certificate=certificate_of(largest, self.rate, what_stays(within, self.match)),
            notes=(
                f"{moved:,} of {int(shared.counts.sum()):,} people are published elsewhere; others were not chosen, or "
                "exchanged places within a geounit. "
                + (EACH_A_HOUSEHOLD if shared.household is None else "")
                + f"The largest stratum has {largest:,} households.",
            ),
        )


def permutation(size: int, rate: Fraction, generator: np.random.Generator) -> Integers:
    """Whose place each household of a stratum gets; int64, shape (size,).

    Whole numbers are drawn throughout, so that the probabilities are those of the proof.
    """
    places = np.arange(size)
    chosen = _chosen(size, rate, generator)
    while chosen.sum() == 1 < size:
        chosen = _chosen(size, rate, generator)
    movers = np.flatnonzero(chosen)
    if movers.size > 1:
        shuffled = generator.permutation(movers)
        # One permutation in e has no fixed point, whatever the number of things.
        while (shuffled == movers).any():
            shuffled = generator.permutation(movers)
        places[movers] = shuffled
    return places


def _chosen(size: int, rate: Fraction, generator: np.random.Generator) -> Bools:
    return np.asarray(generator.integers(rate.denominator, size=size) < rate.numerator)


def largest_ratio(size: int, rate: Fraction) -> Fraction:
    """R of the guarantee, for strata of at most so many households, two or more."""
    odds = rate / (1 - rate)
    return max(odds**2, (size - 1) * (size + Fraction(1, 2)) / odds**2)


def certificate_of(largest: int, rate: Fraction, exact: tuple[str, ...]) -> Certificate | None:
    """What is proved; None where no stratum has two households, so that nothing could change.

    Args:
        largest: Number of households of the largest stratum.
        rate: Probability of each to be chosen.
        exact: What is published exactly, in words.
    """
    if largest < 2:
        return None
    ratio = largest_ratio(largest, rate)
    epsilon = at_most(round_up(rational(ratio).log()), places=3)
    advantage = (ratio - 1) / (ratio + 1)
    return Certificate(
        None,
        None,
        f"epsilon <= {epsilon} at delta = 0, for two households of one stratum that may have each other's places: "
        f"nobody tells who of the two lives where with an advantage above {at_most(advantage, places=3)}. The proof is "
        "our own, and nobody else has checked it. It is no bound on (a) or (g), where a record changes its value: for "
        "these none below 1 exists, because what stays exact can tell it",
        exact,
        min(1.0, float(np.nextafter(float(advantage), 2.0))),
    )
