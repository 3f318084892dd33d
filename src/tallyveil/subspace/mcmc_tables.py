"""Tables that chains compare random bits with: slacks, jump laws, and the integer form of a law.

The approximations made here have bounds: `ChainTarget.rounding` is a total variation that occurs once, and
`update_error` is one for every drawn slack. Both are part of the guarantee (`tallyveil.subspace.diagnostics`).
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from flint import arb

from tallyveil.errors import SolverError
from tallyveil.kernels.subspace.chain import ABSOLUTE, ROOT, SQUARES
from tallyveil.noise.balls import certified_floor, precision, rational
from tallyveil.subspace.mechanisms import LatticeLaw

DIGIT: Final = 256
"""Base of the digits of a slack, and so the thresholds of one digit. `update_error` grows in proportion to it."""
_WORD: Final = 1 << 64
"""One more than the largest random word: probabilities are compared in units of 2**-64."""
_CUT_BITS: Final = 80
"""The probability beyond the largest slack, and that beyond the largest size, is below 2**-80."""
_MANTISSA: Final = 52
"""The l2 norm times `scale` stays below 2**52, where floats hold every integer and its halves exactly."""
_GREATEST_BITS: Final = 40
"""Bits of the largest size of a chain. Wider noise is refused."""
_JUMP_POINTS: Final = 1 << 32
"""Jump probabilities are whole multiples of 2**-32. The rest goes to no jump, so that they add up exactly."""
_JUMP_CUT: Final = 30.0
"""Jumps beyond 30 widths are left out: e**-30 is less than 2**-32, so their weight would round down to zero."""
_PRECISION: Final = 256
"""Bits of ball arithmetic for thresholds of 64 bits."""
_CERTAIN: Final = 50
"""Nats: e**-50 is below 2**-64, so that beyond them the threshold is 2**64 - 1 without any evaluation."""


@dataclass(frozen=True, slots=True, eq=False)
class ChainTarget:
    """A law on a lattice in integer form: weight exp(-rate * F(z)), and zero if the size exceeds `limit`.

    Attributes:
        kind: How F depends on z (`tallyveil.kernels.subspace.chain`).
        scale: A power of two. The l2 norm is counted in units of 1 / scale.
        rate: The law's rate divided by `scale`; exact.
        limit: Largest size (sum of absolute values or of squares) that a chain may reach.
        thresholds: uint64 [digits, 256], 2**64 times the distribution function of each digit of the slack.
        guide: int64 [digits, 256], where to start the search for each value of the top 8 bits.
        rounding: Upper bound on the total variation between this law and the wanted one.
        update_error: Upper bound on the total variation between a drawn slack and an exact one.
    """

    kind: int
    scale: float
    rate: Fraction
    limit: int
    thresholds: npt.NDArray[np.uint64]
    guide: npt.NDArray[np.int64]
    rounding: float
    update_error: float


def chain_target(law: LatticeLaw, n_cells: int, column_square: int) -> ChainTarget:
    """The integer form of a law.

    For the l1 Laplace and the Gaussian law, it is exact except for sizes with probability below 2**-80. The l2 Laplace
    law has F = floor(scale * sqrt(size)), which is at most two units from scale * |z|. Its weights are therefore
    correct up to a factor exp(2 rate), and the total variation between the laws is at most 2 rate.

    Args:
        law: The law that the chains should follow.
        n_cells: Number of cells of the table.
        column_square: Largest squared length of a column that the chains move along.
    Raises:
        SolverError: the noise is so wide, or the columns are so long, that sums would not fit into 64 bits.
    """
    limit = greatest_size(law, n_cells)
    scale = 1.0
    if law.takes_root:
        scale = math.ldexp(1.0, _MANTISSA - math.isqrt(limit).bit_length())
    fits = limit.bit_length() <= _GREATEST_BITS and 2 * (column_square + 1) * limit < 1 << 62
    if not fits or scale < 1:
        raise SolverError(
            f"Chain on {n_cells} cells under {law}: absolute values up to 2**{limit.bit_length()} along columns of "
            f"squared length {column_square} may overflow 64 bits. Use an exact sampler, a reduced basis, or less "
            "noise.",
            code="subspace-chain-range",
        )
    rate = law.rate / Fraction(scale)
    thresholds = slack_thresholds(rate)
    return ChainTarget(
        kind=ROOT if law.takes_root else SQUARES if law.squares else ABSOLUTE,
        scale=scale,
        rate=rate,
        limit=limit,
        thresholds=_frozen(thresholds),
        guide=_frozen(_guide(thresholds)),
        rounding=2.0**-_CUT_BITS + (2 * float(rate) if law.takes_root else 0.0),
        # Each of the 255 thresholds of a digit is off by less than 2**-64; 2**-64 of mass for each covers this.
        update_error=thresholds.shape[0] * DIGIT * 2.0**-64 + 2.0**-_CUT_BITS,
    )


def greatest_size(law: LatticeLaw, n_cells: int) -> int:
    """A size that the law exceeds with probability below 2**-80, on any lattice.

    P(F > f) <= exp(-rate f / 2) x (sum over the lattice of exp(-rate F / 2)). This sum is at most the sum over all
    integer vectors, which is a product over cells (for the l2 norm because |z|_2 >= |z|_1 / sqrt(n_cells)).
    """
    rate = float(law.rate)
    cut = _CUT_BITS * math.log(2)
    if law.squares and not law.takes_root:
        cells = n_cells * math.log1p(math.sqrt(2 * math.pi / rate))
        return math.ceil(1.01 * 2 * (cells + cut) / rate) + 1
    quarter = rate / 4 / (math.sqrt(n_cells) if law.takes_root else 1.0)
    cells = n_cells * -math.log(math.tanh(quarter))
    radius = math.ceil(1.01 * 2 * (cells + cut) / rate) + 1
    return radius * radius if law.takes_root else radius


def slack_thresholds(rate: Fraction) -> npt.NDArray[np.uint64]:
    """floor(2**64 P(digit <= d)) for each base-256 digit of G, where P(G >= g) = exp(-rate g).

    The digits of a geometric number are independent. Digit i has P(d) proportional to exp(-rate 256**i d). The omitted
    digits are zero except with probability below 2**-80.

    Returns:
        uint64 [digits, 256]. The last entry of each row is never used.
    """
    rows = []
    step = rate
    while True:
        rows.append(_digit_thresholds(step))
        step *= DIGIT
        # 7/10 is above ln 2: the next digit would be above zero with probability below 2**-80.
        if step > _CUT_BITS * Fraction(7, 10):
            return np.array(rows, dtype=np.uint64)


def _digit_thresholds(step: Fraction) -> list[int]:
    thresholds = []
    with precision(_PRECISION):
        whole = -(rational(-step * DIGIT).expm1())
        for digit in range(1, DIGIT):
            if step * digit > _CERTAIN:
                thresholds.append(_WORD - 1)  # 1, less an amount below 2**-64 that the balls cannot see
                continue
            floor = certified_floor(-(rational(-step * digit).expm1()) / whole * arb(_WORD))
            if floor is None:
                raise SolverError(
                    f"Slack variable of rate {step}: a threshold could not be certified. Please report the "
                    "parameters of the noise."
                )
            thresholds.append(floor)
    return [*thresholds, _WORD - 1]


def _guide(thresholds: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    # The least word with each value of its top 8 bits; the search goes upwards from there.
    tops = np.arange(DIGIT, dtype=np.uint64) << np.uint64(56)
    return np.array([np.searchsorted(row[:-1], tops, side="right") for row in thresholds], dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class JumpLaws:
    """Double-geometric jumps, P(e) proportional to exp(-|e| / scale), rounded to 2**32 points and exactly symmetric.

    A chain's stationary law does not depend on its jumps as long as they are symmetric, so rounding them costs nothing.

    Attributes:
        masses: uint32 [laws, reach + 1], points at 0, 1, ...; a negative jump has as many as the opposite positive one.
        totals: uint64 [laws, reach + 1], points at 1..e together. The last is half of the points that are not at 0.
        finders: int64 [laws, 256], the least e whose total exceeds b * 2**23, where the search starts.
    """

    masses: npt.NDArray[np.uint32]
    totals: npt.NDArray[np.uint64]
    finders: npt.NDArray[np.int64]


def jump_laws(scales: npt.ArrayLike) -> JumpLaws:
    """Tables of double-geometric laws.

    Args:
        scales: float [laws]; the paper's parameter is a = exp(-1 / scale).
    Raises:
        SolverError: a scale is outside 0.05 to 1e5.
    """
    widths: npt.NDArray[Any] = np.asarray(scales, dtype=np.float64)
    if not widths.size or not np.all((widths >= 0.05) & (widths <= 1e5)):
        raise SolverError(
            "Jump laws: scales must lie between 0.05 and 1e5. Use tune_jumps, or give other scales."
        )
    reach = max(1, math.ceil(_JUMP_CUT * float(widths.max())))
    sizes = np.arange(1, reach + 1)
    masses = np.zeros((widths.size, reach + 1), dtype=np.uint32)
    for row, width in zip(masses, widths.tolist(), strict=True):
        a = math.exp(-1 / width)
        row[1:] = np.floor((1 - a) / (1 + a) * np.exp(-sizes / width) * _JUMP_POINTS)
        # What rounding down took off both sides goes to no jump: symmetric, and 2**32 points in all.
        row[0] = _JUMP_POINTS - 2 * int(row[1:].sum(dtype=np.uint64))
    totals = np.concatenate(
        [np.zeros((widths.size, 1), np.uint64), np.cumsum(masses[:, 1:], axis=1, dtype=np.uint64)], axis=1
    )
    tops = np.arange(DIGIT, dtype=np.uint64) << np.uint64(23)
    finders = np.array([np.searchsorted(row, tops, side="right") for row in totals], dtype=np.int64)
    return JumpLaws(_frozen(masses), _frozen(totals), _frozen(finders))


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.flags.writeable = False
    return array
