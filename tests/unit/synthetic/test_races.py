import numpy as np
import pytest

from tallyveil.schema.presets import load_preset
from tallyveil.synthetic import people
from tallyveil.synthetic.people import RACES

LEVELS = load_preset("pl94-persons").attribute("cenrace").levels


def generator() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(9))


def test_single_races_come_first_and_in_order() -> None:
    assert LEVELS[:6] == tuple(people.RACE_CODES)
    # nhpi and other are what race_ethnicity calls nhopi and sor.
    assert people.SINGLE_RACES == ("white", "black", "aian", "asian", "nhpi", "other")
    assert set(people.COMMON_SETS) < set(LEVELS[6:])
    assert sum(people.COMMON_SETS.values()) < 1


def test_shares_are_tilted_towards_the_neighbours() -> None:
    area_races = np.zeros((2, 8), dtype=np.int64)
    area_races[0, [RACES.index("white"), RACES.index("black")]] = [500, 5_000]
    area_races[1, [RACES.index("white"), RACES.index("asian")]] = [500, 5_000]
    detail = people.tilt_races(LEVELS, area_races, generator())
    assert np.allclose(detail.two_or_more.sum(axis=1), 1)
    assert np.allclose(detail.hispanic.sum(axis=1), 1)
    assert (detail.two_or_more[:, :6] == 0).all()
    assert (detail.two_or_more[:, 6:] > 0).all()
    assert (detail.hispanic > 0).all()
    black, asian = LEVELS.index("white_black"), LEVELS.index("white_asian")
    assert detail.two_or_more[0, black] > 2 * detail.two_or_more[1, black]
    assert detail.two_or_more[1, asian] > 2 * detail.two_or_more[0, asian]


def test_drawn_sets_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = generator().integers(0, 30, 500)
    areas = np.arange(500) % 3
    shares = np.eye(63)[[6, 20, 62]]
    row, code, count = people.draw_sets(counts, areas, shares, generator())
    assert np.array_equal(np.bincount(row, count, minlength=500), counts)
    assert np.array_equal(code, np.array([6, 20, 62])[areas[row]])
    assert count.min() > 0
    # Memory is bounded by chunks, which must not show in the result.
    even = np.full((3, 63), 1 / 63)
    whole = people.draw_sets(counts, areas, even, generator())
    monkeypatch.setattr(people, "CHUNK", 7)
    for one, other in zip(whole, people.draw_sets(counts, areas, even, generator()), strict=True):
        assert np.array_equal(one, other)


def test_nobody_draws_nothing() -> None:
    empty = np.empty(0, dtype=np.int64)
    assert [len(part) for part in people.draw_sets(empty, empty, np.eye(63), generator())] == [0, 0, 0]
