"""The pages of a site: our own modules and the libraries they use, copied as they are."""

import shutil
from pathlib import Path
from typing import Final

from tallyveil.storage.write import store_error

HERE: Final = Path(__file__).parent
PARTS: Final = ("app", "vendor")
INDEX: Final = Path("app", "explorer", "index.html")


def copy_pages(site: Path, index: Path = INDEX) -> None:
    """Copy the modules, the libraries and the page into a site.

    Args:
        site: Folder of the site.
        index: The page that becomes `index.html`.

    Raises:
        StoreError: a file cannot be written.
    """
    try:
        for part in PARTS:
            shutil.copytree(HERE / part, site / part, ignore=shutil.ignore_patterns("*.toml", "SHA256SUMS"))
        shutil.copyfile(HERE / index, site / "index.html")
    except OSError as error:
        raise store_error(site, error) from error
