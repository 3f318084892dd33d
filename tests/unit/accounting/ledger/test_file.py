"""The ledger: what it refuses, and what survives a crash."""

import hashlib
import json
import logging
import os
import resource
from fractions import Fraction
from pathlib import Path

import pytest

from tallyveil.accounting import (
    Declaration,
    DiscreteGaussian,
    DiscreteLaplace,
    Ledger,
    Neighbours,
    NonPrivateEvent,
    SequentialEvent,
    read_ledger,
)
from tallyveil.accounting.ledger.lines import NO_LINE, chained_line, line_hash
from tallyveil.errors import BudgetError, StoreError
from tallyveil.files.finished import ledger_bytes

DECLARED = Declaration("rho", Fraction(1), Neighbours.BOUNDED)
THIRD = DiscreteGaussian(3, multiplicity=2)  # rho = 1/3
LOOK = NonPrivateEvent("errors against the true counts")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


def spend_two_thirds(path: Path) -> None:
    with Ledger(path, DECLARED, "run-1") as ledger:
        ledger.spend(THIRD, "State", "State/measure")
        ledger.spend(THIRD, "County", "County/measure")


def lines(path: Path) -> list[dict]:
    """Content of every line, but for its place in the chain."""
    read = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: item[key] for key in item if key not in ("previous", "digest")} for item in read]


def test_a_ledger_begins_with_what_is_declared(path: Path) -> None:
    Ledger(path, DECLARED, "run-1").close()
    assert lines(path) == [
        {
            "sequence": 0,
            "kind": "declaration",
            "format": 2,
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
        hair = DiscreteGaussian(10**9)
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
            ledger.spend(DiscreteGaussian(4, multiplicity=2), "State", "State/measure")
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
        with pytest.raises(BudgetError, match=r"enters it as a declassification"):
            ledger.spend(SequentialEvent((THIRD, LOOK)), "both", "both")
        assert ledger.entries == ()


def test_pure_budgets_are_kept_in_epsilon(path: Path) -> None:
    declared = Declaration("epsilon", Fraction(2), Neighbours.UNBOUNDED)
    with Ledger(path, declared, "run-1") as ledger:
        ledger.spend(DiscreteLaplace(2, multiplicity=3), "a", "a")
        assert ledger.spent == Fraction(3, 2)
        with pytest.raises(BudgetError, match=r"wanted 3/4 \(0.75\)"):
            ledger.spend(DiscreteLaplace(4, multiplicity=3), "b", "b")
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


def test_a_reader_leaves_out_a_last_line_torn_anywhere(path: Path) -> None:
    spend_two_thirds(path)
    whole = path.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    for kept in (0, 1, 2, len(last) // 2, len(last) - 1):
        path.write_bytes(whole[: len(whole) - len(last) + kept])
        assert [entry.token for entry in read_ledger(path)[1]] == ["State/measure"]


def test_every_line_carries_the_hash_of_the_one_before_and_its_own(path: Path) -> None:
    spend_two_thirds(path)
    whole = path.read_bytes().splitlines()
    previous = "0" * 64
    for line in whole:
        read = json.loads(line)
        assert list(read)[-2:] == ["previous", "digest"]
        assert read["previous"] == previous
        assert read["digest"] == hashlib.sha256(line[: line.rindex(b',"digest"')] + b"}").hexdigest()
        previous = hashlib.sha256(line).hexdigest()
    with Ledger(path, DECLARED, "run-1") as ledger:
        assert ledger.head == previous
        ledger.spend(THIRD, "Tract", "Tract/measure")
        assert ledger.head == hashlib.sha256(path.read_bytes().splitlines()[-1]).hexdigest() != previous


OPENINGS = (read_ledger, lambda path: Ledger(path, DECLARED, "run-1"))


def refused(path: Path, line: int) -> None:
    for opening in OPENINGS:
        with pytest.raises(StoreError, match=f"line {line} of the ledger .* is corrupt"):
            opening(path)


@pytest.mark.parametrize("line", [0, 1, 2])
@pytest.mark.parametrize(
    ("old", "new"), [("run-1", "run-2"), ('"sequence":', '"sequence": '), ("{", ""), ("0", "1")]
)
def test_any_change_to_a_line_is_refused(path: Path, line: int, old: str, new: str) -> None:
    spend_two_thirds(path)
    content = path.read_text().splitlines(keepends=True)
    assert old in content[line]
    content[line] = content[line].replace(old, new, 1)
    path.write_text("".join(content))
    refused(path, line + 1)


def test_lines_removed_reordered_repeated_or_put_in_are_refused(path: Path) -> None:
    spend_two_thirds(path)
    first, second, third = path.read_bytes().splitlines(keepends=True)
    for order, line in (
        ((second, third), 1),
        ((first, third), 2),
        ((first, third, second), 2),
        ((first, second, second, third), 3),
        ((first, b"\xff\xfe\n", second, third), 2),
        ((first, b"\n", second, third), 2),
        ((first, b"[" * 100_000 + b"\n"), 2),
    ):
        path.write_bytes(b"".join(order))
        refused(path, line)


def test_lines_of_another_ledger_do_not_fit(path: Path, tmp_path: Path) -> None:
    spend_two_thirds(path)
    other = tmp_path / "other.jsonl"
    with Ledger(other, DECLARED, "run-2") as ledger:
        ledger.spend(THIRD, "State", "a")
        ledger.spend(THIRD, "County", "b")
    ours, theirs = (item.read_bytes().splitlines(keepends=True) for item in (path, other))
    path.write_bytes(ours[0] + ours[1] + theirs[2])
    refused(path, 3)


def test_lines_left_off_at_the_end_do_not_show_but_in_the_head(path: Path) -> None:
    spend_two_thirds(path)
    with Ledger(path, DECLARED, "run-1") as ledger:
        head = ledger.head
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    with Ledger(path, DECLARED, "run-1") as ledger:
        assert ledger.spent == Fraction(1, 3)
        assert ledger.head != head


def rewritten(path: Path, line: int, **changes: object) -> None:
    """Change a line and mend the whole chain, as somebody would who means to deceive."""
    mended, previous = [], NO_LINE
    for number, mapping in enumerate(lines(path)):
        mended.append(chained_line(mapping | (changes if number == line else {}), previous))
        previous = line_hash(mended[-1])
    path.write_bytes(b"".join(item + b"\n" for item in mended))


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        (0, {"format": 3}),
        (0, {"kind": "spend"}),
        (0, {"budget_unit": "sigma"}),
        (0, {"budget": "1/0"}),
        (0, {"budget": "1e999999999"}),
        (0, {"budget": 1.5}),
        (0, {"neighbours": "related"}),
        (1, {"sequence": 2}),
        (1, {"cost": "1/4"}),
        (1, {"cost": None}),
        (1, {"event": THIRD.to_mapping() | {"variance": "4"}}),
        (1, {"event": THIRD.to_mapping() | {"variance": 3.0}}),
        (1, {"event": THIRD.to_mapping() | {"kind": "nothing"}}),
        (1, {"event": []}),
        (1, {"kind": "declassify"}),
        (1, {"note": "x"}),
        (2, {"token": "State/measure"}),
    ],
)
def test_what_a_line_says_must_be_true_even_in_an_unbroken_chain(
    path: Path, line: int, changes: dict
) -> None:
    spend_two_thirds(path)
    rewritten(path, line)
    read_ledger(path)
    rewritten(path, line, **changes)
    refused(path, line + 1)


def test_lines_that_add_up_to_more_than_is_declared_are_refused(path: Path) -> None:
    spend_two_thirds(path)
    rewritten(path, 0, budget="1/2")
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
    (tmp_path / "begun").write_bytes(b'{"sequence": 0')
    with pytest.raises(StoreError, match="no finished line"):
        read_ledger(tmp_path / "begun")


@pytest.mark.parametrize(("unit", "total"), [("sigma", Fraction(1)), ("rho", Fraction(0)), ("rho", 1.5)])
def test_a_declaration_is_a_unit_and_a_fraction_above_zero(unit, total) -> None:
    with pytest.raises(BudgetError):
        Declaration(unit, total, Neighbours.BOUNDED)


def test_a_spend_of_which_the_disk_takes_only_a_part_is_not_made(path: Path) -> None:
    """The system then reports no error, but how many bytes it took."""
    with Ledger(path, DECLARED, "run-1") as ledger:
        before = path.read_bytes()
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 40, limits[1]))
            with pytest.raises(StoreError, match="Nothing was spent"):
                ledger.spend(THIRD, "State", "State/measure")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert (ledger.entries, path.read_bytes()) == ((), before)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no such device")
def test_a_device_is_not_read_as_a_ledger(tmp_path: Path) -> None:
    """To read it would never end."""
    (tmp_path / "ledger.jsonl").symlink_to("/dev/zero")
    for path in (Path("/dev/zero"), tmp_path / "ledger.jsonl", tmp_path):
        with pytest.raises(StoreError, match="it is no regular file"):
            read_ledger(path)
    with pytest.raises(StoreError, match="cannot be read") as caught:
        ledger_bytes(tmp_path)
    assert caught.value.code == "ledger-damaged"
