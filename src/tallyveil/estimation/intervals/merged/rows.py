"""Sums of noisy answers, read some geounits at a time."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from tallyveil.arrays import Numbers
from tallyveil.estimation.intervals.merged.model import MergedModel
from tallyveil.estimation.intervals.rows import AnswerRows, narrowed
from tallyveil.schema.query_group import QueryGroup

ANSWERS_AT_ONCE: Final = 1 << 22


class MergedRows:
    """Rows of the flat schema's queries, from rows of the measured queries.

    Args:
        rows: Source of the noisy answers.
        model: The model of the table.
    """

    def __init__(self, rows: AnswerRows, model: MergedModel) -> None:
        self._rows = rows
        self._model = model

    def rows(self, level: int, queries: Sequence[QueryGroup], start: int, stop: int) -> Numbers:
        """Sums for geounits start to stop - 1: those of every query that is used, in the order of the model."""
        width = sum(group.size for group in queries)
        out, place = np.zeros((stop - start, width), np.int64), 0
        for sums in self._model.measured[level]:
            order = np.argsort(sums.terms, kind="stable")
            at_once = max(1, ANSWERS_AT_ONCE // sums.query.size)
            for first in range(start, stop, at_once):
                last = min(first + at_once, stop)
                values = self._rows.rows(level, [sums.query], first, last)
                out[first - start : last - start, place : place + sums.n] = sums.apply(values)[:, order]
            place += sums.n
        return narrowed(out)
