import numpy as np
import pytest
from flint import arb

from tallyveil.subspace.exact.digits import ChoiceTable, is_below


def thirds() -> list[arb]:
    return [arb(2).sqrt() / 4, arb(2).sqrt() / 2]


def test_choice_is_inversion():
    table = ChoiceTable.build(thirds, certain=True)
    words = np.random.default_rng(3).integers(0, 1 << 64, 1000, dtype=np.uint64)
    picks = table.choose(words, lambda _: iter([]))
    u = words / 2.0**64
    assert (picks == (u > 2**0.5 / 4).astype(int) + (u > 2**0.5 / 2)).all()


def test_equal_digits_ask_for_more():
    table = ChoiceTable.build(thirds, certain=True)
    floor = int(table.floors[0])
    words = np.array([floor, floor], dtype=np.uint64)
    below, above = iter([floor, 0]), iter([floor, (1 << 64) - 1])
    assert table.choose(words, lambda i: (below, above)[i]).tolist() == [0, 1]


@pytest.mark.parametrize(("word", "expected"), [(0, True), ((1 << 64) - 1, False)])
def test_is_below(word, expected):
    assert is_below(lambda: arb(2).sqrt() / 2, word, lambda: iter([])) is expected
    edge = int(2**63 * 2**0.5) >> 11 << 11
    assert is_below(lambda: arb(1) / 3 + 1, edge, lambda: iter([]))
    third = (1 << 64) // 3
    assert is_below(lambda: arb(1) / 3, third, lambda: iter([third, 0]))
    assert not is_below(lambda: arb(1) / 3, third, lambda: iter([third, (1 << 64) - 1]))
