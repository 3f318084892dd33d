"""The book of a register: what it allows, what it refuses, and that nothing is ever lost from it."""

import json
import subprocess
import sys
import threading
import time
from contextlib import closing
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.accounting.events import (
    ZCDP,
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    IntegerSubspaceGaussian,
    Neighbours,
    ParallelEvent,
    RandomizedResponse,
)
from tallyveil.accounting.guarantee import compose
from tallyveil.accounting.ledger.book import (
    Allowance,
    Spend,
    create_book,
    enter_spend_in_book,
    merge_books,
    read_book,
    record_spends,
)
from tallyveil.accounting.ledger.chain import ChainedFile
from tallyveil.accounting.ledger.joint import published_epsilon
from tallyveil.accounting.renyi import zcdp_to_epsilon
from tallyveil.errors import BudgetError, StoreError

BOUNDED, UNBOUNDED = Neighbours.BOUNDED, Neighbours.UNBOUNDED


def spend(rho="1/4", token="a", description="a release"):
    return Spend(ZCDP(rho), BOUNDED, description, token)


@pytest.fixture
def book(tmp_path):
    """A book that allows two releases of rho 1/4 and no third."""
    path = tmp_path / "book.jsonl"
    create_book(path, "Persons", Allowance.of("rho <= 1/2"), BOUNDED)
    return path


@pytest.mark.parametrize(
    ("text", "unit", "budget"),
    [
        ("rho <= 1/2", "rho", Fraction(1, 2)),
        ("  epsilon <=2 ", "epsilon", Fraction(2)),
        ("epsilon <= 2 at 0", "epsilon", Fraction(2)),
    ],
)
def test_allowances(text, unit, budget):
    allowance = Allowance.of(text)
    assert (allowance.cost_unit, allowance.budget) == (unit, budget)
    assert Allowance.of(allowance.text) == allowance


@given(st.fractions(Fraction(1, 100), 50), st.integers(1, 30))
def test_an_epsilon_at_a_delta_is_never_exceeded_and_nearly_reached(epsilon, power):
    allowance = Allowance.of(f"epsilon <= {epsilon} at 1e-{power}")
    assert allowance.cost_unit == "rho"
    assert zcdp_to_epsilon(allowance.budget, Fraction(1, 10**power)) <= epsilon
    assert zcdp_to_epsilon(allowance.budget * Fraction(1001, 1000), Fraction(1, 10**power)) > epsilon


@pytest.mark.parametrize(
    "text",
    ["", "rho", "rho < 1", "rho <= 1 at 1e-6", "mu <= 1", "rho <= -1", "rho <= x", "epsilon <= 1 at 2"],
)
def test_what_is_no_allowance(text):
    with pytest.raises(BudgetError):
        Allowance.of(text)


def test_what_exceeds_the_allowance_is_refused_and_leaves_the_file_as_it_was(book):
    for token in "ab":
        enter_spend_in_book(book, spend(token=token))
    before = book.read_bytes()
    with pytest.raises(BudgetError, match="is left in the book") as caught:
        enter_spend_in_book(book, spend("1/1000000", token="c"))
    assert caught.value.code == "book-spent"
    assert book.read_bytes() == before
    assert read_book(book).left == 0


def test_the_same_act_is_entered_once(book):
    for _ in range(3):
        enter_spend_in_book(book, spend("1/2"))
    assert [entry.token for entry in read_book(book).entries] == ["a"]
    with pytest.raises(BudgetError, match="another event") as caught:
        enter_spend_in_book(book, spend("1/4"))
    assert caught.value.code == "book-unsuited"


def test_what_is_not_a_run_is_entered_every_time(book):
    for _ in range(2):
        enter_spend_in_book(book, spend(token=None))
    assert len({entry.token for entry in read_book(book).entries}) == 2


def test_the_joint_guarantee_is_that_of_all_events(book):
    enter_spend_in_book(book, Spend(DiscreteGaussian(9, 1, 2), BOUNDED, "x", "x"))
    # Under unbounded neighbours half as many answers move.
    enter_spend_in_book(book, Spend(DiscreteGaussian(9), UNBOUNDED, "y", "y"))
    delta = Fraction(1, 10**6)
    whole = compose(DiscreteGaussian(9, 1, 4), neighbours="bounded").epsilon(delta)
    assert published_epsilon(read_book(book).joint, delta).bounds.upper == pytest.approx(
        whole.upper, abs=1e-9
    )
    assert read_book(book).spent == Fraction(2, 9)


def test_what_has_no_cost_in_the_book_is_refused(book, tmp_path):
    for event in (
        ApproximateDP("1/100", "1e-9"),
        IntegerSubspaceGaussian(10**6, 2, ("total",), total_variation="1e-20"),
    ):
        with pytest.raises(BudgetError):
            enter_spend_in_book(book, Spend(event, BOUNDED, "x", "x"))
    unbounded = tmp_path / "unbounded.jsonl"
    create_book(unbounded, "Persons", Allowance.of("epsilon <= 1"), UNBOUNDED)
    with pytest.raises(BudgetError, match="takes both") as caught:
        enter_spend_in_book(unbounded, Spend(DiscreteLaplace(10), BOUNDED, "x", "x"))
    assert caught.value.code == "book-unsuited"
    enter_spend_in_book(unbounded, Spend(DiscreteLaplace(10), UNBOUNDED, "x", "x"))
    assert read_book(unbounded).left == Fraction(9, 10)
    assert not read_book(book).entries


def test_what_was_spent_elsewhere_is_recorded_also_beyond_the_allowance(book):
    record_spends(book, [spend("2")])
    assert read_book(book).left == Fraction(-3, 2)
    with pytest.raises(BudgetError):
        enter_spend_in_book(book, spend(token="b"))


def test_two_copies_of_a_book_are_merged(book, tmp_path):
    enter_spend_in_book(book, spend(token="both"))
    other = tmp_path / "other.jsonl"
    other.write_bytes(book.read_bytes())
    enter_spend_in_book(book, spend(token="here"))
    enter_spend_in_book(other, spend(token="there"))
    merge_books(book, other)
    merged = read_book(book)
    assert [entry.token for entry in merged.entries] == ["both", "here", "there"]
    assert merged.left == Fraction(-1, 4)
    before = book.read_bytes()
    merge_books(book, other)
    assert book.read_bytes() == before


def test_a_book_of_something_else_is_not_merged(book, tmp_path):
    other = tmp_path / "other.jsonl"
    create_book(other, "Housing units", Allowance.of("rho <= 1/2"), BOUNDED)
    with pytest.raises(BudgetError) as caught:
        merge_books(book, other)
    assert caught.value.code == "book-unsuited"


def test_a_book_is_begun_once(book):
    with pytest.raises(StoreError) as caught:
        create_book(book, "Persons", Allowance.of("rho <= 100"), BOUNDED)
    assert caught.value.code == "book-taken"


@pytest.mark.parametrize("written", [0, 1, 27, 28, 90, -1])
def test_a_book_whose_first_line_was_cut_short_is_begun_again(book, tmp_path, written):
    path = tmp_path / "cut.jsonl"
    path.write_bytes(book.read_bytes().split(b"\n")[0][:written])
    create_book(path, "Persons", Allowance.of("rho <= 1"), BOUNDED)
    assert read_book(path).register == "Persons"


def test_a_missing_book_is_not_made(tmp_path):
    with pytest.raises(StoreError):
        enter_spend_in_book(tmp_path / "absent.jsonl", spend())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"no newline", b"id,age\n1,2\n3,4", b"\0" * 100])
def test_a_file_of_something_else_stays_as_it_is(tmp_path, content):
    path = tmp_path / "persons.csv"
    path.write_bytes(content)
    with pytest.raises(StoreError) as caught:
        create_book(path, "Persons", Allowance.of("rho <= 1"), BOUNDED)
    assert caught.value.code == "book-taken"
    with pytest.raises(StoreError):
        enter_spend_in_book(path, spend())
    assert path.read_bytes() == content


def test_a_book_that_is_replaced_while_a_run_waits_for_it(book, tmp_path):
    """The line goes into the new file and not into the one that is no more."""
    holder = ChainedFile(book, "book")
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(book.read_bytes())
    waiting = threading.Thread(target=lambda: enter_spend_in_book(book, spend()))
    waiting.start()
    time.sleep(0.2)
    copy.replace(book)
    holder.close()
    waiting.join()
    assert len(read_book(book).entries) == 1


def test_a_link_leads_to_the_book(book, tmp_path):
    (tmp_path / "link").symlink_to(book)
    enter_spend_in_book(tmp_path / "link", spend())
    assert len(read_book(book).entries) == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("date", 5),
        ("description", None),
        ("description", []),
        ("token", 7),
        ("sequence", True),
        ("sequence", 1.0),
    ],
)
def test_a_value_of_another_kind_is_refused(book, key, value):
    entry = {
        "sequence": 1,
        "kind": "spend",
        "date": "",
        "description": "",
        "token": "",
        "neighbours": "bounded",
    }
    with closing(ChainedFile(book, "book")) as file:
        file.append(entry | {"event": ZCDP("1/4").to_mapping()} | {key: value})
    with pytest.raises(StoreError, match="corrupt"):
        read_book(book)


@pytest.mark.parametrize(
    "change", [{"register": []}, {"register": None}, {"format": True}, {"more": 1}, {"allow": "rho <= 2/1"}]
)
def test_a_first_line_of_another_kind_is_refused(tmp_path, change):
    first = {
        "sequence": 0, "kind": "book", "format": 1, "date": "", "register": "R", "allow": "rho <= 2",
        "neighbours": "bounded",
    }  # fmt: skip
    with closing(ChainedFile(tmp_path / "b", "book")) as file:
        file.append(first | change)
    with pytest.raises(StoreError, match="corrupt"):
        read_book(tmp_path / "b")


def test_what_records_can_leave_is_of_integer_answers(book):
    """A count of the records of a part costs nothing where records only change, and shows where a record is."""
    for part in (ZCDP("1/10"), ApproximateDP(1, 0), RandomizedResponse(1)):
        with pytest.raises(BudgetError, match="leave one part"):
            enter_spend_in_book(book, Spend(ParallelEvent((part, part)), BOUNDED, "x", "x"))
        with pytest.raises(BudgetError, match="leave one part"):
            compose(ParallelEvent((part, part)), neighbours="bounded")


def test_a_description_is_one_printable_line(book):
    enter_spend_in_book(book, spend(description="a\n\x1b[2Jb \udc80"))
    (entry,) = read_book(book).entries
    assert entry.description == "a \\u001b[2Jb \\udc80"


@pytest.mark.parametrize("change", ["value", "removed", "swapped", "key", "twice"])
def test_a_changed_line_is_found(book, change):
    for token in "ab":
        enter_spend_in_book(book, spend("1/8", token=token))
    lines = book.read_bytes().splitlines(keepends=True)
    if change == "value":
        lines[1] = lines[1].replace(b"1/8", b"1/9")
    elif change == "removed":
        del lines[1]
    elif change == "swapped":
        lines[1:] = lines[:0:-1]
    elif change == "key":
        lines[0] = lines[0].replace(b'"register"', b'"registry"')
    else:
        lines.append(lines[-1])
    book.write_bytes(b"".join(lines))
    with pytest.raises(StoreError, match="corrupt"):
        read_book(book)


def test_an_unknown_key_in_a_sealed_line_is_refused(book):
    with_key = ChainedFile(book, "book")
    entry = {
        "sequence": 1,
        "kind": "spend",
        "date": "",
        "description": "",
        "token": "",
        "neighbours": "bounded",
    }
    with_key.append(entry | {"event": ZCDP("1/4").to_mapping(), "discount": "1/8"})
    with_key.close()
    with pytest.raises(StoreError, match="not as a book writes it"):
        read_book(book)


def test_an_unfinished_line_is_dropped(book):
    enter_spend_in_book(book, spend())
    whole = book.read_bytes()
    book.write_bytes(whole + b'{"sequence":2,"kind":"sp')
    assert len(read_book(book).entries) == 1
    enter_spend_in_book(book, spend(token="b"))
    assert book.read_bytes().startswith(whole)
    assert [json.loads(line)["sequence"] for line in book.read_bytes().splitlines()] == [0, 1, 2]


RACER = """
import sys
from pathlib import Path
from tallyveil.accounting.events import ZCDP, Neighbours
from tallyveil.accounting.ledger.book import Spend, enter_spend_in_book
from tallyveil.errors import BudgetError
for n in range(20):
    try:
        enter_spend_in_book(Path(sys.argv[1]), Spend(ZCDP("1/64"), Neighbours.BOUNDED, "x", f"{sys.argv[2]} {n}"))
    except BudgetError as error:
        assert error.code == "book-spent"
"""


def test_processes_that_spend_at_once_do_not_exceed_the_allowance(book):
    racers = [subprocess.Popen([sys.executable, "-c", RACER, str(book), name]) for name in "ab"]
    assert [racer.wait() for racer in racers] == [0, 0]
    assert len(read_book(book).entries) == 32
    assert read_book(book).left == 0
