"""A cluster in this process, without Ray: worker processes are objects, and die when a test says so."""

import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cluster_site import OPENER

from tallyveil.runs.cluster.worker import ClusterWorker
from tallyveil.runs.executor import ClusterSettings, Site

SECRET = b"only for worker processes"
TOKEN = b"7c" * 32
FILES_KEY = b"authenticates files of results.."


class HereConnection:
    """A connection that does each call when its report is asked for.

    Attributes:
        token: As in `Connection`.
        cpus: As in `Connection`.
        dies: Told method and arguments of each call; True ends the worker process before it answers.
        says: Told each call; a text is answered in the place of the worker process.
        sent: All requests.
        left: What the work ended with, each time the cluster was left.
        settings: What it was joined with.
    """

    def __init__(self) -> None:
        self.settings: ClusterSettings | None = None
        self.token: bytes | None = TOKEN
        self.cpus = 2
        self.dies = lambda method, arguments: False
        self.says: Callable[[dict[str, Any]], str | None] = lambda asked: None
        self.sent: list[dict[str, Any]] = []
        self.left: list[type[BaseException] | None] = []
        self._idle = 0
        self._workers: dict[int, ClusterWorker] = {}
        self._calls: deque[dict[str, Any]] = deque()

    def send(self, request: dict[str, Any]) -> None:
        assert len(self.sent) < 1000, "requests without end"
        self.sent.append(request)
        if request["do"] == "hire":
            self._workers[request["worker"]] = ClusterWorker()
        elif request["do"] == "dismiss":
            del self._workers[request["worker"]]
        else:
            self._calls.append(request)

    def report(self, seconds: float) -> dict[str, Any] | None:
        assert 0 < seconds <= 1
        while self._calls and self._calls[0]["worker"] not in self._workers:
            self._calls.popleft()
        if not self._calls:
            time.sleep(0.001)
            self._idle += 1
            assert self._idle < 5000, "the driver waits for what never comes"
            return None
        asked = self._calls.popleft()
        if self.dies(asked["method"], asked["arguments"]):
            del self._workers[asked["worker"]]
            return {"event": "died", "call": asked["call"], "why": "ActorDiedError"}
        text = self.says(asked)
        if text is None:
            text = getattr(self._workers[asked["worker"]], asked["method"])(*asked["arguments"])
        return {"event": "answer", "call": asked["call"], "text": text}

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.left.append(kind)


@pytest.fixture
def here(monkeypatch):
    """The connection of every executor of the test."""
    monkeypatch.setattr(os, "environ", dict(os.environ, RAY_AUTH_TOKEN=TOKEN.decode()))
    connection = HereConnection()

    def joins(settings: ClusterSettings) -> HereConnection:
        connection.settings = settings
        return connection

    monkeypatch.setattr("tallyveil.runs.cluster.executor.Connection", joins)
    return connection


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(OPENER, {"folder": str(tmp_path)}, SECRET, FILES_KEY)
