"""Work on the files of an earlier run: it has that run's ledger, spends nothing, and goes on wherever it is killed."""

from dataclasses import asdict, dataclass

import pytest

from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.errors import StoreError
from tallyveil.files.finished import record_of
from tallyveil.files.manifest_files import read_manifest
from tallyveil.runs.key_file import Earlier
from tallyveil.runs.once import run_once

from .conftest import KEY, Killed, Toy, contents


@dataclass
class Later(Toy):
    """The toy, which says from which run's files it was made."""

    def release(self, run):
        earlier = self.changes["earlier"]
        stated = {
            "run": earlier.run,
            "ledger": asdict(record_of(earlier.ledger, earlier.ledger.count(b"\n"))),
            "statement": "It spends nothing.",
        }
        return {**super().release(run), "estimated_from": stated}


@pytest.fixture
def first(make, tmp_path):
    """A finished run, whose ledger holds what it declared and what it spent."""
    make(tmp_path / "first")
    return tmp_path / "first"


@pytest.fixture
def earlier(first):
    return Earlier(read_manifest(first).run, (first / "ledger.jsonl").read_bytes(), protected=False)


@pytest.fixture
def later(earlier):
    def once(out, during=lambda run: None, **changes):
        return run_once(out, Later({"earlier": earlier} | changes, during), test_key=None)

    return once


def killed(run):
    raise Killed


def test_its_ledger_is_that_of_the_run_that_spent(later, first, tmp_path):
    outcome = later(tmp_path / "out")
    assert (tmp_path / "out" / "ledger.jsonl").read_bytes() == (first / "ledger.jsonl").read_bytes()
    assert outcome.manifest.spender == read_manifest(first).run != outcome.manifest.run
    assert outcome.manifest.spent == read_manifest(first).spent
    assert not outcome.manifest.protected
    assert read_manifest(tmp_path / "out") == outcome.manifest
    assert later(tmp_path / "out").already_finished


def test_it_is_the_same_wherever_and_whenever_it_is_done(later, tmp_path):
    later(tmp_path / "one")
    later(tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_killed_before_every_change_to_the_disk_it_goes_on(later, tmp_path, kill_at_step):
    later(tmp_path / "whole")
    whole, number, going = contents(tmp_path / "whole"), 0, True
    while going:
        number += 1
        out = tmp_path / f"killed-{number}"
        going = kill_at_step(number, lambda out=out: later(out))
        later(out)
        assert contents(out) == whole
    assert number > 20


@pytest.mark.parametrize("changes", [{"binding": b"\x08" * 32}, {"whole_plan": b"\x08" * 32}])
def test_it_does_not_go_on_with_other_files_or_settings(later, tmp_path, changes):
    with pytest.raises(Killed):
        later(tmp_path / "out", killed)
    before = contents(tmp_path / "out")
    with pytest.raises(StoreError) as caught:
        later(tmp_path / "out", **changes)
    assert caught.value.code == "resume-changed"
    assert contents(tmp_path / "out") == before


DAMAGE = {
    "a line more": lambda ledger: ledger + ledger.splitlines(keepends=True)[-1],
    "the spend less": lambda ledger: ledger.splitlines(keepends=True)[0],
    "cut": lambda ledger: ledger[:-9],
    "other words": lambda ledger: ledger.replace(b"a test", b"a toast"),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_ledger_that_changed_under_way_is_refused(later, tmp_path, how):
    with pytest.raises(Killed):
        later(tmp_path / "out", killed)
    path = tmp_path / "out" / "ledger.jsonl"
    path.write_bytes(DAMAGE[how](path.read_bytes()))
    with pytest.raises(StoreError) as caught:
        later(tmp_path / "out")
    assert caught.value.code in {"ledger-damaged", "store"}
    assert not (tmp_path / "out" / "manifest.json").exists()


def becomes_a_folder(run):
    (run.path / "ledger.jsonl").unlink()
    (run.path / "ledger.jsonl").mkdir()


@pytest.mark.parametrize("draws", [True, False])
def test_who_loses_the_ledger_is_told_what_another_folder_costs(later, tmp_path, draws):
    """While the work goes on, and when it is taken up again. Only work that draws noise spends again."""

    def act(during=lambda run: None):
        if draws:
            run_once(tmp_path / "out", Toy(during=during), test_key=KEY)
        else:
            later(tmp_path / "out", during)

    for during in (becomes_a_folder, lambda run: None):
        with pytest.raises(StoreError, match="it is no plain file") as caught:
            act(during)
        assert caught.value.code == "ledger-damaged"
        assert ("a new spend" in str(caught.value), "spends nothing" in str(caught.value)) == (
            draws,
            not draws,
        )


def test_a_ledger_of_another_run_leaves_nothing_behind(later, earlier, tmp_path):
    other = Earlier("0123456789abcdef", earlier.ledger, protected=False)
    with pytest.raises(StoreError) as caught:
        later(tmp_path / "out", earlier=other)
    assert caught.value.code == "ledger-damaged"


def test_a_run_that_draws_does_not_go_on_in_its_folder(later, make, tmp_path):
    """Nor does such work go on in the folder of an unfinished run that draws."""
    with pytest.raises(Killed):
        later(tmp_path / "later", killed)
    with pytest.raises(StoreError):
        make(tmp_path / "later")
    with pytest.raises(Killed):
        run_once(tmp_path / "run", Toy(during=killed), test_key=KEY)
    with pytest.raises(StoreError) as caught:
        later(tmp_path / "run")
    assert caught.value.code == "resume-changed"
    assert (
        len([entry for entry in read_ledger(tmp_path / "run" / "ledger.jsonl")[1] if entry.kind == "spend"])
        == 1
    )
