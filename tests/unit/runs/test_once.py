"""One lifecycle: one key, one spend, whoever runs, is stopped or is killed in the folder."""

import errno
import json
import os
import shutil
import signal
from fractions import Fraction
from pathlib import Path

import pytest

import tallyveil
from tallyveil.accounting.events import DiscreteGaussian
from tallyveil.accounting.ledger.file import Ledger, read_ledger
from tallyveil.errors import BudgetError, StoreError
from tallyveil.files.manifest import Spent
from tallyveil.files.manifest_files import parsed_manifest, read_manifest
from tallyveil.noise.key import insecure_key
from tallyveil.runs import key_file as keys
from tallyveil.runs import once
from tallyveil.runs.folder import RunFolder
from tallyveil.runs.once import run_once

from .conftest import KEY, PLAN, Killed, Toy, contents, make_job


def spends(out: Path) -> int:
    return sum(entry.kind == "spend" for entry in read_ledger(out / "ledger.jsonl")[1])


@pytest.fixture
def whole(make, tmp_path):
    make(tmp_path / "whole")
    return contents(tmp_path / "whole")


@pytest.fixture
def started(tmp_path):
    """A run killed after its stages, before its manifest."""

    def killed(run):
        raise Killed

    with pytest.raises(Killed):
        run_once(tmp_path / "out", Toy(during=killed), test_key=KEY)
    return tmp_path / "out"


def test_a_finished_release_holds_no_key(make, tmp_path, whole):
    outcome = make(tmp_path / "out")
    assert not outcome.already_finished
    assert contents(tmp_path / "out") == whole
    assert set(whole) == {
        "a.txt", "b.txt", "a/part-00000.parquet", "b/part-00000.parquet",
        "ledger.jsonl", "manifest.json", "plan.json",
    }  # fmt: skip
    assert outcome.manifest == parsed_manifest(tmp_path / "out", json.loads(whole["manifest.json"]))
    assert outcome.manifest.spent == Spent("rho", Fraction(6), Fraction(1))
    assert outcome.manifest.checks == ("a is there", "b is there")
    assert make(tmp_path / "out").already_finished


def test_killed_before_every_change_to_the_disk(make, tmp_path, whole, kill_at_step):
    """Also between any two steps of sealing: the next process finishes, and needs no key to do so."""
    number, killed = 0, True
    while killed:
        number += 1
        out = tmp_path / f"killed-{number}"
        killed = kill_at_step(number, lambda out=out: make(out))
        if (out / "manifest.json").exists():  # shown only when the key is gone
            assert not (out / "private" / "run.json").exists()
        if (out / "private").exists():
            with pytest.raises(StoreError) as caught:
                read_manifest(out)
            assert caught.value.code == "release-unfinished"
        make(out)
        assert contents(out) == whole
        assert spends(out) == 1
        assert not (out / "private").exists()
        shutil.rmtree(out)
    assert number > 60


def test_a_disk_that_fails_at_any_change(make, tmp_path, whole, kill_at_step):
    """One change fails, such as on a full disk: the run ends with an error of its own, and is taken up again."""
    number, failed, told = 0, True, 0
    while failed:
        number += 1
        out = tmp_path / f"full-{number}"
        codes = []

        def fill(out=out, codes=codes):
            try:
                make(out)
            except StoreError as error:
                codes.append(error.code)

        failed = kill_at_step(number, fill, fails=OSError(errno.ENOSPC, "full"))
        assert set(codes) <= {"disk-full", "store"}
        told += len(codes)
        make(out)
        assert contents(out) == whole
        assert spends(out) == 1
    assert told > 40


def test_killed_twice_while_sealing(make, tmp_path, whole, kill_at_step):
    """Only the last steps are left when the manifest is sealed: no work is done again."""
    steps = 0
    while kill_at_step(steps + 1, lambda n=steps: make(tmp_path / f"{n}")):
        steps += 1

    def no_work(run):
        raise AssertionError

    for number in range(steps - 14, steps + 1):
        out = tmp_path / f"twice-{number}"
        kill_at_step(number, lambda out=out: make(out))
        names = [path.name for path in (out / "private").glob("*")]
        sealed = any(name.startswith("sealed-") and not name.endswith(".partial") for name in names)
        kill_at_step(3, lambda out=out: make(out))
        if sealed:
            run_once(out, Toy(during=no_work), test_key=KEY)
        make(out)
        assert contents(out) == whole


@pytest.mark.parametrize("test_key", [KEY, None])
def test_a_second_process_stopped_before_the_lock_spends_nothing(make, tmp_path, test_key):
    """It looked at the folder when nothing was there; when it goes on, the release is finished."""
    out = tmp_path / "out"
    read, write = os.pipe()
    second = os.fork()
    if not second:
        claim = RunFolder._claim

        def stopped(folder):
            os.kill(os.getpid(), signal.SIGSTOP)
            claim(folder)

        RunFolder._claim = stopped
        code = 1
        try:
            outcome = run_once(out, Toy(), test_key=test_key)
            os.write(write, b"already" if outcome.already_finished else b"made")
            code = 0
        finally:
            os._exit(code)
    os.waitpid(second, os.WUNTRACED)
    outcome = make(out, test_key=test_key)
    before = contents(out)
    os.kill(second, signal.SIGCONT)
    assert os.waitpid(second, 0)[1] == 0
    assert os.read(read, 100) == b"already"
    assert not outcome.already_finished
    assert contents(out) == before
    assert spends(out) == 1
    assert not (out / "private").exists()


def test_a_second_process_meets_the_lock(make, tmp_path):
    out = tmp_path / "out"

    def working(run):
        with pytest.raises(StoreError) as caught:
            make(out)
        assert caught.value.code == "folder-locked"

    run_once(out, Toy(during=working), test_key=KEY)
    assert spends(out) == 1


def test_a_lock_on_a_removed_file_is_no_lock(make, tmp_path, monkeypatch, whole):
    """The lock that a second process opened belongs to a folder that the first has removed since."""
    import fcntl

    out = tmp_path / "out"
    flock = fcntl.flock

    def late(descriptor, operation):
        monkeypatch.setattr(fcntl, "flock", flock)
        shutil.rmtree(out / "private")  # as the finishing process does, and another begins at once
        make(out)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    assert run_once(out, Toy(), test_key=KEY).already_finished
    assert contents(out) == whole


def test_another_plan_finds_the_folder_taken(make, tmp_path, started, kill_at_step):
    make(tmp_path / "done")
    for out in (tmp_path / "done", started):
        before = contents(out)
        with pytest.raises(StoreError) as caught:
            make(out, plan_digest="ab", whole_plan=b"other")
        assert caught.value.code in ("folder-taken", "resume-changed")
        assert contents(out).items() >= {k: v for k, v in before.items() if "lock" not in k}.items()


def test_a_corrected_version_goes_on_and_is_named(make, started, monkeypatch, whole):
    begun_by = tallyveil.__version__
    for module in (once, keys):
        monkeypatch.setattr(module, "VERSION", "9.9")
    outcome = make(started)
    assert outcome.manifest.tallyveil == (begun_by, "9.9")
    assert spends(started) == 1
    published = {name: data for name, data in contents(started).items() if name != "manifest.json"}
    assert published.items() <= whole.items()


def test_a_version_killed_twice_is_named_once(make, started, monkeypatch):
    begun_by = tallyveil.__version__
    for module in (once, keys):
        monkeypatch.setattr(module, "VERSION", "9.9")

    def killed(run):
        raise Killed

    for _ in range(2):
        with pytest.raises(Killed):
            run_once(started, Toy(during=killed), test_key=KEY)
    assert make(started).manifest.tallyveil == (begun_by, "9.9")


def test_another_noise_law_never_goes_on(make, started, monkeypatch):
    monkeypatch.setattr(keys, "NOISE_LAW", 2)
    with pytest.raises(StoreError) as caught:
        make(started)
    assert caught.value.code == "resume-version"
    assert spends(started) == 1


def test_other_inputs_and_keys_cannot_go_on(make, started):
    cases = [
        ({"binding": b"other"}, "resume-changed", "records"),
        ({"whole_plan": b"other"}, "resume-changed", "another plan"),
        ({"test_key": insecure_key("other")}, "resume-key", "another key"),
        ({"test_key": None}, "resume-key", "insecure test key"),
    ]
    for changes, code, words in cases:
        with pytest.raises(StoreError, match=words) as caught:
            make(started, **changes)
        assert caught.value.code == code
        assert str(started) in str(caught.value)
    assert spends(started) == 1


def test_a_lost_key_is_never_replaced(make, started):
    before = {path: data for path, data in contents(started).items() if not path.startswith("private")}
    shutil.rmtree(started / "private")
    with pytest.raises(StoreError, match="rho = 1 was spent") as caught:
        make(started)
    assert caught.value.code == "key-lost"
    assert contents(started) == before


def test_files_without_a_ledger_are_no_run(make, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.txt").write_text("mine")
    with pytest.raises(StoreError) as caught:
        make(tmp_path / "out")
    assert caught.value.code == "folder-taken"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.txt"]


def test_what_cannot_be_paid_leaves_nothing(make, tmp_path):
    with pytest.raises(BudgetError):
        make(tmp_path / "out", event=DiscreteGaussian(Fraction(1, 100), 1, 2))
    assert list(tmp_path.iterdir()) == []


def of_another_run(path):
    path.unlink()
    job = make_job()
    with Ledger(path, job.declaration, "another") as ledger:
        ledger.spend(job.event, "a test", "another test")


LEDGERS = {
    "removed": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "half a line": lambda path: path.write_bytes(path.read_bytes()[:40]),
    "last line cut": lambda path: path.write_bytes(path.read_bytes()[:-30]),
    "last line gone": lambda path: path.write_bytes(b"".join(path.read_bytes().splitlines(True)[:-1])),
    "first line only": lambda path: path.write_bytes(path.read_bytes().splitlines(True)[0]),
    "noise": lambda path: path.write_bytes(b"\x00\xff\n"),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a link": lambda path: (path.rename(path.with_name("moved")), path.symlink_to("moved")),
    "of another run": of_another_run,
}


@pytest.mark.parametrize("how", LEDGERS)
def test_a_damaged_ledger_is_refused(make, started, tmp_path, how, whole):
    good = (started / "ledger.jsonl").read_bytes()
    LEDGERS[how](started / "ledger.jsonl")
    with pytest.raises(StoreError, match="ledger"):
        make(started)
    path = started / "ledger.jsonl"
    (started / "moved").unlink(missing_ok=True)
    if path.is_dir():
        path.rmdir()
    path.unlink(missing_ok=True)
    path.write_bytes(good)
    make(started)
    assert contents(started) == whole


def test_two_spends_are_never_sealed(make, tmp_path):
    """Somebody enters another spend while the run is under way."""

    def working(run):
        with Ledger(run.path / "ledger.jsonl", make_job().declaration, run.run_id) as ledger:
            ledger.spend(make_job().event, "again", "again")

    with pytest.raises(StoreError) as caught:
        run_once(tmp_path / "out", Toy(during=working), test_key=KEY)
    assert caught.value.code == "ledger-damaged"
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_a_sealed_release_whose_files_are_damaged(make, tmp_path, kill_at_step, whole):
    """With the key the files are made again; without it the damage is told."""
    with_key = without_key = 0
    number = 40
    while kill_at_step(number, lambda number=number: make(tmp_path / f"{number}")):
        out = tmp_path / f"{number}"
        names = [path.name for path in (out / "private").glob("*") if path.suffix != ".partial"]
        private = {name.split("-")[0] for name in names}
        if "sealed" in private and not (out / "manifest.json").exists():
            (out / "a.txt").write_text("damaged")
            if "run.json" in private:
                with_key += 1
                make(out)
            else:
                without_key += 1
                with pytest.raises(StoreError) as caught:
                    make(out)
                assert caught.value.code == "release-damaged"
                assert "removed, but a.txt has been changed or removed since" in str(caught.value)
                (out / "a.txt").write_bytes(whole["a.txt"])
                make(out)
            assert contents(out) == whole
        number += 1
    assert with_key
    assert without_key


def test_half_written_files_are_removed(make, started, whole):
    (started / "a" / "part-00007.parquet.partial").write_bytes(b"half")
    (started / "x.partial").write_bytes(b"half")
    (started / "a" / "private").mkdir()  # a geolevel may have this name
    (started / "a" / "private" / "x.partial").write_bytes(b"half")
    make(started)
    assert contents(started) == whole


def test_the_digest_is_what_names_the_plan(make, tmp_path):
    assert make(tmp_path / "out").manifest.plan_digest == PLAN.hex()
