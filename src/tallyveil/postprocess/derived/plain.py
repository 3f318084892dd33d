"""The numbers that a table of counts gives as the answer to a question, without any noise: of the published counts, and
of every draw.
"""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Floats, Integers
from tallyveil.estimation.intervals.indices import plain_index, quantile_sums, quantiles_of
from tallyveil.postprocess.derived.asking import Asking
from tallyveil.postprocess.derived.numbers import PlainNumbers


def plain_numbers(asked: Asking, divisors: Floats | None) -> PlainNumbers | None:
    """What the counts of a question say, by the counts that it holds (`Asking.counts`).

    Args:
        asked: The question.
        divisors: A public number for each area, by which its counts are divided; None for none.
    Returns:
        None if the question holds no counts.
    """
    if asked.counts is None:
        return None
    question = asked.question
    if question.measure is not None:
        return _quantiles(asked) if question.measure.is_quantile else _indices(asked)
    if question.share_of is not None:
        part, whole = by_kind(_sums(asked, np.concatenate([asked.counted, asked.whole])), 2)
        return PlainNumbers(part, whole, _ratio(part, whole))
    counts = _sums(asked, asked.counted)
    flat = counts.ravel()
    if question.is_deviation:
        mean = np.tile(counts.mean(axis=0), len(counts))
        return PlainNumbers(flat, mean, _ratio(flat, mean) - 1)
    number = flat.astype(np.float64)
    return PlainNumbers(
        flat, None, number if divisors is None else number / np.repeat(divisors, counts.shape[1])
    )


def by_kind(numbers: NDArray[Any], n_kinds: int) -> NDArray[Any]:
    """Numbers (regions, kinds x rows) by kind and not by region; shape (kinds, regions x rows)."""
    return numbers.reshape(len(numbers), n_kinds, -1).swapaxes(0, 1).reshape(n_kinds, -1)


def _ratio(part: Integers, whole: Integers | Floats) -> Floats:
    ratio: Floats = part / np.where(whole > 0, whole, np.nan)
    return ratio


def _sums(asked: Asking, weights: Integers) -> Integers:
    sums = asked.published(weights)
    assert sums is not None
    return sums


def _quantiles(asked: Asking) -> PlainNumbers:
    measure = asked.question.measure
    assert measure is not None
    counts = asked.by_level(_sums(asked, asked.counted))
    counts = counts.reshape(-1, counts.shape[-1])
    sums = counts @ quantile_sums(counts.shape[1], measure.part).T
    # Without noise, a level is the quantile itself, and the width of an interval does not matter.
    levels = quantiles_of(sums, np.zeros(counts.shape), 0.0).estimate
    total = counts.sum(axis=1)
    return PlainNumbers(total, None, np.where(total > 0, levels, np.nan))


def _indices(asked: Asking) -> PlainNumbers:
    measure = asked.question.measure
    assert measure is not None
    family, cuts = asked.compared()
    weights = asked.by_level(asked.counted[None])[0]
    counts = asked.published(weights.reshape(-1, weights.shape[2]), family)
    assert counts is not None
    tables = counts.reshape(family.n_entities, *weights.shape[:2])
    rows = [tables[start:stop, row] for start, stop in pairwise(cuts) for row in range(len(weights))]
    total = np.array([int(table.sum()) for table in rows], dtype=np.int64)
    return PlainNumbers(total, None, np.array([plain_index(measure.kind, table) for table in rows]))
