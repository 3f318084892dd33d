"""Finished folders in other forms and other places, and public files of others, from Python. Nothing is spent."""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tallyveil.api.arguments import AnyPath, Flag, Name, Names, Paths, Progress, Text, checked
from tallyveil.api.measured import Measurements
from tallyveil.errors import ConfigError, TallyveilError

if TYPE_CHECKING:
    from tallyveil.files.whole_tables import MapFile
    from tallyveil.geography.census.importing import Imported
    from tallyveil.postprocess.exchange.copying import Copied
    from tallyveil.products.topdown.pl94.publication import Publication
    from tallyveil.runs.status import RunStatus

FormName = Literal["sdmx", "json-stat", "px", "xlsx"]
LayoutName = Literal["census-2020", "tidy"]


@checked
def publish_pl94(
    persons: AnyPath, out: AnyPath, units: AnyPath | None = None, *, csv: Flag = False
) -> "Publication":
    """Publish the redistricting tables (P.L. 94-171): P1 to P5 and, with units, H1.

    Args:
        persons: Folder of a finished release of persons.
        out: Folder of the tables, new or empty.
        units: Folder of a finished release of housing units, with the same geography.
        csv: Whether every table is written as CSV, too.
    Raises:
        TallyveilError: a release is not finished, lacks an attribute of the tables or has another geography.
    """
    from tallyveil.products.topdown.pl94 import publication

    return publication.publish_pl94(Path(persons), None if units is None else Path(units), Path(out), csv=csv)


@checked
def publish_dhc(
    releases: Paths,
    out: AnyPath,
    *,
    tables: Names | None = None,
    microdata: Flag = False,
    csv: Flag = False,
) -> "Publication":
    """Publish tables and microdata of the Demographic and Housing Characteristics (DHC).

    Args:
        releases: Folders of finished releases of persons and of units: one of them, or one of each.
        out: Folder of the files, new or empty.
        tables: Tables by their numbers, such as "P12"; None for all that the releases have.
        microdata: Whether microdata are written in the published layouts, too.
        csv: Whether every table is written as CSV, too.
    Raises:
        TallyveilError: a release is not finished, or lacks what a table needs.
    """
    # The module and not its function: the function here has the same name.
    from tallyveil.products.dhc.tables import publication

    return publication.publish_dhc(
        [Path(release) for release in releases],
        Path(out),
        tables=None if tables is None else list(tables),
        microdata=microdata,
        csv=csv,
    )


@checked
def publish_csv(release: AnyPath, out: AnyPath, *, zeros: Flag = True) -> dict[str, Any]:
    """Write every table of a release as a CSV file, with a row for every answer of every area.

    Args:
        release: Folder of a finished release.
        out: Folder of the CSV files, new or empty.
        zeros: Whether rows with a published count of 0 are written. Estimates add up over all rows alone.
    Returns:
        What the folder says of itself.
    """
    # Likewise, the module.
    from tallyveil.files import whole_tables

    return whole_tables.publish_csv(Path(release), Path(out), zeros=zeros)


@checked
def publish_tables(
    release: AnyPath,
    form: FormName,
    out: AnyPath,
    *,
    tables: Names | None = None,
    geolevel: Name | None = None,
    period: Text | None = None,
    language: Text | None = None,
    agency: Text | None = None,
) -> dict[str, Any]:
    """Write the tables of a release of any product in a form that the website of a statistical office takes.

    Args:
        release: Folder of a finished release.
        form: "sdmx" is SDMX-CSV 2.0 with a structure message, "json-stat" JSON-stat 2.0, "px" the format of PC-Axis,
            "xlsx" an Excel workbook, which needs the extra `xlsx`.
        out: Folder of the files, new or empty.
        tables: Names of tables, which are queries in a release of `run`; None for all.
        geolevel: Geolevel, or family of entities; None for all.
        period: Reference period of the counts: a year, month, quarter or day, such as "2026-Q1".
        language: Language of the labels that is shown first, or alone; None for the first of the release.
        agency: Identifier of the agency that maintains the structures of SDMX.
    Returns:
        What the folder says of itself.
    Raises:
        TallyveilError: the release has no such table, or the form cannot hold one.
    """
    from tallyveil.api.products import cubes_in
    from tallyveil.files.cubes.publication import Wish, publish_cubes

    wish = Wish(
        tables=None if tables is None else tuple(tables),
        geolevel=geolevel,
        period=period,
        language=language,
        agency=agency,
    )
    root = Path(release)
    return publish_cubes(root, *cubes_in(root), form, Path(out), wish)


@checked
def publish_geoparquet(
    release: AnyPath, geolevel: Name, out: AnyPath, *, tables: Names = ("total",)
) -> "MapFile":
    """Write tables of a release with the shapes of its areas, for QGIS and the like. Needs the extra `maps`.

    Args:
        release: Folder of a finished release; or of measurements, whose estimates `add_intervals` has made.
        geolevel: Geolevel, or family of entities.
        out: File to write.
        tables: Queries.
    """
    from tallyveil.files import whole_tables

    return whole_tables.publish_geoparquet(Path(release), geolevel, list(tables), Path(out))


@checked
def copy_release(source: AnyPath, target: AnyPath, *, observer: Progress | None = None) -> "Copied":
    """Copy a finished release from a folder to an object store (s3://BUCKET/NAME), or from there to a folder.

    Every file of the copy is read back and held to its SHA-256, and the manifest is written last. The same call goes on
    after an interruption. Credentials come from the environment.
    """
    from tallyveil.postprocess.exchange import copying

    return copying.copy_release(Path(source), Path(target), observer)


@checked
def status(folder: AnyPath) -> "RunStatus":
    """How far a run or a programme has come, while it works elsewhere or after it was interrupted.

    Writes nothing and does not hold up the run.
    """
    from tallyveil.runs.status import run_status

    return run_status(Path(folder))


@checked
def import_measurements(
    published: AnyPath,
    out: AnyPath,
    *,
    layout: LayoutName | None = None,
    description: AnyPath | None = None,
    part: Flag = False,
    totals: AnyPath | None = None,
    entities: AnyPath | None = None,
    shapes: AnyPath | None = None,
    shapes_geocode: Name | None = None,
    observer: Progress | None = None,
) -> Measurements:
    """Import noisy measurements that others published, for `estimate` and `Measurements.ask`.

    Args:
        published: Folder of the files.
        out: Folder of the measurements: new, empty, or with an unfinished import.
        layout: "census-2020" for the redistricting data of 2020, or "tidy" for a folder of `export_measurements`; None
            where a description is given.
        description: TOML or JSON file that describes the files, or the name of a description that comes with the
            package (docs/descriptions.md).
        part: Whether geolevels, queries and geounits that the files lack are unmeasured, and no error.
        totals: Table of the exact totals of States, which the published files leave out: geocode, count.
        entities: Public table of entities. Releases then have tables of these areas.
        shapes: File of polygons or points of the finest geounits, for maps (docs/maps.md). Needs the extra `maps`.
        shapes_geocode: Its column of geocodes; None for "geocode".
        observer: Is told of progress.
    Raises:
        TallyveilError: the files are not what the description says, or cannot be read.
    """
    from tallyveil.plans.from_toml.descriptions import descriptions_named
    from tallyveil.postprocess.exchange import imported
    from tallyveil.postprocess.exchange.imported import open_published

    if shapes is None and shapes_geocode is not None:
        raise ConfigError(
            "--shapes-geocode COLUMN can be given only together with --shapes FILE.", code="bad-flag"
        )
    described = descriptions_named(_described(Path(published), layout, description))
    # All files are opened and held to what describes them before anything is written.
    try:
        opened = open_published(
            Path(published),
            [item.of_part() for item in described] if part else described,
            None if totals is None else Path(totals),
            None if entities is None else Path(entities),
            None if shapes is None else Path(shapes),
            shapes_geocode,
        )
    except TallyveilError as error:
        raise _with_product(error, Path(published), {item.form.name for item in described}) from None
    outcome = imported.import_measurements(opened, Path(out), observer=observer)
    return Measurements(outcome.path, outcome.manifest, already_finished=outcome.already_finished)


@checked
def describe_measurements(published: AnyPath, out: AnyPath | None = None) -> tuple[str | None, str]:
    """Draft the description of a folder of noisy measurements.

    Args:
        published: Folder of the files.
        out: File of the draft; None to write none.
    Returns:
        The name of a description of the package that fits, None if none does; and the draft.
    Raises:
        TallyveilError: a file cannot be read, or the draft cannot be written.
    """
    from tallyveil.plans.from_toml.drafting import drafted_description, fitting_description
    from tallyveil.storage.outputs import new_file
    from tallyveil.storage.write import write_text

    root = Path(published)
    fitting = fitting_description(root)
    draft = drafted_description(root)
    if out is not None:
        with new_file(Path(out), []):
            write_text(Path(out), draft)
    return (None if fitting is None else fitting.form.name), draft


def _with_product(error: TallyveilError, published: Path, tried: Collection[str]) -> TallyveilError:
    """The error, with the product that the files are of if it is not the one that was tried."""
    from tallyveil.plans.from_toml.drafting import fitting_description

    if error.code not in ("layout-files", "layout-settings", "layout-geounits"):
        return error
    known = fitting_description(published)
    if known is None or known.form.name in tried:
        return error
    # Nothing that the error advises would help with files of another product.
    return type(error)(
        f"{published} has no measurements of {' or '.join(sorted(tried))}. The names of its files fit the product "
        f"'{known.name}': give --as {known.form.name}.",
        code=error.code,
    )


def _described(published: Path, layout: str | None, description: AnyPath | None) -> str:
    """The name or the file of the description that is meant."""
    from tallyveil.measurements.layouts.layout import Layout
    from tallyveil.measurements.layouts.tidy import DESCRIPTION

    if (layout is None) == (description is None):
        raise ConfigError(
            "give either --as DESCRIPTION, or --layout LAYOUT for files of the redistricting data of 2020 "
            "(census-2020) or of `tallyveil measurements export --layout tidy` (tidy).",
            code="bad-flag",
        )
    if description is not None:
        return str(description)
    # An export describes itself.
    return str(published / DESCRIPTION) if layout == Layout.TIDY.value else str(layout)


@checked
def export_measurements(
    measurements: AnyPath,
    out: AnyPath,
    *,
    layout: LayoutName = "census-2020",
    jointly_with: AnyPath | None = None,
    observer: Progress | None = None,
) -> Measurements:
    """Write noisy measurements in another layout.

    Args:
        measurements: Folder of measurements, or of a finished release with all of them.
        out: Folder of the files, new or empty.
        layout: "census-2020" is the layout of the US Census Bureau's noisy measurement files. "tidy" has a row for each
            noisy answer, with a column for each attribute.
        jointly_with: Measurements of the same people by another product, such as the redistricting data beside the DHC.
            They are written as questions about the cells of the first, so that one import of the tidy files has both.
        observer: Is told of progress.
    Returns:
        The measurements that were written; of two, the first.
    Raises:
        SchemaError: the layout cannot hold them, or the two cannot be joined: the message names what does not fit.
    """
    from tallyveil.measurements.layouts.layout import Layout
    from tallyveil.postprocess.exchange import exported
    from tallyveil.postprocess.measured import open_measurements

    opened = open_measurements(Path(measurements))
    second = None if jointly_with is None else open_measurements(Path(jointly_with))
    exported.export_measurements(opened, Path(out), Layout(layout), second=second, observer=observer)
    # The folder that was read, not the one that was written, whose layout other programs read.
    return Measurements(Path(measurements), opened.manifest)


@checked
def import_geography(
    out: AnyPath,
    *,
    baf: Paths = (),
    grf: Paths = (),
    facilities: AnyPath | None = None,
    zcta: AnyPath | None = None,
    areas: Paths = (),
    cbsa: AnyPath | None = None,
) -> "tuple[Imported, dict[str, Path]]":
    """Import blocks and areas from files of the United States Census Bureau.

    Args:
        out: Folder of the tables and the report.
        baf: Folders with block assignment files.
        grf: Geographic reference files, with a row for each block and all its codes.
        facilities: Table of group quarters, with the columns BLOCKID, GQTYPE and FACILITIES.
        zcta: The relationship file of ZIP Code tabulation areas and blocks.
        areas: Lists of places and of county subdivisions, with functional statuses.
        cbsa: The list of metropolitan and micropolitan statistical areas and their counties, saved as CSV.
    Returns:
        What was imported, and the paths of the files.
    """
    from tallyveil.geography import census

    sources = census.Sources(
        tuple(map(Path, baf)),
        tuple(map(Path, grf)),
        None if facilities is None else Path(facilities),
        None if zcta is None else Path(zcta),
        tuple(map(Path, areas)),
        None if cbsa is None else Path(cbsa),
    )
    # Everything is read and checked before a file is written.
    imported = census.import_geography(sources)
    return imported, census.write_imported(imported, Path(out))
