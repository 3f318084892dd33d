"""Random losses on a cluster: whatever is lost, the release is the one of an undisturbed run, for one spend.

    python tests/soak/cluster_kills.py --number 20 --seed 1

Each trial starts a Ray cluster of two nodes on this machine and a run on it. At a random moment it kills a worker
process, the second node, the head, or the run itself (in half of these trials with its child process, the relay). After
the loss of the head it starts a new cluster, and after the loss of the head or of the run it gives the same command
again. At the end the files must be those of threads, with one spend in the ledger and no private folder. The temporary
folder of the run must be gone unless both of its processes were killed. Exit code 1 says that this did not hold.
"""

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

sys.path.append(str(Path(__file__).parents[2]))

from tests.cluster_nodes import Nodes

import tallyveil
from tallyveil.api.beginning import write_country

KEY = "soak of clusters"
EVENTS = ("worker process", "second node", "head", "run")
MOST_SECONDS = 300.0
"""After which a command hangs."""


@dataclass(frozen=True)
class Trial:
    """What one trial did.

    Attributes:
        event: What was lost.
        moment: Seconds from the command to the loss.
        seconds: Seconds of the command, or of both commands with the start of a new cluster.
        answer: Exit code of the command that met the loss.
        faults: What is wrong.
    """

    event: str
    moment: float
    seconds: float
    answer: int
    faults: tuple[str, ...]


class Command:
    """`tallyveil run` on a cluster, as a process of its own."""

    def __init__(self, release: Path, out: Path, nodes: Nodes) -> None:
        self.begun = time.monotonic()
        self._said = out.with_suffix(".said")
        command = [sys.executable, "-m", "tallyveil", "run", str(release), "--out", str(out), "--quiet"]
        command += ["--executor", f"ray={nodes.address}", "--workers", "2", "--insecure-test-key", KEY]
        environment = dict(os.environ, **nodes.environment)
        with self._said.open("ab") as said:
            self.process = subprocess.Popen(command, stdout=said, stderr=said, env=environment)

    def ended(self) -> int:
        """Exit code, once the command ends. A command that hangs is killed."""
        try:
            return self.process.wait(MOST_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def said(self) -> str:
        """What the command wrote."""
        return self._said.read_text()

    def relays(self) -> list[psutil.Process]:
        """The child process that speaks with Ray, if it lives."""
        try:
            children = psutil.Process(self.process.pid).children()
            return [one for one in children if one.cmdline() and one.cmdline()[-1].endswith("relay")]
        except psutil.NoSuchProcess:
            return []

    def folders(self) -> list[Path]:
        """The temporary folder, to whose log the relay writes its errors."""
        return [Path(f"/proc/{relay.pid}/fd/2").readlink().parent for relay in self.relays()]

    def kill(self, *, with_relay: bool) -> None:
        """End the command at once."""
        for relay in self.relays() if with_relay else []:
            relay.kill()
        self.process.kill()


def main() -> int:
    """Run the trials; 0 where there is no fault."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--number", type=int, default=20, help="trials")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="soak-cluster-"))
    release = write_release(root)
    wanted = digests(tallyveil.run(release, root / "threads", insecure_test_key=KEY).path)
    undisturbed = statistics.median(undisturbed_seconds(root, release, wanted) for _ in range(2))
    print(f"undisturbed: {undisturbed:.1f} s", flush=True)
    print(f"{'lost':16} {'at':>6} {'seconds':>8} {'added':>7} {'answer':>7}  digests and spends", flush=True)
    choose = random.Random(chosen.seed)
    n_faults = 0
    for number in range(chosen.number):
        event = EVENTS[number % len(EVENTS)]
        one = trial(root, release, wanted, event, choose.uniform(0.0, undisturbed), choose)
        added = one.seconds - undisturbed
        judged = "equal, one spend" if not one.faults else "; ".join(one.faults)
        print(
            f"{event:16} {one.moment:6.1f} {one.seconds:8.1f} {added:7.1f} {one.answer:7}  {judged}",
            flush=True,
        )
        n_faults += bool(one.faults)
    print("no fault" if not n_faults else f"{n_faults} faults; see {root}")
    if not n_faults:
        shutil.rmtree(root)
    return bool(n_faults)


def write_release(root: Path) -> Path:
    """A country whose release takes ten to twenty seconds on two worker processes; its release file."""
    write_country(root / "country", blocks=1500, people=60_000, schema="pl94-persons", seed=3)
    path = root / "country" / "release.toml"
    path.write_text(path.read_text() + '\n[estimation]\nvalues = "tree"\n')
    return path


def undisturbed_seconds(root: Path, release: Path, wanted: dict[str, str]) -> float:
    """Seconds of a command that meets no loss."""
    out = root / "undisturbed"
    with Nodes() as nodes:
        command = Command(release, out, nodes)
        if command.ended() or digests(out) != wanted:
            sys.exit(f"an undisturbed run failed: {command.said()}")
        seconds = time.monotonic() - command.begun
    shutil.rmtree(out)
    return seconds


def trial(
    root: Path, release: Path, wanted: dict[str, str], event: str, moment: float, choose: random.Random
) -> Trial:
    """One run that loses something."""
    out = Path(tempfile.mkdtemp(dir=root)) / "out"
    with Nodes() as nodes:
        command = Command(release, out, nodes)
        begun = command.begun
        time.sleep(moment)
        left = command.folders()
        is_whole = lose(event, nodes, command, choose)
        at = time.monotonic() - begun
        answer = command.ended()
        if event == "run" and answer == -signal.SIGKILL:
            command = Command(release, out, nodes)
            command.ended()
        if event != "head" or answer == 0:
            seconds = time.monotonic() - begun
    if event == "head" and answer:
        with Nodes() as nodes:
            command = Command(release, out, nodes)
            command.ended()
            seconds = time.monotonic() - begun
    faults = faults_of(out, wanted, command)
    if is_whole:
        faults += [f"{path} is left" for path in left if stays(path)]
    if event in ("worker process", "second node") and answer:
        faults.append(f"the command ended with {answer}")
    if not faults:
        shutil.rmtree(out.parent)
    return Trial(event, at, seconds, answer, tuple(faults))


def lose(event: str, nodes: Nodes, command: Command, choose: random.Random) -> bool:
    """Kill what a trial loses; whether something lives that removes the temporary folder of the command."""
    if event == "run":
        with_relay = choose.random() < 0.5
        command.kill(with_relay=with_relay)
        return not with_relay
    if event == "head":
        nodes.kill(0)
    elif event == "second node":
        nodes.kill(1)
    elif workers := waited_workers(nodes, command):
        choose.choice(workers).kill()
    return True


def waited_workers(nodes: Nodes, command: Command) -> list[psutil.Process]:
    """Worker processes of the run, as soon as there are some."""
    while command.process.poll() is None:
        for number in (0, 1):
            found = [one for one in nodes.processes(number) if is_worker(one)]
            if found:
                return found
        time.sleep(0.05)
    return []


def is_worker(process: psutil.Process) -> bool:
    """Whether a process does chunks."""
    try:
        return "ClusterWorker" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False


def stays(folder: Path) -> bool:
    """Whether a folder is still there after a time in which a relay removes it."""
    end = time.monotonic() + 60
    while folder.exists() and time.monotonic() < end:
        time.sleep(0.1)
    return folder.exists()


def faults_of(out: Path, wanted: dict[str, str], last: Command) -> list[str]:
    """What is wrong with a folder at the end of a trial."""
    if not (out / "manifest.json").exists():
        return [f"no release: {last.said()}"]
    found = digests(out)
    faults = [
        f"{path} differs" for path in wanted.keys() | found.keys() if wanted.get(path) != found.get(path)
    ]
    n_spends = (out / "ledger.jsonl").read_text().count('"kind":"spend"')
    if n_spends != 1:
        faults.append(f"{n_spends} spends")
    if (out / "private").exists():
        faults.append("the private folder is there")
    return faults


def digests(out: Path) -> dict[str, str]:
    """SHA-256 of every file of a release by its path."""
    listed = json.loads((out / "manifest.json").read_text())["files"]
    return {one["path"]: one["sha256"] for one in listed}


if __name__ == "__main__":
    sys.exit(main())
