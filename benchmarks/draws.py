"""Whether chains of draws agree, how long this takes, and how often draws hold the true counts.

python benchmarks/draws.py [--data ../shared/data] [--bounded | --blocks N | --kind KIND] [--seed N] [--key KEY]

Makes the example's release of Rhode Island with a test key, or with `--blocks` the release of a made-up country, or
with `--kind` that of a state of `draws_states.py` with the budget of the example, and 100 draws of its blocks. Prints
processor time, what the chains say of each other and of the model, and for each geolevel and query the share of true
counts inside intervals of 90 and 95 %, of the latter also by true size and by race, and the errors of the draws' means
beside those of the published counts. Then how often intervals hold shares of groups, and twelve statistics of the
tracts and of the block groups of each county. Nothing is printed of chains that do not agree.
"""

import argparse
import runpy
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
from draws_states import KINDS, write_state

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
    parser.add_argument("--kind", choices=sorted(KINDS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--key", default="benchmark")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        inputs = Path(name) / "inputs"
        if arguments.blocks:
            write_country(inputs, blocks=arguments.blocks, schema="race-age")
            config, truth = inputs / "release.toml", inputs / "records.parquet"
        elif arguments.kind:
            inputs.mkdir()
            truth, blocks = write_state(arguments.kind, arguments.seed, inputs)
            text = (ROOT / "examples/rhode_island/release.toml").read_text()
            for name_of, there in (("counts", truth), ("blocks", blocks)):
                text = text.replace(f"../../../shared/data/ri_2010_{name_of}.parquet", str(there))
            config = inputs / "release.toml"
            config.write_text(text)
        else:
            inputs.mkdir()
            config, truth = rhode_island(arguments.data, inputs, bounded=arguments.bounded)
        path = tallyveil.run(config, Path(name) / "release", insecure_test_key=arguments.key).path
        release = open_release(path)
        problem, released = posterior_of(release)
        begin = time.process_time()
        sampled = sample(problem, released, 1, 100, workers=2)
        print(f"{time.process_time() - begin:.0f} s of processor time, with any compilation")
        true = true_counts(release, truth)
        evaluate(release, sampled, released, true)
        nonlinear(release, sampled, true)


def evaluate(release: FinishedRelease, sampled: Sampled, released: np.ndarray, truth: np.ndarray) -> None:
    """Print what draws say of themselves, and how near the true counts they are."""
    print(sampled.convergence)
    for item in sampled.residuals:
        ratios = " ".join(f"{ratio:.2f}" for ratio in item.ratio)
        print(f"{item.geolevel} {item.query}: {ratios} (standard error {item.error:.3f})")
    states = np.stack([draw.dense(0, draw.n_geounits, release.schema.size) for draw in sampled.draws()])
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
            if query == "race_ethnicity":
                for race, label in enumerate(release.schema.attribute(query).levels):
                    parts = [
                        inside[1][:, race][(true[:, race] >= low) & (true[:, race] <= high)]
                        for low, high in SIZES
                    ]
                    held = " ".join(
                        f"{part.mean():.2f} of {part.size}" if part.size else "-" for part in parts
                    )
                    print(f"  {label}, 95 % by true size: {held}; in all {inside[1][:, race].mean():.3f}")
    occupied = [int((table.sum(axis=-1) > 0).sum()) for table in (truth, released)]
    drawn_occupied = (states.sum(axis=-1) > 0).sum(axis=-1)
    print(
        f"occupied blocks: true {occupied[0]:,}, published {occupied[1]:,}, drawn {drawn_occupied.mean():,.0f}"
    )


def interval_holds(drawn: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Whether the interval of 95 % of the draws (first axis) holds the true number."""
    lower = np.quantile(drawn, 0.025, axis=0, method="lower")
    upper = np.quantile(drawn, 0.975, axis=0, method="higher")
    return np.asarray((true >= lower) & (true <= upper))


def statistics(races: np.ndarray, minors: np.ndarray) -> dict[str, float]:
    """Twelve statistics of some areas that are no sums of counts.

    Args:
        races: People of each race of each area; shape (areas, races), Hispanics first, then white, Black and American
            Indian.
        minors: People under 18 of each area.
    """
    total = races.sum(axis=1)
    share = races / np.maximum(total, 1)[:, None]
    young = minors / np.maximum(total, 1)
    hispanic = share[:, 0]
    return {
        "median of totals": float(np.median(total)),
        "90 % quantile of totals": float(np.quantile(total, 0.9)),
        "median share, Hispanic": float(np.median(hispanic)),
        "90 % quantile of shares, Hispanic": float(np.quantile(hispanic, 0.9)),
        "median share, under 18": float(np.median(young)),
        "10 % quantile of shares, under 18": float(np.quantile(young, 0.1)),
        "largest share, Black": float(share[:, 2].max()),
        "largest share, American Indian": float(share[:, 3].max()),
        "areas with under nine tenths white": float((share[:, 1] < 0.9).sum()),
        "areas with ten Black people": float((races[:, 2] >= 10).sum()),
        "standard deviation of shares, Hispanic": float(hispanic.std()),
        "correlation of shares, Hispanic and under 18": float(
            np.corrcoef(hispanic, young)[0, 1] if hispanic.std() * young.std() > 0 else 0.0
        ),
    }


def nonlinear(release: FinishedRelease, sampled: Sampled, truth: np.ndarray) -> None:
    """Print how often intervals of 95 % hold shares of groups, and statistics of the areas of each county."""
    schema, spine = release.schema, release.spine
    states = np.stack([draw.dense(0, draw.n_geounits, schema.size) for draw in sampled.draws()])
    for level in range(2, spine.n_levels - 1):
        offsets, geolevel = spine.finest_offsets(level), spine.geolevels[level]
        tables = [
            [answers(schema, query, counts, offsets) for query in ("race_ethnicity", "voting_age")]
            for counts in (states, truth)
        ]
        (races, ages), (true_races, true_ages) = tables
        for name, drawn, true in (("races", races, true_races), ("ages", ages, true_ages)):
            shares, true_shares = (x / np.maximum(x.sum(axis=-1, keepdims=True), 1) for x in (drawn, true))
            held = interval_holds(shares, true_shares)[true.sum(axis=-1) > 0]
            print(
                f"{geolevel}: shares of {name} held {held.mean():.3f} of {held.size:,}; {held.mean(axis=0).round(3)}"
            )
        county = spine.ancestors(1)[offsets[:-1]]
        held_of: dict[str, list[bool]] = {}
        for number in range(int(county.max()) + 1):
            here = county == number
            drawn_values = [statistics(races[i][here], ages[i][here, 0]) for i in range(len(states))]
            for name, value in statistics(true_races[here], true_ages[here, 0]).items():
                values = np.array([each[name] for each in drawn_values])
                held_of.setdefault(name, []).append(bool(interval_holds(values, np.asarray(value))))
        for name, of_counties in held_of.items():
            print(f"{geolevel}: {name} held {sum(of_counties)} of {len(of_counties)} counties")


if __name__ == "__main__":
    main()
