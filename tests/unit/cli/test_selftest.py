"""`tallyveil selftest` shows what was checked, and fails where an answer differs."""

import json

import pytest
from typer.testing import CliRunner

from tallyveil.cli.main import app
from tallyveil.selftest import all_answers
from tallyveil.selftest.answers import equal

GOOD = equal("hash", "SHA-256, one block", "FIPS 180-4", "ba78", "ba78")
BAD = equal("cipher", "AES-256, one block", "FIPS 197, C.3", "8ea2", "0000")


@pytest.fixture
def given(monkeypatch):
    """Sets what the checks say; returns what they were asked for."""
    asked = []

    def set_answers(*answers):
        def known_answers(*, topdown):
            asked.append(topdown)
            return iter(answers)

        monkeypatch.setattr(all_answers, "known_answers", known_answers)
        return asked

    return set_answers


def test_the_table_names_every_check(command, given):
    asked = given(GOOD)
    said = command("selftest")
    assert "SHA-256, one block" in said
    assert "FIPS 180-4" in said
    assert "All 1 answers are the known ones." in said
    assert asked == [False]


def test_quiet_says_nothing_and_topdown_is_asked_for(command, given):
    asked = given(GOOD)
    assert command("selftest", "--topdown", "--quiet") == ""
    assert asked == [True]


def test_as_json(command, given):
    given(GOOD)
    said = json.loads(command("selftest", "--json"))
    assert said["passed"] is True
    assert said["answers"][0]["wanted"] == "ba78"
    assert "cryptography" in said["versions"]


def test_an_answer_that_differs_fails(command, given):
    given(GOOD, BAD)
    said = command("selftest", code=7)
    assert "error [selftest-failed]" in said
    assert "1 of 2" in said
    assert "AES-256, one block (FIPS 197, C.3): got 0000, wanted 8ea2" in said


def test_an_answer_that_differs_is_in_the_json_and_in_the_table(given):
    given(GOOD, BAD)
    said = CliRunner().invoke(app, ["selftest", "--json"])
    assert json.loads(said.stdout)["passed"] is False
    assert said.exit_code
    given(GOOD, BAD)
    assert "DIFFERENT" in CliRunner().invoke(app, ["selftest"]).stdout
