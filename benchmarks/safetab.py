"""SafeTab on a made-up country with real parameter files: seconds, memory, noisy counts a second, by stage.

    python benchmarks/safetab.py PARAMS [--persons 3000000] [--tracts 4] [--folder DIR] [--json FILE]

PARAMS is a folder of config.json and the four code files. The country has blocks in every state the config asks for,
`--tracts` tracts a county and 3 counties a state; people draw their codes from the code list, most of them one.
"""

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from tallyveil.execution.safetab import run_safetab
from tallyveil.noise import insecure_key
from tallyveil.safetab import read_config


def write_country(folder: Path, params: Path, persons: int, tracts: int, counties: int = 3) -> None:
    """Write GRF-C.txt and person-records.txt."""
    config = read_config(params)
    states = [state for run in config.runs for state in config.states_of(run)]
    codes = pl.read_csv(params / "race-and-ethnicity-codes.txt", separator="|", infer_schema=False)
    codes = codes["RACE_ETH_CODE"].to_list()
    rng = np.random.default_rng(7)
    rows = [
        (s, f"{c:03d}", f"{t:06d}", f"{b:04d}", f"{(t * 7 + c) % 9 * 100 + 100:05d}" if t % 3 else "99999", a)
        for n, s in enumerate(states)
        for c in range(1, 1 + counties)
        for t in range(100, 100 + tracts)
        for b in range(1000, 1020)
        for a in (f"{n % 20:04d}" if t % 4 == 0 and c == 1 else "9999",)
    ]
    names = ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK", "PLACEFP", "AIANNHCE"]
    blocks = pl.DataFrame(rows, schema=names, orient="row")
    folder.mkdir(parents=True, exist_ok=True)
    blocks.write_csv(folder / "GRF-C.txt", separator="|")
    weights = 1 / np.arange(1, len(codes) + 1) ** 1.1
    weights /= weights.sum()
    order = rng.permutation(len(codes))
    pool = np.array(codes)[order]
    race = [pool[rng.choice(len(codes), persons, p=weights)] for _ in range(8)]
    n_codes = (
        np.searchsorted(np.cumsum([0.88, 0.09, 0.02, 0.005, 0.002, 0.001, 0.001]), rng.random(persons)) + 1
    )
    places = rng.integers(0, blocks.height, persons)
    home = blocks[places]
    frame = pl.DataFrame(
        {
            "QAGE": pl.Series(rng.integers(0, 100, persons)).cast(pl.String),
            "QSEX": pl.Series(rng.integers(1, 3, persons)).cast(pl.String),
            "HOUSEHOLDER": pl.Series(rng.integers(0, 2, persons) == 1).replace_strict(
                {True: "True", False: "False"}
            ),
            **{name: home[name] for name in names[:4]},
            "CENRACE": pl.Series(rng.integers(1, 64, persons)).cast(pl.String).str.zfill(2),
            "QRACE1": pl.Series(race[0]),
            **{f"QRACE{i}": pl.Series(np.where(n_codes >= i, race[i - 1], "Null")) for i in range(2, 9)},
            "QSPAN": pl.Series(
                np.where(rng.random(persons) < 0.8, "9950", pool[rng.integers(0, 400, persons)])
            ),
        }
    )
    frame.write_csv(folder / "person-records.txt", separator="|")


def main() -> None:
    """Time one run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("params", type=Path)
    parser.add_argument("--persons", type=int, default=3_000_000)
    parser.add_argument("--tracts", type=int, default=4)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        data = folder / f"data-{given.persons}-{given.tracts}"
        if not (data / "person-records.txt").exists():
            write_country(data, given.params, given.persons, given.tracts)
        with tempfile.TemporaryDirectory(dir=folder) as out:
            start, cpu = time.perf_counter(), time.process_time()
            outcome = run_safetab(given.params, data, Path(out) / "run", test_key=insecure_key("benchmark"))
            seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    sizes = outcome.manifest["sizes"]
    counts = sum(size["noisy_counts"] for size in sizes.values())
    groups = sum(sum(size["groups"].values()) for size in sizes.values())
    result = {
        "persons": given.persons,
        "groups": groups,
        "noisy_counts": counts,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu, 2),
        "noisy_counts_per_second": round(counts / seconds),
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "t1_rows": sum(size["t1_rows"] for size in sizes.values()),
        "t2_rows": sum(size["t2_rows"] for size in sizes.values()),
        "stages": {stage["stage"]: stage["seconds"] for stage in outcome.manifest["performance"]},
    }
    print(json.dumps(result, indent=2))
    if given.json:
        given.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
