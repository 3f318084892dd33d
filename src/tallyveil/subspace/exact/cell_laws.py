"""Weights of single cells, and the law of a cell that stands for several.

Problem. Samplers of tables need the weight of a value, bounds on the weight of large values, and laws whose weights are
products. If z and -z are both cells of a table, one number decides two cells, and its weight is the product of two.

Steps. The weight of a Laplace law is exp(-abs(x) / scale), and that of a Gaussian law is exp(-x^2 / (2 variance)). In a
product of weights, the rates 1 / scale or 1 / variance add up.

Worked case. Two cells with the Laplace scale 4 and values x and -x have the joint weight exp(-abs(x) / 2). This is a
cell with scale 2.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction

from flint import arb

from tallyveil.errors import SolverError
from tallyveil.noise.balls import rational
from tallyveil.noise.laws import SMALLEST_PARAMETER, DiscreteGaussian, DiscreteLaplace, Law


def cell_weight(law: Law, x: int) -> arb:
    """The weight L(x) of one cell, with L(0) = 1, at the current precision."""
    if isinstance(law, DiscreteGaussian):
        return (-(x * x) / (2 * rational(law.variance))).exp()
    return (-abs(x) / rational(law.scale)).exp()


def weight_beyond(law: Law, reach: int) -> arb:
    """An upper bound of the sum of L(w) over w > reach >= 0: a geometric sum, which is exact for the Laplace law."""
    first, second = cell_weight(law, reach + 1), cell_weight(law, reach + 2)
    return first / (1 - second / first)


def joint_law(laws: Sequence[Law]) -> Law:
    """The law whose weights are the products of the weights of these laws.

    Raises:
        SolverError: some laws are Gaussian and others are Laplace laws, so that the product is neither; or the product
            is narrower than every law that can be drawn.
    """
    if all(isinstance(law, DiscreteGaussian) for law in laws):
        return DiscreteGaussian(_joint(law.variance for law in laws if isinstance(law, DiscreteGaussian)))
    if all(isinstance(law, DiscreteLaplace) for law in laws):
        return DiscreteLaplace(_joint(law.scale for law in laws if isinstance(law, DiscreteLaplace)))
    raise SolverError(
        "The constraints make several cells equal up to the sign, and some of them have Gaussian noise, others Laplace "
        "noise. Give these cells laws of one kind."
    )


def _joint(parameters: Iterable[Fraction]) -> Fraction:
    parameter = 1 / sum((1 / parameter for parameter in parameters), Fraction(0))
    if parameter < SMALLEST_PARAMETER:
        raise SolverError(
            f"The constraints make several cells equal up to the sign. Together they have a law with parameter "
            f"{parameter}, wanted {SMALLEST_PARAMETER} or more. Use more noise."
        )
    return parameter
