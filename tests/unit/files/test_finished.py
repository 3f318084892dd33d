"""A file of another run, or of a test key, is refused, and the message says which of these it is."""

import polars as pl
import pytest

from tallyveil.errors import StoreError
from tallyveil.files.finished import require_run, runs_of
from tallyveil.storage.write import write_parquet


@pytest.fixture
def written(tmp_path):
    def write(**tags: str):
        path = tmp_path / "one.parquet"
        write_parquet(path, pl.DataFrame({"a": [1]}), tags)
        return path

    return write


def refused(path, *, protected: bool) -> str:
    with pytest.raises(StoreError) as caught:
        require_run(path, "one", protected=protected)
    assert caught.value.code == "release-damaged"
    assert "new spend" in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("protected", [False, True])
def test_a_file_of_another_run_says_nothing_of_protection(written, protected):
    said = refused(written(run="two", protected="true"), protected=protected)
    assert "another run than one" in said
    assert "protected" not in said
    assert "test key" not in said


def test_a_file_of_a_test_key_contradicts_a_release_that_is_protected(written):
    path = written(run="one", protected="false: made with an insecure test key")
    said = refused(path, protected=True)
    assert (
        "made with an insecure test key, although the manifest says that people are protected by run one"
        in said
    )
    assert "another run" not in said
    require_run(path, "one", protected=False)


def test_files_that_are_damaged_or_carry_no_tags(tmp_path):
    path = tmp_path / "one.parquet"
    path.write_bytes(b"nothing")
    assert "is damaged, or was written by another run" in refused(path, protected=False)
    require_run(tmp_path / "plan.json", "one", protected=True)


def test_noisy_answers_alone_may_be_those_of_the_run_that_drew_them(written):
    path = written(run="drew", protected="true")
    require_run(path, *runs_of("measurements/Town/total/part-00000.parquet", "one", "drew"), protected=True)
    for name in ("geography.parquet", "measurements.parquet", "tables/part-00000.parquet"):
        with pytest.raises(StoreError, match="another run than one"):
            require_run(path, *runs_of(name, "one", "drew"), protected=True)
