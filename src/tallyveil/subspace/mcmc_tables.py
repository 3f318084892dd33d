"""Tables that the chains compare random bits with: slacks, jump laws, and the whole-number form of a law.

What is approximated here is bounded here: `ChainTarget.rounding` is a total variation paid once, `update_error`
one paid for every draw of a slack. Both go into the guarantee (`tallyveil.subspace.diagnostics`).
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
_WORD: Final = 1 << 64
_CUT_BITS: Final = 80
"""What lies beyond the greatest slack, and beyond the greatest size, has probability below 2**-80."""
_MANTISSA: Final = 52
_GREATEST_BITS: Final = 40
_JUMP_POINTS: Final = 1 << 32
_JUMP_CUT: Final = 30.0
_PRECISION: Final = 256
_CERTAIN: Final = 50


@dataclass(frozen=True, slots=True, eq=False)
class ChainTarget:
    """A law on a lattice in whole numbers: weight exp(-rate * F(z)), zero where the size passes `limit`.

    Attributes:
        kind: How F follows from z (`tallyveil.kernels.subspace.chain`).
        scale: A power of two; the l2 norm is counted in units of 1 / scale.
        rate: Exact; that of the law, divided by `scale`.
        limit: Greatest size (sum of absolute values or of squares) a chain may reach.
        thresholds: uint64 [digits, 256], 2**64 times the distribution function of each digit of the slack.
        guide: int64 [digits, 256], where to start looking for each value of the top 8 bits.
        rounding: Total variation between this law and the one asked for, at most.
        update_error: Total variation between a slack drawn and an exact one, at most.
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
    """The whole-number form of a law.

    The l1 Laplace and the Gaussian are taken exactly but for sizes of probability below 2**-80. The l2 Laplace has
    F = floor(scale * sqrt(size)), at most two units from scale * |z|, so that weights are right to a factor
    exp(2 rate) either way and the laws differ by at most 2 rate in total variation.

    Args:
        law: What the chains should follow.
        n_cells: Cells of the table.
        column_square: Greatest squared length of a column the chains move along.
    Raises:
        SolverError: noise so wide, or columns so long, that sums would not fit 64 bits.
    """
    limit = greatest_size(law, n_cells)
    scale = 1.0
    if law.takes_root:
        scale = math.ldexp(1.0, _MANTISSA - math.isqrt(limit).bit_length())
    fits = limit.bit_length() <= _GREATEST_BITS and 2 * (column_square + 1) * limit < 1 << 62
    if not fits or scale < 1:
        raise SolverError(
            f"Chain on {n_cells} cells under {law}: sizes up to 2**{limit.bit_length()} along columns of squared "
            f"length {column_square} may overflow 64 bits. Use an exact sampler, a reduced basis, or less noise.",
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
        # Each of 255 thresholds a digit is less than 2**-64 off, which moves half of that twice.
        update_error=thresholds.shape[0] * DIGIT * 2.0**-64 + 2.0**-_CUT_BITS,
    )


def greatest_size(law: LatticeLaw, n_cells: int) -> int:
    """A size that the law passes with probability below 2**-80, whatever the lattice.

    P(F > f) <= exp(-rate f / 2) sum over the lattice of exp(-rate F / 2), and the sum is at most that over all
    integer vectors, a product over cells (for the l2 norm after |z|_2 >= |z|_1 / sqrt(n_cells)).
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
    """floor(2**64 P(digit <= d)) of each base-256 digit of G with P(G >= g) = exp(-rate g).

    The digits of a geometric number are independent, digit i with P(d) proportional to exp(-rate 256**i d); those
    left out are zero but with probability below 2**-80.

    Returns:
        uint64 [digits, 256]; the last of each row is never looked at.
    """
    rows = []
    step = rate
    while True:
        rows.append(_digit_thresholds(step))
        step *= DIGIT
        if step > _CUT_BITS * Fraction(7, 10):
            return np.array(rows, dtype=np.uint64)


def _digit_thresholds(step: Fraction) -> list[int]:
    found = []
    with precision(_PRECISION):
        whole = -(rational(-step * DIGIT).expm1())
        for digit in range(1, DIGIT):
            if step * digit > _CERTAIN:
                found.append(_WORD - 1)  # short of one by less than 2**-64, too little for the balls to see
                continue
            floor = certified_floor(-(rational(-step * digit).expm1()) / whole * arb(_WORD))
            if floor is None:
                raise SolverError(f"Slack of rate {step}: a threshold is not certain. Please report the law.")
            found.append(floor)
    return [*found, _WORD - 1]


def _guide(thresholds: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    tops = np.arange(DIGIT, dtype=np.uint64) << np.uint64(56)
    return np.array([np.searchsorted(row[:-1], tops, side="right") for row in thresholds], dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class JumpLaws:
    """Double-geometric jumps P(e) proportional to exp(-|e| / scale), rounded to 2**32 points, symmetric exactly.

    A chain's law does not depend on its jumps as long as they are symmetric, so rounding them costs nothing.

    Attributes:
        masses: uint32 [laws, reach + 1], points at 0, 1, ...; a negative jump has those of its opposite.
        totals: uint64 [laws, reach + 1], points at 1..e together; the last is what is not at 0, halved.
        finders: int64 [laws, 256], the least e whose total passes b * 2**23: where to look from.
    """

    masses: npt.NDArray[np.uint32]
    totals: npt.NDArray[np.uint64]
    finders: npt.NDArray[np.int64]


def jump_laws(scales: npt.ArrayLike) -> JumpLaws:
    """Tables of double-geometric laws.

    Args:
        scales: float [laws], jumps; the paper's parameter is a = exp(-1 / scale).
    Raises:
        SolverError: a scale outside 0.05 to 1e5.
    """
    widths: npt.NDArray[Any] = np.asarray(scales, dtype=np.float64)
    if not widths.size or not np.all((widths >= 0.05) & (widths <= 1e5)):
        raise SolverError("Jump laws: scales must lie in 0.05 to 1e5. Tune the jumps, or state others.")
    reach = max(1, math.ceil(_JUMP_CUT * float(widths.max())))
    sizes = np.arange(1, reach + 1)
    masses = np.zeros((widths.size, reach + 1), dtype=np.uint32)
    for row, width in zip(masses, widths.tolist(), strict=True):
        a = math.exp(-1 / width)
        row[1:] = np.floor((1 - a) / (1 + a) * np.exp(-sizes / width) * _JUMP_POINTS)
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
