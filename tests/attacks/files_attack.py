"""Attacks on tables of sex, age, origin and race: reconstruction, names for records, and membership."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse
from tests.attacks.budgets import TABLES, Budget, people_release
from tests.attacks.linkage import alone, link, uncommon
from tests.attacks.statistics import area_under_curve, power_at
from tests.attacks.worlds import World, as_array, published, release_of

import tallyveil
from tallyveil.compare.attacks.presence import presence_scores
from tallyveil.compare.attacks.record_files import FittingFiles, KnownAnswers, likeliest_file
from tallyveil.compare.inputs import answer_matrix

SMOOTHED = 0.01
"""Is added to the count of each cell of a county, so that no cell is impossible."""
NEARLY_NOTHING = 1e-4
"""Variance that stands for no noise."""
NO_INFORMATION = 1e12
LOOKED_AT = 4
"""What is certain is asked for in every fourth inhabited block, because it takes a program for each kind of record."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What an attacker sees of the blocks.

    Attributes:
        tables: The tables of `TABLES`, each of shape (blocks, answers).
        detailed: Published detailed counts.
        noisy: Noisy detailed counts.
        variance: Variance of their noise.
        shares: Share of each cell in the county of each block.
    """

    tables: list[np.ndarray]
    detailed: np.ndarray
    noisy: np.ndarray
    variance: float
    shares: np.ndarray

    @property
    def people(self) -> np.ndarray:
        """Published number of people of every block."""
        return self.tables[0][:, 0]


def exact_sight(world: World) -> Sight:
    """Tables without noise."""
    counts = world.counts(~world.held_out)
    tables = [world.schema.query(table).apply_dense(counts) for table in TABLES]
    return Sight(tables, counts, counts, NEARLY_NOTHING, county_shares(world, counts))


def blind_sight(world: World) -> Sight:
    """No data on blocks: the number of people of every block and the tables of counties, both exact."""
    exact = exact_sight(world)
    nothing = np.zeros_like(exact.noisy)
    return Sight(exact.tables, nothing, nothing, NO_INFORMATION, exact.shares)


def released_sight(world: World, budget: Budget, folder: Path, key: str) -> Sight:
    """What a release shows."""
    release = release_of(world.folder, people_release(budget.rho), folder, key)
    detailed = world.schema.query("detailed")
    tables = [published(release, world.schema.query(table), world.geocodes) for table in TABLES]
    counts = published(release, detailed, world.geocodes)
    frame = release.measurements("Block", "detailed")
    noisy = as_array(frame, detailed, world.geocodes, "value")
    # The law's variance is next to zero at the largest budget, where the arithmetic of likelihoods would end.
    variance = max(float(frame["variance"][0]), NEARLY_NOTHING)
    return Sight(tables, counts, noisy, variance, county_shares(world, _of_counties(world, release)))


def county_shares(world: World, counts: np.ndarray) -> np.ndarray:
    """The share of each cell in the county of each block, from counts of blocks."""
    county = world.county_of_block()
    sums = np.zeros((county.max() + 1, counts.shape[1]))
    np.add.at(sums, county, counts)
    sums += SMOOTHED
    return (sums / sums.sum(axis=1, keepdims=True))[county]


def reconstruct(
    sight: Sight, matrix: sparse.csr_matrix, *, certain: bool
) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """Records of every block from its tables, by the integer program; and for some blocks those that are certain."""
    files, least = np.zeros_like(sight.detailed), {}
    for number, block in enumerate(np.flatnonzero(sight.people).tolist()):
        wanted = np.concatenate([table[block] for table in sight.tables])
        known = KnownAnswers.without_limits(wanted, np.zeros(wanted.size, dtype=np.bool_))
        program = FittingFiles(matrix, known, -np.log(sight.shares[block]))
        files[block], fits = program.likeliest()
        assert fits
        if certain and number % LOOKED_AT == 0:
            least[block] = program.certain(files[block])
    return files, least


def likeliest(sight: Sight) -> np.ndarray:
    """Records of every block from the noisy counts of its cells."""
    files = np.zeros_like(sight.detailed)
    for block in np.flatnonzero(sight.people):
        people = int(sight.people[block])
        files[block] = likeliest_file(
            sight.noisy[block], sight.variance, sight.shares[block] * people, people
        )
    return files


def drawn(sight: Sight, seed: int) -> np.ndarray:
    """Records of every block, drawn from the county's."""
    rng = np.random.default_rng(seed)
    return np.array([rng.multinomial(n, p) for n, p in zip(sight.people, sight.shares, strict=True)])


def agreement(files: np.ndarray, truth: np.ndarray) -> float:
    """Share of the true records that are among the reconstructed ones of their block, each used once."""
    return float(np.minimum(files, truth).sum() / truth.sum())


def linked_rates(world: World, files: np.ndarray, shares: np.ndarray) -> dict[str, float]:
    """Confirmed shares of people who are alone of their sex and age in the block, and of uncommon origin and race."""
    linked, wanted = link(world, files, shares), alone(world) & uncommon(world)
    sides = {"in": wanted & ~world.held_out, "out": wanted & world.held_out}
    rates = {f"confirmed {side}": float(linked.confirmed[who].mean()) for side, who in sides.items()}
    right = linked.confirmed[sides["in"]].sum() / max(1, linked.matched[sides["in"]].sum())
    return {**rates, "precision in": float(right), "excess": rates["confirmed in"] - rates["confirmed out"]}


def membership(world: World, sight: Sight) -> dict[str, float]:
    """How well records in the data are told from held-out ones, by their block and cell."""
    here = world.blocks, world.cells
    expected = sight.shares[here] * sight.people[world.blocks]
    noisy = sight.noisy[here].astype(float)[:, None]
    scores = presence_scores(
        lambda counts: -((noisy - counts) ** 2) / (2 * sight.variance), np.maximum(expected, 1e-9)
    )
    without, having = scores[world.held_out], scores[~world.held_out]
    return {"area": area_under_curve(without, having), "power": power_at(without, having, 0.01)}


def attacked(world: World, sight: Sight, *, certain: bool) -> dict[str, float]:
    """All rates of one release."""
    truth = world.counts(~world.held_out)
    matrix = sparse.csr_matrix(
        sparse.vstack([answer_matrix(world.schema.query(table)).T for table in TABLES])
    )
    from_tables, least = reconstruct(sight, matrix, certain=certain)
    from_noise = likeliest(sight)
    rates = {
        "recovered": agreement(from_tables, sight.detailed),
        "tables": agreement(from_tables, truth),
        "microdata": agreement(sight.detailed, truth),
        "noisy": agreement(from_noise, truth),
    }
    if certain:
        blocks, sure = np.array(list(least)), np.array(list(least.values()))
        rates["certain"] = float(sure.sum() / sight.people[blocks].sum())
        rates["certain and true"] = float(np.minimum(sure, truth[blocks]).sum() / max(1, sure.sum()))
        rates["solved"] = float((sure.sum(axis=1) == sight.people[blocks]).mean())
    for name, files in (("tables", from_tables), ("noisy", from_noise)):
        rates |= {f"{name} {key}": value for key, value in linked_rates(world, files, sight.shares).items()}
    return rates | {f"membership {key}": value for key, value in membership(world, sight).items()}


def unattacked(world: World) -> dict[str, float]:
    """The same rates of the attackers who have no data on blocks."""
    truth, sight = world.counts(~world.held_out), blind_sight(world)
    from_noise = likeliest(sight)
    rates = {
        "drawn": float(np.mean([agreement(drawn(sight, seed), truth) for seed in range(20)])),
        "noisy": agreement(from_noise, truth),
    }
    return rates | {
        f"noisy {key}": value for key, value in linked_rates(world, from_noise, sight.shares).items()
    }


def _of_counties(world: World, release: tallyveil.Release) -> np.ndarray:
    """Published detailed counts of counties, in the row of each county's first block."""
    detailed = world.schema.query("detailed")
    counties = tuple(sorted({code[:5] for code in world.geocodes}))
    table = as_array(release.table("County", "detailed"), detailed, counties, "count")
    counts = np.zeros((len(world.geocodes), detailed.size))
    firsts = [
        next(i for i, code in enumerate(world.geocodes) if code.startswith(county)) for county in counties
    ]
    counts[firsts] = table
    return counts
