"""Estimates of one table where a schema has too many cells: cells are merged into atoms, and answers into sums."""

from tallyveil.estimation.intervals.merged.atoms import Atoms, derive_atoms
from tallyveil.estimation.intervals.merged.model import Measured, MergedModel, merged_model
from tallyveil.estimation.intervals.merged.rows import MergedRows
from tallyveil.estimation.intervals.merged.sums import Sums, sums_of

__all__ = [
    "Atoms",
    "Measured",
    "MergedModel",
    "MergedRows",
    "Sums",
    "derive_atoms",
    "merged_model",
    "sums_of",
]
