"""Kernels of a family call others by their addresses, so what they believe of the others' types must be true."""

import pytest

from tallyveil.estimation.family import estimate_family
from tallyveil.kernels.compiled import compiled_for
from tallyveil.kernels.family.signatures import ROUND_BY_FLOW, SIGNATURES, SOLVE_PASS
from tallyveil.kernels.family.solver import PARTS, compile_parts, solve_by_parts
from tallyveil.kernels.rounding.flow import round_by_flow
from tallyveil.postprocess.warm_up import smallest_family

PART_KERNELS = {**PARTS._asdict(), **PARTS.faces._asdict()}
KERNELS = [
    (solve_by_parts, SOLVE_PASS),
    (round_by_flow, ROUND_BY_FLOW),
    *((PART_KERNELS[name], signature) for name, signature in SIGNATURES.items()),
]


@pytest.mark.parametrize(("kernel", "signature"), KERNELS)
def test_stated_signatures_are_those_of_the_kernels(kernel, signature):
    compiled_for(kernel, signature)
    assert kernel.overloads[signature.args].signature == signature


def test_a_family_by_itself_uses_the_same_compiled_code():
    """Python calls two kernels with the same types as the kernel of a chunk, so that each is compiled once."""
    compile_parts()
    compiled_for(solve_by_parts, SOLVE_PASS)
    compiled_for(round_by_flow, ROUND_BY_FLOW)
    before = [len(kernel.signatures) for kernel, _ in KERNELS]
    estimate_family(smallest_family())
    assert [len(kernel.signatures) for kernel, _ in KERNELS] == before
