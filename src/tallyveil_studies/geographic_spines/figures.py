"""Figures 1 and 2, and the example of section 4 about the fan-out of a tract."""

from typing import Final

import numpy as np
import polars as pl

from tallyveil.geography import (
    EntityFamily,
    FanOutLimit,
    Spine,
    entities_from_columns,
    off_spine_distances,
    spine_from_prefixes,
)
from tallyveil.geography.steps import branch_spine, group_by_membership
from tallyveil.report.drawing import Drawing, Line, LinePanel, LinePlot, Role
from tallyveil.schema import Attribute, Schema
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.geographic_spines.trees import balanced, incidence
from tallyveil_studies.printed import beside_ours

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
