"""The report page of a release. It is made only from published files."""

from pathlib import Path
from typing import Any

from tallyveil.plans.advice import fixed_shares
from tallyveil.release.marks import marks_of
from tallyveil.report.accuracy import error_lines, expected_of, margin_matrix, share_matrix
from tallyveil.report.lattice_counts import drawn_counts
from tallyveil.report.page import write_page
from tallyveil.report.population import attribute_names, geolevel_sizes
from tallyveil.report.privacy import privacy_statement
from tallyveil.report.release_files import ReleaseFiles, read_release_files
from tallyveil.report.release_plots import budget_plot, margin_plot, sizes_plot
from tallyveil.report.run_summary import file_lines, solver_table, stages, total_time
from tallyveil.report.short_release import release_guess, release_points, release_tiles
from tallyveil.report.spine import spine_view
from tallyveil.report.uncertainty import uncertainty_of
from tallyveil.report.wording import listed, name_title

REPORT = "report.html"


def write_report(run_dir: Path) -> Path:
    """Write `report.html`, one self-contained page about a finished release.

    The same release gives the same bytes. The page has no script and loads nothing from elsewhere.

    Args:
        run_dir: Release folder.
    Returns:
        The page.
    Raises:
        StoreError: a published file is missing or damaged, or the page cannot be written.
    Privacy: reads published files only, so the page adds nothing to what they reveal.
    """
    files = read_release_files(run_dir)
    return write_page(run_dir / REPORT, "release.html.j2", _values(files))


def _values(files: ReleaseFiles) -> dict[str, Any]:
    expected = expected_of(files)
    sizes = geolevel_sizes(files)
    manifest, uncertainty, right = files.manifest, uncertainty_of(files), release_guess(files)
    return {
        "tiles": release_tiles(files, sizes, uncertainty, right),
        "points": release_points(files, sizes, expected, uncertainty, right),
        "name": manifest.body["name"],
        "run": manifest.run,
        "is_protected": files.is_protected,
        "marks": marks_of(manifest).lines(),
        "unit": files.unit,
        "attributes": listed([files.titles.factor(name) for name in attribute_names(files)]),
        "geolevels": [name_title(level) for level in files.geolevels],
        "tables": [files.titles.query(query) for query in files.plan["tables"]],
        "privacy": privacy_statement(files),
        "drawn": drawn_counts(files),
        "post_processing": manifest.privacy["post_processing"],
        "fixed_shares": fixed_shares(files.plan),
        "shares": share_matrix(files, expected),
        "spine": spine_view(files),
        "entities": [name_title(name) for name in files.plan.get("entities", [])],
        "paths": manifest.privacy.get("paths"),
        "margins": margin_matrix(files, expected),
        "error_lines": error_lines(files, expected),
        "sizes": [(name_title(item.geolevel), item) for item in sizes],
        "checks": manifest.checks,
        "solver": solver_table(files),
        "stages": stages(files),
        "total_time": total_time(files),
        "tallyveil": manifest.tallyveil,
        "versions": manifest.versions,
        "inputs": manifest.body["inputs"],
        "imported": manifest.body.get("imported"),
        "plan_digest": manifest.plan_digest,
        "files": file_lines(files),
        "budget_plot": budget_plot(files.strategy, files.queries, files.titles),
        "margin_plot": margin_plot(expected, files.geolevels, files.queries, files.titles),
        "sizes_plot": sizes_plot(sizes, files.unit),
        "uncertainty": uncertainty,
        "measurements": files.plan["measurements"],
        "microdata": files.plan["microdata"],
    }
