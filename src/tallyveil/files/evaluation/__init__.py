"""Errors of a release, compared with declassified true counts."""

from tallyveil.files.evaluation.artefacts import find_artefacts
from tallyveil.files.evaluation.metrics import error_metrics
from tallyveil.files.evaluation.size_class import SizeClass
from tallyveil.files.evaluation.store import Evaluation, read_evaluation, write_evaluation

__all__ = [
    "Evaluation",
    "SizeClass",
    "error_metrics",
    "find_artefacts",
    "read_evaluation",
    "write_evaluation",
]
