"""Serve a site to the browser of this machine, and to nobody else.

A site that answers has a secret in its address: another user of the machine could reach its port, and not guess it.
"""

import hmac
import json
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final, cast

from tallyveil.storage.json_files import JsonObject, parsed
from tallyveil.storage.paths import real

HOST: Final = "127.0.0.1"
"""Only this machine can reach it."""


POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a page that answers may load: nothing from elsewhere."""

TOKEN_BYTES: Final = 24
"""Random bytes of a secret path: 192 bits, which nobody guesses."""

MOST_ASKED: Final = 1 << 20
"""Most bytes of a question to a site that answers: a page of answers of people has some kB."""

ANSWERS: Final = "Tallyveil-Answers"
"""Header by which a page learns that it may ask: the same page on another server is only files."""

Answering = Callable[[JsonObject], JsonObject]
"""What a site answers to a question of its page."""


class _Files(SimpleHTTPRequestHandler):
    """Gives the files of one folder: no list of a folder, no file elsewhere, no line on the terminal for each file."""

    # The types of a system's registry may be wrong, and browsers run modules of no other type.
    extensions_map = {  # noqa: RUF012 - as in the class above
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".json": "application/json",
        ".svg": "image/svg+xml",
        ".pbf": "application/x-protobuf",
        "": "application/octet-stream",
    }

    def send_head(self) -> Any:
        """Give a file that lies in the folder, to a page that came from this address.

        The name of another host is refused: a page from elsewhere could have made it an address of this machine (DNS
        rebinding), and would then read the site.
        """
        _, port = self.connection.getsockname()
        if self.headers.get("Host") != f"{HOST}:{port}":
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
            return None
        if not self._is_there():
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        return super().send_head()

    def _is_there(self) -> bool:
        """Whether the path names a file in the folder; no link out of it, no pipe, no other folder."""
        asked, root = self.translate_path(self.path), real(Path(self.directory))
        if "\0" in asked:
            return False
        path = Path(asked)
        file = path / "index.html" if path == Path(self.directory) else path
        try:
            return file.is_file() and real(file).is_relative_to(root)
        except (OSError, ValueError):  # a path that is too long for the system, or no text of its encoding
            return False

    def end_headers(self) -> None:
        """Let the browser ask again for every file: another site may have this address tomorrow."""
        self.send_header("Cache-Control", "no-cache")
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def list_directory(self, path: Any) -> None:
        """Refuse to list a folder."""
        self.send_error(HTTPStatus.NOT_FOUND)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as in the class above
        """Say nothing."""


class _Answering(_Files):
    """Gives the files of a folder below a secret path, and answers questions there."""

    def __init__(self, *arguments: Any, token: str, answer: Answering, most: int, **settings: Any) -> None:
        self._token, self._answer, self._most = token, answer, most
        super().__init__(*arguments, **settings)

    def send_head(self) -> Any:
        """Give a file below the secret path."""
        if not self._knows_path():
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        return super().send_head()

    def do_POST(self) -> None:
        """Answer a question of the page that was given from this address."""
        _, port = self.connection.getsockname()
        address = f"{HOST}:{port}"
        length = self.headers.get("Content-Length", "")
        if self.headers.get("Host") != address or self.headers.get("Origin") != f"http://{address}":
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
        elif not self._knows_path():
            self.send_error(HTTPStatus.NOT_FOUND)
        elif not (length.isascii() and length.isdigit() and len(length) < 10 and int(length) <= self._most):
            self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        elif (asked := parsed(self.rfile.read(int(length)), dict[str, Any])) is None:
            self.send_error(HTTPStatus.BAD_REQUEST)
        else:
            content = json.dumps(self._answer(asked), ensure_ascii=False).encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def _knows_path(self) -> bool:
        """Whether the path begins with the secret, which is then taken off it."""
        start = f"/{self._token}/"
        if not hmac.compare_digest(self.path[: len(start)].encode(), start.encode()):
            return False
        self.path = self.path[len(start) - 1 :]
        return True

    def end_headers(self) -> None:
        """Let no other page show this one, and let it load nothing from elsewhere."""
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header(ANSWERS, "yes")
        super().end_headers()


class _Server(ThreadingHTTPServer):
    """Says nothing of a browser that went away before it had its answer."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an error of this program as usual, and no broken connection."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def served(
    site: Path, port: int = 0, *, answer: Answering | None = None, most: int = MOST_ASKED
) -> Iterator[str]:
    """Serve a site from a thread of its own, until the block ends.

    Args:
        site: Folder of the site.
        port: Number of the port; 0 for a free one.
        answer: What the site answers to questions of its page; None for a site that is only files. With it, the address
            has a secret path, and nothing is given elsewhere.
        most: Most bytes of a question.
    Yields:
        The address.
    """
    path, handler = "", cast("Callable[..., _Files]", partial(_Files, directory=str(site)))
    if answer is not None:
        token = secrets.token_urlsafe(TOKEN_BYTES)
        path, handler = (
            f"{token}/",
            partial(_Answering, directory=str(site), token=token, answer=answer, most=most),
        )
    server = _Server((HOST, port), handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_address[1]}/{path}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
