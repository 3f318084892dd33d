"""Errors of a release against declassified counts."""

from tallyveil.evaluation.metrics import error_metrics
from tallyveil.evaluation.size_class import SizeClass
from tallyveil.evaluation.store import read_evaluation, write_evaluation

__all__ = ["SizeClass", "error_metrics", "read_evaluation", "write_evaluation"]
