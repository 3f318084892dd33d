"""One contour of the quadrature: what the trapezoid rule sums there, for all lattice points near the saddle.

Key: Z = sum of a S over the factors, s = tau + i theta, theta_j = 2 pi j / N; h lattice step; f gap between epsilon and
the first loss; z the first lattice point of a sum.

Each sum is in units of exp(V tau^2 / 2 - tau z) M_L(tau) / C (and exp(-W - h z) for `SECOND`), V the Gaussian part's
variance, M_L the transform of the Laplace part, C the product of the theta constants. Delta is a combination of two
sums, whose coefficients 1 - exp(-f) and exp(-f) (1 - exp(f - h)) depend on the gap.

Error bounds hold where exp, expm1, log, log1p, sin and cos of the platform are right to 16 units in the last place.
Every formula and bound is derived in docs/proofs/quadrature.md.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from tallyveil.accounting.engines.gaussian_sums import UNIT
from tallyveil.accounting.engines.loss_transform import power_of
from tallyveil.accounting.engines.quadrature_nodes import ContourNodes, LaplacePart
from tallyveil.arrays import Complexes, Floats, Integers

# What the rule sums: P(Z >= z). The three numbers are part of the key under which contours are kept.
FIRST: Final = 0
# Q(Z >= z): the same transform, its pole moved by the lattice step.
SECOND: Final = 1
# delta, from two sums whose coefficients depend on epsilon alone, so that one contour serves many epsilons.
DELTA: Final = 2

_EXACT_PRODUCTS: Final = 1 << 26  # below it, a node's place times z modulo N is an exact float


@dataclass(frozen=True, slots=True)
class LatticeContour:
    """The rule on one contour.

    Attributes:
        tau: Shift of the contour; above 0, or above -h for SECOND.
        log_moment: Sum of m ln E exp(tau a S) over the Laplace factors.
        log_further: The same sum for a larger tau.
        n_points: N.
        places: j of the nodes.
        terms: What each sum adds up but for the phase exp(-i theta z), [sums, nodes]: one for FIRST and SECOND, and two
            for DELTA.
        errors: Bounds on the errors of the sums by rounding and by nodes left out, [sums].
    """

    tau: float
    log_moment: float
    log_further: float
    n_points: int
    places: Integers
    terms: Complexes
    errors: Floats

    def sums_at(self, residues: Integers) -> Floats:
        """The rule for many z, [sums, z].

        Args:
            residues: z modulo N, [z].
        """
        # Place and residue are below 2^26, their product below 2^52: floats hold it exactly, and are faster than an
        # integer remainder.
        if self.n_points < _EXACT_PRODUCTS:  # then all of this is exact in floats
            products = np.multiply.outer(self.places.astype(np.float64), residues.astype(np.float64))
            turns = products - np.rint(products * (1 / self.n_points)) * self.n_points
        else:
            angles = np.multiply.outer(self.places, residues) % self.n_points
            # To half a turn on either side, so that the cosine's argument has the smallest rounding.
            turns = np.where(2 * angles > self.n_points, angles - self.n_points, angles)
        turns = (2 * math.pi / self.n_points) * turns
        # The nodes come in conjugate pairs: a real sum of cosines and sines is the whole rule, at half the work.
        sums: Floats = self.terms.real @ np.cos(turns) + self.terms.imag @ np.sin(turns)
        return sums


def contour_at(
    kind: int, taus: tuple[float, float], step: float, nodes: ContourNodes, laplace: LaplacePart
) -> LatticeContour:
    """The rule on one contour.

    Args:
        kind: FIRST (P(Z >= z)), SECOND (Q(Z >= z)) or DELTA.
        taus: Shift of the contour, and a larger one, at which the Laplace part's transform is wanted too.
        step: h.
        nodes: The nodes kept.
        laplace: The Laplace factors there.
    """
    tau, further = taus
    masses, log_moments, _, _ = laplace.tilted(tau)
    term = _transform(tau, nodes, laplace, masses)
    # Each node but 0 stands for its mirror image too; its errors double with it.
    term[1:] *= 2
    sizes = nodes.sizes * (nodes.error_bases + abs(tau) * nodes.error_rates)
    sizes[1:] *= 2
    # The pole of the sum is at 0 under P and, as exp(-L) is a factor of Q, at minus the lattice step under Q.
    below = [_geometric(shift, nodes) for shift in ((tau + step,) if kind == SECOND else (tau,))]
    # Largest value of 1 / (1 - exp(-s)) on the contour: at theta = 0, where the denominator is smallest.
    largest = -1 / math.expm1(-tau - (step if kind == SECOND else 0.0))
    if kind == DELTA:
        # exp(-s) at tau, from 1 - cos and sin, so that nothing cancels near theta = 0.
        shifted = math.exp(-tau) * (1 - nodes.versines - 1j * nodes.sines)
        divisor = below[0] * _geometric(tau + step, nodes)
        largest *= -1 / math.expm1(-tau - step)
        factors, largests = [1 / divisor, shifted / divisor], [largest, largest * math.exp(-tau)]
    else:
        factors, largests = [1 / below[0]], [largest]
    # Rounding is proportional to each term's size: errors add up in absolute value.
    roundings = np.array([float(sizes @ np.abs(factor)) for factor in factors])
    return LatticeContour(
        tau=tau,
        log_moment=float(laplace.powers @ log_moments),
        log_further=float(laplace.powers @ laplace.tilted(further)[1]),
        n_points=nodes.n_points,
        places=nodes.places,
        terms=np.array([term * factor for factor in factors], dtype=np.complex128) / nodes.n_points,
        # 1.002: the bounds themselves are computed in floats, with roundings of order (number of nodes) UNIT.
        errors=roundings * (UNIT * 1.002 / nodes.n_points)
        + np.array(largests) * ((1 + 1e-12) * nodes.left_out),
    )


def _geometric(tau: float, nodes: ContourNodes) -> Complexes:
    """1 - exp(-tau - i theta) without cancellation, from 1 - cos(theta) and sin(theta)."""
    decay = math.exp(-tau)
    denominators: Complexes = -math.expm1(-tau) + decay * nodes.versines + 1j * (decay * nodes.sines)
    return denominators


def _transform(tau: float, nodes: ContourNodes, laplace: LaplacePart, masses: Floats) -> Complexes:
    """The transform of Z at the nodes, in its unit."""
    values = np.exp(-nodes.decays) * _turned(tau * nodes.phase_rates)
    for image in nodes.images:
        images = 1 + _turned(tau * image.rates) @ image.sizes
        values[image.nodes] *= power_of(images, image.power)
    for law, phases, power in zip(masses, laplace.phases, laplace.powers.tolist(), strict=True):
        values *= power_of(law[: len(phases)] @ phases, power)
    return values


def _turned(angles: Floats) -> Complexes:
    """exp(i angle), of angles reduced to [-pi, pi]."""
    # Reduced to half a turn in units of a turn: exp of a huge imaginary part would lose its digits.
    turns = angles / (2 * math.pi)
    rotation: Complexes = np.exp((2j * math.pi) * (turns - np.rint(turns)))
    return rotation
