"""Attack (d): the records of a finest geounit, rebuilt from its tables by an integer program.

*Program.* Whole numbers of records of each kind, none below zero. Every published answer of the geounit should be the
sum of its kinds; what it misses costs 1 for each record. Among files that fit equally well, the likeliest under the
area below the root is taken. Where a count is hidden, only its least value is known.

A record counts as rebuilt if the geounit has it. Each true record counts once.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

import highspy
import numpy as np
from scipy import sparse

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.compare.attacks.attack import Attack, Finding, Targets, mean
from tallyveil.compare.inputs import SharedInput, answer_matrix
from tallyveil.compare.published import Published
from tallyveil.errors import SolverError
from tallyveil.estimation.highs import linear_program, quiet_solver

LIKELIER: Final = 0.01
"""Weight of the likelihood against a missed record. 100 records of the commonest kind weigh less than one missed count
of a small geounit; a larger weight would put the background before the tables."""

GEOUNITS: Final = 120
"""Finest geounits that are rebuilt; their people give intervals of a few hundredths."""

CELLS_TOGETHER: Final = 4096
"""Largest number of kinds of records. A program of more takes seconds for each geounit."""


class Reconstruction(Attack):
    """Who rebuilds the records of a geounit from its tables."""

    name: ClassVar[str] = "records rebuilt"
    letter: ClassVar[str] = "d"
    who: ClassVar[str] = (
        "Anybody who reads the tables of a finest geounit: an integer program finds the likeliest file of records that "
        "fits them best."
    )
    prior: ClassVar[str] = "the likeliest file of as many records as the geounit truly has"
    bounded: ClassVar[str] = "None is known for shares of records."
    headline: ClassVar[str] = "share of records rebuilt"
    must: ClassVar[float] = 0.9

    def run(self, targets: Targets, published: Published, tossed: Published | None) -> Sequence[Finding]:
        """As in `Attack`."""
        if targets.shared.schema.size > CELLS_TOGETHER:
            return [Finding(self.name, self.headline, None, None, None, 0)]
        geounits = chosen_geounits(targets, targets.shared.counts.sum(axis=1) > 0)
        files = rebuilt(targets, published, geounits)
        true = targets.shared.counts[geounits]
        right = np.minimum(files, true).sum(axis=1)
        guessed = np.minimum(_likeliest(targets, geounits), true).sum(axis=1)
        total = true.sum()
        # A ratio of sums over geounits; its interval follows from the geounits' own deviations.
        value = float(right.sum() / total)
        spread = mean(self.name, self.headline, (right - value * true.sum(axis=1)) * (geounits.size / total))
        reach = 0.0 if spread.high is None or spread.value is None else spread.high - spread.value
        return [
            Finding(
                self.name,
                self.headline,
                value,
                max(value - reach, 0.0),
                min(value + reach, 1.0),
                int(total),
                float(guessed.sum() / total),
            )
        ]


def chosen_geounits(targets: Targets, eligible: Bools) -> Integers:
    """Some of the finest geounits that are eligible."""
    places = np.flatnonzero(eligible)
    generator = targets.draws.generator("reconstruction")
    return np.sort(generator.choice(places, min(GEOUNITS, places.size), replace=False))


def rebuilt(targets: Targets, published: Published, geounits: Integers) -> Integers:
    """The file of records of each geounit, as counts of kinds; shape (geounits.size, n_cells).

    Raises:
        SolverError: a program ended without an answer.
    """
    shared = targets.shared
    costs = _costs(targets, geounits)
    least = published.least_hidden or 0
    matrix = sparse.csr_matrix(sparse.vstack([answer_matrix(query).T for query in shared.queries]))
    files = np.zeros((geounits.size, shared.schema.size), dtype=np.int64)
    cells = shared.detailed
    for place, geounit in enumerate(geounits.tolist()):
        if cells is not None:
            table = published.tables[shared.finest.name, cells.name]
            file = table.counts[geounit][cells.answers_of(np.arange(shared.schema.size))]
            if _fits(shared, published, geounit, file):
                files[place] = file
                continue
        wanted, hidden = [], []
        for query in shared.queries:
            table = published.tables[shared.finest.name, query.name]
            wanted.append(table.counts[geounit])
            hidden.append(~table.shown[geounit])
        files[place] = _solved(matrix, np.concatenate(wanted), np.concatenate(hidden), least, costs[place])
    return files


def _fits(shared: SharedInput, published: Published, geounit: int, file: Integers) -> bool:
    """Whether the published cells are a file that every published answer agrees with; it then costs the least."""
    if (file < 0).any():
        return False
    for query in shared.queries:
        table = published.tables[shared.finest.name, query.name]
        answers = np.asarray(file @ answer_matrix(query))
        if not (table.shown[geounit].all() and np.array_equal(answers, table.counts[geounit])):
            return False
    return True


def _costs(targets: Targets, geounits: Integers) -> Floats:
    """Minus the logarithm of how common each kind is in the area below the root; shape (geounits.size, n_cells)."""
    areas = targets.shared.areas[min(1, targets.shared.n_geolevels - 1)]
    sums = areas.sums(targets.shared.counts)[areas.place[geounits]] + 0.5
    return np.asarray(-np.log(sums / sums.sum(axis=1, keepdims=True)))


def _solved(matrix: sparse.csr_matrix, wanted: Integers, hidden: Bools, least: int, cost: Floats) -> Integers:
    """The file of one geounit; `matrix` has the answers of all queries from the cells, (n_answers, n_cells)."""
    n_answers, n_cells = matrix.shape
    # Two columns for what an answer misses, above and below.
    columns = sparse.csc_matrix(sparse.hstack([matrix, -sparse.eye(n_answers), sparse.eye(n_answers)]))
    unlimited = np.full(columns.shape[1], highspy.kHighsInf)
    lower = np.where(hidden, float(least), wanted)
    upper = np.where(hidden, highspy.kHighsInf, wanted)
    program = linear_program(
        np.concatenate([LIKELIER * cost, np.ones(2 * n_answers)]),
        (np.zeros(columns.shape[1]), unlimited),
        (lower, upper),
        columns,
    )
    whole, real = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
    program.integrality_ = [whole] * n_cells + [real] * (2 * n_answers)
    solver = quiet_solver()
    solver.passModel(program)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise SolverError(
            "a reconstruction ended without an answer: "
            f"{solver.modelStatusToString(solver.getModelStatus())}. Compare tables with fewer cells."
        )
    return np.asarray(np.rint(np.asarray(solver.getSolution().col_value)[:n_cells]), dtype=np.int64)


def _likeliest(targets: Targets, geounits: Integers) -> Integers:
    """The likeliest file of as many records as each geounit truly has: by the mode of a multinomial law, nearly.

    Each kind gets the whole part of (n + half the number of kinds) times its share, and the largest remainders fill up.
    """
    shares = np.exp(-_costs(targets, geounits))
    total = targets.shared.counts[geounits].sum(axis=1)
    expected = shares * total[:, None]
    files = np.floor(expected).astype(np.int64)
    rest = total - files.sum(axis=1)
    order = np.argsort(-(expected - files), axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(order.shape[1])[None, :], axis=1)
    return np.asarray(files + (rank < rest[:, None]))
