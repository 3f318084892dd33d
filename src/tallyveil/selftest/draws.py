"""Known answers of the noise: draws at addresses, under a key that everybody knows.

The tests of the project compute such draws a second time, in plain decimal arithmetic that shares no code with the
package.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from tallyveil.noise import DiscreteGaussian, DiscreteLaplace, Law, NoiseSource
from tallyveil.selftest.answers import KnownAnswer, digest, equal

KEY: Final = bytes(range(32))
"""A key that everybody knows, so that everybody can draw the same numbers."""
GAUSSIAN: Final = DiscreteGaussian(Fraction("68.49"))
FIRST: Final = (
    (GAUSSIAN, "1 5 -5 7 14 -2 -7 0 5 0 -12 -10"),
    (DiscreteLaplace(Fraction("7.3")), "1 4 -4 7 17 -1 -7 0 4 0 -15 -11"),
)
"""The first twelve draws of the root's first query."""
LAST: Final = "-3 1 7 -5 3 -8 11 -19 2 8 5 -3"
"""The first twelve draws of the last geounit of the last query of the last geolevel that an address can name."""
MANY: Final = (
    (DiscreteGaussian(Fraction(1, 10)), "bab2320786a95a2f49990d6684efcb21"),
    (GAUSSIAN, "c613890fafd399affc46c3aa562dd26e"),
    (DiscreteGaussian(Fraction(10**4)), "5754b5f03c7bd7aef14b367608a45d1d"),
    (DiscreteLaplace(Fraction("7.3")), "2c79e6410282c6770ca356087ed5d300"),
)
"""Digests of 201,600 draws of each law."""
SOURCE: Final = "this project, noise law 1"


def noise_answers() -> Iterator[KnownAnswer]:
    """Draws of the discrete Gaussian and the discrete Laplace law."""
    noise = NoiseSource(KEY)

    def first_draws(law: Law, geolevel: int, query: int, geounit: int) -> str:
        return " ".join(map(str, noise.dense(law, geolevel, query, [geounit], 12)[0].tolist()))

    for law, wanted in FIRST:
        yield equal("noise", f"{_words(law)}, first draws", SOURCE, wanted, first_draws(law, 0, 0, 0))
    last = first_draws(GAUSSIAN, 255, 65535, (1 << 36) - 1)
    yield equal("noise", f"{_words(GAUSSIAN)}, last address", SOURCE, LAST, last)
    for law, wanted in MANY:
        drawn = noise.dense(law, 2, 9, range(100), 2016)
        yield equal(
            "noise", f"{_words(law)}, 201,600 draws", SOURCE, wanted, digest(drawn.astype("<i8").tobytes())
        )


def _words(law: Law) -> str:
    if isinstance(law, DiscreteGaussian):
        return f"discrete Gaussian of variance {law.variance}"
    return f"discrete Laplace of scale {law.scale}"
