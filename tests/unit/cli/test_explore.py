"""A site that is opened: where its address is said."""

import json
import signal
import webbrowser
from pathlib import Path

import pytest

from tallyveil.cli.explore import Shown, give_site


class Made:
    """A site in a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def to_mapping(self):
        return {"path": str(self.path)}


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """The addresses that the browser was given. It is closed at once: Ctrl-C."""
    (tmp_path / "index.html").write_text("")
    found: list[str] = []

    def open_page(address: str) -> None:
        found.append(address)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(webbrowser, "open", open_page)
    return found


@pytest.mark.parametrize(("quiet", "as_json"), [(False, False), (True, False), (False, True)])
def test_the_address_is_always_said(tmp_path, opened, capsys, quiet, as_json):
    """A machine may have no browser, and the port is drawn by the system."""
    give_site(Made(tmp_path), ["made"], Shown(quiet=quiet, as_json=as_json, opened=True))
    out, err = capsys.readouterr()
    aside = quiet or as_json
    assert opened[0] in (err if aside else out)
    assert opened[0] not in (out if aside else err)
    assert ("made" in out) is not aside
    if as_json:
        assert json.loads(out) == {"path": str(tmp_path)}


def test_a_site_that_is_not_opened_says_how_to_look_at_it(tmp_path, opened, capsys):
    give_site(Made(tmp_path), ["made"], Shown(quiet=False, as_json=False, opened=False))
    assert "give --open" in capsys.readouterr().out
    assert not opened
