"""DP-Sniper, after Bichsel, Steffen, Bogunovic and Vechev 2021, with the curve of Delta-Siege (Lokna et al. 2023).

Our own code after the papers. A classifier learns which outputs are likelier on the second population. The outputs above
a threshold of its scores are the attack. Beside the classifier there is the score that an adversary computes who knows
the documented noise. Delta-Siege asks not for one epsilon at one delta but for the point of a claimed curve that is
violated most; so does the third test here.

Steps. The first quarter of the outputs trains the classifier. The second quarter chooses the scores, the threshold and
the direction, separately for each test. The other half judges what was chosen, by exact binomial bounds.

Three tests:
1. epsilon at the delta of the claim;
2. mu, if one is claimed;
3. delta at the epsilon of the claimed curve at which the second quarter shows most.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tests.auditors.bounds import Bools, Floats, delta_below, epsilon_below, mu_below
from tests.auditors.classifier import train
from tests.auditors.findings import LEVEL, Finding
from tests.auditors.outputs import Outputs


@dataclass(frozen=True)
class Attack:
    """A set of outputs: the scores above a threshold, or below it.

    Attributes:
        scores: Number of the scores: 0 for those of the documented noise, 1 for the classifier's.
        threshold: The threshold.
        above: Whether the set is above it; it should then be likelier on the second population.
    """

    scores: int
    threshold: float
    above: bool

    def hits(self, first: list[Floats], second: list[Floats]) -> tuple[Bools, Bools]:
        """Membership under the population in which the set should be likelier, and under the other."""
        in_first, in_second = (
            (side[self.scores] > self.threshold) == self.above for side in (first, second)
        )
        return (in_second, in_first) if self.above else (in_first, in_second)

    @property
    def note(self) -> str:
        """The scores in words."""
        return ("documented noise", "classifier")[self.scores]


Bound = Callable[[Bools, Bools], float]


def audit(outputs: Outputs) -> list[Finding]:
    """The three tests."""
    claim, name, samples = outputs.claim, outputs.name, 2 * len(outputs.first)
    quarter, half = len(outputs.first) // 4, len(outputs.first) // 2
    model = train(outputs.first[:quarter], outputs.second[:quarter])
    first = [outputs.first_scores, model.scores(outputs.first)]
    second = [outputs.second_scores, model.scores(outputs.second)]
    choosing = [one[quarter:half] for one in first], [one[quarter:half] for one in second]
    judging = [one[half:] for one in first], [one[half:] for one in second]

    def tested(bound: Bound) -> tuple[float, Attack]:
        attack = _best(*choosing, bound)
        return bound(*attack.hits(*judging)), attack

    epsilon, attack = tested(lambda a, b: epsilon_below(a, b, claim.delta, LEVEL))
    found = [
        Finding(
            "DP-Sniper",
            name,
            f"epsilon at delta {claim.delta:g}",
            claim.epsilon,
            epsilon,
            samples,
            attack.note,
        )
    ]
    if math.isfinite(claim.mu):
        mu, attack = tested(lambda a, b: mu_below(a, b, LEVEL))
        found.append(Finding("DP-Sniper", name, "mu", claim.mu, mu, samples, attack.note))
    place = _weakest(*choosing, claim.epsilons, claim.deltas)
    at = float(claim.epsilons[place])
    delta, attack = tested(lambda a, b: delta_below(a, b, at, LEVEL))
    found.append(
        Finding(
            "Delta-Siege",
            name,
            f"delta at epsilon {at:.3g}",
            float(claim.deltas[place]),
            delta,
            samples,
            attack.note,
        )
    )
    return found


def _attacks(first: list[Floats], second: list[Floats]) -> Iterator[Attack]:
    for number, pair in enumerate(zip(first, second, strict=True)):
        grid = np.unique(np.quantile(np.concatenate(pair), np.linspace(0.0005, 0.9995, 120)))
        for threshold in grid.tolist():
            for above in (True, False):
                yield Attack(number, threshold, above)


def _best(first: list[Floats], second: list[Floats], bound: Bound) -> Attack:
    return max(_attacks(first, second), key=lambda attack: bound(*attack.hits(first, second)))


def _weakest(first: list[Floats], second: list[Floats], epsilons: Floats, deltas: Floats) -> int:
    """The place on the claimed curve whose delta is exceeded most, in standard errors."""
    best, place = -math.inf, 0
    for attack in _attacks(first, second):
        often, seldom = (float(side.mean()) for side in attack.hits(first, second))
        growth, n = np.exp(epsilons), len(first[0])
        error = np.sqrt((often * (1 - often) + growth**2 * seldom * (1 - seldom) + 1 / n) / n)
        excess = (often - growth * seldom - deltas) / error
        if excess.max() > best:
            best, place = float(excess.max()), int(excess.argmax())
    return place
