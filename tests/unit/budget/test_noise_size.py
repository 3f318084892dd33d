"""Noise so large that published counts could leave the range of exact arithmetic is refused."""

from types import SimpleNamespace

import pytest

from tallyveil.budget.noise_size import MOST_CELLS_OF_NOISE, refuse_vast_noise
from tallyveil.errors import BudgetError
from tallyveil.universe import Attribute, Schema, StructuralZero

LEVELS = tuple(f"l{number}" for number in range(100))


def allocation(deviation: float):
    """Noise of this standard deviation at the root."""
    law = SimpleNamespace(standard_deviation=lambda: deviation)
    return SimpleNamespace(
        strategy=SimpleNamespace(queries=lambda _: ("total",)),
        spine=SimpleNamespace(geolevels=("State", "Block")),
        laws=lambda _geolevel, _query: {0: law},
    )


def test_noise_counts_in_possible_cells_alone():
    """A hundred cells, of which one is possible."""
    zero = StructuralZero("never", (("a", LEVELS[1:]),))
    whole, sparse = (Schema("s", (Attribute("a", LEVELS),), (), zeros) for zeros in ((), (zero,)))
    refuse_vast_noise(allocation(MOST_CELLS_OF_NOISE / 100), whole)
    with pytest.raises(BudgetError, match="100 possible cells") as caught:
        refuse_vast_noise(allocation(MOST_CELLS_OF_NOISE / 99), whole)
    assert caught.value.code == "noise-too-large"
    refuse_vast_noise(allocation(MOST_CELLS_OF_NOISE), sparse)
    with pytest.raises(BudgetError, match="1 possible cells"):
        refuse_vast_noise(allocation(MOST_CELLS_OF_NOISE * 1.01), sparse)
