"""Delta to a few per cent and without a certificate: where a search for a certified answer begins.

The problem: estimate ln delta(epsilon), delta = E[(1 - exp(epsilon - L))+], for a loss L that is a sum of many
independent ones, without computing its law.

Variables: K(s) = ln E exp(s L); s >= 0 the tilt at which the tilted loss has its mean m = K'(s) near epsilon;
sigma^2 = K''(s); a = m - epsilon.

Method. With d = L - epsilon and the law tilted by exp(s L),

    delta = exp(K(s) - s epsilon) * E_s[exp(-s d) - exp(-(s + 1) d); d > 0].

The tilted law is replaced by the normal law with its mean and variance, for which

    ln E[exp(-r d); d > 0] = t(r) = r^2 sigma^2 / 2 - r a + ln Phi(a / sigma - r sigma).

Example: for one Gaussian loss, L ~ N(mu^2 / 2, mu^2), nothing is replaced, and the result is exact.
"""

import math

from scipy.special import log_ndtr

from tallyveil.accounting.engines.tilts import saddle_point
from tallyveil.accounting.losses.factors import LossFactor
from tallyveil.accounting.losses.largest_loss import greatest_loss
from tallyveil.accounting.losses.moments import log_moment, moments


def approximate_log_delta(factors: tuple[LossFactor, ...], epsilon: float) -> float:
    """About ln delta(epsilon) of a composition, -inf where no loss exceeds epsilon. Not a bound.

    Args:
        factors: The losses added up.
        epsilon: A finite number.
    """
    most = greatest_loss(factors)
    if most is not None and most <= epsilon:
        return -math.inf
    # Left of the mean no tilt is needed: delta has its bulk there.
    tilt = max(saddle_point(factors, epsilon)[0], 0.0)
    pairs = [(factor.multiplicity, *moments(factor, tilt)) for factor in factors]
    above = sum(n * mean for n, mean, _ in pairs) - epsilon
    spread = math.sqrt(sum(n * variance for n, _, variance in pairs))
    if spread == 0:  # in floats the loss is a single value
        return 0.0 if above > 0 else -math.inf

    def log_share(rate: float) -> float:
        return (
            rate * rate * spread * spread / 2 - rate * above + float(log_ndtr(above / spread - rate * spread))
        )

    first, second = log_share(tilt), log_share(tilt + 1)
    if not second < first:
        return -math.inf
    scale = sum(factor.multiplicity * log_moment(factor, tilt) for factor in factors) - tilt * epsilon
    return scale + first + math.log(-math.expm1(second - first))
