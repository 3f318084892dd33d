"""Estimates of one table where a schema has too many cells: cells are merged into atoms, and answers into sums."""

from tallyveil.estimation.intervals.merged.model import (
    AnswerSums,
    Atoms,
    MergedModel,
    MergedRows,
    UnmergedModel,
    derive_atoms,
    merged_model,
    sums_of,
)

__all__ = [
    "AnswerSums",
    "Atoms",
    "MergedModel",
    "MergedRows",
    "UnmergedModel",
    "derive_atoms",
    "merged_model",
    "sums_of",
]
