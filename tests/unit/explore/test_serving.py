"""A site is served to this machine alone, with the types that browsers ask for."""

import os
import socket
import struct
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tallyveil.explore.serving import served


@pytest.fixture
def address(tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / "index.html").write_text("é", encoding="utf-8")
    (tmp_path / "app" / "main.js").write_text("export {};")
    (tmp_path / "app" / "x.parquet").write_bytes(b"PAR1")
    with served(tmp_path) as found:
        yield found


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("", "text/html; charset=utf-8"),
        ("app/main.js", "text/javascript; charset=utf-8"),
        ("app/x.parquet", "application/octet-stream"),
    ],
)
def test_types(address, file, kind):
    with urlopen(address + file) as answer:
        assert answer.headers["Content-Type"] == kind
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    [
        "app/",
        "nothing.js",
        "../../etc/passwd",
        "%2e%2e/%2e%2e/etc/passwd",
        "%00",
        "a" * 5000,
        "a/" * 5000,
        "%ed%a0%80",
    ],
)
def test_nothing_else_is_given(address, path, capfd):
    with pytest.raises(HTTPError) as caught:
        urlopen(address + path)
    assert caught.value.code == 404
    caught.value.close()
    assert not capfd.readouterr().err


def test_a_browser_that_goes_away_is_no_traceback(tmp_path, address, capfd):
    (tmp_path / "large.svg").write_bytes(bytes(1 << 24))
    host, port = address.removeprefix("http://").rstrip("/").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )  # a reset at the end
        connection.sendall(f"GET /large.svg HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        connection.recv(1)
    with urlopen(address):  # the server still answers
        assert not capfd.readouterr().err


def test_only_this_machine(address):
    assert address.startswith("http://127.0.0.1:")


def test_a_link_out_of_the_site_and_a_pipe_are_not_given(tmp_path, address):
    (tmp_path.parent / "outside").write_text("outside")
    (tmp_path / "link").symlink_to(tmp_path.parent / "outside")
    (tmp_path / "folder").symlink_to(tmp_path.parent)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
    for path in ("link", "folder/outside", "pipe"):
        with pytest.raises(HTTPError) as caught:
            urlopen(address + path, timeout=5)
        assert caught.value.code == 404
        caught.value.close()


def test_a_name_of_another_host_is_refused(address):
    """A page from elsewhere could otherwise read the site under a name that it makes an address of this machine."""
    with pytest.raises(HTTPError) as caught:
        urlopen(Request(address, headers={"Host": "evil.example"}))
    assert caught.value.code == 421
    caught.value.close()
