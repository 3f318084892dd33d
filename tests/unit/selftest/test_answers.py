"""Every known answer is given, and a wrong one is found."""

import polars as pl
import pytest

from tallyveil.accounting.numbers import Bounds
from tallyveil.selftest import all_answers, answers
from tallyveil.selftest.all_answers import known_answers
from tallyveil.selftest.answers import equal


def test_all_answers_are_the_known_ones():
    known = list(known_answers(topdown=True))
    assert not [answer for answer in known if not answer.same]
    assert {answer.area for answer in known} == {"cipher", "hash", "noise", "accounting", "release"}
    assert len({answer.name for answer in known}) == len(known) == 23


@pytest.mark.parametrize(
    ("module", "constant", "value", "check"),
    [
        (answers, "CTR", "00", answers.cipher_answers),
        (answers, "SHA256_OF_ABC", "00", answers.hash_answers),
        (answers, "LAST", "1 2", answers.noise_answers),
        (answers, "NOISE_KEY", bytes(32), answers.noise_answers),
        (all_answers, "ANSWERS", (10, 10, 10, 20, 10, 10, 11), all_answers.accounting_answers),
        (all_answers, "KEY", "another", all_answers.table_answers),
    ],
)
def test_a_wrong_answer_differs(monkeypatch, module, constant, value, check):
    monkeypatch.setattr(module, constant, value)
    assert not all(answer.same for answer in check())


@pytest.mark.parametrize(
    ("lower", "upper", "same"),
    [
        (1.9, 2.1, False),  # too far apart
        (2 - 1e-10, 2 + 1e-10, True),
        (2 - 2e-10, 2 - 1e-10, False),  # an upper bound below the exact cost
        (2 + 1e-10, 2 + 2e-10, False),
    ],
)
def test_bounds_must_enclose_the_cost_and_be_close(lower, upper, same):
    assert all_answers._enclosed("two", "here", "2.0", Bounds(lower, upper)).same is same


def test_equal_compares_whole_texts():
    assert equal("hash", "one", "here", "ab", "ab").same
    assert not equal("hash", "one", "here", "ab", "abc").same


def test_a_digest_of_rows_ignores_their_order():
    rows = [("a", 1), ("b", 2)]
    tables = [
        pl.DataFrame(one, schema=["label", "count"], orient="row") for one in (rows, rows[::-1], rows[:1])
    ]
    digests = [all_answers.rows_digest(table) for table in tables]
    assert digests[0] == digests[1] != digests[2]
