"""Mutation testing: which mutants change words alone, and what the score counts."""

import json
import os
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest
from tests.commands import NotCheckedError
from tests.mutants.outcomes import Outcome, Results, outcome_of
from tests.mutants.words import changes_words_alone

PROJECT = Path(__file__).parents[2]
FUNCTION = '''
def refuse(found, *, wanted="one"):
    """Refuse it."""
    logger.info("a size was refused")
    if found == "none":
        raise SchemaError(
            f"size {found}: " + ("too small" if wanted == "one" else "too large") + ", ".join(names)
            + table["reason"],
            code="wrong-size",
        )
'''


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"a size was refused"', '"XXa size was refusedXX"', True),
        ('"too small"', '"TOO SMALL"', True),
        ('"too large"', '"XXtoo largeXX"', True),
        ('", ".join', '"XX, XX".join', True),
        ('"wrong-size"', '"WRONG-SIZE"', False),
        ('"reason"', '"XXreasonXX"', False),
        ('"none"', '"NONE"', False),
        ('wanted == "one" else', 'wanted == "ONE" else', False),
        ('wanted="one"', 'wanted="ONE"', False),
        ("join(names)", "join(None)", False),
        ('"a size was refused"', "None", False),
        ("{found}", "{wanted}", False),
        ("found ==", "found !=", False),
        (', ".join(names)\n            + table["reason"]', ', ".join(names)', False),
    ],
)
def test_words_are_texts_in_a_message_and_nothing_else(old, new, words):
    assert FUNCTION.count(old) == 1
    function = textwrap.dedent(FUNCTION).strip()
    mutant = function.replace(old, new).replace("def refuse", "def refuse__mutmut_1")
    assert changes_words_alone(function, mutant) is words


def test_the_same_function_changes_nothing():
    assert not changes_words_alone(FUNCTION.strip(), FUNCTION.strip())


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (1, Outcome.KILLED),
        (-11, Outcome.KILLED),
        (0, Outcome.SURVIVED),
        (33, Outcome.UNREACHED),
        (36, Outcome.ENDLESS),
        (-24, Outcome.LATE),
        (None, Outcome.NOT_RUN),
        (-15, Outcome.NOT_RUN),
    ],
)
def test_what_an_exit_code_means(code, outcome):
    assert outcome_of(code) is outcome


def results(outcomes, n_mutants=100, words=(), justified=()):
    return Results("noise", n_mutants, outcomes, frozenset(words), dict.fromkeys(justified, "no effect"))


MIXED = {
    "a": Outcome.KILLED,
    "b": Outcome.KILLED,
    "c": Outcome.ENDLESS,
    "d": Outcome.SURVIVED,
    "e": Outcome.UNREACHED,
}


def test_what_no_test_reaches_lowers_the_score():
    assert results(MIXED, n_mutants=5).score() == "3 of 5, 60.0%"
    assert results(MIXED).survivors() == ["d", "e"]


def test_words_count_in_one_score_and_not_in_the_other():
    found = results(MIXED, n_mutants=5, words="bd")
    assert found.score() == "3 of 5, 60.0%"
    assert found.score(found.words) == "2 of 3, 66.7%"
    assert found.survivors() == ["e"]


def test_a_sample_has_the_interval_of_clopper_and_pearson():
    """90 of 100: the interval of Clopper and Pearson (1934) is 82.4 % to 95.1 %."""
    outcomes = {str(n): Outcome.KILLED if n < 90 else Outcome.SURVIVED for n in range(100)}
    assert results(outcomes, n_mutants=1000).score() == "90 of 100, 90.0% (82.4% to 95.1%)"


def test_there_is_no_score_before_the_whole_sample_has_run():
    unfinished = results({**MIXED, "f": Outcome.NOT_RUN})
    assert not any("score of all" in line for line in unfinished.lines())
    assert unfinished.not_run() == ["f"]
    assert any("score of all: 3 of 5" in line for line in results(MIXED).lines())
    assert results(MIXED).not_run() == []


def test_what_is_justified_and_caught_is_said():
    assert results(MIXED, justified="ad").justified_in_vain() == ["a"]
    assert results(MIXED, justified="ad").survivors() == ["e"]


def test_every_justified_mutant_is_named_once_and_has_its_reason():
    entries = tomllib.loads((PROJECT / "tests" / "mutants" / "justified.toml").read_text())["mutant"]
    rooms = tomllib.loads((PROJECT / "tests" / "mutants" / "rooms.toml").read_text())
    assert len({one["name"] for one in entries}) == len(entries)
    assert all(one["name"].partition(".")[0] in rooms and one["becomes"] and one["reason"] for one in entries)


def test_every_test_that_must_notice_exists():
    rooms = tomllib.loads((PROJECT / "tests" / "mutants" / "rooms.toml").read_text())
    assert all((PROJECT / test).exists() for room in rooms.values() for test in room["tests"])
    for test in (one for room in rooms.values() for one in room.get("left_out", ())):
        path, _, name = test.partition("::")
        assert f"def {name}(" in (PROJECT / path).read_text()
    assert all((PROJECT / "src" / "tallyveil" / room).is_dir() for room in rooms)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A copy of a room that has one file with mutants, whole and looked at."""
    run = pytest.importorskip("tests.mutants.run", exc_type=ImportError)  # Windows has no module resource
    monkeypatch.setattr(run, "PROJECT", tmp_path)
    place = run.Workplace("noise", ("tests/unit/noise",), "tests")
    file = place.folder / "mutants" / "src" / "tallyveil" / "noise" / "laws.py"
    file.parent.mkdir(parents=True)
    file.write_text("def x_f__mutmut_1(): ...\n")
    for end in (".meta", ".spans"):
        (file.parent / f"laws.py{end}").write_text(json.dumps({"exit_code_by_key": {}}))
    place.looked.write_text("{}")
    return place


@pytest.mark.parametrize("harm", ["none", "half a file", "half its results", "no spans"])
def test_what_a_killed_process_has_half_written_is_made_again(place, harm):
    (meta,) = place._metas()
    file, spans = meta.with_suffix(""), meta.with_suffix(".spans")
    if harm == "half a file":
        os.utime(file, (2e9, 2e9))  # written after what stands beside it
    elif harm == "half its results":
        meta.write_text('{"exit_code_by')
    elif harm == "no spans":
        spans.unlink()
    place._forget_what_is_half_written()
    assert [path.exists() for path in (file, meta, spans, place.looked)] == [harm == "none"] * 4


def test_mutmut_is_that_of_the_interpreter(place, monkeypatch):
    """`make mutants` puts no folder of an environment on the path."""
    commands = []

    def ran(command, **options):
        commands.append(command)
        assert not options["close_fds"]
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(subprocess, "run", ran)
    with pytest.raises(NotCheckedError, match=r"mutmut ended with 1; the reason is in .*mutmut\.log"):
        place.first_look(["noise.laws.x_f__mutmut_1"])
    assert commands[0][0] == sys.executable
    assert commands[0][-1] == "tallyveil.noise.laws.x_f__mutmut_1"


def test_tests_that_a_signal_stops_say_nothing_of_a_mutant(place, monkeypatch):
    def ran(command, **options):
        return subprocess.CompletedProcess(command, -15, "", "")

    monkeypatch.setattr(subprocess, "run", ran)
    with pytest.raises(NotCheckedError, match="stopped by a signal"):
        place._tests_end_with("tallyveil.noise.laws.x_f__mutmut_1", 60)
