"""One contour of the quadrature against the rule at all points, and the nodes that it keeps."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tallyveil.accounting.engines import quadrature
from tallyveil.accounting.engines.lattice_points import UNIT, LatticeFactors, find_places
from tallyveil.accounting.engines.quadrature import (
    DELTA,
    FIRST,
    SECOND,
    LatticeContour,
    contour_at,
    contour_nodes,
    laplace_part,
)
from tallyveil.accounting.losses import GaussianLoss, LaplaceLoss, lattice_of

GAP, STEP = 0.07, 0.2


def plain_sum(
    kind: int, tau: float, first: int, n_points: int, pairs: list[tuple[GaussianLoss, int]]
) -> float:
    """All points of the rule, the transform from its definition, in the unit of the contour's sums."""
    s = tau + 2j * np.pi * (np.arange(n_points) - n_points // 2) / n_points
    transform = np.ones(n_points, dtype=complex)
    for factor, a in pairs:
        v, n = float(factor.variance), factor.multiplicity
        reach = math.ceil(12 * math.sqrt(v) + abs(v * a * tau)) + 5
        x = np.arange(-reach, reach + 1)
        mass = np.exp(-((x - v * a * tau) ** 2) / (2 * v))
        transform *= (mass @ np.exp(1j * np.outer(x, a * s.imag)) / math.sqrt(2 * math.pi * v)) ** n
    first_factor, second_factor = 1 / (1 - np.exp(-s)), 1 / (1 - np.exp(-s - STEP))
    factor = (first_factor, second_factor, first_factor - math.exp(-GAP) * second_factor)[kind]
    return float(np.mean((transform * np.exp(-1j * s.imag * first) * factor).real))


@pytest.mark.parametrize("kind", [FIRST, SECOND, DELTA])
@pytest.mark.parametrize(
    "factors",
    [
        (GaussianLoss(Fraction(5), 1, 10),),
        (GaussianLoss(Fraction(4), 1, 2), GaussianLoss(Fraction(3), 1, 3)),
        (GaussianLoss(Fraction(1, 4), 1, 3), GaussianLoss(Fraction(5, 8), 1, 1)),
    ],
)
@pytest.mark.parametrize("deviations", [0.5, 4.0, 9.0])
def test_the_rule_is_that_of_all_points(
    kind: int, factors: tuple[GaussianLoss, ...], deviations: float
) -> None:
    lattice = lattice_of(factors)
    pairs = list(zip(factors, lattice.weights, strict=True))
    variance = float(sum(a * a * f.multiplicity * f.variance for f, a in pairs))
    n_points = 24 * math.ceil(math.sqrt(variance)) | 1
    nodes = contour_nodes(pairs, [], lattice.step, n_points)
    assert not isinstance(nodes, str)
    tau = (deviations + 1.6) / math.sqrt(variance)
    contour = contour_at(kind, (tau, tau), STEP, nodes, laplace_part([], nodes.places, n_points))
    first = round(deviations * math.sqrt(variance))
    coefficients = np.ones(1)
    if kind == DELTA:
        coefficients = np.array([-math.expm1(-GAP), -math.exp(-GAP) * math.expm1(GAP - STEP)])
    error = float(coefficients @ contour.errors)
    values = coefficients @ contour.sums_at(np.array([first, first + 1]) % n_points)
    for place, value in zip((first, first + 1), values.tolist(), strict=True):
        plain = plain_sum(kind, tau, place, n_points, pairs)
        assert value == pytest.approx(plain, rel=1e-11, abs=error)
        assert error < 1e-9 * abs(plain)


def test_whole_turns_are_taken_off_exactly_in_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    n_points = 2**26 - 5
    places = np.concatenate([np.arange(40), n_points // 2 - np.arange(7)])
    terms = np.exp(1j * places)[None, :]
    contour = LatticeContour(1e-3, 0.0, 0.0, n_points, places, terms, np.zeros(1))
    residues = np.concatenate([np.arange(0, n_points, 999_983), n_points // 2 + np.arange(3), [n_points - 1]])
    in_floats = contour.sums_at(residues)
    monkeypatch.setattr(quadrature, "_EXACT_PRODUCTS", 0)
    assert np.abs(in_floats - contour.sums_at(residues)).max() < 1e-13


@pytest.mark.parametrize("variances", [("1/4", "3/8", "5/2"), ("2", "9/10", "20"), ("7", "68/25", "1/3")])
def test_every_point_that_is_not_found_is_below_the_bound(variances: tuple[str, ...]) -> None:
    factors = [GaussianLoss(Fraction(v), k, 2 + k) for v, k in zip(variances, (1, 1, 2), strict=True)]
    lattice = lattice_of(tuple(factors))
    parts, n_points, depth = LatticeFactors.of(list(zip(factors, lattice.weights, strict=True))), 40_001, 9.0
    found = find_places(factors, lattice.step, n_points, depth)
    assert not isinstance(found, str)
    everywhere = np.arange(n_points // 2 + 1)
    x = parts.angles(everywhere, n_points)
    images = 2 * np.pi * np.arange(-6, 7)
    logs = np.zeros(everywhere.size)
    for v, m, row in zip(parts.variances, parts.powers, x, strict=True):
        at_zero = np.log(np.exp(-v * images**2 / 2).sum())
        logs += m * (np.log(np.exp(-v * (row[:, None] + images) ** 2 / 2).sum(axis=1)) - at_zero)
    missed = np.ones(everywhere.size, dtype=bool)
    missed[found] = False
    assert missed.any()
    assert logs[missed].max() <= -depth
    assert np.all(np.diff(found) > 0)


def test_tilted_laplace_moments() -> None:
    part = laplace_part([(LaplaceLoss(Fraction(3, 2), 3, 2), 5)], np.arange(3), 11)
    masses, logs, mean, variance = part.tilted(0.1)
    values = np.arange(4)
    tilted = np.exp(part.log_masses[0] + 0.5 * values)
    assert logs[0] == pytest.approx(math.log(tilted.sum()))
    tilted /= tilted.sum()
    np.testing.assert_allclose(masses[0], tilted)
    centre = tilted @ values
    assert mean == pytest.approx(2 * 5 * centre)
    assert variance == pytest.approx(2 * 25 * (tilted @ (values - centre) ** 2))
    np.testing.assert_allclose(part.phases[0][2], np.exp(2j * np.pi * 10 * np.arange(3) / 11))


@pytest.mark.parametrize(
    ("kind", "tau"),
    [(SECOND, -0.11), *((kind, tau) for kind in (FIRST, SECOND, DELTA) for tau in (0.23, 1.4))],
)
def test_the_errors_of_sums_are_those_of_the_proof(kind: int, tau: float) -> None:
    """Every node's rounding, and what is left out, each with the modulus of the factor that belongs to the sum."""
    n_points, further = 101, tau + 0.7
    gaussians = [(GaussianLoss(Fraction(3, 10), 1, 2), 1), (GaussianLoss(Fraction(4), 1, 1), 3)]
    laplaces = [(LaplaceLoss(Fraction(3, 2), 2, 3), 2), (LaplaceLoss(Fraction(5), 1, 1), 1)]
    nodes = contour_nodes(gaussians, laplaces, Fraction(1), n_points)
    assert not isinstance(nodes, str)
    part = laplace_part(laplaces, nodes.places, n_points)
    s = tau + 2j * np.pi * nodes.places / n_points
    one, other = 1 - np.exp(-s), 1 - np.exp(-s - STEP)
    factors = {FIRST: [1 / one], SECOND: [1 / other], DELTA: [1 / (one * other), np.exp(-s) / (one * other)]}
    twice = np.where(nodes.places == 0, 1.0, 2.0)
    for left_out in (0.0, 0.01):
        contour = contour_at(kind, (tau, further), STEP, replace(nodes, left_out=left_out), part)
        roundings = twice * nodes.sizes * (nodes.error_bases + abs(tau) * nodes.error_rates)
        wanted = [
            UNIT * 1.002 / n_points * (roundings @ abs(factor)) + left_out * abs(factor[0])
            for factor in factors[kind]
        ]
        assert contour.errors.tolist() == pytest.approx(wanted, rel=1e-9, abs=0)
    for found, at in ((contour.log_moment, tau), (contour.log_further, further)):
        exact = 0.0
        for row, (factor, weight) in enumerate(laplaces):
            values = weight * np.arange(factor.sensitivity + 1)
            masses = np.exp(part.log_masses[row, : values.size])
            exact += factor.multiplicity * math.log(masses @ np.exp(at * values))
        assert found == pytest.approx(exact)
