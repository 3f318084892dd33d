"""The numbers of docs/proofs/topdown.md follow from its lemma; the cipher's part is seen on a small cipher."""

import math
import re
from fractions import Fraction
from itertools import permutations, product
from pathlib import Path

import pytest

from tallyveil.budget.presets import load_product

PAGE = Path(__file__).parents[2] / "docs" / "proofs" / "topdown.md"
LOG_Q, LOG_TAU = 35, -12
NAMES = {
    "redistricting, persons": "redistricting-persons-us",
    "DHC, persons": "dhc-persons-us",
    "DHC, units": "dhc-units-us",
}


def log2_beta(rho: float, moved: int) -> float:
    log_bad = 2 * math.log2(moved) - 126
    return min(
        (p - 1) * rho / math.log(2) + (1 - 1 / p) * log_bad
        for p in (1 + step / 100 for step in range(1, 2000))
    )


@pytest.mark.parametrize("title", NAMES)
def test_the_table_follows_from_the_lemma(title):
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| {title} |"))
    rho, moved, more_epsilon, log_beta, more_delta = (
        float(text.replace("−", "-")) for text in re.split(r"\s*\|\s*", row)[2:-1]
    )
    product_ = load_product(NAMES[title])
    assert rho == pytest.approx(float(product_.rho), abs=6e-5)
    assert moved == 2 * product_.n_budgets
    found = log2_beta(float(product_.rho), int(moved))
    assert log_beta == pytest.approx(found, abs=0.06)
    eta = 2.0 ** (2 * LOG_Q - 129) + 2.0 ** (LOG_Q + 3 - 128)
    assert eta <= 2.0**LOG_TAU / 4
    added = (1e-10 + (eta + 2.0**found) / 2.0**LOG_TAU) / (1 - eta) - 1e-10
    assert added <= more_delta <= 1.02 * added
    assert 2 * 2.0**LOG_TAU <= more_epsilon <= 1.01 * 2 * 2.0**LOG_TAU


def test_total_variation_alone_would_say_nothing():
    assert math.exp(32) * 2.0**-60 == pytest.approx(7e-5, rel=0.03)
    assert "7e-5" in PAGE.read_text()


def test_a_permutation_is_never_far_below_independent_blocks_at_any_output():
    """Inequality (1) on blocks of three bits, four of them: every output of a coarse map, by complete enumeration."""
    size, asked = 8, 4

    def output(blocks: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(block * 3 // size for block in blocks)

    independent: dict[tuple[int, ...], Fraction] = {}
    equal: dict[tuple[int, ...], Fraction] = {}
    for blocks in product(range(size), repeat=asked):
        y = output(blocks)
        independent[y] = independent.get(y, Fraction(0)) + Fraction(1, size**asked)
        if len(set(blocks)) < asked:
            equal[y] = equal.get(y, Fraction(0)) + Fraction(1, size**asked)
    permuted: dict[tuple[int, ...], Fraction] = {}
    for blocks in permutations(range(size), asked):
        y = output(blocks)
        permuted[y] = permuted.get(y, Fraction(0)) + Fraction(1, math.perm(size, asked))
    never_equal = Fraction(math.perm(size, asked), size**asked)
    for y, chance in independent.items():
        c = equal.get(y, Fraction(0)) / chance
        assert permuted.get(y, Fraction(0)) >= chance * (1 - c)
        assert permuted.get(y, Fraction(0)) <= chance / never_equal
