"""Fuzz a reader, guided by the coverage of the library's code (atheris), or at random where atheris is missing.

    python tests/fuzz/fuzz.py ledger --minutes 60 --keep crashers
    python tests/fuzz/fuzz.py --list

Each input is the valid file of a target (`targets.py`) with changes that hypothesis draws from bytes (`changes.py`).
atheris chooses these bytes: it keeps those that reach new branches of the library, and changes them further. A reader
may accept the file, or refuse it with a documented error (`oracle.py`). Everything else is a fault. The first file of
each fault is kept, and fuzzing goes on; exit code 1 says that there were faults.
"""

import argparse
import hashlib
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

os.environ["POLARS_MAX_THREADS"] = "1"
for folder in ("soak", "fuzz"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))

MOST_MEMORY_MIB = 6000
MOST_BYTES = 8192
"""What atheris gives hypothesis to draw a file from."""


class Fuzzing:
    """The files of one target so far, and what was found."""

    def __init__(self, name: str, minutes: float, keep: Path) -> None:
        from changes import changed
        from hypothesis import HealthCheck, Phase, given, settings
        from oracle import documented_codes
        from targets import all_targets

        self.name, self.keep = name, keep
        self.end = time.monotonic() + 60 * minutes
        self.codes = documented_codes()
        self.counted: Counter[str] = Counter()
        self.found: dict[str, str] = {}
        self._folder = tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        self.target = all_targets()[name](Path(self._folder.name) / "target")
        self.judge(self.target.valid)
        if self.found or self.counted["accepted"] != 1:
            raise SystemExit(f"the valid file of {name} is refused: {self.found}")
        decorate = settings(
            database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck),
            max_examples=1_000_000,
        )  # fmt: skip
        self.one = decorate(given(changed(self.target))(self.judge))

    def judge(self, content: bytes) -> None:
        """Give one file to the reader."""
        from oracle import fault_of, kind_of

        if time.monotonic() > self.end:
            raise Ended
        fault, refused = fault_of(self.target, content, self.codes)
        self.counted["files"] += 1
        self.counted["accepted" if not refused else f"refused: {refused}"] += fault is None
        if fault is None or kind_of(fault) in self.found:
            return
        self.found[kind_of(fault)] = fault
        self.keep.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(content).hexdigest()[:12]
        (self.keep / f"{self.name}-{digest}").write_bytes(content)
        print(f"FAULT {self.name}-{digest}: {fault}", flush=True)

    def report(self) -> int:
        """Say what was done; the exit code."""
        files = self.counted.pop("files")
        for line, times in self.counted.most_common():
            print(f"{times:9} {line}")
        print(f"{self.name}: {files} files, {len(self.found)} faults", flush=True)
        return int(bool(self.found))


class Ended(BaseException):
    """The time is over."""


def main() -> int:
    """Fuzz one target; 1 where there are faults."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", nargs="?")
    parser.add_argument("--list", action="store_true", help="show the names of all targets")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-crashers"), help="folder of files with faults")
    chosen = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    atheris = _instrumented()
    if chosen.list or chosen.target is None:
        from targets import all_targets

        print("\n".join(all_targets()))
        return 0
    fuzzing = Fuzzing(chosen.target, chosen.minutes, chosen.keep)
    if atheris is None:
        _at_random(fuzzing, chosen.seed)
    else:
        _guided(atheris, fuzzing, chosen.seed)
    return fuzzing.report()


def _instrumented() -> object | None:
    """atheris, once it watches every module of the library but the compiled ones; None where it is not installed."""
    try:
        import atheris
    except ImportError:
        print("atheris is not installed: files are drawn at random")
        return None
    with atheris.instrument_imports(include=["tallyveil"], exclude=["tallyveil.kernels"]):
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


def _guided(atheris, fuzzing: Fuzzing, seed: int) -> None:
    """Let atheris choose; it never comes back by itself, so the end of the time is an exit."""

    def one(data: bytes) -> None:
        try:
            fuzzing.one.hypothesis.fuzz_one_input(data)
        except Ended:
            os._exit(fuzzing.report())

    flags = [f"-seed={seed}", f"-max_len={MOST_BYTES}", "-timeout=60", f"-rss_limit_mb={MOST_MEMORY_MIB}"]
    flags += ["-print_final_stats=0", "-verbosity=0", f"-artifact_prefix={fuzzing.keep}/"]
    atheris.Setup([sys.argv[0], *flags], one)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
