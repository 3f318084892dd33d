"""Serve a site to the browser of this machine, and to nobody else."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

from tallyveil.storage.paths import real

HOST: Final = "127.0.0.1"
"""Only this machine can reach it."""


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


class _Server(ThreadingHTTPServer):
    """Says nothing of a browser that went away before it had its answer."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an error of this program as usual, and no broken connection."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def served(site: Path, port: int = 0) -> Iterator[str]:
    """Serve a site from a thread of its own, until the block ends.

    Args:
        site: Folder of the site.
        port: Number of the port; 0 for a free one.
    Yields:
        The address.
    """
    server = _Server((HOST, port), partial(_Files, directory=str(site)))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
