"""The steps of docs/proofs/tiles.md about the least-squares estimate, in fractions.

The oracle `least_squares` knows no prices: it tries every set of entries that are zero, and looks at every move of a
cycle. A table has two children and three columns, or is that of a root.
"""

from dataclasses import dataclass
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from tests.proofs.exact import least_squares, solved
from tests.samples import every

from tallyveil.estimation.problem import MeasuredQuery, TileProblem
from tallyveil.estimation.tiles import estimate_tiles

SEEDS = every(10, range(120))
COLUMNS = 3
SETS = ([0, 1], [1, 2], [0, 2])
"""Columns of a label."""


@dataclass
class Small:
    """One table: entries in rows of children; labels (child, columns) with weights and targets."""

    n_children: int
    weight: list[Fraction]
    centre: list[Fraction]
    labels: list[tuple[int, list[int]]]
    label_weight: list[Fraction]
    target: list[Fraction]

    @property
    def n(self):
        return self.n_children * COLUMNS

    @property
    def sum_rows(self):
        """Rows of the sums that are fixed: those of children, and those of columns where there are two children."""
        rows = [[int(e // COLUMNS == c) for e in range(self.n)] for c in range(self.n_children)]
        if self.n_children > 1:
            rows += [[int(e % COLUMNS == i) for e in range(self.n)] for i in range(COLUMNS)]
        return rows

    @property
    def label_rows(self):
        return [
            [int(e // COLUMNS == c and e % COLUMNS in own) for e in range(self.n)] for c, own in self.labels
        ]

    def forces(self, prices):
        """The sum of the prices of each entry's labels."""
        return [
            sum(price * row[e] for price, row in zip(prices, self.label_rows, strict=True))
            for e in range(self.n)
        ]

    def sums(self, x, rows):
        return [sum(a * b for a, b in zip(row, x, strict=True)) for row in rows]

    def optimum(self, totals, target=None):
        objective = [
            (d, [int(e == i) for i in range(self.n)], a)
            for e, (d, a) in enumerate(zip(self.weight, self.centre, strict=True))
        ]
        objective += list(zip(self.label_weight, self.label_rows, target or self.target, strict=True))
        return least_squares(objective, list(zip(self.sum_rows, totals, strict=True)), self.n)

    def projected(self, prices, totals):
        """x(lambda): the projection of the point that the prices of labels ask for."""
        forces = self.forces(prices)
        point = [a - f / d for a, f, d in zip(self.centre, forces, self.weight, strict=True)]
        objective = [
            (d, [int(e == i) for i in range(self.n)], a)
            for e, (d, a) in enumerate(zip(self.weight, point, strict=True))
        ]
        return least_squares(objective, list(zip(self.sum_rows, totals, strict=True)), self.n)

    def gradient(self, prices, totals):
        """(x(lambda), delta = t - y - lambda / w)."""
        x = self.projected(prices, totals)
        t = self.sums(x, self.label_rows)
        return x, [
            a - y - price / w
            for a, y, price, w in zip(t, self.target, prices, self.label_weight, strict=True)
        ]


def number(random, low=-6, high=6):
    return Fraction(random.randint(4 * low, 4 * high), random.choice([1, 2, 3, 4]) * 4)


def random_small(seed):
    random = Random(f"estimate {seed}")
    n_children = random.choice([1, 2, 2])
    n, labels = (
        n_children * COLUMNS,
        [(c, own) for c in range(n_children) for own in SETS if random.random() < 0.5],
    )
    labels = labels or [(0, SETS[0])]
    child_weight = [Fraction(random.randint(1, 8), random.randint(1, 4)) for _ in range(n_children)]
    table = Small(
        n_children,
        [child_weight[e // COLUMNS] for e in range(n)],
        [number(random, -2) for _ in range(n)],
        labels,
        [Fraction(random.randint(1, 8), random.randint(1, 4)) for _ in labels],
        [number(random, 0) for _ in labels],
    )
    counts = [Fraction(random.randint(0, 4)) for _ in range(n)]
    return random, table, table.sums(counts, table.sum_rows)


def short_form(seed):
    """F less its short form, as a function of the counts."""
    random, table, _ = random_small(seed)
    own = [(Fraction(random.randint(1, 9), 4), [number(random) for _ in range(table.n)]) for _ in range(2)]
    whole = Fraction(random.randint(1, 9), 4), [number(random) for _ in range(table.n_children)]
    weight = sum(w for w, _ in own)
    centre = [sum(w * y[e] for w, y in own) / weight for e in range(table.n)]

    def gap(x):
        rows = table.sums(x, table.sum_rows)[: table.n_children]
        long = [(w, x[e], y[e]) for w, y in own for e in range(table.n)]
        long += [(whole[0], t, y) for t, y in zip(rows, whole[1], strict=True)]
        short = [(weight, x[e], centre[e]) for e in range(table.n)]
        return sum(w * (t - y) ** 2 for w, t, y in long) - sum(w * (t - y) ** 2 for w, t, y in short)

    x = [number(random) for _ in range(table.n)]
    moved, step, (i, j) = list(x), number(random), random.sample(range(COLUMNS), 2)
    for c in range(table.n_children):
        sign = 1 if c == 0 else -1
        moved[c * COLUMNS + i] += sign * step
        moved[c * COLUMNS + j] -= sign * step
    return gap, x, moved


@pytest.mark.parametrize("seed", SEEDS)
def test_t5_queries_become_weights_of_entries_labels_and_constants(seed):
    """The difference is the same number for any two counts with the same sums. Labels are in both forms."""
    gap, x, moved = short_form(seed)
    assert gap(x) == gap(moved)


def test_t5_fails_with_other_sums():
    gap, x, moved = short_form(0)
    assert gap(x) != gap([moved[0] + 1, *moved[1:]])


def priced(seed):
    """Counts that random prices ask for, and the problem whose sums and targets fit these prices."""
    random, table, _ = random_small(seed)
    prices = [number(random) for _ in table.labels]
    lines = [number(random) for _ in table.sum_rows]
    forces = table.forces(prices)
    x = []
    for e in range(table.n):
        line = sum(price * row[e] for price, row in zip(lines, table.sum_rows, strict=True))
        x.append(max(Fraction(0), table.centre[e] - (forces[e] + line) / table.weight[e]))
    t = table.sums(x, table.label_rows)
    table.target = [a - price / w for a, price, w in zip(t, prices, table.label_weight, strict=True)]
    return random, table, x


@pytest.mark.parametrize("seed", SEEDS)
def test_t6_counts_that_meet_the_three_conditions_are_the_optimum(seed):
    _, table, x = priced(seed)
    assert table.optimum(table.sums(x, table.sum_rows)) == x


def test_t6_fails_with_another_price_of_a_label():
    """The conditions hold but one: a label's price is not its weight times its gap."""
    wrong = 0
    for seed in range(12):
        _, table, x = priced(seed)
        table.target = [table.target[0] + 3, *table.target[1:]]
        wrong += table.optimum(table.sums(x, table.sum_rows)) != x
    assert wrong > 4


@pytest.mark.parametrize("seed", SEEDS)
def test_t6_the_code_finds_the_optimum(seed):
    """Whole measurements and weights: the estimate before rounding lies within its backward error's reach."""
    random, table, totals = random_small(seed)
    variance = random.choice([1, 2, 4])
    table.weight, table.centre = (
        [Fraction(1)] * table.n,
        [Fraction(random.randint(-2, 5)) for _ in range(table.n)],
    )
    values = {key: [random.randint(0, 9) for _ in range(table.n_children)] for key in range(len(SETS))}
    table.labels = [(c, own) for own in SETS for c in range(table.n_children)]
    table.label_weight = [Fraction(1, variance)] * len(table.labels)
    table.target = [Fraction(values[k][c]) for k in range(len(SETS)) for c in range(table.n_children)]
    exact = table.optimum(totals)
    columns = np.arange(COLUMNS)
    measured = [MeasuredQuery("own", columns, np.array(table.centre, float).reshape(-1, COLUMNS), 1.0)]
    for k, own in enumerate(SETS):
        labels = np.array([0 if i in own else -1 for i in range(COLUMNS)])
        measured.append(
            MeasuredQuery(f"pair {k}", labels, np.array(values[k], float)[:, None], float(variance))
        )
    whole = [int(total) for total in totals]
    problem = TileProblem(
        "p", "tract", tuple("ab"[: table.n_children]), columns,
        np.array(whole[table.n_children :]) if table.n_children > 1 else None, np.zeros(COLUMNS, int),
        np.array(whole[: table.n_children])[:, None], tuple(measured), (columns,), np.ones(1),
    )  # fmt: skip
    found = estimate_tiles(problem, backward_error_persons=1e-9).estimate.reshape(-1).tolist()
    assert max(abs(Fraction(a) - b) for a, b in zip(found, exact, strict=True)) < Fraction(1, 10**6)


@pytest.mark.parametrize("seed", SEEDS)
def test_t7_any_prices_give_the_optimum_of_shifted_measurements(seed):
    random, table, totals = random_small(seed)
    prices = [number(random) for _ in table.labels]
    x, shift = table.gradient(prices, totals)
    assert table.optimum(totals, [y + d for y, d in zip(table.target, shift, strict=True)]) == x


def test_t7_fails_without_the_shift():
    wrong = 0
    for seed in range(12):
        random, table, totals = random_small(seed)
        prices = [number(random) for _ in table.labels]
        wrong += table.optimum(totals) != table.projected(prices, totals)
    assert wrong > 4


def distance(table, totals, shift):
    """(A, B, D, sum of w delta (t - t*)) for the optima of shifted and of given measurements."""
    x = table.optimum(totals, [y + d for y, d in zip(table.target, shift, strict=True)])
    best = table.optimum(totals)
    t, goal = table.sums(x, table.label_rows), table.sums(best, table.label_rows)
    a = sum(d * (p - q) ** 2 for d, p, q in zip(table.weight, x, best, strict=True))
    b = sum(w * (p - q) ** 2 for w, p, q in zip(table.label_weight, t, goal, strict=True))
    d = sum(w * one**2 for w, one in zip(table.label_weight, shift, strict=True))
    product = sum(w * one * (p - q) for w, one, p, q in zip(table.label_weight, shift, t, goal, strict=True))
    return a, b, d, product


@pytest.mark.parametrize("seed", SEEDS)
def test_t8_counts_are_as_near_as_the_shift_is_small(seed):
    random, table, totals = random_small(seed)
    a, b, d, mixed = distance(table, totals, [number(random) for _ in table.labels])
    assert a + b <= mixed
    assert mixed**2 <= d * b
    assert a <= d / 4


def test_t8_fails_with_a_smaller_constant():
    """A quarter is attained: a root, a label of one pair of columns with twice the sum of the weights that it moves."""
    table = Small(1, [Fraction(1)] * 3, [Fraction(4)] * 3, [(0, [0, 1])], [Fraction(3, 2)], [Fraction(8)])
    a, _, d, _ = distance(table, [Fraction(12)], [Fraction(1)])
    assert d / 5 < a <= d / 4


def answered(table, face, forces):
    """P forces: the moves of the entries of a face that keep all sums, by one linear system."""
    rows = [[row[e] for e in face] for row in table.sum_rows]
    kept = []
    for row in rows:
        trial = [*kept, row]
        gram = [[Fraction(sum(a * b for a, b in zip(p, q, strict=True))) for q in trial] for p in trial]
        if solved(gram, [Fraction(0)] * len(trial)) is not None:
            kept.append(row)
    size = len(face) + len(kept)
    matrix = [[Fraction(0)] * size for _ in range(size)]
    for i, e in enumerate(face):
        matrix[i][i] = table.weight[e]
        for k, row in enumerate(kept):
            matrix[i][len(face) + k] = matrix[len(face) + k][i] = Fraction(row[i])
    found = solved(matrix, [forces[e] for e in face] + [Fraction(0)] * len(kept))
    return dict(zip(face, found[: len(face)], strict=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_t9_the_gradient_falls_and_is_linear_on_a_face(seed):
    random, table, totals = random_small(seed)
    prices = [number(random) for _ in table.labels]
    for size in (1, Fraction(1, 10**6)):
        move = [size * number(random) or size for _ in prices]
        x, before = table.gradient(prices, totals)
        other, after = table.gradient([p + h for p, h in zip(prices, move, strict=True)], totals)
        change = [b - a for a, b in zip(before, after, strict=True)]
        assert sum(h * one for h, one in zip(move, change, strict=True)) < 0
        face = [e for e in range(table.n) if x[e] > 0]
        if face == [e for e in range(table.n) if other[e] > 0] and face:
            step = answered(table, face, table.forces(move))
            answer = [step.get(e, Fraction(0)) for e in range(table.n)]
            sums = table.sums(answer, table.label_rows)
            wanted = [-(h / w + s) for h, w, s in zip(move, table.label_weight, sums, strict=True)]
            assert change == wanted


def test_t9_fails_across_faces():
    """Where an entry reaches zero in between, the change of the gradient is not the one of the first face."""
    table = Small(1, [Fraction(1)] * 3, [Fraction(1)] * 3, [(0, [0, 1])], [Fraction(1)], [Fraction(2)])
    totals, move = [Fraction(3)], [Fraction(100)]
    before, after = (table.gradient(one, totals)[1][0] for one in ([Fraction(0)], move))
    step = answered(table, [0, 1, 2], table.forces(move))
    assert after - before != -(move[0] + step[0] + step[1])
