"""Ledgers of the first format, without a chain: read at the same cost, never written."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from tallyveil.accounting import (
    Declaration,
    DiscreteGaussian,
    InvariantEvent,
    Ledger,
    Neighbours,
    ParallelEvent,
    SequentialEvent,
    read_ledger,
)
from tallyveil.accounting.events import DiscreteLaplace
from tallyveil.errors import StoreError

DECLARED = Declaration("rho", Fraction(1), Neighbours.BOUNDED)
GAUSSIAN = {"kind": "discrete_gaussian", "variance": "6", "squared_sensitivity": 2, "multiplicity": 3}
EVENT = {
    "kind": "sequential",
    "events": [
        {"kind": "parallel", "events": [GAUSSIAN, GAUSSIAN]},
        {"kind": "invariant", "statement": "total"},
    ],
}


def write(path: Path, unit: str = "rho", cost: str = "1/2", event: dict = EVENT, **others: object) -> None:
    lines = [
        {
            "sequence": 0,
            "kind": "declaration",
            "format": 1,
            "budget_unit": unit,
            "budget": "1",
            "neighbours": "bounded",
            "run": "r",
        },
        {
            "sequence": 1,
            "kind": "spend",
            "description": "release",
            "token": "t",
            "run": "r",
            "cost": cost,
            "event": event,
        }
        | others,
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_it_is_read_at_the_same_cost(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    write(path)
    declaration, (entry,) = read_ledger(path)
    assert declaration == DECLARED
    assert entry.cost == Fraction(1, 2)
    release = DiscreteGaussian(6, multiplicity=6)
    assert entry.event == SequentialEvent((ParallelEvent((release, release)), InvariantEvent("total")))
    laplace = {"kind": "discrete_laplace", "scale": "24", "sensitivity": 2, "multiplicity": 3}
    write(path, "epsilon", "1/4", laplace)
    assert read_ledger(path)[1][0].event == DiscreteLaplace(24, multiplicity=6)


def test_it_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    write(path)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="begun in format 1, without a chain"):
        Ledger(path, DECLARED, "r")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "change",
    [
        {"cost": "1/3"},
        {"note": "x"},
        {"event": GAUSSIAN | {"squared_sensitivity": 2.0}},
        {"event": GAUSSIAN | {"sensitivity": 1}},
        {"event": {key: GAUSSIAN[key] for key in ("kind", "variance", "multiplicity")}},
        {"event": {"kind": "discrete_gaussian", "variance": "3", "sensitivity": 1, "multiplicity": 3}},
        {"event": {"kind": "sequential", "events": [3]}},
    ],
)
def test_a_changed_line_is_refused(tmp_path: Path, change: dict) -> None:
    path = tmp_path / "ledger.jsonl"
    write(path, **change)
    with pytest.raises(StoreError, match=r"line 2 of the ledger .* is corrupt"):
        read_ledger(path)
