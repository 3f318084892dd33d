"""The kernel of a chunk calls two others by their addresses, so what it believes of their types must be true."""

import pytest

from tallyveil.estimation.family import estimate_family
from tallyveil.kernels.compiled import compiled_for
from tallyveil.kernels.family.signatures import ROUND_BY_FLOW, SOLVE_PASS
from tallyveil.kernels.family.solver import solve_pass
from tallyveil.kernels.rounding.flow import round_by_flow
from tallyveil.postprocess.warm_up import smallest_family


@pytest.mark.parametrize(("kernel", "signature"), [(solve_pass, SOLVE_PASS), (round_by_flow, ROUND_BY_FLOW)])
def test_stated_signatures_are_those_of_the_kernels(kernel, signature):
    compiled_for(kernel, signature)
    assert kernel.overloads[signature.args].signature == signature


def test_a_family_by_itself_uses_the_same_compiled_code():
    """Python calls the two kernels with the same types as the kernel of a chunk, so that each is compiled once."""
    compiled_for(solve_pass, SOLVE_PASS)
    compiled_for(round_by_flow, ROUND_BY_FLOW)
    before = [len(kernel.signatures) for kernel in (solve_pass, round_by_flow)]
    estimate_family(smallest_family())
    assert [len(kernel.signatures) for kernel in (solve_pass, round_by_flow)] == before
