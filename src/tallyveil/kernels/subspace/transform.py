"""Discrete Fourier transforms of a power-of-two length, with a bound on their rounding errors.

Problem: convolutions of sequences of T numbers, modulo T. Their computed values must not depend on the machine, and
their errors must have a proved bound.

Step: `forward` turns a sequence into its transform, in bit-reversed order. `backward` takes this order and gives the
sequence back, times T. Each of the log2 T stages adds and subtracts two numbers and multiplies by a root of unity. Only
IEEE additions and multiplications are used, in a fixed order.

Bound: let u = 2**-53. Each output is a sum over the inputs, each times a product of roots. A stage multiplies the error
factor of every term by at most 1 + 6 u: the complex multiplication has 2.83 u (Higham 2002, Lemma 3.5), the root 2 u,
the addition u. So an output is off by at most 6 log2(T) u (1 + 1e-9) times the sum of the inputs' absolute values.

Worked case: T = 2 has one stage: (a, b) becomes (a + b, a - b), which is its own inverse up to the factor 2.
"""

from typing import NamedTuple

from tallyveil.arrays import Floats, Integers
from tallyveil.kernels.compiled import internal


class Roots(NamedTuple):
    """What a transform of length T needs.

    Attributes:
        cosines, sines: [T], at half + j the root exp(-2 pi i j / (2 half)), for each power of two `half` below T.
        mirror: int64 [T], for each place in bit-reversed order the place of the opposite frequency.
    """

    cosines: Floats
    sines: Floats
    mirror: Integers


@internal
def forward(real: Floats, imaginary: Floats, roots: Roots) -> None:
    """The transform of complex numbers, in place and in bit-reversed order."""
    # Decimation in frequency: the order of output is bit-reversed and is left so, as products do not care.
    half = real.size // 2
    while half >= 1:
        # One fixed order of operations; a library's transform would choose its own for each machine.
        for start in range(0, real.size, 2 * half):
            for j in range(half):
                a, b = start + j, start + j + half
                # Sum and difference first, then the root: the bound of 6 u for each stage counts these three
                # operations.
                x, y = real[a] - real[b], imaginary[a] - imaginary[b]
                real[a] += real[b]
                imaginary[a] += imaginary[b]
                real[b] = x * roots.cosines[half + j] - y * roots.sines[half + j]
                imaginary[b] = x * roots.sines[half + j] + y * roots.cosines[half + j]
        half //= 2


@internal
def backward(real: Floats, imaginary: Floats, roots: Roots) -> None:
    """The inverse of `forward`, times T, in place."""
    # The same stages backwards with conjugate roots: the input is in the order that `forward` leaves.
    half = 1
    while half < real.size:
        for start in range(0, real.size, 2 * half):
            for j in range(half):
                a, b = start + j, start + j + half
                # The difference of signs against `forward` is the conjugate.
                x = real[b] * roots.cosines[half + j] + imaginary[b] * roots.sines[half + j]
                y = imaginary[b] * roots.cosines[half + j] - real[b] * roots.sines[half + j]
                real[b] = real[a] - x
                imaginary[b] = imaginary[a] - y
                real[a] += x
                imaginary[a] += y
        half *= 2


@internal
def product_of_transforms(
    sequences: Floats, constants: Floats, roots: Roots, real: Floats, imaginary: Floats, spare: Floats
) -> None:
    """Convolutions of real sequences: row k becomes the convolution of the rows from k on, modulo T.

    Args:
        sequences: [n, T]; n is even.
        constants: [n], T times a number that is added to every place of the sequence. It changes frequency 0 alone.
        roots: For the length T.
        real: [n, T], gets the convolutions.
        imaginary: [n, T], scratch.
        spare: [2, T], scratch.
    """
    # Time: n transforms of length T log T, instead of n products of T^2.
    n, length = sequences.shape
    for k in range(0, n, 2):
        # Two real sequences in one complex transform: the parts are told apart by their symmetry.
        spare[0, :] = sequences[k]
        spare[1, :] = sequences[k + 1]
        # The transform of a real sequence is symmetric under f -> -f, so the even and the odd part of the complex
        # one are the two sequences'.
        forward(spare[0], spare[1], roots)
        for j in range(length):
            # The place of -f in bit-reversed order, from a table: frequencies 0 and T / 2 are their own mirrors.
            i = roots.mirror[j]
            real[k, j] = 0.5 * (spare[0, j] + spare[0, i])
            imaginary[k, j] = 0.5 * (spare[1, j] - spare[1, i])
            real[k + 1, j] = 0.5 * (spare[1, j] + spare[1, i])
            imaginary[k + 1, j] = 0.5 * (spare[0, i] - spare[0, j])
        # A constant sequence has no frequency but 0; bit reversal leaves 0 in its place.
        real[k, 0] += constants[k]
        real[k + 1, 0] += constants[k + 1]
    # From the last sequence on, each product takes the one after it as it is by then: convolutions of all tails for
    # n products.
    for k in range(n - 2, -1, -1):
        for j in range(length):
            x = real[k, j] * real[k + 1, j] - imaginary[k, j] * imaginary[k + 1, j]
            imaginary[k, j] = real[k, j] * imaginary[k + 1, j] + imaginary[k, j] * real[k + 1, j]
            real[k, j] = x
    # A power of two: dividing by it is exact, and adds nothing to the bound.
    unit = 1.0 / length
    # The way back of two at a time: a + i b, of which the real part is the first convolution and the imaginary part
    # the second.
    for k in range(0, n, 2):
        for j in range(length):
            spare[0, j] = real[k, j] - imaginary[k + 1, j]
            spare[1, j] = imaginary[k, j] + real[k + 1, j]
        backward(spare[0], spare[1], roots)
        for j in range(length):
            real[k, j] = spare[0, j] * unit
            real[k + 1, j] = spare[1, j] * unit
