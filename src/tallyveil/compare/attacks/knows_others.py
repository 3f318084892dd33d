"""Attack (a): somebody who knows everybody else tells two records apart.

The attacker knows the records of all people but one, and two records one of which is this person's. They differ in the
sensitive attribute alone, and a coin that was thrown before publishing says which is in the data. He compares, for
every published answer that they touch, how likely the published count is under each of the two. The rule "the likelier
one" is the best there is if the answers are independent given the truth (Neyman and Pearson); where they are not, it is
a lower bound.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar, Final

import numpy as np

from tallyveil.arrays import Bools, Floats
from tallyveil.compare.attacks.attack import Attack, Finding, Pairs, Targets, coin_findings
from tallyveil.compare.inputs import Areas, SharedInput
from tallyveil.compare.published import Law, NoisyAnswers, Published
from tallyveil.noise.key import derive_key
from tallyveil.noise.source import discrete_gaussian

LEAST_VARIANCE: Final = Fraction(1, 250)
"""The least variance of the noise of this program. At it noise other than 0 has a probability of 1e-54, so that smaller
variances need no law of their own."""


class KnowsOthers(Attack):
    """Who knows everybody else, and tells two records apart."""

    name: ClassVar[str] = "knows everybody else"
    letter: ClassVar[str] = "a"
    who: ClassVar[str] = (
        "Knows every record but one, and two records one of which is this person's; they differ in one attribute, and "
        "a fair coin chose. No other attacker here knows so much. To use what is published of a block, he needs to "
        "know only who else is in two of its cells."
    )
    prior: ClassVar[str] = "an even chance"
    bounded: ClassVar[str] = (
        "TopDown, SafeTab and sampling: an advantage that no attacker exceeds, whatever he knows. For most others no "
        "bound below 1 exists, or no finite epsilon with a small delta; each method says what is known. Cell keys and "
        "random rounding state the bound for one count alone. The bound of permutation swapping is about who lives "
        "where, and not about a record that changes its value."
    )
    reading: ClassVar[str] = (
        "Where a table that tells the two records apart is exact for any area with the person, an advantage of 1.00 "
        "follows by subtraction. A total does not tell them apart, and may be exact. He adds up what single answers "
        "say, although answers of nested areas are not independent. The noise of noisy answers is drawn anew for each "
        "person, so that what is measured is a mean over releases."
    )
    headline: ClassVar[str] = "advantage"
    must: ClassVar[float] = 0.99

    def run(self, targets: Targets, published: Published, tossed: Published | None) -> Sequence[Finding]:
        """As in `Attack`."""
        findings: list[Finding] = []
        pairs, shared = targets.pairs, targets.tossed
        halves = targets.half(pairs.cells.size)
        tuning, judging = pairs.even & (halves == 0), pairs.even & (halves == 1)
        certificate = published.certificate
        bound = None if certificate is None else certificate.advantage
        if tossed is not None:
            by_areas = [_evidence(shared, tossed, published.law, pairs, areas) for areas in shared.areas]
            # Which tables to believe is tuned: answers of nested areas are not independent, and all of them can harm.
            choices = [
                by_areas[shared.n_geolevels - 1],
                by_areas[min(1, shared.n_geolevels - 1)],
                np.sum(by_areas[: shared.n_geolevels], axis=0),
                np.sum(by_areas, axis=0),
            ]
            best = max(choices, key=lambda score: _right(score[tuning], pairs.unchanged[tuning]))
            findings += self._judged("from the tables", best[judging], pairs.unchanged[judging], bound)
        if published.noisy:
            key = targets.draws.bytes_of("noise of single trials")
            parts = [
                _noisy_evidence(shared, noisy, pairs, key, number)
                for number, noisy in enumerate(published.noisy)
            ]
            score = np.sum(parts, axis=0)
            findings += self._judged(
                "from the noisy answers", score[judging], pairs.unchanged[judging], bound
            )
        return findings

    def _judged(self, source: str, score: Floats, unchanged: Bools, bound: float | None) -> list[Finding]:
        if not score.size:  # of one person nobody is left to judge the tuned attack by
            return []
        return coin_findings(self.name, source, _right(score, unchanged), score.size, bound)


def _right(score: Floats, unchanged: Bools) -> float:
    """Number of right guesses, by scores above zero where the person's own record is likelier; a tie is half."""
    return float(((score > 0) == unchanged)[score != 0].sum() + 0.5 * (score == 0).sum())


def _evidence(shared: SharedInput, published: Published, law: Law, pairs: Pairs, areas: Areas) -> Floats:
    """The logarithm of the likelihood ratio of each person's own record against the other, from the tables of areas."""
    place = areas.place[pairs.geounits]
    total = np.zeros(place.size)
    for query in shared.queries:
        name = areas.name, query.name
        true, table = shared.truth[name], published.tables[name]
        for layer in query.layers:
            answers, others = layer.answers_of(pairs.cells), layer.answers_of(pairs.others)
            # An answer that has both records, or neither, says nothing of which it is.
            for answer, sign in ((answers, 1), (others, -1)):
                touched = np.flatnonzero((answers != others) & (answer >= 0) & (place >= 0))
                at = place[touched], answer[touched]
                # The others in this answer: without the person, wherever the coin has put him.
                present = pairs.unchanged[touched] == (sign > 0)
                without = true[at] - present
                shown = table.at(*at)
                inside = law.log_likelihood(name, without + 1, shown)
                outside = law.log_likelihood(name, without, shown)
                total[touched] += sign * (inside - outside)
    return total


def _noisy_evidence(
    shared: SharedInput, noisy: NoisyAnswers, pairs: Pairs, key: bytes, number: int
) -> Floats:
    """The same from noisy answers, whose law is known exactly: with noise of its own for every person.

    One release has few noisy answers about a State, and all people would be judged by the same few. So each person is
    attacked in a release of his own. What is measured is then the mean over releases, which the bound is about.
    """
    areas = shared.areas_named(noisy.name[0])
    query = shared.schema.query(noisy.name[1])
    variances = noisy.variance[areas.place[pairs.geounits]]
    total = np.zeros(variances.size)
    for number_of_layer, layer in enumerate(query.layers):
        answers, others = layer.answers_of(pairs.cells), layer.answers_of(pairs.others)
        for sign, answer in ((1, answers), (-1, others)):
            touched = (answers != others) & (answer >= 0)
            # Geounits that were not measured have an infinite variance.
            for variance in np.unique(variances[touched & np.isfinite(variances)]):
                people = np.flatnonzero(touched & (variances == variance))
                own_key = derive_key(key, f"{number} {number_of_layer} {sign} {variance!r}")
                drawn = max(Fraction(float(variance)), LEAST_VARIANCE)
                noise = discrete_gaussian(drawn, people.size, key=own_key).astype(np.float64)
                # The answer above the others in it: 1 with the person, plus noise.
                above = noise + (pairs.unchanged[people] == (sign > 0))
                # log p(above | 1) - log p(above | 0) of a law proportional to exp(-x^2 / (2 variance)).
                total[people] += sign * (above**2 - (above - 1) ** 2) / (2 * variance)
    return total
