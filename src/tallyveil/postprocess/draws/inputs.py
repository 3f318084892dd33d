"""The public files that draws may learn from: numbers of every block, and the counts of an earlier census."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Floats, Integers
from tallyveil.errors import ConfigError, GeographyError
from tallyveil.estimation.posterior.covariates import MOST, Coding, Covariates
from tallyveil.estimation.posterior.earlier import EarlierCensus
from tallyveil.estimation.posterior.problem import LARGEST
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.tables import GEOCODE, area_columns, read_assignments, read_public_numbers
from tallyveil.postprocess.intervals.model import FinishedRelease
from tallyveil.printable import short_name, some_names
from tallyveil.schema.answer_columns import code_expression
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema
from tallyveil.storage.read import require_counts, scan_table, unchanged_digest, whole_number

COUNT: Final = "count"
"""Column of the counts of an earlier census, as in a histogram file of a release."""
PEOPLE: Final = "people of the earlier census"
"""Name of the covariate that an earlier census of blocks gives."""
_WHAT: Final = "earlier census"


@dataclass(frozen=True, slots=True, eq=False)
class PublicInputs:
    """What draws learn from besides the measurements.

    Attributes:
        covariates: Public numbers of every block; None for none.
        covariates_sha256: SHA-256 of their file; empty if there is none.
        earlier: The counts of an earlier census; None for none.
        earlier_sha256: SHA-256 of their file; empty if there is none.
    """

    covariates: Covariates | None
    covariates_sha256: str
    earlier: EarlierCensus | None
    earlier_sha256: str

    @property
    def codings(self) -> tuple[Coding, ...]:
        """How the numbers of each covariate were coded."""
        return self.covariates.codings if self.covariates else ()


def read_inputs(release: FinishedRelease, covariates: Path | None, earlier: Path | None) -> PublicInputs:
    """Read the public files.

    Where the earlier census is of blocks, its totals are a covariate, too.

    Args:
        release: The release.
        covariates: A table of numbers; None for none.
        earlier: A table of counts; None for none.
    Raises:
        ConfigError, GeographyError, SchemaError: a file cannot be used.
        StoreError: a file is missing or unreadable, or was replaced while it was read.
    """
    spine = release.spine
    names: tuple[str, ...] = ()
    columns: list[Floats] = []
    census, of_covariates, of_earlier = None, "", ""
    if earlier is not None:
        with unchanged_digest(earlier, _WHAT) as of_earlier:
            census = read_earlier_census(earlier, release.hierarchies, release.schema)
        totals = np.asarray(census.counts.sum(axis=1), np.float64).ravel()
        if census.level == spine.finest and (totals != totals[0]).any():
            names, columns = (PEOPLE,), [totals]
    if covariates is not None:
        with unchanged_digest(covariates, "covariates") as of_covariates:
            stated, numbers = read_public_numbers(covariates, spine, MOST, names)
        names, columns = (*stated, *names), [*numbers.T, *columns]
    known = Covariates.of(names, np.stack(columns, axis=1)) if names else None
    return PublicInputs(known, of_covariates, census, of_earlier)


def read_earlier_census(path: Path, hierarchies: Hierarchies, schema: Schema) -> EarlierCensus:
    """Read counts of the geounits of one geolevel, which is the finest one that has all geocodes of the file.

    Args:
        path: Parquet, or text with commas or `|` between its columns: geocodes, the levels of some attributes, and
            `count`. Geounits and levels without a row have no people, and rows of the same ones are added. An attribute
            without a level in any row counts as absent.
        hierarchies: The geography of the release.
        schema: The universe.
    Raises:
        ConfigError: a column is missing or unknown, or holds something else than levels or whole numbers.
        GeographyError: no geolevel below the root has all geocodes, or the spine that was measured lacks it.
        SchemaError, StoreError: as `require_counts` and `read_assignments` raise them.
    """
    names = area_columns(path, _WHAT, text=False)
    attributes = [name for name in names if name in schema.attribute_names]
    if sorted(names) != sorted([*attributes, COUNT]) or not attributes:
        raise _refused(
            path,
            f"has the columns {some_names(names) or 'of geocodes alone'}, wanted {COUNT} and one or more of the "
            f"attributes {some_names(schema.attribute_names)}, and no others",
        )
    require_counts(scan_table(path, [COUNT], _WHAT), COUNT, path, _WHAT)
    table = read_assignments(path, [*attributes, COUNT], _WHAT)
    given = [name for name in schema.attribute_names if name in attributes and table[name].count()]
    if not given:
        raise _refused(
            path, "names no level of an attribute in any row, so that it does not say who lives where"
        )
    query = schema.query("*".join(given))
    counts, answers = _counts(path, table), _answers(path, table, query)
    return _on_spine(path, hierarchies, table[GEOCODE], query, answers, counts)


def _counts(path: Path, table: pl.DataFrame) -> Integers:
    counts = table.select(whole_number(COUNT)).to_series().fill_null(-1).to_numpy()
    if wrong := int((counts < 0).sum()):
        raise _refused(path, f"has {wrong:,} rows without a whole number of 0 or more in the column {COUNT}")
    # The largest first, since a sum of larger ones might not fit.
    if counts.max(initial=0) > LARGEST or counts.sum() > LARGEST:
        raise _refused(path, f"has more than {LARGEST:,} people")
    return counts


def _answers(path: Path, table: pl.DataFrame, query: QueryGroup) -> Integers:
    """The answer of the query that each row counts."""
    answers = np.zeros(len(table), np.int64)
    for factor in query.named_factors:
        codes = table.select(code_expression(factor.attribute, factor.labels))[factor.attribute]
        if wrong := codes.null_count():
            raise _refused(path, f"has {wrong:,} rows whose {factor.attribute} is no level of this attribute")
        answers = answers * factor.size + codes.to_numpy()
    return answers


def _on_spine(
    path: Path,
    hierarchies: Hierarchies,
    codes: pl.Series,
    query: QueryGroup,
    answers: Integers,
    counts: Integers,
) -> EarlierCensus:
    """The counts of the geounits of the spine that was measured."""
    from scipy.sparse import csr_array

    spine, original = hierarchies.spine, hierarchies.original
    level, rows = _located(path, hierarchies, codes)
    size = original.n_geounits(level), query.size
    of_original = csr_array((counts.astype(np.int32), (rows, answers)), size)
    of_spine = spine.level_index(original.geolevels[level])
    # A geounit that steps of the spine have cut or put together has the counts of all in which it has blocks.
    place = hierarchies.original_ancestors(level)
    pairs = np.unique(np.stack([spine.ancestors(of_spine), place], axis=1), axis=0)
    parts = csr_array(
        (np.ones(len(pairs), np.int32), (pairs[:, 0], pairs[:, 1])), (spine.n_geounits(of_spine), size[0])
    )
    return EarlierCensus(of_spine, query, parts @ of_original)


def _located(path: Path, hierarchies: Hierarchies, codes: pl.Series) -> tuple[int, Integers]:
    """Number of the finest measured geolevel that has all geocodes, and its geounit for each; both of the original
    geography.
    """
    original = hierarchies.original
    best, fewest = original.finest, codes
    for level in range(original.finest, 0, -1):
        # Steps may have put parts with another name in the place of a geolevel.
        if original.geolevels[level] not in hierarchies.spine.geolevels[1:]:
            continue
        rows = original.locate(level, codes)
        lost = codes.filter(pl.Series(rows < 0))
        if not len(lost):
            return level, rows
        if len(lost) < len(fewest):
            best, fewest = level, lost
    example = fewest.drop_nulls().head(1).to_list()
    shown = f", such as '{short_name(example[0])}'" if example else ""
    raise GeographyError(
        f"the {_WHAT} file {path} has {len(fewest):,} rows whose geocode is of no {original.geolevels[best]}{shown}; "
        "no other measured geolevel has more of its geocodes. Give counts of one measured geolevel below the root, "
        "with geocodes of the same year as the release, as text, and leave other rows out.",
        code="draws-earlier",
    )


def _refused(path: Path, why: str) -> ConfigError:
    return ConfigError(
        f"the {_WHAT} file {path} {why}. Give a row for each geounit and group with people: the geocode, the level of "
        f"each attribute, and the {COUNT}.",
        code="draws-earlier",
    )
