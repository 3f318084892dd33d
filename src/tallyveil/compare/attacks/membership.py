"""Attack (g): whether a record is in the data, by somebody who does not know the others.

The attacker knows a record, with its finest geounit, and asks whether the data have it. A coin decided: half of these
people have another record instead (`Targets.tossed`). Of the others in the same cell he knows what the published table
of the area above says; he takes them for Poisson. The threshold of his score is chosen on one half of the people.

Source: Homer et al. 2008; Dwork et al. 2015.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np
from scipy.stats import poisson

from tallyveil.arrays import Bools, Floats
from tallyveil.compare.attacks.attack import Attack, Finding, Targets, interval
from tallyveil.compare.published import Published, PublishedTable

MOST_OTHERS: Final = 80
"""Others in a cell that are considered. Where more are likely, one more or less shows nothing anyway."""


RARE: Final = 1.0
"""Expected others with the same record below which a record is asked about. At twice it exact tables tell less too."""

FEWEST: Final = 60
"""People from which the attack is tried: half of them choose a threshold."""


class Membership(Attack):
    """Who wants to know whether a record is in the data."""

    name: ClassVar[str] = "membership"
    letter: ClassVar[str] = "g"
    who: ClassVar[str] = (
        "Knows a whole record with its finest geounit, which is rare there, and not the others. A fair coin decided "
        "whether it is in the data."
    )
    prior: ClassVar[str] = "an even chance"
    bounded: ClassVar[str] = "TopDown: the bound of (a), which is about a stronger attacker."
    headline: ClassVar[str] = "advantage"
    # Even exact tables leave doubt, for others have the same record.
    must: ClassVar[float] = 0.15

    def run(self, targets: Targets, published: Published, tossed: Published | None) -> Sequence[Finding]:
        """As in `Attack`."""
        if tossed is None:
            return []
        evidence = _scores(targets, tossed, published)
        if evidence is None:
            return [Finding(self.name, "advantage", None, None, None, 0, 0.0)]
        mean, score = evidence
        # Where many have the same record, one more or less shows nothing, and nobody would ask.
        rare = mean < RARE
        if rare.sum() < FEWEST:
            return [Finding(self.name, "advantage", None, None, None, int(rare.sum()), 0.0)]
        score, present = score[rare], targets.pairs.kept[rare]
        halves = targets.half(score.size)
        threshold = _best_threshold(score[halves == 0], present[halves == 0])
        judged = halves == 1
        right = float(((score > threshold) == present)[judged].sum())
        tried = int(judged.sum())
        low, high = interval(right, tried)
        bound = None if tossed.certificate is None else tossed.certificate.advantage
        return [
            Finding(self.name, "correct guesses", right / tried, low, high, tried, 0.5),
            Finding(
                self.name, "advantage", 2 * right / tried - 1, 2 * low - 1, 2 * high - 1, tried, 0.0, bound
            ),
        ]


def _scores(targets: Targets, tossed: Published, published: Published) -> tuple[Floats, Floats] | None:
    """Expected others with the same record, and logarithms of the likelihood ratio of one person more.

    None where no published query tells all cells apart.
    """
    shared, pairs = targets.tossed, targets.pairs
    detailed = shared.detailed
    if detailed is None or shared.n_geolevels < 2:
        return None
    above = shared.areas[shared.n_geolevels - 2]
    answers = detailed.answers_of(pairs.cells)
    place = above.place[pairs.geounits]
    around = tossed.tables[above.name, detailed.name].at(place, answers)
    children = np.bincount(above.place[np.unique(shared.finest.place)], minlength=above.n_areas)[place]
    seen = np.where(around.shown, around.counts, around.stand_in)
    # A hundredth of a person: a cell that is published empty above may still have somebody.
    mean = np.maximum(seen / np.maximum(children, 1), 0.01)
    name = shared.finest.name, detailed.name
    table = tossed.tables[name].at(pairs.geounits, answers)
    others = np.arange(MOST_OTHERS + 1)
    shape = (answers.size, others.size)
    counts = np.broadcast_to(others, shape)
    repeated = PublishedTable(
        np.broadcast_to(table.counts[:, None], shape),
        None if table.hidden is None else np.broadcast_to(table.hidden[:, None], shape),
    )
    prior = poisson.logpmf(others[None, :], mean[:, None])
    with_it = prior + published.law.log_likelihood(name, counts + 1, repeated)
    without = prior + published.law.log_likelihood(name, counts, repeated)
    score = np.logaddexp.reduce(with_it, axis=1) - np.logaddexp.reduce(without, axis=1)
    return np.asarray(mean), np.asarray(score)


def _best_threshold(score: Floats, present: Bools) -> float:
    """The threshold above which most guesses are right."""
    candidates = np.unique(np.quantile(score, np.linspace(0, 1, 101), method="lower"))
    right = [((score > threshold) == present).sum() for threshold in candidates]
    return float(candidates[int(np.argmax(right))])
