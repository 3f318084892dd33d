"""Attack (b): the attribute of a person who is alone of what is known about him in his geounit.

The attacker knows the finest geounit of a person and all attributes but one, and that nobody else there has the same.
So of the cells that this person could be in exactly one holds 1, and the others 0. He weighs how likely the published
counts of these cells are, what the areas around say of people like this one, and the geounit's other people. The two
weights are chosen on one half of the people, and the other half judges.
"""

from collections.abc import Sequence
from itertools import product
from typing import ClassVar, Final, NamedTuple

import numpy as np

from tallyveil.arrays import Floats, Integers
from tallyveil.compare.attacks.attack import Attack, Finding, Targets, area_above, mean, share, shares_of
from tallyveil.compare.inputs import Areas
from tallyveil.compare.losses import group_query
from tallyveil.compare.published import Law, Published

EVIDENCE: Final = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5)
"""Weights of the evidence of the person's own cells. At 1 the law is believed; less is better where errors of
neighbouring cells belong together, as after estimation."""

NEIGHBOURS: Final = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Weights of the other people of the geounit against those of the areas around. In places whose people are alike they
say most."""

PRIOR_PEOPLE: Final = 5.0
"""People of the larger area that are added to those of a smaller one. With half as many, a tract's few people are taken
more literally; the gains on this page change by less than their intervals."""


class Alone(NamedTuple):
    """People who are alone of their class in their finest geounit."""

    geounits: Integers
    classes: Integers
    levels: Integers


class RareAttribute(Attack):
    """Who looks for the attribute of a person who is alone of their kind in a geounit."""

    name: ClassVar[str] = "attribute of the rare"
    letter: ClassVar[str] = "b"
    who: ClassVar[str] = (
        "Knows where a person lives and all attributes but one, and that nobody else in the geounit has the same. "
        "Tuned to each method: its law is known, and weights are chosen on one half of the people."
    )
    prior: ClassVar[str] = (
        "the exact shares of people like this one in the area two geolevels above, without the person"
    )
    bounded: ClassVar[str] = (
        "None for these people; the bound of (a) is for what a person's own record tells. What is learnt here from the "
        "records of people around counts as well, and no method can prevent it that publishes anything of them."
    )
    reading: ClassVar[str] = (
        "A gain below zero protects nobody: the attacker is misled on the mean, and counts as 0 here where methods are "
        "compared. From noisy answers he uses those of one query in the person's own geounit, which had a part of the "
        "budget; least squares over all noisy answers would tell more."
    )
    headline: ClassVar[str] = "bits gained"
    must: ClassVar[float] = 0.5

    def number_at_risk(self, targets: Targets) -> int:
        """As in `Attack`."""
        return int((targets.by_class.sum(axis=2) == 1).sum())

    def run(self, targets: Targets, published: Published, tossed: Published | None) -> Sequence[Finding]:
        """As in `Attack`."""
        people = _alone(targets)
        if people.levels.size < 20:  # halves of fewer could neither tune nor judge anything
            return [
                Finding(self.name, f"{self.headline} from the tables", None, None, None, people.levels.size)
            ]
        evidence = evidence_of(targets, published, (tossed or published).law, people)
        sources = ("from the tables", "from the noisy answers")
        return [
            finding
            for source, part in zip(sources, evidence, strict=False)
            for finding in self._judged(targets, people, source, part, published)
        ]

    def _judged(
        self, targets: Targets, people: Alone, source: str, evidence: Floats, published: Published
    ) -> list[Finding]:
        around, here = _surroundings(targets, published, people)
        prior = _prior(targets, people)
        halves = targets.half(people.levels.size)
        rows = np.arange(people.levels.size)

        def logs_of(probabilities: Floats) -> Floats:
            # The smallest probability that is believed: one in a million, 20 bits.
            return np.asarray(np.log2(np.maximum(probabilities[rows, people.levels], 1e-6)))

        tuning, judging = halves == 0, halves == 1
        best = max(
            product(EVIDENCE, NEIGHBOURS),
            key=lambda weights: float(logs_of(posterior(around, here, evidence, weights))[tuning].mean()),
        )
        probabilities = posterior(around, here, evidence, best)
        gained = (logs_of(probabilities) - logs_of(prior))[judging]
        guess, usual = probabilities.argmax(axis=1), prior.argmax(axis=1)
        right = guess == people.levels
        rare, surprising = judging & (usual != people.levels), judging & (guess != usual)
        return [
            mean(self.name, f"bits gained {source}", gained, prior=0.0),
            share(
                self.name, f"rare people guessed {source}", int(right[rare].sum()), int(rare.sum()), prior=0.0
            ),
            share(
                self.name,
                f"surprising guesses right {source}",
                int(right[surprising].sum()),
                int(surprising.sum()),
            ),
            Finding(
                self.name,
                f"bits possible {source}",
                float(-logs_of(prior)[judging].mean()),
                None,
                None,
                int(judging.sum()),
            ),
        ]


def posterior(around: Floats, here: Floats, evidence: Floats, weights: tuple[float, float]) -> Floats:
    """Probabilities of the levels of each person.

    Args:
        around: Shares of the levels in the areas around.
        here: Shares among the other people of the geounit.
        evidence: Of the person's own cells.
        weights: Of the evidence, and of the other people of the geounit.
    """
    evident, neighbours = weights
    logs = (1 - neighbours) * np.log(around) + neighbours * np.log(here) + evident * evidence
    logs -= logs.max(axis=1, keepdims=True)
    return shares_of(np.exp(logs))


def evidence_of(targets: Targets, published: Published, law: Law, people: Alone) -> list[Floats]:
    """Evidence of the person's own cells for each level: from the tables and, where there are any, noisy answers."""
    noisy = _of_noisy(targets, published, people)
    tables = _of_tables(targets, published, law, people)
    return [tables] if noisy is None else [tables, noisy]


def _alone(targets: Targets) -> Alone:
    geounits, classes = np.nonzero(targets.by_class.sum(axis=2) == 1)
    levels = targets.by_class[geounits, classes].argmax(axis=1)
    # More people than this make no interval narrower than the method's own chance.
    most = 4 * targets.people
    if levels.size > most:
        chosen = np.sort(targets.draws.generator("alone").choice(levels.size, most, replace=False))
        return Alone(geounits[chosen], classes[chosen], levels[chosen])
    return Alone(geounits, classes, levels)


def _prior(targets: Targets, people: Alone) -> Floats:
    """Exact shares of the class in the area two geolevels above, without the person."""
    areas = area_above(targets.shared, 2)
    flat = targets.by_class.reshape(len(targets.by_class), -1)
    sums = areas.sums(flat).reshape(areas.n_areas, *targets.by_class.shape[1:])
    counts = sums[areas.place[people.geounits], people.classes].astype(np.float64)
    counts[np.arange(people.levels.size), people.levels] -= 1
    wide = targets.background[people.geounits, people.classes]
    return shares_of(counts + PRIOR_PEOPLE * wide)


def _of_tables(targets: Targets, published: Published, law: Law, people: Alone) -> Floats:
    """Evidence of each level: the log-likelihood ratio of 1 against 0 in the person's cell of the finest geounits."""
    shared = targets.shared
    detailed = shared.detailed
    cells = targets.cells[people.classes]
    if detailed is None:
        return np.zeros(cells.shape)
    name = shared.finest.name, detailed.name
    places = np.broadcast_to(people.geounits[:, None], cells.shape)
    table = published.tables[name].at(places, detailed.answers_of(cells))
    ones = law.log_likelihood(name, np.ones_like(cells), table)
    return np.asarray(ones - law.log_likelihood(name, np.zeros_like(cells), table))


def _of_noisy(targets: Targets, published: Published, people: Alone) -> Floats | None:
    """The same from the noisy answers of a query that tells all cells apart; None where none was published."""
    noisy = published.noisy_cells(targets.shared)
    if noisy is None:
        return None
    cells = targets.cells[people.classes]
    values = noisy[0][people.geounits[:, None], cells]
    # (y^2 - (y - 1)^2) / (2 variance), of a law proportional to exp(-x^2 / (2 variance)).
    return np.asarray((2 * values - 1) / (2 * noisy[1][people.geounits][:, None]))


def _surroundings(targets: Targets, published: Published, people: Alone) -> tuple[Floats, Floats]:
    """What published tables say of people like this one around the geounit, and of its own people."""
    shared = targets.shared
    here = around = targets.background[people.geounits, people.classes]
    detailed, groups = shared.detailed, group_query(shared, targets.sensitive)
    if detailed is not None:
        answers = detailed.answers_of(targets.cells[people.classes])
        for areas in shared.geolevels[1:-1]:
            around = shares_of(
                _seen(published, areas, detailed.name, people, answers) + PRIOR_PEOPLE * around
            )
    if groups is not None:
        levels = np.broadcast_to(np.arange(targets.cells.shape[1]), around.shape)
        here = shares_of(_seen(published, shared.finest, groups.name, people, levels) + 0.5)
    return around, here


def _seen(published: Published, areas: Areas, query: str, people: Alone, answers: Integers) -> Floats:
    """Published counts of some answers of the area around each person; none below zero, 0 where nothing is shown."""
    table = published.tables[areas.name, query]
    places = np.broadcast_to(areas.place[people.geounits][:, None], answers.shape)
    chosen = table.at(places, answers)
    return np.maximum(np.where(chosen.shown, chosen.counts, chosen.stand_in), 0).astype(np.float64)
