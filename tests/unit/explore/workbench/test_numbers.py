"""Laws, fractions, texts and zCDP of the page against Python."""

from fractions import Fraction

import numpy as np
import pytest
from tests.unit.explore.nodes import node_needed
from tests.unit.explore.workbench.in_node import ask_node

from tallyveil.accounting.numbers import at_most
from tallyveil.accounting.renyi import zcdp_to_epsilon
from tallyveil.noise.laws import DiscreteGaussian, DiscreteLaplace

pytestmark = node_needed

CONFIDENCE = Fraction(95, 100)


@pytest.mark.parametrize(
    ("mechanism", "law", "largest"),
    [("discrete_gaussian", DiscreteGaussian, 1e5), ("discrete_laplace", DiscreteLaplace, 1e3)],
)
def test_laws(mechanism, law, largest):
    rng = np.random.default_rng(1)
    parameters = [Fraction(x) for x in np.exp(rng.uniform(np.log(0.05), np.log(largest), 80)).tolist()]
    found = ask_node("laws", mechanism=mechanism, parameters=[float(one) for one in parameters])
    for one, (variance, margin) in zip(parameters, found, strict=True):
        assert variance == pytest.approx(law(one).variance_float(), rel=1e-11)
        assert margin == law(one).margin(CONFIDENCE)


def test_zcdp_is_never_below_and_close():
    rng = np.random.default_rng(2)
    pairs = [
        (float(r), float(d))
        for r, d in np.exp(rng.uniform(np.log([1e-6, 1e-15]), np.log([50, 0.5]), (60, 2)))
    ]
    for (rho, delta), found in zip(pairs, ask_node("zcdp", pairs=pairs), strict=True):
        wanted = zcdp_to_epsilon(Fraction(rho), Fraction(delta))
        assert wanted <= found <= wanted + 1e-11 * (1 + wanted)


def test_texts_are_those_of_plan():
    values = [0.0, 0.4, 2.125, 2.375, 3.456, 12.005, 1234.5678, 99999.999]
    upper = [9.61956385, 16.4651, 0.12344999, 0.5, 1.0, 1.0001, 0.99999, 0.00123456]
    found = ask_node("texts", upper=upper, deviations=values)
    assert found["deviations"] == ["exact" if one < 1e-6 else f"{one:,.2f}" for one in values]
    assert found["upper"] == [at_most(one, places=3) if one >= 1 else at_most(one, 4) for one in upper]


def test_fractions():
    good = ["104/4099", "2.5", "1e-10", " 3 / 4 ", "-7/21", "12", "0.125e1", f"{10**40}/{3**50}"]
    bad = ["", "x", "1/0", "1e999", "0x10", "1..2", "1/2/3"]
    found = ask_node("fractions", texts=[*good, *bad])
    assert found[len(good) :] == [None] * len(bad)
    for text, (exact, number) in zip(good, found, strict=False):
        assert Fraction(exact) == Fraction(text.replace(" ", ""))
        assert number == float(Fraction(exact))
