"""Draws have the law they claim: 10**8 of them against certified probabilities.

Keys are fixed, so every p-value is a constant of the code. Size: a right sampler fails a key with probability
1e-6. Power: 10**8 draws reject a variance that is off by one per cent with certainty for all purposes.
"""

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import chi2
from tests.samples import few

from tallyveil.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Law,
    NoiseSource,
    insecure_key,
)
from tallyveil.noise.table import InversionTable

N_DRAWS = 10**8
AT_ONCE = 4 * 10**6

LAWS: list[Law] = [
    DiscreteGaussian(Fraction(5)),
    DiscreteGaussian(Fraction("68.49")),
    DiscreteGaussian(Fraction("456.62")),
    DiscreteGaussian(Fraction(10**4)),
    DiscreteLaplace(Fraction("7.3")),
]


def histogram(noise: NoiseSource, law: Law, n_draws: int, reach: int) -> npt.NDArray[np.int64]:
    """Draws at each of -reach..reach; the ends hold everything beyond."""
    counts = np.zeros(2 * reach + 1, dtype=np.int64)
    width = 2000
    out = np.empty((AT_ONCE // width, width), dtype=np.int32)
    for first in range(0, n_draws // width, out.shape[0]):
        noise.dense(law, 0, 0, range(first, first + out.shape[0]), width, out)
        np.clip(out, -reach, reach, out=out)
        out += reach
        counts += np.bincount(out.reshape(-1), minlength=counts.size)
    assert counts.sum() == n_draws
    return counts


def chi_square_p(law: Law, counts: npt.NDArray[np.int64], reach: int) -> float:
    """p-value of counts at -reach..reach (ends: and beyond) under the certified probabilities of `law`."""
    expected = np.array([law.probability(x) for x in range(-reach, reach + 1)])
    expected[[0, -1]] = float(law.cdf(-reach))
    assert expected.sum() == pytest.approx(1, abs=1e-12)
    expected *= counts.sum()
    assert expected.min() > 10
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return float(chi2.sf(statistic, counts.size - 1))


def reach_of(law: Law, n_draws: int) -> int:
    """As far out as enough draws are expected at every single outcome, and beyond on each side."""
    return law.margin(1 - Fraction(200 + 20 * int(law.standard_deviation()), n_draws))


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_hundred_million_draws_fit(law: Law) -> None:
    reach = reach_of(law, N_DRAWS)
    counts = histogram(NoiseSource(insecure_key(f"fit {law}")), law, N_DRAWS, reach)
    assert 1e-6 < chi_square_p(law, counts, reach) < 1 - 1e-6


@pytest.mark.parametrize(
    ("claimed", "drawn"),
    few(
        1,
        [
            (DiscreteGaussian(Fraction("68.49")), DiscreteGaussian(Fraction("68.49") * Fraction(101, 100))),
            (DiscreteGaussian(Fraction("68.49")), DiscreteGaussian(Fraction("68.49") * Fraction(99, 100))),
            (DiscreteLaplace(Fraction("7.3")), DiscreteLaplace(Fraction("7.3") * Fraction(201, 200))),
        ],
    ),
    ids=str,
)
def test_variance_off_by_one_per_cent_is_rejected(claimed: Law, drawn: Law) -> None:
    assert drawn.variance_float() / claimed.variance_float() == pytest.approx(1, abs=0.011)
    reach = reach_of(claimed, N_DRAWS)
    counts = histogram(NoiseSource(insecure_key("off")), drawn, N_DRAWS, reach)
    assert chi_square_p(claimed, counts, reach) < 1e-100


@pytest.mark.parametrize(
    "law",
    [
        DiscreteGaussian(Fraction(1, 10)),
        DiscreteGaussian(Fraction("456.62")),
        DiscreteLaplace(Fraction(1, 2)),
    ],
    ids=str,
)
def test_scattered_draws_fit(law: Law) -> None:
    n_draws = 4 * 10**6
    reach = reach_of(law, n_draws)
    geounits = np.arange(n_draws) * 16381 % (1 << 36)
    answers = np.arange(n_draws) * 7 % 2016
    drawn = NoiseSource(insecure_key(f"scattered {law}")).at(law, 6, 3, geounits, answers)
    counts = np.bincount(np.clip(drawn, -reach, reach) + reach, minlength=2 * reach + 1)
    assert 1e-6 < chi_square_p(law, counts, reach) < 1 - 1e-6


def test_ball_arithmetic_draws_fit() -> None:
    # Without a second step, one draw in ninety is decided in ball arithmetic.
    law = DiscreteGaussian(Fraction(10**4))
    noise = NoiseSource(insecure_key("balls"))
    noise._tables[law] = InversionTable.build(law, direct_bits=12, word_bits=0)
    n_draws = AT_ONCE
    reach = reach_of(law, n_draws)
    counts = histogram(noise, law, n_draws, reach)
    assert 1e-6 < chi_square_p(law, counts, reach) < 1 - 1e-6


def test_refined_draws_alone_fit() -> None:
    # The few draws that need refinement would drown in a test of all draws: test them by themselves. Given
    # that the first 16 digits fall into a cell with a boundary, the outcome splits as the boundary does.
    law = DiscreteGaussian(Fraction("68.49"))
    noise = NoiseSource(insecure_key("refined"))
    table = InversionTable.build(law)
    shallow = InversionTable.build(law, word_bits=0)
    boundaries = {j: law.floor_bits(j, 48) for j in range(-30, 30)}
    cells = {digits >> 32: (j, (digits & (1 << 32) - 1) / 2**32) for j, digits in boundaries.items()}
    assert len(cells) == len(boundaries)
    resolved: list[tuple[int, int]] = []

    class Recording:
        """The shallow table, noting the cell and outcome of every draw it leaves open."""

        def __getattr__(self, name: str) -> object:
            return getattr(shallow, name)

        def resolve(self, cell: int, words: object) -> int:
            outcome = table.resolve(cell, words)
            resolved.append((cell, outcome))
            return outcome

    noise._tables[law] = Recording()
    noise.dense(law, 0, 0, range(4000), 2000)
    statistic, n_cells = 0.0, 0
    for cell, (j, share) in cells.items():
        outcomes = np.array([outcome for hit, outcome in resolved if hit == cell])
        below = np.count_nonzero(outcomes == j)
        assert np.isin(outcomes, (j, j + 1)).all()
        variance = outcomes.size * share * (1 - share)
        if variance > 10:
            statistic += (below - outcomes.size * share) ** 2 / variance
            n_cells += 1
    assert n_cells > 40
    assert 1e-6 < chi2.sf(statistic, n_cells) < 1 - 1e-6
