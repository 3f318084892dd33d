"""The book of a register through its doors: two releases of the three that were asked for, one account of them."""

import json
from fractions import Fraction

import pytest

import tallyveil
from tallyveil.accounting.numbers import at_most
from tallyveil.errors import BudgetError, ConfigError

ALLOWED = "rho <= 4"  # two releases of rho 2

SPENDING = """
neighbours = "bounded"
[[events]]
kind = "zcdp"
rho = "1/2"
"""


@pytest.fixture
def book(tmp_path):
    return tallyveil.create_book(tmp_path / "book.jsonl", register="<b>Persons</b>", allow=ALLOWED)


def test_the_third_release_is_refused_and_the_account_is_that_of_the_folders(
    small_release, tmp_path, book, command, monkeypatch
):
    # Named in each of the three ways.
    named = small_release.with_name("named.toml")
    named.write_text(small_release.read_text() + '\n[book]\npath = "../book.jsonl"\n')
    assert tallyveil.plan(named).content.digest() == tallyveil.plan(small_release).content.digest()
    out = command("run", named, "--out", tmp_path / "a")
    assert "The book of <b>Persons</b> allows rho <= 4: rho 2 is spent, 2 is left." in out
    monkeypatch.setenv("TALLYVEIL_BOOK", str(book.path))
    tallyveil.measure(small_release, tmp_path / "b")
    tallyveil.estimate(tmp_path / "b", tmp_path / "estimated")
    small_release.with_name("people.parquet").unlink()  # what is refused opens no records
    with pytest.raises(BudgetError) as caught:
        tallyveil.run(small_release, tmp_path / "c", book=book.path)
    assert caught.value.code == "book-spent"
    assert not (tmp_path / "c").exists()
    held = tallyveil.open_book(book.path)
    assert (held.spent, held.left) == (Fraction(4), Fraction(0))
    assert held.entries["release"].to_list() == ["release small, in a", "measurements of small, in b"]
    folders = tallyveil.total_guarantee([tmp_path / "a", tmp_path / "estimated"]).content
    assert held.total() == {key: value for key, value in folders.items() if key != "runs"}


def test_several_books_are_refused(small_release, tmp_path, book, monkeypatch):
    monkeypatch.setenv("TALLYVEIL_BOOK", str(tmp_path / "another.jsonl"))
    with pytest.raises(ConfigError) as caught:
        tallyveil.run(small_release, tmp_path / "a", book=book.path)
    assert caught.value.code == "book-unsuited"
    monkeypatch.setenv("TALLYVEIL_BOOK", str(tmp_path / "." / "book.jsonl"))
    monkeypatch.chdir(tmp_path)
    tallyveil.run(small_release, tmp_path / "a", book="book.jsonl")
    assert len(tallyveil.open_book(book.path).entries) == 1


def test_what_was_made_without_the_book_is_entered_once(small_release, tmp_path, book, command):
    folders = [str(tmp_path / name) for name in "ab"]
    assert "No book" not in command("run", small_release, "--out", folders[0])
    # The second run says what both cost together.
    out = command("run", small_release, "--out", folders[1])
    together = tallyveil.total_guarantee(folders).content["epsilon"]["upper"]
    assert "(2 together)" in out
    assert at_most(together) in out
    for _ in range(2):
        command("book", "enter", book.path, *folders)
    assert tallyveil.open_book(book.path).left == 0
    tallyveil.run(small_release, tmp_path / "test", insecure_test_key="k")
    error = command("book", "enter", book.path, tmp_path / "test", code=5)
    assert "not protected" in error


def test_commands_and_page(tmp_path, command):
    path, other, spending = (str(tmp_path / name) for name in ("b.jsonl", "o.jsonl", "s.toml"))
    (tmp_path / "s.toml").write_text(SPENDING)
    command("book", "create", path, "--register", "<b>Persons</b>", "--allow", "epsilon <= 8 at 1e-10")
    (tmp_path / "o.jsonl").write_bytes((tmp_path / "b.jsonl").read_bytes())
    for file in (path, other):
        command("book", "enter", file, "--spending", spending, "--description", "older <i>tables</i>")
    assert "MORE THAN ALLOWED" in command("book", "merge", path, other)
    shown = json.loads(command("book", "show", path, "--json"))
    assert shown["spent"] == "1"
    assert [row["cost"] for row in shown["releases"]] == ["1/2", "1/2"]
    assert shown["total"]["epsilon"]["upper"] == pytest.approx(10.0, abs=1)
    command("book", "report", path, "--out", tmp_path / "page.html")
    before = (tmp_path / "b.jsonl").read_bytes()
    assert "input-in-output" in command("book", "report", path, "--out", path, code=8)
    assert (tmp_path / "b.jsonl").read_bytes() == before
    page = (tmp_path / "page.html").read_text()
    assert "&lt;b&gt;Persons" in page
    assert "<i>tables" not in page
    assert "more was spent than is allowed" in page
    command("book", "enter", path, code=2)
    command("book", "enter", path, "--spending", spending, code=2)
    (tmp_path / "s.toml").write_text(SPENDING.replace('"bounded"', '"unbounded"'))
    refused = command("book", "enter", path, "--spending", spending, "--description", "x", code=5)
    assert "book-unsuited" in refused
