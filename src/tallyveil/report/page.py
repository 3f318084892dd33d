"""Fill in page templates. A page is one file that loads nothing else. Every value is escaped and made printable."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyveil.printable import shown
from tallyveil.report.wording import grouped, margin, percent, unbroken
from tallyveil.storage.write import write_text

if TYPE_CHECKING:
    from jinja2 import Environment


def write_page(path: Path, template: str, values: dict[str, Any]) -> Path:
    """Fill in a template and write the page. After a failure, no incomplete page is left.

    Args:
        path: File to write.
        template: Name of a template in the package.
        values: Values of the template's variables.
    Raises:
        StoreError: the file cannot be written.
    """
    write_text(path, _templates().get_template(template).render(values))
    return path


@cache
def _templates() -> "Environment":
    """The templates of the package. A process compiles each of them once."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("tallyveil.report"),
        autoescape=True,
        finalize=_plain,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"grouped": grouped, "margin": margin, "percent": percent, "unbroken": unbroken}
    return environment


def _plain(value: Any) -> Any:
    """Make plain text printable, for example without characters that reverse its direction; leave markup unchanged."""
    return shown(value) if type(value) is str else value
