"""Three estimators on the same noisy measurements: least squares, TopDown as released, the whole tree non-negative.

`python benchmarks/estimators.py RELEASE.toml ENTITIES.parquet --tracts 12 --draws 3` keeps some tracts of every county
of a release's geography, makes releases of them under several test keys, and prints mean absolute error and bias by
geolevel, entity and size, with the epsilon that the measurements cost. It sees the records: for made-up populations.

- *least squares*: unbiased, of least variance, may be negative (`tallyveil.estimation.intervals`);
- *TopDown*: the released counts: geolevel by geolevel, non-negative, whole;
- *whole tree*: least squares over the whole spine at once with every finest cell at least zero, by the alternating
  direction method of multipliers: its linear step is the least-squares solver with more weight on the finest cells.
  Not rounded, which favours it a little.
"""

import argparse
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from intervals import ENTITY_COLUMNS, part_of, regions_of

from tallyveil.estimation.intervals.covariance import tree_covariance
from tallyveil.estimation.intervals.fit import StoredRows, chunks_of, finest_coefficients, fit_tree
from tallyveil.estimation.intervals.questions import questions_of
from tallyveil.estimation.intervals.regions import region_of
from tallyveil.files.histograms import read_histogram
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.guarantee import guarantee_of
from tallyveil.postprocess.intervals.model import open_release, published_invariants, release_model
from tallyveil.products.topdown.run.inputs import read_histograms, read_spine
from tallyveil.products.topdown.run.run import run_release

QUERIES = ("total", "votingage", "hispanic*cenrace", "detailed")
SIZES = ((0, 0), (1, 9), (10, 99), (100, 999), (1000, 10**9))
OVER_RELAXATION = np.float32(1.6)
WEIGHTS = (1000, 500, 250, 125, 60, 30, 15, 8, 4, 2)
ROWS_AT_ONCE = 2048


class Penalised:
    """Answers with those of the finest cells drawn towards a target."""

    def __init__(self, rows, model):
        finest = model.levels[-1]
        n = model.spine.n_geounits(model.spine.finest)
        self.rows_above, self.finest = rows, model.spine.finest
        self.table = rows.rows(self.finest, finest.measured, 0, n).astype(np.float32)
        sizes = [group.size for group in finest.measured]
        number = [group.name for group in finest.measured].index("detailed")
        self.cells = slice(sum(sizes[:number]), sum(sizes[: number + 1]))
        self.noisy = self.table[:, self.cells].copy()

    def draw_to(self, target, dual, weight):
        share = np.float32(weight / (1 + weight))
        for start in range(0, len(self.table), ROWS_AT_ONCE):
            run = slice(start, start + ROWS_AT_ONCE)
            self.table[run, self.cells] = share * (target[run] - dual[run]) + (1 - share) * self.noisy[run]

    def rows(self, level, queries, start, stop):
        if level == self.finest:
            return self.table[start:stop]
        return self.rows_above.rows(level, queries, start, stop)


def finest_cells(fit, questions, out=None):
    """Estimates of all cells of all finest geounits."""
    cells = np.empty((len(fit.covariance.finest.signature), questions.n), np.float32) if out is None else out
    with ThreadPoolExecutor(max_workers=2) as pool:
        for start, stop, rows in chunks_of(fit.covariance, fit.rows):
            cells[start:stop] = questions.answers(finest_coefficients(fit, start, stop, rows, pool), pool)
    return cells


def stiffer(model, weight):
    """The model with the finest cells held to their target, by a weight in units of their own precision."""
    finest = model.levels[-1]
    number = [group.name for group in finest.measured].index("detailed")
    precisions = finest.precisions.copy()
    precisions[:, number] *= 1 + weight
    return replace(model, levels=(*model.levels[:-1], replace(finest, precisions=precisions)))


def whole_tree(model, rows, exact, start, steps):
    """The non-negative fit; cells, and how far they still are from non-negative ones, in persons a geounit.

    Starts from the counts of another estimator, with a penalty that falls from 1,000 times the precision of a cell
    to twice: with a penalty that stays, many times the steps are needed.
    """
    questions = questions_of(model.algebra, model.schema.query("detailed"))
    drawn = Penalised(rows, model)
    target = np.array(start, np.float32)
    dual, cells = np.zeros_like(target), np.empty_like(target)
    for number, weight in enumerate(WEIGHTS):
        if number:
            dual *= np.float32(WEIGHTS[number - 1] / weight)
        covariance = tree_covariance(stiffer(model, weight), workers=2)
        for _ in range(steps // len(WEIGHTS)):
            drawn.draw_to(target, dual, weight)
            finest_cells(fit_tree(covariance, drawn, exact, workers=2), questions, cells)
            for begin in range(0, len(cells), ROWS_AT_ONCE):
                run = slice(begin, begin + ROWS_AT_ONCE)
                relaxed = OVER_RELAXATION * cells[run] + (1 - OVER_RELAXATION) * target[run] + dual[run]
                target[run] = np.maximum(relaxed, 0)
                dual[run] = relaxed - target[run]
    return cells, float(np.abs(cells - target).sum(axis=1).mean())


def part(plan, spine, rows, folder, text):
    """Inputs of a release of some finest geounits."""
    codes = spine.geocodes[-1].text.gather(rows)
    for path in (plan.records.path, plan.geography.path, *(bounds.path for bounds in plan.bounds)):
        frame = pl.read_parquet(path).filter(pl.col("geocode").is_in(codes.implode()))
        frame.write_parquet(folder / path.name)
    (folder / "release.toml").write_text(text)
    return load_plan(folder / "release.toml")


class Table:
    """Sums of absolute errors and errors by line and estimator."""

    def __init__(self):
        self.lines = {}

    def add(self, line, estimator, estimate, truth):
        sums = self.lines.setdefault(line, {}).setdefault(estimator, np.zeros(3))
        error = estimate - truth
        sums += (error.size, np.abs(error).sum(), error.sum())

    def show(self):
        names = ("least squares", "TopDown", "whole tree")
        print(f"{'':44}" + "".join(f"{name:>24}" for name in names))
        print(
            f"{'mean absolute error and bias, persons':44}"
            + "".join(f"{'error':>14}{'bias':>10}" for _ in names)
        )
        for line, sums in self.lines.items():
            cells = (sums.get(name) for name in names)
            texts = [
                f"{row[1] / row[0]:14.3f}{row[2] / row[0]:10.3f}" if row is not None else "" for row in cells
            ]
            print(f"{line:44}" + "".join(texts))


def compare(table, name, cells, truth, plan, spine, regions):
    """Add the errors of one estimator's finest cells."""
    for query in QUERIES:
        group = plan.query(query)
        estimates, true = (group.apply_dense(values).astype(np.float64) for values in (cells, truth))
        for level, geolevel in enumerate(spine.geolevels):
            starts = spine.finest_offsets(level)[:-1]
            sums = [np.add.reduceat(values, starts, axis=0) for values in (estimates, true)]
            table.add(f"{query} at {geolevel}", name, *sums)
        for family, members in regions.items():
            sums = [
                np.array([values[region.geounits].sum(axis=0) for region in members])
                for values in (estimates, true)
            ]
            table.add(f"{query}, {len(members)} of {family}", name, *sums)
    total = plan.query("total")
    estimates, true = total.apply_dense(cells), total.apply_dense(truth)
    for low, high in SIZES:
        inside = (true[:, 0] >= low) & (true[:, 0] <= high)
        if inside.any():
            text = f"{low}" if low == high else f"{low} to {high}" if high < 10**9 else f"{low} and more"
            table.add(f"total, blocks of {text}", name, estimates[inside], true[inside])


def dense(counts, size):
    """All cells of all geounits."""
    out = np.zeros((counts.n_geounits, size), np.float32)
    rows, cells, persons = counts.rows(0, counts.n_geounits)
    np.add.at(out, (rows, cells), persons)
    return out


def main():
    """Make the releases and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("release", type=Path)
    parser.add_argument("entities", type=Path)
    parser.add_argument("--tracts", type=int, default=40, help="0 for all")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--steps", type=int, default=120)
    args = parser.parse_args()
    whole = load_plan(args.release)
    everywhere = read_spine(whole.geography)
    table = Table()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = part(
            whole,
            everywhere,
            part_of(everywhere, args.tracts or everywhere.n_geounits(2)),
            folder,
            args.release.read_text(encoding="utf-8"),
        )
        spine = read_spine(plan.geography)
        truth = dense(read_histograms(plan, spine)[-1], plan.schema.size)
        entities = pl.read_parquet(args.entities)
        place = spine.locate(spine.finest, entities["geocode"])
        regions = {}
        for column in ENTITY_COLUMNS:
            labels = np.full(spine.n_geounits(spine.finest), "", dtype="U64")
            labels[place[place >= 0]] = entities.filter(place >= 0)[column].fill_null("").to_numpy()
            large = [region for region in regions_of(spine, labels) if len(region.geounits) > 4]
            regions[column] = large
        generator = np.random.default_rng(1)
        n = spine.n_geounits(spine.finest)
        scattered = [np.sort(generator.choice(n, n // 5, replace=False)) for _ in range(10)]
        regions["scattered fifths"] = [region_of(spine, geounits) for geounits in scattered]
        for draw in range(args.draws):
            out = folder / f"out{draw}"
            run_release(plan, out, test_key=bytes([draw + 1] * 32))
            release = open_release(out)
            model = release_model(release)
            rows, exact = StoredRows(out, model), published_invariants(release, model)
            counts = dense(read_histogram(out, spine.geolevels[-1], plan.schema, spine), plan.schema.size)
            compare(table, "TopDown", counts, truth, plan, spine, regions)
            fit = fit_tree(tree_covariance(model, workers=2), rows, exact, workers=2)
            cells = finest_cells(fit, questions_of(model.algebra, plan.query("detailed")))
            compare(table, "least squares", cells, truth, plan, spine, regions)
            begin = time.process_time()
            cells, left = whole_tree(model, rows, exact, counts, args.steps)
            seconds = time.process_time() - begin
            compare(table, "whole tree", cells, truth, plan, spine, regions)
            print(
                f"draw {draw}: {left:.3f} persons a block not yet settled after {args.steps} steps, {seconds:.0f} s "
                "of processor time",
                flush=True,
            )
    epsilon = guarantee_of(plan)["exact"]["epsilon"]["upper"]
    print(f"{spine}; {args.draws} draws; epsilon {epsilon:.3f} at delta {float(plan.delta):g}")
    table.show()


if __name__ == "__main__":
    main()
