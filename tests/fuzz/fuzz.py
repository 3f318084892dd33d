"""Fuzz a reader, guided by the coverage of the library's code (atheris), or at random where atheris is missing.

    python tests/fuzz/fuzz.py ledger --minutes 60 --keep crashers
    python tests/fuzz/fuzz.py --minutes 10          # every target, one after the other
    python tests/fuzz/fuzz.py --list

Each input is the valid file of a target (`targets.py`) with changes that hypothesis draws from bytes (`changes.py`).
atheris chooses these bytes: it keeps those that reach new branches of the library, and changes them further. A reader
may accept the file, or refuse it with a documented error (`oracle.py`). Everything else is a fault. The first file of
each fault is kept, and fuzzing goes on; exit code 1 says that there were faults. With `--minutes 0` each reader gets
its valid file alone.
"""

import argparse
import hashlib
import math
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

os.environ["POLARS_MAX_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1] / "soak"))
sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[2]))

from tests.commands import end_with_parent, exit_code, folder, length, refuse_another_package, whole

MOST_MEMORY_MIB = 6000
BEGINNINGS = 100
"""Random inputs that atheris begins with."""
MOST_SECONDS = 200
"""After which a process that stands still is ended; `oracle.MOST_SECONDS` of the processor are a fault already."""
MOST_BYTES = 8192
"""What atheris gives hypothesis to draw a file from."""


class Fuzzing:
    """The files of one target so far, and what was found."""

    def __init__(self, name: str, minutes: float, keep: Path, own: Path) -> None:
        from changes import changed
        from hypothesis import HealthCheck, Phase, given, settings
        from oracle import documented_codes
        from targets import all_targets

        from tallyveil.errors import TallyveilError

        self.name, self.keep, self.folder = name, keep, own
        self.codes = documented_codes()
        self.counted: Counter[str] = Counter()
        self.found: dict[str, str] = {}
        self.target = all_targets()[name](self.folder / "target")
        with suppress(TallyveilError):  # the judgement below says why
            self.target.read(self.target.valid)  # kernels are compiled before a reading is timed
        self.until, self.least = math.inf, 2 if minutes else 1  # one changed file, however slow the machine
        self.judge(self.target.valid)
        if self.found or self.counted["accepted"] != 1:
            print(f"the valid file of {name} is refused: {self.found}", flush=True)
            os._exit(2)  # threads of libraries may wait for ever in a forked process that ends as others do
        self.until = time.monotonic() + 60 * minutes  # making the valid file takes no time away
        decorate = settings(
            database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck),
            max_examples=1_000_000,
        )  # fmt: skip
        self.one: Any = decorate(given(changed(self.target))(self.judge))

    def judge(self, content: bytes) -> None:
        """Give one file to the reader."""
        from oracle import fault_of, kind_of

        if self.counted["files"] >= self.least and time.monotonic() > self.until:
            raise Ended
        fault, refused = fault_of(self.target, content, self.codes)
        self.counted["files"] += 1
        self.counted["accepted" if not refused else f"refused: {refused}"] += fault is None
        if fault is None or kind_of(fault) in self.found:
            return
        self.found[kind_of(fault)] = fault
        digest = hashlib.sha256(content).hexdigest()[:12]
        (self.keep / f"{self.name}-{digest}").write_bytes(content)
        print(f"FAULT {self.name}-{digest}: {fault}", flush=True)

    def end(self) -> NoReturn:
        """Say what was done, and end the process."""
        files = self.counted.pop("files")
        for line, times in self.counted.most_common():
            print(f"{times:9} {line}")
        seconds = time.process_time()
        print(
            f"{self.name}: {files} files in {seconds:.0f} s of the processor, {len(self.found)} faults",
            flush=True,
        )
        os._exit(int(bool(self.found)))


class Ended(BaseException):
    """The time is over."""


def main() -> int:
    """Fuzz some targets; 1 where there are faults."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*", help="names of targets; default: all of them")
    parser.add_argument("--list", action="store_true", help="show the names of all targets")
    parser.add_argument("--minutes", type=length(0), default=60.0, help="for each target")
    parser.add_argument("--seed", type=whole(0), default=1)
    parser.add_argument("--keep", type=folder, default="fuzz-crashers", help="folder of files with faults")
    chosen = parser.parse_args()
    refuse_another_package()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    atheris = _instrumented()
    from targets import all_targets

    if chosen.list:
        print("\n".join(all_targets()))
        return 0
    if unknown := sorted(set(chosen.targets) - all_targets().keys()):
        parser.error(f"no target is called {', '.join(unknown)}; --list shows the names")
    chosen.keep.mkdir(parents=True, exist_ok=True)
    codes = []
    for name in chosen.targets or all_targets():
        with _child_folder() as own:
            codes.append(_ended(name, atheris, chosen, own))
        if codes[-1] not in (0, 1):
            print(f"FAULT {name}: the process ended with {codes[-1]}", flush=True)
            print(f"    if atheris chose its last input, that is in {chosen.keep}", flush=True)
    return int(any(codes))


@contextmanager
def _child_folder() -> Iterator[Path]:
    """A folder for the files of one target, removed however its process ends."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as own:
        yield Path(own)


def _ended(name: str, atheris: Any, chosen: argparse.Namespace, own: Path) -> int:
    """Fuzz one target in a process of its own: how that ended."""
    # Nothing has started a thread so far, and so the process may fork.
    child = os.fork()
    if not child:
        end_with_parent()
        try:
            _fuzz(atheris, name, chosen, own)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(3)
    done = status = 0
    try:
        while not done:
            time.sleep(
                0.05
            )  # Ctrl-C ends this. It may not end a wait, which a library can let the system go on with.
            done, status = os.waitpid(child, os.WNOHANG)
    finally:
        if not done:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _fuzz(atheris: Any, name: str, chosen: argparse.Namespace, own: Path) -> NoReturn:
    """Fuzz one target in this process, and end it."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.alarm(MOST_SECONDS)  # no handler: the system ends the process, and its parent reports it
    fuzzing = Fuzzing(name, chosen.minutes, chosen.keep, own)
    if atheris is None:
        signal.alarm(int(60 * chosen.minutes) + MOST_SECONDS)
        _at_random(fuzzing, chosen.seed)
    else:
        signal.alarm(0)  # atheris sets an alarm of its own
        _guided(atheris, fuzzing, chosen.seed)
    fuzzing.end()


def _instrumented() -> Any:
    """atheris, once it watches every module of the library but the compiled ones; None where it is not installed."""
    try:
        import atheris
    except ImportError:
        print("atheris is not installed: files are drawn at random")
        return None
    source = Path(__file__).parents[2] / "src"
    # numba compiles the source as it is written, and atheris would add calls to it.
    compiled = [
        path.relative_to(source).with_suffix("") for path in (source / "tallyveil/kernels").rglob("*.py")
    ]
    names = [".".join(path.parts).removesuffix(".__init__") for path in compiled]
    with atheris.instrument_imports(include=["tallyveil"], exclude=names):
        from targets import all_targets

        all_targets()
    return atheris


def _at_random(fuzzing: Fuzzing, first: int) -> None:
    from hypothesis import seed

    while True:
        try:
            seed(first)(fuzzing.one)()
        except Ended:
            return
        first += 1


def _guided(atheris: Any, fuzzing: Fuzzing, seed: int) -> None:
    """Let atheris choose; it never comes back by itself, so the end of the time is an exit."""

    def one(data: bytes) -> None:
        try:
            fuzzing.one.hypothesis.fuzz_one_input(data)
        except Ended:
            fuzzing.end()

    corpus, choose = fuzzing.folder / "corpus", random.Random(seed)
    corpus.mkdir()
    for number in range(BEGINNINGS):  # too few bytes draw nothing
        (corpus / str(number)).write_bytes(choose.randbytes(choose.choice([200, 1000, 4000])))
    flags = [
        f"-seed={seed}",
        f"-max_len={MOST_BYTES}",
        "-len_control=0",
        f"-rss_limit_mb={MOST_MEMORY_MIB}",
    ]
    flags += [f"-timeout={MOST_SECONDS}", f"-artifact_prefix={fuzzing.keep}/", str(corpus)]
    atheris.Setup([sys.argv[0], *flags], one)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(exit_code(main))
