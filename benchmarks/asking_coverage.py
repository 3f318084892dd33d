"""How often intervals of answers hold the number before noise, and what many questions tell an attacker.

    python benchmarks/asking_coverage.py               # 3 populations, 20 keys: some minutes on one core
    python benchmarks/asking_coverage.py --attacker    # guesses of block cells after 1 and after a million questions

Coverage. Three made-up populations of 96 blocks in 16 tracts and 4 counties, by 5 ages, 2 sexes and 3 origins:
  * even: blocks of some 60 people, of one mix everywhere;
  * apart: the same, with origins that differ from tract to tract;
  * sparse: blocks of some 8 people, a third of them empty.
Each is released under each key with rho = 1, and asked thirteen kinds of questions. Printed are the rows, the part that
was refused with a reason, and the part of the intervals of 95 % that hold the number before noise; and of safe
statements on thresholds (all of an answer together with 95 %), the part of the answers in which one is wrong.

Attacker. Somebody who asks the counts of random unions of blocks, as many as are wanted, finds the counts of blocks by
least squares, and guesses every cell of every block. Compared with the guesses from one question, which asks for the
cells of all blocks.
"""

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

import tallyveil
from tallyveil.estimation.intervals.indices import plain_index
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.topdown.run.run import run_release

AGES, SEXES, ORIGINS = ("0-17", "18-34", "35-49", "50-64", "65+"), ("female", "male"), ("here", "near", "far")
N_BLOCKS, BLOCKS_OF_TRACT, TRACTS_OF_COUNTY = 96, 6, 4
POPULATIONS = ("even", "apart", "sparse")
RELEASE = """
[release]
name = "asked"
[records]
path = "people.parquet"
count = "count"
[geography]
path = "geography.parquet"
geolevels = ["State", "County", "Tract", "Block"]
parent_columns = ["State", "County", "Tract"]
[schema]
name = "asked"
[[schema.attributes]]
name = "age"
levels = ["0-17", "18-34", "35-49", "50-64", "65+"]
[[schema.attributes]]
name = "sex"
levels = ["female", "male"]
[[schema.attributes]]
name = "origin"
levels = ["here", "near", "far"]
[privacy]
neighbours = "bounded"
mechanism = "discrete_gaussian"
rho = "1"
[strategy]
rho = "1"
[strategy.geolevels]
State = "1/8"
County = "1/4"
Tract = "1/4"
Block = "3/8"
[strategy.queries."*"]
total = "1/4"
"sex*origin" = "1/4"
"age*sex*origin" = "1/2"
[outputs]
tables = ["total"]
"""


@dataclass(frozen=True)
class World:
    """A population; counts of shape (blocks, ages, sexes, origins)."""

    counts: np.ndarray

    @property
    def tracts(self) -> np.ndarray:
        """The same of tracts."""
        return self.counts.reshape(-1, BLOCKS_OF_TRACT, *self.counts.shape[1:]).sum(axis=1)

    @property
    def counties(self) -> np.ndarray:
        """The same of counties."""
        return self.tracts.reshape(-1, TRACTS_OF_COUNTY, *self.counts.shape[1:]).sum(axis=1)


def population(name: str, seed: int = 1) -> World:
    """A made-up population by its name."""
    rng = np.random.default_rng([seed, POPULATIONS.index(name)])
    ages = np.array([0.22, 0.24, 0.2, 0.19, 0.15])
    origins = np.tile([0.6, 0.25, 0.15], (N_BLOCKS // BLOCKS_OF_TRACT, 1))
    if name == "apart":
        origins = rng.dirichlet([3.0, 1.5, 0.9], len(origins))
    by_block = np.repeat(origins, BLOCKS_OF_TRACT, axis=0)
    people = rng.poisson(8 if name == "sparse" else 60, N_BLOCKS)
    if name == "sparse":
        people[rng.random(N_BLOCKS) < 1 / 3] = 0
    counts = np.zeros((N_BLOCKS, len(AGES), len(SEXES), len(ORIGINS)), np.int64)
    for block, n in enumerate(people.tolist()):
        law = ages[:, None, None] * np.full((1, 2, 1), 0.5) * by_block[block][None, None]
        counts[block] = rng.multinomial(n, law.ravel() / law.sum()).reshape(law.shape)
    return World(counts)


def codes() -> pl.DataFrame:
    """The geocodes of all blocks."""
    rows = []
    for block in range(N_BLOCKS):
        tract = block // BLOCKS_OF_TRACT
        county = tract // TRACTS_OF_COUNTY
        rows.append(("S", f"C{county}", f"T{tract:02d}", f"B{block:03d}"))
    return pl.DataFrame(rows, schema=["State", "County", "Tract", "geocode"], orient="row")


def released(world: World, key: str, folder: Path) -> tallyveil.Release:
    """A release of a population under a test key."""
    folder.mkdir()
    places = np.argwhere(world.counts)
    blocks = codes()["geocode"].to_numpy()
    pl.DataFrame(
        {
            "geocode": blocks[places[:, 0]],
            "age": np.array(AGES)[places[:, 1]],
            "sex": np.array(SEXES)[places[:, 2]],
            "origin": np.array(ORIGINS)[places[:, 3]],
            "count": world.counts[tuple(places.T)],
        }
    ).write_parquet(folder / "people.parquet")
    codes().write_parquet(folder / "geography.parquet")
    (folder / "release.toml").write_text(RELEASE)
    run_release(load_plan(folder / "release.toml"), folder / "out", test_key=insecure_key(key), workers=1)
    return tallyveil.open(folder / "out", kind="topdown")


def quantile(counts: np.ndarray, part: float) -> np.ndarray:
    """The level of each row (rows, levels)."""
    return (np.cumsum(counts, axis=1) < part * counts.sum(axis=1, keepdims=True) - 1e-9).sum(axis=1)


def by_tract(parts: np.ndarray) -> np.ndarray:
    """Tracts by origins (tracts, 3), as (counties, tracts of each, 3)."""
    return parts.reshape(-1, TRACTS_OF_COUNTY, parts.shape[1])


def index(kind: str, parts: np.ndarray) -> np.ndarray:
    """The index of each county from its tracts."""
    return np.array([plain_index(kind, units) for units in by_tract(parts)])


def across_tracts(kind: str, world: World) -> np.ndarray:
    """An index of the origins of each county across its tracts."""
    return index(kind, world.tracts.sum(axis=(1, 2)))


def shares(world: World) -> np.ndarray:
    """Shares of origins in the women of tracts."""
    women = world.tracts[:, :, 0].sum(axis=1)
    return (women / women.sum(axis=1, keepdims=True)).ravel()


def deviations(world: World) -> np.ndarray:
    """Deviations of tracts from their mean."""
    people = world.tracts.sum(axis=(1, 2, 3))
    return people / people.mean() - 1


UNIONS = {f"union {number}": [f"B{block:03d}" for block in range(number, N_BLOCKS, 7)] for number in range(7)}
KINDS: dict[str, tuple[dict[str, object], Callable[[World], np.ndarray]]] = {
    "counts of counties": ({"question": "age by sex by County"}, lambda w: w.counties.sum(axis=3).ravel()),
    "counts of blocks": ({"question": "origin by Block"}, lambda w: w.counts.sum(axis=(1, 2)).ravel()),
    "unions, with conditions": (
        {"by": ["sex"], "where": {"age": slice("18-34", "50-64")}, "areas": UNIONS},
        lambda w: np.array([w.counts[number::7, 1:4].sum(axis=(0, 1, 3)) for number in range(7)]).ravel(),
    ),
    "differences of areas": (
        {"question": "origin by Tract minus T00"},
        lambda w: (w.tracts - w.tracts[:1]).sum(axis=(1, 2)).ravel(),
    ),
    "shares": ({"question": "origin by Tract where sex = female as share of sex", "threshold": 0.2}, shares),
    "deviations": ({"question": "total by Tract as deviation", "threshold": 0.1}, deviations),
    "medians": (
        {"question": "median of age by sex by Tract"},
        lambda w: quantile(np.moveaxis(w.tracts.sum(axis=3), 1, 2).reshape(-1, len(AGES)), 0.5),
    ),
    "quantiles 0.9": (
        {"question": "quantile 0.9 of age by Block"},
        lambda w: quantile(w.counts.sum(axis=(2, 3)), 0.9),
    ),
    "entropy": (
        {"question": "entropy of origin by Tract"},
        lambda w: np.array([plain_index("entropy", row[None]) for row in w.tracts.sum(axis=(1, 2))]),
    ),
    **{
        f"{kind} across tracts": (
            {"question": f"{kind} of origin by County across Tract"},
            partial(across_tracts, kind),
        )
        for kind in ("dissimilarity", "gini", "theil")
    },
}


def asked(release: tallyveil.Release, world: World) -> Iterator[tuple[str, pl.DataFrame, np.ndarray]]:
    """Each kind of question with its answer and the numbers before noise."""
    for kind, (arguments, truth) in KINDS.items():
        yield kind, release.ask(**arguments, workers=1).table, truth(world)  # type: ignore[arg-type]


def held(table: pl.DataFrame, truth: np.ndarray) -> tuple[int, int]:
    """Number of intervals, and of those that hold the truth."""
    if table["lower"].dtype == pl.String:
        ends = [
            table[name].replace_strict({age: n for n, age in enumerate(AGES)}) for name in ("lower", "upper")
        ]
    else:
        ends = [table["lower"], table["upper"]]
    low, high = (end.cast(pl.Float64).fill_null(np.nan).to_numpy() for end in ends)
    given = np.isfinite(low)
    # Ends are rounded to nine decimals.
    inside = (low - 1e-8 <= truth) & (truth <= high + 1e-8) & given
    return int(given.sum()), int(inside.sum())


def wrong(table: pl.DataFrame, truth: np.ndarray, threshold: float) -> bool:
    """Whether one of the safe statements of an answer is wrong."""
    said = table["statement"].fill_null("open").to_numpy()
    yes = np.abs(truth) <= threshold if "within" in said or "outside" in said else truth > threshold
    return bool(
        (np.isin(said, ["above", "within"]) & ~yes).any()
        | (np.isin(said, ["not above", "outside"]) & yes).any()
    )


def coverage(keys: int) -> None:
    """Print a row for each kind and population."""
    tallies: dict[tuple[str, str], np.ndarray] = defaultdict(lambda: np.zeros(3, np.int64))
    statements: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(3, np.int64))
    with tempfile.TemporaryDirectory() as folder:
        for name in POPULATIONS:
            world, later = population(name), population(name, seed=2)
            for key in range(keys):
                release = released(world, f"asked {name} {key}", Path(folder) / f"{name}{key}")
                for kind, table, truth in asked(release, world):
                    tallies[kind, name] += (table.height, *held(table, truth))
                    if "statement" in table.columns:
                        threshold = KINDS[kind][0]["threshold"]
                        said = table["statement"].is_in(["open"]).not_() & table["statement"].is_not_null()
                        assert isinstance(threshold, float)
                        statements[kind] += (1, int(wrong(table, truth, threshold)), int(said.sum()))
                other = released(later, f"later {name} {key}", Path(folder) / f"{name}{key}later")
                question = "origin by Tract"
                table = other.ask(question, workers=1).minus(release.ask(question, workers=1)).table
                change = (later.tracts - world.tracts).sum(axis=(1, 2)).ravel()
                tallies["differences of releases", name] += (table.height, *held(table, change))
    print(f"{'kind':28} {'population':10} {'rows':>7} {'refused':>8} {'held':>7}")
    for (kind, name), (rows, given, inside) in tallies.items():
        refused = 100 * (1 - given / rows)
        share = f"{100 * inside / given:5.1f} %" if given else "-"
        print(f"{kind:28} {name:10} {rows:7,} {refused:6.1f} % {share:>7}")
    for kind, (answers, mistaken, said) in statements.items():
        print(
            f"safe statements on {kind}: {said:,} in {answers:,} answers, {mistaken} answers with a wrong statement"
        )


def attacker(questions: int) -> None:
    """Print the part of block cells that are guessed rightly after one and after many questions."""
    world = population("sparse")
    truth = world.counts.sum(axis=1).reshape(N_BLOCKS, -1)
    rng = np.random.default_rng(0)
    blocks = codes()["geocode"].to_list()
    with tempfile.TemporaryDirectory() as folder:
        release = released(world, "attacked", Path(folder) / "release")
        table = release.ask("sex by origin by Block", workers=1).table
        first = table["estimate"].to_numpy().reshape(truth.shape)
        normal, right, done = np.zeros((N_BLOCKS, N_BLOCKS)), np.zeros(truth.shape), 0
        while questions - done >= truth.shape[1]:
            n = min(questions - done, 180_000) // truth.shape[1]
            chosen = rng.random((n, N_BLOCKS)) < 0.5
            chosen[~chosen.any(axis=1), 0] = True
            unions = {
                str(number): [blocks[b] for b in np.flatnonzero(row)] for number, row in enumerate(chosen)
            }
            answers = release.ask(by=["sex", "origin"], areas=unions, workers=1).table["estimate"].to_numpy()
            design = chosen.astype(np.float64)
            normal += design.T @ design
            right += design.T @ answers.reshape(n, -1)
            done += n * truth.shape[1]
        many = np.linalg.solve(normal, right)
    published = table["count"].to_numpy().reshape(truth.shape)
    for what, guess in (
        ("published counts", published),
        ("estimates, 1 question", np.maximum(np.rint(first), 0)),
        (f"estimates, {done:,} questions", np.maximum(np.rint(many), 0)),
    ):
        print(f"{what:32} {100 * (guess == truth).mean():6.2f} % of {truth.size:,} block cells guessed")
    print(f"largest difference of estimates: {np.abs(many - first).max():.1e}")


def main() -> None:
    """Count one of the two."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=20, help="releases of each population")
    parser.add_argument("--attacker", action="store_true", help="guesses after many questions")
    parser.add_argument(
        "--questions", type=int, default=1_000_000, help="with --attacker: counts that are asked for"
    )
    args = parser.parse_args()
    if args.attacker:
        attacker(args.questions)
    else:
        coverage(args.keys)


if __name__ == "__main__":
    main()
