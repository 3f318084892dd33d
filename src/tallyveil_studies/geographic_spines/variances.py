"""Section 3.1: how much smaller the variance of the discrete laws is than that of the continuous ones."""

import math
from fractions import Fraction
from typing import Final

import polars as pl

from tallyveil.noise import DiscreteGaussian, DiscreteLaplace
from tallyveil.noise.balls import certified_float, precision, rational
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.printed import beside_ours

_SQUARES: Final = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(3), Fraction(4))
"""Variance parameters sigma squared of the Gaussian law, of section 3.1 and around it."""

_SCALES: Final = (Fraction(1, 2), Fraction(1), Fraction(2), Fraction(10), Fraction(100))
"""Scales of the Laplace law, from small ones to where the saving is constant."""

_RELATIVE_ERROR: Final = 2.0**-46  # that of a certified variance is below 2**-47
_BITS: Final = 128


def discrete_variances(_: StudyInputs) -> Findings:
    """The decrease of the variance, certified from both sides."""
    decreases = {square: decrease(square) for square in _SQUARES}
    gaussian = [
        {"law": "Gaussian", "parameter": float(square), "continuous": float(square), "decrease": saved}
        for square, saved in decreases.items()
    ]
    laplace = [_laplace(scale) for scale in _SCALES]
    ours = {
        # Rounded up, because the paper states upper bounds.
        f"sigma squared {square}": math.nextafter(saved * (1 + _RELATIVE_ERROR), math.inf)
        for square, saved in decreases.items()
    }
    return Findings(
        tables={"variances": pl.DataFrame([*gaussian, *laplace])},
        comparisons=beside_ours("geographic_spines", "variance-decrease", ours, "decrease"),
        notes=(
            "The parameter is sigma squared of the Gaussian law and the scale b of the Laplace law.",
            "The paper names the Gaussian law alone. The Laplace law saves close to 1/6 at every large scale.",
        ),
    )


def decrease(square: Fraction) -> float:
    """sigma squared minus the variance of the discrete Gaussian law, with relative error below 2**-47."""
    with precision(_BITS):
        # In balls of 128 bits: the difference of nearly equal numbers would vanish in floats.
        return certified_float(rational(square) - DiscreteGaussian(square).variance_ball(_BITS))


def _laplace(scale: Fraction) -> dict[str, str | float]:
    continuous = 2 * float(scale) ** 2
    saved = continuous - DiscreteLaplace(scale).variance_float()
    return {"law": "Laplace", "parameter": float(scale), "continuous": continuous, "decrease": saved}
