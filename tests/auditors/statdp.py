"""StatDP, after Ding, Wang, Wang, Zhang and Kifer 2018: search for an event, then an exact test on fresh outputs.

Our own code after the paper. It applies to claims of pure differential privacy.

Problem. If P(A) <= exp(epsilon) Q(A), then a hit under P that is kept with probability exp(-epsilon) is no likelier
than a hit under Q. So the number of kept hits and the number of hits under Q can be compared by Fisher's exact test.

Steps. One half of the outputs chooses the event, among the sets {column <= t} and {column >= t} of every column and of
the score, and the direction. The other half tests it. Kept hits are chosen once, by a generator with a fixed seed; the
paper averages p-values over several choices, and the average of p-values is no p-value.

The lower bound is the largest epsilon of a grid such that it and every smaller one is rejected.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from tests.auditors.findings import LEVEL, Finding
from tests.auditors.outputs import Floats, Outputs

_SEED: Final = 20180101
_THRESHOLDS: Final = 40
_MOST_CHOOSING: Final = 50_000
"""Outputs on each population that choose the event."""

_LEAST_SHARE: Final = 0.001
"""Events that are rarer than this under both populations are left out, as in the paper."""


@dataclass(frozen=True)
class Event:
    """The outputs with a column on one side of a threshold.

    Attributes:
        column: The column; -1 for the score.
        threshold: The threshold, which is in the set.
        above: Whether the set is above it.
        swapped: Whether the set is likelier on the first population.
    """

    column: int
    threshold: float
    above: bool
    swapped: bool


def audit(outputs: Outputs) -> Finding:
    """The largest epsilon that is refuted at delta 0."""
    half, claim = len(outputs.first) // 2, outputs.claim
    tables = [
        np.column_stack([rows, scores])
        for rows, scores in (
            (outputs.first, outputs.first_scores),
            (outputs.second, outputs.second_scores),
        )
    ]
    choosing = min(half, _MOST_CHOOSING)
    event = _best(tables[0][:choosing], tables[1][:choosing], claim.pure)
    hits = [int(_is_in(table[half:], event).sum()) for table in tables]
    often, seldom = (hits[0], hits[1]) if event.swapped else (hits[1], hits[0])
    trials = len(outputs.first) - half
    found = 0.0
    for epsilon in np.linspace(0, 1.5 * claim.pure, 151)[1:].tolist():
        if p_value(often, seldom, trials, epsilon) > LEVEL:
            break
        found = epsilon
    note = "score" if event.column == tables[0].shape[1] - 1 else f"column {event.column}"
    return Finding(
        "StatDP", outputs.name, "epsilon at delta 0", claim.pure, found, 2 * len(outputs.first), note
    )


def p_value(often: int, seldom: int, trials: int, epsilon: float) -> float:
    """Fisher's exact test of P(A) <= exp(epsilon) Q(A)."""
    from scipy.stats import hypergeom

    kept = int(np.random.default_rng(_SEED).binomial(often, np.exp(-epsilon)))
    return float(hypergeom.sf(kept - 1, 2 * trials, kept + seldom, trials))


def _is_in(table: Floats, event: Event) -> NDArray[np.bool_]:
    column = table[:, event.column]
    found: NDArray[np.bool_] = column >= event.threshold if event.above else column <= event.threshold
    return found


def _best(first: Floats, second: Floats, epsilon: float) -> Event:
    """The event whose normal statistic against epsilon is largest."""
    best, chosen = -np.inf, Event(first.shape[1] - 1, 0.0, above=True, swapped=False)
    for event in _candidates(first, second):
        p, q = _is_in(first, event).mean(), _is_in(second, event).mean()
        often, seldom = (p, q) if event.swapped else (q, p)
        if max(p, q) < _LEAST_SHARE:
            continue
        excess = often * np.exp(-epsilon) - seldom
        statistic = excess / np.sqrt((often * np.exp(-epsilon) + seldom) / len(first) + 1e-12)
        if statistic > best:
            best, chosen = statistic, event
    return chosen


def _candidates(first: Floats, second: Floats) -> Iterator[Event]:
    for column in range(first.shape[1]):
        both = np.concatenate([first[:, column], second[:, column]])
        for threshold in np.unique(
            np.quantile(both, np.linspace(0, 1, _THRESHOLDS), method="lower")
        ).tolist():
            for above in (True, False):
                for swapped in (True, False):
                    yield Event(column, threshold, above, swapped)
