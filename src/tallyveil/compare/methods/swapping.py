"""Targeted record swapping: households exchange their places with others that are like them."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from tallyveil.arrays import Bools, Floats, IntegerRows, Integers
from tallyveil.compare.inputs import PublicInput, SharedInput
from tallyveil.compare.methods.households import (
    EACH_A_HOUSEHOLD,
    Households,
    households_of,
    what_stays,
)
from tallyveil.compare.methods.method import CERTAIN, Method, Office
from tallyveil.compare.published import Published, PublishedTable, SummedQuestions, observed_law
from tallyveil.declared import Exact, Name
from tallyveil.report.wording import percent


class Swapping(Method):
    """Targeted record swapping: chosen households exchange their places with households of the same kind elsewhere.

    A household is chosen with a probability that grows with the rarity of its rarest member in its finest geounit. Its
    partner has the same size and the same attributes of `match`, lives in the same area of `within` and in another of
    `across`, and is chosen at random. Without a column of households each person is a household.
    """

    family: ClassVar[str] = "swapping"
    literature: ClassVar[str] = (
        "Dalenius and Reiss 1982; McKenna 2018; Bailie, Gong and Meng 2025 (arXiv 2501.08449, 2504.15246)"
    )
    cannot: ClassVar[str] = (
        "Nobody outside knows which records were swapped, and most were not: what is published of a person is usually "
        "true. Rates and targeting are often kept secret, so that users cannot compute its errors."
    )
    strength: ClassVar[str] = (
        "Tables add up, totals and what is matched stay exact, and every published record is one that exists."
    )
    unbounded: ClassVar[str] = CERTAIN

    kind: Literal["swapping"] = "swapping"
    rate: Exact = Field(gt=0, le=1, description="Share of all households that change places.")
    within: Name = Field(description="Geolevel whose areas households do not leave.")
    across: Name = Field(description="Geolevel whose area a household leaves.")
    match: list[Name] = Field(default_factory=list, description="Attributes that partners have in common.")
    targeting: Exact = Field(
        default=1,  # type: ignore[assignment]
        ge=0,
        le=4,
        description="0: all households alike. 1: twice as rare is twice as likely.",
    )

    def require_fit(self, public: PublicInput) -> None:
        """Refuse a geolevel (ConfigError) or an attribute (SchemaError) that is not there."""
        for name in (self.within, self.across):
            self.require_geolevel(public, name)
        for name in self.match:
            public.plan.schema.attribute(name)

    def publish(self, office: Office) -> Published:
        """As in `Method`."""
        shared = office.shared
        generator = office.draws.generator(self.kind, self.name)
        counts, moved, share = self.swapped(shared, generator)
        tables = {name: PublishedTable(values) for name, values in shared.tables_of(counts).items()}
        total = int(shared.counts.sum())
        exact = what_stays(shared.areas_named(self.within), self.match)
        return Published(
            tables,
            observed_law(shared, tables),
            SummedQuestions(counts),
            notes=(
                f"{moved:,} of {total:,} people changed places, and {percent(share)} of those whose record nobody else "
                f"in their {shared.finest.name} has; households that found no partner stayed. "
                + (EACH_A_HOUSEHOLD if shared.household is None else "")
                + f"Exact here: {'; '.join(exact)}.",
                "The known guarantee of swapping (arXiv 2501.08449) is for permutation swapping, beside all that stays "
                "exact. This method chooses households by their rarity and partners from elsewhere, and the theorem "
                "does not speak of it.",
            ),
        )

    def swapped(self, shared: SharedInput, generator: np.random.Generator) -> tuple[IntegerRows, int, float]:
        """The counts after swapping, how many people changed places, and the share of the unique who did.

        Unique is whose record nobody else in the finest geounit has.
        """
        within, across = shared.areas_named(self.within), shared.areas_named(self.across)
        households = households_of(shared, within, self.match)
        homes, first = households.homes, households.first
        rarity = (1 / shared.counts[households.geounits, households.cells]) ** float(self.targeting)
        if shared.household is not None:
            rarity = np.maximum.reduceat(rarity, first)
        chosen = _drawn(rarity, int(self.rate * first.size / 2), generator)
        partner = _partners(households, across.place[homes], chosen, generator)
        movers = np.flatnonzero(partner >= 0)
        moved_home = homes.copy()
        moved_home[movers] = homes[partner[movers]]
        moved_home[partner[movers]] = homes[movers]
        unique = shared.counts[households.geounits, households.cells] == 1
        share = (moved_home != homes)[households.household[unique]].mean() if unique.any() else 0.0
        return *households.counts_at(moved_home), float(share)


def _drawn(weight: Floats, number: int, generator: np.random.Generator) -> Bools:
    """So many households, without replacement, with probabilities that follow the weights.

    Source: Efraimidis and Spirakis 2006.
    """
    chosen = np.zeros(weight.size, dtype=np.bool_)
    order = np.argsort(np.log(generator.random(weight.size)) / weight, kind="stable")
    chosen[order[weight.size - number :]] = True
    return chosen


def _partners(
    households: Households, away: Integers, chosen: Bools, generator: np.random.Generator
) -> Integers:
    """For each chosen household another of its stratum from elsewhere, or -1; no household has two partners."""
    partner = np.full(chosen.size, -1, dtype=np.int64)
    shuffled = generator.permutation(chosen.size)
    # Chosen ones and others of a stratum stand in random order; the n-th chosen one gets the n-th other.
    order = shuffled[np.lexsort((~chosen[shuffled], households.strata[shuffled]))]
    for rows in households.groups(order):
        wanting, free = rows[chosen[rows]], rows[~chosen[rows]]
        number = min(wanting.size, free.size)
        if not number:
            continue
        # Those whose partner lives in the same area try the next ones, a few times.
        for _ in range(3):
            unmatched = wanting[partner[wanting] < 0][:number]
            pairs = min(unmatched.size, free.size)
            if not pairs:
                break
            drawn = generator.permutation(free)[:pairs]
            good = away[unmatched[:pairs]] != away[drawn]
            partner[unmatched[:pairs][good]] = drawn[good]
            free = np.setdiff1d(free, drawn[good])
    return partner
