"""Run the benchmarks one after the other, and print one table of what they found.

    python benchmarks/run_all.py            # small sizes: about ten minutes on an idle core
    python benchmarks/run_all.py --long     # the sizes of benchmarks/README.md: many hours
    python benchmarks/run_all.py noise spine

A ratio of 1 or more says that a peer is beaten or a target is reached. Small sizes show that nothing has become much
slower or worse; only the long ones are held to the targets of benchmarks/README.md. Everything that a benchmark prints
is in `.benchmarks/NAME.txt`. A benchmark whose data or peer is not there is left out, and the table says so.
"""

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import headline

HERE = Path(__file__).parent
DATA = HERE.parents[1] / "shared" / "data"
COUNTS, ENTITIES = DATA / "ri_2010_counts.parquet", DATA / "ri_2010_entities.parquet"
PARAMS = HERE.parent / "examples" / "safetab"
LOGS = HERE.parent / ".benchmarks"


@dataclass(frozen=True, slots=True)
class Benchmark:
    """How a benchmark is run.

    Attributes:
        name: Its file.
        always: Arguments of both sizes.
        short: Arguments of the small size; None: only with `--long`.
        long: Arguments of the large size.
        files: What must be there.
        peers: Packages that must be there.
    """

    name: str
    always: tuple[object, ...] = ()
    short: tuple[object, ...] | None = ()
    long: tuple[object, ...] = ()
    files: tuple[Path, ...] = ()
    peers: tuple[str, ...] = ()

    def lacking(self) -> str | None:
        """What it needs and has not."""
        absent = [str(path) for path in self.files if not path.exists()]
        absent += [name for name in self.peers if importlib.util.find_spec(name) is None]
        return ", ".join(absent) or None


BENCHMARKS = (
    Benchmark("waiting", short=("--rounds", 1), long=("--cold",)),
    Benchmark("predictions", short=("--only", "tiny,demo"), long=("--large",)),
    Benchmark("noise", short=("--rounds", 3), peers=("opendp",)),
    Benchmark("accounting", short=("--rounds", 2), peers=("dp_accounting",)),
    Benchmark("rounding", ("--like", COUNTS), ("--families", 60, "--sample", 20), files=(COUNTS,)),
    Benchmark(
        "estimation", (), ("--families", 3, "--rounds", 1, "--limit", 5), (), (COUNTS,), ("clarabel", "osqp")
    ),
    Benchmark("undetermined", short=("--families", 2), long=("--families", 10, "--dense", 400)),
    Benchmark("spine", short=("--blocks", 30_000)),
    Benchmark("spine_accuracy", short=("--keys", 0), files=(COUNTS, ENTITIES)),
    Benchmark("safetab", (PARAMS,), ("--persons", 100_000, "--blocks", 5_000), files=(PARAMS,)),
    Benchmark("cluster", short=("--blocks", 5_000, "--chunks", 100), peers=("ray",)),
    Benchmark("accuracy", short=None, files=(COUNTS,)),
    Benchmark("safetab_accuracy", (PARAMS,), None, files=(PARAMS,)),
    Benchmark("safetab_consistent", (PARAMS,), ("--runs", 1), ("--runs", 10), files=(PARAMS,)),
    Benchmark("subspace", short=None),
    Benchmark("subspace_mcmc", short=None),
)
"""`intervals.py`, `intervals_speed.py`, `asking.py` and `estimators.py` take a release of one's own; `tree_values.py`,
`tree_alternatives.py`, `outer_tree_values.py` and `optimal_shares.py` make many. `cluster_schedule.py` takes releases
that `cluster.py` kept. They are run by themselves."""


def run(benchmark: Benchmark, *, long: bool) -> tuple[list[headline.Headline], str, float]:
    """Its headlines, how it ended, and its seconds."""
    LOGS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        lines_file = Path(folder) / "headline.json"
        size = benchmark.long if long else benchmark.short or ()
        words = [str(word) for word in (*benchmark.always, *size, "--headline", lines_file)]
        start = time.perf_counter()
        with (LOGS / f"{benchmark.name}.txt").open("w") as log:
            code = subprocess.call(
                [sys.executable, str(HERE / f"{benchmark.name}.py"), *words],
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        seconds = time.perf_counter() - start
        ended = "" if code == 0 else f"failed with exit status {code}: see {LOGS / benchmark.name}.txt"
        return headline.read(lines_file), ended, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", help="only these")
    parser.add_argument("--long", action="store_true", help="the sizes of benchmarks/README.md")
    given = parser.parse_args()
    unknown = set(given.names) - {benchmark.name for benchmark in BENCHMARKS}
    if unknown:
        parser.error(
            f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(b.name for b in BENCHMARKS)}"
        )
    rows: list[tuple[str, str, str, str, str]] = []
    failed = False
    for benchmark in BENCHMARKS:
        if (given.names and benchmark.name not in given.names) or (
            benchmark.short is None and not given.long
        ):
            continue
        lacking = benchmark.lacking()
        if lacking is not None:
            rows.append((benchmark.name, f"left out: needs {lacking}", "", "", ""))
            continue
        print(f"{benchmark.name} ...", flush=True)
        lines, ended, seconds = run(benchmark, long=given.long)
        failed |= bool(ended)
        for line in lines:
            ratio = "" if line.ratio is None else f"{line.ratio:,.2f} {line.against}"
            rows.append((benchmark.name, line.what, line.found, ratio, f"{seconds:.0f} s"))
        if ended or not lines:
            rows.append((benchmark.name, ended or "no headline", "", "", f"{seconds:.0f} s"))
    heads = ("benchmark", "what", "found", "ratio", "time")
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]
    for row in (heads, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    sys.exit(failed)


if __name__ == "__main__":
    main()
