"""One level of the sweep over sets against its twin, with and without unknown directions."""

import numpy as np
import pytest
from tests.oracles.regions import step_up_reference

from tallyveil.kernels.tree.sweep import Children, Packing, Parents, SetEntries, Slopes, step_up

PACKING = Packing(dims=np.array([1, 3, 2]), begin=np.array([0, 1, 10, 14]))


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("with_unknown", [False, True])
def test_step_up(same, with_unknown):
    rng = np.random.default_rng(int(same) + 2 * int(with_unknown))

    def blocks(n):
        return rng.normal(size=(n, 14))

    nothing = np.zeros((0, 14))
    entries = SetEntries(
        begin=np.array([0, 3, 4, 7]),
        blocks=np.array([0, 1, 2, 3, 0, 4, 4]),
        place=np.array([-1, 0, 1, 2, -1, 3, -1]),
        first=rng.normal(size=7),
        second=rng.normal(size=7),
        product=rng.normal(size=7),
    )
    if same:
        entries = entries._replace(second=entries.first)
    below = Slopes(blocks(4), blocks(4), blocks(4))
    filtered, unknown = blocks(5), blocks(5) if with_unknown else nothing
    more = (blocks(6), blocks(6)) if with_unknown else (nothing, nothing)
    parents = Parents(np.array([5, 0, 3]), blocks(6), *more)
    one = Slopes(np.zeros((3, 14)), np.zeros((3, 14)), np.zeros((3, 14)))
    other = Slopes(np.zeros((3, 14)), np.zeros((3, 14)), np.zeros((3, 14)))
    children = Children(entries, filtered, unknown, below)
    step_up(PACKING, children, parents, same, 0, 3, one)
    step_up_reference(PACKING, children, parents, same, 0, 3, other)
    assert np.abs(one.covariance).max() > 0
    for made, wanted in zip(one, other, strict=True):
        np.testing.assert_allclose(made, wanted, rtol=1e-10, atol=1e-10)
