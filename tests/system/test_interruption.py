"""A run may be killed at any moment; the same command finishes it, with the same numbers and one spend."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.samples import every

from tallyveil.errors import StoreError
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.topdown.run.run import run_release

KEY_TEXT = "interruption"
KEY = insecure_key(KEY_TEXT)


def contents(out: Path) -> dict[str, bytes]:
    return {p.relative_to(out).as_posix(): p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file()}


def spends(out: Path) -> int:
    lines = [json.loads(line) for line in (out / "ledger.jsonl").read_text().splitlines()]
    return sum(line["kind"] == "spend" for line in lines)


def arguments(release: Path, out: Path) -> list[str]:
    return ["run", str(release), "--out", str(out), "--insecure-test-key", KEY_TEXT, "--quiet"]


@pytest.mark.parametrize(
    ("before", "first"),
    every(12, [*((True, first) for first in range(1, 7)), *((False, first) for first in (4, 5, 6, 1, 2, 3))]),
)
def test_killed_at_every_write(small_release, tmp_path, killed_at, before, first):
    plan = load_plan(small_release)
    expected = contents(run_release(plan, tmp_path / "whole", test_key=KEY).path)
    number, killed = first - 6, True
    while killed:
        number += 6  # the writes of the other five runs of this test come between
        out = tmp_path / f"killed-{number}"
        killed = killed_at(number, lambda out=out: run_release(plan, out, test_key=KEY), before=before)
        run_release(plan, out, test_key=KEY)
        assert contents(out) == expected
        assert spends(out) == 1
    assert number > 20  # there are that many files to write, or the test has tested nothing


@pytest.mark.soak
def test_killed_by_the_system_at_random_moments(small_release, tmp_path, fork_server):
    """The real thing: SIGKILL to the process, ten times, at moments nobody chose."""
    expected = contents(run_release(load_plan(small_release), tmp_path / "whole", test_key=KEY).path)

    def run(out: Path, seconds: float = 60.0) -> dict:
        return fork_server.run(arguments(small_release, out), tmp_path, seconds)

    whole = run(tmp_path / "timed")["seconds"]
    moments = random.Random(20)
    for number in range(10):
        out = tmp_path / f"killed-{number}"
        run(out, whole * moments.uniform(0.1, 0.9))
        if number % 5:
            run_release(load_plan(small_release), out, test_key=KEY)
        else:
            finished = run(out)
            assert finished["code"] == 0, finished["err"]
        assert contents(out) == expected
        assert spends(out) == 1


@pytest.mark.nightly
def test_an_interpreter_of_its_own_killed_by_the_system(small_release, tmp_path):
    """The same with nothing forked, once: killed when the ledger shows the spend."""
    expected = contents(run_release(load_plan(small_release), tmp_path / "whole", test_key=KEY).path)
    out = tmp_path / "killed"
    start = "from tallyveil.cli.main import main; main()"
    command = [sys.executable, "-c", start, *arguments(small_release, out)]
    process = subprocess.Popen(command)
    while process.poll() is None and not ((out / "ledger.jsonl").exists() and spends(out)):
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert (out / "private").exists()
    subprocess.run(command, check=True)
    assert contents(out) == expected
    assert spends(out) == 1


def test_an_interrupted_real_run_keeps_its_key(small_release, tmp_path, killed_at):
    """With a key from the operating system, what was measured before the kill is what is published after it."""
    plan, out = load_plan(small_release), tmp_path / "out"
    assert killed_at(9, lambda: run_release(plan, out))
    before = {p: p.read_bytes() for p in out.rglob("*.parquet")}
    assert len(before) >= 4
    assert (out / "private").stat().st_mode & 0o777 == 0o700
    assert (out / "private" / "run.json").stat().st_mode & 0o777 == 0o600
    run_release(plan, out)
    assert {p: p.read_bytes() for p in before} == before
    assert spends(out) == 1
    assert not (out / "private").exists()


@pytest.fixture
def interrupted(small_release, tmp_path, killed_at):
    out = tmp_path / "out"
    assert killed_at(9, lambda: run_release(load_plan(small_release), out, test_key=KEY))
    return out


def test_changed_records_cannot_resume(interrupted, small_release):
    import polars as pl

    before = contents(interrupted)
    path = small_release.parent / "people.parquet"
    frame = pl.read_parquet(path)
    frame.with_columns(pl.col("count") + pl.Series([1] + [0] * (frame.height - 1))).write_parquet(path)
    with pytest.raises(StoreError, match="other records") as caught:
        run_release(load_plan(small_release), interrupted, test_key=KEY)
    assert caught.value.code == "resume-changed"
    assert contents(interrupted) == before


def test_changed_bounds_cannot_resume(interrupted, small_release):
    import polars as pl

    path = small_release.parent / "barracks.parquet"
    frame = pl.read_parquet(path)
    frame.with_columns(
        pl.when(pl.col("home") == "barracks").then(2).otherwise(0).alias("lower")
    ).write_parquet(path)
    with pytest.raises(StoreError, match="bounds"):
        run_release(load_plan(small_release), interrupted, test_key=KEY)


def test_another_plan_cannot_resume(interrupted, edit):
    with pytest.raises(StoreError, match="another plan"):
        run_release(load_plan(edit('name = "small"', 'name = "other"')), interrupted, test_key=KEY)


def test_another_key_cannot_resume(interrupted, small_release):
    plan = load_plan(small_release)
    with pytest.raises(StoreError, match="another key"):
        run_release(plan, interrupted, test_key=insecure_key("other"))
    with pytest.raises(StoreError, match="insecure test key"):
        run_release(plan, interrupted)


def test_two_processes_cannot_share_a_folder(interrupted, small_release):
    from tallyveil.runs.folder import RunFolder

    with RunFolder(interrupted), pytest.raises(StoreError, match="another process"):
        run_release(load_plan(small_release), interrupted, test_key=KEY)
