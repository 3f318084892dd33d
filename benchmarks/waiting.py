"""How long a person waits for each command, and what the command does meanwhile.

    python benchmarks/waiting.py [--rounds 3] [--all] [--cold] [--json FILE]

Each command runs in a process of its own, on kernels that were compiled before, and into an empty folder. The wait is
by the clock. All else is processor time, which other work on the machine changes less:

- import: starting Python and importing modules;
- load: taking compiled kernels from disk, or compiling them where none are there;
- write: making files and flushing them to disk;
- compute: everything else.

Targets are of processor time. Beside them stands what it takes to import numpy, polars and numba alone, which every run
needs, and how much longer it takes to import all that `tallyveil run` needs.

With `--cold` the estimator's kernels are also compiled into an empty cache, on all cores and on one. This takes
minutes.
"""

import argparse
import builtins
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import headline

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
NATIONAL = EXAMPLES / "redistricting" / "national.toml"
RHODE_ISLAND = EXAMPLES / "rhode_island" / "release.toml"
SHARED = HERE.parents[1] / "shared" / "data"
DATA = SHARED / "ri_2010_counts.parquet"
UK_LIKE = SHARED / "uk_like" / "release.toml"
SAFETAB = SHARED / "safetab" / "safetab_p_NMFv7-2020"
PARTS = ("import", "load", "compute", "write")

COUNTED = {
    "numba.core.dispatcher": ("Dispatcher", "compile", "load"),
    "tallyveil.storage.write": ("", "write_file", "write"),
}
"""Modules with what is counted in each: the class (or none), its function, and the part of the time."""

LIBRARIES = "import numpy, polars, numba"
IMPORTS = "import tallyveil.api.making, tallyveil.products.topdown.run.run"
IMPORTS_TARGET = 1.0
"""Processor seconds for the imports of a run, beyond those of the three libraries."""
COMPILE = "from tallyveil.postprocess.warm_up import compile_kernels; compile_kernels()"
ALONE = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "

PEER_EPSILON = """
from dp_accounting.pld import privacy_loss_distribution as pld
one = pld.from_discrete_gaussian_mechanism(2.0)
print(one.self_compose(8).get_epsilon_for_delta(1e-10))
"""
"""The epsilon of eight discrete Gaussian answers by Google's dp_accounting, in its default settings."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A command that somebody waits for.

    Attributes:
        name: As the table shows it.
        words: Arguments of `tallyveil`; OUT is replaced by an empty folder, and MADE by the folder of `before`.
        target: Processor seconds that it may take on an idle machine; 0: none stated.
        needs: File without which it is left out.
        peer: Python code that does the same with another library.
        peer_package: Package of this library.
        before: Arguments of a command that makes inputs in the folder MADE, and is not measured.
        large: Whether it is left out without `--all`, because it takes long or its inputs do.
    """

    name: str
    words: tuple[str, ...]
    target: float = 0.0
    needs: Path | None = None
    peer: str = ""
    peer_package: str = ""
    before: tuple[str, ...] = ()
    large: bool = False


WAITS = (
    Wait("tallyveil --help", ("--help",), 0.15),
    Wait(
        "tallyveil account epsilon",
        ("account", "epsilon", "--gaussian", "4:8", "--delta", "1e-10"),
        0.35,
        peer=PEER_EPSILON,
        peer_package="dp_accounting",
    ),
    Wait("tallyveil plan (one state)", ("plan", str(EXAMPLES / "redistricting" / "one_state.toml")), 1.2),
    Wait("tallyveil demo", ("demo", "--out", "OUT/demo", "--quiet"), 3.0),
    Wait(
        "tallyveil run (Rhode Island)",
        ("run", str(RHODE_ISLAND), "--out", "OUT/ri", "--quiet"),
        3.0,
        needs=DATA,
    ),
    Wait(
        "tallyveil account calibrate (national strategy)",
        ("account", "calibrate", "--plan", str(NATIONAL), "--epsilon", "17", "--delta", "1e-10"),
        2.0,
        large=True,
    ),
    Wait(
        "tallyveil run (684 cells that are not measured)",
        ("run", str(UK_LIKE), "--out", "OUT/uk", "--quiet"),
        20.0,
        needs=UK_LIKE,
        large=True,
    ),
    Wait(
        "tallyveil safetab run (1 million persons)",
        ("safetab", "run", str(SAFETAB), "MADE", "--out", "OUT/safetab", "--quiet"),
        3.0,
        needs=SAFETAB,
        before=(
            "synth",
            "--safetab",
            str(SAFETAB),
            "--people",
            "1000000",
            "--blocks",
            "133000",
            "--out",
            "MADE",
        ),
        large=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Waited:
    """One run of a command: the wait by the clock, processor time, and its parts where they were measured."""

    seconds: float
    processor_seconds: float
    parts: dict[str, float]


class Split:
    """Processor time by what it was spent on. What is inside something else is taken off that."""

    def __init__(self) -> None:
        self.spent = dict.fromkeys(PARTS, 0.0)
        self._doing = ["import"]
        self._since = 0.0  # processor time is counted from the start of the process

    def _turn(self) -> None:
        now = time.process_time()
        self.spent[self._doing[-1]] += now - self._since
        self._since = now

    def counted(self, part: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, whose time belongs to a part."""

        def timed(*words: Any, **named: Any) -> Any:
            self._turn()
            self._doing.append(part)
            try:
                return work(*words, **named)
            finally:
                self._turn()
                self._doing.pop()

        return timed

    def begin(self) -> None:
        """From now on, what is not counted otherwise is computing."""
        self._turn()
        self._doing = ["compute"]

    def end(self) -> dict[str, float]:
        """The parts, when everything is done."""
        self._turn()
        return self.spent


def inside(report: Path, words: Sequence[str]) -> None:
    """Run one command in this process, and write what its time was spent on."""
    split = Split()
    importing, waiting = builtins.__import__, dict(COUNTED)

    def imported(*given: Any, **named: Any) -> Any:
        """Import, and count a module's functions from the moment that it is there."""
        module = importing(*given, **named)
        for place, (owner, name, part) in list(waiting.items()):
            holder = sys.modules.get(place)
            holder = getattr(holder, owner, None) if owner else holder
            if hasattr(holder, name):
                setattr(holder, name, split.counted(part, getattr(holder, name)))
                del waiting[place]
        return module

    builtins.__import__ = split.counted("import", imported)
    sys.argv = ["tallyveil", *words]
    split.begin()
    try:
        from tallyveil.cli.main import main

        main()
    finally:
        builtins.__import__ = importing
        report.write_text(json.dumps(split.end()))


def waited(command: Sequence[str], report: Path | None = None, **environment: str) -> Waited:
    """Run a command to its end. It must succeed."""
    # As after an installation, Python keeps the bytecode of modules: to make it anew takes half a second of a run.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", **environment}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Waited(seconds, processor, {} if report is None else json.loads(report.read_text()))


def command_waits(wait: Wait, rounds: int) -> tuple[Waited, Waited]:
    """The median run of a command as a person starts it, and one run whose time is split."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "split.json"

        def words(number: int) -> list[str]:
            return [
                word.replace("OUT", f"{folder}/{number}").replace("MADE", folder_made) for word in wait.words
            ]

        folder_made = f"{folder}/made"
        start = [sys.executable, "-c", "from tallyveil.cli.start import main; main()"]
        if wait.before:
            waited([*start, *(word.replace("MADE", folder_made) for word in wait.before)])
        waited([*start, *words(-2)])  # compiles what is not on disk yet
        plain = [waited([*start, *words(number)]) for number in range(rounds)]
        split = waited([sys.executable, __file__, "--inside", str(report), *words(-1)], report)
    return sorted(plain, key=lambda run: run.seconds)[rounds // 2], split


def peer_wait(wait: Wait, rounds: int) -> Waited | None:
    """The median run of the other library's program, if it is installed."""
    if not wait.peer or importlib.util.find_spec(wait.peer_package) is None:
        return None
    runs = [waited([sys.executable, "-c", wait.peer]) for _ in range(rounds)]
    return sorted(runs, key=lambda run: run.seconds)[rounds // 2]


def import_waits(rounds: int) -> tuple[Waited, Waited]:
    """The median time to import numpy, polars and numba, and that to import what `tallyveil run` needs, in turns."""
    runs = [[waited([sys.executable, "-c", code]) for code in (LIBRARIES, IMPORTS)] for _ in range(rounds)]
    libraries, everything = (
        sorted(times, key=lambda run: run.processor_seconds)[rounds // 2] for times in zip(*runs, strict=True)
    )
    return libraries, everything


def cold_waits() -> dict[str, Waited]:
    """The first compilation of the estimator's kernels, with all cores and with one."""
    waits = {}
    for name, code in (("first compilation", COMPILE), ("first compilation, one core", ALONE + COMPILE)):
        with tempfile.TemporaryDirectory() as cache:
            waits[name] = waited([sys.executable, "-c", code], NUMBA_CACHE_DIR=cache)
    return waits


def row(name: str, run: Waited, split: Waited | None = None, target: float = 0.0) -> tuple[str, ...]:
    """A line of the table."""
    parts = ("",) * len(PARTS) if split is None else tuple(f"{split.parts[part]:.2f}" for part in PARTS)
    return (
        name,
        f"{run.seconds:.2f}",
        f"{run.processor_seconds:.2f}",
        f"{target:.2f}" if target else "",
        *parts,
    )


def shown(rows: Sequence[tuple[str, ...]]) -> None:
    """Print the table."""
    heads = ("seconds", "wait", "processor", "target", *PARTS)
    widths = [max(len(line[i]) for line in (heads, *rows)) for i in range(len(heads))]
    for line in (heads, *rows):
        numbers = (cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))
        print(line[0].ljust(widths[0]), *numbers, sep="  ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each command; the median counts")
    parser.add_argument("--all", action="store_true", help="also commands that take long, or whose inputs do")
    parser.add_argument("--cold", action="store_true", help="measure the first compilation too")
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    headline.add_option(parser)
    given = parser.parse_args()
    rows: list[tuple[str, ...]] = []
    lines: list[headline.Headline] = []
    numbers: dict[str, dict[str, object]] = {}
    for wait in WAITS:
        if wait.large and not given.all:
            continue
        if wait.needs is not None and not wait.needs.exists():
            print(f"left out: {wait.name} needs {wait.needs}")
            continue
        run, split = command_waits(wait, given.rounds)
        rows.append(row(wait.name, run, split, wait.target))
        numbers[wait.name] = {**asdict(run), "parts": split.parts}
        ratio = wait.target / run.processor_seconds if wait.target else None
        processor = f"{run.processor_seconds:.2f} s of the processor"
        lines.append(headline.Headline(wait.name, processor, "of its target" if wait.target else "", ratio))
        peer = peer_wait(wait, given.rounds)
        if peer is not None:
            rows.append(row(f"  the same by {wait.peer_package}", peer))
            numbers[f"{wait.name}: {wait.peer_package}"] = asdict(peer)
    libraries, everything = import_waits(given.rounds)
    more = everything.processor_seconds - libraries.processor_seconds
    rows.append(row("import numpy, polars and numba", libraries))
    rows.append(
        row("import what a run needs", everything, target=libraries.processor_seconds + IMPORTS_TARGET)
    )
    numbers |= {"import libraries": asdict(libraries), "import a run": asdict(everything)}
    lines.append(
        headline.Headline("imports of a run", f"{more:.2f} s more", "of its target", IMPORTS_TARGET / more)
    )
    for name, cold in (cold_waits() if given.cold else {}).items():
        rows.append(row(name, cold))
        numbers[name] = asdict(cold)
    shown(rows)
    if given.json is not None:
        given.json.write_text(json.dumps(numbers, indent=1) + "\n")
    headline.write(given.headline, lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside(Path(sys.argv[2]), sys.argv[3:])
    else:
        main()
