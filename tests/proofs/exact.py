"""Slow oracles in whole numbers and fractions: determinants, vertices, flows, and quadratic programs."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import chain, combinations, product

from flint import fmpq, fmpq_mat, fmpz_mat

Matrix = list[list[int]]
Arc = tuple[int, int, int]
"""Tail, head and capacity."""


def is_totally_unimodular(matrix: Matrix, largest: int = 99) -> bool:
    """Whether every square submatrix, up to a size, has determinant -1, 0 or 1."""
    rows, columns = len(matrix), len(matrix[0])
    for size in range(1, min(rows, columns, largest) + 1):
        for chosen in combinations(matrix, size):
            useful = [j for j in range(columns) if any(row[j] for row in chosen)]
            for place in combinations(useful, size):
                if abs(int(fmpz_mat([[row[j] for j in place] for row in chosen]).det())) > 1:
                    return False
    return True


def rows_can_be_signed(matrix: Matrix) -> bool:
    """Ghouila-Houri's condition for all rows of this matrix: signs with which every column sums to -1, 0 or 1."""
    reached: set[tuple[int, ...]] = {()}
    signed = [
        [tuple(sign * entry for entry in row) for sign in ((1, -1) if i else (1,))]
        for i, row in enumerate(matrix)
    ]
    reached = {tuple([0] * len(matrix[0]))}
    left = [sum(abs(row[j]) for row in matrix) for j in range(len(matrix[0]))]
    for row, choices in zip(matrix, signed, strict=True):
        left = [rest - abs(entry) for rest, entry in zip(left, row, strict=True)]
        reached = {
            total
            for before in reached
            for choice in choices
            for total in [tuple(a + b for a, b in zip(before, choice, strict=True))]
            if all(abs(value) <= rest + 1 for value, rest in zip(total, left, strict=True))
        }
    return bool(reached)


def solved(matrix: Sequence[Sequence[Fraction]], right: Sequence[Fraction]) -> list[Fraction] | None:
    """The solution of a square system, or None where it is singular."""
    size = len(matrix)
    rows = fmpq_mat(size, size, [fmpq(*Fraction(x).as_integer_ratio()) for x in chain(*matrix)])
    try:
        found = rows.solve(fmpq_mat(size, 1, [fmpq(*Fraction(x).as_integer_ratio()) for x in right]))
    except ZeroDivisionError:
        return None
    return [Fraction(int(found[i, 0].p), int(found[i, 0].q)) for i in range(size)]


def vertices(rows: Matrix, bounds: list[tuple[int, int]]) -> Iterator[tuple[Fraction, ...]]:
    """All vertices of the polytope low <= row . y <= high, for every row; rows must bound every direction."""
    n, seen = len(rows[0]), set()
    for chosen in combinations(range(len(rows)), n):
        matrix = [[Fraction(x) for x in rows[i]] for i in chosen]
        if int(fmpz_mat([rows[i] for i in chosen]).det()) == 0:
            continue
        for ends in product(*({*bounds[i]} for i in chosen)):
            point = solved(matrix, [Fraction(end) for end in ends])
            inside = point is not None and all(
                low <= sum(a * y for a, y in zip(row, point, strict=True)) <= high
                for row, (low, high) in zip(rows, bounds, strict=True)
            )
            if point is not None and inside and tuple(point) not in seen:
                seen.add(tuple(point))
                yield tuple(point)


def all_flows(arcs: Sequence[Arc], supply: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every whole flow of a small network, by trying all."""
    for flow in product(*(range(capacity + 1) for _, _, capacity in arcs)):
        left = list(supply)
        for (tail, head, _), amount in zip(arcs, flow, strict=True):
            left[tail] -= amount
            left[head] += amount
        if not any(left):
            yield flow


def least_squares(
    objective: list[tuple[Fraction, list[int], Fraction]], sums: list[tuple[list[int], Fraction]], n: int
) -> list[Fraction]:
    """The x >= 0 with given sums that minimises the sum of weight * (row . x - target)^2 / 2, in fractions.

    Every choice of the entries that are zero is tried: the one whose solution meets all conditions of Karush, Kuhn and
    Tucker is the optimum. The objective must be strictly convex.
    """
    gradient = [[Fraction(0)] * n for _ in range(n)]
    constant = [Fraction(0)] * n
    for weight, row, target in objective:
        for i in range(n):
            constant[i] += weight * row[i] * target
            for j in range(n):
                gradient[i][j] += weight * row[i] * row[j]
    for above in chain.from_iterable(combinations(range(n), size) for size in range(n, -1, -1)):
        chosen = _independent([[row[i] for i in above] for row, _ in sums])
        if any(total != 0 and not any(row[i] for i in above) for row, total in sums):
            continue
        size, n_sums = len(above), len(chosen)
        matrix = [
            [gradient[i][j] for j in above] + [Fraction(sums[k][0][i]) for k in chosen] for i in above
        ] + [[Fraction(sums[k][0][j]) for j in above] + [Fraction(0)] * n_sums for k in chosen]
        found = solved(matrix, [constant[i] for i in above] + [sums[k][1] for k in chosen]) if matrix else []
        if found is None:
            continue
        x = [Fraction(0)] * n
        for i, value in zip(above, found[:size], strict=True):
            x[i] = value
        if min(x) < 0 or any(sum(a * b for a, b in zip(row, x, strict=True)) != t for row, t in sums):
            continue
        if _has_prices(gradient, constant, sums, x):
            return x
    raise AssertionError("the program has no solution")


def _independent(rows: Matrix) -> list[int]:
    chosen: list[int] = []
    for i, row in enumerate(rows):
        if row and fmpz_mat([*[rows[k] for k in chosen], row]).rank() > len(chosen):
            chosen.append(i)
    return chosen


def _has_prices(
    gradient: list[list[Fraction]],
    constant: list[Fraction],
    sums: list[tuple[list[int], Fraction]],
    x: list[Fraction],
) -> bool:
    """Whether no direction that keeps all sums and no zero entry below zero goes down: a check by its rays."""
    n = len(x)
    slope = [sum(a * b for a, b in zip(gradient[i], x, strict=True)) - constant[i] for i in range(n)]
    return all(
        sum(s * d for s, d in zip(slope, move, strict=True)) >= 0
        for move in _moves([row for row, _ in sums], n)
        if all(x[i] > 0 or move[i] >= 0 for i in range(n))
    )


_MOVES: dict[str, list[tuple[int, ...]]] = {}


def _moves(rows: Matrix, n: int) -> list[tuple[int, ...]]:
    """All moves with entries -1, 0 and 1 that keep the sums. For tables of fixed sums they include every cycle."""
    key = repr((rows, n))
    if key not in _MOVES:
        _MOVES[key] = [
            move
            for move in product((-1, 0, 1), repeat=n)
            if any(move) and not any(sum(a * b for a, b in zip(row, move, strict=True)) for row in rows)
        ]
    return _MOVES[key]


def least_of(choices: Iterator[tuple[int, ...]], key: Callable[[tuple[int, ...]], tuple[int, ...]]) -> set:
    """All choices with the least key."""
    found = [(key(one), one) for one in choices]
    least = min(value for value, _ in found)
    return {one for value, one in found if value == least}
