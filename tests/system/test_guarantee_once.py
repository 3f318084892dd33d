"""No command computes the same exact epsilon twice, and a page believes none that a manifest states."""

from collections import Counter

import pytest

from tallyveil.accounting import proved
from tallyveil.accounting.guarantee import Guarantee


@pytest.fixture
def epsilons(monkeypatch):
    """How often each epsilon was computed, by the losses that were composed and by delta."""
    counted: Counter[object] = Counter()
    original = Guarantee.epsilon

    def epsilon(self, delta):
        counted[self.alternatives, self.engine, self.width, delta] += 1
        return original(self, delta)

    monkeypatch.setattr(Guarantee, "epsilon", epsilon)
    begin()
    return counted


def begin() -> None:
    """As in a process of its own, which has computed nothing yet."""
    proved._proved.cache_clear()


def taken(epsilons: Counter[object]) -> int:
    """How many epsilons were computed since the last time; each one once."""
    assert set(epsilons.values()) <= {1}
    found = len(epsilons)
    epsilons.clear()
    return found


def test_a_release_computes_each_epsilon_once(command, small_release, tmp_path, epsilons):
    laws = 3  # two of the three geolevels have the same noise; and all together
    command("plan", small_release, "--details")
    assert taken(epsilons) > laws
    begin()
    command("run", small_release, "--out", tmp_path / "run", "--insecure-test-key", "k", "--quiet")
    with_page = taken(epsilons)
    assert with_page > laws
    command("report", tmp_path / "run")
    assert taken(epsilons) == 0
    begin()
    command("measure", small_release, "--out", tmp_path / "measured", "--insecure-test-key", "k", "--quiet")
    assert taken(epsilons) == laws
    begin()
    command("estimate", tmp_path / "measured", "--out", tmp_path / "estimated", "--quiet")
    assert taken(epsilons) == with_page
    begin()
    command("report", tmp_path / "run")
    # In a process of its own a page derives everything again, and each number once.
    assert taken(epsilons) == with_page
