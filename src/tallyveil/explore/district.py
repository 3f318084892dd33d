"""What a page needs for exact standard errors of any district of a release: `data/district.json` and its arrays.

Nothing in `measurements/` is read, and no estimate. Variances follow from the plan, the geography and the public bounds
of a release, or from those of a plan whose data has not been opened.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from tallyveil.arrays import Integers
from tallyveil.budget.strategy import Mechanism
from tallyveil.errors import ConfigError, ConstraintError, SchemaError, StoreError
from tallyveil.estimation.intervals.merged import UnmergedModel
from tallyveil.explore.covariances import DescribedTable, describe, inner_bytes
from tallyveil.explore.files import DATA, write_json_data
from tallyveil.geography.areas import Hierarchies
from tallyveil.plans.machine import in_gib
from tallyveil.plans.release import ReleasePlan
from tallyveil.postprocess.derived.area_counts import bounds_choice
from tallyveil.postprocess.intervals.fits import IntervalFit, fits_of, planned_fits, table_model
from tallyveil.postprocess.intervals.model import open_release, plan_measured, release_measured
from tallyveil.schema.query_group import QueryGroup

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
    release = open_release(root)
    _, with_bounds = bounds_choice(release, with_bounds=True)
    gaussian = release.strategy.mechanism is Mechanism.DISCRETE_GAUSSIAN
    if release.estimating.tables_apart:
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
    if plan.estimating.tables_apart:
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
