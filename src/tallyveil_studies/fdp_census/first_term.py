"""The paper's accounting of all geolevels together: delta(epsilon) < P(L > epsilon), its first term alone.

The paper drops the second term, exp(epsilon) Q(L > epsilon), because floats could not hold it (Section A.6).
"""

import math
from fractions import Fraction
from functools import cache

import numpy as np
from scipy.optimize import brentq

from tallyveil.accounting.engines.tilted_fft import TiltedFFT
from tallyveil.accounting.losses.further import of_integers
from tallyveil.accounting.losses.loss_laws import loss_law_of
from tallyveil.arrays import Floats
from tallyveil_studies.fdp_census.allocation import OVERALL_DELTA, overall_event


def first_terms(epsilons: Floats) -> Floats:
    """P(L > epsilon) of all geolevels together, rounded up."""
    engine = TiltedFFT(of_integers(loss_law_of(overall_event())))
    return np.array([math.exp(engine.log_tails(epsilon).log_first.upper) for epsilon in epsilons.tolist()])


@cache
def first_term_reduction(epsilon: float) -> float:
    """Percent by which all variances could be reduced at an epsilon, if delta were equal to P(L > epsilon).

    Args:
        epsilon: The epsilon to keep, at OVERALL_DELTA.
    """
    log_delta = math.log(float(OVERALL_DELTA))

    def excess(factor: float) -> float:
        # With eight digits, the losses have a common lattice that is not too large.
        exact = Fraction(round(factor * 10**8), 10**8)
        engine = TiltedFFT(of_integers(loss_law_of(overall_event(exact))))
        return engine.log_tails(epsilon).log_first.upper - log_delta

    # From four fifths of the variances to all of them; the root lies near 0.914.
    return 100 * (1 - float(brentq(excess, 0.8, 1.0, xtol=1e-7)))
