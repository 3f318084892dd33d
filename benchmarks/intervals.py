"""Coverage of intervals over many draws of the noise, on a part of a release's geography.

`python benchmarks/intervals.py RELEASE.toml ENTITIES.parquet --tracts 12 --draws 1000` reads the records of a release
file, keeps some tracts of every county, draws the noise again and again, and prints for every geolevel and for
entities of the table how often intervals of 95 % contain the truth, with the mean squared standardised error.
It sees the records: it is for made-up populations only.
"""

import argparse
from pathlib import Path

import numpy as np
import polars as pl

from tallyveil.estimation.intervals.answers import (
    Answers,
    level_answers,
    region_coefficients,
    region_variances,
)
from tallyveil.estimation.intervals.covariance import tree_covariance
from tallyveil.estimation.intervals.fit import fit_tree
from tallyveil.estimation.intervals.interval import contains, intervals_of
from tallyveil.estimation.intervals.model import Zeros, model_of_strategy
from tallyveil.estimation.intervals.questions import questions_of
from tallyveil.estimation.intervals.regions import region_of
from tallyveil.geography.build import spine_from_columns
from tallyveil.noise.source import NoiseSource
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.topdown.run.inputs import read_histograms, read_spine

ENTITY_COLUMNS = ("place", "county_subdivision", "state_house", "state_senate", "zcta")


class Drawn:
    """Rows of one draw: the true answers with the noise of one key."""

    def __init__(self, truth, strategy, spine, key):
        source = NoiseSource(key.to_bytes(32, "little"))
        self.tables = []
        for level, name in enumerate(spine.geolevels):
            noise = [
                source.dense(strategy.law(name, query), level, q, range(spine.n_geounits(level)), width)
                for q, (query, width) in enumerate(truth.widths[level])
            ]
            self.tables.append((truth.answers[level] + np.concatenate(noise, axis=1)).astype(np.int32))

    def rows(self, level, queries, start, stop):
        return self.tables[level][start:stop]


class Truth:
    """True answers of every measured query, and true cells, at every geolevel of the part."""

    def __init__(self, plan, histogram, geounits, spine):
        rows, cells, counts = histogram.rows(0, histogram.n_geounits)
        place = np.full(histogram.n_geounits, -1)
        place[geounits] = np.arange(len(geounits))
        inside = place[rows] >= 0
        rows, cells, counts = place[rows][inside], cells[inside], counts[inside]
        self.cells = np.zeros((len(geounits), plan.schema.size))
        np.add.at(self.cells, (rows, cells), counts)
        self.answers, self.widths, self.by_level = [], [], []
        for level, name in enumerate(spine.geolevels):
            sums = np.add.reduceat(self.cells, spine.finest_offsets(level)[:-1], axis=0)
            groups = [plan.query(query) for query in plan.strategy.queries(name)]
            self.by_level.append(sums)
            self.widths.append([(group.name, group.size) for group in groups])
            self.answers.append(np.concatenate([group.apply_dense(sums) for group in groups], axis=1))


class Tally:
    """Hits and squared standardised errors of one line of the table."""

    def __init__(self):
        self.n, self.unified, self.normal, self.squares = 0, 0, 0, 0.0

    def add(self, model, estimates, variances, truth):
        noisy = variances > 1e-6
        answers = Answers(estimates[noisy][None], variances[noisy][None])
        true = truth[noisy][None]
        self.n += true.size
        self.unified += int(contains(intervals_of(model, answers), true).sum())
        self.normal += int(contains(intervals_of(model, answers, kind="normal"), true).sum())
        self.squares += float(((answers.estimates - true) ** 2 / answers.variances).sum())

    def line(self, name):
        parts = (self.unified / self.n, self.normal / self.n, self.squares / self.n)
        return f"{name:28} {self.n:10} {100 * parts[0]:8.2f} {100 * parts[1]:8.2f} {parts[2]:8.4f}"


def part_of(spine, n_tracts):
    """Finest geounits of a few tracts of every county in turn, until there are enough."""
    tracts = spine.parents(2)
    rank = np.arange(len(tracts)) - spine.child_offsets[1][tracts]
    chosen = np.zeros(len(tracts), dtype=bool)
    chosen[np.lexsort((tracts, rank))[:n_tracts]] = True
    return np.flatnonzero(chosen[spine.ancestors(2)])


def regions_of(spine, labels):
    """The finest geounits of each label; "" is none."""
    return [region_of(spine, labels == label) for label in np.unique(labels) if label]


def zeros_of(plan, spine):
    """Public zeros of a release: upper bounds of zero."""
    zeros = []
    for bounds in plan.bounds:
        query, level = plan.query(bounds.query), spine.level_index(bounds.geolevel)
        table = pl.read_parquet(bounds.path)
        table = table.with_columns(row=spine.locate(level, table["geocode"])).filter(pl.col("row") >= 0)
        answers = query.answers_from_labels(
            {name: table[name].to_list() for name in query.factor_names}, table.height
        )
        zero = np.full((spine.n_geounits(level), query.size), bounds.missing_upper == 0)
        zero[table["row"].to_numpy(), answers] = (table["upper"] == 0).fill_null(False).to_numpy()
        zeros.append(Zeros(query, bounds.geolevel, zero))
    return zeros


def main():
    """Run the draws and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("release", type=Path)
    parser.add_argument("entities", type=Path)
    parser.add_argument("--tracts", type=int, default=12)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    args = parser.parse_args()
    plan = load_plan(args.release)
    whole = read_spine(plan.geography)
    rows = part_of(whole, args.tracts)
    columns = {
        name: whole.geocodes[level][whole.ancestors(level)[rows]]
        for level, name in enumerate(whole.geolevels)
    }
    spine = spine_from_columns(columns, whole.geolevels)
    truth = Truth(plan, read_histograms(plan, whole)[-1], rows, spine)
    model = model_of_strategy(
        plan.schema,
        spine,
        plan.strategy,
        invariants={spine.geolevels[0]: ["total"]},
        zeros=zeros_of(plan, spine),
    )
    covariance = tree_covariance(model)
    table = pl.read_parquet(args.entities)
    place = spine.locate(spine.finest, table["geocode"])
    regions = []
    for column in ENTITY_COLUMNS:
        labels = np.full(spine.n_geounits(spine.finest), "", dtype="U64")
        labels[place[place >= 0]] = table.filter(place >= 0)[column].fill_null("").to_numpy()
        regions += [region for region in regions_of(spine, labels) if len(region.geounits) > 1]
    regions = sorted(regions, key=lambda region: -len(region.geounits))[:30]
    total = questions_of(model.algebra, plan.query("total"))
    cells = questions_of(model.algebra, plan.query("votingage*cenrace"))
    fixed = [region_variances(covariance, regions, values) for values in (total, cells)]
    inside = np.array([truth.cells[region.geounits].sum(axis=0) for region in regions])
    asked = [("total", total, plan.query("total")), ("cell", cells, plan.query("votingage*cenrace"))]
    exact = {spine.geolevels[0]: truth.by_level[0].sum(axis=1, keepdims=True).astype(np.int64)}
    tallies = {(name, what): Tally() for name in (*spine.geolevels, "entities") for what, _, _ in asked}
    for draw in range(args.first, args.first + args.draws):
        fit = fit_tree(covariance, Drawn(truth, plan.strategy, spine, draw + 1), exact)
        sums = region_coefficients(fit, regions)
        for number, (what, questions, group) in enumerate(asked):
            for level, name in enumerate(spine.geolevels):
                level_estimates = level_answers(fit, level, questions)
                true = group.apply_dense(truth.by_level[level])
                if level_estimates.variances.max() > 1e-6:
                    tallies[name, what].add(model, level_estimates.estimates, level_estimates.variances, true)
            tallies["entities", what].add(
                model, questions.answers(sums), fixed[number], group.apply_dense(inside)
            )
    print(f"{spine}, {len(regions)} entities, {args.draws} draws")
    print(f"{'':28} {'n':>10} {'unified':>8} {'normal':>8} {'mean z2':>8}")
    for (name, what), tally in tallies.items():
        if tally.n:
            print(tally.line(f"{name} {what}"))


if __name__ == "__main__":
    main()
