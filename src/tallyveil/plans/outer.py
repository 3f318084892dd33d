"""Outer passes of a plan: which measured queries each pass is fitted to, and whether the passes give whole cells."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tallyveil.budget.outer_pass import OuterPass
from tallyveil.errors import ConfigError
from tallyveil.schema.nested_queries import (
    common_groups,
    counts_all_of,
    determined_answers,
    determines,
    first_levels,
    only_cell,
)
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema


def measured_by_pass(
    schema: Schema, outer: Sequence[OuterPass], measured: Iterable[str]
) -> tuple[tuple[str, ...], ...]:
    """The measured queries of each outer pass: the first pass that is no lift pass and whose cells determine the query.

    A lift pass chooses noisy answers about its part by itself (`postprocess.passes.lifts`), also those of
    queries of other passes. So a lift pass has only queries that no other pass determines.

    Args:
        schema: The universe.
        outer: The passes, first to last.
        measured: Names of the queries that are measured at a geolevel.
    Returns:
        For each pass, names in the order of `measured`. A pass may have none.
    Raises:
        ConfigError: no pass determines one of the queries.
    """
    cells, zeros = [schema.query(outer_pass.cells) for outer_pass in outer], schema.barred_levels()
    # Stable: passes that estimate come first in their order, lift passes after them.
    lifts_last = sorted(range(len(outer)), key=lambda number: outer[number].part is not None)
    by_pass: list[list[str]] = [[] for _ in outer]
    for name in measured:
        group = schema.query(name)
        # The first pass that determines it: later passes keep its counts anyway.
        number = next((k for k in lifts_last if determines(cells[k], group, zeros)), None)
        if number is None:
            raise ConfigError(
                f"[[estimation.outer]]: no outer pass determines the measured query '{name}'. A pass determines it if "
                "the answers of the query are sums of counts of the pass's cells. The passes count: "
                f"{'; '.join(outer_pass.cells for outer_pass in outer)}. Give one of them finer cells, or do not "
                f"measure the query.",
                code="outer-pass",
            )
        by_pass[number].append(name)
    return tuple(map(tuple, by_pass))


def early_answers(
    schema: Schema, outer: Sequence[OuterPass], number: int, measured: Sequence[str]
) -> tuple[QueryGroup, ...]:
    """The measured answers of later passes that a pass is fitted to as well. Each query has these of its answers only.

    Args:
        schema: The universe.
        outer: The passes, first to last.
        number: Number of the pass, from 0.
        measured: Names of the queries that are measured at a geolevel.
    """
    cells, zeros = schema.query(outer[number].cells), schema.barred_levels()
    # Only answers that this pass determines; the rest of the query waits for its own pass.
    names = [name for name in outer[number].also if name in measured]
    return tuple(determined_answers(cells, schema.query(name), zeros) for name in names)


def refuse_outer(schema: Schema, outer: Sequence[OuterPass]) -> None:
    """Refuse outer passes that cannot be made, or that do not say in which cell each record lies.

    Raises:
        ConfigError: groups of a query overlap, a rounding chain is not nested, a pass counts cells that the pass before
            leaves out, or the passes together do not give whole cells.
        SchemaError: the schema has no such query.
    """
    for number, outer_pass in enumerate(outer, start=1):
        _refuse_chain(schema, outer_pass, f"[[estimation.outer]] pass {number}")
        _refuse_early(schema, outer, number)
    # The rules below compare cells of passes, so each pass must be sound by itself first.
    cells = [schema.query(outer_pass.cells) for outer_pass in outer]
    _refuse_left_out(schema, cells[0])
    for number, (above, pass_cells) in enumerate(pairwise(cells), start=2):
        if not counts_all_of(above, pass_cells):
            raise ConfigError(
                f"[[estimation.outer]] pass {number} counts cells that pass {number - 1} leaves out, so that pass "
                f"{number - 1} does not say how many records are in them. Leave these levels out of "
                f"'{pass_cells.name}', or "
                f"count them in '{above.name}'.",
                code="outer-pass",
            )
    _refuse_open_cells(schema, cells)
    _refuse_lost_counts(cells)
    # Raises where records would be left in several cells; its result is used when the run puts cells together.
    for number, pass_cells in enumerate(cells[:-1]):
        finished_cells(schema, pass_cells, cells[number + 1])


def sources_of_groups(cells: Sequence[QueryGroup]) -> list[int]:
    """For each pass, the earlier pass whose counts are fixed in it; 0 for the first pass.

    It is the earlier pass with which it has most groups in common; of several, the latest.

    Args:
        cells: The cells of each pass.
    """
    sources = [0]
    for number in range(1, len(cells)):
        sizes = [common_groups(cells[number], earlier).size for earlier in cells[:number]]
        # Of several with as many groups in common, the latest, which has fixed most.
        sources.append(max(range(number), key=lambda k: (sizes[k], k)))
    return sources


def _refuse_lost_counts(cells: Sequence[QueryGroup]) -> None:
    """Refuse a pass that could not keep the counts of all earlier passes."""
    for number, source in enumerate(sources_of_groups(cells)):
        # For the first pass its own cells stand in, so the comparison below is the same for all.
        fixed = common_groups(cells[number], cells[source]) if number else cells[0]
        for earlier in cells[:number]:
            if not determines(fixed, common_groups(cells[number], earlier)):
                raise ConfigError(
                    f"[[estimation.outer]] pass {number + 1} counts '{cells[number].name}' within the counts of "
                    f"'{cells[source].name}', and these do not say what an earlier pass found about "
                    f"'{earlier.name}'. Let the cells of every pass be finer than those of the pass before. Only "
                    "levels that no other pass tells apart may be an exception.",
                    code="outer-pass",
                )


def open_pass(passes: Sequence[QueryGroup]) -> int | None:
    """The earlier pass whose counts say more than those of the last pass; None if there is none.

    Example: the last pass counts households by "rented or no payment", and the first pass counts each of the two.
    """
    return next((k for k, pass_cells in enumerate(passes[:-1]) if not _adds(passes[-1], pass_cells)), None)


def finished_cells(
    schema: Schema, group: QueryGroup, after: QueryGroup
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Answers of a pass that the pass after it leaves out, and the only cell that each of them has.

    Args:
        schema: The universe.
        group: Query of the pass.
        after: Query of the pass after it.
    Returns:
        Answer numbers of `group`, and cells of the schema.
    Raises:
        ConfigError: such an answer has more than one possible cell, so that nothing says where its records lie.
    """
    # The usual case: the next pass counts everybody, and no records are finished here.
    if counts_all_of(after, group):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    answers, cells = [], []
    possible = schema.possible_answers(group)
    for answer in possible[~_are_counted(group, possible, after)].tolist():
        cell = only_cell(schema, group, answer)
        if cell is None:
            raise ConfigError(
                f"[[estimation.outer]]: '{after.name}' leaves out records with {_label(group, answer)}, and the "
                f"counts of '{group.name}' do not say in which of several cells these records lie. Count them in the "
                "later pass, or add structural zeros that leave them one cell.",
                code="outer-pass",
            )
        answers.append(answer)
        cells.append(cell)
    return np.array(answers, dtype=np.int64), np.array(cells, dtype=np.int64)


def _refuse_left_out(schema: Schema, first: QueryGroup) -> None:
    """Refuse a first pass that leaves out cells in which records may lie."""
    for attribute, factor in zip(schema.attributes, first.factors, strict=True):
        # Levels that structural zeros bar entirely may be left out.
        possible = schema.possible_answers(schema.query(attribute.name))
        left_out = possible[factor.codes[possible] < 0]
        if len(left_out):
            raise ConfigError(
                f"[[estimation.outer]] pass 1 leaves out records with {attribute.name}="
                f"{attribute.levels[int(left_out[0])]}, so that no pass would count them. The cells of the first pass "
                f"must count every record; '{first.name}' does not.",
                code="outer-pass",
            )


def _refuse_chain(schema: Schema, outer: OuterPass, where: str) -> None:
    # Coarse to fine, with the cells themselves at the end.
    chain = [schema.query(name) for name in (*outer.rounding, outer.cells)]
    for group in chain:
        if group.overlaps:
            raise ConfigError(
                f"{where}: groups of the query '{group.name}' overlap, so that a record would be in several cells. "
                "Name a query whose groups do not overlap.",
                code="overlapping-query",
            )
    for coarse, fine in pairwise(chain):
        if not determines(fine, coarse, schema.barred_levels()):
            raise ConfigError(
                f"{where}: the rounding chain must be nested, coarse to fine, and answers of '{coarse.name}' are no "
                f"sums of answers of '{fine.name}'. Leave one of the two out.",
                code="outer-pass",
            )


def _refuse_early(schema: Schema, outer: Sequence[OuterPass], number: int) -> None:
    """Refuse answers of later passes that a pass would use anyway, or cannot use."""
    outer_pass, zeros = outer[number - 1], schema.barred_levels()
    for name in outer_pass.also:
        query = schema.query(name)
        # -1 where no pass determines it, which is below every number and so refused.
        later = next((k for k, later_pass in enumerate(outer) if _fits(schema, later_pass, query, zeros)), -1)
        factors = (
            () if query.overlaps else determined_answers(schema.query(outer_pass.cells), query, zeros).factors
        )
        if (
            outer_pass.part is not None
            or later < number
            or not all((factor.codes >= 0).any() for factor in factors)
        ):
            raise ConfigError(
                f"[[estimation.outer]] pass {number} has '{name}' in 'also', which has no effect there. Name measured "
                "queries of later passes. Some of their answers must be sums of this pass's counts, and their groups "
                "must not overlap. A pass with a part has no 'also'.",
                code="outer-pass",
            )


def _fits(
    schema: Schema, outer: OuterPass, query: QueryGroup, zeros: Sequence[Mapping[int, NDArray[np.bool_]]]
) -> bool:
    """Whether a pass without a part determines a query."""
    return outer.part is None and determines(schema.query(outer.cells), query, zeros)


def _refuse_open_cells(schema: Schema, cells: Sequence[QueryGroup]) -> None:
    """Refuse passes after which it is still open in which cell a record lies."""
    last, number = cells[-1], open_pass(cells)
    # What may be told apart at the end: by the last pass, and by the one that is still open.
    known = [last] if number is None else [last, cells[number]]
    for place, attribute in enumerate(schema.attributes):
        factors = [group.factors[place] for group in known]
        counted = factors[0].codes >= 0
        # Distinct pairs of codes; each level needs one of its own.
        told_apart = np.unique(np.stack([factor.codes[counted] for factor in factors]), axis=1).shape[1]
        if told_apart < int(counted.sum()):
            raise ConfigError(
                f"[[estimation.outer]]: the passes do not tell all levels of '{attribute.name}' apart, so that they "
                f"do not say in which cell a record lies. The last pass, '{last.name}', must count every level by "
                "itself, unless one earlier pass does.",
                code="outer-pass",
            )
        if number is not None:
            _refuse_partial(schema, place, known)
    others = [
        pass_cells for k, pass_cells in enumerate(cells[:-1]) if k != number and not _adds(last, pass_cells)
    ]
    if others:
        raise ConfigError(
            f"[[estimation.outer]]: the last pass, '{last.name}', leaves something open that two earlier passes count, "
            f"one of them '{others[0].name}'. Only one earlier pass may count more than the last.",
            code="outer-pass",
        )


def _refuse_partial(schema: Schema, place: int, known: Sequence[QueryGroup]) -> None:
    """Refuse groups of the last and the open pass that cannot be combined freely, in one attribute."""
    attribute = schema.attributes[place]
    last, other = (group.factors[place].codes for group in known)
    counted = last >= 0
    # Pairs of groups that have a level in common.
    pairs = {(int(a), int(b)) for a, b in zip(last[counted], other[counted], strict=True)}
    for group, second in pairs:
        # Two groups that share a level must share one with every group that either of them meets.
        met = {b for a, b in pairs if a == group}
        meet = {a for a, b in pairs if b == second}
        if len(met) > 1 and len(meet) > 1:
            raise ConfigError(
                f"[[estimation.outer]]: groups of '{attribute.name}' in '{known[0].name}' and '{known[1].name}' cross, "
                "so that not every pair of them has a level. Let one of the two be finer than the other.",
                code="outer-pass",
            )
    # Levels that the last pass counts together: the draw gives them to records at random.
    merged = [np.flatnonzero(counted & (last == group)) for group in np.unique(last[counted])]
    for zero in schema.structural_zeros:
        barred = {
            attribute.code(level)
            for name, levels in zero.levels
            if name == attribute.name
            for level in levels
        }
        if not barred:
            continue
        for levels in merged:
            if 0 < sum(int(level) in barred for level in levels) < len(levels):
                raise ConfigError(
                    f"[[estimation.outer]]: the structural zero '{zero.name}' bars some levels of '{attribute.name}' "
                    f"that '{known[0].name}' counts together, and not the others. Which records get which level is "
                    "drawn at random, so the levels must be possible in the same cells.",
                    code="outer-pass",
                )


def _adds(last: QueryGroup, earlier: QueryGroup) -> bool:
    """Whether counts of the last pass add up to those of an earlier one, in the cells that the last pass counts."""
    for fine, coarse in zip(last.factors, earlier.factors, strict=True):
        counted = fine.codes >= 0
        # One level of each group stands for it: all levels of a group must be in one group of the earlier pass.
        first = first_levels(fine)
        if not np.array_equal(coarse.codes[counted], coarse.codes[first[fine.codes[counted]]]):
            return False
    return True


def _are_counted(group: QueryGroup, answers: NDArray[np.int64], after: QueryGroup) -> NDArray[np.bool_]:
    """Whether the query of the next pass counts cells of each answer of this one."""
    counted = np.ones(len(answers), dtype=np.bool_)
    numbers = np.unravel_index(answers, group.shape)
    for factor, later, number in zip(group.factors, after.factors, numbers, strict=True):
        meets = np.zeros(factor.size, dtype=np.bool_)
        # Levels that both count; an answer meets the next pass if each of its groups has one.
        meets[factor.codes[(factor.codes >= 0) & (later.codes >= 0)]] = True
        counted &= meets[number]
    return counted


def _label(group: QueryGroup, answer: int) -> str:
    named = group.label(answer)
    return ", ".join(f"{name}={label}" for name, label in named.items()) or "any levels"
