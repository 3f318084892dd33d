"""A sequential audit of a claimed curve: bets on pairs of outputs, which stop when the evidence suffices.

Our own code. Sources: Ville 1939 for the inequality; Waudby-Smith and Ramdas 2024 for bets on bounded means; Gonzalez,
Dulce Rubio, Ramdas and Ribero 2025 for sequential audits of differential privacy.

Problem. One output x on the second population and one output y on the first are seen at a time. The claim says: for
every epsilon, delta = delta(epsilon) and every set A,

    P(x in A) - exp(epsilon) P(y in A) - delta <= 0,   and the same with x and y exchanged.

Steps. For each epsilon of a grid and each direction there is an account that begins with 1. Before a pair is seen, a
share s >= 0 of it is bet. Then the account is multiplied by 1 + s g, where g = 1[x in A] - exp(epsilon) 1[y in A] -
delta. If the claim is true, the mean of g is at most 0, whatever the past, so that the account is a supermartingale. So
is the mean of all accounts. With a probability of at most the level it ever reaches 1 / level. When it does, the claim
is refuted, and no more pairs are needed.

A is the set of outputs whose score, the logarithm of a ratio of likelihoods, is above epsilon. There are two kinds of
scores, with accounts of their own: those of the documented noise, and those of a classifier that the first tenth of the
pairs trains and that bets on the others. The bet is the one that would have been best on the pairs before, and changes
after each block of pairs. The stake is at most half of what could be lost.

The lower bound on epsilon at a delta has an account for each epsilon of a grid. It is the largest epsilon of the grid
such that its account and every smaller one's have reached 1 / level. Let epsilon* be the true epsilon, and e the
smallest grid point that is at least epsilon*. The bound can exceed e only if the account of e reaches 1 / level. The
claim at e is true, so the probability of this is at most the level.

Worked case. epsilon = ln 2, delta = 0, A holds x always and y never: g = 1 each time. The bet is at most half of the
largest share 1 / 2, so the account grows by a quarter each time, and passes 200 with the 24th pair after the first
block.
"""

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from scipy.special import logsumexp
from tests.auditors.bounds import Floats
from tests.auditors.classifier import train
from tests.auditors.findings import LEVEL, Finding
from tests.auditors.outputs import Outputs

BLOCK: Final = 500
"""Pairs between two changes of the bets; fewer where there are few pairs."""

MOST_TRAINING: Final = 20_000
"""Pairs, at most, that train the classifier."""

_BETS: Final = np.linspace(0, 0.5, 26)
"""Bets that are compared, as shares of the largest that is allowed."""


@dataclass
class Accounts:
    """One account for each claimed (epsilon, delta) and each direction.

    Attributes:
        epsilons, deltas: The claims.
        counts: How often each of the four kinds of pairs has occurred; shape (2, claims, 2, 2): direction, claim, x in
            A, y in A.
        wealth: Logarithm of each account; shape (2, claims).
        highest: The highest that each has been.
        pairs: Number of pairs seen.
    """

    epsilons: Floats
    deltas: Floats
    counts: Floats = field(init=False)
    wealth: Floats = field(init=False)
    highest: Floats = field(init=False)
    pairs: int = 0

    def __post_init__(self) -> None:
        self.counts = np.zeros((2, self.epsilons.size, 2, 2))
        self.wealth = np.zeros((2, self.epsilons.size))
        self.highest = np.zeros_like(self.wealth)

    @property
    def _gains(self) -> Floats:
        """g for each claim and each of the four kinds of pairs."""
        x, y = np.meshgrid([0.0, 1.0], [0.0, 1.0], indexing="ij")
        found: Floats = x - np.exp(self.epsilons)[:, None, None] * y - self.deltas[:, None, None]
        return found

    def _bets(self) -> Floats:
        """The share of each account that is bet now; it depends on the past alone."""
        most = 1 / (np.exp(self.epsilons) + self.deltas)
        bets = _BETS * most[:, None]
        growth = np.log1p(bets[:, :, None, None] * self._gains[:, None])
        found: Floats = np.empty_like(self.wealth)
        for direction in (0, 1):
            worth = (growth * self.counts[direction][:, None]).sum(axis=(2, 3))
            found[direction] = np.take_along_axis(bets, worth.argmax(axis=1)[:, None], axis=1)[:, 0]
        return found

    def observe(self, first: Floats, second: Floats) -> Floats:
        """Bet on a block of pairs; returns the logarithm of each account after each pair."""
        log_factor = np.log1p(self._bets()[:, :, None, None] * self._gains)
        paths = np.empty((2, self.epsilons.size, first.size))
        for direction, (x, y) in enumerate(((second, first), (-first, -second))):
            hit = (x > self.epsilons[:, None]).astype(np.int64), (y > self.epsilons[:, None]).astype(np.int64)
            rows = np.arange(self.epsilons.size)[:, None]
            paths[direction] = self.wealth[direction][:, None] + np.cumsum(
                log_factor[direction][rows, hit[0], hit[1]], axis=1
            )
            for a in (0, 1):
                for b in (0, 1):
                    self.counts[direction, :, a, b] += ((hit[0] == a) & (hit[1] == b)).sum(axis=1)
        self.wealth = paths[:, :, -1]
        self.highest = np.maximum(self.highest, paths.max(axis=2))
        self.pairs += first.size
        return paths.reshape(-1, first.size)

    def rest(self, pairs: int) -> Floats:
        """Leave the accounts as they are during some pairs; returns what `observe` does."""
        return np.repeat(self.wealth.reshape(-1, 1), pairs, axis=1)


def audit(outputs: Outputs, level: float = LEVEL) -> list[Finding]:
    """Whether the curve is refuted and after how many pairs, and a lower bound on epsilon at the delta of the claim."""
    claim, total = outputs.claim, len(outputs.first)
    training = min(total // 10, MOST_TRAINING)
    model = train(outputs.first[:training], outputs.second[:training])
    scores = [
        (outputs.first_scores, outputs.second_scores),
        (model.scores(outputs.first), model.scores(outputs.second)),
    ]
    grid = np.linspace(0, 1.5 * claim.epsilon, 76)[1:]
    curves = [Accounts(claim.epsilons, claim.deltas) for _ in scores]
    at_delta = [Accounts(grid, np.full(grid.size, claim.delta)) for _ in scores]
    goal, block = math.log(1 / level), min(BLOCK, max(total // 40, 1))
    stopped, best = None, 0.0
    for begin in range(0, total, block):
        part = slice(begin, min(begin + block, total))
        paths = []
        for kind, (first, second) in enumerate(scores):
            if kind and begin < training:
                paths.append(curves[kind].rest(part.stop - begin))
                continue
            at_delta[kind].observe(first[part], second[part])
            if stopped is None:
                paths.append(curves[kind].observe(first[part], second[part]))
        if stopped is None:
            together = np.concatenate(paths)
            path = logsumexp(together, axis=0) - math.log(len(together))
            best = max(best, float(path.max()))
            stopped = begin + int(np.argmax(path >= goal)) + 1 if best >= goal else None
    quantity, digits, name = "digits of evidence against the whole curve", math.log(10), outputs.name
    whole = Finding("sequential f-DP", name, quantity, goal / digits, best / digits, 2 * (stopped or total))
    epsilon = _largest_refuted(at_delta, level)
    quantity = f"epsilon at delta {claim.delta:g}"
    return [whole, Finding("sequential f-DP", name, quantity, claim.epsilon, epsilon, 2 * total)]


def _largest_refuted(accounts: list[Accounts], level: float) -> float:
    """The largest epsilon of the grid such that it and every smaller one is refuted; 0 if the smallest one is not."""
    # Each epsilon has two accounts of each kind, which share the level.
    highest = np.concatenate([one.highest for one in accounts])
    refuted = highest.max(axis=0) >= math.log(len(highest) / level)
    number = refuted.size if refuted.all() else int(np.argmin(refuted))
    return float(accounts[0].epsilons[number - 1]) if number else 0.0
