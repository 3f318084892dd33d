"""Draws of the public samplers, and counts with such noise."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from tests.auditors.drawing.claims import claim_of
from tests.auditors.outputs import Draws, Outputs

from tallyveil.accounting import DiscreteGaussian, DiscreteLaplace, Neighbours
from tallyveil.noise import discrete_gaussian, discrete_laplace, insecure_key

KEY = insecure_key("auditors: samplers")
VARIANCES = ("1/4", "2", "68.49", "10000", "123456789/1000")
SCALES = ("1/2", "3", "1000/7")


def draws(number: int) -> Iterator[Draws]:
    """So many draws of each law."""
    # Wide laws first: with a fault, the table of a narrow one may not be made at all.
    for place, variance in reversed(list(enumerate(VARIANCES))):
        values = discrete_gaussian(variance, number, key=KEY, number=place)
        name = f"gaussian-variance-{variance.replace('/', '-over-')}"
        yield Draws(name, "gaussian", float(Fraction(variance)), values)
    for place, scale in enumerate(SCALES, start=100):
        values = discrete_laplace(scale, number, key=KEY, number=place)
        yield Draws(
            f"laplace-scale-{scale.replace('/', '-over-')}", "laplace", float(Fraction(scale)), values
        )


def counts(number: int) -> Iterator[Outputs]:
    """A count of 3 people and of 4, with noise: the smallest mechanism of each kind."""
    epsilon, variance = Fraction(1), Fraction(2)
    noise = [discrete_laplace(1 / epsilon, number, key=KEY, number=200 + side) for side in (0, 1)]
    first, second = noise[0] + 3, noise[1] + 4
    scores = [float(epsilon) * (np.abs(values - 3) - np.abs(values - 4)) for values in (first, second)]
    claim = claim_of(
        DiscreteLaplace(1 / epsilon), neighbours=Neighbours.UNBOUNDED, delta=Fraction(1, 100), epsilon=epsilon
    )
    yield Outputs("count-laplace", first[:, None], second[:, None], scores[0], scores[1], claim)
    noise = [discrete_gaussian(variance, number, key=KEY, number=300 + side) for side in (0, 1)]
    first, second = noise[0] + 3, noise[1] + 4
    scores = [(values.astype(np.float64) - 3.5) / float(variance) for values in (first, second)]
    rho = 1 / (2 * variance)
    claim = claim_of(
        DiscreteGaussian(variance), neighbours=Neighbours.UNBOUNDED, delta=Fraction(1, 100), rho=rho
    )
    yield Outputs("count-gaussian", first[:, None], second[:, None], scores[0], scores[1], claim)
