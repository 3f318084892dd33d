"""Targeted record swapping: households exchange their places with others that are like them."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.compare.inputs import Areas, SharedInput
from tallyveil.compare.methods.method import Method, Office
from tallyveil.compare.published import Published, PublishedTable, SummedQuestions, observed_law
from tallyveil.declared import Exact, Name
from tallyveil.errors import ConfigError


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
        "true. Rates and targeting must stay secret, so users cannot compute its errors."
    )
    strength: ClassVar[str] = (
        "Tables add up, totals and what is matched stay exact, and every published record is one that exists."
    )

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

    def publish(self, office: Office) -> Published:
        """As in `Method`."""
        shared = office.shared
        generator = office.draws.generator(self.kind, self.name)
        counts, moved = self.swapped(shared, generator)
        tables = {name: PublishedTable(values) for name, values in shared.tables_of(counts).items()}
        total = int(shared.counts.sum())
        return Published(
            tables,
            observed_law(shared, tables),
            SummedQuestions(counts),
            notes=(
                f"{moved:,} of {total:,} people changed places; households that found no partner stayed. "
                + (
                    "Each person is a household, because the records name none. "
                    if shared.household is None
                    else ""
                )
                + "The known guarantee of swapping (arXiv 2501.08449) is for its authors' permutation swapping, beside "
                "all that stays exact; this method chooses households by their rarity, and the theorem does not speak "
                f"of it. Exact here: tables of {self.within} and above.",
            ),
        )

    def swapped(self, shared: SharedInput, generator: np.random.Generator) -> tuple[Integers, int]:
        """The counts after swapping, and the number of people who changed places.

        Raises:
            ConfigError: a geolevel or an attribute is not there.
        """
        within, across = (self._place(shared, name) for name in (self.within, self.across))
        geounits, cells, household = shared.people
        first = _first_rows(household)
        home, size = geounits[first], np.bincount(household)
        kinds = self._kinds(shared, cells, household, size)
        place, away = within.place[home], across.place[home]
        weight = (1 / shared.counts[geounits, cells]) ** float(self.targeting)
        rarity = np.maximum.reduceat(weight, first) if first.size else weight
        chosen = _drawn(rarity, int(self.rate * first.size / 2), generator)
        partner = _partners(np.stack([place, kinds]), away, chosen, generator)
        movers = np.flatnonzero(partner >= 0)
        moved_home = home.copy()
        moved_home[movers] = home[partner[movers]]
        moved_home[partner[movers]] = home[movers]
        counts = np.zeros_like(shared.counts)
        np.add.at(counts, (moved_home[household], cells), 1)
        return counts, int(size[movers].sum() + size[partner[movers]].sum())

    def _place(self, shared: SharedInput, name: str) -> Areas:
        for areas in shared.geolevels:
            if areas.name == name:
                return areas
        raise ConfigError(
            f"the method '{self.name}' names the geolevel '{name}', wanted one of "
            f"{', '.join(areas.name for areas in shared.geolevels)}. Correct within or across.",
            code="unknown-geolevel",
        )

    def _kinds(self, shared: SharedInput, cells: Integers, household: Integers, size: Integers) -> Integers:
        """A number for each household that is the same for those that may be partners."""
        names = shared.schema.attribute_names
        for name in self.match:
            shared.schema.attribute(name)
        axes = [names.index(name) for name in self.match]
        codes = shared.schema.decode(cells)[:, axes]
        shape = [shared.schema.shape[axis] for axis in axes]
        person = np.ravel_multi_index(codes.T, shape) if axes else np.zeros(cells.size, dtype=np.int64)
        # A household's kind is the multiset of its members' kinds: a random number for each, added up, names it. Two
        # multisets have the same sum with a probability of 2^-64, and a false pair would only be a swap of unlikes.
        number = np.random.Generator(np.random.Philox(key=0)).integers(
            np.iinfo(np.uint64).max, size=int(np.prod(shape)) or 1, dtype=np.uint64
        )
        sums = np.zeros(size.size, dtype=np.uint64)
        np.add.at(sums, household, number[person])
        # Sizes need no place of their own: the sums of different numbers of random numbers differ as surely.
        return np.asarray(np.unique(sums, return_inverse=True)[1]).ravel()


def _first_rows(household: Integers) -> Integers:
    """The first person of each household; people of one household stand together."""
    return np.flatnonzero(np.diff(household, prepend=-1))


def _drawn(weight: Floats, number: int, generator: np.random.Generator) -> Bools:
    """So many households, without replacement, with probabilities that follow the weights.

    Source: Efraimidis and Spirakis 2006.
    """
    chosen = np.zeros(weight.size, dtype=np.bool_)
    order = np.argsort(np.log(generator.random(weight.size)) / weight, kind="stable")
    chosen[order[weight.size - number :]] = True
    return chosen


def _partners(strata: Integers, away: Integers, chosen: Bools, generator: np.random.Generator) -> Integers:
    """For each chosen household another of its stratum from elsewhere, or -1; no household has two partners."""
    partner = np.full(chosen.size, -1, dtype=np.int64)
    shuffled = generator.permutation(chosen.size)
    # Chosen ones and others of a stratum stand in random order; the n-th chosen one gets the n-th other.
    order = shuffled[np.lexsort((~chosen[shuffled], *strata[:, shuffled]))]
    starts = np.flatnonzero((np.diff(strata[:, order], axis=1, prepend=-1) != 0).any(axis=0))
    for begin, end in zip(starts, np.append(starts[1:], order.size), strict=True):
        rows = order[begin:end]
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
