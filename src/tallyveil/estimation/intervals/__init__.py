"""Unbiased estimates, exact variances and intervals for any count, from the noisy measurements of the whole spine."""

from tallyveil.estimation.intervals.answers import (
    Answers,
    LevelAnswers,
    Region,
    answer_covariance,
    level_answers,
    level_variances,
    region_answers,
    region_of,
    region_of_geounit,
    region_variances,
    regions_by_label,
    stream_answers,
)
from tallyveil.estimation.intervals.covariance import TreeCovariance, tree_covariance
from tallyveil.estimation.intervals.fit import (
    AnswerRows,
    KeptRows,
    SourceRows,
    StoredRows,
    TreeEstimate,
    fit_tree,
)
from tallyveil.estimation.intervals.interval import Intervals, contains, intervals_of
from tallyveil.estimation.intervals.model import (
    LevelModel,
    TreeModel,
    Zeros,
    model_of_levels,
    model_of_strategy,
)
from tallyveil.estimation.intervals.questions import Questions, questions_of

__all__ = [
    "AnswerRows",
    "Answers",
    "Intervals",
    "KeptRows",
    "LevelAnswers",
    "LevelModel",
    "Questions",
    "Region",
    "SourceRows",
    "StoredRows",
    "TreeCovariance",
    "TreeEstimate",
    "TreeModel",
    "Zeros",
    "answer_covariance",
    "contains",
    "fit_tree",
    "intervals_of",
    "level_answers",
    "level_variances",
    "model_of_levels",
    "model_of_strategy",
    "questions_of",
    "region_answers",
    "region_of",
    "region_of_geounit",
    "region_variances",
    "regions_by_label",
    "stream_answers",
    "tree_covariance",
]
