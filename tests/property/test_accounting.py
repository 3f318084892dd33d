"""What holds for every event and every ledger, however it is cut short."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.accounting import (
    Declaration,
    DiscreteGaussian,
    DiscreteLaplace,
    InvariantEvent,
    Ledger,
    Neighbours,
    NonPrivateEvent,
    ParallelEvent,
    SequentialEvent,
    WorstEvent,
    epsilon_of,
    event_from_mapping,
    read_ledger,
    renyi_divergence,
    rho_of,
    translate,
    zcdp_to_delta,
    zcdp_to_epsilon,
    zcdp_to_epsilon_textbook,
)
from tallyveil.accounting.losses import LaplaceLoss, dominates, merged
from tallyveil.errors import StoreError

# The same examples every time, and no time limit an occupied machine could exceed.
POSITIVE = st.fractions(min_value=Fraction(1, 10**6), max_value=10**6)
SMALL = st.integers(1, 5)
GAUSSIANS = st.builds(DiscreteGaussian, POSITIVE, SMALL, SMALL)
LEAVES = (
    GAUSSIANS
    | st.builds(DiscreteLaplace, POSITIVE, SMALL, SMALL)
    | st.builds(InvariantEvent, st.text(max_size=5))
    | st.builds(NonPrivateEvent, st.text(max_size=5))
)


def trees(leaves):
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(SequentialEvent, st.lists(inner, max_size=4).map(tuple))
            | st.builds(ParallelEvent, st.lists(inner, max_size=4).map(tuple), st.integers(1, 9))
            | st.builds(
                WorstEvent,
                st.lists(inner, min_size=1, max_size=3).map(tuple),
                st.sampled_from(["adaptive", "public"]),
            )
        ),
        max_leaves=6,
    )


@given(trees(LEAVES))
def test_json_loses_nothing(event) -> None:
    assert event_from_mapping(json.loads(json.dumps(event.to_mapping()))) == event


@given(st.lists(trees(GAUSSIANS), max_size=4))
def test_composition_is_a_sum_or_a_largest(events) -> None:
    costs = [rho_of(event) for event in events]
    assert rho_of(SequentialEvent(tuple(events))) == sum(costs)
    assert rho_of(ParallelEvent(tuple(events))) == max(costs, default=0)
    assert rho_of(ParallelEvent(tuple(events), 7)) == 7 * max(costs, default=0)
    if events:
        assert rho_of(WorstEvent(tuple(events))) == max(costs)


@given(trees(GAUSSIANS | st.builds(InvariantEvent, st.text(max_size=5))))
def test_translating_there_and_back_changes_nothing(event) -> None:
    bounded = translate(event, Neighbours.UNBOUNDED, Neighbours.BOUNDED)
    assert translate(bounded, Neighbours.BOUNDED, Neighbours.UNBOUNDED) == event
    assert rho_of(bounded) == 2 * rho_of(event)


PURE = st.lists(st.builds(LaplaceLoss, POSITIVE, SMALL, SMALL), min_size=1, max_size=3).map(tuple).map(merged)


@given(PURE, PURE)
def test_a_law_seen_to_dominate_costs_no_less_however_it_is_measured(larger, smaller) -> None:
    if dominates(larger, smaller):
        more, less = (
            SequentialEvent(tuple(DiscreteLaplace(x.scale, x.sensitivity, x.multiplicity) for x in law))
            for law in (larger, smaller)
        )
        assert epsilon_of(more) >= epsilon_of(less)
        for order in ("1.01", "2", "30"):
            assert renyi_divergence(more, order) >= renyi_divergence(less, order) * (1 - 1e-12)
    assert dominates(merged(larger + smaller), smaller)
    strongest = LaplaceLoss(1 / sum(x.multiplicity * x.sensitivity / x.scale for x in smaller), 1, 1)
    assert dominates((strongest,), smaller)


@given(st.integers(0, 10**4), st.integers(0, 255))
def test_a_ledger_with_any_byte_changed_is_refused_or_shortened(tmp_path_factory, at: int, byte: int) -> None:
    declared = Declaration("rho", Fraction(1), Neighbours.BOUNDED)
    path: Path = tmp_path_factory.mktemp("changed") / "ledger.jsonl"
    with Ledger(path, declared, "run") as ledger:
        for token in ("first", "second", "third"):
            ledger.spend(DiscreteGaussian(3, multiplicity=2), f"{token} é", token)
    whole = bytearray(path.read_bytes())
    entries = read_ledger(path)[1]
    at %= len(whole)
    was, whole[at] = whole[at], byte
    path.write_bytes(whole)
    if byte == was:
        return
    if at == len(whole) - 1:  # the end of the last line: as if a crash had cut it
        assert read_ledger(path)[1] == entries[:-1]
        return
    with pytest.raises(StoreError):
        read_ledger(path)


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


@given(st.integers(0, 10**4))
def test_a_ledger_cut_anywhere_opens_with_the_lines_that_were_finished(tmp_path_factory, cut: int) -> None:
    declared = Declaration("rho", Fraction(1), Neighbours.BOUNDED)
    event = DiscreteGaussian(3, multiplicity=2)
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
