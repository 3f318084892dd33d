"""What a plan asks for beside the finished release is made in the locked folder, once, also after a failure."""

import json

import pytest

from tallyveil.errors import StoreError
from tallyveil.files.manifest_files import read_manifest
from tallyveil.runs.once import run_once, run_product
from tallyveil.runs.product import Outcome
from tallyveil.storage.json_files import digest_of
from tallyveil.storage.system import is_locked
from tallyveil.storage.write import write_text

from .conftest import KEY, Toy, contents

ADDED = "A step was added."


class Adds:
    """A last step, which adds a file to the release and a warning to the manifest.

    Attributes:
        looked: For each time that it was begun, whether the files had just been compared with the manifest.
        error: What it raises; None if it succeeds.
        refused: Whether it takes the release for one that another command made.
    """

    def __init__(self) -> None:
        self.looked, self.error, self.refused = [], None, False

    @property
    def done(self):
        """How often it was begun."""
        return len(self.looked)

    def refuse(self, out, manifest):
        assert manifest.run in (out / "ledger.jsonl").read_text()
        if self.refused:
            raise StoreError("another command made it.", code="folder-taken")

    def is_done(self, out):
        return (out / "added.txt").is_file()

    def do(self, out, *, looked):
        self.looked.append(looked)
        assert is_locked(out / "private" / "lock")
        assert not (out / "private" / "run.json").exists()
        if self.error is not None:
            raise self.error
        content = json.loads((out / "manifest.json").read_text())
        said = {key: value for key, value in content.items() if key != "digest"}
        said["warnings"] = list(dict.fromkeys([*said["warnings"], ADDED]))
        write_text(out / "manifest.json", json.dumps(said | {"digest": digest_of(said).hex()}))
        write_text(out / "added.txt", "added")


class Finished(Toy):
    """A release that is finished: nothing is read, and no work is done."""

    def read(self, out, observer):
        raise AssertionError

    def release(self, run):
        raise AssertionError


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def step():
    return Adds()


@pytest.fixture
def make(out, step):
    def once(product=None, last=step):
        return run_product(product or Toy(), out, test_key=KEY, last=last)

    return once


def test_it_is_done_once_and_is_in_the_manifest_that_is_handed_back(make, step, out):
    outcomes = [make(), make(Finished()), run_once(out, Finished(), test_key=KEY, last=step)]
    manifest = read_manifest(out)
    assert manifest.warnings[-1] == ADDED
    assert outcomes == [Outcome(out, manifest, already_finished=again) for again in (False, True, True)]
    assert step.done == 1
    assert not (out / "private").exists()


def test_it_is_done_again_where_it_failed(make, step, out):
    step.error = StoreError("the disk is full.", code="disk-full")
    for product in (Toy(), Finished()):
        with pytest.raises(StoreError, match="the disk is full"):
            make(product)
        assert not (out / "private").exists()
    assert not step.is_done(out)
    assert ADDED not in make(Finished(), last=None).manifest.warnings  # who does not ask for it, has all
    step.error = None
    assert make(Finished()) == Outcome(out, read_manifest(out), already_finished=True)
    assert read_manifest(out).warnings[-1] == ADDED
    assert step.looked == [True, False, False]  # whoever goes on has not looked at the files


@pytest.mark.parametrize("added", [False, True])
def test_a_release_that_another_command_made_is_refused(make, step, out, added):
    make(last=step if added else None)
    before = contents(out)
    step.refused = True
    for act in (make, lambda: run_once(out, Finished(), test_key=KEY, last=step)):
        with pytest.raises(StoreError, match="another command") as caught:
            act()
        assert caught.value.code == "folder-taken"
    assert contents(out) == before
    assert step.done == added


def test_a_release_of_another_plan_is_refused_before(make, step, out):
    make()
    step.refused = True
    with pytest.raises(StoreError, match="a finished release of another plan") as caught:
        make(Toy({"plan_digest": "ab"}))
    assert caught.value.code == "folder-taken"


def test_killed_before_the_last_changes_to_the_disk(step, out, kill_at_step):
    """The same command finishes the release and the step, and makes no file of the release again."""

    def again(there, work=None):
        return run_once(there, work or Toy(), test_key=KEY, last=step)

    again(out)
    whole, n_steps = contents(out), 0
    while kill_at_step(n_steps + 1, lambda n=n_steps: again(out.with_name(f"counted-{n}"))):
        n_steps += 1
    sealed = 0
    for number in range(n_steps - 20, n_steps + 1):
        there = out.with_name(f"killed-{number}")
        kill_at_step(number, lambda there=there: again(there))
        names = [path.name for path in (there / "private").glob("sealed-*") if path.suffix != ".partial"]
        if names or (there / "manifest.json").exists():
            sealed += 1
            again(there, Finished())
        again(there)
        assert contents(there) == whole
        assert not (there / "private").exists()
    assert sealed > 5
