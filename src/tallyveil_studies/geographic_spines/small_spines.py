"""What can be seen on small spines: Figures 1 and 2, a tract's fan-out, variances of laws, and Theorem 2.

A small spine has a share for every geounit, so that a geounit's share can be given to its children. Noise has
the paper's units: the Laplace law has scale 1 / share, the Gaussian law has variance 1 / share. Each geounit
measures one answer, its total.

Theorem 2 is tried at its boundary, with its converse and its remarks, and without its condition on query
strategies. Remark 1 is about a parent and its children alone. Remark 2 is about the fan-out of a hierarchy of
intervals with equal shares of the budget, under Laplace noise.

Section 3.1 says how much smaller the variance of the discrete laws is than that of the continuous ones.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.linalg import eigh

from tallyveil.accounting.guarantee import pure_parameters, zcdp_parameters
from tallyveil.arrays import Floats
from tallyveil.budget.spine.variance import spine_variances
from tallyveil.budget.strategy import Mechanism
from tallyveil.geography.build import spine_from_columns, spine_from_prefixes
from tallyveil.geography.entities import EntityFamily, off_spine_distances
from tallyveil.geography.spine import Spine
from tallyveil.geography.steps import FanOutLimit, branch_spine, group_by_membership
from tallyveil.geography.tables import entities_from_columns
from tallyveil.noise import DiscreteGaussian, DiscreteLaplace
from tallyveil.noise.balls import certified_float, precision, rational
from tallyveil.report.drawing import Drawing, Line, LinePanel, LinePlot, Role
from tallyveil.schema.attribute import Attribute
from tallyveil.schema.schema import Schema
from tallyveil_studies.exhibit import Findings, StudyInputs, beside_ours

_SQUARES: Final = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(3), Fraction(4))
"""Variance parameters sigma squared of the Gaussian law, of section 3.1 and around it."""

_SCALES: Final = (Fraction(1, 2), Fraction(1), Fraction(2), Fraction(10), Fraction(100))
"""Scales of the Laplace law, from small ones to where the saving is constant."""

_RELATIVE_ERROR: Final = 2.0**-46  # that of a certified variance is below 2**-47
_BITS: Final = 128


def discrete_variances(_: StudyInputs) -> Findings:
    """The decrease of the variance, certified from both sides."""
    decreases = {square: decrease(square) for square in _SQUARES}
    gaussian = [
        {"law": "Gaussian", "parameter": float(square), "continuous": float(square), "decrease": saved}
        for square, saved in decreases.items()
    ]
    laplace = [_laplace(scale) for scale in _SCALES]
    ours = {
        # Rounded up, because the paper states upper bounds.
        f"sigma squared {square}": math.nextafter(saved * (1 + _RELATIVE_ERROR), math.inf)
        for square, saved in decreases.items()
    }
    return Findings(
        tables={"variances": pl.DataFrame([*gaussian, *laplace])},
        comparisons=beside_ours("geographic_spines", "variance-decrease", ours, "decrease"),
        notes=(
            "The parameter is sigma squared of the Gaussian law and the scale b of the Laplace law.",
            "The paper names the Gaussian law alone. The Laplace law saves close to 1/6 at every large scale.",
        ),
    )


def decrease(square: Fraction) -> float:
    """sigma squared minus the variance of the discrete Gaussian law, with relative error below 2**-47."""
    with precision(_BITS):
        # In balls of 128 bits: the difference of nearly equal numbers would vanish in floats.
        return certified_float(rational(square) - DiscreteGaussian(square).variance_ball(_BITS))


def _laplace(scale: Fraction) -> dict[str, str | float]:
    continuous = 2 * float(scale) ** 2
    saved = continuous - DiscreteLaplace(scale).variance_float()
    return {"law": "Laplace", "parameter": float(scale), "continuous": continuous, "decrease": saved}


Shares: TypeAlias = tuple[Floats, ...]
"""Share of every geounit, one array for each geolevel, root first. A geounit with share 0 is not measured."""

ROUNDING = 1e-11
"""A relative growth of at most this size is rounding of floating-point numbers."""


def whole_budget_parameters(mechanism: Mechanism, shares: int = 1) -> dict[str, float | None]:
    """Privacy parameters of noise for one record added or removed, whatever geounits are bypassed.

    Args:
        mechanism: A share of 1 costs epsilon 1 with the Laplace law, and rho 1/2 with the Gaussian law.
        shares: What the shares sum to on every path.
    """
    gaussian = mechanism is Mechanism.DISCRETE_GAUSSIAN
    return (zcdp_parameters(Fraction(shares, 2)) if gaussian else pure_parameters(float(shares))).to_mapping()


def incidence(spine: Spine) -> NDArray[np.int64]:
    """The matrix A: a row for each geounit, coarsest geolevel first; a column for each block; 1 if the row contains it.

    Source: Cumings-Menon et al. 2023, equation 11.
    """
    levels = (
        spine.ancestors(level) == np.arange(spine.n_geounits(level))[:, None]
        for level in range(spine.n_levels)
    )
    return np.concatenate(list(levels)).astype(np.int64)


def spine_of_paths(paths: Iterable[Sequence[int]]) -> Spine:
    """A spine from the numbers of the geounits on the path to each block, without the root."""
    listed = list(paths)
    depth = len(listed[0])
    names = [f"level {level}" for level in range(depth + 1)]
    # Codes that begin with the parent's, so that each geolevel refines the one above.
    columns = {
        name: ["/".join(f"{number:03}" for number in (0, *path)[: level + 1]) for path in listed]
        for level, name in enumerate(names)
    }
    return spine_from_columns(columns, names)


def balanced(*fan_outs: int) -> Spine:
    """A spine with one root, in which every geounit of a geolevel has the same number of children."""
    return spine_of_paths(map(tuple, np.ndindex(*fan_outs)))


def shares_by_level(spine: Spine, shares: Sequence[float]) -> Shares:
    """The same share for every geounit of a geolevel."""
    return tuple(np.full(spine.n_geounits(level), float(share)) for level, share in enumerate(shares))


def given_to_children(spine: Spine, shares: Shares, level: int, geounits: Sequence[int]) -> Shares:
    """Shares after each of these geounits of one geolevel has given its own share to each of its children."""
    after = [share.copy() for share in shares]
    offsets = spine.child_offsets[level]
    for geounit in geounits:
        after[level + 1][offsets[geounit] : offsets[geounit + 1]] += after[level][geounit]
        after[level][geounit] = 0.0
    return tuple(after)


def precisions(shares: Shares, mechanism: Mechanism) -> Shares:
    """1 / variance of every geounit's own measurement."""
    if mechanism is Mechanism.DISCRETE_GAUSSIAN:
        return tuple(share.copy() for share in shares)
    # The variance of the Laplace law of scale b is 2 b**2.
    return tuple(share**2 / 2 for share in shares)


def variances(spine: Spine, shares: Shares, mechanism: Mechanism) -> Shares:
    """Variance of every geounit's total by weighted least squares with all measurements."""
    return spine_variances(spine, precisions(shares, mechanism)).variance


def growth(before: Shares, after: Shares) -> float:
    """Greatest relative growth of a geounit's variance; below 0 if every variance falls."""
    return max(float((new / old).max()) for old, new in zip(before, after, strict=True)) - 1


def growth_of_queries(spine: Spine, before: Shares, after: Shares, mechanism: Mechanism) -> float:
    """Greatest relative growth of the variance of any linear query of the blocks' counts."""
    matrix = incidence(spine)
    first, second = (
        matrix.T @ (np.concatenate(precisions(shares, mechanism))[:, None] * matrix)
        for shares in (before, after)
    )
    # The variance of query q is q' inv(second) q afterwards. Its greatest ratio is an eigenvalue of the pair.
    return float(eigh(first, second, eigvals_only=True)[-1]) - 1


_PAPER: Final = "geographic_spines"
_GEOLEVELS: Final = ("US", "State", "County", "Tract", "Block_Group", "Block")
_QUERIES: Final = (
    ("total", Role.REDUCED),
    ("row", Role.PUBLISHED),
    ("column", Role.PRINTED),
    ("detailed", Role.OTHER),
)
_TRACT: Final = 100
"""Blocks of the tract in the example of section 4: 100, whose square root is the least greatest fan-out."""


def aian_spine(_: StudyInputs) -> Findings:
    """Figure 1 on two made-up states, one of which has two tribal areas that cross its counties and tracts."""
    plain, family = _two_states()
    branched = branch_spine(plain, family.inside(), "State", "AIAN")
    moved = family.reordered(branched.rows)
    distances = [
        {
            "spine": name,
            **{
                "tribal areas together": _together(spine, areas),
                **dict(zip(areas.codes, off_spine_distances(spine, areas).distance.tolist(), strict=True)),
            },
        }
        for name, spine, areas in (("census spine", plain, family), ("AIAN spine", branched.spine, moved))
    ]
    together = {"tribal areas of the state together": distances[1]["tribal areas together"]}
    return Findings(
        tables={"figure-1": _geounits(plain, branched.spine), "figure-1-distances": pl.DataFrame(distances)},
        comparisons=beside_ours(_PAPER, "distance", together, "off-spine distance"),
        drawings={"figure-1": _tree_drawing(branched.spine)},
        notes=("The figure has no numbers. The states, with two counties each, are made up.",),
    )


def workload_matrix(_: StudyInputs) -> Findings:
    """Figure 2: B tensor W for one geounit with two children and a histogram of two by two cells."""
    matrix, names = _workload()
    rows = [
        {
            "geounit": geounit,
            "query": query,
            **{f"x{cell + 1}": int(value) for cell, value in enumerate(values)},
        }
        for (geounit, query), values in zip(names, matrix, strict=True)
    ]
    shape = {"rows": float(matrix.shape[0]), "columns": float(matrix.shape[1])}
    return Findings(
        tables={"figure-2": pl.DataFrame(rows)},
        comparisons=beside_ours(_PAPER, "figure-2", shape, "size of the matrix"),
        drawings={"figure-2": _matrix_drawing(matrix, [query for _, query in names])},
        notes=("Cells x1 to x4 belong to the first block, x5 to x8 to the second.",),
    )


def fan_out(_: StudyInputs) -> Findings:
    """A tract of 100 blocks: the greatest fan-out by the number of groups, and the groups that the step makes."""
    rows = [
        # The tract has as many children as groups, and the largest group as many as the rounded-up quotient.
        {"groups": groups, "greatest fan-out": max(groups, -(-_TRACT // groups))}
        for groups in range(1, _TRACT + 1)
    ]
    tract = spine_from_prefixes([f"{block:03}" for block in range(_TRACT)], ("Tract", "Block"), (0, 3))
    # One entity with all blocks, so that membership does not divide the tract.
    everywhere = entities_from_columns(
        tract, {"geocode": tract.geocodes[-1].tolist(), "place": ["p"] * _TRACT}, ["place"]
    )
    grouped = group_by_membership(
        tract, everywhere, geolevel="Block_Group", children="Block", limit=FanOutLimit(0)
    )
    ours = {
        "least greatest fan-out": min(row["greatest fan-out"] for row in rows),
        "groups of the tract": grouped.spine.n_geounits(1),
    }
    return Findings({"fan-out": pl.DataFrame(rows)}, beside_ours(_PAPER, "fan-out", ours, "section 4"))


def _two_states() -> tuple[Spine, EntityFamily]:
    """Two states of two counties of two tracts of two block groups of two blocks; tribal areas lie in the second."""
    # Each digit is a geolevel below the US: geocodes by prefix.
    codes = ["".join(map(str, path)) for path in np.ndindex(2, 2, 2, 2, 2)]
    spine = spine_from_prefixes(codes, _GEOLEVELS, (0, 1, 2, 3, 4, 5))
    areas = {"10010": "West", "10011": "West", "10100": "West"}
    # Crosses a county and a tract on purpose: such areas are why there is an AIAN branch.
    areas |= {code: "East" for code in codes if "10111" <= code <= "11001"}
    table = {"geocode": pl.Series(codes), "tribal_area": pl.Series(map(areas.get, codes), dtype=pl.String)}
    return spine, entities_from_columns(spine, table, ["tribal_area"])[0]


def _together(spine: Spine, family: EntityFamily) -> int:
    """Off-spine distance of the union of all entities."""
    # The union of disjoint areas is one area with all their blocks.
    members = np.flatnonzero(family.inside()).astype(np.int64)
    union = EntityFamily(
        family.name, ("all",), np.array([0, len(members)], dtype=np.int64), members, family.n_finest
    )
    return int(off_spine_distances(spine, union).distance[0])


def _geounits(plain: Spine, branched: Spine) -> pl.DataFrame:
    """Number of geounits of each geolevel: on the census spine, and in both branches of the AIAN spine."""
    return pl.DataFrame(
        [
            {
                "geolevel": name,
                "census spine": plain.n_geounits(level),
                "AIAN branch": sum(_in_branch(code) for code in _branch_codes(branched, level)),
                "outside": sum(not _in_branch(code) for code in _branch_codes(branched, level)),
            }
            for level, name in enumerate(branched.geolevels)
        ]
    )


def _branch_codes(spine: Spine, level: int) -> list[str]:
    """Geocode of the state-level geounit that contains each geounit; for the root, its own."""
    # The branch is made at the State, so a geounit's branch is told by its geounit there.
    owner = spine.ancestors(min(level, 1))[spine.finest_offsets(level)[:-1]]
    return [str(spine.geocodes[min(level, 1)][geounit]) for geounit in owner]


def _in_branch(code: str) -> bool:
    return code.endswith("+AIAN")


def _tree_drawing(spine: Spine) -> Drawing:
    """The tree, with the geolevels from the root down."""
    places = [
        (offsets[:-1] + offsets[1:] - 1) / 2 for offsets in map(spine.finest_offsets, range(spine.n_levels))
    ]
    lines = []
    for level in range(1, spine.n_levels):
        for geounit, (parent, code) in enumerate(
            zip(spine.parents(level).tolist(), _branch_codes(spine, level), strict=True)
        ):
            label, role = ("AIAN branch", Role.PUBLISHED) if _in_branch(code) else ("outside", Role.OURS)
            x = (float(places[level - 1][parent]), float(places[level][geounit]))
            lines.append(Line(label, role, x, (1.0 - level, -float(level))))
    # The geolevel's name at its height.
    marks = tuple((-float(level), name.replace("_", " ")) for level, name in enumerate(spine.geolevels))
    return LinePlot((LinePanel("", tuple(lines), marks),), 1, "blocks", "")


def _workload() -> tuple[np.ndarray[tuple[int, int], np.dtype[np.int64]], list[tuple[str, str]]]:
    """The matrix, and the geounit and the query group of each row."""
    cells = Schema("figure-2", (Attribute("row", ("r1", "r2")), Attribute("column", ("c1", "c2"))))
    # "detailed" is the product of both attributes.
    groups = [(name, cells.query("row*column" if name == "detailed" else name)) for name, _ in _QUERIES]
    answers = np.concatenate([group.apply_dense(np.eye(4, dtype=np.int64)).T for _, group in groups])
    queries = [name for name, group in groups for _ in range(group.size)]
    spine = incidence(balanced(2))
    names = [(geounit, query) for geounit in ("US", "block 1", "block 2") for query in queries]
    # B tensor W: every query at every geounit.
    return np.kron(spine, answers), names


def _matrix_drawing(matrix: np.ndarray[tuple[int, int], np.dtype[np.int64]], queries: list[str]) -> Drawing:
    """A line for every 1 of the matrix, first row on top."""
    roles = dict(_QUERIES)
    lines = tuple(
        Line(queries[row], roles[queries[row]], (float(column), column + 0.9), (-float(row), -float(row)))
        for row, column in zip(*(places.tolist() for places in np.nonzero(matrix)), strict=True)
    )
    return LinePlot((LinePanel("", lines),), 1, "cells of both blocks", "rows, first on top")


_THEOREM_PAPER: Final = "geographic_spines"
_CHILDREN: Final = (1, 2, 3, 4, 5, 10)
"""Numbers of children at which the boundary (c - 1) / 2 is found."""

_BLOCKS: Final = ((1, 1, 1), (4, 4, 4), (1, 4, 4), (1, 20, 20), (1, 1, 20))
"""Blocks of the three children of a parent, equal and unequal, for the converse."""

_CELLS: Final = 4
"""Cells of a geounit where the query strategies differ. Two would do; more make the difference larger."""

LAPLACE: Final = Mechanism.DISCRETE_LAPLACE
GAUSSIAN: Final = Mechanism.DISCRETE_GAUSSIAN


def boundary(_: StudyInputs) -> Findings:
    """The least share of the children at which nothing grows, found by bisection, beside (c - 1) / 2."""
    rows = [_boundary_row(children) for children in _CHILDREN]
    ours = {_children(n): row["least ratio"] for n, row in zip(_CHILDREN, rows, strict=True)}
    # The largest number of children that may be bypassed at equal shares: 3, by the theorem.
    equal = max(n for n in range(1, 20) if _change(_alike(n), LAPLACE, 1.0) <= ROUNDING)
    return Findings(
        tables={
            "theorem-2": pl.DataFrame(rows),
            "theorem-2-unequal-subtrees": pl.DataFrame([_converse_row(blocks) for blocks in _BLOCKS]),
            "theorem-2-query-strategies": pl.DataFrame(_strategy_rows()),
        },
        comparisons=(
            *beside_ours(_THEOREM_PAPER, "boundary", ours, "least share of a child / share of its parent"),
            *beside_ours(
                _THEOREM_PAPER, "equal-shares", {"most children": equal}, "bypassed at equal shares"
            ),
        ),
        notes=(
            "A parent in a spine of four geolevels gives its share to its children. Growth is the greatest relative "
            "growth of the variance of a geounit's total.",
            "Where all children have the same descendants, the condition is also necessary. Where they differ, it is "
            "necessary for linear queries in general, but the totals of all geounits can fall on both sides of it.",
            "The theorem supposes the same query strategy at every geolevel. Where the parent measures the total and "
            "its only child measures cells, bypassing makes some answer worse with either law.",
        ),
    )


def remark_1(_: StudyInputs) -> Findings:
    """A parent and its children alone: the variance of the parent's total with and without its own measurement."""
    ours: dict[str, float] = {}
    for children in (2, 3, 4):
        spine = balanced(children)
        whole = shares_by_level(spine, (1, 1))
        for name, shares in (("kept", whole), ("bypassed", given_to_children(spine, whole, 0, [0]))):
            variance_of_parent = variances(spine, shares, LAPLACE)[0][0]
            ours[f"{_children(children)}, parent {name}"] = float(variance_of_parent)
    cost = whole_budget_parameters(LAPLACE, shares=2)
    frame = pl.DataFrame([{"case": case, "variance": variance, **cost} for case, variance in ours.items()])
    return Findings(
        {"remark-1": frame},
        beside_ours(_THEOREM_PAPER, "remark-1", ours, "variance of the parent"),
        notes=("Shares sum to 2 on every path, so the parent kept and bypassed cost the same.",),
    )


def least_ratio(grows: Callable[[float], float], upper: float) -> float:
    """The least ratio at which nothing grows, by bisection between 0 and `upper`, where nothing grows."""
    low, high = 0.0, upper
    if grows(low) <= ROUNDING:
        return low
    # 60 halvings: below the rounding of a double from any start.
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if grows(middle) <= ROUNDING else (middle, high)
    return high


def _children(number: int) -> str:
    return "1 child" if number == 1 else f"{number} children"


def _alike(children: int) -> Spine:
    return balanced(2, children, 2)


def _change(spine: Spine, mechanism: Mechanism, ratio: float) -> float:
    """Greatest growth of a geounit's variance if the first geounit below the root gives its share away."""
    before = shares_by_level(spine, (1, 1, ratio, 1))
    after = given_to_children(spine, before, 1, [0])
    return growth(variances(spine, before, mechanism), variances(spine, after, mechanism))


def _change_of_queries(spine: Spine, ratio: float) -> float:
    before = shares_by_level(spine, (1, 1, ratio, 1))
    return growth_of_queries(spine, before, given_to_children(spine, before, 1, [0]), LAPLACE)


def _boundary_row(children: int) -> dict[str, float | int]:
    spine, wanted = _alike(children), (children - 1) / 2
    return {
        "children": children,
        "(c - 1) / 2": wanted,
        "least ratio": least_ratio(lambda ratio: _change(spine, LAPLACE, ratio), wanted + 1),
        "growth 1 % below": _change(spine, LAPLACE, 0.99 * wanted),
        "growth at the boundary": _change(spine, LAPLACE, wanted),
        "growth 1 % above": _change(spine, LAPLACE, 1.01 * wanted),
        "growth at equal shares": _change(spine, LAPLACE, 1.0),
        "growth at equal shares, Gaussian": _change(spine, GAUSSIAN, 1.0),
    }


def _converse_row(blocks: tuple[int, ...]) -> dict[str, object]:
    """A parent whose children have different numbers of blocks, beside a second parent with one child."""
    paths = [(0, child, block) for child, number in enumerate(blocks) for block in range(number)]
    spine = spine_of_paths([*paths, (1, 0, 0)])
    wanted = (len(blocks) - 1) / 2
    return {
        "blocks of the children": " ".join(map(str, blocks)),
        "(c - 1) / 2": wanted,
        "least ratio, totals of geounits": least_ratio(lambda r: _change(spine, LAPLACE, r), wanted + 1),
        "least ratio, all linear queries": least_ratio(lambda r: _change_of_queries(spine, r), wanted + 1),
        "growth at equal shares, Gaussian": _change(spine, GAUSSIAN, 1.0),
    }


def _strategy_rows() -> list[dict[str, object]]:
    """An area that is measured twice, as a parent and as its only child, by different queries."""
    total, cells = np.ones((1, _CELLS)), np.eye(_CELLS)
    rows: list[dict[str, object]] = []
    for law, power, mechanism in (("Laplace", 2, LAPLACE), ("Gaussian", 1, GAUSSIAN)):
        for name, above, below in (
            ("shares of 1 and 1", 1.0, 1.0),
            ("bypassed, measured by the child's queries", 0.0, 2.0),
            ("bypassed, measured by the parent's queries", 2.0, 0.0),
        ):
            # Precision is share**2 / 2 with Laplace noise and share with Gaussian noise; the constant is left
            # out.
            information = above**power * total.T @ total + below**power * cells.T @ cells
            cost = whole_budget_parameters(mechanism, shares=2)
            rows.append({"law": law, "case": name, **_total_and_cell(information), **cost})
    return rows


def _total_and_cell(information: Floats) -> dict[str, float]:
    """Variance of the total and of a cell, times a constant; infinite where they are not determined."""
    ones = np.ones(_CELLS)
    if np.linalg.matrix_rank(information) < _CELLS:
        return {"total": float(_CELLS**2 / (ones @ information @ ones)), "cell": float("inf")}
    inverse = np.linalg.inv(information)
    return {"total": float(ones @ inverse @ ones), "cell": float(inverse[0, 0])}


_TREES = ((2, 6), (3, 4))
"""Fan-out and depth of the trees that are bypassed: 64 intervals by halving, 81 by division into three."""


def more_sub_intervals(_: StudyInputs) -> Findings:
    """Trees of two and of three sub-intervals, every second level of them bypassed, and trees with larger fan-outs."""
    rows: list[dict[str, object]] = []
    for fan_out, depth in _TREES:
        fine = balanced(*[fan_out] * depth)
        shares = shares_by_level(fine, [1 / (depth + 1)] * (depth + 1))
        start = _covariance(fine, shares)
        rows.append(_row(f"{fan_out} sub-intervals", fan_out**depth, start, start))
        merged = shares
        # Every second level above the leaves; the root stays.
        for level in range(depth - 1, 0, -2):
            merged = given_to_children(fine, merged, level, range(fine.n_geounits(level)))
        rows.append(_row("every second level bypassed", fan_out**depth, start, _covariance(fine, merged)))
        for larger in (2, 3, 4, 6):
            if depth % larger == 0:
                coarse = balanced(*[fan_out**larger] * (depth // larger))
                equal = shares_by_level(coarse, [1 / coarse.n_levels] * coarse.n_levels)
                name = f"{fan_out**larger} sub-intervals, equal shares"
                rows.append(_row(name, fan_out**depth, start, _covariance(coarse, equal)))
    return Findings(
        {"remark-2": pl.DataFrame(rows)},
        notes=(
            "Shares sum to one on every path. Ratios are those of an arbitrary linear query of the intervals, before "
            "and after; the mean is over all ranges of neighbouring intervals.",
            "Bypassing every second level makes no query worse, as the remark says. Trees that divide the budget "
            "equally again over fewer levels are another matter: of these, the ratios tell.",
            "All trees cost epsilon 1 for one record added or removed.",
        ),
    )


def _row(name: str, intervals: int, start: Floats, after: Floats) -> dict[str, object]:
    # Ratios of the variances of any linear query are generalised eigenvalues of the two covariances.
    ratios = np.linalg.eigvals(np.linalg.solve(start, after)).real
    return {
        "intervals": intervals,
        "tree": name,
        "mean variance of ranges": _mean_of_ranges(after),
        "least ratio of a query": float(ratios.min()),
        "greatest ratio of a query": float(ratios.max()),
        **whole_budget_parameters(Mechanism.DISCRETE_LAPLACE),
    }


def _covariance(spine: Spine, shares: Shares) -> Floats:
    """Covariance of the finest counts by weighted least squares."""
    matrix = incidence(spine)
    weights = np.concatenate(precisions(shares, Mechanism.DISCRETE_LAPLACE))
    return np.asarray(np.linalg.inv(matrix.T @ (weights[:, None] * matrix)), dtype=np.float64)


def _mean_of_ranges(covariance: Floats) -> float:
    """Mean variance of the sums of all ranges of neighbouring counts."""
    n = len(covariance)
    corner = np.zeros((n + 1, n + 1))
    # Sums over a range are differences of corners, so all ranges take O(n^2) together.
    corner[1:, 1:] = covariance.cumsum(axis=0).cumsum(axis=1)
    start, stop = np.triu_indices(n + 1, 1)
    summed = corner[stop, stop] - corner[start, stop] - corner[stop, start] + corner[start, start]
    return float(summed.mean())
