"""Compile the estimator's kernels in a step of its own, so that its time is reported."""

import numpy as np

from tallyveil.estimation.family import estimate_family
from tallyveil.estimation.problem import (
    UNBOUNDED,
    EstimationPass,
    FamilyProblem,
    LinearConstraint,
    MeasuredQuery,
    RoundingStage,
)
from tallyveil.kernels.family.answers import SparseCounts, add_counts
from tallyveil.kernels.family.chunk import Chunk, Rules, estimate_chunk
from tallyveil.measurements.family_answers import answer_tables, answers_on_support
from tallyveil.universe.presets import load_preset

NOISY = np.array([2, 4, 2, 0, 1, 3])
PARENT = np.array([3, 4])


def compile_kernels() -> None:
    """Estimate the smallest possible family, once as part of a chunk and once by itself.

    Compiled code is kept on disk, so later runs load it within a moment.
    """
    _compile_chunk()
    _compile_family()


def _compile_chunk() -> None:
    schema = load_preset("race-age")
    queries = [schema.query("total"), schema.query("detailed")]
    tables = answer_tables(queries, schema.size)
    sizes = np.array([group.size for group in queries], dtype=np.int64)
    child_begin = np.array([0, 2])
    wanted = answers_on_support(
        "", queries, child_begin, np.array([0, 2]), np.array([0, 1]), np.zeros(1, dtype=np.bool_)
    )
    wanted.addresses(0)
    values = NOISY.copy()
    nobody = np.zeros(0, dtype=np.int64)
    add_counts(
        wanted.answers,
        wanted.begin[0],
        child_begin,
        tables[0],
        1,
        SparseCounts(np.zeros(3, dtype=np.int64), nobody, nobody),
        values,
    )
    rules = Rules(
        pass_queries=np.eye(2, dtype=np.bool_),
        slack=np.array([0.1, 0.0]),
        bound_answers=tables[:1],
        bound_sizes=sizes[:1],
        round_answers=tables,
        round_sizes=sizes,
        stage=np.arange(2),
        nearest=np.zeros(2, dtype=np.bool_),
    )
    chunk = Chunk(
        offsets=np.array([0, 2]),
        cells=np.array([0, 1]),
        counts=PARENT.copy(),
        child_begin=child_begin,
        columns=wanted.columns,
        widths=wanted.widths,
        value_begin=wanted.value_begin,
        values=values,
        weights=np.array([[1.0, 1.0], [0.5, 0.5]]),
        lower=np.array([[1], [0]]),
        upper=np.array([[9], [UNBOUNDED]]),
    )
    estimate_chunk(rules, chunk)


def _compile_family() -> None:
    cells, both = np.array([0, 1], dtype=np.int32), np.zeros(2, dtype=np.int32)
    estimate_family(
        FamilyProblem(
            geocode="",
            geolevel="",
            children=("", ""),
            support=np.arange(2),
            parent_counts=PARENT,
            measured=(
                MeasuredQuery("total", both, NOISY[:2, None], np.ones(2)),
                MeasuredQuery("detailed", cells, NOISY[2:].reshape(2, 2), np.full(2, 2.0)),
            ),
            constraints=(LinearConstraint("one", both, np.array([[1], [0]]), np.array([[9], [UNBOUNDED]])),),
            passes=(EstimationPass(("total",), 0.1), EstimationPass(("detailed",))),
            rounding=(RoundingStage((("total", both),)), RoundingStage((("detailed", cells),))),
        )
    )
