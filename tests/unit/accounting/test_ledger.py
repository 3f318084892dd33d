"""The ledger: what it refuses, and what survives a crash."""

import json
import logging
import os
from fractions import Fraction
from pathlib import Path

import pytest

from tallyveil.accounting import (
    Declaration,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Ledger,
    Neighbours,
    NonPrivateEvent,
    SequentialEvent,
    read_ledger,
)
from tallyveil.errors import BudgetError, StoreError

DECLARED = Declaration("rho", Fraction(1), Neighbours.BOUNDED)
THIRD = DiscreteGaussianEvent(Fraction(3), 2)  # rho = 1/3
LOOK = NonPrivateEvent("errors against the true counts")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


def spend_two_thirds(path: Path) -> None:
    with Ledger(path, DECLARED, "run-1") as ledger:
        ledger.spend(THIRD, "State", "State/measure")
        ledger.spend(THIRD, "County", "County/measure")


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_ledger_begins_with_what_is_declared(path: Path) -> None:
    Ledger(path, DECLARED, "run-1").close()
    assert lines(path) == [
        {
            "sequence": 0,
            "kind": "declaration",
            "format": 1,
            "budget_unit": "rho",
            "budget": "1",
            "neighbours": "bounded",
            "run": "run-1",
        }
    ]


def test_a_spend_is_on_disk_when_it_returns(path: Path) -> None:
    with Ledger(path, DECLARED, "run-1") as ledger:
        entry = ledger.spend(THIRD, "State", "State/measure")
        assert lines(path)[1] == entry.to_mapping()
        assert lines(path)[1] == {
            "sequence": 1,
            "kind": "spend",
            "description": "State",
            "token": "State/measure",
            "run": "run-1",
            "cost": "1/3",
            "event": THIRD.to_mapping(),
        }
        assert (ledger.spent, ledger.remaining) == (Fraction(1, 3), Fraction(2, 3))


def test_a_spend_is_flushed_to_the_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    with Ledger(path, DECLARED, "run-1") as ledger:
        monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(path.stat().st_size))
        ledger.spend(THIRD, "State", "State/measure")
        assert synced == [path.stat().st_size]


def test_the_whole_budget_can_be_spent_but_not_a_hair_more(path: Path) -> None:
    with Ledger(path, DECLARED, "run-1") as ledger:
        for name in ("a", "b", "c"):
            ledger.spend(THIRD, name, name)
        assert ledger.remaining == 0
        before = path.read_bytes()
        hair = DiscreteGaussianEvent(Fraction(10**9), 1)
        with pytest.raises(BudgetError) as caught:
            ledger.spend(hair, "Block", "d")
        assert path.read_bytes() == before
        assert len(ledger.entries) == 3
    assert "'Block' would exceed the declared budget by rho = 1/2000000000 (5e-10)" in str(caught.value)
    assert "declared rho = 1, already spent 1, wanted 1/2000000000 (5e-10)" in str(caught.value)


def test_the_same_token_is_entered_once(path: Path) -> None:
    spend_two_thirds(path)
    before = path.read_bytes()
    with Ledger(path, DECLARED, "run-1, resumed") as ledger:
        again = ledger.spend(THIRD, "County", "County/measure")
        assert (again.sequence, again.run) == (2, "run-1")
        assert ledger.spent == Fraction(2, 3)
        assert path.read_bytes() == before
        third = ledger.spend(THIRD, "Tract", "Tract/measure")
        assert (third.sequence, third.run) == (3, "run-1, resumed")


def test_the_same_token_with_another_event_is_refused(path: Path) -> None:
    with Ledger(path, DECLARED, "run-1") as ledger:
        ledger.spend(THIRD, "State", "State/measure")
        with pytest.raises(BudgetError, match=r"entered as line 1 .'State'. with another event"):
            ledger.spend(DiscreteGaussianEvent(Fraction(4), 2), "State", "State/measure")
        with pytest.raises(BudgetError, match="with another event"):
            ledger.declassify(LOOK, "State", "State/measure")


def test_a_look_without_protection_is_entered_and_costs_nothing(path: Path) -> None:
    with Ledger(path, DECLARED, "run-1") as ledger:
        entry = ledger.declassify(LOOK, "evaluation", "evaluate")
        assert ledger.declassify(LOOK, "evaluation", "evaluate") is entry
        assert (entry.kind, entry.cost, ledger.spent) == ("declassify", None, 0)
    assert read_ledger(path) == (DECLARED, (entry,))


def test_a_non_private_event_cannot_pass_as_a_spend(path: Path) -> None:
    with Ledger(path, DECLARED, "run-1") as ledger:
        with pytest.raises(BudgetError, match=r"Ledger\.declassify"):
            ledger.spend(SequentialEvent((THIRD, LOOK)), "both", "both")
        assert ledger.entries == ()


def test_pure_budgets_are_kept_in_epsilon(path: Path) -> None:
    declared = Declaration("epsilon", Fraction(2), Neighbours.UNBOUNDED)
    with Ledger(path, declared, "run-1") as ledger:
        ledger.spend(DiscreteLaplaceEvent(Fraction(2), 1, 3), "a", "a")
        assert ledger.spent == Fraction(3, 2)
        with pytest.raises(BudgetError, match=r"wanted 3/4 \(0.75\)"):
            ledger.spend(DiscreteLaplaceEvent(Fraction(4), 1, 3), "b", "b")
        with pytest.raises(BudgetError, match="no finite pure epsilon"):
            ledger.spend(THIRD, "c", "c")


@pytest.mark.parametrize("left", [1, 20, -1])
def test_a_torn_last_line_is_dropped_and_said(
    path: Path, caplog: pytest.LogCaptureFixture, left: int
) -> None:
    spend_two_thirds(path)
    whole = path.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    kept = len(whole) - len(last)
    path.write_bytes(whole[:kept] + last[:left])  # -1: the whole line but for its end
    assert [entry.token for entry in read_ledger(path)[1]] == ["State/measure"]
    with caplog.at_level(logging.WARNING), Ledger(path, DECLARED, "run-1") as ledger:
        assert ledger.spent == Fraction(1, 3)
        assert path.read_bytes() == whole[:kept]
        ledger.spend(THIRD, "County", "County/measure")
    assert "dropped an unfinished last line" in caplog.text
    assert path.read_bytes() == whole


@pytest.mark.parametrize("start", [b"", b'{"sequence":0,"ki'])
def test_a_ledger_torn_at_its_first_line_begins_again(path: Path, start: bytes) -> None:
    path.write_bytes(start)
    Ledger(path, DECLARED, "run-1").close()
    assert read_ledger(path) == (DECLARED, ())


def replaced(path: Path, line: int, old: str, new: str) -> None:
    content = path.read_text().splitlines()
    assert old in content[line]
    content[line] = content[line].replace(old, new)
    path.write_text("\n".join(content) + "\n")


@pytest.mark.parametrize(
    ("line", "old", "new"),
    [
        (0, '"format":1', '"format":2'),
        (0, '"rho"', '"sigma"'),
        (0, '"budget":"1"', '"budget":"1/0"'),
        (0, '"bounded"', '"related"'),
        (1, "{", ""),
        (1, '"sequence":1', '"sequence":2'),
        (1, '"cost":"1/3"', '"cost":"1/4"'),
        (1, '"cost":"1/3"', '"cost":null'),
        (1, '"variance":"3"', '"variance":"4"'),
        (1, '"variance":"3"', '"variance":3.0'),
        (1, '"discrete_gaussian"', '"nothing"'),
        (1, '"kind":"spend"', '"kind":"declassify"'),
        (1, '"run":"run-1"', '"run":"run-1","note":"x"'),
        (1, '"token":"State/measure",', ""),
        (2, "County/measure", "State/measure"),
        (1, '"sequence":1', '"sequence":1,"sequence":7'),
    ],
)
def test_any_other_change_to_a_line_is_refused(path: Path, line: int, old: str, new: str) -> None:
    spend_two_thirds(path)
    replaced(path, line, old, new)
    for opening in (lambda: read_ledger(path), lambda: Ledger(path, DECLARED, "run-1")):
        with pytest.raises(StoreError, match=f"line {line + 1} of the ledger .* is corrupt"):
            opening()


def test_a_missing_line_and_bytes_that_are_no_text_are_refused(path: Path) -> None:
    spend_two_thirds(path)
    first, second, third = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + third)
    with pytest.raises(StoreError, match=r"line 2 .* corrupt"):
        read_ledger(path)
    path.write_bytes(first + b"\xff\xfe\n" + second)
    with pytest.raises(StoreError, match=r"line 2 .* corrupt"):
        read_ledger(path)


def test_lines_that_add_up_to_more_than_is_declared_are_refused(path: Path) -> None:
    spend_two_thirds(path)
    replaced(path, 0, '"budget":"1"', '"budget":"1/2"')
    with pytest.raises(StoreError, match="more than it declares"):
        read_ledger(path)


def test_another_declaration_is_refused(path: Path) -> None:
    spend_two_thirds(path)
    for other in (
        Declaration("rho", Fraction(2), Neighbours.BOUNDED),
        Declaration("rho", Fraction(1), Neighbours.UNBOUNDED),
    ):
        with pytest.raises(BudgetError, match="declares rho = 1 under bounded neighbours, the run wants"):
            Ledger(path, other, "run-2")


def test_only_one_writer_at_a_time(path: Path) -> None:
    with Ledger(path, DECLARED, "run-1") as ledger:
        with pytest.raises(StoreError, match="open in another run"):
            Ledger(path, DECLARED, "run-2")
        ledger.spend(THIRD, "State", "State/measure")
    Ledger(path, DECLARED, "run-2").close()


def test_a_refused_opening_lets_the_next_one_in(path: Path) -> None:
    spend_two_thirds(path)
    with pytest.raises(BudgetError):
        Ledger(path, Declaration("rho", Fraction(2), Neighbours.BOUNDED), "run-2")
    Ledger(path, DECLARED, "run-1").close()


def test_a_line_that_could_not_be_written_leaves_no_trace(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with Ledger(path, DECLARED, "run-1") as ledger:
        before = path.read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(StoreError, match=r"No space left.*Nothing was spent"):
                ledger.spend(THIRD, "State", "State/measure")
        assert path.read_bytes() == before
        assert ledger.entries == ()
        assert ledger.spend(THIRD, "State", "State/measure").sequence == 1


def test_a_path_that_cannot_be_opened_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="could not open the ledger"):
        Ledger(tmp_path / "absent" / "ledger.jsonl", DECLARED, "run-1")
    with pytest.raises(StoreError, match="could not read the ledger"):
        read_ledger(tmp_path / "ledger.jsonl")
    (tmp_path / "empty").touch()
    with pytest.raises(StoreError, match="no finished line"):
        read_ledger(tmp_path / "empty")


@pytest.mark.parametrize(("unit", "total"), [("sigma", Fraction(1)), ("rho", Fraction(0)), ("rho", 1.5)])
def test_a_declaration_is_a_unit_and_a_fraction_above_zero(unit, total) -> None:
    with pytest.raises(BudgetError):
        Declaration(unit, total, Neighbours.BOUNDED)
