"""A site is served to this machine alone, with the types that browsers ask for."""

from urllib.error import HTTPError
from urllib.request import urlopen

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


@pytest.mark.parametrize("path", ["app/", "nothing.js", "../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd"])
def test_nothing_else_is_given(address, path):
    with pytest.raises(HTTPError) as caught:
        urlopen(address + path)
    assert caught.value.code == 404
    caught.value.close()


def test_only_this_machine(address):
    assert address.startswith("http://127.0.0.1:")
