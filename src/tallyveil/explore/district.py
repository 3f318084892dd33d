"""What a page needs for exact standard errors of any district: `data/district.json` and its arrays.

Nothing in `measurements/` is read, and no estimate. Variances follow from the plan, the geography and the
public bounds of a release, or from those of a plan whose data has not been opened.

The covariances of the estimates are in a file of numbers that the page reads without a library. The page
makes typed arrays of the file's bytes as they are. So every array begins at a multiple of eight bytes, and
has one of four types, little-endian.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from tallyveil.arrays import Floats, Integers, Numbers
from tallyveil.budget.strategy import Mechanism
from tallyveil.errors import ConfigError, ConstraintError, SchemaError, StoreError
from tallyveil.estimation.intervals.algebra import BlockAlgebra, information, zero_blocks
from tallyveil.estimation.intervals.merged import UnmergedModel
from tallyveil.estimation.intervals.model import LevelModel, TreeModel
from tallyveil.explore.files import DATA, write_json_data
from tallyveil.files.manifest_files import MAIN_PRODUCT
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.spine import Spine
from tallyveil.plans.machine import in_gib
from tallyveil.plans.release import ReleasePlan
from tallyveil.postprocess.derived.district import bounds_choice
from tallyveil.postprocess.intervals.fits import IntervalFit, fits_of, planned_fits, table_model
from tallyveil.postprocess.intervals.model import open_release, plan_measured, release_measured
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.write import store_error

# Bytes: a browser makes arrays of a file only where they begin at a multiple of the size of a number. The largest is 8;
# half would break floats, twice would only add padding.
_ALIGNMENT: Final = 8
_WHOLE: Final = (("u1", 1 << 8), ("u2", 1 << 16), ("u4", 1 << 32))
"""Types of whole numbers, and the limit of each."""


class NumbersFile:
    """Arrays that will be written into one file."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._entries: JsonObject = {}

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._size

    @property
    def entries(self) -> JsonObject:
        """For each array its type, the byte at which it begins, and the number of its numbers."""
        return dict(self._entries)

    def add_whole(self, name: str, numbers: ArrayLike) -> str:
        """Add whole numbers of at least 0, in the smallest type that holds them. Returns the name."""
        # Through int64, so that a negative number cannot wrap around in a small type.
        values = np.asarray(numbers, dtype=np.int64).ravel()
        kind = next(kind for kind, limit in _WHOLE if values.max(initial=0) < limit)
        return self._add(name, kind, values)

    def add_floats(self, name: str, numbers: Floats) -> str:
        """Add floats. Returns the name."""
        return self._add(name, "f8", numbers.ravel())

    def _add(self, name: str, kind: str, values: Numbers) -> str:
        # Little-endian by name: browsers read the order of their machine, which is this one on all that are in use.
        content = np.ascontiguousarray(values, dtype=f"<{kind}").tobytes()
        self._entries[name] = [kind, self._size, len(values)]
        # Zeros up to the next multiple, so that the next array begins at one.
        content += bytes(-len(content) % _ALIGNMENT)
        self._pieces.append(content)
        self._size += len(content)
        return name

    def write(self, path: Path) -> None:
        """Write the file.

        Raises:
            StoreError: it cannot be written.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                file.writelines(self._pieces)
        except OSError as error:
            raise store_error(path, error) from error


# Version of the content, which the page compares with the one that it knows.
FORMAT: Final = 1
_TOP: Final = ""
"""Name of the level above the roots, of which nothing is known."""


@dataclass(frozen=True, slots=True, eq=False)
class DescribedTable:
    """A table of the site.

    Attributes:
        query: Its query.
        fit: The model that estimates it; None if there is none that a page can use.
        why: Why there is none; None if there is one.
    """

    query: QueryGroup
    fit: IntervalFit | None
    why: str | None = None


def describe(
    tables: Sequence[DescribedTable], spine: Spine, rows: Integers, *, gaussian: bool
) -> tuple[JsonObject, NumbersFile]:
    """The description of some tables.

    Args:
        tables: The tables, in the order of the site.
        spine: The hierarchy that was measured.
        rows: For each finest geounit of the site, its number in the spine.
        gaussian: Whether the noise is Gaussian.
    Returns:
        Content of `district.json`, and the arrays of `district.bin`.
    """
    numbers = NumbersFile()
    n_finest = spine.n_geounits(spine.finest)
    same = bool(np.array_equal(rows, np.arange(n_finest)))
    # A level above the roots with one geounit, so that the page treats roots like all others.
    roots = np.array([0, spine.n_geounits(0)], np.int64)
    offsets = [
        numbers.add_whole(f"offsets {level}", array)
        for level, array in enumerate((roots, *spine.child_offsets))
    ]
    fits: list[JsonObject] = []
    entries: list[JsonObject] = []
    numbered: list[IntervalFit] = []
    for place, table in enumerate(tables):
        fit = table.fit
        if fit is None:
            entries.append({"name": table.query.name, "fit": None, "gram_of": None, "why": table.why})
            continue
        # Models are shared by tables, and are written once.
        if fit not in numbered:
            numbered.append(fit)
            fits.append(_fit_part(numbers, f"fit {len(fits)}", fit))
        number = numbered.index(fit)
        # Before the arrays' list is taken below: it has all arrays only when all tables are added.
        name = numbers.add_whole(f"table {place} grams", _gram_rows(fit, table.query))
        entries.append({"name": table.query.name, "fit": number, "gram_of": name, "why": None})
    content = {
        "format": FORMAT,
        "gaussian": gaussian,
        "n_finest": n_finest,
        "order": None if same else numbers.add_whole("order", rows),
        "offsets": offsets,
        "fits": fits,
        "tables": entries,
        "arrays": numbers.entries,
    }
    return content, numbers


def inner_bytes(fit: IntervalFit) -> int:
    """Most bytes of the two matrices that a page keeps for every geounit above the finest geolevel."""
    spine = fit.model.spine
    inner = 1 + sum(spine.n_geounits(level) for level in range(spine.finest))
    # Two matrices of 8-byte numbers a geounit; finest ones are kept by signature instead.
    return 2 * 8 * inner * fit.model.algebra.n_block_entries


def _gram_rows(fit: IntervalFit, query: QueryGroup) -> Integers:
    """For each answer of a table, its row of the fit's Gram blocks."""
    begin = 0
    for group in fit.groups:
        if group is query:
            return fit.questions.gram_of[begin : begin + group.size]
        begin += group.size
    raise AssertionError(f"the table '{query.name}' is not one of its model")


def _fit_part(numbers: NumbersFile, name: str, fit: IntervalFit) -> JsonObject:
    model, algebra = fit.model, fit.model.algebra
    levels = (LevelModel(_TOP, (), np.zeros((1, 0)), ()), *model.levels)
    # A query that several geolevels measure has one information matrix.
    groups = {group.factors: group for level in levels for group in level.measured}
    numbered = {factors: number for number, factors in enumerate(groups)}
    blocks = [information(algebra, group) for group in groups.values()]
    explained: list[Floats] = []
    parts: list[JsonObject] = []
    for place, level in enumerate(levels):
        precisions, row = _distinct_precisions(level)
        finest = place == len(levels) - 1
        # One row is enough where all geounits are alike; finest ones have signatures.
        several = len(precisions) > 1 and not finest
        parts.append(
            {
                "name": level.geolevel,
                "measured": [group.name for group in level.measured],
                "queries": [numbered[group.factors] for group in level.measured],
                "told": len(explained) if level.invariants else None,
                "precisions": numbers.add_floats(f"{name} level {place} precisions", precisions),
                "precision_of": numbers.add_whole(f"{name} level {place} rows", row) if several else None,
            }
        )
        if level.invariants:
            exact = [information(algebra, group, normalised=True) for group in level.invariants]
            explained.append(np.asarray(np.sum(exact, axis=0)))
    return {
        "dims": algebra.basis.dims.tolist(),
        "queries": numbers.add_floats(f"{name} queries", _stacked(algebra, blocks)),
        "told": numbers.add_floats(f"{name} told", _stacked(algebra, explained)),
        "grams": numbers.add_floats(f"{name} grams", fit.questions.grams),
        "levels": parts,
        "finest": _finest_part(numbers, name, model),
    }


def _stacked(algebra: BlockAlgebra, rows: Sequence[Floats]) -> Floats:
    return np.array(rows, dtype=np.float64).reshape(-1, algebra.n_block_entries)


def _distinct_precisions(level: LevelModel) -> tuple[Floats, Integers]:
    """The different rows of precisions of a level, and the row of each geounit (of one if all have the same)."""
    # Bypassed geounits have precisions of their own, of which there are few different ones.
    precisions, row = np.unique(level.precisions, axis=0, return_inverse=True)
    return precisions, row.reshape(-1).astype(np.int64)


def _finest_part(numbers: NumbersFile, name: str, model: TreeModel) -> JsonObject:
    """Finest geounits by signature: those with the same precisions and zeros."""
    _, row = _distinct_precisions(model.levels[-1])
    pattern, n_patterns = model.zero_pattern, len(model.zero_patterns)
    # Two numbers in one, so that geounits alike in both are found by one search.
    pairs, signature = np.unique(row * n_patterns + pattern, return_inverse=True)
    zeros = _zero_diagonals(model, pairs % n_patterns)
    return {
        "signature": numbers.add_whole(f"{name} signature", signature),
        "precision": numbers.add_whole(f"{name} signature precisions", pairs // n_patterns),
        "zeros": numbers.add_whole(f"{name} zeros", zeros),
    }


def _zero_diagonals(model: TreeModel, patterns: Integers) -> Floats:
    """For each pattern, the diagonal of its projector on the coefficients that zeros determine."""
    basis = model.algebra.basis
    places = [
        int(begin) + np.arange(dim) * (dim + 1)
        for begin, dim in zip(basis.blocks[:-1], basis.dims.tolist(), strict=True)
    ]
    blocks: Floats = zero_blocks(model.algebra, model.zero_patterns[patterns])
    return blocks[:, np.concatenate(places)]


DISTRICT_FILE: Final = f"{DATA}/district.json"
NUMBERS_FILE: Final = f"{DATA}/district.bin"
LARGEST_MEMORY: Final = 1 << 30
"""Most bytes that the matrices of all models may take in a browser."""
LARGEST_FILE: Final = 1 << 26
"""Most bytes of the arrays of a site."""

_Made = TypeVar("_Made")
_NO_BOUNDS: Final = (
    "the release does not hold its public bounds, from which the standard errors follow. `tallyveil intervals RELEASE "
    "--without-bounds` makes intervals without them, and then this page has standard errors of districts, too."
)
"""Said in the place of the error, which has the path of the folder."""


def write_district(site: Path, root: Path, groups: Sequence[QueryGroup], rows: Integers) -> str | None:
    """Write the description of a release's covariances.

    Args:
        site: Folder of the site.
        root: Folder of the release.
        groups: Queries of the site's tables, in their order.
        rows: For each finest geounit of the site, its number in the finest geolevel of the measured spine.
    Returns:
        None if it is written; otherwise why a page cannot give standard errors of districts.
    Raises:
        StoreError: the folder holds no finished release, or a file in it was changed.
    """
    release = open_release(root, kinds=MAIN_PRODUCT)
    _, with_bounds = bounds_choice(release, with_bounds=True)
    gaussian = release.strategy.mechanism is Mechanism.DISCRETE_GAUSSIAN
    if release.stated.tables_apart:
        measured = _or_why(lambda: release_measured(release, with_bounds=with_bounds))
        tables = _tables_apart(measured, groups)
    else:
        tables = _tables_together(lambda: fits_of(release, groups, with_bounds=with_bounds), groups)
    return _write(site, tables, rows, gaussian=gaussian)


def write_planned_district(
    site: Path, plan: ReleasePlan, hierarchies: Hierarchies, groups: Sequence[QueryGroup], rows: Integers
) -> str | None:
    """The same for a plan. Its public bounds are opened; its records are not.

    Raises:
        TallyveilError: the bounds do not fit the plan.
    """
    gaussian = plan.strategy.mechanism is Mechanism.DISCRETE_GAUSSIAN
    if plan.tables_apart:
        tables = _tables_apart(plan_measured(plan, hierarchies), groups)
    else:
        tables = _tables_together(lambda: planned_fits(plan, hierarchies, groups), groups)
    return _write(site, tables, rows, gaussian=gaussian)


def _tables_together(
    make: Callable[[], list[IntervalFit]], groups: Sequence[QueryGroup]
) -> list[DescribedTable]:
    """Tables of one model with every cell."""
    model = _or_why(make)
    if isinstance(model, str):
        return [DescribedTable(group, None, model) for group in groups]
    (fit,) = model
    why = _too_large(inner_bytes(fit))
    return [DescribedTable(group, None if why else fit, why) for group in groups]


def _tables_apart(measured: UnmergedModel | str, groups: Sequence[QueryGroup]) -> list[DescribedTable]:
    """Tables with a model each. One that has none does not keep the others from having theirs."""
    if isinstance(measured, str):
        return [DescribedTable(group, None, measured) for group in groups]
    tables, used = [], 0
    for group in groups:
        model = _or_why(partial(table_model, measured, group))
        if isinstance(model, str):
            tables.append(DescribedTable(group, None, model))
            continue
        fit = IntervalFit((group,), model.tree, measured, model)
        why = _too_large(used + inner_bytes(fit))
        used += 0 if why else inner_bytes(fit)
        tables.append(DescribedTable(group, None if why else fit, why))
    return tables


def _or_why(make: Callable[[], _Made]) -> _Made | str:
    """What is made; or why the algebra does not allow it, or a release lacks what it needs."""
    try:
        return make()
    except (ConfigError, ConstraintError, SchemaError) as error:
        return str(error)
    except StoreError as error:
        if error.code != "bounds-missing":
            raise
        return _NO_BOUNDS


def _too_large(needed: int) -> str | None:
    if needed <= LARGEST_MEMORY:
        return None
    return (
        f"with those of the tables before it, its covariances would need {in_gib(needed)} of memory in a browser, and "
        f"the limit is {in_gib(LARGEST_MEMORY)}. `tallyveil intervals RELEASE --district FILE` gives these standard "
        "errors."
    )


def _write(site: Path, tables: Sequence[DescribedTable], rows: Integers, *, gaussian: bool) -> str | None:
    fits = [table.fit for table in tables if table.fit is not None]
    if not fits:
        return tables[0].why
    # All models have the same spine, with the sums of siblings that are exact.
    content, numbers = describe(tables, fits[0].model.spine, rows, gaussian=gaussian)
    if numbers.size > LARGEST_FILE:
        return (
            f"its arrays would take {in_gib(numbers.size)}, and the limit is {in_gib(LARGEST_FILE)}. Show fewer tables "
            "with --tables; `tallyveil intervals RELEASE --district FILE` gives the standard errors of the others."
        )
    write_json_data(site, DISTRICT_FILE, content)
    numbers.write(site / NUMBERS_FILE)
    return None
