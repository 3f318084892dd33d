"""Published and exactly known values of rho as (epsilon, delta)."""

from fractions import Fraction

import pytest

from tallyveil.accounting import zcdp_to_epsilon, zcdp_to_epsilon_textbook

DELTA = Fraction(1, 10**10)


@pytest.mark.parametrize(
    ("product", "rho", "convert", "printed"),
    [
        ("redistricting persons, certificate", Fraction(293764, 114921), zcdp_to_epsilon, 17.14),
        ("redistricting persons, simple formula", Fraction(293764, 114921), zcdp_to_epsilon_textbook, 17.90),
        ("redistricting units, certificate", Fraction(11417641, 152349649), zcdp_to_epsilon, 2.47),
        ("DHC persons, Bun-Steinke form", Fraction(24811, 5000), zcdp_to_epsilon_textbook, 26.34),
        ("DHC units, Bun-Steinke form", Fraction(15401, 2000), zcdp_to_epsilon_textbook, 34.33),
    ],
)
def test_production_guarantees(product: str, rho: Fraction, convert, printed: float) -> None:
    assert round(convert(rho, DELTA), 2) == printed


# Ten queries of one geolevel at this variance, one record added or removed: rho = 5 / variance.
@pytest.mark.parametrize(
    ("variance", "at_1e11", "exact_1e11", "at_1e5", "exact_1e5"),
    [
        ("68.49", 2.7926069, 2.468210254142, 1.9065597, 1.478135886784),
        ("5.00", 11.0654729, 10.124830934481, 7.7861404, 6.571195284952),
        ("16.12", 5.9159617, 5.326792891088, 4.0895952, 3.328005572559),
        ("10.46", 7.4371157, 6.737262012840, 5.1698386, 4.266526600607),
        ("5.76", 10.2460062, 9.348887172958, 7.1906686, 6.044121308363),
        ("11.61", 7.0361233, 6.362078616174, 4.8840635, 4.017102534069),
        ("456.62", 1.0642249, 0.917830869218, 0.7210678, 0.522190555676),
    ],
)
def test_the_bound_lies_between_the_exact_epsilon_and_the_textbook(
    variance: str, at_1e11: float, exact_1e11: float, at_1e5: float, exact_1e5: float
) -> None:
    rho = 5 / Fraction(variance)
    for delta, textbook, exact in (
        (Fraction(1, 10**11), at_1e11, exact_1e11),
        (Fraction(1, 10**5), at_1e5, exact_1e5),
    ):
        assert zcdp_to_epsilon_textbook(rho, delta) == pytest.approx(textbook, abs=6e-8)
        assert exact < zcdp_to_epsilon(rho, delta) < textbook
