"""The token is read where Ray reads it."""

import pytest

from tallyveil.errors import ClusterError
from tallyveil.runs.cluster.channel import read_token


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / ".ray").mkdir()
    return tmp_path


def test_the_nearest_token_is_taken(home, monkeypatch):
    assert read_token() is None
    (home / ".ray" / "auth_token").write_text("of the home\n")
    assert read_token() == b"of the home"
    (home / "file").write_text(" of the path \n")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(home / "file"))
    assert read_token() == b"of the path"
    monkeypatch.setenv("RAY_AUTH_TOKEN", " of the environment\n")
    assert read_token() == b"of the environment"


def test_an_empty_token_is_none(home, monkeypatch):
    (home / ".ray" / "auth_token").write_text("\n")
    monkeypatch.setenv("RAY_AUTH_TOKEN", " ")
    assert read_token() is None


def test_a_named_file_must_be_there(home, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(home / "absent"))
    with pytest.raises(ClusterError, match="FileNotFoundError") as caught:
        read_token()
    assert caught.value.code == "cluster-token"
