"""`tallyveil report`: write the report of a finished release again."""

from tallyveil.cli.frame.arguments import AsJson, FinishedRelease, Quiet, give


def report(
    release: FinishedRelease,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write report.html of any release again, from the published files alone."""
    from tallyveil.api.products import marks_in, write_page

    page = str(write_page(release))
    marks = marks_in(release)
    give({"page": page, **marks.entry()}, [*marks.lines(), page], quiet=quiet, as_json=as_json)
