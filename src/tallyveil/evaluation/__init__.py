"""Errors of a release, compared with declassified true counts."""

from tallyveil.evaluation.artefacts import find_artefacts
from tallyveil.evaluation.metrics import error_metrics
from tallyveil.evaluation.size_class import SizeClass
from tallyveil.evaluation.store import Evaluation, read_evaluation, write_evaluation

__all__ = [
    "Evaluation",
    "SizeClass",
    "error_metrics",
    "find_artefacts",
    "read_evaluation",
    "write_evaluation",
]
