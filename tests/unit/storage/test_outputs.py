"""Outputs replace neither inputs nor files of somebody else."""

from pathlib import Path

import polars as pl
import pytest

from tallyveil.errors import StoreError
from tallyveil.storage.outputs import (
    claim_file,
    new_file,
    own_folder,
    refuse_inputs,
    refuse_taken,
)
from tallyveil.storage.write import write_parquet, write_text


def code_of(act) -> str:
    with pytest.raises(StoreError) as caught:
        act()
    return caught.value.code


def claim(folder: Path, command: str) -> None:
    with own_folder(folder, command):
        pass


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("my only copy")
    assert code_of(lambda: claim(tmp_path, "study x")) == "folder-taken"
    assert code_of(lambda: refuse_taken(tmp_path, "files")) == "folder-taken"
    assert (tmp_path / "mine.txt").read_text() == "my only copy"


def test_a_command_knows_its_own_folder(tmp_path: Path) -> None:
    claim(tmp_path / "new", "study x")
    (tmp_path / "new" / "table.csv").write_text("a")
    claim(tmp_path / "new", "study x")
    assert code_of(lambda: claim(tmp_path / "new", "synth")) == "folder-taken"


def test_an_input_is_never_an_output(tmp_path: Path) -> None:
    records = tmp_path / "data" / "records.parquet"
    records.parent.mkdir()
    records.write_bytes(b"people")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "data")
    for out in (tmp_path, tmp_path / "data", records, link):
        assert code_of(lambda out=out: refuse_inputs(out, [records])) == "input-in-output"
    (tmp_path / "out").mkdir()
    refuse_inputs(tmp_path / "out", [records])
    (tmp_path / "out" / "here.parquet").symlink_to(records)
    assert code_of(lambda: refuse_inputs(tmp_path / "out", [tmp_path / "out" / "here.parquet"]))


def test_only_a_file_of_ours_is_replaced(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.parquet", tmp_path / "theirs.parquet"
    write_parquet(ours, pl.DataFrame({"a": [1]}), {})
    pl.DataFrame({"a": [1]}).write_parquet(theirs)
    claim_file(ours, [])
    claim_file(tmp_path / "absent.parquet", [])
    assert code_of(lambda: claim_file(theirs, [])) == "file-taken"
    assert code_of(lambda: claim_file(ours, [ours])) == "input-in-output"


def test_a_new_file_is_held_until_it_is_written(tmp_path):
    path = tmp_path / "deep" / "new.toml"
    with new_file(path, []):
        with pytest.raises(StoreError, match="another process is writing"), new_file(path, []):
            raise AssertionError
        write_text(path, "text")
        with pytest.raises(StoreError, match="exists"), new_file(path, []):
            raise AssertionError
    assert path.read_text() == "text"
    with pytest.raises(StoreError, match="exists"), new_file(path, []):
        raise AssertionError
    assert path.read_text() == "text"


def test_a_new_file_that_fails_leaves_no_folders_that_it_made(tmp_path):
    path = tmp_path / "new" / "er" / "one.parquet"
    with pytest.raises(ZeroDivisionError), new_file(path, []):
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())
    with new_file(path, []):
        path.write_text("x")
    assert path.read_text() == "x"


def test_a_new_file_that_fails_is_absent(tmp_path):
    path = tmp_path / "new.toml"
    with pytest.raises(ZeroDivisionError), new_file(path, []):
        raise ZeroDivisionError
    assert not path.exists()
    path.touch()
    with new_file(path, []):
        write_text(path, "text")
    assert path.read_text() == "text"
    assert [found.name for found in tmp_path.iterdir()] == ["new.toml"]
