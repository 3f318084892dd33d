"""Estimates of one table where a schema has too many cells: cells are merged into atoms, and answers into sums."""

from tallyveil.estimation.intervals.merged.model import (
    Atoms,
    Measured,
    MergedModel,
    MergedRows,
    Sums,
    derive_atoms,
    merged_model,
    sums_of,
)

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
