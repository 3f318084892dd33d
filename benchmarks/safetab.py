"""SafeTab on made-up countries with real parameter files: seconds, memory and noisy counts a second, by size.

    python benchmarks/safetab.py PARAMS [--persons 3000000] [--blocks 400000] [--folder DIR] [--json FILE]
    python benchmarks/safetab.py PARAMS --sizes [--plot FILE.svg]

PARAMS is a folder of config.json and the four code files. The first form times one run, once compiled. The second runs
a quarter, a half and all of the persons, then of the blocks, then all of both, each twice in processes of their own
(the faster one counts), fits processor seconds linearly to persons and noisy counts, draws both, and estimates a run of
the size of the United States. Seconds are wall-clock and processor time; on a machine with other work the latter says
more.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import headline
import numpy as np

from tallyveil.noise import insecure_key
from tallyveil.products.safetab.made_up import write_safetab_country
from tallyveil.products.safetab.public.iterations import read_iterations
from tallyveil.products.safetab.run.run import run_safetab
from tallyveil.safetab import read_config

US_PERSONS = 334_735_155
US_GEOUNITS = (
    3_222 + 85_528 + 32_188 + 700 + 53
)  # counties, tracts, places, tribal areas, states and the nation
GROUPS_A_GEOUNIT = 2_150 + 48


def one_run(params: Path, persons: int, blocks: int, folder: Path) -> dict[str, Any]:
    """Time one run."""
    data = folder / f"data-{persons}-{blocks}"
    start = time.perf_counter()
    if not (data / "person-records.txt").exists():
        config, files = read_config(params), read_iterations(params)
        write_safetab_country(data, config, files, people=persons, blocks=blocks, seed=1)
    making = time.perf_counter() - start
    with tempfile.TemporaryDirectory(dir=folder) as out:
        start, cpu = time.perf_counter(), time.process_time()
        outcome = run_safetab(params, data, Path(out) / "run", test_key=insecure_key("benchmark"))
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    sizes = outcome.manifest.body["sizes"]
    counts = sum(size["noisy_counts"] for size in sizes.values())
    return {
        "persons": persons,
        "blocks": blocks,
        "groups": sum(sum(size["groups"].values()) for size in sizes.values()),
        "noisy_counts": counts,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu, 2),
        "noisy_counts_per_second": round(counts / seconds),
        "noisy_counts_per_cpu_second": round(counts / cpu),
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "t1_rows": sum(size["t1_rows"] for size in sizes.values()),
        "t2_rows": sum(size["t2_rows"] for size in sizes.values()),
        "seconds_to_make_the_data": round(making, 2),
    }


def all_sizes(params: Path, persons: int, blocks: int, folder: Path) -> list[dict[str, Any]]:
    """Runs of three sizes in persons, three in blocks, and of the largest of both, each in its own process."""
    sizes = [(persons * k // 4, blocks // 4) for k in (1, 2, 4)] + [
        (persons // 4, blocks * k // 4) for k in (2, 4)
    ]
    runs = []
    for people, n_blocks in [*sizes, (persons, blocks)]:
        arguments = ["--persons", str(people), "--blocks", str(n_blocks), "--folder", str(folder)]
        command = [sys.executable, __file__, str(params), *arguments]
        said = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(2)]
        runs.append(min((json.loads(process.stdout) for process in said), key=lambda run: run["cpu_seconds"]))
        print(json.dumps(runs[-1]), file=sys.stderr)
    return runs


def fitted(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Processor seconds as a constant, so much a person and so much a noisy count; and what the US would take."""
    design = np.array([[1.0, run["persons"], run["noisy_counts"]] for run in runs])
    seconds = np.array([run["cpu_seconds"] for run in runs])
    (constant, person, count), *_ = np.linalg.lstsq(design, seconds, rcond=None)
    groups = US_GEOUNITS * GROUPS_A_GEOUNIT
    per_group = np.mean([run["noisy_counts"] / run["groups"] for run in runs[3:]])
    return {
        "constant_seconds": float(constant),
        "seconds_a_million_persons": float(person * 1e6),
        "noisy_counts_a_second": float(1 / count),
        "largest_miss_seconds": float(np.abs(design @ [constant, person, count] - seconds).max()),
        "us_groups": groups,
        "us_minutes": float((constant + person * US_PERSONS + count * per_group * groups) / 60),
    }


def plot(runs: list[dict[str, Any]], path: Path) -> None:
    """Draw seconds against persons and against noisy counts."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots(1, 2)
    for axis, points, key, title in (
        (axes[0], runs[:3], "persons", "persons (millions)"),
        (axes[1], [runs[0], *runs[3:5]], "noisy_counts", "noisy counts (millions)"),
    ):
        axis.plot([run[key] / 1e6 for run in points], [run["cpu_seconds"] for run in points], "o-")
        axis.set_xlabel(title)
        axis.set_ylabel("processor seconds")
        axis.set_xlim(0)
        axis.set_ylim(0)
    figure.savefig(path)


def main() -> None:
    """Time one run, or several sizes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("params", type=Path)
    parser.add_argument("--persons", type=int, default=3_000_000)
    parser.add_argument("--blocks", type=int, default=400_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sizes", action="store_true")
    parser.add_argument("--plot", type=Path)
    headline.add_option(parser)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        if given.sizes:
            runs = all_sizes(given.params, given.persons, given.blocks, folder)
            result: dict[str, Any] = {"runs": runs, "fit": fitted(runs)}
            if given.plot:
                plot(runs, given.plot)
        else:
            result = one_run(given.params, given.persons, given.blocks, folder)
    print(json.dumps(result, indent=2))
    if given.json:
        given.json.write_text(json.dumps(result, indent=2) + "\n")
    if not given.sizes:
        rate = f"{result['noisy_counts_per_second']:,} noisy counts a second"
        headline.write(given.headline, [headline.Headline("a SafeTab run", rate)])


if __name__ == "__main__":
    main()
