"""A stage is kept only if its files are, byte for byte, what it wrote."""

import hashlib
import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tallyveil.errors import StoreError
from tallyveil.runs.folder import RunFolder
from tallyveil.runs.key_file import RunSecrets
from tallyveil.runs.product import Stages
from tallyveil.storage.write import write_parquet, write_text

SECRETS = RunSecrets(b"k" * 32, b"b" * 32, b"p" * 32, protected=True)
PLACES = ["parts", "one.txt"]


class Work:
    """A stage of two parts and a text, which counts how often it is done."""

    def __init__(self, out: Path) -> None:
        self.out, self.done = out, 0

    def __call__(self) -> dict[str, Any]:
        self.done += 1
        for part in range(2):
            frame = pl.DataFrame({"noisy": [part]})
            write_parquet(self.out / "parts" / f"part-{part}.parquet", frame, SECRETS.file_tags())
        write_text(self.out / "one.txt", "one")
        return {"solver": {"families": 3}, "half": 0.5}


@pytest.fixture
def done(tmp_path):
    out = tmp_path / "out"
    with RunFolder(out) as folder:
        work = Work(out)
        record = Stages(folder, SECRETS).stage("a stage", PLACES, work)
        assert record == {"solver": {"families": 3}, "half": 0.5}
        yield out, folder, work


def checkpoint(out: Path) -> Path:
    (path,) = (out / "private").glob("*.json")
    return path


def again(done, secrets: RunSecrets = SECRETS, name: str = "a stage") -> int:
    """How often the stage is done when it is asked for again; in the end it is as it was."""
    out, folder, work = done
    before, work.done = work.done, 0
    stages = Stages(folder, secrets)
    assert stages.stage(name, PLACES, work) == {"solver": {"families": 3}, "half": 0.5}
    assert list(stages.files()) == ["one.txt", "parts/part-0.parquet", "parts/part-1.parquet"]
    assert sorted(path.name for path in (out / "parts").iterdir()) == ["part-0.parquet", "part-1.parquet"]
    assert before
    return work.done


def test_a_stage_as_it_was_is_kept(done):
    assert again(done) == 0


FILES = {
    "removed": lambda path: path.unlink(),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-3]),
    "emptied": lambda path: path.write_bytes(b""),
    "altered": lambda path: path.write_bytes(path.read_bytes()[:-9] + b"x" + path.read_bytes()[-8:]),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a link": lambda path: (path.rename(path.with_name("moved")), path.symlink_to("moved")),
    "a dead link": lambda path: (path.unlink(), path.symlink_to("nowhere")),
}


@pytest.mark.parametrize("name", ["parts/part-1.parquet", "one.txt"])
@pytest.mark.parametrize("how", FILES)
def test_a_stage_with_a_damaged_file_is_done_again(done, name, how):
    FILES[how](done[0] / name)
    assert again(done) == 1
    assert again(done) == 0


def test_a_file_too_many_is_removed(done):
    (done[0] / "parts" / "part-2.parquet").write_bytes(b"")
    assert again(done) == 1


TOO_MANY = {
    "a pipe": (os.mkfifo, 1),
    "a dead link": (lambda path: path.symlink_to("nowhere"), 1),
    "a link to a folder": (lambda path: path.symlink_to(".."), 1),
    "a file in a folder": (lambda path: (path.mkdir(), (path / "x").touch()), 1),
    "an empty folder": (Path.mkdir, 0),  # no file is read from it
}


@pytest.mark.parametrize("what", TOO_MANY)
def test_whatever_is_too_many_is_noticed(done, what):
    plant, times = TOO_MANY[what]
    out, folder, work = done
    plant(out / "parts" / "more")
    work.done = 0
    Stages(folder, SECRETS).stage("a stage", PLACES, work)
    assert work.done == times


def test_a_checkpoint_is_the_one_that_other_versions_read(tmp_path):
    """A run that another version goes on with does no finished stage again."""
    with RunFolder(tmp_path / "out") as folder:
        Stages(folder, SECRETS).stage(
            "a stage", ["one.txt"], lambda: write_text(folder.path / "one.txt", "one")
        )
        (path,) = folder.private.glob("*.json")
        assert path.name == "f2835e77a64c6087562ca4e404c51526.json"
        assert json.loads(path.read_text()) == {
            "stage": "a stage",
            "files": {"one.txt": "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"},
            "record": None,
            "mac": "8f2ea025337f568f1530d92493e2cbdb0c46af6dda4f5d6108583c4ea23a8eea",
        }


def test_all_stages_are_in_the_list_of_files_in_the_order_of_paths(tmp_path):
    """Those that are kept, those that are done, and what is made each time. A folder comes before longer names."""
    with RunFolder(tmp_path / "out") as folder:
        out = folder.path

        def write(*names):
            for name in names:
                write_text(out / name, name)

        places = {"first": ["b", "b.txt"], "second": ["a.txt", "a"]}
        names = {"first": ["b.txt", "b/x.txt"], "second": ["a.txt", "a/y.txt"]}
        for known in (["first"], ["first", "second"]):
            stages = Stages(folder, SECRETS)
            for name in known:
                stages.stage(name, places[name], partial(write, *names[name]))
        stages.make(["c"], lambda: write("c"))
        wanted = ["a/y.txt", "a.txt", "b/x.txt", "b.txt", "c"]
        assert list(stages.files()) == list(stages.written()) == wanted
        assert stages.files() == {name: hashlib.sha256(name.encode()).hexdigest() for name in wanted}
        stages.remove(["b"])
        assert list(stages.files()) == ["a/y.txt", "a.txt", "b.txt", "c"]
        stages.remove(["a.txt"])
        assert sorted(path.name for path in out.rglob("*.txt")) == ["b.txt", "y.txt"]


def test_a_folder_of_files_as_a_link_is_no_folder(done):
    out = done[0]
    (out / "parts").rename(out / "moved")
    (out / "parts").symlink_to("moved")
    assert again(done) == 1
    assert not (out / "parts").is_symlink()
    assert len(list((out / "moved").iterdir())) == 2


def changed(path: Path, change: Any) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


CHECKPOINTS = {
    "removed": lambda path: path.unlink(),
    "a folder": lambda path: (path.unlink(), (path / "x").mkdir(parents=True)),
    "empty": lambda path: path.write_bytes(b""),
    "no JSON": lambda path: path.write_bytes(b"\xff\xfe"),
    "nested": lambda path: path.write_bytes(b"[" * 100_000),
    "a list": lambda path: path.write_text("[]"),
    "no keys": lambda path: path.write_text("{}"),
    "a mac of another type": lambda path: changed(path, lambda c: c.update(mac=3)),
    "another mac": lambda path: changed(path, lambda c: c.update(mac="é" * 64)),
    "another record": lambda path: changed(path, lambda c: c["record"].update(solver={})),
    "another file": lambda path: changed(path, lambda c: c["files"].update({"one.txt": "0" * 64})),
    "another stage": lambda path: changed(path, lambda c: c.update(stage="b")),
    "one key less": lambda path: changed(path, lambda c: c.pop("record")),
}


@pytest.mark.parametrize("how", CHECKPOINTS)
def test_a_stage_with_a_damaged_checkpoint_is_done_again(done, how):
    CHECKPOINTS[how](checkpoint(done[0]))
    assert again(done) == 1
    assert again(done) == 0


def test_a_checkpoint_of_another_stage_or_key_is_none(done):
    assert again(done, name="another stage") == 1
    other = RunSecrets(b"o" * 32, b"b" * 32, b"p" * 32, protected=True)
    _, folder, work = done
    work.done = 0
    Stages(folder, other).stage("a stage", PLACES, work)
    assert work.done == 1


def test_names_of_stages_are_no_paths(done):
    assert again(done, name="../../measure /etc/x") == 1
    assert {path.parent for path in done[0].parent.rglob("*.json")} == {done[0] / "private"}


@pytest.mark.parametrize("place", ["../x", "/etc/x", "a/../../x", ""])
def test_places_lie_within_the_folder(done, place):
    with pytest.raises(StoreError, match="outside the run folder"):
        Stages(done[1], SECRETS).make([place], lambda: None)


def test_a_file_changed_after_its_stage_never_enters_a_manifest(done):
    out, folder, work = done
    stages = Stages(folder, SECRETS)
    stages.stage("a stage", PLACES, work)
    (out / "one.txt").write_text("two")
    with pytest.raises(StoreError) as caught:
        stages.files()
    assert caught.value.code == "run-damaged"


def test_a_file_of_another_run_never_enters_a_manifest(tmp_path):
    with RunFolder(tmp_path / "out") as folder:
        stages = Stages(folder, SECRETS)
        path = tmp_path / "out" / "x.parquet"
        stages.make(["x.parquet"], lambda: write_parquet(path, pl.DataFrame({"a": [1]}), {"run": "another"}))
        with pytest.raises(StoreError, match="another run"):
            stages.files()


def test_a_file_that_protects_nobody_never_enters_the_manifest_of_a_run_that_does(tmp_path):
    tags = replace(SECRETS, protected=False).file_tags()
    with RunFolder(tmp_path / "out") as folder:
        stages = Stages(folder, SECRETS)
        path = tmp_path / "out" / "x.parquet"
        stages.make(["x.parquet"], lambda: write_parquet(path, pl.DataFrame({"a": [1]}), tags))
        with pytest.raises(StoreError, match="insecure test key"):
            stages.files()


def test_what_is_made_anew_trusts_nothing(tmp_path):
    out = tmp_path / "out"
    with RunFolder(out) as folder:
        (out / "bounds").mkdir()
        (out / "bounds" / "07.parquet").write_bytes(b"planted")
        stages = Stages(folder, SECRETS)
        assert stages.make(["bounds"], lambda: 5) == 5
        assert stages.files() == {}
        assert not os.path.lexists(out / "bounds")


def test_removed_places_are_no_files_of_the_run(done):
    """What only later stages read is removed; the same stage is done again if somebody asks for it."""
    out, folder, work = done
    stages = Stages(folder, SECRETS)
    stages.stage("a stage", PLACES, work)
    stages.remove(["parts"])
    assert not (out / "parts").exists()
    assert set(stages.files()) == {"one.txt"}
    stages.remove(["parts", "absent"])
    again = Stages(folder, SECRETS)
    again.stage("a stage", PLACES, work)
    assert work.done == 2
    assert set(again.files()) == {"one.txt", "parts/part-0.parquet", "parts/part-1.parquet"}
