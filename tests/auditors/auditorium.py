"""The testers of DP-Auditorium, after Kong, Munoz Medina, Ribero and Syed 2024: hockey-stick, Renyi and MMD.

Our own code after the paper, with linear classifiers in place of neural networks and with exact or empirical bounds in
place of Hoeffding's and Chernoff's.

- Hockey-stick: a classifier is trained on outputs that are weighted by 1 and exp(epsilon), so that its positive side is
  the best set at this epsilon. The epsilon is that of the claim at its delta.
- Renyi: for every bounded function g, the divergence of order a is at least
  a / (a - 1) ln E_P exp((a - 1) g) - ln E_Q exp(a g). Here a = 2 and g is the score, cut off at [-b, b]. The best b is
  chosen on one half of the outputs.
- MMD: the largest difference of means of a function from the unit ball of a kernel space. The kernel is
  exp(-|x - y|^2 / (2 w)) with w the number of columns times twice their variance. Functions in the ball lie in [-1, 1],
  so the discrepancy is at most twice the total variation.
"""

import math
from typing import Final

import numpy as np
from tests.auditors.bounds import Floats, delta_below, mean_radius
from tests.auditors.classifier import train
from tests.auditors.findings import LEVEL, Finding
from tests.auditors.outputs import Outputs

_ORDER: Final = 2
_CUTS: Final = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)


def audit(outputs: Outputs) -> list[Finding]:
    """The three testers."""
    return [hockey_stick(outputs), renyi(outputs), discrepancy(outputs)]


def hockey_stick(outputs: Outputs) -> Finding:
    """Delta at the claimed epsilon, by the set that a classifier learns."""
    claim, half = outputs.claim, len(outputs.first) // 2
    model = train(outputs.first[:half], outputs.second[:half])
    # The classifier of equally many outputs is shifted by epsilon, which weights one side by exp(epsilon).
    in_second = model.scores(outputs.second[half:]) > claim.epsilon
    in_first = model.scores(outputs.first[half:]) > claim.epsilon
    found = delta_below(in_second, in_first, claim.epsilon, LEVEL)
    quantity = f"delta at epsilon {claim.epsilon:.3g}"
    return Finding("hockey-stick tester", outputs.name, quantity, claim.delta, found, 2 * len(outputs.first))


def renyi(outputs: Outputs) -> Finding:
    """The Renyi divergence of order 2, of the second population from the first."""
    half = len(outputs.first) // 2
    first, second = outputs.first_scores, outputs.second_scores
    cut = max(_CUTS, key=lambda one: renyi_below(first[:half], second[:half], one, LEVEL))
    found = renyi_below(first[half:], second[half:], cut, LEVEL)
    quantity = "Renyi divergence of order 2"
    return Finding("Renyi tester", outputs.name, quantity, outputs.claim.renyi, found, 2 * len(first))


def renyi_below(first: Floats, second: Floats, cut: float, failure: float) -> float:
    """A lower bound on the divergence of order 2 of the law of `second` from that of `first`."""
    up = np.exp((_ORDER - 1) * np.clip(second, -cut, cut))
    down = np.exp(_ORDER * np.clip(first, -cut, cut))
    low = up.mean() - mean_radius(up, 2 * math.sinh((_ORDER - 1) * cut), failure / 2)
    high = down.mean() + mean_radius(down, 2 * math.sinh(_ORDER * cut), failure / 2)
    if low <= 0:
        return 0.0
    return max(0.0, _ORDER / (_ORDER - 1) * math.log(low) - math.log(high))


def discrepancy(outputs: Outputs) -> Finding:
    """The maximum mean discrepancy against twice the claimed total variation."""
    half = len(outputs.first) // 2
    x, y = outputs.second.astype(np.float64), outputs.first.astype(np.float64)
    width = 2 * float(x[:half].var(axis=0).sum()) or 1.0

    def kernel(one: Floats, other: Floats) -> Floats:
        found: Floats = np.exp(-((one - other) ** 2).sum(axis=1) / (2 * width))
        return found

    xa, xb, ya, yb = x[:half], x[half : 2 * half], y[:half], y[half : 2 * half]
    # Independent terms with the square of the discrepancy as their mean; the values lie in [-2, 2].
    terms = kernel(xa, xb) + kernel(ya, yb) - kernel(xa, yb) - kernel(xb, ya)
    square = float(terms.mean()) - mean_radius(terms, 4.0, LEVEL)
    found = math.sqrt(max(square, 0.0)) / 2
    claimed = outputs.claim.total_variation
    return Finding("MMD tester", outputs.name, "total variation", claimed, found, 2 * len(x))
