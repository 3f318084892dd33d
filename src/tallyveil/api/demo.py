"""The made-up register of `tallyveil demo`: a place with names and a map, labels in three languages, and a book."""

import shutil
from importlib import resources
from pathlib import Path
from typing import Final

from tallyveil.api.beginning import write_country
from tallyveil.api.book import create_book

BOOK_FILE: Final = "book.jsonl"
NAMES_FILE: Final = "names.parquet"
ALLOWED: Final = "epsilon <= 40 at 1e-10"
"""What the book of the made-up register allows: two releases like that of the demo, and not three."""


def write_demo(folder: Path, blocks: int) -> Path:
    """Write the inputs of the demo, all or none; returns the release file.

    Args:
        folder: The folder to make.
        blocks: Number of finest geounits.
    Raises:
        StoreError: the folder is there, or a file cannot be written.
    """
    from tallyveil.geography.geometry import has_maps
    from tallyveil.storage.read import read_parquet
    from tallyveil.storage.write import store_error, write_parquet, write_text
    from tallyveil.synthetic.names import make_names
    from tallyveil.synthetic.population import TAGS

    unfinished = folder.with_name(f".{folder.name}-unfinished")
    try:
        if unfinished.exists():
            shutil.rmtree(unfinished)
    except OSError as error:
        raise store_error(unfinished, error) from error
    # Polygons are read with the extra `maps` alone; without it, the demo has no map.
    write_country(
        unfinished, blocks=blocks, schema="pl94-persons", name="demo", intervals="0.95", geometry=has_maps()
    )
    geography = read_parquet(unfinished / "geography.parquet", ["state", "county", "tract"])
    write_parquet(unfinished / NAMES_FILE, make_names(geography), TAGS)
    create_book(unfinished / BOOK_FILE, register="a made-up register", allow=ALLOWED)
    file = unfinished / "release.toml"
    labels = (resources.files("tallyveil.api.release_files") / "demo-labels.toml").read_text(encoding="utf-8")
    text = file.read_text(encoding="utf-8")
    book = f'[book] # what all releases of this register may cost together\npath = "{BOOK_FILE}"\n\n'
    text = _put(text, "\n", book, "[geography]")
    text = _put(text, 'path = "geography.parquet"\n', f'names = "{NAMES_FILE}"\n', "")
    write_text(file, f"{text}\n{labels}")
    try:
        unfinished.rename(folder)
    except OSError as error:
        raise store_error(folder, error) from error
    return folder / "release.toml"


def _put(text: str, before: str, more: str, behind: str) -> str:
    """A release file with more between two texts that follow each other in it."""
    # Raises ValueError where they do not: a demo without its book or its names is none.
    at = text.index(before + behind) + len(before)
    return text[:at] + more + text[at:]
