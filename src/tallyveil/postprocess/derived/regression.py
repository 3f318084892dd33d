"""Regression on areas whose outcome and regressors are noisy counts or shares, with the known covariance of the noise.

Problem. Of each of n areas, an outcome and regressors follow from counts before noise, with Y = X b + e. Known are
y = Y + v and x = X + u, where the noise (v, u) of an area has the covariances S_uu and S_uv. Least squares of y on x
gives slopes that are too small (attenuation), since the noise of x adds to its spread and not to what it explains.

Corrected moments. The noise adds S_uu to each x x' and S_uv to each x y, on average. So

    M = sum of (x x' - S_uu),   m = sum of (x y - S_uv),   b = M^-1 m.

Standard errors. b solves the sum of psi = x (y - x'b) - (S_uv - S_uu b) = 0, of which each term has the mean zero. With
B for the sum of psi psi', the covariance of b is M^-1 B M^-1 (sandwich). Areas share noise, because their counts add up
to known totals. To first order, this adds x_i x_j' Cov(v_i - u_i'b, v_j - u_j'b) to B for each pair of areas.

SIMEX, as a check. With z times the noise added once more, least squares would give (sum x x' + z S_uu)^-1
(sum x y + z S_uv), for many areas. A parabola through the values at z = 0, 1/2, 1, 3/2, 2 is extended to z = -1, where
there would be no noise. It corrects most of the attenuation if this is small, and less of it if it is large.

Shares. A share r = a / b has the noise (e_a - r e_b) / b, and the bias (r Var b - Cov(a, b)) / b^2 to second order,
which is subtracted. The logit ln(r / (1 - r)) has the slope s = 1 / (r (1 - r)) and the second derivative
(2 r - 1) s^2.

Refusal. The part k of the spread of a combination of regressors that is noise is the largest eigenvalue of S_uu against
x x' (both about the mean). By noise, the moments that are left have the relative error (4 k (1 - k) + 2 k^2)^(1/2) /
(1 - k) / n^(1/2). Above `MOST_ERROR` there is no corrected estimate.

Worked case. A regressor has the variance 3 over the areas, of which 1 is noise. Least squares gives 2/3 of the slope.
The corrected moments divide by 3 - 1 instead of 3, which gives all of it. SIMEX extends 2/3, 0.57, 0.5, ... to 0.90.

Sources: Fuller 1987, Measurement Error Models, sections 2.2 and 3.1; Cook and Stefanski 1994, Journal of the American
Statistical Association 89, 1314-1328 (SIMEX); Carroll, Ruppert, Stefanski and Crainiceanu 2006, Measurement Error in
Nonlinear Models, appendix A.6 (sandwich).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.linalg import eigh

from tallyveil.arrays import Floats
from tallyveil.errors import ConfigError
from tallyveil.estimation.intervals.interval import refuse_level, two_sided_quantile
from tallyveil.exact import as_given, type_of
from tallyveil.files.marks import short_mark
from tallyveil.postprocess.derived.answer import Answer, column_of, refuse_matrix
from tallyveil.postprocess.derived.numbers import is_finite

MOST_ERROR: Final = 0.25
"""Relative error of the corrected moments by noise above which they are not used. The bias that is left is about its
square, 6 %; with twice as much it would be 25 %, as much as that of a regressor with a quarter of noise."""
STEPS: Final = np.array([0.0, 0.5, 1.0, 1.5, 2.0])
"""How often the noise is added in SIMEX, as Cook and Stefanski have it."""
INTERCEPT: Final = "intercept"

Labels = Mapping[str, str | Sequence[str]]


@dataclass(frozen=True, slots=True)
class Variable:
    """An outcome or a regressor of areas; made by `count` and `share`, or of public numbers.

    Attributes:
        part: Levels that are counted, by the column of the answer; empty for everybody.
        whole: Levels of the denominator; None for a count.
        is_logit: Whether the logit of the share is meant.
        numbers: A public number of each area, without noise, in the place of counts; None for counts.
    """

    part: dict[str, tuple[str, ...]]
    whole: dict[str, tuple[str, ...]] | None = None
    is_logit: bool = False
    numbers: dict[str, float] | None = None


def count(labels: Labels | None = None) -> Variable:
    """The number of people of an area with some levels.

    Args:
        labels: A level or several of each column, such as {"work": "employed"}; None for everybody.
    Raises:
        ConfigError: the labels are no text.
    """
    return Variable(_labels(labels))


def share(labels: Labels, of: Labels | None = None, *, logit: bool = False) -> Variable:
    """The share of people with some levels in those with others.

    Args:
        labels: As for `count`.
        of: Levels of the denominator; None for everybody.
        logit: Whether ln(r / (1 - r)) is meant, for an outcome that follows a logistic curve.
    Raises:
        ConfigError: the labels are no text.
    """
    return Variable(_labels(labels), _labels(of), logit)


@dataclass(frozen=True, slots=True, eq=False)
class Regression:
    """A regression that accounts for the noise.

    Attributes:
        table: One row for the intercept and each regressor: `term`, `estimate`, `standard_error`, `lower`, `upper`;
            `naive` and `naive_standard_error`, by least squares without correction; `simex`; and `noise`, the part of
            the regressor's variance over the areas that is noise.
        n: Number of areas.
        level: Coverage of the intervals.
        warnings: What must be said wherever the release is shown.
    """

    table: pl.DataFrame
    n: int
    level: float
    warnings: tuple[str, ...]

    def to_frame(self) -> pl.DataFrame:
        """The table."""
        return self.table

    def __repr__(self) -> str:
        return f"<Regression on {self.n:,} areas{short_mark(self.warnings)}>\n{self.table}"

    def _repr_html_(self) -> str:
        return f"<strong>Regression{short_mark(self.warnings)}</strong>{self.table._repr_html_()}"


Explained = Variable | Mapping[str, float]
"""A variable, or a public number of each area by its geocode."""


def regress(
    counts: Answer, outcome: Explained, regressors: Mapping[str, Explained], *, level: float = 0.95
) -> Regression:
    """Least squares over areas whose outcome and regressors are noisy, corrected for the noise.

    Args:
        counts: Counts of areas by all attributes that the variables name, such as release.ask("work by age by Tract").
        outcome: What is explained: a variable, or a public number of each area, such as the earnings of a survey.
        regressors: What explains it, by name; variables or public numbers. There is an intercept besides.
        level: Coverage of the intervals.
    Returns:
        Corrected estimates with standard errors, beside naive ones and those of SIMEX.
    Raises:
        ConfigError: the answer has no counts by area, or not by a column that a variable names; there are too few
            areas; a count is not determined; a share may have no denominator, or a logit no finite value; or so much of
            a regressor is noise that nothing can be said.
    Privacy: post-processing of what a release publishes.
    """
    refuse_level(level)
    named = _named(regressors)
    areas = _areas(counts)
    variables = [_variable(given) for given in (outcome, *named.values())]
    n, p = len(areas), len(named) + 1
    if n < p + 2:
        raise _refused(f"{n:,} areas are too few for {p} terms. Ask for areas of a finer geolevel.")
    inputs = _made(counts, areas, variables)
    x = np.column_stack([np.ones(n), inputs.values[1:].T])
    noise = inputs.noise()
    fit = corrected(inputs.values[0], x, noise, inputs.covariance)
    quantile = two_sided_quantile(level)
    table = pl.DataFrame(
        {
            "term": [INTERCEPT, *named],
            "estimate": fit.slopes,
            "standard_error": fit.errors,
            "lower": fit.slopes - quantile * fit.errors,
            "upper": fit.slopes + quantile * fit.errors,
            "naive": fit.naive,
            "naive_standard_error": fit.naive_errors,
            "simex": fit.simex,
            "noise": [0.0, *noise_shares(x, noise)],
        }
    )
    return Regression(table, n, level, counts.warnings)


class Corrected(NamedTuple):
    """Slopes (p,) by corrected moments, by least squares and by SIMEX, with standard errors."""

    slopes: Floats
    errors: Floats
    naive: Floats
    naive_errors: Floats
    simex: Floats


def corrected(y: Floats, x: Floats, noise: Floats, covariance: Floats | None = None) -> Corrected:
    """Regression with noise in outcome and regressors.

    Args:
        y: Outcomes; shape (n,).
        x: Regressors, the first of them without noise and all 1; shape (n, p).
        noise: Covariances of the noise of each area, the outcome first and then the regressors beside the first one;
            shape (n, p, p).
        covariance: The covariances of all areas, with the same numbers on its diagonal; shape (p, n, p, n). None if the
            noise of different areas is independent.
    Raises:
        ConfigError: too much of the regressors is noise.
    """
    n, p = x.shape
    within = np.zeros((n, p, p))
    within[:, 1:, 1:] = noise[:, 1:, 1:]
    with_outcome = np.zeros((n, p))
    with_outcome[:, 1:] = noise[:, 1:, 0]
    moments, products = x.T @ x, x.T @ y
    _refuse_noise(moments, within.sum(axis=0), n)
    spread, shared = within.sum(axis=0), with_outcome.sum(axis=0)
    inverse = np.linalg.inv(moments - spread)
    slopes = inverse @ (products - shared)
    terms = x * (y - x @ slopes)[:, None] - (with_outcome - within @ slopes)
    middle = terms.T @ terms * n / (n - p)
    if covariance is not None:
        # The noise of y - x'b: 1 times that of the outcome, less the slopes times those of the regressors.
        weights = np.concatenate([[1.0], -slopes[1:]])
        between = np.einsum("v,vinj,n->ij", weights, covariance, weights)
        np.fill_diagonal(between, 0.0)
        middle = middle + x.T @ between @ x
    squares = np.diag(inverse @ middle @ inverse)
    bread = np.linalg.inv(moments)
    naive = bread @ products
    plain = x * (y - x @ naive)[:, None]
    naive_squares = np.diag(bread @ (plain.T @ plain) @ bread) * n / (n - p)
    added = [np.linalg.solve(moments + step * spread, products + step * shared) for step in STEPS]
    # A parabola through the values at all steps, at -1.
    parabola = np.polynomial.polynomial.polyfit(STEPS, np.array(added), 2)
    simex: Floats = parabola[0] - parabola[1] + parabola[2]
    if not (squares > 0).all():
        raise _refused(
            "the areas share so much of their noise that a standard error comes out as zero. Take fewer areas than "
            "those that add up to a known total."
        )
    return Corrected(slopes, np.sqrt(squares), naive, np.sqrt(naive_squares), simex)


def noise_shares(x: Floats, noise: Floats) -> list[float]:
    """The part of the variance of each regressor beside the first one that is noise."""
    spread = ((x[:, 1:] - x[:, 1:].mean(axis=0)) ** 2).sum(axis=0)
    noise_variances = np.einsum("nvv->v", noise)[1:]
    return [float(part) for part in noise_variances / np.where(spread > 0, spread, np.nan)]


def _refuse_noise(moments: Floats, spread: Floats, n: int) -> None:
    """Refuse regressors of which so much is noise that little is left; raises ConfigError."""
    means = moments[0, 1:] / n
    centred = moments[1:, 1:] - n * np.outer(means, means)
    if not len(centred):
        return
    sizes = np.sqrt(np.diag(centred))
    # By correlations, since counts and shares differ by orders of magnitude.
    if not sizes.all() or np.linalg.matrix_rank(centred / np.outer(sizes, sizes)) < len(centred):
        raise _refused("a regressor is the same in all areas, or follows from the others. Leave it out.")
    most = float(eigh(spread[1:, 1:], centred, eigvals_only=True)[-1])
    error = np.inf if most >= 1 else ((4 * most * (1 - most) + 2 * most**2) / n) ** 0.5 / (1 - most)
    if error > MOST_ERROR:
        raise _refused(
            f"{min(100 * most, 100):.0f} % of the variance of a combination of the regressors is noise, which is too "
            f"much for {n:,} areas. Take larger areas, more areas or coarser groups."
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Made:
    """Values of the variables (variables, areas), and their covariances (variables, areas, variables, areas)."""

    values: Floats
    covariance: Floats

    def noise(self) -> Floats:
        """Covariances of each area; shape (areas, variables, variables)."""
        out: Floats = np.einsum("vina,ia->ivn", self.covariance, np.eye(self.values.shape[1]))
        return out


def _made(counts: Answer, areas: list[NDArray[np.int64]], variables: Sequence[Variable]) -> _Made:
    """The variables of each area, with the covariances of their noise."""
    n = len(areas)
    parts = [_counted(counts, variable, variable.part) for variable in variables]
    parts += [_counted(counts, variable, variable.whole or {}) for variable in variables]
    refuse_matrix(len(parts) * n)
    weights = np.zeros((len(parts), n, counts.table.height))
    for number, rows in enumerate(areas):
        for kind, counted in enumerate(parts):
            weights[kind, number, rows] = counted[rows]
    flat = weights.reshape(-1, counts.table.height)
    estimates = counts.table["estimate"].fill_null(np.nan).to_numpy()
    covariance = counts.covariance(flat)
    # A count that is not determined makes its sums so, and no other.
    used = flat != 0
    sums = np.array([row[mask] @ estimates[mask] for row, mask in zip(flat, used, strict=True)])
    if not (np.isfinite(sums).all() and np.isfinite(covariance).all()):
        raise _refused(
            "the measurements do not determine a count of an area. Take other attributes or larger areas."
        )
    sums, covariance = sums.reshape(2, -1, n), covariance.reshape(2, len(variables), n, 2, len(variables), n)
    values, slopes = np.empty((len(variables), n)), np.zeros((2, len(variables), n))
    for number, variable in enumerate(variables):
        if variable.numbers is not None:
            values[number] = _public(variable.numbers, counts, areas)
            continue
        within_area = covariance[:, number, :, :, number][:, np.arange(n), :, np.arange(n)]
        values[number], slopes[:, number] = _value(variable, sums[:, number], within_area)
    noise = np.einsum("avi,avibwj,bwj->viwj", slopes, covariance, slopes)
    return _Made(values, noise)


LEAST_SCORE: Final = 2.0
"""Standard errors that a denominator, a share and its complement must be above zero. At fewer, the expansions to second
order are off by more than they correct; twice as many would leave out most tracts for small groups."""


def _value(variable: Variable, sums: Floats, within_area: Floats) -> tuple[Floats, Floats]:
    """A variable of all areas, without bias to second order; and its slopes by part and whole (2, areas)."""
    part, whole = sums
    if variable.whole is None:
        return part, np.stack([np.ones(len(part)), np.zeros(len(part))])
    _refuse_small(whole, within_area[:, 1, 1], "the denominator of a share")
    ratio = part / whole
    slopes = np.stack([np.ones(len(part)), -ratio]) / whole
    bias = (ratio * within_area[:, 1, 1] - within_area[:, 0, 1]) / whole**2
    if not variable.is_logit:
        return ratio - bias, slopes
    spread = np.einsum("an,nab,bn->n", slopes, within_area, slopes)
    _refuse_small(ratio, spread, "a share with a logit")
    _refuse_small(1 - ratio, spread, "the complement of a share with a logit")
    slope = 1 / (ratio * (1 - ratio))
    curve = (2 * ratio - 1) * slope**2
    return np.log(ratio / (1 - ratio)) - slope * bias - curve * spread / 2, slope * slopes


def _refuse_small(values: Floats, variances: Floats, what: str) -> None:
    small = values <= LEAST_SCORE * np.sqrt(np.maximum(variances, 0.0))
    if small.any():
        raise _refused(
            f"{what} may be zero before noise in {int(small.sum()):,} of {len(values):,} areas. Take larger areas: to "
            "leave these out would choose areas by their noise."
        )


def _public(numbers: Mapping[str, float], counts: Answer, areas: list[NDArray[np.int64]]) -> Floats:
    """The public number of each area; raises ConfigError if there is none."""
    codes = [counts.table["geocode"][int(rows[0])] for rows in areas]
    lacking = [code for code in codes if code not in numbers]
    if lacking:
        raise _refused(
            f"the public numbers lack {len(lacking):,} of {len(codes):,} areas, such as {as_given(lacking[0])}. Give "
            "one for each, or ask for the areas that have one: in AREA, AREA."
        )
    return np.array([float(numbers[code]) for code in codes])


def _areas(counts: Answer) -> list[NDArray[np.int64]]:
    """The rows of each area; raises ConfigError if the answer does not have what is wanted."""
    if not isinstance(counts, Answer) or not counts.is_counts:
        raise _refused("the answer holds no counts. Ask for counts: release.ask('work by Tract').")
    codes = column_of(counts, "geocode")
    _, first, number = np.unique(codes.to_numpy(), return_index=True, return_inverse=True)
    rows = [np.flatnonzero(number == place) for place in np.argsort(first)]
    return [part.astype(np.int64) for part in rows]


def _variable(given: object) -> Variable:
    """A variable, from public numbers too; raises ConfigError if it is none."""
    if isinstance(given, Variable):
        return given
    if not isinstance(given, Mapping):
        raise _refused(
            f"a variable is {type_of(given)}, wanted analysis.count(...), analysis.share(...), or a public number of "
            "each area by its geocode."
        )
    wrong = [code for code, number in given.items() if not is_finite(number)]
    if wrong:
        raise _refused(
            f"the public number of {as_given(wrong[0])} is no finite number. Give one for each area."
        )
    return Variable({}, numbers=dict(given))


def _counted(counts: Answer, variable: Variable, labels: Mapping[str, tuple[str, ...]]) -> NDArray[np.bool_]:
    """Which rows of the answer have the labels; none for public numbers."""
    out = np.full(counts.table.height, variable.numbers is None)
    for name, levels in labels.items():
        column = column_of(counts, name)
        strange = [level for level in levels if not (column == level).any()]
        if strange:
            raise _refused(f"the column {name!r} of the answer has no level {as_given(strange[0])}.")
        out &= column.is_in(levels).to_numpy()
    return out


def _named(regressors: object) -> dict[str, Explained]:
    if not isinstance(regressors, Mapping) or not regressors or INTERCEPT in regressors:
        raise _refused(
            f"the regressors are {as_given(regressors)}, wanted variables by names other than {INTERCEPT!r}, such as "
            '{"old": analysis.share({"age": "65+"})}.'
        )
    if not all(isinstance(name, str) for name in regressors):
        raise _refused("names of regressors are text.")
    return dict(regressors)


def _labels(labels: Any) -> dict[str, tuple[str, ...]]:
    if labels is None:
        return {}
    sound = isinstance(labels, Mapping) and all(isinstance(name, str) for name in labels)
    given = (
        {name: (level,) if isinstance(level, str) else level for name, level in dict(labels).items()}
        if sound
        else {}
    )
    if not sound or not all(
        isinstance(levels, Sequence) and all(isinstance(level, str) for level in levels)
        for levels in given.values()
    ):
        raise _refused(
            f'labels are {as_given(labels)}, wanted levels by column, such as {{"work": ["employed"]}}.'
        )
    return {name: tuple(levels) for name, levels in given.items()}


def _refused(message: str) -> ConfigError:
    return ConfigError(message, code="bad-regression")
