"""The driver's side of the relay: starts the child process, sends requests, notices a lost cluster.

The token, logs and sockets of a driver stand in a folder of its own. The driver locks a file in it, and the
relay holds the same lock. If both are killed, nobody has the lock, and the next driver of the same user on
this machine removes the folder.
"""

import json
import os
import queue
import re
import secrets
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Final

from tallyveil.errors import ClusterError
from tallyveil.printable import shown
from tallyveil.runs.cluster.channel import MODE, TOKEN, TOKEN_PATH, read_token
from tallyveil.runs.cluster.probe import ANSWERED, REFUSED
from tallyveil.runs.executor import ClusterSettings
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.system import (
    WINDOWS,
    has_other_owner,
    is_open_to_others,
    lock,
    open_for_lock,
    open_new,
    usable_cores,
)

PREFIX: Final = "tv-"
HELD: Final = "held"
"""The locked file. It gets this name when it is locked, so that a folder that is being made is never taken for one
that was left behind."""

_UNLOCKED: Final = "new"


@dataclass(frozen=True, slots=True)
class OwnFolder:
    """A folder of this process.

    Attributes:
        path: The folder, of mode 0700.
        descriptor: Of the locked file; the lock lasts as long as a process has it open.
    """

    path: Path
    descriptor: int

    @classmethod
    def new(cls) -> "OwnFolder":
        """Make a folder, and remove those that killed drivers left behind. Raises OSError."""
        # Each new driver cleans up after those that were killed; nobody else does.
        remove_abandoned(_parent())
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_parent()))
        making = path / _UNLOCKED
        descriptor = open_for_lock(making, mode=0o600)
        # Locked under another name, and renamed then: `held` never exists unlocked while its owner lives.
        lock(descriptor, making)
        making.rename(path / HELD)
        return cls(path, descriptor)

    @property
    def inherited(self) -> tuple[int, ...]:
        """Descriptors that a child process keeps, so that it holds the lock, too."""
        return () if WINDOWS else (self.descriptor,)

    def give_up(self) -> None:
        """Give back the lock, and leave the folder to the child process, which removes it."""
        with suppress(OSError):
            os.close(self.descriptor)

    def remove(self) -> None:
        """Remove the folder."""
        self.give_up()
        shutil.rmtree(self.path, ignore_errors=True)


def remove_abandoned(parent: Path) -> None:
    """Remove folders of this user whose driver and relay are gone; others are left as they are.

    Args:
        parent: The folder in which they are.
    """
    for path in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            # Only folders of this user and of mode 0700: in a shared /tmp, others may make folders with our prefix.
            if _is_ours(path) and _is_abandoned(path / HELD):
                shutil.rmtree(path, ignore_errors=True)


# lstat: a link that somebody planted is not followed.
def _is_ours(path: Path) -> bool:
    status = path.lstat()
    return stat.S_ISDIR(status.st_mode) and not has_other_owner(status) and not is_open_to_others(status)


def _is_abandoned(held: Path) -> bool:
    """Whether nobody has the lock of a folder that has one. Raises OSError."""
    if not stat.S_ISREG(held.lstat().st_mode):
        return False
    descriptor = open_for_lock(held)
    try:
        # The lock can be had exactly if no living process holds it; closing the file gives it back.
        return lock(descriptor, held)
    finally:
        os.close(descriptor)


def _parent() -> Path:
    """Where Ray's sockets are: systems allow about 100 bytes for their paths, and Ray itself needs 60."""
    return Path("/tmp") if Path("/tmp").is_dir() else Path(tempfile.gettempdir())


JOIN_SECONDS: Final = 60.0
"""How long a cluster may take to let the driver in, or to say that it demands a token."""
LOST_SECONDS: Final = 30.0
"""A cluster is lost if its head does not answer for so long, or says for so long that the driver's node is dead.

Ray itself ends the relay after 60 seconds without a head."""
_END_SECONDS: Final = 15.0
"""How long the child process may take to leave the cluster before it is ended."""
# Seconds for the reading thread to catch up after the process was stopped. Reports are small, so half would do as
# well.
_CATCH_UP_SECONDS: Final = 1.0
_SAID_CHARACTERS: Final = 300
"""Most characters of Ray's last line in a message: about four lines of a terminal."""
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


class Connection:
    """A joined cluster; a context manager that leaves it.

    Attributes:
        token: The token that the cluster demands; None for an open cluster.
        cpus: Processors that the cluster has.

    Raises:
        ClusterError: Ray is not installed; the cluster cannot be joined; it is open, and that is not allowed.
    """

    def __init__(self, settings: ClusterSettings) -> None:
        if find_spec("ray") is None:
            raise ClusterError(
                "work on a cluster needs the package Ray. Install it with `pip install 'tallyveil[cluster]'` on every "
                "machine.",
                code="cluster-missing",
            )
        self._folder: OwnFolder | None = OwnFolder.new()
        self._temporary = self._folder.path
        self._reports: queue.SimpleQueue[JsonObject | None] = queue.SimpleQueue()
        # Set here, so that the time to join is not taken for silence.
        self._heard = time.monotonic()
        self._child: subprocess.Popen[str] | None = None
        self._is_lost = False
        try:
            self.token = self._token(settings)
            self._start(settings)
            self.cpus = self._joined()
        # An interrupt does not wait for Ray; an error does, so that its last words can be read.
        except BaseException as error:
            self.leave(waits=isinstance(error, Exception))
            raise

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.leave(waits=kind is None or issubclass(kind, Exception))

    def send(self, request: JsonObject) -> None:
        """Send one request. If the relay is gone, the next `report` says so."""
        assert self._child is not None
        assert self._child.stdin is not None
        with suppress(OSError):
            self._child.stdin.write(json.dumps(request) + "\n")
            self._child.stdin.flush()

    def report(self, seconds: float) -> JsonObject | None:
        """The next report of the relay; None if there is none in the given time.

        Raises:
            ClusterError: the cluster is lost.
        """
        # Waits of at most a second: a cluster that falls silent is noticed although no report comes.
        end = time.monotonic() + seconds
        while True:
            try:
                report = self._reports.get(timeout=max(0.0, min(1.0, end - time.monotonic())))
            except queue.Empty:
                self._require_pulse()
                if time.monotonic() >= end:
                    return None
                continue
            if report is None:
                raise self._lost("Ray ended the process that speaks with the cluster")
            self._require_pulse()
            return report

    def leave(self, *, waits: bool = True) -> None:
        """Leave the cluster; one of this machine ends. Nothing happens the second time.

        Args:
            waits: Whether to wait until the relay has ended. Otherwise, as when the user has interrupted the run, it
                ends by itself within seconds, and removes its folder.
        """
        # Set to None first, so that a second call does nothing.
        child, self._child = self._child, None
        folder, self._folder = self._folder, None
        if child is not None and not waits:
            _close_input(child)
            # The lock of the folder passes to the relay, which holds it through its own descriptor and removes the
            # folder.
            if folder is not None:
                folder.give_up()
            return
        if child is not None:
            _end(child, 0.0 if self._is_lost else _END_SECONDS)
        if folder is not None:
            folder.remove()

    def _token(self, settings: ClusterSettings) -> bytes | None:
        if settings.address is None:
            # 256 random bits, for a cluster of this machine: other users of the machine cannot join it.
            new_token = secrets.token_hex(32).encode()
            descriptor = open_new(self._temporary / "token", mode=0o600)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(new_token)
            return new_token
        if _demands_token(settings.address):
            token = read_token()
            if token is None:
                raise ClusterError(
                    f"the cluster at {shown(settings.address)} demands a token, and this machine has none. Give it as "
                    f"{TOKEN}, {TOKEN_PATH} or ~/.ray/auth_token.",
                    code="cluster-token",
                )
            return token
        # An open cluster runs code for anybody, so it is used only where the user has said that its network is
        # closed.
        if not settings.open_allowed:
            raise ClusterError(
                f"the cluster at {shown(settings.address)} demands no token: everybody who reaches its ports can run "
                f"programs there and read what worker processes hold. Start every node with {MODE}=token and the same "
                "token. If the network lets nobody else in, `open_cluster = true` in `[execution]` of the release "
                "file allows an open cluster, as does ClusterSettings(open_allowed=True).",
                code="cluster-open",
            )
        return None

    def _start(self, settings: ClusterSettings) -> None:
        # No usage reports leave the machine, and reports of the relay are not held back in a buffer.
        environment = dict(os.environ, RAY_USAGE_STATS_ENABLED="0", PYTHONUNBUFFERED="1")
        # The address is passed as an argument; a variable of the user's must not send the run elsewhere.
        environment.pop("RAY_ADDRESS", None)
        environment[MODE] = "disabled" if self.token is None else "token"
        if settings.address is None:
            environment.pop(TOKEN, None)
            environment[TOKEN_PATH] = str(self._temporary / "token")
            # Ray starts worker processes at nice 15, which on a shared machine is slower than threads.
            environment.setdefault("RAY_worker_niceness", "0")
        # To a file and not a pipe, which would fill up and stop Ray while nobody reads it.
        with (self._temporary / "relay.log").open("wb") as said:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "tallyveil.runs.cluster.relay"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                env=environment,
                pass_fds=() if self._folder is None else self._folder.inherited,
                encoding="utf-8",
                start_new_session=True,  # Ctrl-C reaches the driver alone, which ends this process
            )
        assert self._child.stdout is not None
        reader = threading.Thread(target=self._listen, args=(self._child.stdout,), daemon=True)
        reader.start()
        self.send(
            {
                "address": settings.address,
                "workers": settings.workers or usable_cores(),
                "folder": str(self._temporary),
            }
        )

    def _listen(self, stream: IO[str]) -> None:
        """Put the relay's reports in the queue, and None when it has ended."""
        # The one thread that reads; it only moves lines, so that no report is lost while the driver computes.
        with suppress(ValueError):  # a relay that is killed may leave half a line
            for line in stream:
                report = json.loads(line)
                if report["event"] == "pulse":
                    self._heard = time.monotonic()
                else:
                    self._reports.put(report)
        # Also after a broken line: the driver must hear that nothing more comes.
        self._reports.put(None)

    def _joined(self) -> int:
        try:
            report = self._reports.get(timeout=JOIN_SECONDS)
        except queue.Empty:
            report = None
        if report is None:
            raise ClusterError(
                f"the cluster could not be joined within {JOIN_SECONDS:g} seconds. {self._said()}Check that its nodes "
                "run, that this machine is one of them, and that all have the same versions of Ray and Python and the "
                "same token.",
                code="cluster-unreachable",
            )
        self._heard = time.monotonic()
        return int(report["cpus"])

    def _require_pulse(self) -> None:
        silent = time.monotonic() - self._heard
        if silent > LOST_SECONDS:  # or this process was stopped, and what it was sent is still to be read
            # Gives the thread that reads a second to take pulses that came while this whole process stood still.
            time.sleep(_CATCH_UP_SECONDS)
            silent = time.monotonic() - self._heard
        if silent > LOST_SECONDS:
            raise self._lost(
                f"for {silent:.0f} seconds its head has not answered, or has said that this machine's node is dead"
            )

    def _lost(self, why: str) -> ClusterError:
        self._is_lost = True
        return ClusterError(
            f"the cluster is lost: {why}. {self._said()}Finished chunks are kept. Start the cluster again, and then "
            "run the same command again.",
            code="cluster-lost",
        )

    def _said(self) -> str:
        """The last line that Ray wrote, as a sentence."""
        try:
            text = (self._temporary / "relay.log").read_bytes().decode(errors="replace")
        except OSError:
            return ""
        last = (_COLOUR.sub("", text).strip().splitlines() or [""])[-1]
        return f"Ray's last words: '{shown(last)[:_SAID_CHARACTERS]}'. " if last else ""


def _demands_token(address: str) -> bool:
    """Whether a cluster refuses a client without a token. Raises ClusterError."""
    # Without a token on purpose: whether a stranger is let in is what is asked.
    environment = {name: text for name, text in os.environ.items() if name not in (TOKEN, TOKEN_PATH)}
    environment[MODE] = "disabled"
    command = [sys.executable, "-m", "tallyveil.runs.cluster.probe", address]
    code = None
    with suppress(subprocess.TimeoutExpired):
        code = subprocess.run(
            command, env=environment, capture_output=True, timeout=JOIN_SECONDS, check=False
        ).returncode
    if code not in (ANSWERED, REFUSED):
        raise ClusterError(
            f"no Ray cluster answers at {shown(address)}. Wanted the address of its head, such as 10.0.0.1:6379. Check "
            "that the head runs, and that its port can be reached.",
            code="cluster-unreachable",
        )
    return code == REFUSED


def _end(child: "subprocess.Popen[str]", seconds: float) -> None:
    """Let the relay leave the cluster and end; kill it if it does not in this time."""
    _close_input(child)
    # No time for a cluster that is lost: leaving it would wait for a head that does not answer.
    try:
        child.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _close_input(child: "subprocess.Popen[str]") -> None:
    """Close the relay's input, at which it leaves the cluster and ends."""
    with suppress(OSError):
        if child.stdin is not None:
            child.stdin.close()
