"""Whether chains of draws agree, how long this takes, and how often draws hold the true counts.

python benchmarks/draws.py [--data ../shared/data] [--bounded] [--blocks N] [--key KEY]

Makes the example's release of Rhode Island with a test key, or with `--blocks` the release of a made-up country, and
100 draws of its blocks. Prints processor time, what the chains say of each other and of the model, and for each
geolevel and query the share of true counts inside intervals of 90 and 95 %, of the latter also by true size, and the
errors of the draws' means beside those of the published counts. Nothing is printed of chains that do not agree.
"""

import argparse
import runpy
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import tallyveil
from tallyveil.api.beginning import write_country
from tallyveil.estimation.posterior.sampling import Sampled, sample
from tallyveil.postprocess.draws.model import posterior_of
from tallyveil.postprocess.intervals.model import FinishedRelease, open_release
from tallyveil.schema.schema import Schema

ROOT = Path(__file__).parents[1]
SIZES = ((0, 0), (1, 4), (5, 9), (10, 49), (50, 1 << 30))
QUERIES = ("total", "voting_age", "race_ethnicity", "detailed")


def true_counts(release: FinishedRelease, path: Path) -> np.ndarray:
    """The true counts of every block; shape (blocks, cells)."""
    records, schema, spine = pl.read_parquet(path), release.schema, release.spine
    codes = [
        records[attribute.name].cast(pl.String).replace_strict({x: i for i, x in enumerate(attribute.levels)})
        for attribute in schema.attributes
    ]
    counts = np.zeros((spine.n_geounits(spine.finest), schema.size), np.int64)
    rows = spine.locate(spine.finest, records["geocode"])
    people = records["count"].to_numpy() if "count" in records.columns else 1
    np.add.at(counts, (rows, schema.encode(np.stack([code.to_numpy() for code in codes], axis=1))), people)
    return counts


def answers(schema: Schema, query: str, counts: np.ndarray, begin: np.ndarray) -> np.ndarray:
    """Answers of geounits, which are runs of blocks; the last axis of `counts` has the cells."""
    group = schema.query(query)
    out = np.zeros((*counts.shape[:-1], group.size), np.int64)
    of_cell = group.answers_of(np.arange(schema.size))
    for answer in range(group.size):
        out[..., answer] = counts[..., of_cell == answer].sum(axis=-1)
    return np.add.reduceat(out, begin[:-1], axis=-2)


def rhode_island(data: Path, folder: Path, *, bounded: bool) -> tuple[Path, Path]:
    """The example's release file, and the true counts."""
    name = "bounded" if bounded else "release"
    text = (ROOT / f"examples/rhode_island/{name}.toml").read_text()
    text = text.replace("../../../shared/data", str(data.resolve()))
    if bounded:
        example = runpy.run_path(str(ROOT / "examples/rhode_island/housing_units.py"))
        example["main"](data, folder)
        text = text.replace(
            "../../releases/rhode-island-bounds/bounds.parquet", str(folder / "bounds.parquet")
        )
    (folder / "release.toml").write_text(text)
    return folder / "release.toml", data / "ri_2010_counts.parquet"


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/data")
    parser.add_argument("--bounded", action="store_true")
    parser.add_argument("--blocks", type=int)
    parser.add_argument("--key", default="benchmark")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        inputs = Path(name) / "inputs"
        if arguments.blocks:
            write_country(inputs, blocks=arguments.blocks, schema="race-age")
            config, truth = inputs / "release.toml", inputs / "records.parquet"
        else:
            inputs.mkdir()
            config, truth = rhode_island(arguments.data, inputs, bounded=arguments.bounded)
        path = tallyveil.run(config, Path(name) / "release", insecure_test_key=arguments.key).path
        release = open_release(path)
        problem, released = posterior_of(release)
        begin = time.process_time()
        sampled = sample(problem, released, 1, 100, workers=2)
        print(f"{time.process_time() - begin:.0f} s of processor time, with any compilation")
        evaluate(release, sampled, released, true_counts(release, truth))


def evaluate(release: FinishedRelease, sampled: Sampled, released: np.ndarray, truth: np.ndarray) -> None:
    """Print what draws say of themselves, and how near the true counts they are."""
    print(sampled.convergence)
    for item in sampled.residuals:
        ratios = " ".join(f"{ratio:.2f}" for ratio in item.ratio)
        print(f"{item.geolevel} {item.query}: {ratios} (standard error {item.error:.3f})")
    states = np.stack([draw.dense(0, draw.n_geounits, release.schema.size) for draw in sampled.draws])
    print(
        f"| geolevel | query | inside 90 % | 95 % | 95 % by true size {SIZES} | error, published | of means |"
    )
    for level in range(release.spine.n_levels - 1, 0, -1):
        offsets = release.spine.finest_offsets(level)
        for query in QUERIES:
            drawn = answers(release.schema, query, states, offsets)
            true = answers(release.schema, query, truth, offsets)
            published = answers(release.schema, query, released, offsets)
            inside = []
            for tail in (0.05, 0.025):
                lower = np.quantile(drawn, tail, axis=0, method="lower")
                upper = np.quantile(drawn, 1 - tail, axis=0, method="higher")
                inside.append((true >= lower) & (true <= upper))
            by_size = [inside[1][(true >= low) & (true <= high)] for low, high in SIZES]
            shares = " ".join(f"{part.mean():.2f}" if part.size else "-" for part in by_size)
            errors = [np.abs(x - true).sum(axis=-1).mean() for x in (published, drawn.mean(axis=0))]
            print(
                f"| {release.spine.geolevels[level]} | {query} | {inside[0].mean():.3f} | {inside[1].mean():.3f} | "
                f"{shares} | {errors[0]:.2f} | {errors[1]:.2f} |"
            )
    occupied = [int((table.sum(axis=-1) > 0).sum()) for table in (truth, released)]
    drawn_occupied = (states.sum(axis=-1) > 0).sum(axis=-1)
    print(
        f"occupied blocks: true {occupied[0]:,}, published {occupied[1]:,}, drawn {drawn_occupied.mean():,.0f}"
    )


if __name__ == "__main__":
    main()
