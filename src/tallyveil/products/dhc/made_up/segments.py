"""Sums within runs of equal values, such as the people of a block in a sorted table."""

import numpy as np

from tallyveil.arrays import Integers


def rank_within(runs: Integers) -> Integers:
    """Position of each entry within its run of equal values, from 0. `runs` is sorted."""
    # Runs are numbers from 0 on, so that -1 begins the first one.
    new = np.flatnonzero(np.diff(runs, prepend=-1))
    lengths = np.diff(new, append=len(runs))
    rank: Integers = np.arange(len(runs)) - np.repeat(new, lengths)
    return rank


def sum_before(values: Integers, runs: Integers) -> Integers:
    """Sum of the earlier values of the same run. `runs` is sorted."""
    below = np.cumsum(values) - values
    first = np.arange(len(runs)) - rank_within(runs)
    before: Integers = below - below[first]
    return before


def take(available: Integers, wanted: Integers, runs: Integers) -> Integers:
    """Hand out what is available in each run, in order, until it is gone.

    Args:
        available: Shape (n_runs,): what there is, by value of `runs`.
        wanted: Shape (n,): what each entry wants.
        runs: Shape (n,), sorted: the run of each entry.
    Returns:
        Shape (n,): what each entry gets.
    """
    # Entry i gets what earlier entries of its run have left, at least 0 and at most what it wants.
    taken: Integers = np.clip(available[runs] - sum_before(wanted, runs), 0, wanted)
    return taken
