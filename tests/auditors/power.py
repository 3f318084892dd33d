"""Seeded faults that an audit of outputs could see, and from which outputs each is looked for.

The faults are those of `tests/seeded/bugs.toml`. The others of its forty do not change outputs or claims of a single
release: they are about keys, files, messages, ledgers and refusals, and their tests are elsewhere.
"""

from typing import Final

FAULTS: Final = {
    "variance-5-percent-low": ("samplers", "counts", "tree"),
    "laplace-scale-5-percent-low": ("samplers", "counts", "tree"),
    "tail-cut-off": ("samplers", "counts"),
    "upper-half-shifted": ("samplers", "counts"),
    "tie-decided-at-once": ("samplers", "counts"),
    "refinement-at-the-address-of-cells": ("samplers", "tree"),
    "query-left-out-of-the-address": ("tree",),
    "geolevel-left-out-of-the-address": ("tree",),
    "sensitivity-1-for-2": ("tree", "release-gaussian"),
    "overlap-left-out-of-the-sensitivity": ("tree",),
    "share-counted-twice": ("tree", "release-laplace"),
    "geolevel-missing-in-the-event": ("tree",),
    "query-missing-in-the-event": ("tree",),
    "half-of-the-textbook-rho": ("tree",),
    "histogram-of-the-wrong-level": ("tree",),
    "noise-only-where-people-are": ("tree", "release-gaussian", "release-laplace"),
    "detail-chosen-on-true-totals": ("groups",),
    "stage-1-noise-used-again": ("groups",),
}
"""Name of the fault, and the groups of outputs that are drawn with it."""

RUNGS: Final = (1_000, 10_000)
"""Outputs on each side that auditors see first, to find how many a fault takes."""

UNSEEN: Final = (
    "half-of-the-textbook-rho",
    "refinement-at-the-address-of-cells",
    "tail-cut-off",
    "tie-decided-at-once",
    "upper-half-shifted",
)
"""Faults that no auditor refutes with the outputs that are drawn; docs/auditors.md says why."""
