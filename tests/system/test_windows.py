"""A release made with files as on Windows is the release that this system makes."""

import json

import pytest
from tests.windows import behave_like_windows


def made(command, release_file, out):
    """Make a release with intervals; the digests of its files."""
    command("run", release_file, "--out", out, "--quiet", "--insecure-test-key", "any")
    command("intervals", out, "--quiet")
    command("intervals", out, "--quiet", "--simultaneous")
    command("report", out, "--quiet")
    return {file["path"]: file["sha256"] for file in json.loads((out / "manifest.json").read_text())["files"]}


@pytest.mark.nightly
def test_a_release(small_release, tmp_path, command, monkeypatch):
    here = made(command, small_release, tmp_path / "here")
    with monkeypatch.context() as patch:
        behave_like_windows(patch)
        there = made(command, small_release, tmp_path / "there")
        command("publish", "csv", tmp_path / "there", "--out", tmp_path / "there-csv", "--quiet")
    assert here == there
    assert not (tmp_path / "there" / "private").exists()
    assert not list(tmp_path.rglob("*.tallyveil-*"))
