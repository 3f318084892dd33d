"""An answer to a question, the covariances of its counts, and the difference of answers of two releases.

Two releases that measured apart have independent noise. So the variance of a difference of their estimates is the sum
of both variances, and the covariances of its rows are the sums of both covariances. That the same people are in both
changes nothing about the noise; it changes what both together reveal of them, which is the sum of both guarantees.

Worked case. A town has 1,200 people in one release and 1,250 in the next, with standard errors of 3 and 4. It has grown
by 50, with a standard error of (3^2 + 4^2)^(1/2) = 5.
"""

from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from tallyveil.arrays import Floats
from tallyveil.estimation.intervals.covariance import TreeCovariance
from tallyveil.estimation.intervals.interval import NO_INTERVALS, rounded_inward, two_sided_quantile
from tallyveil.estimation.intervals.joint import Asked, joint_covariance
from tallyveil.files.intervals import DECIMALS
from tallyveil.files.marks import short_mark
from tallyveil.plans.machine import in_gib, machine_memory
from tallyveil.postprocess.derived.numbers import SHARE_DECIMALS, VALUES, number_columns
from tallyveil.postprocess.derived.question import refused
from tallyveil.postprocess.intervals.fits import LARGEST_SHARE
from tallyveil.schema.names import closest_hint
from tallyveil.storage.write import write_file, write_parquet

ANSWER_ENDINGS: Final = (".csv", ".parquet")
AnswerKind = Literal["count", "number", "level"]
"""Whether the rows are counts, other numbers, or levels of an attribute."""


@dataclass(frozen=True, slots=True, eq=False)
class JointCounts:
    """The counts of the rows of an answer, from whose estimates its numbers follow.

    Attributes:
        tree: Covariances of the tree.
        asked: The counts.
        variances: Their variances; shape (rows,).
    """

    tree: TreeCovariance
    asked: Asked
    variances: Floats

    def covariances_with(self, weights: Floats) -> Floats:
        """Covariances of each count with weighted sums; weights and result have the shape (rows, sums)."""
        return joint_covariance(self.tree, self.asked, self.variances).times(weights)

    def covariance(self, sums: Floats | None) -> Floats:
        """Covariances of all counts, or of weighted sums (sums, rows)."""
        if sums is None:
            return joint_covariance(self.tree, self.asked, self.variances).matrix()
        product, known = self.covariances_with(sums.T), np.isfinite(self.variances)
        matrix: Floats = sums[:, known] @ product[known]
        # A sum with an unknown row is a column of NaN there, and has no covariance with others either.
        matrix[np.isnan(np.diag(matrix))] = np.nan
        return matrix


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The answer to a question.

    Attributes:
        table: One row for each count; columns as docs/ask.md says.
        level: Coverage of every interval.
        limit: Greatest half width of an interval, as a part of the number, of a number that is usable.
        covers: What the intervals cover, or why the noise allows none.
        warnings: What must be said wherever the release is shown.
        of_draws: What the numbers in the columns `drawn`, `drawn_lower` and `drawn_upper` assume; empty without them.
    """

    table: pl.DataFrame
    level: float
    limit: float
    covers: str
    warnings: tuple[str, ...]
    _kind: AnswerKind = field(repr=False)
    _runs: frozenset[str] = field(repr=False)
    _counts: tuple[JointCounts, ...] = field(repr=False)
    of_draws: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns that say what each row is: the area, and attributes and recodes."""
        return tuple(name for name in self.table.columns if name not in VALUES)

    @property
    def is_counts(self) -> bool:
        """Whether the rows are counts, and no shares, rates or other numbers."""
        return self._kind == "count"

    def covariance(self, weights: ArrayLike | None = None) -> Floats:
        """Covariances of the estimated counts of the rows, or of weighted sums of them, before shares and rates.

        Args:
            weights: A weight of every row in each weighted sum; shape (sums, rows). None for the rows themselves, whose
                matrix takes 8 bytes for each pair of rows.
        Returns:
            In squared counts; NaN where the measurements do not determine a count. Shape (sums, sums), or (rows, rows).
        Raises:
            ConfigError: the weights have another shape, or are not finite numbers; or the matrix of all rows does not
                fit into memory; or the rows are no counts and no quotients of counts.
        """
        if not self._counts:
            raise refused(
                "quantiles and indices have no covariances here. Ask for the counts from which they follow."
            )
        n, sums = self.table.height, None
        if weights is None:
            refuse_matrix(n)
        else:
            given = np.asarray(weights, dtype=object)
            are_numbers = all(isinstance(item, Real) for item in given.ravel())
            sums = given.astype(np.float64) if are_numbers else np.zeros(0)
            if sums.ndim != 2 or sums.shape[1] != n or not np.isfinite(sums).all():
                raise refused(
                    f"weights have shape {given.shape}, wanted finite numbers of shape (sums, {n}): a weight of "
                    "every row in each weighted sum."
                )
        matrix = self._counts[0].covariance(sums)
        for counts in self._counts[1:]:
            # The noise of different releases is independent.
            matrix += counts.covariance(sums)
        return matrix

    def minus(self, other: "Answer") -> "Answer":
        """This answer less that of another release to the same question, with the noise of both.

        Args:
            other: The answer of the other release; with the same rows, in the same order.
        Returns:
            The differences. Intervals are normal.
        Raises:
            ConfigError: the answers have other rows or another level; are quantiles, which have no difference here; or
                follow from the same measurements, so that their noise is not independent.
        Privacy: post-processing. What two releases reveal together of people in both is bounded by both guarantees
            together (`tallyveil account total`).
        """
        _refuse_pair(self, other)
        first, second = self.table, other.table
        values = (first["estimate"] - second["estimate"]).cast(pl.Float64).fill_null(np.nan).to_numpy()
        squares = first["standard_error"] ** 2 + second["standard_error"] ** 2
        errors = np.sqrt(squares.fill_null(np.nan).to_numpy())
        lacking = pl.select(pl.coalesce(first["lacking"], second["lacking"])).to_series()
        is_count, covers = self._kind == "count", self.covers
        if NO_INTERVALS in (self.covers, other.covers):
            reach, covers = np.full(len(values), np.nan), NO_INTERVALS
        else:
            reach = two_sided_quantile(self.level) * errors
        low, high = values - reach, values + reach
        if is_count:
            low, high = rounded_inward(values, low, high, least=-np.inf)
        name = "count" if is_count else "published"
        number, counts = None, {}
        if name in first.columns and name in second.columns:
            differences = first[name] - second[name]
            number, counts = differences.cast(pl.Float64).fill_null(np.nan).to_numpy(), {name: differences}
        decimals = DECIMALS if is_count else SHARE_DECIMALS
        columns = number_columns((values, errors, low, high), number, lacking, self.limit, decimals)
        if is_count:
            columns |= {end: columns[end].cast(pl.Int64) for end in ("lower", "upper")}
        return Answer(
            first.select(self.keys).with_columns(**counts, **columns),
            self.level,
            self.limit,
            covers,
            tuple(dict.fromkeys([*self.warnings, *other.warnings])),
            self._kind,
            self._runs | other._runs,
            (*self._counts, *other._counts),
        )

    def to_frame(self) -> pl.DataFrame:
        """The table."""
        return self.table

    def __repr__(self) -> str:
        return f"<Answer of {self.table.height:,} rows{short_mark(self.warnings)}>\n{self.table}"

    def _repr_html_(self) -> str:
        return f"<strong>Answer{short_mark(self.warnings)}</strong>{self.table._repr_html_()}"


def write_answer(answer: Answer, question: str, path: Path) -> None:
    """Write an answer to a file whose name ends in one of `ANSWER_ENDINGS`.

    Args:
        answer: The answer.
        question: The question, which a Parquet file has in its metadata.
        path: The file.
    Raises:
        StoreError: it cannot be written.
    """
    if path.suffix == ".csv":
        write_file(path, answer.table.write_csv)
        return
    tags = {"question": question, "level": f"{answer.level:g}", "covers": answer.covers}
    if answer.of_draws:
        tags["of_draws"] = answer.of_draws
    write_parquet(path, answer.table, tags)


def _refuse_pair(first: Answer, second: Answer) -> None:
    """Refuse answers of which there is no difference; raises ConfigError."""
    if not isinstance(second, Answer):
        raise refused("minus takes the answer of another release, as release.ask(...) gives it.")
    if first.of_draws or second.of_draws:
        raise refused(
            "an answer has numbers from draws, which have no difference with those of another release here. Ask both "
            "releases without draws."
        )
    if first._runs & second._runs:
        raise refused(
            "both answers follow from the same measurements, so that their noise is not independent. For areas of one "
            "release, subtract in the question: minus AREA."
        )
    if "level" in (first._kind, second._kind):
        raise refused("quantiles are levels of an attribute and have no difference. Compare their intervals.")
    same = first.keys == second.keys and first._kind == second._kind and first.level == second.level
    if not same or not first.table.select(first.keys).equals(second.table.select(second.keys)):
        raise refused(
            f"the answers have {first.table.height:,} and {second.table.height:,} rows, which are not the same areas, "
            "attributes and levels in one order. Ask both releases one question, with a list of areas that both have."
        )


def column_of(answer: Answer, name: str) -> pl.Series:
    """The column of an answer that says what each row is; raises ConfigError if there is none of this name."""
    if name not in answer.keys:
        raise refused(f"{name!r} is no column of the answer. {closest_hint(name, answer.keys)}")
    return answer.table[name]


def refuse_matrix(n: int) -> None:
    """Refuse covariances of n counts that do not fit into memory; raises ConfigError."""
    needed, has = 8 * n * n, machine_memory()
    if needed > LARGEST_SHARE * has:
        raise refused(
            f"the covariances of {n:,} rows take {in_gib(needed)}; this process may use {in_gib(has)}, and a quarter "
            "is kept free. Give weights of the sums that are wanted, or ask for fewer rows."
        )
