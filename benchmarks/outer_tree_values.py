"""What values from the tree would do to releases with outer passes.

    python benchmarks/outer_tree_values.py RELEASE.TOML --tables hhsize_all,hhage --keys 2

makes releases with test keys, fitted to own noisy answers and to estimates that use what is measured below. Own and
tree have the same noise. It prints mean absolute errors and their ratios. The records of the release file must be
made up: the results reveal them.

The tree goes query by query. A label's estimate is the mean of its own noisy answer and of the sum of its children's
estimates, weighted with their precisions. Only the values change; the weights of the fit are those of own answers. A
geounit uses the geolevels below it down to the block groups, and the root its own children alone: the answers of more
geounits, in the root's million cells, would take longer than the estimation.
"""

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import polars as pl

from tallyveil.budget.allocation import Allocation
from tallyveil.measurements.answers import FamilyAnswers, MeasurementSource, NoisyMeasurements
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.passes import driver
from tallyveil.products.topdown.run.evaluate import evaluate_release
from tallyveil.products.topdown.run.run import run_release


@dataclass(frozen=True)
class TreeSource:
    """Noisy answers in whose place stand estimates from everything below, query by query."""

    own: MeasurementSource
    allocation: Allocation

    @property
    def deepest(self) -> int:
        """The last geolevel that is used. The finest geounits have too little of the budget to tell anything."""
        return self.allocation.spine.finest - 1

    def measure(
        self, geolevel: str, query: str, start: int, stop: int, answers: np.ndarray
    ) -> NoisyMeasurements:
        answer = self.own.measure(geolevel, query, start, stop, answers)
        level = self.allocation.spine.level_index(geolevel)
        values, _ = self._estimates(level, start, stop, query, answers, min(level + 1, self.deepest))
        return replace(answer, values=values.reshape(answer.values.shape))

    def measure_families(self, asked: FamilyAnswers) -> np.ndarray:
        level = self.allocation.spine.level_index(asked.geolevel)
        values = self.own.measure_families(asked)
        if level >= self.deepest:
            return values
        answer = values.astype(np.float64)
        for q, group in enumerate(asked.queries):
            for f in range(len(asked.child_begin) - 1):
                answers = asked.answers[asked.begin[q, f] : asked.begin[q, f + 1]]
                if len(answers):
                    children = int(asked.child_begin[f]), int(asked.child_begin[f + 1])
                    estimates, _ = self._estimates(level, *children, group.name, answers, self.deepest)
                    answer[asked.value_begin[q, f] : asked.value_begin[q, f + 1]] = estimates.reshape(-1)
        return answer

    def _estimates(
        self, level: int, start: int, stop: int, query: str, answers: np.ndarray, deepest: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Estimates of geounits start..stop, and their variances."""
        spine = self.allocation.spine
        geolevel = spine.geolevels[level]
        estimates = self.own.measure(geolevel, query, start, stop, answers).values.astype(np.float64)
        estimates = estimates.reshape(stop - start, len(answers))
        variance = self.allocation.variances(geolevel, query, start, stop)
        if level >= deepest:
            return estimates, variance
        children = spine.child_offsets[level][start : stop + 1]
        below, spread = self._estimates(
            level + 1, int(children[0]), int(children[-1]), query, answers, deepest
        )
        begins = children[:-1] - children[0]
        summed, their = np.add.reduceat(below, begins), np.add.reduceat(spread, begins)
        mine = their / (their + variance)
        return estimates * mine[:, None] + summed * (1 - mine)[:, None], variance * their / (variance + their)


@contextmanager
def values_from_tree() -> Iterator[None]:
    """Releases with outer passes are fitted to values from the tree."""
    original = driver.TreePasses

    def passes(*, source: MeasurementSource, allocation: Allocation, **options: Any) -> driver.TreePasses:
        return original(source=TreeSource(source, allocation), allocation=allocation, **options)

    with mock.patch.object(driver, "TreePasses", passes):
        yield


def errors(release: Path, key: str, tables: list[str]) -> pl.DataFrame:
    plan = load_plan(release)
    folder = Path(tempfile.mkdtemp())
    try:
        out = run_release(plan, folder / "out", test_key=insecure_key(key), workers=1).path
        by_class = evaluate_release(out, plan.records.path, tables).errors.filter(size_class="all")
    finally:
        shutil.rmtree(folder)
    return by_class.select("geolevel", "query", "mean_absolute_error")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("release", type=Path)
    parser.add_argument("--tables", required=True)
    parser.add_argument("--keys", type=int, default=2)
    given = parser.parse_args()
    rows = []
    for number in range(given.keys):
        key, tables = f"tree {number}", given.tables.split(",")
        untied = errors(given.release, key, tables)
        with values_from_tree():
            tree = errors(given.release, key, tables)
        rows.append(untied.join(tree, on=["geolevel", "query"], suffix="_tree", maintain_order="left"))
        frame = (
            pl.concat(rows)
            .group_by("geolevel", "query", maintain_order=True)
            .agg(
                own=pl.col("mean_absolute_error").mean(),
                tree=pl.col("mean_absolute_error_tree").mean(),
                each=(pl.col("mean_absolute_error_tree") / pl.col("mean_absolute_error")).round(3),
            )
        )
        with pl.Config(tbl_rows=200, fmt_str_lengths=50, tbl_width_chars=160):
            print(frame.with_columns(ratio=pl.col("tree") / pl.col("own")), flush=True)


if __name__ == "__main__":
    main()
