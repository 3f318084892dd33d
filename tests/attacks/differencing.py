"""What the difference of two published districts shows, and that of two releases.

Districts are sets of blocks. All tables of a release are sums of the same blocks. So the difference of two districts
that differ by one block is the published count of that block, and its error is the error of this count.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from tests.attacks.budgets import redistricting_release
from tests.attacks.statistics import area_under_curve, power_at
from tests.attacks.worlds import published, release_of

import tallyveil
from tallyveil.api.beginning import write_country
from tallyveil.schema.presets import load_preset

TABLES = ("total", "votingage", "hispanic*cenrace")
MOVED = 100
"""People who move between two releases, at most: each leaves a block of its own for a block of its own."""
HOUSEHOLD = 5
"""A block with at most so many people stands for one household."""


@dataclass(frozen=True, slots=True)
class Districts:
    """Made-up people by block, in the universe of the redistricting data.

    Attributes:
        folder: Inputs of releases.
        geocodes: All blocks, in order.
        people: One row for each person.
    """

    folder: Path
    geocodes: tuple[str, ...]
    people: pl.DataFrame

    def counts(self, table: str) -> np.ndarray:
        """True counts of every block."""
        schema = load_preset("pl94-persons")
        cells = schema.query("detailed").answers_from_labels(
            {name: self.people[name].to_list() for name in schema.attribute_names}, self.people.height
        )
        places = {code: number for number, code in enumerate(self.geocodes)}
        rows = np.array([places[code] for code in self.people["geocode"].to_list()])
        return schema.query(table).apply(rows, cells, np.ones_like(cells), len(self.geocodes))


def make_districts(folder: Path, blocks: int, seed: int = 1) -> Districts:
    """Make up people, and write them as one record each."""
    write_country(folder / "made", blocks=blocks, schema="dhc", seed=seed)
    made = pl.read_parquet(folder / "made" / "persons.parquet")
    geography = pl.read_parquet(folder / "made" / "geography.parquet").select("geocode").sort("geocode")
    people = made.select("geocode", *load_preset("pl94-persons").attribute_names)
    geography.write_parquet(folder / "geography.parquet")
    pl.read_parquet(folder / "made" / "facilities.parquet").write_parquet(folder / "facilities.parquet")
    people.write_parquet(folder / "people.parquet")
    return Districts(folder, tuple(geography["geocode"].to_list()), people)


def moved_apart(world: Districts, folder: Path, seed: int) -> tuple[Districts, np.ndarray]:
    """The same people after some have moved, and for each block the change: -1, 0 or 1.

    Only people in households of blocks with at least two of them move, so that no facility is left empty.
    """
    rng = np.random.default_rng(seed)
    numbered = world.people.with_row_index("row").filter(pl.col("hhgq") == "household")
    left = numbered.filter(pl.len().over("geocode") > 1).group_by("geocode", maintain_order=True).first()
    number = min(MOVED, left.height // 4)  # so that in half of the blocks nothing changes
    chosen = rng.permutation(left.height)[: 2 * number]
    leavers, joined = left[np.sort(chosen[:number])], left[np.sort(chosen[number:])]["geocode"]
    places = world.people["geocode"].to_list()
    change = dict.fromkeys(world.geocodes, 0)
    for row, old, new in zip(leavers["row"], leavers["geocode"], joined, strict=True):
        places[row] = new
        change[old] -= 1
        change[new] += 1
    for name in ("geography.parquet", "facilities.parquet"):
        pl.read_parquet(world.folder / name).write_parquet(folder / name)
    people = world.people.with_columns(pl.Series("geocode", places))
    people.write_parquet(folder / "people.parquet")
    return Districts(folder, world.geocodes, people), np.array(list(change.values()))


def pairs_of(world: Districts, number: int, size: int, seed: int) -> list[tuple[np.ndarray, int]]:
    """Districts of neighbouring blocks, and the block of each that the second district lacks: numbers of blocks."""
    rng = np.random.default_rng(seed)
    inhabited = np.flatnonzero(world.counts("total")[:, 0])
    starts = rng.integers(0, len(world.geocodes) - size, number * 20)
    found = []
    for start in starts.tolist():
        within = inhabited[(inhabited >= start) & (inhabited < start + size)]
        if within.size and len(found) < number:
            found.append((np.arange(start, start + size), int(rng.choice(within))))
    return found


def release_at(world: Districts, rho: object, folder: Path, key: str) -> tallyveil.Release:
    """The redistricting data of the people at a budget."""
    return release_of(world.folder, redistricting_release(rho), folder, key)


def block_differences(world: Districts, shown: dict[str, np.ndarray], pairs: list) -> dict[str, float]:
    """How exact the differences of pairs of districts are.

    Args:
        world: The people.
        shown: Published counts of blocks by table.
        pairs: Districts, and the block that the second lacks.
    """
    blocks = np.array([block for _, block in pairs])
    rates = {}
    for table in TABLES:
        truth = world.counts(table)
        first = np.array([shown[table][district].sum(axis=0) for district, _ in pairs])
        second = np.array(
            [shown[table][district[district != block]].sum(axis=0) for district, block in pairs]
        )
        errors = (first - second) - truth[blocks]
        rates[f"{table} exact"] = float((errors == 0).all(axis=1).mean())
        if table == "total":
            rates["error"] = float(np.abs(errors).mean())
            small = truth[blocks, 0] <= HOUSEHOLD
            if small.any():
                rates["household exact"] = float((errors[small] == 0).mean())
            rates["within 1"] = float((np.abs(errors) <= 1).mean())
    return rates


def tables_of(release: tallyveil.Release, geocodes: tuple[str, ...]) -> dict[str, np.ndarray]:
    """The published tables of blocks."""
    schema = load_preset("pl94-persons")
    return {table: published(release, schema.query(table), geocodes) for table in TABLES}


def guessed_tables(world: Districts) -> dict[str, np.ndarray]:
    """What an attacker shows who has no data on blocks: the commonest count of inhabited blocks, answer by answer."""
    shown = {}
    for table in TABLES:
        truth = world.counts(table)
        lived_in = truth[world.counts("total")[:, 0] > 0]
        commonest = [np.bincount(column).argmax() for column in lived_in.T]
        shown[table] = np.tile(commonest, (len(truth), 1))
    return shown


def movers(before: np.ndarray, after: np.ndarray, change: np.ndarray) -> dict[str, float]:
    """How well blocks that one person left are told from blocks that nobody left or joined, by two releases."""
    scores = (before - after)[:, 0].astype(float)
    lived_in = before[:, 0] + after[:, 0] > 0
    stayed, left = scores[(change == 0) & lived_in], scores[change == -1]
    return {
        "area": area_under_curve(stayed, left),
        "power": power_at(stayed, left, 0.05),
        "exact": float((scores[change == -1] == 1).mean()),
    }


def estimated(world: Districts, release: tallyveil.Release, pairs: list) -> dict[str, np.ndarray]:
    """Unbiased estimates of pairs of districts that differ by a block, from the noisy measurements.

    Returns:
        For each pair, whether the interval of 95 % of the difference covers the block's count, and that of the first
        district its count; whether the estimate of the difference is within half a person; and standard errors.
    """
    release.add_intervals(["total"], workers=1)
    areas = {}
    for number, (district, block) in enumerate(pairs):
        whole = [world.geocodes[place] for place in district]
        areas[f"first {number}"] = release.district(whole).count("total")
        rest = [code for code in whole if code != world.geocodes[block]]
        areas[f"second {number}"] = release.district(rest).count("total")
    counts = release.quantities(areas, workers=1)
    truth = world.counts("total")[:, 0]
    rows = []
    for number, (district, block) in enumerate(pairs):
        first = counts.sum([f"first {number}"])
        left = counts.difference(f"first {number}", f"second {number}")
        rows.append(
            (
                left.lower <= truth[block] <= left.upper,
                abs(left.estimate - truth[block]) <= 0.5,
                left.standard_error,
                first.lower <= truth[district].sum() <= first.upper,
                first.standard_error,
            )
        )
    names = (
        "difference covered",
        "difference exact",
        "difference error",
        "district covered",
        "district error",
    )
    return dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))
