"""What draws gain where public bounds leave the total of group quarters open, and limit that of other blocks.

python benchmarks/draws_facilities.py SEED...

A small segregated state of `draws_states.py` gets noise of about production's sizes, in memory. One chain runs for 200
sweeps, of which the last 120 count, once with the total of group quarters open, and once with a limit that nobody
reaches, so that all blocks have one law. Prints errors of the means, and how often intervals of 95 % hold.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from draws_states import KINDS, Kind, counts_of

from tallyveil.estimation.intervals.model import LevelModel
from tallyveil.estimation.posterior.chain import Chain
from tallyveil.estimation.posterior.problem import LimitRows, posterior_problem
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.geography.spine import Spine
from tallyveil.schema.counts import LARGEST_INT32
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import schema_from_mapping
from tallyveil.synthetic.people import RACES

SCHEMA = schema_from_mapping(
    {
        "name": "state",
        "attributes": [
            {"name": "age", "levels": ["minor", "adult"]},
            {"name": "race", "levels": list(RACES)},
        ],
    }
)
QUERIES = [SCHEMA.query(name) for name in ("total", "race", "detailed")]
DEVIATIONS = ((1, 1, 1), (2, 4, 4), (2, 2.5, 3), (1.4, 2.2, 1.6), (50, 35, 3.1))
"""Standard deviations of the noise of each query, root first."""


class Rows:
    """Noisy answers in memory."""

    def __init__(self, values: dict[tuple[int, str], np.ndarray]) -> None:
        self.values = values

    def rows(self, level: int, queries: Sequence[QueryGroup], start: int, stop: int) -> np.ndarray:
        """Noisy answers of some geounits."""
        return np.concatenate([self.values[level, query.name][start:stop] for query in queries], axis=1)


def state_of(kind: Kind, seed: int) -> tuple[Spine, np.ndarray, np.ndarray]:
    """The spine of a state, the counts of its blocks (shape (blocks, cells)), and which blocks are group quarters."""
    codes, people, facility = counts_of(kind, seed)
    spine = spine_from_prefixes(codes, ["State", "County", "Tract", "Group", "Block"], (2, 5, 11, 12, 15))
    return spine, people.reshape(len(codes), -1), facility


def measured(truth: np.ndarray, spine: Spine, rng: np.random.Generator) -> tuple[list[LevelModel], Rows]:
    """Noisy answers about the counts of blocks, and their precisions at every geolevel."""
    values, levels = {}, []
    for number, deviations in enumerate(DEVIATIONS):
        sums = np.add.reduceat(truth, spine.finest_offsets(number)[:-1], axis=0)
        for query, deviation in zip(QUERIES, deviations, strict=True):
            answers = query.apply_dense(sums)
            noise = np.rint(rng.normal(0, deviation, answers.shape)).astype(np.int64)
            values[number, query.name] = answers + noise
        precisions = 1.0 / (np.array([deviations]) ** 2 + 1.0 / 12.0)
        levels.append(LevelModel(spine.geolevels[number], tuple(QUERIES), precisions, ()))
    return levels, Rows(values)


def main(seed: int) -> None:
    """Print the comparison of one state."""
    kind = replace(KINDS["segregated"], units=(2, 4, 3, 20), facilities=0.03)
    spine, truth, facility = state_of(kind, seed)
    levels, rows = measured(truth, spine, np.random.default_rng([9, seed]))
    total, size = np.full((1, 1), truth.sum(), np.int32), truth.sum(axis=1)
    units = np.where(size > 0, -(-size // 3), np.cumsum(size == 0) % 4 == 0)
    for name, largest in (("one law", LARGEST_INT32 - 1), ("two laws", LARGEST_INT32)):
        upper = np.where(facility, largest, 20 * units).astype(np.int32)[:, None]
        limits = [
            LimitRows(0, QUERIES[0], total, total),
            LimitRows(spine.finest, QUERIES[0], np.zeros_like(upper), upper),
        ]
        problem = posterior_problem(SCHEMA, spine, levels, rows, limits, gaussian=True)
        chain = Chain.begin(problem, 3, 0, truth.astype(np.int32))
        chain.run(80)
        drawn = []
        for _ in range(120):
            chain.run(1)
            drawn.append(chain.counts())
        for label, here in (("group quarters", facility), ("other people", ~facility & (size > 0))):
            states, true = np.array(drawn)[:, here], truth[here]
            mean, minors = states.mean(axis=0), states[:, :, : len(RACES)].sum(axis=2)
            true_minors = true[:, : len(RACES)].sum(axis=1)
            low, high = np.quantile(minors, [0.025, 0.975], axis=0)
            held = ((true_minors >= low) & (true_minors <= high)).mean()
            print(
                f"seed {seed}, {name}, {here.sum()} blocks, {label}: minors {minors.mean(axis=0).sum():.0f}, truly "
                f"{true_minors.sum()}, intervals held {held:.2f}; errors of totals "
                f"{np.abs(mean.sum(axis=1) - true.sum(axis=1)).mean():.1f}, of cells "
                f"{np.abs(mean - true).sum(axis=1).mean():.1f}",
                flush=True,
            )


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        main(int(argument))
