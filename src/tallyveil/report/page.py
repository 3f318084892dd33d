"""Filling in page templates: one file, nothing loaded from elsewhere, every value escaped."""

from pathlib import Path
from typing import Any

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
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"grouped": grouped, "percent": percent, "unbroken": unbroken}
    write_text(path, environment.get_template(template).render(values))
    return path
