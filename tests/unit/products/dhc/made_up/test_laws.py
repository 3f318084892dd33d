import numpy as np
import pytest

from tallyveil.products.dhc.made_up.people import laws


def test_draws_keep_to_their_limits_and_reach_them():
    law = laws()
    row = np.repeat(np.arange(len(law.names)), 1_000)
    uniform = np.tile((np.arange(1_000) + 0.5) / 1_000, len(law.names))
    values = law.draw(row, uniform, np.full(len(row), 30), np.full(len(row), 33))
    for one in range(len(law.names)):
        assert set(values[row == one].tolist()) == {30, 31, 32, 33}


@pytest.mark.parametrize(
    ("name", "median"), [("householder alone", 61), ("spouse of a man", -2), ("parent", 26), ("child", -29)]
)
def test_medians_are_those_of_the_source(name, median):
    row = np.full(999, laws().row(name))
    values = laws().draw(row, np.linspace(0, 1, 999, endpoint=False), np.full(999, -80), np.full(999, 110))
    assert abs(np.median(values) - median) <= 1


def test_a_single_value_is_drawn_where_only_one_is_allowed():
    row = np.array([0, 3])
    assert laws().draw(row, np.array([0.0, 0.999]), np.array([17, 95]), np.array([17, 95])).tolist() == [
        17,
        95,
    ]
