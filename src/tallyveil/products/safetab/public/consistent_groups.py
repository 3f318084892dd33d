"""The groups of published tables, each once, and the rules that true counts keep.

A rule says that a sum of cells is equal to a number, or at most a number:

- *The nation is the sum of its states*, for every iteration that the nation and all states publish: as totals, and in
  the cells of the finest table that all of them have. Where only some states have a finer table, its cells add up to
  at most those of the nation.
- *A group is at most a group that contains it*: an iteration alone at most the same iteration in combination, a
  detailed iteration at most a regional one that has all its codes. This holds for totals, and for the cells of the
  finest table that both groups have.
- *A total that is published elsewhere is that number.*

The total of a group with a table is the sum of its cells, so all rules are about cells. Regions with the same blocks
whose numbers come from one measurement are one group.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from scipy import sparse

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.errors import ConfigError, SchemaError
from tallyveil.products.safetab.public.ages import DETAILS
from tallyveil.products.safetab.public.files import (
    CODE_TO_ITERATION,
    ETHNICITY_ITERATIONS,
    RACE_ITERATIONS,
    read_file,
    some,
)
from tallyveil.products.safetab.public.plan import LADDER
from tallyveil.products.safetab.public.regions import OWN, Regions, same_blocks
from tallyveil.products.safetab.public.tables import ANY

REGION: Final = ["REGION_TYPE", "REGION_ID"]
GROUP: Final = [*REGION, "ITERATION_CODE"]
_MEASURED: Final = ["MEASURED_TYPE", "MEASURED_ID", "ITERATION_CODE"]

LADDER_CELLS: Final = (1, *(detail.n_cells for detail in DETAILS))
"""Cells of a group of detail 0, which is its total, and of details 1, 2 and 3."""

DETAIL_NUMBER: Final = pl.col("DETAIL").replace_strict(
    [*LADDER.names], [0, 1, 2, 3, 0], return_dtype=pl.Int64
)
"""The detail of a row of T1. A total-only group has one cell, as a group of detail 0."""


def cells_in(detail: int, coarser: int) -> Integers:
    """For each cell of a detail, 0 to 3, the cell of a detail at most as fine that contains it."""
    if not coarser:
        return np.zeros(LADDER_CELLS[detail], np.int64)
    return DETAILS[detail - 1].cells_in(DETAILS[coarser - 1])


def summed(into: Integers, values: Floats) -> Floats:
    """Sums of values: value n is part of sum `into[n]`."""
    return np.bincount(into, values).astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The groups of some tables. Cells are those of the finest table in which a group is published.

    Attributes:
        labels: REGION_TYPE, REGION_ID, ITERATION_CODE and `group`, the position of the group; a row for each region
            that publishes it.
        t1, t2: Group of each row of T1 and of T2; int64.
        detail: 0 for the total alone, 1 to 3 for a table; int64, shape (groups,).
        first: Position of the first cell of each group; int64, shape (groups + 1,).
        cells: Estimates of all cells, which add up to `total`; float64, shape (cells,).
        noise: Variance of the noise of each cell; float64, shape (cells,).
        total: Estimate of each total; float64, shape (groups,).
        variance: Its variance; float64, shape (groups,).
        known: The total that is published elsewhere, or NaN; float64, shape (groups,).
    """

    labels: pl.DataFrame
    t1: Integers
    t2: Integers
    detail: Integers
    first: Integers
    cells: Floats
    noise: Floats
    total: Floats
    variance: Floats
    known: Floats

    def sums(self, cells: Floats | Integers) -> Floats | Integers:
        """Totals of all groups from their cells."""
        return np.asarray(np.add.reduceat(cells, self.first[:-1]))

    def span(self, group: int) -> slice:
        """The cells of a group."""
        return slice(self.first[group], self.first[group + 1])

    def cells_at(self, detail: int) -> tuple[Integers, Integers]:
        """Tables that are at most as fine as a detail.

        Returns:
            The first cell of each group in them, shape (groups + 1,), and their cell that contains each cell.
        """
        coarser = np.minimum(self.detail, detail)
        first = np.concatenate([[0], np.cumsum(np.array(LADDER_CELLS)[coarser])])
        within = [cells_in(int(finest), int(into)) for finest, into in zip(self.detail, coarser, strict=True)]
        return first, np.concatenate([np.zeros(0, np.int64), *within]) + np.repeat(
            first[:-1], np.diff(self.first)
        )


def groups_of(t1: pl.DataFrame, t2: pl.DataFrame, regions: Regions, known: pl.DataFrame) -> Groups:
    """The groups of the tables of a run.

    Args:
        t1, t2: The tables with quality columns.
        regions: The geography of the run.
        known: Totals that are published elsewhere: REGION_TYPE, REGION_ID, ITERATION_CODE, COUNT. Those of groups that
            are not in T1 become groups without noise.
    Raises:
        ConfigError: regions with the same blocks have different totals there.
        SchemaError: the tables are of another geography.
    """
    _require_geography(t1, regions)
    rows = t1.select(*GROUP, "DETAIL", "SAME_AS", "ESTIMATE", "VARIANCE", "ESTIMATE_VARIANCE").with_row_index(
        "row"
    )
    rows = _with_measured(rows.with_columns(detail=DETAIL_NUMBER), regions)
    # The region that publishes the finest table stands for the others, and the measured region where there are several.
    order = rows.sort(*_MEASURED, -pl.col("detail"), pl.col("SAME_AS") != "", "row").unique(
        _MEASURED, keep="first", maintain_order=True
    )
    order = order.with_columns(group=pl.int_range(pl.len()))
    groups = rows.join(order.select(*_MEASURED, "group"), on=_MEASURED, how="left", maintain_order="left")
    keys = groups.select(*GROUP, "group")
    of_t2 = t2.select(GROUP).join(keys, on=GROUP, how="left", maintain_order="left")["group"]
    alone = order.filter(pl.col("detail") == 0).select("group", "VARIANCE", place=pl.lit(0), cell="ESTIMATE")
    tables = cell_places(t2).join(order.select(*GROUP, "group"), on=GROUP)
    tables = tables.filter(pl.col("place") >= 0).select("group", "VARIANCE", "place", cell="ESTIMATE")
    cells = pl.concat([alone, tables], how="vertical_relaxed").sort("group", "place")
    further = known.join(keys, on=GROUP, how="anti").with_columns(group=pl.int_range(pl.len()) + order.height)
    labels = pl.concat([keys, further.select(*GROUP, "group")])
    stated = known.join(labels, on=GROUP).unique(["group", "COUNT"])
    # Regions with the same blocks have the same people.
    if stated["group"].is_duplicated().any():
        raise published_contradiction()
    n = order.height + further.height
    count = further["COUNT"].to_numpy().astype(np.float64)
    totals = np.full(n, np.nan)
    totals[stated["group"].to_numpy()] = stated["COUNT"].to_numpy()
    sizes = np.concatenate(
        [np.array(LADDER_CELLS)[order["detail"].to_numpy()], np.ones(further.height, np.int64)]
    )
    first = np.concatenate([[0], np.cumsum(sizes)])
    total = np.concatenate([order["ESTIMATE"].to_numpy(), count])
    noise = np.concatenate([cells["VARIANCE"].to_numpy(), np.ones(further.height)])
    values = np.concatenate([cells["cell"].to_numpy(), count])
    # Cells that were raised to 0 do not add up to their total; without them this changes nothing.
    short = total - np.add.reduceat(values, first[:-1])
    values = values + np.repeat(short / np.add.reduceat(noise, first[:-1]), sizes) * noise
    return Groups(
        labels,
        groups["group"].to_numpy(),
        of_t2.to_numpy(),
        np.concatenate([order["detail"].to_numpy(), np.zeros(further.height, np.int64)]),
        first,
        values,
        noise,
        total,
        np.concatenate([order["ESTIMATE_VARIANCE"].to_numpy(), np.ones(further.height)]),
        totals,
    )


def published_contradiction() -> ConfigError:
    """What is wrong where totals that are published elsewhere contradict each other."""
    return ConfigError(
        "the totals of --published contradict each other: no counts agree with all of them, because a group would be "
        "larger than one that contains it, or states would not add up to their nation. Give totals of one publication.",
        code="safetab-published-contradiction",
    )


def region_names(regions: Regions) -> pl.DataFrame:
    """All regions of a run as tables name them: REGION_TYPE, REGION_ID."""
    return pl.concat(
        pl.DataFrame({"REGION_ID": regions.names(geography)}).select(
            pl.lit(geography).alias("REGION_TYPE"), "REGION_ID"
        )
        for geography in regions.ids
    )


def _require_geography(t1: pl.DataFrame, regions: Regions) -> None:
    """Refuse the regions of another year or country; raises SchemaError."""
    names = region_names(regions)
    lost = t1.join(names, on=REGION, how="anti")
    # A state without any row would silently leave its nation without a sum. Rows of states are never suppressed.
    if t1.filter(pl.col("REGION_TYPE") == "STATE").height:
        lost = pl.concat(
            [
                lost.select(REGION),
                names.filter(pl.col("REGION_TYPE") == "STATE").join(t1, on=REGION, how="anti"),
            ]
        )
    if lost.height:
        raise _other_geography(lost, "only one of both has")


def _other_geography(lost: pl.DataFrame, what: str) -> SchemaError:
    ids = lost.select(pl.concat_str(REGION, separator=" ").unique(maintain_order=True)).to_series().to_list()
    return SchemaError(
        f"the tables of the run are of another geography than GRF-C: {what} {some(ids)}. Name the folder with the "
        "GRF-C that the run was made with.",
        code="safetab-other-geography",
    )


def cell_places(t2: pl.DataFrame) -> pl.DataFrame:
    """T2 with `place`: the position of a cell in its table, or -2 and -1 for the rows of a whole sex."""
    whole = pl.col("AGESTART") == ANY
    # Both sexes have the same ages, and the cells of the first come first.
    cell = (
        pl.struct("SEX", pl.col("AGESTART").cast(pl.Int64, strict=False))
        .rank("ordinal")
        .over([*GROUP, whole])
    )
    sex = pl.col("SEX").cast(pl.Int64) - 3
    return t2.with_columns(place=pl.when(whole).then(sex).otherwise(cell.cast(pl.Int64) - 1))


def _with_measured(rows: pl.DataFrame, regions: Regions) -> pl.DataFrame:
    """The rows with the type and the id of the region whose measurement they publish."""
    pairs = rows.filter(pl.col("SAME_AS") != "").select("REGION_TYPE", "SAME_AS").unique().rows()
    taken = pl.DataFrame(schema=dict.fromkeys((*REGION, "SAME_AS", "TAKEN"), pl.String))
    for geography, measured in pairs:
        other = same_blocks(regions, geography, measured)
        twins = np.flatnonzero(other != OWN)
        names, others = regions.names(geography).gather(twins), regions.names(measured).gather(other[twins])
        taken = taken.vstack(
            pl.DataFrame({"REGION_ID": names, "TAKEN": others}).select(
                pl.lit(geography).alias("REGION_TYPE"),
                "REGION_ID",
                pl.lit(measured).alias("SAME_AS"),
                "TAKEN",
            )
        )
    joined = rows.join(taken, on=[*REGION, "SAME_AS"], how="left", maintain_order="left")
    # Otherwise one measurement would count as several.
    apart = joined.filter((pl.col("SAME_AS") != "") & pl.col("TAKEN").is_null())
    if apart.height:
        raise _other_geography(apart, "no measured region has the blocks of")
    return joined.with_columns(
        MEASURED_TYPE=pl.when(pl.col("TAKEN").is_null()).then("REGION_TYPE").otherwise("SAME_AS"),
        MEASURED_ID=pl.coalesce("TAKEN", "REGION_ID"),
    )


@dataclass(frozen=True, slots=True)
class IterationCodes:
    """An iteration of any level, 0 among them, and the codes that map to it.

    Attributes:
        kind: "True" for a race alone, "False" for a race in combination, "" for an ethnicity.
        codes: Its codes.
    """

    kind: str
    codes: frozenset[str]

    def contains(self, other: "IterationCodes") -> bool:
        """Whether everybody in another iteration is in this one.

        So it is where this one has all codes of the other, and both are alone, both in combination or both ethnicities,
        or only the other is alone.
        """
        return other.codes <= self.codes and (other.kind, self.kind) in {
            (self.kind, self.kind),
            ("True", "False"),
        }


def iteration_codes(params: Path) -> dict[str, IterationCodes]:
    """All iterations of a parameter folder whose lists were checked (`read_iterations`), by code."""
    _, race = read_file(params, RACE_ITERATIONS)
    _, ethnicity = read_file(params, ETHNICITY_ITERATIONS)
    _, mapping = read_file(params, CODE_TO_ITERATION)
    codes = mapping.group_by("ITERATION_CODE").agg("RACE_ETH_CODE")
    kinds = pl.concat(
        [race.select("ITERATION_CODE", "ALONE"), ethnicity.select("ITERATION_CODE", ALONE=pl.lit(""))]
    )
    return {
        iteration: IterationCodes(kind, frozenset(members))
        for iteration, kind, members in kinds.join(codes, on="ITERATION_CODE")
        .sort("ITERATION_CODE")
        .iter_rows()
    }


def contained_pairs(iterations: Mapping[str, IterationCodes]) -> pl.DataFrame:
    """Pairs of iterations of which one contains the other: INSIDE, OUTSIDE."""
    with_code: dict[str, list[str]] = {}
    for name, iteration in iterations.items():
        for code in iteration.codes:
            with_code.setdefault(code, []).append(name)
    pairs = [
        (inside, outside)
        for inside, iteration in iterations.items()
        # Only iterations with one of its codes can have all of them, so one code finds them.
        for outside in with_code[min(iteration.codes)]
        if inside != outside and iterations[outside].contains(iteration)
    ]
    return pl.DataFrame(pairs, schema={"INSIDE": pl.String, "OUTSIDE": pl.String}, orient="row")


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """Sums of cells and what they are compared with: each row of `matrix` times the cells is `right`, or at most it.

    Attributes:
        matrix: 1, -1 and 0; shape (rules, cells).
        right: Shape (rules,).
        equal: Whether the rule is an equation; shape (rules,).
    """

    matrix: sparse.csr_matrix
    right: Floats
    equal: Bools

    def excess(self, cells: Floats | Integers) -> Floats:
        """By how much each rule is broken; 0 or less where it is kept."""
        over = self.matrix @ cells - self.right
        return np.asarray(np.where(self.equal, np.abs(over), over))

    def taken(self, which: Bools | Integers) -> "Rules":
        """Some of the rules."""
        return Rules(self.matrix[which], self.right[which], self.equal[which])

    def with_sums(self, into: Integers, sums: Floats | Integers) -> "Rules":
        """These rules, and that cells add up to given sums: cell n is part of sum `into[n]`."""
        parts = sparse.csr_matrix((np.ones(len(into), np.int64), (into, np.arange(len(into)))))
        return Rules(
            sparse.vstack([self.matrix, parts]).tocsr(),
            np.concatenate([self.right, sums]),
            np.concatenate([self.equal, np.ones(len(sums), np.bool_)]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class NationSum:
    """A nation and all of its states in one iteration.

    Attributes:
        nation: Group of the nation.
        states: Groups of the states.
        detail: The finest detail that all of them have.
    """

    nation: int
    states: Integers
    detail: int


def nation_sums(groups: Groups, regions: Regions) -> list[NationSum]:
    """The iterations that the nation and all states publish, from more than one measurement."""
    wide = groups.labels.filter(pl.col("REGION_TYPE").is_in(["USA", "STATE"]))
    n_states = len(regions.ids.get("STATE", ()))
    sums = []
    for _, of_iteration in wide.sort(GROUP).group_by("ITERATION_CODE", maintain_order=True):
        nation = of_iteration.filter(pl.col("REGION_TYPE") == "USA")["group"].to_numpy()
        states = of_iteration.filter(pl.col("REGION_TYPE") == "STATE")["group"].to_numpy()
        # A nation with one state may be one measurement that is published twice.
        if len(nation) == 1 and len(states) == n_states and nation[0] not in states:
            detail = int(min(groups.detail[nation[0]], groups.detail[states].min()))
            sums.append(NationSum(int(nation[0]), states, detail))
    return sums


def contained_groups(groups: Groups, contained: pl.DataFrame) -> Integers:
    """Pairs of groups of one region of which the second contains the first; shape (pairs, 2).

    Args:
        groups: The groups.
        contained: Pairs of iterations, as `contained_pairs` gives them.
    """
    here, there = groups.labels, groups.labels.rename({"group": "other", "ITERATION_CODE": "OUTSIDE"})
    pairs = (
        here.join(contained, left_on="ITERATION_CODE", right_on="INSIDE")
        .join(there, on=[*REGION, "OUTSIDE"])
        .filter(pl.col("group") != pl.col("other"))
        .select("group", "other")
    )
    return pairs.unique().sort("group", "other").to_numpy()


def rules_of(groups: Groups, sums: Sequence[NationSum], pairs: Integers) -> list[Rules]:
    """The rules for tables of each detail, from 0 to the finest of the groups, in the cells of `Groups.cells_at`.

    Args:
        groups: The groups.
        sums: Nations and their states.
        pairs: Pairs of groups, as `contained_groups` gives them.
    """
    return [_rules_at(groups, detail, sums, pairs) for detail in range(int(groups.detail.max(initial=0)) + 1)]


def _rules_at(groups: Groups, detail: int, sums: Sequence[NationSum], pairs: Integers) -> Rules:
    """The rules for tables of one detail; groups without it are in no rule."""
    first, _ = groups.cells_at(detail)
    table = _RuleTable(first[:-1], detail)
    for total in sums:
        _add_nation(table, groups.detail, total)
    both = (groups.detail[pairs] >= detail).all(axis=1)
    rows = table.take(int(both.sum()), equal=False)
    table.add(rows, pairs[both, 0], 1)
    table.add(rows, pairs[both, 1], -1)
    if not detail:
        known = np.flatnonzero(~np.isnan(groups.known))
        table.add(table.take(len(known), equal=True, right=groups.known[known]), known, 1)
    return table.rules(int(first[-1]))


def _add_nation(table: "_RuleTable", details: Integers, total: NationSum) -> None:
    """The rules of a nation, of all of its states and of those that have some finer table."""
    before = 0
    for detail in range(table.detail, int(details[total.nation]) + 1):
        states = total.states[details[total.states] >= detail]
        # The states with a finer table are fewer, and their sum is a rule of its own.
        if not len(states) or len(states) == before:
            continue
        before = len(states)
        row = table.take(1, equal=len(states) == len(total.states))
        table.add(np.repeat(row, len(states)), states, 1)
        table.add(row, np.array([total.nation]), -1)


class _RuleTable:
    """Collects rules that hold for every cell of a detail.

    Args:
        first: First cell of each group.
        detail: The detail.
    """

    def __init__(self, first: Integers, detail: int) -> None:
        self.detail = detail
        self._first = first
        self._entries: list[tuple[Integers, Integers, Integers]] = []
        self._equal: list[Bools] = []
        self._right: list[Floats] = []
        self._n = 0

    def take(self, n: int, *, equal: bool, right: Floats | None = None) -> Integers:
        """Numbers of n new rules for each cell."""
        self._equal.append(np.full(n, equal))
        self._right.append(np.zeros(n) if right is None else right)
        self._n += n
        return np.arange(self._n - n, self._n)

    def add(self, rows: Integers, members: Integers, sign: int) -> None:
        """Add each of some groups to a rule, cell by cell."""
        places = np.arange(LADDER_CELLS[self.detail])
        cells = self._first[members, None] + places
        numbers = rows[:, None] * len(places) + places
        self._entries.append((numbers.ravel(), cells.ravel(), np.full(cells.size, sign)))

    def rules(self, n_cells: int) -> Rules:
        """What was collected, for this number of cells in all."""
        rows, cells, signs = (np.concatenate(part) for part in zip(*self._entries, strict=True))
        each = LADDER_CELLS[self.detail]
        return Rules(
            sparse.csr_matrix((signs, (rows, cells)), shape=(self._n * each, n_cells)),
            np.repeat(np.concatenate(self._right), each),
            np.repeat(np.concatenate(self._equal), each),
        )
