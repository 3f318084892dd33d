"""What the audited package claims of an event, as the numbers that auditors need."""

import math
from fractions import Fraction

import numpy as np
from tests.auditors.outputs import Claim

from tallyveil.accounting import (
    Neighbours,
    PrivacyEvent,
    compose,
    epsilon_of,
    rho_of,
    zcdp_to_delta,
    zcdp_to_epsilon,
)

RELEASE_DELTA = Fraction(1, 10**10)


def claim_of(
    *events: PrivacyEvent,
    neighbours: Neighbours,
    delta: Fraction,
    rho: Fraction | None = None,
    epsilon: Fraction | None = None,
) -> Claim:
    """The claim for one event: each bound is the smallest of those that its descriptions and the declared budget give.

    Args:
        events: What was done; several where the package describes the same thing in several places.
        neighbours: Between which populations.
        delta: The delta at which epsilon is reported.
        rho, epsilon: The declared budget; exactly one of the two.
    """
    guarantees = [compose(event, neighbours=neighbours) for event in events]

    def epsilon_at(one: Fraction) -> float:
        return min(guarantee.epsilon(one).upper for guarantee in guarantees)

    if rho is not None:
        reported, at_release = (
            min(epsilon_at(one), zcdp_to_epsilon(rho, one)) for one in (delta, RELEASE_DELTA)
        )
        grid = np.linspace(0, reported, 25)
        declared = np.array([zcdp_to_delta(rho, Fraction(one)) for one in grid.tolist()])
        renyi, pure = float(2 * min(rho, *map(rho_of, events))), math.inf
    else:
        pure = float(min(epsilon, *map(epsilon_of, events)))
        reported = min(epsilon_at(delta), pure)
        at_release = min(epsilon_at(RELEASE_DELTA), pure)
        grid = np.linspace(0, max(reported, 0.9 * pure), 25)
        declared = np.maximum(0, (math.exp(pure) - np.exp(grid)) / (math.exp(pure) + 1))
        keep = 1 / (1 + math.exp(-pure))
        renyi = math.log(keep**2 / (1 - keep) + (1 - keep) ** 2 / keep)
    curves = [guarantee.profile_curve(grid.tolist()).upper for guarantee in guarantees]
    deltas = np.minimum.reduce([*curves, declared])
    mu = min(guarantee.mu().upper for guarantee in guarantees)
    return Claim(grid, deltas, float(delta), reported, mu, renyi, pure, at_release)
