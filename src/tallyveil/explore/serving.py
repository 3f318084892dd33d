"""Serve a site to the browser of this machine, and to nobody else."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

HOST: Final = "127.0.0.1"
"""Only this machine can reach it."""


class _Files(SimpleHTTPRequestHandler):
    """Gives the files of one folder: no list of a folder, no line on the terminal for each file."""

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


@contextmanager
def served(site: Path, port: int = 0) -> Iterator[str]:
    """Serve a site from a thread of its own, until the block ends.

    Args:
        site: Folder of the site.
        port: Number of the port; 0 for a free one.
    Yields:
        The address.
    """
    server = ThreadingHTTPServer((HOST, port), partial(_Files, directory=str(site)))
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
