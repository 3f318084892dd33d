"""Filling in page templates: one file, nothing loaded from elsewhere, every value escaped and printable."""

from pathlib import Path
from typing import Any

from tallyveil.printable import shown
from tallyveil.report.wording import grouped, percent, unbroken
from tallyveil.storage.write import write_text


def write_page(path: Path, template: str, values: dict[str, Any]) -> Path:
    """Fill in a template and write it, complete or absent.

    Args:
        path: File to write.
        template: Name of a template that comes with the package.
        values: What the template names.
    Raises:
        StoreError: the file cannot be written.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("tallyveil.report"),
        autoescape=True,
        finalize=_plain,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"grouped": grouped, "percent": percent, "unbroken": unbroken}
    write_text(path, environment.get_template(template).render(values))
    return path


def _plain(value: Any) -> Any:
    """A value that is text, but no markup of ours, with nothing in it that a browser obeys, such as turned text."""
    return shown(value) if type(value) is str else value
