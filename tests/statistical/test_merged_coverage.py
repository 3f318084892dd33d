"""Intervals of the tables of the DHC cover as often as they say, over draws of exact discrete Gaussian noise.

The schemas and the noise are those of production; the world is tiny, and only small queries are measured. Errors of one
draw depend on each other, so the spread is that of draws. Limits: six standard errors of the mean over the draws, and
what rounding inward adds to coverage; a right program fails once in 500 million runs.
"""

import numpy as np
import pytest
from tests.samples import every

from tallyveil.budget.presets import load_strategy_preset
from tallyveil.estimation.intervals.answers import level_answers, region_answers
from tallyveil.estimation.intervals.covariance import tree_covariance
from tallyveil.estimation.intervals.fit import fit_tree
from tallyveil.estimation.intervals.interval import contains, intervals_of
from tallyveil.estimation.intervals.merged import MergedRows, UnmergedModel, merged_model
from tallyveil.estimation.intervals.model import levels_of_strategy, with_queries
from tallyveil.estimation.intervals.questions import questions_of
from tallyveil.estimation.intervals.regions import region_of
from tallyveil.geography.build import spine_from_columns
from tallyveil.noise.source import NoiseSource
from tallyveil.schema.presets import load_preset

pytestmark = pytest.mark.nightly

DRAWS = 80
LEVEL = 0.95
CASES = [
    ("dhc-persons", "dhc-persons-us-from-state", ("sex*agePyramid23groups", "popSehsdTargetsRelship"), 100),
    ("dhc-units", "dhc-units-us-from-state", ("tenvacgq", "coupled_hh_type"), 100),
]


class Rows:
    """Noisy answers in memory, by geolevel and query."""

    def __init__(self, tables):
        self.tables = tables

    def rows(self, level, queries, start, stop):
        (query,) = queries
        return self.tables[level, query.name][start:stop]


def tiny_spine():
    """One state, 2 counties, 4 tracts, 7 block groups and 18 blocks, some of them only children."""
    tracts = [0, 0, 0, 1, 1, 2, 3]
    groups = [0, 0, 0, 1, 1, 1, 1, 2, 3, 3, 3, 4, 4, 5, 5, 5, 6, 6]
    columns = {
        "State": ["s"] * len(groups),
        "County": [f"c{tracts[group] // 2}" for group in groups],
        "Tract": [f"t{tracts[group]}" for group in groups],
        "Block_Group": [f"g{group}" for group in groups],
        "Block": [f"b{block:02d}" for block in range(len(groups))],
    }
    return spine_from_columns(columns, list(columns))


def world(preset, strategy, largest):
    """What is measured, and true answers of every measured query at every geolevel."""
    schema, spine = load_preset(preset), tiny_spine()
    levels = [
        with_queries(level, [group.name for group in level.measured if group.size <= largest])
        for level in levels_of_strategy(schema, spine, load_strategy_preset(strategy).strategy)
    ]
    rng = np.random.default_rng(7)
    cells = rng.integers(0, schema.size, 400_000)
    cells = rng.choice(cells[schema.possible(cells)], 1500)
    blocks = np.sort(
        rng.integers(0, spine.n_geounits(spine.finest) - 1, len(cells))
    )  # the last block is empty
    return UnmergedModel(schema, spine, levels), cells, blocks


def answers_of(measured, group, cells, blocks, level):
    spine = measured.spine
    rows = spine.ancestors(level)[blocks]
    return group.apply(rows, cells, np.ones(len(cells), np.int64), spine.n_geounits(level))


@pytest.mark.parametrize(("preset", "strategy", "tables", "largest"), every(2, CASES))
def test_coverage_and_size_of_errors(preset, strategy, tables, largest):
    measured, cells, blocks = world(preset, strategy, largest)
    spine, n_levels = measured.spine, measured.spine.n_levels
    law = load_strategy_preset(strategy).strategy.law
    exact = {
        (level, group.name): answers_of(measured, group, cells, blocks, level)
        for level in range(n_levels)
        for group in measured.levels[level].measured
    }
    region = region_of(spine, range(0, spine.n_geounits(spine.finest), 3))
    fits = []
    for name in tables:
        asked = measured.schema.query(name)
        merged = merged_model(measured, asked, measured.atoms_of(asked))
        truth = [answers_of(measured, asked, cells, blocks, level) for level in range(n_levels)]
        truth.append(truth[-1][::3].sum(axis=0, keepdims=True))
        covariance = tree_covariance(merged.tree)
        fits.append((merged, covariance, questions_of(merged.tree.algebra, merged.asked), truth))
    source = NoiseSource((3).to_bytes(32, "little"))
    hits, squares = np.zeros((n_levels + 1, DRAWS, 2)), np.zeros((n_levels + 1, DRAWS))
    for draw in range(DRAWS):
        noisy = {}
        for number, ((level, name), own) in enumerate(exact.items()):
            sites = range(draw * len(own), (draw + 1) * len(own))
            noise = source.dense(law(spine.geolevels[level], name), level, number, sites, own.shape[1])
            noisy[level, name] = own + noise
        found = [[] for _ in range(n_levels + 1)]
        for merged, covariance, questions, truth in fits:
            fit = fit_tree(covariance, MergedRows(Rows(noisy), merged), {})
            answers = [level_answers(fit, level, questions) for level in range(n_levels)]
            answers.append(region_answers(fit, [region], questions))
            for place, (one, true) in enumerate(zip(answers, truth, strict=True)):
                random = np.isfinite(one.variances) & (one.variances > 1e-6)
                assert random.any()
                errors = (one.estimates - true)[random]
                inside = [
                    contains(intervals_of(merged.tree, one, level=LEVEL, kind=kind), true)[random]
                    for kind in ("normal", "unified")
                ]
                found[place].append((errors**2 / one.variances[random], *inside))
        for place, parts in enumerate(found):
            square, normal, unified = (np.concatenate(part) for part in zip(*parts, strict=True))
            squares[place, draw] = square.mean()
            hits[place, draw] = normal.mean(), unified.mean()
    for place in range(n_levels + 1):
        spread = squares[place].std() / np.sqrt(DRAWS)
        assert abs(squares[place].mean() - 1) < 6 * spread
        for kind in (0, 1):
            own = hits[place, :, kind]
            assert abs(own.mean() - LEVEL) < 6 * own.std() / np.sqrt(DRAWS) + 0.003
