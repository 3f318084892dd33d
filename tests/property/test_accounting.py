"""What holds for every event and every ledger, however it is cut short."""

import json
from fractions import Fraction
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil.accounting import (
    Declaration,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    InvariantEvent,
    Ledger,
    Neighbours,
    NonPrivateEvent,
    ParallelEvent,
    SequentialEvent,
    event_from_mapping,
    read_ledger,
    rho_of,
    zcdp_to_delta,
    zcdp_to_epsilon,
    zcdp_to_epsilon_textbook,
)

# The same examples every time, and no time limit an occupied machine could exceed.
STEADY = settings(derandomize=True, deadline=None)
POSITIVE = st.fractions(min_value=Fraction(1, 10**6), max_value=10**6)
SMALL = st.integers(1, 5)
GAUSSIANS = st.builds(DiscreteGaussianEvent, POSITIVE, SMALL, SMALL)
LEAVES = (
    GAUSSIANS
    | st.builds(DiscreteLaplaceEvent, POSITIVE, SMALL, SMALL)
    | st.builds(InvariantEvent, st.text(max_size=5))
    | st.builds(NonPrivateEvent, st.text(max_size=5))
)


def trees(leaves):
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(SequentialEvent, st.lists(inner, max_size=4).map(tuple))
            | st.builds(ParallelEvent, st.lists(inner, max_size=4).map(tuple))
        ),
        max_leaves=12,
    )


@STEADY
@given(trees(LEAVES))
def test_json_loses_nothing(event) -> None:
    assert event_from_mapping(json.loads(json.dumps(event.to_mapping()))) == event


@STEADY
@given(st.lists(trees(GAUSSIANS), max_size=4))
def test_composition_is_a_sum_or_a_largest(events) -> None:
    costs = [rho_of(event) for event in events]
    assert rho_of(SequentialEvent(tuple(events))) == sum(costs)
    assert rho_of(ParallelEvent(tuple(events))) == max(costs, default=0)


@STEADY
@given(
    st.fractions(min_value=Fraction(1, 10**6), max_value=1000),
    st.fractions(min_value=Fraction(1, 10**15), max_value=Fraction(1, 100)),
)
def test_the_bound_lies_below_the_textbook_and_shrinks_with_delta(rho: Fraction, delta: Fraction) -> None:
    epsilon = zcdp_to_epsilon(rho, delta)
    assert 0 <= epsilon <= zcdp_to_epsilon_textbook(rho, delta)
    assert epsilon <= zcdp_to_epsilon(rho, delta / 2)
    assert epsilon <= zcdp_to_epsilon(2 * rho, delta)
    assert zcdp_to_delta(rho, Fraction(epsilon)) <= float(delta) * (1 + 1e-12)


@STEADY
@given(st.integers(0, 10**4))
def test_a_ledger_cut_anywhere_opens_with_the_lines_that_were_finished(tmp_path_factory, cut: int) -> None:
    declared = Declaration("rho", Fraction(1), Neighbours.BOUNDED)
    event = DiscreteGaussianEvent(Fraction(3), 2)
    path: Path = tmp_path_factory.mktemp("cut") / "ledger.jsonl"
    with Ledger(path, declared, "run") as ledger:
        for token in ("first", "second", "third"):
            ledger.spend(event, f"{token} é", token)
    whole = path.read_bytes()
    cut %= len(whole) + 1
    path.write_bytes(whole[:cut])
    finished = whole[:cut].count(b"\n")
    with Ledger(path, declared, "run") as ledger:
        assert len(ledger.entries) == max(0, finished - 1)
        for token in ("first", "second", "third"):
            ledger.spend(event, f"{token} é", token)
    assert path.read_bytes() == whole
    assert len(read_ledger(path)[1]) == 3
