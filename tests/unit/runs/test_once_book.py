"""A run enters its spend into the book of its register, before everything that could fail and once."""

import shutil
from fractions import Fraction

import pytest

from tallyveil.accounting.events import ZCDP, Neighbours
from tallyveil.accounting.ledger.book import Allowance, Spend, create_book, read_book, record_spends
from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.errors import BudgetError, StoreError
from tallyveil.runs.once import run_product

from .conftest import KEY, Killed, Toy, contents


@pytest.fixture
def book(tmp_path):
    """A book that allows two of the runs of `make`, whose rho is 1."""
    path = tmp_path / "book.jsonl"
    create_book(path, "Persons", Allowance.of("rho <= 2"), Neighbours.BOUNDED)
    return path


def test_the_third_of_two_allowed_runs_is_refused_before_its_inputs_are_opened(make, tmp_path, book):
    class Unread(Toy):
        def read(self, out, observer):
            raise AssertionError("an input was opened")

    for name in "ab":
        make(tmp_path / name, test_key=None, book=book)
    with pytest.raises(BudgetError) as caught:
        run_product(Unread(), tmp_path / "c", book=book)
    assert caught.value.code == "book-spent"
    assert not (tmp_path / "c").exists()
    # What is finished is not spent again.
    assert make(tmp_path / "a", test_key=None, book=book).already_finished
    held = read_book(book)
    ledgers = [read_ledger(tmp_path / name / "ledger.jsonl")[1][0] for name in "ab"]
    assert [entry.token for entry in held.entries] == [entry.token for entry in ledgers]
    assert [entry.event for entry in held.entries] == [entry.event for entry in ledgers]
    assert [entry.description for entry in held.entries] == ["a test, in a", "a test, in b"]


def test_a_run_that_another_one_overtakes_leaves_nothing(make, tmp_path, book):
    """Too little is left only after the inputs were read."""
    make(tmp_path / "a", test_key=None, book=book)

    class Overtaken(Toy):
        def read(self, out, observer):
            make(tmp_path / "b", test_key=None, book=book)
            return self

    with pytest.raises(BudgetError) as caught:
        run_product(Overtaken(), tmp_path / "c", book=book)
    assert caught.value.code == "book-spent"
    assert not (tmp_path / "c").exists()


def test_killed_before_every_change_to_the_disk_the_book_never_has_too_little(make, tmp_path, kill_at_step):
    number, killed = 0, True
    while killed:
        number += 1
        out, path = tmp_path / "out", tmp_path / "book.jsonl"
        create_book(path, "Persons", Allowance.of("rho <= 2"), Neighbours.BOUNDED)
        killed = kill_at_step(number, lambda out=out, path=path: make(out, test_key=None, book=path))
        ledger = out / "ledger.jsonl"
        spent = ledger.exists() and b'"spend"' in ledger.read_bytes()
        drawn = (out / "a.txt").exists()
        entered = len(read_book(path).entries)
        assert entered >= spent >= drawn
        make(out, test_key=None, book=path)
        # A run that was killed before it was in its folder may begin once more; it is never entered twice.
        assert len(read_book(path).entries) == 1
        shutil.rmtree(out)
        path.unlink()
    assert number > 60


def test_a_test_key_is_in_no_book(make, tmp_path, book):
    make(tmp_path / "a", test_key=KEY, book=book)
    assert not read_book(book).entries


def test_a_run_begun_without_the_book_is_entered_when_it_goes_on_with_it(tmp_path, book):
    def killed(run):
        raise Killed

    with pytest.raises(Killed):
        run_product(Toy(during=killed), tmp_path / "a")
    run_product(Toy(), tmp_path / "a", book=book)
    assert read_book(book).spent == Fraction(1)


def test_a_release_finished_without_the_book_is_entered_by_the_same_command(make, tmp_path, book):
    make(tmp_path / "a", test_key=None)
    for _ in range(2):
        assert make(tmp_path / "a", test_key=None, book=book).already_finished
    assert [entry.description for entry in read_book(book).entries] == ["a test, in a"]
    make(tmp_path / "b")
    make(tmp_path / "b", book=book)
    assert len(read_book(book).entries) == 1


def test_a_run_in_a_full_book_goes_on_with_its_key(tmp_path, book):
    """Killed between its entry and its ledger, while others spent what was left: it is paid for."""

    def killed(run):
        raise Killed

    with pytest.raises(Killed):
        run_product(Toy(during=killed), tmp_path / "a", book=book)
    (tmp_path / "a" / "ledger.jsonl").unlink()
    for name in ("plan.json", "a.txt", "b.txt"):
        (tmp_path / "a" / name).unlink(missing_ok=True)
    for name in "ab":
        shutil.rmtree(tmp_path / "a" / name, ignore_errors=True)
    record_spends(book, [Spend(ZCDP(7), Neighbours.BOUNDED, "another program")])
    run_product(Toy(), tmp_path / "a", book=book)
    assert [entry.description for entry in read_book(book).entries] == ["a test, in a", "another program"]


def test_a_book_that_cannot_be_opened_does_not_cost_a_run_its_key(tmp_path, book):
    def killed(run):
        raise Killed

    with pytest.raises(Killed):
        run_product(Toy(during=killed), tmp_path / "a")
    key = (tmp_path / "a" / "private" / "run.json").read_bytes()
    with pytest.raises(StoreError):
        run_product(Toy(), tmp_path / "a", book=tmp_path / "absent.jsonl")
    assert (tmp_path / "a" / "private" / "run.json").read_bytes() == key


def test_what_was_spent_without_the_book_is_not_refused(tmp_path, book):
    def killed(run):
        raise Killed

    with pytest.raises(Killed):
        run_product(Toy(during=killed), tmp_path / "a")
    record_spends(book, [Spend(ZCDP(2), Neighbours.BOUNDED, "another program")])
    run_product(Toy(), tmp_path / "a", book=book)
    assert read_book(book).left == -1


def test_the_release_does_not_depend_on_the_book(make, tmp_path, book):
    make(tmp_path / "a")
    make(tmp_path / "b", book=book)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
