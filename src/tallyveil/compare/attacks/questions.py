"""Attack (c): repeated questions, and questions about unions of areas that a user chooses.

The attacker asks for the count of one kind of people in a random set of geounits, and in the same set with one more
geounit. The difference is what this geounit has, with the errors of two answers. He asks again with other sets and
takes the mean. Where answers add up, each difference is the published count, and asking more tells nothing more. Where
each set has an error of its own, the mean tends to the truth.

He also asks the same question again and again, which helps where an office changes each answer afresh.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from tallyveil.arrays import Floats, Integers
from tallyveil.compare.attacks.attack import Attack, Finding, Targets, share
from tallyveil.compare.published import Published, Questions

ASKED: Final = (1, 20, 200)
"""Numbers of pairs of questions. 200 is what a user of a table builder can ask in an afternoon."""

MOST_GEOUNITS: Final = 400
"""Geounits from which sets are made. With half as many the sets are smaller and the errors nearly the same."""


class RepeatedQuestions(Attack):
    """Who may ask about any union of areas, as often as he likes."""

    name: ClassVar[str] = "repeated questions"
    letter: ClassVar[str] = "c"
    who: ClassVar[str] = (
        "May ask for any union of finest geounits, as in a table builder, 200 pairs of questions for each count. Knows "
        "nothing else. An office that answers no such questions is not open to this attack."
    )
    prior: ClassVar[str] = "always answering 0"
    bounded: ClassVar[str] = "TopDown: questions cost nothing more, for all are answered from one release."
    reading: ClassVar[str] = (
        "He takes the mean of what is answered, to the nearest whole number, and does not use the law of the changes. "
        "Noisy answers that a release publishes beside its tables are not used. An office that refuses some questions "
        "is safer than shown."
    )
    headline: ClassVar[str] = "counts found exactly after 200"
    must: ClassVar[float] = 0.99

    def run(self, targets: Targets, published: Published, tossed: Published | None) -> Sequence[Finding]:
        """As in `Attack`."""
        if published.questions is None:
            return [Finding(self.name, f"{self.headline} pairs of questions", None, None, None, 0)]
        generator = targets.draws.generator("questions")
        chosen = _chosen(targets, generator)
        true = targets.shared.counts[tuple(chosen)]
        areas = targets.shared.areas[min(1, targets.shared.n_geolevels - 1)]
        right = dict.fromkeys(ASKED, 0)
        again = 0
        for geounit, cell in chosen.T.tolist():
            pool = np.flatnonzero(
                (areas.place == areas.place[geounit]) & (np.arange(areas.place.size) != geounit)
            )
            if pool.size > MOST_GEOUNITS:
                pool = generator.choice(pool, MOST_GEOUNITS, replace=False)
            office = published.questions.restricted(np.append(pool, geounit))
            guesses = _differences(office, pool.size, cell, generator)
            count = int(targets.shared.counts[geounit, cell])
            for asked in ASKED:
                right[asked] += _mean(guesses[:asked]) == count
            again += _mean(_repeated(office, pool.size, cell)) == count
        tried = true.size
        zero = float((true == 0).mean())
        return [
            *(
                share(
                    self.name,
                    f"counts found exactly after {asked} pair{'s' if asked > 1 else ''} of questions",
                    right[asked],
                    tried,
                    prior=zero,
                )
                for asked in ASKED
            ),
            share(
                self.name,
                f"counts found exactly by asking the same {ASKED[1]} times",
                again,
                tried,
                prior=zero,
            ),
        ]


def _chosen(targets: Targets, generator: np.random.Generator) -> Integers:
    """Finest geounits and cells to ask about, shape (2, n): one half any cell, the other half a cell with people."""
    counts = targets.shared.counts
    inhabited = np.flatnonzero(counts.sum(axis=1) > 0)
    # A tenth of the people of other attacks: every count here needs hundreds of questions.
    number = max(targets.people // 10, 20)
    geounits = generator.choice(inhabited, number)
    cells = generator.integers(counts.shape[1], size=number)
    for place in range(0, number, 2):
        cells[place] = generator.choice(np.flatnonzero(counts[geounits[place]]))
    return np.stack([geounits, cells])


def _differences(office: Questions, n_others: int, cell: int, generator: np.random.Generator) -> Floats:
    """Answers for random sets with the geounit, which is the last, minus those without it; nan where one is hidden."""
    members = np.zeros((max(ASKED), n_others + 1), dtype=np.bool_)
    members[:, :n_others] = generator.integers(2, size=(max(ASKED), n_others), dtype=np.int8)
    without = office.answers(members, cell)
    members[:, n_others] = True
    with_it = office.answers(members, cell)
    both = without.shown & with_it.shown
    return np.where(both, with_it.counts - without.counts, np.nan)


def _repeated(office: Questions, n_others: int, cell: int) -> Floats:
    """Answers to the same question about the geounit alone."""
    alone = np.zeros((1, n_others + 1), dtype=np.bool_)
    alone[0, n_others] = True
    answers = [office.answers(alone, cell) for _ in range(ASKED[1])]
    return np.array([answer.counts[0] if answer.shown[0] else np.nan for answer in answers])


def _mean(values: Floats) -> int | None:
    """The whole number nearest to the mean of what was answered; None where nothing was."""
    known = values[~np.isnan(values)]
    return None if known.size == 0 else int(np.floor(known.mean() + 0.5))
