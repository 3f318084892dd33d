"""One process writes a folder at a time; what it did not finish is recognised, refused as an input, and taken up."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

from tallyveil.errors import StoreError
from tallyveil.storage.outputs import MARKER, new_folder, own_folder
from tallyveil.storage.read import read_table
from tallyveil.storage.write import (
    UNFINISHED,
    Claim,
    is_unfinished,
    refuse_unfinished_folder,
    write_parquet,
    write_text,
)

WORK = """
import sys, time
from pathlib import Path
from tallyveil.storage.outputs import new_folder
with new_folder(Path(sys.argv[1]), "synth", "files", ["a.txt"]):
    print("holds it", flush=True)
    time.sleep(60)
"""


class Killed(BaseException):
    """Ends the work at once, as a kill does."""


@contextmanager
def killed():
    with pytest.raises(Killed):
        yield


def refused(act) -> StoreError:
    with pytest.raises(StoreError) as caught:
        act()
    return caught.value


def entered(holder) -> None:
    with holder:
        pass


def test_two_processes_and_a_kill_by_the_system(tmp_path: Path) -> None:
    """The second process is refused in one sentence. After a kill the lock is free, and the mark stays."""
    out = tmp_path / "out"
    other = subprocess.Popen([sys.executable, "-c", WORK, str(out)], stdout=subprocess.PIPE)
    assert other.stdout is not None
    assert other.stdout.readline() == b"holds it\n"
    for holder in (new_folder(out, "synth", "files", ["a.txt"]), own_folder(out, "study x")):
        found = refused(lambda holder=holder: entered(holder))
        assert found.code == "folder-locked"
        assert str(found).count(". ") == 0
    other.send_signal(signal.SIGKILL)
    other.wait()
    other.stdout.close()
    assert is_unfinished(out)
    with new_folder(out, "synth", "files", ["a.txt"]):
        write_text(out / "a.txt", "whole")
    assert [path.name for path in out.iterdir()] == ["a.txt"]


def test_an_unfinished_folder_is_no_input(tmp_path: Path) -> None:
    table = tmp_path / "geography.parquet"
    with killed(), own_folder(tmp_path, "geography import"):
        write_parquet(table, pl.DataFrame({"geocode": ["1"]}), {})
        raise Killed
    found = refused(lambda: read_table(table, ["geocode"], "geography"))
    assert found.code == "folder-unfinished"
    assert "`tallyveil geography import`" in str(found)
    assert refused(lambda: entered(own_folder(tmp_path, "study x"))).code == "folder-unfinished"
    assert is_unfinished(tmp_path)
    entered(own_folder(tmp_path, "geography import"))
    assert read_table(table, ["geocode"], "geography").height == 1
    assert not (tmp_path / UNFINISHED).exists()


def test_what_was_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    with killed(), new_folder(tmp_path, "synth", "files", ["tables", "a.csv"]):
        write_text(tmp_path / "tables" / "old.csv", "of the first")
        write_text(tmp_path / "a.csv.partial", "half")
        raise Killed
    (tmp_path / "mine.txt").write_text("my only copy")
    assert refused(lambda: entered(new_folder(tmp_path, "synth", "files", ["tables", "a.csv"]))).code == (
        "folder-taken"
    )
    assert (tmp_path / "tables" / "old.csv").exists()
    (tmp_path / "mine.txt").unlink()
    with new_folder(tmp_path, "synth", "files", ["tables", "a.csv"]):
        write_text(tmp_path / "a.csv", "of the second")
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_what_fails_before_anything_is_written_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    for folder in (tmp_path / "new", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        for holder in (new_folder(folder, "synth", "files", ["a"]), own_folder(folder, "study x")):
            with killed(), holder:
                raise Killed
        assert folder.exists() == (folder.name == "empty")
    assert not list((tmp_path / "empty").iterdir())
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "link"):
        for holder in (
            new_folder(tmp_path / name, "synth", "x", ["a"]),
            own_folder(tmp_path / name, "study x"),
        ):
            assert refused(lambda holder=holder: entered(holder)).code == "folder-taken"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("begins", [False, True])
def test_a_refusal_leaves_no_folders_that_it_made(tmp_path: Path, begins: bool) -> None:
    (tmp_path / "there").mkdir()
    out = tmp_path / "there" / "new" / "er" / "out"

    def refuse() -> None:
        with Claim(out, "publish pl94") as claim:
            if begins:
                claim.begin()
            raise StoreError("refused")

    with pytest.raises(StoreError, match="refused"):
        refuse()
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]


def test_folders_with_something_in_them_stay(tmp_path: Path) -> None:

    def refuse() -> None:
        with Claim(tmp_path / "new" / "out", "publish pl94"):
            (tmp_path / "new" / "mine.txt").write_text("mine")
            raise StoreError("refused")

    with pytest.raises(StoreError, match="refused"):
        refuse()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["mine.txt", "new"]


def test_a_claim_without_a_change_says_nothing_of_the_files(tmp_path: Path) -> None:
    """Whoever computes before the first change may be killed, and the folder stays an input."""
    with Claim(tmp_path, "intervals"):
        refuse_unfinished_folder(tmp_path)
    (tmp_path / UNFINISHED).touch()
    refuse_unfinished_folder(tmp_path)
    with Claim(tmp_path, "intervals") as claim:
        assert not claim.goes_on
        claim.begin()
        assert refused(lambda: refuse_unfinished_folder(tmp_path)).code == "folder-unfinished"
    assert not list(tmp_path.iterdir())


def test_a_lock_on_a_file_that_was_removed_is_taken_again(tmp_path: Path, monkeypatch) -> None:
    """A process opens the file just before the one that holds it removes it."""
    original, calls = os.open, []

    def opened(path, *given, **named):
        descriptor = original(path, *given, **named)
        if str(path).endswith(UNFINISHED) and not calls:
            calls.append(path)
            Path(path).unlink()
        return descriptor

    monkeypatch.setattr(os, "open", opened)
    with Claim(tmp_path, "synth"):
        assert (tmp_path / UNFINISHED).exists()
        assert refused(lambda: entered(Claim(tmp_path, "synth"))).code == "folder-locked"
    assert calls


@pytest.mark.parametrize("text", [b"\x1b[31m evil", b"`tallyveil", b"\xff\xfe" * 300])
def test_a_mark_of_somebody_else_is_not_quoted(tmp_path: Path, text: bytes) -> None:
    (tmp_path / UNFINISHED).write_bytes(text)
    found = refused(lambda: refuse_unfinished_folder(tmp_path))
    assert "the command that writes it" in str(found)


def test_a_mark_that_was_being_written_is_taken_up(tmp_path: Path) -> None:
    (tmp_path / UNFINISHED).write_text("`tallyveil")
    entered(own_folder(tmp_path, "study x"))
    assert [path.name for path in tmp_path.iterdir()] == [MARKER]


def test_folders_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "planted").mkdir()
    (tmp_path / "planted" / UNFINISHED).symlink_to(tmp_path / "elsewhere")
    assert refused(lambda: entered(own_folder(tmp_path / "planted", "study x"))).code == "write-failed"
    assert not (tmp_path / "elsewhere").exists()
    assert refused(lambda: entered(own_folder(tmp_path / ("x" * 300), "study x"))).code == "write-failed"


@pytest.mark.parametrize("left", [None, 9], ids=["all of the mark", "its beginning"])
def test_a_second_kill_right_after_the_resume_loses_no_mark(
    tmp_path: Path, monkeypatch, left: int | None
) -> None:
    first = Claim(tmp_path, "test")
    first.__enter__()
    first.begin()
    (tmp_path / "half.parquet.partial").touch()
    first._let_go()  # as the system does where a process is killed
    mark = tmp_path / UNFINISHED
    mark.write_bytes(mark.read_bytes()[:left])

    def killed(*_: object) -> int:
        raise KeyboardInterrupt

    second = Claim(tmp_path, "test")
    second.__enter__()
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            second.begin()
    second._let_go()
    with own_folder(tmp_path, "test"):
        pass
    assert not mark.exists()
