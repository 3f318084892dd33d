"""Adaptive branches with different loss laws: no way from one to a number, another event or a ledger."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from tallyveil.accounting import (
    AdaptiveEvent,
    Declaration,
    DiscreteGaussian,
    DiscreteLaplace,
    InvariantEvent,
    Ledger,
    Neighbours,
    ParallelEvent,
    PrivacyEvent,
    SequentialEvent,
    WorstEvent,
    alternatives_of,
    calibrate,
    compose,
    epsilon_of,
    event_from_mapping,
    loss_law_of,
    read_ledger,
    renyi_delta,
    renyi_divergence,
    renyi_epsilon,
    rho_of,
    total_variation_of,
    translate,
)
from tallyveil.accounting.calibration import scaled
from tallyveil.accounting.ledger.lines import LedgerEntry, chained_line
from tallyveil.accounting.proved import classical_epsilons
from tallyveil.errors import BudgetError, StoreError

UNBOUNDED, BOUNDED = Neighbours.UNBOUNDED, Neighbours.BOUNDED
LAPLACE = AdaptiveEvent((DiscreteLaplace(3), DiscreteLaplace(2)))
GAUSSIAN = AdaptiveEvent((DiscreteGaussian(3), DiscreteGaussian(2)))
SILENT = AdaptiveEvent((DiscreteLaplace(3), InvariantEvent("total")))
DIFFERENT = "2 different loss laws"

WAYS: dict[str, Callable[[PrivacyEvent], object]] = {
    "loss_law_of": loss_law_of,
    "alternatives_of": lambda event: alternatives_of(event, UNBOUNDED),
    "compose": lambda event: compose(event, neighbours=UNBOUNDED),
    "rho_of": lambda event: rho_of(event, laplace_as_zcdp=True),
    "renyi_divergence": lambda event: renyi_divergence(event, 2),
    "renyi_epsilon": lambda event: renyi_epsilon(event, "1e-6"),
    "renyi_delta": lambda event: renyi_delta(event, 1),
    "classical_epsilons": lambda event: classical_epsilons(event, Fraction(1, 10**6)),
    "total_variation_of": total_variation_of,
    "translate": lambda event: translate(event, UNBOUNDED, BOUNDED),
    "scaled": lambda event: scaled(event, Fraction(2)),
    "calibrate": lambda event: calibrate(event, epsilon=1, delta="1e-6", neighbours=UNBOUNDED),
    "event_from_mapping": lambda event: event_from_mapping(event.to_mapping()),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("unequal", [LAPLACE, GAUSSIAN, SILENT], ids=["laplace", "gaussian", "silent"])
@pytest.mark.parametrize(
    "within",
    [
        lambda event: event,
        lambda event: SequentialEvent((DiscreteLaplace(9), event)),
        lambda event: ParallelEvent((event,), 2),
        lambda event: WorstEvent((DiscreteLaplace("1/9"), event)),
        lambda event: AdaptiveEvent((event, event)),
    ],
    ids=["alone", "sequential", "parallel", "worst", "adaptive"],
)
def test_no_way_in_takes_unequal_branches(way: str, unequal: AdaptiveEvent, within) -> None:
    with pytest.raises(BudgetError, match=DIFFERENT):
        WAYS[way](within(unequal))


def test_no_pure_epsilon_comes_of_unequal_branches() -> None:
    for event in (LAPLACE, SILENT, ParallelEvent((SILENT,))):
        with pytest.raises(BudgetError, match=DIFFERENT):
            epsilon_of(event)


@pytest.mark.parametrize(("unit", "event"), [("rho", GAUSSIAN), ("epsilon", LAPLACE), ("epsilon", SILENT)])
def test_no_ledger_takes_unequal_branches(tmp_path: Path, unit, event: PrivacyEvent) -> None:
    path = tmp_path / "ledger.jsonl"
    declaration = Declaration(unit, Fraction(100), UNBOUNDED)
    with Ledger(path, declaration, "run") as ledger:
        begun = path.read_bytes()
        with pytest.raises(BudgetError, match=DIFFERENT):
            ledger.spend(event, "unequal", "token")
        assert path.read_bytes() == begun
        entry = LedgerEntry(1, "spend", event, Fraction(1), "forged", "token", "run")
        path.write_bytes(begun + chained_line(entry.to_mapping(), ledger.head) + b"\n")
    with pytest.raises(StoreError, match=DIFFERENT):
        read_ledger(path)


def test_branches_of_one_law_may_be_written_differently() -> None:
    twice = SequentialEvent((DiscreteLaplace(3), DiscreteLaplace(3)))
    assert epsilon_of(AdaptiveEvent((DiscreteLaplace(3, multiplicity=2), twice))) == Fraction(2, 3)
    for other in (DiscreteLaplace(3), DiscreteLaplace(3, 2), DiscreteGaussian(3, 1, 2), SequentialEvent(())):
        with pytest.raises(BudgetError, match=DIFFERENT):
            loss_law_of(AdaptiveEvent((twice, other)))
