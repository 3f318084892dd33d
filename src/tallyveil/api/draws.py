"""Draws of whole tables of a finished release, from Python. They follow from what is published and cost nothing."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import polars as pl

from tallyveil.api.arguments import (
    AnyPath,
    Flag,
    Name,
    Number,
    Progress,
    Wanted,
    WholeNumber,
    Workers,
    checked,
)
from tallyveil.errors import ConfigError
from tallyveil.files.marks import mark_lines, marks_of
from tallyveil.schema.answer_columns import label_columns, summed_out

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tallyveil.postprocess.draws.job import DrawsDescription
    from tallyveil.postprocess.intervals.model import FinishedRelease
    from tallyveil.schema.query_group import QueryGroup

Values = Annotated[Sequence[float], Wanted("a list of numbers, one for each draw")]


class Draws:
    """Draws of a release, made by `make_draws` or opened by `open_draws`.

    Attributes:
        path: Their folder.
        description: What `draws.json` says: release, geolevel, number, how far the chains agreed, what draws are.
        warnings: What must be said wherever they are shown.
    """

    def __init__(self, path: Path, release: "FinishedRelease", description: "DrawsDescription") -> None:
        self.path = path
        self.description = {**asdict(description), "number": description.number}
        # Of the release itself: a copy of its marks might have been changed.
        self.warnings = marks_of(release.manifest).warnings
        self._release = release
        self._stated = description

    def __repr__(self) -> str:
        lines = [
            f"{self._stated.number} draws of {self._stated.release}, counts of every {self._stated.geolevel}",
            *mark_lines(self.warnings),
            self._stated.statement,
            self._stated.misfit,
        ]
        return "\n".join(lines)

    @checked
    def values(self, area: Name, query: Name) -> pl.DataFrame:
        """The counts of a query in every draw.

        Args:
            area: The draws' geolevel, or one above it.
            query: Any query of the schema.
        Returns:
            One row for each answer of each area: `geocode`, a column for each attribute in the query, and `draws`, an
            array with one count for each draw. A statistic that is computed for each draw has the draws' law.
        Raises:
            ConfigError: there are no counts of this geolevel.
            SchemaError: there is no such query.
            StoreError: a file is missing or damaged, or the draws are of another release.
        """
        answers = self._answers(area, query)
        return self._labels(area, query).with_columns(
            pl.Series("draws", np.ascontiguousarray(answers.reshape(len(answers), -1).T))
        )

    @checked
    def table(self, area: Name, query: Name, *, level: Number = 0.95) -> pl.DataFrame:
        """Mean, standard deviation and interval of every count of a query, beside what needs no model.

        Args:
            area: The draws' geolevel, or one above it.
            query: Any query of the schema; of the finest geolevel, "total" alone.
            level: Share of the draws in an interval, and coverage of those that need no model.
        Returns:
            One row for each answer of each area: `geocode`, a column for each attribute in the query, `mean`,
            `standard_deviation`, `lower` and `upper`, which hold on average under the model, and not for every group;
            and the published count, the estimate from the measurements and its interval, which need no model:
            `published`, `estimate`, `estimate_lower` and `estimate_upper`.
        Raises:
            ConfigError: there are no counts of this geolevel, too few draws for the level, or counts of groups of
                the finest geolevel are asked for; else as `values`.
        """
        from tallyveil.postprocess.draws.job import require_draws

        require_draws(self._stated.number, level)
        finest, group = self._release.hierarchies.original.finest, self._release.schema.query(query)
        if self._level(area) == finest and group.size > 1:
            raise ConfigError(
                f"{area} has the finest areas. Draws say too little of so few people: intervals of groups in them "
                f"would be too narrow without a sign of it. Ask for 'total', for larger areas, or take the values of "
                "all draws and judge them.",
                code="bad-question",
            )
        answers = self._answers(area, query)
        flat = answers.reshape(len(answers), -1)
        tail = (1.0 - level) / 2.0
        labels = self._labels(area, query)
        # By name: tables of a release have other areas than the spine in an order of their own.
        return labels.with_columns(
            pl.Series("mean", flat.mean(axis=0)),
            pl.Series("standard_deviation", flat.std(axis=0, ddof=1)),
            # Outwards to whole counts: an interval of counts never has less than its share.
            pl.Series("lower", np.quantile(flat, tail, axis=0, method="lower")),
            pl.Series("upper", np.quantile(flat, 1.0 - tail, axis=0, method="higher")),
        ).join(
            self._without_model(area, group, level),
            on=labels.columns,
            how="left",
            maintain_order="left",
            validate="1:1",
        )

    def _without_model(self, area: str, group: "QueryGroup", level: float) -> pl.DataFrame:
        """Published counts, and estimates from the measurements alone, by geocode and labels; raises StoreError."""
        from tallyveil.postprocess.derived.ask import Terms, answer_question
        from tallyveil.postprocess.derived.question import Question

        columns = {factor.name: factor.attribute for factor in group.factors if factor.name is not None}
        answer = answer_question(self._release.root, Question(by=(area, *columns)), terms=Terms(level))
        return answer.table.select(
            "geocode",
            *(pl.col(name).alias(attribute) for name, attribute in columns.items()),
            published="count",
            estimate="estimate",
            estimate_lower="lower",
            estimate_upper="upper",
        )

    def _answers(self, area: str, query: str) -> "NDArray[np.int64]":
        """Answers of every draw; shape (draws, areas, answers)."""
        from tallyveil.postprocess.draws.job import read_draws

        level, at = self._level(area), self._level(self._stated.geolevel)
        original, group = self._release.hierarchies.original, self._release.schema.query(query)
        above = np.arange(original.n_geounits(at))
        for number in range(at, level, -1):
            above = original.parents(number)[above]
        answers = []
        for counts in read_draws(self.path, self._release, self._stated):
            of_geounits = group.apply(*counts.rows(0, counts.n_geounits), counts.n_geounits)
            summed = np.zeros((original.n_geounits(level), group.size), np.int64)
            np.add.at(summed, above, of_geounits)
            answers.append(summed)
        return np.stack(answers)

    def _level(self, area: str) -> int:
        geolevels = self._release.hierarchies.original.geolevels
        known = geolevels[: geolevels.index(self._stated.geolevel) + 1]
        if area not in known:
            raise ConfigError(
                f"{self.path} has no draws of {area!r}. It has draws of {', '.join(known)}.", code="no-table"
            )
        return geolevels.index(area)

    def _labels(self, area: str, query: str) -> pl.DataFrame:
        """Geocode and labels of every answer of every area."""
        original, group = self._release.hierarchies.original, self._release.schema.query(query)
        codes = original.geocodes[self._level(area)].text
        columns = pl.DataFrame(label_columns(group, np.arange(group.size))).drop(summed_out(group))
        areas = pl.DataFrame({"geocode": codes})
        # A frame without columns has no rows either.
        return areas.join(columns, how="cross", maintain_order="left_right") if columns.width else areas


@checked
def make_draws(
    release: AnyPath,
    out: AnyPath,
    *,
    number: WholeNumber = 100,
    seed: WholeNumber = 1,
    experimental_blocks: Flag = False,
    covariates: AnyPath | None = None,
    earlier_census: AnyPath | None = None,
    sweeps: WholeNumber | None = None,
    workers: Workers | None = None,
    observer: Progress | None = None,
) -> Draws:
    """Draw complete tables of a release from what its noisy measurements and a model of its blocks say together.

    Args:
        release: Folder of a finished release with all its measurements.
        out: A new or empty folder.
        number: Number of draws.
        seed: Another seed gives other draws.
        experimental_blocks: Whether the counts of the finest geolevel are written, instead of those of the one above.
            Their intervals are too narrow for rare groups.
        covariates: A table with a column `geocode` and one or two columns of public numbers of every finest geounit,
            such as housing units (CSV or Parquet); None for none. Every such number becomes part of the model.
        earlier_census: A table of counts of an earlier census, with the columns `geocode`, some attributes and `count`
            (CSV or Parquet); None for none. The model learns from it who lives where.
        sweeps: Sweeps of a chain after which it is given up; None for 16,384.
        workers: Chains that run at once; None for one per core. Draws do not depend on it.
        observer: Receives reports of progress.
    Returns:
        The draws.
    Raises:
        ConfigError: a number is out of range, the release has no posterior here, or a public file cannot be used.
        GeographyError, SchemaError: a public file cannot be used.
        SolverError: the chains do not agree, so that nothing was written.
        StoreError: the release is damaged, or the folder cannot be written.
    Privacy: post-processing; costs nothing.
    """
    from tallyveil.estimation.posterior.sampling import LONGEST
    from tallyveil.postprocess.draws import job

    job.make_draws(
        Path(release),
        Path(out),
        number=number,
        seed=seed,
        experimental=experimental_blocks,
        covariates=None if covariates is None else Path(covariates),
        earlier_census=None if earlier_census is None else Path(earlier_census),
        longest=LONGEST if sweeps is None else sweeps,
        workers=workers,
        observer=observer,
    )
    return open_draws(out, release)


@checked
def open_draws(out: AnyPath, release: AnyPath) -> Draws:
    """Open the draws of a release.

    Args:
        out: Their folder.
        release: Folder of the release.
    Raises:
        StoreError: there are no draws, or they are of another release.
    """
    from tallyveil.postprocess.draws.job import read_description
    from tallyveil.postprocess.draws.model import on_given_geography
    from tallyveil.postprocess.intervals.model import open_release

    opened = on_given_geography(open_release(Path(release)))
    return Draws(Path(out), opened, read_description(Path(out), opened))


@checked
def combined(estimates: Values, variances: Values) -> dict[str, Any]:
    """An estimate from every draw, combined by the rules for multiple imputations (Rubin 1987).

    Args:
        estimates: What was estimated from each draw, such as a coefficient of a regression.
        variances: Its variance, computed from the draw as if it were the true table.
    Returns:
        `estimate`; `standard_error`; `degrees_of_freedom` of Student's law; and `share`, the part of the variance that
        comes from the noise.
    Raises:
        ConfigError: there are fewer than two draws, or not one variance for each estimate, or a negative one.
    """
    each, within = np.asarray(estimates, np.float64), np.asarray(variances, np.float64)
    if len(each) != len(within) or len(each) < 2:
        raise ConfigError(
            f"got {len(each)} estimates and {len(within)} variances; wanted as many of both, two or more.",
            code="bad-argument",
        )
    # Beyond 1e150 squares overflow.
    if not ((np.abs(each) < 1e150).all() and ((within >= 0) & (within < 1e300)).all()):
        raise ConfigError(
            "an estimate or a variance is no number of usual size, or a variance is negative. Give those of one "
            "statistic for each draw.",
            code="bad-argument",
        )
    m = len(each)
    noise = (1.0 + 1.0 / m) * each.var(ddof=1)
    total = within.mean() + noise
    share = float(noise / total) if total > 0 else 0.0
    return {
        "estimate": float(each.mean()),
        "standard_error": float(np.sqrt(total)),
        "degrees_of_freedom": (m - 1) / share**2 if share > 0 else float("inf"),
        "share": share,
    }
