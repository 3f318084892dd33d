"""Counts drawn by the integer-subspace mechanism, treated as further measurements.

The noise is Gaussian on the lattice of integer vectors that do not change the invariants. In the directions that the
invariants leave free, it has the covariance of independent draws with the variance of the law. In the other directions
the counts are known exactly, which the model of the invariants states already. So the counts are modelled as answers of
one more query with that variance. The variance of noise on a lattice differs from this one noticeably only below a few
persons squared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from tallyveil.arrays import Integers, Numbers
from tallyveil.budget.strategy import Strategy
from tallyveil.errors import ConfigError, StoreError
from tallyveil.estimation.intervals.fit import AnswerRows, narrowed
from tallyveil.files.histograms import read_located
from tallyveil.geography.spine import Spine
from tallyveil.measurements.names import drawn_path
from tallyveil.plans.release import INTEGER_SUBSPACE, SubspaceQuery
from tallyveil.postprocess.constraints import ConstraintTable, summed_upward
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema
from tallyveil.storage.write import write_parquet
from tallyveil.subspace.mechanisms import GeneralisedGaussian


def drawn_queries(
    schema: Schema, strategy: Strategy, items: Sequence[SubspaceQuery]
) -> dict[str, list[tuple[QueryGroup, float]]]:
    """For each geolevel, the queries drawn there, under new names, and their variances.

    Raises:
        ConfigError: the noise is Laplace, whose variance on a lattice is not known in closed form.
    """
    drawn: dict[str, list[tuple[QueryGroup, float]]] = {}
    for item in items:
        law = item.law(strategy.mechanism, strategy.neighbours)
        if not isinstance(law, GeneralisedGaussian):
            raise ConfigError(
                f"{item.name} at {item.geolevel} has Laplace noise on a lattice, whose variance is not known in closed "
                "form. Variances and intervals need discrete Gaussian noise: give [privacy] a rho.",
                code="interval-noise",
            )
        drawn.setdefault(item.geolevel, []).append((_renamed(schema, item), float(law.variance)))
    return drawn


class DrawnRows:
    """Rows of the strategy's noisy answers, followed by the drawn counts.

    Args:
        rows: Noisy answers of the strategy.
        root: Release folder.
        items: The drawn queries.
        schema: The universe.
        spine: The hierarchy.
    """

    def __init__(
        self, rows: AnswerRows, root: Path, items: Sequence[SubspaceQuery], schema: Schema, spine: Spine
    ) -> None:
        self._rows = rows
        self._drawn: Mapping[tuple[int, str], Numbers] = {
            # Read once: all geounits of a drawn query are small beside the measurements.
            (spine.level_index(item.geolevel), _renamed(schema, item).name): narrowed(
                read_drawn(root, item, schema, spine)
            )
            for item in items
        }

    def rows(self, level: int, queries: Sequence[QueryGroup], start: int, stop: int) -> Numbers:
        """Answers of geounits start..stop, one query after the other."""
        measured = [group for group in queries if (level, group.name) not in self._drawn]
        drawn = [self._drawn[level, group.name] for group in queries if (level, group.name) in self._drawn]
        # drawn queries follow those of the strategy, as in the model
        return np.concatenate(
            [self._rows.rows(level, measured, start, stop), *(counts[start:stop] for counts in drawn)], axis=1
        )


def _renamed(schema: Schema, item: SubspaceQuery) -> QueryGroup:
    """The query under a name that no query of the strategy has."""
    # The same query may be measured as well, with other noise.
    return replace(schema.query(item.query), name=f"{INTEGER_SUBSPACE} {item.query}")


def drawn_constraint(item: SubspaceQuery, schema: Schema, spine: Spine, noisy: Integers) -> ConstraintTable:
    """The constraint that fixes each answer at its drawn count, and the answers of coarser geolevels at the sums."""
    values = summed_upward(noisy, spine.level_index(item.geolevel), spine)
    return ConstraintTable(item.name, schema.query(item.query), values, values)


def write_drawn(
    root: Path,
    item: SubspaceQuery,
    schema: Schema,
    spine: Spine,
    noisy: Integers,
    tags: Mapping[str, str],
) -> None:
    """Write drawn counts beside the other measurements.

    Args:
        root: Release folder.
        item: The drawn query.
        schema: The universe.
        spine: The hierarchy.
        noisy: The counts; shape (geounits of the geolevel, answers).
        tags: Metadata of the file.
    Raises:
        StoreError: the file cannot be written.
    """
    labels, codes = schema.query(item.query).labels(), spine.geocodes[spine.level_index(item.geolevel)]
    frame = pl.DataFrame(
        {
            "geocode": np.repeat([str(code) for code in codes], len(labels)),
            "answer": list(labels) * len(codes),
            "count": noisy.ravel(),
        }
    )
    tags = {**tags, "query": item.query, "geolevel": item.geolevel}
    write_parquet(drawn_path(root, item.geolevel, item.query), frame, tags)


def read_drawn(root: Path, item: SubspaceQuery, schema: Schema, spine: Spine) -> Integers:
    """Read drawn counts; shape (geounits of the geolevel, answers).

    Raises:
        StoreError: the file is missing, unreadable, or of another release.
    """
    path = drawn_path(root, item.geolevel, item.query)
    if not path.is_file():
        raise StoreError(
            f"{path} does not exist. Restore it from a copy of the release.", code="measurements-missing"
        )
    group, level = schema.query(item.query), spine.level_index(item.geolevel)
    rows, answers, frame = read_located(path, group, spine, level, ["count"], "drawn counts")
    table = np.zeros((spine.n_geounits(level), group.size), np.int64)
    # Every answer of every geounit must be there: a missing row would pass for a count of zero.
    if frame.height != table.size:
        raise StoreError(
            f"the counts in {path} belong to another release. Restore the file from a copy of this release.",
            code="measurements-mismatch",
        )
    table[rows, answers] = frame["count"].to_numpy()
    return table
