"""SafeTab's Tables 1, 2 and 4 from its formulas, its accounting by every method, and the exact answers.

Parameters (section F.1): seven population group levels, a record in at most s = 9 groups of each, gamma = 0.1
of a group's budget for the first stage. A group of TotalOnly is one count with its whole budget; any other one
is a count with gamma of it, then one of four tables, chosen by that count, with the rest. One record added or
removed moves one cell of each by one.

The base mechanism's parameter follows from the margin of error M: epsilon = ln(20) / (M + 1) for Geometric
noise, rho = 1.92 / M^2 for discrete Gaussian noise (equations 37 and 38); the level's budget is that times
s / (1 - gamma). The paper's text divides by gamma, its tables by 1 - gamma.
"""

import math
from fractions import Fraction

import pytest

from tallyveil.accounting import (
    AdaptiveEvent,
    Conversion,
    DiscreteGaussian,
    DiscreteLaplace,
    Neighbours,
    ParallelEvent,
    PrivacyEvent,
    SequentialEvent,
    alternatives_of,
    compose,
    epsilon_of,
    loss_law_of,
    renyi_divergence,
    renyi_epsilon,
    rho_of,
    zcdp_to_epsilon,
    zcdp_to_epsilon_textbook,
)

DELTA = Fraction(1, 10**10)
GAMMA = Fraction(1, 10)
GROUPS = 9
ADD_REMOVE = Neighbours.UNBOUNDED

MARGINS = (6, 6, 11, 11, 50, 50, 50)
# Tables 1 and 4 as printed: step 2 and total, Geometric (epsilon) and discrete Gaussian (rho).
STEP_2_EPSILON = ("3.84", "3.84", "2.24", "2.24", "0.531", "0.531", "0.531")
TOTAL_EPSILON = ("4.27", "4.27", "2.49", "2.49", "0.59", "0.59", "0.59")
STEP_2_RHO = ("0.481", "0.481", "0.143", "0.143", "0.007", "0.007", "0.007")
TOTAL_RHO = ("0.534", "0.534", "0.159", "0.159", "0.008", "0.008", "0.008")

LN_20 = Fraction("2.995732273553990993435223576142540775676601622989028")
FORMULA_EPSILON = tuple(LN_20 / (margin + 1) * GROUPS / (1 - GAMMA) for margin in MARGINS)
FORMULA_RHO = tuple(Fraction("1.92") / margin**2 * GROUPS / (1 - GAMMA) for margin in MARGINS)


def geometric(budget: Fraction) -> PrivacyEvent:
    return DiscreteLaplace(1 / budget)


def gaussian(budget: Fraction) -> PrivacyEvent:
    return DiscreteGaussian(1 / (2 * budget))


def level(base, budget: Fraction, total_only: bool | None) -> ParallelEvent:
    """One population group level; None: groups of both kinds."""
    share = Fraction(budget) / GROUPS
    tables = AdaptiveEvent((base((1 - GAMMA) * share),) * 4)
    split, total = SequentialEvent((base(GAMMA * share), tables)), base(share)
    kinds = {True: (total,), False: (split,), None: (split, total)}[total_only]
    return ParallelEvent(kinds, degree=GROUPS)


def safetab(base, budgets, total_only=(False,) * 7) -> SequentialEvent:
    return SequentialEvent(
        tuple(level(base, Fraction(b), only) for b, only in zip(budgets, total_only, strict=True))
    )


def last_digit(printed: str) -> Fraction:
    return Fraction(1, 10 ** len(printed.partition(".")[2]))


NONE, ALL = (False,) * 7, (True,) * 7
NATION_AND_STATE = (True, True, *(False,) * 5)


@pytest.mark.parametrize(
    ("formula", "total", "step_2"),
    [(FORMULA_EPSILON, TOTAL_EPSILON, STEP_2_EPSILON), (FORMULA_RHO, TOTAL_RHO, STEP_2_RHO)],
)
def test_tables_1_and_4_follow_from_the_formulas_up_to_their_last_digit(formula, total, step_2) -> None:
    """Totals are truncated here and rounded there; step 2 is nine tenths of the printed total, rounded."""
    for exact, whole, part in zip(formula, total, step_2, strict=True):
        assert abs(exact - Fraction(whole)) < last_digit(whole)
        assert abs((1 - GAMMA) * Fraction(whole) - Fraction(part)) <= last_digit(part) / 2


def test_pure_epsilon_and_rho_of_table_2() -> None:
    for only in (NONE, ALL, (None,) * 7):
        assert epsilon_of(safetab(geometric, TOTAL_EPSILON, only)) == Fraction("15.29")
        assert rho_of(safetab(gaussian, TOTAL_RHO, only)) == Fraction("1.41")
    assert float(epsilon_of(safetab(geometric, FORMULA_EPSILON))) == pytest.approx(15.314318, abs=5e-7)
    assert float(rho_of(safetab(gaussian, FORMULA_RHO))) == pytest.approx(1.407062, abs=5e-7)


@pytest.mark.parametrize(
    ("budgets", "analytic", "optimal"),
    [(TOTAL_RHO, 12.805868, 12.177309), (FORMULA_RHO, 12.791051, 12.162910)],
)
def test_zcdp_of_table_2(budgets, analytic: float, optimal: float) -> None:
    """12.8 and 12.2 in the table."""
    event = safetab(gaussian, budgets)
    assert zcdp_to_epsilon_textbook(rho_of(event), DELTA) == pytest.approx(analytic, abs=6e-7)
    assert zcdp_to_epsilon(rho_of(event), DELTA) == pytest.approx(optimal, abs=6e-7)
    assert renyi_epsilon(event, DELTA).value == pytest.approx(optimal, abs=6e-7)
    assert (round(analytic, 1), round(optimal, 1)) == (12.8, 12.2)


@pytest.mark.parametrize(
    ("budgets", "only", "wanted", "order"),
    [
        (TOTAL_EPSILON, NONE, 12.900069, 8.13),
        (TOTAL_EPSILON, ALL, 14.164981, 8.76),
        (TOTAL_EPSILON, (None,) * 7, 14.164981, 8.76),
        (FORMULA_EPSILON, NONE, 12.927858, None),
        (FORMULA_EPSILON, (None,) * 7, 14.194388, None),
    ],
)
def test_renyi_accounting_with_the_correct_divergence(budgets, only, wanted: float, order) -> None:
    """Trusted values are minima over a grid of orders with step 0.01, so ours is equal or a hair smaller."""
    found = renyi_epsilon(safetab(geometric, budgets, only), DELTA)
    assert wanted - 2e-5 <= found.value <= wanted + 6e-7
    if order is not None:
        assert float(found.order) == pytest.approx(order, abs=0.01)
    assert renyi_epsilon(safetab(geometric, budgets, only), DELTA, Conversion.MIRONOV).value > found.value


def test_the_printed_divergence_gives_13_55_which_is_neither_the_table_nor_a_bound() -> None:
    """Equations 17, 39 and 40 on the paper's grid of orders; the table says 13.2, the exact epsilon is 14.015."""

    def printed(alpha: float, e: float) -> float:
        tail = 2 * alpha / (e * (2 * alpha - 1)) * math.exp((alpha - 1) * e)
        head = 2 * (alpha - 1) / (e * (2 * alpha - 1)) * math.exp(-alpha * e)
        return math.log(math.tanh(e / 2) * (tail + head)) / (alpha - 1)

    def at(alpha: float) -> float:
        divergence = 0.0
        for budget in TOTAL_EPSILON:
            e = float(budget) / GROUPS
            divergence += GROUPS * max(printed(alpha, 0.1 * e) + printed(alpha, 0.9 * e), printed(alpha, e))
        return (
            divergence
            + math.log(1e10) / (alpha - 1)
            + math.log(1 - 1 / alpha)
            - math.log(alpha) / (alpha - 1)
        )

    recipe = min(at(1 + i / 100) for i in range(1, 901))
    assert recipe == pytest.approx(13.546347, abs=1e-6)
    exact = compose(safetab(geometric, TOTAL_EPSILON, ALL), neighbours=ADD_REMOVE)
    assert exact.epsilon(DELTA).lower > recipe > 13.2
    # At the order where the recipe stands its sum lies below the true divergence.
    event = safetab(geometric, TOTAL_EPSILON, ALL)
    for alpha in ("2", "7.36"):
        mine = sum(GROUPS * printed(float(alpha), float(b) / GROUPS) for b in TOTAL_EPSILON)
        assert mine < renyi_divergence(event, alpha)


# Exact answers, certain to 1e-8: found by direct convolution at 50 digits and by a second method.
EXACT = [
    (gaussian, TOTAL_RHO, NONE, 11.6800611785),
    (gaussian, TOTAL_RHO, ALL, 11.6800611822),
    (gaussian, FORMULA_RHO, NONE, 11.6662003537),
    (geometric, TOTAL_EPSILON, NONE, 12.7132574796),
    (geometric, TOTAL_EPSILON, ALL, 14.0149540336),
    (geometric, TOTAL_EPSILON, NATION_AND_STATE, 13.4743612261),
    (geometric, TOTAL_EPSILON, (None,) * 7, 14.0149540336),
    (geometric, FORMULA_EPSILON, NONE, 12.7414435001),
    (geometric, FORMULA_EPSILON, ALL, 14.0454571770),
]


@pytest.mark.parametrize(("base", "budgets", "only", "wanted"), EXACT)
def test_the_exact_epsilon(base, budgets, only, wanted: float) -> None:
    """Both kinds together cost what TotalOnly does: one Geometric answer covers any of the same pure epsilon."""
    found = compose(safetab(base, budgets, only), neighbours=ADD_REMOVE).epsilon(DELTA)
    assert found.lower - 1e-8 <= wanted <= found.upper + 1e-8
    assert found.width < 1e-8


@pytest.mark.parametrize(
    ("base", "budgets", "deltas"),
    [
        (
            gaussian,
            TOTAL_RHO,
            {9: 7.93946e-7, 10: 3.69908e-8, 11: 1.22952e-9, 12: 2.90806e-11, "12.2": 1.31997e-11},
        ),
        (
            geometric,
            TOTAL_EPSILON,
            {
                9: 8.94327e-5,
                10: 7.12027e-6,
                11: 3.03248e-7,
                12: 5.03069e-9,
                "12.2": 1.873e-9,
                13: 1.36482e-11,
            },
        ),
    ],
)
def test_the_exact_delta(base, budgets, deltas: dict) -> None:
    guarantee = compose(safetab(base, budgets), neighbours=ADD_REMOVE)
    for epsilon, wanted in deltas.items():
        found = guarantee.delta(Fraction(epsilon))
        assert found.lower == pytest.approx(wanted, rel=2e-4 if wanted == 1.873e-9 else 4e-6)
        assert found.upper == pytest.approx(found.lower, rel=1e-9)


def test_what_table_2_states_for_geometric_noise_does_not_hold_where_groups_are_total_only() -> None:
    printed = Fraction("13.2")
    everywhere = compose(safetab(geometric, TOTAL_EPSILON, ALL), neighbours=ADD_REMOVE)
    assert everywhere.delta(printed).lower == pytest.approx(8.19e-9, rel=1e-3)
    there = compose(safetab(geometric, TOTAL_EPSILON, NATION_AND_STATE), neighbours=ADD_REMOVE)
    assert there.delta(printed).lower == pytest.approx(5.9e-10, rel=1e-2)
    assert compose(safetab(geometric, TOTAL_EPSILON), neighbours=ADD_REMOVE).delta(printed).upper < 1e-10


def test_gaussian_groups_of_both_kinds_are_compared_record_by_record() -> None:
    """Neither kind covers the other, so every mix of nine groups is a case: 0 to 18 of two equal levels' 18."""
    event = safetab(gaussian, TOTAL_RHO, (None, None, *NONE[2:]))
    assert len(alternatives_of(event, ADD_REMOVE)) == 2 * GROUPS + 1
    found = compose(event, neighbours=ADD_REMOVE).epsilon(DELTA)
    split = compose(safetab(gaussian, TOTAL_RHO), neighbours=ADD_REMOVE).epsilon(DELTA)
    assert found.upper >= split.upper
    assert found.upper == pytest.approx(11.68006118, abs=1e-7)


def test_a_record_meets_126_independent_answers() -> None:
    """Seven levels, nine groups, two stages: whatever tables the first stage chooses."""
    for base, budgets in ((gaussian, TOTAL_RHO), (geometric, TOTAL_EPSILON)):
        assert sum(factor.multiplicity for factor in loss_law_of(safetab(base, budgets))) == 7 * GROUPS * 2
