"""The steps of docs/proofs/tiles.md, in whole numbers and fractions, on tables small enough to try everything."""

from fractions import Fraction
from itertools import pairwise, product
from math import ceil, floor
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.proofs.exact import is_totally_unimodular
from tests.samples import every

from tallyveil.errors import ConstraintError
from tallyveil.estimation.problem import MeasuredQuery, TileProblem
from tallyveil.estimation.tiles import estimate_tiles

SEEDS = every(10, range(100))


def from_intervals(columns, rows):
    """The table of the proof: lengths of the intersections of consecutive intervals."""
    ends = [[sum(part[:i]) for i in range(len(part) + 1)] for part in (columns, rows)]
    return [[max(0, min(b, d) - max(a, c)) for a, b in pairwise(ends[0])] for c, d in pairwise(ends[1])]


def has_table(columns, rows):
    """Whether some table of whole numbers has these sums, by trying all."""
    choices = [range(min(h, r) + 1) for r in rows for h in columns]
    return any(
        all(sum(x[k * len(columns) : (k + 1) * len(columns)]) == r for k, r in enumerate(rows))
        and all(sum(x[i :: len(columns)]) == h for i, h in enumerate(columns))
        for x in product(*choices)
    )


def whole_problem(columns, group, fixed, measured=None, chain=None):
    """A tile problem with whole measurements of the columns, or of other queries."""
    n_children, labels = len(fixed), np.arange(len(columns))
    own = MeasuredQuery("own", labels, np.zeros((n_children, len(columns))), 1.0)
    return TileProblem(
        "p", "tract", tuple(f"c{c}" for c in range(n_children)), labels, np.array(columns, np.int64),
        np.array(group), np.array(fixed, np.int64), measured or (own,), chain or (labels,), np.ones(1),
    )  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_t1_tables_exist_if_and_only_if_totals_agree(seed):
    random = Random(f"table {seed}")
    for _ in range(20):
        columns = [random.randint(0, 3) for _ in range(random.randint(1, 3))]
        rows = [random.randint(0, 3) for _ in range(random.randint(1, 2))]
        if random.random() < 0.6:
            rows[0] = max(0, rows[0] + sum(columns) - sum(rows))
        agree = sum(columns) == sum(rows)
        assert has_table(columns, rows) == agree
        if agree:
            table = from_intervals(columns, rows)
            assert [sum(row) for row in table] == rows
            assert [sum(column) for column in zip(*table, strict=True)] == columns


@pytest.mark.parametrize("seed", SEEDS)
def test_t1_the_code_accepts_what_has_a_table_and_refuses_the_rest(seed):
    """A problem with other totals is refused when it is stated; every other one gets counts with all sums."""
    random = Random(f"stated {seed}")
    for wrong in (False, True):
        n_children, n_groups = random.randint(1, 3), random.randint(1, 3)
        group = list(range(n_groups)) + [random.randrange(n_groups) for _ in range(random.randint(0, 3))]
        counts = [[random.randint(0, 3) for _ in group] for _ in range(n_children)]
        columns = [sum(column) for column in zip(*counts, strict=True)]
        fixed = [
            [sum(x for x, g in zip(row, group, strict=True) if g == one) for one in range(n_groups)]
            for row in counts
        ]
        if wrong:
            fixed[random.randrange(n_children)][random.randrange(n_groups)] += 1
            with pytest.raises(ConstraintError):
                whole_problem(columns, group, fixed)
            continue
        found = estimate_tiles(whole_problem(columns, group, fixed)).counts
        assert found.min() >= 0
        assert found.sum(axis=0).tolist() == columns
        assert [[int(row[np.array(group) == g].sum()) for g in range(n_groups)] for row in found] == fixed


def test_t1_fails_without_equal_totals():
    assert not has_table([1, 1], [1, 2])
    assert sum(map(sum, from_intervals([1, 1], [1, 2]))) != 3


@pytest.mark.parametrize("seed", SEEDS)
def test_t2_totals_agree_at_every_parent_below(seed):
    """Any tables, made from the root down, leave condition (1) for the children of each child."""
    random = Random(f"tree {seed}")
    grandchildren = [[random.randint(0, 4) for _ in range(2)] for _ in range(4)]  # fixed counts, two groups
    children = [[sum(x) for x in zip(*grandchildren[2 * c : 2 * c + 2], strict=True)] for c in range(2)]
    group = [0, 0, 1, 1]
    columns = []
    for g in range(2):
        total = children[0][g] + children[1][g]
        first = random.randint(0, total)
        columns += [first, total - first]
    tables = [from_intervals(columns[2 * g : 2 * g + 2], [row[g] for row in children]) for g in range(2)]
    for c in range(2):
        own = tables[0][c] + tables[1][c]
        for g in range(2):
            total = sum(x for x, one in zip(own, group, strict=True) if one == g)
            assert total == sum(row[g] for row in grandchildren[2 * c : 2 * c + 2])


def test_t2_fails_where_fixed_counts_are_no_sums():
    """A child with a fixed count of 2, whose own children have 1 and 0: its table has no continuation."""
    assert has_table([2], [2])
    assert not has_table([2], [1, 0])


def table_matrix(n_children, n_columns, chain):
    """Node-arc matrix of one table: columns, sets of children from coarse to fine, rows of children."""
    nodes: list[Any] = [("column", i) for i in range(n_columns)] + [("row", c) for c in range(n_children)]
    nodes += [(c, level, one) for c in range(n_children) for level, sets in enumerate(chain) for one in sets]
    arcs = []
    for c in range(n_children):
        for i in range(n_columns):
            finest = next(one for one in chain[-1] if i in one)
            arcs.append((("column", i), (c, len(chain) - 1, finest)))
        for level, sets in enumerate(chain):
            for one in sets:
                above: Any = ("row", c)
                if level:
                    above = (c, level - 1, next(big for big in chain[level - 1] if one <= big))
                arcs.append(((c, level, one), above))
    return [[(node == tail) - (node == head) for tail, head in arcs] for node in nodes]


@pytest.mark.parametrize("sizes", [(1, 3), (2, 2), (1, 4)])
def test_t3_the_network_of_a_table_is_unimodular(sizes):
    n_children, n_columns = sizes
    halves = [frozenset(range(n_columns // 2)), frozenset(range(n_columns // 2, n_columns))]
    for chain in ([frozenset(range(n_columns))],), (halves,), ([frozenset(range(n_columns))], halves):
        assert is_totally_unimodular(table_matrix(n_children, n_columns, list(chain)), 5)


def test_t3_fails_where_sets_are_not_nested():
    assert not is_totally_unimodular([[1, 1, 0], [0, 1, 1], [1, 0, 1]])


def random_real_table(random, n_children, n_columns, unit=2**10):
    """Counts in fractions of a unit, whose sums of rows and columns are whole."""
    table = [[Fraction(random.randint(0, 2)) for _ in range(n_columns)] for _ in range(n_children)]
    for _ in range(6):
        (a, b), (i, j) = random.sample(range(n_children), 2), random.sample(range(n_columns), 2)
        step = min(Fraction(random.randrange(unit), unit), table[a][i], table[b][j])
        table[a][i], table[b][j] = table[a][i] - step, table[b][j] - step
        table[a][j], table[b][i] = table[a][j] + step, table[b][i] + step
    return table


def neighbours(table):
    """Every table of neighbouring whole numbers with the sums of a real one."""
    flat = [x for row in table for x in row]
    width = len(table[0])
    for x in product(*(sorted({floor(one), ceil(one)}) for one in flat)):
        rows = [x[k * width : (k + 1) * width] for k in range(len(table))]
        same_rows = all(sum(row) == sum(real) for row, real in zip(rows, table, strict=True))
        if same_rows and all(sum(x[i::width]) == sum(row[i] for row in table) for i in range(width)):
            yield rows


@pytest.mark.parametrize("seed", SEEDS)
def test_t4_neighbouring_whole_numbers_suffice(seed):
    random = Random(f"neighbours {seed}")
    for _ in range(5):
        assert next(neighbours(random_real_table(random, random.randint(2, 3), random.randint(2, 3))), None)


def test_t4_fails_without_whole_sums():
    assert (
        next(neighbours([[Fraction(1, 2), Fraction(1, 4)], [Fraction(1, 2), Fraction(3, 4)]]), None) is None
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_t4_the_code_deviates_least_of_all_neighbours(seed):
    """The whole measured values of a table with few labels: its rounding against every table of neighbours."""
    random = Random(f"deviation {seed}")
    estimate = random_real_table(random, 2, 3)
    columns = [int(sum(row[i] for row in estimate)) for i in range(3)]
    rows = [[int(sum(row))] for row in estimate]
    labels = np.arange(3)
    own = MeasuredQuery("own", labels, np.array([[float(x) for x in row] for row in estimate]), 1.0)
    pair = np.array([0, 0, 1])
    problem = TileProblem(
        "p", "tract", ("a", "b"), labels, np.array(columns), np.zeros(3, int), np.array(rows),
        (own,), (pair, labels), np.ones(2),
    )  # fmt: skip
    solution = estimate_tiles(problem)
    near = [[Fraction(round(x * 2**20), 2**20) for x in row] for row in solution.estimate.tolist()]

    def deviation(table):
        gaps = [[x - y for x, y in zip(*both, strict=True)] for both in zip(table, near, strict=True)]
        return sum(abs(gap) for row in gaps for gap in [*row, row[0] + row[1]])

    least = min(deviation(table) for table in neighbours(estimate))
    assert abs(deviation(solution.counts.tolist()) - least) <= Fraction(1, 2**14)
