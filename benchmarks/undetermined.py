"""Least squares of families whose detailed query is not measured, beside dense inverses on the same faces.

The families are made up: 684 cells (18 ages, 2 sexes, 19 groups), of which four overlapping queries with 99 answers are
measured. Without the detailed query many more cells are above zero, and a ridge makes the answer unique. Every family
is estimated in one pass, with the total first, and with the total first and ages by sex second, whose exact answers the
last pass keeps. The last way is also tried with a bound on the total of the first two children together. Where a family
is small enough, the last pass is solved a second time with dense inverses of H, and the counts must agree to 1e-6
persons.

    python benchmarks/undetermined.py
    python benchmarks/undetermined.py --families 10 --dense 400
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import headline
import numpy as np

from tallyveil.estimation import least_squares as ladder
from tallyveil.estimation.least_squares import constraint_bounds, pass_arrays
from tallyveil.estimation.problem import (
    UNBOUNDED,
    EstimationPass,
    FamilyProblem,
    LinearConstraint,
    MeasuredQuery,
    RoundingStage,
)
from tallyveil.kernels.compiled import all_compiled, compiled
from tallyveil.kernels.family.descent import equal_parts
from tallyveil.kernels.family.program import PassArrays, Program
from tallyveil.kernels.family.reduction import reduce_arrays
from tallyveil.kernels.family.solver import PARTS, solve_pass, solve_program

SIZES = ((12, 684), (4, 684), (5, 380), (5, 150))
"""Children and support cells, from the families of a root to those of the finest geolevel."""

QUERIES = ("total", "age*sex", "group5", "broad_age*group")
PASSES = {
    "one pass": (QUERIES,),
    "total first": (QUERIES[:1], QUERIES[1:]),
    "three passes": (QUERIES[:1], QUERIES[1:2], QUERIES[2:]),
    "three passes, a group": (QUERIES[:1], QUERIES[1:2], QUERIES[2:]),
}
SAME_PERSONS = 1e-6
TARGET_SECONDS = 0.02
"""For each family: 1,000 families in 20 s on one core."""


@dataclass(frozen=True, slots=True)
class Result:
    """The last pass of one family.

    Attributes:
        children, cells: Size of the family.
        passes: How many there are.
        seconds: All passes, on one core.
        rounds, faces: Rounds and faces of the last pass.
        dense: Seconds of the last pass with dense inverses; None: not tried.
    """

    children: int
    cells: int
    passes: int
    seconds: float
    rounds: int
    faces: int
    dense: float | None


def labels_of(cells: np.ndarray) -> list[np.ndarray]:
    """The answer in which each cell counts, query by query."""
    age, rest = np.divmod(cells, 38)
    sex, group = np.divmod(rest, 19)
    broad = np.digitize(age, [3, 13])
    return [np.zeros_like(cells), 2 * age + sex, np.digitize(group, [5, 9, 14, 17]), 19 * broad + group]


def made_up(children: int, n_cells: int, number: int, way: str) -> FamilyProblem:
    """A family with skewed counts and one variance for each query, in one of the ways of `PASSES`."""
    rng = np.random.default_rng([children, n_cells, number])
    support = np.sort(rng.permutation(684)[:n_cells])
    truth = rng.poisson(rng.exponential(1500 / n_cells, n_cells), (children, n_cells))
    truth[0] += 1
    measured = []
    for name, labels in zip(QUERIES, labels_of(support), strict=True):
        _, column = np.unique(labels, return_inverse=True)
        answers = np.zeros((children, int(column.max()) + 1))
        np.add.at(answers.T, column, truth.T)
        noise = np.rint(rng.normal(0, 6.0, answers.shape))
        measured.append(
            MeasuredQuery(name, column.astype(np.int32), answers + noise, np.full(children, 36.0))
        )
    return FamilyProblem(
        geocode=f"{number}",
        geolevel="parent",
        children=tuple(f"child {c}" for c in range(children)),
        support=support,
        parent_counts=truth.sum(axis=0),
        measured=tuple(measured),
        constraints=(first_two_together(truth),) if way.endswith("a group") else (),
        passes=tuple(EstimationPass(names) for names in PASSES[way]),
        rounding=(RoundingStage((("detailed", np.arange(n_cells, dtype=np.int32)),)),),
    )


def first_two_together(truth: np.ndarray) -> LinearConstraint:
    """The total of the first two children is at most one percent from the truth; others are not bounded."""
    groups = np.maximum(np.arange(len(truth)) - 1, 0)
    held = int(truth[:2].sum())
    lower, upper = np.zeros((len(truth) - 1, 1), np.int64), np.full((len(truth) - 1, 1), UNBOUNDED)
    lower[0], upper[0] = held - held // 100, held + held // 100
    return LinearConstraint("pair", np.zeros(truth.shape[1], np.int32), lower, upper, groups)


def passes_of(problem: FamilyProblem) -> Iterator[PassArrays]:
    """The arrays of each pass, with the answers of the passes before it as bounds."""
    allowed, bounds = problem.allowed(), constraint_bounds(problem)
    for current in problem.passes:
        arrays = pass_arrays(problem, allowed, current, bounds)
        yield arrays
        carried = ladder._carried(problem, current, solve_pass(arrays).estimate)
        bounds = (*bounds, *(ladder._without_repeats(bound, bounds) for bound in carried))
        allowed = ladder._narrow(allowed, carried)


def with_hessian(program: Program) -> Program:
    """The same program with H held, which makes the compiled solver use dense inverses."""
    n_cells, n_answers = program.sums.size, program.weights.shape[1]
    member = np.zeros((n_answers, n_cells))
    for answers in program.answers.T:
        used = np.flatnonzero(answers >= 0)
        member[answers[used], used] = 1.0
    hessian = np.stack(
        [
            (member.T * weights) @ member + np.diag(ridge)
            for weights, ridge in zip(program.weights, program.ridge, strict=True)
        ]
    )
    return program._replace(hessian=hessian, linear=program.targets @ member)


def measure(problem: FamilyProblem, *, dense: bool) -> Result:
    """Time one family; with dense inverses as well where asked for."""
    arrays = list(passes_of(problem))
    start = time.process_time()
    answers = [solve_pass(passed) for passed in arrays]
    seconds = time.process_time() - start
    slow = None
    if dense:
        program, group, share = reduce_arrays(arrays[-1])
        held = with_hessian(program)
        state = equal_parts(held)
        solve = compiled(solve_program)
        start = time.process_time()
        solve(held, state, all_compiled(PARTS))
        slow = time.process_time() - start
        assert np.abs(state.x[:, group] * share - answers[-1].estimate).max() <= SAME_PERSONS
    last = answers[-1]
    assert last.residual <= 1e-7
    return Result(problem.n_children, problem.n_cells, len(arrays), seconds, last.rounds, last.steps, slow)


def show(results: list[Result]) -> None:
    first = results[0]
    seconds = statistics.median(result.seconds for result in results)
    faces = statistics.median(result.faces for result in results)
    dense = [result.dense / result.seconds for result in results if result.dense is not None]
    ratio = f"{statistics.median(dense):8.0f}" if dense else " " * 8
    most = max(result.rounds for result in results)
    print(
        f"{first.children:>8} {first.cells:>6} {first.passes:>6} {1e3 * seconds:>10.2f} {faces:>6.0f} {most:>6} {ratio}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--families", type=int, default=5, help="of each size")
    parser.add_argument("--dense", type=int, default=150, help="cells up to which dense inverses are tried")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    headline.add_option(parser)
    options = parser.parse_args()
    measure(made_up(2, 70, 0, "one pass"), dense=True)  # compile
    print(
        f"{'children':>8} {'cells':>6} {'passes':>6} {'median ms':>10} {'faces':>6} {'rounds':>6} {'dense x':>8}"
    )
    results, lines = [], []
    for way in PASSES:
        print(way)
        for children, cells in SIZES:
            problems = [made_up(children, cells, n, way) for n in range(options.families)]
            of_size = [measure(problem, dense=cells <= options.dense) for problem in problems]
            show(of_size)
            results += of_size
            seconds = statistics.median(result.seconds for result in of_size)
            what = f"{children} children, {cells} cells, {way}"
            against = f"{1e3 * TARGET_SECONDS:.0f} ms"
            lines.append(
                headline.Headline(what, f"{1e3 * seconds:.2f} ms", against, TARGET_SECONDS / seconds)
            )
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(result) for result in results], indent=2) + "\n")
    headline.write(options.headline, lines)


if __name__ == "__main__":
    main()
