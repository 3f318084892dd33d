"""Kernels of tables call others by their addresses, so what they believe of the others' types must be true."""

import pytest

from tallyveil.kernels.compiled import compiled_for
from tallyveil.kernels.tiles.chunk import solve_families
from tallyveil.kernels.tiles.parts import SIGNATURES
from tallyveil.kernels.tiles.signatures import FAMILIES


@pytest.mark.parametrize(("kernel", "signature"), [*SIGNATURES, (solve_families, FAMILIES)])
def test_stated_signatures_are_those_of_the_kernels(kernel, signature):
    compiled_for(kernel, signature)
    assert kernel.overloads[signature.args].signature == signature
