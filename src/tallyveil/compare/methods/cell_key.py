"""Cell key perturbation, with perturbation tables of the R package ptable, of the ONS, or of maximum entropy."""

from pathlib import Path
from typing import ClassVar, Final, Literal, Self

import numpy as np
import polars as pl
from pydantic import Field, model_validator

from tallyveil.arrays import Floats, IntegerRows
from tallyveil.compare.inputs import PublicInput
from tallyveil.compare.methods.keyed import Perturbation, publish_with_keys, record_keys
from tallyveil.compare.methods.method import SMALL_DELTA, Method, Office
from tallyveil.compare.published import Published
from tallyveil.declared import Exact
from tallyveil.errors import ConfigError, StoreError
from tallyveil.storage.addresses import InputPath
from tallyveil.storage.json_files import read_text_file
from tallyveil.storage.read import UNREADABLE, read_text

KEYS: Final = 1 << 16
"""Number of cell keys where a table is given as probabilities. Each probability is then right to 1/65,536; half as many
keys would be enough for every table in use, and twice as many change nothing that could be measured."""

ONS_ROWS: Final = 750
ONS_REPEATS: Final = 501
"""The ONS's tables have rows for the counts 1 to 750, and larger counts use the rows 501 to 750 again."""


class CellKey(Method):
    """Cell key perturbation: each count is changed by a small random number that follows from its records' keys.

    Give either `table`, a perturbation table, or `largest` and `variance`, from which a table of maximum entropy is
    made: changes of at most `largest` with mean 0 and at most this variance, and as random as that allows. Empty cells
    stay empty.
    """

    family: ClassVar[str] = "cell key"
    literature: ClassVar[str] = (
        "Fraser and Wooton 2005; Thompson, Broadfoot and Elazar 2013; Giessing 2016; Bailie and Chien 2019"
    )
    cannot: ClassVar[str] = (
        "It has no bound on what many questions reveal together: every new union of areas has a new key, so answers "
        "about overlapping areas can be averaged. Tables do not add up."
    )
    strength: ClassVar[str] = (
        "Errors of single counts are small and do not grow with the count, empty cells stay empty, and a table that is "
        "asked for twice is the same twice."
    )
    unbounded: ClassVar[str] = SMALL_DELTA

    kind: Literal["cell_key"] = "cell_key"
    table: InputPath | None = Field(
        default=None,
        description="Perturbation table: a CSV file of the ONS (pcv, ckey, pvalue), or one of the R package ptable "
        "(i, v, p_int_ub, ...).",
    )
    largest: int | None = Field(default=None, ge=1, le=50, description="Largest change, D of ptable.")
    variance: Exact | None = Field(default=None, gt=0, description="Variance of the changes, V of ptable.")
    never: int = Field(
        default=0, ge=0, le=10, description="Counts from 1 to this are never published, js of ptable."
    )
    threshold: int = Field(default=0, ge=0, description="Published counts below this are not shown.")

    @model_validator(mode="after")
    def _is_one_table(self) -> Self:
        if (self.table is None) == (self.largest is None) or (self.largest is None) != (
            self.variance is None
        ):
            raise ValueError("give either table, or both largest and variance")
        if self.table is not None and self.never:
            raise ValueError(
                "never belongs to largest and variance; a table says itself which counts it avoids"
            )
        return self

    def require_fit(self, public: PublicInput) -> None:
        """Refuse a table that cannot be read or made; raises ConfigError or StoreError."""
        self.stated_law()

    def publish(self, office: Office) -> Published:
        """As in `Method`."""
        perturbation = self.stated_law()
        keys = record_keys(
            office.shared, perturbation.n_keys, office.lasting.generator(self.kind, self.name, "record keys")
        )
        return publish_with_keys(office.shared, perturbation, keys)

    def stated_law(self) -> Perturbation:
        """The table that the settings name; raises ConfigError or StoreError where it cannot be read."""
        if self.table is not None:
            return read_perturbation(self.table, self.threshold)
        assert self.largest is not None
        assert self.variance is not None
        rows = [
            _maximum_entropy(count, self.largest, float(self.variance), self.never)
            for count in range(self.largest + self.never + 2)
        ]
        shifts = np.stack([_by_key(np.cumsum(shares), -self.largest) for shares in rows])
        return Perturbation(shifts, len(rows) - 1, self.threshold)


def _by_key(cumulative: Floats, first: int) -> IntegerRows:
    """The change of each key, from cumulative probabilities of the changes first, first + 1, ..."""
    # The middle of a key's interval decides, so that each change gets its share of the keys to half a key.
    middle = (np.arange(KEYS) + 0.5) / KEYS
    place = np.searchsorted(cumulative, middle, side="right")
    return np.asarray(np.minimum(place, cumulative.size - 1) + first, dtype=np.int64)


def _maximum_entropy(count: int, largest: int, variance: float, never: int) -> Floats:
    """Probabilities of the changes -largest..largest of a count: mean 0, at most this variance, the greatest entropy.

    The law is proportional to exp(a d + b d^2) over the allowed changes d. Its two numbers minimise a convex function,
    the logarithm of the sum of exp(a d + b (d^2 - variance)), with b <= 0: without the second, the variance is below.

    Source: Giessing 2016; Marley and Leaver 2011.
    """
    from scipy.optimize import minimize

    shares = np.zeros(2 * largest + 1)
    if count == 0:
        shares[largest] = 1.0
        return shares
    change = np.arange(-largest, largest + 1)
    result = count + change
    allowed = (result >= 0) & ((result == 0) | (result > never))
    d = change[allowed].astype(np.float64)
    if d.min() > 0 or d.max() < 0:
        raise ConfigError(
            f"no change of the count {count} by at most {largest} has the mean 0 if counts from 1 to {never} are never "
            "published. Raise largest, or lower never.",
            code="perturbation-table",
        )

    def log_sum(at: Floats) -> float:
        return float(np.logaddexp.reduce(at[0] * d + at[1] * (d * d - variance)))

    # A curvature above zero would make the extreme changes the likeliest, which has less entropy than a flat law.
    best = minimize(log_sum, [0.0, -0.1], method="L-BFGS-B", bounds=[(-50, 50), (-50, 0)])
    weights = best.x[0] * d + best.x[1] * d * d
    shares[allowed] = np.exp(weights - np.logaddexp.reduce(weights))
    return shares


def read_perturbation(path: Path, threshold: int = 0) -> Perturbation:
    """Read a perturbation table of either format, which its header tells.

    Raises:
        ConfigError: it has neither header, or lacks a row or a key.
        StoreError: it cannot be read.
    """
    table = _read(path)
    if {"pcv", "ckey", "pvalue"} <= set(table.columns):
        return _of_ons(path, table, threshold)
    if {"i", "v", "p_int_ub"} <= set(table.columns):
        return _of_ptable(path, table, threshold)
    raise ConfigError(
        f"{path} is no perturbation table: wanted the columns pcv, ckey and pvalue of the ONS, or i, v and p_int_ub of "
        "the R package ptable. Export the table in one of these formats, with a header line.",
        code="perturbation-table",
    )


def _read(path: Path) -> pl.DataFrame:
    """The table as text. The ONS writes commas, and ptable semicolons."""
    try:
        text = read_text_file(path)
        separator = ";" if ";" in text.partition("\n")[0] else ","
        return read_text(path, separator)
    except (ValueError, *UNREADABLE) as error:
        raise StoreError(
            f"the perturbation table {path} cannot be read: {type(error).__name__}. Name an existing CSV file with a "
            "header line.",
            code="input-missing",
        ) from None


def _numbers(path: Path, text: pl.DataFrame, columns: dict[str, type[pl.DataType]]) -> pl.DataFrame:
    stripped = [pl.col(name).str.strip_chars().cast(kind, strict=False) for name, kind in columns.items()]
    table = text.select(stripped)
    if sum(table.null_count().row(0)):
        raise _incomplete(path, "holds something that is no number")
    return table


def _of_ons(path: Path, text: pl.DataFrame, threshold: int) -> Perturbation:
    table = _numbers(path, text, {"pcv": pl.Int64, "ckey": pl.Int64, "pvalue": pl.Int64})
    counts, keys = table["pcv"].to_numpy(), table["ckey"].to_numpy()
    n_keys = int(keys.max()) + 1
    whole = set(zip(counts.tolist(), keys.tolist(), strict=True))
    if (
        len(whole) != table.height
        or table.height != ONS_ROWS * n_keys
        or min(counts) < 1
        or max(counts) > ONS_ROWS
    ):
        raise _incomplete(path, f"does not have every count from 1 to {ONS_ROWS} with every key once")
    shifts = np.zeros((ONS_ROWS + 1, n_keys), dtype=np.int64)
    shifts[counts, keys] = table["pvalue"].to_numpy()
    return Perturbation(shifts, ONS_REPEATS, threshold)


def _of_ptable(path: Path, text: pl.DataFrame, threshold: int) -> Perturbation:
    table = _numbers(path, text, {"i": pl.Int64, "v": pl.Int64, "p_int_ub": pl.Float64}).sort("i", "p_int_ub")
    largest = int(table["i"].max())  # type: ignore[arg-type]
    shifts = np.zeros((largest + 1, KEYS), dtype=np.int64)
    for count in range(1, largest + 1):
        row = table.filter(pl.col("i") == count)
        if row.is_empty() or abs(row["p_int_ub"][-1] - 1) > 1e-6:  # the packages write eight digits
            raise _incomplete(path, f"has no row for the count {count} whose probabilities add up to 1")
        ends = row["p_int_ub"].to_numpy()
        shifts[count] = row["v"].to_numpy()[_by_key(ends, 0)]
    return Perturbation(shifts, largest, threshold)


def _incomplete(path: Path, what: str) -> ConfigError:
    return ConfigError(
        f"the perturbation table {path} {what}. Export it again from the program that made it.",
        code="perturbation-table",
    )
