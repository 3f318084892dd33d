"""The order in which queries pass their answers on, so that a row of answers reaches the cells in few additions.

Problem. The adjoint of several queries adds every answer to all of its cells. Done directly, each cell gets one
addition for each query.

Steps. If a finer query refines a coarse one, each answer of the coarse query is first added to the finer query's
answers. Every query passes its answers on to the smallest query that refines it. If there is none, it passes them on to
the cells.

Worked case. The total (1 answer) is passed on to sex (2 answers), and sex to sex by age (200 answers), which reaches
the cells. A cell gets one addition instead of three.
"""

from collections.abc import Sequence

import numpy as np

from tallyveil.arrays import Floats, Integers
from tallyveil.kernels.tree.transform import Cascade
from tallyveil.schema.query_group import QueryGroup


def cascade_of(groups: Sequence[QueryGroup], n_cells: int, *, averaged: bool = False) -> Cascade:
    """The cascade in which every query passes its answers on to the smallest one that refines it, or to the cells.

    Args:
        groups: Queries, in the order of their answers in a row.
        n_cells: Number of cells of the schema.
        averaged: Whether answers are divided by their number of cells.
    """
    cells = np.arange(n_cells, dtype=np.int64)
    answers = [group.answers_of(cells) for group in groups]
    begin = np.concatenate([[0], np.cumsum([group.size for group in groups])]).astype(np.int64)
    n_answers = int(begin[-1])
    # A finer query has at least as many answers, so that only later ones can be its target.
    by_size = sorted(range(len(groups)), key=lambda q: (groups[q].size, q))
    targets, maps = [], []
    for place, q in enumerate(by_size):
        target, answer_map = -1, answers[q]
        # Smallest first: the next refinement costs the fewest additions.
        for finer in by_size[place + 1 :]:
            containing = _refined(answers[q], answers[finer], groups[finer].size)
            if containing is not None:
                target, answer_map = finer, containing
                break
        targets.append(target)
        # The place after all answers stands for "none": kernels add to it without asking.
        maps.append(np.where(answer_map >= 0, answer_map + begin[q], n_answers).astype(np.int32))
    return Cascade(
        begin=begin,
        scale=_scale(answers, groups) if averaged else np.ones(n_answers),
        source=np.array(by_size, np.int64),
        target=np.array(targets, np.int64),
        map_begin=np.concatenate([[0], np.cumsum([len(answer_map) for answer_map in maps])]).astype(np.int64),
        maps=np.concatenate([np.zeros(0, np.int32), *maps]),
    )


def _scale(answers: Sequence[Integers], groups: Sequence[QueryGroup]) -> Floats:
    sizes = [
        np.bincount(numbers[numbers >= 0], minlength=group.size)
        for numbers, group in zip(answers, groups, strict=True)
    ]
    scale: Floats = 1.0 / np.maximum(np.concatenate([np.zeros(0, np.int64), *sizes]), 1)
    return scale


def _refined(coarse: Integers, fine: Integers, n_fine: int) -> Integers | None:
    """For each answer of the fine query, the answer of the coarse query that contains it; None if they do not nest."""
    # A cell that the fine query leaves out would be lost on the way.
    if bool((coarse[fine < 0] >= 0).any()):
        return None
    containing = np.full(n_fine, -1, np.int64)
    counted = fine >= 0
    # Of the cells of one fine answer the last one wins; if they disagree, the comparison below shows it.
    containing[fine[counted]] = coarse[counted]
    return containing if bool((containing[fine[counted]] == coarse[counted]).all()) else None
