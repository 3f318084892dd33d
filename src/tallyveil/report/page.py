"""Fill in page templates: every value is escaped and made printable.

A page is one file that loads nothing else. At its top stands a summary: a few points in words that need no
explanation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tallyveil.files.finished import MANIFEST
from tallyveil.files.signatures import signature_of
from tallyveil.printable import shown
from tallyveil.report.wording import detail_title, grouped, margin, percent, rounded, unbroken
from tallyveil.storage.write import write_text

if TYPE_CHECKING:
    import polars as pl
    from jinja2 import Environment


@dataclass(frozen=True, slots=True)
class SummaryPoint:
    """One point of a summary.

    Attributes:
        heading: What it is about.
        text: Sentences.
    """

    heading: str
    text: str


def evaluation_points(far: str) -> tuple[SummaryPoint, ...]:
    """The summary of a page about errors against the true counts.

    Args:
        far: A sentence that says how far off published counts are.
    """
    return (
        SummaryPoint(
            "What this page is",
            "A comparison of the published counts with the true ones. It is for those who may see the records, to "
            "judge whether the counts are exact enough. It is not part of the release.",
        ),
        SummaryPoint("How far off counts are", far),
        SummaryPoint(
            "What not to conclude",
            "Another run of the same release has other noise and so other errors. A mean error over many counts says "
            "nothing about a single one.",
        ),
    )


@dataclass(frozen=True, slots=True)
class NumberTile:
    """One number that stands out at the top of a page.

    Attributes:
        name: What it is.
        value: The number, as text.
        note: What it refers to.
    """

    name: str
    value: str
    note: str


REPORT: Final = "report.html"
"""The page of a release, in its folder."""


def write_release_page(
    root: Path, template: str, values: dict[str, Any], *, module: str, signed: str = MANIFEST
) -> Path:
    """Write the page of a release or of a programme, which also says who signed its list of files.

    Args:
        root: The folder.
        template: As for `write_page`; so are `values`, with the points of the summary, and `module`.
        values: See there.
        module: See there.
        signed: Name of the file that lists the others.
    Raises:
        StoreError: the page cannot be written, or a signature cannot be read.
    """
    sentence = signature_of(root / signed).sentence(signed, "this page was drawn")
    points = (*values["points"], SummaryPoint("Who signed it", sentence))
    return write_page(root / REPORT, template, {**values, "points": points}, module=module)


def write_page(path: Path, template: str, values: dict[str, Any], *, module: str = __name__) -> Path:
    """Fill in a template and write the page. After a failure, no incomplete page is left.

    Args:
        path: File to write.
        template: Name of a template, in a folder `templates` beside the module or beside this one.
        values: Values of the template's variables.
        module: Name of the module that the page belongs to.
    Raises:
        StoreError: the file cannot be written.
    """
    write_text(path, _templates(module).get_template(template).render(values))
    return path


@cache
def _templates(module: str) -> "Environment":
    """The templates of a product, and those that all products share. A process compiles each of them once."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        # A product's own templates come first, and extend those of this room by name.
        loader=ChoiceLoader([PackageLoader(module), PackageLoader(__name__)]),
        # Every value may hold names that people chose.
        autoescape=True,
        finalize=_plain,
        # A misspelled variable in a template is an error and no empty text.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"grouped": grouped, "margin": margin, "percent": percent, "unbroken": unbroken}
    return environment


def _plain(value: Any) -> Any:
    """Make plain text printable, for example without characters that reverse its direction; leave markup unchanged."""
    # Markup is a subclass of str and has been made by this program.
    return shown(value) if type(value) is str else value


def frame_texts(frame: "pl.DataFrame", title: Callable[[str], str] = detail_title) -> dict[str, Any]:
    """A frame as headings and rows of text; `title` says how a text of the frame is shown."""

    def text(name: str, value: Any) -> str:
        if value is None:
            return "–"
        # Before int, because True is an int.
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, str):
            return title(value)
        if "within" in name or name.startswith("share"):
            return percent(value)
        return (grouped(value) if isinstance(value, int) else rounded(value, 4)).replace("-", "−")

    rows = [[text(name, row[name]) for name in frame.columns] for row in frame.iter_rows(named=True)]
    return {"headings": [detail_title(name.lower()) for name in frame.columns], "rows": rows}
