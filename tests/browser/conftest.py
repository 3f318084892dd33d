"""A browser, and sites to look at with it. `make test-browser` runs these tests; the plain suite does not."""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    Route,
    expect,
    sync_playwright,
)
from tests.browser.releases import make_hostile, make_town

FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --use-gl=angle --use-angle=swiftshader --enable-unsafe-swiftshader"
)
expect.set_options(timeout=30_000)  # a busy machine is slow, which is no failure
DRIVER = "GL Driver Message"  # what the software renderer says of its own speed


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and says nothing, also when a page is closed before it has got them."""

    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """Send a file."""
        with suppress(ConnectionError):
            super().copyfile(source, outputfile)


@dataclass
class Visit:
    """A page of a site, and what went wrong in it: messages, requests to elsewhere, answers that are no success."""

    page: Page
    address: str
    wrong: list[str] = field(default_factory=list)
    requests: list[tuple[str, int]] = field(default_factory=list)
    path: str = ""

    def open(self, state: str = "") -> None:
        """Open the page with a state, and wait until all of it is shown."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.address}{self.path}#{state}")
        self.settled()

    def settled(self) -> None:
        """Wait until the page shows what its address asks for, and the map is drawn."""
        self.page.wait_for_selector("body[data-settled='true']", timeout=20_000)

    def shows(self, selector: str, text: str) -> None:
        """Wait until an element has a text in it."""
        expect(self.page.locator(selector)).to_contain_text(text)

    @property
    def state(self) -> dict[str, str]:
        """The state in the address."""
        found: dict[str, str] = self.page.evaluate(
            "Object.fromEntries(new URLSearchParams(location.hash.slice(1)))"
        )
        return found

    def text(self, selector: str) -> str:
        """The text that a reader sees in an element."""
        return self.page.inner_text(selector)

    def saved(self, button: str) -> str:
        """Press a button and return the text of the file that it hands over."""
        with self.page.expect_download() as download:
            self.page.click(button)
        return Path(download.value.path()).read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all releases and their sites. It is made once for all processes of a run."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "releases"
    folder.mkdir(exist_ok=True)
    makers = (make_town, make_hostile)
    if os.environ.get("PYTEST_XDIST_WORKER") == "gw1":
        makers = makers[::-1]  # the first two processes make one each
    for make in makers:
        with FileLock(folder / f"{make.__name__}.lock"):  # tests run in several processes
            if not (folder / f"{make.__name__}.done").exists():
                make(folder)
                (folder / f"{make.__name__}.done").touch()
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium of this machine."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    assert chromium, "no Chromium is installed. Install it, for example with: apt-get install -y chromium"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=FLAGS.split())
        yield started
        started.close()


@pytest.fixture(scope="session")
def served(releases: Path) -> Iterator[Any]:
    """A function that serves a site and says its address."""
    servers: dict[str, ThreadingHTTPServer] = {}

    def serve(name: str) -> str:
        if name not in servers:
            servers[name] = _start(releases / f"{name}-site")
        return f"http://127.0.0.1:{servers[name].server_port}/"

    yield serve
    for server in servers.values():
        server.shutdown()


def _start(site: Path) -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@pytest.fixture
def visit(browser: Browser, served: Any) -> Iterator[Any]:
    """A function that visits a site. The test fails if anything was wrong in the page, or if it asked elsewhere."""
    visits: list[Visit] = []
    contexts: list[BrowserContext] = []

    def begin(
        name: str, *, width: int = 1400, dark: bool = False, served_at: str | None = None, **options: Any
    ) -> Visit:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            locale="en-US",
            reduced_motion="reduce",
            **options,
        )
        found = Visit(context.new_page(), served_at or served(name))
        _watch(found)
        visits.append(found)
        contexts.append(context)
        return found

    yield begin
    for context in contexts:
        context.close()
    assert not [wrong for one in visits for wrong in one.wrong]


def _watch(visit: Visit) -> None:
    page = visit.page

    def check(route: Route, request: Request) -> None:
        if request.url.startswith((visit.address, "blob:", "data:")):
            route.continue_()
        else:
            visit.wrong.append(f"asked for {request.url}")
            route.abort()

    def said(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and DRIVER not in message.text:
            visit.wrong.append(f"console: {message.text}")

    page.context.route("**/*", check)
    page.on("console", said)
    page.on("pageerror", lambda error: visit.wrong.append(f"error: {error}"))
    page.on("dialog", lambda dialog: visit.wrong.append(f"dialog: {dialog.message}"))
    page.on(
        "response",
        lambda answer: visit.wrong.append(f"{answer.status} {answer.url}") if answer.status >= 400 else None,
    )
    page.on(
        "requestfinished",
        lambda request: visit.requests.append((request.url, request.sizes()["responseBodySize"])),
    )
