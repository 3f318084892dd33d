"""How long sweeps take, and how often draws of Rhode Island hold the true counts, which are public.

python benchmarks/draws.py ../shared/data [--sweeps 300] [--bounded]

Makes the example's release with a test key and lets two chains run, without waiting until they agree. The first half
is thrown away, and every fourth state of the rest is a draw. Prints processor time, the share of true counts inside
intervals of 95 % by geolevel and by true size, and errors of the draws' means beside those of the published counts.
"""

import argparse
import runpy
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import tallyveil
from tallyveil.estimation.posterior.chain import Chain
from tallyveil.postprocess.draws.model import posterior_of
from tallyveil.postprocess.intervals.model import FinishedRelease, open_release
from tallyveil.schema.schema import Schema

ROOT = Path(__file__).parents[1]
SIZES = ((0, 0), (1, 4), (5, 9), (10, 49), (50, 1 << 30))


def true_counts(release: FinishedRelease, path: Path) -> np.ndarray:
    """The true counts of every block; shape (blocks, cells)."""
    records, schema, spine = pl.read_parquet(path), release.schema, release.spine
    codes = [
        records[attribute.name].cast(pl.String).replace_strict({x: i for i, x in enumerate(attribute.levels)})
        for attribute in schema.attributes
    ]
    counts = np.zeros((spine.n_geounits(spine.finest), schema.size), np.int64)
    rows = spine.locate(spine.finest, records["geocode"])
    np.add.at(
        counts,
        (rows, schema.encode(np.stack([code.to_numpy() for code in codes], axis=1))),
        records["count"].to_numpy(),
    )
    return counts


def answers(schema: Schema, query: str, counts: np.ndarray, begin: np.ndarray) -> np.ndarray:
    """Answers of geounits, which are runs of blocks; the last axis of `counts` has the cells."""
    group = schema.query(query)
    out = np.zeros((*counts.shape[:-1], group.size), np.int64)
    of_cell = group.answers_of(np.arange(schema.size))
    for answer in range(group.size):
        out[..., answer] = counts[..., of_cell == answer].sum(axis=-1)
    return np.add.reduceat(out, begin[:-1], axis=-2)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--sweeps", type=int, default=300)
    parser.add_argument("--bounded", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        inputs = Path(folder) / "example"
        inputs.mkdir()
        name = "bounded" if arguments.bounded else "release"
        text = (ROOT / f"examples/rhode_island/{name}.toml").read_text()
        text = text.replace("../../../shared/data", str(arguments.data.resolve()))
        if arguments.bounded:
            example = runpy.run_path(str(ROOT / "examples/rhode_island/housing_units.py"))
            example["main"](arguments.data, inputs)
            text = text.replace(
                "../../releases/rhode-island-bounds/bounds.parquet", str(inputs / "bounds.parquet")
            )
        (inputs / "release.toml").write_text(text)
        path = tallyveil.run(
            inputs / "release.toml", Path(folder) / "release", insecure_test_key="benchmark"
        ).path
        measure(open_release(path), arguments.data / "ri_2010_counts.parquet", arguments.sweeps)


def measure(release: FinishedRelease, truth_path: Path, sweeps: int) -> None:
    """Run the chains and print what they say."""
    problem, released = posterior_of(release)
    draws = []
    begin = time.process_time()
    for number in range(2):
        chain = Chain.begin(problem, 1, number, released)
        for sweep in range(sweeps):
            chain.run(1)
            if sweep >= sweeps // 2 and sweep % 4 == 0:
                draws.append(chain.counts())
    print(
        f"{(time.process_time() - begin) / (2 * sweeps):.2f} s of processor time a sweep; {len(draws)} draws"
    )
    states, truth = np.array(draws), true_counts(release, truth_path)
    print(
        "| geolevel | query | inside 95 % | by true size "
        + str(SIZES)
        + " | error, published | error, mean of draws |"
    )
    for level in range(release.spine.n_levels - 1, 0, -1):
        offsets = release.spine.finest_offsets(level)
        for query in ("total", "voting_age", "race_ethnicity", "detailed"):
            drawn = answers(release.schema, query, states, offsets)
            true = answers(release.schema, query, truth, offsets)
            published = answers(release.schema, query, released, offsets)
            lower = np.quantile(drawn, 0.025, axis=0, method="lower")
            upper = np.quantile(drawn, 0.975, axis=0, method="higher")
            inside = (true >= lower) & (true <= upper)
            by_size = [inside[(true >= low) & (true <= high)] for low, high in SIZES]
            shares = " ".join(f"{part.mean():.2f}" if part.size else "-" for part in by_size)
            errors = [np.abs(x - true).sum(axis=-1).mean() for x in (published, drawn.mean(axis=0))]
            print(
                f"| {release.spine.geolevels[level]} | {query} | {inside.mean():.3f} | {shares} | {errors[0]:.2f} | "
                f"{errors[1]:.2f} |"
            )


if __name__ == "__main__":
    main()
