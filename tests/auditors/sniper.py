"""DP-Sniper, after Bichsel, Steffen, Bogunovic and Vechev 2021, with the curve of Delta-Siege (Lokna et al. 2023).

Our own code after the papers. A classifier learns which outputs are likelier on the second population. The outputs
above a threshold of its scores are the attack. Beside the classifier there is the score that an adversary computes who
knows the documented noise. Delta-Siege asks not for one epsilon at one delta but for the point of a claimed curve that
is violated most. So does the last test here.

Steps. The first quarter of the outputs trains the classifier. The second quarter chooses the scores, the threshold and
the direction, separately for each test. The other half judges what was chosen, by exact binomial bounds.

Four tests:
1. epsilon at the delta of the claim;
2. epsilon at delta 1e-10, which releases report;
3. mu, if one is claimed; with Gaussian noise also the epsilon at delta 1e-10 of a Gaussian curve with the mu found;
4. delta at the epsilon of the claimed curve at which the second quarter shows most.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
from tests.auditors.bounds import Bools, Floats, delta_below, epsilon_below, mu_below
from tests.auditors.classifier import train
from tests.auditors.findings import LEVEL, Finding
from tests.auditors.outputs import Outputs

RELEASE_DELTA: Final = 1e-10
"""The delta at which releases report epsilon."""


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
        in_first, in_second = ((side[self.scores] > self.threshold) == self.above for side in (first, second))
        return (in_second, in_first) if self.above else (in_first, in_second)

    @property
    def note(self) -> str:
        """The scores in words."""
        return ("documented noise", "classifier")[self.scores]


Bound = Callable[[Bools, Bools], float]


def audit(outputs: Outputs) -> list[Finding]:
    """The four tests."""
    claim, name, samples = outputs.claim, outputs.name, 2 * len(outputs.first)
    quarter, half = len(outputs.first) // 4, len(outputs.first) // 2
    model = train(outputs.first[:quarter], outputs.second[:quarter])
    first = [outputs.first_scores, model.scores(outputs.first)]
    second = [outputs.second_scores, model.scores(outputs.second)]
    choosing = [one[quarter:half] for one in first], [one[quarter:half] for one in second]
    judging = [one[half:] for one in first], [one[half:] for one in second]

    def tested(auditor: str, quantity: str, claimed: float, bound: Bound) -> Finding:
        attack = _best(*choosing, bound)
        found = bound(*attack.hits(*judging))
        return Finding(auditor, name, quantity, claimed, found, samples, attack.note)

    findings = [
        tested("DP-Sniper", f"epsilon at delta {delta:g}", claimed, partial(_epsilon, delta))
        for delta, claimed in ((claim.delta, claim.epsilon), (RELEASE_DELTA, claim.epsilon_at_release))
    ]
    if math.isfinite(claim.mu):
        mu = tested("DP-Sniper", "mu", claim.mu, lambda often, seldom: mu_below(often, seldom, LEVEL))
        if math.isinf(claim.pure):
            as_epsilon = gaussian_epsilon(mu.found, RELEASE_DELTA)
            mu = replace(mu, note=f"{mu.note}; epsilon {as_epsilon:.2f} at 1e-10 if Gaussian")
        findings.append(mu)
    place = _weakest(*choosing, claim.epsilons, claim.deltas)
    at, claimed = float(claim.epsilons[place]), float(claim.deltas[place])
    return [*findings, tested("Delta-Siege", f"delta at epsilon {at:.3g}", claimed, partial(_delta, at))]


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The epsilon at a delta of N(0, 1) against N(mu, 1)."""
    from scipy.optimize import brentq
    from scipy.special import log_ndtr

    if mu <= 0:
        return 0.0

    def excess(epsilon: float) -> float:
        first, second = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
        return float(first + math.log(-math.expm1(second - first)) - math.log(delta))

    return float(brentq(excess, 0.0, mu * (mu / 2 + 40))) if excess(0.0) > 0 else 0.0


def _epsilon(delta: float, often: Bools, seldom: Bools) -> float:
    return epsilon_below(often, seldom, delta, LEVEL)


def _delta(epsilon: float, often: Bools, seldom: Bools) -> float:
    return delta_below(often, seldom, epsilon, LEVEL)


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
