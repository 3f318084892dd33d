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
    event: PrivacyEvent,
    neighbours: Neighbours,
    *,
    delta: Fraction,
    rho: Fraction | None = None,
    epsilon: Fraction | None = None,
) -> Claim:
    """The claim of an event and of the budget that was declared for it: of each number the smaller one.

    Args:
        event: What was done.
        neighbours: Between which populations.
        delta: The delta at which epsilon is reported.
        rho, epsilon: The declared budget; exactly one of the two.
    """
    guarantee = compose(event, neighbours=neighbours)
    if rho is not None:
        reported, at_release = (
            min(guarantee.epsilon(one).upper, zcdp_to_epsilon(rho, one)) for one in (delta, RELEASE_DELTA)
        )
        grid = np.linspace(0, reported, 25)
        declared = np.array([zcdp_to_delta(rho, Fraction(one)) for one in grid.tolist()])
        renyi, pure = float(2 * min(rho, rho_of(event))), math.inf
    else:
        pure = float(min(epsilon, epsilon_of(event)))
        reported = min(guarantee.epsilon(delta).upper, pure)
        at_release = min(guarantee.epsilon(RELEASE_DELTA).upper, pure)
        grid = np.linspace(0, max(reported, 0.9 * pure), 25)
        declared = np.maximum(0, (math.exp(pure) - np.exp(grid)) / (math.exp(pure) + 1))
        keep = 1 / (1 + math.exp(-pure))
        renyi = math.log(keep**2 / (1 - keep) + (1 - keep) ** 2 / keep)
    deltas = np.minimum(guarantee.profile_curve(grid.tolist()).upper, declared)
    return Claim(grid, deltas, float(delta), reported, guarantee.mu().upper, renyi, pure, at_release)
