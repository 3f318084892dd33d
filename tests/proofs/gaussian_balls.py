"""Discrete Gaussians in balls: numbers with a proved bound on their error."""

from fractions import Fraction
from random import Random

from flint import arb, fmpq

from tallyveil.accounting.losses import GaussianLoss


def ball(value):
    return arb(fmpq(*Fraction(value).as_integer_ratio()))


def weights_of(v, reach):
    return {x: (-ball(x * x) / (2 * ball(v))).exp() for x in range(-reach, reach + 1)}


def theta(v):
    return 1 + 2 * sum((-2 * arb.pi() ** 2 * ball(v) * k * k).exp() for k in range(1, 40))


def density(z, variance):
    return (-ball(z * z) / (2 * ball(variance))).exp() / (2 * arb.pi() * ball(variance)).sqrt()


def near(one, other, digits=40):
    """Whether two balls are certainly within a small share of each other, in absolute value or of one."""
    return abs(one - other) < arb(10) ** -digits * (1 + abs(other))


def random_losses(seed):
    """Answers with noise and moves, wide enough for the engine."""
    random = Random(f"losses {seed}")
    unit = Fraction(random.randint(8, 20), random.choice([1, 2]))
    moves = [(unit / random.choice([1, 2]), random.randint(1, 2)) for _ in range(random.randint(1, 3))]
    return random, [GaussianLoss(v, k, 1) for v, k in moves]
