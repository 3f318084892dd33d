"""The folder of a site: its data files, and the pages that are copied into it as they are.

Names of files are made of numbers alone, because every text of a release may be hostile.

The folder is filled under another name, and then put in the place of an earlier site. One process at a time
makes a site: it locks a hidden file beside the folder. A killed process leaves its hidden files and folders
there. The next one takes them over: it removes what is unfinished, and puts an earlier site back if it was
moved away.
"""

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Numbers
from tallyveil.errors import StoreError
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.outputs import LOCK_SUFFIX, refuse_inputs
from tallyveil.storage.paths import real
from tallyveil.storage.system import absent_folders, remove_empty, remove_locked, take_lock
from tallyveil.storage.write import parquet_tags, store_error
from tallyveil.words.language import ENGLISH, language_of

CHUNK: Final = 1024
"""Areas in a file: a page reads only the files of the areas that it shows."""
DATA: Final = "data"
OTHER: Final = "data/other"
SITE_FILE: Final = "data/site.json"
NAMES_FILE: Final = "data/names.parquet"
_WIDEST: Final = 1 << 31
"""From this number on, whole numbers do not fit into 32 bits; JavaScript reads wider ones as another type."""


def chunk_ranges(n: int) -> Iterator[tuple[int, int, int]]:
    """Number, first row and row after the last of each chunk of `n` areas."""
    for number, start in enumerate(range(0, n, CHUNK)):
        yield number, start, min(start + CHUNK, n)


def list_path(kind: int, chunk: int) -> str:
    """The file of the codes, names and places of a chunk of areas."""
    return f"{DATA}/areas/{kind}/list-{chunk}.parquet"


def members_path(kind: int, chunk: int) -> str:
    """The file of the finest geounits of a chunk of entities."""
    return f"{DATA}/areas/{kind}/members-{chunk}.parquet"


def table_path(kind: int, table: int, chunk: int, root: str = DATA) -> str:
    """The file of a table's answers of a chunk of areas; `root` is `OTHER` for the release compared with."""
    return f"{root}/areas/{kind}/table-{table}-{chunk}.parquet"


def classes_path(kind: int, table: int) -> str:
    """The file of the class limits of a table for all areas of a kind."""
    return f"{DATA}/areas/{kind}/classes-{table}.json"


def number_columns(names: Sequence[str], values: Numbers, *, whole: bool) -> pl.DataFrame:
    """The columns of a matrix, as JavaScript reads them: plain numbers, with null in place of NaN.

    Args:
        names: Names of the columns.
        values: Shape (rows, columns).
        whole: Whether the values are whole. They are written with 32 bits, or as floats where one is larger.
    """
    frame = pl.from_numpy(values, schema=list(names), orient="row")
    if values.dtype.kind == "f":
        frame = frame.fill_nan(None)
    if not whole:
        return frame
    with np.errstate(invalid="ignore"):  # comparisons with NaN
        wide = bool((np.abs(values) >= _WIDEST).any())
    return frame.cast(pl.Float64 if wide else pl.Int32)


def write_data(site: Path, name: str, frame: pl.DataFrame, tags: Mapping[str, str]) -> None:
    """Write a Parquet file that the page can read: one row group, compressed with Snappy.

    The file is not flushed: the site is not in its place before all files are written.

    Args:
        site: Folder of the site.
        name: The file, as a path in the site.
        frame: Its rows.
        tags: Metadata, such as the run that the release is of.
    Raises:
        StoreError: it cannot be written.
    """
    path = (site / name).absolute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.write_parquet(
            path,
            compression="snappy",
            statistics=False,
            row_group_size=max(1, frame.height),
            metadata=parquet_tags(tags),
        )
    except (OSError, pl.exceptions.PolarsError) as error:
        raise store_error(path, error) from error


def write_json_data(site: Path, name: str, content: JsonObject) -> None:
    """Write a JSON file, without spaces.

    Raises:
        StoreError: it cannot be written.
    """
    path = site / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise store_error(path, error) from error


TOP: Final = frozenset({"index.html", "tables.html", "app", "vendor", "data"})
"""What lies directly in the folder of a site."""
_UNFINISHED: Final = ".{}.tallyveil-unfinished"
_EARLIER: Final = ".{}.tallyveil-earlier"
"""Folders beside the site, only while it is made."""


@contextmanager
def replaced_site(site: Path, inputs: Iterable[Path]) -> Iterator[Path]:
    """A new folder to fill. If the work succeeds, it becomes the site; otherwise it is removed.

    Args:
        site: Folder of the site: it does not exist, is empty, or holds an earlier site.
        inputs: Files and folders that are read. They must not lie in the site, where they would be removed.
    Raises:
        StoreError: the folder holds something else or an input, another process writes it, or it cannot be written to.
    """
    refuse_inputs(site, inputs)
    site = real(site)
    unfinished, earlier = (site.with_name(form.format(site.name)) for form in (_UNFINISHED, _EARLIER))
    with _locked(site):
        try:
            # An exchange that was killed between its two renames leaves no site: put the earlier one back.
            if earlier.exists() and not site.exists():
                earlier.rename(site)
            # After the lock, so that no other process fills the folder between this check and the exchange.
            _refuse_other(site)
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
        except OSError as error:
            raise store_error(unfinished, error) from error
        try:
            yield unfinished
            _exchange(site, unfinished, earlier)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


@contextmanager
def _locked(site: Path) -> Iterator[None]:
    """Let no other process write the site; raises StoreError."""
    place = site.with_name(f".{site.name}{LOCK_SUFFIX}")
    absent = absent_folders(site.parent)
    try:
        site.parent.mkdir(parents=True, exist_ok=True)
        held = take_lock(place)
    except OSError as error:
        remove_empty(absent)
        raise store_error(place, error) from error
    if held is None:
        raise StoreError(
            f"another process is writing {site}; wait for it, or choose another folder.", code="folder-locked"
        )
    try:
        yield
    finally:
        remove_locked(place, held)
        remove_empty(absent)  # which hold the site if all went well


def _exchange(site: Path, unfinished: Path, earlier: Path) -> None:
    try:
        shutil.rmtree(earlier, ignore_errors=True)
        # A folder that is not empty cannot be renamed over; the moment without a site is two renames long.
        if site.exists():
            site.rename(earlier)
        unfinished.rename(site)
    except OSError as error:
        with suppress(OSError):  # the earlier site, if it was moved, goes back to its place
            earlier.rename(site)
        raise store_error(site, error) from error
    # Errors are ignored: the new site is in place, and the next run removes what is left of this folder.
    shutil.rmtree(earlier, ignore_errors=True)


def _refuse_other(site: Path) -> None:
    """Refuse a folder that is neither empty nor a site: it would be removed."""
    try:
        names = {entry.name for entry in site.iterdir()} if site.is_dir() else set()
        is_file = site.exists() and not site.is_dir()
        is_mounted = site.is_mount()
    except OSError as error:
        raise store_error(site, error) from error
    if is_mounted:
        raise StoreError(
            f"{site} is a mount point, which cannot be replaced. Name a folder in it.", code="not-a-site"
        )
    is_site = (site / SITE_FILE).is_file()
    if not is_file and (not names or (is_site and names <= TOP)):
        return
    others = sorted(names - TOP) if is_site else sorted(names)
    what = "is a file" if is_file else f"holds {', '.join(others[:3])}{', ...' * (len(others) > 3)}"
    raise StoreError(
        f"{site} {what}, which no explorer wrote. The folder of a site is replaced as a whole, so it must be new, "
        "empty, or hold an earlier site and nothing else. Choose another folder, or move the other files away.",
        code="not-a-site",
    )


HERE: Final = Path(__file__).parent
PARTS: Final = ("app", "vendor")
EXPLORER: Final = {
    "index.html": Path("app", "explorer", "index.html"),
    "tables.html": Path("app", "tables", "index.html"),
}
"""The pages of an explorer, by their names in its site."""


WORDS: Final = "app/words"


def copy_words(site: Path, languages: Iterable[str]) -> None:
    """Copy the sentences of the pages in the languages of a release, but for English, in which the pages have them.

    Args:
        site: Folder of the site.
        languages: As the labels of the release name them.
    Raises:
        StoreError: a file cannot be written.
    """
    spoken = dict.fromkeys(language_of(language) for language in languages)
    for language in spoken:
        if language is not ENGLISH:
            write_json_data(site, f"{WORDS}/{language.tag}.json", dict(language.sentences))


def copy_pages(site: Path, pages: Mapping[str, Path]) -> None:
    """Copy the modules, the libraries and pages into a site.

    Args:
        site: Folder of the site.
        pages: Files below this folder that become pages of the site, by their names there.

    Raises:
        StoreError: a file cannot be written.
    """
    try:
        for part in PARTS:
            shutil.copytree(HERE / part, site / part, ignore=shutil.ignore_patterns("*.toml", "SHA256SUMS"))
        for name, page in pages.items():
            shutil.copyfile(HERE / page, site / name)
    except OSError as error:
        raise store_error(site, error) from error
