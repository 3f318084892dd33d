"""Speed and memory of estimates and variances of a whole spine.

`python benchmarks/intervals_speed.py RELEASE_FOLDER` reads a finished release: model, covariances, measurements and
fit, answers with variances at every geolevel. `python benchmarks/intervals_speed.py RELEASE.toml --persons N` does the
same from a plan, on noise alone held in memory, for sizes of which no release is at hand. Both have the variance of a
scattered fifth of the finest geounits. Wall and processor seconds (both cores together), peak memory so far.

`--repeat 2` does it twice: the second time the compiled kernels are loaded.
"""

import argparse
import resource
import time
from pathlib import Path

import numpy as np

from tallyveil.estimation.intervals.answers import LevelAnswers, region_variances
from tallyveil.estimation.intervals.covariance import tree_covariance
from tallyveil.estimation.intervals.fit import KeptRows, fit_tree
from tallyveil.estimation.intervals.questions import questions_of
from tallyveil.estimation.intervals.regions import region_of
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.intervals.model import (
    measured_rows,
    open_release,
    plan_model,
    published_invariants,
    release_model,
)
from tallyveil.products.topdown.run.inputs import read_hierarchies

GEOUNITS_AT_ONCE = 8192


class Clock:
    """Prints what each step took."""

    def __init__(self):
        self.first = self.last = (time.perf_counter(), time.process_time())

    def lap(self, name):
        now = time.perf_counter(), time.process_time()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(
            f"{name:36} {now[0] - self.last[0]:7.2f} s {now[1] - self.last[1]:7.2f} s {peak:6.2f} GB",
            flush=True,
        )
        self.last = now

    def total(self):
        print(
            f"{'total':36} {self.last[0] - self.first[0]:7.2f} s {self.last[1] - self.first[1]:7.2f} s",
            flush=True,
        )


class NoiseAlone:
    """Rows of noise of about the right size, for timing."""

    def __init__(self, model):
        generator = np.random.default_rng(1)
        self.tables = []
        for number, level in enumerate(model.levels):
            n = model.spine.n_geounits(number)
            scales = [
                np.full(group.size, precision**-0.5, np.float32)
                for group, precision in zip(level.measured, level.precisions[0], strict=True)
            ]
            scale = np.concatenate(scales)
            table = np.empty((n, len(scale)), np.int16)
            for start in range(0, n, GEOUNITS_AT_ONCE):
                run = table[start : start + GEOUNITS_AT_ONCE]
                run[:] = np.rint(generator.standard_normal(run.shape, dtype=np.float32) * scale)
            self.tables.append(table)

    def rows(self, level, queries, start, stop):
        return self.tables[level][start:stop]


def answers_of(covariance, rows, exact, groups, workers, clock):
    """Fit, and answers with variances at every geolevel; nothing is kept."""
    fit = fit_tree(covariance, rows, exact, workers=workers)
    clock.lap("fit: up and down")
    questions = questions_of(covariance.algebra, groups)
    for level in range(covariance.model.spine.n_levels):
        for _ in LevelAnswers.of(fit, level, questions).stream(workers=workers):
            pass
    clock.lap(f"{questions.n} answers, every geounit")
    clock.total()


def scattered(covariance, groups, workers, clock):
    """Variances of a fifth of the finest geounits."""
    spine = covariance.model.spine
    n = spine.n_geounits(spine.finest)
    region = region_of(spine, np.sort(np.random.default_rng(1).choice(n, n // 5, replace=False)))
    region_variances(covariance, [region], questions_of(covariance.algebra, groups), workers=workers)
    clock.lap("variances of a scattered fifth")


def from_release(folder, workers):
    """Everything from the files of a release."""
    clock = Clock()
    release = open_release(folder)
    model = release_model(release)
    clock.lap("geography, bounds, model")
    covariance = tree_covariance(model, workers=workers)
    clock.lap("covariances")
    groups = [release.schema.query(name) for name in ("total", "votingage*cenrace")]
    rows = KeptRows(measured_rows(release, model))
    answers_of(covariance, rows, published_invariants(release, model), groups, workers, clock)
    scattered(covariance, groups, workers, clock)


def from_plan(path, persons, workers):
    """Everything from a plan, with noise made here."""
    plan = load_plan(path)
    clock = Clock()
    hierarchies = read_hierarchies(plan)
    spine, model = hierarchies.spine, plan_model(plan, hierarchies)
    print(spine)
    clock.lap("geography, bounds, model")
    covariance = tree_covariance(model, workers=workers)
    clock.lap("covariances")
    groups = [plan.query(name) for name in ("total", "votingage*cenrace")]
    scattered(covariance, groups, workers, clock)
    rows = NoiseAlone(model)
    print("made noise")
    clock = Clock()
    exact = {level.geolevel: np.array([[persons]]) for level in model.levels if level.invariants}
    answers_of(covariance, rows, exact, groups, workers, clock)


def main():
    """Time one release or plan."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path, help="folder of a finished release, or a release file")
    parser.add_argument("--persons", type=int, default=10_000_000, help="the exact total, for a release file")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=1)
    args = parser.parse_args()
    print(f"{'':36} {'wall':>9} {'processor':>9} {'peak':>9}")
    for _ in range(args.repeat):
        if args.path.is_dir():
            from_release(args.path, args.workers)
        else:
            from_plan(args.path, args.persons, args.workers)


if __name__ == "__main__":
    main()
