"""Inversion tables: they turn uniform bits into an integer that has exactly the wanted law.

Problem. U is a uniform number in [0, 1) whose binary digits are read as needed. The outcome is the smallest x with
U < P(X <= x). The number P(X <= x) is the boundary of x. Boundaries are stored as certified binary digits, so comparing
digits decides the outcome.

Steps.
1. The first 16 digits of U select one of 65,536 cells. If no boundary lies in the cell, `direct` holds the outcome.
2. Otherwise 64 further digits of the same U are compared with those of the boundaries in the cell.
3. If these digits are equal, or U is within 2**-tail_bits of 0 or 1, further digits are read 64 at a time. They are
   compared with boundaries computed to the same number of digits in ball arithmetic.

Stopping rule. Step 3 ends at the first digits that differ. Given uniform bits the outcome has exactly the law; only the
running time is random. Step 3 is needed with probability about 2**(1 - tail_bits) + 2 n / 2**64, where n is the number
of stored boundaries.

Worked case. Let P(X <= -1) = 1/4 and P(X <= 0) = 3/4, and take cells of two digits. U = 0.0110... lies in the cell 01,
that is [1/4, 1/2), which has no boundary inside. All its points are at least 1/4 and below 3/4, so the outcome is 0.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tallyveil.errors import SolverError
from tallyveil.exact import as_given
from tallyveil.kernels.noise import Boundaries, Direct
from tallyveil.noise.laws import Law

CELL_BITS: Final = 16
"""Digits of the first step: those of one lane of an encrypted block (`noise.address`)."""

WORD_BITS: Final = 64
"""Digits of the second step: one word."""

TAIL_BITS: Final = 40
"""Boundaries within 2^-40 of 0 or 1 are not stored: one draw in 2^39 takes the third step on their account. A larger
number makes tables longer, a smaller one makes the third step more frequent; no outcome depends on it."""

# Cells of the first step, 65,536. With 15 bits a lane would waste one and twice as many draws would be refined;
# more than 16 bits would not fit a lane, and the table would leave the cache.
_N_CELLS: Final = 1 << CELL_BITS


@dataclass(frozen=True, slots=True, eq=False)
class InversionTable:
    """Certified boundaries of one law, arranged for look-up. Make it with `InversionTable.build`.

    Attributes:
        law: The law.
        direct: int16 or int32 [65536]; the outcome of each cell, or `open_mark` if the cell does not decide it.
        open_mark: The smallest number of direct's type.
        starts: int32 [65537]; the boundaries of cell c are starts[c]:starts[c + 1] of `fractions`.
        fractions: uint64, ascending in each cell; a boundary's digits after the first 16, the first digit highest.
        mask: The digits of a 64-bit word that are compared; all 64 by default.
        lowest: Outcome below all stored boundaries. Each boundary that U reaches adds one to the outcome.
        tail_word: In cell 0, words up to this one are undecided; in cell 65,535, words from mask - tail_word up.
    """

    # Equality by identity (eq=False): arrays have no single truth value, and one law has one table in a source.
    law: Law
    direct: npt.NDArray[Any]
    open_mark: int
    starts: npt.NDArray[np.int32]
    fractions: npt.NDArray[np.uint64]
    mask: np.uint64
    lowest: int
    tail_word: np.uint64
    # Results of ball arithmetic for the third step, kept because the same boundaries are met again in a bisection.
    _floors: dict[tuple[int, int], int] = field(default_factory=dict, repr=False)
    _reaches: dict[int, int] = field(default_factory=dict, repr=False)

    @classmethod
    def build(
        cls, law: Law, *, direct_bits: int = CELL_BITS, word_bits: int = WORD_BITS, tail_bits: int = TAIL_BITS
    ) -> "InversionTable":
        """Certify the boundaries of `law` and arrange them.

        This takes about 1 ms for variances up to 1e4, and 10 ms at 1e6. Beyond, it grows with the standard deviation: 1
        to 3 s and 12 to 42 MiB at the largest parameters. A common table takes 0.4 MiB.

        Args:
            law: The law wanted.
            direct_bits: Number of digits that the first step uses, at most 16.
            word_bits: Number of digits that the second step adds, at most 64. Smaller numbers change no outcome. They
                only send more draws to the later steps, which tests need.
            tail_bits: Boundaries within 2**-tail_bits of 0 or 1 are left to the third step.
        """
        # 80 digits for a full table: boundaries whose floor is below 2**(80 - 40) lie in the tails and are not
        # stored.
        bits = CELL_BITS + word_bits
        least = 1 << max(bits - tail_bits, 0)
        # `beyond` is the first floor below the limit; the tail's words, up to it, stay undecided in cell 0.
        *floors, beyond = law.tail_floors(bits, least)
        cells, fractions = _boundaries(floors, WORD_BITS - word_bits)
        direct, starts = _direct(cells, -len(floors), direct_bits)
        # Threads share a table, and nobody may change a certified boundary.
        for array in (direct, starts, fractions):
            array.setflags(write=False)
        return cls(
            law=law,
            direct=direct,
            open_mark=int(np.iinfo(direct.dtype).min),
            starts=starts,
            fractions=fractions,
            # Words keep their place at the top of 64 bits; a shorter word only loses digits from below.
            mask=np.uint64(((1 << word_bits) - 1) << (WORD_BITS - word_bits)),
            lowest=-len(floors),
            tail_word=np.uint64(beyond << (WORD_BITS - word_bits)),
        )

    @property
    def first_part(self) -> Direct:
        """What the first step reads."""
        return Direct(self.direct, self.open_mark)

    @property
    def second_part(self) -> Boundaries:
        """What the second step reads."""
        return Boundaries(self.starts, self.fractions, self.mask, self.lowest, self.tail_word)

    def resolve(self, cell: int, words: Iterator[int]) -> int:
        """Third step: the outcome of U = 0.cell.word.word..., which reads as many words as necessary.

        Args:
            cell: The first 16 digits of U.
            words: The following digits, in groups of 64.
        """
        # Python's integers grow with the digits, so nothing is ever rounded or cut off here.
        prefix, bits = cell, CELL_BITS
        for word in words:
            prefix, bits = prefix << WORD_BITS | word, bits + WORD_BITS
            outcome = self._compare(prefix, bits)
            if outcome is not None:
                return outcome
        raise SolverError(
            f"{as_given(self.law)}: one draw had no outcome after {bits} bits, which has a negligible probability "
            "for random bits. Check that the words come from a cipher."
        )

    def _compare(self, prefix: int, bits: int) -> int | None:
        """The outcome of every U that starts with these digits, or None if they do not decide it."""
        reach = self._reach(bits)
        # P(X <= -reach) is below 2**-bits and P(X <= reach) is above 1 - 2**-bits, so the outcome lies in this
        # range unless all digits are equal.
        low, high = -reach, reach
        # By bisection, as each boundary takes ball arithmetic
        while low < high:
            middle = (low + high) // 2
            boundary = self._floor(middle, bits)
            # U begins with the digits of the boundary, and may lie on either side of it: more digits are needed.
            if prefix == boundary:
                return None
            # Floors differ, so the numbers differ in the same direction, whatever the digits that follow (proof,
            # step I4).
            if prefix < boundary:
                high = middle
            else:
                low = middle + 1
        return low

    def _reach(self, bits: int) -> int:
        """Some x with P(X >= x) < 2**-bits. With this many digits, boundaries beyond look like 0 or 1."""
        reach = self._reaches.get(bits)
        if reach is None:
            reach = 1
            while not self.law.tail_is_below(reach, bits):
                # Doubling costs a logarithm of steps. A reach that is too large only lengthens the bisection by one
                # step.
                reach *= 2
            self._reaches[bits] = reach
        return reach

    def _floor(self, j: int, bits: int) -> int:
        floor = self._floors.get((j, bits))
        if floor is None:
            floor = self._floors[j, bits] = self.law.floor_bits(j, bits)
        return floor


def _boundaries(floors: list[int], shift: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """Cells and fractions of all boundaries, ascending, computed from the lower half in descending order.

    The upper half mirrors the lower one. Its digits are the complement (`IntegerLaw.floor_bits`).
    """
    # 16 bytes hold the 80 digits: the low word is the fraction, the high word the cell. Reversed, since floors of
    # the tails fall with x while the boundaries at -x rise.
    packed = b"".join((floor << shift).to_bytes(16, "little") for floor in reversed(floors))
    words = np.frombuffer(packed, dtype="<u8").astype(np.uint64).reshape(-1, 2)
    used = np.uint64((1 << WORD_BITS) - (1 << shift))
    # ~a is 2**64 - 1 - a, digit by digit; `used` keeps digits that a short table ignores at 0 on both sides.
    fractions = np.concatenate([words[:, 0], (~words[:, 0] & used)[::-1]])
    lower = words[:, 1].astype(np.int64)
    return np.concatenate([lower, (_N_CELLS - 1 - lower)[::-1]]), fractions


def _direct(
    cells: npt.NDArray[np.int64], lowest: int, direct_bits: int
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
    """(direct, starts), computed from the cell of each boundary."""
    # int32 suffices: the largest law has fewer than 2**23 boundaries.
    inside = np.bincount(cells, minlength=_N_CELLS)
    starts = np.zeros(_N_CELLS + 1, dtype=np.int32)
    np.cumsum(inside, out=starts[1:])
    undecided = inside > 0
    # The boundaries of the tails are not stored, so that the outermost cells decide nothing.
    undecided[[0, -1]] = True
    # With fewer direct bits, for tests, neighbouring cells share the verdict; with all 16 this changes nothing.
    coarse = undecided.reshape(1 << direct_bits, -1).any(axis=1)
    undecided = np.repeat(coarse, _N_CELLS >> direct_bits)
    # The smallest number of the type is kept free as the mark: no outcome equals it, since outcomes are symmetric.
    dtype = np.int16 if -lowest < np.iinfo(np.int16).max else np.int32
    # starts[c] boundaries lie below cell c, and each raises the outcome by one.
    direct = (lowest + starts[:-1]).astype(dtype)
    direct[undecided] = np.iinfo(dtype).min
    return direct, starts
